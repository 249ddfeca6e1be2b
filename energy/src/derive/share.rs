//! Sharing inside n-ary nodes: hash-consing makes equal nodes one, but `a*b*c` and `a*b*d` are different nodes. This pass
//! names `a*b` (and the pair `a - b` of two sums, and a reciprocal that several products divide by) as a node of its own.
//!
//! What an equality is made of is left alone: a quotient in it is rounded once.
//!
//! Greedy: the part whose naming saves most goes first. The result holds products of products and sums of sums, which the
//! constructors would flatten again: the pass comes last.

use crate::dag::{Dag, ExprId, Node};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Nodes with more operands than this are left alone: the pairs are quadratic.
const WIDEST: usize = 32;
/// Names given at most, and pairs looked at in all: caps on the work for huge routines.
const MOST_NAMES: usize = 2048;
const PAIR_BUDGET: usize = 1 << 22;
/// Steps that the look at a pair counts for.
const STEPS: usize = 8;
/// Worth of a saved division in multiplications.
const DIVISION: i64 = 8;

/// An operand: a node of the expression, or the n-th named part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Base {
    Node(ExprId),
    Named(usize),
}

/// `(base, exponent)` of a product, `(base, 1 or -1)` of a sum.
type Item = (Base, i32);

/// Part that several nodes hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// A power in products.
    Power(Item),
    /// Two factors.
    Product(Item, Item),
    /// Two terms; the first has sign +1.
    Sum(Item, Item),
}

/// A node that may give parts away.
struct Group {
    product: bool,
    items: Vec<Item>,
}

/// Names the parts that the products and sums below `roots` share.
pub fn share_parts(dag: &mut Dag, roots: &[ExprId]) -> Vec<ExprId> {
    let (order, deciding) = (dag.reachable(roots), dag.deciding(roots));
    let mut groups: Vec<(ExprId, Group)> = Vec::new();
    for &n in order.iter().filter(|n| !deciding.contains(n)) {
        groups.extend(group_of(dag, n).map(|g| (n, g)));
    }
    let named = name_parts(dag, &mut groups);
    let groups: FxHashMap<ExprId, Group> = groups.into_iter().collect();
    let mut builder = Builder { dag, done: FxHashMap::default(), built: vec![None; named.len()], named };
    for n in order {
        let r = builder.rebuild(n, groups.get(&n));
        builder.done.insert(n, r);
    }
    roots.iter().map(|r| builder.done[r]).collect()
}

fn group_of(dag: &Dag, n: ExprId) -> Option<Group> {
    let (product, items): (bool, Vec<Item>) = match dag.node(n) {
        Node::Prod(factors) => (true, factors.iter().map(|&(f, e)| (Base::Node(f), e)).collect()),
        Node::Sum { terms, .. } => {
            let unit = terms.iter().filter(|(c, _)| c.get().abs() == 1.0);
            (false, unit.map(|&(c, t)| (Base::Node(t), c.get() as i32)).collect())
        }
        _ => return None,
    };
    (items.len() <= WIDEST).then_some(Group { product, items })
}

/// Replaces shared parts in the groups by names until nothing is saved; returns the parts by name.
fn name_parts(dag: &Dag, groups: &mut [(ExprId, Group)]) -> Vec<Part> {
    let mut named = Vec::new();
    let mut budget = PAIR_BUDGET;
    while named.len() < MOST_NAMES && !dag.is_spent() {
        let mut counts: BTreeMap<Part, i64> = BTreeMap::new();
        for (_, group) in groups.iter() {
            for part in parts(group) {
                *counts.entry(part).or_default() += 1;
                budget = budget.saturating_sub(1);
            }
        }
        dag.spend(groups.len());
        let mut best: Option<(i64, Part)> = None;
        for (part, n) in counts {
            let gain = gain(part, n);
            if gain > best.map_or(0, |b| b.0) {
                best = Some((gain, part));
            }
        }
        let Some((_, part)) = best.filter(|_| budget > 0) else { break };
        let name = Base::Named(named.len());
        named.push(part);
        groups.iter_mut().for_each(|(_, g)| replace(g, part, name));
    }
    dag.spend(STEPS * (PAIR_BUDGET - budget));
    named
}

