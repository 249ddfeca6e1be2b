//! From coordinates to flat buffers.
//!
//! Before: `Realize`, `Produce`, `Provide` and `Call`. After: `Allocate`, `Store` and `Load`, and none of those
//! (but for `Produce` in pipelines that are profiled).
//! Follows storage folding and allocation bounds (regions are final); precedes unrolling and vectorising, so that those
//! see one-dimensional indices only.
//!
//! The address of `(c0, c1, ...)` is `sum c_d * stride_d`, in i64 elements:
//! - input or output `f`, planar: buffer `f.k` per tuple element, stride_0 = 1; records of n slots: one buffer `f`,
//!   stride_0 = n, element k adds k. The strides of the other dimensions are the i64 parameters `f.stride.d`. *The
//!   origin is 64-byte aligned and these strides are multiples of 16 elements* ([`PITCH`]): whoever binds a
//!   buffer guarantees it, and vectorising relies on it.
//! - strided input or output `f`: buffer `f.k` per tuple element, addressed from the minimum: `sum (c_d - f.min.d) * f.step.d`,
//!   or what a constraint fixes in their places. Nothing is promised of these.
//! - intermediate `f`: buffer `f.k` per tuple element over the region of its `Realize`, addressed from its minimum, or
//!   modulo the fold factor in a folded dimension. The pitches are let-bound as `f.pitch.d` and obey the same rule;
//!   a heap pitch is of whole lines of 64 bytes, unless a row is shorter, and never a multiple of 4096 bytes, so that rows do not compete for one cache set. Memory that a block shares has no
//!   lines: there rows follow each other, but for `align_storage`.
//!
//! A `Call` reads the intermediate storage where one is in scope, else the output buffer, else the input. Nodes that are equal
//! become one: inlined stencils call the same place along many ways, and simplifying its index takes longest here.

use super::simplify::simplify_index;
use crate::analysis::algebra::forms::{Polys, gcd};
use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::{Interner, Memo, any, rewrite};
use crate::expr::{BinaryOp, Content, Expr, ExprKind, Flat, Name};
use crate::func::{Constraint, Layout, PITCH, Shape};
use crate::ir::rewrite::{block, map_children};
use crate::ir::stmt::{Stmt, Target};
use crate::schedule::Memory;
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;

/// Storage of an intermediate Func.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Intermediate {
    /// Element type of each tuple element.
    pub types: Vec<ScalarType>,
    /// The memory it is kept in; other than `Heap` only with a constant region.
    pub memory: Memory,
    /// Circular storage per dimension: the coordinate modulo this.
    pub fold: Vec<Option<u32>>,
    /// The storage has a multiple of this many coordinates, per dimension.
    pub pad: Vec<Option<u32>>,
    /// Dimensions, fastest first.
    pub order: Vec<usize>,
    /// The storage starts as zeros.
    pub zeroed: bool,
}

/// An input or output buffer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct External {
    /// The Func or input.
    pub of: Name,
    /// It is the output of a Func with intermediate storage besides.
    pub is_output: bool,
    /// Element type of each tuple element.
    pub types: Vec<ScalarType>,
    /// Layout.
    pub layout: Layout,
    /// Of a strided buffer.
    pub constraints: Vec<Constraint>,
    /// Stores bypass the cache where this i32 (or bool) is non-zero.
    pub non_temporal: Option<Expr>,
    /// Outputs: the input whose memory this is (`in_place_of`).
    pub alias: Option<Name>,
}

/// The layout in memory of everything that a pipeline reads and writes.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct FlattenEnv {
    /// Funcs that are realised.
    pub funcs: FxHashMap<Name, Intermediate>,
    /// Inputs by name.
    pub inputs: FxHashMap<Name, External>,
    /// Outputs by the name of their Func.
    pub outputs: FxHashMap<Name, External>,
    /// `Produce` stays, for profiles.
    pub keep_produce: bool,
}

