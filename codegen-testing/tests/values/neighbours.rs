//! Sums of neighbouring lanes, against the reference evaluator, with the instructions of several processors.

use crate::{bindings, row};
use sumsq_codegen::{Expr, Input, Level, Pipeline, RDom, ScalarType, Schedule, Source, Target, Var};
use sumsq_codegen_testing::check::check;
use sumsq_codegen_testing::native::agree_for;
use sumsq_codegen_testing::reference::{Realization, Value};
use sumsq_codegen_testing::rng::Rng;

use ScalarType::*;

/// This machine, and of the levels those that it has.
fn targets() -> Vec<Target> {
    let levels = [Level::X86V2, Level::X86V3, Level::X86V4];
    std::iter::once(Target::host()).chain(levels.iter().filter_map(|l| l.target().ok())).collect()
}

/// Mostly the ends of the type.
fn extremes(ty: ScalarType, n: usize, seed: u64) -> Realization {
    let mut rng = Rng::new(seed);
    let value = |rng: &mut Rng| match ty {
        F32 => Value::Float(rng.range(-9, 9) as f64),
        _ => Value::Int(rng.pick(&[
            ty.least(),
            ty.least(),
            ty.greatest(),
            ty.greatest(),
            ty.least() + 1,
            0,
            1,
            77,
        ])),
    };
    row(ty, (0..n).map(|_| value(&mut rng)).collect())
}

/// `term(a, b, x, k)` as it is added, and its types.
type Term = fn(&Input, &Input, Expr, Expr, i32) -> Expr;
const TERMS: [(&str, [ScalarType; 2], Term); 14] = [
    ("i16 i16", [I16, I16], |a, b, x, k, n| wide(a, &x * n + &k) * wide(b, x * n + k)),
    ("i16 taps", [I16, I16], |a, b, x, k, _| wide(a, x + &k) * wide(b, k)),
    ("u8 i8", [U8, I8], |a, b, x, k, n| wide(a, &x * n + &k) * wide(b, x * n + k)),
    ("i8 u8 taps", [I8, U8], |a, b, x, k, n| wide(a, x * n + &k) * wide(b, k)),
    ("u8 u8", [U8, U8], |a, b, x, k, n| wide(a, &x * n + &k) * wide(b, x + k)),
    ("i8 i8 in 16 bits", [I8, I8], |a, b, x, k, n| {
        (a.of(&x * n + &k).cast(I16) * b.of(x * n + k).cast(I16)).cast(I32)
    }),
    ("u8 u8 in 16 bits, which wrap", [U8, U8], |a, b, x, k, n| {
        (a.of(&x * n + &k).cast(I16) * b.of(x * n + k).cast(I16)).cast(I32)
    }),
    ("i16 by a constant", [I16, I16], |a, b, x, k, n| wide(a, &x * n + &k) * -32768 + wide(b, x)),
    ("u16 i16", [U16, I16], |a, b, x, k, n| wide(a, &x * n + &k) * wide(b, x * n + k)),
    ("distances", [U8, U8], |a, b, x, k, n| a.of(&x * n + &k).absd(b.of(x * n + k)).cast(I32)),
    ("distances in 16 bits", [U8, U8], |a, b, x, k, n| {
        (a.of(&x * n + &k).cast(I16) - b.of(x * n + k).cast(I16)).abs().cast(I32)
    }),
    ("distances that wrap", [U8, U8], |a, b, x, k, n| {
        a.of(&x * n + &k).absd(b.of(x * n + k)).cast(I8).cast(I32)
    }),
    ("columns", [I16, I16], |a, b, x, k, _| wide(a, &x + &k * 9) * wide(b, x + k * 5)),
    ("floats", [F32, F32], |a, b, x, k, n| (a.of(&x * n + &k) * b.of(x + k)).cast(I32)),
];

fn wide(input: &Input, at: Expr) -> Expr {
    input.of(at).cast(I32)
}

fn sums(types: [ScalarType; 2], term: Term, n: i32) -> Pipeline {
    let mut p = Pipeline::new("sums");
    let [x] = Var::all(["x"]);
    let [a, b] = [("a", types[0]), ("b", types[1])].map(|(name, ty)| p.input(Input::new(name, &[ty], 1)));
    let k = RDom::new([("k", Expr::from(0), Expr::from(n))]);
    let f = p.define("f", [x], Expr::from(x) * 3);
    let f = p.add_to(&f, x, term(&a, &b, Expr::from(x), k.var(0), n), &k);
    p.output(&f);
    p
}

