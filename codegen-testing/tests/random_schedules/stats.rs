//! Counts of what the cases of a run used.

use std::collections::BTreeMap;
use sumsq_codegen::expr::walk::any;
use sumsq_codegen::func::Layout;
use sumsq_codegen::{Directive, Expr, ExprKind, ForKind, ScalarType};
use sumsq_codegen_testing::random::approximate::bounds;
use sumsq_codegen_testing::random::program::Case;

/// Directives that every run of many cases uses.
const DIRECTIVES: [&str; 51] = [
    "GpuBlock",
    "GpuLane",
    "GpuThread",
    "Parallel",
    "Serial",
    "Unrolled",
    "Vectorized",
    "Vectorized inside of Vectorized",
    "align_bounds",
    "align_storage",
    "atomic",
    "bound",
    "bound_extent",
    "clone_in",
    "compute_at",
    "compute_root",
    "compute_with",
    "fold_storage",
    "folded by itself",
    "fuse",
    "gather",
    "gpu_single",
    "hoist_storage",
    "in_",
    "in_place_of",
    "inline",
    "non_temporal",
    "partition",
    "prefetch",
    "reciprocals",
    "relaxed",
    "rename",
    "reorder",
    "reorder_storage",
    "rfactor",
    "set_estimate",
    "sink",
    "skip_unless",
    "specialize",
    "split Auto",
    "split GuardWithIf",
    "split Predicate",
    "split RoundUp",
    "split ShiftInwards",
    "split by a parameter",
    "store_at",
    "store_in Heap",
    "store_in Register",
    "store_in Shared",
    "store_in Stack",
    "store_whole",
];

/// Cases in which something occurs, by its name.
#[derive(Default)]
pub struct Stats(BTreeMap<String, usize>);

impl Stats {
    /// Counts each directive and each feature of the program once.
    pub fn count(&mut self, case: &Case) {
        let mut all: Vec<String> = vec![];
        let directives: Vec<&Directive> = case.schedule.stages.values().flatten().collect();
        directives.iter().for_each(|d| directive(d, &mut all));
        let vectors = |d: &&Directive| matches!(d, Directive::Kind { kind: ForKind::Vectorized, .. });
        if case.schedule.stages.values().any(|d| d.iter().filter(vectors).count() > 1) {
            all.push("Vectorized inside of Vectorized".into());
        }
        if case.schedule.stages.iter().any(|(s, d)| s.stage > 0 && !d.is_empty()) {
            all.push("update stage".into());
        }
        let p = &case.pipeline;
        let mut feature = |is: bool, name: &str| is.then(|| all.push(format!("program: {name}")));
        feature(p.strict_float, "strict floats");
        let strange = |n: &str| n.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        feature(p.funcs.keys().any(|n| strange(n)), "names with dots and other characters");
        feature(p.inputs.values().any(|i| i.halo.iter().any(|&h| h > 0)), "halo of an input");
        feature(p.outputs.iter().any(|o| o.halo.iter().any(|&h| h > 0)), "halo of an output");
        let record = |l: Layout| matches!(l, Layout::Record(_));
        feature(p.inputs.values().any(|i| record(i.layout)), "input of records");
        feature(p.outputs.iter().any(|o| record(o.layout)), "output of records");
        feature(p.inputs.values().any(|i| i.layout == Layout::Strided), "strided input");
        feature(p.outputs.iter().any(|o| o.layout == Layout::Strided), "strided output");
        feature(p.inputs.values().any(|i| i.types.len() > 1), "input of tuples");
        feature(p.funcs.values().any(|f| f.values.len() > 1), "tuple");
        let dims = |n: usize| p.inputs.values().any(|i| i.halo.len() == n);
        feature(dims(3), "three dims");
        feature(dims(4), "four dims");
        feature(case.domains.iter().flatten().any(|d| d.1 == 0), "an extent of 0");
        feature(case.domains.iter().flatten().any(|d| d.1 > 40), "a large extent");
        for ty in [ScalarType::Bool, ScalarType::F16, ScalarType::F32, ScalarType::F64] {
            feature(p.funcs.values().any(|f| f.types().contains(&ty)), &format!("Func of {}", ty.name()));
        }
        let values =
            || p.funcs.values().flat_map(|f| f.values.iter().chain(f.updates.iter().flat_map(|u| &u.values)));
        let strict = |e: &Expr| any(e, |n| matches!(n.kind(), ExprKind::Strict(_)));
        feature(values().any(strict), "strict expressions");
        if folded(case) {
            all.push("folded by itself".into());
        }
        let differ = |b: &f64| *b > 0.0 && b.is_finite();
        if bounds(case).is_ok_and(|b| b.iter().flatten().flatten().any(differ)) {
            all.push("floats that may differ within a bound".into());
        }
        all.sort();
        all.dedup();
        all.into_iter().for_each(|name| *self.0.entry(name).or_default() += 1);
    }

    /// The directives that no case used.
    pub fn missing(&self) -> Vec<&'static str> {
        DIRECTIVES.into_iter().filter(|d| !self.0.contains_key(*d)).collect()
    }

    /// One line each.
    pub fn print(&self) {
        self.0.iter().for_each(|(name, n)| println!("{n:6} {name}"));
    }
}

/// Is the storage of some Func a ring of which the schedule says nothing?
fn folded(case: &Case) -> bool {
    let Ok(nest) = case.pipeline.print_loop_nest(&case.schedule) else { return false };
    let said = |name: &str| {
        let mut stages = case.schedule.stages.iter().filter(|(s, _)| *s.func == *name);
        stages.any(|(_, all)| all.iter().any(|d| matches!(d, Directive::FoldStorage { .. })))
    };
    let stored = nest.lines().filter_map(|l| l.trim().strip_prefix("store ")?.split_once(", "));
    stored.filter(|(_, how)| how.contains(" modulo ")).any(|(func, _)| !said(func))
}

/// The names of a directive, and of those inside it.
fn directive(d: &Directive, out: &mut Vec<String>) {
    let text = d.to_string();
    let name = text.split(['(', ' ']).next().unwrap_or_default();
    match d {
        Directive::Split { factor, tail, .. } => {
            out.push(format!("{name} {tail:?}"));
            out.extend(factor.as_int().is_none().then(|| format!("{name} by a parameter")));
        }
        Directive::Kind { kind, .. } => out.push(format!("{kind:?}")),
        Directive::StoreIn(m) => out.push(format!("{name} {m:?}")),
        Directive::Bound { min, .. } => {
            out.push(if min.is_some() { "bound" } else { "bound_extent" }.into());
        }
        Directive::Specialize { directives, .. } => {
            out.push(name.into());
            directives.iter().for_each(|d| directive(d, out));
        }
        _ => out.push(name.into()),
    }
}
