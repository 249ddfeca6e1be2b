//! Marks that say who last wrote and read some bytes, and the rule by which two accesses race.
//!
//! Time is cut into *sections*, numbered upwards over all launches: a block has a new one behind each of its barriers. Within a
//! section the lanes of a warp are ordered by its *epochs*, which `bar.warp.sync` of the whole warp ends. Two accesses race where
//! nothing of that orders them, one of them writes, and not both are atomic. Two writes of the same value are none.

use crate::error::{Access, Other};

/// One access, as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub section: u32,
    /// First section of this block; sections before it and since `launch` are those of other blocks.
    pub block: u32,
    /// First section of this launch.
    pub launch: u32,
    pub thread: u16,
    pub epoch: u16,
}

/// Strength of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Plain,
    /// Atomic to the threads of a block.
    Block,
    /// Atomic to all threads.
    Device,
}

/// The last access of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    section: u32,
    epoch: u16,
    /// Ten bits of the thread, six flags.
    thread: u16,
}

/// Not atomic to the threads of its block within the section.
const PLAIN_SECTION: u16 = 1 << 10;
/// Not atomic to the threads of other blocks.
const PLAIN_BLOCK: u16 = 1 << 11;
/// Read by several lanes of the warp in the epoch.
const LANES: u16 = 1 << 12;
/// Read by several warps of the block in the section.
const WARPS: u16 = 1 << 13;
/// Read by several blocks in the launch.
const BLOCKS: u16 = 1 << 14;
/// Read as constant memory in the launch.
const CONSTANT: u16 = 1 << 15;

/// Marks of one granule of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    write: Mark,
    read: Mark,
}

/// A mark seen from another access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// Nothing to do with each other.
    Ordered,
    Same,
    OtherThread,
    OtherBlock,
}

impl Mark {
    fn has(self, flag: u16) -> bool {
        self.thread & flag != 0
    }

    fn thread(self) -> u16 {
        self.thread & 1023
    }

    #[inline]
    fn relation(self, who: &Who) -> Relation {
        if self.section < who.launch {
            Relation::Ordered
        } else if self.section < who.block {
            Relation::OtherBlock
        } else if self.section != who.section {
            Relation::Ordered
        } else if self.thread() == who.thread {
            Relation::Same
        } else if self.thread() / 32 == who.thread / 32 && self.epoch != who.epoch {
            Relation::Ordered
        } else {
            Relation::OtherThread
        }
    }

    /// Flags that stay while accesses of this strength follow each other.
    #[inline]
    fn plainness(self, who: &Who, strength: Strength) -> u16 {
        let kept_section = self.section == who.section && self.has(PLAIN_SECTION);
        let kept_block = self.section >= who.block && self.has(PLAIN_BLOCK);
        let mut flags = 0;
        if strength == Strength::Plain || kept_section {
            flags |= PLAIN_SECTION;
        }
        if strength != Strength::Device || kept_block {
            flags |= PLAIN_BLOCK;
        }
        flags
    }

    /// The conflict with a later access of a strength, unless both are atomic.
    #[inline]
    fn conflict(self, who: &Who, strength: Strength) -> Option<Other> {
        let excused = |plain: u16, enough: bool| enough && !self.has(plain);
        match self.relation(who) {
            Relation::OtherBlock if !excused(PLAIN_BLOCK, strength == Strength::Device) => Some(Other::Block),
            Relation::OtherThread if !excused(PLAIN_SECTION, strength != Strength::Plain) => {
                Some(Other::Thread(self.thread().into()))
            }
            _ => None,
        }
    }
}

/// An earlier access that races with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub earlier: Access,
    pub other: Other,
}

impl Marks {
    /// Notes a read.
    #[inline]
    pub fn read(&mut self, who: &Who, strength: Strength) -> Result<(), Conflict> {
        let Marks { write, read } = *self;
        if let Some(other) = write.conflict(who, strength) {
            return Err(Conflict { earlier: write.access(), other });
        }
        let in_launch = read.section >= who.launch;
        let in_section = read.section == who.section;
        let same_warp = read.thread() / 32 == who.thread / 32;
        let mut flags = read.plainness(who, strength);
        if in_launch && (read.has(BLOCKS) || read.section < who.block) {
            flags |= BLOCKS;
        }
        if in_launch && read.has(CONSTANT) {
            flags |= CONSTANT;
        }
        if in_section && (read.has(WARPS) || !same_warp) {
            flags |= WARPS;
        }
        if in_section
            && same_warp
            && read.epoch == who.epoch
            && (read.has(LANES) || read.thread() != who.thread)
        {
            flags |= LANES;
        }
        self.read = Mark { section: who.section, epoch: who.epoch, thread: who.thread | flags };
        Ok(())
    }

    /// Notes a read of what must not change during the launch; an error if the launch has written it.
    pub fn read_constant(&mut self, who: &Who) -> Result<(), ()> {
        if self.write.section >= who.launch {
            return Err(());
        }
        // No write of this launch: no conflict.
        let _ = self.read(who, Strength::Plain);
        self.read.thread |= CONSTANT;
        Ok(())
    }

    /// True where this launch read the granule as constant.
    pub fn is_constant(&self, who: &Who) -> bool {
        self.read.section >= who.launch && self.read.has(CONSTANT)
    }

    /// Notes a write; `unchanged` says that it leaves the value as it is.
    pub fn write(
        &mut self,
        who: &Who,
        strength: Strength,
        unchanged: impl FnOnce() -> bool,
    ) -> Result<(), Conflict> {
        let Marks { write, read } = *self;
        if let Some(other) = write.conflict(who, strength)
            && !(strength == Strength::Plain && unchanged())
        {
            return Err(Conflict { earlier: write.access(), other });
        }
        if let Some(other) = self.readers(who, strength) {
            return Err(Conflict { earlier: read.access_of_read(), other });
        }
        let flags = write.plainness(who, strength);
        self.write = Mark { section: who.section, epoch: who.epoch, thread: who.thread | flags };
        Ok(())
    }

    /// Readers with which a write races.
    fn readers(&self, who: &Who, strength: Strength) -> Option<Other> {
        let read = self.read;
        let in_launch = read.section >= who.launch;
        if in_launch && read.has(BLOCKS) && (read.has(PLAIN_BLOCK) || strength != Strength::Device) {
            return Some(Other::Block);
        }
        if let Some(other) = read.conflict(who, strength) {
            return Some(other);
        }
        let several = match read.relation(who) {
            Relation::Same => read.has(LANES) || read.has(WARPS),
            // Ordered by the warp's epochs, or not at all of this section.
            Relation::Ordered => read.section == who.section && read.has(WARPS),
            _ => false,
        };
        (several && (read.has(PLAIN_SECTION) || strength == Strength::Plain)).then_some(Other::Threads)
    }
}

impl Mark {
    fn access(self) -> Access {
        if self.has(PLAIN_SECTION) || self.has(PLAIN_BLOCK) { Access::Write } else { Access::Atomic }
    }

    fn access_of_read(self) -> Access {
        if self.has(PLAIN_SECTION) || self.has(PLAIN_BLOCK) { Access::Read } else { Access::Atomic }
    }
}
