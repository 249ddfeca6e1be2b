//! The table of vectors and parameters: everything that follows from the id of one, for a given energy.

use crate::matrix_free::choices::{Of, Value};
use crate::matrix_free::domain::incidence::ROW;
use crate::matrix_free::domain::layout::record;
use crate::matrix_free::params::{Number, Param, Size, edge_count};
use crate::matrix_free::scalars::{AlphaScalar, ModelScalar, PcgScalar, StartScalar};
use crate::matrix_free::skeleton::{Field, Skeleton, Space, packed};
use crate::matrix_free::vectors::{Extents, Initial, Over, Role, VectorId, What};
use crate::problem::aggregates;
use sumsq_codegen::{Expr, Layout, ScalarType};
use sumsq_energy::derive::Kind;
use sumsq_energy::emit::names;
use sumsq_energy::model::{ArrayId, Domain, GraphId, ParamId, SpaceId};

/// Everything about a vector that follows from its id.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// Type per element of the tuple.
    pub types: Vec<ScalarType>,
    /// Its layout in memory.
    pub layout: Layout,
    /// Readable elements beyond the domain, per dim.
    pub halo: Vec<u32>,
    /// Its points.
    pub extents: Extents,
    /// Its first values.
    pub initial: Initial,
    /// Inclusive bounds of its values: coordinates in generated code.
    pub range: Option<(Expr, Expr)>,
    /// In range by construction: generated code does not check.
    pub trusted: bool,
    /// Vectors that hold the same numbers when it is copied from outside.
    pub copies: Vec<VectorId>,
}

impl Skeleton {
    /// The vector that a pipeline in this role means by `id`. The points, layout and tuple are the same.
    pub fn in_role(&self, id: VectorId, role: Role) -> VectorId {
        let linear = self.master != self.linear && matches!(role, Role::Linear | Role::LinearB);
        let what = match id.what {
            // Also where x + d is tried.
            What::View if !linear => What::X,
            What::X | What::View if linear => What::LinearX,
            What::X if role == Role::Trial => What::Trial,
            What::Array if linear && !self.is_bytes(id) => What::LinearArray,
            What::P if role == Role::LinearB => What::PNew,
            what => what,
        };
        VectorId { what, ..id }
    }

    /// The type in which a pipeline in this role computes.
    pub fn role_type(&self, role: Role) -> ScalarType {
        match role {
            Role::Master | Role::Trial => self.master,
            Role::Linear | Role::LinearB => self.linear,
        }
    }

    /// The table of vectors.
    pub fn describe(&self, id: VectorId) -> Description {
        let (ty, channels) = self.tuple(id);
        let extents = self.extents(id);
        Description {
            types: vec![ty; channels],
            layout: self.layout_of(id, channels),
            halo: self.halo(extents),
            extents,
            initial: match id.what {
                What::Free => Initial::OnesPerBinding,
                What::P | What::PNew | What::DR => Initial::ZerosPerMask,
                What::M { .. } => self.field_of(id).initial,
                _ => Initial::Zeros,
            },
            range: self.range(id),
            trusted: matches!(
                id.what,
                What::RowEdge | What::RowVertex(_) | What::RowHoisted | What::RowOf | What::Part
            ),
            copies: self.copies(id),
        }
    }

