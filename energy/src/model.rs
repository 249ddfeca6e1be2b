//! Declarations of an energy: the model that both front ends build and everything else reads.
//!
//! Energies are checked when they are built: a finished [`Energy`] has only resolved names, at least one unknown read
//! by some residual, one domain per residual, channels in range.

pub use crate::graph::{Graph, Neighbour, Vertex};
pub use crate::ids::{
    ArrayId, BlockId, ComputedId, DimId, Domain, GraphId, GroupId, ParamId, SpaceId, UnknownId,
};

use crate::dag::{Access, Dag, ExprId, Names, Node, Source};
use crate::ids::Offset;
use crate::losses::LossKind;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Declared element types; floats compute in the solve's precision, integers are read-only and converted by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ElementType {
    OptFloat,
    Float,
    Double,
    Uint8,
    Int(IntegerType),
}

/// The declared integer types other than `uint8`; `int` is 32 bits wide, `bool` a byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum IntegerType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Uint64,
}

/// A run-time extent.
#[derive(Clone, Hash, Debug)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// Position among the dims of the C interface; -1 if it is not one of them.
    pub position: i64,
    /// The extent, if the energy fixes it: the dim of globals is 1 long and is nobody's input.
    pub fixed: Option<u64>,
}

/// An unknown or array: `channels` scalars at each element of `space`.
#[derive(Clone, Hash, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Scalars per element.
    pub channels: u16,
    /// The index space that it lives on.
    pub space: SpaceId,
    /// Declared element type.
    pub element: ElementType,
    /// Position in the C interface's parameter list.
    pub position: i64,
    /// The unknown that this array is a constant view of: it holds the unknown's values as of the last accepted step, and its
    /// derivative is zero. Only arrays are views.
    pub view_of: Option<UnknownId>,
    /// Source line of the declaration.
    pub line: Option<u32>,
}

/// An array defined by expressions at offset 0, one per channel; 0 outside its domain. Derivatives flow through it.
#[derive(Clone, Hash, Debug)]
pub struct Computed {
    /// Its name.
    pub name: String,
    /// The index space that it lives on.
    pub space: SpaceId,
    /// Value of each channel. They read unknowns, arrays and computed arrays declared before.
    pub values: Vec<ExprId>,
    /// The box of its reads around the element, offset 0 included; `{0}` if it uses InBounds.
    pub reach: (Offset, Offset),
    /// Unknown reads as constructed, distinct, also through other computed arrays, relative to the element.
    pub unknown_reads: Vec<Access>,
    /// The offsets at which it reads anything, distinct, also through other computed arrays.
    pub places: Vec<Offset>,
    /// Source line of the declaration.
    pub line: Option<u32>,
}

/// A function rho of a squared norm q.
#[derive(Clone, Copy, Hash, Debug)]
pub enum Loss {
    /// A loss of the table, with its scale s > 0: an expression without unknowns. One that is not uniform is NaN where it is not positive
    /// and finite; the guards of the block's residuals hold what it reads.
    Scaled(LossKind, ExprId),
    /// rho as an expression of q ([`Source::Squared`]), constants and params.
    Formula(ExprId),
}

/// A robust loss over the channels of one Vector: the block's energy is rho of the sum of their squares. It is 0 where none of them
/// counts.
#[derive(Clone, Hash, Debug)]
pub struct Block {
    /// The loss.
    pub loss: Loss,
    /// True if J^T J holds the loss's own curvature as well (Triggs' correction), or its slope alone.
    pub second_order: bool,
}

/// Box bounds on an unknown: expressions over its index space without unknowns, one per channel.
#[derive(Clone, Hash, Debug)]
pub struct BoxBounds {
    /// The unknown.
    pub unknown: UnknownId,
    /// Lower bounds.
    pub lower: Vec<ExprId>,
    /// Upper bounds.
    pub upper: Vec<ExprId>,
}

