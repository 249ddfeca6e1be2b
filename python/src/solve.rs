//! The solver, with the options of `sumsq solve`.

use crate::error::{Error, Refused, guarded};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::str::FromStr;
use std::time::Duration;
use sumsq::assembled::{LinearSolver, solve_with};
use sumsq::energy::Energy;
use sumsq::{
    ArrayData, Backend, CompileOptions, Control, Level, LossOrder, MemoryLimit, Method, NamedArray, Options,
    Overrides, Precision, Preconditioner, ProblemData, Report, SolveError, SolveOptions, Solver,
};

/// `solve(name, text, arrays, options)`: the unknowns by name with their shapes, and the report as JSON. `arrays` are of names, shapes, dtypes and
/// contiguous memory; `options` are texts, as the tool takes them.
pub fn solve(args: &Bound<'_, PyTuple>) -> PyResult<(Py<PyDict>, String)> {
    type Array<'py> = (String, Vec<usize>, String, Bound<'py, PyAny>);
    let py = args.py();
    let (name, text, arrays, options): (String, String, Vec<Array>, Vec<(String, String)>) =
        args.extract()?;
    let (options, linear) = read(&options)?;
    let arrays: Vec<NamedArray> = arrays.into_iter().map(named).collect::<PyResult<_>>()?;
    let (unknowns, report) = py.detach(|| {
        guarded(|| {
            let energy = Energy::from_text(&name, &text).map_err(|e| PyValueError::new_err(e.rendered()))?;
            solved(energy, &arrays, options, linear)
        })
    })?;
    let numpy = py.import("numpy")?;
    let dict = PyDict::new(py);
    for NamedArray { name, shape, data } in unknowns {
        let flat = match data {
            ArrayData::F32(values) => array(&numpy, &values, "float32")?,
            other => array(&numpy, &other.doubles(), "float64")?,
        };
        dict.set_item(name, flat.call_method1("reshape", (shape,))?)?;
    }
    let report = serde_json::to_string(&report).map_err(|e| Error::new_err(e.to_string()))?;
    Ok((dict.unbind(), report))
}

/// A copy of the values as an array of one axis.
fn array<'py, T: Element>(
    numpy: &Bound<'py, PyModule>,
    values: &[T],
    dtype: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let array = numpy.call_method1("empty", (values.len(), dtype))?;
    PyBuffer::<T>::get(&array)?.copy_from_slice(numpy.py(), values)?;
    Ok(array)
}

/// An array as the solver takes it: a copy.
fn named(
    (name, shape, dtype, memory): (String, Vec<usize>, String, Bound<'_, PyAny>),
) -> PyResult<NamedArray> {
    fn values<T: Element>(of: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
        PyBuffer::<T>::get(of)?.to_vec(of.py())
    }
    // Their values come as int64.
    const INTEGERS: [&str; 7] = ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"];
    let integer = INTEGERS.into_iter().find(|known| *known == dtype);
    let data = match (dtype.as_str(), integer) {
        ("float32", _) => ArrayData::F32(values(&memory)?),
        ("float64", _) => ArrayData::F64(values(&memory)?),
        ("uint8", _) => ArrayData::Bytes(values(&memory)?),
        ("bool", _) => ArrayData::Bool(values::<u8>(&memory)?.into_iter().map(|v| v != 0).collect()),
        (_, Some(known)) => ArrayData::Int(values(&memory)?, known),
        _ => {
            let text = format!("{name}: expected floats of 32 or 64 bits, integers or bool, came {dtype}");
            return Err(PyTypeError::new_err(text));
        }
    };
    Ok(NamedArray { name, shape, data })
}

/// Compiles, plans and solves, or assembles and solves; ends early where a signal came.
fn solved(
    energy: Energy,
    arrays: &[NamedArray],
    options: Options,
    linear: LinearSolver,
) -> PyResult<(Vec<NamedArray>, Report)> {
    let wrong = |e: &dyn std::fmt::Display| PyValueError::new_err(e.to_string());
    let mut data = ProblemData::bind(&energy, arrays).map_err(|e| wrong(&e))?;
    let precision = options.compile.precision;
    data.check_exact(&energy, precision).map_err(|e| wrong(&e))?;
    let mut interrupted = None;
    let mut observe = |_: &_| match Python::attach(|py| py.check_signals()) {
        Ok(()) => Control::Continue,
        Err(signal) => {
            interrupted = Some(signal);
            Control::Abort
        }
    };
    let report = match linear {
        LinearSolver::Cg => {
            let sizes = Some(data.dims().to_vec());
            let solver = Solver::compile(energy, &CompileOptions { sizes, ..options.compile });
            let solver = solver.map_err(failure)?;
            let mut problem = solver.plan(&data).map_err(failure)?;
            problem.solve_with(&mut data, &options.solve, &mut observe).map_err(failure)?
        }
        LinearSolver::Cholesky => {
            let done = solve_with(&energy, &mut data, &options.compile, &options.solve, linear, &mut observe);
            done.map_err(|e| wrong(&e))?
        }
    };
    match interrupted {
        Some(signal) => Err(signal),
        None => Ok((data.unknown_arrays(precision), report)),
    }
}

fn failure(error: SolveError) -> PyErr {
    let text = error.to_string();
    match error {
        SolveError::Memory { .. } => PyMemoryError::new_err(text),
        SolveError::Energy(error) => PyValueError::new_err(error.rendered()),
        SolveError::Option(_) | SolveError::InitialNotFinite { .. } => PyValueError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// Options by name, as `sumsq solve` has them, with underscores.
const NAMES: [&str; 23] = [
    "backend",
    "device",
    "eta",
    "forcing",
    "function_tolerance",
    "gradient_tolerance",
    "iterations",
    "linear_iterations",
    "linear_solver",
    "linear_tolerance",
    "losses",
    "materialize",
    "max_memory",
    "max_seconds",
    "method",
    "passes",
    "precision",
    "preconditioner",
    "radius",
    "running_scales",
    "step_tolerance",
    "target",
    "threads",
];

/// A value of an option among some words.
fn word<T: Copy>(name: &str, text: &str, words: &[(T, &str)]) -> Result<T, Refused> {
    let found = words.iter().find(|(_, known)| *known == text);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(_, known)| *known).collect();
        Refused::Option { name: name.into(), expected: known.join(" or "), came: text.into() }
    })
}

