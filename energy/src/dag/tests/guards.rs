//! The guard rule: NaN and Inf of an untaken branch never leak, in values or in derivatives, whatever the algebra did.

use super::*;
use crate::derive::{Passes, factor_sums, simplify};

/// `Select(mask, term(poison), 0)`-like expressions that the constructors may rearrange, with their value where the mask is
/// off. `poison` is NaN, Inf or 0 at evaluation, and each expression uses it only where the mask is on.
fn guarded_expressions(dag: &mut Dag) -> Vec<(ExprId, f64)> {
    let [x, poison, m] = [0, 1, 2].map(|i| dag.access(at(i, 0, 0)));
    let zero = dag.constant(0.0);
    let mask = dag.greater(m, zero);
    let other = dag.less(x, zero);
    let inverse = dag.powi(poison, -1);
    let log = dag.call(Function::Log, &[poison]);
    let root = dag.call(Function::Sqrt, &[poison]);
    let mut out = Vec::new();
    for bad in [poison, inverse, log, root] {
        let term = dag.mul(x, bad);
        let guarded = dag.mul(mask, term);
        out.push((guarded, 0.0));
        let plus = dag.add(guarded, x);
        out.push((plus, 2.0));
        let square = dag.powi(plus, 2);
        out.push((square, 4.0));
        // The same bad factor under two guards, both off.
        let second = dag.product(1.0, &[(other, 1), (bad, 1), (x, 2)]);
        let sum = dag.add(guarded, second);
        out.push((sum, 0.0));
        let scaled = dag.product(-3.0, &[(sum, 1), (plus, 1)]);
        out.push((scaled, 0.0));
        let chosen = dag.select(mask, bad, x);
        let product = dag.mul(chosen, plus);
        out.push((product, 4.0));
        let sine = dag.call(Function::Sin, &[guarded]);
        out.push((sine, 0.0));
        let negated = dag.not(mask);
        let fallback = dag.mul(negated, x);
        let either = dag.add(guarded, fallback);
        out.push((either, 2.0));
        let ratio = dag.div(either, x);
        out.push((ratio, 1.0));
    }
    out
}

/// An expression as constructed, factored, and after all passes.
fn forms(dag: &mut Dag, e: ExprId) -> [ExprId; 3] {
    [e, factor_sums(dag, &[e])[0], simplify(dag, &[e], Passes::ALL).0[0]]
}

fn poisoned(poison: f64) -> Values {
    let mut env = Values::default();
    env.reads.insert(at(0, 0, 0), 2.0);
    env.reads.insert(at(1, 0, 0), poison);
    env.reads.insert(at(2, 0, 0), -1.0);
    env
}

#[test]
fn untaken_values_do_not_leak() {
    let mut dag = Dag::new();
    for (e, expected) in guarded_expressions(&mut dag) {
        for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
            for form in forms(&mut dag, e) {
                let v = dag.eval(form, &poisoned(poison));
                assert_eq!(v, expected, "{} with {poison}", dag.display(form));
            }
        }
    }
}

#[test]
fn untaken_derivatives_do_not_leak() {
    let mut dag = Dag::new();
    for (e, _) in guarded_expressions(&mut dag) {
        let wrt = [dag.derivative(e, &at(0, 0, 0)), dag.derivative(e, &at(1, 0, 0))];
        // The oracle: the same derivative at a regular value of the untaken operand.
        let expected = wrt.map(|d| dag.eval(d, &poisoned(1.7)));
        assert_eq!(expected[1], 0.0);
        for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
            for (d, expected) in wrt.iter().zip(expected) {
                for form in forms(&mut dag, *d) {
                    let v = dag.eval(form, &poisoned(poison));
                    assert_eq!(v, expected, "{} with {poison}", dag.display(form));
                }
            }
        }
    }
}

#[test]
fn singular_points_have_the_derivatives_of_the_language() {
    let mut dag = Dag::new();
    let (x, y) = (dag.access(at(0, 0, 0)), dag.access(at(1, 0, 0)));
    let p = dag.param(ParamId(0), 0);
    let third = dag.constant(1.0 / 3.0);
    let sqrt = dag.call(Function::Sqrt, &[x]);
    let cube_root = dag.pow(x, third);
    let atan2 = dag.call(Function::Atan2, &[x, y]);
    let abs = dag.call(Function::Abs, &[x]);
    let param_power = dag.pow(x, p);
    let mut env = Values::default();
    env.reads.insert(at(0, 0, 0), 0.0);
    env.reads.insert(at(1, 0, 0), 0.0);
    let mut value = |dag: &mut Dag, e, exponent: f64| {
        env.params.insert((ParamId(0), 0), exponent);
        let d = dag.derivative(e, &at(0, 0, 0));
        dag.eval(d, &env)
    };
    assert_eq!(value(&mut dag, sqrt, 0.0), 0.0);
    assert_eq!(value(&mut dag, cube_root, 0.0), 0.0);
    assert_eq!(value(&mut dag, atan2, 0.0), 0.0);
    assert_eq!(value(&mut dag, abs, 0.0), 1.0);
    for (exponent, expected) in [(0.0, 0.0), (0.3, 0.0), (1.0, 1.0), (2.0, 0.0), (-1.0, f64::NEG_INFINITY)] {
        assert_eq!(value(&mut dag, param_power, exponent), expected, "x^{exponent} at 0");
    }
    let (d_eq, cond) = (dag.equal(x, y), dag.less(x, y));
    let sum = dag.add(d_eq, cond);
    assert_eq!(value(&mut dag, sum, 0.0), 0.0);
}

#[test]
fn deep_chains_do_not_overflow() {
    let mut dag = Dag::new();
    let x = dag.access(at(0, 0, 0));
    let zero = dag.constant(0.0);
    let (mut sines, mut selects, mut sums) = (x, x, x);
    for i in 0..100_000u32 {
        let sine = dag.call(Function::Sin, &[sines]);
        sines = dag.add(sine, x);
        let c = dag.sum(f64::from(i), &[(1.0, x)]);
        let cond = dag.less(zero, c);
        let choice = dag.select(cond, selects, x);
        let choice = dag.call(Function::Tanh, &[choice]);
        selects = dag.sum(0.5, &[(1.0, choice)]);
        let read = dag.access(at(i, 1, 0));
        sums = dag.add(sums, read);
    }
    for e in [sines, selects, sums] {
        let d = dag.derivative(e, &at(0, 0, 0));
        let moved = dag.shift(d, &offset(1, -1));
        let (square, both) = (dag.mul(d, d), dag.add(e, d));
        assert!(!dag.display(d).is_empty());
        for r in [moved, square, both] {
            assert!(!dag.reachable(&[r]).is_empty());
        }
    }
    let mut env = Values::default();
    env.reads.insert(at(0, 0, 0), 0.5);
    let d = dag.derivative(sines, &at(0, 0, 0));
    assert!(dag.eval(d, &env).is_finite());
}

#[test]
fn deep_nests_of_selects_merge_without_overflow() {
    let mut dag = Dag::new();
    let x = dag.access(at(0, 0, 0));
    let zero = dag.constant(0.0);
    let (mut a, mut b) = (x, zero);
    for i in 0..20_000u32 {
        let cond = dag.access(at(i + 1, 0, 0));
        let (u, v) = (dag.sum(1.0, &[(1.0, a), (2.0, x)]), dag.sum(2.0, &[(1.0, b)]));
        a = dag.select(cond, u, zero);
        b = dag.select(cond, v, x);
    }
    let sum = dag.add(a, b);
    let product = dag.mul(sum, a);
    assert!(!dag.reachable(&[product]).is_empty());
}
