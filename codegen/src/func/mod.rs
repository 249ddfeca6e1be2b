//! The algorithm: Funcs over infinite integer grids, reduction domains, inputs, pipelines.
//!
//! Nothing here says where or in which order anything is computed: that is [`crate::schedule`].
//!
//! A [`Func`] has a pure definition (one [`Expr`] per tuple element, over its [`Var`]s) and any number of
//! update definitions. An update sets the values at `args` for every point of its reduction domain, in
//! lexicographic order (the *last* reduction variable of the [`RDom`] is outermost, as the first is the
//! fastest). All values of an update are computed before any is stored.
//!
//! An [`Input`] is memory given at run time, called like a Func. A [`Pipeline`] owns Funcs and inputs and
//! names its outputs; calls refer to them by name.

mod coordinates;
mod io;

pub use coordinates::{Coordinates, Var};
pub use io::{
    Constraint, Domain, Input, Layout, Output, PITCH, Shape, extent_param, min_param, step_param,
    stride_param,
};

use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name};
use crate::types::ScalarType;
use indexmap::{IndexMap, IndexSet};

/// One dimension of a reduction domain: `name` in `[min, min + extent)`. The bounds may use pure variables of
/// the update, parameters, and calls to *inputs* (a ragged domain: the degree of a vertex).
#[derive(Clone, PartialEq, Debug)]
pub struct RVar {
    /// Name of the loop variable.
    pub name: Name,
    /// First value, i32.
    pub min: Expr,
    /// Number of values, i32; zero or negative means none.
    pub extent: Expr,
}

/// A reduction domain: the product of its dimensions (first is fastest), where `predicate` holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RDom {
    /// Dimensions, fastest first.
    pub vars: Vec<RVar>,
    /// Points where this is false are skipped.
    pub predicate: Option<Expr>,
}

impl RDom {
    /// A domain over `(name, min, extent)` triples, fastest first.
    pub fn new<N: Into<Name>, A: Into<Expr>, B: Into<Expr>>(
        vars: impl IntoIterator<Item = (N, A, B)>,
    ) -> RDom {
        let var =
            |(n, min, extent): (N, A, B)| RVar { name: n.into(), min: min.into(), extent: extent.into() };
        RDom { vars: vars.into_iter().map(var).collect(), predicate: None }
    }
    /// Reduction variable `i` as an expression. A pipeline that uses one which is not there is refused.
    pub fn var(&self, i: usize) -> Expr {
        match self.vars.get(i) {
            Some(v) => Expr::var(v.name.clone()),
            None => {
                let all: Vec<&str> = self.vars.iter().map(|v| &*v.name).collect();
                Expr::var(format!("{i} of ({})", all.join(", ")))
            }
        }
    }
    /// The same domain restricted to points where `cond` holds.
    pub fn filter(mut self, cond: Expr) -> RDom {
        self.predicate = Some(match self.predicate {
            None => cond,
            Some(p) => p.and(cond),
        });
        self
    }
}

/// An update definition: `f(args) = values` over `rdom`. `args` may use pure variables and reduction variables. A pure variable
/// that is used stands alone in its own place in every access of the update to the Func, on the left-hand side and where it reads
/// itself, so that distinct values of it stay apart; the other coordinates may use it as well: `f(bin(r, y), y) += 1`.
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// Left-hand side coordinates, one per dimension.
    pub args: Vec<Expr>,
    /// One value per tuple element; may call the Func itself.
    pub values: Vec<Expr>,
    /// Reduction domain; empty for a plain update.
    pub rdom: RDom,
}

