//! The body of vectorised loops.

use super::masks::Masks;
use super::reduction;
use super::spread::spread;
use crate::analysis::algebra::poly::is_index;
use crate::analysis::associative::identity;
use crate::expr::walk::{Memo, rewrite, uses_var, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, for_each_child};
use crate::ir::stmt::Stmt;
use crate::lower::simplify::{Indices, simplify_expr, simplify_index};
use crate::schedule::ForKind;
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most lanes of a vector.
const MOST: i64 = 256;

/// Knowledge inside the bodies of vectorised loops. A value has the lanes of the innermost loop that it depends on, which are those of the loops around
/// as well, and is spread where it meets one of more.
pub(super) struct Lanes {
    /// Of the outermost loop, of it and the next one inside, and so on.
    levels: Vec<u16>,
    /// They are threads of a GPU.
    warp: bool,
    /// Values of loop variables and of names bound to vectors.
    vectors: FxHashMap<Name, Vector>,
    /// Lanes that run. At least one lane runs wherever a statement is emitted.
    masks: Masks,
    /// Buffers allocated inside, with a slot for each of so many lanes.
    private: FxHashMap<Flat, u16>,
    memo: Memo,
    indices: Indices,
}

#[derive(Clone)]
struct Vector {
    value: Expr,
    /// The loops whose iterations it tells apart, a bit each, the outermost the lowest.
    loops: u8,
}

/// The rule that a loop breaks.
type Rule = String;

impl Lanes {
    pub(super) fn new(kind: ForKind) -> Lanes {
        Lanes {
            levels: vec![],
            warp: kind == ForKind::GpuLane,
            vectors: FxHashMap::default(),
            masks: Masks::default(),
            private: FxHashMap::default(),
            memo: Memo::default(),
            indices: Indices::new(),
        }
    }

    /// All lanes.
    fn lanes(&self) -> u16 {
        self.levels.last().copied().unwrap_or(1)
    }

    /// The body of a loop of `n` iterations, each of the lanes around so often, the iterations beside each other.
    pub(super) fn vector(&mut self, var: &Name, min: &Expr, n: i64, body: &Stmt) -> Result<Stmt, Rule> {
        let lanes = n * i64::from(self.lanes());
        if !(2..=MOST).contains(&lanes) {
            return Err(format!("{lanes} lanes are not possible: 1 to {MOST}"));
        }
        let (lanes, scalar) = (lanes as u16, min.ty().scalar);
        let int = |v| Expr::int(scalar, v);
        let lane = Expr::new(ExprKind::Ramp(int(0), int(1)), Type::of(scalar).with_lanes(lanes));
        let own = Expr::binary(BinaryOp::Mod, lane, spread(int(n), lanes));
        let value = simplify_index(&(spread(min.clone(), lanes) + own));
        let loops = 1 << self.levels.len();
        self.levels.push(lanes);
        let body = self.bound(var, Some(Vector { value, loops }), |l| l.stmt(body));
        self.levels.pop();
        body
    }

    /// The loops whose iterations an expression of the body may tell apart.
    fn loops(&self, e: &Expr) -> u8 {
        let mut loops = 0;
        visit(e, &mut |n| {
            if let ExprKind::Var(name) = n.kind() {
                loops |= self.vectors.get(name).map_or(0, |v| v.loops);
            }
            true
        });
        loops
    }

