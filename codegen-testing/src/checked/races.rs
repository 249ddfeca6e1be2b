//! Detection of accesses that may happen at the same time.
//!
//! A *position* is the path of iterations of parallel loops around a place in the run, `parallel loop -> iteration ->
//! parallel loop inside -> iteration ...`. Two positions are concurrent iff their paths part at two iterations of one
//! execution of a loop; what is before, after or around a parallel loop is ordered by its barrier. Two accesses of one
//! element from concurrent positions race if one of them is a write; the order in which this machine happens to run them
//! does not matter.
//!
//! Two writes of one value are no race: overlapping tiles store the same value twice. Nor are two indivisible updates.

use smallvec::SmallVec;

/// A place in the tree of parallel iterations; 0 is outside of all.
pub type Position = u32;

#[derive(Clone, Copy)]
struct Node {
    parent: Position,
    depth: u32,
    /// Number of the execution of the loop.
    execution: u32,
}

/// All positions of a run, and where it is.
pub struct Positions {
    nodes: Vec<Node>,
    here: Position,
    executions: u32,
}

impl Default for Positions {
    fn default() -> Self {
        Positions { nodes: vec![Node { parent: 0, depth: 0, execution: 0 }], here: 0, executions: 0 }
    }
}

impl Positions {
    /// The present position.
    pub fn here(&self) -> Position {
        self.here
    }

    /// A parallel loop starts; the number is for [`Positions::enter`].
    pub fn start_loop(&mut self) -> u32 {
        self.executions += 1;
        self.executions
    }

    /// An iteration of a parallel loop starts.
    pub fn enter(&mut self, execution: u32) {
        let node = Node { parent: self.here, depth: self.nodes[self.here as usize].depth + 1, execution };
        self.here = self.nodes.len() as Position;
        self.nodes.push(node);
    }

    /// It ends.
    pub fn leave(&mut self) {
        self.here = self.nodes[self.here as usize].parent;
    }

    /// May code at `a` run at the same time as code at `b`?
    pub fn concurrent(&self, a: Position, b: Position) -> bool {
        self.seen_from(a, b).is_some()
    }

    /// The iteration that stands for `past`, where the run was before, to all that follows `here`; `None` if `here` does: the two
    /// are not concurrent. Of a loop that has ended, only the place around it is left.
    fn seen_from(&self, past: Position, here: Position) -> Option<Position> {
        let (mut a, mut b) = (past, here);
        while self.depth(a) > self.depth(b) {
            a = self.nodes[a as usize].parent;
        }
        while self.depth(b) > self.depth(a) {
            b = self.nodes[b as usize].parent;
        }
        while a != b {
            let (x, y) = (self.nodes[a as usize], self.nodes[b as usize]);
            if x.parent == y.parent {
                return (x.execution == y.execution).then_some(a);
            }
            (a, b) = (x.parent, y.parent);
        }
        None
    }

    fn depth(&self, p: Position) -> u32 {
        self.nodes[p as usize].depth
    }
}

/// Positions of some accesses; as many as tell all later positions that are concurrent with one of them, so that a check of one takes
/// the same time however many there were: the last, and for each loop around it one iteration before the present one.
#[derive(Clone, Default, Debug)]
struct Places(SmallVec<[Position; 2]>);

impl Places {
    /// Adds the present position.
    fn note(&mut self, all: &Positions) {
        let here = all.here();
        if self.0.last() == Some(&here) {
            return;
        }
        let mut kept: SmallVec<[Position; 2]> = SmallVec::new();
        for past in self.0.iter().filter_map(|&p| all.seen_from(p, here)) {
            if kept.iter().all(|&k| all.depth(k) != all.depth(past)) {
                kept.push(past);
            }
        }
        kept.push(here);
        self.0 = kept;
    }

    /// May one of them have happened at the same time as what happens here?
    fn any_concurrent(&self, all: &Positions) -> bool {
        self.0.iter().any(|&p| all.concurrent(p, all.here()))
    }
}

/// Positions that touched an element.
#[derive(Clone, Default, Debug)]
pub struct Accesses {
    writer: Option<Position>,
    /// Since that write.
    readers: Places,
    updaters: Places,
}

impl Accesses {
    /// The element is read here; false if that races.
    pub fn read(&mut self, all: &Positions) -> bool {
        self.readers.note(all);
        !self.written_meanwhile(all) && !self.updaters.any_concurrent(all)
    }

