//! Vectors of 32 lanes as warps: one scalar per thread.
//!
//! Before: a kernel with vectors of 32 lanes, as [`super::vectorize`] leaves them. After: no such vector. A statement that held one runs in
//! a thread nest whose iterations are warps: in each thread [`WARP_LANE`] is its lane, `Ramp(b, s)` is `b + lane s`, and a `VectorReduce`
//! of a *scalar* is the reduction over the lanes of the warp, by the tree that it had, whose result all lanes know. A store of one element is done by lane 0.
//! What was computed once for all lanes is computed by each of them, which changes no value.
//!
//! Storage of a thread nest is each thread's own, hence each lane's. What lanes store, a multiple of 32 elements, is dealt out: a lane has one in 32
//! of them and touches no other's. Of what no lane stores, each has a copy, which all of them fill alike.

use crate::error::Error;
use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::lower::kernels::WARP;
use crate::lower::simplify::simplify_index;
use crate::schedule::{ForKind, Memory};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;

/// The lane of a thread in its warp, an i32 that is bound in thread nests that run as warps.
pub(crate) const WARP_LANE: &str = "warp.lane";

/// See the module's description. `aliases`: pairs of buffers that may be the same memory.
///
/// # Errors
/// Storage for the lanes of which one reads another one's elements; vectors of other lengths among lanes.
pub(crate) fn warps(s: &Stmt, aliases: &[(Flat, Flat)]) -> Result<Stmt, Error> {
    let mut pass =
        Warps { aliases, local: FxHashMap::default(), memo: Memo::default(), fault: None, names: 0 };
    let out = pass.outside(s);
    match pass.fault {
        None => Ok(out),
        Some((func, rule)) => Err(Error::Schedule { func, directive: "gpu_lanes".into(), rule }),
    }
}

/// Does an expression of `s` itself have the lanes of a warp?
fn has_own_lanes(s: &Stmt) -> bool {
    let mut found = false;
    own_exprs(s, &mut |e| found |= any(e, |n| n.ty().lanes as i64 == WARP));
    found
}

fn has_lanes(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| found = found || has_own_lanes(s));
    found
}

/// Do lanes store to `buffer`?
fn lanes_store(s: &Stmt, buffer: &Flat) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| {
        found |= matches!(s, Stmt::Store { buffer: b, index, .. } | Stmt::Accumulate { buffer: b, index, .. }
            if b == buffer && index.ty().lanes != 1);
    });
    found
}

pub(super) fn has_threads(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| found |= matches!(s, Stmt::For { kind: ForKind::GpuThread, .. }));
    found
}

/// A lane's share of storage of a thread nest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Local {
    /// One in 32 elements.
    Part,
    /// All elements, as each other lane has them.
    Copy,
}

struct Warps<'a> {
    aliases: &'a [(Flat, Flat)],
    /// Storage of the thread nest.
    local: FxHashMap<Flat, Local>,
    memo: Memo,
    fault: Option<(String, String)>,
    /// Names made so far.
    names: usize,
}

