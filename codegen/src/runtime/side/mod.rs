//! The other side of a buffer: its values on a device.
//!
//! A buffer's values lie in the host's memory and, once a device was asked for them, also in a block there, laid out in the same way,
//! pads included. Either side may be newer than the other, never both:
//!
//! | newer | the host asks | the host writes | the device asks | the device writes |
//! |---|---|---|---|---|
//! | neither | | host | | device |
//! | host | | host | copy to it, neither | copy to it, device |
//! | device | copy from it, neither | copy from it, host | | device |
//!
//! A view of memory on a device that somebody else owns (`DeviceArray`) begins with its values there, and with memory of the host that
//! nobody has touched.
//!
//! Where everything is zero nothing is copied to a device: it clears its block.
//!
//! A copy that fails leaves everything as it was, so whoever asks is told, again and again, until a copy succeeds: old values are handed
//! out for new ones nowhere. Writing asks first, since it leaves some values as they are, if only those of pads.

use super::buffer::Buffer;
use super::error::BufferError;
use crate::error::CudaError;
use std::cell::{Cell, RefCell};

/// Elements of a plane that a device reaches from its origin: kernels count in 32 bits, less what neighbours are away.
pub const REACH: i64 = (1 << 31) - (1 << 16);

/// A device that buffers may have a side on.
pub trait Home {
    /// A number that no other one has.
    fn number(&self) -> u64;

    /// A block of memory there, whose bytes are anything.
    fn block(&self, bytes: usize) -> Result<Box<dyn Block>, CudaError>;

    /// Blocks of these sizes, which lie together where that can be.
    fn blocks(&self, bytes: &[usize]) -> Result<Vec<Box<dyn Block>>, CudaError> {
        bytes.iter().map(|&n| self.block(n)).collect()
    }
}

/// A block of a device's memory, freed when it is dropped.
pub trait Block: Send {
    /// The number of its device.
    fn home(&self) -> u64;

    /// The address of its first byte, on the device.
    fn address(&self) -> u64;

    /// Sets all bytes to zero, behind all that the device was asked for before.
    fn clear(&self) -> Result<(), CudaError>;

    /// Overwrites it, likewise; `from` is as long as the block.
    fn upload(&self, from: &[u8]) -> Result<(), CudaError>;

    /// Copies it, likewise; where that fails, `to` may hold anything.
    fn download(&self, to: &mut [u8]) -> Result<(), CudaError>;

    /// The first address of all that it lies together with.
    fn whole(&self) -> u64 {
        self.address()
    }

    /// As [`Block::download`], of more bytes than it has: those behind it, which lie together with it.
    fn download_beyond(&self, to: &mut [u8]) -> Result<(), CudaError> {
        self.download(to)
    }
}

/// Use that a device makes of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes some values, or all, and may read.
    Write,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Newer {
    Neither,
    Host,
    Device,
}

/// Values on a device, and which side is newer.
pub(super) struct Side {
    block: RefCell<Box<dyn Block>>,
    newer: Cell<Newer>,
}

impl Side {
    /// A block for a buffer's values, without these.
    fn new(home: &dyn Home, buffer: &Buffer) -> Result<Side, CudaError> {
        Ok(Side { block: RefCell::new(home.block(buffer.bytes())?), newer: Cell::new(Newer::Host) })
    }

    /// A block that holds a buffer's values.
    pub(super) fn holding(block: Box<dyn Block>) -> Side {
        Side { block: RefCell::new(block), newer: Cell::new(Newer::Device) }
    }

    /// Notes that the host wrote.
    pub(super) fn host_wrote(&self) {
        self.newer.set(Newer::Host);
    }
}

/// Gives buffers that have no side on a device yet blocks there that lie together, so that [`sync_hosts`] brings all in one copy.
pub(crate) fn together(home: &dyn Home, buffers: &[&Buffer]) -> Result<(), CudaError> {
    let bytes: Vec<usize> = buffers.iter().map(|b| b.bytes()).collect();
    for (buffer, block) in buffers.iter().zip(home.blocks(&bytes)?) {
        buffer.set_side(Side { block: RefCell::new(block), newer: Cell::new(Newer::Host) });
    }
    Ok(())
}

