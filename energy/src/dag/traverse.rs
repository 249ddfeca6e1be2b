//! Walks over shared expressions: loops over sorted ids, never recursion.

use super::{Access, At, Compare, Dag, ExprId, Node, Offset};
use crate::ids::moved;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

impl Dag {
    /// Operands of a node, in order.
    pub fn children(&self, id: ExprId) -> SmallVec<[ExprId; 4]> {
        self.node(id).operands()
    }

    /// Every node that the roots use, themselves included, operands before users.
    pub fn reachable(&self, roots: &[ExprId]) -> Vec<ExprId> {
        self.reachable_while(roots, |_| true)
    }

    /// Like [`Dag::reachable`], but neither lists nor looks below nodes for which `enter` is false.
    pub fn reachable_while(&self, roots: &[ExprId], mut enter: impl FnMut(ExprId) -> bool) -> Vec<ExprId> {
        let mut seen = FxHashSet::default();
        let mut stack: Vec<ExprId> = roots.to_vec();
        let mut found = Vec::new();
        while let Some(id) = stack.pop() {
            if seen.insert(id) && enter(id) {
                found.push(id);
                stack.extend(self.children(id));
            }
        }
        self.spend(1 + seen.len());
        // A node is interned after its operands: ids are a topological order.
        found.sort_unstable();
        found
    }

    /// Tells whether an expression has one value for all elements or hyperedges, whatever the unknowns.
    pub fn is_uniform(&self, id: ExprId) -> bool {
        self.reachable(&[id]).iter().all(|&n| !self.asks_place(n))
    }

    /// Tells whether a node, whatever its operands are, may differ from element to element.
    pub fn asks_place(&self, id: ExprId) -> bool {
        match self.node(id) {
            Node::Access(_) | Node::Index(_) | Node::IndexAt(..) | Node::Sample { .. } => true,
            Node::InBounds { .. } | Node::InBoundsAt { .. } | Node::Free(..) | Node::SameVertex(..) => true,
            Node::Const(_) | Node::Param(..) | Node::Sum { .. } | Node::Prod(_) | Node::Call(..) => false,
            Node::Compare(..) | Node::NonZero(_) | Node::And(_) | Node::Or(_) | Node::Not(_) => false,
            Node::Select(..) => false,
        }
    }

    /// Returns what the equalities among what the roots use are made of: the last bit of it decides something.
    pub fn deciding(&self, roots: &[ExprId]) -> FxHashSet<ExprId> {
        let equality = |n: &ExprId| matches!(self.node(*n), Node::Compare(Compare::Eq, ..));
        let equalities: Vec<ExprId> = self.reachable(roots).into_iter().filter(equality).collect();
        self.reachable(&equalities).into_iter().collect()
    }

    /// The distinct accesses that `id` reads, in order of first construction.
    pub fn accesses(&self, id: ExprId) -> Vec<Access> {
        self.reachable(&[id])
            .into_iter()
            .filter_map(|n| match self.node(n) {
                Node::Access(a) => Some(a.clone()),
                _ => None,
            })
            .collect()
    }

    /// `id` with each node for which `replace` gives an expression replaced by it (and not looked into), rebuilt through
    /// the normalising constructors.
    pub fn substitute(
        &mut self,
        id: ExprId,
        replace: &mut dyn FnMut(&mut Dag, &Node) -> Option<ExprId>,
    ) -> ExprId {
        self.substitute_all(&[id], replace)[0]
    }

    /// [`Dag::substitute`] of several roots, sharing the work.
    pub fn substitute_all(
        &mut self,
        roots: &[ExprId],
        replace: &mut dyn FnMut(&mut Dag, &Node) -> Option<ExprId>,
    ) -> Vec<ExprId> {
        self.substitute_ids(roots, &mut |dag, id| {
            let node = dag.node(id).clone();
            replace(dag, &node)
        })
    }

    /// [`Dag::substitute_all`] with the decision made by id.
    pub fn substitute_ids(
        &mut self,
        roots: &[ExprId],
        replace: &mut dyn FnMut(&mut Dag, ExprId) -> Option<ExprId>,
    ) -> Vec<ExprId> {
        if self.is_spent() {
            return roots.to_vec();
        }
        let mut done: FxHashMap<ExprId, ExprId> = FxHashMap::default();
        let mut seen = FxHashSet::default();
        let mut stack: Vec<ExprId> = roots.to_vec();
        let mut pending = Vec::new();
        while let Some(n) = stack.pop() {
            if !seen.insert(n) {
                continue;
            }
            match replace(self, n) {
                Some(r) => {
                    done.insert(n, r);
                }
                None => {
                    pending.push(n);
                    stack.extend(self.children(n));
                }
            }
        }
        pending.sort_unstable();
        self.spend(1 + seen.len());
        for n in pending {
            let r = self.with_children(n, &mut |c| done[&c]);
            done.insert(n, r);
        }
        roots.iter().map(|r| done[r]).collect()
    }

