//! `Residual{...}`: named groups and robust losses; `Bounds` and `NearNull`.

use crate::builder::read::FieldRef;
use crate::builder::value::{Scalar, Value};
use crate::builder::{Arithmetic, Builder};
use crate::dag::{Access, ExprId, Node, Source};
use crate::error::Fault;
use crate::losses::LossKind;
use crate::model::{Block, BlockId, BoxBounds, Domain, GroupId, Loss, NearNull};

/// Properties that residuals given together have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Name in reports; by default `energy_<k>`.
    pub name: Option<String>,
    /// A robust loss.
    pub loss: Option<Robust>,
    /// True if it may join a group of its name.
    pub merge: bool,
}

/// A robust loss that residuals may be put under.
#[derive(Clone, Debug)]
pub(crate) struct Robust {
    pub rule: Rule,
    pub second_order: bool,
}

/// A function of the squared norm.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Scaled(LossKind, Value),
    /// rho of [`Builder::squared`].
    Formula(Value),
}

impl Builder {
    /// Each channel of each value is one residual. Under a loss the channels of one value are one block.
    pub(crate) fn group(&mut self, group: &Group, values: &[&Value]) -> Result<(), Fault> {
        let id = self.group_id(group)?;
        for value in values {
            let block = group.loss.as_ref().map(|loss| self.block(loss)).transpose()?;
            let (block, scale) = block.map_or((None, None), |(block, scale)| (Some(block), scale));
            for &scalar in value.scalars() {
                self.residual(scalar, id, block, scale)?;
            }
            self.check_block(block)?;
        }
        Ok(())
    }

    /// The group of this name, new unless it merges.
    fn group_id(&mut self, group: &Group) -> Result<GroupId, Fault> {
        let next = GroupId(self.energy.groups.len() as u32);
        let name = group.name.clone().unwrap_or_else(|| format!("energy_{}", next.0 + 1));
        if let Some(&(id, first)) = self.group_names.get(&name) {
            if group.merge {
                return Ok(id);
            }
            let line = self.line;
            self.note(line, &name, "named again here".into());
            self.note(first.filter(|&l| Some(l) != line), &name, "first named here".into());
            return Err(Fault::DuplicateGroup { name });
        }
        self.group_names.insert(name.clone(), (next, self.line));
        self.energy.groups.push(name);
        Ok(next)
    }

    /// q, which the formula of a loss is written in.
    pub(crate) fn squared(&mut self) -> Value {
        Value::scalar(self.energy.dag.access(Access::squared()))
    }

    /// The loss (q + eps^2)^(p/2).
    pub(crate) fn power_loss(&mut self, p: &Value, eps: &Value) -> Result<Robust, Fault> {
        for number in p.scalars().iter().chain(eps.scalars()) {
            let constant = self.energy.dag.as_constant(number.id);
            if let Some(number) = constant.filter(|n| !(*n > 0.0 && n.is_finite())) {
                return Err(Fault::PowerLoss(number));
            }
        }
        // Of Params the values are not known yet.
        let p = &self.zip(&[p], |dag, v| dag.positive_or_nan(v[0]))?;
        let eps = &self.zip(&[eps], |dag, v| dag.positive_or_nan(v[0]))?;
        let (q, half) = (self.squared(), self.constant(0.5));
        let square = self.arithmetic(Arithmetic::Mul, eps, eps)?;
        let base = self.arithmetic(Arithmetic::Add, &q, &square)?;
        let exponent = self.arithmetic(Arithmetic::Mul, p, &half)?;
        let rho = self.arithmetic(Arithmetic::Pow, &base, &exponent)?;
        self.formula_loss(rho)
    }

    /// The loss whose rho is an expression of [`Builder::squared`].
    pub(crate) fn formula_loss(&mut self, rho: Value) -> Result<Robust, Fault> {
        let fault = |what: String| Err(Fault::LossFormula(what));
        let [scalar] = rho.scalars() else { return fault("is a Vector".into()) };
        let dag = &self.energy.dag;
        let squared = Access::squared();
        let accesses = dag.accesses(scalar.id);
        if let Some(a) = accesses.iter().find(|a| **a != squared) {
            return fault(format!("reads `{}`", self.source_name(a.source)));
        }
        if accesses.is_empty() {
            return fault("does not read q".into());
        }
        let place = |&n: &ExprId| !matches!(dag.node(n), Node::Access(_)) && dag.asks_place(n);
        if dag.reachable(&[scalar.id]).iter().any(place) {
            return fault("depends on the element".into());
        }
        Ok(Robust { rule: Rule::Formula(rho), second_order: false })
    }

    /// A block under a loss, and the loss's scale if it has one.
    fn block(&mut self, robust: &Robust) -> Result<(BlockId, Option<Scalar>), Fault> {
        let (loss, scale) = match &robust.rule {
            Rule::Scaled(kind, scale) => {
                let scale = self.scale(scale)?;
                (Loss::Scaled(*kind, scale.id), Some(scale))
            }
            Rule::Formula(rho) => (Loss::Formula(rho.broadcast(0).id), None),
        };
        self.energy.blocks.push(Block { loss, second_order: robust.second_order });
        Ok((BlockId(self.energy.blocks.len() as u32 - 1), scale))
    }

