//! The demos: each builds a problem from real input and draws its solution.
//!
//! A demo's inputs are part of the program, so that it runs from anywhere. A demo of several passes compiles its energy once
//! and changes arrays, graphs, params or dims in between.

pub mod arap_mesh_deformation;
pub mod burst_demosaicking;
pub mod cotangent_mesh_smoothing;
mod deconvolution;
pub mod embedded_deformation;
mod handle;
pub mod image_warping;
pub mod intrinsic_image_decomposition;
pub mod lens_design;
pub mod optical_flow;
pub mod poisson_image_editing;
pub mod robust_nonrigid_alignment;
mod run;
pub mod shape_from_shading;
pub mod volumetric_mesh_deformation;

use run::Run;
pub use run::{Measure, Observer, Outcome, Pass};

use crate::Vec3;
use crate::deconvolution::DeconvolutionError;
use crate::io::{FileError, Outputs};
use crate::pipelines::PipelineError;
use crate::plot::PlotError;
use std::path::Path;
use sumsq::codegen::runtime::BufferError;
use sumsq::energy::{Energy, EnergyError};
use sumsq::pipeline_energy::PipelineEnergyError;
use sumsq::{ArrayData, DataError, NamedArray, Options, ProblemData, SolveError, Solver};

/// A demo.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// Its name, and its energy's.
    pub name: &'static str,
    /// Description in a line.
    pub about: &'static str,
    play: fn(&mut Run<'_>) -> Result<(), DemoError>,
    /// The inputs of its first solve; none if its energy is no text.
    problem: Option<fn() -> Result<Problem, DemoError>>,
}

/// All demos.
pub const ALL: [Demo; 13] = [
    Demo {
        name: "image_warping",
        about: "a picture is bent by a few dragged pixels",
        play: image_warping::play,
        problem: Some(image_warping::first),
    },
    Demo {
        name: "arap_mesh_deformation",
        about: "a mesh is bent by a few posed vertices",
        play: arap_mesh_deformation::play,
        problem: Some(arap_mesh_deformation::first),
    },
    Demo {
        name: "poisson_image_editing",
        about: "a piece of one picture is cloned into another without a seam",
        play: poisson_image_editing::play,
        problem: Some(poisson_image_editing::first),
    },
    Demo {
        name: "cotangent_mesh_smoothing",
        about: "a noisy mesh is smoothed, its cotangent weights recomputed all the while",
        play: cotangent_mesh_smoothing::play,
        problem: Some(cotangent_mesh_smoothing::first),
    },
    Demo {
        name: "embedded_deformation",
        about: "a coarse graph of affine maps is posed and carries a fine mesh along",
        play: embedded_deformation::play,
        problem: Some(embedded_deformation::first),
    },
    Demo {
        name: "volumetric_mesh_deformation",
        about: "a lattice around a hand is twisted and bent, and the hand with it",
        play: volumetric_mesh_deformation::play,
        problem: Some(volumetric_mesh_deformation::first),
    },
    Demo {
        name: "robust_nonrigid_alignment",
        about: "a face is fitted to a scan of another expression, with clutter in it",
        play: robust_nonrigid_alignment::play,
        problem: Some(robust_nonrigid_alignment::first),
    },
    Demo {
        name: "shape_from_shading",
        about: "a noisy depth map takes its details from the photograph",
        play: shape_from_shading::play,
        problem: Some(shape_from_shading::first),
    },
    Demo {
        name: "optical_flow",
        about: "where the pixels of one frame went in the next, from coarse to fine",
        play: optical_flow::play,
        problem: Some(optical_flow::first),
    },
    Demo {
        name: "intrinsic_image_decomposition",
        about: "a photograph is taken apart into colours and light",
        play: intrinsic_image_decomposition::play,
        problem: Some(intrinsic_image_decomposition::first),
    },
    Demo {
        name: "burst_demosaicking",
        about: "a burst of raw frames becomes one sharp picture, and is aligned on the way",
        play: burst_demosaicking::play,
        problem: None,
    },
    Demo {
        name: "lens_design",
        about: "a camera lens becomes shorter and stays as sharp as it can",
        play: lens_design::play,
        problem: None,
    },
    Demo {
        name: "deconvolution",
        about: "a photograph blurred by a moving camera becomes sharp, by numbers that were trained",
        play: deconvolution::play,
        problem: None,
    },
];

impl Demo {
    /// The demo of that name.
    pub fn find(name: &str) -> Option<Demo> {
        ALL.into_iter().find(|demo| demo.name == name)
    }

    /// Tells whether its energy is a text, not a pipeline.
    pub fn has_text(&self) -> bool {
        self.problem.is_some()
    }