    pub(super) fn stmt(&mut self, s: &Stmt) -> Result<Stmt, Rule> {
        match s {
            Stmt::Block(v) => Ok(block(v.iter().map(|s| self.stmt(s)).collect::<Result<_, _>>()?)),
            Stmt::Let { name, value, body } => self.let_(name, value, body),
            Stmt::For { var, min, extent, kind, body } => self.for_(var, min, extent, *kind, body),
            Stmt::If { cond, then, otherwise } => self.if_(cond, then, otherwise.as_deref()),
            Stmt::Assert { cond, message, args } => {
                if args.iter().any(|a| self.expr(a).ty().lanes > 1) {
                    return Err("an assertion inside has arguments that differ between lanes".into());
                }
                let cond = self.expr(cond);
                let lanes = self.lanes();
                let cond = match self.masks.at(lanes) {
                    Some(m) if cond.ty().lanes > 1 => m.not_().or(spread(cond, lanes)),
                    _ => cond,
                };
                let cond = reduce(BinaryOp::And, cond, 1);
                Ok(Stmt::Assert { cond, message: message.clone(), args: args.clone() })
            }
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => {
                let extent = self.expr(extent);
                if extent.ty().lanes > 1 {
                    return Err(format!("the size of {buffer}, computed inside, differs between lanes"));
                }
                let lanes = self.lanes();
                let extent = simplify_index(&(extent * i64::from(lanes)));
                let outer = self.private.insert(buffer.clone(), lanes);
                self.memo.clear();
                let body = Box::new(self.stmt(body)?);
                match outer {
                    Some(outer) => self.private.insert(buffer.clone(), outer),
                    None => self.private.remove(buffer),
                };
                self.memo.clear();
                Ok(Stmt::Allocate {
                    buffer: buffer.clone(),
                    ty: *ty,
                    extent,
                    memory: *memory,
                    zeroed: *zeroed,
                    body,
                })
            }
            Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } => {
                let predicate = predicate.as_ref().map(|p| self.expr(p));
                let plain = Stmt::Store {
                    buffer: buffer.clone(),
                    index: index.clone(),
                    value: value.clone(),
                    predicate,
                    aligned: *aligned,
                    non_temporal: *non_temporal,
                };
                self.store(plain)
            }
            Stmt::Prefetch { .. } => Err("a prefetch was left by flattening".into()),
            Stmt::PrefetchByte { buffer, .. } => Err(format!("{} is prefetched inside of it", buffer.of)),
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                let at = self.place(buffer, index);
                let (value, own) = (self.expr(value), predicate.as_ref().map(|p| self.expr(p)));
                let (value, predicate) = self.combined(*op, value, own, at.ty().lanes);
                Ok(Stmt::Accumulate { buffer: buffer.clone(), op: *op, index: at, value, predicate })
            }
            Stmt::Realize { func, .. } | Stmt::Provide { func, .. } => {
                Err(format!("{func} is not flattened (vectorising follows flattening)"))
            }
            Stmt::Produce { body, .. } => self.stmt(body),
        }
    }

    /// A value with the lanes it needs.
    fn expr(&mut self, e: &Expr) -> Expr {
        let Lanes { vectors, masks, private, memo, indices, .. } = self;
        rewrite(e, memo, &mut |old, new| match old.kind() {
            ExprKind::Var(n) => vectors.get(n).map_or(new, |v| v.value.clone()),
            ExprKind::Load { buffer, .. } => {
                let ExprKind::Load { index, predicate, .. } = new.kind() else { return new };
                let index = match private.get(buffer) {
                    Some(&lanes) => slot(index, lanes),
                    None => indices.simplify(index),
                };
                let own = predicate.as_ref().map_or(1, |p| p.ty().lanes);
                let lanes = own.max(index.ty().lanes);
                let predicate = masks.with(predicate.clone()).at(lanes);
                let ty = new.ty().with_lanes(lanes);
                let index = spread(index, lanes);
                Expr::new(ExprKind::Load { buffer: buffer.clone(), index, predicate }, ty)
            }
            _ => widen(&new),
        })
    }

    /// The index of an element that is stored.
    fn place(&mut self, buffer: &Flat, index: &Expr) -> Expr {
        let at = self.expr(index);
        match self.private.get(buffer) {
            Some(&lanes) => slot(&at, lanes),
            None => self.indices.simplify(&at),
        }
    }

    fn let_(&mut self, name: &Name, value: &Expr, body: &Stmt) -> Result<Stmt, Rule> {
        let (value, loops) = (self.expr(value), self.loops(value));
        let vector = value.ty().lanes > 1;
        // Affine values are substituted, so that indices made of them are seen to be dense.
        let simple = self.indices.simplify(&value);
        let affine = matches!(simple.kind(), ExprKind::Ramp(..) | ExprKind::Broadcast(_))
            || self.levels.len() > 1 && is_index(value.ty()) && !reduction::reads_memory(&simple);
        let by = match affine {
            true => simple,
            false => Expr::new(ExprKind::Var(name.clone()), value.ty()),
        };
        let by = vector.then_some(Vector { value: by, loops });
        let body = self.bound(name, by, |l| l.stmt(body))?;
        if vector && affine {
            return Ok(body);
        }
        Ok(Stmt::Let { name: name.clone(), value, body: Box::new(body) })
    }

    /// Runs `f` where `name` stands for a vector, or for a scalar of that name.
    fn bound<T>(
        &mut self,
        name: &Name,
        by: Option<Vector>,
        f: impl FnOnce(&mut Lanes) -> Result<T, Rule>,
    ) -> Result<T, Rule> {
        let outer = match by {
            Some(v) => self.vectors.insert(name.clone(), v),
            None => self.vectors.remove(name),
        };
        self.memo.clear();
        let r = f(self);
        match outer {
            Some(v) => self.vectors.insert(name.clone(), v),
            None => self.vectors.remove(name),
        };
        self.memo.clear();
        r
    }

    /// Runs `f` where only lanes of `cond` run.
    fn masked<T>(&mut self, cond: Expr, f: impl FnOnce(&mut Lanes) -> Result<T, Rule>) -> Result<T, Rule> {
        let inside = self.masks.with(Some(cond));
        let outer = std::mem::replace(&mut self.masks, inside);
        self.memo.clear();
        let r = f(self);
        self.masks = outer;
        self.memo.clear();
        r
    }

    fn for_(
        &mut self,
        var: &Name,
        min: &Expr,
        extent: &Expr,
        kind: ForKind,
        body: &Stmt,
    ) -> Result<Stmt, Rule> {
        let first = min;
        let (min, extent) = (simplify_index(&self.expr(min)), simplify_index(&self.expr(extent)));
        match kind {
            ForKind::Serial => {}
            ForKind::Vectorized if !self.warp => {
                return match extent.as_int() {
                    Some(1) => self.let_(var, first, body),
                    Some(n) => self
                        .vector(var, &min, n, body)
                        .map_err(|rule| format!("loop {var} inside it: {rule}")),
                    None => Err(format!(
                        "the extent {extent} of loop {var} inside it is no constant: split by a constant first"
                    )),
                };
            }
            kind if kind.is_vector() => {
                return Err(format!("loop {var} inside it is vectorised too, and lanes are threads"));
            }
            kind if kind.is_parallel() => return Err(format!("loop {var} inside it is parallel")),
            _ => return Err(format!("loop {var} inside it is not unrolled yet")),
        }
        let lanes = min.ty().lanes.max(extent.ty().lanes);
        if lanes == 1 {
            let body = Box::new(self.bound(var, None, |l| l.stmt(body))?);
            return Ok(Stmt::For { var: var.clone(), min, extent, kind, body });
        }
        if let Some(met) = self.in_step(var, &min, &extent, body) {
            return Ok(met);
        }
        // Lane l runs var = min_l + r for r in [0, extent_l).
        let scalar = Type::of(extent.ty().scalar);
        let zero = spread(Expr::int(scalar, 0), lanes);
        let extent = spread(extent, lanes);
        let active = match self.masks.at(lanes) {
            Some(m) => Expr::select(m, &extent, zero),
            None => extent.clone(),
        };
        let r = if min.as_int() == Some(0) { var.clone() } else { format!("{var}.lane").into() };
        let counter = Expr::new(ExprKind::Var(r.clone()), scalar);
        let inside = spread(counter.clone(), lanes).lt(extent);
        let value = simplify_index(&(spread(min, lanes) + spread(counter, lanes)));
        let (vector, same) = match value.kind() {
            ExprKind::Broadcast(v) => (None, Some(v.clone())),
            // Lanes of one value may be at different iterations, and those of different ones at the same.
            _ => (Some(Vector { value, loops: 0 }), None),
        };
        let mut body = self.bound(var, vector, |l| l.masked(inside, |l| l.stmt(body)))?;
        // All lanes start at one value, which is not where the counter starts.
        if let Some(value) = same.filter(|_| r != *var) {
            body = Stmt::Let { name: var.clone(), value, body: Box::new(body) };
        }
        let longest = reduce(BinaryOp::Max, active, 1);
        let (min, body) = (Expr::int(scalar, 0), Box::new(body));
        Ok(Stmt::For { var: r, min, extent: longest, kind, body })
    }

    /// An inner loop that begins elsewhere in each lane, with all lanes at the same iteration: from the first of any lane to the last of any.
    ///
    /// None unless `body` then combines all lanes at one element, which `var` tells. With each lane at an iteration of its own, several would
    /// write one element at a time, and one of their updates would last.
    fn in_step(&mut self, var: &Name, min: &Expr, extent: &Expr, body: &Stmt) -> Option<Stmt> {
        if min.ty().lanes == 1 {
            return None;
        }
        let (scalar, lanes) = (Type::of(extent.ty().scalar), min.ty().lanes.max(extent.ty().lanes));
        let [min, extent] = [min, extent].map(|e| spread(e.clone(), lanes));
        let (end, runs) = (&min + &extent, extent.gt(spread(Expr::int(scalar, 0), lanes)));
        let runs = self.masks.with(Some(runs)).at(lanes)?;
        let all = |op, ends: Expr| {
            let none = spread(identity(op, scalar.scalar), lanes);
            reduce(op, Expr::select(runs.clone(), ends, none), 1)
        };
        let counter = spread(Expr::new(ExprKind::Var(var.clone()), scalar), lanes);
        let inside = counter.ge(min.clone()).and(counter.lt(end.clone()));
        let body = self.bound(var, None, |l| l.masked(inside, |l| l.stmt(body))).ok()?;
        if !combines_at(&body, &mut FxHashSet::from_iter([var.clone()])) {
            return None;
        }
        let first = all(BinaryOp::Min, min);
        // Where none runs, both are what no lane has.
        let extent = Expr::select(
            reduce(BinaryOp::Or, runs.clone(), 1),
            all(BinaryOp::Max, end) - &first,
            Expr::int(scalar, 0),
        );
        Some(Stmt::For { var: var.clone(), min: first, extent, kind: ForKind::Serial, body: Box::new(body) })
    }

    fn if_(&mut self, cond: &Expr, then: &Stmt, otherwise: Option<&Stmt>) -> Result<Stmt, Rule> {
        let cond = simplify_expr(&self.expr(cond));
        if cond.ty().lanes == 1 {
            let then = Box::new(self.stmt(then)?);
            let otherwise = otherwise.map(|o| self.stmt(o)).transpose()?.map(Box::new);
            return Ok(Stmt::If { cond, then, otherwise });
        }
        let mut out = vec![self.some_lane(cond.clone(), then)?];
        if let Some(o) = otherwise {
            let cond = match cond.kind() {
                ExprKind::Likely(c) => c.not_(),
                _ => cond.not_(),
            };
            // The condition is evaluated before either branch runs: it must not read what the first one stores.
            if super::reduction::reads_memory(&cond) {
                return Err(
                    "an if-else inside has a condition that reads memory and differs between lanes".into()
                );
            }
            out.push(self.some_lane(cond, o)?);
        }
        Ok(block(out))
    }

    /// `body` in the lanes where `cond` holds, if there are any.
    fn some_lane(&mut self, cond: Expr, body: &Stmt) -> Result<Stmt, Rule> {
        let body = self.masked(cond.clone(), |l| l.stmt(body))?;
        let any = match self.masks.with(Some(cond)).at(self.lanes()) {
            Some(c) => simplify_expr(&reduce(BinaryOp::Or, c, 1)),
            None => return Ok(body),
        };
        Ok(Stmt::If { cond: any, then: Box::new(body), otherwise: None })
    }

    /// One store per lane, or one of all lanes together that meet at one element.
    fn store(&mut self, s: Stmt) -> Result<Stmt, Rule> {
        let Stmt::Store { buffer, index, value, predicate: own, aligned, non_temporal } = s else {
            return Ok(s);
        };
        let at = self.place(&buffer, &index);
        let lanes = at.ty().lanes;
        let around = self.levels.iter().filter(|n| **n <= lanes).count();
        let private = self.private.get(&buffer).map_or(0, |n| self.levels.partition_point(|l| l <= n));
        let missing = !(self.loops(&index) | prefix(private)) & prefix(around);
        if lanes > 1 && missing != 0 {
            return Err(format!(
                "its lanes meet at elements of {buffer}, and those of a loop inside of it do not: reorder it inside of \
                 that one"
            ));
        }
        let (value, predicate) = if lanes == self.lanes() {
            (spread(self.expr(&value), lanes), self.masks.with(own).at(lanes))
        } else if let Some((op, rest)) = reduction::accumulation(&buffer, &index, &value) {
            let rest = self.expr(&rest);
            let (rest, predicate) = self.combined(op, rest, own, lanes);
            let old = reduction::old_value(&buffer, &at, value.ty(), predicate.clone());
            (Expr::binary(op, old, rest), predicate)
        } else {
            let value = self.expr(&value);
            if value.ty().lanes > lanes || reduction::reads(&value, &buffer) {
                return Err(format!(
                    "all lanes store to the same element of {buffer}, and it is no sum, product, min, max, and, or \
                     over them"
                ));
            }
            let own = own.map(|p| if p.ty().lanes > lanes { reduce(BinaryOp::Or, p, lanes) } else { p });
            (spread(value, lanes), self.masks.with(own).at(lanes))
        };
        Ok(Stmt::Store { buffer, index: at, value, predicate, aligned, non_temporal })
    }

    /// The values that `lanes` elements are combined with, at each of which some lanes meet, and where: a lane that does not run has nothing to combine.
    fn combined(&self, op: BinaryOp, value: Expr, own: Option<Expr>, lanes: u16) -> (Expr, Option<Expr>) {
        let all = self.lanes();
        let (value, masks) = (spread(value, all), self.masks.with(own));
        let value = match masks.finer(lanes) {
            Some(m) => Expr::select(spread(m, all), &value, spread(identity(op, value.ty().scalar), all)),
            None => value,
        };
        (reduce(op, value, lanes), masks.at(lanes))
    }
}

