//! Buffers and parameters that programs share.
//!
//! A loop on a device may be *open*: asked for, while nobody has waited for the number of its iterations. Behind an odd number the buffers that it
//! exchanges are in each other's places. Whoever asks for one of these waits for the number; nobody else does.

use crate::error::{CudaError, Error, bind_error};
use crate::expr::Name;
use crate::program::step::{BufferId, ParamId, Value};
use crate::runtime::cuda::Device;
use crate::runtime::{Buffer, BufferError, BufferSpec, Scalar, sync_hosts, together};
use crate::types::ScalarType;

/// Buffers and parameters of a program.
#[derive(Default)]
pub struct Table {
    pub(super) buffers: Vec<Entry>,
    pub(super) params: Vec<(Name, Scalar)>,
    /// The iterations of the last loop on a device, and what holds it up; see [`Table::turns`].
    turns: Option<Buffer>,
    /// The exchanges of one iteration of the loop that is open.
    open: Option<Vec<(BufferId, BufferId)>>,
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
        let partner = self.partner(id).filter(|_| self.iterations() % 2 == 1);
        &self.buffers[partner.unwrap_or(id).0].buffer
    }

    /// The buffer that an open loop exchanges with one.
    fn partner(&self, id: BufferId) -> Option<BufferId> {
        let pairs = self.open.iter().flatten();
        pairs.flat_map(|&(a, b)| [(a, b), (b, a)]).find(|pair| pair.0 == id).map(|pair| pair.1)
    }

    /// The number of iterations of the last loop on a device, which is waited for; 0 where that has failed, and all its buffers with it.
    fn iterations(&self) -> usize {
        let count = self.turns.as_ref().and_then(|turns| turns.get::<i32>(&[0], 0));
        count.unwrap_or(0).max(0) as usize
    }

    /// Three i32 on a device for its loops: the number of iterations, whether the rest of a chunk is skipped, and how often blocks have waited for
    /// each other.
    pub(super) fn turns(&mut self) -> Result<&Buffer, BufferError> {
        let made = match self.turns.take() {
            Some(made) => made,
            None => Buffer::new(BufferSpec::new(ScalarType::I32, &[3]))?,
        };
        Ok(self.turns.insert(made))
    }

    /// Notes that a loop was asked for that exchanges these buffers.
    pub(super) fn open(&mut self, pairs: Vec<(BufferId, BufferId)>) {
        self.open = Some(pairs);
    }

    /// Waits for the loop that is open, if one is, and puts its buffers in their places. Returns the iterations of the last loop.
    pub(super) fn close(&mut self) -> Result<usize, Error> {
        let Some(pairs) = self.open.take() else { return Ok(self.iterations()) };
        let waited = self.turns.as_ref().map_or(Ok(()), Buffer::sync_host);
        waited.map_err(|error| Error::Device { pipeline: "loop".into(), error })?;
        let iterations = self.iterations();
        if iterations % 2 == 1 {
            pairs.into_iter().try_for_each(|(a, b)| self.exchange(a, b))?;
        }
        Ok(iterations)
    }

    /// Has buffers lie together on a device, so that [`Table::fetch`] brings them in one copy. To be called before the device has any of them.
    ///
    /// # Errors
    /// The device has no memory, or fails.
    pub fn gather(&mut self, device: &Device, ids: &[BufferId]) -> Result<(), BufferError> {
        self.turns()?;
        let own = ids.iter().map(|id| &self.buffers[id.0].buffer);
        Ok(together(device, &own.chain(&self.turns).collect::<Vec<_>>())?)
    }

    /// Brings buffers to the host, those that lie together in one copy: a wait. A loop that is open needs no other.
    ///
    /// # Errors
    /// A device has the values and does not hand them out.
    pub fn fetch(&self, ids: impl Iterator<Item = BufferId>) -> Result<(), CudaError> {
        let mut all = vec![];
        for id in ids {
            all.extend(std::iter::once(id).chain(self.partner(id)).map(|id| &self.buffers[id.0].buffer));
        }
        all.extend(self.open.as_ref().and(self.turns.as_ref()));
        sync_hosts(&all)
    }

    /// Puts another buffer that looks alike in the place of one, which it returns; where its rows and planes lie may differ.
    ///
    /// # Errors
    /// Buffers of other sizes, type or layout.
    pub fn replace(&mut self, id: BufferId, buffer: Buffer) -> Result<Buffer, Error> {
        self.close()?;
        let entry = &mut self.buffers[id.0];
        if entry.buffer.spec() != buffer.spec() {
            let message = format!("expected {:?}, came {:?}", entry.buffer.spec(), buffer.spec());
            return Err(bind_error("program", entry.name.clone(), message));
        }
        Ok(std::mem::replace(&mut entry.buffer, buffer))
    }

    /// Exchanges a buffer with one of another table, if they look alike; where their rows and planes lie may differ. Returns whether they do.
    ///
    /// # Errors
    /// A device that has not come to its end.
    pub fn trade(&mut self, id: BufferId, with: &mut Table, theirs: BufferId) -> Result<bool, Error> {
        self.close()?;
        with.close()?;
        let (own, other) = (&mut self.buffers[id.0].buffer, &mut with.buffers[theirs.0].buffer);
        let alike = own.spec() == other.spec();
        if alike {
            std::mem::swap(own, other);
        }
        Ok(alike)
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
        if self.partner(a).or(self.partner(b)).is_some() {
            self.close()?;
        }
        self.exchange(a, b)
    }

    fn exchange(&mut self, a: BufferId, b: BufferId) -> Result<(), Error> {
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
