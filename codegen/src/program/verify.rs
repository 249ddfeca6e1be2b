//! Conditions that a program must satisfy before it runs.
//!
//! - Every id exists, every buffer and parameter of a pipeline is bound exactly once and fits.
//! - No run binds one buffer to two names, one of them written, unless that output is in place of that input.
//! - Every buffer that is read was written by an earlier step, or declared initialised. A `Host` step may write
//!   anything, so what follows one is not held against the program; the body of a `Repeat` may not run at all, but what
//!   it wrote is taken as written behind it, since it runs at least once unless `max` is 0.
//! - Swapped buffers look alike; the condition of a `Repeat` is a scalar that its body or an earlier step writes.

use crate::compile::Compiled;
use crate::error::{Error, bind_error};
use crate::expr::Name;
use crate::program::step::{BufferId, Step, Value};
use crate::program::table::Table;
use crate::runtime::Buffer;

/// Checks `steps`.
pub(super) fn verify(pipelines: &[Compiled], table: &Table, steps: &[Step]) -> Result<(), Error> {
    let written = table.buffers.iter().map(|e| e.initialised).collect();
    Verifier { pipelines, table, written, host_ran: false }.steps(steps)
}

struct Verifier<'a> {
    pipelines: &'a [Compiled],
    table: &'a Table,
    /// Per buffer: holds meaningful values here.
    written: Vec<bool>,
    host_ran: bool,
}

fn error(name: impl Into<Name>, message: impl Into<String>) -> Error {
    bind_error("program", name, message)
}

impl Verifier<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), Error> {
        steps.iter().try_for_each(|s| self.step(s))
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Run { pipeline, bindings, params } => {
                let compiled = self
                    .pipelines
                    .get(pipeline.0)
                    .ok_or_else(|| error(format!("pipeline {}", pipeline.0), "there is no such pipeline"))?;
                self.params(compiled, params)?;
                self.run(compiled, bindings)
            }
            Step::Swap(a, b) => {
                let (x, y) = (self.buffer(*a)?, self.buffer(*b)?);
                if x.spec() != y.spec() {
                    let message = format!("cannot be swapped with {}: they do not look alike", self.name(*b));
                    return Err(error(self.name(*a), message));
                }
                self.written.swap(a.0, b.0);
                Ok(())
            }
            Step::Repeat { max, until, body } => {
                let before = self.written.clone();
                if !self.buffer(*until)?.spec().extents.is_empty() {
                    return Err(error(
                        self.name(*until),
                        "the condition of a repetition must be a scalar (0-d)",
                    ));
                }
                self.steps(body)?;
                self.read(*until, "the condition of a repetition")?;
                // A second iteration may find swapped buffers in other places.
                self.steps(body)?;
                if *max == 0 {
                    self.written = before;
                }
                Ok(())
            }
            Step::Host(_) => {
                self.host_ran = true;
                Ok(())
            }
        }
    }

    fn run(&mut self, compiled: &Compiled, bindings: &[(Name, BufferId)]) -> Result<(), Error> {
        let buffers: Vec<(&str, &Buffer)> = bindings
            .iter()
            .map(|(name, id)| Ok((&**name, self.buffer(*id)?)))
            .collect::<Result<_, Error>>()?;
        // Shapes, completeness and sharing.
        compiled.check_buffers(&buffers)?;
        let slots = &compiled.signature().buffers;
        let id_of = |name: &Name| bindings.iter().find(|b| b.0 == *name).map(|b| b.1);
        for slot in slots.iter().filter(|s| !s.written) {
            if let Some(id) = id_of(&slot.name) {
                self.read(id, &format!("input {} of {}", slot.name, compiled.name()))?;
            }
        }
        for slot in slots.iter().filter(|s| s.written) {
            if let Some(id) = id_of(&slot.name) {
                self.written[id.0] = true;
            }
        }
        Ok(())
    }

    fn params(&self, compiled: &Compiled, params: &[(Name, Value)]) -> Result<(), Error> {
        let wrong = |name: &Name, message: String| Err(bind_error(compiled.name(), name.clone(), message));
        for (name, ty) in &compiled.signature().params {
            let mut given = params.iter().filter(|p| p.0 == *name);
            let value = match (given.next(), given.next()) {
                (Some((_, v)), None) => v,
                (None, _) => return wrong(name, "no value is given for this parameter".into()),
                _ => return wrong(name, "given twice".into()),
            };
            let came = match value {
                Value::Const(s) => s.ty(),
                Value::Param(id) => match self.table.params.get(id.0) {
                    Some((_, s)) => s.ty(),
                    None => return wrong(name, format!("the program has no parameter {}", id.0)),
                },
            };
            if came != *ty {
                return wrong(name, format!("expected a {}, got a {}", ty.name(), came.name()));
            }
        }
        match params.iter().find(|p| !compiled.signature().params.contains_key(&p.0)) {
            Some((name, _)) => wrong(name, "the pipeline has no such parameter".into()),
            None => Ok(()),
        }
    }

    fn read(&self, id: BufferId, by: &str) -> Result<(), Error> {
        if self.written[id.0] || self.host_ran {
            return Ok(());
        }
        Err(error(self.name(id), format!("read by {by} before anything was written to it")))
    }

    fn buffer(&self, id: BufferId) -> Result<&Buffer, Error> {
        let entry = self.table.buffers.get(id.0);
        entry.map(|e| &e.buffer).ok_or_else(|| error(format!("buffer {}", id.0), "there is no such buffer"))
    }

    fn name(&self, id: BufferId) -> Name {
        self.table.buffers.get(id.0).map_or_else(|| format!("buffer {}", id.0).into(), |e| e.name.clone())
    }
}