impl External {
    /// The buffer of an input, or of an output without intermediate storage.
    pub(crate) fn new(of: impl Into<Name>, types: &[ScalarType], layout: Layout) -> External {
        let (of, types) = (of.into(), types.to_vec());
        let (constraints, non_temporal, alias) = (vec![], None, None);
        External { of, is_output: false, types, layout, constraints, non_temporal, alias }
    }

    /// Flat buffer of tuple element `k`.
    pub(crate) fn flat(&self, k: usize) -> Flat {
        let content = match self.layout {
            Layout::Planar | Layout::Strided => Content::Plane(k),
            Layout::Record(_) => Content::Records,
        };
        Flat { of: self.of.clone(), is_output: self.is_output, content }
    }

    /// All its flat buffers with their element types.
    pub(crate) fn flats(&self) -> impl Iterator<Item = (Flat, ScalarType)> {
        let n = if let Layout::Record(_) = self.layout { 1 } else { self.types.len() };
        (0..n).map(|k| (self.flat(k), self.types[k]))
    }
}

/// See the module's description. Names that `env` does not know are left alone (the verifier reports them).
pub(crate) fn flatten(s: &Stmt, env: &FlattenEnv) -> Stmt {
    let (scope, memo, calls) = (FxHashMap::default(), Memo::default(), FxHashMap::default());
    Flatten { env, scope, memo, calls, interner: Interner::default() }.stmt(s)
}

/// One dimension of the storage of a realised Func.
#[derive(Clone)]
struct Dim {
    /// Subtracted from the coordinate; none if folded.
    min: Option<Expr>,
    fold: Option<u32>,
    /// i64 elements.
    pitch: Expr,
}

struct Flatten<'a> {
    env: &'a FlattenEnv,
    /// Realised Funcs around the current statement.
    scope: FxHashMap<Name, Vec<Dim>>,
    memo: Memo,
    /// Calls seen in the current scope, by interned nodes: inlined stencils make many that are equal.
    calls: FxHashMap<Expr, Expr>,
    interner: Interner,
}

