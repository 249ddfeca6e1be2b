//! A scalar expression of the DAG as a flat list of operations, for evaluation at one instance after the other.
//!
//! The list is in topological order and the last operation is the result. Which unknown reads an operation depends on is
//! known when the tape is built: its *slots*, ascending. Forward-mode differentiation keeps one partial per (operation,
//! slot), all in one array whose layout the tape fixes.

use crate::assembled::error::ExplicitError;
use rustc_hash::FxHashMap;
use std::ops::Range;
use sumsq_energy::dag::{Access, At, Compare, ExprId, Function, Node, Offset, Source};
use sumsq_energy::model::{ArrayId, Domain, Energy, GraphId, SpaceId};

/// Position of an operation on its tape.
pub(super) type Reg = u32;

/// Number of an unknown read among those of its tape.
pub(super) type Slot = u16;

/// An array and its channel.
pub(super) type Image = (ArrayId, u16);

/// Place of a read, checked against the domain of the tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// At the element plus an offset, in the index space of the domain.
    Stencil(Offset),
    /// At the only element of the space of globals.
    Global,
    /// At vertex `slot` of the hyperedge.
    Vertex(u16),
    /// Around vertex `slot` of the hyperedge, in the index space that it points into.
    Neighbour(u16, SpaceId, Offset),
}

/// A scalar read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// An unknown or an array.
    pub source: Source,
    pub channel: u16,
    pub place: Place,
    /// Set for unknowns.
    pub slot: Option<Slot>,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Const(f64),
    Param(u32, u16),
    /// Index into [`Tape::reads`].
    Read(u32),
    Index(u16),
    InBounds {
        lo: Offset,
        hi: Offset,
    },
    Free(SpaceId, Place),
    Sum {
        constant: f64,
        terms: Box<[(f64, Reg)]>,
    },
    Prod(Box<[(Reg, i32)]>),
    /// An array (its number and channel) interpolated at coordinates, and the images of its derivatives.
    Sample {
        image: Image,
        partials: Box<[Image]>,
        at: Box<[Reg]>,
    },
    /// A function of one operand.
    Unary(Function, Reg),
    /// `Atan2(y, x)` or `Pow(base, exponent)`.
    Binary(Function, Reg, Reg),
    Compare(Compare, Reg, Reg),
    NonZero(Reg),
    SameVertex(Place, Place),
    InBoundsAt {
        space: SpaceId,
        at: Place,
        lo: Offset,
        hi: Offset,
    },
    IndexAt(SpaceId, Place, u16),
    And(Box<[Reg]>),
    Or(Box<[Reg]>),
    Not(Reg),
    Select(Reg, Reg, Reg),
}

/// An expression, ready to be evaluated over a domain.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    pub ops: Vec<Op>,
    /// Distinct reads, in order of first use.
    pub reads: Vec<Read>,
    /// Index into `reads` of each slot.
    pub slots: Vec<u32>,
    /// Layout of partials: operation k has those at `starts[k]..starts[k + 1]`, belonging to the slots of `depends` there.
    starts: Vec<u32>,
    depends: Vec<Slot>,
}

impl Tape {
    /// Compiles `root`, to be evaluated over `domain`.
    pub fn compile(energy: &Energy, domain: Domain, root: ExprId) -> Result<Tape, ExplicitError> {
        // Operands before users; the root comes last.
        let order = energy.dag.reachable(&[root]);
        let registers: FxHashMap<ExprId, Reg> =
            order.iter().enumerate().map(|(k, &id)| (id, k as Reg)).collect();
        let mut tape = Tape {
            ops: Vec::with_capacity(order.len()),
            reads: Vec::new(),
            slots: Vec::new(),
            starts: vec![0],
            depends: Vec::new(),
        };
        for &id in &order {
            let op = tape.translate(energy, domain, energy.dag.node(id), &registers)?;
            let depends = tape.dependencies_of(&op);
            tape.depends.extend(depends);
            tape.starts.push(tape.depends.len() as u32);
            tape.ops.push(op);
        }
        Ok(tape)
    }

    /// Number of partials of all operations.
    pub fn partials_len(&self) -> usize {
        self.depends.len()
    }

    /// Returns where the partials of an operation lie.
    pub fn partials_of(&self, op: usize) -> Range<usize> {
        self.starts[op] as usize..self.starts[op + 1] as usize
    }

    /// The slots of an operation's partials, ascending.
    pub fn slots_of(&self, op: usize) -> &[Slot] {
        &self.depends[self.partials_of(op)]
    }

    /// The slots of the result.
    pub fn result_slots(&self) -> &[Slot] {
        self.slots_of(self.ops.len() - 1)
    }

    /// The unknown read of a slot.
    pub fn slot_read(&self, slot: Slot) -> &Read {
        &self.reads[self.slots[usize::from(slot)] as usize]
    }

