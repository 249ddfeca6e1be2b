//! Invariants of statements. Checked between passes in tests and debug builds; a violation is a bug of the pass before.
//!
//! At every level:
//! - every `Var` is bound by an enclosing `Let` or `For`, with the type of its binding;
//! - operands of arithmetic and comparisons have one type; conditions are bool; arms of a select have one type;
//! - lanes: a node has the lanes of its operands; a `Ramp` or `Broadcast` widens scalars; a `VectorReduce` gives one lane for each group of
//!   as many, an `Interleave` or `Concat` those of all its operands;
//! - coordinates are i32, flat indices and strides i64, a load's predicate is bool of its index's lanes.
//!
//! By level:
//! - [`Level::Multi`] (before flattening): no `Allocate`, `Store`, `Load`.
//! - [`Level::Flat`] (after): no `Realize`, `Provide`, `Call`; `Produce` only where profiled.
//! - [`Level::Vector`] (after vectorising): also no `Vectorized` or `Unrolled` loop; conditions of `If`, bounds of loops, sizes
//!   and assertions are scalar; a store's value and predicate have its index's lanes. Before it, there are no vectors at all.
//!
//! Not checked: that indices lie in their buffers, that parallel iterations are independent.

use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Levels to which a statement may be lowered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Coordinates.
    Multi,
    /// Flat buffers.
    Flat,
    /// Flat buffers and vectors.
    Vector,
}

/// The first violation found, in words.
pub fn verify(s: &Stmt, level: Level) -> Result<(), String> {
    Verifier { level, scope: FxHashMap::default(), seen: FxHashSet::default(), order: vec![] }.stmt(s)
}

struct Verifier {
    level: Level,
    scope: FxHashMap<Name, Type>,
    /// Nodes found correct in the current scope.
    seen: FxHashSet<usize>,
    /// These, as they were found: those of a scope go with it.
    order: Vec<usize>,
}

fn require(ok: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if ok { Ok(()) } else { Err(what()) }
}

impl Verifier {
    fn stmt(&mut self, s: &Stmt) -> Result<(), String> {
        let flat = self.level > Level::Multi;
        match s {
            Stmt::Block(v) => v.iter().try_for_each(|s| self.stmt(s)),
            Stmt::Let { name, value, body } => {
                self.expr(value)?;
                self.bound(name, value.ty(), body)
            }
            Stmt::For { var, min, extent, kind, body } => {
                let gone = self.level == Level::Vector && (kind.is_vector() || *kind == ForKind::Unrolled);
                require(!gone, || format!("loop {var} is still {kind:?}"))?;
                self.scalar(min, &[ScalarType::I32, ScalarType::I64], "a loop's start")?;
                self.scalar(extent, &[min.ty().scalar], "a loop's extent")?;
                self.bound(var, min.ty(), body)
            }
            Stmt::If { cond, then, otherwise } => {
                self.scalar(cond, &[ScalarType::Bool], "a condition")?;
                self.stmt(then)?;
                otherwise.iter().try_for_each(|o| self.stmt(o))
            }
            Stmt::Assert { cond, args, .. } => {
                self.scalar(cond, &[ScalarType::Bool], "an assertion")?;
                args.iter().try_for_each(|a| self.expr(a))
            }
            Stmt::Realize { func, region, body } => {
                require(!flat, || format!("realize {func} after flattening"))?;
                for (min, extent) in region {
                    self.scalar(min, &[ScalarType::I32], "a region's start")?;
                    self.scalar(extent, &[ScalarType::I32], "a region's extent")?;
                }
                self.stmt(body)
            }
            Stmt::Produce { body, .. } => self.stmt(body),
            Stmt::Provide { func, args, values, .. } => {
                require(!flat, || format!("{func}(...) = ... after flattening"))?;
                for a in args {
                    self.scalar(a, &[ScalarType::I32], "a coordinate")?;
                }
                values.iter().try_for_each(|v| self.expr(v))
            }
            Stmt::Allocate { buffer, extent, body, .. } => {
                require(flat, || format!("allocate {buffer} before flattening"))?;
                self.scalar(extent, &[ScalarType::I64], "a size")?;
                self.stmt(body)
            }
            Stmt::Prefetch { name, args } => {
                require(!flat, || format!("prefetch of {name} is not flat"))?;
                args.iter().try_for_each(|a| self.scalar(a, &[ScalarType::I32], "a prefetched place"))
            }
            Stmt::PrefetchByte { buffer, byte } => {
                require(flat, || format!("prefetch of {buffer} before flattening"))?;
                self.scalar(byte, &[ScalarType::I64], "a prefetched place")
            }
            Stmt::Store { buffer, index, value, predicate, .. }
            | Stmt::Accumulate { buffer, index, value, predicate, .. } => {
                require(flat, || format!("store to {buffer} before flattening"))?;
                let own = [index, value];
                own.into_iter().chain(predicate).try_for_each(|e| self.expr(e))?;
                let lanes = index.ty().lanes;
                require(index.ty().scalar == ScalarType::I64, || {
                    format!("index of {buffer} is {}", index.ty())
                })?;
                require(value.ty().lanes == lanes, || {
                    format!("{} at {} in {buffer}", value.ty(), index.ty())
                })?;
                predicate.iter().try_for_each(|p| {
                    require(p.ty() == Type::BOOL.with_lanes(lanes), || {
                        format!("{} under {}", index.ty(), p.ty())
                    })
                })
            }
        }
    }

