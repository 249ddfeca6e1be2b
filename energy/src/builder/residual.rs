//! Residuals: domain inference, the boundary rule, which unknowns are read; and `Exclude`.

use crate::budgets::Budget;
use crate::builder::Builder;
use crate::builder::math::is_vertex;
use crate::builder::robust::Group;
use crate::builder::value::{Scalar, Value};
use crate::dag::{Access, At, ExprId, Node, Offset, Source};
use crate::error::Fault;
use crate::model::{BlockId, Domain, GroupId, Residual, SpaceId};
use smallvec::SmallVec;

/// Characters of an expression that a warning shows.
const MOST_SHOWN: usize = 400;

impl Builder {
    /// `Energy(a, b, ...)`: each channel of each value is one residual; together they are one group.
    pub(crate) fn energy(&mut self, values: &[&Value]) -> Result<(), Fault> {
        self.group(&Group::default(), values)
    }

    /// `Exclude(expr)`: each channel by itself.
    pub(crate) fn exclude(&mut self, value: &Value) -> Result<(), Fault> {
        for s in value.scalars() {
            let accesses = self.energy.dag.accesses(s.id);
            if let Some(a) = self.unknown_reads(&accesses).first() {
                return Err(Fault::ExcludeReadsUnknown(self.source_name(a.source).into()));
            }
            if let Some(a) = accesses.iter().find(|a| is_vertex(&a.at)) {
                return Err(Fault::ExcludeReadsGraph(self.source_name(a.source).into()));
            }
            match self.common_domain(&accesses)? {
                Some(Domain::Space(space)) => {
                    self.check_dim_counts(s.id, space)?;
                    self.check_room()?;
                    self.energy.excludes.push((space, s.id));
                }
                _ => return Err(Fault::ExcludeReadsNothing),
            }
        }
        Ok(())
    }

    /// One residual. The scale of its loss is read with it: over its domain, inside of its box.
    pub(super) fn residual(
        &mut self,
        scalar: Scalar,
        group: GroupId,
        block: Option<BlockId>,
        scale: Option<Scalar>,
    ) -> Result<(), Fault> {
        self.check_room()?;
        let written: SmallVec<[Scalar; 2]> = std::iter::once(scalar).chain(scale).collect();
        let accesses: Vec<Access> = written.iter().flat_map(|s| self.energy.dag.accesses(s.id)).collect();
        let unknown_reads = self.unknown_reads(&accesses);
        // A residual of globals alone has one instance.
        let global = unknown_reads.first().map(|a| Domain::Space(self.energy.space_of(a.source)));
        let domain = self.common_domain(&accesses)?.or(global);
        match domain {
            Some(Domain::Graph(_)) => {
                written.iter().try_for_each(|&s| self.check_graph_residual(s, domain))?;
            }
            Some(Domain::Space(space)) => {
                written.iter().try_for_each(|s| self.check_dim_counts(s.id, space))?;
            }
            None => {}
        }
        self.check_samples(scalar.id)?;
        let (Some(domain), false) = (domain, unknown_reads.is_empty()) else {
            self.warn_constant(scalar.id, group);
            return Ok(());
        };
        let guard = match domain {
            Domain::Space(space) if !written.iter().any(|s| s.uses_bounds) => {
                Some(self.stencil_box(&accesses, space))
            }
            _ => None,
        };
        self.energy.residuals.push(Residual {
            value: scalar.id,
            domain,
            guard,
            unknown_reads,
            group,
            block,
            line: self.line,
        });
        Ok(())
    }

    /// One more residual, warning of one or condition is possible.
    fn check_room(&self) -> Result<(), Fault> {
        let energy = &self.energy;
        let known = energy.residuals.len() + energy.excludes.len() + energy.warnings.len();
        match (known as u64) < energy.dag.budgets().of(Budget::Residuals) {
            true => Ok(()),
            false => Err(self.spent(Budget::Residuals)),
        }
    }

