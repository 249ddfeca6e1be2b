//! Interior and general body.
//!
//! Before: vectorised statements; conditions that hold in the interior are marked `likely`. After: no `Likely` node outside of kernels. Follows
//! vectorising (conditions of all lanes are known) and precedes a simplification.
//!
//! A GPU's kernel stays as it is, marks and all: its threads take ways of their own (`interior`, the next pass).
//!
//! Each innermost loop body (and code outside loops) that holds likely conditions becomes
//! `if all of them hold in all lanes { body without them } else { general body }`. Two bodies only, and nothing is
//! split inside the general body; a long one stays alone where the interior saves little of it. Where the conditions are bounds of the loop's variable
//! the loop is cut there; a test that is the same in all iterations is made once, in front of two loops. The order of iterations does not change. The test is scalar: a vector condition on an affine function of
//! the lane is that of its first or last lane, others are reduced. A condition that reads memory takes part only if it is scalar, is
//! evaluated whenever the body runs, and reads nothing that the body has stored before; one that needs a name bound deeper in the body only if that name's value can be computed up front.

use super::cut::{Interior, straightened};
use super::simplify::{simplify_expr_with, simplify_with};
use crate::analysis::algebra::Facts;
use crate::analysis::algebra::poly::Poly;
use crate::expr::walk::{Memo, any, rewrite, substitute, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use crate::types::ScalarType;
use rustc_hash::{FxHashMap, FxHashSet};

/// Nodes from which on a body is made twice only where the interior has an eighth fewer.
const LONG_BODY: usize = 10_000;

/// See the module's description.
pub fn partition(s: &Stmt) -> Stmt {
    partition_with(s, &Facts::new())
}

/// As [`partition`], where `facts` (bounds of parameters) hold.
pub fn partition_with(s: &Stmt, facts: &Facts) -> Stmt {
    if has_loop(s) { walk(s, facts) } else { two_bodies(s, facts) }
}

/// Goes down to the innermost loops.
fn walk(s: &Stmt, facts: &Facts) -> Stmt {
    match s {
        Stmt::Let { name, value, body } => {
            let mut inner = facts.clone();
            inner.enter_let(name, value);
            let body = Box::new(walk(body, &inner));
            Stmt::Let { name: name.clone(), value: strip_expr(value), body }
        }
        Stmt::For { kind: ForKind::GpuBlock, .. } => s.clone(),
        Stmt::For { var, min, extent, kind, body } => {
            let mut inner = facts.clone();
            inner.enter_for(var, min, extent);
            if *kind == ForKind::Serial
                && !has_loop(body)
                && let Some(ranges) = in_ranges(var, &strip_expr(min), &strip_expr(extent), body, &inner)
            {
                return ranges;
            }
            let new = if has_loop(body) { walk(body, &inner) } else { two_bodies(body, &inner) };
            let (min, extent) = (strip_expr(min), strip_expr(extent));
            let around = |body| {
                let (min, extent) = (min.clone(), extent.clone());
                Stmt::For { var: var.clone(), min, extent, kind: *kind, body: Box::new(body) }
            };
            match new {
                Stmt::If { cond, then, otherwise: Some(no) }
                    if *kind == ForKind::Serial && is_fixed(&cond, var) =>
                {
                    let (then, otherwise) = (Box::new(around(*then)), Some(Box::new(around(*no))));
                    Stmt::If { cond, then, otherwise }
                }
                new => around(new),
            }
        }
        Stmt::If { cond, then, otherwise } => {
            let (mut yes, mut no) = (facts.clone(), facts.clone());
            yes.assume(cond);
            no.assume_not(cond);
            Stmt::If {
                cond: strip_expr(cond),
                then: Box::new(walk(then, &yes)),
                otherwise: otherwise.as_ref().map(|o| Box::new(walk(o, &no))),
            }
        }
        s => map_children(s, &mut strip_expr, &mut |s| walk(s, facts)),
    }
}

/// A serial innermost loop cut at its interior, if bounds of its variable say where that is.
fn in_ranges(var: &Name, min: &Expr, extent: &Expr, body: &Stmt, facts: &Facts) -> Option<Stmt> {
    let (rest, lets, mut tests) = straightened(body, var);
    let (mut inner, mut values) = (facts.clone(), FxHashMap::default());
    for (name, value) in &lets {
        inner.enter_let(name, value);
        values.insert(name.clone(), strip_expr(&substitute(value, &values)));
    }
    let mut found = Conditions::default();
    found.collect(&rest, &FxHashMap::default(), true);
    let (test, taken) = found.test(&inner).unwrap_or_else(|| (Expr::bool(true), vec![]));
    conjuncts(&test, &mut tests);
    let mut outside = vec![];
    for test in &tests {
        conjuncts(&simplify_expr_with(&substitute(test, &values), facts), &mut outside);
    }
    let interior = Interior::of(strongest(outside.clone(), facts), var, facts)?;
    let mut inside = facts.clone();
    outside.iter().for_each(|test| inside.assume(test));
    let bind = |body, (name, value): &(Name, Expr)| Stmt::Let {
        name: name.clone(),
        value: value.clone(),
        body: Box::new(body),
    };
    let straight = lets.iter().rev().fold(assume_true(&rest, &taken), bind);
    let (interior_body, general) = (simplify_with(&strip(&straight), &inside), strip(body));
    let stop = min.clone() + extent.clone();
    (!is_not_worth_two(&interior_body, &general))
        .then(|| interior.around(var, min, &stop, interior_body, general))
}

/// Is a condition the same in all iterations, and computable where there are none?
pub(super) fn is_fixed(cond: &Expr, var: &Name) -> bool {
    !any(cond, |n| match n.kind() {
        ExprKind::Load { .. } => true,
        ExprKind::Var(v) => v == var,
        _ => false,
    })
}

pub(super) fn has_loop(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| found |= matches!(s, Stmt::For { .. }));
    found
}

