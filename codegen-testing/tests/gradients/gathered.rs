//! No border, resampling, transpose or diagonal leaves a reduction variable in a left-hand side.

use sumsq_codegen::ScalarType::F64;
use sumsq_codegen::analysis::evaluate::{Known, evaluate};
use sumsq_codegen::expr::walk::uses_var;
use sumsq_codegen::expr::{Param, Part};
use sumsq_codegen::gradient::propagate_adjoints;
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};

use crate::check::text_of;

/// A boundary condition in two dimensions.
type Condition = fn(&Input) -> Func;

const CONDITIONS: [Condition; 5] = [
    |f| boundary::repeat_edge("c", f, &f.domain()),
    |f| boundary::repeat_image("c", f, &f.domain()),
    |f| boundary::mirror_image("c", f, &f.domain()),
    |f| boundary::mirror_interior("c", f, &f.domain()),
    |f| boundary::constant_exterior("c", f, &f.domain(), &[Expr::from(0.5)]),
];

/// Coordinates made of x, y and r from 0 to 2.
type Map = fn(Expr, Expr, Expr) -> (Expr, Expr);

const MAPS: [Map; 12] = [
    |x, y, r| (x + &r - 1, y + r),
    |x, y, r| (x * 2 + r, y * 2 - 1),
    |x, y, _| (x / 2, (y + 1) / 2),
    |x, y, r| ((x + r) / 4, y * 3),
    |x, y, _| (y, x),
    |x, _, _| (x.clone(), x),
    |x, y, _| (&x + &y, x - y),
    |x, y, r| (x % 3 + r, -y),
    |x, y, _| ((&x * 3 + 1) / 2, y),
    |x, y, r| (x * 3 + y * 2, r),
    |x, y, _| (x.clamp(1, 5), y.max(2)),
    |x, y, _| (Expr::select(x.lt(3), &x, 6 - &x), y),
];

#[test]
fn nothing_scatters() {
    for (i, condition) in CONDITIONS.iter().enumerate() {
        for (j, map) in MAPS.iter().enumerate() {
            let mut p = Pipeline::new("plane");
            let f = p.input(Input::strided("f", &[F64], 2));
            let c = p.func(condition(&f));
            let [x, y] = Var::all(["x", "y"]);
            let r = RDom::new([("r", 0, 3)]);
            let value = p.sum("s", &r, c.of(map(x.expr(), y.expr(), r.var(0))));
            let out = p.define("out", [x, y], value);
            p.output_strided(&out, Constraint::defaults(2));
            p.input(Input::strided("w", &[F64], 2));
            let d = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
            assert_eq!(d.explain("f"), Some("d_f gathers"), "condition {i}, map {j}");
            for d in d.names().map(|n| d.of(n).unwrap()) {
                let scatters = d
                    .updates
                    .iter()
                    .any(|u| u.args.iter().any(|a| u.rdom.vars.iter().any(|r| uses_var(a, &r.name))));
                assert!(!scatters, "condition {i}, map {j}:\n{}", text_of(d));
            }
        }
    }
}

/// Reads beyond an edge add up over what lies there alone, also where several points read one element, and where a loop moves the read.
#[test]
fn sums_of_borders_are_short() {
    const N: i32 = 1000;
    // A read, and the same as numbers.
    type Read = (fn(Expr, Expr) -> Expr, fn(i32, i32) -> i32);
    let reads: [Read; 3] = [
        (|x, _| (x + 2) / 4, |x, _| (x + 2).div_euclid(4)),
        (|x, r| (x + 2) / 4 + r - 1, |x, r| (x + 2).div_euclid(4) + r - 1),
        (|x, r| (x - 1) / 5 * 2 + r, |x, r| (x - 1).div_euclid(5) * 2 + r),
    ];
    for (i, (read, number)) in reads.into_iter().enumerate() {
        let mut p = Pipeline::new("line");
        let f = p.input(Input::strided("f", &[F64], 1));
        let c = p.func(boundary::repeat_edge("c", &f, &f.domain()));
        let x = Var::new("x");
        let r = RDom::new([("r", 0, 3)]);
        let value = p.sum("s", &r, c.of((read(x.expr(), r.var(0)),)));
        let out = p.define("out", [x], value);
        p.output_strided(&out, Constraint::defaults(1));
        p.input(Input::strided("w", &[F64], 1));
        let d = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
        for elements in [N / 4, N / 4 + 1, N / 4 - N / 40, N / 2] {
            let extents = [("f", elements), ("w", N), ("out", N)];
            let mut known = Known::default();
            for (name, n) in extents {
                known.params.insert(Param::Of(name.into(), Part::Extent(0)), n.into());
                known.params.insert(Param::Of(name.into(), Part::Min(0)), 0.into());
            }
            let is_beyond = |x: &i32| (0..3).any(|r| !(0..elements).contains(&number(*x, r)));
            let beyond = (0..N).filter(is_beyond).count() as i64;
            for update in &d.of("f").unwrap().updates {
                let extents = update.rdom.vars.iter().map(|r| evaluate(&r.extent, &known).unwrap().max(0));
                let points: i64 = extents.product();
                let most = 3 * (beyond + 20);
                assert!(points <= most, "read {i}, {elements} elements: {points} of {most} points");
            }
        }
    }
}
