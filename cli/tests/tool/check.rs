//! `sumsq check`: what agrees, what does not, and what was not compared.

use crate::bench::{Bench, Run, doubles};

const W: usize = 12;
const H: usize = 10;

fn check(bench: &Bench) -> Run {
    bench.sumsq(&["check", "energy.t", "--inputs", "inputs.npz"])
}

/// A global under a loss of second order, one of its residuals at the kink of the loss, and an abs at 0.
fn robust(x: &[f64]) -> Bench {
    let bench = Bench::new(
        r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local T = Unknown("T", opt_float, {}, 1)
Energy(X(0) - 1, abs(X(0) - 1))
Residual{loss=SecondOrder(Huber(0.5)), T() * X(0)}
"#,
    );
    bench.inputs(&[doubles("X", &[x.len()], x), doubles("T", &[1], &[0.5])]);
    bench
}

#[test]
fn kinks_leave_the_rest_compared() {
    let run = check(&robust(&[1.0, 0.25, 4.0]));
    run.succeeds();
    assert!(run.stdout.ends_with("all agree\n"), "{}", run.stdout);
    assert!(run.stdout.contains("1 beside a kink, 1 not"), "{}", run.stdout);
}

#[test]
fn nothing_compared_of_an_unknown_is_not_agreed() {
    let run = check(&robust(&[1.0, 1.0, 1.0]));
    assert_eq!(run.code, Some(5), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("NOT COMPARED: no residual of `T`"), "{}", run.stdout);
    assert!(!run.stdout.contains("all agree"), "{}", run.stdout);
}

/// A picture sampled where unknowns say, and what its derivative images hold at a pixel.
fn sampled(derivatives: impl Fn(f64, f64) -> (f64, f64)) -> Bench {
    let bench = Bench::new(
        r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float2, {W, H}, 0)
local I = Array("I", opt_float, {W, H}, 1)
local Ix, Iy = Array("Ix", opt_float, {W, H}, 2), Array("Iy", opt_float, {W, H}, 3)
local S = SampledImage(I, Ix, Iy)
Energy(S(Index(0) + X(0, 0, 0), Index(1) + X(0, 0, 1)) - 0.5, 0.1 * X(0, 0))
"#,
    );
    let image = |name: &str, f: &dyn Fn(f64, f64) -> f64| {
        let values: Vec<f64> = (0..W * H).map(|n| f((n % W) as f64, (n / W) as f64)).collect();
        doubles(name, &[H, W], &values)
    };
    // At 0 every sample lies on the borders of four pixels.
    let x = doubles("X", &[H, W, 2], &[0.0; 2 * W * H]);
    bench.inputs(&[
        x,
        image("I", &|x, y| (0.4 * x).sin() + 0.1 * y * y),
        image("Ix", &|x, y| derivatives(x, y).0),
        image("Iy", &|x, y| derivatives(x, y).1),
    ]);
    bench
}

fn slopes(x: f64, y: f64) -> (f64, f64) {
    (0.4 * (0.4 * x).cos(), 0.2 * y)
}

#[test]
fn derivative_images_agree() {
    let run = check(&sampled(slopes));
    run.succeeds();
    assert!(run.stdout.contains("derivative image `Ix` channel 0 of `I`"), "{}", run.stdout);
    assert!(run.stdout.ends_with("all agree\n"), "{}", run.stdout);
}

#[test]
fn wrong_derivative_images_disagree() {
    type Slopes = fn(f64, f64) -> (f64, f64);
    let exchanged: Slopes = |x, y| (slopes(x, y).1, slopes(x, y).0);
    let negative: Slopes = |x, y| (slopes(x, y).0, -slopes(x, y).1);
    for wrong in [exchanged, negative] {
        let run = check(&sampled(wrong));
        assert_eq!(run.code, Some(1), "{}\n{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("DISAGREES: derivative image `Iy`"), "{}", run.stdout);
        assert!(!run.stdout.contains("all agree"), "{}", run.stdout);
    }
}
