//! The vectors of a solver: an id for each, and one table of what they are.
//!
//! Pipelines declare by id what they read and write, plans allocate, bind and copy by id. The name of an id is for people and for the
//! symbols of generated code: nothing is read back from it.
//!
//! A pipeline says `X` for the unknowns wherever it reads them. Its [`Role`] says which copy of the numbers that is.

use crate::matrix_free::choices::{Of, Value};
use crate::matrix_free::domain::incidence::ROW;
use crate::matrix_free::domain::layout::record;
use crate::matrix_free::params::{Size, edge_count};
use crate::matrix_free::scalars::{AlphaScalar, ModelScalar, PcgScalar, StartScalar};
use crate::matrix_free::skeleton::{Field, Skeleton, Space, packed};
use std::fmt;
use sumsq_codegen::{Expr, Layout, ScalarType};
use sumsq_energy::derive::Kind;
use sumsq_energy::emit::names;
use sumsq_energy::model::{ArrayId, ComputedId, Domain, GraphId, SpaceId};

/// A quantity that is kept in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum What {
    // Of a space with unknowns.
    /// x, in the master precision.
    X,
    /// x + d.
    Trial,
    /// x in the linear solver's precision, where that is another one.
    LinearX,
    /// x as of the last accepted step, which constant views read. No memory of its own: see [`Skeleton::in_role`].
    View,
    /// 1 at free elements, 0 at excluded ones.
    Free,
    /// 1 per vector of lanes that holds a free element.
    Live,
    /// 1 per vector of lanes that is near a free element.
    Near,
    /// Lower bounds of x.
    Lower,
    /// Upper bounds of x.
    Upper,
    /// g, then the kept entries of the diagonal blocks of J^T J.
    GradientAndBlocks,
    /// s = 1/(1 + sqrt(diag)).
    Scales,
    /// d, then r.
    DR,
    /// A field of a preconditioner, both by number; field 0 is its pointwise part.
    M {
        /// The preconditioner.
        kind: u8,
        /// The field.
        field: u8,
    },
    /// D.
    Damp,
    /// The direction of the iteration before.
    P,
    /// The direction.
    PNew,
    /// q = (J^T J + D) p.
    Q,
    /// The stored share of the diagonal blocks of J^T J, packed.
    StoredBlocks,

    // Of a domain.
    /// Parts of J^T J p that are stored once per linearisation.
    Hoisted,
    /// The products J p that are stored.
    Product,

    /// A computed array: its values, then its partials.
    Computed,
    /// An array.
    Array,
    /// An array in the linear solver's precision, where that is another one.
    LinearArray,

    // Of a vertex of a graph.
    /// The element at the vertex, per hyperedge.
    Vertex,
    /// First entry of every block of rows.
    RowBlock,
    /// Incidences of every row.
    RowLength,
    /// Element of every row.
    RowElement,
    /// Hyperedge of every entry of the rows.
    RowEdge,
    /// The element at this other vertex of the hyperedge of every entry.
    RowVertex(u16),
    /// Copies of what is stored over the hyperedges, beside every entry.
    RowHoisted,
    /// Place in `RowOf` where the rows of every element begin.
    FirstRow,
    /// Number of rows of every element.
    RowCount,
    /// Rows, grouped by element.
    RowOf,
    /// Sums over rows in J^T J p.
    Part,
    /// Their share of p.q, a scalar.
    PartProduct,

    // Tuples of scalars.
    /// Shares of the instances of a domain in the globals' J^T J p.
    Total,
    /// The carried scalars of PCG.
    State,
    /// Those of the next iteration.
    Next,
    /// From sweep A to sweep B.
    Alpha,
    /// Not 0 once PCG is to stop.
    Done,
    /// At the start of PCG.
    Start,
    /// r0.z0 where the preconditioner has stages behind the damping.
    StartProduct,
    /// E per residual group and the number of instances that count.
    Energy,
    /// The model's decrease and norms.
    Model,
}

/// The thing that a vector belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Over {
    /// The solver as a whole.
    Nothing,
    /// An index space.
    Space(SpaceId),
    /// The hyperedges of a graph.
    Graph(GraphId),
    /// A vertex of the hyperedges of a graph.
    Vertex(GraphId, u16),
    /// A declared array.
    Array(ArrayId),
    /// A computed array.
    Computed(ComputedId),
    /// These routines of globals, by number.
    Globals(usize),
}

