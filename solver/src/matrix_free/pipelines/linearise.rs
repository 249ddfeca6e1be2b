//! Inputs of applyJTJ: x in the linear solver's precision, and what is stored once per linearisation.
//!
//! Outputs `xl<s>` (where the precisions differ), `h<s>` and `hg<g>` (hoisted parts and stored partials over a space or the
//! hyperedges of a graph), `r<g>s<slot>.h` (the same of the graph, in the order in which the gathers at its vertices read it)
//! and `bd<s>` (the stored share of the diagonal blocks of J^T J, packed lower triangle).

use crate::matrix_free::draft::{Draft, all, coordinates, no_direction, vars};
use crate::matrix_free::pipelines::gather::{Parts, channels, gather, stored_sums};
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space, packed};
use crate::matrix_free::vectors::{Role, VectorId, What};
use sumsq_codegen::{Expr, Func, Var};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Routine, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::{Domain, GraphId};

/// The pipeline, if there is anything to do.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "linearise", Role::Master);
    if k.master != k.linear {
        for space in &k.spaces {
            let domain = Domain::Space(space.id);
            let x = d.all(What::X.of(space.id), &coordinates(&k.vars_over(domain)));
            // A view may be sampled anywhere.
            let skipped = !k.energy.has_views();
            root(&mut d, What::LinearX.of(space.id), domain, x, skipped);
        }
    }
    // Also where no unknown lives: a factor of the edges, an array computed from globals.
    for Routine { site, roots: values, .. } in k.routines.of(Kind::Stored) {
        let domain = site.domain(&k.energy);
        if let Domain::Graph(graph) = domain {
            beside_entries(&mut d, graph, values);
            if !read_by_edge(k, graph) {
                continue;
            }
        }
        let place = k.place(domain, coordinates(&k.vars_over(domain)));
        let h = d.emit(values, place, &no_direction);
        root(&mut d, What::Hoisted.of(domain), domain, h, true);
    }
    for space in k.spaces.iter().filter(|space| k.stores_blocks(space)) {
        stored_blocks(&mut d, space);
    }
    d.finish_at_x()
}

/// Adds an output over a domain in the linear solver's precision: see [`Draft::map_domain`].
fn root(d: &mut Draft, id: VectorId, domain: Domain, values: Vec<Expr>, skipped: bool) -> Func {
    let linear = d.k.linear;
    d.map_domain(id, domain, values.into_iter().map(|v| v.cast(linear)).collect(), skipped)
}

/// True if anything but the gathers that have copies beside their entries reads what is stored over the hyperedges of a graph.
fn read_by_edge(k: &Skeleton, graph: GraphId) -> bool {
    let by_edge = |site: Site| match site {
        Site::Slot(of, slot) => {
            let vertex = k.energy.graphs[of.index()].vertex_of(slot).0;
            k.beside.get(&(of, vertex)).is_none_or(Vec::is_empty)
        }
        _ => true,
    };
    let sums = k.routines.of(Kind::JtJp).filter(|r| by_edge(r.site));
    let mut readers = sums.chain(k.routines.of(Kind::Product));
    readers.any(|r| !channels(&k.routines.dag, graph, &r.roots).is_empty())
}

/// Adds, for every slot whose gather reads some of `values` (stored over the hyperedges of `graph`), these beside its entries.
fn beside_entries(d: &mut Draft, graph: GraphId, values: &[ExprId]) {
    let k = d.k;
    for &of in k.spaces.iter().flat_map(|space| &space.slots).filter(|(g, _)| *g == graph) {
        let wanted: Vec<ExprId> = k.beside[&of].iter().map(|&c| values[c]).collect();
        if wanted.is_empty() {
            continue;
        }
        let x = Var::new("x");
        let at = [x.expr()];
        let vertices = 0..k.energy.graphs[graph.index()].vertices.len() as u16;
        let known = vertices.map(|v| (v, k.listed(What::RowVertex(v), of, v, &at[0])));
        let known = known.collect();
        let place = Place::Edge { graph, edge: d.element(What::RowEdge.of(of), &at, 0), known };
        let h = d.emit(&wanted, place, &no_direction).into_iter().map(|v| v.cast(k.linear)).collect();
        let f = d.func(What::RowHoisted.of(of), &[x], h);
        d.output(&f, What::RowHoisted.of(of));
        d.map(&f, Strip::Entries);
    }
}

/// The stored share of a space's diagonal blocks.
fn stored_blocks(d: &mut Draft, space: &Space) {
    let (k, id) = (d.k, What::StoredBlocks.of(space.id));
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let mut slots = Space { slots: vec![], ..space.clone() };
    let mut sums = vec![];
    for &(graph, slot) in &space.slots {
        let contributions = k.contributions(Kind::StoredBlocks, graph, slot);
        if !contributions.is_empty() {
            let of = Parts { graph, slot, contributions: &contributions, direction: &no_direction };
            sums.push(stored_sums(d, &format!("{id}_g{}s{slot}", graph.0), space, of));
            slots.slots.push((graph, slot));
        }
    }
    let start = match k.routines.roots(Kind::StoredBlocks, Site::Element(space.id)) {
        [] => vec![Expr::float(d.ty(), 0.0); packed(space.components, 0)],
        roots => d.emit(roots, Place::Element(space.id, at.clone()), &no_direction),
    };
    let sum = gather(d, &format!("{id}_sum"), &slots, &vars, start, &sums);
    let f = root(d, id, Domain::Space(space.id), all(&sum, &at), true);
    d.gathered_in(&f, &sum);
}
