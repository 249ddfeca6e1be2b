//! The order in which sums take their terms and products their factors: the scheduler of emitted operations (DeVito et al.,
//! "Opt", 2017, section 6).
//!
//! A sum is split into single reductions, `sum += term`, which may come in any order. A list scheduler goes backwards from the roots: among what
//! is ready (all of its users are scheduled) it takes what is under the condition of what it took last, then what makes the fewest
//! further values live, then what has been ready the longest (Tiemann, "The GNU instruction scheduler", 1989).
//!
//! The engine evaluates operands before users and knows no other order: of the schedule it sees the order of operands. So the list
//! schedule is one candidate; another takes the costliest operand first (Sethi and Ullman, "The generation of optimal code for arithmetic
//! expressions", 1970), which is best for trees. The emitter measures what comes of each ([`super::live`]).

use crate::dag::{Dag, ExprId, Node};
use rustc_hash::FxHashMap;

/// Reductions up to which the list scheduler runs: it looks at all that are ready each time.
const LONGEST_LIST: usize = 1 << 13;

/// A rank per operand: operands of a sum or product are taken in ascending order; those without come as they are stored.
#[derive(Clone, Default, Debug)]
pub struct Order {
    ranks: FxHashMap<(ExprId, ExprId), u32>,
}

impl Order {
    /// Orders worth measuring.
    pub fn candidates(dag: &Dag, roots: &[ExprId]) -> Vec<Order> {
        let nodes = dag.reachable(roots);
        let mut orders = vec![costliest_first(dag, &nodes)];
        if nodes.iter().map(|&n| dag.children(n).len().max(1)).sum::<usize>() <= LONGEST_LIST {
            orders.push(ListScheduler::new(dag, roots, &nodes, true).run());
            orders.push(ListScheduler::new(dag, roots, &nodes, false).run());
        }
        orders
    }

    #[cfg(test)]
    pub fn set(&mut self, node: ExprId, operand: ExprId, rank: u32) {
        self.ranks.insert((node, operand), rank);
    }

    /// Sorts operands of `node`.
    pub fn sort<T>(&self, node: ExprId, operands: &mut [T], id: impl Fn(&T) -> ExprId) {
        operands.sort_by_key(|o| self.ranks.get(&(node, id(o))).copied().unwrap_or(0));
    }
}

/// Tells whether the operands of a node may come in any order.
fn is_free(dag: &Dag, n: ExprId) -> bool {
    matches!(dag.node(n), Node::Sum { .. } | Node::Prod(_))
}

/// Tells whether a node is no value: the same for all elements.
fn is_leaf(dag: &Dag, n: ExprId) -> bool {
    matches!(dag.node(n), Node::Const(_) | Node::Param(..) | Node::Index(_))
}

/// Operands by descending number of registers that they would need if they shared nothing.
fn costliest_first(dag: &Dag, nodes: &[ExprId]) -> Order {
    let (mut order, mut needs) = (Order::default(), FxHashMap::<ExprId, u32>::default());
    for &n in nodes {
        let mut operands: Vec<(u32, ExprId)> = dag.children(n).iter().map(|&c| (needs[&c], c)).collect();
        if is_free(dag, n) {
            operands.sort_by_key(|o| std::cmp::Reverse(o.0));
            order.ranks.extend(operands.iter().zip(1..).map(|(o, rank)| ((n, o.1), rank)));
        }
        // What a free node has added up takes one register; operands of other nodes wait for each other.
        let waiting = |k: usize| if is_free(dag, n) { k.min(1) } else { k } as u32;
        let need = operands.iter().enumerate().map(|(k, o)| o.0 + waiting(k)).max().unwrap_or(1);
        needs.insert(n, if is_leaf(dag, n) { 0 } else { need.max(1) });
    }
    order
}

/// A condition and on which side of it.
type Guard = Option<(ExprId, bool)>;

/// Unit that the scheduler places: one reduction of a free node, or another node with all of its operands.
struct Unit {
    node: ExprId,
    operands: Vec<ExprId>,
    /// Time at which it became ready.
    since: u32,
}

struct ListScheduler<'a> {
    dag: &'a Dag,
    /// Conditions come before live values.
    by_condition: bool,
    /// Under what each node is needed; `None` also where users disagree.
    guards: FxHashMap<ExprId, Guard>,
    /// Uses of each node that are not scheduled yet.
    uses: FxHashMap<ExprId, u32>,
    /// Units of each node that are not scheduled yet.
    units: FxHashMap<ExprId, u32>,
    live: FxHashMap<ExprId, bool>,
    ready: Vec<Unit>,
    now: u32,
}

