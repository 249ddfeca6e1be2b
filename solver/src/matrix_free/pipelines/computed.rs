//! Computed arrays and their stored partials.
//!
//! `c<k>` holds the values of computed array k and then the partials that the chain rule reads: a tuple over the array's space, 0
//! outside the domain, in the master precision. Pipelines of their own store them once per linearisation, before everything else
//! that is evaluated at the same x; the cost computes the values at any x. The sweeps of PCG read neither: what applyJTJ needs of them
//! is hoisted (see [`crate::matrix_free::pipelines::linearise`]).

use crate::matrix_free::choices::{Of, Value};
use crate::matrix_free::draft::{Draft, coordinates, no_direction, vars};
use crate::matrix_free::schedule::{Ring, Strip};
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, Func, Name};
use sumsq_energy::dag::{Access, At, Dag, ExprId, Node, Source};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{ComputedId, Domain, Energy, SpaceId};

/// The pipelines that store all computed arrays at x: each reads those before it, whose halos are 0 as they themselves are there.
pub fn pipelines(k: &Skeleton) -> Vec<Scheduled> {
    let groups = k.groups();
    let one = |(i, group): (usize, &Vec<ComputedId>)| {
        let mut d = Draft::new(k, format!("computed{i}"), Role::Master);
        for &c in group {
            let f = values(&mut d, c, k.values_and_partials(c));
            let space = k.energy.computed[c.index()].space;
            d.map(&f, Strip::Of(Domain::Space(space)));
            d.skip_unless(&f, k.near_at(space, &coordinates(&f.vars)));
            d.output(&f, What::Computed.of(c));
        }
        d.finish_reading(groups[..i].iter().flatten().copied().collect(), None)
    };
    groups.iter().enumerate().flat_map(one).collect()
}

impl Skeleton {
    /// All computed arrays.
    pub fn computed(&self) -> impl Iterator<Item = ComputedId> + use<> {
        (0..self.energy.computed.len() as u32).map(ComputedId)
    }

    /// The computed arrays in runs of which none reads another one.
    fn groups(&self) -> Vec<Vec<ComputedId>> {
        let mut groups: Vec<Vec<ComputedId>> = vec![];
        for c in self.computed() {
            let read = |id: &ExprId| match self.routines.dag.node(*id) {
                Node::Access(Access { source: Source::Computed(c) | Source::Partial(c), .. }) => Some(*c),
                _ => None,
            };
            let nodes = self.routines.dag.reachable(self.values_and_partials(c));
            let reads: Vec<ComputedId> = nodes.iter().filter_map(read).collect();
            match groups.last_mut() {
                Some(group) if !group.iter().any(|d| reads.contains(d)) => group.push(c),
                _ => groups.push(vec![c]),
            }
        }
        groups
    }

    /// The values of a computed array and its partials.
    pub fn values_and_partials(&self, c: ComputedId) -> &[ExprId] {
        self.routines.roots(Kind::Computed, Site::Array(c))
    }

    /// Channel of a partial beside the values.
    pub fn partial_channel(&self, c: ComputedId, partial: usize) -> usize {
        self.energy.computed[c.index()].values.len() + partial
    }
}

/// Adds the values of a computed array: inside of the reduction of `nest`, if that is over the same space.
pub fn add(d: &mut Draft, c: ComputedId, nest: Option<&(SpaceId, Name)>) -> Func {
    let k = d.k;
    let space = k.energy.computed[c.index()].space;
    let f = values(d, c, &k.values_and_partials(c)[..k.partial_channel(c, 0)]);
    match nest {
        Some((over, reader)) if *over == space && k.choices.is(Of::Cost(c), Value::Ring) => {
            // As many rows as are read at a time.
            let live = k.near_at(space, &coordinates(&f.vars));
            d.ring_in(reader, &f, Ring { reach: None, stored: false });
            d.skip_unless(&f, live);
        }
        _ => d.map(&f, Strip::Of(Domain::Space(space))),
    }
    f
}

fn values(d: &mut Draft, c: ComputedId, roots: &[ExprId]) -> Func {
    let space = d.k.energy.computed[c.index()].space;
    let vars = vars(d.k.energy.spaces[space.index()].len());
    let (at, ty) = (coordinates(&vars), d.ty());
    let values = d.emit(roots, Place::Element(space, at.clone()), &no_direction);
    let inside = inside(space, &at);
    let guarded = values.into_iter().map(|v| Expr::select(inside.clone(), v, Expr::float(ty, 0.0)));
    d.func(What::Computed.of(c), &vars, guarded.collect())
}

