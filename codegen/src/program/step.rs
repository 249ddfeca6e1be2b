//! Steps of a program, and the ids that they name things by.

use crate::expr::Name;
use crate::runtime::Scalar;

/// A buffer in a program's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// A pipeline in a program's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PipelineId(pub usize);

/// A named scalar of a program, whose value may change between runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParamId(pub usize);

/// The value of a pipeline's parameter in a `Run`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Always the same.
    Const(Scalar),
    /// The current value of a parameter of the program.
    Param(ParamId),
}

/// One step of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Runs a pipeline, with a buffer for each of its inputs and outputs and a value for each of its parameters.
    Run {
        /// The pipeline.
        pipeline: PipelineId,
        /// Its buffers by name.
        bindings: Vec<(Name, BufferId)>,
        /// Its parameters by name.
        params: Vec<(Name, Value)>,
    },
    /// Exchanges two buffers that look alike.
    Swap(BufferId, BufferId),
    /// Runs `body` until the scalar buffer `until` is not zero behind it, at most `max` times.
    Repeat {
        /// Most iterations.
        max: usize,
        /// A 0-d buffer of any type.
        until: BufferId,
        /// The steps that are repeated.
        body: Vec<Step>,
    },
    /// Asks the host, which may read and write buffers and change parameters, what to do next.
    Host(Name),
}

/// The host's answer to a [`Step::Host`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The next step.
    Continue,
    /// The innermost `Repeat` ends here; outside of one, like `Stop`.
    Break,
    /// The program ends here.
    Stop,
}
