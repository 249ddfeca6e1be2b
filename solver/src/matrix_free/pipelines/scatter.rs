//! Graph scatters: every hyperedge adds to its vertices what it has for them, in indivisible steps, in any order.
//!
//! By choice in place of the gathers of J^T J p, g and the blocks (see [`crate::matrix_free::pipelines::gather`]): no lists are read, but sums round
//! otherwise in every run. Elements outside of the domain get nothing.

use crate::matrix_free::draft::{Direction, Draft, vars};
use crate::matrix_free::params::edge_count;
use crate::matrix_free::skeleton::{Skeleton, Space};
use crate::matrix_free::vectors::What;
use sumsq_codegen::{Expr, Func, RDom};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::Site;
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::GraphId;

/// Adds Func `name` = per element of a space the sum of `roots`, so many, of all slots of hyperedges there.
pub fn scatter(
    d: &mut Draft,
    name: &str,
    space: &Space,
    (width, roots): (usize, &dyn Fn(Site) -> Vec<ExprId>),
    direction: Direction,
) -> Func {
    let (k, zeros) = (d.k, vec![Expr::float(d.ty(), 0.0); width]);
    let (mut f, mut edges) = (Func::new(name, &vars(space.dims), zeros), vec![]);
    for &(graph, vertex) in &space.slots {
        for slot in k.places(graph, vertex) {
            let rdom = RDom::new([(format!("e{}", edges.len()), Expr::from(0), edge_count(graph))]);
            let edge = rdom.var(0);
            let (at, inside) = target(k, space, (graph, vertex), slot, &edge);
            let terms = d.emit(
                &roots(Site::Slot(graph, slot)),
                Place::Edge { graph, edge, known: vec![] },
                direction,
            );
            let values = terms.into_iter().enumerate().map(|(c, term)| f.at(&at, c) + term).collect();
            edges.push(rdom.vars[0].name.clone());
            let rdom = inside.into_iter().fold(rdom, RDom::filter);
            f = f.update(at, values, rdom);
        }
    }
    let f = d.p.func(f);
    d.scatter(&f, edges);
    f
}

/// The element at a slot of a hyperedge, and a condition that it is in the domain where it need not be: else it is the nearest one there.
fn target(
    k: &Skeleton,
    space: &Space,
    (graph, vertex): (GraphId, u16),
    slot: u16,
    edge: &Expr,
) -> (Vec<Expr>, Option<Expr>) {
    let own = k.listed(What::Vertex, (graph, vertex), vertex, edge);
    if slot == vertex {
        return (own, None);
    }
    let at = k.place_at(graph, slot, &own);
    let last = |dim| names::extent(space.id, dim) - 1;
    let within = |(dim, x): (usize, &Expr)| x.ge(0).and(x.le(last(dim)));
    let inside = at.iter().enumerate().map(within).reduce(|a, b| a.and(b));
    (at.iter().enumerate().map(|(dim, x)| x.min(last(dim)).max(Expr::from(0))).collect(), inside)
}
