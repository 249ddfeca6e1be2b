//! g = J^T r and the diagonal blocks of J^T J.
//!
//! Output `gb<s>`, a tuple over space s: C entries of g, then the packed lower triangle of the block (only its diagonal
//! where no preconditioner reads the blocks), then C entries of the diagonal to first order where some loss is of second
//! order. Meaningless at excluded elements.

use crate::matrix_free::choices::{Of, Value};
use crate::matrix_free::draft::{Draft, all, coordinates, no_direction, vars};
use crate::matrix_free::pipelines::gather::{Parts, gather, stored_sums};
use crate::matrix_free::pipelines::global::{add_totals, totals};
use crate::matrix_free::pipelines::scatter::scatter;
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::sums::{Terms, count, pieces};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, Func, RDom};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Routine, Site};
use sumsq_energy::emit::Place;
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "gradient", Role::Master);
    for space in &k.spaces {
        let f = space_gradient(&mut d, space);
        d.output(&f, What::GradientAndBlocks.of(space.id));
    }
    d.finish_at_x()
}

/// The residuals that are stored for g: outputs `res<s>` and `resg<g>`, the groups' residuals times the weight of their loss, 0 where the
/// boundary rule does not hold.
pub fn residuals(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "residuals", Role::Master);
    for Routine { site, roots, .. } in k.routines.of(Kind::Residual) {
        let domain = site.domain(&k.energy);
        let place = k.place(domain, coordinates(&k.vars_over(domain)));
        let values = d.emit(roots, place, &no_direction);
        d.map_domain(What::Residual.of(domain), domain, values, true);
    }
    d.finish_at_x()
}

fn space_gradient(d: &mut Draft, space: &Space) -> Func {
    let k = d.k;
    let roots = |site: Site| space.gradient_roots(&k.routines, site);
    let id = What::GradientAndBlocks.of(space.id);
    let mut partials = vec![];
    for &(graph, slot) in space.slots.iter().filter(|_| !space.scatters) {
        let roots: Vec<ExprId> =
            k.places(graph, slot).flat_map(|slot| roots(Site::Slot(graph, slot))).collect();
        let of = Parts { graph, slot, contributions: &roots, direction: &no_direction };
        partials.push(stored_sums(d, &format!("{id}_g{}s{slot}", graph.0), space, of));
    }
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let own = roots(Site::Element(space.id));
    let nests = match k.choices.is(Of::Nests(Domain::Space(space.id)), Value::Split) {
        true => count(&k.routines.dag, &own),
        false => 1,
    };
    let own = pieces(&k.routines.dag, &own, nests);
    let mut own = own.iter().map(|piece| piece_at(d, space.id, piece, &at)).collect::<Vec<_>>().into_iter();
    let start = own.next().expect("there is a piece");
    let mut sums = vec![];
    for (i, site) in k.globals(space.id) {
        sums.push(totals(d, &format!("{id}_t{i}"), site, &roots(site), &no_direction).name);
    }
    let mut start = add_totals(start, &sums);
    if space.scatters {
        let edges = scatter(d, &format!("{id}_edges"), space, (start.len(), &roots), &no_direction);
        start = start.into_iter().zip(all(&edges, &at)).map(|(own, edges)| own + edges).collect();
    }
    let sum = gather(d, &format!("{id}_sum"), space, &vars, start, &partials);
    let mut f = Func::new(id.to_string(), &vars, all(&sum, &at));
    // A nest for each further piece.
    for more in own {
        let values = all(&f, &at).into_iter().zip(more).map(|(sum, piece)| sum + piece).collect();
        f = f.update(at.clone(), values, RDom::default());
    }
    let f = d.p.func(f);
    d.map(&f, Strip::Of(Domain::Space(space.id)));
    d.skip_unless(&f, k.live_at(space.id, &at));
    d.gathered_in(&f, &sum);
    f
}

/// A piece of the routines of an element, one value per root.
fn piece_at(d: &Draft, space: SpaceId, piece: &[Terms], at: &[Expr]) -> Vec<Expr> {
    let roots: Vec<ExprId> = piece.iter().flatten().map(|&(_, root)| root).collect();
    let mut values = d.emit(&roots, Place::Element(space, at.to_vec()), &no_direction).into_iter();
    let mut value = |terms: &Terms| {
        let all = terms.iter().zip(&mut values).map(|(&(c, _), e)| match c {
            1.0 => e,
            c => Expr::float(d.ty(), c) * e,
        });
        all.reduce(|a, b| a + b).unwrap_or_else(|| Expr::float(d.ty(), 0.0))
    };
    piece.iter().map(&mut value).collect()
}

impl Skeleton {
    /// The space that a graph's vertex slot points into.
    pub fn slot_space(&self, graph: GraphId, slot: u16) -> SpaceId {
        self.energy.graphs[graph.index()].space_of(slot)
    }

    /// The slots that the hyperedges of a graph reach from a vertex and that have routines: the vertex, its neighbours.
    pub fn places(&self, graph: GraphId, vertex: u16) -> impl Iterator<Item = u16> {
        let declared = &self.energy.graphs[graph.index()];
        self.routines.of(Kind::JtJp).filter_map(move |r| match r.site {
            Site::Slot(g, slot) if g == graph && declared.vertex_of(slot).0 == vertex => Some(slot),
            _ => None,
        })
    }

    /// Contributions of hyperedges to the places that they reach from a vertex, place by place.
    pub fn contributions(&self, kind: Kind, graph: GraphId, vertex: u16) -> Vec<ExprId> {
        let slots = self.places(graph, vertex);
        slots.flat_map(|slot| self.routines.roots(kind, Site::Slot(graph, slot))).copied().collect()
    }

    /// The place of a slot whose vertex is at `vertex`.
    pub fn place_at(&self, graph: GraphId, slot: u16, vertex: &[Expr]) -> Vec<Expr> {
        self.moved(graph, slot, vertex, 1)
    }

    /// The vertex of a slot whose place is `place`.
    pub fn vertex_at(&self, graph: GraphId, slot: u16, place: &[Expr]) -> Vec<Expr> {
        self.moved(graph, slot, place, -1)
    }

    fn moved(&self, graph: GraphId, slot: u16, from: &[Expr], times: i64) -> Vec<Expr> {
        match self.energy.graphs[graph.index()].vertex_of(slot).1 {
            Some(offset) => from.iter().zip(offset).map(|(x, &o)| x + times * i64::from(o)).collect(),
            None => from.to_vec(),
        }
    }
}
