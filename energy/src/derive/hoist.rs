//! Hoisting: the parts of a routine that depend on one element only and not on the direction, computed once per
//! linearisation and stored beside the unknowns (ARAP then keeps a cosine and a sine per pixel).

use super::within::within;
use super::{Kind, Part, Passes, Routine, Routines, count_ops, materialize::channel, simplify};
use crate::dag::{Access, At, Dag, ExprId, Node, Offset, Source};
use crate::error::EnergyError;
use crate::model::{Domain, Energy, SpaceId};
use rustc_hash::FxHashMap;

/// Reads of an expression.
#[derive(Clone, PartialEq)]
enum Reads {
    /// Constants and parameters only.
    Nothing,
    /// The element's coordinates too, but nothing of an element.
    Place,
    /// One element of one index space (and globals), and not the direction. `At::Global`: globals alone.
    Element(SpaceId, At),
    /// Anything else.
    More,
}

impl Routines {
    /// Hoists what every PCG iteration evaluates, with all such routines together; `in_place` names the parts, by space and number, that
    /// stay where they are. Lists all of them in [`Routines::parts`].
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn hoist(
        &mut self,
        energy: &Energy,
        passes: Passes,
        in_place: &dyn Fn(SpaceId, usize) -> bool,
    ) -> Result<(), EnergyError> {
        let directed = |r: &&mut Routine| r.kind.reads_direction();
        let roots = self.table.iter().filter(|r| r.kind.reads_direction()).flat_map(|r| &r.roots);
        let roots: Vec<ExprId> = roots.copied().collect();
        let (hoisted, parts) = hoist(energy, &mut self.dag, &roots, &mut self.table, passes, in_place);
        self.parts = parts;
        let own = self.table.iter_mut().filter(directed).flat_map(|r| &mut r.roots);
        own.zip(hoisted).for_each(|(old, new)| *old = new);
        within(energy, &self.dag, || "the parts that J^T J p stores".into(), None)
    }
}

/// Replaces every maximal subexpression of `roots` that reads a single element, does not read the direction and holds a
/// division or a function call that differs from element to element.
///
/// Stored values are 0 outside the domain where the expression itself would be its value at zero reads. Where the two
/// differ, the read is guarded by its own `InBounds`, which the enclosing guard usually resolves again. The passes run again
/// on the roots. Without the pass itself, reads of computed arrays alone are replaced. What channel k of [`Source::Hoisted`] holds,
/// written at offset 0, is added to the routines of [`Kind::Stored`] in `table`; returns the roots that read it, and the parts that were found,
/// also those of them that `in_place` leaves where they are.
pub fn hoist(
    energy: &Energy,
    dag: &mut Dag,
    roots: &[ExprId],
    table: &mut Vec<Routine>,
    passes: Passes,
    in_place: &dyn Fn(SpaceId, usize) -> bool,
) -> (Vec<ExprId>, Vec<Part>) {
    let mut reads: FxHashMap<ExprId, Reads> = FxHashMap::default();
    let mut costly: FxHashMap<ExprId, bool> = FxHashMap::default();
    for n in dag.reachable(roots) {
        let own = reads_of(energy, dag, n, &reads);
        reads.insert(n, own);
        let varies = |c: &ExprId| varies(&reads[c]);
        let division =
            matches!(dag.node(n), Node::Prod(factors) if factors.iter().any(|f| f.1 < 0 && varies(&f.0)));
        let inherited = dag.children(n).iter().any(|c| costly[c] && varies(c));
        let worth_it = || varies(&n) && (inherited || division || is_costly(dag, n));
        costly.insert(n, passes.hoisting && worth_it());
    }
    let candidate = |n: ExprId| match &reads[&n] {
        Reads::Element(space, at) if costly[&n] || reads_computed(dag, n) => {
            (!dag.is_boolean(n)).then_some((*space, at))
        }
        _ => None,
    };
    let mut maximal = Vec::new();
    dag.reachable_while(roots, |n| {
        maximal.extend(candidate(n).map(|(space, at)| (n, space, at)));
        candidate(n).is_none()
    });
    maximal.sort_by_key(|m| m.0);
    let mut reads_of: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    let mut parts = Vec::new();
    for (n, space, at) in maximal {
        if dag.is_spent() {
            break;
        }
        let value = at_origin(energy, dag, n, (space, at));
        let forced = dag.reachable(&[value]).into_iter().any(|n| reads_computed(dag, n));
        let part = numbered(&mut parts, Part { space, number: 0, value, forced });
        if part.forced || !in_place(space, part.number) {
            reads_of.insert(n, read_hoisted(energy, dag, n, at, part, table));
        }
    }
    let replaced = dag.substitute_ids(roots, &mut |_, n| reads_of.get(&n).copied());
    (simplify(dag, &replaced, passes).0, parts)
}

