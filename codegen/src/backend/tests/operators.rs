//! Operators against Rust's own, on scalars and on vectors with a masked tail.

use super::*;
use crate::expr::{BinaryOp, UnaryOp};
use crate::functions::Function;

const LANES: [u16; 3] = [1, 4, 16];

/// Compiles `out[i] = a[i] op b[i]` and compares with `expected` for all pairs of `values`.
fn check_binary<T: Element + std::fmt::Debug, R: Element + std::fmt::Debug>(
    op: BinaryOp,
    values: &[T],
    expected: impl Fn(T, T) -> R,
    same: impl Fn(R, R) -> bool,
) {
    let pairs: Vec<(T, T)> = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).collect();
    let (a, b): (Vec<T>, Vec<T>) = pairs.iter().copied().unzip();
    for lanes in LANES {
        let body = map("out", lanes, |at| Expr::binary(op, at("a", T::TYPE), at("b", T::TYPE)));
        let c = build().input("a", T::TYPE).input("b", T::TYPE).output("out", R::TYPE).compile(body);
        let out = empty(R::TYPE, a.len() as i32);
        run(&c, &[("a", &filled(&a)), ("b", &filled(&b)), ("out", &out)], &[]);
        for (got, &(x, y)) in out.to_vec::<R>().into_iter().zip(&pairs) {
            assert!(
                same(got, expected(x, y)),
                "{op:?} x{lanes}: {x:?}, {y:?} gave {got:?}, not {:?}",
                expected(x, y)
            );
        }
    }
}

macro_rules! integer_tests {
    ($($name:ident $t:ident),*) => { $(
        #[test]
        fn $name() {
            let v: Vec<$t> = vec![0, 1, 2, 3, 7, 8, 63, 100, $t::MAX, $t::MAX - 1, $t::MIN, $t::MIN + 1,
                (0 as $t).wrapping_sub(1), (0 as $t).wrapping_sub(2), (0 as $t).wrapping_sub(7)];
            let eq = |a: $t, b: $t| a == b;
            check_binary(BinaryOp::Add, &v, $t::wrapping_add, eq);
            check_binary(BinaryOp::Sub, &v, $t::wrapping_sub, eq);
            check_binary(BinaryOp::Mul, &v, $t::wrapping_mul, eq);
            check_binary(BinaryOp::Div, &v, |a, b| if b == 0 { 0 } else { a.wrapping_div_euclid(b) }, eq);
            check_binary(BinaryOp::Mod, &v, |a, b| if b == 0 { 0 } else { a.wrapping_rem_euclid(b) }, eq);
            check_binary(BinaryOp::Min, &v, |a, b| a.min(b), eq);
            check_binary(BinaryOp::Max, &v, |a, b| a.max(b), eq);
            let width = $t::BITS as i128;
            check_binary(BinaryOp::Shl, &v,
                |a, n| if (0..width).contains(&(n as i128)) { a.wrapping_shl(n as u32) } else { 0 }, eq);
            check_binary(BinaryOp::Shr, &v, |a, n| {
                let inside = (0..width).contains(&(n as i128));
                if inside { a.wrapping_shr(n as u32) } else if a.wrapping_shr(0) < (0 as $t) { (0 as $t).wrapping_sub(1) } else { 0 }
            }, eq);
            check_binary(BinaryOp::Xor, &v, |a, b| a ^ b, eq);
            let same = |a: bool, b: bool| a == b;
            check_binary(BinaryOp::Lt, &v, |a, b| a < b, same);
            check_binary(BinaryOp::Ge, &v, |a, b| a >= b, same);
            check_binary(BinaryOp::Ne, &v, |a, b| a != b, same);
            for c in [1i64, 2, 8, 3, 5, -1, -2, -3, 0] {
                let c = <$t as Element>::narrow(crate::runtime::Wide::Int(c));
                check_constant_divisor(&v, c);
            }
        }
    )* };
}
integer_tests!(ops_i8 i8, ops_i16 i16, ops_i32 i32, ops_i64 i64, ops_u8 u8, ops_u16 u16, ops_u32 u32, ops_u64 u64);

