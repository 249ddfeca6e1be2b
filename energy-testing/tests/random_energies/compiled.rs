//! A case as machine code, compared with the interpreter: E and J^T r in every precision, diag(J^T J) and J^T J v in float64, and where a
//! solve of two steps ends.

use crate::run::{Expected, NOISE, Outcome, bind};
use sumsq::codegen::Target;
use sumsq::codegen::limits::Effort;
use sumsq::energy::Energy;
use sumsq::{
    CompileLimits, CompileOptions, Method, Overrides, Precision, Preconditioner, ProblemData, SolveError,
    SolveOptions, Solver, choices,
};
use sumsq_codegen_testing::rng::Rng;
use sumsq_energy_testing::case::{Case, Kind};
use sumsq_energy_testing::system::{Noise, System, bounds, system};

/// LLVM optimises the code of every case whose seed this divides.
const OPTIMISED: u64 = 60;

/// Share by which results are off, to see how far float32 reaches, and the least number that it holds to all digits.
const SINGLE_NOISE: Noise = Noise::new(4e-6, f32::MIN_POSITIVE as f64);

/// Compiles a case with options that a seed chooses.
pub fn compiled(case: &Case, seed: u64) -> Outcome {
    match compare(case, seed) {
        Ok(Ok((rows, judged))) => Outcome::Same { rows, judged },
        Ok(Err(refused)) => Outcome::Refused(refused),
        Err(wrong) => Outcome::Wrong(wrong),
    }
}

fn compare(case: &Case, seed: u64) -> Result<Result<(usize, usize), String>, String> {
    let rng = &mut Rng::new(!seed);
    let effort = if seed.is_multiple_of(OPTIMISED) { Effort::Full } else { Effort::Least };
    let (energy, mut data) = match bind(case) {
        Ok(bound) => bound,
        Err(refused) => return Ok(Err(refused)),
    };
    let options = match options(case, &energy, &data, rng, effort) {
        Ok(options) => options,
        Err(SolveError::Option(refused)) => return Ok(Err(refused.to_string())),
        // More than its budgets.
        Err(SolveError::Energy(refused)) => return Ok(Err(refused.to_string())),
        Err(e) => return Err(format!("choices: {e}")),
    };
    let target = Target::host().with_lanes(rng.pick(&[4, 4, 8]));
    let with = |what: &str, e: &dyn std::fmt::Display| format!("{what}{e}, with {options:?}");
    let solver = match Solver::compile_for(energy.clone(), &options, target) {
        Ok(solver) => solver,
        // Multigrid takes grids of few unknowns per element; a target of other lanes may have other choices.
        Err(SolveError::Option(e)) => return Ok(Err(e.to_string())),
        Err(SolveError::Energy(refused)) => return Ok(Err(refused.to_string())),
        Err(e) => return Err(with("compile: ", &e)),
    };
    let mut problem = solver.plan(&data).map_err(|e| with("plan: ", &e))?;
    let x = case.x();
    let noise = |double: bool| if double { NOISE } else { SINGLE_NOISE };
    let expected = Expected::new(case, &x, noise(options.precision != Precision::F32));
    let came = problem.evaluate(&data).map_err(|e| with("evaluate: ", &e))?;
    if !expected.exact.known {
        return Ok(Ok((0, 0)));
    }
    let rows = expected.exact.rows.len();
    if came.residuals != rows {
        return Err(with("residuals: ", &format!("{} count, not {rows}", came.residuals)));
    }
    let wrong = |e: String| with("", &e);
    if !expected.exact.is_finite() {
        return Ok(Ok((rows, 0)));
    }
    let energies = |s: &System| s.energies.clone();
    let mut judged = expected.compare("E of group", &came.energies.by_group, energies).map_err(wrong)?;
    judged += expected.compare("J^T r", &came.gradient.concat(), System::gradient).map_err(wrong)?;
    if options.precision == Precision::F64 {
        let v: Vec<f64> = x.iter().map(|_| rng.range(-1000, 1000) as f64 / 512.0).collect();
        let certificate = problem.certify(&data, &x, &v).map_err(|e| with("certify: ", &e))?;
        let masked: Vec<f64> =
            v.iter().zip(&expected.exact.free).map(|(v, f)| if *f { *v } else { 0.0 }).collect();
        expected.compare("certified J^T r", &certificate.jtf, System::gradient).map_err(wrong)?;
        expected.compare("certified diag", &certificate.diag, System::diagonal).map_err(wrong)?;
        expected.compare("certified J^T J v", &certificate.jtjv, |s| s.product(&masked)).map_err(wrong)?;
    }
    let method = rng.pick(&[Method::LevenbergMarquardt, Method::LevenbergMarquardt, Method::GaussNewton]);
    let solve = SolveOptions { iterations: Some(2), method, ..SolveOptions::default() };
    match problem.solve(&mut data, &solve) {
        Ok(report) => {
            judged += 1;
            check_end(case, &data, &report, &options, method).map_err(wrong)?;
        }
        Err(SolveError::InitialNotFinite { .. }) if options.precision != Precision::F64 => {}
        Err(e) => return Err(with("solve: ", &e)),
    }
    Ok(Ok((rows, judged)))
}

