//! Coordinates solved for the loops that they come from.
//!
//! A definition over the loops v reads at coordinates a(v). Its adjoint at u adds up over all v with a(v) = u: a system of linear
//! equations between integers. Quotients and remainders enter as unknowns of their own: `e / c` is q, and `e % c` is s, where
//! e = c q + s and 0 <= s < c. Unknowns are eliminated one after the other, the longest loop first; where its coefficient c is not 1, another
//! unknown with coefficient b, prime to c, is replaced by those of its values that make the rest divisible. What is left is a
//! loop, as short as this makes it.
//!
//! | read | becomes |
//! |---|---|
//! | `f(x - r)` | x = u + r, loop over r |
//! | `f(x / 4)` | x = 4 u + s, loop over s in 0..4 |
//! | `f(2 x + r)`, r in 0..2 | x = u / 2, r = u % 2, no loop |
//! | `f(x, x)` | x = u0 where u0 = u1 |
//! | `f(3)` | loop over x, at 3 |
//! | `f(int(g(x)), y)` | loop over x, stored at int(g(x)); y = u1 |
//!
//! Source of the method: T.-M. Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section
//! 4.2.1, where one equation is solved at a time.

use crate::analysis::algebra::forms::{Polys, gcd};
use crate::analysis::algebra::poly::{Mono, Poly, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::analysis::algebra::{Facts, Interval};
use crate::expr::walk::{Memo, any, rewrite, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::Pipeline;
use crate::gradient::space::interval;
use crate::gradient::tidy::tidy;
use crate::types::Type;
use rustc_hash::FxHashMap;

/// A loop variable, a quotient or a remainder.
#[derive(Clone, Debug)]
pub(super) struct Unknown {
    /// Unique among these and the coordinates.
    pub name: Name,
    /// Its values; the ends of reduction variables may use pure ones.
    pub range: Interval,
    /// The same without variables.
    pub hull: Interval,
    /// Is it a quotient, which its equation alone keeps in range?
    pub is_quotient: bool,
}

impl Unknown {
    /// Number of values, if it is a constant; more than any constant if it is not.
    fn size(&self) -> i64 {
        self.hull.extent().as_int().unwrap_or(i64::MAX)
    }
}

/// An equation, the unknown to solve it for, and its coefficient.
type Pivot = (usize, Name, i64);
/// Greater for better ones: values of the unknown, whether it is a quotient, less the coefficient's magnitude.
type Rank = (i64, i64, i64);

/// Moduli up to which the product of a coordinate and a residue fits an i32: coordinates are below 2^27.
const SMALL_MODULUS: i64 = 16;
/// Moduli up to which the product of two residues, one of them the absolutely least, fits an i32.
const LARGEST_MODULUS: i64 = 1 << 16;

/// The absolutely least i of which b i is 1 modulo `modulus`, which is prime to b and greater than 1.
fn inverse(b: i64, modulus: i64) -> i64 {
    // Euclid: r = b s modulo `modulus` for both pairs.
    let (mut r, mut next_r, mut s, mut next_s) = (modulus, b.rem_euclid(modulus), 0, 1);
    while next_r != 0 {
        let q = r / next_r;
        (r, next_r) = (next_r, r - q * next_r);
        (s, next_s) = (next_s, s - q * next_s);
    }
    let s = s.rem_euclid(modulus);
    if s > modulus / 2 { s - modulus } else { s }
}

/// Equations between unknowns and the coordinates u.
pub(super) struct System<'p> {
    p: &'p Pipeline,
    facts: &'p Facts,
    /// Names of the coordinates.
    taken: Vec<&'p Name>,
    /// All unknowns, in the order of their introduction.
    pub unknowns: Vec<Unknown>,
    /// Each is 0.
    equations: Vec<Poly>,
    /// Quotients and remainders by what they are of.
    parts: FxHashMap<(Expr, Expr), [Expr; 2]>,
    /// Unknowns that were eliminated, in this order: each in terms of later ones, of unknowns that stay, and of u.
    pub solved: Vec<(Name, Expr)>,
    /// Conditions for there to be a solution, likewise.
    pub conds: Vec<Expr>,
    polys: Polys,
}

impl<'p> System<'p> {
    /// No equations between `unknowns`.
    pub(super) fn new(
        p: &'p Pipeline,
        facts: &'p Facts,
        unknowns: Vec<Unknown>,
        taken: Vec<&'p Name>,
    ) -> System<'p> {
        let (equations, parts, solved, conds) = (vec![], FxHashMap::default(), vec![], vec![]);
        System { p, facts, taken, unknowns, equations, parts, solved, conds, polys: Polys::default() }
    }

    /// Does an expression mention an unknown?
    pub(super) fn is_unknown(&self, e: &Expr) -> bool {
        any(e, |n| matches!(n.kind(), ExprKind::Var(v) if self.find(v).is_some()))
    }

    fn find(&self, name: &Name) -> Option<&Unknown> {
        self.unknowns.iter().find(|u| u.name == *name)
    }

    /// `arg` = `u`. False, and nothing is known more, if `arg` is no sum of multiples of unknowns, quotients and remainders.
    pub(super) fn equate(&mut self, arg: &Expr, u: &Expr) -> bool {
        let before = (self.unknowns.len(), self.equations.len(), self.parts.clone());
        let taken_apart = self.without_quotients(arg);
        let equation = taken_apart.and_then(|e| {
            let p = self.polys.of(&e);
            self.is_linear(&p).then(|| p.plus(&self.polys.of(u), -1)).flatten()
        });
        match equation {
            Some(p) => self.equations.push(p),
            None => {
                self.unknowns.truncate(before.0);
                self.equations.truncate(before.1);
                self.parts = before.2;
                return false;
            }
        }
        true
    }

    /// No term has two unknowns or one inside of anything.
    fn is_linear(&self, p: &Poly) -> bool {
        p.terms.iter().all(|(m, _)| {
            let with: Vec<&Expr> = m.iter().filter(|e| self.is_unknown(e)).collect();
            with.is_empty() || with.len() == 1 && matches!(with[0].kind(), ExprKind::Var(_))
        })
    }

    /// The expression with quotients and remainders of unknowns by positive numbers as unknowns.
    fn without_quotients(&mut self, e: &Expr) -> Option<Expr> {
        let mut possible = true;
        let made = rewrite(&tidy(e), &mut Memo::default(), &mut |_, new| match new.kind() {
            ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), a, b)
                if is_index(new.ty()) && self.is_unknown(a) =>
            {
                let whole = self.parts(a, b);
                possible &= whole.is_some();
                whole.map_or(new.clone(), |[q, s]| if *op == BinaryOp::Div { q } else { s })
            }
            _ => new,
        });
        possible.then_some(made)
    }

    /// `e` with the quotients and remainders that the equations have by their names.
    pub(super) fn named(&self, e: &Expr) -> Expr {
        rewrite(e, &mut Memo::default(), &mut |_, new| match new.kind() {
            ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), a, b) => {
                let parts = self.parts.get(&(a.clone(), b.clone()));
                parts.map_or(new.clone(), |[q, s]| if *op == BinaryOp::Div { q.clone() } else { s.clone() })
            }
            _ => new,
        })
    }

    /// `name`, or that with as many underscores as it takes to be another than all.
    fn fresh(&self, mut name: String) -> Name {
        while self.taken.iter().any(|t| ***t == *name) || self.unknowns.iter().any(|u| *u.name == *name) {
            name.push('_');
        }
        name.into()
    }

    /// Quotient and remainder of `a` by `b`.
    fn parts(&mut self, a: &Expr, b: &Expr) -> Option<[Expr; 2]> {
        let key = (a.clone(), b.clone());
        if let Some(known) = self.parts.get(&key) {
            return Some(known.clone());
        }
        let form = self.polys.of(a);
        let positive = self.facts.lower(b).is_some_and(|c| c > 0);
        if !self.is_linear(&form) || !positive || a.ty() != Type::I32 {
            return None;
        }
        let hulls = self.unknowns.iter().map(|u| (u.name.clone(), u.hull.clone())).collect();
        let quotient = interval(self.p, &hulls, &(a / b)).ok()?;
        let n = self.parts.len();
        let remainder = Interval { min: Expr::from(0), max: tidy(&(b - 1)) };
        let [q, s] = [("quotient", quotient, true), ("remainder", remainder, false)].map(
            |(what, range, is_quotient)| {
                let name = self.fresh(format!("{what}{n}"));
                let hull = range.clone();
                self.unknowns.push(Unknown { name: name.clone(), range, hull, is_quotient });
                Expr::var(name)
            },
        );
        let whole = self.polys.of(&(b * &q + &s));
        self.equations.push(form.plus(&whole, -1)?);
        self.parts.insert(key, [q.clone(), s.clone()]);
        Some([q, s])
    }

    /// Eliminates as many unknowns as there are equations for them.
    pub(super) fn eliminate(&mut self) {
        while let Some((at, name, c)) = self.pivot() {
            let equation = self.equations.remove(at);
            let (equation, divides) = self.divisible(equation, &name, c);
            let rest = equation.without(&Mono::Atom(Expr::var(name.clone())));
            // c v + rest = 0.
            let numerator = rest.scaled(-c.signum()).unwrap_or_default();
            let value = match c.abs() {
                1 => rebuild(&numerator, Type::I32),
                n => {
                    if !divides {
                        let remainder = rebuild(&numerator, Type::I32).modulo(Expr::from(n as i32));
                        self.conds.push(tidy(&remainder).eq_(0));
                    }
                    self.quotient(numerator, n)
                }
            };
            self.replace(&name, &value);
        }
        // Without an unknown to solve for, an equation is a condition.
        for equation in std::mem::take(&mut self.equations) {
            let e = rebuild(&equation, Type::I32);
            if e.as_int() != Some(0) {
                self.conds.push(e.eq_(0));
            }
        }
    }

    /// The equation to use next, the unknown to solve it for, and its coefficient: the longest loop, of these the least coefficient.
    fn pivot(&mut self) -> Option<Pivot> {
        let mut best: Option<(Rank, Pivot)> = None;
        for (at, equation) in self.equations.iter().enumerate() {
            for (m, c) in &equation.terms {
                let Some(u) = self.alone(m) else { continue };
                let others = equation.without(m);
                let elsewhere =
                    others.terms.iter().any(|(o, _)| o.iter().any(|e| variables(e).contains(&u.name)));
                if elsewhere || c.checked_abs().is_none_or(|c| c > i64::from(i32::MAX)) {
                    continue;
                }
                // A quotient follows from what is solved for its parts.
                let key = (u.size(), i64::from(u.is_quotient), -c.abs());
                if best.as_ref().is_none_or(|(known, _)| key > *known) {
                    best = Some((key, (at, u.name.clone(), *c)));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    fn alone(&self, m: &Mono) -> Option<&Unknown> {
        let [e] = &m[..] else { return None };
        match e.kind() {
            ExprKind::Var(name) => self.find(name),
            _ => None,
        }
    }

    /// The equation with, if there is one, an unknown other than `name` replaced so that `name`'s coefficient c divides the rest; tells
    /// whether it does.
    ///
    /// Of c v + b w + rest = 0 with b prime to c, w is the residue `-rest / b` modulo c, plus a multiple of c.
    fn divisible(&mut self, equation: Poly, name: &Name, c: i64) -> (Poly, bool) {
        let modulus = c.abs();
        if modulus == 1 {
            return (equation, true);
        }
        let candidate = equation.terms.iter().filter_map(|(m, b)| {
            let u = self.alone(m).filter(|u| u.name != *name && gcd(*b, modulus) == 1)?;
            Some((u.clone(), m.clone(), *b))
        });
        let Some((w, m, b)) = candidate.min_by_key(|(u, ..)| u.size()) else { return (equation, false) };
        let rest = equation.without(&m).without(&Mono::Atom(Expr::var(name.clone())));
        let inverse = inverse(b, modulus);
        let n = Expr::from(modulus as i32);
        // From the first value on: w = first + c k + residue.
        let first = &w.hull.min;
        let mut rest = rebuild(&rest, Type::I32);
        if inverse.abs() != 1 {
            // The product with the inverse must not overflow.
            if modulus > LARGEST_MODULUS {
                return (equation, false);
            }
            rest = if modulus > SMALL_MODULUS { rest.modulo(&n) } else { rest };
        }
        let wanted = rest * -(inverse as i32) - first;
        let residue = tidy(&wanted.modulo(&n));
        let steps = self.fresh(format!("{}_step", w.name));
        let last = tidy(&((w.hull.extent() - 1) / &n));
        let range = Interval { min: Expr::from(0), max: last };
        let k = Expr::var(steps.clone());
        if range.max.as_int() == Some(0) {
            self.replace(&w.name, &tidy(&(first + &residue)));
        } else {
            self.unknowns.push(Unknown { name: steps, hull: range.clone(), range, is_quotient: false });
            self.replace(&w.name, &(first + &k * &n + &residue));
        }
        let value = self.solved.last().map(|(_, e)| e.clone()).unwrap_or_else(|| k.clone());
        (self.with(&equation, &w.name, &value), true)
    }

    /// `numerator / n`, where n divides it unless a condition is about to fail: of `a - (b % n)` with a and b the same modulo n, `a / n`.
    fn quotient(&mut self, numerator: Poly, n: i64) -> Expr {
        for (m, c) in &numerator.terms {
            let [e] = &m[..] else { continue };
            let ExprKind::Binary(BinaryOp::Mod, of, by) = e.kind() else { continue };
            let rest = numerator.without(m);
            let apart = rest.clone().plus(&self.polys.of(of), -1);
            let same = apart.is_some_and(|d| d.constant % n == 0 && d.terms.iter().all(|(_, c)| c % n == 0));
            if *c == -1 && by.as_int() == Some(n) && same {
                return tidy(&(rebuild(&rest, Type::I32) / Expr::from(n as i32)));
            }
        }
        tidy(&(rebuild(&numerator, Type::I32) / Expr::from(n as i32)))
    }

    /// Unknown `name` is `value` from here on.
    fn replace(&mut self, name: &Name, value: &Expr) {
        let equations = std::mem::take(&mut self.equations);
        self.equations = equations.iter().map(|p| self.with(p, name, value)).collect();
        self.solved.push((name.clone(), value.clone()));
    }

    fn with(&mut self, p: &Poly, name: &Name, value: &Expr) -> Poly {
        let by = FxHashMap::from_iter([(name.clone(), value.clone())]);
        let e = crate::expr::walk::substitute(&rebuild(p, Type::I32), &by);
        self.polys.of(&e)
    }
}
