//! Order between blocks that run together: what a block did before a release comes before what another does behind its acquisition of that.
//!
//! A *release* is an atomic write that says so, or that follows a fence of its thread and no barrier of the block. It covers what its block did
//! before the last barrier, and what its thread did since, unless other threads have made plain accesses since as well. An *acquisition* is an atomic
//! read that says so, or one with a fence of its thread behind it; the other threads of the block come behind it with the next barrier.
//!
//! Of all this one number is left for races to see, the *floor* of a thread: sections below it, whosever, are behind it. It rises where releases of
//! all other blocks are known, so behind a barrier of the grid, however that is made; who waits for some blocks alone waits for nobody. Atomic accesses
//! between a release and the block's next barrier count as made before the release.

use super::block::{MANY, NOBODY, Shared};
use crate::memory::Memory;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A release that covers all that its block has done so far.
const OPEN: u32 = u32::MAX;

/// The releases of all blocks.
pub struct Grid {
    members: Vec<Member>,
    /// Releases by their addresses.
    places: FxHashMap<u64, Released>,
}

/// The releases at an address, in turns: each block's first, each block's second.
///
/// A block that releases there itself, as at a barrier, acquires what belongs to turns that it has come to, also where others have gone ahead: else it
/// would be up to the order of blocks if the lack of a barrier shows.
struct Released {
    /// Of each block, how many.
    by: Vec<u32>,
    /// Number of the first of the turns.
    first: u32,
    /// Of each turn, of each block, how many of its releases whoever acquires it knows.
    turns: VecDeque<Vec<u32>>,
}

impl Released {
    fn new(blocks: usize) -> Released {
        Released { by: vec![0; blocks], first: 1, turns: VecDeque::new() }
    }

    /// Adds a release of a block.
    fn add(&mut self, block: usize, known: &[u32]) {
        self.by[block] += 1;
        let at = (self.by[block] - self.first) as usize;
        if at == self.turns.len() {
            self.turns.push_back(vec![0; known.len()]);
        }
        learn(&mut self.turns[at], known);
        // Turns that all have come to are as one.
        let all = self.by.iter().copied().min().unwrap_or(0);
        while self.first < all
            && let Some(first) = self.turns.pop_front()
        {
            self.first += 1;
            learn(&mut self.turns[0], &first);
        }
    }

    /// The turns that a block acquires.
    fn of(&self, block: usize) -> impl Iterator<Item = &Vec<u32>> {
        let own = self.by[block];
        let most = if own == 0 { self.turns.len() } else { (own + 1 - self.first) as usize };
        self.turns.iter().take(most)
    }
}

/// Releases of a block, and those that it knows of.
struct Member {
    /// Of each release the first section that it does not cover, or [`OPEN`].
    ends: Vec<u32>,
    /// Of each block, how many of its releases all threads know.
    known: Vec<u32>,
    /// The same of the one thread that acquired last, since the last barrier.
    acquired: (u32, Vec<u32>),
    /// True where a fence lies behind that.
    fenced: bool,
    /// The same of the one thread that read what was released, and made no fence yet.
    read: (u32, Vec<u32>),
}

/// Begins another section, if a thread alone has made plain accesses in the present one.
fn cover_own(shared: &mut Shared, thread: u32, memory: &mut Memory) {
    if shared.touched == thread {
        shared.section = memory.section();
        shared.touched = NOBODY;
    }
}

/// Adds what is known elsewhere; true where that is more.
fn learn(known: &mut [u32], more: &[u32]) -> bool {
    let mut news = false;
    for (k, m) in known.iter_mut().zip(more) {
        news |= m > k;
        *k = (*k).max(*m);
    }
    news
}

impl Grid {
    pub fn new(blocks: u32) -> Grid {
        let nothing = || vec![0; blocks as usize];
        let member = |_| Member {
            ends: vec![],
            known: nothing(),
            acquired: (0, nothing()),
            fenced: false,
            read: (0, nothing()),
        };
        Grid { members: (0..blocks).map(member).collect(), places: FxHashMap::default() }
    }