/// x is where E is what the report says, no larger than at the start; held scalars are where they were, the others within their bounds.
fn check_end(
    case: &Case,
    data: &ProblemData<'_>,
    report: &sumsq::Report,
    options: &CompileOptions,
    method: Method,
) -> Result<(), String> {
    let views = case.fields.iter().any(|f| matches!(f.kind, Kind::View(_)));
    // Masks and bounds that read views are those of the start.
    if views && (!case.excludes.is_empty() || !case.bounds.is_empty()) {
        return Ok(());
    }
    let (before, after) = (case.x(), data.x());
    let mut moved = case.clone();
    for (field, part) in moved.fields.iter_mut().zip(case.parts()) {
        if matches!(field.kind, Kind::Unknown(_)) {
            field.values = after[part].to_vec();
        }
    }
    let double = options.precision != Precision::F32;
    let noise = if double { NOISE } else { SINGLE_NOISE };
    let end = Expected::new(&moved, &after, noise);
    let total = |s: &System| vec![s.energies.iter().sum::<f64>()];
    end.compare("E at the end", &[report.energy_final], total)?;
    if !views && method == Method::LevenbergMarquardt {
        let energies = system(case, &before, Noise::NONE).energies;
        let start: f64 = energies.iter().sum();
        // A loss that is a formula may be negative.
        let size: f64 = energies.iter().map(|e| e.abs()).sum();
        if report.energy_final > start + 4.0 * noise.share * size + 1e-30 {
            return Err(format!("E rises from {start:e} to {:e}", report.energy_final));
        }
    }
    let (lower, upper) = bounds(case);
    for (i, (&free, (&b, &a))) in end.exact.free.iter().zip(before.iter().zip(&after)).enumerate() {
        if !free && a.to_bits() != b.to_bits() {
            return Err(format!("the excluded unknown {i} moved from {b} to {a}"));
        }
        // Both bounds are rounded where x is of single precision.
        let beyond = |v: f64| v + v.abs() * 1e-6 < lower[i] || upper[i] < v - v.abs() * 1e-6;
        if free && (a.is_nan() || beyond(a)) {
            return Err(format!("the unknown {i} ends at {a}, beyond {} .. {}", lower[i], upper[i]));
        }
    }
    Ok(())
}

fn options(
    case: &Case,
    energy: &Energy,
    data: &ProblemData<'_>,
    rng: &mut Rng,
    effort: Effort,
) -> Result<CompileOptions, SolveError> {
    let mut options = CompileOptions {
        precision: rng.pick(&[
            Precision::F64,
            Precision::F64,
            Precision::F64,
            Precision::Mixed,
            Precision::F32,
        ]),
        preconditioner: rng.pick(Preconditioner::ALL).0,
        threads: Some(1 + rng.below(2)),
        // No clock decides what is compared.
        limits: CompileLimits { seconds: f64::INFINITY, effort, ..CompileLimits::default() },
        sizes: rng.percent(50).then(|| data.dims().to_vec()),
        ..CompileOptions::default()
    };
    // Nothing else reads near-null displacements.
    if !case.near_nulls.is_empty() && rng.percent(60) {
        options.preconditioner = Preconditioner::Aggregation;
    }
    // One that the energy does not fit gives way to one that fits all.
    if matches!(choices(energy, &options), Err(SolveError::Option(_))) {
        options.preconditioner = Preconditioner::default();
    }
    // One by one, since what is possible follows from the choices before.
    let mut given = Overrides::default();
    for _ in 0..rng.pick(&[0, 1, 2, 3, 5]) {
        let list = choices(energy, &options)?;
        let open: Vec<_> = list.all().iter().filter(|c| c.possible.len() > 1).collect();
        if open.is_empty() {
            break;
        }
        let choice = rng.pick(&open);
        let next = given.clone().with(choice.subject(), rng.pick(&choice.possible));
        let tried = CompileOptions { choices: next.clone(), ..options.clone() };
        // It may rule out one that was made before.
        if choices(energy, &tried).is_ok() {
            (given, options) = (next, tried);
        }
    }
    Ok(options)
}