/// Splits a body without loops. Lets at its top stay in front of the split.
fn two_bodies(s: &Stmt, facts: &Facts) -> Stmt {
    if let Stmt::Let { name, value, body } = s {
        let mut inner = facts.clone();
        inner.enter_let(name, value);
        // A top let with a likely condition in its value keeps it in both bodies' common part.
        let body = Box::new(two_bodies(body, &inner));
        return Stmt::Let { name: name.clone(), value: strip_expr(value), body };
    }
    let mut found = Conditions::default();
    found.collect(s, &FxHashMap::default(), true);
    let general = strip(s);
    let Some((test, taken)) = found.test(facts) else { return general };
    let mut inside = facts.clone();
    inside.assume(&test);
    let interior = simplify_with(&strip(&assume_true(s, &taken)), &inside);
    match test.as_int() {
        Some(0) => general,
        Some(_) => interior,
        None if is_not_worth_two(&interior, &general) => general,
        None => Stmt::If { cond: test, then: Box::new(interior), otherwise: Some(Box::new(general)) },
    }
}

/// Tells whether a long body is hardly shorter in the interior: LLVM would work twice for nothing.
pub(super) fn is_not_worth_two(interior: &Stmt, general: &Stmt) -> bool {
    let (inside, all) = (nodes(interior), nodes(general));
    all > LONG_BODY && all - inside.min(all) < all / 8
}

/// Number of distinct nodes in the expressions of a statement.
pub(crate) fn nodes(s: &Stmt) -> usize {
    let mut seen = FxHashSet::default();
    visit_stmts(s, &mut |s| own_exprs(s, &mut |e| visit(e, &mut |n| seen.insert(n.id()))));
    seen.len()
}

/// Likely conditions of a body. One node may occur under several bindings of its names (in unrolled copies): then it is
/// taken only if there is a test for every one.
#[derive(Default)]
struct Conditions {
    /// The condition below the `Likely`, and the scalar test that implies it in all lanes; none if it has no test.
    found: Vec<(Expr, Option<Expr>)>,
    /// Buffers that were allocated or stored to so far: what is read of them is not there yet in front of the body.
    written: FxHashSet<Flat>,
}

