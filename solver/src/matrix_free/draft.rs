//! A pipeline in the making: Funcs and their schedule, and the vectors and parameters behind the names that they mention.

use crate::matrix_free::params::Param;
use crate::matrix_free::pipelines::computed;
use crate::matrix_free::schedule::Nest;
use crate::matrix_free::schedule::cpu::Scheduler;
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::vectors::{Role, VectorId, What};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use sumsq_codegen::{Directive, Expr, ExprKind, Func, Input, Name, Pipeline, ScalarType, Schedule, Var};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::emit::{Emitter, Place, component_index, names};
use sumsq_energy::model::{ComputedId, Domain, SpaceId};

/// Names of the loop variables of an element.
const DIMS: [&str; 8] = ["x", "y", "z", "t", "u", "v", "w", "s"];

/// A direction as routines read it: a component of a space at some coordinates.
pub type Direction<'a> = &'a dyn Fn(SpaceId, usize, &[Expr]) -> Expr;

/// Stands for the direction in routines that read none.
pub fn no_direction(_: SpaceId, _: usize, _: &[Expr]) -> Expr {
    unreachable!("J^T J p and the model alone read a direction")
}

/// A pipeline in the making.
pub struct Draft<'k> {
    /// The solver that it is part of.
    pub k: &'k Skeleton,
    /// Its algorithm.
    pub p: Pipeline,
    /// Its nests; readers come first.
    pub nests: Vec<Nest>,
    role: Role,
    vectors: BTreeMap<Name, VectorId>,
    params: BTreeMap<Name, Param>,
}

