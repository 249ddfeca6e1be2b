//! Energies whose residuals are Funcs of a whole pipeline: E(x) = sum rho(|r|^2) over the elements of each residual Func, where x are inputs
//! and float parameters of the pipeline.
//!
//! ```text
//! PipelineEnergy --derive--> E; g = J^T r; squares for M; J^T J p = adjoint of tangent, and the values that it keeps between two p
//!                --compile--> PipelineSolver --solve--> Report, unknowns in place
//! ```
//! The outer loop is that of every solve (`outer`), over vectors in float64 on the host, on the threads that the pipelines have.
//!
//! | file | what |
//! |---|---|
//! | `derive` | the pipelines |
//! | `kept` | the product in two: values of x alone, and the rest |
//! | `compiled` | their machine code, buffers and runs |
//! | `model` | the same as a `Model` of `outer::host`, with its preconditioner |
//! | `solve`, `error` | a solve, its report and errors |
//! | `beside` | an ordinary energy over the same unknowns |
//! | `first_order` | descent, Adam, L-BFGS, for comparison |
//! | `certificate` | the derived routines beside finite differences of E |
//! | `sensitivity` | the derivative of a solution |
//!
//! Preconditioner: the adjoint with squared partials ([`propagate_squares`](sumsq_codegen::gradient::propagate_squares)) in place of
//! diag(J^T J), and one dense block for each unknown of up to 64 scalars, its columns from products with J^T J.

mod beside;
mod certificate;
mod compiled;
mod derive;
mod error;
mod first_order;
mod kept;
mod model;
mod sensitivity;
mod solve;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use error::PipelineEnergyError;
pub use first_order::{Course, Descent, FirstOrder};
pub use sensitivity::{Curvature, LinearReport, Sensitivity};
pub use solve::PipelineSolver;

use sumsq_codegen::{Expr, Name, Pipeline};
use sumsq_energy::dag::{Dag, ExprId};
use sumsq_energy::losses::LossKind;

/// A formula of a loss: rho as an expression of the squared norm.
type Formula = fn(&mut Dag, ExprId) -> ExprId;

/// The energy of one element of a residual Func, as a function rho of the sum q of squares of its tuple.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    /// q itself.
    Squares,
    /// A loss of the table of robust losses.
    Robust {
        /// Which.
        kind: LossKind,
        /// Its scale, above 0: the size of a residual from which it counts as an outlier.
        scale: f64,
        /// True if J^T J is to hold the loss's own curvature (Triggs' correction), or its slope alone.
        second_order: bool,
    },
    /// rho as an expression of q, with rho(0) = 0.
    Formula {
        /// The expression.
        rho: Formula,
        /// As above.
        second_order: bool,
    },
}

/// A pipeline that is derived of an energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DerivedPipeline {
    /// E of each residual Func.
    Energy,
    /// J^T (rho' r).
    Gradient,
    /// The stand-in for diag(J^T rho' J).
    Diagonal,
    /// Values that products keep.
    Kept,
    /// J^T W J p.
    Product,
}

/// An unknown.
#[derive(Clone, Debug)]
struct Unknown {
    name: Name,
    lower: f64,
    upper: f64,
}

/// A Func whose elements are residuals.
#[derive(Clone, Debug)]
struct Residual {
    func: Name,
    /// First coordinate and extent of each dimension, if not that of its buffer.
    domain: Option<Vec<(Expr, Expr)>>,
    loss: Loss,
}

