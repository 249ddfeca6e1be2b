//! A plan as text: what is computed after wrapping, inlining and factoring, and the loops that the schedule makes of it.
//!
//! ```text
//! bx(x, y) = in(x - 1, y) + in(x + 1, y)
//!   loops yi, xo, vectorized xi
//!   split(x, xo, xi, 4, predicate)
//!   compute_at(out, yi) store_at(out, yo) fold_storage(y, 4)
//! ```
//! Loops stand outermost first. What is as it would be without a schedule is left out. For dumps; nothing reads it back.

use crate::expr::{Expr, Name};
use crate::plan::plans::{Bounded, Change, FuncPlan, Level, Plan, Stage};
use crate::schedule::{Directive, LoopLevel};
use std::fmt::{self, Display, Formatter};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for plan in self.funcs.values() {
            for s in &plan.stages {
                stage(f, s, 0)?;
            }
            let placement = placement(plan);
            if !placement.is_empty() {
                writeln!(f, "  {}", placement.join(" "))?;
            }
        }
        for step in self.together.iter().flat_map(|t| &t.steps).filter(|step| step.len() > 1) {
            let stages: Vec<_> = step.iter().map(|s| s.to_string()).collect();
            writeln!(f, "together {}", stages.join(", "))?;
        }
        Ok(())
    }
}

fn stage(f: &mut Formatter<'_>, s: &Stage, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    if depth == 0 {
        write!(f, "{}({}) = {}", s.id, list(&s.args), list(&s.values))?;
        for Bounded { name, min, max } in &s.rvars {
            write!(f, " for {name} in [{min}, {max}]")?;
        }
        if let Some(p) = &s.predicate {
            write!(f, " where {p}")?;
        }
        writeln!(f)?;
    }
    let dims: Vec<_> = s.dims.iter().rev().map(|d| format!("{}{}", d.kind.prefix(), d.name)).collect();
    if !dims.is_empty() {
        writeln!(f, "{pad}  loops {}", dims.join(", "))?;
    }
    let directives = directives(s);
    if !directives.is_empty() {
        writeln!(f, "{pad}  {}", directives.join(" "))?;
    }
    for (cond, special) in &s.special {
        writeln!(f, "{pad}  if {cond}")?;
        stage(f, special, depth + 1)?;
    }
    Ok(())
}

fn list(es: &[Expr]) -> String {
    es.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(", ")
}

/// The directives that are kept as such.
fn directives(s: &Stage) -> Vec<String> {
    let changes = s.changes.iter().map(|c| match c.clone() {
        Change::Split(t) => {
            Directive::Split { old: t.old, outer: t.outer, inner: t.inner, factor: t.factor, tail: t.tail }
        }
        Change::Fuse(t) => Directive::Fuse { inner: t.inner, outer: t.outer, fused: t.fused },
        Change::Rename { old, new } => Directive::Rename { old, new },
    });
    let skips = s.skips.iter().cloned().map(|(var, cond)| Directive::SkipUnless { var, cond });
    let partition = s.partition.iter().cloned().map(|(var, policy)| Directive::Partition { var, policy });
    let prefetches = s.prefetches.iter().cloned();
    let prefetches = prefetches.map(|(name, var, ahead)| Directive::Prefetch { name, var, ahead });
    let flags = [
        (s.atomic, Directive::Atomic),
        (s.relaxed, Directive::Relaxed),
        (s.reciprocals, Directive::Reciprocals),
    ];
    let flags = flags.into_iter().filter(|f| f.0).map(|f| f.1);
    let with = s.with.clone().map(Directive::ComputeWith);
    let all = changes.chain(skips).chain(partition).chain(prefetches).chain(flags).chain(with);
    all.map(|d| d.to_string()).collect()
}

/// Returns where the Func is computed and how it is stored.
fn placement(f: &FuncPlan) -> Vec<String> {
    let at = |level: &Level, what: fn(LoopLevel) -> Directive| match level {
        Level::Root => None,
        Level::At(l) => Some(what(l.clone())),
    };
    let mut all: Vec<Directive> = at(&f.compute, Directive::ComputeAt).into_iter().collect();
    if f.store != f.compute {
        all.extend(at(&f.store, Directive::StoreAt));
    }
    all.extend(f.hoist.iter().filter_map(|l| at(l, Directive::HoistStorage)));
    all.extend(f.whole.then_some(Directive::StoreWhole));
    for (d, var) in f.func.vars.iter().enumerate() {
        let var = || var.name().clone();
        all.extend(f.fold[d].map(|factor| Directive::FoldStorage { var: var(), factor }));
        all.extend(f.align[d].map(|modulus| Directive::AlignBounds { var: var(), modulus }));
        all.extend(f.pad[d].map(|modulus| Directive::AlignStorage { var: var(), modulus }));
        let bound = f.bound[d].clone();
        all.extend(bound.map(|b| Directive::Bound { var: var(), min: b.min, extent: b.extent }));
        let estimate = f.estimates[d];
        all.extend(estimate.map(|(min, extent)| Directive::Estimate { var: var(), min, extent }));
    }
    if f.storage_order.iter().enumerate().any(|(i, &d)| i != d) {
        let order: Vec<Name> = f.storage_order.iter().map(|&d| f.func.vars[d].name().clone()).collect();
        all.push(Directive::ReorderStorage(order));
    }
    all.extend(f.memory.map(Directive::StoreIn));
    all.extend(f.sink.then_some(Directive::Sink));
    all.extend(f.non_temporal.clone().map(Directive::NonTemporal));
    all.extend(f.in_place_of.clone().map(Directive::InPlaceOf));
    let text = all.iter().map(|d| d.to_string());
    text.chain(f.output.as_ref().map(|_| "output".to_string())).collect()
}