impl Conditions {
    /// `values`: what names bound inside stand for, none if that cannot be computed up front. `always`: the statement
    /// runs whenever the body does.
    fn collect(&mut self, s: &Stmt, values: &FxHashMap<Name, Option<Expr>>, always: bool) {
        own_exprs(s, &mut |e| {
            visit(e, &mut |n| {
                if let ExprKind::Likely(c) = n.kind() {
                    let test = scalar_test(c, values, always).filter(|_| !self.reads_written(c));
                    self.found.push((c.clone(), test));
                }
                true
            });
        });
        match s {
            Stmt::Block(v) => v.iter().for_each(|s| self.collect(s, values, always)),
            Stmt::Let { name, value, body } => {
                let mut inner = values.clone();
                inner.insert(name.clone(), up_front(value, values));
                self.collect(body, &inner, always);
            }
            Stmt::If { then, otherwise, .. } => {
                self.collect(then, values, false);
                otherwise.iter().for_each(|o| self.collect(o, values, false));
            }
            Stmt::Allocate { buffer, body, .. } => {
                self.written.insert(buffer.clone());
                self.collect(body, values, always);
            }
            Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } => {
                self.written.insert(buffer.clone());
            }
            _ => {}
        }
    }

    fn reads_written(&self, c: &Expr) -> bool {
        any(c, |n| matches!(n.kind(), ExprKind::Load { buffer, .. } if self.written.contains(buffer)))
    }

    /// The conjunction of the tests, without those that the others imply, and the conditions it makes true.
    fn test(self, facts: &Facts) -> Option<(Expr, Vec<Expr>)> {
        let mut memo = Simplified { facts, memo: FxHashMap::default() };
        let found: Vec<(Expr, Option<Expr>)> =
            self.found.into_iter().map(|(c, t)| (c, t.map(|t| memo.test(t)))).collect();
        // No test, or one that never holds, is no reason to have no interior: such a condition stays.
        let stays = |t: &Option<Expr>| t.as_ref().is_none_or(|t| t.as_int() == Some(0));
        let out: FxHashSet<usize> = found.iter().filter(|(_, t)| stays(t)).map(|(c, _)| c.id()).collect();
        let (mut tests, mut taken) = (vec![], vec![]);
        for (cond, test) in found.into_iter().filter(|(c, _)| !out.contains(&c.id())) {
            test.iter().for_each(|t| conjuncts(t, &mut tests));
            taken.push(cond);
        }
        if taken.is_empty() {
            return None;
        }
        let mut tests = strongest(tests, facts);
        for i in (0..tests.len()).rev() {
            let mut others = facts.clone();
            tests.iter().enumerate().filter(|(j, _)| *j != i).for_each(|(_, t)| others.assume(t));
            if others.decide(&tests[i]) == Some(true) {
                tests.remove(i);
            }
        }
        let all = tests.into_iter().reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::bool(true));
        Some((all, taken))
    }
}

/// The tests without those that another implies in plain sight: `x + 2 < n` beside `x + 5 < n`. A wide stencil has one for each of its
/// reads, and what is left is compared each with all.
pub(super) fn strongest(tests: Vec<Expr>, facts: &Facts) -> Vec<Expr> {
    let mut forms: Vec<(Expr, Option<Poly>)> = vec![];
    for test in tests {
        let form = facts.at_most_zero(&test);
        let more = |f: &Option<Poly>| form.as_ref()?.difference(f.as_ref()?);
        match forms.iter().enumerate().find_map(|(i, (_, f))| Some((i, more(f)?))) {
            Some((_, ..=0)) => continue,
            Some((weaker, _)) => drop(forms.remove(weaker)),
            None => {}
        }
        forms.push((test, form));
    }
    forms.into_iter().map(|(test, _)| test).collect()
}

