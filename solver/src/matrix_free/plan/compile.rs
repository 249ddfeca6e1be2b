//! From an energy to machine code, once; plans of any size share it.

use crate::error::SolveError;
use crate::matrix_free::Wanted;
use crate::matrix_free::choices::{ChoiceError, Derived};
use crate::matrix_free::params::Param;
use crate::matrix_free::phases::pipelines;
use crate::matrix_free::plan::transfer::Transfers;
use crate::matrix_free::preconditioner::{Preconditioner, kinds};
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::stages::Stage;
use crate::matrix_free::vectors::{Role, VectorId};
use crate::problem::options::{CompileOptions, OptionError, Precision};
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::{Limits, Name, ScalarType, Target};
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

/// A compiled pipeline.
pub struct Module {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// Its code.
    pub code: Compiled,
    /// The copy of the numbers that it was made for.
    pub role: Role,
    /// The vectors behind the names of its buffers.
    pub vectors: BTreeMap<Name, VectorId>,
    /// The parameters behind their names.
    pub params: BTreeMap<Name, Param>,
}

/// The compiled pipelines of a skeleton, in the order of their stages; on a GPU its copies, too.
pub struct Modules(Vec<Module>, Option<Arc<Transfers>>);

impl Modules {
    /// Compiles all pipelines of a skeleton.
    pub fn new(k: &Skeleton, settings: &Settings, limits: Limits) -> Result<Modules, SolveError> {
        let (mut jobs, mut rest) = (vec![], vec![]);
        for (stage, Scheduled { pipeline, schedule, role, vectors, params }) in settings.pipelines(k) {
            jobs.push((pipeline, schedule));
            rest.push((stage, role, vectors, params));
        }
        let code = Compiled::all_within(jobs, &k.target, limits)?.into_iter().zip(rest);
        let module = |(code, (stage, role, vectors, params))| Module { stage, code, role, vectors, params };
        Ok(Modules(code.map(module).collect(), Transfers::of(&k.target).map(Arc::new)))
    }

    /// Copies on the GPU, if that is the target.
    pub fn transfers(&self) -> Option<Arc<Transfers>> {
        self.1.clone()
    }

    /// All of them.
    pub fn all(&self) -> &[Module] {
        &self.0
    }

    /// Those of a stage, in the order in which they run.
    pub fn of(&self, stage: Stage) -> impl Iterator<Item = &Module> {
        self.0.iter().filter(move |m| m.stage == stage)
    }
}
