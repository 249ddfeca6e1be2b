//! The order of operands against all orders, on random DAGs small enough to try them.

use super::order::Order;
use super::*;
use crate::dag::Offset;
use crate::rust::EnergyBuilder;
use rustc_hash::FxHashMap;
use sumsq_codegen::ExprKind;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// An energy over one dim, for its declarations.
fn energy() -> Energy {
    let e = EnergyBuilder::new();
    let w = e.dim("W");
    let x = e.unknown("X", 8, &[w]);
    e.energy(x.at([0]));
    e.finish().unwrap()
}

fn reads(dag: &mut Dag, n: u16) -> Vec<ExprId> {
    let at = At::Offset(Offset::from_slice(&[0]));
    (0..n)
        .map(|channel| {
            dag.access(crate::dag::Access { source: Source::Unknown(UnknownId(0)), channel, at: at.clone() })
        })
        .collect()
}

/// A sum, product or selection of some of `from`.
fn combine(dag: &mut Dag, random: &mut Random, from: &[ExprId], widest: usize) -> ExprId {
    let mut operands: Vec<ExprId> = vec![];
    for _ in 0..2 + random.below(widest - 1) {
        let x = from[random.below(from.len())];
        if !operands.contains(&x) {
            operands.push(x);
        }
    }
    match random.below(5) {
        0 | 1 => {
            let sign = |r: &mut Random| [1.0, -1.0, 2.5][r.below(3)];
            let terms: Vec<(f64, ExprId)> = operands.iter().map(|&o| (sign(random), o)).collect();
            dag.sum_unexpanded(0.0, &terms)
        }
        2 | 3 => {
            let factors: Vec<(ExprId, i32)> = operands.iter().map(|&o| (o, 1)).collect();
            dag.product_unexpanded(&factors)
        }
        _ => {
            let zero = dag.constant(0.0);
            let (condition, last) = (dag.less(operands[0], zero), operands[operands.len() - 1]);
            dag.select(condition, last, zero)
        }
    }
}

fn emitted(energy: &Energy, dag: &Dag, roots: &[ExprId], scheduled: bool, order: Order) -> Vec<Expr> {
    let space = energy.unknowns[0].space;
    let read = |source: Source, component: usize, at: &[Expr]| {
        Expr::call(format!("{source:?}"), ScalarType::F32, at.to_vec(), component)
    };
    let place = Place::Element(space, vec![Expr::var("x")]);
    let memo = FxHashMap::default();
    Emitter {
        energy,
        dag,
        ty: ScalarType::F32,
        place,
        read: &read,
        scheduled,
        order,
        memo,
        reciprocals: Default::default(),
    }
    .numbers(roots)
}

/// Every order of the operands of every sum and product.
fn all_orders(dag: &Dag, roots: &[ExprId]) -> Vec<Order> {
    let mut all = vec![Order::default()];
    for n in dag.reachable(roots) {
        if !matches!(dag.node(n), Node::Sum { .. } | Node::Prod(_)) {
            continue;
        }
        let operands = dag.children(n);
        let ways = permutations(operands.len());
        let with = |o: &Order, way: &Vec<u32>| {
            let mut o = o.clone();
            operands.iter().zip(way).for_each(|(&c, &rank)| o.set(n, c, rank));
            o
        };
        all = all.iter().flat_map(|o| ways.iter().map(move |way| with(o, way))).collect();
    }
    all
}

fn permutations(n: usize) -> Vec<Vec<u32>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(n - 1);
    shorter.iter().flat_map(|p| (0..n).map(move |i| [&p[..i], &[n as u32], &p[i..]].concat())).collect()
}

/// Each node used once: the order is the best there is.
#[test]
fn trees_take_the_fewest_registers() {
    let energy = energy();
    for seed in 0..60 {
        let (mut dag, mut random) = (Dag::new(), Random(seed));
        let mut forest = reads(&mut dag, 8);
        while forest.len() > 1 {
            let at = random.below(forest.len() - 1);
            let take = (2 + random.below(2)).min(forest.len() - at);
            let parts: Vec<ExprId> = forest.splice(at..at + take, []).collect();
            let whole = if random.below(2) == 0 {
                dag.sum_unexpanded(0.0, &parts.iter().map(|&p| (1.0, p)).collect::<Vec<_>>())
            } else {
                dag.product_unexpanded(&parts.iter().map(|&p| (p, 1)).collect::<Vec<_>>())
            };
            let at = random.below(forest.len() + 1);
            forest.insert(at, whole);
        }
        let live = |scheduled, order| pressure(&emitted(&energy, &dag, &forest, scheduled, order)).live;
        let least = all_orders(&dag, &forest).into_iter().map(|o| live(false, o)).min().unwrap();
        assert_eq!(
            live(true, Order::default()),
            least,
            "seed {seed}: {}",
            dag.display_with(forest[0], &energy)
        );
    }
}