/// The lowest `n` bits.
fn prefix(n: usize) -> u8 {
    (0..n).fold(0, |bits, i| bits | 1 << i)
}

/// True if a statement, lanes taken together, stores at one element that follows from some of these names.
fn combines_at(s: &Stmt, names: &mut FxHashSet<Name>) -> bool {
    let follows = |e: &Expr, names: &FxHashSet<Name>| names.iter().any(|name| uses_var(e, name));
    match s {
        Stmt::Let { name, value, .. } if follows(value, names) => drop(names.insert(name.clone())),
        Stmt::Store { index, .. } | Stmt::Accumulate { index, .. } => {
            return index.ty().lanes == 1 && follows(index, names);
        }
        _ => {}
    }
    let mut found = false;
    for_each_child(s, &mut |child| found = found || combines_at(child, names));
    found
}

/// Index of each lane's slot in a buffer with slots for `lanes` of them.
fn slot(index: &Expr, lanes: u16) -> Expr {
    let all = index.ty().lanes.max(lanes);
    let i64s = |v: i64| Expr::int(ScalarType::I64, v);
    let lane = Expr::new(ExprKind::Ramp(i64s(0), i64s(1)), Type::I64.with_lanes(lanes));
    let first = spread(index.clone(), all) * spread(i64s(lanes.into()), all);
    simplify_index(&(first + spread(lane, all)))
}

/// Operands of fewer lanes are spread.
fn widen(e: &Expr) -> Expr {
    let lanes = e.ty().lanes;
    if lanes == 1 || matches!(e.kind(), ExprKind::Ramp(..) | ExprKind::Broadcast(_)) {
        return e.clone();
    }
    let mut children = vec![];
    e.for_each_child(|c| children.push(spread(c.clone(), lanes)));
    e.with_children(children)
}

/// Reduction of neighbouring lanes to `lanes`; as many as those are themselves.
pub(super) fn reduce(op: BinaryOp, e: Expr, lanes: u16) -> Expr {
    if e.ty().lanes == lanes { e } else { Expr::reduced(op, e, lanes) }
}
