//! The body of one vectorised loop.

use super::reduction;
use crate::analysis::algebra::rebuild::splat;
use crate::analysis::associative::identity;
use crate::expr::walk::{Memo, rewrite, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, for_each_child};
use crate::ir::stmt::Stmt;
use crate::lower::simplify::{Indices, simplify_expr, simplify_index};
use crate::schedule::ForKind;
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Knowledge inside the body of a vectorised loop.
pub(super) struct Lanes {
    lanes: u16,
    /// Values of the loop variable and of names bound to vectors.
    vectors: FxHashMap<Name, Expr>,
    /// Lanes that run; all if none. At least one lane runs wherever a statement is emitted.
    mask: Option<Expr>,
    /// Buffers allocated inside, with a slot per lane.
    private: FxHashSet<Flat>,
    memo: Memo,
    indices: Indices,
}

/// The rule that a loop breaks.
type Rule = String;

impl Lanes {
    pub(super) fn new(var: &Name, min: &Expr, lanes: u16) -> Result<Lanes, Rule> {
        let one = Expr::int(min.ty(), 1);
        let ramp = Expr::new(ExprKind::Ramp(min.clone(), one), min.ty().with_lanes(lanes));
        Ok(Lanes {
            lanes,
            vectors: FxHashMap::from_iter([(var.clone(), ramp)]),
            mask: None,
            private: FxHashSet::default(),
            memo: Memo::default(),
            indices: Indices::new(),
        })
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
                let cond = match &self.mask {
                    Some(m) if cond.ty().lanes > 1 => m.not_().or(cond),
                    _ => cond,
                };
                let cond = reduce(BinaryOp::And, cond);
                Ok(Stmt::Assert { cond, message: message.clone(), args: args.clone() })
            }
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => {
                let extent = self.expr(extent);
                if extent.ty().lanes > 1 {
                    return Err(format!("the size of {buffer}, computed inside, differs between lanes"));
                }
                let extent = simplify_index(&(extent * self.lanes as i64));
                let outer = self.private.insert(buffer.clone());
                self.memo.clear();
                let body = Box::new(self.stmt(body)?);
                if outer {
                    self.private.remove(buffer);
                }
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
                Ok(self.accumulate(buffer, *op, index, value, predicate.as_ref()))
            }
            Stmt::Realize { func, .. } | Stmt::Provide { func, .. } => {
                Err(format!("{func} is not flattened (vectorising follows flattening)"))
            }
            Stmt::Produce { body, .. } => self.stmt(body),
        }
    }

    /// A value with the lanes it needs.
    fn expr(&mut self, e: &Expr) -> Expr {
        let Lanes { lanes, vectors, mask, private, memo, indices } = self;
        rewrite(e, memo, &mut |old, new| match old.kind() {
            ExprKind::Var(n) => vectors.get(n).cloned().unwrap_or(new),
            ExprKind::Load { buffer, .. } => {
                let ExprKind::Load { index, predicate, .. } = new.kind() else { return new };
                let index =
                    if private.contains(buffer) { slot(index, *lanes) } else { indices.simplify(index) };
                let predicate = if index.ty().lanes > 1 {
                    let own = predicate.as_ref().map(|p| splat(p.clone(), *lanes));
                    conjunction(mask.clone(), own)
                } else {
                    predicate.clone()
                };
                let ty = new.ty().with_lanes(index.ty().lanes);
                Expr::new(ExprKind::Load { buffer: buffer.clone(), index, predicate }, ty)
            }
            _ => widen(&new),
        })
    }

    fn let_(&mut self, name: &Name, value: &Expr, body: &Stmt) -> Result<Stmt, Rule> {
        let value = self.expr(value);
        let vector = value.ty().lanes > 1;
        // Affine values are substituted, so that indices made of them are seen to be dense.
        let simple = self.indices.simplify(&value);
        let affine = matches!(simple.kind(), ExprKind::Ramp(..) | ExprKind::Broadcast(_));
        let by = match (vector, affine) {
            (false, _) => None,
            (true, true) => Some(simple),
            (true, false) => Some(Expr::new(ExprKind::Var(name.clone()), value.ty())),
        };
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
        by: Option<Expr>,
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
        let outer = self.mask.clone();
        self.mask = conjunction(outer.clone(), Some(splat(cond, self.lanes)));
        self.memo.clear();
        let r = f(self);
        self.mask = outer;
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
        match kind {
            ForKind::Serial => {}
            kind if kind.is_vector() => return Err(format!("loop {var} inside it is vectorised too")),
            kind if kind.is_parallel() => return Err(format!("loop {var} inside it is parallel")),
            _ => return Err(format!("loop {var} inside it is not unrolled yet")),
        }
        let (min, extent) = (simplify_index(&self.expr(min)), simplify_index(&self.expr(extent)));
        if min.ty().lanes == 1 && extent.ty().lanes == 1 {
            let body = Box::new(self.bound(var, None, |l| l.stmt(body))?);
            return Ok(Stmt::For { var: var.clone(), min, extent, kind, body });
        }
        if let Some(met) = self.in_step(var, &min, &extent, body) {
            return Ok(met);
        }
        // Lane l runs var = min_l + r for r in [0, extent_l).
        let scalar = Type::of(extent.ty().scalar);
        let zero = splat(Expr::int(scalar, 0), self.lanes);
        let extent = splat(extent, self.lanes);
        let active = match &self.mask {
            Some(m) => Expr::select(m, &extent, zero),
            None => extent.clone(),
        };
        let r = if min.as_int() == Some(0) { var.clone() } else { format!("{var}.lane").into() };
        let counter = Expr::new(ExprKind::Var(r.clone()), scalar);
        let inside = splat(counter.clone(), self.lanes).lt(extent);
        let value = simplify_index(&(splat(min, self.lanes) + splat(counter, self.lanes)));
        let (vector, same) = match value.kind() {
            ExprKind::Broadcast(v) => (None, Some(v.clone())),
            _ => (Some(value), None),
        };
        let mut body = self.bound(var, vector, |l| l.masked(inside, |l| l.stmt(body)))?;
        // All lanes start at one value, which is not where the counter starts.
        if let Some(value) = same.filter(|_| r != *var) {
            body = Stmt::Let { name: var.clone(), value, body: Box::new(body) };
        }
        let longest = reduce(BinaryOp::Max, active);
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
        let (scalar, lanes) = (Type::of(extent.ty().scalar), self.lanes);
        let extent = splat(extent.clone(), lanes);
        let (end, runs) = (min + &extent, extent.gt(splat(Expr::int(scalar, 0), lanes)));
        let runs = conjunction(self.mask.clone(), Some(runs))?;
        let all = |op, ends: Expr| {
            let none = splat(identity(op, scalar.scalar), lanes);
            reduce(op, Expr::select(runs.clone(), ends, none))
        };
        let counter = splat(Expr::new(ExprKind::Var(var.clone()), scalar), lanes);
        let inside = counter.ge(min.clone()).and(counter.lt(end.clone()));
        let body = self.bound(var, None, |l| l.masked(inside, |l| l.stmt(body))).ok()?;
        if !combines_at(&body, &mut FxHashSet::from_iter([var.clone()])) {
            return None;
        }
        let first = all(BinaryOp::Min, min.clone());
        // Where none runs, both are what no lane has.
        let extent = Expr::select(
            reduce(BinaryOp::Or, runs.clone()),
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
        let any = match conjunction(self.mask.clone(), Some(cond)) {
            Some(c) => simplify_expr(&reduce(BinaryOp::Or, c)),
            None => return Ok(body),
        };
        Ok(Stmt::If { cond: any, then: Box::new(body), otherwise: None })
    }

    fn store(&mut self, s: Stmt) -> Result<Stmt, Rule> {
        let Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } = s else { return Ok(s) };
        let private = self.private.contains(&buffer);
        let at = self.expr(&index);
        let at = if private { slot(&at, self.lanes) } else { self.indices.simplify(&at) };
        let (value, predicate) = if at.ty().lanes > 1 {
            let own = predicate.map(|p| splat(p, self.lanes));
            (splat(self.expr(&value), self.lanes), conjunction(self.mask.clone(), own))
        } else if let Some((op, rest)) = reduction::accumulation(&buffer, &index, &value) {
            let own = predicate.map(|p| splat(p, self.lanes));
            let active = conjunction(self.mask.clone(), own);
            let ty = value.ty().with_lanes(self.lanes);
            let (old, rest) =
                (reduction::old_value(&buffer, &at, value.ty()), splat(self.expr(&rest), self.lanes));
            let identity = identity(op, ty.scalar);
            let rest = match active {
                Some(m) => Expr::select(m, rest, splat(identity, self.lanes)),
                None => rest,
            };
            (Expr::binary(op, old, reduce(op, rest)), None)
        } else {
            let value = self.expr(&value);
            if value.ty().lanes > 1 || reduction::reads(&value, &buffer) {
                return Err(format!(
                    "all lanes store to the same element of {buffer}, and it is no sum, product, min, max, and, or \
                     over them"
                ));
            }
            (value, predicate.map(|p| reduce(BinaryOp::Or, p)))
        };
        Ok(Stmt::Store { buffer, index: at, value, predicate, aligned, non_temporal })
    }
}

