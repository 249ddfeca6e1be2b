//! Values of index expressions at a few points, at which all that is known holds.
//!
//! They say what no search needs to look for: a bound below a value that is reached. A point gives each name a value between its bounds, and each
//! atom that nothing is known of any value; points at which an inequality does not hold are left out. Which points are looked at follows from the
//! names alone, so answers are the same on each machine. That points are few, or none, costs time and never makes an answer wrong.

use crate::analysis::algebra::facts::Facts;
use crate::analysis::algebra::poly::{Poly, as_lane};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// Points that are looked at.
const COUNT: usize = 8;

/// A value at each point; none where there is none.
type Values = [Option<i64>; COUNT];

/// Values at one place in the program.
#[derive(Debug, Default)]
pub(super) struct Points {
    atoms: FxHashMap<Expr, Values>,
    /// Names whose values an inequality asks for.
    settled: FxHashMap<Expr, Values>,
    /// The points at which all inequalities hold.
    holds: Option<[bool; COUNT]>,
}

impl Points {
    /// The greatest value that `p` has at a point.
    pub(super) fn reached(&mut self, p: &Poly, facts: &Facts) -> Option<i64> {
        let holds = self.holds(facts);
        let values = self.values(p, facts);
        values.into_iter().zip(holds).filter_map(|(value, holds)| value.filter(|_| holds)).max()
    }

    fn holds(&mut self, facts: &Facts) -> [bool; COUNT] {
        if let Some(known) = self.holds {
            return known;
        }
        facts.inequalities().iter().for_each(|f| self.settle(f, facts));
        let mut holds = [true; COUNT];
        for f in facts.inequalities() {
            for (holds, value) in holds.iter_mut().zip(self.values(f, facts)) {
                *holds &= value.is_some_and(|value| value <= 0);
            }
        }
        self.holds = Some(holds);
        holds
    }

    /// Gives a name the value at which `f <= 0` holds, at points at which it does not: two inequalities may say that one has a single value.
    fn settle(&mut self, f: &Poly, facts: &Facts) {
        let above = self.values(f, facts).map(|value| value.filter(|value| *value > 0));
        if above == [None; COUNT] {
            return;
        }
        let names = f.terms.iter().filter_map(|(m, k)| match &m[..] {
            [name] if k.abs() == 1 && matches!(name.kind(), ExprKind::Var(_) | ExprKind::Param(_)) => {
                Some((name, *k))
            }
            _ => None,
        });
        let Some((name, k)) = names.into_iter().find(|(name, _)| !self.settled.contains_key(name)) else {
            return;
        };
        let [lo, hi] = self.bounds(name, facts);
        let values = self.of(name, facts);
        let values = std::array::from_fn(|i| {
            let Some(more) = above[i] else { return values[i] };
            let value = values[i]?.checked_sub(k.checked_mul(more)?)?;
            let outside = |bound: Option<Values>, is: fn(i64, i64) -> bool| {
                bound.is_some_and(|b| b[i].is_none_or(|b| is(value, b)))
            };
            (!outside(lo, |v, b| v < b) && !outside(hi, |v, b| v > b)).then_some(value)
        });
        self.settled.insert(name.clone(), values);
        self.atoms = self.settled.clone();
    }

    /// The values of a name's bounds.
    fn bounds(&mut self, name: &Expr, facts: &Facts) -> [Option<Values>; 2] {
        let range = facts.range_of(name).cloned().unwrap_or_default();
        [range.lo, range.hi].map(|bound| bound.map(|bound| self.of(&bound, facts)))
    }

    fn values(&mut self, p: &Poly, facts: &Facts) -> Values {
        let mut sum = [Some(p.constant); COUNT];
        for (m, k) in &p.terms {
            let mut product = [Some(*k); COUNT];
            for atom in m.iter() {
                product = both(product, self.of(atom, facts), i64::checked_mul);
            }
            sum = both(sum, product, i64::checked_add);
        }
        sum
    }

