//! Computed arrays, sampled images, constant views, globals; and beyond the published language losses, bounds and near-null vectors.

use crate::builder::{Builder, Group, Robust, Rule, SampledRef, ValueType};
use crate::error::Fault;
use crate::losses::LossKind;
use crate::model::{DimId, ElementType};
use crate::rust::{EnergyBuilder, Expr, Field, IntoExpr};
use std::cell::Cell;
use std::rc::Rc;

/// An array read at real coordinates.
#[derive(Clone, Debug)]
pub struct Sampled {
    energy: EnergyBuilder,
    sampled: Option<SampledRef>,
}

/// Residuals reported under one name, perhaps under a robust loss.
#[derive(Clone, Debug)]
pub struct Residuals {
    energy: EnergyBuilder,
    group: Group,
    /// Shared with clones: true once the group is there, which later values join.
    begun: Rc<Cell<bool>>,
}

impl EnergyBuilder {
    /// An unknown of `channels` entries on no dims, read from any domain as `t.at([])`.
    #[track_caller]
    pub fn global(&self, name: &str, channels: u16) -> Field {
        self.unknown(name, channels, &[])
    }

    /// A constant view of an unknown: its values as of the last accepted step, with derivative zero.
    #[track_caller]
    pub fn view(&self, name: &str, of: &Field) -> Field {
        let field = self.operate(|b, _| {
            let of = self.own(of)?;
            let (position, channels, dims) = b.declaration(of);
            let ty = ValueType { element: ElementType::OptFloat, channels: i64::from(channels) };
            b.array(name, ty, &dims, position)
        });
        Field { energy: self.clone(), field }
    }

    /// An array defined by `value` at offset 0, recomputed whenever what it reads changes; derivatives flow through it.
    #[track_caller]
    pub fn computed(&self, name: &str, dims: &[DimId], value: impl IntoExpr) -> Field {
        let value = self.values([value]);
        let field = self.operate(|b, _| b.computed(name, dims, &value?[0]));
        Field { energy: self.clone(), field }
    }

    /// `val`, re-weighted by the constant copy `val_const` so that its squares sum up to |val|^p at the fixed point.
    #[track_caller]
    pub fn l_p(
        &self,
        val: impl IntoExpr,
        val_const: impl IntoExpr,
        p: impl IntoExpr,
        dims: &[DimId],
    ) -> Expr {
        let values = self.values([val.into_expr(self), val_const.into_expr(self), p.into_expr(self)]);
        self.expr(|b, _| {
            let values = values?;
            b.l_p(&values[0], &values[1], &values[2], dims)
        })
    }

    /// An array to be read at real coordinates that do not depend on unknowns.
    #[track_caller]
    pub fn sampled(&self, image: &Field) -> Sampled {
        self.sampled_with(image, &[])
    }

    /// An array to be read at real coordinates, with the images of its derivative along each dim.
    #[track_caller]
    pub fn sampled_with(&self, image: &Field, partials: &[&Field]) -> Sampled {
        let sampled = self.operate(|b, _| {
            let partials: Vec<_> = partials.iter().map(|p| self.own(p)).collect::<Result<_, _>>()?;
            b.sampled(self.own(image)?, &partials)
        });
        Sampled { energy: self.clone(), sampled }
    }

    /// Residuals to be reported under a name.
    pub fn residual(&self, name: &str) -> Residuals {
        let group = Group { name: Some(name.to_owned()), ..Group::default() };
        Residuals { energy: self.clone(), group, begun: Rc::default() }
    }

    /// Box bounds on all channels of an unknown.
    #[track_caller]
    pub fn bounds(&self, unknown: &Field, lower: impl IntoExpr, upper: impl IntoExpr) {
        let values = self.values([lower.into_expr(self), upper.into_expr(self)]);
        self.operate(|b, _| {
            let values = values?;
            b.bounds(self.own(unknown)?, &values[0], &values[1])
        });
    }