/// Names a vector of the solver. `over` is of the kind that `what` belongs to; `level` is that of a hierarchy, 0 for the problem itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct VectorId {
    /// The quantity.
    pub what: What,
    /// The thing that it belongs to.
    pub over: Over,
    /// The level.
    pub level: u8,
}

impl What {
    /// This quantity of the problem itself.
    pub fn of(self, over: impl Into<Over>) -> VectorId {
        VectorId { what: self, over: over.into(), level: 0 }
    }
}

impl From<()> for Over {
    fn from((): ()) -> Over {
        Over::Nothing
    }
}
impl From<SpaceId> for Over {
    fn from(s: SpaceId) -> Over {
        Over::Space(s)
    }
}
impl From<Domain> for Over {
    fn from(d: Domain) -> Over {
        match d {
            Domain::Space(s) => Over::Space(s),
            Domain::Graph(g) => Over::Graph(g),
        }
    }
}
impl From<(GraphId, u16)> for Over {
    fn from((graph, vertex): (GraphId, u16)) -> Over {
        Over::Vertex(graph, vertex)
    }
}
impl From<ArrayId> for Over {
    fn from(a: ArrayId) -> Over {
        Over::Array(a)
    }
}
impl From<ComputedId> for Over {
    fn from(c: ComputedId) -> Over {
        Over::Computed(c)
    }
}

impl fmt::Display for VectorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.what {
            What::X => "x",
            What::Trial => "xt",
            What::LinearX => "xl",
            What::View => "v",
            What::Free => "free",
            What::Live => "live",
            What::Near => "near",
            What::Lower => "lo",
            What::Upper => "hi",
            What::GradientAndBlocks => "gb",
            What::Scales => "sc",
            What::DR => "dr",
            What::M { kind: 0, field: 0 } => "minv",
            What::M { .. } => "m",
            What::Damp => "damp",
            What::P => "p",
            What::PNew => "pn",
            What::Q => "q",
            What::StoredBlocks => "bd",
            What::Hoisted => "h",
            What::Product => "jp",
            What::Computed => "c",
            What::Array => "a",
            What::LinearArray => "l.a",
            What::Vertex => "",
            What::Part | What::PartProduct => "part_",
            What::RowBlock | What::RowLength | What::RowElement | What::RowEdge => "r",
            What::RowVertex(_) | What::RowHoisted => "r",
            What::FirstRow | What::RowCount | What::RowOf => "r",
            What::Total => "total",
            What::State => "state",
            What::Next => "next",
            What::Alpha => "alpha",
            What::Done => "done",
            What::Start => "start",
            What::StartProduct => "start_rz",
            What::Energy => "energy",
            What::Model => "model",
        };
        f.write_str(prefix)?;
        match self.what {
            What::M { kind, field } if (kind, field) != (0, 0) => write!(f, "{kind}f{field}s")?,
            _ => {}
        }
        match self.over {
            Over::Nothing => {}
            Over::Space(SpaceId(n)) | Over::Array(ArrayId(n)) | Over::Computed(ComputedId(n)) => {
                write!(f, "{n}")?;
            }
            Over::Globals(n) => write!(f, "{n}")?,
            Over::Graph(g) => write!(f, "g{}", g.0)?,
            Over::Vertex(g, v) if self.what == What::Vertex => write!(f, "g{}v{v}", g.0)?,
            Over::Vertex(g, v) if matches!(self.what, What::Part | What::PartProduct) => {
                write!(f, "g{}s{v}", g.0)?;
            }
            Over::Vertex(g, v) => write!(f, "{}s{v}", g.0)?,
        }
        match self.what {
            What::RowBlock => f.write_str(".block")?,
            What::RowLength => f.write_str(".length")?,
            What::RowElement => f.write_str(".own")?,
            What::RowEdge => f.write_str(".edge")?,
            What::RowVertex(other) => write!(f, ".v{other}")?,
            What::RowHoisted => f.write_str(".h")?,
            What::FirstRow => f.write_str(".first")?,
            What::RowCount => f.write_str(".count")?,
            What::RowOf => f.write_str(".of")?,
            What::PartProduct => f.write_str("_pq")?,
            _ => {}
        }
        if self.level > 0 { write!(f, "@{}", self.level) } else { Ok(()) }
    }
}

/// The copy of the numbers that a pipeline computes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// x and the arrays in the master precision.
    Master,
    /// As `Master`, with x + d in place of x.
    Trial,
    /// x and the arrays in the linear solver's precision.
    Linear,
    /// As `Linear`, with the direction in place of the one before.
    LinearB,
}

