//! Sites: where routines are evaluated, and how what the residual templates read there is gathered.
//!
//! Element e is read at offset o by the stencil instance at i = e - o. So each use of the element's unknowns contributes the
//! template shifted by -o, guarded by "i lies in the domain and the boundary rule holds at i". A hyperedge gives each of its
//! slots (its vertices, and the neighbours that it reaches through computed arrays) a contribution of its own, if that is in the
//! domain; the element's routine is the sum of these over its incidences in every (graph, slot), plus the stencil routine. The
//! globals' routine is the sum over all instances that read a global.

use super::template::{Component, Template, component_of, components};
use crate::dag::{Access, At, Dag, ExprId, Offset};
use crate::model::{ComputedId, Domain, Energy, GraphId, SpaceId};
use std::fmt;

/// Site at which a routine is evaluated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Site {
    /// At every element of an index space that has unknowns: what the stencil templates around it give it.
    Element(SpaceId),
    /// At every hyperedge of a graph: what it gives the element at this slot.
    Slot(GraphId, u16),
    /// At every instance of a domain: what it gives the globals of the space.
    Global(SpaceId, Domain),
    /// At every element of a computed array.
    Array(ComputedId),
    /// At every instance of a domain, for itself.
    Instance(Domain),
    /// At every instance of the energy's residual of this number.
    Residual(usize),
}

impl Site {
    /// The domain over which the routine is evaluated.
    pub fn domain(self, energy: &Energy) -> Domain {
        match self {
            Site::Element(space) => Domain::Space(space),
            Site::Slot(graph, _) => Domain::Graph(graph),
            Site::Global(_, domain) | Site::Instance(domain) => domain,
            Site::Array(c) => Domain::Space(energy.computed[c.index()].space),
            Site::Residual(n) => energy.residuals[n].domain,
        }
    }

    /// The space whose unknowns have their rows of J^T J here.
    pub fn row_space(self, energy: &Energy) -> Option<SpaceId> {
        match self {
            Site::Element(space) | Site::Global(space, _) => Some(space),
            Site::Slot(graph, slot) => Some(energy.graphs[graph.index()].space_of(slot)),
            Site::Array(_) | Site::Instance(_) | Site::Residual(_) => None,
        }
    }

    /// The site in the energy's words: `{W,H}`, `G.v0`, `B {W,H}`, `r3`.
    pub fn name(self, energy: &Energy) -> String {
        match self {
            Site::Element(space) => energy.space_name(space),
            Site::Slot(graph, slot) => energy.graphs[graph.index()].slot_name(slot),
            Site::Global(_, domain) => format!("{}, to globals", energy.domain_name(domain)),
            Site::Instance(domain) => energy.domain_name(domain),
            Site::Array(c) => {
                let array = &energy.computed[c.index()];
                format!("{} {}", array.name, energy.space_name(array.space))
            }
            Site::Residual(n) => format!("r{n}"),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Element(space) => write!(f, "space {}", space.0),
            Site::Slot(graph, slot) => write!(f, "graph {} slot {slot}", graph.0),
            Site::Global(_, domain) => write!(f, "globals of {domain:?}"),
            Site::Array(c) => write!(f, "array {}", c.0),
            Site::Instance(domain) => write!(f, "{domain:?}"),
            Site::Residual(n) => write!(f, "residual {n}"),
        }
    }
}

/// One place where an instance reads a component of the site's element: an entry of its columns there.
pub(super) struct Use {
    pub component: usize,
    /// Entries of the instance by this read: of J, of what J^T J is made of, of what J^T J p is made of.
    pub partial: ExprId,
    pub row: ExprId,
    pub applied: ExprId,
    /// The entries of J^T J's rows by the components d <= `component` of the same element.
    pub beside: Vec<(usize, ExprId)>,
    /// The entry of J by the element's own component, all of its reads taken together.
    pub own: ExprId,
    /// Offset of the element from the instance.
    pub offset: Offset,
}

