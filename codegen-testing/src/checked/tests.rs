//! Findings and counters of checked execution.

use super::*;
use sumsq_codegen::expr::Expr;
use sumsq_codegen::func::{Func, Input, Layout, Var};
use sumsq_codegen::ir::stmt::{Stmt, Target};
use sumsq_codegen::schedule::{ForKind, LoopLevel, Memory, StageId, Tail};
use sumsq_codegen::types::ScalarType;

const I32: ScalarType = ScalarType::I32;

/// bx(x, y) = in(x, y) + in(x + 1, y) + in(x + 2, y); out likewise over y.
fn blur() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("blur");
    let i = p.input(Input::new("in", &[I32], 2));
    let at = |dx: i64| i.at(&[&x + dx, y.clone()], 0);
    let bx = p.func(Func::new("bx", &[vx, vy], vec![at(0) + at(1) + at(2)]));
    let by = |dy: i64| bx.at(&[x.clone(), &y + dy], 0);
    let out = p.func(Func::new("out", &[vx, vy], vec![by(0) + by(1) + by(2)]));
    p.output(&out);
    p
}

fn blurred(s: &Schedule, w: usize, h: usize) -> Run {
    let input = Realization::from_fn(&[I32], &[w + 2, h + 2], |c, _| (c[0] * 7 + c[1] * 13) as f64);
    let b = Bindings { inputs: [("in".into(), input)].into_iter().collect(), ..Bindings::default() };
    run_nests(&blur(), s, &b, &[vec![w, h]]).expect("legal, and correct")
}

#[test]
fn counts_of_two_extremes() {
    let (w, h) = (8, 6);
    let mut s = Schedule::new();
    s.func("bx").compute_root();
    let root = blurred(&s, w, h).counters;
    let points = w * h + w * (h + 2);
    assert_eq!((root.points(), root.operations, root.chain), (points, 2 * points, 2));
    assert_eq!(root.of("bx").allocated, w * (h + 2));
    assert_eq!(root.of("bx").loads, 3 * w * h);
    // The first value of bx is read first by the first of out, when all of bx has been computed since; the largest
    // distance is that of (0, 2), whose last reader comes two rows later.
    let distance = |x: usize, y: usize| {
        let written = 2 * (y * w + x + 1);
        let last_reader = 2 * w * (h + 2) + 2 * (y.min(h - 1) * w + x + 1);
        last_reader - written
    };
    let most = (0..h + 2).flat_map(|y| (0..w).map(move |x| distance(x, y))).max();
    // The reader's own operations are counted when it is done.
    assert_eq!(root.of("bx").reuse_distance + 2, most.expect("some point"));

    let mut s = Schedule::new();
    s.func("bx").compute_at(LoopLevel::pure("out", "x"));
    let fused = blurred(&s, w, h).counters;
    assert_eq!(fused.operations, 2 * (3 + 1) * w * h);
    assert_eq!(fused.chain, 2, "storage of each pixel is its own");
    assert_eq!(fused.reuse_distance(), 2 * 2, "two other values of bx come between");
}

#[test]
fn a_ring_orders_the_rows_that_share_a_slot() {
    let mut s = Schedule::new();
    s.func("bx").store_at(LoopLevel::pure("out", "y")).compute_at(LoopLevel::pure("out", "y"));
    let tall = |s: &Schedule, h| blurred(s, 4, h).counters.chain;
    assert_eq!(tall(&s, 12), 2);
    let mut s = Schedule::new();
    s.func("out").split("y", "yo", "yi", 64, Tail::GuardWithIf);
    s.func("bx").store_at(LoopLevel::pure("out", "yo")).compute_at(LoopLevel::pure("out", "yi"));
    s.func("bx").fold_storage("y", 4);
    assert!(tall(&s, 24) > 2 * tall(&s, 8), "the chain grows with the height");
}

