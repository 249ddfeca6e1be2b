//! Programs: control flow as data over compiled pipelines.
//!
//! A [`Program`] is a list of [`Step`]s over a [`Table`] of buffers, which several programs may share. Scalars that steer it (step lengths, norms, "done")
//! are 0-d buffers that pipelines write. The host looks at buffers only in `Host` steps and at a `Repeat`'s
//! condition. [`Program::new`] checks the program once (`verify`); running it then allocates nothing.

mod verify;

use crate::compile::{BufferSlot, Call, Compiled, bind_error};
use crate::error::Error;
use crate::expr::Name;
use crate::runtime::{Buffer, Pool, Scalar};

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

/// Buffers and parameters of a program.
#[derive(Default)]
pub struct Table {
    buffers: Vec<Entry>,
    params: Vec<(Name, Scalar)>,
}

struct Entry {
    name: Name,
    buffer: Buffer,
    /// Holds meaningful values before the program runs.
    initialised: bool,
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table::default()
    }

    /// Number of buffers and of parameters; it only grows.
    fn size(&self) -> (usize, usize) {
        (self.buffers.len(), self.params.len())
    }

    /// Adds a buffer. `initialised` says that its contents (zeros, if nothing else) are meant to be read.
    pub fn add(&mut self, name: impl Into<Name>, buffer: Buffer, initialised: bool) -> BufferId {
        self.buffers.push(Entry { name: name.into(), buffer, initialised });
        BufferId(self.buffers.len() - 1)
    }

    /// Adds a parameter.
    pub fn add_param(&mut self, name: impl Into<Name>, value: Scalar) -> ParamId {
        self.params.push((name.into(), value));
        ParamId(self.params.len() - 1)
    }

    /// The buffer now known by `id`: a `Swap` exchanges what two ids stand for. Panics if `id` is not from [`Table::add`].
    /// Its contents change through its methods.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0].buffer
    }

    /// A 0-d buffer's value; `None` if it has dimensions.
    pub fn scalar(&self, id: BufferId) -> Option<f64> {
        self.buffer(id).get(&[], 0)
    }

    /// The current value of a parameter.
    pub fn param(&self, id: ParamId) -> Scalar {
        self.params[id.0].1
    }

    /// Changes a parameter; its type stays.
    pub fn set_param(&mut self, id: ParamId, value: Scalar) -> Result<(), Error> {
        let (name, old) = &mut self.params[id.0];
        if old.ty() != value.ty() {
            let message = format!("expected a {}, got a {}", old.ty().name(), value.ty().name());
            return Err(bind_error("program", name.clone(), message));
        }
        *old = value;
        Ok(())
    }

    /// Exchanges two buffers.
    pub fn swap(&mut self, a: BufferId, b: BufferId) -> Result<(), Error> {
        if a == b {
            return Ok(());
        }
        let (low, high) = (a.min(b).0, a.max(b).0);
        let (left, right) = self.buffers.split_at_mut(high);
        let (x, y) = (&mut left[low], &mut right[0]);
        x.buffer
            .swap(&mut y.buffer)
            .map_err(|e| bind_error("program", format!("{} and {}", x.name, y.name), e.to_string()))
    }
}

/// A checked program.
pub struct Program {
    steps: Vec<Prepared>,
    /// Buffers and parameters of the table that it was checked with.
    table_size: (usize, usize),
}

/// A step with everything looked up.
enum Prepared {
    Run {
        call: Call,
        /// Buffer per slot of the pipeline's signature.
        slots: Vec<BufferId>,
        /// Parameters that may have changed since the last run.
        params: Vec<(Name, ParamId)>,
    },
    Swap(BufferId, BufferId),
    Repeat {
        max: usize,
        until: BufferId,
        body: Vec<Prepared>,
    },
    Host(Name),
}

impl Program {
    /// Checks `steps` (see `verify`) and looks everything up.
    pub fn new(pipelines: &[Compiled], table: &Table, steps: &[Step]) -> Result<Program, Error> {
        verify::verify(pipelines, table, steps)?;
        Ok(Program { steps: prepare(pipelines, table, steps)?, table_size: table.size() })
    }

    /// Runs the program on the table that it was checked with. `host` is asked at every `Host` step, by the step's name.
    pub fn run(
        &mut self,
        table: &mut Table,
        pool: &Pool,
        host: &mut dyn FnMut(&str, &mut Table) -> Result<Flow, Error>,
    ) -> Result<(), Error> {
        let (buffers, params) = table.size();
        if buffers < self.table_size.0 || params < self.table_size.1 {
            return Err(bind_error("program", "table", "it is not the one that the program was made for"));
        }
        execute(&mut self.steps, table, pool, host).map(|_| ())
    }
}

fn prepare(pipelines: &[Compiled], table: &Table, steps: &[Step]) -> Result<Vec<Prepared>, Error> {
    let one = |step: &Step| match step {
        Step::Run { pipeline, bindings, params } => {
            let compiled = &pipelines[pipeline.0];
            let find = |slot: &BufferSlot| {
                let bound = bindings.iter().find(|b| b.0 == slot.name).map(|b| b.1);
                bound
                    .ok_or_else(|| bind_error(compiled.name(), slot.name.clone(), "no buffer is bound to it"))
            };
            let slots: Vec<BufferId> =
                compiled.signature().buffers.iter().map(find).collect::<Result<_, _>>()?;
            let mut call = Call::new(compiled.clone());
            for (name, value) in params {
                call.set_param(name, value.now(table))?;
            }
            let changing = |(name, value): &(Name, Value)| match value {
                Value::Param(id) => Some((name.clone(), *id)),
                Value::Const(_) => None,
            };
            Ok(Prepared::Run { call, slots, params: params.iter().filter_map(changing).collect() })
        }
        Step::Swap(a, b) => Ok(Prepared::Swap(*a, *b)),
        Step::Repeat { max, until, body } => {
            Ok(Prepared::Repeat { max: *max, until: *until, body: prepare(pipelines, table, body)? })
        }
        Step::Host(name) => Ok(Prepared::Host(name.clone())),
    };
    steps.iter().map(one).collect()
}

impl Value {
    fn now(self, table: &Table) -> Scalar {
        match self {
            Value::Const(s) => s,
            Value::Param(id) => table.param(id),
        }
    }
}

fn execute(
    steps: &mut [Prepared],
    table: &mut Table,
    pool: &Pool,
    host: &mut dyn FnMut(&str, &mut Table) -> Result<Flow, Error>,
) -> Result<Flow, Error> {
    for step in steps {
        match step {
            Prepared::Run { call, slots, params } => {
                for (name, id) in params.iter() {
                    call.set_param(name, table.param(*id))?;
                }
                let table = &*table;
                let buffer = |slot: usize| table.buffer(slots[slot]);
                call.refresh(buffer)?;
                // SAFETY: the pointers are those of buffers that were checked just now and that the table holds; they are
                // written to as cells, by this thread and by workers that it waits for.
                let done = unsafe { call.run(pool) };
                call.touch_written(buffer);
                done?;
            }
            Prepared::Swap(a, b) => table.swap(*a, *b)?,
            Prepared::Repeat { max, until, body } => {
                for _ in 0..*max {
                    match execute(body, table, pool, host)? {
                        Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Stop => return Ok(Flow::Stop),
                    }
                    if table.scalar(*until).is_none_or(|done| done != 0.0) {
                        break;
                    }
                }
            }
            Prepared::Host(name) => match host(name, table)? {
                Flow::Continue => {}
                other => return Ok(other),
            },
        }
    }
    Ok(Flow::Continue)
}

#[cfg(test)]
mod tests;
