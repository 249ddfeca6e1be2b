//! Sums, products and integer powers in normal form.
//!
//! A [`Node::Sum`] collects like terms and folds constants; a [`Node::Prod`] merges integer exponents and owns no
//! coefficient. Two rules join them to conditions: a boolean or guarded factor becomes the guard of the whole product
//! (`b * x` is `Select(b, x, 0)`), and terms of a sum under one condition share one Select.

use super::{Const, Dag, ExprId, Function, Node};

/// Sums and products longer than this are not flattened into others, so that building n terms one by one costs O(n).
const FLATTEN_LIMIT: usize = 128;
/// Constructors nested deeper than this stop merging Selects (they would recurse along the nest).
const NESTING_LIMIT: u32 = 48;

type Terms = Vec<(f64, ExprId)>;
type Factors = Vec<(ExprId, i64)>;

impl Dag {
    /// `a + b`.
    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.sum(0.0, &[(1.0, a), (1.0, b)])
    }

    /// `a - b`.
    pub fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.sum(0.0, &[(1.0, a), (-1.0, b)])
    }

    /// `-a`.
    pub fn neg(&mut self, a: ExprId) -> ExprId {
        self.sum(0.0, &[(-1.0, a)])
    }

    /// `factor * a`.
    pub fn scale(&mut self, factor: f64, a: ExprId) -> ExprId {
        self.sum(0.0, &[(factor, a)])
    }

    /// `a * b`.
    pub fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.product(1.0, &[(a, 1), (b, 1)])
    }

    /// `a / b`.
    pub fn div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.product(1.0, &[(a, 1), (b, -1)])
    }

    /// `a^n`; `a^0` is 1 for any `a`.
    pub fn powi(&mut self, a: ExprId, n: i32) -> ExprId {
        self.product(1.0, &[(a, n)])
    }

    /// `constant + sum coefficient * term`.
    pub fn sum(&mut self, constant: f64, terms: &[(f64, ExprId)]) -> ExprId {
        let mut constant = constant;
        let mut flat = Terms::with_capacity(terms.len());
        for &(c, t) in terms {
            self.push_term(c, t, &mut constant, &mut flat);
        }
        self.spend(2 * flat.len());
        flat.sort_by_key(|&(_, t)| t);
        flat.dedup_by(|next, kept| {
            let same = next.1 == kept.1;
            if same {
                kept.0 += next.0;
            }
            same
        });
        flat.retain(|&(c, _)| c != 0.0);
        if !self.ungrouped && self.nesting < NESTING_LIMIT && flat.len() > 1 && !self.is_spent() {
            self.nesting += 1;
            let merged = self.merge_selects(&flat);
            let result = merged.map(|m| self.sum(constant, &m));
            self.nesting -= 1;
            if let Some(r) = result {
                return r;
            }
        }
        self.finish_sum(constant, &flat)
    }

    /// Adds `c * t` to `constant + flat`, flattening nested sums.
    fn push_term(&self, c: f64, t: ExprId, constant: &mut f64, flat: &mut Terms) {
        if c == 0.0 {
            return;
        }
        match self.node(t) {
            Node::Const(k) => {
                if k.get() != 0.0 {
                    *constant += c * k.get();
                }
            }
            Node::Sum { constant: k, terms }
                if terms.len() <= FLATTEN_LIMIT && scales_safely(c, k.get(), terms) =>
            {
                if k.get() != 0.0 {
                    *constant += c * k.get();
                }
                flat.extend(terms.iter().map(|&(ck, tk)| (c * ck.get(), tk)));
            }
            _ => flat.push((c, t)),
        }
    }

    /// The node for sorted, distinct terms with non-zero coefficients.
    fn finish_sum(&mut self, constant: f64, terms: &[(f64, ExprId)]) -> ExprId {
        match *terms {
            [] => return self.constant(constant),
            [(c, t)] if constant == 0.0 => {
                if c == 1.0 {
                    return t;
                }
                if let Some((cond, a)) = self.as_guarded(t) {
                    let scaled = self.sum(0.0, &[(c, a)]);
                    let zero = self.constant(0.0);
                    return self.select(cond, scaled, zero);
                }
                if !c.is_finite() && self.is_boolean(t) {
                    let value = self.constant(c);
                    let zero = self.constant(0.0);
                    return self.intern(Node::Select(t, value, zero));
                }
            }
            [(-1.0, t)] if constant == 1.0 && self.is_boolean(t) => return self.not(t),
            _ => {}
        }
        let terms = terms.iter().map(|&(c, t)| (Const::new(c), t)).collect();
        self.intern(Node::Sum { constant: Const::new(constant), terms })
    }

    /// `constant + sum coefficient * term` with terms kept as they are: a term that is itself a sum is not multiplied out. For
    /// factored forms; any constructor that meets such a sum again may expand it.
    pub fn sum_unexpanded(&mut self, constant: f64, terms: &[(f64, ExprId)]) -> ExprId {
        let mut terms = terms.to_vec();
        terms.sort_by_key(|&(_, t)| t);
        let distinct = terms.windows(2).all(|w| w[0].1 != w[1].1);
        let plain = |&(c, t): &(f64, ExprId)| c != 0.0 && self.as_constant(t).is_none();
        match distinct && terms.iter().all(plain) {
            true => self.finish_sum(constant, &terms),
            false => self.sum(constant, &terms),
        }
    }

    /// A product of `factors^exponents` times `coefficient`.
    pub fn product(&mut self, coefficient: f64, factors: &[(ExprId, i32)]) -> ExprId {
        let mut p = Product { coefficient, factors: Factors::new(), guards: Vec::new() };
        for &(f, e) in factors {
            self.push_factor(f, i64::from(e), &mut p);
        }
        if p.coefficient == 0.0 {
            return self.constant(0.0);
        }
        let value = self.finish_product(p.coefficient, p.factors);
        if p.guards.is_empty() {
            return value;
        }
        let guard = self.and(&p.guards);
        let zero = self.constant(0.0);
        self.select(guard, value, zero)
    }

    /// A product of `factors^exponents` kept as they are: a factor that is itself a product is not merged. For shared parts;
    /// any constructor that meets such a product again may flatten it.
    pub fn product_unexpanded(&mut self, factors: &[(ExprId, i32)]) -> ExprId {
        let mut factors = factors.to_vec();
        factors.sort_unstable();
        let distinct = factors.windows(2).all(|w| w[0].0 != w[1].0);
        let plain = |&(f, e): &(ExprId, i32)| e != 0 && !self.is_boolean(f) && self.as_constant(f).is_none();
        match factors[..] {
            [(f, 1)] => f,
            [] => self.constant(1.0),
            _ if distinct && factors.iter().all(plain) => self.intern(Node::Prod(factors.into_boxed_slice())),
            _ => self.product(1.0, &factors),
        }
    }

    fn push_factor(&mut self, f: ExprId, e: i64, p: &mut Product) {
        if e == 0 || p.coefficient == 0.0 {
            return;
        }
        if self.is_boolean(f) && self.as_constant(f).is_none() {
            match e > 0 {
                true => p.guards.push(f),
                false => {
                    let (one, inf) = (self.constant(1.0), self.constant(f64::INFINITY));
                    p.factors.push((self.intern(Node::Select(f, one, inf)), 1));
                }
            }
            return;
        }
        match self.node(f) {
            Node::Const(k) => {
                let power = powi(k.get(), e);
                p.coefficient = if power == 0.0 { 0.0 } else { p.coefficient * power };
            }
            Node::Prod(inner) if inner.len() <= FLATTEN_LIMIT => {
                p.factors.extend(inner.iter().map(|&(g, n)| (g, i64::from(n).saturating_mul(e))));
            }
            Node::Sum { .. } => {
                let (content, primitive) = self.content(f);
                let power = powi(content, e);
                if power == 1.0 && primitive == f || !power.is_finite() || power == 0.0 {
                    p.factors.push((f, e));
                } else {
                    p.coefficient *= power;
                    self.push_factor(primitive, e, p);
                }
            }
            &Node::Select(cond, a, b) if e > 0 && self.is_constant(b, 0.0) => {
                p.guards.push(cond);
                self.push_factor(a, e, p);
            }
            _ => p.factors.push((f, e)),
        }
    }

    /// The node for `coefficient * factors`, none of which is a constant, a boolean or a guarded value.
    fn finish_product(&mut self, coefficient: f64, mut factors: Factors) -> ExprId {
        self.spend(2 * factors.len());
        factors.sort_by_key(|&(f, _)| f);
        factors.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        factors.retain(|&(_, e)| e != 0);
        let mut narrow: Vec<(ExprId, i32)> = Vec::with_capacity(factors.len());
        for (f, e) in factors {
            match i32::try_from(e) {
                Ok(e) => narrow.push((f, e)),
                Err(_) => {
                    let e = self.constant(e as f64);
                    let power = self.intern(Node::Call(Function::Pow, [f, e].into_iter().collect()));
                    narrow.push((power, 1));
                }
            }
        }
        narrow.sort_unstable();
        let node = match narrow[..] {
            [] => return self.constant(coefficient),
            [(f, 1)] => f,
            _ => self.intern(Node::Prod(narrow.into_boxed_slice())),
        };
        self.sum(0.0, &[(coefficient, node)])
    }

    /// Splits a sum in a numeric factor and a rest that is equal for sums that differ by that factor only: a lone term, or a
    /// sum whose first coefficient is positive, and 1 if all magnitudes agree.
    fn content(&mut self, sum: ExprId) -> (f64, ExprId) {
        let Node::Sum { constant, terms } = self.node(sum) else { return (1.0, sum) };
        let (constant, terms) = (constant.get(), terms.clone());
        let first = terms[0].0.get();
        let agree = |v: f64| v.abs() == first.abs();
        let uniform = first.is_finite()
            && (constant == 0.0 || agree(constant))
            && terms.iter().all(|&(c, _)| agree(c.get()));
        let content = match uniform {
            true => first,
            false if first < 0.0 => -1.0,
            false => return (1.0, sum),
        };
        if content == 1.0 {
            return (1.0, sum);
        }
        let scaled: Terms = terms.iter().map(|&(c, t)| (c.get() / content, t)).collect();
        (content, self.finish_sum(constant / content, &scaled))
    }

    /// Merges terms that are Selects on one condition, or on a condition and its negation, into one Select each:
    /// `k1 Select(c, a1, b1) + k2 Select(c, a2, b2) = Select(c, k1 a1 + k2 a2, k1 b1 + k2 b2)`. A boolean counts as
    /// `Select(b, 1, 0)` where it meets such a Select. `None` if no two terms merge.
    fn merge_selects(&mut self, flat: &[(f64, ExprId)]) -> Option<Terms> {
        self.spend(2 * flat.len());
        let keys: Vec<Option<Branches>> = flat.iter().map(|&(_, t)| self.branches(t)).collect();
        let mut counts = rustc_hash::FxHashMap::<ExprId, (u32, bool)>::default();
        for k in keys.iter().flatten() {
            let entry = counts.entry(k.cond).or_default();
            entry.0 += 1;
            entry.1 |= k.is_select;
        }
        let merges = |cond: ExprId| counts.get(&cond).is_some_and(|&(n, select)| n > 1 && select);
        if !keys.iter().flatten().any(|k| merges(k.cond)) {
            return None;
        }
        let mut out = Terms::new();
        let mut groups = indexmap::IndexMap::<ExprId, (Terms, Terms), rustc_hash::FxBuildHasher>::default();
        for (&(c, t), key) in flat.iter().zip(&keys) {
            match key {
                Some(k) if merges(k.cond) => {
                    let group = groups.entry(k.cond).or_default();
                    group.0.push((c, k.then));
                    group.1.push((c, k.otherwise));
                }
                _ => out.push((c, t)),
            }
        }
        for (cond, (then, otherwise)) in groups {
            let (a, b) = (self.sum(0.0, &then), self.sum(0.0, &otherwise));
            out.push((1.0, self.select(cond, a, b)));
        }
        Some(out)
    }

    /// `t` as a choice by a condition that is not itself a negation.
    fn branches(&mut self, t: ExprId) -> Option<Branches> {
        let (cond, then, otherwise, is_select) = match *self.node(t) {
            Node::Select(c, a, b) => (c, a, b, true),
            _ if self.is_boolean(t) => (t, self.constant(1.0), self.constant(0.0), false),
            _ => return None,
        };
        Some(match *self.node(cond) {
            Node::Not(c) => Branches { cond: c, then: otherwise, otherwise: then, is_select },
            _ => Branches { cond, then, otherwise, is_select },
        })
    }

    /// `(cond, a)` of a `Select(cond, a, 0)`.
    pub fn as_guarded(&self, id: ExprId) -> Option<(ExprId, ExprId)> {
        match *self.node(id) {
            Node::Select(c, a, b) if self.is_constant(b, 0.0) => Some((c, a)),
            _ => None,
        }
    }
}

struct Product {
    coefficient: f64,
    factors: Factors,
    guards: Vec<ExprId>,
}

struct Branches {
    cond: ExprId,
    then: ExprId,
    otherwise: ExprId,
    is_select: bool,
}

/// Tells whether multiplying a sum out by `c` keeps coefficients finite and non-zero. An infinite `c` (from a division by 0) may only
/// go to a lone term: `inf * (a + 0)` is not `inf*a + inf*0`.
fn scales_safely(c: f64, constant: f64, terms: &[(Const, ExprId)]) -> bool {
    let safe = |k: f64| !k.is_finite() || ((c * k).is_finite() && c * k != 0.0);
    let lone = constant == 0.0 && terms.len() == 1;
    lone && !c.is_finite() || (constant == 0.0 || safe(constant)) && terms.iter().all(|&(k, _)| safe(k.get()))
}

/// `x^e` by multiplication.
pub(super) fn powi(x: f64, e: i64) -> f64 {
    match i32::try_from(e) {
        Ok(e) => x.powi(e),
        Err(_) => x.powf(e as f64),
    }
}
