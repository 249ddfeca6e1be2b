//! Scales of robust losses, which params may set.

use sumsq_energy::dag::{Access, At, Dag, Env, Evaluator, ExprId, Offset};
use sumsq_energy::losses::LossKind;
use sumsq_energy::model::{ArrayId, Block, Energy, GraphId, Loss, ParamId, SpaceId};
use thiserror::Error;

/// A loss that params make none.
#[derive(Clone, PartialEq, Debug, Error)]
#[allow(missing_docs)]
pub enum LossError {
    /// A scale that is no positive number.
    #[error("{of}: expected a positive scale of its loss {kind:?}, came {scale}")]
    Scale { of: String, kind: LossKind, scale: f64 },
    /// A formula that is nowhere a number.
    #[error("{0}: its loss is no number, whatever it is of: expected positive params of `Power`")]
    Formula(String),
}

/// Squared norms at some of which every loss is a number.
const SQUARES: [f64; 4] = [0.0, 1e-3, 1.0, 1e3];

/// The scale of each block; `None` where its loss is a formula, or its scale differs from place to place.
pub fn loss_scales(energy: &Energy, params: &[Vec<f64>]) -> Result<Vec<Option<f64>>, LossError> {
    energy
        .blocks
        .iter()
        .enumerate()
        .map(|(number, block)| loss_scale(energy, params, number, block))
        .collect()
}

fn loss_scale(
    energy: &Energy,
    params: &[Vec<f64>],
    number: usize,
    block: &Block,
) -> Result<Option<f64>, LossError> {
    let at = |e: ExprId, q: f64| energy.dag.eval(e, &Surroundings { params, q });
    let of = || {
        let under = energy.residuals.iter().find(|r| r.block.is_some_and(|b| b.index() == number));
        let group = under.map_or("", |r| &energy.groups[r.group.index()]);
        let line = under.and_then(|r| r.line).map(|line| format!(" (line {line})"));
        format!("group `{group}`{}", line.unwrap_or_default())
    };
    match block.loss {
        Loss::Formula(rho) if SQUARES.iter().all(|&q| at(rho, q).is_nan()) => Err(LossError::Formula(of())),
        Loss::Scaled(kind, scale) if energy.dag.is_uniform(scale) => {
            let scale = at(scale, f64::NAN);
            if scale > 0.0 && scale.is_finite() {
                return Ok(Some(scale));
            }
            Err(LossError::Scale { of: of(), kind, scale })
        }
        Loss::Formula(_) | Loss::Scaled(..) => Ok(None),
    }
}

/// A loss that is a formula, in numbers.
pub struct Formula {
    dag: Dag,
    /// rho, rho' and rho''.
    roots: [ExprId; 3],
    params: Vec<Vec<f64>>,
}

impl Formula {
    /// The loss `rho` of an energy.
    pub fn new(energy: &Energy, rho: ExprId, params: &[Vec<f64>]) -> Formula {
        let mut dag = energy.dag.clone();
        dag.allow_derivatives();
        let slope = dag.derivative(rho, &Access::squared());
        let curvature = dag.derivative(slope, &Access::squared());
        Formula { dag, roots: [rho, slope, curvature], params: params.to_vec() }
    }

    /// rho, rho' and rho'' at q.
    pub fn at(&self, q: f64) -> [f64; 3] {
        let values = Evaluator::new(&self.dag, &self.roots).eval(&Surroundings { params: &self.params, q });
        [values[0], values[1], values[2]]
    }
}

/// Surroundings of a scale, an expression of params and constants, or of a formula, which reads q besides; the builder lets them be
/// nothing else.
struct Surroundings<'a> {
    params: &'a [Vec<f64>],
    q: f64,
}

impl Env for Surroundings<'_> {
    fn param(&self, param: ParamId, channel: u16) -> f64 {
        self.params[param.index()][usize::from(channel)]
    }
    fn access(&self, _: &Access) -> f64 {
        self.q
    }
    fn tap(&self, _: (ArrayId, u16), _: &[i64]) -> f64 {
        f64::NAN
    }
    fn index(&self, _: u16) -> f64 {
        f64::NAN
    }
    fn in_bounds(&self, _: &Offset, _: &Offset) -> bool {
        false
    }
    fn free(&self, _: SpaceId, _: &At) -> bool {
        false
    }
    fn same_vertex(&self, _: GraphId, _: u16, _: u16) -> bool {
        false
    }
    fn in_bounds_at(&self, _: GraphId, _: u16, _: &Offset, _: &Offset) -> bool {
        false
    }
    fn index_at(&self, _: GraphId, _: u16, _: u16) -> f64 {
        0.0
    }
}
