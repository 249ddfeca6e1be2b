//! Marks that say who last wrote and read some bytes, and the rule by which two accesses race.
//!
//! Time is cut into *sections*, numbered upwards over all launches: a block has a new one behind each of its barriers, and where
//! blocks wait for each other now and then another, which orders nothing within the block. Between two barriers the lanes of a warp
//! are ordered by its *epochs*, which `bar.warp.sync` of the whole warp ends. Two accesses race where nothing of that orders them,
//! one of them writes, and not both are atomic. Two writes of the same value are none.
//!
//! Of all accesses to a granule two marks are kept, so some are summed up: no race is missed for that, but where plain and atomic
//! accesses of one granule mix within a launch, ordered ones may be taken for a race.

use crate::error::{Access, Other, Place};

/// One access, as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub section: u32,
    /// First section behind the block's last barrier.
    pub interval: u32,
    /// First section of this launch.
    pub began: u32,
    /// Sections of other blocks below this one are ordered before it: those of earlier launches, and where blocks wait for each other, those before.
    pub floor: u32,
    /// Number of the block in the launch.
    pub block: u32,
    pub thread: u16,
    pub epoch: u16,
    /// Number of the instruction among the accesses of its module.
    pub access: u32,
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

/// The last access of a kind, and how it was joined by others: nothing else of these is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    section: u32,
    block: u32,
    access: u32,
    epoch: u16,
    /// Ten bits of the thread, six flags.
    thread: u16,
}

/// Not atomic to the threads of its block within the section.
const PLAIN_SECTION: u16 = 1 << 10;
/// Not atomic to the threads of other blocks.
const PLAIN_BLOCK: u16 = 1 << 11;
/// Of several lanes of the warp in the epoch.
const LANES: u16 = 1 << 12;
/// Of several warps of the block in the section.
const WARPS: u16 = 1 << 13;
/// Of several blocks in the launch.
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

    /// True where it is the block's own, and no barrier of the block lies between.
    #[inline]
    fn is_together(self, who: &Who) -> bool {
        self.block == who.block && self.section >= who.interval
    }

    #[inline]
    fn relation(self, who: &Who) -> Relation {
        if self.block != who.block {
            if self.section < who.floor { Relation::Ordered } else { Relation::OtherBlock }
        } else if self.section < who.interval {
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
        let kept_section = self.is_together(who) && self.has(PLAIN_SECTION);
        let kept_block = self.section >= who.floor && self.has(PLAIN_BLOCK);
        let mut flags = 0;
        if strength == Strength::Plain || kept_section {
            flags |= PLAIN_SECTION;
        }
        if strength != Strength::Device || kept_block {
            flags |= PLAIN_BLOCK;
        }
        flags
    }

    /// The accesses of this kind that a later one of a strength races with, unless all are atomic.
    #[inline]
    fn clash(self, who: &Who, strength: Strength) -> Option<Other> {
        if self.section < who.floor && !self.is_together(who) {
            return None;
        }
        let of_blocks = self.has(PLAIN_BLOCK) || strength != Strength::Device;
        let of_threads = self.has(PLAIN_SECTION) || strength == Strength::Plain;
        let relation = self.relation(who);
        if of_blocks && self.has(BLOCKS) && self.section >= who.floor && relation != Relation::OtherBlock {
            return Some(Other::Blocks);
        }
        match relation {
            Relation::OtherBlock if of_blocks => {
                // The launch knows the other numbers of the place.
                let block = Place([self.block, 0, 0]);
                Some(Other::Block { block, thread: self.thread().into() })
            }
            Relation::OtherThread if of_threads => Some(Other::Thread(self.thread().into())),
            Relation::Same
                if of_threads && (self.has(LANES) && self.epoch == who.epoch || self.has(WARPS)) =>
            {
                Some(Other::Threads)
            }
            // Ordered by the warp's epochs; other warps have none of them.
            Relation::Ordered if of_threads && self.is_together(who) && self.has(WARPS) => {
                Some(Other::Threads)
            }
            _ => None,
        }
    }

    /// The mark behind another access of its kind.
    #[inline]
    fn after(self, who: &Who, strength: Strength) -> Mark {
        let unordered = self.section >= who.floor;
        let in_section = self.is_together(who);
        let same_warp = self.thread() / 32 == who.thread / 32;
        let mut flags = self.plainness(who, strength);
        if unordered && (self.has(BLOCKS) || self.block != who.block) {
            flags |= BLOCKS;
        }
        if self.section >= who.began && self.has(CONSTANT) {
            flags |= CONSTANT;
        }
        if in_section && (self.has(WARPS) || !same_warp) {
            flags |= WARPS;
        }
        let in_epoch = in_section && same_warp && self.epoch == who.epoch;
        if in_epoch && (self.has(LANES) || self.thread() != who.thread) {
            flags |= LANES;
        }
        if unordered && self.block != who.block && self.section > who.section {
            // Of blocks that run together: the later section is the one that a floor must lie above.
            return Mark { thread: self.thread | flags, ..self };
        }
        let Who { section, block, access, epoch, thread, .. } = *who;
        Mark { section, block, access, epoch, thread: thread | flags }
    }
}

/// An earlier access that races with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub earlier: Access,
    pub other: Other,
    /// Number of the instruction.
    pub access: u32,
}

impl Marks {
    /// Notes a read.
    #[inline]
    pub fn read(&mut self, who: &Who, strength: Strength) -> Result<(), Conflict> {
        if let Some(other) = self.write.clash(who, strength) {
            return Err(self.write.conflict(self.write.access(), other));
        }
        self.read = self.read.after(who, strength);
        Ok(())
    }