/// A function over an infinite grid; a tuple if it has several values.
///
/// ```
/// use sumsq_codegen::{Expr, Func, RDom, Source, Var};
///
/// // total(x) = 0, and then total(x) += r x for r = 1, 2, 3.
/// let (x, r) = (Var::new("x"), RDom::new([("r", 1, 3)]));
/// let zero = Func::new("total", &[x], vec![Expr::from(0)]);
/// let more = zero.of(x) + r.var(0) * x;
/// let total = zero.update(vec![x.expr()], vec![more], r);
/// assert_eq!(total.updates.len(), 1);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Func {
    /// Unique in its pipeline.
    pub name: Name,
    /// Dimensions, fastest first. May be empty (a scalar).
    pub vars: Vec<Var>,
    /// Pure definition, one scalar expression per tuple element.
    pub values: Vec<Expr>,
    /// Update definitions, in order.
    pub updates: Vec<Update>,
}

impl Func {
    /// A Func with a pure definition.
    pub fn new(name: impl Into<Name>, vars: &[Var], values: Vec<Expr>) -> Func {
        Func { name: name.into(), vars: vars.to_vec(), values, updates: vec![] }
    }

    /// Element types of the tuple.
    pub fn types(&self) -> Vec<ScalarType> {
        self.values.iter().map(|v| v.ty().scalar).collect()
    }

    /// Tuple element `value` at `args`. A pipeline that reads an element which is not there is refused.
    pub fn at(&self, args: &[Expr], value: usize) -> Expr {
        let ty = self.values.get(value).map_or(ScalarType::I32, |v| v.ty().scalar);
        Expr::call(self.name.clone(), ty, args.to_vec(), value)
    }

    /// Other Funcs of `p` that this one calls, anywhere in its definitions.
    pub fn callees(&self, p: &Pipeline) -> IndexSet<Name> {
        let updates = self.updates.iter().flat_map(|u| {
            let bounds = u.rdom.vars.iter().flat_map(|r| [&r.min, &r.extent]);
            u.args.iter().chain(&u.values).chain(&u.rdom.predicate).chain(bounds)
        });
        let called = |e: &Expr| match e.kind() {
            ExprKind::Call { name, .. } if *name != self.name && p.funcs.contains_key(name) => {
                Some(name.clone())
            }
            _ => None,
        };
        nodes(self.values.iter().chain(updates)).into_iter().filter_map(called).collect()
    }

    /// Adds an update definition.
    pub fn update(mut self, args: Vec<Expr>, values: Vec<Expr>, rdom: RDom) -> Func {
        self.updates.push(Update { args, values, rdom });
        self
    }

    /// The Func whose every element is `sum over rdom of terms` (over no pure variable if `vars` is empty),
    /// accumulated in the terms' own types from zero.
    pub fn sum(name: impl Into<Name>, vars: &[Var], rdom: RDom, terms: Vec<Expr>) -> Func {
        let zero = terms.iter().map(|t| Expr::constant(t.ty(), 0.0)).collect();
        let f = Func::new(name, vars, zero);
        let args: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let values = terms.into_iter().enumerate().map(|(i, t)| f.at(&args, i) + t).collect();
        f.update(args, values, rdom)
    }
}

/// Callable things: a Func or an input.
pub trait Source {
    /// Element types of the tuple.
    fn types(&self) -> Vec<ScalarType>;
    /// Number of dimensions.
    fn dims(&self) -> usize;
    /// Tuple element `value` at `args`.
    fn at(&self, args: &[Expr], value: usize) -> Expr;
    /// The value there (of a tuple the first element): `f.of((x + 1, y))`.
    fn of(&self, at: impl Coordinates) -> Expr {
        self.at(&at.list(), 0)
    }
}

impl Source for Func {
    fn types(&self) -> Vec<ScalarType> {
        Func::types(self)
    }
    fn dims(&self) -> usize {
        self.vars.len()
    }
    fn at(&self, args: &[Expr], value: usize) -> Expr {
        Func::at(self, args, value)
    }
}

impl Source for Input {
    fn types(&self) -> Vec<ScalarType> {
        self.types.clone()
    }
    fn dims(&self) -> usize {
        self.dims
    }
    fn at(&self, args: &[Expr], value: usize) -> Expr {
        Input::at(self, args, value)
    }
}

