//! What a solve says about itself.

use serde::Serialize;

/// Why a solve ended. The unknowns are always those of the last good iterate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// max|g| <= 1e-10, or <= gradient_rtol times that at the start. GN: g = 0.
    GradientTolerance,
    /// An accepted step with |E - E_new| <= function_tolerance * E.
    FunctionTolerance,
    /// |s| <= 1e-8 (|x| + 1e-8) (f32: 1e-7).
    StepTolerance,
    /// Predicted and actual decrease both below the noise of E.
    NoiseFloor,
    /// As many steps as allowed.
    MaxIterations,
    /// The time was up.
    MaxSeconds,
    /// The callback said stop.
    UserAbort,
    /// The trust region shrank below its least radius.
    MinRadius,
    /// Everything is excluded: nothing to solve, E = 0.
    NoFreeUnknown,
    /// Gauss-Newton: E after the step is not finite.
    Diverged,
    /// Five steps in a row without a valid model or with a non-finite energy.
    InvalidSteps,
}

impl Termination {
    /// The name in reports: `gradient_tolerance`.
    pub fn name(self) -> &'static str {
        use Termination::*;
        match self {
            GradientTolerance => "gradient_tolerance",
            FunctionTolerance => "function_tolerance",
            StepTolerance => "step_tolerance",
            NoiseFloor => "noise_floor",
            MaxIterations => "max_iterations",
            MaxSeconds => "max_seconds",
            UserAbort => "user_abort",
            MinRadius => "min_radius",
            NoFreeUnknown => "no_free_unknown",
            Diverged => "diverged",
            InvalidSteps => "invalid_steps",
        }
    }
}

/// Why PCG ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinearStop {
    /// |r| <= tau |b|.
    Tolerance,
    /// k (Q_k - Q_{k-1}) <= zeta Q_k.
    Model,
    /// sqrt(r.z) <= eta sqrt(r0.z0).
    PreconditionedNorm,
    /// The iteration limit.
    Limit,
    /// p.Ap <= 0.
    Indefinite,
    /// A scalar became NaN or infinite.
    NotFinite,
}

/// One step and the state after it; a rejected step keeps the old energy.
#[derive(Clone, Debug, Serialize)]
pub struct Iteration {
    /// 1 for the first step.
    pub iteration: usize,
    /// E = sum r^2.
    pub energy: f64,
    /// E per residual group, in order of declaration.
    pub energy_by_group: Vec<f64>,
    /// max|g|, g = J^T r, over free unknowns.
    pub gradient_max_norm: f64,
    /// |s|_2.
    pub step_norm: f64,
    /// Actual over predicted decrease.
    pub gain_ratio: f64,
    /// Trust-region radius after the step; infinite for Gauss-Newton.
    pub radius: f64,
    /// Whether the step was taken.
    pub accepted: bool,
    /// PCG iterations.
    pub linear_iterations: usize,
    /// Why PCG ended.
    pub linear_stop: LinearStop,
    /// |r|/|b| of the recurred residual.
    pub linear_residual: f64,
    /// Wall-clock seconds of the step.
    pub seconds: f64,
}

/// Wall-clock seconds per phase.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Seconds {
    /// Energy to machine code.
    pub compile: f64,
    /// Buffers and incidence lists.
    pub plan: f64,
    /// The iterations.
    pub solve: f64,
}

/// The report of a solve. Serialised as JSON, non-finite numbers become null.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// E at the start.
    pub energy_initial: f64,
    /// E at the end.
    pub energy_final: f64,
    /// Why it ended.
    pub termination: Termination,
    /// One entry per step.
    pub iterations: Vec<Iteration>,
    /// Free scalars.
    pub unknowns: usize,
    /// Residual instances that count.
    pub residuals: usize,
    /// Free scalars whose column of J is zero.
    pub unconstrained: usize,
    /// PCG iterations of all steps.
    pub linear_iterations_total: usize,
    /// `lm` or `gn`.
    pub method: &'static str,
    /// `none`, `jacobi` or `block_jacobi`.
    pub preconditioner: &'static str,
    /// `cpu` or `cuda`.
    pub backend: &'static str,
    /// Name of the processor.
    pub device: String,
    /// `mixed`, `f32` or `f64`.
    pub precision: &'static str,
    /// Worker threads.
    pub threads: usize,
    /// Times.
    pub seconds: Seconds,
    /// Things the user should know.
    pub warnings: Vec<String>,
    /// Whether the solve failed because energies or linear systems were not finite; the unknowns are the last good ones.
    #[serde(skip)]
    pub non_finite: bool,
}
