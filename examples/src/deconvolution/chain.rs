//! The stages one after the other, and their derivative by those of their solutions: going back, each stage takes one linear solve.

use super::pipelines::{FILTERS, energy, targets};
use super::{Blurred, DeconvolutionError, Parameters, Result, Stage, Weights, buffer, filled, of_plane};
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::gradient::{propagate_adjoints, schedule};
use sumsq::codegen::runtime::{Buffer, Pool};
use sumsq::codegen::{Constraint, Input, Name, Pipeline, ScalarType, Target, in_floats};
use sumsq::pipeline_energy::{Curvature, PipelineSolver, Sensitivity};
use sumsq::{CompileOptions, Method, Precision, Report, SolveOptions};

/// Sources of the targets.
const SOURCES: [&str; 3] = ["image", "smooth", "threshold"];

/// The pipelines of a deconvolution as machine code, for pictures of any size.
pub struct Deconvolver {
    solver: PipelineSolver,
    targets: Compiled,
    sizes: Vec<(String, Vec<i32>)>,
    ty: ScalarType,
    pool: Pool,
    tolerance: f64,
}

/// The derivative of a [`Deconvolver`]'s solutions, compiled.
pub struct Derivative<'d> {
    of: &'d Deconvolver,
    /// From the adjoint of a stage's image to those of its weights and targets.
    solves: Sensitivity<'d>,
    /// From the adjoints `w_f` of the targets to those of what they are made of.
    targets: Compiled,
    outputs: Vec<Name>,
}

/// The image of each stage, with the targets that it was found by.
pub struct Solution {
    stages: Vec<Solved>,
    /// Of each stage's solve.
    pub reports: Vec<Report>,
}

struct Solved {
    image: Buffer,
    targets: Vec<Buffer>,
    weight: Buffer,
}

impl Solution {
    /// The image of the last stage.
    pub fn image(&self) -> Vec<f64> {
        self.stages.last().map_or(vec![], |s| s.image.to_vec())
    }
}

/// Sizes for schedules: of a sharp picture of this size, seen through a kernel of `side` x `side`.
pub(super) fn estimates([width, height]: [usize; 2], side: usize) -> Vec<(String, Vec<i32>)> {
    let [w, h, s] = [width, height, side].map(|n| n as i32);
    let mut sizes: Vec<(String, Vec<i32>)> = vec![
        ("image".into(), vec![w, h]),
        ("direction".into(), vec![w, h]),
        ("blurred".into(), vec![w - s + 1, h - s + 1]),
        ("apart".into(), vec![w - s + 1, h - s + 1]),
        ("kernel".into(), vec![s, s]),
        ("weight".into(), vec![3]),
        ("threshold".into(), vec![3]),
        ("smooth".into(), vec![2]),
    ];
    for f in &FILTERS {
        sizes.extend([f.prior, f.target, f.adjoint].map(|name| (name.to_string(), vec![w, h])));
    }
    sizes
}

/// `sizes` as borrowed names and extents.
pub(super) fn borrowed(sizes: &[(String, Vec<i32>)]) -> Vec<(&str, &[i32])> {
    sizes.iter().map(|(n, s)| (n.as_str(), s.as_slice())).collect()
}

/// The pipeline of the targets in one type of floats.
pub(super) fn targets_in(ty: ScalarType) -> Pipeline {
    in_floats(&targets(), ty, &SOURCES)
}

impl Deconvolver {
    /// For kernels of `side` x `side`, in float32 or float64; schedules are for sharp pictures of about this size. Linear systems are
    /// solved to `tolerance`, relative.
    pub fn new(
        side: usize,
        size: [usize; 2],
        precision: Precision,
        threads: Option<usize>,
        tolerance: f64,
    ) -> Result<Deconvolver> {
        let ty = if precision == Precision::F64 { ScalarType::F64 } else { ScalarType::F32 };
        let sizes = estimates(size, side);
        let named = borrowed(&sizes);
        let options = CompileOptions { precision, threads, ..CompileOptions::default() };
        let solver = energy(side as i32, ty).compile(&options, &named)?;
        let p = targets_in(ty);
        let targets = Compiled::new(&p, &schedule(&p, &named, &[], &[])?, &Target::host())?;
        let pool = threads.map_or_else(Pool::with_all_cores, Pool::new);
        Ok(Deconvolver { solver, targets, sizes, ty, pool, tolerance })
    }