    /// Type and number of elements of a tuple.
    pub fn tuple(&self, id: VectorId) -> (ScalarType, usize) {
        let (master, linear, f64) = (self.master, self.linear, ScalarType::F64);
        let components = || self.space(id).components;
        match (id.what, id.over) {
            (What::X | What::Trial | What::View | What::Lower | What::Upper, _) => (master, components()),
            (What::Scales, _) => (master, components()),
            (What::Largest, _) => (f64, components()),
            (What::Clamps, _) => (f64, 2 * components()),
            (What::LinearX | What::P | What::PNew | What::Q | What::Damp, _) => (linear, components()),
            (What::Scattered, _) => (linear, components()),
            (What::Free | What::Live | What::Near, _) => (ScalarType::U8, 1),
            (What::GradientAndBlocks, _) => {
                let vectors = if self.energy.bends() { 2 } else { 1 };
                (master, vectors * components() + self.space(id).kept_entries().len())
            }
            (What::DR, _) => (linear, 2 * components()),
            (What::M { .. }, _) => {
                let field = self.field_of(id);
                (field.ty, field.width)
            }
            (What::StoredBlocks, _) => (linear, packed(components(), 0)),
            (What::Residual, over) => (master, self.values_over(Kind::Residual, over)),
            (What::Hoisted, over) => (linear, self.values_over(Kind::Stored, over)),
            (What::Product, over) => (linear, self.values_over(Kind::Product, over)),
            (What::NearNull, Over::Space(s)) => {
                (master, aggregates::given(&self.energy, s).iter().map(|(_, n)| n.values.len()).sum())
            }
            (What::Couplings, over) => (master, self.values_over(Kind::Couplings, over)),
            (What::Computed, Over::Computed(c)) => (master, self.values_and_partials(c).len()),
            (What::Array, Over::Array(a)) => {
                let ty = if self.is_bytes(id) { ScalarType::U8 } else { master };
                (ty, usize::from(self.energy.arrays[a.index()].channels))
            }
            (What::LinearArray, Over::Array(a)) => {
                (linear, usize::from(self.energy.arrays[a.index()].channels))
            }
            (What::Vertex | What::RowElement, Over::Vertex(g, v)) => (ScalarType::I32, self.dims_at(g, v)),
            (What::RowVertex(other), Over::Vertex(g, _)) => (ScalarType::I32, self.dims_at(g, other)),
            (What::RowHoisted, Over::Vertex(g, v)) => (linear, self.beside[&(g, v)].len()),
            (What::Part, Over::Vertex(g, v)) => {
                let components = self.space_of_unknowns(self.slot_space(g, v)).components;
                (linear, components * self.places(g, v).count())
            }
            (What::PartProduct | What::FreeCount, _) => (f64, 1),
            (What::Total, Over::Globals(i)) => (f64, self.total_components(i)),
            (What::State | What::Next, _) => (f64, PcgScalar::ALL.len()),
            (What::Alpha, _) => (f64, AlphaScalar::ALL.len()),
            (What::Start, _) => (f64, StartScalar::ALL.len()),
            (What::StartProduct, _) => (f64, 1),
            (What::Model, _) => (f64, ModelScalar::ALL.len()),
            (What::Energy, Over::Share(n)) => (f64, self.shares[n].groups.len() + 1),
            (What::Computed | What::Array | What::LinearArray | What::Total | What::Energy, _) => misfit(id),
            (What::NearNull, _) => misfit(id),
            // The rows' lists, and whether PCG is done.
            _ => (ScalarType::I32, 1),
        }
    }

    fn extents(&self, id: VectorId) -> Extents {
        match (id.over, id.what) {
            (Over::Nothing | Over::Globals(_) | Over::Share(_), _) => Extents::Scalar,
            (_, What::PartProduct | What::FreeCount | What::Largest | What::Clamps) => Extents::Scalar,
            (Over::Space(s), What::Live | What::Near) => Extents::Vectors(s),
            (Over::Space(_), What::M { .. }) => self.field_of(id).points.on_level(id.level),
            (Over::Space(s), _) => Extents::Space(s),
            (Over::Graph(g), _) | (Over::Vertex(g, _), What::Vertex) => Extents::Edges(g),
            (Over::Array(a), _) => Extents::Space(self.energy.arrays[a.index()].space),
            (Over::Computed(c), _) => Extents::Space(self.energy.computed[c.index()].space),
            (Over::Vertex(g, v), What::FirstRow | What::RowCount | What::FirstEntry | What::EntryCount) => {
                Extents::Space(self.slot_space(g, v))
            }
            (Over::Vertex(g, v), What::RowBlock) => Extents::Blocks(g, v),
            (Over::Vertex(g, v), What::RowLength | What::RowElement) => Extents::Rows(g, v),
            (Over::Vertex(g, v), What::RowOf) => Extents::RowsByElement(g, v),
            (Over::Vertex(g, v), What::Part) => Extents::LanesByBlocks(g, v),
            (Over::Vertex(g, v), _) => Extents::Entries(g, v),
        }
    }

