//! Accesses of a thread: to the memory that it shares with others, to its own, to parameters.

use super::block::{MANY, Shared};
use super::device::Device;
use crate::code::{NONE, Registers, Target};
use crate::error::{Area, Fault};
use crate::memory::{Region, Strength, Who};

/// All memory that a thread reaches.
pub struct Access<'x, 'm> {
    pub device: &'x mut Device<'m>,
    pub shared: &'x mut Shared,
    pub local: &'x mut Region,
    pub who: Who,
}

/// Registers that take or give the elements of an access.
#[derive(Clone, Copy)]
pub struct Elements<'x> {
    pub registers: Registers,
    pub count: u8,
    /// Bytes of each.
    pub bytes: u8,
    pub lists: &'x [u32],
}

impl Elements<'_> {
    #[inline]
    fn register(&self, k: usize) -> usize {
        let first = self.registers as usize;
        if self.count == 1 { first } else { self.lists[first + k] as usize }
    }

    fn size(&self) -> usize {
        usize::from(self.bytes) * usize::from(self.count)
    }

    /// Fills the registers from memory, extended by their sign to some bits unless they are none.
    #[inline]
    pub fn fill(&self, registers: &mut [u64], data: &[u8], sign: u8) {
        if self.count == 1 {
            registers[self.registers as usize] = element(data, sign);
            return;
        }
        for (k, part) in data.chunks_exact(usize::from(self.bytes)).enumerate() {
            registers[self.register(k)] = element(part, sign);
        }
    }

    /// Writes what the registers hold.
    #[inline]
    pub fn give(&self, registers: &[u64], data: &mut [u8]) {
        for (k, part) in data.chunks_exact_mut(usize::from(self.bytes)).enumerate() {
            part.copy_from_slice(&registers[self.register(k)].to_le_bytes()[..usize::from(self.bytes)]);
        }
    }
}

impl Access<'_, '_> {
    /// The one who accesses an area, if that is checked.
    #[inline]
    fn by(&self, area: Area, target: &Target, strength: Strength) -> Option<(Who, Strength)> {
        let who = Who { access: target.access, ..self.who };
        // Shared memory knows of no other block.
        let who = if let Area::Shared = area { self.shared.who_shared(who) } else { who };
        self.device.checks.then_some((who, strength))
    }

    /// Notes what an access that reads does for the order of blocks that run together.
    #[inline]
    fn note_read(&mut self, area: Area, address: u64, target: &Target, strength: Strength) {
        let Area::Global = area else { return };
        self.device.traffic.loaded += target.size() as u64;
        if strength != Strength::Device {
            self.note_plain();
        } else if let Some(grid) = &mut self.device.grid {
            let thread = self.who.thread.into();
            grid.read(self.shared, thread, address, target.acquires, self.device.memory);
            self.who = self.shared.who(thread);
        }
    }

    /// The same of one that writes; `adds` where it has read what it replaces.
    #[inline]
    fn note_write(&mut self, area: Area, address: u64, target: &Target, (strength, adds): (Strength, bool)) {
        let Area::Global = area else { return };
        self.device.traffic.stored += target.size() as u64;
        if strength != Strength::Device {
            self.note_plain();
        } else if let Some(grid) = &mut self.device.grid {
            let thread = self.who.thread.into();
            let how = (target.releases, adds);
            grid.write(self.shared, thread, address, how, self.device.memory);
            self.who = self.shared.who(thread);
        }
    }

    #[inline]
    fn note_plain(&mut self) {
        let thread = self.who.thread.into();
        if self.shared.touched != MANY
            && self.shared.touched != thread
            && let Some(grid) = &mut self.device.grid
        {
            grid.plain(self.shared, thread, self.device.memory);
            self.who = self.shared.who(thread);
        }
    }

    /// A fence for all threads of the device.
    pub fn fence(&mut self) {
        if let Some(grid) = &mut self.device.grid {
            let thread = self.who.thread.into();
            grid.fence(self.shared, thread, self.device.memory);
            self.who = self.shared.who(thread);
        }
    }

    /// The region that holds an access.
    #[inline]
    fn region(&mut self, area: Area, address: u64, bytes: usize, access: u32) -> Result<&mut Region, Fault> {
        match area {
            Area::Global => self.device.memory.at(address, bytes, &mut self.device.hints[access as usize]),
            Area::Shared => self.shared.memory.inside(address, bytes),
            Area::Local => self.local.inside(address, bytes),
        }
    }

    #[inline]
    pub fn load(
        &mut self,
        target: &Target,
        registers: &mut [u64],
        to: Elements,
        sign: u8,
        (strength, constant): (Strength, bool),
    ) -> Result<(), Fault> {
        let (area, address) = self.device.locate(target, registers)?;
        self.note_read(area, address, target, strength);
        let (by, checks) = (self.by(area, target, strength), self.device.checks);
        let region = self.region(area, address, to.size(), target.access)?;
        let data = if let Area::Local = area {
            region.read_private(address, to.size(), checks)?
        } else {
            region.read(address, to.size(), by.as_ref(), constant && area == Area::Global)?
        };
        to.fill(registers, data, sign);
        Ok(())
    }

    #[inline]
    pub fn store(
        &mut self,
        target: &Target,
        registers: &[u64],
        from: Elements,
        strength: Strength,
    ) -> Result<(), Fault> {
        let (area, address) = self.device.locate(target, registers)?;
        let mut buffer = [0; 64];
        let data = &mut buffer[..from.size()];
        from.give(registers, data);
        self.note_write(area, address, target, (strength, false));
        let by = self.by(area, target, strength);
        let region = self.region(area, address, data.len(), target.access)?;
        if let Area::Local = area {
            region.write_private(address, data);
            return Ok(());
        }
        region.write(address, data, by.as_ref())
    }

    /// Replaces a value by a function of it and two registers; the register `to` takes the old one, if it is any.
    pub fn atomic(
        &mut self,
        target: &Target,
        registers: &mut [u64],
        f: crate::arithmetic::Pure,
        [to, b, c]: [u32; 3],
        strength: Strength,
    ) -> Result<(), Fault> {
        let (area, address) = self.device.locate(target, registers)?;
        if let Area::Local = area {
            return Err(Fault::OtherSpace { area: Area::Global, address });
        }
        let bytes = usize::from(target.bytes);
        let mask = u64::MAX >> (64 - 8 * bytes);
        let (b, c) = (registers[b as usize] & mask, registers[c as usize] & mask);
        self.note_read(area, address, target, strength);
        self.note_write(area, address, target, (strength, true));
        let by = self.by(area, target, strength);
        let region = self.region(area, address, bytes, target.access)?;
        let old = region.atomic(address, bytes, by.as_ref(), |old| f(old, b, c))?;
        if to != NONE {
            registers[to as usize] = old;
        }
        Ok(())
    }
}

/// The value of up to eight bytes, extended by its sign to some bits unless they are none.
#[inline]
pub fn element(bytes: &[u8], sign: u8) -> u64 {
    let word = match *bytes {
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        _ => u64::from(bytes[0]),
    };
    if sign == 0 {
        return word;
    }
    let up = 64 - 8 * bytes.len() as u32;
    ((word << up) as i64 >> up) as u64 & u64::MAX >> (64 - sign)
}