    /// A scale as the model holds it: one that differs from place to place is NaN where it is no positive number, so that E tells.
    fn scale(&mut self, scale: &Value) -> Result<Scalar, Fault> {
        let &[scale] = scale.scalars() else { return Err(Fault::LossScale("a Vector".into())) };
        let accesses = self.energy.dag.accesses(scale.id);
        if let Some(a) = self.unknown_reads(&accesses).first() {
            let name = self.source_name(a.source);
            return Err(Fault::LossScale(format!("an expression of the unknown `{name}`")));
        }
        let dag = &mut self.energy.dag;
        match dag.as_constant(scale.id) {
            Some(s) if s > 0.0 && s.is_finite() => return Ok(scale),
            Some(s) => return Err(Fault::LossScale(s.to_string())),
            None if dag.is_uniform(scale.id) => return Ok(scale),
            None => {}
        }
        Ok(Scalar { id: dag.positive_or_nan(scale.id), ..scale })
    }

    /// The channels of a block are residuals of one instance.
    fn check_block(&mut self, block: Option<BlockId>) -> Result<(), Fault> {
        let Some(block) = block else { return Ok(()) };
        let mut members = self.energy.residuals.iter().rev().take_while(|r| r.block == Some(block));
        let Some(first) = members.next() else { return Ok(()) };
        match members.find(|r| r.domain != first.domain) {
            None => Ok(()),
            Some(other) => {
                let (first, other) = (self.domain_name(first.domain), self.domain_name(other.domain));
                Err(Fault::MixedBlock(first, other))
            }
        }
    }

    /// `Bounds(X, lower, upper)`.
    pub(crate) fn bounds(&mut self, field: FieldRef, lower: &Value, upper: &Value) -> Result<(), Fault> {
        let Source::Unknown(unknown) = field.source else {
            return Err(Fault::BoundsOfArray(self.field_name(field)));
        };
        let (name, declared) = (self.field_name(field), &self.energy.unknowns[unknown.index()]);
        let channels = usize::from(declared.channels);
        if usize::from(field.channels) != channels {
            return Err(Fault::BoundsOfArray(format!("{name} (a slice)")));
        }
        if self.energy.bounds.iter().any(|b| b.unknown == unknown) {
            return Err(Fault::BoundsTwice(name));
        }
        for side in [lower, upper] {
            let reads = |name, unknown| Fault::BoundsReadUnknown { name, unknown };
            self.check_displacement("Bounds", field, side, reads)?;
        }
        let all = |v: &Value| (0..channels).map(|c| v.broadcast(c).id).collect();
        self.energy.bounds.push(BoxBounds { unknown, lower: all(lower), upper: all(upper) });
        Ok(())
    }

    /// `NearNull(X, values)`.
    pub(crate) fn near_null(&mut self, field: FieldRef, values: &Value) -> Result<(), Fault> {
        let Source::Unknown(unknown) = field.source else {
            return Err(Fault::NearNullOfArray(self.field_name(field)));
        };
        let channels = self.energy.unknowns[unknown.index()].channels;
        if field.channels != channels {
            return Err(Fault::NearNullOfArray(format!("{} (a slice)", self.field_name(field))));
        }
        let reads = |name, unknown| Fault::NearNullReadsUnknown { name, unknown };
        self.check_displacement("NearNull", field, values, reads)?;
        let values = (0..usize::from(channels)).map(|c| values.broadcast(c).id).collect();
        self.energy.near_null.push(NearNull { unknown, values });
        Ok(())
    }

    /// Checks numbers for the channels of an unknown: one or as many, over its space, without unknowns.
    fn check_displacement(
        &mut self,
        of: &str,
        field: FieldRef,
        values: &Value,
        reads: impl Fn(String, String) -> Fault,
    ) -> Result<(), Fault> {
        let (name, space) = (self.field_name(field), self.energy.space_of(field.source));
        let channels = usize::from(field.channels);
        if values.len() != 1 && values.len() != channels {
            return Err(Fault::Channels { first: (1, channels), second: (2, values.len()) });
        }
        for s in values.scalars() {
            let accesses = self.energy.dag.accesses(s.id);
            if let Some(a) = self.unknown_reads(&accesses).first() {
                return Err(reads(name, self.source_name(a.source).into()));
            }
            self.check_dim_counts(s.id, space)?;
            if let Some(domain) = self.common_domain(&accesses)?.filter(|d| *d != Domain::Space(space)) {
                let (over, domain) = (self.domain_name(Domain::Space(space)), self.domain_name(domain));
                return Err(Fault::ComputedDomain { name: format!("{of}({name})"), over, domain });
            }
        }
        Ok(())
    }
}