/// Quotients of lanes are those of floats that are truncated: numbers just below a multiple of the divisor, and at it.
#[test]
fn quotients_beside_whole_numbers() {
    fn beside(most: i64, divisors: &[i64]) -> Vec<(i64, i64)> {
        let near = |&d: &i64| {
            let top = most / d;
            [1, 2, 3, top / 2, top - 1, top].into_iter().flat_map(move |q| [(q * d - 1, d), (q * d, d)])
        };
        divisors.iter().flat_map(near).filter(|(n, _)| (0..=most).contains(n)).collect()
    }
    macro_rules! checked {
        ($($t:ident)*) => { $(
            let most = $t::MAX as i64;
            let step = (most / 5000).max(1) as usize;
            let divisors: Vec<i64> = (1..=most).step_by(step).chain([2, 3, 7, most - 1, most]).collect();
            let pairs = beside(most, &divisors);
            let [a, b] = [|p: &(i64, i64)| p.0 as $t, |p: &(i64, i64)| p.1 as $t]
                .map(|of| pairs.iter().map(of).collect::<Vec<$t>>());
            let body = map("out", 16, |at| Expr::binary(BinaryOp::Div, at("a", $t::TYPE), at("b", $t::TYPE)));
            let c = build().input("a", $t::TYPE).input("b", $t::TYPE).output("out", $t::TYPE).compile(body);
            let out = empty($t::TYPE, a.len() as i32);
            run(&c, &[("a", &filled(&a)), ("b", &filled(&b)), ("out", &out)], &[]);
            for ((got, a), b) in out.to_vec::<$t>().into_iter().zip(&a).zip(&b) {
                assert_eq!(got, a / b, "{a} / {b}");
            }
        )* };
    }
    checked!(u8 i8 u16 i16 u32 i32);
}

/// Division and remainder by a constant agree with those by a variable, which `check_binary` has checked.
fn check_constant_divisor<T: Element + PartialEq + std::fmt::Debug>(values: &[T], c: T) {
    let crate::runtime::Wide::Int(constant) = c.widen() else { return };
    let divisors = vec![c; values.len()];
    for (lanes, op) in [(1, BinaryOp::Div), (16, BinaryOp::Div), (1, BinaryOp::Mod), (16, BinaryOp::Mod)] {
        let constant = Expr::int(Type::of(T::TYPE).with_lanes(lanes), constant);
        let by_constant = map("out", lanes, |at| Expr::binary(op, at("a", T::TYPE), constant.clone()));
        let by_variable = map("out", lanes, |at| Expr::binary(op, at("a", T::TYPE), at("b", T::TYPE)));
        let results = [by_constant, by_variable].map(|body| {
            let f = build().input("a", T::TYPE).input("b", T::TYPE).output("out", T::TYPE).compile(body);
            let out = empty(T::TYPE, values.len() as i32);
            run(&f, &[("a", &filled(values)), ("b", &filled(&divisors)), ("out", &out)], &[]);
            out.to_vec::<T>()
        });
        assert_eq!(results[0], results[1], "{op:?} by {c:?}");
    }
}

#[test]
fn float_arithmetic_is_strict() {
    let v = [0.0, -0.0, 1.0, -1.5, 1e-40, 3.4e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.1, 1e20];
    let bits = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    check_binary(BinaryOp::Add, &v, |a, b| a + b, bits);
    check_binary(BinaryOp::Sub, &v, |a, b| a - b, bits);
    check_binary(BinaryOp::Mul, &v, |a, b| a * b, bits);
    check_binary(BinaryOp::Div, &v, |a, b| a / b, bits);
    check_binary(BinaryOp::Mod, &v, |a, b| a - b * (a / b).floor(), bits);
    let near = |a: f32, b: f32| bits(a, b) || (a - b).abs() <= 2.0 * f32::EPSILON * b.abs();
    check_binary(BinaryOp::Pow, &v, |a, b| f64::from(a).powf(f64::from(b)) as f32, near);
    check_binary(BinaryOp::Atan2, &v, |a, b| f64::from(a).atan2(f64::from(b)) as f32, near);
    let min = |a: f32, b: f32| if b.is_nan() || a < b { a } else { b };
    let max = |a: f32, b: f32| if b.is_nan() || a > b { a } else { b };
    check_binary(BinaryOp::Min, &v, min, bits);
    check_binary(BinaryOp::Max, &v, max, bits);
    let same = |a: bool, b: bool| a == b;
    check_binary(BinaryOp::Lt, &v, |a, b| a < b, same);
    check_binary(BinaryOp::Le, &v, |a, b| a <= b, same);
    check_binary(BinaryOp::Eq, &v, |a, b| a == b, same);
    check_binary(BinaryOp::Ne, &v, |a, b| a != b, same);
}

#[test]
fn products_and_sums_fuse_only_where_said() {
    let (a, b) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
    let x: Vec<f32> = vec![a; 20];
    let y: Vec<f32> = vec![b; 20];
    for lanes in LANES {
        let ty = Type::F32.with_lanes(lanes);
        let minus_one = Expr::float(ty, -1.0);
        for (fused, expected) in [(false, a * b - 1.0), (true, a.mul_add(b, -1.0))] {
            let body = map("out", lanes, |at| {
                let (x, y) = (at("x", ScalarType::F32), at("y", ScalarType::F32));
                if fused { Expr::fma(x, y, minus_one.clone()) } else { x * y + minus_one.clone() }
            });
            let c = build()
                .input("x", ScalarType::F32)
                .input("y", ScalarType::F32)
                .output("out", ScalarType::F32);
            let out = empty(ScalarType::F32, 20);
            run(&c.compile(body), &[("x", &filled(&x)), ("y", &filled(&y)), ("out", &out)], &[]);
            assert_eq!(out.to_vec::<f32>(), vec![expected; 20]);
        }
        assert_ne!(a * b - 1.0, a.mul_add(b, -1.0));
    }
}