    /// Compiles the derivative.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn derivative(&self) -> Result<Derivative<'_>> {
        let named = borrowed(&self.sizes);
        let wrt: Vec<&str> = std::iter::once("weight").chain(FILTERS.iter().map(|f| f.target)).collect();
        let solves = self.solver.sensitivity(&wrt, Curvature::GaussNewton, &named)?;
        let mut p = targets_in(self.ty);
        for f in &FILTERS {
            p.input(Input::strided(f.adjoint, &[self.ty], 2));
        }
        let seeds = FILTERS.each_ref().map(|f| (f.target, f.adjoint));
        let adjoints = propagate_adjoints(&mut p, &seeds, &SOURCES)?;
        p.outputs.clear();
        let (mut outputs, mut sizes) = (vec![], named.clone());
        for name in SOURCES {
            let none = || DeconvolutionError::Given(format!("the targets do not depend on {name}"));
            let d = adjoints.of(name).ok_or_else(none)?;
            p.output_strided(d, Constraint::defaults(d.vars.len()));
            outputs.push(d.name.clone());
        }
        for (name, d) in SOURCES.iter().zip(&outputs) {
            let size = named.iter().find(|(n, _)| n == name);
            sizes.extend(size.map(|(_, size)| (&**d, *size)));
        }
        let targets = Compiled::new(&p, &schedule(&p, &sizes, &[], &[])?, &Target::host())?;
        Ok(Derivative { of: self, solves, targets, outputs })
    }

    /// Deconvolves.
    ///
    /// # Errors
    /// A picture smaller than its kernel; a failure of the engine.
    pub fn run(&self, of: &Blurred, by: &Parameters) -> Result<Solution> {
        let given = Given::new(self.ty, of)?;
        let mut solution = Solution { stages: vec![], reports: vec![] };
        let mut image = of_plane(self.ty, &of.start())?;
        let weights = std::iter::once(&by.first).chain(by.later.iter().map(|s| &s.weights));
        for (k, weights) in weights.enumerate() {
            let targets = self.planes(of)?;
            if k > 0 {
                self.aim(&solution.stages[k - 1].image, &by.later[k - 1], &targets)?;
            }
            let solved = Solved { image, targets, weight: filled(self.ty, &[3], weights)? };
            let options = SolveOptions {
                method: Method::GaussNewton,
                iterations: Some(1),
                linear_tolerance: Some(self.tolerance),
                linear_iterations: Some(1000),
                ..SolveOptions::default()
            };
            solution.reports.push(self.solver.solve(&given.with(&solved), &mut [], &options)?);
            // The next stage begins where this one ends.
            image = self.plane(of)?;
            image.copy_from(&solved.image.to_vec::<f64>())?;
            solution.stages.push(solved);
        }
        Ok(solution)
    }

    fn plane(&self, of: &Blurred) -> Result<Buffer> {
        buffer(self.ty, &[of.truth.width, of.truth.height])
    }

    /// A plane for each filter, of zeros.
    fn planes(&self, of: &Blurred) -> Result<Vec<Buffer>> {
        FILTERS.iter().map(|_| self.plane(of)).collect()
    }

    fn numbers_of(&self, stage: &Stage) -> Result<[Buffer; 2]> {
        Ok([filled(self.ty, &[2], &stage.smooth)?, filled(self.ty, &[3], &stage.thresholds)?])
    }

    /// Computes the targets of a stage from the image of the one before.
    fn aim(&self, image: &Buffer, stage: &Stage, targets: &[Buffer]) -> Result<()> {
        let [smooth, threshold] = self.numbers_of(stage)?;
        let mut buffers: Vec<(&str, &Buffer)> =
            SOURCES.into_iter().zip([image, &smooth, &threshold]).collect();
        buffers.extend(FILTERS.iter().map(|f| f.target).zip(targets));
        Ok(self.targets.run(&self.pool, &buffers, &[])?)
    }
}