/// Multiplications saved by naming a part that `n` nodes hold.
fn gain(part: Part, n: i64) -> i64 {
    let power = |(_, e): Item| {
        let e = e.unsigned_abs();
        i64::from(e.ilog2() + e.count_ones() - 1)
    };
    match part {
        // Each use becomes a multiplication, but for the saved operations.
        Part::Power(item) if item.1 < 0 => (n - 1) * (DIVISION + power(item)) - n,
        Part::Power(item) => (n - 1) * power(item),
        Part::Product(a, b) => (n - 1) * (1 + power(a) + power(b)),
        Part::Sum(..) => n - 1,
    }
}

/// The parts a group could give away. A whole node is never a part of itself: it has its name already.
fn parts(group: &Group) -> Vec<Part> {
    let items = &group.items;
    let mut out = Vec::new();
    if group.product {
        out.extend(items.iter().filter(|i| i.1 != 1).map(|&i| Part::Power(i)));
    }
    for (i, &a) in items.iter().enumerate() {
        for &b in &items[i + 1..] {
            let (a, b) = (a.min(b), a.max(b));
            match group.product {
                // A pair of quotient and factor would move the division; only like with like.
                true if (a.1 > 0) == (b.1 > 0) => out.push(Part::Product(a, b)),
                true => {}
                false => out.push(Part::Sum((a.0, 1), (b.0, a.1 * b.1))),
            }
        }
    }
    out
}

/// Puts `name` where the group holds `part`.
fn replace(group: &mut Group, part: Part, name: Base) {
    let position = |items: &[Item], item: Item| items.iter().position(|&i| i == item);
    match part {
        Part::Power(item) if group.product => {
            if let Some(i) = position(&group.items, item) {
                group.items[i] = (name, 1);
            }
        }
        Part::Product(a, b)
            if group.product
                && position(&group.items, a).is_some()
                && position(&group.items, b).is_some() =>
        {
            group.items.retain(|&i| i != a && i != b);
            group.items.push((name, 1));
        }
        Part::Sum(a, b) if !group.product => {
            for sign in [1, -1] {
                let (a, b) = ((a.0, sign), (b.0, sign * b.1));
                if position(&group.items, a).is_some() && position(&group.items, b).is_some() {
                    group.items.retain(|&i| i != a && i != b);
                    group.items.push((name, sign));
                }
            }
        }
        _ => {}
    }
}

struct Builder<'a> {
    dag: &'a mut Dag,
    done: FxHashMap<ExprId, ExprId>,
    named: Vec<Part>,
    built: Vec<Option<ExprId>>,
}

impl Builder<'_> {
    fn rebuild(&mut self, n: ExprId, group: Option<&Group>) -> ExprId {
        match (self.dag.node(n).clone(), group) {
            (Node::Prod(_), Some(group)) => {
                let factors: Vec<(ExprId, i32)> =
                    group.items.iter().map(|&(b, e)| (self.base(b), e)).collect();
                self.dag.product_unexpanded(&factors)
            }
            (Node::Sum { constant, terms }, Some(group)) => {
                let mut all: Vec<(f64, ExprId)> =
                    group.items.iter().map(|&(b, s)| (f64::from(s), self.base(b))).collect();
                let scaled = terms.iter().filter(|(c, _)| c.get().abs() != 1.0);
                all.extend(scaled.map(|&(c, t)| (c.get(), self.done[&t])));
                self.dag.sum_unexpanded(constant.get(), &all)
            }
            _ => self.dag.with_children_kept(n, &mut |c| self.done[&c]),
        }
    }

    fn base(&mut self, base: Base) -> ExprId {
        let name = match base {
            Base::Node(n) => return self.done[&n],
            Base::Named(name) => name,
        };
        if let Some(id) = self.built[name] {
            return id;
        }
        // A part holds only names given before it: this recursion follows a chain of at most WIDEST merges.
        let id = match self.named[name] {
            Part::Power((b, e)) => {
                let b = self.base(b);
                self.dag.product_unexpanded(&[(b, e)])
            }
            Part::Product((a, e), (b, f)) => {
                let (a, b) = (self.base(a), self.base(b));
                self.dag.product_unexpanded(&[(a, e), (b, f)])
            }
            Part::Sum((a, s), (b, t)) => {
                let (a, b) = (self.base(a), self.base(b));
                self.dag.sum_unexpanded(0.0, &[(f64::from(s), a), (f64::from(t), b)])
            }
        };
        self.built[name] = Some(id);
        id
    }
}
