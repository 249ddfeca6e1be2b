//! Handles that free themselves, and the Rust path to compare with.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use sumsq::energy::Energy;
use sumsq::{ArrayData, NamedArray, Options, ProblemData, Report, Solver};
use sumsq_capi::modern::sumsq_last_error;
use sumsq_capi::opt::*;

/// The message of the last error.
pub fn last_error() -> String {
    // SAFETY: a NUL-terminated string, valid until the next error of this thread.
    unsafe { CStr::from_ptr(sumsq_last_error()) }.to_string_lossy().into_owned()
}

pub fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// An energy file that lives as long as the value.
pub struct File {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
}

pub fn file(text: &str) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("energy.t");
    std::fs::write(&path, text).unwrap();
    File { _folder: folder, path }
}

pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/energies").join(name)
}

/// State, problem and plan of the published interface.
pub struct Opt {
    pub state: *mut Opt_State,
    pub problem: *mut Opt_Problem,
    pub plan: *mut Opt_Plan,
}

impl Opt {
    pub fn new(energy: &Path, kind: &str, double: bool, dims: &[u32]) -> Opt {
        let state = state(double);
        let problem = define(state, energy, kind);
        assert!(!problem.is_null(), "{}", last_error());
        let mut dims = dims.to_vec();
        // SAFETY: valid handles, as many dims as the energy declares.
        let plan = unsafe { Opt_ProblemPlan(state, problem, dims.as_mut_ptr()) };
        assert!(!plan.is_null(), "{}", last_error());
        Opt { state, problem, plan }
    }

    pub fn int(&self, name: &str, mut value: i32) {
        // SAFETY: valid handles; an int parameter.
        unsafe { Opt_SetSolverParameter(self.state, self.plan, c(name).as_ptr(), (&raw mut value).cast()) };
    }

    pub fn float(&self, name: &str, mut value: f32) {
        // SAFETY: valid handles; a float parameter.
        unsafe { Opt_SetSolverParameter(self.state, self.plan, c(name).as_ptr(), (&raw mut value).cast()) };
    }

    pub fn init(&self, table: &mut [*mut c_void]) {
        // SAFETY: valid handles; tests put pointers to live data of the declared types into the table.
        unsafe { Opt_ProblemInit(self.state, self.plan, table.as_mut_ptr()) };
    }

    pub fn step(&self, table: &mut [*mut c_void]) -> i32 {
        // SAFETY: as for `init`.
        unsafe { Opt_ProblemStep(self.state, self.plan, table.as_mut_ptr()) }
    }

    pub fn solve(&self, table: &mut [*mut c_void]) {
        // SAFETY: as for `init`.
        unsafe { Opt_ProblemSolve(self.state, self.plan, table.as_mut_ptr()) };
    }

    pub fn cost(&self) -> f64 {
        // SAFETY: valid handles.
        unsafe { Opt_ProblemCurrentCost(self.state, self.plan) }
    }
}

impl Drop for Opt {
    fn drop(&mut self) {
        // SAFETY: valid handles, not used again. The problem first: its plan must not mind.
        unsafe {
            Opt_ProblemDelete(self.state, self.problem);
            Opt_PlanFree(self.state, self.plan);
        }
    }
}

pub fn state(double: bool) -> *mut Opt_State {
    Opt_NewState(Opt_InitializationParameters {
        doublePrecision: i32::from(double),
        verbosityLevel: 0,
        collectPerKernelTimingInfo: 0,
        threadsPerBlock: 0,
    })
}

pub fn define(state: *mut Opt_State, energy: &Path, kind: &str) -> *mut Opt_Problem {
    let (energy, kind) = (c(energy.to_str().unwrap()), c(kind));
    // SAFETY: a valid state and strings.
    unsafe { Opt_ProblemDefine(state, energy.as_ptr(), kind.as_ptr()) }
}

/// Memory of a C program, which both sides read and write.
pub struct Memory<T>(Vec<Cell<T>>);

impl<T: Copy> Memory<T> {
    pub fn new(values: &[T]) -> Memory<T> {
        Memory(values.iter().copied().map(Cell::new).collect())
    }

    /// For the table.
    pub fn at(&self) -> *mut c_void {
        self.0.as_ptr().cast_mut().cast()
    }

    pub fn get(&self) -> Vec<T> {
        self.0.iter().map(Cell::get).collect()
    }

    pub fn put(&self, values: &[T]) {
        self.0.iter().zip(values).for_each(|(to, &from)| to.set(from));
    }

    pub fn set(&self, i: usize, value: T) {
        self.0[i].set(value);
    }
}

pub fn floats(name: &str, shape: &[usize], values: &[f64]) -> NamedArray {
    NamedArray { name: name.into(), shape: shape.to_vec(), data: ArrayData::F64(values.to_vec()) }
}

pub fn integers(name: &str, shape: &[usize], values: &[i64]) -> NamedArray {
    NamedArray { name: name.into(), shape: shape.to_vec(), data: ArrayData::Int(values.to_vec(), "int64") }
}

/// The Rust path.
pub fn rust(energy: &Path, arrays: &[NamedArray], options: &Options) -> (Report, Vec<Vec<f64>>) {
    let energy = Energy::from_file(energy).unwrap();
    let mut data = ProblemData::bind(&energy, arrays).unwrap_or_else(|e| panic!("{e}"));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let report = problem.solve(&mut data, &options.solve).unwrap();
    (report, data.unknowns().into_iter().map(|u| u.into_owned()).collect())
}

#[track_caller]
pub fn close(came: f64, expected: f64, tolerance: f64) {
    assert!((came - expected).abs() <= tolerance * expected.abs(), "came {came}, expected {expected}");
}