impl Flatten<'_> {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        match s {
            Stmt::Realize { func, region, body } if self.env.funcs.contains_key(func) => {
                self.realize(func, region, body)
            }
            Stmt::Produce { body, .. } if !self.env.keep_produce => self.stmt(body),
            Stmt::Prefetch { name, args } => self.prefetch(name, args),
            Stmt::Provide { func, args, values, to } => self.provide(func, args, values, to),
            s => {
                // Expressions first: the two closures cannot share `self`.
                let own = map_children(s, &mut |e| self.expr(e), &mut |s| s.clone());
                map_children(&own, &mut Expr::clone, &mut |s| self.stmt(s))
            }
        }
    }

    fn realize(&mut self, func: &Name, region: &[(Expr, Expr)], body: &Stmt) -> Stmt {
        if let Some(outer) = self.scope.get(func) {
            let outer = outer.clone();
            return self.realize_inside(outer, func, region, body);
        }
        let store = &self.env.funcs[func];
        let mut lets: Vec<(Name, Expr)> = vec![];
        let mut bind = |name: String, e: Expr| -> Expr {
            if matches!(e.kind(), ExprKind::Int(_) | ExprKind::Var(_) | ExprKind::Param(_)) {
                return e;
            }
            let name: Name = name.into();
            let var = Expr::new(ExprKind::Var(name.clone()), e.ty());
            lets.push((name, e));
            var
        };
        let mut dims: Vec<Option<Dim>> = vec![None; region.len()];
        let mut pitch = Expr::int(Type::I64, 1);
        for (i, &d) in store.order.iter().enumerate() {
            let (min, extent) = &region[d];
            let (fold, pad) = (store.fold[d], store.pad[d].map(i64::from));
            let min = bind(format!("{func}.min.{d}"), simplify_index(&self.expr(min)));
            dims[d] = Some(Dim { min: fold.is_none().then_some(min), fold, pitch: pitch.clone() });
            let extent = match fold {
                Some(n) => Expr::int(Type::I64, n as i64),
                None => self.expr(extent).cast(ScalarType::I64),
            };
            let extent = pad.map_or(extent.clone(), |n| round_up(&extent, n));
            let next = store.order.get(i + 1);
            // Dimensions of few elements in all lie dense; the first pitch behind them is rounded.
            let total = match next {
                Some(_) if pitch.as_int().is_some_and(|n| n < PITCH) => {
                    first_pitch(&simplify_index(&(pitch * extent)), store, pad)
                }
                _ => simplify_index(&(pitch * extent)),
            };
            let what = next.map_or("size".to_string(), |d| format!("pitch.{d}"));
            pitch = bind(format!("{func}.{what}"), total);
        }
        let dims = dims.into_iter().flatten().collect();
        let outer = self.scope.insert(func.clone(), dims);
        self.forget();
        let mut s = self.stmt(body);
        self.forget();
        match outer {
            Some(o) => self.scope.insert(func.clone(), o),
            None => self.scope.remove(func),
        };
        for (k, ty) in store.types.iter().enumerate().rev() {
            s = Stmt::Allocate {
                buffer: Flat::plane(func.clone(), k),
                ty: *ty,
                extent: pitch.clone(),
                memory: store.memory,
                zeroed: store.zeroed,
                body: Box::new(s),
            };
        }
        lets.into_iter().rev().fold(s, |body, (name, value)| Stmt::Let { name, value, body: Box::new(body) })
    }

    /// A Func inside of its own storage, which is hoisted or holds a window: it has the memory and the pitches of that, but minima of its own.
    fn realize_inside(&mut self, outer: Vec<Dim>, func: &Name, region: &[(Expr, Expr)], body: &Stmt) -> Stmt {
        let mut dims = outer.clone();
        let mut lets = vec![];
        for (d, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| dim.fold.is_none()) {
            let min = simplify_index(&self.expr(&region[d].0));
            // Names cancel in plain sight: a window in registers has constant places.
            if Polys::default().of(&min).is_plain() {
                dim.min = Some(min);
                continue;
            }
            let name: Name = format!("{func}.inner.min.{d}").into();
            dim.min = Some(Expr::new(ExprKind::Var(name.clone()), min.ty()));
            lets.push((name, min));
        }
        self.scope.insert(func.clone(), dims);
        self.forget();
        let s = self.stmt(body);
        self.forget();
        self.scope.insert(func.clone(), outer);
        lets.into_iter().rev().fold(s, |body, (name, value)| Stmt::Let { name, value, body: Box::new(body) })
    }

    fn provide(&mut self, func: &Name, args: &[Expr], values: &[Expr], to: &Target) -> Stmt {
        let mut values: Vec<Expr> = values.iter().map(|v| self.expr(v)).collect();
        let args: Vec<Expr> = args.iter().map(|a| self.expr(a)).collect();
        let external = match to {
            Target::Intermediate | Target::Atomic(_) if self.scope.contains_key(func) => None,
            _ => self.env.outputs.get(func),
        };
        let targets: Vec<(Flat, Expr)> = (0..values.len())
            .map(|k| match external {
                Some(x) => (x.flat(k), external_index(x, &args, k)),
                None => (Flat::plane(func.clone(), k), self.scoped_index(func, &args)),
            })
            .collect();
        if let Target::Atomic(ops) = to {
            let update = |(((buffer, index), value), op): (((Flat, Expr), Expr), &BinaryOp)| {
                Stmt::Accumulate { buffer, op: *op, index, value, predicate: None }
            };
            return block(targets.into_iter().zip(values).zip(ops).map(update).collect());
        }
        let alias = external.and_then(|x| self.env.inputs.get(x.alias.as_ref()?));
        let mut lets = vec![];
        if (1..values.len())
            .any(|k| (0..k).any(|j| clobbers(&targets[j], alias.map(|a| a.flat(j)), &values[k])))
        {
            for (k, v) in values.iter_mut().enumerate() {
                let name: Name = format!("{func}.value.{k}").into();
                let var = Expr::new(ExprKind::Var(name.clone()), v.ty());
                lets.push((name, as_data(&std::mem::replace(v, var))));
            }
        }
        let mut stores = vec![];
        for ((buffer, index), value) in targets.into_iter().zip(values) {
            stores.push(store(buffer, index, value, external.and_then(|x| x.non_temporal.as_ref())));
        }
        lets.into_iter().rev().fold(block(stores), |body, (name, value)| Stmt::Let {
            name,
            value,
            body: Box::new(body),
        })
    }

    /// One prefetch per flat buffer. Its index counts bytes: the element types of the buffers are not known behind it.
    fn prefetch(&mut self, name: &Name, args: &[Expr]) -> Stmt {
        let args: Vec<Expr> = args.iter().map(|a| self.expr(a)).collect();
        let places: Vec<(Flat, Expr, ScalarType)> = if self.scope.contains_key(name) {
            let index = self.scoped_index(name, &args);
            let types = self.env.funcs[name].types.iter().enumerate();
            types.map(|(k, &ty)| (Flat::plane(name.clone(), k), index.clone(), ty)).collect()
        } else {
            let external = self.env.outputs.get(name).or_else(|| self.env.inputs.get(name));
            let all = |x: &External| {
                x.flats().enumerate().map(|(k, (f, ty))| (f, external_index(x, &args, k), ty)).collect()
            };
            external.map_or(vec![], all)
        };
        let one = |(buffer, index, ty): (Flat, Expr, ScalarType)| Stmt::PrefetchByte {
            buffer,
            byte: simplify_index(&(index * ty.bytes() as i64)),
        };
        block(places.into_iter().map(one).collect())
    }

    /// Before the scope changes.
    fn forget(&mut self) {
        self.memo.clear();
        self.calls.clear();
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let mut memo = std::mem::take(&mut self.memo);
        let out = rewrite(e, &mut memo, &mut |_, new| {
            let new = self.interner.node(new);
            if !matches!(new.kind(), ExprKind::Call { .. }) {
                return new;
            }
            if let Some(load) = self.calls.get(&new) {
                return load.clone();
            }
            let load = self.load(&new);
            let load = self.interner.apply(&load);
            self.calls.insert(new, load.clone());
            load
        });
        self.memo = memo;
        out
    }

    /// The element that a call reads, whose arguments are flat; other nodes are left alone.
    fn load(&self, call: &Expr) -> Expr {
        let ExprKind::Call { name, args, value } = call.kind() else { return call.clone() };
        let (buffer, index) = if self.scope.contains_key(name) {
            (Flat::plane(name.clone(), *value), self.scoped_index(name, args))
        } else if let Some(x) = self.env.outputs.get(name).or_else(|| self.env.inputs.get(name)) {
            (x.flat(*value), external_index(x, args, *value))
        } else {
            return call.clone();
        };
        let ty = call.ty().with_lanes(index.ty().lanes);
        Expr::load(buffer, index, ty)
    }

    /// Index into the intermediate storage of `func`.
    fn scoped_index(&self, func: &Name, args: &[Expr]) -> Expr {
        let Some(dims) = self.scope.get(func) else { return Expr::int(Type::I64, 0) };
        sum(args.iter().zip(dims).map(|(a, d)| {
            let c = match (&d.min, d.fold) {
                (_, Some(n)) => a % n as i64,
                (Some(min), None) => a - min,
                (None, None) => a.clone(),
            };
            c.cast(ScalarType::I64) * &d.pitch
        }))
    }
}

