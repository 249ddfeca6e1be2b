//! Hierarchies of aggregates: smoothed aggregation on the graph of elements that residuals couple, for every index space.
//!
//! Generated code gives the numbers of the finest level: the diagonal blocks of J^T J, D, and the couplings of elements, those of stencils by
//! offset and those of hyperedges by pair of slots. The host makes the levels of them, once per linear system, and applies the coarser ones in
//! every PCG iteration. Level 0 is additive: the sweeps add w M^-1 r, M its blocks, to what the host brings up.
//!
//! See Vanek, Mandel and Brezina, Algebraic multigrid by smoothed aggregation (Computing 56, 1996).
//!
//! | file | holds |
//! |---|---|
//! | [`sources`] | where the entries of A come from, but for sizes |
//! | [`numbers`] | the numbers of these entries, read from a plan's vectors |
//! | [`finest`] | A and the candidates on level 0, of a plan's vectors |
//! | [`level`] | a level, and the next one made of it |
//! | [`hierarchy`] | all levels of a space |
//! | [`cycle`] | what the coarser levels make of r |
//! | [`blocks`], [`loops`], [`dense`] | sparse matrices of blocks; their arithmetic; small dense ones |
//! | [`rows`] | loops over rows on a pool |
//!
//! Every number is computed row by row in a fixed order: bits do not depend on the number of threads. Matrices and vectors are in the precision of
//! PCG.

pub mod blocks;
pub mod cycle;
pub mod dense;
pub mod finest;
pub mod hierarchy;
pub mod level;
pub mod loops;
pub mod numbers;
pub mod rows;
pub mod sources;
