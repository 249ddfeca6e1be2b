//! Sums at coordinates that are data, but stay near their loops: first schedules gather them strip by strip, without copies.

use crate::check::{Case, on_threads};
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::gradient::{propagate_tangents, schedule};
use sumsq_codegen::{Constraint, Expr, Input, Pipeline, RDom, Schedule, Source, Var};
use sumsq_codegen_testing::check::try_check_over;
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::{Domain, values};
use sumsq_codegen_testing::reference::{Bindings, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

const WIDTH: usize = 6;
/// Rows of the output: strips do not divide those of the picture.
const ROWS: usize = 45;

/// The place at which a row samples the picture, by the row, the way that data tells, which is between -4 and 4, and the picture's last row.
type Place = fn(Expr, Expr, Expr) -> Expr;

/// Samples of a picture of so many rows, linear between two of them, slopes by the picture and the ways. In a Func of their own if `apart`.
fn warp(place: Place, rows: usize, apart: bool) -> Case {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("warp");
    let [f, g] = ["f", "g"].map(|name| p.input(Input::strided(name, &[F64], 2)));
    let last = [0, 1].map(|d| f.extent(d) - 1);
    let way = (g.of((x, y)) - 0.75) * 8.0;
    let mut at = place(y.expr().cast(F64), way, last[1].clone().cast(F64));
    if apart {
        at = p.define("place", [x, y], at).of((x, y));
    }
    let r = RDom::new([("j", 0, 2)]);
    let (first, share) = (at.floor(), &at - at.floor());
    let weight = Expr::select(r.var(0).eq_(0), 1.0 - &share, share);
    let column = (x * 3 + 1).modulo(5).clamp(0, &last[0]);
    let column = (column + (g.of((x, y)) * 2.0).cast(I32)).clamp(0, &last[0]);
    let sample = f.of((column, (first.cast(I32) + r.var(0)).clamp(0, &last[1])));
    let sum = p.sum("sum", &r, sample * weight);
    let out = p.define("out", [x, y], &sum * &sum);
    let mut rng = Rng::new(5);
    let domain = [(0, WIDTH), (0, ROWS)];
    let case = Case::new(p, &out, &domain, &["f", "g"]);
    case.bind("f", &[(0, WIDTH), (0, rows)], &mut rng).bind("g", &domain, &mut rng)
}

/// The first schedule for pictures so large, in which the place of a sample is stored, if it is a Func.
fn first(q: &Pipeline, rows: i32) -> Schedule {
    let sizes = |n: i32| [512, n];
    let (own, other) = (sizes(512), sizes(rows));
    let names = [
        ("g", &own),
        ("w", &own),
        ("d_g", &own),
        ("f", &other),
        ("d_f", &other),
        ("v_f", &other),
        ("t_d_f", &other),
    ];
    let sizes: Vec<(&str, &[i32])> = names.iter().map(|(n, s)| (*n, &s[..])).collect();
    let keep: &[&str] = if q.funcs.contains_key("place") { &["place"] } else { &[] };
    schedule(q, &sizes, keep, &[]).unwrap()
}

/// Elements of all storage besides the buffers, and the same results as the reference evaluator's and by any number of threads, to the bit.
fn storage(q: &Pipeline, b: &Bindings, domains: &[Domain], s: &Schedule) -> usize {
    let ran = try_check_over(q, s, b, domains, 0.0).unwrap_or_else(|e| panic!("{e}\n{s}"));
    let compiled = native::compile(q, s).unwrap_or_else(|e| panic!("{e}\n{s}"));
    let came = on_threads(q, &compiled, b, domains, s);
    for (came, expected) in came.iter().zip(&evaluate_over(q, b, domains).unwrap()) {
        assert!(came.planes == expected.planes, "{s}");
    }
    ran.counters.iter().filter(|(name, _)| name.to_string().contains("d_f")).map(|(_, c)| c.allocated).sum()
}

const NEAR: [(Place, i32); 6] = [
    (|y, way, last| (y + way.clamp(-2.0, 2.0)).clamp(0.0, last), 512),
    // Slower and faster than the rows, and backwards.
    (|y, way, last| (y * 0.5 + way.clamp(-2.0, 2.0)).clamp(0.0, last), 256),
    (|y, way, last| (y * 2.0 + way.clamp(-2.0, 2.0)).clamp(0.0, last), 1024),
    (|y, way, last| (&last - y + way.clamp(-2.0, 2.0)).clamp(0.0, last), 512),
    // Many rows at the border.
    (|y, way, last| (y + way.clamp(-2.0, 2.0) + 12.0).clamp(0.0, last), 512),
    // A reach longer than a strip of the run.
    (|y, way, last| (y + (way * 4.0).clamp(-12.0, 12.0)).clamp(0.0, last), 512),
];

#[test]
fn strips_need_no_copies() {
    for (i, (place, rows)) in NEAR.into_iter().enumerate() {
        for apart in [false, true] {
            let case = warp(place, (ROWS as i32 * rows / 512) as usize, apart);
            let (q, b, domains) = case.adjoint().unwrap();
            let s = first(&q, rows);
            let text = s.to_string();
            assert!(
                text.contains("gather(_1) split(_1, _1_strip, _1_row") && !text.contains("rfactor"),
                "{i} {apart}: {text}"
            );
            let elements = domains[0].iter().map(|d| d.1).product::<usize>();
            let stored = storage(&q, &b, &domains, &s);
            assert!(stored <= elements, "{stored} elements for {elements}");
        }
    }
    warp(NEAR[0].0, ROWS, true).check_exact();
    warp(NEAR[0].0, ROWS, false).check_symmetric();
}

/// Strips shorter than the reach are right, too.
#[test]
fn a_reach_beyond_the_next_strip() {
    for (place, rows) in NEAR {
        let case = warp(place, (ROWS as i32 * rows / 512) as usize, false);
        let (q, b, domains) = case.adjoint().unwrap();
        for strip in [1, 2, 7] {
            let text = first(&q, rows).to_string();
            let (before, after) = text.split_once("_1_row, ").expect("strips");
            let after = after.split_once(", ").expect("a length").1;
            let s = Schedule::parse(&format!("{before}_1_row, {strip}, {after}")).unwrap();
            storage(&q, &b, &domains, &s);
        }
    }
}

/// Places that data chooses among all rows, or that stay while the loop goes on, have copies as ever.
#[test]
fn far_places_have_copies() {
    let far: [Place; 3] = [
        |y, way, last| (y + way * 100.0).clamp(0.0, last),
        |y, way, last| (y * 0.0 + way.clamp(0.0, 2.0)).clamp(0.0, last),
        |y, way, last| (y + way.clamp(-200.0, 200.0)).clamp(0.0, last),
    ];
    for place in far {
        let (q, ..) = warp(place, ROWS, false).adjoint().unwrap();
        let text = first(&q, 512).to_string();
        assert!(!text.contains("gather(_1)"), "{text}");
        assert!(text.contains("_y_strip as copy, into d_f_partial1"), "{text}");
    }
}

/// A product with the Hessian by the picture scatters twice.
#[test]
fn second_derivatives() {
    let case = warp(NEAR[0].0, ROWS, false);
    let (mut q, mut b, domains) = case.adjoint().unwrap();
    let d_f = q.outputs[0].func.clone();
    q.input(Input::strided("v_f", &[F64], 2));
    b.inputs.insert("v_f".into(), values(&[F64], &domains[0], &mut Rng::new(9)));
    let tangents = propagate_tangents(&mut q, &[("f", "v_f")]).unwrap();
    let product = tangents.of(&d_f).unwrap().clone();
    q.outputs.clear();
    q.output_strided(&product, vec![Constraint::new(); 2]);
    let s = first(&q, 512);
    assert!(s.to_string().contains("gather(_1)"), "{s}");
    storage(&q, &b, &domains[..1], &s);
}