    /// Returns what its first solve is given.
    ///
    /// # Errors
    /// A demo whose energy is a pipeline, or data that cannot be read.
    pub fn problem(&self) -> Result<Problem, DemoError> {
        match self.problem {
            Some(problem) => problem(),
            None => Err(DemoError::NoText { demo: self.name }),
        }
    }

    /// Runs it; pictures go to the folder `out`, which exists.
    pub fn run(&self, out: &Path, observer: Observer<'_>) -> Result<Outcome, DemoError> {
        let mut outputs = Outputs::default();
        let outcome = self.run_for(out, &mut outputs, observer)?;
        outputs.commit()?;
        Ok(outcome)
    }

    /// Runs it; its pictures wait among the other `outputs`.
    pub fn run_for(
        &self,
        out: &Path,
        outputs: &mut Outputs,
        observer: Observer<'_>,
    ) -> Result<Outcome, DemoError> {
        let mut run = Run::new(self.name, out, outputs, observer);
        (self.play)(&mut run)?;
        Ok(run.outcome)
    }
}

/// A problem, ready to be solved.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The energy's name, as in `examples/energies/<name>.t`.
    pub energy: &'static str,
    /// The text of its energy file.
    pub text: &'static str,
    /// Unknowns (at their start), arrays, params and graphs, by name.
    pub inputs: Vec<NamedArray>,
    /// Options of the solver.
    pub options: Options,
}

impl Problem {
    /// The energy as machine code, and the inputs bound to it.
    pub fn compile(&self) -> Result<(Solver, ProblemData<'_>), DemoError> {
        let energy = Energy::from_text(self.energy, self.text)?;
        let data = ProblemData::bind(&energy, &self.inputs)?;
        Ok((Solver::compile(energy, &self.options.compile)?, data))
    }
}

/// Reason why a demo has no pictures.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DemoError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Plot(#[from] PlotError),
    #[error(transparent)]
    Energy(#[from] EnergyError),
    #[error(transparent)]
    Inputs(#[from] DataError),
    #[error(transparent)]
    Solve(#[from] SolveError),
    #[error(transparent)]
    Pipeline(#[from] PipelineEnergyError),
    #[error(transparent)]
    Engine(#[from] sumsq::codegen::Error),
    #[error(transparent)]
    Buffer(#[from] BufferError),
    #[error("the energy of {demo} is a pipeline, not a text: it has no inputs for `sumsq solve`")]
    NoText { demo: &'static str },
    #[error(transparent)]
    Applied(#[from] PipelineError),
    #[error(transparent)]
    Deconvolution(#[from] DeconvolutionError),
    #[error("the demo's own data: {0}")]
    Data(String),
}

/// A float32 array.
fn floats(name: &str, shape: &[usize], values: Vec<f32>) -> NamedArray {
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data: ArrayData::F32(values) }
}

/// A 0-d float32 parameter.
fn param(name: &str, value: f32) -> NamedArray {
    floats(name, &[], vec![value])
}

/// The int32 index arrays `G.v0`, `G.v1`... of a graph with these hyperedges.
fn graph<const N: usize>(edges: &[[u32; N]]) -> [NamedArray; N] {
    std::array::from_fn(|slot| {
        let vertex = edges.iter().map(|edge| i64::from(edge[slot])).collect();
        NamedArray {
            name: format!("G.v{slot}"),
            shape: vec![edges.len()],
            data: ArrayData::Int(vertex, "int32"),
        }
    })
}

/// The unknown of that name among a solution's, as points.
fn points(solution: &[NamedArray], name: &str, count: usize) -> Result<Vec<Vec3>, DemoError> {
    Ok(rows::<3>(solution, name, count)?.into_iter().map(Vec3::from).collect())
}

/// The unknown of that name among a solution's, as rows of N numbers.
fn rows<const N: usize>(
    solution: &[NamedArray],
    name: &str,
    count: usize,
) -> Result<Vec<[f32; N]>, DemoError> {
    let found = solution.iter().find(|array| array.name == name);
    let values: Vec<f32> = match found.map(|array| &array.data) {
        Some(ArrayData::F32(values)) => values.clone(),
        Some(ArrayData::F64(values)) => values.iter().map(|&v| v as f32).collect(),
        _ => return Err(DemoError::Data(format!("the solution has no floats named `{name}`"))),
    };
    let rows: Vec<[f32; N]> = values.as_chunks::<N>().0.to_vec();
    if rows.len() == count && values.len() == N * count {
        Ok(rows)
    } else {
        Err(DemoError::Data(format!("`{name}` has {} numbers, expected {count} x {N}", values.len())))
    }
}