    /// The one domain of all accesses; `None` if they are of globals alone.
    pub(super) fn common_domain(&mut self, accesses: &[Access]) -> Result<Option<Domain>, Fault> {
        if accesses.iter().any(|a| a.source == Source::Squared) {
            return Err(Fault::StraySquare);
        }
        let mut placed = accesses.iter().filter_map(|a| Some((a, self.domain_of(a)?)));
        let Some((first, domain)) = placed.next() else { return Ok(None) };
        let Some((second, other)) = placed.find(|(_, d)| *d != domain) else {
            return Ok(Some(domain));
        };
        let (first_domain, second_domain) = (self.domain_name(domain), self.domain_name(other));
        for (access, domain) in [(first, &first_domain), (second, &second_domain)] {
            let line = self.access_lines.get(access).copied();
            let name = self.source_name(access.source).to_owned();
            self.note(line, &name, format!("read over {domain}"));
        }
        let (first, second) = (self.access_name(first), self.access_name(second));
        Err(Fault::MixedDomains { first, first_domain, second, second_domain })
    }

    /// The smallest box around offset 0 and every stencil read.
    pub(super) fn stencil_box(&self, accesses: &[Access], space: SpaceId) -> (Offset, Offset) {
        let dims = self.energy.spaces[space.index()].len();
        let zero: Offset = std::iter::repeat_n(0, dims).collect();
        let (mut lo, mut hi) = (zero.clone(), zero);
        for access in accesses {
            let At::Offset(offset) = &access.at else { continue };
            // A computed array brings its own box.
            let reach = match access.source {
                Source::Computed(c) => Some(&self.energy.computed[c.index()].reach),
                _ => None,
            };
            for (d, &o) in offset.iter().enumerate() {
                lo[d] = lo[d].min(o + reach.map_or(0, |r| r.0[d]));
                hi[d] = hi[d].max(o + reach.map_or(0, |r| r.1[d]));
            }
        }
        (lo, hi)
    }

    /// A hyperedge has neither coordinates nor a border.
    fn check_graph_residual(&self, scalar: Scalar, domain: Option<Domain>) -> Result<(), Fault> {
        let Some(Domain::Graph(graph)) = domain else { return Ok(()) };
        let graph = self.energy.graphs[graph.index()].name.clone();
        if scalar.uses_bounds {
            return Err(Fault::NotInGraphs { function: "InBounds".into(), graph });
        }
        let dag = &self.energy.dag;
        if dag.reachable(&[scalar.id]).iter().any(|&n| matches!(dag.node(n), Node::Index(_))) {
            return Err(Fault::NotInGraphs { function: "Index".into(), graph });
        }
        Ok(())
    }

    /// `Index` and `InBounds` do not say over which index space; here it is known.
    pub(super) fn check_dim_counts(&self, id: ExprId, space: SpaceId) -> Result<(), Fault> {
        let dims = self.energy.spaces[space.index()].len();
        let dag = &self.energy.dag;
        for n in dag.reachable(&[id]) {
            let (function, got) = match dag.node(n) {
                Node::Index(d) if usize::from(*d) >= dims => ("Index", usize::from(*d) + 1),
                Node::InBounds { lo, .. } if lo.len() != dims => ("InBounds", lo.len()),
                _ => continue,
            };
            let domain = self.domain_name(Domain::Space(space));
            return Err(Fault::DimCount { function: function.into(), got, domain, dims });
        }
        Ok(())
    }

    fn warn_constant(&mut self, id: ExprId, group: GroupId) {
        let place = self.line.map_or_else(String::new, |l| format!("line {l}: "));
        let group = &self.energy.groups[group.index()];
        let mut text = self.display(id);
        if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
            text.truncate(end);
            text.push_str(" ..");
        }
        self.energy.warnings.push(format!(
            "{place}a residual of {group} reads no unknown; it is constant and left out: {text}"
        ));
    }

    /// Tells whether some residual reads the unknown.
    pub(super) fn is_read(&self, unknown: Source) -> bool {
        self.energy.residuals.iter().flat_map(|r| &r.unknown_reads).any(|a| a.source == unknown)
    }
}
