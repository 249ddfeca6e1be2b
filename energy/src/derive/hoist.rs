//! Hoisting: the parts of a routine that depend on one element only and not on the direction, computed once per
//! linearisation and stored beside the unknowns (ARAP then keeps a cosine and a sine per pixel).

use super::{count_ops, simplify};
use crate::dag::{Access, At, Dag, ExprId, Node, Offset, Source};
use crate::model::{Energy, SpaceId};
use rustc_hash::FxHashMap;

/// Hoisted expressions and the routines that read them.
#[derive(Clone, Debug)]
pub struct Hoisted {
    /// Per index space, in order of first use: what channel k of [`Source::Hoisted`] holds, written at offset 0.
    pub values: Vec<(SpaceId, Vec<ExprId>)>,
    /// The roots, reading them.
    pub roots: Vec<ExprId>,
}

/// What an expression reads.
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

/// Replaces every maximal subexpression of `roots` that reads a single element, does not read the direction and holds a
/// division or a function call.
///
/// Stored values are 0 outside the domain where the expression itself would be its value at zero reads. Where the two
/// differ, the read is guarded by its own `InBounds`, which the enclosing guard usually resolves again. The passes run again
/// on the roots.
pub fn hoist(energy: &Energy, dag: &mut Dag, roots: &[ExprId]) -> Hoisted {
    let mut reads: FxHashMap<ExprId, Reads> = FxHashMap::default();
    let mut costly: FxHashMap<ExprId, bool> = FxHashMap::default();
    for n in dag.reachable(roots) {
        let own = reads_of(energy, dag, n, &reads);
        reads.insert(n, own);
        let division = matches!(dag.node(n), Node::Prod(factors) if factors.iter().any(|f| f.1 < 0));
        let inherited = dag.children(n).iter().any(|c| costly[c]);
        costly.insert(n, inherited || division || is_costly(dag, n));
    }
    let candidate = |n: ExprId| match &reads[&n] {
        Reads::Element(space, at) if costly[&n] && !dag.is_boolean(n) => Some((*space, at)),
        _ => None,
    };
    let mut maximal = Vec::new();
    dag.reachable_while(roots, |n| {
        maximal.extend(candidate(n).map(|(space, at)| (n, space, at)));
        candidate(n).is_none()
    });
    maximal.sort_by_key(|m| m.0);
    let mut values: Vec<(SpaceId, Vec<ExprId>)> = Vec::new();
    let mut stored: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    for (n, space, at) in maximal {
        stored.insert(n, read_hoisted(energy, dag, n, (space, at), &mut values));
    }
    let replaced = dag.substitute_ids(roots, &mut |_, n| stored.get(&n).copied());
    let (roots, _) = simplify(dag, &replaced);
    Hoisted { values, roots }
}

/// Whether a node is worth a store by itself. Computed arrays and their partials are: the sweeps have no other way to them.
fn is_costly(dag: &Dag, n: ExprId) -> bool {
    match dag.node(n) {
        Node::Call(..) => count_ops(dag, &[n]).transcendental > 0,
        Node::Sample { .. } => true,
        Node::Access(a) => matches!(a.source, Source::Computed(_) | Source::Partial(_)),
        _ => false,
    }
}

fn reads_of(energy: &Energy, dag: &Dag, n: ExprId, reads: &FxHashMap<ExprId, Reads>) -> Reads {
    match dag.node(n) {
        Node::Access(a) => match a.source {
            Source::Direction(_) | Source::Hoisted(_) => Reads::More,
            source => Reads::Element(energy.space_of(source), a.at.clone()),
        },
        Node::Index(_) => Reads::Place,
        Node::InBounds { .. } | Node::Free(..) | Node::SameVertex(..) => Reads::More,
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

/// The read that stands for `n`, storing its value if it is new.
fn read_hoisted(
    energy: &Energy,
    dag: &mut Dag,
    n: ExprId,
    (space, at): (SpaceId, &At),
    values: &mut Vec<(SpaceId, Vec<ExprId>)>,
) -> ExprId {
    let origin: Offset = energy.spaces[space.index()].iter().map(|_| 0).collect();
    let here = match at {
        At::Offset(o) => dag.shift(n, &o.iter().map(|v| -v).collect()),
        At::Global => n,
        At::Vertex(..) => dag.substitute(n, &mut |dag, node| match node {
            Node::Access(a) if a.at != At::Global => {
                Some(dag.access(Access { at: At::Offset(origin.clone()), ..a.clone() }))
            }
            _ => None,
        }),
    };
    let list = match values.iter().position(|v| v.0 == space) {
        Some(i) => &mut values[i].1,
        None => {
            values.push((space, Vec::new()));
            &mut values.last_mut().expect("just pushed").1
        }
    };
    let channel = list.iter().position(|&v| v == here).unwrap_or_else(|| {
        list.push(here);
        list.len() - 1
    });
    let access = Access { source: Source::Hoisted(space), channel: channel as u16, at: at.clone() };
    let read = dag.access(access);
    let At::Offset(o) = at else { return read };
    let outside = dag.substitute(n, &mut |dag, node| match node {
        Node::Access(a) if a.at != At::Global => Some(dag.constant(0.0)),
        _ => None,
    });
    let inside = dag.in_bounds(o, o);
    match dag.is_constant(outside, 0.0) {
        true => read,
        false => dag.select(inside, read, outside),
    }
}
