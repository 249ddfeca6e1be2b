//! Rows instead of gathers where lanes divide.
//!
//! Before: vectors, both bodies of loops. Lanes x of a load from `x / 2`, as where a picture is enlarged, read every element twice: they are a
//! gather. After: lanes 0, 2, .. are a load of their own, from consecutive elements, and so are lanes 1, 3, ..: the value is theirs,
//! interleaved. In general the lanes are taken apart by their residue modulo the numbers (8 at most) by which the index is divided or of
//! which it takes the remainder, if that makes every load dense, or one of a small stride, or of one element. Each lane reads what it read before, under the mask that
//! it had. Not in a GPU's kernels, whose lanes are threads. Follows partitioning, which looks for conditions on ramps; precedes narrowing, which
//! leaves no gather whose index could be taken apart.

use crate::analysis::algebra::rebuild::splat;
use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::lower::simplify::simplify_index;
use crate::schedule::ForKind;
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// Most loads for one.
const MOST: i64 = 8;
/// Largest index, in nodes, that is looked at.
const MOST_NODES: usize = 1000;
/// Longest stride of a load that is no gather.
const MAX_STRIDE: i64 = 4;

/// See the module's description.
pub(crate) fn residues(s: &Stmt) -> Stmt {
    Residues::default().stmt(s)
}

/// Vectors that are bound to names here.
#[derive(Default, Clone)]
struct Residues(FxHashMap<Name, Expr>);

impl Residues {
    fn stmt(&self, s: &Stmt) -> Stmt {
        match s {
            Stmt::For { kind: ForKind::GpuBlock, .. } => return s.clone(),
            Stmt::Let { name, value, body } if value.ty().lanes > 1 => {
                let mut inner = self.clone();
                inner.0.insert(name.clone(), value.clone());
                let (name, value, body) = (name.clone(), self.expr(value), Box::new(inner.stmt(body)));
                return Stmt::Let { name, value, body };
            }
            _ => {}
        }
        map_children(s, &mut |e| self.expr(e), &mut |s| self.stmt(s))
    }

    fn expr(&self, e: &Expr) -> Expr {
        let gather = |e: &Expr| match e.kind() {
            ExprKind::Load { index, .. } => {
                index.ty().lanes > 1 && !matches!(index.kind(), ExprKind::Ramp(..))
            }
            _ => false,
        };
        if !any(e, gather) {
            return e.clone();
        }
        rewrite(e, &mut Memo::default(), &mut |_, new| match gather(&new) {
            true => self.rows(&new).unwrap_or(new),
            false => new,
        })
    }

    /// A gather as rows, if it can be taken apart.
    fn rows(&self, load: &Expr) -> Option<Expr> {
        let ExprKind::Load { buffer, index, predicate } = load.kind() else { return None };
        let (n, modulus) = (i64::from(load.ty().lanes), self.modulus(index)?);
        if modulus < 2 || n % modulus != 0 || n / modulus < 2 {
            return None;
        }
        let ty = load.ty().with_lanes((n / modulus) as u16);
        let row = |residue: i64| {
            let mut class =
                Class { vectors: self, residue, modulus, lanes: ty.lanes, memo: FxHashMap::default() };
            let index = simplify_index(&class.of(index)?);
            let predicate = match predicate {
                Some(p) => Some(class.of(p)?),
                None => None,
            };
            let load = |index, predicate, ty| {
                Expr::new(ExprKind::Load { buffer: buffer.clone(), index, predicate }, ty)
            };
            match index.kind() {
                ExprKind::Ramp(_, stride) => {
                    stride.as_int().filter(|s| (1..=MAX_STRIDE.min(ty.lanes.into())).contains(s))?;
                    Some(load(index, predicate, ty))
                }
                // All of them read one element.
                ExprKind::Broadcast(one) => {
                    let predicate = match predicate.as_ref().map(Expr::kind) {
                        Some(ExprKind::Broadcast(p)) => Some(p.clone()),
                        Some(_) => return None,
                        None => None,
                    };
                    Some(splat(load(one.clone(), predicate, Type::of(ty.scalar)), ty.lanes))
                }
                _ => None,
            }
        };
        (0..modulus).map(row).collect::<Option<Vec<_>>>().map(Expr::interleave)
    }

