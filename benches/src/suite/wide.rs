//! A PCG iteration of one residual over 15 x 15 pixels: generated against J p stored by hand.

use super::{THREADS, start};
use crate::harness::{compare, noise};
use crate::report::Report;
use crate::yardstick::wide::Wide;
use std::error::Error;
use sumsq::energy::Energy;
use sumsq::{
    ArrayData, CompileOptions, LinearProbe, Method, NamedArray, Options, Precision, Preconditioner,
    ProblemData, SolveOptions, Solver,
};

/// Pixels in each direction.
const N: usize = 512;
/// Width of the stencil.
const WIDTH: usize = 15;
/// Iterations after which both sides must agree.
const CHECKED: usize = 5;
/// Distance that r.z of the two sides may have: float32 vectors, summed in different orders.
const AGREEMENT: f64 = 1e-3;
const PAIRS: usize = 25;

/// The word of the command line by which a process makes iterations of one side, to count their instructions.
pub const ONCE: &str = "wide-once";

pub fn run() -> Result<Report, Box<dyn Error>> {
    let setting =
        format!("one residual over {WIDTH} x {WIDTH} pixels of {N} x {N}, float32, {THREADS} threads");
    let mut report = Report::new("wide", setting);
    with_probe(WIDTH, N, |probe| {
        let mut hand = by_hand(WIDTH, N);
        probe.iterate(CHECKED)?;
        (0..CHECKED).for_each(|_| hand.iterate());
        let (generated, by_hand) = (probe.rz(), hand.rz());
        report.fact(&format!("r.z after {CHECKED} iterations, J p stored by hand"), by_hand, "");
        report.fact(&format!("r.z after {CHECKED} iterations, generated"), generated, "");
        if (generated / by_hand - 1.0).abs() > AGREEMENT {
            return Err("not the same system".into());
        }
        let mut generated = || probe.iterate(1).expect("generated code runs");
        let name = "generated / J p stored by hand";
        report.ratio(compare(name, &mut generated, &mut || hand.iterate(), PAIRS));
        report.ratio(noise("generated / generated", &mut generated, PAIRS));
        Ok(())
    })?;
    Ok(report)
}

/// `"SIDE WIDTH PIXELS ITERATIONS"`: r.z after so many iterations, generated or by hand.
pub fn once(case: &str) -> Result<f64, Box<dyn Error>> {
    let [side, ref numbers @ ..] = case.split(' ').collect::<Vec<_>>()[..] else {
        return Err("no such case".into());
    };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>()?;
    let [width, n, iterations] = numbers[..] else { return Err("no such case".into()) };
    match side {
        "generated" => with_probe(width, n, |probe| {
            probe.iterate(iterations)?;
            Ok(probe.rz())
        }),
        "hand" => {
            let mut hand = by_hand(width, n);
            (0..iterations).for_each(|_| hand.iterate());
            Ok(hand.rz())
        }
        _ => Err("no such side".into()),
    }
}

fn by_hand(width: usize, n: usize) -> Wide {
    let half = (width / 2) as i32;
    let taps = (-half..=half).flat_map(|y| (-half..=half).map(move |x| start::weight(x, y) as f32));
    Wide::new(n, &taps.collect::<Vec<_>>(), &image(n), THREADS)
}

/// Calls `f` at the start of PCG.
fn with_probe<R>(
    width: usize,
    n: usize,
    f: impl FnOnce(&mut LinearProbe) -> Result<R, Box<dyn Error>>,
) -> Result<R, Box<dyn Error>> {
    let compile = CompileOptions {
        precision: Precision::F32,
        preconditioner: Preconditioner::Jacobi,
        threads: Some(THREADS),
        ..CompileOptions::default()
    };
    let solve = SolveOptions { method: Method::GaussNewton, ..SolveOptions::default() };
    let options = Options { compile, solve };
    let energy = Energy::from_text("wide.t", &start::stencil(width))?;
    let field = |name: &str, values| NamedArray {
        name: name.into(),
        shape: vec![n, n],
        data: ArrayData::F32(values),
    };
    let arrays = [field("X", vec![0.0; n * n]), field("A", image(n))];
    let data = ProblemData::bind(&energy, &arrays)?;
    let solver = Solver::compile(energy, &options.compile)?;
    let mut problem = solver.plan(&data)?;
    f(&mut problem.linear_probe(&data, &options.solve)?)
}

/// Smooth waves with some noise.
fn image(n: usize) -> Vec<f32> {
    crate::yardstick::pcg::right_hand_side(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_the_same_system() {
        let rz = |side: &str| once(&format!("{side} 5 40 2")).unwrap();
        let (generated, by_hand) = (rz("generated"), rz("hand"));
        assert!((generated / by_hand - 1.0).abs() < AGREEMENT, "{generated}, {by_hand}");
    }
}
