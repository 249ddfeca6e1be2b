//! Pure definitions, inputs and parameters; conversions and selections.

use super::*;
use sumsq_codegen::func::Source;

/// One Func of `value(x, a(x), c)` for an input and a parameter; its domain is the input's.
fn pointwise(ty: ScalarType, value: impl Fn(Expr, Expr, Expr) -> Expr) -> Pipeline {
    let (x, _) = vars();
    let mut p = Pipeline::new("pointwise");
    let a = p.input(Input::new("a", &[ty], 1));
    let c = p.param("c", ty);
    let f = p.define("f", [x], value(x.expr(), a.at(&[x.expr()], 0), c));
    p.output(&f);
    p
}

/// Slopes of [`pointwise`] in f64 at inputs that move by 1, the parameter being 2 and moving by `dc`.
fn slopes_at(p: &Pipeline, points: &[f64], dc: f64) -> Vec<f64> {
    let of =
        |f: &dyn Fn(usize) -> f64| Realization::from_fn(&[F64], &[points.len()], |c, _| f(c[0] as usize));
    let b = given(&[("a", of(&|i| points[i]))], &[("c", 2.0)]);
    let d = given(&[("a", of(&|_| 1.0))], &[("c", dc)]);
    flat(&slopes(p, &b, &d, &[vec![(0, points.len())]])).iter().map(|v| v.as_f64()).collect()
}

#[test]
fn inputs_and_parameters() {
    let p = pointwise(F64, |x, a, c| (a.sin() * &c + c.exp() * x).pow(2.0) / (1.0 + a.abs()));
    check(&p, &given(&[("a", numbers(&[9], 1))], &[("c", 0.7)]), &[vec![(0, 9)]]);
}

#[test]
fn absent_directions_are_zero() {
    let p = pointwise(F64, |_, a, c| a * c.log());
    let b = given(&[("a", numbers(&[3], 1))], &[("c", 0.0)]);
    let d = given(&[("a", numbers(&[3], 2))], &[]);
    let slopes = flat(&slopes(&p, &b, &d, &[vec![(0, 3)]]));
    let expected = d.inputs["a"].planes[0].iter().map(|d| d.as_f64() * f64::NEG_INFINITY);
    assert!(slopes.iter().map(|v| v.as_f64()).eq(expected));
}

/// Points of an input from other coordinates on, and its halo, which may be stored or not.
#[test]
fn domains_and_halos() {
    let (x, _) = vars();
    let mut p = Pipeline::new("halo");
    let mut input = Input::new("a", &[F64], 1);
    input.halo = vec![1];
    let a = p.input(input);
    let f = p.define("f", [x], a.at(&[x - 1], 0) * a.at(&[x + 1], 0));
    p.output(&f);
    let stored = crate::check::with_halo(&numbers(&[5], 3).moved_to(&[-2]), &[1]);
    for r in [numbers(&[5], 3).moved_to(&[-2]), stored] {
        check(&p, &given(&[("a", r)], &[]), &[vec![(-2, 5)]]);
    }
}

#[test]
fn conversions() {
    let steps = pointwise(F64, |_, a, _| a.cast(I32).cast(F64) + a.reinterpret(I64).reinterpret(F64));
    assert_eq!(slopes_at(&steps, &[1.5, -2.0, 1e300], 1.0), [0.0; 3], "integers and bits do not move");
    let through = pointwise(F64, |_, a, _| a.cast(F32).cast(F16).cast(F64));
    assert_eq!(slopes_at(&through, &[1.5, 0.1, 1e300], 1.0), [1.0; 3], "floats pass");
}

/// The other arm may be infinite or NaN, in value and slope, and so may what the condition is made of.
#[test]
fn selections_see_one_arm() {
    let p = pointwise(F64, |_, a, c| Expr::select(a.gt(0.0), a.log() * &c, a.acosh() / (&a - &a)));
    assert_eq!(slopes_at(&p, &[1.0, 0.5], 0.0), [2.0, 4.0]);
    let p = pointwise(F64, |_, a, c| Expr::select(a.log().lt(0.0), a.sqrt(), c));
    assert_eq!(slopes_at(&p, &[0.0, 1.0, f64::NAN], 5.0), [0.0, 5.0, 5.0]);
    let p = pointwise(F64, |_, a, _| a.log().min(1.0).max(-1.0));
    assert_eq!(slopes_at(&p, &[0.0, 1.0, 100.0], 0.0), [0.0, 1.0, 0.0], "clamped to constants");
}

