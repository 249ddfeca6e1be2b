//! Programs: control flow as data over compiled pipelines.
//!
//! A [`Program`] is a list of [`Step`]s over a [`Table`] of buffers, which several programs may share. Scalars that steer it (step lengths, norms, "done")
//! are 0-d buffers that pipelines write. The host looks at buffers only in `Host` steps and at a `Repeat`'s
//! condition. [`Program::new`] checks the program once (`verify`); running it then allocates nothing.

mod device;
mod reverse;
mod step;
mod table;
mod verify;

pub use crate::program::reverse::ReverseProgram;
pub use crate::program::step::{BufferId, Flow, ParamId, PipelineId, Step, Value};
pub use crate::program::table::Table;

use crate::compile::{BufferSlot, Call, Compiled};
use crate::error::{Error, bind_error};
use crate::expr::Name;
use crate::runtime::Pool;
use device::{DeviceLoop, device_loop};

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
        /// The loop on a device, if one runs it alone.
        device: Option<Box<DeviceLoop>>,
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
        self.check(table)?;
        execute(&mut self.steps, table, pool, host).map(|_| ())
    }

    /// As [`Program::run`], but where the last step is a loop on a device nobody waits for its end: it makes as many iterations as the device
    /// does before the host looks at it, or fewer. Its condition tells whether it has come to its end.
    pub fn start(
        &mut self,
        table: &mut Table,
        pool: &Pool,
        host: &mut dyn FnMut(&str, &mut Table) -> Result<Flow, Error>,
    ) -> Result<(), Error> {
        self.check(table)?;
        if let Some((Prepared::Repeat { max, until, body, device: Some(device) }, before)) =
            self.steps.split_last_mut()
        {
            if execute(before, table, pool, host)? == Flow::Continue && *max > 0 {
                device.start(body, (*until, *max), table, pool, host)?;
            }
            return Ok(());
        }
        execute(&mut self.steps, table, pool, host).map(|_| ())
    }

    fn check(&self, table: &Table) -> Result<(), Error> {
        let (buffers, params) = table.size();
        if buffers < self.table_size.0 || params < self.table_size.1 {
            return Err(bind_error("program", "table", "it is not the one that the program was made for"));
        }
        Ok(())
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
            let (max, until, body) = (*max, *until, prepare(pipelines, table, body)?);
            let device = device_loop(&body, until, table).transpose()?.map(Box::new);
            Ok(Prepared::Repeat { max, until, body, device })
        }
        Step::Host(name) => Ok(Prepared::Host(name.clone())),
    };
    steps.iter().map(one).collect()
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
                call.run(|slot| table.buffer(slots[slot]), pool)?;
            }
            Prepared::Swap(a, b) => table.swap(*a, *b)?,
            Prepared::Repeat { max, until, body, device: Some(device) } if *max > 0 => {
                if device.run(body, (*until, *max), table, pool, host)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Prepared::Repeat { max, until, body, .. } => {
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