/// `parallel for i: a(i + shift) = a(i)` over storage for eight elements, written before.
fn shifted_copy(kind: ForKind, shift: i64) -> Result<(), String> {
    let name: sumsq_codegen::expr::Name = "a".into();
    let i = Expr::var("i");
    let (src, dst) = (vec![i.clone()], vec![&i + shift]);
    let provide = |args: &[Expr], v: Expr| Stmt::Provide {
        func: name.clone(),
        args: args.to_vec(),
        values: vec![v],
        to: Target::Intermediate,
    };
    let each = |kind, body| Stmt::For {
        var: "i".into(),
        min: Expr::from(0),
        extent: Expr::from(7),
        kind,
        body: Box::new(body),
    };
    let fill = each(ForKind::Parallel, provide(&src, i.clone()));
    let copy = each(kind, provide(&dst, Expr::call(name.clone(), I32, src.clone(), 0)));
    let stage = StageId { func: name.clone(), stage: 0 };
    let body = Stmt::Block(vec![fill, Stmt::Produce { stage, body: Box::new(copy) }]);
    let region = vec![(Expr::from(0), Expr::from(8))];
    Machine::new().run(&Stmt::Realize { func: name.clone(), region, body: Box::new(body) })
}

#[test]
fn races_are_found_in_whatever_order_iterations_run() {
    assert_eq!(shifted_copy(ForKind::Serial, 1), Ok(()));
    assert_eq!(shifted_copy(ForKind::Parallel, 0), Ok(()));
    let e = shifted_copy(ForKind::Parallel, 1).expect_err("element 1 is read by iteration 1, written by 0");
    assert_eq!(e, "a[1] races: an iteration of a parallel loop reads what another one writes (i = 1)");
    let e = shifted_copy(ForKind::Serial, 2).expect_err("out of bounds");
    assert_eq!(e, "a[8] is outside of its storage [(0, 8)]");
}

/// A parallel loop that updates one element: each iteration reads what another wrote.
#[test]
fn a_parallel_sum_without_partial_results_races() {
    let store = |index: Expr, value: Expr| Stmt::Store {
        buffer: "t.0".into(),
        index: index.cast(ScalarType::I64),
        value,
        predicate: None,
        aligned: false,
        non_temporal: false,
    };
    let zero = Expr::int(ScalarType::I64, 0);
    let old = Expr::new(
        sumsq_codegen::expr::ExprKind::Load { buffer: "t.0".into(), index: zero.clone(), predicate: None },
        sumsq_codegen::types::Type::I32,
    );
    let add = Stmt::For {
        var: "i".into(),
        min: Expr::from(0),
        extent: Expr::from(2),
        kind: ForKind::Parallel,
        body: Box::new(store(zero.clone(), old + 1)),
    };
    let s = Stmt::Allocate {
        buffer: "t.0".into(),
        ty: I32,
        extent: Expr::int(ScalarType::I64, 1),
        memory: Memory::Heap,
        zeroed: false,
        body: Box::new(Stmt::Block(vec![store(zero, Expr::from(0)), add])),
    };
    let e = Machine::new().run(&s).expect_err("a race");
    assert_eq!(e, "t.0[0] races: an iteration of a parallel loop reads what another one writes (i = 1)");
}

/// Storage shared by the iterations of a parallel loop, which lowering would refuse, is noticed here too.
#[test]
fn uninitialised_storage_is_noticed() {
    let read = Expr::call("a", I32, vec![Expr::from(3)], 0);
    let s = Stmt::Realize {
        func: "a".into(),
        region: vec![(Expr::from(0), Expr::from(8))],
        body: Box::new(Stmt::Let { name: "v".into(), value: read, body: Box::new(Stmt::Block(vec![])) }),
    };
    assert_eq!(Machine::new().run(&s), Err("a[3] is read before it is written".into()));
}

/// A store to the halo of an output leaves more elements written than its domain has.
#[test]
fn stores_beyond_the_domain_are_counted() {
    let mut m = Machine::new();
    let output = Buffer::output(&[I32], &[(0, 4)], Layout::Planar, &[1]);
    m.bind(&"f".into(), output);
    let body = Stmt::Provide {
        func: "f".into(),
        args: vec![Expr::var("i")],
        values: vec![Expr::from(7)],
        to: Target::Output,
    };
    let rows = |min: i32, extent: i32| Stmt::For {
        var: "i".into(),
        min: Expr::from(min),
        extent: Expr::from(extent),
        kind: ForKind::Serial,
        body: Box::new(body.clone()),
    };
    assert_eq!((m.run(&rows(0, 4)), m.written(&"f".into())), (Ok(()), Some(4)));
    assert_eq!((m.run(&rows(-1, 2)), m.written(&"f".into())), (Ok(()), Some(5)));
    assert!(m.run(&rows(-2, 1)).is_err());
}