#[test]
fn singular_points() {
    let p = pointwise(F64, |_, a, _| a.sqrt() + a.abs() + a.pow(0.5) + a.atan2(&a));
    assert_eq!(slopes_at(&p, &[0.0], 1.0), [1.0], "of abs alone");
    let p = pointwise(F64, |_, a, c| (&c - 2.0).log() * 0.5 + a);
    assert_eq!(slopes_at(&p, &[3.0], 0.0), [1.0], "log 0 of what does not move");
    let p = pointwise(F64, |_, a, c| a.modulo(&c) + Expr::fma(a.clone(), c.clone(), a));
    assert_eq!(slopes_at(&p, &[5.0, -5.0], 1.0), [1.0 - 2.0 + 5.0 + 2.0 + 1.0, 1.0 + 3.0 - 5.0 + 2.0 + 1.0]);
}

/// Values round to their types, slopes do not.
#[test]
fn slopes_are_not_rounded() {
    for ty in [F16, F32] {
        let p = pointwise(ty, |_, a, c| &a * &a * a * c);
        let of = |v: f64, ty| Realization::from_fn(&[ty], &[1], |_, _| v);
        let mut b = given(&[("a", of(1.1, ty))], &[]);
        b.params.insert("c".into(), Value::of(ty, 0.3));
        let mut d = given(&[("a", of(0.7, F64))], &[]);
        d.params.insert("c".into(), Value::Float(0.9));
        let slopes = slopes(&p, &b, &d, &[vec![(0, 1)]]);
        assert_eq!(slopes[0].types, [F64]);
        let [a, c] = [1.1, 0.3].map(|v| ty.round(v));
        let square = ty.round(a * a);
        let cube = ty.round(square * a);
        let exact = (2.0 * a * 0.7 * a + square * 0.7) * c + cube * 0.9;
        let slope = slopes[0].planes[0][0].as_f64();
        assert!((slope - exact).abs() < 1e-15 && ty.round(slope) != slope, "{slope}, exactly {exact}");
    }
}

#[test]
fn directions_of_nothing_are_refused() {
    let p = pointwise(F64, |_, a, c| a * c);
    let b = given(&[("a", numbers(&[3], 1))], &[("c", 1.0)]);
    let refusal = |d: Bindings| evaluate_dual(&p, &b, &d, &[vec![(0, 3)]]).unwrap_err().to_string();
    let ends = |d: Bindings, end: &str| assert!(refusal(d.clone()).ends_with(end), "{}", refusal(d));
    ends(given(&[("b", numbers(&[3], 1))], &[]), "a direction of what is no input");
    ends(given(&[], &[("a", 1.0)]), "a direction of what is no parameter");
    let other = "a direction of 1 elements over [4] from [0] is of other shape";
    ends(given(&[("a", numbers(&[4], 1))], &[]), other);
}

/// Tuples, of which integers choose among floats; Funcs of several outputs.
#[test]
fn tuples_with_integers() {
    let (x, y) = vars();
    let mut p = Pipeline::new("tuples");
    let a = p.input(Input::new("a", &[F64, I32], 2));
    let at = [x.expr(), y.expr()];
    let third = a.at(&at, 0) * 3.0;
    let t = p.define_tuple("t", [x, y], vec![a.at(&at, 0).sin(), a.at(&at, 1) + third.cast(I32), third]);
    let even = t.at(&at, 1).modulo(2).eq_(0);
    let f = p.define("f", [x, y], Expr::select(even, t.at(&at, 0) * t.at(&at, 2), t.at(&at, 1).cast(F64)));
    p.output(&t);
    p.output(&f);
    let mut rng = Rng::new(4);
    let r = Realization::from_fn(&[F64, I32], &[4, 3], |_, k| random(&mut rng) * [1.0, 5.0][k]);
    let domain = vec![(0, 4), (0, 3)];
    check(&p, &given(&[("a", r)], &[]), &[domain.clone(), domain]);
}

/// A read at coordinates that are data.
#[test]
fn gathers() {
    let (x, _) = vars();
    let mut p = Pipeline::new("gather");
    let a = p.input(Input::new("a", &[F64], 1));
    let near = (a.at(&[x.expr()], 0) * 3.5).cast(I32).clamp(-3, 3) + 4;
    let squares = p.define("squares", [x], a.at(&[x.expr()], 0) * a.at(&[x.expr()], 0));
    let gathered = squares.of(&near) * a.of(near).exp();
    let g = p.define("g", [x], gathered + squares.of(x));
    p.output(&g);
    check(&p, &given(&[("a", numbers(&[8], 5))], &[]), &[vec![(0, 8)]]);
}