/// Tests are simplified once each.
struct Simplified<'a> {
    facts: &'a Facts,
    memo: FxHashMap<Expr, Expr>,
}

impl Simplified<'_> {
    fn test(&mut self, test: Expr) -> Expr {
        let facts = self.facts;
        self.memo.entry(test.clone()).or_insert_with(|| simplify_expr_with(&test, facts)).clone()
    }
}

/// Appends the parts of a conjunction that are not there yet.
pub(super) fn conjuncts(e: &Expr, out: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Binary(BinaryOp::And, a, b) if e.ty().scalar == ScalarType::Bool => {
            conjuncts(a, out);
            conjuncts(b, out);
        }
        _ if e.as_int() == Some(1) || out.contains(e) => {}
        _ => out.push(e.clone()),
    }
}

/// `e` in terms of names from outside the body; none if it reads memory or cannot be expressed.
fn up_front(e: &Expr, values: &FxHashMap<Name, Option<Expr>>) -> Option<Expr> {
    let blocked = |n: &Expr| match n.kind() {
        ExprKind::Load { .. } => true,
        ExprKind::Var(v) => matches!(values.get(v), Some(None)),
        _ => false,
    };
    (!any(e, blocked)).then(|| substituted(e, values))
}

fn substituted(e: &Expr, values: &FxHashMap<Name, Option<Expr>>) -> Expr {
    let by = values.iter().filter_map(|(n, v)| v.clone().map(|v| (n.clone(), v))).collect();
    substitute(e, &by)
}

/// A scalar condition, computable before the body, under which `c` holds in all lanes.
fn scalar_test(c: &Expr, values: &FxHashMap<Name, Option<Expr>>, always: bool) -> Option<Expr> {
    let reads = any(c, |n| matches!(n.kind(), ExprKind::Load { .. }));
    let unknown = any(c, |n| matches!(n.kind(), ExprKind::Var(v) if matches!(values.get(v), Some(None))));
    if unknown || (reads && (c.ty().lanes > 1 || !always)) {
        return None;
    }
    let c = strip_expr(&substituted(c, values));
    Some(if c.ty().lanes == 1 { c } else { Expr::reduced(BinaryOp::And, c, 1) })
}

/// Makes the likely conditions in `taken` true.
pub(super) fn assume_true(s: &Stmt, taken: &[Expr]) -> Stmt {
    let taken: FxHashSet<usize> = taken.iter().map(Expr::id).collect();
    let mut memo = Memo::default();
    map_exprs(s, &mut |e| {
        rewrite(e, &mut memo, &mut |old, new| match old.kind() {
            ExprKind::Likely(c) if taken.contains(&c.id()) => {
                crate::analysis::algebra::rebuild::splat(Expr::bool(true), new.ty().lanes)
            }
            _ => new,
        })
    })
}

/// Without `Likely` marks.
pub(super) fn strip(s: &Stmt) -> Stmt {
    let mut memo = Memo::default();
    map_exprs(s, &mut |e| strip_with(e, &mut memo))
}

pub(super) fn strip_expr(e: &Expr) -> Expr {
    strip_with(e, &mut Memo::default())
}

fn strip_with(e: &Expr, memo: &mut Memo) -> Expr {
    rewrite(e, memo, &mut |_, new| match new.kind() {
        ExprKind::Likely(c) => c.clone(),
        _ => new,
    })
}

