//! Random expressions: built twice, through the constructors and as plain f64 arithmetic with finite differences.

use super::*;
use crate::derive::{Passes, simplify};
use proptest::prelude::*;

/// A recipe for an expression; `Guarded` ones use bad operands only where their condition holds.
#[derive(Clone, Debug)]
enum Tree {
    Read(u8),
    Number(i8),
    Param,
    Add(Box<Tree>, Box<Tree>),
    Sub(Box<Tree>, Box<Tree>),
    Mul(Box<Tree>, Box<Tree>),
    Div(Box<Tree>, Box<Tree>),
    Power(Box<Tree>, i8),
    Call(Function, Box<Tree>),
    Less(Box<Tree>, Box<Tree>),
    Select(Box<Tree>, Box<Tree>, Box<Tree>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        4 => (0u8..4).prop_map(Tree::Read),
        1 => (-3i8..4).prop_map(Tree::Number),
        1 => Just(Tree::Param),
    ];
    leaf.prop_recursive(5, 48, 3, |inner| {
        let b = move || inner.clone().prop_map(Box::new);
        let functions = prop::sample::select(vec![
            Function::Sin,
            Function::Cos,
            Function::Tanh,
            Function::Atan,
            Function::Sqrt,
            Function::Log,
            Function::Abs,
        ]);
        prop_oneof![
            3 => (b(), b()).prop_map(|(x, y)| Tree::Add(x, y)),
            2 => (b(), b()).prop_map(|(x, y)| Tree::Sub(x, y)),
            4 => (b(), b()).prop_map(|(x, y)| Tree::Mul(x, y)),
            1 => (b(), b()).prop_map(|(x, y)| Tree::Div(x, y)),
            1 => (b(), -2i8..4).prop_map(|(x, n)| Tree::Power(x, n)),
            1 => (functions, b()).prop_map(|(f, x)| Tree::Call(f, x)),
            1 => (b(), b()).prop_map(|(x, y)| Tree::Less(x, y)),
            2 => (b(), b(), b()).prop_map(|(c, x, y)| Tree::Select(c, x, y)),
        ]
    })
}

fn build(dag: &mut Dag, t: &Tree) -> ExprId {
    let mut child = |t: &Tree| build(dag, t);
    match t {
        Tree::Read(i) => dag.access(at(u32::from(*i), 0, 0)),
        Tree::Number(n) => dag.constant(f64::from(*n)),
        Tree::Param => dag.param(ParamId(0), 0),
        Tree::Add(x, y) => {
            let (x, y) = (child(x), child(y));
            dag.add(x, y)
        }
        Tree::Sub(x, y) => {
            let (x, y) = (child(x), child(y));
            dag.sub(x, y)
        }
        Tree::Mul(x, y) => {
            let (x, y) = (child(x), child(y));
            dag.mul(x, y)
        }
        Tree::Div(x, y) => {
            let (x, y) = (child(x), child(y));
            dag.div(x, y)
        }
        Tree::Power(x, n) => {
            let x = child(x);
            dag.powi(x, i32::from(*n))
        }
        Tree::Call(f, x) => {
            let x = child(x);
            dag.call(*f, &[x])
        }
        Tree::Less(x, y) => {
            let (x, y) = (child(x), child(y));
            dag.less(x, y)
        }
        Tree::Select(c, x, y) => {
            let (c, x, y) = (child(c), child(x), child(y));
            dag.select(c, x, y)
        }
    }
}

const READS: usize = 4;

/// Returns how far a decision was from going the other way; none at all if it was made by a NaN, which may simplify to a number.
fn distance(v: f64) -> f64 {
    if v.is_nan() { 0.0 } else { v.abs() }
}

/// The meaning of a recipe without any DAG. `boolean * x` selects, as the language says. `condition` collects how close the
/// evaluation came to a point where it is not smooth, and the largest intermediate magnitude.
fn meaning(t: &Tree, x: &[f64; READS], margin: &mut f64, magnitude: &mut f64) -> f64 {
    let boolean = |t: &Tree| matches!(t, Tree::Less(..));
    let mut m = |t: &Tree| meaning(t, x, margin, magnitude);
    let v = match t {
        Tree::Read(i) => x[usize::from(*i)],
        Tree::Number(n) => f64::from(*n),
        Tree::Param => PARAM,
        Tree::Add(a, b) => m(a) + m(b),
        Tree::Sub(a, b) => m(a) - m(b),
        Tree::Mul(a, b) => match (boolean(a), boolean(b), m(a), m(b)) {
            (true, _, 0.0, _) | (_, true, _, 0.0) => 0.0,
            (_, _, a, b) => a * b,
        },
        Tree::Div(a, b) => m(a) / m(b),
        Tree::Power(a, n) => m(a).powi(i32::from(*n)),
        Tree::Call(f, a) => {
            let a = m(a);
            if matches!(f, Function::Abs | Function::Sqrt | Function::Log) {
                *margin = margin.min(distance(a));
            }
            f.value(a, 0.0)
        }
        Tree::Less(a, b) => {
            let (a, b) = (m(a), m(b));
            *margin = margin.min(if a == b { 0.0 } else { distance(a - b) });
            f64::from(u8::from(a < b))
        }
        Tree::Select(c, a, b) => {
            let smooth = boolean(c);
            let c = m(c);
            if !smooth {
                *margin = margin.min(distance(c));
            }
            let taken = if c != 0.0 { a } else { b };
            meaning(taken, x, margin, magnitude)
        }
    };
    *magnitude = magnitude.max(v.abs());
    v
}

