//! Computed arrays: an array defined by an expression at offset 0, and the re-weighting of `L_p` that is kept in one.

use crate::budgets::Budget;
use crate::builder::value::Value;
use crate::builder::{Arithmetic, Builder, FieldRef};
use crate::dag::{Access, At, Function, Offset, Source};
use crate::error::Fault;
use crate::ids::moved;
use crate::model::{Computed, ComputedId, DimId, Domain, Graph, GraphId};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Keeps the weight of `L_p` finite where the norm is 0.
const L_P_EPSILON: f64 = 1e-7;

/// Most channels of a computed array, whatever the budget.
const MOST_CHANNELS: usize = u16::MAX as usize;
/// Steps that a read through a computed array counts for.
const COSTLY: usize = 32;

impl Builder {
    /// `ComputedArray(name, dims, value)`. What it reads is declared before it, so that there are no cycles.
    pub(crate) fn computed(&mut self, name: &str, dims: &[DimId], value: &Value) -> Result<FieldRef, Fault> {
        self.check_dims(name, dims)?;
        if value.len() > MOST_CHANNELS {
            return Err(self.spent(Budget::Entries));
        }
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
        let (unknown_reads, places) = (self.unknown_reads(&accesses), self.places(&accesses));
        let values: Vec<_> = value.scalars().iter().map(|s| s.id).collect();
        let channels = values.len() as u16;
        let (name, line) = (name.into(), self.line);
        let computed = Computed { name, space, values, reach, unknown_reads, places, line };
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
                // Arrays of arrays read at ever more places.
                Source::Computed(c) if !self.energy.dag.is_spent() => {
                    let inner = &self.energy.computed[c.index()].unknown_reads;
                    self.energy.dag.spend(COSTLY * inner.len());
                    reads.extend(inner.iter().filter_map(|i| composed(&self.energy.graphs, i, &a.at)));
                }
                _ => {}
            }
        }
        reads.into_iter().collect()
    }

    /// The offsets of `accesses`, also through computed arrays.
    fn places(&self, accesses: &[Access]) -> Vec<Offset> {
        let mut places: IndexSet<Offset, FxBuildHasher> = IndexSet::default();
        for a in accesses {
            let At::Offset(o) = &a.at else { continue };
            places.insert(o.clone());
            if let (Source::Computed(c), false) = (a.source, self.energy.dag.is_spent()) {
                self.energy.dag.spend(COSTLY * self.energy.computed[c.index()].places.len());
                places.extend(self.energy.computed[c.index()].places.iter().map(|i| moved(i, o)));
            }
        }
        places.into_iter().collect()
    }

    /// Makes the places that a field reads around its element slots of `graph`, whose vertex `slot` it is read at.
    pub(super) fn reach_around(&mut self, field: FieldRef, graph: GraphId, slot: u16) -> Result<(), Fault> {
        let Source::Computed(id) = field.source else { return Ok(()) };
        let (computed, graph) = (&self.energy.computed[id.index()], &mut self.energy.graphs[graph.index()]);
        match computed.places.iter().all(|place| graph.reach(slot, place).is_some()) {
            true => Ok(()),
            false => Err(Fault::TooManyPlaces { name: computed.name.clone(), graph: graph.name.clone() }),
        }
    }
}

/// Returns where a computed array that is read at `at` reads what it reads at `inner`. At a vertex all its places are slots of the graph
/// since it was first read there.
pub(crate) fn composed(graphs: &[Graph], inner: &Access, at: &At) -> Option<Access> {
    let place = match (&inner.at, at) {
        (At::Global, _) => At::Global,
        (At::Offset(i), At::Offset(o)) => At::Offset(moved(i, o)),
        (At::Offset(i), At::Vertex(g, slot)) => At::Vertex(*g, graphs[g.index()].moved(*slot, i)?),
        (At::Offset(i), At::Global) if i.iter().all(|&v| v == 0) => at.clone(),
        _ => return None,
    };
    Some(Access { at: place, ..inner.clone() })
}
