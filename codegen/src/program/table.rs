//! Buffers and parameters that programs share.

use crate::error::{Error, bind_error};
use crate::expr::Name;
use crate::program::step::{BufferId, ParamId, Value};
use crate::runtime::{Buffer, Scalar};

/// Buffers and parameters of a program.
#[derive(Default)]
pub struct Table {
    pub(super) buffers: Vec<Entry>,
    pub(super) params: Vec<(Name, Scalar)>,
}

pub(super) struct Entry {
    pub name: Name,
    pub buffer: Buffer,
    /// Holds meaningful values before the program runs.
    pub initialised: bool,
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table::default()
    }

    /// Number of buffers and of parameters; it only grows.
    pub(super) fn size(&self) -> (usize, usize) {
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

    /// Puts another buffer that looks alike in the place of one; where its rows and planes lie may differ.
    ///
    /// # Errors
    /// Buffers of other sizes, type or layout.
    pub fn replace(&mut self, id: BufferId, buffer: Buffer) -> Result<(), Error> {
        let entry = &mut self.buffers[id.0];
        if entry.buffer.spec() != buffer.spec() {
            let message = format!("expected {:?}, came {:?}", entry.buffer.spec(), buffer.spec());
            return Err(bind_error("program", entry.name.clone(), message));
        }
        entry.buffer = buffer;
        Ok(())
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

impl Value {
    /// The value that it has now.
    pub(super) fn now(self, table: &Table) -> Scalar {
        match self {
            Value::Const(s) => s,
            Value::Param(id) => table.param(id),
        }
    }
}