#[test]
fn neighbours_are_added_exactly() {
    let targets = targets();
    for (i, ((name, types, term), n)) in
        TERMS.iter().flat_map(|t| [2, 3, 4, 8, 10, 16].map(|n| (t, n))).enumerate()
    {
        let p = sums(*types, *term, n);
        let long = 45 * n as usize + 150;
        let b = bindings(vec![
            ("a", extremes(types[0], long, i as u64)),
            ("b", extremes(types[1], long, 1000 + i as u64)),
        ]);
        let schedules: &[&str] = match n {
            10 => &[
                "f.update(0): vectorize(x, 8, guard) split(k, k, ki, 4, guard) reorder(ki, xi, k, x) vectorize(ki)",
                "f.update(0): vectorize(x, 8) split(k, k, ki, 4, predicate) reorder(ki, xi, x, k) vectorize(ki)",
            ],
            _ => &[
                "f.update(0): vectorize(x, 16, predicate) reorder(k, xi, x) vectorize(k)",
                "f.update(0): vectorize(x, 4, guard) reorder(k, xi, x) vectorize(k)",
                "f.update(0): vectorize(x, 8) reorder(xi, k, x) vectorize(k)",
                "f.update(0): split(x, x, xi, 2, guard) reorder(k, xi, x) vectorize(xi) vectorize(k)",
            ],
        };
        let (text, extent) = (schedules[i % schedules.len()], [1, 45, 7, 32, 19][i % 5]);
        let s = Schedule::parse(text).expect("text");
        check(&p, &s, &b, &[vec![extent]], 0.0);
        for target in &targets {
            println!("{name}, {n}, {extent}, {}: {text}", target.processor.name);
            agree_for(target, &p, &s, &b, &[vec![extent]]);
        }
    }
}

/// Tiles of lanes, of all tails, transposed or not; sums of what lanes of an inner loop do not tell apart.
#[test]
fn tiles_of_lanes_are_what_they_were() {
    let mut p = Pipeline::new("tiles");
    let [x, y] = Var::all(["x", "y"]);
    let a = p.input(Input::new("a", &[I16], 2));
    let k = RDom::new([("k", Expr::from(0), Expr::from(4))]);
    let wide = p.define("wide", [x, y], a.of((x, y)).cast(I32) + x * y);
    let turned = p.define("turned", [x, y], wide.of((y, x)) - a.of((x / 2, y + x % 2)).cast(I32));
    let most = p.define("most", [x, y], Expr::from(-5));
    let most = p.update(&most, (x, y), most.of((x, y)).max(turned.of((x + k.var(0), y))), &k);
    p.output(&most);
    let tails = ["guard", "predicate", "round_up", "shift_inwards"];
    let pairs = tails.iter().flat_map(|t| tails.iter().map(move |u| (t, u)));
    for (i, (t, u)) in pairs.enumerate() {
        let order = if i % 2 == 0 { "xi, yi, x, y" } else { "yi, xi, x, y" };
        let tile = format!(
            "split(x, x, xi, 8, {t}) split(y, y, yi, 4, {u}) reorder({order}) vectorize(xi) vectorize(yi)"
        );
        let text = format!(
            "wide: compute_root {tile}  turned: compute_root {tile}
             most.update(0): split(x, x, xi, 8, guard) reorder(k, xi, yi, x, y) vectorize(xi) vectorize(k) vectorize(yi)"
        )
        .replace("most.update(0): split(x, x, xi, 8, guard)", "most.update(0): split(x, x, xi, 8, guard) split(y, y, yi, 2, predicate)");
        let s = Schedule::parse(&text).expect("text");
        let b = bindings(vec![(
            "a",
            Realization::from_fn(&[I16], &[60, 60], |c, _| f64::from(c[0] * 37 % 101 - c[1] * c[1] % 53)),
        )]);
        for extents in [[5, 3], [17, 11]] {
            check(&p, &s, &b, &[extents.to_vec()], 0.0);
            agree_for(&Target::host(), &p, &s, &b, &[extents.to_vec()]);
        }
    }
}
