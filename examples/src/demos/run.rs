//! One run of a demo: what it solves, draws and measures, collected for whoever started it.

use super::{DemoError, Problem};
use crate::io::{FileError, Mesh, Outputs, picture};
use crate::plot;
use image::RgbImage;
use std::path::{Path, PathBuf};
use sumsq::{Control, Iteration, NamedArray, ProblemData, Report, SolveOptions};

/// Told after each step which pass is running.
pub type Observer<'a> = &'a mut dyn FnMut(&str, &Iteration);

/// A solve within a demo.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Description in a word or two.
    pub label: String,
    /// The report.
    pub report: Report,
}

/// A figure that a demo is judged by, at its start and at its end. Smaller is better.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The thing that is measured, against what.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Of the input.
    pub before: f64,
    /// Of the result.
    pub after: f64,
}

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every solve, in order.
    pub passes: Vec<Pass>,
    /// Figures against ground truth.
    pub measures: Vec<Measure>,
    /// Files of the run.
    pub files: Vec<PathBuf>,
}

/// A run in progress.
pub(super) struct Run<'a> {
    name: &'static str,
    out: &'a Path,
    outputs: &'a mut Outputs,
    observer: Observer<'a>,
    pub(super) outcome: Outcome,
}

impl<'a> Run<'a> {
    /// A run whose files go to the folder `out`, which exists, with the other `outputs`.
    pub(super) fn new(
        name: &'static str,
        out: &'a Path,
        outputs: &'a mut Outputs,
        observer: Observer<'a>,
    ) -> Run<'a> {
        Run { name, out, outputs, observer, outcome: Outcome::default() }
    }

    /// Compiles, plans and solves a problem; its unknowns at the end.
    pub(super) fn solve(&mut self, problem: &Problem) -> Result<Vec<NamedArray>, DemoError> {
        let (solver, mut data) = problem.compile()?;
        self.pass("solve", &mut solver.plan(&data)?, &mut data, &problem.options.solve)?;
        Ok(data.unknown_arrays(problem.options.compile.precision))
    }

    /// Solves a planned problem from the unknowns in `data`, which become the result.
    pub(super) fn pass(
        &mut self,
        label: &str,
        problem: &mut sumsq::Problem,
        data: &mut ProblemData,
        options: &SolveOptions,
    ) -> Result<(), DemoError> {
        let mut observe = |step: &Iteration| {
            (self.observer)(label, step);
            Control::Continue
        };
        let report = problem.solve_with(data, options, &mut observe)?;
        self.outcome.passes.push(Pass { label: label.to_string(), report });
        Ok(())
    }

    /// Tells of a step of a solve that the demo runs itself.
    pub(super) fn observe(&mut self, label: &str, step: &Iteration) {
        (self.observer)(label, step);
    }

    /// Records such a solve.
    pub(super) fn reported(&mut self, label: &str, report: Report) {
        self.outcome.passes.push(Pass { label: label.to_string(), report });
    }

    /// Records a figure at the start and at the end.
    pub(super) fn measure(&mut self, name: &'static str, unit: &'static str, before: f64, after: f64) {
        self.outcome.measures.push(Measure { name, unit, before, after });
    }

    /// Writes a picture; `suffix` is empty or tells it from the demo's other ones.
    pub(super) fn picture(&mut self, suffix: &str, picture: &RgbImage) -> Result<(), DemoError> {
        self.file(&format!("{suffix}.png"), picture::encode_png(picture))
    }

    /// Writes a mesh.
    pub(super) fn mesh(&mut self, suffix: &str, mesh: &Mesh) -> Result<(), DemoError> {
        self.file(&format!("{suffix}.ply"), mesh.encode_ply())
    }

    fn file(&mut self, suffix: &str, bytes: std::io::Result<Vec<u8>>) -> Result<(), DemoError> {
        let path = self.out.join(format!("{}{suffix}", self.name));
        let bytes = bytes.map_err(|source| FileError::write(&path, source))?;
        self.outputs.add(&path, bytes)?;
        self.outcome.files.push(path);
        Ok(())
    }

    /// Draws E against the steps of all passes, one after the other.
    pub(super) fn plot(&mut self) -> Result<(), DemoError> {
        let plot = plot::energies(self.name, &self.energies())?;
        self.picture("_energy", &plot)
    }

    /// E at the start of each pass and after each of its steps.
    fn energies(&self) -> Vec<f64> {
        let of = |report: &Report| {
            let steps: Vec<f64> = report.iterations.iter().map(|step| step.energy).collect();
            std::iter::once(report.energy_initial).chain(steps)
        };
        self.outcome.passes.iter().flat_map(|pass| of(&pass.report)).collect()
    }
}

/// A picture from the bytes of a PNG or JPEG file that is part of the program.
pub(super) fn decode(bytes: &[u8]) -> Result<image::DynamicImage, DemoError> {
    picture::decode(bytes).map_err(DemoError::Data)
}