    /// A displacement of all channels of an unknown that the energy hardly resists, for preconditioners that reduce such ones on coarser
    /// levels. Those that follow from the residuals need not be given: constants, and turns of unknowns of two or three channels.
    #[track_caller]
    pub fn near_null(&self, unknown: &Field, displacement: impl IntoExpr) {
        let values = self.values([displacement.into_expr(self)]);
        self.operate(|b, _| {
            let values = values?;
            b.near_null(self.own(unknown)?, &values[0])
        });
    }

    /// A field of this energy.
    fn own(&self, field: &Field) -> Result<crate::builder::FieldRef, Fault> {
        let own = Rc::ptr_eq(&field.energy.state, &self.state);
        field.field.filter(|_| own).ok_or(Fault::Foreign)
    }
}

impl Sampled {
    /// All channels at the given coordinates, one per dim, fastest-varying first.
    #[track_caller]
    pub fn at<E: IntoExpr>(&self, coordinates: impl IntoIterator<Item = E>) -> Expr {
        let at = self.energy.values(coordinates);
        self.energy.expr(|b, _| {
            let sampled = self.sampled.as_ref().ok_or(Fault::Foreign)?;
            let at = at?;
            let (name, dims) = b.sampled_dims(sampled);
            if at.len() != dims {
                return Err(Fault::OffsetCount { name, dims, got: at.len() });
            }
            b.sample(sampled, &at.iter().collect::<Vec<_>>(), None)
        })
    }
}

impl Residuals {
    /// Under a loss with this scale, a positive number or an expression without unknowns; the channels of each value are one block.
    #[track_caller]
    pub fn loss(self, kind: LossKind, scale: impl IntoExpr) -> Residuals {
        let scale = self.energy.values([scale]);
        self.under(|_| Ok(Robust { rule: Rule::Scaled(kind, scale?.remove(0)), second_order: false }))
    }

    /// Under the loss (q + eps^2)^(p/2), of constants and params.
    #[track_caller]
    pub fn power_loss(self, p: impl IntoExpr, eps: impl IntoExpr) -> Residuals {
        let numbers = self.energy.values([p.into_expr(&self.energy), eps.into_expr(&self.energy)]);
        self.under(|b| {
            let numbers = numbers?;
            b.power_loss(&numbers[0], &numbers[1])
        })
    }

    /// Under the loss rho(q), an expression of the squared norm q, constants and params. Its slopes are derived.
    #[track_caller]
    pub fn formula_loss(self, rho: impl FnOnce(Expr) -> Expr) -> Residuals {
        let rho = rho(self.energy.expr(|b, _| Ok(b.squared())));
        let rho = self.energy.values([rho]);
        self.under(|b| b.formula_loss(rho?.remove(0)))
    }

    /// The same with the loss's own curvature in J^T J (Triggs' correction).
    #[track_caller]
    pub fn second_order_loss(self, kind: LossKind, scale: impl IntoExpr) -> Residuals {
        self.loss(kind, scale).second_order()
    }

    /// With the curvature of the loss that was given in J^T J.
    pub fn second_order(mut self) -> Residuals {
        self.group.loss.iter_mut().for_each(|loss| loss.second_order = true);
        self
    }

    #[track_caller]
    fn under(mut self, loss: impl FnOnce(&mut Builder) -> Result<Robust, Fault>) -> Residuals {
        self.group.loss = self.energy.operate(|b, _| loss(b));
        self
    }

    /// Reported with those of this name that there are already.
    pub fn merged(mut self) -> Residuals {
        self.group.merge = true;
        self
    }

    /// Adds residuals.
    #[track_caller]
    pub fn add(&self, value: impl IntoExpr) -> &Residuals {
        let value = self.energy.values([value]);
        let group = Group { merge: self.group.merge || self.begun.replace(true), ..self.group.clone() };
        self.energy.operate(|b, _| b.group(&group, &value?.iter().collect::<Vec<_>>()));
        self
    }
}