    /// Sections below this one are behind who knows of so many releases of each block.
    fn floor(&self, block: usize, known: &[u32], memory: &Memory) -> Option<u32> {
        let end = |(other, count): (usize, &u32)| {
            let end = self.members[other].ends[(*count as usize).checked_sub(1)?];
            Some(if end == OPEN { memory.sections() + 1 } else { end })
        };
        let others = known.iter().enumerate().filter(|(other, _)| *other != block).map(end);
        others.collect::<Option<Vec<u32>>>()?.into_iter().min()
    }

    /// A block makes a plain access. Behind a release, with no barrier in between, it is in a new section, as floors may lie above the present one.
    #[cold]
    pub fn plain(&mut self, shared: &mut Shared, thread: u32, memory: &mut Memory) {
        shared.touched = if shared.touched == NOBODY { thread } else { MANY };
        if self.members[shared.number as usize].ends.last() == Some(&OPEN) {
            shared.section = memory.section();
            self.close(shared);
        }
    }

    /// Releases do not cover the section.
    fn close(&mut self, shared: &Shared) {
        let ends = &mut self.members[shared.number as usize].ends;
        ends.iter_mut().rev().take_while(|end| **end == OPEN).for_each(|end| *end = shared.section);
    }

    /// A block is behind its barrier, in a new section.
    pub fn barrier(&mut self, shared: &mut Shared, memory: &Memory) {
        self.close(shared);
        shared.touched = NOBODY;
        let block = shared.number as usize;
        let Member { known, acquired, .. } = &mut self.members[block];
        learn(known, &acquired.1);
        let known = &self.members[block].known;
        if let Some(floor) = self.floor(block, known, memory) {
            shared.floors.fill(floor);
        }
    }

    /// A thread makes a fence.
    pub fn fence(&mut self, shared: &mut Shared, thread: u32, memory: &mut Memory) {
        cover_own(shared, thread, memory);
        shared.fences[thread as usize] = shared.section;
        let read = &mut self.members[shared.number as usize].read;
        if read.0 == thread {
            let read = read.1.clone();
            self.acquire(shared, thread, &[&read], memory);
        }
        self.members[shared.number as usize].fenced = true;
    }

    fn acquire(&mut self, shared: &mut Shared, thread: u32, more: &[&Vec<u32>], memory: &Memory) {
        let block = shared.number as usize;
        let Member { known, acquired, .. } = &mut self.members[block];
        if acquired.0 != thread {
            *acquired = (thread, known.clone());
        }
        let news = more.iter().fold(false, |news, more| learn(&mut acquired.1, more) | news);
        self.members[block].fenced &= !news;
        if news && let Some(floor) = self.floor(block, &self.members[block].acquired.1, memory) {
            shared.floors[thread as usize] = floor;
        }
    }

    /// A thread reads atomically.
    pub fn read(&mut self, shared: &mut Shared, thread: u32, at: u64, acquires: bool, memory: &Memory) {
        let Some(there) = self.places.remove(&at) else { return };
        let turns: Vec<&Vec<u32>> = there.of(shared.number as usize).collect();
        if acquires {
            self.acquire(shared, thread, &turns, memory);
        } else {
            let read = &mut self.members[shared.number as usize].read;
            if read.0 != thread {
                *read = (thread, vec![0; there.by.len()]);
            }
            turns.iter().for_each(|turn| {
                learn(&mut read.1, turn);
            });
        }
        self.places.insert(at, there);
    }

    /// A thread writes atomically; `adds` where it has read what it replaces, and passes on what that was released with.
    pub fn write(
        &mut self,
        shared: &mut Shared,
        thread: u32,
        at: u64,
        (releases, adds): (bool, bool),
        memory: &mut Memory,
    ) {
        if releases {
            cover_own(shared, thread, memory);
        }
        let blocks = self.members.len();
        if !adds {
            self.places.remove(&at);
        }
        if releases || shared.fences[thread as usize] == shared.section {
            let member = &mut self.members[shared.number as usize];
            member.ends.push(if shared.touched == NOBODY { OPEN } else { shared.section });
            member.known[shared.number as usize] = member.ends.len() as u32;
            let mut known = member.known.clone();
            if member.acquired.0 == thread && (releases || member.fenced) {
                learn(&mut known, &member.acquired.1);
            }
            let there = self.places.entry(at).or_insert_with(|| Released::new(blocks));
            there.add(shared.number as usize, &known);
        }
    }
}