/// Maps all expressions of a statement.
fn map_exprs(s: &Stmt, f: &mut impl FnMut(&Expr) -> Expr) -> Stmt {
    match s {
        Stmt::Block(v) => block(v.iter().map(|s| map_exprs(s, f)).collect()),
        s => {
            let own = map_children(s, f, &mut Stmt::clone);
            map_children(&own, &mut Expr::clone, &mut |s| map_exprs(s, f))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lower::simplify::simplify;
    use crate::lower::vectorize::vectorize;
    use crate::schedule::ForKind;
    use crate::types::Type;

    pub(in crate::lower) fn v(n: &str) -> Expr {
        Expr::var(n)
    }
    pub(in crate::lower) fn load(index: Expr) -> Expr {
        let index = index.cast(ScalarType::I64);
        Expr::load("f.0", index, Type::F32)
    }
    pub(in crate::lower) fn store(index: Expr, value: Expr) -> Stmt {
        Stmt::store("g.0", index.cast(ScalarType::I64), value)
    }
    pub(in crate::lower) fn for_(var: &str, extent: Expr, kind: ForKind, body: Stmt) -> Stmt {
        Stmt::For { var: var.into(), min: Expr::from(0), extent, kind, body: Box::new(body) }
    }

    #[test]
    fn a_guarded_stencil_has_two_bodies() {
        let x = v("xo") * 8 + v("xi");
        let inside = x.clone().gt(0).likely();
        let value = Expr::select(inside, load(x.clone() - 1), Expr::from(0.0f32));
        let guarded = Stmt::If {
            cond: x.clone().lt(v("w")).likely(),
            then: Box::new(store(x, value)),
            otherwise: None,
        };
        let inner = for_("xi", Expr::from(8), ForKind::Vectorized, guarded);
        let s = for_("xo", (v("w") + 7) / 8, ForKind::Serial, inner);
        let s = partition(&simplify(&vectorize(&s).unwrap()));
        let text = s.to_string();
        // Consecutive ranges, the interior without conditions, and one general body for what lies around it.
        let interior =
            "g.0[ramp(i64(xo) * 8:i64, 1:i64, 8)] = f.0[ramp(i64(xo) * 8:i64 - 1:i64, 1:i64, 8)] aligned";
        for part in ["for xo.range in [0, 3) {", "if xo.range == 1 {", interior] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("likely"), "{text}");
        assert_eq!(text.matches("g.0[").count(), 2, "{text}");
    }

    #[test]
    fn the_last_vector_alone_is_shifted() {
        let body = Stmt::Let {
            name: "x".into(),
            value: (v("xo") * 8).min(v("w") - 8),
            body: Box::new(store(v("x"), Expr::from(1.0f32))),
        };
        let s = partition(&for_("xo", (v("w") + 7) / 8, ForKind::Serial, body));
        let text = simplify(&s).to_string();
        let expected = "\
let xo.end = max(w / 8, 0)
for xo in [0, xo.end) {
  let x = xo * 8
  g.0[i64(x)] = 1f
}
if likely(0 < (w + 7) / 8 - xo.end) {
  g.0[i64(w) - 8:i64] = 1f
}
";
        assert_eq!(text, expected);
    }

    #[test]
    fn conditions_on_memory_count_only_where_they_always_run() {
        let flag = load(v("x")).gt(Expr::from(0.0f32)).likely();
        let body =
            Stmt::If { cond: flag, then: Box::new(store(v("x"), Expr::from(1.0f32))), otherwise: None };
        let top = partition(&for_("x", v("n"), ForKind::Serial, body.clone())).to_string();
        assert!(top.contains("} else {"), "{top}");
        let below = Stmt::If { cond: v("x").lt(v("m")), then: Box::new(body), otherwise: None };
        let text = partition(&for_("x", v("n"), ForKind::Serial, below)).to_string();
        assert!(!text.contains("else") && !text.contains("likely"), "{text}");
    }
    #[test]
    fn conditions_on_what_the_body_stores_stay() {
        let flag = load(v("x")).gt(Expr::from(0.0f32)).likely();
        let guarded =
            Stmt::If { cond: flag, then: Box::new(store(v("x"), Expr::from(1.0f32))), otherwise: None };
        let before = Stmt::store("f.0", v("x"), v("x").cast(ScalarType::F32));
        let body = Stmt::Block(vec![before, guarded]);
        let text = partition(&for_("x", v("n"), ForKind::Serial, body)).to_string();
        assert!(!text.contains("else") && text.contains("if f.0[i64(x)] > 0f"), "{text}");
    }
}
