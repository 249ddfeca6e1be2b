//! The builder that both front ends drive: declarations, values and residuals, checked as they are made.
//!
//! A front end calls [`Builder::set_line`] before each operation and turns a [`Fault`](crate::Fault) into an error with a place.

mod computed;
mod declare;
mod finish;
mod math;
mod read;
mod residual;
mod robust;
mod sampled;
mod value;

pub(crate) use crate::builder::computed::composed;
pub(crate) use crate::builder::declare::ValueType;
pub(crate) use crate::builder::math::{Arithmetic, Comparison};
pub(crate) use crate::builder::read::FieldRef;
pub(crate) use crate::builder::robust::{Group, Robust, Rule};
pub(crate) use crate::builder::sampled::SampledRef;
pub(crate) use crate::builder::value::Value;

use crate::budgets::{Budget, Budgets};
use crate::dag::{Access, At, ExprId, Source};
use crate::error::{Fault, Note};
use crate::model::{Domain, Energy, GroupId};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// An energy under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    energy: Energy,
    /// Every declared name (vertices as `G.v0`), with the line of its declaration.
    names: IndexMap<String, Option<u32>>,
    /// Positions among unknowns, arrays, params, graphs and vertices.
    positions: BTreeMap<i64, String>,
    /// Positions among dims.
    dim_positions: BTreeMap<i64, String>,
    /// Groups by name, with the line that named them first.
    group_names: FxHashMap<String, (GroupId, Option<u32>)>,
    /// Line where each read was last written.
    access_lines: FxHashMap<Access, u32>,
    /// Line of the operation under way.
    line: Option<u32>,
    /// Lines to show with the next fault, beside (or instead of) the line under way.
    notes: Vec<Note>,
}

impl Builder {
    /// A builder of an energy that may take so much.
    pub(crate) fn within(budgets: Budgets) -> Builder {
        let mut builder = Builder::default();
        builder.energy.dag.set_budgets(budgets);
        builder
    }

    /// Fails if an operation has spent a budget: what it built is worth nothing.
    pub(crate) fn check_budgets(&self) -> Result<(), Fault> {
        self.energy.dag.overrun().map_or(Ok(()), |budget| Err(self.spent(budget)))
    }

    /// The fault of a spent budget.
    fn spent(&self, budget: Budget) -> Fault {
        Fault::Budget { budget, most: self.energy.dag.budgets().of(budget), routine: None }
    }

    /// Says which line the following operations come from.
    pub(crate) fn set_line(&mut self, line: Option<u32>) {
        self.line = line;
        self.notes.clear();
    }

    /// The lines to show with the fault that was just returned.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Names declared so far, for "did you mean".
    pub(crate) fn declared_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// A scalar as readable text.
    pub(crate) fn display(&self, id: ExprId) -> String {
        self.energy.dag.display_with(id, &self.energy)
    }

    fn note(&mut self, line: Option<u32>, name: &str, text: String) {
        if let Some(line) = line {
            self.notes.push(Note { line, name: Some(name.to_owned()), text: Some(text), place: None });
        }
    }

    fn source_name(&self, source: Source) -> &str {
        match source {
            Source::Unknown(u) | Source::Direction(u) => &self.energy.unknowns[u.index()].name,
            Source::Array(a) => &self.energy.arrays[a.index()].name,
            Source::Computed(c) | Source::Partial(c) => &self.energy.computed[c.index()].name,
            Source::Squared => "q",
            Source::Hoisted(_) | Source::Residual(_) | Source::Product(_) => "",
        }
    }

    /// `X(1,0)` or `X(G.v0)`: an access as written, without its channel.
    fn access_name(&self, access: &Access) -> String {
        let place = match &access.at {
            At::Offset(o) => o.iter().map(i32::to_string).collect::<Vec<_>>().join(","),
            At::Vertex(g, slot) => self.vertex_name(*g, *slot),
            At::Edge(_) | At::Global => String::new(),
        };
        format!("{}({place})", self.source_name(access.source))
    }

    /// `the index space {W,H}` or `the graph G`.
    fn domain_name(&self, domain: Domain) -> String {
        match domain {
            Domain::Space(s) if self.energy.is_global(s) => "the globals".into(),
            Domain::Space(s) => format!("the index space {}", self.energy.space_name(s)),
            Domain::Graph(g) => format!("the graph {}", self.energy.graphs[g.index()].name),
        }
    }

    /// The domain that an access belongs to; globals are read from any.
    fn domain_of(&self, access: &Access) -> Option<Domain> {
        match &access.at {
            At::Vertex(g, _) | At::Edge(g) => Some(Domain::Graph(*g)),
            At::Offset(_) => Some(Domain::Space(self.energy.space_of(access.source))),
            At::Global => None,
        }
    }
}