    fn halo(&self, extents: Extents) -> Vec<u32> {
        match extents {
            Extents::Scalar => vec![],
            Extents::Space(s) | Extents::Vectors(s) => self.halos[s.index()].clone(),
            Extents::Level { space, reach, .. }
            | Extents::LevelVectors { space, reach, .. }
            | Extents::Pairs { space, reach, .. } => {
                let halos = &self.halos[space.index()];
                let dims = halos.len();
                // Sweep A may compute p, and so read corrections, in the halo h of the space: element n - 1 + h there reads element (n + h)/2 here, which
                // lies at most h/2 + 1 behind the last.
                let finer = |dim: usize| match extents {
                    Extents::Level { .. } => halos[dim] / 2 + 1,
                    _ => 0,
                };
                let along = |dim| {
                    let halo = u32::from(reach).max(finer(dim));
                    if dim == 0 { halo.next_multiple_of(self.target.lanes as u32) } else { halo }
                };
                let of_pairs = matches!(extents, Extents::Pairs { .. }).then_some(0);
                (0..dims).map(along).chain(of_pairs).collect()
            }
            Extents::Coarsest(space) => {
                let dims = self.energy.spaces[space.index()].len();
                (0..=dims).map(|dim| if dim == 0 { self.target.lanes as u32 } else { 0 }).collect()
            }
            Extents::LanesByBlocks(..) => vec![self.target.lanes as u32, 0],
            _ => vec![self.target.lanes as u32],
        }
    }

    fn layout_of(&self, id: VectorId, channels: usize) -> Layout {
        match (id.what, id.over) {
            (What::X | What::Trial | What::LinearX | What::View, Over::Space(s)) => {
                self.chosen_layout(Of::UnknownLayout(s), channels)
            }
            (What::P | What::PNew, Over::Space(s)) => self.chosen_layout(Of::DirectionLayout(s), channels),
            (What::Hoisted, Over::Space(s)) => self.chosen_layout(Of::StoredLayout(s), channels),
            (What::Array | What::LinearArray, Over::Array(a)) => {
                self.chosen_layout(Of::ArrayLayout(a), channels)
            }
            (What::Part, _) => record(channels),
            _ => Layout::Planar,
        }
    }

    fn range(&self, id: VectorId) -> Option<(Expr, Expr)> {
        let Over::Vertex(g, v) = id.over else { return None };
        // Coordinates of several dims are clamped where they are read.
        let element = |v| {
            (self.dims_at(g, v) == 1).then(|| (Expr::from(0), names::extent(self.slot_space(g, v), 0) - 1))
        };
        let below = |n: Expr| Some((Expr::from(0), n));
        match id.what {
            What::Vertex | What::RowElement => element(v),
            What::RowVertex(other) => element(other),
            What::RowBlock | What::FirstEntry => below(Size::Entries(g, v).expr()),
            What::RowLength | What::EntryCount => below(Expr::from(ROW as i32)),
            What::RowEdge => below(edge_count(g) - 1),
            What::FirstRow | What::RowCount => below(Size::Rows(g, v).expr()),
            What::RowOf => below(Size::Rows(g, v).expr() - 1),
            _ => None,
        }
    }

    fn copies(&self, id: VectorId) -> Vec<VectorId> {
        match (id.what, id.over) {
            (What::Array, Over::Array(a)) if self.master != self.linear && !self.is_bytes(id) => {
                vec![What::LinearArray.of(a)]
            }
            _ => vec![],
        }
    }

    fn is_bytes(&self, id: VectorId) -> bool {
        matches!(id.over, Over::Array(a) if self.choices.is(Of::Bytes(a), Value::Narrow))
    }

    /// Dims of the space that a vertex points into.
    fn dims_at(&self, graph: GraphId, vertex: u16) -> usize {
        self.energy.spaces[self.slot_space(graph, vertex).index()].len()
    }

    fn field_of(&self, id: VectorId) -> Field {
        match (id.what, id.over) {
            (What::M { kind, field }, Over::Space(s)) => {
                self.preconditioners[usize::from(kind)].fields[&s][usize::from(field)]
            }
            _ => misfit(id),
        }
    }

    fn space(&self, id: VectorId) -> &Space {
        match id.over {
            Over::Space(s) => self.space_of_unknowns(s),
            _ => misfit(id),
        }
    }

    /// The domains over which there is a routine of a kind.
    fn domains_of(&self, kind: Kind) -> impl Iterator<Item = Domain> {
        self.routines.of(kind).map(|r| r.site.domain(&self.energy))
    }

    fn values_over(&self, kind: Kind, over: Over) -> usize {
        let own = self.routines.of(kind).find(|r| Over::from(r.site.domain(&self.energy)) == over);
        own.map_or(0, |r| r.roots.len())
    }