impl<'k> Draft<'k> {
    /// An empty pipeline that computes in a role.
    pub fn new(k: &'k Skeleton, name: impl Into<String>, role: Role) -> Draft<'k> {
        Draft {
            k,
            p: Pipeline::new(name),
            nests: vec![],
            role,
            vectors: BTreeMap::new(),
            params: BTreeMap::new(),
        }
    }

    /// The type in which it computes.
    pub fn ty(&self) -> ScalarType {
        self.k.role_type(self.role)
    }

    /// Declares a vector that it reads.
    pub fn input(&mut self, id: VectorId) -> Input {
        let of = self.k.describe(self.k.in_role(id, self.role));
        let mut input = Input::new(id.to_string(), &of.types, of.halo.len());
        (input.layout, input.halo, input.value_range) = (of.layout, of.halo, of.range);
        if of.trusted {
            // SAFETY: such a vector is read by a row's lane and block, by an entry below the row's length, or by what the
            // lists of `Incidence` hold at those: numbers that are in range by construction, and that no user can bind.
            input = unsafe { input.trusted() };
        }
        self.vectors.insert(input.name.clone(), id);
        self.p.input(input)
    }

    /// Makes a Func the writer of a vector.
    pub fn output(&mut self, f: &Func, id: VectorId) {
        let of = self.k.describe(id);
        self.p.output_with(f, of.layout, of.halo);
        self.vectors.insert(f.name.clone(), id);
    }

    /// Adds a Func of the name of a vector.
    pub fn func(&mut self, id: VectorId, vars: &[Var], values: Vec<Expr>) -> Func {
        self.p.func(Func::new(id.to_string(), vars, values))
    }

    /// Element `i` of a vector at `at`.
    pub fn element(&self, id: VectorId, at: &[Expr], i: usize) -> Expr {
        let (ty, _) = self.k.tuple(self.k.in_role(id, self.role));
        Expr::call(id.to_string(), ty, at.to_vec(), i)
    }

    /// All elements of a vector at `at`.
    pub fn all(&self, id: VectorId, at: &[Expr]) -> Vec<Expr> {
        let (ty, n) = self.k.tuple(self.k.in_role(id, self.role));
        let name = id.to_string();
        (0..n).map(|i| Expr::call(name.as_str(), ty, at.to_vec(), i)).collect()
    }

    /// Emits `roots` at `place`; directions are read through `direction`.
    pub fn emit(&self, roots: &[ExprId], place: Place, direction: Direction) -> Vec<Expr> {
        self.emit_reading(roots, place, direction, &|_, _| None)
    }

    /// As [`Draft::emit`]; what is stored over a domain is read through `stored` where that knows a better place.
    pub fn emit_reading(
        &self,
        roots: &[ExprId],
        place: Place,
        direction: Direction,
        stored: &dyn Fn(Domain, usize) -> Option<Expr>,
    ) -> Vec<Expr> {
        let (k, ty) = (self.k, self.ty());
        let space_of = |u| k.energy.space_of(Source::Unknown(u));
        let read = |source: Source, component: usize, at: &[Expr]| match source {
            Source::Unknown(u) => self.element(What::X.of(space_of(u)), at, component),
            Source::Direction(u) => direction(space_of(u), component, at),
            Source::Array(a) => match k.energy.arrays[a.index()].view_of {
                Some(u) => {
                    let first = component_index(&k.energy, u, 0);
                    self.element(What::View.of(space_of(u)), at, first + component)
                }
                // Bytes are stored as such.
                None => self.element(What::Array.of(a), at, component).cast(ty),
            },
            Source::Computed(c) => self.element(What::Computed.of(c), at, component),
            Source::Partial(c) => self.element(What::Computed.of(c), at, k.partial_channel(c, component)),
            Source::Hoisted(d) => {
                stored(d, component).unwrap_or_else(|| self.element(What::Hoisted.of(d), at, component))
            }
            Source::Product(d) => self.element(What::Product.of(d), at, component),
        };
        Emitter::new(&k.energy, &k.routines, ty, place, &read).numbers(roots)
    }

    /// The pipeline with what its Funcs and their schedule use and what is not declared yet: computed arrays as Funcs, vectors,
    /// parameters. None if it has no outputs: there is nothing to do then.
    pub fn finish(self) -> Vec<Scheduled> {
        self.finish_reading(vec![], None)
    }

    /// As [`Draft::finish`]; all computed arrays are stored at the x that it reads.
    pub fn finish_at_x(self) -> Vec<Scheduled> {
        let stored = self.k.computed().collect();
        self.finish_reading(stored, None)
    }

    /// As [`Draft::finish`]; the computed arrays `stored` are there, others over the space of `nest` are kept in rings of rows inside of the
    /// reduction of that name.
    pub fn finish_reading(
        mut self,
        stored: Vec<ComputedId>,
        nest: Option<(SpaceId, Name)>,
    ) -> Vec<Scheduled> {
        if self.p.outputs.is_empty() {
            return vec![];
        }
        let schedule = self.declare(stored, nest.as_ref());
        let Draft { p, role, vectors, params, .. } = self;
        vec![Scheduled { pipeline: p, schedule, role, vectors, params }]
    }

    /// Declares all that is used and schedules the nests.
    fn declare(&mut self, stored: Vec<ComputedId>, nest: Option<&(SpaceId, Name)>) -> Schedule {
        let k = self.k;
        let mut scheduler = Scheduler::new(&k.target);
        self.nests.iter().for_each(|nest| scheduler.add(nest));
        let named = |id: VectorId| (id.to_string(), id);
        let mut known: FxHashMap<String, VectorId> = FxHashMap::default();
        for id in k.readable() {
            known.insert(id.to_string(), id);
        }
        let stored: Vec<(String, VectorId)> =
            stored.into_iter().map(|c| named(What::Computed.of(c))).collect();
        known.extend(stored);
        let computed: FxHashMap<String, ComputedId> =
            k.computed().map(|c| (What::Computed.of(c).to_string(), c)).collect();
        let all: FxHashMap<String, Param> = k.parameters().into_iter().map(|p| (p.to_string(), p)).collect();
        let mut roots: Vec<Expr> = vec![];
        for f in self.p.funcs.values() {
            roots.extend(f.values.iter().cloned());
            for u in &f.updates {
                roots.extend(u.args.iter().chain(&u.values).chain(&u.rdom.predicate).cloned());
                roots.extend(u.rdom.vars.iter().flat_map(|v| [v.min.clone(), v.extent.clone()]));
            }
        }
        roots.extend(scheduler.schedule.stages.values().flatten().filter_map(expression));
        let ranges = known.values().filter_map(|&id| k.describe(id).range);
        let ranges = ranges.chain(self.p.inputs.values().filter_map(|i| i.value_range.clone()));
        roots.extend(ranges.flat_map(|(a, b)| [a, b]).collect::<Vec<_>>());
        // An id is that of a node that lives.
        let (mut seen, mut alive) = (FxHashSet::default(), vec![]);
        while let Some(e) = roots.pop() {
            if !seen.insert(e.id()) {
                continue;
            }
            match e.kind() {
                ExprKind::Call { name, .. }
                    if !self.p.funcs.contains_key(name) && !self.p.inputs.contains_key(name) =>
                {
                    if let Some(&id) = known.get(&**name) {
                        self.input(id);
                    } else if let Some(&c) = computed.get(&**name) {
                        let there = self.nests.len();
                        let f = computed::add(self, c, nest);
                        self.nests[there..].iter().for_each(|nest| scheduler.add(nest));
                        roots.extend(f.values);
                        let own = scheduler.schedule.stages.iter().filter(|(stage, _)| stage.func == f.name);
                        roots.extend(own.flat_map(|(_, directives)| directives).filter_map(expression));
                    }
                }
                ExprKind::Param(sumsq_codegen::Param::Named(name)) => {
                    self.p.params.insert(name.clone(), e.ty().scalar);
                    if let Some(&param) = all.get(&**name) {
                        self.params.insert(name.clone(), param);
                    }
                }
                _ => {}
            }
            e.for_each_child(|c| roots.push(c.clone()));
            alive.push(e);
        }
        scheduler.schedule
    }
}

impl Skeleton {
    /// A direction that is read from a vector of each space.
    pub fn direction_in(&self, what: What) -> impl Fn(SpaceId, usize, &[Expr]) -> Expr + use<> {
        let ty = self.linear;
        move |space, c, at| Expr::call(what.of(space).to_string(), ty, at.to_vec(), c)
    }

    /// Variables and extents of a domain: an index space's dims, or `e` over a graph's hyperedges.
    pub fn domain_vars(&self, domain: Domain) -> (Vec<&'static str>, Vec<Expr>) {
        match domain {
            Domain::Space(s) => {
                let dims = self.energy.spaces[s.index()].len();
                (DIMS[..dims].to_vec(), (0..dims).map(|d| names::extent(s, d)).collect())
            }
            Domain::Graph(g) => (vec!["e"], vec![crate::matrix_free::params::edge_count(g)]),
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

/// Variables of an element of a space of `dims` dims.
pub fn vars(dims: usize) -> Vec<Var> {
    DIMS[..dims].iter().map(|&n| Var::new(n)).collect()
}

/// Variables as coordinates.
pub fn coordinates(vars: &[Var]) -> Vec<Expr> {
    vars.iter().map(Var::expr).collect()
}

/// The calls of all elements of a Func at `args`.
pub fn all(f: &Func, args: &[Expr]) -> Vec<Expr> {
    (0..f.values.len()).map(|i| f.at(args, i)).collect()
}
