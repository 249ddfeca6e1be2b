//! Scales of robust losses, which params may set.

use sumsq_energy::dag::{Access, At, Env, Offset};
use sumsq_energy::losses::LossKind;
use sumsq_energy::model::{ArrayId, Block, Energy, GraphId, ParamId, SpaceId};
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

/// The scale of each block.
pub fn loss_scales(energy: &Energy, params: &[Vec<f64>]) -> Result<Vec<f64>, LossScale> {
    let scale = |(number, block): (usize, &Block)| {
        let scale = energy.dag.eval(block.scale, &Params(params));
        if scale > 0.0 && scale.is_finite() {
            return Ok(scale);
        }
        let under = energy.residuals.iter().find(|r| r.block.is_some_and(|b| b.index() == number));
        let group = under.map_or_else(String::new, |r| energy.groups[r.group.index()].clone());
        Err(LossScale { group, line: under.and_then(|r| r.line), kind: block.kind, scale })
    };
    energy.blocks.iter().enumerate().map(scale).collect()
}

/// Surroundings of an expression of params and constants; the builder lets a scale be nothing else.
struct Params<'a>(&'a [Vec<f64>]);

impl Env for Params<'_> {
    fn param(&self, param: ParamId, channel: u16) -> f64 {
        self.0[param.index()][usize::from(channel)]
    }
    fn access(&self, _: &Access) -> f64 {
        f64::NAN
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
