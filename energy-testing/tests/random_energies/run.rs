//! A case through the product, compared with the interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq::assembled::Explicit;
use sumsq::energy::Energy;
use sumsq::{ArrayData, NamedArray, ProblemData};
use sumsq_energy_testing::case::{Case, Field, Kind, Source};
use sumsq_energy_testing::system::{Noise, System, bounds, system};

/// Share by which results of the interpreter are off to see how far rounding reaches: some ten thousand roundings.
pub const NOISE: Noise = Noise::new(1e-11, 0.0);
/// Times the largest change by that noise that an answer may be off.
const SLACK: f64 = 16.0;

/// Outcome of a case.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// All that could be judged is the same: residuals, and those of them that are finite.
    Same { rows: usize, judged: usize },
    /// The front end refuses it.
    Refused(String),
    /// Anything else, in words.
    Wrong(String),
}

/// Runs a comparison; panics are caught.
pub fn caught(f: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Outcome::Wrong(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// The interpreter's figures for a case, and how far each figure may be off.
pub struct Expected {
    pub exact: System,
    noisy: [System; 2],
}

impl Expected {
    pub fn new(case: &Case, x: &[f64], noise: Noise) -> Expected {
        let noisy = |seed| system(case, x, noise.seeded(seed));
        Expected { exact: system(case, x, Noise::NONE), noisy: [noisy(1), noisy(2)] }
    }

    /// Fails where a figure came that is not the expected one. Figures that are not finite are not judged; returns how many were.
    pub fn compare(
        &self,
        what: &str,
        came: &[f64],
        figures: impl Fn(&System) -> Vec<f64>,
    ) -> Result<usize, String> {
        let (exact, noisy) = (figures(&self.exact), [0, 1].map(|k| figures(&self.noisy[k])));
        if came.len() != exact.len() {
            return Err(format!("{what}: {} came, not {}", came.len(), exact.len()));
        }
        let mut judged = 0;
        for (i, (&came, &want)) in came.iter().zip(&exact).enumerate() {
            let off = noisy.iter().map(|n| (n[i] - want).abs()).fold(0.0, f64::max);
            let largest = noisy.iter().any(|n| !n[i].is_finite());
            if !want.is_finite() || largest {
                continue;
            }
            judged += 1;
            let bound = SLACK * off + 1e-13 * want.abs() + 1e-290;
            if (came - want).abs() > bound || came.is_nan() {
                return Err(format!("{what}[{i}] is {came:e}, not {want:e} within {bound:e}"));
            }
        }
        Ok(judged)
    }
}

/// The energy of a case with its data.
pub fn bind(case: &Case) -> Result<(Energy, ProblemData<'static>), String> {
    let energy = Energy::from_text("case.t", &case.text()).map_err(|e| e.to_string())?;
    let data = ProblemData::bind(&energy, &arrays(case)).map_err(|e| e.to_string())?.into_owned();
    Ok((energy, data))
}

/// The data of a case by name, shapes slowest first.
fn arrays(case: &Case) -> Vec<NamedArray> {
    let mut all = Vec::new();
    let fixed = |d: &usize| case.fields.iter().any(|f| case.spaces[f.space].contains(d));
    for d in (0..case.extents.len()).filter(|d| !fixed(d)) {
        let data = ArrayData::Int(vec![case.extents[d] as i64], "int64");
        all.push(NamedArray { name: format!("D{d}"), shape: vec![], data });
    }
    for (f, field) in case.fields.iter().enumerate() {
        if matches!(field.kind, Kind::View(_)) {
            continue;
        }
        let dims = &case.spaces[field.space];
        let mut shape: Vec<usize> = dims.iter().rev().map(|&d| case.extents[d]).collect();
        if field.channels > 1 {
            shape.push(field.channels);
        }
        all.push(NamedArray { name: case.name(Source::Field(f)), shape, data: data(field) });
    }
    for (p, values) in case.params.iter().enumerate() {
        let shape = if values.len() == 1 { vec![] } else { vec![values.len()] };
        all.push(NamedArray { name: format!("p{p}"), shape, data: ArrayData::F64(values.clone()) });
    }
    for (g, graph) in case.graphs.iter().enumerate() {
        for (v, &space) in graph.spaces.iter().enumerate() {
            let places = graph.edges.iter().flat_map(|e| case.coordinates(space, e[v]));
            let dims = case.spaces[space].len();
            let shape = if dims == 1 { vec![graph.edges.len()] } else { vec![graph.edges.len(), dims] };
            let data = ArrayData::Int(places.collect(), "int64");
            all.push(NamedArray { name: format!("G{g}.v{v}"), shape, data });
        }
    }
    all
}

fn data(field: &Field) -> ArrayData {
    let values = &field.values;
    match field.kind {
        Kind::Array("uint8") => ArrayData::Bytes(values.iter().map(|&v| v as u8).collect()),
        Kind::Array("bool") => ArrayData::Bool(values.iter().map(|&v| v != 0.0).collect()),
        Kind::Array("int" | "int8" | "int16" | "int64" | "uint16" | "uint32") => {
            ArrayData::Int(values.iter().map(|&v| v as i64).collect(), "int32")
        }
        Kind::Unknown("float") | Kind::Array("float") => {
            ArrayData::F32(values.iter().map(|&v| v as f32).collect())
        }
        _ => ArrayData::F64(values.clone()),
    }
}

/// Compares the assembled path: every residual, the rows of J, E, g, diag(J^T J), J^T J v, the bounds.
pub fn assembled(case: &Case) -> Outcome {
    match compare_assembled(case) {
        Ok(Ok((rows, judged))) => Outcome::Same { rows, judged },
        Ok(Err(refused)) => Outcome::Refused(refused),
        Err(wrong) => Outcome::Wrong(wrong),
    }
}

/// Tells whether some bound is NaN, which is refused.
fn open_bounds(case: &Case) -> bool {
    let (lower, upper) = bounds(case);
    lower.iter().chain(&upper).any(|b| b.is_nan())
}

type Judged = Result<(usize, usize), String>;

fn compare_assembled(case: &Case) -> Result<Judged, String> {
    let (energy, data) = match bind(case) {
        Ok(bound) => bound,
        Err(refused) => return Ok(Err(refused)),
    };
    let problem = match Explicit::new(&energy, &data) {
        Ok(problem) => problem,
        Err(e) if open_bounds(case) => return Ok(Err(e.to_string())),
        Err(e) => return Err(e.to_string()),
    };
    let x = case.x();
    if data.x() != x {
        return Err("the unknowns are bound in another order".into());
    }
    let expected = Expected::new(case, &x, NOISE);
    if !expected.exact.known {
        return Ok(Ok((0, 0)));
    }
    let residuals = |s: &System| s.rows.iter().map(|r| r.residual).collect();
    let judged = expected.compare("residual", &problem.residuals(&x), residuals)?;
    let free: Vec<u32> = (0..x.len() as u32).filter(|&s| expected.exact.free[s as usize]).collect();
    if problem.free_scalars() != free {
        return Err(format!("free are {:?}, not {free:?}", problem.free_scalars()));
    }
    let mut came = Vec::new();
    let jacobian = problem.jacobian(&x);
    for row in jacobian.outer_iterator() {
        let mut dense = vec![0.0; x.len()];
        row.iter().for_each(|(column, &v)| dense[free[column] as usize] = v);
        came.extend(dense);
    }
    let scalars = x.len();
    // Of a row that is not finite nothing is said, be it 0 by structure.
    let entries = |s: &System| {
        let mut all = vec![0.0; s.rows.len() * scalars];
        for (r, row) in s.rows.iter().enumerate() {
            match row.is_finite() {
                true => row.slopes.iter().for_each(|(c, v)| all[r * scalars + c] = *v),
                false => all[r * scalars..][..scalars].fill(f64::NAN),
            }
        }
        all
    };
    expected.compare("J", &came, entries)?;
    if let Some(came) = problem.bounds() {
        let (lower, upper) = bounds(case);
        for (side, came, want) in [("lower", &came.lower, lower), ("upper", &came.upper, upper)] {
            let off = |(c, w): (&f64, &f64)| !w.is_nan() && c != w && (c - w).abs() > 1e-12 * w.abs();
            if let Some(i) = came.concat().iter().zip(&want).position(off) {
                return Err(format!("{side} bound {i} is {}, not {}", came.concat()[i], want[i]));
            }
        }
    }
    let energies = problem.energies(&x).by_group;
    if !expected.exact.is_finite() {
        return Ok(Ok((expected.exact.rows.len(), judged)));
    }
    expected.compare("E of group", &energies, |s| s.energies.clone())?;
    expected.compare("J^T r", &problem.scatter(&problem.gradient(&x)), System::gradient)?;
    expected.compare("diag(J^T J)", &problem.scatter(&problem.diag(&x)), System::diagonal)?;
    let v: Vec<f64> = (0..x.len()).map(|i| ((i * 37 + 11) % 19) as f64 / 8.0 - 1.1).collect();
    let masked =
        |s: &System| v.iter().zip(&s.free).map(|(v, f)| if *f { *v } else { 0.0 }).collect::<Vec<_>>();
    let product = problem.scatter(&problem.jtjv(&x, &problem.gather(&v)));
    expected.compare("J^T J v", &product, |s| s.product(&masked(s)))?;
    Ok(Ok((expected.exact.rows.len(), judged)))
}
