//! Targets of differentiation, and their adjoint Funcs: the sum of terms that its readers add.

use crate::analysis::algebra::Interval;
use crate::expr::walk::{substitute, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RDom, RVar, Var};
use crate::gradient::reverse::{guarded, selected};
use crate::types::ScalarType;

/// A Func, an input, or a float parameter (which has no dimensions).
pub(super) struct Target {
    pub vars: Vec<Var>,
    /// Of its tuple elements.
    pub types: Vec<ScalarType>,
}

impl Target {
    /// The Func, input or parameter `name` of `p`.
    pub(super) fn find(p: &Pipeline, name: &Name) -> Option<Target> {
        if let Some(f) = p.funcs.get(name) {
            return Some(Target { vars: f.vars.clone(), types: f.types() });
        }
        if let Some(i) = p.inputs.get(name) {
            let vars = (0..i.dims).map(|d| Var::new(format!("_{d}"))).collect();
            return Some(Target { vars, types: i.types.clone() });
        }
        let ty = p.params.get(name)?;
        Some(Target { vars: vec![], types: vec![*ty] })
    }
}

/// Something that is added to one element of an adjoint.
#[derive(Clone)]
pub(super) struct Term {
    /// The tuple element.
    pub value: usize,
    /// Coordinates; none is the variable of that dimension.
    pub at: Vec<Option<Expr>>,
    /// Loops.
    pub loops: Vec<RVar>,
    /// The number of the last ones of them that stay outside of all others.
    pub held: usize,
    /// Iterations that count.
    pub predicate: Option<Expr>,
    /// The condition under which the solved point is one of the definition's; none if it always is.
    pub cond: Option<Expr>,
    /// Over the variables and loops, where that holds.
    pub term: Expr,
}

impl Term {
    /// Conditions without which it does not count, apart from those on the first of `vars` along which it runs; none unless they seldom hold.
    fn seldom(&self, vars: &[Var]) -> Vec<Expr> {
        let first = self.at.iter().zip(vars).find(|(a, _)| a.is_none()).map(|(_, v)| v.name());
        let mut open: Vec<Expr> = self.cond.clone().into_iter().collect();
        let (mut all, mut is_seldom) = (vec![], false);
        while let Some(c) = open.pop() {
            match c.kind() {
                ExprKind::Binary(BinaryOp::And, a, b) => open.extend([b.clone(), a.clone()]),
                _ if first.is_some_and(|v| uses_var(&c, v)) => {}
                ExprKind::Likely(c) => all.push(c.clone()),
                _ => {
                    is_seldom = true;
                    all.push(c);
                }
            }
        }
        if is_seldom { all } else { vec![] }
    }
}

/// Loops among which the short ones are looked for.
const MOST_LOOPS: usize = 8;
/// Iterations that a schedule may write out.
pub(super) const FEW_ITERATIONS: i64 = 25;

/// Terms of one update, summed up by element.
struct Sums {
    /// The first of them.
    of: Term,
    values: Vec<Option<Expr>>,
    /// For each of them conditions without which it does not count, and which seldom hold together, such as that a row lies at the border.
    seldom: Vec<Vec<Expr>>,
}

impl Sums {
    /// Do both scatter in the same iterations, apart only along dimensions in which they do? So no border is chosen by a loop.
    fn joins(&self, other: &Sums) -> bool {
        let (a, b) = (&self.of, &other.of);
        let moves =
            |at: &Option<Expr>| at.as_ref().is_some_and(|e| a.loops.iter().any(|r| uses_var(e, &r.name)));
        let mut pairs = a.at.iter().zip(&b.at);
        a.loops == b.loops
            && a.predicate == b.predicate
            && a.at.iter().any(moves)
            && pairs.all(|(a, b)| a == b || moves(a) && moves(b))
    }