/// A closed set of definitions: what is computed, nothing about how.
///
/// ```
/// use sumsq_codegen::{Input, Pipeline, ScalarType, Schedule, Source, Var};
///
/// let x = Var::new("x");
/// let mut p = Pipeline::new("slopes");
/// let input = p.input(Input::new("in", &[ScalarType::I32], 1));
/// let slope = p.define("slope", [x], input.of(x + 1) - input.of(x));
/// p.output(&slope);
///
/// // A schedule says how. The empty one: one value after the other.
/// let nest = p.print_loop_nest(&Schedule::new())?;
/// assert_eq!(nest, "produce slope:\n  for x:\n    slope(...) = ...\n");
/// # Ok::<(), sumsq_codegen::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pipeline {
    /// Name of the compiled function.
    pub name: String,
    /// Funcs by name, producers in any order.
    pub funcs: IndexMap<Name, Func>,
    /// Inputs by name.
    pub inputs: IndexMap<Name, Input>,
    /// Outputs, in the order of their buffers.
    pub outputs: Vec<Output>,
    /// Scalar parameters by name (extents of buffers are implicit: [`extent_param`]).
    pub params: IndexMap<Name, ScalarType>,
    /// Inclusive bounds of some integer parameters.
    pub param_ranges: IndexMap<Name, (i64, i64)>,
    /// Floats must not depend on the schedule.
    pub strict_float: bool,
    /// Funcs that are computed at root where no directive says otherwise, as those with updates are.
    pub stored: IndexSet<Name>,
    /// Funcs of which every definition that reads them needs one slice, along the last dimension, in each iteration of its outermost loop.
    pub slices: IndexSet<Name>,
    /// Funcs that were defined twice, or updated after they were called, in words. Lowering refuses with the first.
    pub(crate) faults: Vec<String>,
}

