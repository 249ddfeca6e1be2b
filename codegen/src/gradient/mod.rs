//! Derivatives of whole pipelines, as ordinary Funcs.
//!
//! [`propagate_adjoints`] goes backwards from outputs to whatever they depend on (J^T w), [`propagate_tangents`] forwards (J v). Both add
//! plain Funcs to the pipeline, which print, validate, schedule, run and differentiate again.
//!
//! ```text
//! adjoints: supports -> for each Func, consumers first: { sum of terms -> updates, last first -> pure definition -> terms }
//! tangents: for each Func, producers first
//! ```
//!
//! | file | what |
//! |---|---|
//! | `slopes` | one node: its change where an operand changes |
//! | `reverse` | one definition: from the adjoints of its values to those of its reads |
//! | `space`, `pieces`, `solve`, `inverse` | one read: all points of a definition that read an element, as loops |
//! | `support`, `activity` | boxes outside of which adjoints are 0; what depends on what |
//! | `updates`, `replace`, `scan`, `steps`, `checkpoints` | update definitions, by form |
//! | `seeds`, `adjoints`, `tangents` | whole pipelines |
//! | `share` | sums over the same iterations as one |
//! | `explain`, `split` | why an adjoint is 0 or scatters; a pipeline with adjoints as two |
//! | `work` | the operations of a pipeline, counted from sizes |
//! | `schedule`, `strips`, `gpu` | first schedules, from sizes alone: of a CPU, with large sums into few elements, and of a GPU |
//!
//! Semantics, of all constructs: `docs/gradients.md`. Source: T.-M. Li, M. Gharbi, A. Adams, F. Durand and J. Ragan-Kelley,
//! "Differentiable programming for image processing and deep learning in Halide", 2018, section 4.

mod activity;
mod adjoints;
mod checkpoints;
mod explain;
mod gpu;
mod inverse;
mod pieces;
mod replace;
mod reverse;
mod scan;
mod schedule;
mod seeds;
mod share;
mod slopes;
mod solve;
mod space;
mod split;
mod steps;
mod strips;
mod support;
mod tangents;
mod terms;
mod tidy;
mod updates;
mod work;

pub use adjoints::{Adjoints, Memory, propagate_adjoints, propagate_adjoints_within, propagate_squares};
pub use gpu::gpu_schedule;
pub use schedule::schedule;
pub use split::as_inputs;
pub(crate) use split::pruned;
pub use tangents::{Tangents, propagate_tangents};
pub use work::work;
