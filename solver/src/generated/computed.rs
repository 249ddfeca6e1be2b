//! Computed arrays and their stored partials: Funcs of whatever pipeline reads them.
//!
//! `c<k>` holds the values of computed array k, `cp<k>` the partials that the chain rule reads; both are tuples over the array's
//! space, 0 outside the domain, in the master precision. The gradient's pipeline stores them for whatever else is evaluated at the same
//! x, the cost computes the values at any x. The sweeps of PCG read neither: what applyJTJ needs of them is hoisted (see
//! [`super::linearise`]).

use super::fields::vars;
use super::reduce::{map_root, strip_name};
use super::{LANES, Skeleton};
use sumsq_codegen::{Expr, Func, Input, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::{At, Dag, ExprId, Node, Source};
use sumsq_energy::derive::Routines;
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{ComputedId, Domain, Energy, SpaceId};

/// Values of a computed array.
pub fn values_name(c: ComputedId) -> String {
    format!("c{}", c.0)
}

/// Partials of a computed array.
pub fn partials_name(c: ComputedId) -> String {
    format!("cp{}", c.0)
}

impl Skeleton<'_> {
    /// Every Func of computed arrays: name, space, expressions.
    fn computed_funcs(&self) -> impl Iterator<Item = (String, SpaceId, &[ExprId])> {
        let ids = (0..self.energy.computed.len() as u32).map(ComputedId);
        let funcs = ids.flat_map(|c| {
            let space = self.energy.computed[c.index()].space;
            let values = (values_name(c), space, &self.routines.computed[c.index()][..]);
            [values, (partials_name(c), space, &self.routines.partials[c.index()][..])]
        });
        funcs.filter(|(_, _, roots)| !roots.is_empty())
    }

    /// Adds the Funcs of all computed arrays as outputs.
    pub fn store_computed(&self, p: &mut Pipeline, s: &mut Schedule) {
        for (name, space, _) in self.computed_funcs() {
            if let Some(f) = self.add_computed(p, s, &name, self.master) {
                p.output_with(&f, Layout::Planar, self.halos[space.index()].clone());
            }
        }
    }

    /// What [`Skeleton::store_computed`] stores, as inputs.
    pub fn stored_computed(&self) -> impl Iterator<Item = Input> {
        self.computed_funcs()
            .map(|(name, space, roots)| self.field(name, &vec![self.master; roots.len()], space))
    }

    /// Adds the Func of a computed array that `name` means, if it means one.
    pub fn add_computed(
        &self,
        p: &mut Pipeline,
        s: &mut Schedule,
        name: &str,
        ty: ScalarType,
    ) -> Option<Func> {
        let (_, space, roots) = self.computed_funcs().find(|(n, ..)| n == name)?;
        let vars = vars(self.energy.spaces[space.index()].len());
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let none = |_, _: usize, _: &[Expr]| unreachable!("computed arrays read no direction");
        let values = self.emit(roots, ty, Place::Element(space, at.clone()), &none);
        let inside = inside(space, &at);
        let guarded = values.into_iter().map(|v| Expr::select(inside.clone(), v, Expr::float(ty, 0.0)));
        let f = p.func(Func::new(name, &vars, guarded.collect()));
        map_root(s, &f, &Expr::param(strip_name(Domain::Space(space)), ScalarType::I32));
        Some(f)
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