impl Lanes {
    /// One update per lane, or one of all lanes together where they meet at one element.
    fn accumulate(
        &mut self,
        buffer: &Flat,
        op: BinaryOp,
        index: &Expr,
        value: &Expr,
        predicate: Option<&Expr>,
    ) -> Stmt {
        let private = self.private.contains(buffer);
        let at = self.expr(index);
        let at = if private { slot(&at, self.lanes) } else { self.indices.simplify(&at) };
        let value = splat(self.expr(value), self.lanes);
        let own = predicate.map(|p| splat(self.expr(p), self.lanes));
        let active = conjunction(self.mask.clone(), own);
        let (value, predicate) = match (at.ty().lanes > 1, active) {
            (true, active) => (value, active),
            (false, None) => (reduce(op, value), None),
            (false, Some(m)) => {
                let identity = splat(identity(op, value.ty().scalar), self.lanes);
                (reduce(op, Expr::select(m, value, identity)), None)
            }
        };
        Stmt::Accumulate { buffer: buffer.clone(), op, index: at, value, predicate }
    }
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

/// Index of this lane's slot in a buffer allocated inside.
fn slot(index: &Expr, lanes: u16) -> Expr {
    let vector = splat(index.clone(), lanes);
    let i64s = |v: i64| Expr::int(ScalarType::I64, v);
    let lane = Expr::new(ExprKind::Ramp(i64s(0), i64s(1)), Type::I64.with_lanes(lanes));
    simplify_index(&(vector * splat(i64s(lanes as i64), lanes) + lane))
}

/// Scalar operands of a vector node are broadcast.
fn widen(e: &Expr) -> Expr {
    let lanes = e.ty().lanes;
    if lanes == 1 || matches!(e.kind(), ExprKind::Ramp(..) | ExprKind::Broadcast(_)) {
        return e.clone();
    }
    let mut children = vec![];
    e.for_each_child(|c| children.push(splat(c.clone(), lanes)));
    e.with_children(children)
}

fn conjunction(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(simplify_expr(&a.and(b))),
        (a, b) => a.or(b),
    }
}

/// Reduction over lanes; a scalar is its own.
fn reduce(op: BinaryOp, e: Expr) -> Expr {
    if e.ty().lanes == 1 {
        return e;
    }
    let ty = Type::of(e.ty().scalar);
    Expr::new(ExprKind::VectorReduce(op, e), ty)
}