impl Site {
    /// The sites at which the templates have rows of J^T J: elements, slots, globals.
    pub(super) fn of_rows(energy: &Energy, templates: &[Template]) -> Vec<Site> {
        let spaces = || (0..energy.spaces.len() as u32).map(SpaceId);
        let mut sites: Vec<Site> =
            spaces().filter(|&s| !components(energy, s).is_empty()).map(Site::Element).collect();
        for (g, graph) in energy.graphs.iter().enumerate() {
            let id = GraphId(g as u32);
            let read =
                |s: &u16| templates.iter().flat_map(|t| &t.partials).any(|(a, _)| a.at == At::Vertex(id, *s));
            sites.extend(graph.slots().filter(read).map(|s| Site::Slot(id, s)));
        }
        let mut domains: Vec<Domain> =
            templates.iter().filter(|t| reads_global(t)).map(|t| t.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        for space in spaces().filter(|&s| energy.is_global(s)) {
            sites.extend(domains.iter().map(|&d| Site::Global(space, d)));
        }
        sites
    }

    /// Tells whether a template contributes here.
    pub(super) fn is_read_by(self, t: &Template) -> bool {
        match self {
            Site::Element(space) => t.domain == Domain::Space(space),
            Site::Slot(graph, _) => t.domain == Domain::Graph(graph),
            Site::Global(_, domain) => t.domain == domain && reads_global(t),
            _ => false,
        }
    }

    /// Returns where an instance of `t` reads the `components` of the site's element.
    pub(super) fn uses(
        self,
        energy: &Energy,
        dag: &mut Dag,
        t: &Template,
        components: &[Component],
    ) -> Vec<Use> {
        match self {
            Site::Element(_) => stencil_uses(t, components),
            Site::Slot(graph, slot) => {
                let at = At::Vertex(graph, slot);
                let partials = [&t.partials, &t.applied.partials, &t.rows];
                let [partial, applied, row] = partials.map(|p| partials_at(dag, p, &at, components));
                let declared = &energy.graphs[graph.index()];
                // Where several slots of the hyperedge are the same element, its column is the sum of theirs.
                let mut column = |own: &[ExprId], of: &[(Access, ExprId)]| {
                    let mut column = own.to_vec();
                    for other in declared.slots().filter(|&o| o != slot && !declared.never_same(slot, o)) {
                        let same = dag.same_vertex(graph, slot, other);
                        let there = partials_at(dag, of, &At::Vertex(graph, other), components);
                        for (sum, there) in column.iter_mut().zip(there) {
                            let zero = dag.constant(0.0);
                            let coinciding = dag.select(same, there, zero);
                            *sum = dag.add(*sum, coinciding);
                        }
                    }
                    column
                };
                let columns = [column(&row, &t.rows), column(&partial, &t.partials)];
                instance_uses(dag, [&partial, &row, &applied], [&columns[0], &columns[1]])
            }
            Site::Global(..) => {
                let partials = [&t.partials, &t.applied.partials, &t.rows];
                let [partial, applied, row] = partials.map(|p| partials_at(dag, p, &At::Global, components));
                instance_uses(dag, [&partial, &row, &applied], [&row, &partial])
            }
            _ => Vec::new(),
        }
    }

    /// The condition under which `access` reads the element of `u`, if it can. Globals have no stored blocks: none of their own share is left
    /// to them.
    pub(super) fn is_own(self, energy: &Energy, dag: &mut Dag, u: &Use, access: &Access) -> Option<ExprId> {
        match (self, &access.at) {
            (Site::Element(space), At::Offset(o)) => {
                let own =
                    component_of(access).is_some_and(|c| energy.unknowns[c.unknown.index()].space == space);
                (own && *o == u.offset).then(|| dag.constant(1.0))
            }
            (Site::Slot(graph, slot), At::Vertex(_, s)) => {
                let apart = energy.graphs[graph.index()].never_same(slot, *s);
                (!apart).then(|| dag.same_vertex(graph, slot, *s))
            }
            _ => None,
        }
    }

    /// Tells whether a share of the diagonal blocks may be stored here.
    pub(super) fn stores_blocks(self) -> bool {
        !matches!(self, Site::Global(..))
    }

    /// `value` of an instance, as what it gives the element of `u`: 0 where the instance does not exist or its `boundary` rule does not hold.
    /// Hyperedges have neither boundary.
    pub(super) fn gathered(self, dag: &mut Dag, boundary: ExprId, value: ExprId, u: &Use) -> ExprId {
        let zero = dag.constant(0.0);
        match self {
            Site::Element(_) => {
                let back = u.back();
                let shifted = dag.shift_all(&[boundary, value], &back);
                let exists = dag.in_bounds(&back, &back);
                let guard = dag.and(&[exists, shifted[0]]);
                dag.select(guard, shifted[1], zero)
            }
            Site::Global(..) => dag.select(boundary, value, zero),
            _ => value,
        }
    }

    /// `factor` times what a group has `stored` of its instances, as what it gives the element of `u`. What is stored is 0 where
    /// [`Site::gathered`] would make it so: a stencil's needs no guard there, unless the factor may have no value.
    pub(super) fn gathered_stored(
        self,
        dag: &mut Dag,
        boundary: ExprId,
        [factor, stored]: [ExprId; 2],
        u: &Use,
    ) -> ExprId {
        let value = dag.mul(factor, stored);
        match self {
            Site::Element(_) if dag.is_uniform(factor) => dag.shift_all(&[value], &u.back())[0],
            _ => self.gathered(dag, boundary, value, u),
        }
    }
}

impl Use {
    /// Offset of the instance from the element.
    fn back(&self) -> Offset {
        self.offset.iter().map(|&v| -v).collect()
    }
}

fn reads_global(t: &Template) -> bool {
    t.partials.iter().any(|(a, _)| a.at == At::Global)
}

/// The reads of a stencil template, each at its offset.
fn stencil_uses(t: &Template, components: &[Component]) -> Vec<Use> {
    let mut uses: Vec<Use> = (0..t.partials.len())
        .filter_map(|i| {
            let (access, partial) = &t.partials[i];
            let At::Offset(offset) = &access.at else { return None };
            let component = component_of(access)?;
            let component = components.iter().position(|&k| k == component)?;
            let (row, applied) = (t.rows[i].1, t.applied.partials[i].1);
            let (offset, beside) = (offset.clone(), Vec::new());
            Some(Use { component, partial: *partial, row, applied, beside, own: *partial, offset })
        })
        .collect();
    for i in 0..uses.len() {
        let same = |other: &&Use| other.offset == uses[i].offset && other.component <= uses[i].component;
        uses[i].beside = uses.iter().filter(same).map(|other| (other.component, other.row)).collect();
    }
    uses
}

/// One use per component whose row is not 0; `column` holds the rows of all components of the element, `own` their entries of J.
fn instance_uses(
    dag: &Dag,
    [partial, row, applied]: [&[ExprId]; 3],
    [column, own]: [&[ExprId]; 2],
) -> Vec<Use> {
    let read = (0..row.len()).filter(|&c| !dag.is_constant(row[c], 0.0));
    read.map(|c| Use {
        component: c,
        partial: partial[c],
        row: row[c],
        applied: applied[c],
        beside: (0..=c).map(|d| (d, column[d])).collect(),
        own: own[c],
        offset: Offset::default(),
    })
    .collect()
}

/// The partials by each component at a place, 0 where not read.
fn partials_at(
    dag: &mut Dag,
    partials: &[(Access, ExprId)],
    at: &At,
    components: &[Component],
) -> Vec<ExprId> {
    let zero = dag.constant(0.0);
    let find = |c: &Component| partials.iter().find(|(a, _)| a.at == *at && component_of(a) == Some(*c));
    components.iter().map(|c| find(c).map_or(zero, |(_, p)| *p)).collect()
}
