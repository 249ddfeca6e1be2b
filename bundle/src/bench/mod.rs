//! Measurements on a device: pieces, each in a process of its own, the most telling first, until the time is over.

mod copy;
mod cpu;
pub mod facts;
mod iteration;
mod loops;
mod peers;
mod pipelines;
pub mod problems;
mod run;
mod solves;
mod start;

pub use crate::checks::Extent;
pub use run::{Order, bench, child};

use facts::Facts;
use std::error::Error;
use std::path::Path;

/// The result of a measurement; an error ends its piece, whose numbers so far are kept.
pub type Done<T> = Result<T, Box<dyn Error>>;

/// The name of the bandwidth that large problems are compared with.
const COPY_RATE: &str = "copy of large blocks";

/// The variable of the environment by which pieces know it, in GB/s.
const COPY_VARIABLE: &str = "SUMSQ_BENCH_COPY";

fn copy_rate() -> Option<f64> {
    std::env::var(COPY_VARIABLE).ok()?.parse().ok()
}

/// The work of a piece.
#[derive(Clone, Copy)]
pub enum Work {
    /// Of its own.
    Plain(fn(&mut Facts, Extent) -> Done<()>),
    /// Iterations of the energy of this name, at its large size.
    Energy,
    /// A peer, which has a folder.
    Peer(fn(&mut Facts, &Path, Extent) -> Done<()>),
}

/// A piece of the measurements.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Its name, which is that of its files.
    pub name: &'static str,
    /// Seconds after which it is ended.
    pub limit: u64,
    /// The work.
    pub work: Work,
}

/// All pieces, the most telling first.
pub const PIECES: [Piece; 21] = [
    piece("copy", 30, Work::Plain(copy::copy)),
    piece("natural", 90, Work::Plain(iteration::naturals)),
    piece("solves", 60, Work::Plain(solves::solves)),
    piece("laplacian", 60, Work::Energy),
    piece("image_warping", 60, Work::Energy),
    piece("peer_cuda", 90, Work::Peer(peers::cuda)),
    piece("start", 30, Work::Plain(start::start)),
    piece("pipelines", 60, Work::Plain(pipelines::pipelines)),
    piece("arap_mesh_deformation", 60, Work::Energy),
    piece("poisson_image_editing", 60, Work::Energy),
    piece("shape_from_shading", 60, Work::Energy),
    piece("volumetric_mesh_deformation", 60, Work::Energy),
    piece("optical_flow", 60, Work::Energy),
    piece("intrinsic_image_decomposition", 60, Work::Energy),
    piece("peer_cupy", 60, Work::Peer(peers::cupy)),
    piece("peer_jax", 90, Work::Peer(peers::jax)),
    piece("loops", 40, Work::Plain(loops::loops)),
    piece("cpu", 60, Work::Plain(cpu::cpu)),
    piece("cotangent_mesh_smoothing", 60, Work::Energy),
    piece("embedded_deformation", 60, Work::Energy),
    piece("robust_nonrigid_alignment", 60, Work::Energy),
];

const fn piece(name: &'static str, limit: u64, work: Work) -> Piece {
    Piece { name, limit, work }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_energy_is_a_piece() {
        let energies: Vec<&str> =
            PIECES.iter().filter(|p| matches!(p.work, Work::Energy)).map(|p| p.name).collect();
        let mut wanted = problems::ENERGIES.map(|e| e.name).to_vec();
        wanted.sort_by_key(|name| energies.iter().position(|e| e == name));
        assert_eq!(energies, wanted);
    }
}
