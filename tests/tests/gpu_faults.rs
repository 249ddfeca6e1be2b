//! Drivers of which any call fails, in whatever a solve on a GPU is at: it ends with a typed error or a report, the unknowns are the last good
//! ones, nothing is left on the device, and CPU and GPU work afterwards.

use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::{
    ArrayData, CompileOptions, NamedArray, ProblemData, SolveError, SolveOptions, Solver, Termination,
};
use sumsq_libcuda::{Control, preload};

/// Scales a list.
const ENERGY: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local A = Array("A", opt_float, {N}, 1)
Energy(A(0) * X(0) - 1)
"#;

/// Codes of the driver: out of memory, a device that is gone, an ECC error, an illegal address, a timeout.
const CODES: [u32; 5] = [2, 46, 214, 700, 702];

struct Bench {
    control: Control,
    energy: Energy,
    data: ProblemData<'static>,
    options: SolveOptions,
}

/// Reason for the end of a solve with E, or its error; and the unknowns.
type Outcome = (Result<(Termination, f64), SolveError>, Vec<f64>);

impl Bench {
    fn new() -> Bench {
        let energy = Energy::from_text("list.t", ENERGY).unwrap();
        let array = |name: &str, values: Vec<f32>| NamedArray {
            name: name.into(),
            shape: vec![values.len()],
            data: ArrayData::F32(values),
        };
        let arrays = [array("X", vec![0.0; 9]), array("A", (1..10).map(|i| i as f32).collect())];
        let data = ProblemData::bind(&energy, &arrays).unwrap().into_owned();
        let options =
            SolveOptions { iterations: Some(1), linear_iterations: Some(1), ..SolveOptions::default() };
        Bench { control: preload().unwrap(), energy, data, options }
    }

    /// Compiles and solves.
    fn solve(&self, target: Target) -> Outcome {
        let mut data = self.data.clone();
        let options = CompileOptions { threads: Some(1), ..CompileOptions::default() };
        let done = Solver::compile_for(self.energy.clone(), &options, target)
            .and_then(|solver| solver.plan(&data)?.solve(&mut data, &self.options));
        (done.map(|report| (report.termination, report.energy_final)), data.x())
    }

    /// Makes the `n`-th call of a solve fail, whose outcome is to be `good` and `x` where it does not matter. Returns how many calls there were.
    fn fail(&self, n: u64, code: u32, good: (Termination, f64), x: &[f64]) -> u64 {
        self.control.reset_counters();
        self.control.fail_call(n, code);
        let (done, now) = self.solve(Target::cuda(90));
        let counters = self.control.counters();
        self.control.fail_none();
        let what = format!("call {n} with {code}: {done:?}");
        match &done {
            Ok((Termination::Failed, _)) => assert!(now == self.data.x() || now == x, "{what}"),
            Ok(done) => assert!(*done == good && now == x, "{what}"),
            Err(error) => {
                assert!(matches!(error, SolveError::Backend(_)), "{what}");
                assert_eq!(now, self.data.x(), "{what}");
            }
        }
        assert_eq!((counters.allocations, counters.objects), (0, 0), "{what}");
        counters.calls
    }
}

/// Fails calls that are `apart`, from the first one on, with the codes in turn: with a driver whose graphs hold loops, and with one that needs
/// chunks.
fn fail_all(apart: usize) {
    let bench = Bench::new();
    for driver in ["12080", "12030"] {
        bench.control.set("DRIVER_VERSION", driver);
        fail_all_of(&bench, apart);
    }
}

fn fail_all_of(bench: &Bench, apart: usize) {
    let (good, x) = bench.solve(Target::cuda(90));
    let good = good.unwrap();
    let mut calls = (1..).step_by(apart).map(|n| (n, CODES[n as usize % CODES.len()]));
    let last = calls.find(|&(n, code)| bench.fail(n, code, good, &x) < n).unwrap().0;
    assert!(last > 300, "{last}");
    let again = bench.solve(Target::cuda(90));
    assert_eq!((again.0.unwrap(), again.1), (good, x));
    assert_eq!(bench.solve(Target::host()).0.unwrap().0, good.0, "the CPU goes on");
}

#[test]
fn calls_may_fail() {
    // No divisor of the number of codes, so that each of them comes at all kinds of calls.
    fail_all(7);
}

#[test]
#[ignore = "four minutes: every call"]
fn any_call_may_fail() {
    fail_all(1);
}
