//! All points of a space that read one element: what an adjoint there adds up.
//!
//! The coordinates of a read are cut into pieces ([`crate::gradient::pieces`]), and each piece is solved ([`crate::gradient::solve`]). A piece says
//! where its sum is stored, over which loops it runs, and which point of the space each iteration is.
//!
//! Invariant: every iteration evaluates the definition at a point of its space, clamped to it where the solution lies outside; there, the
//! condition is false. So an adjoint reads nothing that the definition itself does not.

use crate::analysis::algebra::build::{max, min};
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Mono, Poly};
use crate::analysis::algebra::rebuild::rebuild;
use crate::analysis::algebra::{Facts, Interval, is_index};
use crate::expr::walk::{Substitution, any, nodes, substitute, uses_var, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, Part};
use crate::func::{Pipeline, RVar, Var};
use crate::gradient::pieces::{Piece, pieces};
use crate::gradient::solve::{System, Unknown};
use crate::gradient::space::{Axis, Place, Space};
use crate::gradient::tidy::tidy;
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// One piece, solved.
pub(super) struct Inverse {
    /// Coordinates that are written, one per dimension of what is read; none is its own variable.
    pub at: Vec<Option<Expr>>,
    /// Loops.
    pub loops: Vec<RVar>,
    /// The number of the last ones of them that are held.
    pub held: usize,
    /// Points that count: a condition of the definition's own.
    pub predicate: Option<Expr>,
    /// The point of the space, by the names of its axes.
    pub point: FxHashMap<Name, Expr>,
    /// Is it a point of the space? None if it always is.
    pub cond: Option<Expr>,
    /// Knowledge of loops and coordinates.
    pub place: Place,
}

/// Solves reads of one definition.
pub(super) struct Inverter<'p> {
    pub p: &'p Pipeline,
    pub space: &'p Space,
    /// Begins the names of loops: that of the definition.
    pub prefix: &'p str,
}

impl Inverter<'_> {
    /// The inverses of a read at `args` of what has the variables `vars`, at `place`. Fails with what has no bounds.
    pub(super) fn of(&self, args: &[Expr], vars: &[Var], place: &Place) -> Result<Vec<Inverse>, String> {
        let renamed = self.renamed(vars)?;
        let mut names = Substitution::new(&renamed.names);
        let args: Vec<Expr> = args.iter().map(|a| tidy(&names.apply(a))).collect();
        let mut place = place.clone();
        positive_extents(&mut place.facts, &args);
        for u in renamed.unknowns.iter().chain(&renamed.held) {
            place.enter(&u.name, &u.hull);
        }
        let mine: FxHashSet<&Name> = renamed.unknowns.iter().map(|u| &u.name).collect();
        let moves = |e: &Expr| any(e, |n| matches!(n.kind(), ExprKind::Var(v) if mine.contains(v)));
        let is_data =
            |n: &Expr| matches!(n.kind(), ExprKind::Call { .. }) || !is_index(n.ty()) && n.ty() != Type::BOOL;
        let cut = |e: &Expr| moves(e) && !any(e, |n| is_data(n) && moves(n));
        let all = pieces(&args, &cut, &place.facts);
        all.into_iter().filter_map(|piece| self.solve(piece, vars, &renamed, &place).transpose()).collect()
    }

    fn renamed(&self, vars: &[Var]) -> Result<Renamed, String> {
        let mut hull = self.space.hull(self.p)?;
        let mut names: FxHashMap<Name, Expr> = FxHashMap::default();
        let (mut unknowns, mut held) = (vec![], vec![]);
        for a in &self.space.axes {
            let mut name = format!("{}_{}", self.prefix, a.name).replace('.', "_");
            while vars.iter().any(|v| **v.name() == *name)
                || unknowns.iter().chain(&held).any(|u: &Unknown| *u.name == *name)
            {
                name.push('_');
            }
            let ends = [&a.range.min, &a.range.max].map(|e| substitute(e, &names));
            let [min, max] = ends;
            let range = Interval { min, max };
            let hull = hull.remove(&a.name).unwrap_or_else(|| range.clone());
            names.insert(a.name.clone(), Expr::var(&*name));
            let unknown = Unknown { name: name.into(), range, hull, is_quotient: false };
            if a.is_held { &mut held } else { &mut unknowns }.push(unknown);
        }
        Ok(Renamed { names, unknowns, held })
    }

    fn solve(
        &self,
        piece: Piece,
        vars: &[Var],
        renamed: &Renamed,
        place: &Place,
    ) -> Result<Option<Inverse>, String> {
        let taken: Vec<&Name> = vars.iter().map(Var::name).collect();
        let mut system = System::new(self.p, &place.facts, renamed.unknowns.clone(), taken);
        let mut at = vec![];
        for (arg, v) in piece.args.iter().zip(vars) {
            let own = system.is_unknown(arg) && system.equate(arg, &v.expr());
            at.push((!own).then(|| arg.clone()));
        }
        let own: Vec<Expr> = piece.conds.iter().map(|c| system.named(c)).collect();
        system.eliminate();
        let mut conds = system.conds.clone();
        conds.extend(own);
        Solution::new(self.p, system, &renamed.held, place.clone()).inverse(
            at,
            conds,
            &self.space.axes,
            renamed,
            self.space.predicate.as_ref(),
        )
    }
}

