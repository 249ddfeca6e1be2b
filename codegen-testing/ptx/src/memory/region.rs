//! A stretch of memory with one bit of knowledge per byte and marks of who touched it.

use super::races::{Marks, Strength, Who};
use crate::error::{Access, Area, Fault};

/// State of a byte: never written.
pub const UNWRITTEN: u8 = 0;
/// State of a byte: holds a value.
pub const WRITTEN: u8 = 1;
/// State of a byte: belongs to nobody.
pub const GUARD: u8 = 2;

/// Bytes that new memory holds: a NaN in every format and an index far outside of everything.
pub const POISON: u8 = 0xff;

/// Memory from `base` on.
pub struct Region {
    pub area: Area,
    pub base: u64,
    pub bytes: Vec<u8>,
    pub state: Vec<u8>,
    /// Written by the host alone.
    pub constant: bool,
    /// Marks of granules, none before the first access.
    marks: Vec<Marks>,
    /// Logarithm of the granule's bytes; falls when a smaller access comes.
    granule: u32,
}

impl Region {
    /// Poisoned memory in a given state.
    pub fn new(area: Area, base: u64, size: usize, state: u8) -> Region {
        let (bytes, state) = (vec![POISON; size], vec![state; size]);
        Region { area, base, bytes, state, constant: false, marks: vec![], granule: 4 }
    }