/// An integer as bits: a let of arithmetic alone is taken for a coordinate, which must not wrap.
fn as_data(value: &Expr) -> Expr {
    if is_index(value.ty()) { value.reinterpret(value.ty().scalar) } else { value.clone() }
}

/// True if a store to `target` (or to the input `alias` that shares its memory) may change what `value` loads: a load at
/// an index that differs by a constant is safe.
fn clobbers((buffer, index): &(Flat, Expr), alias: Option<Flat>, value: &Expr) -> bool {
    any(value, |n| {
        let ExprKind::Load { buffer: b, index: i, .. } = n.kind() else { return false };
        let apart = || simplify_index(&(i - index)).as_int().is_some_and(|d| d != 0);
        (b == buffer || Some(b) == alias.as_ref()) && !apart()
    })
}

/// `extent` elements rounded up to [`row_unit`], and on the heap away from multiples of 4096 bytes. Less than that many lie dense, so that two
/// channels do not take the memory of sixteen; then what is rounded is a pitch further out. Memory that a block shares is not rounded.
fn first_pitch(extent: &Expr, store: &Intermediate, pad: Option<i64>) -> Expr {
    if let Some(n) = simplify_index(extent).as_int().filter(|&n| n < PITCH && pad.is_none()) {
        return Expr::int(Type::I64, n);
    }
    if store.memory == Memory::Shared {
        return simplify_index(extent);
    }
    let unit = row_unit(extent, store);
    let rounded = round_up(extent, pad.map_or(unit, |n| unit / gcd(unit, n) * n));
    let page = 4096 / store.types.iter().map(|t| t.bytes()).max().unwrap_or(1) as i64;
    if store.memory != Memory::Heap || pad.is_some() {
        return rounded;
    }
    let conflict = (&rounded % page).eq_(Expr::int(Type::I64, 0));
    let skew = Expr::select(conflict, Expr::int(Type::I64, unit), Expr::int(Type::I64, 0));
    simplify_index(&(rounded + skew))
}

