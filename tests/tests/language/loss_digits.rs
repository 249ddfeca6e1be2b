//! Every loss and its slope to the last digits, from residuals far below the scale to residuals far above it.

use sumsq::energy::losses::LossKind;
use sumsq::{CompileOptions, Precision, Solver};
use sumsq_tests::{bind, doubles};

/// Values of an independent implementation, a line each: loss, residual, rho, rho'.
const REFERENCE: &str = include_str!("losses.txt");

/// rho and rho' of a loss of scale 1 at the squares of residuals.
fn reference(loss: &str) -> Vec<(f64, f64, f64)> {
    let rows = REFERENCE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let number = |word: &str| word.parse::<f64>().unwrap();
    let own = rows.filter(|words| words[0] == loss);
    own.map(|words| (number(words[1]), number(words[2]), number(words[3]))).collect()
}

/// q/s^2 from 1e-20 to 1e20; the scale is a power of two, so that the ratios are the reference's.
#[test]
fn losses_keep_their_digits() {
    let losses: Vec<&str> = LossKind::all().map(|(_, name)| name).collect();
    let scale = 4.0;
    let mut text =
        format!("local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float{}, {{N}}, 0)\n", losses.len());
    for (channel, loss) in losses.iter().enumerate() {
        text += &format!("Residual{{name=\"{loss}\", loss={loss}({scale}), X(0,{channel})}}\n");
    }
    let rows: Vec<_> = losses.iter().map(|loss| reference(loss)).collect();
    // A weight below the least normal number may have fewer digits.
    for (precision, within, least) in [(Precision::F64, 2e-15, 0.0), (Precision::F32, 1e-6, 2e-38)] {
        let start = |at: usize| {
            vec![doubles("X", &[1, losses.len()], rows.iter().map(|r| scale * r[at].0).collect())]
        };
        let (energy, data) = bind(&text, &start(0));
        let compile = CompileOptions { precision, ..CompileOptions::default() };
        let mut problem = Solver::compile(energy, &compile).unwrap().plan(&data).unwrap();
        let starts = (0..rows[0].len()).map(start);
        for (at, start) in starts.enumerate() {
            let came = problem.evaluate(&bind(&text, &start).1).unwrap();
            for (c, loss) in losses.iter().enumerate() {
                let (r, rho, slope) = rows[c][at];
                let energy = came.energies.by_group[c] / (scale * scale);
                let weight = came.gradient[0][c] / (scale * r);
                assert!(
                    (energy - rho).abs() <= within * rho,
                    "{precision:?} {loss} at {r}: {energy}, not {rho}"
                );
                let allowed = (within * slope).max(least);
                assert!(
                    (weight - slope).abs() <= allowed,
                    "{precision:?} {loss}' at {r}: {weight}, not {slope}"
                );
            }
        }
    }
}