    #[inline]
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        address >= self.base && address - self.base + bytes as u64 <= self.bytes.len() as u64
    }

    fn offset(&self, address: u64) -> usize {
        (address - self.base) as usize
    }

    /// Forgets all accesses, as the sections begin anew.
    pub fn forget(&mut self) {
        self.marks = vec![];
    }

    /// An access that lies outside of memory that is somebody's; within it, of bytes never written.
    #[inline]
    fn readable(&self, at: usize, bytes: usize) -> Result<(), Fault> {
        let state = &self.state[at..at + bytes];
        // A word at a time: this is the most frequent question of all.
        let written = match state {
            [a, b, c, d] => [*a, *b, *c, *d] == [WRITTEN; 4],
            [a, b, c, d, e, f, g, h] => [*a, *b, *c, *d, *e, *f, *g, *h] == [WRITTEN; 8],
            state => state.iter().all(|s| *s == WRITTEN),
        };
        if written {
            return Ok(());
        }
        self.not_readable(at, bytes)
    }

    #[cold]
    fn not_readable(&self, at: usize, bytes: usize) -> Result<(), Fault> {
        let state = &self.state[at..at + bytes];
        let (area, address) = (self.area, self.base + at as u64);
        if state.contains(&GUARD) {
            return Err(Fault::Outside { area, address, bytes });
        }
        Err(Fault::Unwritten { area, address, bytes })
    }

    /// As [`Region::readable`]. An atomic access may find bytes never written beside one that was: what PTX has no atomic instruction for, of 8 or 16
    /// bits, is swapped with the word around it.
    fn readable_by(&self, at: usize, bytes: usize, strength: Strength) -> Result<(), Fault> {
        match self.readable(at, bytes) {
            Err(Fault::Unwritten { .. })
                if strength != Strength::Plain && self.state[at..at + bytes].contains(&WRITTEN) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn writable(&self, at: usize, bytes: usize) -> Result<(), Fault> {
        let address = self.base + at as u64;
        if self.constant {
            return Err(Fault::Constant { address });
        }
        if self.state[at..at + bytes].contains(&GUARD) {
            return Err(Fault::Outside { area: self.area, address, bytes });
        }
        Ok(())
    }

    /// Granules of an access, made as small as it is.
    #[inline]
    fn granules(&mut self, at: usize, bytes: usize) -> std::ops::Range<usize> {
        let fine = (at | bytes).trailing_zeros();
        if fine < self.granule || self.marks.is_empty() {
            self.refine(fine);
        }
        at >> self.granule..(at + bytes) >> self.granule
    }

    #[cold]
    fn refine(&mut self, fine: u32) {
        if self.marks.is_empty() {
            self.granule = fine.min(self.granule);
            self.marks = vec![Marks::default(); (self.bytes.len() >> self.granule) + 1];
        } else {
            let times = 1 << (self.granule - fine);
            self.marks = self.marks.iter().flat_map(|m| std::iter::repeat_n(*m, times)).collect();
            self.granule = fine;
        }
    }

    /// Checks a read of a thread and returns its bytes; `constant` promises that the launch writes none of them.
    #[inline]
    pub fn read(
        &mut self,
        address: u64,
        bytes: usize,
        by: Option<&(Who, Strength)>,
        constant: bool,
    ) -> Result<&[u8], Fault> {
        let at = self.offset(address);
        let Some(&(ref who, strength)) = by else { return Ok(&self.bytes[at..at + bytes]) };
        self.readable_by(at, bytes, strength)?;
        for granule in self.granules(at, bytes) {
            let marks = &mut self.marks[granule];
            if constant {
                marks.read_constant(who).map_err(|()| Fault::NotConstant {
                    access: Access::Read,
                    address,
                    other: "has written",
                })?;
            } else {
                marks.read(who, strength).map_err(|c| self.race(Access::Read, address, strength, c))?;
            }
        }
        Ok(&self.bytes[at..at + bytes])
    }

    /// Checks a write of a thread and does it.
    pub fn write(&mut self, address: u64, new: &[u8], by: Option<&(Who, Strength)>) -> Result<(), Fault> {
        let at = self.offset(address);
        let bytes = new.len();
        if let Some(&(ref who, strength)) = by {
            self.writable(at, bytes)?;
            for granule in self.granules(at, bytes) {
                let marks = &mut self.marks[granule];
                if marks.is_constant(who) {
                    let (access, other) = (Access::Write, "has read as constant");
                    return Err(Fault::NotConstant { access, address, other });
                }
                let unchanged = || self.bytes[at..at + bytes] == *new;
                marks
                    .write(who, strength, unchanged)
                    .map_err(|c| self.race(Access::Write, address, strength, c))?;
            }
            self.state[at..at + bytes].fill(WRITTEN);
        }
        self.bytes[at..at + bytes].copy_from_slice(new);
        Ok(())
    }

    /// Checks an atomic operation of a thread, does it and returns the old value.
    pub fn atomic(
        &mut self,
        address: u64,
        bytes: usize,
        by: Option<&(Who, Strength)>,
        f: impl Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        let at = self.offset(address);
        if let Some(&(ref who, strength)) = by {
            self.readable_by(at, bytes, strength)?;
            self.writable(at, bytes)?;
            for granule in self.granules(at, bytes) {
                self.marks[granule]
                    .write(who, strength, || false)
                    .map_err(|c| self.race(Access::Write, address, strength, c))?;
            }
        }
        let mut old = [0; 8];
        old[..bytes].copy_from_slice(&self.bytes[at..at + bytes]);
        let old = u64::from_le_bytes(old);
        self.bytes[at..at + bytes].copy_from_slice(&f(old).to_le_bytes()[..bytes]);
        Ok(old)
    }

    /// The region itself where it holds some bytes.
    pub fn inside(&mut self, address: u64, bytes: usize) -> Result<&mut Region, Fault> {
        if self.contains(address, bytes) {
            return Ok(self);
        }
        Err(Fault::Outside { area: self.area, address, bytes })
    }

    /// Reads memory that only one thread has. Of bytes never written it reads poison, as of registers: of two values LLVM loads both,
    /// where it may, and then selects one.
    pub fn read_private(&mut self, address: u64, bytes: usize, checks: bool) -> Result<&[u8], Fault> {
        let at = self.offset(address);
        if checks && self.state[at..at + bytes].contains(&GUARD) {
            return Err(Fault::Outside { area: self.area, address, bytes });
        }
        Ok(&self.bytes[at..at + bytes])
    }

    /// Writes memory that only one thread has.
    pub fn write_private(&mut self, address: u64, new: &[u8]) {
        let at = self.offset(address);
        self.bytes[at..at + new.len()].copy_from_slice(new);
        self.state[at..at + new.len()].fill(WRITTEN);
    }

    /// Appends unwritten bytes at the next aligned address, which is returned.
    pub fn grow(&mut self, bytes: usize, align: usize) -> u64 {
        let at = self.bytes.len().next_multiple_of(align.max(1));
        self.bytes.resize(at, POISON);
        self.state.resize(at, GUARD);
        self.bytes.resize(at + bytes, POISON);
        self.state.resize(at + bytes, UNWRITTEN);
        self.base + at as u64
    }

    /// Drops all bytes from a place on.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.state.truncate(bytes);
    }

    fn race(&self, access: Access, address: u64, strength: Strength, c: super::races::Conflict) -> Fault {
        let access = if strength == Strength::Plain { access } else { Access::Atomic };
        Fault::Race { access, area: self.area, address, earlier: c.earlier, other: c.other, line: c.access }
    }
}