    /// Notes a read of what must not change during the launch; an error if the launch has written it.
    pub fn read_constant(&mut self, who: &Who) -> Result<(), ()> {
        if self.write.section >= who.began {
            return Err(());
        }
        // No write of this launch: no conflict.
        let _ = self.read(who, Strength::Plain);
        self.read.thread |= CONSTANT;
        Ok(())
    }

    /// True where this launch read the granule as constant.
    pub fn is_constant(&self, who: &Who) -> bool {
        self.read.section >= who.began && self.read.has(CONSTANT)
    }

    /// Notes a write; `unchanged` says that it leaves the value as it is.
    pub fn write(
        &mut self,
        who: &Who,
        strength: Strength,
        unchanged: impl FnOnce() -> bool,
    ) -> Result<(), Conflict> {
        if let Some(other) = self.write.clash(who, strength)
            && !(strength == Strength::Plain && unchanged())
        {
            return Err(self.write.conflict(self.write.access(), other));
        }
        if let Some(other) = self.read.clash(who, strength) {
            return Err(self.read.conflict(self.read.access_of_read(), other));
        }
        self.write = self.write.after(who, strength);
        Ok(())
    }
}

impl Mark {
    fn conflict(self, earlier: Access, other: Other) -> Conflict {
        Conflict { earlier, other, access: self.access }
    }

    fn access(self) -> Access {
        if self.has(PLAIN_SECTION) || self.has(PLAIN_BLOCK) { Access::Write } else { Access::Atomic }
    }

    fn access_of_read(self) -> Access {
        if self.has(PLAIN_SECTION) || self.has(PLAIN_BLOCK) { Access::Read } else { Access::Atomic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

    #[derive(Clone, Copy)]
    struct Access {
        who: Who,
        strength: Strength,
        writes: bool,
    }

    impl std::fmt::Debug for Access {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let Who { section, interval, block, floor, thread, epoch, .. } = self.who;
            let what = if self.writes { "writes" } else { "reads" };
            write!(
                f,
                "block {block} section {section} of {interval} floor {floor} thread {thread} epoch {epoch} {what} {:?}",
                self.strength
            )
        }
    }

    /// Accesses of one granule in an order in which blocks, sections, warps and epochs may run; the blocks wait for each other now and then, if
    /// they are together.
    fn accesses(random: &mut SplitMix64, together: bool) -> Vec<Access> {
        let (mut section, mut all) = (5, vec![]);
        let blocks = 1 + random.next_u64() % 3;
        for _ in 0..if together { 1 + random.next_u64() % 3 } else { 1 } {
            let floor = section + 1;
            let mut lists: Vec<Vec<Access>> =
                (0..blocks as u32).map(|block| of_block(random, block, floor, &mut section)).collect();
            lists.retain(|list| !list.is_empty());
            lists.iter_mut().for_each(|list| list.reverse());
            while !lists.is_empty() {
                let next = if together { random.next_u64() as usize % lists.len() } else { 0 };
                all.extend(lists[next].pop());
                lists.retain(|list| !list.is_empty());
            }
        }
        all
    }

    /// Those of one block between two waits.
    fn of_block(random: &mut SplitMix64, block: u32, floor: u32, section: &mut u32) -> Vec<Access> {
        let mut pick = |n: u64| random.next_u64() % n;
        let mut all = vec![];
        let mut interval = *section + 1;
        for part in 0..1 + pick(3) as u16 {
            *section += 1;
            if pick(2) == 0 {
                interval = *section;
            }
            for warp in 0..1 + pick(2) as u16 {
                for epoch in 0..1 + pick(2) as u16 {
                    for _ in 0..pick(3) {
                        let thread = 32 * warp + pick(2) as u16;
                        let (began, access, section, epoch) = (5, 0, *section, epoch + 2 * part);
                        let who = Who { section, interval, began, floor, block, thread, epoch, access };
                        let strength = match pick(4) {
                            0 => Strength::Plain,
                            1 => Strength::Block,
                            _ => Strength::Device,
                        };
                        all.push(Access { who, strength, writes: pick(3) == 0 });
                    }
                }
            }
        }
        all
    }

    /// The rule itself, of two accesses.
    fn race(a: &Access, b: &Access) -> bool {
        let (x, y) = (a.who, b.who);
        let other_block = x.block != y.block && x.floor == y.floor;
        let together = x.block == y.block && x.interval == y.interval && x.thread != y.thread;
        let same_warp = x.thread / 32 == y.thread / 32;
        let unordered = other_block || together && !(same_warp && x.epoch != y.epoch);
        let atomic = |s: Strength| s == Strength::Device || s == Strength::Block && !other_block;
        unordered && (a.writes || b.writes) && !(atomic(a.strength) && atomic(b.strength))
    }

    #[test]
    fn marks_find_what_all_pairs_show() {
        let mut random = SplitMix64::seed_from_u64(1);
        let mut found = [0; 3];
        for turn in 0..600_000 {
            let all = accesses(&mut random, turn % 2 == 0);
            let mut marks = Marks::default();
            let by_marks = all.iter().any(|a| match a.writes {
                true => marks.write(&a.who, a.strength, || false).is_err(),
                false => marks.read(&a.who, a.strength).is_err(),
            });
            let by_pairs = (0..all.len()).any(|i| all[..i].iter().any(|a| race(a, &all[i])));
            found[usize::from(by_marks) + usize::from(by_pairs)] += 1;
            assert!(by_marks || !by_pairs, "a race is not found: {all:#?}");
            let alike = all.windows(2).all(|w| w[0].strength == w[1].strength);
            assert!(by_pairs || !by_marks || !alike, "no race, but one is found: {all:#?}");
        }
        assert!(found.iter().all(|n| *n > 100), "{found:?}");
    }
}
