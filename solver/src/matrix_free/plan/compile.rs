//! From an energy to machine code, once; plans of any size share it.

use crate::error::SolveError;
use crate::matrix_free::Wanted;
use crate::matrix_free::choices::{ChoiceError, Derived};
use crate::matrix_free::outline::{Module, Outline};
use crate::matrix_free::phases::pipelines;
use crate::matrix_free::plan::transfer::Transfers;
use crate::matrix_free::preconditioner::{Preconditioner, kinds};
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::stages::Stage;
use crate::problem::options::{self, CompileOptions, OptionError, Precision};
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::cache::Cache;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::{Limits, ScalarType, Target};
use sumsq_energy::model::Energy;

/// Everything that decides what code is generated.
#[derive(Clone)]
pub struct Settings {
    /// Type of the master copy of x, E, g.
    pub master: ScalarType,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// The preconditioners that a plan holds, by number: a solve begins with the first.
    pub preconditioners: Vec<Arc<dyn Preconditioner>>,
}

impl Settings {
    /// The settings that the options mean for an energy.
    pub fn new(energy: &Energy, options: &CompileOptions) -> Result<Settings, OptionError> {
        let (master, linear) = match options.precision {
            // PCG on few unknowns costs nothing.
            Precision::Mixed if energy.only_globals() => (ScalarType::F64, ScalarType::F64),
            Precision::Mixed => (ScalarType::F64, ScalarType::F32),
            Precision::F32 => (ScalarType::F32, ScalarType::F32),
            Precision::F64 => (ScalarType::F64, ScalarType::F64),
        };
        let preconditioners = vec![kinds::chosen(options.preconditioner, energy)?];
        Ok(Settings { master, linear, preconditioners })
    }

    /// With a second preconditioner, if there is to be one.
    ///
    /// # Errors
    /// An energy that cannot have it.
    pub fn and(
        mut self,
        second: Option<options::Preconditioner>,
        energy: &Energy,
    ) -> Result<Settings, OptionError> {
        if let Some(second) = second {
            self.preconditioners.push(kinds::chosen(second, energy)?);
        }
        Ok(self)
    }

    /// The skeleton of an energy under these settings.
    ///
    /// # Errors
    /// A wanted choice that cannot be.
    pub fn skeleton(
        &self,
        derived: Derived,
        target: Target,
        wanted: Wanted,
    ) -> Result<Skeleton, ChoiceError> {
        Skeleton::new(derived, self.master, self.linear, &self.preconditioners, target, wanted)
    }

    /// All pipelines of such a skeleton.
    pub fn pipelines(&self, k: &Skeleton) -> Vec<(Stage, Scheduled)> {
        pipelines(k, &self.preconditioners)
    }
}

/// The code of a solver: its pipelines in the order of their stages; on a GPU its copies, too.
pub struct Modules {
    /// The pipelines.
    pub pipelines: Vec<Compiled>,
    /// Copies on the GPU, if that is the target.
    pub transfers: Option<Arc<Transfers>>,
}

impl Modules {
    /// The code for a target.
    pub fn new(pipelines: Vec<Compiled>, target: &Target) -> Modules {
        Modules { pipelines, transfers: Transfers::of(target).map(Arc::new) }
    }
}

/// Compiles all pipelines of a skeleton, those that a cache has apart, in the order of their stages.
///
/// # Errors
/// What the engine refuses.
pub fn compile(
    k: &Skeleton,
    settings: &Settings,
    limits: Limits,
    cache: Option<&Cache>,
) -> Result<(Outline, Vec<Compiled>), SolveError> {
    let (mut jobs, mut rest) = (vec![], vec![]);
    for (stage, Scheduled { pipeline, schedule, role, vectors, params, span }) in settings.pipelines(k) {
        jobs.push((pipeline, schedule));
        rest.push((stage, span, role, vectors, params));
    }
    let code = Compiled::all_kept(jobs, &k.target, limits, cache)?;
    let module = |(code, (stage, span, role, vectors, params)): (
        &Compiled,
        (_, _, _, BTreeMap<_, _>, BTreeMap<_, _>),
    )| {
        let signature = code.signature();
        let vectors = signature.buffers.iter().map(|slot| vectors[&slot.name]).collect();
        let params = signature.params.keys().map(|name| params[name]).collect();
        Module { stage, role, vectors, params, span }
    };
    let modules: Vec<Module> = code.iter().zip(rest).map(module).collect();
    Ok((Outline::new(k, &modules), code))
}
