//! Memory of a device: allocations at addresses that are never used twice, so that a stale pointer always points at nothing.
//!
//! A byte knows if it was ever written; copies carry that knowledge along. New memory is poisoned.

mod races;
mod region;

pub use races::{Strength, Who};
pub use region::{GUARD, POISON, Region, UNWRITTEN, WRITTEN};

use crate::error::{Area, Fault};

/// Bytes between two allocations at least, so that an access that runs past the one does not reach the next.
const GAP: u64 = 4096;

/// Alignment of allocations.
const ALIGN: u64 = 512;

/// Global memory of one device.
pub struct Memory {
    /// In ascending order of their addresses.
    regions: Vec<Region>,
    next: u64,
    capacity: u64,
    used: u64,
    /// The last section that was given out.
    sections: u32,
}

/// An access of the host to memory that is not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray;

impl Memory {
    /// Memory of `capacity` bytes with addresses from `base` on.
    pub fn new(base: u64, capacity: u64) -> Memory {
        Memory { regions: vec![], next: base, capacity, used: 0, sections: 0 }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    /// Number of allocations, variables of modules among them.
    pub fn allocations(&self) -> usize {
        self.regions.len()
    }

    /// Takes memory; `None` where too little is free.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        if bytes > self.capacity - self.used {
            return None;
        }
        let base = self.next;
        self.regions.push(Region::new(Area::Global, base, bytes as usize, UNWRITTEN));
        self.used += bytes;
        self.next = (base + bytes + GAP).next_multiple_of(ALIGN);
        Some(base)
    }

    /// Takes memory that threads only read, holding `init`, then zeros.
    pub(crate) fn allocate_variable(&mut self, bytes: u64, init: &[u8], constant: bool) -> Option<u64> {
        let base = self.allocate(bytes)?;
        let region = self.regions.last_mut()?;
        region.bytes.fill(0);
        region.bytes[..init.len()].copy_from_slice(init);
        region.state.fill(WRITTEN);
        region.constant = constant;
        Some(base)
    }

    /// Gives back the allocation that starts at an address, or returns false.
    pub fn free(&mut self, base: u64) -> bool {
        let Some(at) = self.index(base).filter(|at| self.regions[*at].base == base) else { return false };
        self.used -= self.regions.remove(at).bytes.len() as u64;
        true
    }

    /// Gives everything back.
    pub fn free_all(&mut self) {
        self.regions.clear();
        self.used = 0;
    }

    /// Start and size of the allocation that holds an address.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let region = &self.regions[self.index(address)?];
        region.contains(address, 1).then_some((region.base, region.bytes.len() as u64))
    }

    /// True where bytes from an address on belong to one allocation.
    pub fn holds(&self, address: u64, bytes: usize) -> bool {
        self.index(address).is_some_and(|at| self.regions[at].contains(address, bytes))
    }

    /// The last allocation that starts at an address or before it.
    fn index(&self, address: u64) -> Option<usize> {
        self.regions.partition_point(|r| r.base <= address).checked_sub(1)
    }

    fn region(&mut self, address: u64, bytes: usize) -> Result<&mut Region, Stray> {
        let at = self.index(address).ok_or(Stray)?;
        let region = &mut self.regions[at];
        if region.contains(address, bytes) { Ok(region) } else { Err(Stray) }
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// Returns [`Stray`] where the bytes are not those of one allocation.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Stray> {
        let region = self.region(address, into.len())?;
        let at = (address - region.base) as usize;
        into.copy_from_slice(&region.bytes[at..at + into.len()]);
        Ok(())
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// Returns [`Stray`] where the bytes are not those of one allocation.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Stray> {
        let region = self.region(address, from.len())?;
        let at = (address - region.base) as usize;
        region.bytes[at..at + from.len()].copy_from_slice(from);
        region.state[at..at + from.len()].fill(WRITTEN);
        Ok(())
    }

    /// Bytes from an address on that are others than these, or were never written.
    ///
    /// # Errors
    /// Returns [`Stray`] where the bytes are not those of one allocation.
    pub fn differs(&mut self, address: u64, from: &[u8]) -> Result<u64, Stray> {
        let region = self.region(address, from.len())?;
        let at = (address - region.base) as usize;
        let there = region.bytes[at..].iter().zip(&region.state[at..]);
        let differs = |((byte, state), new): &((&u8, &u8), &u8)| byte != new || **state != WRITTEN;
        Ok(there.zip(from).filter(differs).count() as u64)
    }

    /// Repeats a pattern over `bytes` bytes, a multiple of its length.
    ///
    /// # Errors
    /// Returns [`Stray`] where the bytes are not those of one allocation.
    pub fn fill(&mut self, address: u64, pattern: &[u8], bytes: usize) -> Result<(), Stray> {
        let region = self.region(address, bytes)?;
        let at = (address - region.base) as usize;
        region.bytes[at..at + bytes].chunks_exact_mut(pattern.len()).for_each(|c| c.copy_from_slice(pattern));
        region.state[at..at + bytes].fill(WRITTEN);
        Ok(())
    }

    /// Copies within the device, unwritten bytes as such.
    ///
    /// # Errors
    /// Returns [`Stray`] where the bytes are not those of one allocation.
    pub fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Stray> {
        let source = self.region(from, bytes)?;
        let at = (from - source.base) as usize;
        let (data, state) = (source.bytes[at..at + bytes].to_vec(), source.state[at..at + bytes].to_vec());
        let target = self.region(to, bytes)?;
        let at = (to - target.base) as usize;
        target.bytes[at..at + bytes].copy_from_slice(&data);
        target.state[at..at + bytes].copy_from_slice(&state);
        Ok(())
    }

    /// The region of a thread's access. `hint` is the place where the same instruction found its last.
    #[inline]
    pub(crate) fn at(&mut self, address: u64, bytes: usize, hint: &mut u32) -> Result<&mut Region, Fault> {
        if !self.regions.get(*hint as usize).is_some_and(|r| r.contains(address, bytes)) {
            let found = self.index(address).filter(|at| self.regions[*at].contains(address, bytes));
            *hint = found.ok_or(Fault::Outside { area: Area::Global, address, bytes })? as u32;
        }
        Ok(&mut self.regions[*hint as usize])
    }

    /// A number for a new section.
    pub(crate) fn section(&mut self) -> u32 {
        self.sections += 1;
        self.sections
    }

    /// The last of them.
    pub(crate) fn sections(&self) -> u32 {
        self.sections
    }

    /// Makes room for the sections of a launch.
    pub(crate) fn begin_launch(&mut self) {
        if self.sections > u32::MAX / 2 {
            self.sections = 0;
            self.regions.iter_mut().for_each(Region::forget);
        }
    }
}