const PARAM: f64 = 0.7;

fn env(x: &[f64; READS]) -> Values {
    let mut env = Values::default();
    for (i, v) in x.iter().enumerate() {
        env.reads.insert(at(i as u32, 0, 0), *v);
    }
    env.params.insert((ParamId(0), 0), PARAM);
    env
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// Constructors and passes keep the value to 1e-9 of the largest intermediate, and keep what is finite finite.
    #[test]
    fn simplification_keeps_values(t in tree(), x in prop::array::uniform4(-2.0f64..2.0)) {
        let mut dag = Dag::new();
        let e = build(&mut dag, &t);
        let (simple, _) = simplify(&mut dag, &[e], Passes::ALL);
        let (mut margin, mut magnitude) = (f64::INFINITY, 1.0);
        let expected = meaning(&t, &x, &mut margin, &mut magnitude);
        // Away from jumps, where rounding may take the other side.
        prop_assume!(margin > 1e-6 && magnitude < 1e6);
        for id in [e, simple[0]] {
            let v = dag.eval(id, &env(&x));
            if expected.is_finite() {
                prop_assert!((v - expected).abs() <= 1e-9 * magnitude, "{}: {v}, not {expected}", dag.display(id));
            }
        }
    }

    /// With poisoned reads (NaN, Inf, 0) whatever is finite by the meaning stays finite, and equal.
    #[test]
    fn poison_does_not_spread(
        t in tree(),
        x in prop::array::uniform4(-2.0f64..2.0),
        which in 0usize..READS,
        poison in prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0]),
    ) {
        let mut x = x;
        x[which] = poison;
        let mut dag = Dag::new();
        let e = build(&mut dag, &t);
        let (simple, _) = simplify(&mut dag, &[e], Passes::ALL);
        let (mut margin, mut magnitude) = (f64::INFINITY, 1.0);
        let expected = meaning(&t, &x, &mut margin, &mut magnitude);
        prop_assume!(expected.is_finite() && margin > 1e-6 && !(1e6..f64::INFINITY).contains(&magnitude));
        for id in [e, simple[0]] {
            let v = dag.eval(id, &env(&x));
            prop_assert!(v.is_finite(), "{}: {v}, not {expected}", dag.display(id));
        }
    }

    /// Derivatives against central differences of the meaning, at regular points.
    #[test]
    fn derivatives_match_differences(t in tree(), x in prop::array::uniform4(-2.0f64..2.0), wrt in 0usize..READS) {
        let mut dag = Dag::new();
        let e = build(&mut dag, &t);
        let d = dag.derivative(e, &at(wrt as u32, 0, 0));
        let (simple, _) = simplify(&mut dag, &[d], Passes::ALL);
        let h = 1e-4;
        let (mut margin, mut magnitude) = (f64::INFINITY, 1.0);
        let mut at_step = |k: f64| {
            let mut moved = x;
            moved[wrt] += k * h;
            meaning(&t, &moved, &mut margin, &mut magnitude)
        };
        let samples = [-4.0, -2.0, -1.0, 1.0, 2.0, 4.0].map(&mut at_step);
        let fine = (samples[1] - 8.0 * samples[2] + 8.0 * samples[3] - samples[4]) / (12.0 * h);
        let coarse = (samples[0] - 8.0 * samples[1] + 8.0 * samples[4] - samples[5]) / (24.0 * h);
        // Regular: away from kinks, finite, and the two step sizes agree.
        let scale = 1.0 + fine.abs() + magnitude * 1e-4;
        prop_assume!(margin > 0.02 && magnitude < 1e4 && (fine - coarse).abs() <= 1e-7 * scale);
        for id in [d, simple[0]] {
            let v = dag.eval(id, &env(&x));
            prop_assert!((v - fine).abs() <= 1e-6 * scale, "{}: {v}, not {fine}", dag.display(id));
        }
    }
}