    /// One update for all, with a loop over them inside. Written out, it computes once what they share.
    fn joined(all: Vec<Sums>, vars: &[Var]) -> Sums {
        let mut tap = String::from("tap");
        while vars.iter().any(|v| **v.name() == *tap) || all[0].of.loops.iter().any(|r| *r.name == *tap) {
            tap.push('_');
        }
        let which = Expr::var(tap.as_str());
        let choose = |of: Vec<Expr>| match of.iter().all(|e| *e == of[0]) {
            true => of[0].clone(),
            false => Expr::mux(&which, of),
        };
        let at = (0..vars.len())
            .map(|d| all.iter().map(|s| s.of.at[d].clone()).collect::<Option<_>>().map(choose));
        let value = |k: usize| {
            let known = all.iter().find_map(|s| s.values[k].as_ref())?;
            let zero = Expr::constant(known.ty(), 0.0);
            Some(choose(all.iter().map(|s| s.values[k].clone().unwrap_or_else(|| zero.clone())).collect()))
        };
        let (at, values) = (at.collect(), (0..all[0].values.len()).map(value).collect());
        let loops = [RVar { name: tap.as_str().into(), min: 0.into(), extent: (all.len() as i32).into() }];
        let loops = loops.into_iter().chain(all[0].of.loops.clone()).collect();
        let seldom = all.iter().flat_map(|s| s.seldom.clone()).collect();
        Sums { of: Term { at, loops, ..all[0].of.clone() }, values, seldom }
    }
}

/// A Func that holds adjoints: one element for each float element of what it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Adjoint {
    pub func: Func,
    /// The element of `func` for each tuple element; none for integers.
    elements: Vec<Option<usize>>,
    /// Is it another one, but for the condition under which it counts?
    is_mapped: bool,
}

impl Adjoint {
    /// The Func `name` whose every element is 0 plus nothing yet; none if there are no floats.
    pub(super) fn zero(name: Name, target: &Target) -> Option<Adjoint> {
        let values: Vec<Expr> =
            target.types.iter().filter(|t| t.is_float()).map(|&t| Expr::constant(t, 0.0)).collect();
        (!values.is_empty()).then(|| Adjoint::new(Func::new(name, &target.vars, values), &target.types))
    }

    /// `func` as the adjoint of something with elements of these types.
    pub(super) fn new(func: Func, types: &[ScalarType]) -> Adjoint {
        let mut next = 0..;
        let elements = types.iter().map(|t| if t.is_float() { next.next() } else { None }).collect();
        Adjoint { func, elements, is_mapped: false }
    }

    /// Adjoint of element `value` at `args`, with the condition under which it counts; none of an integer.
    pub(super) fn at(&self, args: &[Expr], value: usize) -> Option<Expr> {
        let k = (*self.elements.get(value)?)?;
        let cond = guarded(&self.func.values[k]).0.filter(|_| self.is_mapped);
        let vars = self.func.vars.iter().map(|v| v.name().clone());
        let cond = cond.map(|c| substitute(&c, &vars.zip(args.iter().cloned()).collect()));
        Some(selected(&cond, self.func.at(args, k)))
    }

    /// The Func of element `value` of which is `f` of the place and of this one there.
    pub(super) fn map(&self, name: Name, f: impl Fn(usize, Expr) -> Expr) -> Adjoint {
        let own: Vec<Expr> = self.func.vars.iter().map(Var::expr).collect();
        let values =
            self.elements.iter().enumerate().filter_map(|(k, e)| Some(f(k, self.func.at(&own, (*e)?))));
        let func = Func::new(name, &self.func.vars, values.collect());
        Adjoint { func, elements: self.elements.clone(), is_mapped: true }
    }

    /// Adds terms: those without loops, in place, to the pure definition, the others as updates, one for all that run over the same iterations.
    pub(super) fn add(&mut self, terms: Vec<Term>) {
        let mut updates: Vec<Sums> = vec![];
        for t in terms {
            let Some(element) = self.elements.get(t.value).copied().flatten() else { continue };
            let term = selected(&t.cond, t.term.clone());
            if t.loops.is_empty() && t.at.iter().all(Option::is_none) {
                let sum = &mut self.func.values[element];
                *sum = if sum.as_float() == Some(0.0) { term } else { &*sum + term };
                continue;
            }
            let together = |o: &Term| o.at == t.at && o.loops == t.loops && o.predicate == t.predicate;
            let at = match updates.iter().position(|s| together(&s.of)) {
                Some(at) => at,
                None => {
                    let (of, values) = (t.clone(), vec![None; self.func.values.len()]);
                    updates.push(Sums { of, values, seldom: vec![] });
                    updates.len() - 1
                }
            };
            updates[at].seldom.push(t.seldom(&self.func.vars));
            let sum = &mut updates[at].values[element];
            *sum = Some(match sum.take() {
                Some(sum) => sum + term,
                None => term,
            });
        }
        let mut groups: Vec<Vec<Sums>> = vec![];
        for s in updates {
            match groups.iter_mut().find(|g| (g.len() as i64) < FEW_ITERATIONS && g[0].joins(&s)) {
                Some(group) => group.push(s),
                None => groups.push(vec![s]),
            }
        }
        for mut group in groups {
            let last = if group.len() == 1 { group.pop() } else { None };
            self.update(last.unwrap_or_else(|| Sums::joined(group, &self.func.vars)));
        }
    }

