//! From an energy to machine code, once; plans of any size share it.

use crate::matrix_free::domain::mask;
use crate::matrix_free::pipelines::{boxed, computed, cost, damping, gradient, linearise, trial};
use crate::matrix_free::{Scheduled, Skeleton, pcg};
use crate::problem::error::SolveError;
use crate::problem::options::{CompileOptions, OptionError, Precision, Preconditioner};
use std::sync::Arc;
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::{Error, ScalarType};
use sumsq_energy::derive::Routines;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, SpaceId};

/// Which copy of the numbers a pipeline reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// In the master precision.
    Master,
    /// In the linear solver's precision.
    Linear,
    /// As `Linear`; `p` is the new direction.
    LinearB,
}

/// Unknowns per element up to which `auto` takes block Jacobi, and above which it cannot be had.
const MAX_BLOCK: usize = 8;

/// Everything that decides what code is generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Type of the master copy of x, E, g.
    pub master: ScalarType,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// Whether M holds whole blocks.
    pub block: bool,
    /// Whether M = I.
    pub identity: bool,
}

impl Settings {
    /// What the options mean for an energy.
    pub fn new(energy: &Energy, options: &CompileOptions) -> Result<Settings, OptionError> {
        let (master, linear) = match options.precision {
            Precision::Mixed => (ScalarType::F64, ScalarType::F32),
            Precision::F32 => (ScalarType::F32, ScalarType::F32),
            Precision::F64 => (ScalarType::F64, ScalarType::F64),
        };
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let largest = spaces.map(|s| component_count(energy, s)).max().unwrap_or(0);
        let choice = match options.preconditioner {
            Preconditioner::Auto if energy.use_preconditioner == Some(false) => Preconditioner::None,
            Preconditioner::Auto if (2..=MAX_BLOCK).contains(&largest) => Preconditioner::BlockJacobi,
            Preconditioner::Auto => Preconditioner::Jacobi,
            Preconditioner::BlockJacobi if largest > MAX_BLOCK => {
                return Err(OptionError::Blocks { most: MAX_BLOCK, came: largest });
            }
            other => other,
        };
        let (block, identity) = (choice == Preconditioner::BlockJacobi, choice == Preconditioner::None);
        Ok(Settings { master, linear, block, identity })
    }

    /// The skeleton of an energy under these settings.
    pub fn skeleton(&self, energy: Arc<Energy>, routines: Arc<Routines>) -> Skeleton {
        Skeleton::new(energy, routines, self.master, self.linear, self.block, self.identity)
    }
}

/// The compiled pipelines.
pub struct Modules {
    pub(super) mask: Option<Compiled>,
    pub(super) bounds: Option<Compiled>,
    pub(super) cost: Compiled,
    /// In the order in which they read each other.
    pub(super) computed: Vec<Compiled>,
    pub(super) gradient: Compiled,
    pub(super) linearise: Option<Compiled>,
    pub(super) scales: Compiled,
    pub(super) damping: Compiled,
    pub(super) direction: Option<Compiled>,
    pub(super) products: Option<Compiled>,
    pub(super) parts: Option<Compiled>,
    pub(super) sweep_a: Compiled,
    pub(super) sweep_b: Compiled,
    pub(super) trial: Compiled,
}

/// All pipelines of a skeleton with their schedules; absent ones have nothing to do.
///
/// Those of computed arrays in the order in which they read each other, then the others, the largest first: they are compiled on all cores.
pub fn pipelines(k: &Skeleton) -> (Vec<Scheduled>, [Option<Scheduled>; 13]) {
    let others = [
        pcg::graph_parts(k),
        Some(pcg::sweep_a(k)),
        Some(gradient::pipeline(k)),
        Some(pcg::sweep_b(k)),
        Some(trial::pipeline(k)),
        Some(cost::pipeline(k)),
        Some(damping::pipeline(k)),
        linearise::pipeline(k),
        Some(damping::scales(k)),
        mask::pipeline(k),
        boxed::pipeline(k),
        pcg::direction(k),
        pcg::products(k),
    ];
    (computed::pipelines(k), others)
}

impl Modules {
    /// Compiles all pipelines of a skeleton.
    pub fn new(k: &Skeleton, target: &Target) -> Result<Modules, SolveError> {
        let (computed, others) = pipelines(k);
        let (count, present) = (computed.len(), others.each_ref().map(Option::is_some));
        let jobs = computed.into_iter().chain(others.into_iter().flatten()).collect();
        let mut compiled = Compiled::all(jobs, target)?.into_iter();
        let computed = compiled.by_ref().take(count).collect();
        let mut all = present.into_iter().map(|p| if p { compiled.next() } else { None });
        let mut next = || all.next().flatten();
        let missing = || {
            SolveError::Engine(Error::Backend {
                pipeline: "solver".into(),
                message: "a pipeline was not compiled".into(),
            })
        };
        // In the order of `pipelines`.
        Ok(Modules {
            computed,
            parts: next(),
            sweep_a: next().ok_or_else(missing)?,
            gradient: next().ok_or_else(missing)?,
            sweep_b: next().ok_or_else(missing)?,
            trial: next().ok_or_else(missing)?,
            cost: next().ok_or_else(missing)?,
            damping: next().ok_or_else(missing)?,
            linearise: next(),
            scales: next().ok_or_else(missing)?,
            mask: next(),
            bounds: next(),
            direction: next(),
            products: next(),
        })
    }

    /// The pipelines of a PCG iteration up to sweep A.
    pub(super) fn before_b(&self) -> impl Iterator<Item = &Compiled> {
        let before = self.direction.iter().chain(&self.products).chain(&self.parts);
        before.chain(std::iter::once(&self.sweep_a))
    }

    /// Every pipeline with what it reads.
    pub(super) fn roles(&self) -> Vec<(Reads, &Compiled)> {
        let mut all: Vec<(Reads, &Compiled)> = self
            .mask
            .iter()
            .chain(&self.bounds)
            .chain(&self.computed)
            .chain(&self.linearise)
            .map(|m| (Reads::Master, m))
            .collect();
        let master = [&self.cost, &self.gradient, &self.scales, &self.damping, &self.trial];
        all.extend(master.map(|m| (Reads::Master, m)));
        all.extend(self.before_b().map(|m| (Reads::Linear, m)));
        all.push((Reads::LinearB, &self.sweep_b));
        all
    }
}