    /// Checks `body` where `name` has type `ty`.
    fn bound(&mut self, name: &Name, ty: Type, body: &Stmt) -> Result<(), String> {
        let outer = self.scope.insert(name.clone(), ty);
        // What is correct around is so inside, unless a name has another type there.
        let around = outer.is_some_and(|t| t != ty).then(|| std::mem::take(&mut self.seen));
        let before = self.order.len();
        self.stmt(body)?;
        let inside = self.order.drain(before..);
        match around {
            Some(around) => self.seen = around,
            None => inside.for_each(|id| {
                self.seen.remove(&id);
            }),
        }
        match outer {
            Some(t) => self.scope.insert(name.clone(), t),
            None => self.scope.remove(name),
        };
        Ok(())
    }

    fn scalar(&mut self, e: &Expr, types: &[ScalarType], what: &str) -> Result<(), String> {
        self.expr(e)?;
        let ok = e.ty().lanes == 1 && types.contains(&e.ty().scalar);
        require(ok, || format!("{what} is {}, not {}: {e}", e.ty(), types[0].name()))
    }

    fn expr(&mut self, e: &Expr) -> Result<(), String> {
        let mut stack = vec![e];
        while let Some(e) = stack.pop() {
            if self.seen.insert(e.id()) {
                self.order.push(e.id());
                self.node(e)?;
                e.for_each_child(|c| stack.push(c));
            }
        }
        Ok(())
    }

    fn node(&self, e: &Expr) -> Result<(), String> {
        let ty = e.ty();
        let ok = |ok: bool| require(ok, || format!("ill-typed {ty}: {e}"));
        require(ty.lanes == 1 || self.level == Level::Vector, || {
            format!("a vector before vectorising: {e}")
        })?;
        if let Some(fault) = e.type_fault() {
            return Err(format!("{fault}: {e}"));
        }
        match e.kind() {
            ExprKind::Var(n) => match self.scope.get(n) {
                None => Err(format!("{n} is not bound")),
                Some(t) => require(*t == ty, || format!("{n} is {t}, used as {ty}")),
            },
            ExprKind::Param(_) => ok(ty.lanes == 1),
            ExprKind::Call { name, args, .. } => {
                require(self.level == Level::Multi, || format!("call of {name} after flattening"))?;
                ok(args.iter().all(|a| a.ty().scalar == ScalarType::I32))
            }
            ExprKind::Ramp(a, b) => {
                ok(a.ty() == b.ty() && a.ty() == Type::of(ty.scalar) && ty.scalar.is_int() && ty.lanes > 1)
            }
            ExprKind::Broadcast(a) => ok(a.ty() == Type::of(ty.scalar) && ty.lanes > 1),
            ExprKind::VectorReduce(op, a) => {
                use BinaryOp::*;
                ok(matches!(op, Add | Mul | Min | Max | And | Or | Xor)
                    && ty.scalar == a.ty().scalar
                    && a.ty().lanes.is_multiple_of(ty.lanes))
            }
            ExprKind::Interleave(parts) | ExprKind::Concat(parts) => {
                let lanes: u16 = parts.iter().map(|p| p.ty().lanes).sum();
                ok(parts.windows(2).all(|p| p[0].ty() == p[1].ty())
                    && parts.first().is_some_and(|p| p.ty().with_lanes(lanes) == ty))
            }
            ExprKind::Load { buffer, index, predicate } => {
                require(self.level > Level::Multi, || format!("load of {buffer} before flattening"))?;
                let index = index.ty();
                ok(index == Type::I64.with_lanes(ty.lanes)
                    && predicate.as_ref().is_none_or(|p| p.ty() == ty.as_bool()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(index: Expr, value: Expr) -> Stmt {
        Stmt::store("f.0", index, value)
    }

    #[test]
    fn faults_are_named() {
        let x = Expr::var("x");
        let i = x.cast(ScalarType::I64);
        let one = Expr::from(1.0f32);
        let bind = |body| Stmt::Let { name: "x".into(), value: Expr::from(3), body: Box::new(body) };
        let good = bind(store(i.clone(), one.clone()));
        assert_eq!(verify(&good, Level::Flat), Ok(()));
        let fault = |s: &Stmt, level| verify(s, level).unwrap_err();
        assert_eq!(fault(&good, Level::Multi), "store to f.0 before flattening");
        assert_eq!(fault(&store(i.clone(), one.clone()), Level::Flat), "x is not bound");
        assert_eq!(fault(&bind(store(x.clone(), one.clone())), Level::Flat), "index of f.0 is i32");
        let vector = Expr::new(ExprKind::Broadcast(i), Type::I64.with_lanes(4));
        assert_eq!(fault(&bind(store(vector.clone(), one.clone())), Level::Vector), "f32 at i64x4 in f.0");
        assert!(fault(&bind(store(vector, one)), Level::Flat).starts_with("a vector before vectorising"));
        let mixed = Expr::new(ExprKind::Binary(BinaryOp::Add, x, Expr::from(1.0f32)), Type::I32);
        let s = bind(Stmt::Let { name: "y".into(), value: mixed, body: Box::new(Stmt::Block(vec![])) });
        assert_eq!(fault(&s, Level::Flat), "operands of Add are i32 and f32: x + 1f");
    }
}