    /// The element is read and written here in one indivisible step; false if that races.
    pub fn update(&mut self, all: &Positions) -> bool {
        self.updaters.note(all);
        !self.written_meanwhile(all) && !self.readers.any_concurrent(all)
    }

    /// The element is written here, with the value it has if `same`; false if that races.
    pub fn write(&mut self, all: &Positions, same: bool) -> bool {
        let read = self.readers.any_concurrent(all) || self.updaters.any_concurrent(all);
        let written = !same && self.written_meanwhile(all);
        *self = Accesses { writer: Some(all.here()), ..Accesses::default() };
        !read && !written
    }

    fn written_meanwhile(&self, all: &Positions) -> bool {
        self.writer.is_some_and(|w| all.concurrent(w, all.here()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_of_one_execution_are_concurrent() {
        let mut p = Positions::default();
        let outer = p.start_loop();
        p.enter(outer);
        let a = p.here();
        let inner = p.start_loop();
        p.enter(inner);
        let a0 = p.here();
        p.leave();
        p.enter(inner);
        let a1 = p.here();
        p.leave();
        let again = p.start_loop();
        p.enter(again);
        let later = p.here();
        p.leave();
        p.leave();
        p.enter(outer);
        let b = p.here();
        p.leave();
        assert!(p.concurrent(a, b) && p.concurrent(a0, b) && p.concurrent(b, later));
        assert!(p.concurrent(a0, a1));
        assert!(!p.concurrent(a, a0) && !p.concurrent(0, a0), "around its own loop");
        assert!(!p.concurrent(a0, later), "one loop after the other");
        assert!(!p.concurrent(a, a));
    }

    #[test]
    fn races_of_one_element() {
        let mut p = Positions::default();
        let mut e = Accesses::default();
        let l = p.start_loop();
        p.enter(l);
        assert!(e.write(&p, false) && e.read(&p), "its own value");
        p.leave();
        p.enter(l);
        assert!(!e.clone().read(&p), "another iteration's value");
        assert!(!e.clone().write(&p, true), "what another iteration read");
        p.leave();
        assert!(e.write(&p, false), "after the loop");
        let l = p.start_loop();
        p.enter(l);
        assert!(e.write(&p, false));
        p.leave();
        p.enter(l);
        assert!(e.clone().write(&p, true), "the same value twice");
        assert!(!e.write(&p, false), "another value");
        p.leave();
    }

    #[test]
    fn indivisible_updates_race_with_plain_accesses_only() {
        let mut p = Positions::default();
        let mut e = Accesses::default();
        assert!(e.write(&p, false));
        let l = p.start_loop();
        for _ in 0..2 {
            p.enter(l);
            assert!(e.update(&p));
            p.leave();
        }
        p.enter(l);
        assert!(!e.clone().read(&p) && !e.clone().write(&p, true));
        p.leave();
        assert!(e.read(&p) && e.write(&p, false), "after the loop");
    }

    /// Runs a random tree of loops, of which some iterations note their place, and compares with a list of all places.
    fn wander(
        p: &mut Positions,
        draw: &mut impl FnMut(u32) -> u32,
        depth: u32,
        seen: &mut (Places, Vec<Position>),
    ) {
        for _ in 0..draw(4) {
            if draw(3) == 0 {
                seen.0.note(p);
                seen.1.push(p.here());
            }
            assert_eq!(seen.0.any_concurrent(p), seen.1.iter().any(|&o| p.concurrent(o, p.here())));
            assert!(seen.0.0.len() <= 5, "one for each of four loops, and the last: {:?}", seen.0);
            if depth < 4 {
                let execution = p.start_loop();
                for _ in 0..draw(4) {
                    p.enter(execution);
                    wander(p, draw, depth + 1, seen);
                    p.leave();
                }
            }
        }
    }

    #[test]
    fn a_few_places_stand_for_all() {
        let mut state = 1u32;
        let mut draw = |n| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 16) % n
        };
        let mut most = 0;
        for _ in 0..300 {
            let mut seen = Default::default();
            wander(&mut Positions::default(), &mut draw, 0, &mut seen);
            most = most.max(seen.1.len());
        }
        assert!(most > 100, "long runs are among them");
    }
}
