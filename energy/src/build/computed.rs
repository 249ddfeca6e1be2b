//! Computed arrays: an array defined by an expression at offset 0, and the re-weighting of `L_p` that is kept in one.

use super::value::Value;
use super::{Arithmetic, Builder, FieldRef};
use crate::dag::{Access, At, Function, Node, Source, moved};
use crate::error::Fault;
use crate::model::{Computed, ComputedId, DimId, Domain};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Keeps the weight of `L_p` finite where the norm is 0.
const L_P_EPSILON: f64 = 1e-7;

impl Builder {
    /// `ComputedArray(name, dims, value)`. What it reads is declared before it, so that there are no cycles.
    pub(crate) fn computed(&mut self, name: &str, dims: &[DimId], value: &Value) -> Result<FieldRef, Fault> {
        self.declare_name(name)?;
        let space = self.space(dims);
        let mut accesses: Vec<Access> = Vec::new();
        for s in value.scalars() {
            let own = self.energy.dag.accesses(s.id);
            if let Some(a) = own.iter().find(|a| matches!(a.at, At::Vertex(..))) {
                return Err(Fault::ComputedReadsGraph { name: name.into(), read: self.access_name(a) });
            }
            self.check_dim_counts(s.id, space)?;
            self.check_samples(s.id)?;
            accesses.extend(own);
        }
        if let Some(domain) = self.common_domain(&accesses)?.filter(|d| *d != Domain::Space(space)) {
            let (over, domain) = (self.domain_name(Domain::Space(space)), self.domain_name(domain));
            return Err(Fault::ComputedDomain { name: name.into(), over, domain });
        }
        let uses_bounds = value.scalars().iter().any(|s| s.uses_bounds);
        let reach = self.stencil_box(if uses_bounds { &[] } else { &accesses }, space);
        let unknown_reads = self.unknown_reads(&accesses);
        let values: Vec<_> = value.scalars().iter().map(|s| s.id).collect();
        let channels = values.len() as u16;
        let computed = Computed { name: name.into(), space, values, reach, unknown_reads, line: self.line };
        self.energy.computed.push(computed);
        let id = ComputedId(self.energy.computed.len() as u32 - 1);
        Ok(FieldRef { source: Source::Computed(id), first: 0, channels })
    }

    /// `L_p(val, val_const, p, dims)`: `val` weighted so that its square is |val|^p at the fixed point of re-weighting.
    pub(crate) fn l_p(
        &mut self,
        val: &Value,
        constant: &Value,
        p: &Value,
        dims: &[DimId],
    ) -> Result<Value, Fault> {
        let (norm, epsilon) = (self.norm(constant)?, self.constant(L_P_EPSILON));
        let two = self.constant(2.0);
        let base = self.arithmetic(Arithmetic::Add, &norm, &epsilon)?;
        let exponent = self.arithmetic(Arithmetic::Sub, p, &two)?;
        let power = self.arithmetic(Arithmetic::Pow, &base, &exponent)?;
        let root = self.call(Function::Sqrt, &[&power])?;
        let name = format!("L_p_{}", self.energy.computed.len());
        let field = self.computed(&name, dims, &root)?;
        let zeros = vec![0; self.dims_of(field)];
        let weight = self.read_offset(field, &zeros, None)?;
        self.arithmetic(Arithmetic::Mul, val, &weight)
    }

    /// The distinct unknown reads among `accesses`, also through computed arrays.
    pub(super) fn unknown_reads(&self, accesses: &[Access]) -> Vec<Access> {
        let mut reads: IndexSet<Access, FxBuildHasher> = IndexSet::default();
        for a in accesses {
            match a.source {
                Source::Unknown(_) => {
                    reads.insert(a.clone());
                }
                Source::Computed(c) => {
                    let inner = &self.energy.computed[c.index()].unknown_reads;
                    reads.extend(inner.iter().filter_map(|i| composed(i, &a.at)));
                }
                _ => {}
            }
        }
        reads.into_iter().collect()
    }

    /// Whatever is read at a graph vertex depends on that element alone: a vertex has no neighbours and no coordinates.
    pub(super) fn check_pointwise(&self, field: FieldRef) -> Result<(), Fault> {
        let Source::Computed(id) = field.source else { return Ok(()) };
        let dag = &self.energy.dag;
        for n in dag.reachable(&self.energy.computed[id.index()].values) {
            let elsewhere = match dag.node(n) {
                Node::Access(a) => match &a.at {
                    At::Offset(o) if o.iter().any(|&v| v != 0) => true,
                    _ => {
                        let inner = FieldRef { source: a.source, first: 0, channels: 1 };
                        self.check_pointwise(inner)?;
                        false
                    }
                },
                Node::Index(_) | Node::InBounds { .. } => true,
                _ => false,
            };
            if elsewhere {
                let (name, read) = (self.field_name(field), self.display(n));
                return Err(Fault::NeighboursThroughVertex { name, read });
            }
        }
        Ok(())
    }
}

/// Where a computed array that is read at `at` reads what it reads at `inner`; `None` for neighbours of a vertex.
pub(crate) fn composed(inner: &Access, at: &At) -> Option<Access> {
    let place = match (&inner.at, at) {
        (At::Global, _) => At::Global,
        (At::Offset(i), At::Offset(o)) => At::Offset(moved(i, o)),
        (At::Offset(i), At::Vertex(..) | At::Global) if i.iter().all(|&v| v == 0) => at.clone(),
        _ => return None,
    };
    Some(Access { at: place, ..inner.clone() })
}
