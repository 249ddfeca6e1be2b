//! Rows instead of gathers where lanes divide.
//!
//! Before: vectors, both bodies of loops. Lanes x of a load from `x / 2`, as where a picture is enlarged, read every element twice: they are a
//! gather. After: lanes 0, 2, .. are a load of their own, from consecutive elements, and so are lanes 1, 3, ..: the value is theirs,
//! interleaved. In general the lanes are taken apart by their residue modulo the numbers by which the index is divided or of
//! which it takes the remainder, or into as many neighbours as one of these says, as those of each row of a tile, if that makes every load dense, or one
//! of a small stride, or of one element. Each lane reads what it read before, under the mask that
//! it had. The index of a store is made of those of rows in the same way. Not in a GPU's kernels, whose lanes are threads. Follows partitioning, which
//! looks for conditions on ramps; precedes narrowing, which leaves no gather whose index could be taken apart.

use crate::analysis::algebra::rebuild::splat;
use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::lower::simplify::simplify_index;
use crate::schedule::ForKind;
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Most loads for one, of lanes of one residue each, or of neighbours.
const MOST_RESIDUES: i64 = 8;
const MOST_BLOCKS: i64 = 16;
/// Most lanes that there are.
const MOST_LANES: i64 = 256;
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
        let mut s = map_children(s, &mut |e| self.expr(e), &mut |s| self.stmt(s));
        if let Stmt::Store { index, .. } = &mut s
            && is_apart(index)
            && let Some(rows) = self.rows(index)
        {
            *index = rows;
        }
        s
    }

    fn expr(&self, e: &Expr) -> Expr {
        let gather = |e: &Expr| matches!(e.kind(), ExprKind::Load { index, .. } if is_apart(index));
        if !any(e, gather) {
            return e.clone();
        }
        rewrite(e, &mut Memo::default(), &mut |_, new| match gather(&new) {
            true => self.loads(&new).unwrap_or(new),
            false => new,
        })
    }

    /// A gather as rows, if it can be taken apart.
    fn loads(&self, load: &Expr) -> Option<Expr> {
        let ExprKind::Load { buffer, index, predicate } = load.kind() else { return None };
        self.parts(index, &|part| {
            let ty = load.ty().with_lanes(part.lanes);
            let index = simplify_index(&part.of(index)?);
            let predicate = match predicate {
                Some(p) => Some(part.of(p)?),
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
        })
    }

    /// The index of a store as those of rows.
    fn rows(&self, index: &Expr) -> Option<Expr> {
        self.parts(index, &|part| {
            let row = simplify_index(&part.of(index)?);
            matches!(row.kind(), ExprKind::Ramp(_, step) if step.as_int() == Some(1)).then_some(row)
        })
    }

    /// Lanes of `index` in parts, each of which is `made`: those of one residue, or neighbours, whichever are fewer different ones.
    fn parts(&self, index: &Expr, made: &dyn Fn(&mut Lanes) -> Option<Expr>) -> Option<Expr> {
        let (n, numbers) = (i64::from(index.ty().lanes), self.numbers(index)?);
        let common = numbers.iter().fold(1, |all, c| all / gcd(all, *c) * c);
        let residues = (common <= MOST_RESIDUES).then_some((common, 1, common));
        let blocks = numbers.iter().map(|&c| (n / c, c, 1)).filter(|b| b.0 <= MOST_BLOCKS);
        let all = residues.into_iter().chain(blocks).filter_map(|(parts, first, step)| {
            if parts < 2 || n % parts != 0 || n / parts < 2 || step == 1 && n % first != 0 {
                return None;
            }
            let lanes = (n / parts) as u16;
            let part = |i| {
                made(&mut Lanes { vectors: self, first: i * first, step, lanes, memo: FxHashMap::default() })
            };
            let parts = (0..parts).map(part).collect::<Option<Vec<_>>>()?;
            let different = parts.iter().collect::<FxHashSet<_>>().len();
            Some((different, if step == 1 { Expr::concat(parts) } else { Expr::interleave(parts) }))
        });
        all.min_by_key(|way| way.0).map(|way| way.1)
    }

    /// Numbers by which lanes are divided, or of which they take the remainder.
    fn numbers(&self, index: &Expr) -> Option<BTreeSet<i64>> {
        let (mut all, mut stack, mut seen) = (BTreeSet::new(), vec![index], FxHashSet::default());
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
                    all.insert(number(b).filter(|c| (1..=MOST_LANES).contains(c))?);
                    stack.push(a);
                }
                _ => e.for_each_child(|c| stack.push(c)),
            }
        }
        Some(all)
    }
}

/// Vectors of indices that are no row.
fn is_apart(index: &Expr) -> bool {
    index.ty().lanes > 1 && !matches!(index.kind(), ExprKind::Ramp(..))
}

/// Lanes a constant number apart.
struct Lanes<'a> {
    vectors: &'a Residues,
    first: i64,
    step: i64,
    lanes: u16,
    memo: FxHashMap<usize, Option<Expr>>,
}

impl Lanes<'_> {
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
            ExprKind::Ramp(a, s) => Some(ramp(a + s * self.first, s * self.step)),
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
            ExprKind::Load { .. }
            | ExprKind::Interleave(_)
            | ExprKind::Concat(_)
            | ExprKind::VectorReduce(..) => None,
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
    fn neighbours_are_rows() {
        use BinaryOp::{Add, Div, Mod, Mul};
        let first = |e: Expr| over(e, Div, 4);
        let lane = Expr::new(ExprKind::Ramp(Expr::from(0), Expr::from(1)), Type::I32.with_lanes(8));
        let stride = splat(Expr::var("stride"), 8);
        let tile =
            Expr::binary(Add, over(lane.clone(), Mod, 4), Expr::binary(Mul, first(lane.clone()), stride));
        assert_eq!(read(&tile), "concat(f[ramp(0:i64, 1:i64, 4)], f[ramp(i64(stride), 1:i64, 4)])");
        let rows = Residues::default().rows(&tile.cast(ScalarType::I64)).unwrap();
        assert_eq!(rows.to_string(), "concat(ramp(0:i64, 1:i64, 4), ramp(i64(stride), 1:i64, 4))");
        // The same table twice.
        assert_eq!(read(&over(lane, Mod, 4)), "concat(f[ramp(0:i64, 1:i64, 4)], f[ramp(0:i64, 1:i64, 4)])");
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
