//! A pipeline in the making: Funcs and their schedule, and the vectors and parameters behind the names that they mention.

use crate::matrix_free::params::Param;
use crate::matrix_free::schedule::{Kind, Nest, Pairs, Ring, Strip, Tiles};
use crate::matrix_free::skeleton::Skeleton;
use crate::matrix_free::vectors::{Role, VectorId, What};
use std::collections::BTreeMap;
use sumsq_codegen::{Expr, Func, Input, Name, Pipeline, ScalarType, Var};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::emit::{Emitter, Place, component_index, names};
use sumsq_energy::model::{Domain, SpaceId};

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
    pub(super) role: Role,
    pub(super) vectors: BTreeMap<Name, VectorId>,
    pub(super) params: BTreeMap<Name, Param>,
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
            Source::Residual(d) => self.element(What::Residual.of(d), at, component),
            Source::Product(d) => self.element(What::Product.of(d), at, component),
            Source::Squared => unreachable!("routines take losses of squared norms themselves"),
        };
        Emitter::new(&k.energy, &k.routines, ty, place, &read).numbers(roots)
    }
}

impl Draft<'_> {
    pub(super) fn nest(&mut self, f: &Func, kind: Kind) {
        let vars = f.vars.iter().map(|v| v.name().clone()).collect();
        let (func, updates) = (f.name.clone(), f.updates.len());
        self.nests.push(Nest { func, vars, updates, kind, live: None, in_place_of: None, tiles: None });
    }

    /// Computes an output in a nest of its own.
    pub fn map(&mut self, f: &Func, strip: Strip) {
        self.nest(f, Kind::Map(strip));
    }

    /// Adds an output over a domain, in a nest of its own; not far from what is free, if it is `skipped` there.
    pub fn map_domain(&mut self, id: VectorId, domain: Domain, values: Vec<Expr>, skipped: bool) -> Func {
        let k = self.k;
        let vars = k.vars_over(domain);
        let f = self.func(id, &vars, values);
        self.output(&f, id);
        self.map(&f, Strip::Of(domain));
        if let (Domain::Space(space), true) = (domain, skipped) {
            self.skip_unless(&f, k.near_at(space, &coordinates(&vars)));
        }
        f
    }

    /// Computes a Func whose last variable is the number of a pair in a nest of its own.
    pub fn map_pairs(&mut self, f: &Func, strip: Strip, pairs: Pairs) {
        self.nest(f, Kind::Pairs(strip, pairs));
    }

    /// Computes such a Func inside of the nest of another, `reader`: what it reads of it for a row and a pair.
    pub fn rows_in(&mut self, reader: &Func, f: &Func) {
        self.nest(f, Kind::RowsIn(reader.name.clone()));
    }

    /// Computes so many pairs of such a Func inside of the nest of another, `reader`, which goes by rows: in a ring of them.
    pub fn pairs_in(&mut self, reader: &Func, f: &Func, pairs: i32) {
        self.nest(f, Kind::PairsIn(reader.name.clone(), pairs));
    }

    /// As [`Draft::map`], over the vector that it reads.
    pub fn map_over(&mut self, f: &Func, strip: Strip, id: VectorId) {
        self.map(f, strip);
        self.nests.last_mut().expect("just pushed").in_place_of = Some(id);
    }

    /// Computes sums over the rows of a vertex in a nest of its own.
    pub fn map_rows(&mut self, f: &Func) {
        self.nest(f, Kind::Rows);
    }

    /// Computes a Func whose updates add up what these variables count, one each, in any order.
    pub fn scatter(&mut self, f: &Func, over: Vec<Name>) {
        self.nest(f, Kind::Scatter(over));
    }

    /// Computes an output vector by vector inside of the nest of `reader`, and stores it there.
    pub fn store_in(&mut self, reader: &Func, f: &Func) {
        self.nest(f, Kind::StoredIn(reader.name.clone()));
    }

    /// As [`Draft::store_in`], over the vector that it reads.
    pub fn store_over(&mut self, reader: &Func, f: &Func, id: VectorId) {
        self.store_in(reader, f);
        self.nests.last_mut().expect("just pushed").in_place_of = Some(id);
    }

    /// Computes a Func vector by vector in registers, inside of the nest of `reader`.
    pub fn registers_in(&mut self, reader: &Func, f: &Func) {
        self.nest(f, Kind::RegistersIn(reader.name.clone()));
    }

    /// Computes a Func, an array of an element of `dims` dims, vector by vector in the frame, inside of the nest of `reader`.
    pub fn array_in(&mut self, reader: &Func, dims: usize, f: &Func) {
        self.nest(f, Kind::ArrayIn(reader.name.clone(), dims));
    }

    /// As [`Draft::registers_in`]; substituted where nothing is gathered.
    pub fn gathered_in(&mut self, reader: &Func, f: &Func) {
        if f.updates.is_empty() { self.inline(f) } else { self.registers_in(reader, f) }
    }

    /// Computes a Func row by row inside of the reduction `reader`.
    pub fn ring_in(&mut self, reader: &Name, f: &Func, ring: Ring) {
        let of = self.nests.iter_mut().find(|n| n.func == *reader).expect("the reader has a nest");
        let Tiles { beside, values } = of.tiles.unwrap_or_default();
        let beside = beside.max(ring.reach.unwrap_or(0));
        of.tiles = Some(Tiles { beside, values: values + f.values.len() });
        self.nest(f, Kind::RingIn(reader.clone(), ring));
    }

    /// Substitutes a Func into what reads it.
    pub fn inline(&mut self, f: &Func) {
        self.nest(f, Kind::Inline);
    }

    /// Skips the vectors of the nest of `f` for which `live`, an expression in the coordinates of its points, is false.
    pub fn skip_unless(&mut self, f: &Func, live: Option<Expr>) {
        let nest = self.nests.iter_mut().rfind(|n| n.func == f.name);
        nest.expect("the Func has a nest").live = live;
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

    /// The variables of a domain.
    pub fn vars_over(&self, domain: Domain) -> Vec<Var> {
        self.domain_vars(domain).0.into_iter().map(Var::new).collect()
    }

    /// The place of an instance of a domain, at the given coordinates.
    pub fn place(&self, domain: Domain, coordinates: Vec<Expr>) -> Place {
        match domain {
            Domain::Space(s) => Place::Element(s, coordinates),
            Domain::Graph(graph) => Place::Edge { graph, edge: coordinates[0].clone(), known: vec![] },
        }
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