/// The points of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extents {
    /// One.
    Scalar,
    /// The elements of a space.
    Space(SpaceId),
    /// The vectors of lanes of a space, along dim 0.
    Vectors(SpaceId),
    /// The hyperedges of a graph.
    Edges(GraphId),
    /// The blocks of rows of a vertex.
    Blocks(GraphId, u16),
    /// The rows of a vertex, padding included.
    Rows(GraphId, u16),
    /// The rows of a vertex, lane by block.
    LanesByBlocks(GraphId, u16),
    /// The entries of the rows of a vertex.
    Entries(GraphId, u16),
    /// The rows of a vertex, without padding (but at least one).
    RowsByElement(GraphId, u16),
}

/// Contents of a vector before anything is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Initial {
    /// 0.
    Zeros,
    /// 0, again with every new mask of free elements: written near those alone, and read everywhere.
    ZerosPerMask,
    /// 1 whenever arrays or params are bound.
    OnesPerBinding,
}

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
            (What::LinearX | What::P | What::PNew | What::Q | What::Damp, _) => (linear, components()),
            (What::Free | What::Live | What::Near, _) => (ScalarType::U8, 1),
            (What::GradientAndBlocks, _) => (master, components() + self.space(id).kept_entries().len()),
            (What::DR, _) => (linear, 2 * components()),
            (What::M { .. }, _) => {
                let field = self.field_of(id);
                (field.ty, field.width)
            }
            (What::StoredBlocks, _) => (linear, packed(components(), 0)),
            (What::Hoisted, over) => (linear, self.values_over(Kind::Stored, over)),
            (What::Product, over) => (linear, self.values_over(Kind::Product, over)),
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
            (What::PartProduct, _) => (f64, 1),
            (What::Total, Over::Globals(i)) => (f64, self.total_components(i)),
            (What::State | What::Next, _) => (f64, PcgScalar::ALL.len()),
            (What::Alpha, _) => (f64, AlphaScalar::ALL.len()),
            (What::Start, _) => (f64, StartScalar::ALL.len()),
            (What::StartProduct, _) => (f64, 1),
            (What::Model, _) => (f64, ModelScalar::ALL.len()),
            (What::Energy, _) => (f64, self.energy.groups.len() + 1),
            (What::Computed | What::Array | What::LinearArray | What::Total, _) => misfit(id),
            // The rows' lists, and whether PCG is done.
            _ => (ScalarType::I32, 1),
        }
    }

    fn extents(&self, id: VectorId) -> Extents {
        match (id.over, id.what) {
            (Over::Nothing | Over::Globals(_), _) | (_, What::PartProduct) => Extents::Scalar,
            (Over::Space(s), What::Live | What::Near) => Extents::Vectors(s),
            (Over::Space(_), What::M { .. }) => self.field_of(id).points,
            (Over::Space(s), _) => Extents::Space(s),
            (Over::Graph(g), _) | (Over::Vertex(g, _), What::Vertex) => Extents::Edges(g),
            (Over::Array(a), _) => Extents::Space(self.energy.arrays[a.index()].space),
            (Over::Computed(c), _) => Extents::Space(self.energy.computed[c.index()].space),
            (Over::Vertex(g, v), What::FirstRow | What::RowCount) => Extents::Space(self.slot_space(g, v)),
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
            What::RowBlock => below(Size::Entries(g, v).expr()),
            What::RowLength => below(Expr::from(ROW as i32)),
            What::RowEdge => below(edge_count(g) - 1),
            What::FirstRow | What::RowCount => below(Size::Rows(g, v).expr()),
            What::RowOf => below(Size::Rows(g, v).expr() - 1),
            _ => None,
        }
    }

    fn copies(&self, id: VectorId) -> Vec<VectorId> {
        match (id.what, id.over) {
            // What the trial skips is the same in both.
            (What::X, Over::Space(s)) if self.spaces.iter().any(|o| o.id == s && o.skips) => {
                vec![What::Trial.of(s)]
            }
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
        }
        all.extend([What::Start, What::StartProduct].map(|what| what.of(())));
        for (kind, shape) in (0..).zip(&self.preconditioners) {
            for (&space, fields) in &shape.fields {
                all.extend((0..).zip(fields).map(|(field, _)| self.field(kind, field, space)));
            }
        }
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
}

fn misfit(id: VectorId) -> ! {
    unreachable!("{:?} belongs to something else than {:?}", id.what, id.over)
}
