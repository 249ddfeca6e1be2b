//! Scales of robust losses, which params may set.

use sumsq_energy::dag::{Access, At, Dag, Env, Evaluator, ExprId, Offset};
use sumsq_energy::losses::LossKind;
use sumsq_energy::model::{ArrayId, Block, Energy, GraphId, Loss, ParamId, SpaceId};
use thiserror::Error;

/// A loss with a scale that is none.
#[derive(Clone, PartialEq, Debug, Error)]
#[error(
    "group `{group}`{}: expected a positive scale of its loss {kind:?}, came {scale}",
    line.map(|l| format!(" (line {l})")).unwrap_or_default()
)]
#[allow(missing_docs)]
pub struct LossScale {
    pub group: String,
    pub line: Option<u32>,
    pub kind: LossKind,
    pub scale: f64,
}

/// The scale of each block; `None` where its loss is a formula, or its scale differs from place to place.
pub fn loss_scales(energy: &Energy, params: &[Vec<f64>]) -> Result<Vec<Option<f64>>, LossScale> {
    let scale = |(number, block): (usize, &Block)| {
        let Loss::Scaled(kind, scale) = block.loss else { return Ok(None) };
        if !energy.dag.is_uniform(scale) {
            return Ok(None);
        }
        let scale = energy.dag.eval(scale, &Surroundings { params, q: f64::NAN });
        if scale > 0.0 && scale.is_finite() {
            return Ok(Some(scale));
        }
        let under = energy.residuals.iter().find(|r| r.block.is_some_and(|b| b.index() == number));
        let group = under.map_or_else(String::new, |r| energy.groups[r.group.index()].clone());
        Err(LossScale { group, line: under.and_then(|r| r.line), kind, scale })
    };
    energy.blocks.iter().enumerate().map(scale).collect()
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