    fn total_components(&self, i: usize) -> usize {
        let site = self.global_sites().nth(i).expect("as many as there are sites of globals");
        self.routines.roots(Kind::JtJp, site).len()
    }

    /// A space that is known to hold unknowns.
    pub fn space_of_unknowns(&self, id: SpaceId) -> &Space {
        self.spaces.iter().find(|s| s.id == id).expect("the space holds unknowns")
    }

    /// The vectors that expressions of routines, masks and preconditioners may read, computed arrays apart.
    pub fn readable(&self) -> Vec<VectorId> {
        let mut all = vec![];
        for s in &self.spaces {
            let whats = [What::X, What::View, What::Free, What::Live, What::Near, What::Lower, What::Upper];
            all.extend(whats.map(|what| what.of(s.id)));
            all.push(What::Clamps.of(s.id));
        }
        all.extend([What::Start, What::StartProduct].map(|what| what.of(())));
        for (kind, shape) in (0..).zip(&self.preconditioners) {
            for (&space, fields) in &shape.fields {
                all.extend((0..).zip(fields).map(|(field, _)| self.field(kind, field, space)));
            }
        }
        all.extend(self.domains_of(Kind::Residual).map(|domain| What::Residual.of(domain)));
        all.extend(self.domains_of(Kind::Stored).map(|domain| What::Hoisted.of(domain)));
        let vertices = self.spaces.iter().flat_map(|s| &s.slots);
        let beside = vertices.filter(|at| !self.beside[at].is_empty());
        all.extend(beside.map(|&at| What::RowHoisted.of(at)));
        all.extend(self.domains_of(Kind::Product).map(|domain| What::Product.of(domain)));
        all.extend(self.spaces.iter().map(|s| What::StoredBlocks.of(s.id)));
        all.extend((0..self.energy.arrays.len() as u32).map(|a| What::Array.of(ArrayId(a))));
        for (g, graph) in (0..).map(GraphId).zip(&self.energy.graphs) {
            let vertices = 0..graph.vertices.len() as u16;
            for v in vertices.clone() {
                all.extend([What::Vertex.of((g, v)), What::RowEdge.of((g, v))]);
                all.extend(vertices.clone().map(|of| What::RowVertex(v).of((g, of))));
            }
        }
        all
    }

    /// Every parameter that a pipeline may take.
    pub fn parameters(&self) -> Vec<Param> {
        let energy = &self.energy;
        let mut sizes = vec![Size::Streaming];
        for (s, dims) in (0..).map(SpaceId).zip(&energy.spaces) {
            sizes.extend((0..dims.len()).map(|d| Size::Extent(s, d)));
            sizes.push(Size::Strip(Domain::Space(s)));
            for level in [1, 2] {
                sizes.extend((0..dims.len()).map(|d| Size::LevelExtent(s, level, d)));
                sizes.push(Size::LevelStrip(s, level));
            }
        }
        for (g, graph) in (0..).map(GraphId).zip(&energy.graphs) {
            sizes.extend([Size::Edges(g), Size::Strip(Domain::Graph(g))]);
            let vertices = 0..graph.vertices.len() as u16;
            sizes.extend(vertices.flat_map(|v| [Size::Rows(g, v), Size::Summed(g, v), Size::Entries(g, v)]));
        }
        use Number::*;
        let own = (0..).map(ParamId).zip(&energy.params);
        let own = own.flat_map(|(p, declared)| (0..declared.channels).map(move |c| Energy(p, c)));
        let components = self.spaces.iter().flat_map(|s| (0..s.components as u16).map(|c| (s.id, c)));
        let largest = components.map(|(s, c)| LargestBefore(s, c));
        let clamps = [LeastDiagonal, MostDiagonal];
        let numbers = [Running, InvRadius, DampingScale, Descent, Tolerance, Zeta, Eta, Limit];
        let numbers = own.chain(largest).chain(clamps).chain(numbers).map(Param::Number);
        sizes.into_iter().map(Param::Size).chain(numbers).collect()
    }

    /// The layout of a vector of so many channels that has a choice.
    fn chosen_layout(&self, of: Of, channels: usize) -> Layout {
        if self.choices.is(of, Value::Record) { record(channels) } else { Layout::Planar }
    }
}

fn misfit(id: VectorId) -> ! {
    unreachable!("{:?} belongs to something else than {:?}", id.what, id.over)
}
