//! A pipeline with adjoints as two: one that runs forward and saves values, one that takes them and runs backward.

use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name, Param};
use crate::func::{Constraint, Func, Input, Layout, Output, Pipeline, Var};
use crate::gradient::adjoints::Adjoints;
use crate::gradient::space::interval;
use crate::gradient::support::{Stage, consumers_first};
use crate::plan::validate::{error, validate};
use rustc_hash::{FxHashMap, FxHashSet};

impl Adjoints {
    /// Cuts `p`, to which these adjoints were added, in two. The first has the outputs that `p` had before, and behind them the Funcs
    /// `saved` as outputs; the second has the adjoints of all that was derived for as outputs, in the order in which that was named, and takes the
    /// Funcs `saved` as inputs of the same names. Funcs that the second needs and that are not saved it computes again.
    ///
    /// Buffers of what is saved lie anywhere in memory and must cover what the second reads of them, which
    /// [`Compiled::required_regions_over`](crate::compile::Compiled::required_regions_over) tells.
    ///
    /// # Errors
    /// A name in `saved` that is no Func or depends on a seed; a size of a buffer that the second part does not have.
    pub fn split(&self, p: &Pipeline, saved: &[&str]) -> Result<(Pipeline, Pipeline), Error> {
        validate(p)?;
        for name in saved {
            let name = Name::from(*name);
            if !p.funcs.contains_key(&name) {
                return Err(error(p, format!("there is no Func {name} to save")));
            }
            if self.is_late(p, &name) {
                let message = format!("{name} is made of seeds: only what is there before them can be saved");
                return Err(error(p, message));
            }
        }
        let saved: Vec<&Func> = saved.iter().map(|n| &p.funcs[*n]).collect();
        Ok((self.forward(p, &saved), self.backward(p, &saved)?))
    }

    /// Does `name` depend on a seed or an adjoint?
    fn is_late(&self, p: &Pipeline, name: &Name) -> bool {
        consumers_first(p, [name.clone()]).iter().any(|f| {
            let stages = Stage::all(&p.funcs[f]);
            let late = |e: &Expr| match e.kind() {
                ExprKind::Call { name, .. } => self.seeds.contains(name),
                ExprKind::Param(param) => param.name().is_some_and(|n| self.seeds.contains(n)),
                _ => false,
            };
            self.made.contains(f) || nodes(stages.iter().flat_map(|s| s.exprs())).into_iter().any(late)
        })
    }

    fn forward(&self, p: &Pipeline, saved: &[&Func]) -> Pipeline {
        let mut forward = p.clone();
        forward.name = format!("{}_forward", p.name);
        forward.outputs.retain(|o| self.outputs.contains(&o.func));
        for f in saved {
            if !forward.outputs.iter().any(|o| o.func == f.name) {
                forward.output_strided(f, Constraint::defaults(f.vars.len()));
            }
        }
        pruned(forward)
    }

    fn backward(&self, p: &Pipeline, saved: &[&Func]) -> Result<Pipeline, Error> {
        let mut backward = p.clone();
        backward.name = format!("{}_backward", p.name);
        backward.outputs = self.wrt.iter().filter_map(|n| self.of(n)).map(|d| output(p, d)).collect();
        as_inputs(&mut backward, &saved.iter().map(|f| &*f.name).collect::<Vec<_>>());
        let backward = pruned(backward);
        let has = |name: &Name| {
            backward.inputs.contains_key(name) || backward.outputs.iter().any(|o| o.func == *name)
        };
        for e in all_nodes(&backward) {
            if let ExprKind::Param(Param::Of(name, _)) = e.kind()
                && !has(name)
            {
                let message = format!(
                    "the backward part needs the size of {name}, which is no buffer of it: save {name}, or give it an input as seed"
                );
                return Err(error(p, message));
            }
        }
        Ok(backward)
    }
}

/// Makes inputs of Funcs of `p`, whose values whoever runs it then gives. Integers keep the bounds that follow from their definitions, where coordinates
/// are made of them.
pub fn as_inputs(p: &mut Pipeline, funcs: &[&str]) {
    let input = |f: &Func| Input {
        value_range: value_range(p, f),
        ..Input::strided(f.name.clone(), &f.types(), f.vars.len())
    };
    let inputs: Vec<Input> = funcs.iter().filter_map(|name| p.funcs.get(*name)).map(input).collect();
    for input in inputs {
        p.funcs.shift_remove(&input.name);
        p.stored.shift_remove(&input.name);
        p.slices.shift_remove(&input.name);
        p.input(input);
    }
}

/// The buffer of an adjoint: as `p` has it, else any with neighbours of the first dimension next to each other.
fn output(p: &Pipeline, d: &Func) -> Output {
    let known = p.outputs.iter().find(|o| o.func == d.name).cloned();
    let dims = d.vars.len();
    known.unwrap_or_else(|| Output {
        func: d.name.clone(),
        layout: Layout::Strided,
        constraints: Constraint::defaults(dims),
        halo: vec![0; dims],
    })
}

/// The bounds of what is saved, where coordinates may be made of it.
fn value_range(p: &Pipeline, f: &Func) -> Option<(Expr, Expr)> {
    let [ty] = f.types()[..] else { return None };
    let own: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
    let range = interval(p, &FxHashMap::default(), &f.at(&own, 0)).ok().filter(|_| ty.is_int())?;
    let is_fixed =
        |e: &Expr| !nodes([e]).iter().any(|n| matches!(n.kind(), ExprKind::Var(_) | ExprKind::Call { .. }));
    (is_fixed(&range.min) && is_fixed(&range.max)).then_some((range.min, range.max))
}

/// `p` without the Funcs, inputs and parameters that its outputs do not need.
pub(crate) fn pruned(mut p: Pipeline) -> Pipeline {
    let needed: FxHashSet<Name> =
        consumers_first(&p, p.outputs.iter().map(|o| o.func.clone())).into_iter().collect();
    p.funcs.retain(|name, _| needed.contains(name));
    p.stored.retain(|name| needed.contains(name));
    p.slices.retain(|name| needed.contains(name));
    let mut read: FxHashSet<Name> = FxHashSet::default();
    for e in all_nodes(&p) {
        match e.kind() {
            ExprKind::Call { name, .. } | ExprKind::Param(Param::Of(name, _)) => {
                _ = read.insert(name.clone())
            }
            ExprKind::Param(param) => read.extend(param.name().cloned()),
            _ => {}
        }
    }
    p.inputs.retain(|name, _| read.contains(name));
    p.params.retain(|name, _| read.contains(name));
    p.param_ranges.retain(|name, _| read.contains(name));
    p
}

/// All distinct nodes of the definitions of `p`, and of what is fixed of its buffers.
fn all_nodes(p: &Pipeline) -> Vec<Expr> {
    let stages: Vec<Stage> = p.funcs.values().flat_map(Stage::all).collect();
    let inputs = p.inputs.values().flat_map(|i| {
        let range = i.value_range.iter().flat_map(|(lo, hi)| [lo, hi]);
        i.constraints.iter().flat_map(fixed).chain(range)
    });
    let outputs = p.outputs.iter().flat_map(|o| o.constraints.iter().flat_map(fixed));
    let exprs = stages.iter().flat_map(|s| s.exprs()).chain(inputs).chain(outputs);
    nodes(exprs).into_iter().cloned().collect()
}

fn fixed(c: &Constraint) -> impl Iterator<Item = &Expr> {
    c.min.iter().chain(&c.extent).chain(&c.stride)
}