/// Shared nodes, several roots, selections: never worse than as stored, never better than the best, mostly the best; the same values.
#[test]
fn dags_stay_between_the_best_order_and_that_of_the_nodes() {
    let energy = energy();
    let (mut tried, mut best, mut gained) = (0, 0, 0);
    for seed in 0..400 {
        let (mut dag, mut random) = (Dag::new(), Random(1000 + seed));
        let mut nodes = reads(&mut dag, 4);
        for _ in 0..6 {
            let new = combine(&mut dag, &mut random, &nodes, 3);
            nodes.push(new);
        }
        let roots = nodes.split_off(nodes.len() - 2);
        let orders = all_orders(&dag, &roots);
        if orders.len() > 2000 {
            continue;
        }
        let (given, chosen) =
            [false, true].map(|s| emitted(&energy, &dag, &roots, s, Order::default())).into();
        let (before, after) = (pressure(&given), pressure(&chosen));
        let least =
            orders.into_iter().map(|o| pressure(&emitted(&energy, &dag, &roots, false, o))).min().unwrap();
        assert!(least <= after && after <= before, "seed {seed}: {least:?} {after:?} {before:?}");
        assert!(after.live >= fewest(&chosen), "seed {seed}");
        tried += 1;
        best += u32::from(after.live == least.live);
        gained += u32::from(after.live < before.live);
        for (a, b) in given.iter().zip(&chosen) {
            let (a, b) = (value(a), value(b));
            assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "seed {seed}: {a} {b}");
        }
    }
    assert!(
        tried > 100 && gained > tried / 20 && best > tried * 9 / 10,
        "{tried} tried, {best} best, {gained} gained"
    );
}

/// The fewest values that live at once over all orders of evaluation, by trying every set of evaluated nodes.
fn fewest(roots: &[Expr]) -> u32 {
    let mut nodes: Vec<Expr> = vec![];
    let mut index: FxHashMap<usize, usize> = FxHashMap::default();
    let mut stack: Vec<(Expr, bool)> = roots.iter().map(|r| (r.clone(), false)).collect();
    while let Some((e, ready)) = stack.pop() {
        if index.contains_key(&e.id()) {
            continue;
        }
        if ready {
            index.insert(e.id(), nodes.len());
            nodes.push(e);
            continue;
        }
        stack.push((e.clone(), true));
        if !matches!(e.kind(), ExprKind::Call { .. }) {
            e.for_each_child(|c| stack.push((c.clone(), false)));
        }
    }
    let counted = |e: &Expr| !matches!(e.kind(), ExprKind::Int(_) | ExprKind::Float(_));
    nodes.retain(counted);
    let index: FxHashMap<usize, usize> = nodes.iter().enumerate().map(|(i, e)| (e.id(), i)).collect();
    let (mut needs, mut users) = (vec![0u32; nodes.len()], vec![0u32; nodes.len()]);
    for (i, e) in nodes.iter().enumerate() {
        if !matches!(e.kind(), ExprKind::Call { .. }) {
            e.for_each_child(|c| {
                if let Some(&c) = index.get(&c.id()) {
                    needs[i] |= 1 << c;
                    users[c] |= 1 << i;
                }
            });
        }
    }
    let last: u32 = roots.iter().filter_map(|r| index.get(&r.id())).map(|&i| 1 << i).sum();
    let live = |done: u32| {
        (0..nodes.len())
            .filter(|&i| done >> i & 1 == 1 && (users[i] & !done != 0 || last >> i & 1 == 1))
            .count() as u32
    };
    let all = (1u32 << nodes.len()) - 1;
    let mut least: FxHashMap<u32, u32> = [(0, 0)].into_iter().collect();
    for _ in 0..nodes.len() {
        let mut next: FxHashMap<u32, u32> = FxHashMap::default();
        for (&done, &peak) in &least {
            for i in (0..nodes.len()).filter(|&i| done >> i & 1 == 0 && needs[i] & !done == 0) {
                let after = done | 1 << i;
                let peak = peak.max(live(after));
                next.entry(after).and_modify(|p| *p = peak.min(*p)).or_insert(peak);
            }
        }
        least = next;
    }
    least[&all]
}

/// Returns what an expression is where read k is a number made of k.
fn value(e: &Expr) -> f64 {
    match e.kind() {
        ExprKind::Int(v) => *v as f64,
        ExprKind::Float(v) => *v,
        ExprKind::Call { value, .. } => 0.3 + (*value as f64 * 1.7).sin(),
        ExprKind::Unary(UnaryOp::Neg, a) => -value(a),
        ExprKind::Select(c, a, b) => {
            if value(c) != 0.0 {
                value(a)
            } else {
                value(b)
            }
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (value(a), value(b));
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Lt => f64::from(u8::from(a < b)),
                BinaryOp::And => a * b,
                _ => panic!("{op:?}"),
            }
        }
        kind => panic!("{kind:?}"),
    }
}