    fn translate(
        &mut self,
        energy: &Energy,
        domain: Domain,
        node: &Node,
        registers: &FxHashMap<ExprId, Reg>,
    ) -> Result<Op, ExplicitError> {
        let reg = |id: &ExprId| registers[id];
        let regs = |ids: &[ExprId]| ids.iter().map(reg).collect();
        Ok(match node {
            Node::Const(c) => Op::Const(c.get()),
            Node::Access(access) => Op::Read(self.read(energy, domain, access)?),
            Node::Param(p, channel) => Op::Param(p.0, *channel),
            Node::Index(d) => Op::Index(*d),
            Node::InBounds { lo, hi } => Op::InBounds { lo: lo.clone(), hi: hi.clone() },
            Node::Free(space, at) => Op::Free(*space, place(energy, domain, *space, at)?),
            Node::Sum { constant, terms } => Op::Sum {
                constant: constant.get(),
                terms: terms.iter().map(|(c, id)| (c.get(), reg(id))).collect(),
            },
            Node::Prod(factors) => Op::Prod(factors.iter().map(|(id, e)| (reg(id), *e)).collect()),
            Node::Sample { image, partials, at } => {
                Op::Sample { image: *image, partials: partials.clone(), at: regs(at) }
            }
            Node::Call(f, operands) => match operands.as_slice() {
                [a] => Op::Unary(*f, reg(a)),
                [a, b] => Op::Binary(*f, reg(a), reg(b)),
                _ => return Err(ExplicitError::Unsupported { what: format!("{f:?} of {operands:?}") }),
            },
            Node::Compare(c, a, b) => Op::Compare(*c, reg(a), reg(b)),
            Node::NonZero(a) => Op::NonZero(reg(a)),
            Node::SameVertex(g, a, b) => Op::SameVertex(slot(energy, *g, *a), slot(energy, *g, *b)),
            Node::InBoundsAt { graph, slot, lo, hi } => Op::InBoundsAt {
                space: energy.graphs[graph.index()].space_of(*slot),
                at: crate::assembled::tape::slot(energy, *graph, *slot),
                lo: lo.clone(),
                hi: hi.clone(),
            },
            Node::IndexAt(g, slot, d) => {
                let space = energy.graphs[g.index()].space_of(*slot);
                Op::IndexAt(space, crate::assembled::tape::slot(energy, *g, *slot), *d)
            }
            Node::And(ids) => Op::And(regs(ids)),
            Node::Or(ids) => Op::Or(regs(ids)),
            Node::Not(a) => Op::Not(reg(a)),
            Node::Select(c, a, b) => Op::Select(reg(c), reg(a), reg(b)),
        })
    }

    /// The number of a read, new or known.
    fn read(&mut self, energy: &Energy, domain: Domain, access: &Access) -> Result<u32, ExplicitError> {
        if !matches!(access.source, Source::Unknown(_) | Source::Array(_)) {
            return Err(ExplicitError::Unsupported { what: format!("a read of {:?}", access.source) });
        }
        let slot = matches!(access.source, Source::Unknown(_)).then(|| {
            let slot = Slot::try_from(self.slots.len());
            self.slots.push(self.reads.len() as u32);
            slot.map_err(|_| ExplicitError::Unsupported {
                what: "a residual that reads 65537 unknowns".into(),
            })
        });
        let slot = slot.transpose()?;
        let place = place(energy, domain, energy.space_of(access.source), &access.at)?;
        self.reads.push(Read { source: access.source, channel: access.channel, place, slot });
        Ok(self.reads.len() as u32 - 1)
    }

    /// The slots that an operation's value can vary with, ascending. Booleans are piecewise constant.
    fn dependencies_of(&self, op: &Op) -> Vec<Slot> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut add = |r: &Reg| slots.extend_from_slice(self.slots_of(*r as usize));
        match op {
            Op::Read(read) => slots.extend(self.reads[*read as usize].slot),
            Op::Sum { terms, .. } => terms.iter().for_each(|(_, r)| add(r)),
            Op::Prod(factors) => factors.iter().for_each(|(r, _)| add(r)),
            Op::Sample { partials, at, .. } if !partials.is_empty() => at.iter().for_each(add),
            Op::Unary(_, a) => add(a),
            Op::Binary(_, a, b) | Op::Select(_, a, b) => [a, b].into_iter().for_each(add),
            _ => {}
        }
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// The place of a slot of a graph.
fn slot(energy: &Energy, graph: GraphId, slot: u16) -> Place {
    let graph = &energy.graphs[graph.index()];
    match graph.vertex_of(slot) {
        (vertex, Some(offset)) => Place::Neighbour(vertex, graph.space_of(slot), offset.clone()),
        (vertex, None) => Place::Vertex(vertex),
    }
}

/// Returns where `at` reads a field of `space` from `domain`.
pub(super) fn place(
    energy: &Energy,
    domain: Domain,
    space: SpaceId,
    at: &At,
) -> Result<Place, ExplicitError> {
    match (at, domain) {
        (At::Global, _) if energy.is_global(space) => Ok(Place::Global),
        (At::Offset(offset), Domain::Space(s)) if s == space => Ok(Place::Stencil(offset.clone())),
        (At::Vertex(g, slot), Domain::Graph(graph)) if *g == graph => {
            Ok(crate::assembled::tape::slot(energy, *g, *slot))
        }
        _ => Err(ExplicitError::Unsupported { what: format!("a read at {at:?} from {domain:?}") }),
    }
}
