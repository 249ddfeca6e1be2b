//! Integer arithmetic of every width, against exact arithmetic in i128.

use crate::{bindings, row, scalar_and_vector};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Var};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

/// `(name, expression of two operands, exact result)`; the result is wrapped to the expression's type.
type Case = (&'static str, fn(&Expr, &Expr) -> Expr, fn(i128, i128, ScalarType) -> i128);

fn bits(ty: ScalarType) -> i128 {
    ty.bits() as i128
}
fn least(ty: ScalarType) -> i128 {
    if ty.is_signed() { -(1 << (bits(ty) - 1)) } else { 0 }
}
fn greatest(ty: ScalarType) -> i128 {
    if ty.is_signed() { (1 << (bits(ty) - 1)) - 1 } else { (1 << bits(ty)) - 1 }
}
fn shift_left(a: i128, n: i128, ty: ScalarType) -> i128 {
    if (0..bits(ty)).contains(&n) { a << n } else { 0 }
}
fn shift_right(a: i128, n: i128, ty: ScalarType) -> i128 {
    if (0..bits(ty)).contains(&n) { a >> n } else { -((a < 0) as i128) }
}
/// `a / 2^n` to the nearest, halves up; to the left for negative n.
fn rounding_shift_right(a: i128, n: i128, ty: ScalarType) -> i128 {
    match n {
        ..=0 => shift_left(a, -n, ty),
        1..=100 => (a + (1 << (n - 1))) >> n,
        _ => 0,
    }
}
/// The product in twice the width, or in 64 bits.
fn product(a: i128, b: i128, ty: ScalarType) -> i128 {
    let wrapped = a.wrapping_mul(b);
    match ty {
        ScalarType::I64 => i128::from(wrapped as i64),
        ScalarType::U64 => i128::from(wrapped as u64),
        _ => wrapped,
    }
}
fn rounding_product(a: i128, b: i128, q: i128, ty: ScalarType) -> i128 {
    rounding_shift_right(product(a, b, ty), q, ty.wider().unwrap_or(ty))
}
fn saturate(v: i128, ty: ScalarType) -> i128 {
    v.clamp(least(ty), greatest(ty))
}

const CASES: &[Case] = &[
    ("add", |a, b| a + b, |a, b, _| a + b),
    ("sub", |a, b| a - b, |a, b, _| a - b),
    ("mul", |a, b| a * b, |a, b, _| a.wrapping_mul(b)),
    ("div", |a, b| a / b, |a, b, _| if b == 0 { 0 } else { a.div_euclid(b) }),
    ("mod", |a, b| a % b, |a, b, _| if b == 0 { 0 } else { a.rem_euclid(b) }),
    ("min", |a, b| a.min(b), |a, b, _| a.min(b)),
    ("max", |a, b| a.max(b), |a, b, _| a.max(b)),
    ("and", |a, b| a.and(b), |a, b, _| a & b),
    ("or", |a, b| a.or(b), |a, b, _| a | b),
    ("xor", |a, b| a.xor(b), |a, b, _| a ^ b),
    ("shl", |a, b| a.shl(b), shift_left),
    ("shr", |a, b| a.shr(b), shift_right),
    ("lt", |a, b| Expr::select(a.lt(b), a, b), |a, b, _| a.min(b)),
    ("ge", |a, b| Expr::select(a.ge(b), a, b), |a, b, _| a.max(b)),
    ("neg", |a, _| a.unary(sumsq_codegen::UnaryOp::Neg), |a, _, _| -a),
    ("not", |a, _| a.not_(), |a, _, _| !a),
    ("abs", |a, _| a.abs(), |a, _, _| a.abs()),
    ("saturating_add", |a, b| a.saturating_add(b), |a, b, ty| saturate(a + b, ty)),
    ("saturating_sub", |a, b| a.saturating_sub(b), |a, b, ty| saturate(a - b, ty)),
    ("halving_add", |a, b| a.halving_add(b), |a, b, _| (a + b).div_euclid(2)),
    ("rounding_halving_add", |a, b| a.rounding_halving_add(b), |a, b, _| (a + b + 1).div_euclid(2)),
    ("widening_add", |a, b| a.widening_add(b), |a, b, _| a + b),
    ("widening_sub", |a, b| a.widening_sub(b), |a, b, _| a - b),
    ("widening_mul", |a, b| a.widening_mul(b), |a, b, _| a.wrapping_mul(b)),
    ("rounding_shift_right", |a, b| a.rounding_shift_right(b), rounding_shift_right),
    ("rounding_shift_right by 0", |a, _| a.rounding_shift_right(0), |a, _, _| a),
    (
        "rounding_shift_right by 3",
        |a, _| a.rounding_shift_right(3),
        |a, _, ty| rounding_shift_right(a, 3, ty),
    ),
    ("rounding_shift_left", |a, b| a.rounding_shift_left(b), |a, b, ty| rounding_shift_right(a, -b, ty)),
    ("rounding_shift_left by 2", |a, _| a.rounding_shift_left(2), |a, _, _| a << 2),
    ("mul_shift_right", |a, b| a.mul_shift_right(b, 5), |a, b, ty| saturate(product(a, b, ty) >> 5, ty)),
    (
        "mul_shift_right by the width",
        |a, b| a.mul_shift_right(b, a.ty().scalar.bits()),
        |a, b, ty| saturate(shift_right(product(a, b, ty), bits(ty), ty.wider().unwrap_or(ty)), ty),
    ),
    (
        "rounding_mul_shift_right",
        |a, b| a.rounding_mul_shift_right(b, 5),
        |a, b, ty| saturate(rounding_product(a, b, 5, ty), ty),
    ),
    (
        "rounding_mul_shift_right by all but one",
        |a, b| a.rounding_mul_shift_right(b, a.ty().scalar.bits() - 1),
        |a, b, ty| saturate(rounding_product(a, b, bits(ty) - 1, ty), ty),
    ),
    ("powi 5", |a, _| a.powi(5), |a, _, _| a.wrapping_pow(5)),
    ("powi 0", |a, _| a.powi(0), |_, _, _| 1),
    ("mux", |a, b| Expr::mux(b, [a, b, a]), |a, b, _| if b == 1 { b } else { a }),
    ("absd", |a, b| a.absd(b), |a, b, _| (a - b).abs()),
];

/// The ends of the range, numbers around zero and around the powers of two.
fn values(ty: ScalarType) -> Vec<i128> {
    let mut v: Vec<i128> = (-3..=3).chain([5, 7, 10, 63, 64, 100]).collect();
    v.extend([7, 8, 15, 16, 31, 32, 33, 62, 63].iter().flat_map(|&k| [(1i128 << k) - 1, 1 << k, -(1 << k)]));
    v.extend((0..3).flat_map(|k| [least(ty) + k, greatest(ty) - k]));
    v.retain(|&x| (least(ty)..=greatest(ty)).contains(&x));
    v.sort();
    v.dedup();
    v
}

/// `v` as the engine keeps it: wrapped, u64 as its bits.
fn kept(ty: ScalarType, v: i128) -> i64 {
    ty.wrap(v as i64)
}

fn check(ty: ScalarType) {
    let mut p = Pipeline::new("integers");
    let (x, y) = (Var::new("x"), Var::new("y"));
    let a = p.input(Input::new("a", &[ty], 1)).at(&[x.expr()], 0);
    let b = p.input(Input::new("b", &[ty], 1)).at(&[y.expr()], 0);
    for (name, op, _) in CASES {
        let f = p.func(Func::new(*name, &[x, y], vec![op(&a, &b)]));
        p.output(&f);
    }
    let v = values(ty);
    let given = || row(ty, v.iter().map(|&x| Value::Int(kept(ty, x))).collect());
    let extents = vec![vec![v.len(); 2]; CASES.len()];
    for s in scalar_and_vector(&p, 8) {
        let results = agree(&p, &s, &bindings(vec![("a", given()), ("b", given())]), &extents);
        for ((name, op, exact), r) in CASES.iter().zip(results) {
            let to = op(&a, &b).ty().scalar;
            for at in r.points() {
                let (x, y) = (v[at[0] as usize], v[at[1] as usize]);
                let want = Value::Int(kept(to, exact(x, y, ty)));
                assert_eq!(r.get(&at, 0), Some(want), "{name} of {x} and {y}, {}", ty.name());
            }
        }
    }
}

#[test]
fn eight_bits() {
    check(ScalarType::I8);
    check(ScalarType::U8);
}

#[test]
fn sixteen_bits() {
    check(ScalarType::I16);
    check(ScalarType::U16);
}

#[test]
fn thirty_two_bits() {
    check(ScalarType::I32);
    check(ScalarType::U32);
}

#[test]
fn sixty_four_bits() {
    check(ScalarType::I64);
    check(ScalarType::U64);
}

/// All weights between two numbers, against the definition.
#[test]
fn lerp_is_exact() {
    for ty in
        [ScalarType::U8, ScalarType::I8, ScalarType::U16, ScalarType::I16, ScalarType::U32, ScalarType::I32]
    {
        let mut p = Pipeline::new("lerp");
        let [x, y, w] = ["x", "y", "w"].map(Var::new);
        let weights = ty.unsigned();
        let a = p.input(Input::new("a", &[ty], 1));
        let weight = p.input(Input::new("weight", &[weights], 1)).at(&[w.expr()], 0);
        let value = Expr::lerp(a.at(&[x.expr()], 0), a.at(&[y.expr()], 0), weight);
        let f = p.func(Func::new("f", &[x, y, w], vec![value]));
        p.output(&f);
        let (v, m) = (values(ty), greatest(weights));
        let w: Vec<i128> = vec![0, 1, 2, m / 3, m / 2, m / 2 + 1, m - 1, m];
        let given = |ty, v: &[i128]| row(ty, v.iter().map(|&x| Value::Int(kept(ty, x))).collect());
        let b = bindings(vec![("a", given(ty, &v)), ("weight", given(weights, &w))]);
        for s in scalar_and_vector(&p, 8) {
            let r = &agree(&p, &s, &b, &[vec![v.len(), v.len(), w.len()]])[0];
            for at in r.points() {
                let (x, y, w) = (v[at[0] as usize], v[at[1] as usize], w[at[2] as usize]);
                // To nearest; M is odd, so there are no ties.
                let want = (2 * (x * (m - w) + y * w) + m).div_euclid(2 * m);
                assert_eq!(r.get(&at, 0), Some(Value::Int(kept(ty, want))), "{x}, {y}, {w} of {m}");
            }
        }
    }
}

/// A hash computed in u32 wraps on its way to a coordinate.
#[test]
fn a_scatter_by_a_hash() {
    use sumsq_codegen::RDom;
    let mut p = Pipeline::new("hash");
    let i = p.input(Input::new("in", &[ScalarType::U32], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let mixed = i.at(&[r.var(0)], 0) * 0x9e37_79b9i64;
    let bin = (mixed.xor(mixed.shr(Expr::int(ScalarType::U32, 15))) % 12).cast(ScalarType::I32);
    let f = Func::new("f", &[Var::new("b")], vec![Expr::from(0)]);
    let count = f.at(std::slice::from_ref(&bin), 0) + 1;
    let f = p.func(f.update(vec![bin], vec![count], r));
    p.output(&f);
    let values: Vec<u32> = (0..200u32).map(|k| k.wrapping_mul(k).wrapping_mul(2_654_435_761)).collect();
    let given = row(ScalarType::U32, values.iter().map(|&v| Value::Int(v as i64)).collect());
    let mut counts = vec![0; 12];
    for v in values {
        let h = v.wrapping_mul(0x9e37_79b9);
        counts[((h ^ (h >> 15)) % 12) as usize] += 1;
    }
    let s = sumsq_codegen::Schedule::new();
    let r = &agree(&p, &s, &bindings(vec![("in", given)]), &[vec![12]])[0];
    assert_eq!(r.planes[0], counts.into_iter().map(Value::Int).collect::<Vec<_>>());
}

/// A coordinate that loses bits on its way to i32 has no bounds, however it was clamped before.
#[test]
fn a_conversion_that_wraps_bounds_nothing() {
    let text = |from: ScalarType, limit: i64| {
        let mut p = Pipeline::new("p");
        let x = Var::new("x");
        let table = p.input(Input::new("table", &[ScalarType::U8], 1));
        let at = p.input(Input::new("at", &[from], 1)).at(&[x.expr()], 0);
        let at = at.max(Expr::int(from, 0)).min(Expr::int(from, limit)).cast(ScalarType::I32);
        let f = p.func(Func::new("f", &[x], vec![table.at(&[at], 0)]));
        p.output(&f);
        sumsq_codegen_testing::native::compile(&p, &sumsq_codegen::Schedule::new())
            .err()
            .map_or(String::new(), |e| e.to_string())
    };
    for from in [ScalarType::I64, ScalarType::U64, ScalarType::U32] {
        assert_eq!(text(from, 1000), "");
        let why = format!("a conversion from {} to i32", from.name());
        let message = "pipeline p: f reads table at coordinate 0, which has no bounds because of";
        let wraps = if from == ScalarType::U32 { 1 << 31 } else { 1 << 40 };
        assert_eq!(text(from, wraps), format!("{message} {why}; clamp the coordinate"));
    }
}
