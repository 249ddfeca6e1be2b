//! Numbers that look random: the same everywhere, and spread evenly.

use crate::{bindings, scalar_and_vector};
use sumsq_codegen::{Expr, Pipeline, Var};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const SIZE: [usize; 2] = [256, 64];

/// Values at the coordinates of a rectangle, of the reference evaluator and of machine code, which agree.
fn values(f: impl Fn(Var, Var) -> Expr) -> Vec<Value> {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("noise");
    let f = p.define("f", [x, y], f(x, y));
    p.output(&f);
    let sizes = [SIZE.to_vec()];
    let all = scalar_and_vector(&p, 8).map(|s| agree(&p, &s, &bindings(vec![]), &sizes).remove(0));
    all[1].planes[0].clone()
}

/// The same in plain integers.
fn plain(seed: u32, at: &[u32]) -> u32 {
    let mixed = |v: u32| {
        let v = (v ^ (v >> 16)).wrapping_mul(0x7feb_352d);
        let v = (v ^ (v >> 15)).wrapping_mul(0x846c_a68b);
        v ^ (v >> 16)
    };
    at.iter().fold(mixed(seed), |s, c| mixed(s.wrapping_mul(0x9e37_79b9).wrapping_add(*c)))
}

#[test]
fn they_follow_from_seed_and_place() {
    let found = values(|x, y| Expr::random_u32(7, (x, y - 3)));
    for (i, v) in found.iter().enumerate() {
        let (x, y) = ((i % SIZE[0]) as u32, (i / SIZE[0]) as u32);
        assert_eq!(*v, Value::Int(plain(7, &[x, y.wrapping_sub(3)]).into()), "at {x}, {y}");
    }
}

/// Of 16,384 numbers in [0, 1) mean, variance and the products with their neighbours are within four standard deviations of those of independent ones.
#[test]
fn they_are_spread_evenly() {
    for seed in [0, 1, 7] {
        let found = values(|x, y| Expr::random_f32(seed, (x, y)));
        let v: Vec<f64> =
            found.iter().map(|v| if let Value::Float(v) = v { v - 0.5 } else { panic!("{v:?}") }).collect();
        assert!(v.iter().all(|v| (-0.5..0.5).contains(v)));
        let n = v.len() as f64;
        let mean = |of: &dyn Fn(usize) -> f64| (0..v.len()).map(of).sum::<f64>() / n;
        let near = |value: f64, expected: f64, deviation: f64| {
            assert!(
                (value - expected).abs() < 4.0 * deviation / n.sqrt(),
                "seed {seed}: {value}, not {expected}"
            );
        };
        near(mean(&|i| v[i]), 0.0, (1.0f64 / 12.0).sqrt());
        near(mean(&|i| v[i] * v[i]), 1.0 / 12.0, (1.0f64 / 180.0).sqrt());
        for apart in [1, SIZE[0], SIZE[0] + 1] {
            near(mean(&|i| v[i] * v[(i + apart) % v.len()]), 0.0, 1.0 / 12.0);
        }
    }
}
