//! Robust losses in numbers: what a block adds to E, and what it weighs in the normal equations.
//!
//! A block is the channels of one Vector at one instance; q = sum r^2 over those that count, and the block adds rho(q) to E.
//! Its rows are (Triggs et al., "Bundle adjustment -- a modern synthesis", 1999, section 4.3)
//! J~ = sqrt(rho') (I - alpha r r^T / q) J and r~ = sqrt(rho') r / (1 - alpha): J~^T r~ is half the gradient of E whatever alpha
//! is, and J~^T J~ the matrix of Gauss-Newton. To first order alpha = 0; to second order it is what makes J~^T J~ hold the curvature of rho
//! where that is positive along r, and 0 elsewhere. Where rho' <= 0 the block has no rows.

use crate::assembled::jacobian::{Jacobian, weighted};
use crate::assembled::template::Template;
use crate::problem::data::Formula;
use std::ops::Range;
use sumsq_energy::losses::LossKind;
use sumsq_energy::model::{Energy, Loss};

/// No slot: a row without a loss.
const NONE: usize = usize::MAX;

/// Step of finite differences, relative to q + s^2; and of second ones.
const STEP: f64 = 1.0 / (1 << 17) as f64;
const SECOND_STEP: f64 = 1.0 / (1 << 9) as f64;

/// The least share of its curvature that a block must keep to bend.
const LEAST: f64 = 1e-6;

/// rho(q) with scale s.
fn rho(kind: LossKind, q: f64, s: f64) -> f64 {
    let s2 = s * s;
    match kind {
        LossKind::Huber if q <= s2 => q,
        LossKind::Huber => 2.0 * s * q.sqrt() - s2,
        LossKind::Cauchy => s2 * (q / s2).ln_1p(),
        LossKind::Tukey if q > s2 => s2 / 3.0,
        LossKind::Tukey => q * (1.0 - q / s2 * (1.0 - q / s2 / 3.0)),
        LossKind::SoftL1 => 2.0 * q / (1.0 + (1.0 + q / s2).sqrt()),
        LossKind::Arctan => s2 * (q / s2).atan(),
        LossKind::GemanMcClure => q / (1.0 + q / s2),
    }
}

/// rho'(q).
fn slope(kind: LossKind, q: f64, s: f64) -> f64 {
    let ratio = q / (s * s);
    match kind {
        LossKind::Huber if ratio <= 1.0 => 1.0,
        LossKind::Huber => s / q.sqrt(),
        LossKind::Cauchy => 1.0 / (1.0 + ratio),
        LossKind::Tukey if ratio > 1.0 => 0.0,
        LossKind::Tukey => (1.0 - ratio).powi(2),
        LossKind::SoftL1 => 1.0 / (1.0 + ratio).sqrt(),
        LossKind::Arctan => 1.0 / (1.0 + ratio * ratio),
        LossKind::GemanMcClure => (1.0 + ratio).powi(-2),
    }
}

/// rho''(q).
fn curvature(kind: LossKind, q: f64, s: f64) -> f64 {
    let s2 = s * s;
    let ratio = q / s2;
    match kind {
        LossKind::Huber if ratio <= 1.0 => 0.0,
        LossKind::Huber => -0.5 * s / q.powf(1.5),
        LossKind::Cauchy => -(1.0 + ratio).powi(-2) / s2,
        LossKind::Tukey if ratio > 1.0 => 0.0,
        LossKind::Tukey => -2.0 * (1.0 - ratio) / s2,
        LossKind::SoftL1 => -0.5 * (1.0 + ratio).powf(-1.5) / s2,
        LossKind::Arctan => -2.0 * ratio * (1.0 + ratio * ratio).powi(-2) / s2,
        LossKind::GemanMcClure => -2.0 * (1.0 + ratio).powi(-3) / s2,
    }
}

/// A loss in numbers.
enum Rho {
    /// One of the table, with its scale.
    Scaled(LossKind, f64),
    /// A formula, and the q over which it changes near 0, or 0 if it does not say.
    Formula(Box<Formula>, f64),
}

impl Rho {
    fn formula(formula: Formula) -> Rho {
        let [value, slope, curvature] = formula.at(0.0);
        let sizes = [(value / slope).abs(), (slope / curvature).abs()];
        let size = sizes.into_iter().filter(|s| s.is_finite() && *s > 0.0).reduce(f64::min);
        Rho::Formula(Box::new(formula), size.unwrap_or(0.0))
    }

    fn value(&self, q: f64) -> f64 {
        match self {
            Rho::Scaled(kind, s) => rho(*kind, q, *s),
            Rho::Formula(formula, _) => formula.at(q)[0],
        }
    }