/// Elements to a multiple of which rows are rounded: [`PITCH`], or those of a line of 64 bytes where a row is not known to be shorter.
fn row_unit(extent: &Expr, store: &Intermediate) -> i64 {
    let line = 64 / store.types.iter().map(|t| t.bytes()).min().unwrap_or(1) as i64;
    let is_short = simplify_index(extent).as_int().is_some_and(|n| n < line);
    if store.memory != Memory::Heap || is_short { PITCH } else { PITCH.max(line) }
}

/// The next multiple of `n`.
fn round_up(extent: &Expr, n: i64) -> Expr {
    simplify_index(&((extent.clone() + (n - 1)) / n * n))
}

/// Index of tuple element `k` of an input or output.
fn external_index(x: &External, args: &[Expr], k: usize) -> Expr {
    let shape = Shape { name: &x.of, layout: x.layout, constraints: &x.constraints };
    let offset = if let Layout::Record(_) = x.layout { k as i64 } else { 0 };
    let terms = args.iter().enumerate().map(|(d, a)| {
        let from_first = if x.layout == Layout::Strided { a - &shape.min(d) } else { a.clone() };
        from_first.cast(ScalarType::I64) * shape.stride(d)
    });
    sum(terms.chain((offset != 0).then(|| Expr::int(Type::I64, offset))))
}

/// The simplified sum of i64 terms.
fn sum(terms: impl Iterator<Item = Expr>) -> Expr {
    let total = terms.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(Type::I64, 0));
    simplify_index(&total)
}

fn store(buffer: Flat, index: Expr, value: Expr, non_temporal: Option<&Expr>) -> Stmt {
    let make = |non_temporal| Stmt::Store {
        buffer: buffer.clone(),
        index: index.clone(),
        value: value.clone(),
        predicate: None,
        aligned: false,
        non_temporal,
    };
    match non_temporal {
        None => make(false),
        Some(c) if c.as_int().is_some() => make(c.as_int() != Some(0)),
        Some(c) => Stmt::If {
            cond: c.ne_(Expr::int(c.ty(), 0)),
            then: Box::new(make(true)),
            otherwise: Some(Box::new(make(false))),
        },
    }
}

#[cfg(test)]
mod tests;