impl Pipeline {
    /// Number of distinct nodes of all definitions: no expression that is inlined from them is deeper.
    pub(crate) fn nodes(&self) -> usize {
        let of = |f: &'_ Func| {
            nodes(f.values.iter().chain(f.updates.iter().flat_map(|u| u.args.iter().chain(&u.values)))).len()
        };
        self.funcs.values().map(of).sum()
    }

    /// An empty pipeline.
    pub fn new(name: impl Into<String>) -> Pipeline {
        Pipeline { name: name.into(), ..Pipeline::default() }
    }
    /// Adds a Func and returns it for calls. A Func that is there already may come with more updates, as long as no other one
    /// calls it: what is called never changes.
    pub fn func(&mut self, f: Func) -> Func {
        if let Some(old) = self.funcs.get(&f.name).filter(|old| **old != f) {
            self.faults.extend(self.changed(old, &f));
        }
        self.funcs.insert(f.name.clone(), f.clone());
        f
    }
    /// Returns why `old` may not become `new`.
    fn changed(&self, old: &Func, new: &Func) -> Option<String> {
        let name = &old.name;
        let same = (&old.vars, &old.values) == (&new.vars, &new.values);
        if !same || !new.updates.starts_with(&old.updates) {
            return Some(format!("{name} is defined twice"));
        }
        let caller = self.funcs.values().find(|g| g.name != *name && g.callees(self).contains(name))?;
        Some(format!("{name} is updated after {} called it: define it whole first", caller.name))
    }
    /// Defines and adds the Func `name(vars) = value`, and returns it for calls.
    pub fn define(&mut self, name: impl Into<Name>, vars: impl AsRef<[Var]>, value: impl Into<Expr>) -> Func {
        self.func(Func::new(name, vars.as_ref(), vec![value.into()]))
    }
    /// Defines and adds a Func whose values are tuples.
    pub fn define_tuple(
        &mut self,
        name: impl Into<Name>,
        vars: impl AsRef<[Var]>,
        values: Vec<Expr>,
    ) -> Func {
        self.func(Func::new(name, vars.as_ref(), values))
    }
    /// Adds the update `f(at) = value` over `r` to a Func that is not called by others yet, and returns it for calls. The value is
    /// cast to the Func's type.
    pub fn update(&mut self, f: &Func, at: impl Coordinates, value: impl Into<Expr>, r: &RDom) -> Func {
        let value = f.types().first().map_or_else(|| Expr::from(0), |ty| value.into().cast(*ty));
        self.func(f.clone().update(at.list(), vec![value], r.clone()))
    }
    /// Adds the update `f(at) += term` over `r`, as [`Pipeline::update`].
    pub fn add_to(&mut self, f: &Func, at: impl Coordinates, term: impl Into<Expr>, r: &RDom) -> Func {
        let (at, term) = (at.list(), term.into());
        let ty = f.types().first().copied().unwrap_or(term.ty().scalar);
        let sum = f.at(&at, 0) + term.cast(ty);
        self.update(f, at, sum, r)
    }
    /// Adds an input and returns it for calls.
    pub fn input(&mut self, i: Input) -> Input {
        self.inputs.insert(i.name.clone(), i.clone());
        i
    }
    /// Adds a scalar parameter and returns it.
    pub fn param(&mut self, name: impl Into<Name>, ty: ScalarType) -> Expr {
        let name = name.into();
        self.params.insert(name.clone(), ty);
        Expr::param(name, ty)
    }
    /// Makes a Func an output with a planar buffer without halo.
    pub fn output(&mut self, func: &Func) {
        self.output_with(func, Layout::Planar, vec![0; func.vars.len()]);
    }
    /// Makes a Func an output with the given buffer layout.
    pub fn output_with(&mut self, func: &Func, layout: Layout, halo: Vec<u32>) {
        self.outputs.push(Output { func: func.name.clone(), layout, constraints: vec![], halo });
    }
    /// Makes a Func an output with a buffer anywhere in memory, over whatever domain that has.
    pub fn output_strided(&mut self, func: &Func, constraints: Vec<Constraint>) {
        let halo = vec![0; func.vars.len()];
        self.outputs.push(Output { func: func.name.clone(), layout: Layout::Strided, constraints, halo });
    }
    /// Returns how the buffer of input or output `name` lies in memory.
    pub fn shape<'a>(&'a self, name: &'a Name) -> Shape<'a> {
        if let Some(i) = self.inputs.get(name) {
            return i.shape();
        }
        match self.outputs.iter().find(|o| o.func == *name) {
            Some(o) => Shape { name, layout: o.layout, constraints: &o.constraints },
            None => Shape { name, layout: Layout::Planar, constraints: &[] },
        }
    }
    /// Makes the values of all floats independent of the schedule: a directive that may change one is refused.
    pub fn strict_float(&mut self) {
        self.strict_float = true;
    }
    /// Adds an integer parameter whose value lies in `[low, high]`: the compiler counts on that, and every run checks it.
    pub fn param_in(&mut self, name: impl Into<Name>, ty: ScalarType, low: i64, high: i64) -> Expr {
        let name = name.into();
        self.param_ranges.insert(name.clone(), (low, high));
        self.param(name, ty)
    }
}

/// The variables in some expressions, in the order of first mention.
pub fn free_variables<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Vec<Name> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut found = indexmap::IndexSet::new();
    let mut stack: Vec<&Expr> = exprs.into_iter().collect();
    stack.reverse();
    while let Some(e) = stack.pop() {
        if !seen.insert(e.id()) {
            continue;
        }
        if let ExprKind::Var(name) = e.kind() {
            found.insert(name.clone());
        }
        let at = stack.len();
        e.for_each_child(|c| stack.push(c));
        stack[at..].reverse();
    }
    found.into_iter().collect()
}

/// All calls in an expression, each distinct node once.
pub fn calls(e: &Expr) -> Vec<Expr> {
    let is_call = |e: &&Expr| matches!(e.kind(), ExprKind::Call { .. });
    nodes([e]).into_iter().filter(is_call).cloned().collect()
}