/// An energy over a pipeline, to be compiled. It says what is solved for, and which Funcs are residuals.
///
/// ```
/// use sumsq::pipeline_energy::{Loss, PipelineEnergy};
/// use sumsq::codegen::runtime::{Buffer, BufferSpec};
/// use sumsq::codegen::{Input, Pipeline, ScalarType::F32, Source, Var};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Fits a line a + b x to y: two parameters, one residual for each y.
/// let (x, mut p) = (Var::new("x"), Pipeline::new("line"));
/// let y = p.input(Input::new("y", &[F32], 1));
/// let (a, b) = (p.param("a", F32), p.param("b", F32));
/// p.define("apart", [x], a + b * x.expr().cast(F32) - y.of(x));
/// let energy = PipelineEnergy::new(p)
///     .unknown("a")
///     .unknown("b")
///     .residual_over("apart", &[(0.into(), y.extent(0))], Loss::Squares);
/// let solver = energy.compile(&Default::default(), &[("y", &[4])])?;
///
/// let y = Buffer::new(BufferSpec::new(F32, &[4]))?;
/// y.copy_from(&[1.0f32, 3.0, 5.0, 7.0])?;
/// let mut line = [("a", 0.0f32.into()), ("b", 0.0f32.into())];
/// let report = solver.solve(&[("y", &y)], &mut line, &Default::default())?;
/// assert!(report.energy_final < 1e-9, "{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PipelineEnergy {
    pipeline: Pipeline,
    unknowns: Vec<Unknown>,
    residuals: Vec<Residual>,
    /// Funcs whose values products keep whatever they cost, and those that products compute again.
    keep: Vec<Name>,
    recompute: Vec<Name>,
    /// Schedules, as text.
    schedules: Vec<(DerivedPipeline, String)>,
}

impl PipelineEnergy {
    /// An energy without unknowns and residuals. The outputs of `pipeline` count as domains of residuals alone.
    pub fn new(pipeline: Pipeline) -> PipelineEnergy {
        let (unknowns, residuals, schedules) = (vec![], vec![], vec![]);
        PipelineEnergy { pipeline, unknowns, residuals, keep: vec![], recompute: vec![], schedules }
    }

    /// Solves for a float input, all of its elements, or for a float parameter.
    pub fn unknown(self, name: impl Into<Name>) -> PipelineEnergy {
        self.unknown_in(name, f64::NEG_INFINITY, f64::INFINITY)
    }

    /// As [`PipelineEnergy::unknown`], with every scalar kept in `[lower, upper]`.
    pub fn unknown_in(mut self, name: impl Into<Name>, lower: f64, upper: f64) -> PipelineEnergy {
        self.unknowns.push(Unknown { name: name.into(), lower, upper });
        self
    }

    /// Adds the elements of a Func over the domain of its output buffer, which the constraints of this output fix.
    pub fn residual(mut self, func: impl Into<Name>, loss: Loss) -> PipelineEnergy {
        self.residuals.push(Residual { func: func.into(), domain: None, loss });
        self
    }

    /// Adds the elements of a Func over a domain: first coordinate and extent of each dimension, i32 expressions of parameters and of
    /// sizes of inputs.
    pub fn residual_over(
        mut self,
        func: impl Into<Name>,
        domain: &[(Expr, Expr)],
        loss: Loss,
    ) -> PipelineEnergy {
        self.residuals.push(Residual { func: func.into(), domain: Some(domain.to_vec()), loss });
        self
    }

    /// Computes the values of a Func once per linearisation, for all products with J^T J, if these read it; else what is cheap is computed
    /// again by each of them.
    pub fn keep(mut self, func: impl Into<Name>) -> PipelineEnergy {
        self.keep.push(func.into());
        self
    }

    /// Has every product with J^T J compute a Func again, whatever that costs.
    pub fn recompute(mut self, func: impl Into<Name>) -> PipelineEnergy {
        self.recompute.push(func.into());
        self
    }

    /// Compiles a derived pipeline under this schedule, in the form in which schedules print, in place of the first one that `compile`
    /// makes. [`PipelineSolver::derived`] shows the pipeline and the schedule to begin with.
    pub fn schedule(mut self, of: DerivedPipeline, text: impl Into<String>) -> PipelineEnergy {
        self.schedules.retain(|(which, _)| *which != of);
        self.schedules.push((of, text.into()));
        self
    }

    fn schedule_of(&self, of: DerivedPipeline) -> Option<&str> {
        self.schedules.iter().find(|(which, _)| *which == of).map(|(_, text)| text.as_str())
    }
}