    /// The least number of which all are divisors by which lanes are divided, or of which they take the remainder.
    fn modulus(&self, index: &Expr) -> Option<i64> {
        let (mut all, mut stack, mut seen) = (1, vec![index], FxHashSet::default());
        while let Some(e) = stack.pop() {
            if e.ty().lanes == 1 || !seen.insert(e.id()) {
                continue;
            }
            if seen.len() > MOST_NODES {
                return None;
            }
            match e.kind() {
                ExprKind::Var(n) => stack.push(self.0.get(n)?),
                ExprKind::Load { .. } => return None,
                ExprKind::Binary(BinaryOp::Div | BinaryOp::Mod, a, b) => {
                    let c = number(b).filter(|c| (1..=MOST).contains(c))?;
                    all = all / gcd(all, c) * c;
                    stack.push(a);
                }
                _ => e.for_each_child(|c| stack.push(c)),
            }
        }
        (all <= MOST).then_some(all)
    }
}

/// The lanes whose numbers have one residue.
struct Class<'a> {
    vectors: &'a Residues,
    residue: i64,
    modulus: i64,
    lanes: u16,
    memo: FxHashMap<usize, Option<Expr>>,
}

impl Class<'_> {
    /// These lanes of a vector; none if they cannot be told apart.
    fn of(&mut self, e: &Expr) -> Option<Expr> {
        if let Some(known) = self.memo.get(&e.id()) {
            return known.clone();
        }
        let lanes = self.made(e);
        self.memo.insert(e.id(), lanes.clone());
        lanes
    }

    fn made(&mut self, e: &Expr) -> Option<Expr> {
        let ty = e.ty().with_lanes(self.lanes);
        let (ramp, broadcast) =
            (|a, s| Expr::new(ExprKind::Ramp(a, s), ty), |a| Expr::new(ExprKind::Broadcast(a), ty));
        match e.kind() {
            ExprKind::Int(_) | ExprKind::Float(_) => Some(Expr::new(e.kind().clone(), ty)),
            ExprKind::Var(n) => self.of(self.vectors.0.get(n)?),
            ExprKind::Broadcast(a) => Some(broadcast(a.clone())),
            ExprKind::Ramp(a, s) => Some(ramp(a + s * self.residue, s * self.modulus)),
            ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), a, b) => {
                let (a, c) = (simplify_index(&self.of(a)?), number(b));
                // Whole steps: what they divide is that of the first lane.
                if let (ExprKind::Ramp(first, step), Some(c)) = (a.kind(), c)
                    && let Some(step) = step.as_int().filter(|s| s % c == 0)
                {
                    return Some(match op {
                        BinaryOp::Div => ramp(first / c, Expr::int(first.ty(), step / c)),
                        _ => broadcast(first % c),
                    });
                }
                Some(Expr::binary(*op, a, self.of(b)?))
            }
            ExprKind::Load { .. } | ExprKind::Interleave(_) | ExprKind::VectorReduce(..) => None,
            _ => {
                let mut children = vec![];
                e.for_each_child(|c| children.push(self.of(c)));
                Some(e.with_children(children.into_iter().collect::<Option<_>>()?))
            }
        }
    }
}

/// A constant that all lanes share.
fn number(e: &Expr) -> Option<i64> {
    match e.kind() {
        ExprKind::Broadcast(a) => a.as_int(),
        _ => e.as_int(),
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    /// Eight lanes from x on.
    fn lanes() -> Expr {
        Expr::new(ExprKind::Ramp(Expr::var("x"), Expr::from(1)), Type::I32.with_lanes(8))
    }

    fn read(index: &Expr) -> String {
        let load = Expr::load("f", index.cast(ScalarType::I64), Type::of(ScalarType::F32).with_lanes(8));
        Residues::default().expr(&load).to_string()
    }

    fn over(e: Expr, op: BinaryOp, c: i64) -> Expr {
        Expr::binary(op, e, Expr::int(Type::I32.with_lanes(8), c))
    }

    #[test]
    fn lanes_of_one_residue_are_a_row() {
        use BinaryOp::{Add, Div, Mod, Mul};
        let halves = over(lanes(), Div, 2);
        assert_eq!(
            read(&halves),
            "interleave(f[ramp(i64(x / 2), 1:i64, 4)], f[ramp(i64((x + 1) / 2), 1:i64, 4)])"
        );
        let planes = Expr::binary(Add, over(lanes(), Div, 4), over(over(lanes(), Mod, 4), Mul, 100));
        assert_eq!(read(&planes).matches("f[ramp(").count(), 4, "{}", read(&planes));
        assert_eq!(read(&over(lanes(), Mod, 2)), "interleave(x4(f[i64(x % 2)]), x4(f[i64((x + 1) % 2)]))");
        for index in [over(lanes(), Div, 3), over(lanes(), Div, 16), lanes() * lanes()] {
            assert!(!read(&index).contains("interleave"), "{}", read(&index));
        }
    }
}
