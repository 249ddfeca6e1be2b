//! Losses as engine expressions, for residuals that are no part of an energy's DAG.

use crate::dag::{Access, Dag, ExprId};
use crate::derive::robust::robust;
use crate::derive::{Couplings, Routines};
use crate::emit::{Emitter, Place};
use crate::losses::LossKind;
use crate::model::{Block, Energy, Loss, SpaceId};
use sumsq_codegen::Expr;

/// A loss rho at a squared norm q.
#[derive(Clone, Debug)]
pub struct LossAt {
    /// rho(q).
    pub energy: Expr,
    /// rho'(q), 0 where it is not positive.
    pub weight: Expr,
    /// b of J~ = sqrt(rho') (I - b r r^T) J, where the loss is to hold its curvature (Triggs' correction).
    pub bend: Option<Expr>,
}

/// The loss `kind` of scale `scale` > 0 at `q`, in the type of `q`.
pub fn scaled_loss(kind: LossKind, scale: f64, second_order: bool, q: &Expr) -> LossAt {
    let mut dag = Dag::new();
    let scale = dag.constant(scale);
    emitted(dag, Loss::Scaled(kind, scale), second_order, q)
}

/// The loss that `rho` writes as an expression of its squared norm, in the type of `q`.
pub fn formula_loss(rho: impl Fn(&mut Dag, ExprId) -> ExprId, second_order: bool, q: &Expr) -> LossAt {
    let mut dag = Dag::new();
    let squared = dag.access(Access::squared());
    let rho = rho(&mut dag, squared);
    emitted(dag, Loss::Formula(rho), second_order, q)
}

fn emitted(mut dag: Dag, loss: Loss, second_order: bool, q: &Expr) -> LossAt {
    let (squared, counts) = (dag.access(Access::squared()), dag.constant(1.0));
    let loss = robust(&mut dag, &Block { loss, second_order }, squared, counts, &[]);
    let roots: Vec<ExprId> = [loss.energy, loss.weight].into_iter().chain(loss.bend).collect();
    let routines = Routines {
        dag,
        table: vec![],
        passes: vec![],
        parts: vec![],
        couplings: Couplings::default(),
        scheduled: false,
    };
    let (energy, place) = (Energy::default(), Place::Element(SpaceId(0), vec![]));
    // All that it reads is the squared norm.
    let read = |_, _, _: &[Expr]| q.clone();
    let values = Emitter::new(&energy, &routines, q.ty().scalar, place, &read).numbers(&roots);
    let mut values = values.into_iter();
    let mut next = || values.next().unwrap_or_else(|| q.clone());
    LossAt { energy: next(), weight: next(), bend: loss.bend.map(|_| next()) }
}