    /// Size of q over which rho may change.
    fn unit(&self, q: f64) -> f64 {
        match self {
            Rho::Scaled(_, s) => q + s * s,
            Rho::Formula(_, size) => q + size,
        }
    }

    /// rho'(q) by central differences.
    fn slope_by_differences(&self, q: f64) -> f64 {
        let h = STEP * self.unit(q);
        (self.value(q + h) - self.value(q - h)) / (2.0 * h)
    }

    /// rho''(q) by central differences, extrapolated once.
    fn curvature_by_differences(&self, q: f64) -> f64 {
        let here = self.value(q);
        let second = |h: f64| (self.value(q + h) - 2.0 * here + self.value(q - h)) / (h * h);
        let h = SECOND_STEP * self.unit(q);
        (4.0 * second(0.5 * h) - second(h)) / 3.0
    }

    /// Tells whether differences say nothing of rho' or, within a step of q, of rho''.
    fn is_kink(&self, q: f64, second_order: bool) -> bool {
        let h = SECOND_STEP * self.unit(q);
        match self {
            Rho::Scaled(LossKind::Huber | LossKind::Tukey, s) => second_order && (q - s * s).abs() <= h,
            Rho::Scaled(..) => false,
            Rho::Formula(formula, _) => {
                let [below, above] = [q - h, q + h].map(|q| formula.at(q)[2]);
                let jumps = (above - below).abs() > KINK * above.abs().max(below.abs());
                h == 0.0 || second_order && (jumps || (above - below).is_nan())
            }
        }
    }
}

/// Share of itself by which rho'' changes at most between two steps of differences, where it does not jump.
const KINK: f64 = 0.05;

/// rho' and rho'' of a loss at q.
type Derivatives = fn(&Rho, f64) -> (f64, f64);

const EXACT: Derivatives = |of, q| match of {
    Rho::Scaled(kind, s) => (slope(*kind, q, *s), curvature(*kind, q, *s)),
    Rho::Formula(formula, _) => {
        let [_, slope, curvature] = formula.at(q);
        (slope, curvature)
    }
};
const DIFFERENCES: Derivatives = |of, q| (of.slope_by_differences(q), of.curvature_by_differences(q));

/// Effect of a loss on the rows of a block.
#[derive(Clone, Copy)]
struct Shape {
    /// sqrt(rho'), 0 where rho' <= 0.
    root: f64,
    alpha: f64,
    /// alpha / q.
    bend: f64,
}

/// A block over its domain.
struct Block {
    /// Its loss: everywhere, or slot by slot where the scale differs.
    rho: Vec<Rho>,
    group: usize,
    /// Its slots: one per instance of its domain.
    slots: Range<usize>,
    second_order: bool,
}

impl Block {
    /// The loss at a slot of the block.
    fn rho(&self, slot: usize) -> &Rho {
        self.rho.get(slot - self.slots.start).unwrap_or(&self.rho[0])
    }

    fn shape(&self, slot: usize, q: f64, derivatives: Derivatives) -> Shape {
        let (slope, curvature) = derivatives(self.rho(slot), q);
        if slope <= 0.0 {
            return Shape { root: 0.0, alpha: 0.0, bend: 0.0 };
        }
        let root = slope.sqrt();
        if !self.second_order || curvature >= 0.0 || q == 0.0 {
            return Shape { root, alpha: 0.0, bend: 0.0 };
        }
        let d = 1.0 + 2.0 * q * curvature / slope;
        let alpha = if d > LEAST { 1.0 - d.sqrt() } else { 0.0 };
        Shape { root, alpha, bend: alpha / q }
    }
}

/// Rows of J that lie under losses.
pub(super) struct Losses {
    blocks: Vec<Block>,
    /// Slot of each row, or [`NONE`]; empty where no row lies under a loss.
    slots: Vec<usize>,
}

impl Losses {
    /// The losses of the rows of `templates`, in order. `instances`: how many each template's domain has.
    pub fn new(
        energy: &Energy,
        params: &[Vec<f64>],
        scales: &[Option<f64>],
        templates: &[Template],
        instances: impl Fn(&Template) -> usize,
    ) -> Losses {
        let (mut blocks, mut slots, mut end) = (Vec::new(), Vec::new(), 0);
        for (number, (block, &scale)) in energy.blocks.iter().zip(scales).enumerate() {
            let member = templates.iter().find(|t| t.block == Some(number));
            let start = end;
            end += member.map_or(0, &instances);
            let group = member.map_or(0, |t| t.group);
            let second_order = block.second_order;
            // A scale that is not uniform is set by [`Losses::rescale`].
            let rho = match block.loss {
                Loss::Scaled(kind, _) => Rho::Scaled(kind, scale.unwrap_or(f64::NAN)),
                Loss::Formula(rho) => Rho::formula(Formula::new(energy, rho, params)),
            };
            blocks.push(Block { rho: vec![rho], group, slots: start..end, second_order });
        }
        if !blocks.is_empty() {
            for t in templates {
                let start = t.block.map(|b| blocks[b].slots.start);
                slots.extend(t.counted.iter().map(|n| start.map_or(NONE, |s| s + *n as usize)));
            }
        }
        Losses { blocks, slots }
    }

