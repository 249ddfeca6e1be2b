//! The machine that `Backend::Auto` comes to: a GPU where there is one that can be opened and the counted work pays for starting it, else the CPU
//! with the reason.

use crate::error::SolveError;
use crate::problem::options::{Backend, CompileOptions, Preconditioner};
use crate::problem::overrides::Overrides;
use std::fmt;
use sumsq_codegen::runtime::cuda::Device;
use sumsq_codegen::{Level, Target};
use sumsq_energy::derive::count_ops;
use sumsq_energy::model::{Domain, Energy};

/// Operations and reads of all residuals together from which on a GPU is worth the second that its start takes. To be decided by hardware: what
/// is known is that 512 x 512 pixels of image warping (25 million) take the CPU seconds. `run bench` has the figures of both.
const PAYS: u64 = 10_000_000;

/// Hyperedges of a graph for each element of its first vertex's space, as meshes have them: their number is not among the sizes.
const EDGES: u64 = 6;

/// Work that a GPU may be worth its start for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Work {
    /// Operations and reads.
    pub operations: u64,
    /// As many as it has to be.
    pub pays: u64,
    /// The name of the work, behind the number of its operations.
    pub of: String,
}

/// A machine, and the reason for it where the choice was left open.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// It, as code is made for it.
    pub target: Target,
    /// None if it was asked for.
    pub why: Option<String>,
}

/// `on the CPU`, and why.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.target.gpu.is_some() { "on the GPU" } else { "on the CPU" };
        match &self.why {
            Some(why) => write!(f, "{place}: {why}"),
            None => f.write_str(place),
        }
    }
}

impl CompileOptions {
    /// The machine for some work: where the choice is left open, a GPU if there is one that can be opened and the work pays, else the CPU. `counted`
    /// gives the work, or the reason why a GPU is out of the question; no driver is loaded for what would not pay.
    ///
    /// # Errors
    /// As of [`CompileOptions::machine`].
    pub fn machine_for(&self, counted: impl FnOnce() -> Result<Work, String>) -> Result<Machine, SolveError> {
        if self.backend != Backend::Auto {
            return Ok(Machine { target: self.machine()?, why: None });
        }
        let (target, why) = match self.gpu_for(counted) {
            Ok((target, why)) => (target, why),
            Err(why) => (self.target.target()?, why),
        };
        Ok(Machine { target, why: Some(why) })
    }

    /// The GPU and the reason for it, or the reason against it.
    fn gpu_for(&self, counted: impl FnOnce() -> Result<Work, String>) -> Result<(Target, String), String> {
        if self.target != Level::Native || self.choices != Overrides::default() {
            return Err("options of a CPU are given".into());
        }
        let Work { operations, pays, of } = counted()?;
        let work = format!("{:.1} million operations {of}", operations as f64 / 1e6);
        if operations < pays {
            return Err(format!("{work} would not pay for starting a GPU"));
        }
        let machine = || -> Result<Target, SolveError> {
            let target = CompileOptions { backend: Backend::Cuda, ..self.clone() }.machine()?;
            // Another process may have it to itself.
            Device::shared(self.device)?;
            Ok(target)
        };
        let target = machine().map_err(|error| error.to_string())?;
        Ok((target, format!("{work} pay for starting it")))
    }

    /// The machine for an energy.
    pub(super) fn machine_for_energy(&self, energy: &Energy) -> Result<Machine, SolveError> {
        self.machine_for(|| {
            if self.preconditioner == Preconditioner::Aggregation {
                return Err("the host makes and applies the levels of aggregation".into());
            }
            let sizes = self.sizes.as_deref().ok_or("sizes are not known when code is made")?;
            Ok(Work { operations: work(energy, sizes), pays: PAYS, of: "in all residuals".into() })
        })
    }
}

/// Operations and reads of all residual instances.
fn work(energy: &Energy, sizes: &[usize]) -> u64 {
    let elements = |space: usize| -> u64 {
        let of = |d: &sumsq_energy::model::DimId| {
            let given = sizes.get(d.index()).copied().unwrap_or(0);
            energy.dims[d.index()].fixed.unwrap_or(given as u64)
        };
        energy.spaces[space].iter().map(of).fold(1, u64::saturating_mul)
    };
    let of = |domain: Domain| match domain {
        Domain::Space(s) => elements(s.index()),
        Domain::Graph(g) => {
            let vertices = &energy.graphs[g.index()].vertices;
            vertices.first().map_or(0, |v| EDGES.saturating_mul(elements(v.space.index())))
        }
    };
    let each = energy.residuals.iter().map(|r| {
        let count = count_ops(&energy.dag, &[r.value]);
        of(r.domain).saturating_mul((count.weight() + count.loads).into())
    });
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_has_its_reasons() {
        let text = "local W, H = Dim('W', 0), Dim('H', 1)
            local X = Unknown('X', opt_float, {W,H}, 0)
            Energy(X(0,0) - 1, X(0,0) - X(1,0))";
        let energy = Energy::from_text("energy.t", text).unwrap();
        // A read and a sum, and two reads and a sum.
        assert_eq!((work(&energy, &[10, 10]), work(&energy, &[0, 10])), (500, 0));
        let why = |options: CompileOptions| {
            let Machine { target, why } = options.machine_for_energy(&energy).unwrap();
            assert!(target.gpu.is_none());
            why
        };
        let of =
            |sizes: &[usize]| CompileOptions { sizes: Some(sizes.to_vec()), ..CompileOptions::default() };
        assert_eq!(why(CompileOptions::default()).unwrap(), "sizes are not known when code is made");
        assert_eq!(why(CompileOptions { backend: Backend::Cpu, ..of(&[4000, 4000]) }), None);
        let level = CompileOptions { target: Level::X86V2, ..of(&[4000, 4000]) };
        assert_eq!(why(level).unwrap(), "options of a CPU are given");
        let small = "0.0 million operations in all residuals would not pay for starting a GPU";
        assert_eq!(why(of(&[10, 10])).unwrap(), small);
    }
}