    fn update(&mut self, Sums { of: t, values, seldom }: Sums) {
        let own = self.func.vars.iter().map(Var::expr);
        let args: Vec<Expr> = t.at.into_iter().zip(own).map(|(a, own)| a.unwrap_or(own)).collect();
        let values = values.into_iter().enumerate().map(|(k, sum)| {
            let old = self.func.at(&args, k);
            sum.map_or(old.clone(), |sum| old + sum)
        });
        let values = values.collect();
        let predicate = t.predicate.into_iter().chain(any_holds(seldom)).reduce(|a, b| a.and(b));
        let rdom = RDom { vars: short_first(t.loops, t.held), predicate };
        self.func = self.func.clone().update(args, values, rdom);
    }
}

/// The condition that all of one of `sets` hold; none if that is so anyway. What is in all sets comes first.
fn any_holds(sets: Vec<Vec<Expr>>) -> Option<Expr> {
    let all = |of: Vec<Expr>| of.into_iter().reduce(|a, b| a.and(b));
    let (common, own): (Vec<Vec<Expr>>, Vec<Vec<Expr>>) = sets
        .iter()
        .map(|set| set.iter().cloned().partition(|c| sets.iter().all(|other| other.contains(c))))
        .unzip();
    let own: Option<Vec<Expr>> = own.into_iter().map(all).collect();
    let one = own.and_then(|own| own.into_iter().reduce(|a, b| a.or(b)));
    common.into_iter().next().and_then(all).into_iter().chain(one).reduce(|a, b| a.and(b))
}

/// Loops of a sum, short ones inside of all others: what their iterations share is computed once where they are written out. The last `held`
/// stay where they are.
fn short_first(mut loops: Vec<RVar>, held: usize) -> Vec<RVar> {
    let held = loops.split_off(loops.len() - held);
    let extents: Vec<Option<i64>> = loops.iter().map(|r| r.extent.as_int().filter(|n| *n >= 1)).collect();
    // As many iterations as may be written out.
    let iterations = |set: &u32| {
        let mut chosen = extents.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        let n = chosen.try_fold(1i64, |n, (_, extent)| n.checked_mul((*extent)?));
        n.filter(|n| *n <= FEW_ITERATIONS).unwrap_or(0)
    };
    let sets = 0..1u32 << loops.len().min(MOST_LOOPS);
    let best = sets.rev().max_by_key(iterations).unwrap_or(0);
    let mut at = 0..;
    let (mut short, long): (Vec<_>, Vec<_>) =
        loops.into_iter().partition(|_| at.next().is_some_and(|i: u32| best.unbounded_shr(i) & 1 == 1));
    short.extend(long);
    short.extend(held);
    short
}

/// `name`, or that with as many underscores as it takes for nothing in `p` to be called so.
pub(super) fn fresh(p: &Pipeline, name: &str) -> Name {
    let mut name = name.replace('.', "_");
    while p.funcs.contains_key(&*name) || p.inputs.contains_key(&*name) || p.params.contains_key(&*name) {
        name.push('_');
    }
    name.into()
}

/// That coordinates lie in a box; none if it has no dimensions.
pub(super) fn inside(at: &[Expr], domain: &[Interval]) -> Option<Expr> {
    let each = at.iter().zip(domain).map(|(x, i)| i.min.le(x).and(x.le(&i.max)));
    each.reduce(|a, b| a.and(b))
}
