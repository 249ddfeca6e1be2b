//! Computed arrays and their stored partials.
//!
//! `c<k>` holds the values of computed array k and then the partials that the chain rule reads: a tuple over the array's space, 0
//! outside the domain, in the master precision. One pipeline of their own stores them once per linearisation, before everything else
//! that is evaluated at the same x; the cost computes the values at any x. The sweeps of PCG read neither: what applyJTJ needs of them
//! is hoisted (see [`super::linearise`]).

use super::fields::vars;
use super::reduce::{Loops, map_root, skip_unless, strip_name};
use super::{LANES, Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Input, Layout, Pipeline, ScalarType, Schedule, Tail, Var};
use sumsq_energy::dag::{At, Dag, ExprId, Node, Source};
use sumsq_energy::derive::Routines;
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{ComputedId, Domain, Energy, SpaceId};

/// Name of a computed array.
pub fn name(c: ComputedId) -> String {
    format!("c{}", c.0)
}

/// The pipeline that stores all computed arrays at x, if there are any.
pub fn pipeline(k: &Skeleton) -> Option<Scheduled> {
    let (mut p, mut s) = (Pipeline::new("computed"), Schedule::new());
    for c in k.computed() {
        let f = k.values(&mut p, c, &k.values_and_partials(c), k.master);
        k.at_root(&mut s, c, &f);
        p.output_with(&f, Layout::Planar, k.halos[k.energy.computed[c.index()].space.index()].clone());
    }
    k.complete(&mut p, &mut s, k.master);
    (!p.outputs.is_empty()).then_some((p, s))
}

impl Skeleton<'_> {
    fn computed(&self) -> impl Iterator<Item = ComputedId> + use<> {
        (0..self.energy.computed.len() as u32).map(ComputedId)
    }

    fn values_and_partials(&self, c: ComputedId) -> Vec<ExprId> {
        [&self.routines.computed[c.index()][..], &self.routines.partials[c.index()]].concat()
    }

    /// Channel of a partial beside the values.
    pub fn partial_channel(&self, c: ComputedId, partial: usize) -> usize {
        self.routines.computed[c.index()].len() + partial
    }

    /// What [`pipeline`] stores, as inputs.
    pub fn stored_computed(&self) -> impl Iterator<Item = Input> {
        self.computed().map(|c| {
            let types = vec![self.master; self.values_and_partials(c).len()];
            self.field(name(c), &types, self.energy.computed[c.index()].space)
        })
    }

    /// Adds the values of the computed array that `wanted` means, if it means one: inside of `nest`, if that is over the same space.
    pub fn add_computed(
        &self,
        p: &mut Pipeline,
        s: &mut Schedule,
        wanted: &str,
        ty: ScalarType,
        nest: Option<&(SpaceId, Loops)>,
    ) -> Option<Func> {
        let c = self.computed().find(|c| name(*c) == wanted)?;
        let f = self.values(p, c, &self.routines.computed[c.index()], ty);
        match nest {
            Some((space, loops)) if *space == self.energy.computed[c.index()].space => {
                self.in_ring(s, *space, &f, loops);
            }
            _ => self.at_root(s, c, &f),
        }
        Some(f)
    }

    fn at_root(&self, s: &mut Schedule, c: ComputedId, f: &Func) {
        let space = self.energy.computed[c.index()].space;
        let level = map_root(s, f, &Expr::param(strip_name(Domain::Space(space)), ScalarType::I32));
        let at: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
        skip_unless(s, &level, self.near_at(space, &at));
    }

    /// Row by row inside of a reduction over the same space: as many rows as are read at a time.
    fn in_ring(&self, s: &mut Schedule, space: SpaceId, f: &Func, loops: &Loops) {
        let stage = s
            .func(&f.name)
            .relaxed()
            .store_at(loops.strip.clone())
            .compute_at(loops.row.clone())
            .align_bounds("x", LANES as u32)
            .vectorize("x", LANES, Tail::Predicate);
        let at: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
        if let Some(near) = self.near_at(space, &at) {
            stage.skip_unless("xo", near);
        }
    }

    fn values(&self, p: &mut Pipeline, c: ComputedId, roots: &[ExprId], ty: ScalarType) -> Func {
        let space = self.energy.computed[c.index()].space;
        let vars = vars(self.energy.spaces[space.index()].len());
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let none = |_, _: usize, _: &[Expr]| unreachable!("computed arrays read no direction");
        let values = self.emit(roots, ty, Place::Element(space, at.clone()), &none);
        let inside = inside(space, &at);
        let guarded = values.into_iter().map(|v| Expr::select(inside.clone(), v, Expr::float(ty, 0.0)));
        p.func(Func::new(name(c), &vars, guarded.collect()))
    }
}

/// Whether a place is in the domain.
fn inside(space: SpaceId, at: &[Expr]) -> Expr {
    let within = |(d, x): (usize, &Expr)| x.ge(0).likely().and(x.lt(names::extent(space, d)).likely());
    at.iter().enumerate().map(within).reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::bool(true))
}

/// How far every index space is read around an element, per dim: by `roots`, through computed arrays and products J p, and by taps of
/// sampled images, which are clamped to one beyond the array.
pub fn reaches(energy: &Energy, routines: &Routines, roots: &[ExprId]) -> Vec<Vec<u32>> {
    let none = |s: &[_]| vec![0; s.len()];
    let mut reaches = Reaches {
        spaces: energy.spaces.iter().map(|dims| none(dims)).collect(),
        products: energy.spaces.iter().map(|dims| none(dims)).collect(),
        computed: vec![None; energy.computed.len()],
    };
    let origin = vec![0; energy.spaces.iter().map(Vec::len).max().unwrap_or(0)];
    let dag = &routines.dag;
    reaches.add(energy, dag, roots, &origin);
    for (domain, list) in &routines.products {
        if let Domain::Space(space) = domain {
            let mut around = reaches.products[space.index()].clone();
            if let Some(first) = around.first_mut() {
                // Computed by whole vectors.
                *first = first.next_multiple_of(LANES as u32);
            }
            reaches.add(energy, dag, list, &around);
        }
    }
    // An array reads only those before it.
    for c in (0..energy.computed.len()).rev() {
        let Some(around) = reaches.computed[c].clone() else { continue };
        let own = &mut reaches.spaces[energy.computed[c].space.index()];
        own.iter_mut().zip(&around).for_each(|(to, &around)| *to = (*to).max(around));
        for list in [&routines.computed[c], &routines.partials[c]] {
            reaches.add(energy, dag, list, &around);
        }
    }
    reaches.spaces
}

/// How far things are read around an element, per dim.
struct Reaches {
    /// Every index space.
    spaces: Vec<Vec<u32>>,
    /// The products over every index space.
    products: Vec<Vec<u32>>,
    /// Every computed array that is read at all.
    computed: Vec<Option<Vec<u32>>>,
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
                    Source::Computed(c) | Source::Partial(c) => {
                        let dims = energy.spaces[energy.computed[c.index()].space.index()].len();
                        widen(computed[c.index()].get_or_insert_with(|| vec![0; dims]), &access.at);
                    }
                    Source::Product(Domain::Space(s)) => widen(&mut products[s.index()], &access.at),
                    Source::Hoisted(Domain::Graph(_)) | Source::Product(Domain::Graph(_)) => {}
                    source => widen(&mut spaces[energy.space_of(source).index()], &access.at),
                },
                _ => {}
            }
        }
    }
}