impl<'a> ListScheduler<'a> {
    fn new(dag: &'a Dag, roots: &[ExprId], nodes: &[ExprId], by_condition: bool) -> ListScheduler<'a> {
        let mut uses: FxHashMap<ExprId, u32> = FxHashMap::default();
        for &n in nodes {
            dag.children(n).iter().for_each(|c| *uses.entry(*c).or_default() += 1);
        }
        let mut all = ListScheduler {
            dag,
            by_condition,
            guards: guards(dag, roots, nodes),
            uses,
            units: FxHashMap::default(),
            live: FxHashMap::default(),
            ready: vec![],
            now: 0,
        };
        for &r in roots {
            all.live.insert(r, true);
        }
        // A root that others use becomes ready with its last use.
        let mut tops: Vec<ExprId> = roots.iter().copied().filter(|r| !all.uses.contains_key(r)).collect();
        tops.dedup();
        tops.iter().for_each(|&r| all.make_ready(r));
        all
    }

    fn make_ready(&mut self, n: ExprId) {
        if self.units.contains_key(&n) {
            return;
        }
        let operands = self.dag.children(n).to_vec();
        let units: Vec<Vec<ExprId>> = if is_free(self.dag, n) {
            operands.into_iter().map(|o| vec![o]).collect()
        } else {
            vec![operands]
        };
        self.units.insert(n, units.len() as u32);
        let since = self.now;
        self.ready.extend(units.into_iter().map(|operands| Unit { node: n, operands, since }));
    }

    fn is_live(&self, n: ExprId) -> bool {
        self.live.get(&n).copied().unwrap_or(false)
    }

    /// By how much scheduling a unit raises the number of live values before it.
    fn raises(&self, unit: &Unit) -> i32 {
        let new = unit.operands.iter().filter(|&&o| !is_leaf(self.dag, o) && !self.is_live(o)).count();
        new as i32 - i32::from(self.units[&unit.node] == 1)
    }

    /// The condition of a unit: that of the term that it adds.
    fn guard(&self, unit: &Unit) -> Guard {
        match unit.operands[..] {
            [term] if is_free(self.dag, unit.node) => match *self.dag.node(term) {
                Node::Select(c, ..) => Some((c, true)),
                _ => self.guards[&term],
            },
            _ => self.guards[&unit.node],
        }
    }

    fn run(mut self) -> Order {
        let (mut order, mut last) = (Order::default(), None);
        while !self.ready.is_empty() {
            let cost = |u: &Unit| {
                let apart = self.by_condition && last.is_some_and(|l| l != self.guard(u));
                (apart, self.raises(u), u.since)
            };
            let best =
                (0..self.ready.len()).min_by_key(|&i| cost(&self.ready[i])).expect("some unit is ready");
            let unit = self.ready.remove(best);
            last = Some(self.guard(&unit));
            self.now += 1;
            // Backwards: what is scheduled first comes last.
            if is_free(self.dag, unit.node) {
                order.ranks.insert((unit.node, unit.operands[0]), u32::MAX - self.now);
            }
            if let Some(left) = self.units.get_mut(&unit.node) {
                *left -= 1;
            }
            for &o in &unit.operands {
                self.live.insert(o, true);
                let left = self.uses.get_mut(&o).expect("uses were counted");
                *left -= 1;
                if *left == 0 {
                    self.make_ready(o);
                }
            }
        }
        order
    }
}

/// Under what condition each node is needed: that of its users where they agree.
fn guards(dag: &Dag, roots: &[ExprId], nodes: &[ExprId]) -> FxHashMap<ExprId, Guard> {
    let mut guards: FxHashMap<ExprId, Guard> = roots.iter().map(|&r| (r, None)).collect();
    for &n in nodes.iter().rev() {
        let own = guards.get(&n).copied().flatten();
        match *dag.node(n) {
            Node::Select(c, a, b) => {
                need(&mut guards, c, own);
                need(&mut guards, a, Some((c, true)));
                need(&mut guards, b, Some((c, false)));
            }
            _ => dag.children(n).iter().for_each(|&o| need(&mut guards, o, own)),
        }
    }
    guards
}

fn need(guards: &mut FxHashMap<ExprId, Guard>, n: ExprId, guard: Guard) {
    guards.entry(n).and_modify(|g| *g = if *g == guard { guard } else { None }).or_insert(guard);
}