/// A value of an option that is read from text.
fn value<T: FromStr>(name: &str, text: &str, expected: &str) -> Result<T, Refused> {
    let refused = || Refused::Option { name: name.into(), expected: expected.into(), came: text.into() };
    text.parse().map_err(|_| refused())
}

/// Reads options, and checks their ranges.
fn read(given: &[(String, String)]) -> PyResult<(Options, LinearSolver)> {
    let (mut compile, mut solve) = (CompileOptions::default(), SolveOptions::default());
    let mut linear = LinearSolver::Cg;
    for (name, text) in given {
        let whole = || value::<usize>(name, text, "a whole number");
        let number = || value::<f64>(name, text, "a number");
        match name.as_str() {
            "backend" => {
                let all = [(Backend::Auto, "auto"), (Backend::Cpu, "cpu"), (Backend::Cuda, "cuda")];
                compile.backend = word(name, text, &all)?;
            }
            "device" => compile.device = whole()?,
            "eta" => solve.eta = Some(number()?),
            "forcing" => solve.forcing = number()?,
            "function_tolerance" => solve.function_tolerance = Some(number()?),
            "gradient_tolerance" => solve.gradient_tolerance = number()?,
            "iterations" => solve.iterations = Some(whole()?),
            "linear_iterations" => solve.linear_iterations = Some(whole()?),
            "linear_solver" => {
                linear =
                    word(name, text, &[(LinearSolver::Cg, "pcg"), (LinearSolver::Cholesky, "cholesky")])?;
            }
            "linear_tolerance" => solve.linear_tolerance = Some(number()?),
            "losses" => {
                let all = [
                    (LossOrder::Declared, "declared"),
                    (LossOrder::First, "first_order"),
                    (LossOrder::Second, "second_order"),
                ];
                compile.losses = word(name, text, &all)?;
            }
            "materialize" => {
                let short =
                    Overrides::short(text).map_err(|e| PyValueError::new_err(format!("{name}: {e}")))?;
                compile.choices = short;
            }
            "max_memory" => {
                let bytes = "bytes, as in 8000000 or 1.5G, or a share, as in 50%";
                compile.max_memory = Some(value::<MemoryLimit>(name, text, bytes)?);
            }
            "max_seconds" => {
                let time = number().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                solve.max_time = Some(time.ok_or_else(|| Refused::Option {
                    name: name.clone(),
                    expected: "a number of seconds".into(),
                    came: text.clone(),
                })?);
            }
            "method" => {
                solve.method =
                    word(name, text, &[(Method::LevenbergMarquardt, "lm"), (Method::GaussNewton, "gn")])?;
            }
            "passes" => {
                compile.passes = text.parse().map_err(|e| PyValueError::new_err(format!("{name}: {e}")))?;
            }
            "precision" => {
                let all = [(Precision::Mixed, "mixed"), (Precision::F32, "f32"), (Precision::F64, "f64")];
                compile.precision = word(name, text, &all)?;
            }
            "preconditioner" => compile.preconditioner = word(name, text, Preconditioner::ALL)?,
            "radius" => solve.radius = Some(number()?),
            "running_scales" => {
                solve.running_scales = Some(word(name, text, &[(true, "True"), (false, "False")])?);
            }
            "step_tolerance" => solve.step_tolerance = number()?,
            "target" => compile.target = word(name, text, Level::ALL)?,
            "threads" => compile.threads = Some(whole()?),
            _ => {
                let known = NAMES.join(", ");
                return Err(Refused::UnknownOption { name: name.clone(), known }.into());
            }
        }
    }
    // Steps by Cholesky are exact however little is damped.
    if linear == LinearSolver::Cholesky {
        solve.radius = solve.radius.or(Some(1e8));
    }
    let options = Options { compile, solve };
    options.check().map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((options, linear))
}