    /// Gives a block of a loss of the table these scales, one per instance of its domain; NaN where there is none.
    pub fn rescale(&mut self, block: usize, scales: impl Iterator<Item = f64>) {
        let rho = &mut self.blocks[block].rho;
        if let Rho::Scaled(kind, _) = rho[0] {
            *rho = scales.map(|s| Rho::Scaled(kind, s)).collect();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// q of each slot.
    fn squares(&self, residuals: &[f64]) -> Vec<f64> {
        let mut squares = vec![0.0; self.blocks.last().map_or(0, |b| b.slots.end)];
        for (&slot, r) in self.slots.iter().zip(residuals).filter(|(slot, _)| **slot != NONE) {
            squares[slot] += r * r;
        }
        squares
    }

    /// Adds sum rho(q) to the energy of each group.
    pub fn add_energies(&self, residuals: &[f64], by_group: &mut [f64]) {
        let squares = self.squares(residuals);
        let mut counts = vec![false; squares.len()];
        self.slots.iter().filter(|&&slot| slot != NONE).for_each(|&slot| counts[slot] = true);
        for b in &self.blocks {
            let counted = b.slots.clone().filter(|&slot| counts[slot]);
            by_group[b.group] += counted.map(|slot| b.rho(slot).value(squares[slot])).sum::<f64>();
        }
    }

    /// sqrt(rho') of each row, 1 without a loss, 0 where rho' <= 0.
    pub fn root_weights(&self, residuals: &[f64]) -> Vec<f64> {
        let shapes = self.shapes(residuals, EXACT);
        self.slots.iter().map(|&slot| if slot == NONE { 1.0 } else { shapes[slot].root }).collect()
    }

    /// Makes r~ and J~ of r and J.
    pub fn apply(&self, residuals: &mut [f64], jacobian: &mut Jacobian) {
        self.apply_with(residuals, jacobian, EXACT);
    }

    /// [`Losses::apply`] from differences of rho alone.
    pub fn apply_by_differences(&self, residuals: &mut [f64], jacobian: &mut Jacobian) {
        self.apply_with(residuals, jacobian, DIFFERENCES);
    }

    /// The rows at which differences of rho say nothing of rho''.
    pub fn kinks(&self, residuals: &[f64]) -> Vec<bool> {
        let squares = self.squares(residuals);
        let mut kinks = vec![false; squares.len()];
        for b in &self.blocks {
            b.slots.clone().for_each(|slot| {
                kinks[slot] = b.rho(slot).is_kink(squares[slot], b.second_order);
            });
        }
        self.slots.iter().map(|&slot| slot != NONE && kinks[slot]).collect()
    }

    fn shapes(&self, residuals: &[f64], derivatives: Derivatives) -> Vec<Shape> {
        let squares = self.squares(residuals);
        let shapes = |b: &Block| {
            let shape = |slot: usize| b.shape(slot, squares[slot], derivatives);
            b.slots.clone().map(shape).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(shapes).collect()
    }

    /// diag(J^T J) to first order, of r and J as they are without losses; `None` where no loss is of second order.
    pub fn first_order_diag(&self, residuals: &[f64], jacobian: &Jacobian) -> Option<Vec<f64>> {
        let bends = self.blocks.iter().any(|b| b.second_order);
        bends.then(|| {
            let mut weighted = jacobian.clone();
            weighted.scale_rows(&self.root_weights(residuals));
            weighted.diag()
        })
    }

    fn apply_with(&self, residuals: &mut [f64], jacobian: &mut Jacobian, derivatives: Derivatives) {
        if self.is_empty() {
            return;
        }
        let shapes = self.shapes(residuals, derivatives);
        if self.blocks.iter().any(|b| b.second_order) {
            let bend: Vec<f64> = shapes.iter().map(|s| s.bend).collect();
            jacobian.bend_rows(&self.slots, &bend, residuals);
        }
        let shape =
            |slot: usize| shapes.get(slot).copied().unwrap_or(Shape { root: 1.0, alpha: 0.0, bend: 0.0 });
        for (r, &slot) in residuals.iter_mut().zip(&self.slots) {
            let Shape { root, alpha, .. } = shape(slot);
            *r = weighted(root / (1.0 - alpha), *r);
        }
        jacobian.scale_rows(&self.slots.iter().map(|&slot| shape(slot).root).collect::<Vec<_>>());
    }
}
