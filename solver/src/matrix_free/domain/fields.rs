//! Inputs of generated pipelines: declared once an expression that calls them exists.

use crate::matrix_free::pipelines::{computed, gather};
use crate::matrix_free::schedule::reduce::Loops;
use crate::matrix_free::{LANES, Skeleton};
use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{Directive, Expr, ExprKind, Func, Input, Param, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::derive::{Kind, Routine};
use sumsq_energy::emit::{Emitter, Place, component_index, names};
use sumsq_energy::model::{ArrayId, Domain, GraphId, SpaceId};

/// Name of a vector over a space: `p0`, `minv1`.
pub fn over(prefix: &str, space: SpaceId) -> String {
    format!("{prefix}{}", space.0)
}

/// Name of a vector over a domain: `h0`, `hg1`.
pub fn over_domain(prefix: &str, domain: Domain) -> String {
    match domain {
        Domain::Space(s) => over(prefix, s),
        Domain::Graph(g) => format!("{prefix}g{}", g.0),
    }
}

/// Names of the loop variables of an element.
pub const DIMS: [&str; 8] = ["x", "y", "z", "t", "u", "v", "w", "s"];

/// Variables of an element of a space of `dims` dims.
pub fn vars(dims: usize) -> Vec<sumsq_codegen::Var> {
    DIMS[..dims].iter().map(|&n| sumsq_codegen::Var::new(n)).collect()
}

impl Skeleton {
    /// The type of its own that an array is stored in, see [`crate::matrix_free::domain::layout::bytes`].
    fn array_type(&self, array: ArrayId) -> Option<ScalarType> {
        self.bytes.contains(&array).then_some(ScalarType::U8)
    }

    /// An input over a space with the space's halo.
    pub fn field(&self, name: impl Into<sumsq_codegen::Name>, types: &[ScalarType], space: SpaceId) -> Input {
        let halo = self.halos[space.index()].clone();
        Input { halo: halo.clone(), ..Input::new(name, types, halo.len()) }
    }

    /// An input over a domain with its halo.
    pub fn domain_field(&self, name: String, types: &[ScalarType], domain: Domain) -> Input {
        match domain {
            Domain::Space(s) => self.field(name, types, s),
            Domain::Graph(_) => list(name, types),
        }
    }

    /// The halo of a field over a domain.
    pub fn domain_halo(&self, domain: Domain) -> Vec<u32> {
        match domain {
            Domain::Space(s) => self.halos[s.index()].clone(),
            Domain::Graph(_) => vec![LANES as u32],
        }
    }

    /// Every input that emitted expressions may call, floats in `ty`.
    fn known_inputs(&self, ty: ScalarType) -> FxHashMap<String, Input> {
        let mut known = FxHashMap::default();
        let mut add = |i: Input| drop(known.insert(i.name.to_string(), i));
        for s in &self.spaces {
            let layout = self.vector_layout(s.id, Source::Unknown);
            for name in [names::unknowns(s.id), names::view(s.id)] {
                add(Input { layout, ..self.field(name, &vec![ty; s.components], s.id) });
            }
            add(self.field(names::free(s.id), &[ScalarType::U8], s.id));
            self.masks(s).into_iter().for_each(&mut add);
            add(self.field(over("lo", s.id), &vec![ty; s.components], s.id));
            add(self.field(over("hi", s.id), &vec![ty; s.components], s.id));
        }
        for Routine { site, roots: values, .. } in self.routines.of(Kind::Stored) {
            let domain = site.domain(&self.energy);
            let layout = self.layout(Source::Hoisted(domain), values.len());
            let field = self.domain_field(over_domain("h", domain), &vec![ty; values.len()], domain);
            add(Input { layout, ..field });
        }
        for &(graph, slot) in self.spaces.iter().flat_map(|s| &s.slots) {
            let types = vec![ty; self.beside[&(graph, slot)].len()];
            if !types.is_empty() {
                add(Input { trusted: true, ..list(gather::stored(graph, slot), &types) });
            }
        }
        for Routine { site, roots: values, .. } in self.routines.of(Kind::Product) {
            let domain = site.domain(&self.energy);
            add(self.domain_field(over_domain("jp", domain), &vec![ty; values.len()], domain));
        }
        for s in &self.spaces {
            add(self.field(over("bd", s.id), &vec![ty; crate::matrix_free::packed(s.components, 0)], s.id));
        }
        for (k, a) in self.energy.arrays.iter().enumerate() {
            let (id, channels) = (ArrayId(k as u32), usize::from(a.channels));
            let layout = self.layout(Source::Array(id), channels);
            let ty = self.array_type(id).unwrap_or(ty);
            add(Input { layout, ..self.field(names::array(id), &vec![ty; channels], a.space) });
        }
        for (k, g) in self.energy.graphs.iter().enumerate() {
            for (slot, v) in g.vertices.iter().enumerate() {
                let (graph, slot) = (GraphId(k as u32), slot as u16);
                add(self.vertex_input(names::vertex(graph, slot), v.space));
                add(gather::edges(graph, slot));
                for of in 0..g.vertices.len() as u16 {
                    // Entries are in range by construction, see `incidence`.
                    let list = self.vertex_input(gather::listed(graph, of, slot), v.space);
                    add(Input { trusted: true, ..list });
                }
            }
        }
        known
    }

    /// An input of element coordinates over a list (hyperedges, rows), bounded by the space they point into.
    pub fn vertex_input(&self, name: String, space: SpaceId) -> Input {
        let dims = self.energy.spaces[space.index()].len();
        let mut i = list(name, &vec![ScalarType::I32; dims]);
        if dims == 1 {
            i.value_range = Some((0.into(), names::extent(space, 0) - 1));
        }
        i
    }

    /// Adds what the pipeline's Funcs or their schedule use and what is not there yet: computed arrays as Funcs, known inputs,
    /// parameters.
    pub fn complete(&self, p: &mut Pipeline, s: &mut Schedule, ty: ScalarType) {
        self.complete_within(p, s, ty, None);
    }

    /// As [`Skeleton::complete`]; computed arrays over the space of `nest` are kept in rings of rows inside of that.
    pub fn complete_within(
        &self,
        p: &mut Pipeline,
        s: &mut Schedule,
        ty: ScalarType,
        nest: Option<&(SpaceId, Loops)>,
    ) {
        self.complete_from(p, s, ty, vec![], nest);
    }

    /// As [`Skeleton::complete_within`]; `more` inputs are known.
    pub(crate) fn complete_from(
        &self,
        p: &mut Pipeline,
        s: &mut Schedule,
        ty: ScalarType,
        more: Vec<Input>,
        nest: Option<&(SpaceId, Loops)>,
    ) {
        let mut known = self.known_inputs(ty);
        known.extend(more.into_iter().map(|i| (i.name.to_string(), i)));
        let mut roots: Vec<Expr> = vec![];
        for f in p.funcs.values() {
            roots.extend(f.values.iter().cloned());
            for u in &f.updates {
                roots.extend(u.args.iter().chain(&u.values).chain(&u.rdom.predicate).cloned());
                roots.extend(u.rdom.vars.iter().flat_map(|v| [v.min.clone(), v.extent.clone()]));
            }
        }
        roots.extend(s.stages.values().flatten().filter_map(expression));
        let ranges = known.values().filter_map(|i| i.value_range.clone());
        let ranges = ranges.chain(p.inputs.values().filter_map(|i| i.value_range.clone()));
        roots.extend(ranges.flat_map(|(a, b)| [a, b]).collect::<Vec<_>>());
        let mut seen = FxHashSet::default();
        while let Some(e) = roots.pop() {
            if !seen.insert(e.id()) {
                continue;
            }
            match e.kind() {
                ExprKind::Call { name, .. }
                    if !p.funcs.contains_key(name) && !p.inputs.contains_key(name) =>
                {
                    if let Some(i) = known.get(&**name) {
                        p.input(i.clone());
                    } else if let Some(f) = self.add_computed(p, s, name, ty, nest) {
                        roots.extend(f.values);
                        let own = s.stages.iter().filter(|(stage, _)| stage.func == f.name);
                        roots.extend(own.flat_map(|(_, directives)| directives).filter_map(expression));
                    }
                }
                ExprKind::Param(Param::Named(name)) => {
                    p.params.insert(name.clone(), e.ty().scalar);
                }
                _ => {}
            }
            e.for_each_child(|c| roots.push(c.clone()));
            std::mem::drop(e);
        }
    }

    /// Emits `roots` at `place` in type `ty`; directions are read through `direction`.
    pub fn emit(
        &self,
        roots: &[ExprId],
        ty: ScalarType,
        place: Place,
        direction: &dyn Fn(SpaceId, usize, &[Expr]) -> Expr,
    ) -> Vec<Expr> {
        self.emit_reading(roots, ty, place, direction, &|_, _| None)
    }

    /// As [`Skeleton::emit`]; what is stored over a domain is read through `stored` where that knows a better place.
    pub fn emit_reading(
        &self,
        roots: &[ExprId],
        ty: ScalarType,
        place: Place,
        direction: &dyn Fn(SpaceId, usize, &[Expr]) -> Expr,
        stored: &dyn Fn(Domain, usize) -> Option<Expr>,
    ) -> Vec<Expr> {
        let read = |source: Source, component: usize, coordinates: &[Expr]| {
            let at = coordinates.to_vec();
            match source {
                Source::Unknown(u) => {
                    let space = self.energy.unknowns[u.index()].space;
                    Expr::call(names::unknowns(space), ty, at, component)
                }
                Source::Direction(u) => {
                    direction(self.energy.unknowns[u.index()].space, component, coordinates)
                }
                Source::Array(a) => {
                    let array = &self.energy.arrays[a.index()];
                    match (array.view_of, self.array_type(a)) {
                        (Some(u), _) => {
                            let space = self.energy.unknowns[u.index()].space;
                            let first = component_index(&self.energy, u, 0);
                            Expr::call(names::view(space), ty, at, first + component)
                        }
                        (None, Some(own)) => Expr::call(names::array(a), own, at, component).cast(ty),
                        (None, None) => Expr::call(names::array(a), ty, at, component),
                    }
                }
                Source::Computed(c) => Expr::call(computed::name(c), ty, at, component),
                Source::Partial(c) => {
                    Expr::call(computed::name(c), ty, at, self.partial_channel(c, component))
                }
                Source::Hoisted(d) => {
                    stored(d, component).unwrap_or_else(|| Expr::call(over_domain("h", d), ty, at, component))
                }
                Source::Product(d) => Expr::call(over_domain("jp", d), ty, at, component),
            }
        };
        Emitter::new(&self.energy, &self.routines, ty, place, &read).numbers(roots)
    }

    /// Variables and extents of a domain: an index space's dims, or `e` over a graph's hyperedges.
    pub fn domain_vars(&self, domain: Domain) -> (Vec<&'static str>, Vec<Expr>) {
        match domain {
            Domain::Space(s) => {
                let dims = self.energy.spaces[s.index()].len();
                (DIMS[..dims].to_vec(), (0..dims).map(|d| names::extent(s, d)).collect())
            }
            Domain::Graph(g) => (vec!["e"], vec![edge_count(g)]),
        }
    }

    /// The place of an instance of a domain, at the given coordinates.
    pub fn place(&self, domain: Domain, coordinates: Vec<Expr>) -> Place {
        match domain {
            Domain::Space(s) => Place::Element(s, coordinates),
            Domain::Graph(graph) => Place::Edge { graph, edge: coordinates[0].clone(), known: vec![] },
        }
    }
}

/// The expression in a directive.
fn expression(d: &Directive) -> Option<Expr> {
    match d {
        Directive::Split { factor: e, .. }
        | Directive::NonTemporal(e)
        | Directive::SkipUnless { cond: e, .. } => Some(e.clone()),
        _ => None,
    }
}

/// Number of hyperedges of a graph, an i32 parameter.
pub fn edge_count(g: GraphId) -> Expr {
    Expr::param(format!("edges{}", g.0), ScalarType::I32)
}

/// A one-dimensional input with a vector's pad.
pub fn list(name: String, types: &[ScalarType]) -> Input {
    Input { halo: vec![LANES as u32], ..Input::new(name, types, 1) }
}

/// The calls of all elements of a Func at `args`.
pub fn all(f: &Func, args: &[Expr]) -> Vec<Expr> {
    (0..f.values.len()).map(|i| f.at(args, i)).collect()
}
