//! What applyJTJ reads: x in the linear solver's precision, and what is stored once per linearisation.
//!
//! Outputs `xl<s>` (where the precisions differ), `h<s>` and `hg<g>` (hoisted parts and stored partials over a space or the
//! hyperedges of a graph), `r<g>s<slot>.h` (the same of the graph, in the order in which the gathers at its vertices read it)
//! and `bd<s>` (the stored share of the diagonal blocks of J^T J, packed lower triangle).

use crate::matrix_free::domain::fields::{all, over, over_domain, vars};
use crate::matrix_free::pipelines::gather;
use crate::matrix_free::pipelines::gather::{Parts, at_vector, channels, parts};
use crate::matrix_free::schedule::reduce::{map_root, skip_unless, strip_name};
use crate::matrix_free::{LANES, Scheduled, Skeleton, Space, packed};
use sumsq_codegen::{Expr, Func, Layout, LoopLevel, Pipeline, ScalarType, Schedule, Var};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::derive::{Kind, Routine, Site};
use sumsq_energy::emit::{Place, component_count, names};
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// Entries of a slot's rows that one thread takes at a time.
const ENTRIES: i32 = 1024;

/// The pipeline, if there is anything to do.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("linearise"), Schedule::new());
    let none = |_, _: usize, _: &[Expr]| unreachable!("what is stored per linearisation reads no direction");
    if k.master != k.linear {
        let spaces = (0..k.energy.spaces.len() as u32).map(SpaceId);
        for space in spaces.filter(|&s| component_count(&k.energy, s) > 0) {
            let domain = Domain::Space(space);
            let at = coordinates(k, domain);
            let x = |c| Expr::call(names::unknowns(space), k.master, at.clone(), c);
            let x = (0..component_count(&k.energy, space)).map(x).collect();
            let layout = k.vector_layout(space, Source::Unknown);
            // A view may be sampled anywhere.
            let skipped = !k.energy.has_views();
            root(k, &mut p, &mut s, (over("xl", space), layout), domain, x, skipped);
        }
    }
    // Also where no unknown lives: a factor of the edges, an array computed from globals.
    for Routine { site, roots: values, .. } in k.routines.of(Kind::Stored) {
        let domain = site.domain(&k.energy);
        if let Domain::Graph(graph) = domain {
            beside_entries(k, &mut p, &mut s, graph, values);
            if !read_by_edge(k, graph) {
                continue;
            }
        }
        let place = k.place(domain, coordinates(k, domain));
        let h = k.emit(values, k.master, place, &none);
        let layout = k.layout(Source::Hoisted(domain), values.len());
        root(k, &mut p, &mut s, (over_domain("h", domain), layout), domain, h, true);
    }
    for space in k.spaces.iter().filter(|space| k.stores_blocks(space)) {
        stored_blocks(k, &mut p, &mut s, space);
    }
    k.complete_at_x(&mut p, &mut s);
    (!p.outputs.is_empty()).then_some((p, s))
}

fn coordinates(k: &Skeleton, domain: Domain) -> Vec<Expr> {
    k.domain_vars(domain).0.iter().map(|&v| Expr::var(v)).collect()
}

/// Adds an output over a domain, in the linear solver's precision; not far from what is free, if it is `skipped` there. Returns its loop outside of the vector.
fn root(
    k: &Skeleton,
    p: &mut Pipeline,
    s: &mut Schedule,
    (name, layout): (String, Layout),
    domain: Domain,
    values: Vec<Expr>,
    skipped: bool,
) -> LoopLevel {
    let values = values.into_iter().map(|v| v.cast(k.linear)).collect();
    let vars: Vec<Var> = k.domain_vars(domain).0.iter().map(|&v| Var::new(v)).collect();
    let f = p.func(Func::new(name, &vars, values));
    p.output_with(&f, layout, k.domain_halo(domain));
    let level = map_root(s, &f, &Expr::param(strip_name(domain), ScalarType::I32));
    if let (Domain::Space(space), true) = (domain, skipped) {
        let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
        skip_unless(s, &level, k.near_at(space, &at));
    }
    level
}

/// Whether anything but the gathers at vertices reads what is stored over the hyperedges of a graph.
fn read_by_edge(k: &Skeleton, graph: GraphId) -> bool {
    let globals = k.routines.of(Kind::JtJp).filter(|r| matches!(r.site, Site::Global(..)));
    let mut readers = globals.chain(k.routines.of(Kind::Product));
    readers.any(|r| !channels(&k.routines.dag, graph, &r.roots).is_empty())
}

/// Adds, for every slot whose gather reads some of `values` (stored over the hyperedges of `graph`), these beside its entries.
fn beside_entries(k: &Skeleton, p: &mut Pipeline, s: &mut Schedule, graph: GraphId, values: &[ExprId]) {
    let slots = k.spaces.iter().flat_map(|space| &space.slots).filter(|(g, _)| *g == graph);
    for &(_, slot) in slots {
        let wanted: Vec<ExprId> = k.beside[&(graph, slot)].iter().map(|&c| values[c]).collect();
        if wanted.is_empty() {
            continue;
        }
        let none =
            |_, _: usize, _: &[Expr]| unreachable!("what is stored per linearisation reads no direction");
        let x = Var::new("x");
        let edges = gather::edges(graph, slot);
        let vertices = (0u16..).zip(&k.energy.graphs[graph.index()].vertices);
        let known = vertices.map(|(v, vertex)| {
            let dims = k.energy.spaces[vertex.space.index()].len();
            (v, names::listed_coordinates(&gather::listed(graph, slot, v), dims, vertex.space, &x.expr()))
        });
        let place = Place::Edge { graph, edge: edges.at(&[x.expr()], 0), known: known.collect() };
        let h = k.emit(&wanted, k.master, place, &none).into_iter().map(|v| v.cast(k.linear)).collect();
        let f = p.func(Func::new(gather::stored(graph, slot), &[x], h));
        p.output_with(&f, Layout::Planar, vec![LANES as u32]);
        map_root(s, &f, &Expr::from(ENTRIES));
    }
}

/// The stored share of a space's diagonal blocks.
fn stored_blocks(k: &Skeleton, p: &mut Pipeline, s: &mut Schedule, space: &Space) {
    let none = |_, _: usize, _: &[Expr]| unreachable!("blocks read no direction");
    let name = over("bd", space.id);
    let zeros = || vec![Expr::float(k.master, 0.0); packed(space.components, 0)];
    let (vars, domain) = (vars(space.dims), Domain::Space(space.id));
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let mut slots = Space { slots: vec![], ..space.clone() };
    let mut sums = vec![];
    for &(graph, slot) in &space.slots {
        let contributions = k.contributions(Kind::StoredBlocks, graph, slot);
        if !contributions.is_empty() {
            let of = Parts { graph, slot, contributions: &contributions, ty: k.master, direction: &none };
            sums.push(parts(k, p, &format!("{name}_g{}s{slot}", graph.0), of).at_root(s));
            slots.slots.push((graph, slot));
        }
    }
    let start = match k.routines.roots(Kind::StoredBlocks, Site::Element(space.id)) {
        [] => zeros(),
        roots => k.emit(roots, k.master, Place::Element(space.id, at.clone()), &none),
    };
    let sum = gather::gather(k, p, &format!("{name}_sum"), &slots, &vars, start, &sums);
    let level = root(k, p, s, (name, Layout::Planar), domain, all(&sum, &at), true);
    at_vector(s, &sum, level);
}