/// The axes of a space under names that nothing else has.
struct Renamed {
    names: FxHashMap<Name, Expr>,
    unknowns: Vec<Unknown>,
    /// Behind all others.
    held: Vec<Unknown>,
}

/// A system that was solved.
struct Solution<'p> {
    p: &'p Pipeline,
    /// Those that stay: the loops. Held ones come last.
    stay: Vec<Unknown>,
    held: FxHashSet<Name>,
    /// Those that were eliminated, in terms of what stays.
    gone: Vec<(Unknown, Expr)>,
    place: Place,
}

impl<'p> Solution<'p> {
    fn new(p: &'p Pipeline, system: System, held: &[Unknown], place: Place) -> Solution<'p> {
        let mut known: FxHashMap<Name, Expr> = FxHashMap::default();
        for (name, e) in system.solved.iter().rev() {
            let e = tidy(&substitute(e, &known));
            known.insert(name.clone(), e);
        }
        let (gone, mut stay): (Vec<_>, Vec<_>) =
            system.unknowns.iter().cloned().partition(|u| known.contains_key(&u.name));
        let gone = gone.into_iter().map(|u| (u.clone(), known[&u.name].clone())).collect();
        stay.extend(held.iter().cloned());
        let held = held.iter().map(|u| u.name.clone()).collect();
        Solution { p, stay, held, gone, place }
    }

    fn inverse(
        mut self,
        at: Vec<Option<Expr>>,
        conds: Vec<Expr>,
        axes: &[Axis],
        renamed: &Renamed,
        predicate: Option<&Expr>,
    ) -> Result<Option<Inverse>, String> {
        let exact: FxHashMap<Name, Expr> =
            self.gone.iter().map(|(u, e)| (u.name.clone(), e.clone())).collect();
        let mut open: Vec<Expr> = conds.iter().map(|c| tidy(&substitute(c, &exact))).collect();
        let (loops, mut within) = self.loops(&exact, &mut open);
        open.iter_mut().for_each(|c| *c = tidy(&substitute(c, &within)));
        // Where each eliminated one is, within its range.
        for (u, e) in &self.gone {
            let e = &tidy(&substitute(e, &within));
            let ends = [&u.range.min, &u.range.max].map(|end| substitute(end, &within));
            let [min, max] = ends;
            let (clamped, conds) = self.place.clamped(self.p, e, &Interval { min, max });
            if u.is_quotient {
                within.insert(u.name.clone(), e.clone());
            } else {
                within.insert(u.name.clone(), clamped);
                open.extend(conds);
            }
        }
        let Some(left) = self.undecided(&open) else { return Ok(None) };
        let mut point: FxHashMap<Name, Expr> = FxHashMap::default();
        for (a, u) in axes.iter().zip(renamed.unknowns.iter().chain(&renamed.held)) {
            point.insert(
                a.name.clone(),
                within.get(&u.name).cloned().unwrap_or_else(|| Expr::var(u.name.clone())),
            );
        }
        let at = at.into_iter().map(|a| a.map(|a| tidy(&substitute(&a, &within)))).collect();
        let predicate = predicate.map(|p| tidy(&substitute(p, &point)));
        let cond = left.into_iter().reduce(|a, b| a.and(b));
        let held = loops.iter().filter(|r| self.held.contains(&r.name)).count();
        let place = self.place;
        Ok(Some(match loops.is_empty() {
            true => {
                let cond = [cond, predicate].into_iter().flatten().reduce(|a, b| a.and(b));
                Inverse { at, loops, held, predicate: None, point, cond, place }
            }
            false => Inverse { at, loops, held, predicate, point, cond, place },
        }))
    }

    /// Those conditions that neither the facts nor others among them decide; none if they cannot all hold. Ranges hold nearly everywhere.
    fn undecided(&self, conds: &[Expr]) -> Option<Vec<Expr>> {
        let mut open = vec![];
        let mut stack: Vec<Expr> = conds.iter().rev().cloned().collect();
        while let Some(c) = stack.pop() {
            match c.kind() {
                ExprKind::Binary(BinaryOp::And, a, b) => stack.extend([b.clone(), a.clone()]),
                _ => open.push(c),
            }
        }
        let mut left: Vec<Expr> = vec![];
        for (i, c) in open.iter().enumerate() {
            let mut facts = self.place.facts.clone();
            left.iter().chain(&open[i + 1..]).for_each(|other| facts.assume(other));
            match self.place.facts.decide(c).or_else(|| facts.decide(c)) {
                Some(true) => {}
                Some(false) => return None,
                None => left.push(c.clone()),
            }
        }
        let is_range = |c: &Expr| matches!(c.kind(), ExprKind::Binary(BinaryOp::Le | BinaryOp::Lt, ..));
        Some(left.into_iter().map(|c| if is_range(&c) { c.likely() } else { c }).collect())
    }

    /// The loops, as short as the conditions on them alone make them, and what has one value only, by name.
    fn loops(
        &mut self,
        exact: &FxHashMap<Name, Expr>,
        open: &mut Vec<Expr>,
    ) -> (Vec<RVar>, FxHashMap<Name, Expr>) {
        let names: FxHashSet<Name> = self.stay.iter().map(|u| u.name.clone()).collect();
        let stays = |e: &Expr| variables(e).iter().any(|v| names.contains(v));
        let (mut loops, mut single) = (vec![], FxHashMap::default());
        for u in &self.stay {
            let mut range = u.hull.clone();
            let exactly = [&u.range.min, &u.range.max].map(|e| tidy(&substitute(e, exact)));
            let v = Expr::var(u.name.clone());
            if !exactly.iter().any(stays) {
                let [min, max] = exactly;
                range = Interval { min, max };
            } else if u.range != u.hull {
                let [min, max] = exactly;
                open.extend([min.le(&v), v.le(&max)]);
            }
            open.retain(|c| !self.narrow(&mut range, &u.name, c));
            // Bounds inference knows no more of a ragged loop than its hull.
            let is_box = variables(&range.min).is_empty() && variables(&range.max).is_empty();
            self.place.enter(&u.name, if is_box { &range } else { &u.hull });
            let extent = range.extent();
            if is_box && extent.as_int() == Some(1) {
                single.insert(u.name.clone(), range.min);
                continue;
            }
            loops.push(RVar { name: u.name.clone(), min: range.min, extent });
        }
        (loops, single)
    }

    /// Narrows the range of `name` by a condition; true if nothing is left of the condition.
    fn narrow(&self, range: &mut Interval, name: &Name, cond: &Expr) -> bool {
        let Some(f) = self.place.facts.at_most_zero(cond) else { return false };
        let Some(of) = Quotient::of(&f, name) else { return false };
        // c (v + offset) / n + rest <= 0, for any values of what else varies.
        let is_box = |i: &Interval| variables(&i.min).is_empty() && variables(&i.max).is_empty();
        let all = |e: &Expr| self.place.interval(self.p, e).ok().filter(is_box);
        let (Some(offset), Some(rest)) = (all(&of.offset), all(&of.rest)) else { return false };
        let is_exact = variables(&of.offset).is_empty() && variables(&of.rest).is_empty();
        // A loop of constant length may be written out.
        if !is_exact && range.extent().as_int().is_some() {
            return false;
        }
        let (n, c) = (&Expr::from(of.n), &Expr::from(of.c.abs()));
        if of.c > 0 {
            let last = (Expr::from(0) - &rest.min) / c;
            range.max = min(&range.max, &tidy(&(last * n + n - 1 - &offset.min)));
        } else {
            let first = (&rest.min + c - 1) / c;
            range.min = max(&range.min, &tidy(&(first * n - &offset.max)));
        }
        is_exact
    }
}

/// `c (v + offset) / n + rest` with a variable v that is nowhere else.
struct Quotient {
    c: i32,
    offset: Expr,
    n: i32,
    rest: Expr,
}

impl Quotient {
    /// The form of `f` in variable `name`; a multiple of it is a quotient by 1.
    fn of(f: &Poly, name: &Name) -> Option<Quotient> {
        let own = Mono::Atom(Expr::var(name.clone()));
        let (m, c) = f.terms.iter().find(|(m, _)| m.iter().any(|e| uses_var(e, name)))?;
        let [e] = &m[..] else { return None };
        let (inner, n) = match e.kind() {
            ExprKind::Var(_) => (Poly::default(), 1),
            ExprKind::Binary(BinaryOp::Div, a, b) => {
                let a = Polys::default().of(a);
                let n = b.as_int().and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0)?;
                (if a.coef(&own) == 1 { a.without(&own) } else { return None }, n)
            }
            _ => return None,
        };
        let [offset, rest] = [&inner, &f.without(m)].map(|p| rebuild(p, Type::I32));
        let c = i32::try_from(*c).ok().filter(|c| *c != i32::MIN)?;
        let apart = [&offset, &rest].iter().all(|e| !uses_var(e, name));
        apart.then_some(Quotient { c, offset, n, rest })
    }
}

/// Something is read of every buffer whose extent coordinates mention.
fn positive_extents(facts: &mut Facts, args: &[Expr]) {
    for e in nodes(args) {
        if let ExprKind::Param(part @ Param::Of(_, Part::Extent(_))) = e.kind() {
            facts.param_interval(part.clone(), Some(Expr::from(1)), None);
        }
    }
}