    /// The values of an expression.
    fn of(&mut self, e: &Expr, facts: &Facts) -> Values {
        if let ExprKind::Int(value) = e.kind() {
            return [Some(*value); COUNT];
        }
        if let Some(known) = self.atoms.get(e) {
            return *known;
        }
        let values = self.made(e, facts);
        self.atoms.insert(e.clone(), values);
        values
    }

    fn made(&mut self, e: &Expr, facts: &Facts) -> Values {
        if let Some(lanes) = as_lane(e) {
            return chosen(e, |choice| i64::from(choice) % i64::from(lanes));
        }
        match e.kind() {
            ExprKind::Var(_) | ExprKind::Param(_) => self.between(e, facts),
            ExprKind::Unary(UnaryOp::Neg, a) => self.of(a, facts).map(|a| a?.checked_neg()),
            ExprKind::Binary(op, a, b) => {
                let of_two: fn(i64, i64) -> Option<i64> = match op {
                    BinaryOp::Add => i64::checked_add,
                    BinaryOp::Sub => i64::checked_sub,
                    BinaryOp::Mul => i64::checked_mul,
                    BinaryOp::Min => |a, b| Some(a.min(b)),
                    BinaryOp::Max => |a, b| Some(a.max(b)),
                    BinaryOp::Div => |a, b| (b > 0).then(|| a.div_euclid(b)),
                    BinaryOp::Mod => |a, b| (b > 0).then(|| a.rem_euclid(b)),
                    _ => return [None; COUNT],
                };
                both(self.of(a, facts), self.of(b, facts), of_two)
            }
            // What is known of a select is known of both its arms.
            ExprKind::Select(_, a, b) => {
                let (a, b) = (self.of(a, facts), self.of(b, facts));
                let first = chosen(e, |choice| i64::from(choice % 2));
                std::array::from_fn(|i| if first[i] == Some(1) { a[i] } else { b[i] })
            }
            ExprKind::Broadcast(a) => self.of(a, facts),
            ExprKind::Cast(a) => match a.ty().scalar {
                ScalarType::I32 | ScalarType::I64 => self.of(a, facts),
                ScalarType::Bool => chosen(e, |choice| i64::from(choice % 2)),
                ty if ty.is_int() && ty.bytes() < 4 => {
                    let all = 1i64 << (8 * ty.bytes());
                    let least = if ty.is_signed() { -all / 2 } else { 0 };
                    chosen(e, |choice| least + i64::from(choice) % all)
                }
                _ => [None; COUNT],
            },
            _ => [None; COUNT],
        }
    }

    /// Values of a name within its bounds.
    fn between(&mut self, name: &Expr, facts: &Facts) -> Values {
        let [lo, hi] = self.bounds(name, facts);
        let free = chosen(name, |choice| 1 + i64::from(choice) % if choice % 3 == 0 { 40 } else { 4000 });
        match (lo, hi) {
            (None, None) => free,
            (Some(lo), None) => both(lo, free, i64::checked_add),
            (None, Some(hi)) => both(hi, free, i64::checked_sub),
            (Some(lo), Some(hi)) => {
                let part = chosen(name, |choice| i64::from(choice % 4));
                std::array::from_fn(|i| {
                    let (lo, hi) = (lo[i].filter(|lo| Some(*lo) <= hi[i])?, hi[i]?);
                    match part[i]? {
                        0 | 1 if i != 1 => Some(lo),
                        3 if i > 1 => Some(lo + (hi.checked_sub(lo)?) / 2),
                        _ if i == 0 => Some(lo),
                        _ => Some(hi),
                    }
                })
            }
        }
    }
}

/// A value for each point, from a number that looks as if it were drawn by chance.
fn chosen(of: &Expr, value: impl Fn(u32) -> i64) -> Values {
    std::array::from_fn(|point| {
        let seed = of.structural_hash() ^ (point as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Some(value((mixed >> 33) as u32))
    })
}

fn both(a: Values, b: Values, of: fn(i64, i64) -> Option<i64>) -> Values {
    std::array::from_fn(|i| of(a[i]?, b[i]?))
}