/// A displacement that the energy hardly resists: expressions over an unknown's index space without unknowns, one per channel.
#[derive(Clone, Hash, Debug)]
pub struct NearNull {
    /// The unknown.
    pub unknown: UnknownId,
    /// The displacement of an element.
    pub values: Vec<ExprId>,
}

/// A constant of the solve with `channels` entries.
#[derive(Clone, Hash, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Entries.
    pub channels: u16,
    /// Declared type of the entries.
    pub element: ElementType,
    /// Position in the C interface's parameter list.
    pub position: i64,
}

/// A scalar residual template.
#[derive(Clone, Hash, Debug)]
pub struct Residual {
    /// The residual as written (vectors scalarised), without the boundary guard.
    pub value: ExprId,
    /// Over which set.
    pub domain: Domain,
    /// The boundary rule's box `(lo, hi)`, offset 0 included: outside of it the residual is 0. `None` where the rule is lifted
    /// (InBounds used) or does not apply (graphs).
    pub guard: Option<(Offset, Offset)>,
    /// Unknown reads as constructed, distinct: an instance counts iff one of them is in the domain and free.
    pub unknown_reads: Vec<Access>,
    /// Group it is reported under.
    pub group: GroupId,
    /// The robust loss it is under, with the other channels of its Vector.
    pub block: Option<BlockId>,
    /// Source line.
    pub line: Option<u32>,
}

/// Text of an energy file, for messages.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path or name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// An energy: declarations and residual templates over one DAG.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    /// Expressions.
    pub dag: Dag,
    /// Dims in order of declaration.
    pub dims: Vec<Dim>,
    /// Index spaces: each distinct list of dims, fastest-varying first.
    pub spaces: Vec<Vec<DimId>>,
    /// Unknowns in order of declaration.
    pub unknowns: Vec<Field>,
    /// Arrays in order of declaration.
    pub arrays: Vec<Field>,
    /// Computed arrays in order of declaration: each reads only those before it.
    pub computed: Vec<Computed>,
    /// Params in order of declaration.
    pub params: Vec<Param>,
    /// Graphs in order of declaration.
    pub graphs: Vec<Graph>,
    /// Residual templates in order.
    pub residuals: Vec<Residual>,
    /// Group names; group k is by default the k-th `Energy(...)` call, named `energy_<k+1>`.
    pub groups: Vec<String>,
    /// Robust losses.
    pub blocks: Vec<Block>,
    /// Box bounds, at most one per unknown.
    pub bounds: Vec<BoxBounds>,
    /// Displacements that are hardly resisted, beside those that follow from the residuals.
    pub near_null: Vec<NearNull>,
    /// Excluded where any of the expressions of that space is non-zero.
    pub excludes: Vec<(SpaceId, ExprId)>,
    /// `UsePreconditioner(...)`, if said.
    pub use_preconditioner: Option<bool>,
    /// Warnings found while building (a template without unknowns, ...).
    pub warnings: Vec<String>,
    /// The text it came from.
    pub source: Option<Arc<SourceFile>>,
}

/// Of all that derivation goes by: energies of the same hash have the same routines. Where the text came from is no part of it.
impl Hash for Energy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Energy {
            dag,
            dims,
            spaces,
            unknowns,
            arrays,
            computed,
            params,
            graphs,
            residuals,
            groups,
            blocks,
            bounds,
            near_null,
            excludes,
            use_preconditioner,
            warnings: _,
            source: _,
        } = self;
        (dag, dims, spaces, unknowns, arrays, computed, params, graphs).hash(state);
        (residuals, groups, blocks, bounds, near_null, excludes, use_preconditioner).hash(state);
    }
}

impl Energy {
    /// `W x H`-style name of an index space.
    pub fn space_name(&self, s: SpaceId) -> String {
        let names: Vec<&str> =
            self.spaces[s.index()].iter().map(|d| self.dims[d.index()].name.as_str()).collect();
        if self.is_global(s) {
            return "{}".into();
        }
        format!("{{{}}}", names.join(","))
    }