    /// The node rebuilt with mapped operands.
    pub fn with_children(&mut self, id: ExprId, map: &mut dyn FnMut(ExprId) -> ExprId) -> ExprId {
        if self.children(id).iter().all(|&c| map(c) == c) {
            return id;
        }
        match self.node(id).clone() {
            Node::Sum { constant, terms } => {
                let terms: Vec<_> = terms.iter().map(|&(c, t)| (c.get(), map(t))).collect();
                self.sum(constant.get(), &terms)
            }
            Node::Prod(factors) => {
                let factors: Vec<_> = factors.iter().map(|&(f, e)| (map(f), e)).collect();
                self.product(1.0, &factors)
            }
            Node::Call(function, arguments) => {
                let arguments: SmallVec<[ExprId; 2]> = arguments.iter().map(|&a| map(a)).collect();
                self.call(function, &arguments)
            }
            Node::Sample { image, partials, at } => {
                let at = at.iter().map(|&a| map(a)).collect();
                self.intern(Node::Sample { image, partials, at })
            }
            Node::Compare(op, a, b) => self.compare(op, map(a), map(b)),
            Node::NonZero(a) => self.truth(map(a)),
            Node::Not(a) => self.not(map(a)),
            Node::And(ops) => {
                let ops: Vec<_> = ops.iter().map(|&o| map(o)).collect();
                self.and(&ops)
            }
            Node::Or(ops) => {
                let ops: Vec<_> = ops.iter().map(|&o| map(o)).collect();
                self.or(&ops)
            }
            Node::Select(c, a, b) => self.select(map(c), map(a), map(b)),
            _ => id,
        }
    }

    /// [`Dag::with_children`] that leaves the shape of sums, products and selections as it is.
    pub fn with_children_kept(&mut self, id: ExprId, map: &mut dyn FnMut(ExprId) -> ExprId) -> ExprId {
        match self.node(id).clone() {
            Node::Sum { constant, terms } => {
                let terms: Vec<_> = terms.iter().map(|&(c, t)| (c.get(), map(t))).collect();
                self.sum_unexpanded(constant.get(), &terms)
            }
            Node::Prod(factors) => {
                let factors: Vec<_> = factors.iter().map(|&(f, e)| (map(f), e)).collect();
                self.product_unexpanded(&factors)
            }
            Node::Select(c, a, b) => {
                let (c, a, b) = (map(c), map(a), map(b));
                self.intern(Node::Select(c, a, b))
            }
            _ => self.with_children(id, map),
        }
    }

    /// The expression of another element: what `id` is at element e + offset, written at e. Moves offsets, boxes and
    /// coordinates; what is read through graphs stays.
    ///
    /// A condition that merged with "the element itself is in the domain" keeps its meaning only where e + offset lies in the
    /// domain: callers guard with `in_bounds(offset, offset)`.
    pub fn shift(&mut self, id: ExprId, offset: &Offset) -> ExprId {
        self.shift_all(&[id], offset)[0]
    }

    /// [`Dag::shift`] of several roots, sharing the work.
    pub fn shift_all(&mut self, roots: &[ExprId], offset: &Offset) -> Vec<ExprId> {
        if offset.iter().all(|&o| o == 0) {
            return roots.to_vec();
        }
        self.substitute_all(roots, &mut |dag, node| match node {
            Node::Access(Access { source, channel, at: At::Offset(o) }) => {
                let at = At::Offset(moved(o, offset));
                Some(dag.access(Access { source: *source, channel: *channel, at }))
            }
            Node::Index(d) => {
                let index = dag.index(*d);
                let by = offset.get(usize::from(*d)).copied().unwrap_or(0);
                Some(dag.sum(f64::from(by), &[(1.0, index)]))
            }
            Node::InBounds { lo, hi } => Some(dag.in_bounds(&moved(lo, offset), &moved(hi, offset))),
            Node::Free(space, At::Offset(o)) => Some(dag.free(*space, At::Offset(moved(o, offset)))),
            _ => None,
        })
    }
}
