//! Outlines that are kept in the user's [`Cache`], beside the objects of their pipelines: such an energy is neither derived nor compiled again.
//!
//! The key is all that an outline follows from: the energy as it was built, its options but for those that change no code, the target, and the
//! build, which is the hash of the sources of this crate and those below it. A block holds the outline and the keys of the objects. If one of
//! them is gone, so is all, as if nothing had been kept; and what was refused is not kept, so that it is refused again.

use crate::matrix_free::outline::Outline;
use crate::problem::options::{CompileOptions, Preconditioner};
use serde::{Deserialize, Serialize};
use sumsq_codegen::Target;
use sumsq_codegen::cache::{Cache, Key};
use sumsq_codegen::compile::{self, Compiled};
use sumsq_energy::SOURCES;
use sumsq_energy::model::Energy;

/// Contents of a block.
#[derive(Serialize, Deserialize)]
struct Block<T> {
    outline: T,
    pipelines: Vec<Key>,
}

/// The place of an energy in a cache.
pub struct Place<'a> {
    cache: &'a Cache,
    key: Key,
}

impl<'a> Place<'a> {
    /// That of an energy under these options, with a second preconditioner if there is one.
    pub fn new(
        cache: &'a Cache,
        energy: &Energy,
        (options, second): (&CompileOptions, Option<Preconditioner>),
        target: &Target,
    ) -> Place<'a> {
        // These change no code.
        let options = CompileOptions { threads: None, max_memory: None, ..options.clone() };
        let what = (
            env!("SUMSQ_SOURCES"),
            SOURCES,
            format!("{options:?}"),
            second.map(Preconditioner::name),
            energy,
        );
        Place { cache, key: compile::key(&what, target) }
    }

    /// The outline of the energy but for the energy itself, and its pipelines, if they are there.
    pub fn load(&self) -> Option<(Outline, Vec<Compiled>)> {
        let bytes = self.cache.get(&self.key)?;
        let Block::<Outline> { outline, pipelines } = serde_json::from_slice(&bytes).ok()?;
        Some((outline, Compiled::kept(&pipelines, self.cache)?))
    }

    /// Keeps an outline, if its pipelines are kept.
    pub fn keep(&self, outline: &Outline, pipelines: &[Compiled]) {
        let Some(pipelines) = pipelines.iter().map(Compiled::key).collect() else { return };
        if let Ok(bytes) = serde_json::to_vec(&Block { outline, pipelines }) {
            self.cache.put(&self.key, &bytes);
        }
    }
}