impl Derivative<'_> {
    /// From the adjoint of the last image to those of all numbers: in their places the slopes.
    ///
    /// # Errors
    /// A failure of the engine; a solution that is none, since its linear solves ended early.
    pub fn slopes(
        &self,
        of: &Blurred,
        by: &Parameters,
        solution: &Solution,
        image: &[f64],
    ) -> Result<Parameters> {
        let d = self.of;
        let given = Given::new(d.ty, of)?;
        let mut w = d.plane(of)?;
        w.copy_from(image)?;
        let mut slopes = by.clone();
        for (k, solved) in solution.stages.iter().enumerate().rev() {
            let (d_weight, d_targets) = (buffer(d.ty, &[3])?, d.planes(of)?);
            let mut results = vec![("weight", &d_weight)];
            results.extend(FILTERS.iter().map(|f| f.target).zip(&d_targets));
            self.solves.run(&given.with(solved), &[], &[("image", &w)], &results, d.tolerance)?;
            let weights = numbers(&d_weight);
            if k == 0 {
                slopes.first = weights;
                break;
            }
            let (stage, before) = (&by.later[k - 1], &solution.stages[k - 1].image);
            let next = d.plane(of)?;
            let [thresholds, smooth] = self.back(before, stage, &d_targets, &next)?;
            let thresholds = numbers(&thresholds);
            let smooth = smooth.to_vec::<f64>();
            slopes.later[k - 1] = Stage { weights, thresholds, smooth: [smooth[0], smooth[1]] };
            w = next;
        }
        Ok(slopes)
    }

    /// From the adjoints of a stage's targets to those of the image before, in `d_image`, of its thresholds and of its smoothing.
    fn back(
        &self,
        image: &Buffer,
        stage: &Stage,
        adjoints: &[Buffer],
        d_image: &Buffer,
    ) -> Result<[Buffer; 2]> {
        let d = self.of;
        let [smooth, threshold] = d.numbers_of(stage)?;
        let (d_smooth, d_threshold) = (buffer(d.ty, &[2])?, buffer(d.ty, &[3])?);
        let mut buffers: Vec<(&str, &Buffer)> =
            SOURCES.into_iter().zip([image, &smooth, &threshold]).collect();
        buffers.extend(FILTERS.iter().map(|f| f.adjoint).zip(adjoints));
        buffers.extend(self.outputs.iter().map(|n| &**n).zip([d_image, &d_smooth, &d_threshold]));
        self.targets.run(&d.pool, &buffers, &[])?;
        Ok([d_threshold, d_smooth])
    }
}

/// The three numbers of a buffer.
fn numbers(of: &Buffer) -> Weights {
    let all = of.to_vec::<f64>();
    [all[0], all[1], all[2]]
}

/// The buffers of all stages.
struct Given {
    blurred: Buffer,
    kernel: Buffer,
}

impl Given {
    fn new(ty: ScalarType, of: &Blurred) -> Result<Given> {
        if of.blurred.values.is_empty() {
            return Err(DeconvolutionError::Given("the picture is smaller than its kernel".into()));
        }
        Ok(Given { blurred: of_plane(ty, &of.blurred)?, kernel: of_plane(ty, &of.kernel)? })
    }

    /// All buffers of a stage's energy.
    fn with<'a>(&'a self, solved: &'a Solved) -> Vec<(&'a str, &'a Buffer)> {
        let own = [
            ("image", &solved.image),
            ("weight", &solved.weight),
            ("blurred", &self.blurred),
            ("kernel", &self.kernel),
        ];
        own.into_iter().chain(FILTERS.iter().map(|f| f.target).zip(&solved.targets)).collect()
    }
}
