//! Robust losses and named groups.

use super::agrees;
use sumsq::explicit::Explicit;
use sumsq::{Options, Precision};
use sumsq_tests::{Random, assert_close, bind, doubles, solve};

const W: usize = 25;
const H: usize = 31;

const TEXT: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local A = Array("A", opt_float2, {W,H}, 1)
    local s = Param("s", float, 2)
    Residual{name="huber", loss=Huber(s), X(0,0) - A(0,0)}
    Residual{name="cauchy", loss=Cauchy(0.5), 3 * (X(0,0) - X(1,0))}
    Residual{name="tukey", loss=Tukey(2), 2 * X(0,0,0) * X(0,1,1), X(0,0,1) - 1}
    Residual{name="geman", loss=GemanMcClure(0.7), 3 * (X(0,0) - X(0,1))}
    Residual{name="plain", 0.2 * X(0,0)}
"#;

fn arrays() -> [sumsq::NamedArray; 3] {
    let mut random = Random(51);
    [
        doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("s", &[], vec![0.4]),
    ]
}

#[test]
fn losses_agree() {
    agrees(TEXT, &arrays());
}

/// E of every group, from the definitions of the losses.
#[test]
fn groups_by_name() {
    let (energy, mut data) = bind(TEXT, &arrays());
    assert_eq!(energy.groups, ["huber", "cauchy", "tukey", "geman", "plain"]);
    let [x, a] = [data.unknowns[0].clone(), data.arrays[0].clone()];
    let at = |v: &[f64], i: usize, j: usize, c: usize| v[2 * (j * W + i) + c];
    let mut expected = [0.0; 5];
    for (i, j) in (0..H).flat_map(|j| (0..W).map(move |i| (i, j))) {
        let norm = |f: &dyn Fn(usize) -> f64| (0..2).map(|c| f(c).powi(2)).sum::<f64>();
        let here = |c| at(&x, i, j, c);
        let fit = norm(&|c| here(c) - at(&a, i, j, c));
        expected[0] += if fit <= 0.16 { fit } else { 2.0 * 0.4 * fit.sqrt() - 0.16 };
        if i + 1 < W {
            let across = norm(&|c| 3.0 * (here(c) - at(&x, i + 1, j, c)));
            expected[1] += 0.25 * (1.0 + across / 0.25).ln();
        }
        let product = if j + 1 < H { 2.0 * here(0) * at(&x, i, j + 1, 1) } else { 0.0 };
        // Every argument is a block of its own.
        for sq in [product.powi(2), (here(1) - 1.0).powi(2)] {
            expected[2] += 4.0 / 3.0 * if sq <= 4.0 { 1.0 - (1.0 - sq / 4.0).powi(3) } else { 1.0 };
        }
        if j + 1 < H {
            let down = norm(&|c| 3.0 * (here(c) - at(&x, i, j + 1, c)));
            expected[3] += down / (1.0 + down / 0.49);
        }
        expected[4] += norm(&|c| 0.2 * here(c));
    }
    let explicit = Explicit::new(&energy, &data).unwrap();
    let by_explicit = explicit.energies(&explicit.initial());
    drop(explicit);
    let options = Options { precision: Precision::F64, ..Options::default() };
    let solver = sumsq::Solver::compile(energy.clone(), &options).unwrap();
    let by_generated = solver.plan(&data).unwrap().evaluate(&data).unwrap().energies;
    for (group, expected) in expected.into_iter().enumerate() {
        assert_close(&energy.groups[group], by_explicit.by_group[group], expected, 1e-12);
        assert_close(&energy.groups[group], by_generated.by_group[group], expected, 1e-12);
    }
    let report = solve(&energy, &mut data, &options);
    for step in &report.iterations {
        assert_close("sum of groups", step.energy_by_group.iter().sum(), step.energy, 1e-12);
    }
}