/// The part of the same space and value in `parts`, where it gets the next number of its space if it is new.
fn numbered(parts: &mut Vec<Part>, new: Part) -> Part {
    let own = |p: &&Part| p.space == new.space;
    if let Some(&known) = parts.iter().filter(own).find(|p| p.value == new.value) {
        return known;
    }
    let part = Part { number: parts.iter().filter(own).count(), ..new };
    parts.push(part);
    part
}

/// `n`, which reads elements of `space` at `at`, as it is at offset 0.
fn at_origin(energy: &Energy, dag: &mut Dag, n: ExprId, (space, at): (SpaceId, &At)) -> ExprId {
    let origin: Offset = energy.spaces[space.index()].iter().map(|_| 0).collect();
    match at {
        At::Offset(o) => dag.shift(n, &o.iter().map(|v| -v).collect()),
        At::Global | At::Edge(_) => n,
        At::Vertex(..) => dag.substitute(n, &mut |dag, node| match node {
            Node::Access(a) if a.at != At::Global => {
                Some(dag.access(Access { at: At::Offset(origin.clone()), ..a.clone() }))
            }
            _ => None,
        }),
    }
}

/// Tells whether loops over elements compute it for each of them. What none of them changes they compute once: the root of a weight.
fn varies(reads: &Reads) -> bool {
    !matches!(reads, Reads::Nothing | Reads::Element(_, At::Global))
}

/// Tells whether a node is worth a store by itself.
fn is_costly(dag: &Dag, n: ExprId) -> bool {
    match dag.node(n) {
        Node::Call(..) => count_ops(dag, &[n]).transcendental > 0,
        Node::Sample { .. } => true,
        _ => false,
    }
}

/// Tells whether a node reads a computed array or its partials: the sweeps have no other way to them.
fn reads_computed(dag: &Dag, n: ExprId) -> bool {
    matches!(dag.node(n), Node::Access(a) if matches!(a.source, Source::Computed(_) | Source::Partial(_)))
}

fn reads_of(energy: &Energy, dag: &Dag, n: ExprId, reads: &FxHashMap<ExprId, Reads>) -> Reads {
    match dag.node(n) {
        Node::Access(a) => match a.source {
            Source::Direction(_) | Source::Hoisted(_) | Source::Residual(_) | Source::Product(_) => {
                Reads::More
            }
            source => Reads::Element(energy.space_of(source), a.at.clone()),
        },
        Node::Index(_) => Reads::Place,
        Node::InBounds { .. } | Node::Free(..) | Node::SameVertex(..) => Reads::More,
        Node::InBoundsAt { .. } | Node::IndexAt(..) => Reads::More,
        _ => dag.children(n).iter().fold(Reads::Nothing, |all, c| match (all, &reads[c]) {
            (Reads::Nothing, r) => r.clone(),
            (r, Reads::Nothing) => r,
            (r, other) if r == *other => r,
            (Reads::Element(s, at), Reads::Place) if at != At::Global => Reads::Element(s, at),
            (Reads::Place, r @ Reads::Element(_, at)) if *at != At::Global => r.clone(),
            (Reads::Element(_, At::Global), r @ Reads::Element(..)) => r.clone(),
            (r @ Reads::Element(..), Reads::Element(_, At::Global)) => r,
            _ => Reads::More,
        }),
    }
}

/// The read at `at` that stands for `n`, storing the value of its part if that is new.
fn read_hoisted(
    energy: &Energy,
    dag: &mut Dag,
    n: ExprId,
    at: &At,
    part: Part,
    table: &mut Vec<Routine>,
) -> ExprId {
    let domain = Domain::Space(part.space);
    let channel = channel(dag, table, Kind::Stored, domain, part.value);
    let access = Access { source: Source::Hoisted(domain), channel, at: at.clone() };
    let read = dag.access(access);
    let inside = dag.inside(&energy.graphs, at);
    let outside = dag.substitute(n, &mut |dag, node| match node {
        Node::Access(a) if a.at != At::Global => Some(dag.constant(0.0)),
        _ => None,
    });
    match dag.is_constant(outside, 0.0) {
        true => read,
        false => dag.select(inside, read, outside),
    }
}
