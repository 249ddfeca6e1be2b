//! From a draft to a pipeline: what its Funcs and their schedule call is declared, and its nests become directives.

use crate::matrix_free::draft::Draft;
use crate::matrix_free::params::Param;
use crate::matrix_free::pipelines::computed;
use crate::matrix_free::schedule::{Scheduler, cpu};
use crate::matrix_free::skeleton::{Scheduled, Span};
use crate::matrix_free::vectors::{Role, VectorId, What};
use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{Directive, Expr, ExprKind, Name, Schedule};
use sumsq_energy::model::{ComputedId, SpaceId};

impl Draft<'_> {
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
        vec![Scheduled { pipeline: p, schedule, role, vectors, params, span: Span::Once }]
    }

    /// Declares all that is used and schedules the nests.
    fn declare(&mut self, stored: Vec<ComputedId>, nest: Option<&(SpaceId, Name)>) -> Schedule {
        let k = self.k;
        // What is skipped are single vectors.
        let skips = self.nests.iter().any(|nest| nest.live.is_some());
        let long_sums = !skips && self.p.funcs.values().any(cpu::is_long_sum);
        let often = matches!(self.role, Role::Linear | Role::LinearB);
        let mut scheduler = Scheduler::new(&k.target, long_sums, often);
        self.nests.iter().for_each(|nest| scheduler.add(nest));
        let alone =
            |f: &Name| self.p.funcs[f].vars.is_empty() && !self.nests.iter().any(|nest| nest.func == *f);
        let scalars = self.p.outputs.iter().map(|o| &o.func).filter(|f| alone(f));
        scalars.for_each(|f| scheduler.scalar(f));
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
        roots.extend(scheduler.schedule().stages.values().flatten().filter_map(expression));
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
                        let own =
                            scheduler.schedule().stages.iter().filter(|(stage, _)| stage.func == f.name);
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
        scheduler.into_schedule()
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