    /// Tells whether a space is that of the globals: one element, read from everywhere.
    pub fn is_global(&self, s: SpaceId) -> bool {
        self.spaces[s.index()].iter().all(|d| self.dims[d.index()].fixed.is_some())
    }

    /// Tells whether all unknowns are globals.
    pub fn only_globals(&self) -> bool {
        self.unknowns.iter().all(|u| self.is_global(u.space))
    }

    /// Tells whether some array is a constant view of an unknown.
    pub fn has_views(&self) -> bool {
        self.arrays.iter().any(|a| a.view_of.is_some())
    }

    /// Tells whether some loss is of second order, so that J^T J is made of bent rows.
    pub fn bends(&self) -> bool {
        self.blocks.iter().any(|b| b.second_order)
    }

    /// Tells whether expressions read any of these arrays or params, or could: what computed arrays and views of unknowns are made
    /// of is not looked at.
    pub fn may_read(&self, roots: &[ExprId], arrays: &[ArrayId], params: &[ParamId]) -> bool {
        if arrays.is_empty() && params.is_empty() {
            return false;
        }
        self.dag.reachable(roots).into_iter().any(|node| match self.dag.node(node) {
            Node::Access(Access { source: Source::Array(a), .. }) => arrays.contains(a),
            Node::Access(_) => true,
            Node::Sample { image, partials, .. } => {
                arrays.contains(&image.0) || partials.iter().any(|(a, _)| arrays.contains(a))
            }
            Node::Param(p, _) => params.contains(p),
            _ => false,
        })
    }

    /// The index space that a source lives over.
    pub fn space_of(&self, source: Source) -> SpaceId {
        match source {
            Source::Unknown(u) | Source::Direction(u) => self.unknowns[u.index()].space,
            Source::Array(a) => self.arrays[a.index()].space,
            Source::Computed(c) | Source::Partial(c) => self.computed[c.index()].space,
            Source::Hoisted(domain) | Source::Residual(domain) | Source::Product(domain) => {
                let Domain::Space(s) = domain else {
                    unreachable!("what is stored for hyperedges lives over no index space")
                };
                s
            }
            Source::Squared => unreachable!("a squared norm lives over the domain of its residuals"),
        }
    }

    /// `{W,H}` or the graph's name.
    pub fn domain_name(&self, domain: Domain) -> String {
        match domain {
            Domain::Space(s) => self.space_name(s),
            Domain::Graph(g) => self.graphs[g.index()].name.clone(),
        }
    }
}

impl Names for Energy {
    fn source(&self, source: Source) -> String {
        match source {
            Source::Unknown(u) => self.unknowns[u.index()].name.clone(),
            Source::Array(a) => self.arrays[a.index()].name.clone(),
            Source::Direction(u) => format!("p_{}", self.unknowns[u.index()].name),
            Source::Computed(c) => self.computed[c.index()].name.clone(),
            Source::Partial(c) => format!("d_{}", self.computed[c.index()].name),
            Source::Hoisted(d) => format!("inv{}", self.domain_name(d)),
            Source::Residual(d) => format!("r{}", self.domain_name(d)),
            Source::Product(d) => format!("Jp{}", self.domain_name(d)),
            Source::Squared => "q".into(),
        }
    }
    fn channels(&self, source: Source) -> Option<u16> {
        match source {
            Source::Unknown(u) | Source::Direction(u) => Some(self.unknowns[u.index()].channels),
            Source::Array(a) => Some(self.arrays[a.index()].channels),
            Source::Computed(c) => Some(self.computed[c.index()].values.len() as u16),
            Source::Partial(_) | Source::Hoisted(_) | Source::Residual(_) | Source::Product(_) => None,
            Source::Squared => None,
        }
    }
    fn param(&self, param: ParamId) -> (String, Option<u16>) {
        let p = &self.params[param.index()];
        (p.name.clone(), Some(p.channels))
    }
    fn vertex(&self, graph: GraphId, slot: u16) -> String {
        self.graphs[graph.index()].slot_name(slot)
    }
    fn space(&self, space: SpaceId) -> String {
        self.space_name(space)
    }
}
