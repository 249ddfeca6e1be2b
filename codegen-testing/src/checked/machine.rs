//! The checked machine: statements.

use super::counters::{Counted, Counters};
use super::memory::{Buffer, Cell, Memory};
use super::races::Positions;
use crate::reference::{Bindings, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::hash::Hash;
use sumsq_codegen::analysis::algebra::is_index;
use sumsq_codegen::expr::{Expr, ExprKind, Flat, Name, Param, Part};
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::ir::stmt::{Stmt, Target};
use sumsq_codegen::schedule::{Directive, ForKind, Schedule};

/// A result, or in words what went wrong.
pub(super) type Fallible<T> = Result<T, String>;

/// Values per lane.
pub(super) type Lanes = SmallVec<[Value; 2]>;

/// Storage of a realised Func: `(min, extent)` per dimension, and the elements written so far.
struct Realized {
    region: Vec<(i64, i64)>,
    planes: Vec<FxHashMap<Vec<i64>, Cell>>,
}

/// Memory, names and counters of a run.
#[derive(Default)]
pub struct Machine {
    /// Variables.
    pub(super) names: FxHashMap<Name, Lanes>,
    pub(super) params: FxHashMap<Param, Value>,
    /// Values of the present statement's expressions, by node: nothing changes while they are evaluated.
    pub(super) memo: FxHashMap<usize, Lanes>,
    pub(super) counters: Counters,
    pub(super) positions: Positions,
    /// Longest chain of dependences that ends in something that the present statement read.
    pub(super) chain: usize,
    folds: FxHashMap<Name, Vec<Option<u32>>>,
    /// Funcs whose storage is a window that moves, for statements over coordinates.
    windows: FxHashSet<Name>,
    buffers: FxHashMap<Name, Buffer>,
    /// Outputs in place of inputs: the buffer is the input's.
    in_place: FxHashMap<Name, Name>,
    realized: FxHashMap<Name, Realized>,
    /// Flat buffers allocated by the code.
    allocated: FxHashMap<Flat, Memory>,
    /// Operations of the values of a `Provide` or `Store`, by their address.
    operations: FxHashMap<usize, usize>,
    /// Number of values that have been computed.
    pub(super) values: usize,
}

impl Machine {
    /// Nothing is bound.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Binds inputs, outputs over the given domains, sizes and parameters.
    pub fn bind_pipeline(&mut self, p: &Pipeline, s: &Schedule, b: &Bindings, domains: &[super::Domain]) {
        for (n, i) in &p.inputs {
            self.bind(n, Buffer::input(&b.inputs[n], i.layout));
        }
        for (o, e) in p.outputs.iter().zip(domains) {
            let f = &p.funcs[&o.func];
            self.bind(&o.func, Buffer::output(&f.types(), e, o.layout, &o.halo));
        }
        for (stage, directives) in &s.stages {
            for d in directives {
                if let Directive::InPlaceOf(input) = d {
                    self.in_place.insert(stage.func.clone(), input.clone());
                }
            }
        }
        for (n, v) in &b.params {
            self.set(n.clone(), *v);
        }
    }

    /// Binds an input or output, its extents and strides.
    pub fn bind(&mut self, name: &Name, b: Buffer) {
        for (d, n) in b.extents.iter().enumerate() {
            let mut part = |part, value| self.set(Param::Of(name.clone(), part), Value::Int(value));
            part(Part::Extent(d), *n as i64);
            part(Part::Min(d), b.min[d] as i64);
            part(Part::Stride(d), b.strides[d]);
            part(Part::Step(d), b.strides[d]);
        }
        self.set(Param::Of(name.clone(), Part::Phase), Value::Int(0));
        self.buffers.insert(name.clone(), b);
    }

    /// Gives a parameter its value.
    pub fn set(&mut self, param: impl Into<Param>, value: Value) {
        self.params.insert(param.into(), value);
    }

    /// Says how the storage of a Func is folded, for statements over coordinates.
    pub fn fold(&mut self, func: &Name, factors: &[Option<u32>]) {
        self.folds.insert(func.clone(), factors.to_vec());
    }

    /// Says that the storage of a Func is a window: what is realised inside of it again has its slots.
    pub fn window(&mut self, func: &Name) {
        self.windows.insert(func.clone());
    }

    /// An element of an output, or of the input that it is in place of.
    pub fn output(&mut self, name: &Name, k: usize, at: &[i32]) -> Option<Value> {
        self.buffer(name)?.get(k, at)
    }

    /// Returns how many elements of an output are written, pads and halo included; none if it is in place of an input.
    pub fn written(&self, name: &Name) -> Option<usize> {
        let b = self.buffers.get(name).filter(|_| !self.in_place.contains_key(name))?;
        Some(b.flat.iter().flat_map(|m| &m.elements).filter(|c| c.value.is_some()).count())
    }

    /// The counters.
    pub fn into_counters(self) -> Counters {
        self.counters
    }

    fn buffer(&mut self, name: &Name) -> Option<&mut Buffer> {
        let name = self.in_place.get(name).unwrap_or(name);
        self.buffers.get_mut(name)
    }

    /// Runs a statement. Iterations of parallel loops run one after the other; races are found nevertheless.
    pub fn run(&mut self, s: &Stmt) -> Fallible<()> {
        self.memo.clear();
        if self.values > super::MOST_VALUES {
            return Err(format!("{} values are {}", self.values, super::TOO_LONG));
        }
        match s {
            Stmt::Block(v) => v.iter().try_for_each(|s| self.run(s)),
            Stmt::Let { name, value, body } => {
                let v = self.eval(value)?;
                if !is_index(value.ty()) {
                    self.counters.operations += operations([value]);
                }
                self.bound(|m| &mut m.names, name, v, body)
            }
            Stmt::For { var, min, extent, kind, body } => {
                let (min, extent) = (self.scalar(min)?, self.scalar(extent)?);
                self.iterate(var, min, extent, *kind, body)
            }
            Stmt::If { cond, then, otherwise } => match (self.scalar(cond)?, otherwise) {
                (0, None) => Ok(()),
                (0, Some(o)) => self.run(o),
                _ => self.run(then),
            },
            Stmt::Assert { cond, message, args } => {
                if self.scalar(cond)? != 0 {
                    return Ok(());
                }
                let args: Vec<String> =
                    args.iter().map(|a| self.scalar(a).map(|v| v.to_string())).collect::<Fallible<_>>()?;
                Err(format!("assertion: {message} {}", args.join(" ")))
            }
            Stmt::Realize { func, region, body } => self.realize(func, region, body),
            Stmt::Produce { body, .. } => self.run(body),
            Stmt::Provide { func, args, values, to: Target::Atomic(ops) } => {
                self.provide_atomic(func, args, values, ops)
            }
            Stmt::Provide { func, args, values, to } => self.provide(func, args, values, to),
            Stmt::Allocate { buffer, extent, body, zeroed, ty, .. } => {
                let n = self.scalar(extent)?.max(0) as usize;
                self.count_allocation(buffer.into(), n)?;
                let fill = if *zeroed { Cell::of(Value::of(*ty, 0.0)) } else { Cell::default() };
                let memory = Memory { elements: vec![fill; n], origin: 0 };
                self.bound(|m| &mut m.allocated, buffer, memory, body)
            }
            Stmt::Store { buffer, index, value, predicate, .. } => {
                self.store(buffer, index, value, predicate.as_ref())
            }
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                self.accumulate(buffer, *op, (index, value), predicate.as_ref())
            }
            Stmt::Prefetch { name, args } => self.prefetch(name, args),
            Stmt::PrefetchByte { byte, .. } => self.prefetch_byte(byte),
        }
    }

    fn iterate(&mut self, var: &Name, min: i64, extent: i64, kind: ForKind, body: &Stmt) -> Fallible<()> {
        let parallel = kind.is_parallel().then(|| self.positions.start_loop());
        self.counters.iterations += extent.max(0) as usize;
        for i in min..min + extent.max(0) {
            if let Some(execution) = parallel {
                self.positions.enter(execution);
            }
            let done = self.bound(|m| &mut m.names, var, Lanes::from_slice(&[Value::Int(i)]), body);
            if parallel.is_some() {
                self.positions.leave();
            }
            done.map_err(|e| if e.contains("races") { format!("{e} ({var} = {i})") } else { e })?;
        }
        Ok(())
    }

    /// Runs `body` with `name` bound in one of the scopes, which has what it had again afterwards.
    fn bound<K: Clone + Eq + Hash, T>(
        &mut self,
        scope: fn(&mut Self) -> &mut FxHashMap<K, T>,
        name: &K,
        value: T,
        body: &Stmt,
    ) -> Fallible<()> {
        let outer = scope(self).insert(name.clone(), value);
        self.run(body)?;
        scope(self).remove(name);
        scope(self).extend(outer.map(|o| (name.clone(), o)));
        Ok(())
    }

    fn realize(&mut self, func: &Name, region: &[(Expr, Expr)], body: &Stmt) -> Fallible<()> {
        let mut sizes = vec![];
        for (min, extent) in region {
            sizes.push((self.scalar(min)?, self.scalar(extent)?));
        }
        if let Some(outer) = self.realized.get_mut(func).filter(|_| self.windows.contains(func)) {
            let outer = std::mem::replace(&mut outer.region, sizes);
            self.run(body)?;
            self.realized.entry(func.clone()).and_modify(|r| r.region = outer);
            return Ok(());
        }
        let elements = sizes.iter().fold(1usize, |n, s| n.saturating_mul(s.1.max(0) as usize));
        self.count_allocation(func.into(), elements)?;
        self.bound(|m| &mut m.realized, func, Realized { region: sizes, planes: vec![] }, body)
    }

    fn count_allocation(&mut self, what: Counted, elements: usize) -> Fallible<()> {
        if elements > super::MOST_ELEMENTS {
            return Err(format!("{what} has {elements} elements, which is {}", super::TOO_LARGE));
        }
        let f = self.counters.count(what);
        f.allocations += 1;
        f.allocated = f.allocated.max(elements);
        Ok(())
    }

    fn store(&mut self, buffer: &Flat, index: &Expr, value: &Expr, on: Option<&Expr>) -> Fallible<()> {
        let n = *self
            .operations
            .entry(value as *const Expr as usize)
            .or_insert_with(|| operations(std::iter::once(value).chain(on)));
        self.counters.operations += n;
        self.counters.count(buffer).operations += n;
        self.counters.count(buffer).store_instructions += 1;
        self.store_lanes(buffer, (index, value), on, |cell, v, positions| Ok(cell.write(v, positions)?))
    }

    /// Evaluates where and what, and applies `change` to the element of every lane that is on.
    pub(super) fn store_lanes(
        &mut self,
        buffer: &Flat,
        (index, value): (&Expr, &Expr),
        on: Option<&Expr>,
        change: impl Fn(&mut Cell, Value, &Positions) -> Fallible<()>,
    ) -> Fallible<()> {
        let (index, value) = (self.eval(index)?, self.eval(value)?);
        let on = on.map(|p| self.eval(p)).transpose()?;
        for l in 0..index.len() {
            if on.as_ref().is_some_and(|p| p[l] == Value::Int(0)) {
                continue;
            }
            let i = index[l].as_int().unwrap_or(0);
            let v = value[l.min(value.len() - 1)];
            let (cell, positions) = self.flat_element(buffer, i)?;
            change(cell, v, positions).map_err(|e| format!("{buffer}[{i}] {e}"))?;
            self.counters.count(buffer).stores += 1;
        }
        Ok(())
    }

    /// An element of a flat buffer.
    pub(super) fn flat_element(&mut self, buffer: &Flat, index: i64) -> Fallible<(&mut Cell, &Positions)> {
        let memory = match self.allocated.get_mut(buffer) {
            Some(m) => m,
            None => {
                let of = self.in_place.get(&buffer.of).unwrap_or(&buffer.of);
                let b = self.buffers.get_mut(of).and_then(|b| b.memory(buffer.content));
                b.ok_or_else(|| format!("no buffer {buffer}"))?
            }
        };
        let n = memory.elements.len();
        let cell = memory.at(index).ok_or_else(|| format!("{buffer}[{index}] of {n} is outside"))?;
        Ok((cell, &self.positions))
    }

    /// The slot of a point in intermediate storage.
    fn slot(&self, func: &Name, at: &[i64]) -> Fallible<Vec<i64>> {
        let folds = self.folds.get(func).map_or(&[][..], |f| f);
        let region = &self.realized[func].region;
        let mut slot = vec![];
        for (d, (&c, &(min, extent))) in at.iter().zip(region).enumerate() {
            match folds.get(d).copied().flatten() {
                Some(n) => slot.push(c.rem_euclid(n as i64)),
                None if c < min || c >= min + extent => {
                    return Err(format!("{func}{at:?} is outside of its storage {region:?}"));
                }
                None if self.windows.contains(func) => slot.push(c - min),
                None => slot.push(c),
            }
        }
        Ok(slot)
    }

    /// Stores the values of a Func at a point, all computed before any is stored.
    fn provide(&mut self, func: &Name, args: &[Expr], values: &[Expr], to: &Target) -> Fallible<()> {
        self.chain = 0;
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        let results: Vec<Value> = values.iter().map(|v| Ok(self.eval(v)?[0])).collect::<Fallible<_>>()?;
        let intermediate = *to == Target::Intermediate && self.realized.contains_key(func);
        // A sink stores the value that was just stored in intermediate storage: not computed again.
        let computes = intermediate || !self.realized.contains_key(func);
        if computes {
            let address = values.as_ptr() as usize;
            let n = *self.operations.entry(address).or_insert_with(|| operations(values));
            self.counters.computed(func, &at, n);
        }
        let now = self.counters.operations;
        for (k, v) in results.into_iter().enumerate() {
            let read = self.chain;
            let (cell, positions) = match intermediate {
                true => self.slot_cell(func, &at, k)?,
                false => self.output_cell(func, &at, k)?,
            };
            cell.write(v, positions).map_err(|e| format!("{func}{at:?} {e}"))?;
            let chain = 1 + read.max(cell.chain).max(cell.read_chain);
            (cell.chain, cell.read_chain, cell.written_at) = (chain, 0, now);
            self.counters.chain = self.counters.chain.max(chain);
        }
        let f = self.counters.count(func);
        *(if intermediate { &mut f.stores } else { &mut f.output_stores }) += 1;
        Ok(())
    }

    pub(super) fn is_realized(&self, func: &Name) -> bool {
        self.realized.contains_key(func)
    }

    pub(super) fn slot_cell(
        &mut self,
        func: &Name,
        at: &[i64],
        k: usize,
    ) -> Fallible<(&mut Cell, &Positions)> {
        let slot = self.slot(func, at)?;
        let r = self.realized.get_mut(func).ok_or_else(|| format!("{func} has no storage"))?;
        if r.planes.len() <= k {
            r.planes.resize_with(k + 1, FxHashMap::default);
        }
        Ok((r.planes[k].entry(slot).or_default(), &self.positions))
    }

    pub(super) fn output_cell(
        &mut self,
        func: &Name,
        at: &[i64],
        k: usize,
    ) -> Fallible<(&mut Cell, &Positions)> {
        let point: Vec<i32> = at.iter().map(|&c| c as i32).collect();
        let name = self.in_place.get(func).unwrap_or(func);
        let b = self.buffers.get_mut(name).ok_or_else(|| format!("{func} has no storage"))?;
        let cell = b.element(k, &point).ok_or_else(|| format!("{func}{at:?} is outside"))?;
        Ok((cell, &self.positions))
    }

    /// The value of a Func or input at a point.
    pub(super) fn call(&mut self, name: &Name, args: &[Expr], k: usize) -> Fallible<Value> {
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        let computed = self.realized.contains_key(name);
        let (cell, positions) = match computed {
            true => self.slot_cell(name, &at, k)?,
            false => self.output_cell(name, &at, k)?,
        };
        let v = cell.read(positions).map_err(|e| format!("{name}{at:?} {e}"))?;
        let (chain, written_at) = (cell.chain, cell.written_at);
        // The reading statement's value will be one longer.
        cell.read_chain = cell.read_chain.max(chain + 1);
        self.chain = self.chain.max(chain);
        let distance = if chain > 0 { self.counters.operations - written_at } else { 0 };
        let f = self.counters.count(name);
        f.loads += 1;
        f.load_instructions += 1;
        f.reuse_distance = f.reuse_distance.max(distance);
        Ok(v)
    }
}

/// Arithmetic of expressions, each distinct node once; what is inside of coordinates is not the Func's work.
fn operations<'a>(values: impl IntoIterator<Item = &'a Expr>) -> usize {
    let mut seen = FxHashSet::default();
    let mut stack: Vec<&Expr> = values.into_iter().collect();
    let mut n = 0;
    while let Some(e) = stack.pop() {
        if !seen.insert(e.id()) {
            continue;
        }
        match e.operation() {
            ExprKind::Call { .. } | ExprKind::Load { .. } => continue,
            ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Select(..) => n += 1,
            ExprKind::Fma(..) => n += 2,
            _ => {}
        }
        e.for_each_child(|c| stack.push(c));
    }
    n
}