impl Warps<'_> {
    /// Outside of thread nests.
    fn outside(&mut self, s: &Stmt) -> Stmt {
        match s {
            Stmt::For { kind: ForKind::GpuThread, .. } if has_lanes(s) => self.inside(s),
            Stmt::For { kind: ForKind::GpuThread, .. } => s.clone(),
            s if has_own_lanes(s) || has_lanes(s) && !has_threads(s) && is_work(s) => {
                // One warp.
                let (min, extent) = (Expr::from(0), Expr::from(1));
                let (var, body) = ("warp.0".into(), Box::new(self.inside(s)));
                Stmt::For { var, min, extent, kind: ForKind::GpuThread, body }
            }
            s => map_children(s, &mut Expr::clone, &mut |s| self.outside(s)),
        }
    }

    /// In a thread nest whose iterations are warps.
    fn inside(&mut self, s: &Stmt) -> Stmt {
        match s {
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } if *memory != Memory::Shared => {
                let local = if lanes_store(body, buffer) { Local::Part } else { Local::Copy };
                let extent = match (local, extent.as_int()) {
                    (Local::Copy, _) => extent.clone(),
                    (Local::Part, Some(n)) if n % WARP == 0 => Expr::int(extent.ty(), n / WARP),
                    (Local::Part, _) => self.refuse(buffer, extent),
                };
                let outer = self.local.insert(buffer.clone(), local);
                self.memo.clear();
                let body = Box::new(self.inside(body));
                match outer {
                    Some(outer) => self.local.insert(buffer.clone(), outer),
                    None => self.local.remove(buffer),
                };
                self.memo.clear();
                Stmt::Allocate {
                    buffer: buffer.clone(),
                    ty: *ty,
                    extent,
                    memory: *memory,
                    zeroed: *zeroed,
                    body,
                }
            }
            Stmt::Store { buffer, index, value, predicate, aligned: _, non_temporal } => {
                let one = self.by_one(buffer, index);
                let (index, value) = (self.index(buffer, index), self.expr(value));
                let predicate = self.lanes_on(predicate.as_ref(), one);
                let read = one
                    && any(
                        &value,
                        |n| matches!(n.kind(), ExprKind::Load { buffer: b, .. } if self.same(b, buffer)),
                    );
                let (name, value) = self.named(value, read);
                let (buffer, non_temporal) = (buffer.clone(), *non_temporal);
                let store = Stmt::Store {
                    buffer,
                    index,
                    value: value.clone(),
                    predicate,
                    aligned: false,
                    non_temporal,
                };
                around(name, store)
            }
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                let one = self.by_one(buffer, index);
                let (index, value) = (self.index(buffer, index), self.expr(value));
                let predicate = self.lanes_on(predicate.as_ref(), one);
                let (name, value) = self.named(value, false);
                let update = Stmt::Accumulate { buffer: buffer.clone(), op: *op, index, value, predicate };
                around(name, update)
            }
            Stmt::Block(list) => block(list.iter().map(|s| self.inside(s)).collect()),
            s => {
                let own = map_children(s, &mut |e| self.expr(e), &mut Stmt::clone);
                map_children(&own, &mut Expr::clone, &mut |s| self.inside(s))
            }
        }
    }

    /// May both be the same memory?
    fn same(&self, a: &Flat, b: &Flat) -> bool {
        a == b || self.aliases.iter().any(|(c, d)| (c, d) == (a, b) || (c, d) == (b, a))
    }

    /// Does one lane store for all?
    fn by_one(&self, buffer: &Flat, index: &Expr) -> bool {
        index.ty().lanes == 1 && !self.local.contains_key(buffer)
    }

    /// A store of one element is done by one lane.
    fn lanes_on(&mut self, predicate: Option<&Expr>, one: bool) -> Option<Expr> {
        let own = predicate.map(|p| self.expr(p));
        let first = one.then(first_lane);
        match (own, first) {
            (Some(p), Some(f)) => Some(p.and(f)),
            (p, f) => p.or(f),
        }
    }

    /// A value that all lanes have to compute gets a name, so that it is not computed under a predicate; so does one that reads what one lane
    /// stores, so that the warp waits for all lanes to have read it.
    fn named(&mut self, value: Expr, read: bool) -> (Option<(Name, Expr)>, Expr) {
        if !read && !any(&value, |n| matches!(n.kind(), ExprKind::VectorReduce(..))) {
            return (None, value);
        }
        let name: Name = format!("warp.value.{}", self.names).into();
        self.names += 1;
        let var = Expr::new(ExprKind::Var(name.clone()), value.ty());
        (Some((name, value)), var)
    }

    /// The index of what a thread touches of a buffer.
    fn index(&mut self, buffer: &Flat, index: &Expr) -> Expr {
        if self.local.get(buffer) != Some(&Local::Part) {
            return self.expr(index);
        }
        let base = match index.kind() {
            ExprKind::Ramp(base, step) if step.as_int() == Some(1) => base,
            _ => return self.refuse(buffer, index),
        };
        if simplify_index(&(base % WARP)).as_int() != Some(0) {
            return self.refuse(buffer, index);
        }
        let base = simplify_index(&(base / WARP));
        self.expr(&base)
    }

    fn refuse(&mut self, buffer: &Flat, index: &Expr) -> Expr {
        let rule =
            "a lane would read what another one stores; store it in shared memory, or outside of the lanes";
        self.fault.get_or_insert_with(|| (buffer.of.to_string(), rule.to_string()));
        Expr::int(Type::of(index.ty().scalar), 0)
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let mut memo = std::mem::take(&mut self.memo);
        let out = rewrite(e, &mut memo, &mut |old, new| self.node(old, new));
        self.memo = memo;
        out
    }

    fn node(&mut self, old: &Expr, new: Expr) -> Expr {
        let lanes = old.ty().lanes as i64;
        if lanes != 1 && lanes != WARP {
            let rule = format!("a vector of {lanes} lanes is in it; a warp has {WARP}");
            self.fault.get_or_insert_with(|| (WARP_LANE.to_string(), rule));
            return new;
        }
        let scalar = Type::of(old.ty().scalar);
        match (old.kind(), new.kind()) {
            (ExprKind::Ramp(..), ExprKind::Ramp(base, step)) => {
                base + &(lane().cast(scalar.scalar) * step.clone())
            }
            (ExprKind::Broadcast(_), ExprKind::Broadcast(a)) => a.clone(),
            (ExprKind::Load { buffer, index, .. }, ExprKind::Load { predicate, .. })
                if self.local.get(buffer) == Some(&Local::Part) =>
            {
                let predicate = predicate.clone();
                let index = self.own_index(buffer, index);
                Expr::new(ExprKind::Load { buffer: buffer.clone(), index, predicate }, scalar)
            }
            (_, kind) => Expr::new(kind.clone(), scalar),
        }
    }

    /// As [`Warps::index`], while the memo is in use.
    fn own_index(&mut self, buffer: &Flat, index: &Expr) -> Expr {
        let memo = std::mem::take(&mut self.memo);
        let index = self.index(buffer, index);
        self.memo = memo;
        index
    }
}

fn lane() -> Expr {
    Expr::new(ExprKind::Var(WARP_LANE.into()), Type::of(ScalarType::I32))
}

/// Is this the lane that stores for all?
pub(super) fn first_lane() -> Expr {
    lane().eq_(Expr::from(0))
}

fn around(name: Option<(Name, Expr)>, s: Stmt) -> Stmt {
    match name {
        Some((name, value)) => Stmt::Let { name, value, body: Box::new(s) },
        None => s,
    }
}

/// Something that one warp can do as a whole.
fn is_work(s: &Stmt) -> bool {
    match s {
        Stmt::For { kind, .. } => !kind.is_gpu(),
        Stmt::Block(_) | Stmt::Produce { .. } | Stmt::Allocate { .. } => false,
        _ => true,
    }
}