/// True where a place is in the domain.
pub fn inside(space: SpaceId, at: &[Expr]) -> Expr {
    let within = |(d, x): (usize, &Expr)| x.ge(0).likely().and(x.lt(names::extent(space, d)).likely());
    at.iter().enumerate().map(within).reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::bool(true))
}

/// The reach of reads around an element, per index space and dim: by `roots`, through computed arrays and products J p, and by taps of
/// sampled images, which are clamped to one beyond the array. What is read of an element, then, where computed arrays and products are
/// computed by blocks of `block` elements in dim 0, and more where they read each other.
pub fn reaches(energy: &Energy, routines: &Routines, roots: &[ExprId], block: u32) -> Vec<Vec<u32>> {
    let none = |s: &[_]| vec![0; s.len()];
    let mut reaches = Reaches {
        spaces: energy.spaces.iter().map(|dims| none(dims)).collect(),
        products: energy.spaces.iter().map(|dims| none(dims)).collect(),
        computed: energy.computed.iter().map(|c| none(&energy.spaces[c.space.index()])).collect(),
    };
    let origin = vec![0; energy.spaces.iter().map(Vec::len).max().unwrap_or(0)];
    let dag = &routines.dag;
    reaches.add(energy, dag, roots, &origin);
    for r in routines.of(Kind::Product) {
        if let Domain::Space(space) = r.site.domain(energy) {
            let around = blocks(&reaches.products[space.index()], block);
            reaches.add(energy, dag, &r.roots, &around);
        }
    }
    // An array reads only those before it.
    for c in (0..energy.computed.len()).rev() {
        let around = blocks(&reaches.computed[c], block);
        let own = &mut reaches.spaces[energy.computed[c].space.index()];
        own.iter_mut().zip(&around).for_each(|(to, &around)| *to = (*to).max(around));
        let roots = routines.roots(Kind::Computed, Site::Array(ComputedId(c as u32)));
        reaches.add(energy, dag, roots, &around);
    }
    reaches.spaces
}

/// The reach of whole blocks in dim 0 around an element, wherever they start: up to an element less than a block beyond.
pub fn blocks(around: &[u32], block: u32) -> Vec<u32> {
    let mut around = around.to_vec();
    around.iter_mut().take(1).for_each(|first| *first += block - 1);
    around
}

/// Reaches of reads around an element, per dim.
struct Reaches {
    /// Every index space.
    spaces: Vec<Vec<u32>>,
    /// The products over every index space.
    products: Vec<Vec<u32>>,
    /// Every computed array; one that nothing reads is stored all the same.
    computed: Vec<Vec<u32>>,
}

impl Reaches {
    /// Adds what `roots` read where they are evaluated up to `around` away from an element; a hyperedge is evaluated nowhere else.
    fn add(&mut self, energy: &Energy, dag: &Dag, roots: &[ExprId], around: &[u32]) {
        let Reaches { spaces, products, computed } = self;
        let widen = |to: &mut Vec<u32>, at: &At| {
            for (d, to) in to.iter_mut().enumerate() {
                *to = (*to).max(match at {
                    At::Offset(o) => o[d].unsigned_abs() + around[d],
                    At::Vertex(g, slot) => {
                        energy.graphs[g.index()].vertex_of(*slot).1.map_or(0, |o| o[d].unsigned_abs())
                    }
                    At::Edge(_) | At::Global => 0,
                });
            }
        };
        for id in dag.reachable(roots) {
            match dag.node(id) {
                Node::Free(space, at) => widen(&mut spaces[space.index()], at),
                Node::Sample { image, .. } => {
                    let space = energy.arrays[image.0.index()].space;
                    spaces[space.index()].iter_mut().for_each(|h| *h = (*h).max(1));
                }
                Node::Access(access) => match access.source {
                    Source::Computed(c) | Source::Partial(c) => widen(&mut computed[c.index()], &access.at),
                    Source::Product(Domain::Space(s)) => widen(&mut products[s.index()], &access.at),
                    Source::Hoisted(Domain::Graph(_))
                    | Source::Residual(Domain::Graph(_))
                    | Source::Product(Domain::Graph(_)) => {}
                    source => widen(&mut spaces[energy.space_of(source).index()], &access.at),
                },
                _ => {}
            }
        }
    }
}