/// As [`Buffer::sync_host`] of each: what lies together on a device comes in one copy.
pub(crate) fn sync_hosts(buffers: &[&Buffer]) -> Result<(), CudaError> {
    let newer = buffers.iter().filter_map(|b| Some((*b, b.side()?)));
    let newer = newer.filter(|(_, side)| side.newer.get() == Newer::Device);
    let place = |(_, side): &(&Buffer, &Side)| {
        let block = side.block.borrow();
        (block.home(), block.whole(), block.address())
    };
    let mut newer: Vec<(&Buffer, &Side)> = newer.collect();
    newer.sort_by_key(place);
    newer.dedup_by_key(|b| place(b));
    let together = |a: &(&Buffer, &Side), b: &(&Buffer, &Side)| {
        let (a, b) = (place(a), place(b));
        (a.0, a.1) == (b.0, b.1)
    };
    for group in newer.chunk_by(together) {
        let (first, last) = (group[0], group[group.len() - 1]);
        if group.len() == 1 {
            first.0.sync_host()?;
            continue;
        }
        let offset = |b: &(&Buffer, &Side)| (place(b).2 - place(&first).2) as usize;
        let mut bytes = vec![0; offset(&last) + last.0.bytes()];
        first.1.block.borrow().download_beyond(&mut bytes)?;
        for b in group {
            let (base, n) = b.0.whole();
            // SAFETY: the whole memory, of which there are no other references while this thread is here.
            unsafe { std::slice::from_raw_parts_mut(base, n) }.copy_from_slice(&bytes[offset(b)..][..n]);
            b.1.newer.set(Newer::Neither);
        }
    }
    Ok(())
}

impl Buffer {
    /// Makes the host's memory hold the values. What reads or writes them there does so by itself; whoever goes by addresses does it
    /// first.
    ///
    /// # Errors
    /// They are on a device that does not hand them out.
    pub fn sync_host(&self) -> Result<(), CudaError> {
        match self.side() {
            Some(side) if side.newer.get() == Newer::Device => {
                let (base, bytes) = self.whole();
                // SAFETY: the whole memory, of which there are no other references while this thread is here.
                let to = unsafe { std::slice::from_raw_parts_mut(base, bytes) };
                side.block.borrow().download(to)?;
                side.newer.set(Newer::Neither);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// As [`Buffer::sync_host`] for borrowed memory, whose owner may look at it without asking; of other buffers nothing is done.
    pub fn sync_borrowed(&self) -> Result<(), CudaError> {
        if self.is_borrowed() { self.sync_host() } else { Ok(()) }
    }

    /// Makes everything zero on the device that has its values, or a copy; returns false, and has done nothing, where there is none or it fails.
    pub(super) fn clear_side(&self) -> bool {
        let cleared = |side: &&Side| side.block.borrow().clear().is_ok();
        self.side().filter(cleared).map(|side| side.newer.set(Newer::Device)).is_some()
    }

    /// The address, on a device, of the origin of a plane (planar) or of the records (plane 0), where the values are, for what the device
    /// is asked for next. It stays the same until another device is given, or the buffer is exchanged or dropped.
    ///
    /// # Errors
    /// Memory borrowed for reading is not written; the device has no memory or fails, or an earlier one that has the values; a plane is too large.
    pub fn on_device(&self, home: &dyn Home, plane: usize, access: Access) -> Result<u64, BufferError> {
        if self.reach() > REACH {
            return Err(BufferError::TooLargeForDevice { extents: self.spec().extents.clone(), most: REACH });
        }
        if access == Access::Write && !self.writable() {
            return Err(BufferError::ReadOnly);
        }
        let side = self.side_on(home)?;
        let block = side.block.borrow();
        if side.newer.get() == Newer::Host {
            let (base, bytes) = self.whole();
            if self.is_zero() {
                block.clear()?;
            } else {
                // SAFETY: the whole memory, to which nobody writes while this thread is here.
                block.upload(unsafe { std::slice::from_raw_parts(base, bytes) })?;
            }
            side.newer.set(Newer::Neither);
        }
        if access == Access::Write {
            self.renew();
            side.newer.set(Newer::Device);
        }
        Ok(block.address().wrapping_add_signed(self.plane_offset(plane)))
    }

    /// Its side on this device, made or moved there if need be.
    fn side_on(&self, home: &dyn Home) -> Result<&Side, CudaError> {
        let Some(side) = self.side() else {
            let made = Side::new(home, self)?;
            return Ok(self.set_side(made));
        };
        if side.block.borrow().home() != home.number() {
            self.sync_host()?;
            side.block.swap(&Side::new(home, self)?.block);
            side.newer.set(Newer::Host);
        }
        Ok(side)
    }
}

#[cfg(test)]
mod tests;