fn check_unary(op: UnaryOp, values: &[f64], expected: fn(f64) -> f64) {
    for lanes in LANES {
        let body = map("out", lanes, |at| at("a", ScalarType::F64).unary(op));
        let c = build().input("a", ScalarType::F64).output("out", ScalarType::F64).compile(body);
        let out = empty(ScalarType::F64, values.len() as i32);
        run(&c, &[("a", &filled(values)), ("out", &out)], &[]);
        for (got, &x) in out.to_vec::<f64>().into_iter().zip(values) {
            let want = expected(x);
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            // Functions are arithmetic of our own.
            let exact = op.function().is_none_or(|f| matches!(f, Function::Abs | Function::Sqrt));
            let near = !exact && (got == want || (got - want).abs() <= 3.0 * f64::EPSILON * want.abs());
            assert!(same || near, "{op:?} {x}: {got}, not {want}");
        }
    }
}

#[test]
fn float_functions() {
    use UnaryOp::*;
    let v =
        [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.3, -0.7, 1e300, -1e15, f64::INFINITY, f64::NAN, 4.0, 17.25];
    type Case = (UnaryOp, fn(f64) -> f64);
    let cases: [Case; 22] = [
        (Neg, |x| -x),
        (Abs, f64::abs),
        (Sqrt, f64::sqrt),
        (Floor, f64::floor),
        (Ceil, f64::ceil),
        (Round, f64::round_ties_even),
        (Trunc, f64::trunc),
        (Sin, f64::sin),
        (Cos, f64::cos),
        (Tan, f64::tan),
        (Asin, f64::asin),
        (Acos, f64::acos),
        (Atan, f64::atan),
        (Sinh, f64::sinh),
        (Cosh, f64::cosh),
        (Tanh, f64::tanh),
        (Asinh, f64::asinh),
        (Acosh, f64::acosh),
        (Atanh, f64::atanh),
        (Exp, f64::exp),
        (Log, f64::ln),
        (Log10, f64::log10),
    ];
    for (op, f) in cases {
        check_unary(op, &v, f);
    }
}

fn check_cast<A: Element + std::fmt::Debug, B: Element + PartialEq + std::fmt::Debug>(
    v: &[A],
    expected: fn(A) -> B,
) {
    for lanes in LANES {
        let body = map("out", lanes, |at| at("a", A::TYPE).cast(B::TYPE));
        let c = build().input("a", A::TYPE).output("out", B::TYPE).compile(body);
        let out = empty(B::TYPE, v.len() as i32);
        run(&c, &[("a", &filled(v)), ("out", &out)], &[]);
        let want: Vec<B> = v.iter().map(|&x| expected(x)).collect();
        assert_eq!(out.to_vec::<B>(), want, "{:?} to {:?}", A::TYPE, B::TYPE);
    }
}

#[test]
fn conversions() {
    let f = [
        0.0,
        -0.9,
        1.9,
        -1.9,
        3e9,
        -3e9,
        1e20,
        -1e20,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        255.5,
        256.0,
    ];
    check_cast(&f, |x| x as i8);
    check_cast(&f, |x| x as u8);
    check_cast(&f, |x| x as i32);
    check_cast(&f, |x| x as u32);
    check_cast(&f, |x| x as i64);
    check_cast(&f, |x| x as u64);
    check_cast(&f, |x| x != 0.0);
    check_cast(&f[..8], |x| x as f32);
    let i = [0, 1, -1, 127, 128, -129, i32::MAX, i32::MIN, 16777217];
    check_cast(&i, |x| x as i8);
    check_cast(&i, |x| x as u16);
    check_cast(&i, |x| x as i64);
    check_cast(&i, |x| x as u64);
    check_cast(&i, |x| x as f32);
    check_cast(&i, |x| x != 0);
    check_cast(&[0u8, 1, 200, 255], |x| x as i32);
    check_cast(&[0u32, 1, u32::MAX], |x| x as f32);
    check_cast(&[0u64, 1, u64::MAX], |x| x as f64);
    check_cast(&[true, false], |x| x as i32);
    check_cast(&[true, false], |x| x as u8 as f32);
}

#[test]
fn reinterpreted_bits() {
    let v = [0.0f32, -0.0, 1.5, f32::NAN, f32::INFINITY, 1e-42];
    for lanes in LANES {
        let body = map("out", lanes, |at| at("a", ScalarType::F32).reinterpret(ScalarType::I32));
        let c = build().input("a", ScalarType::F32).output("out", ScalarType::I32).compile(body);
        let out = empty(ScalarType::I32, v.len() as i32);
        run(&c, &[("a", &filled(&v)), ("out", &out)], &[]);
        assert_eq!(out.to_vec::<i32>(), v.map(|x| x.to_bits() as i32));
    }
}
