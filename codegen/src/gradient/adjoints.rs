//! Reverse mode: the adjoints of everything that some outputs depend on.

use crate::analysis::algebra::Interval;
use crate::analysis::evaluate::Known;
use crate::error::Error;
use crate::expr::walk::{Substitution, nodes, uses_var};
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RVar, Var};
use crate::gradient::activity::active;
use crate::gradient::explain;
use crate::gradient::inverse::Inverter;
use crate::gradient::pieces::bare;
use crate::gradient::reverse::{Along, Read, reads, selected, squares};
use crate::gradient::seeds::Seed;
use crate::gradient::share::share_sums;
use crate::gradient::space::{Place, Space};
use crate::gradient::support::{Boxes, consumers_first, known, supports};
use crate::gradient::terms::{Adjoint, Target, Term, fresh, inside};
use crate::gradient::tidy::tidy;
use crate::plan::validate::{error, validate};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxHashMap, FxHashSet};

/// The adjoints that [`propagate_adjoints`] added to a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Adjoints {
    pub(super) of: IndexMap<Name, Func>,
    pub(super) stages: FxHashMap<(Name, usize), Func>,
    /// Words on how each of them came about.
    why: FxHashMap<Name, String>,
    /// Names of all that was derived for.
    pub(super) wrt: IndexSet<Name>,
    /// Names of seeds.
    pub(super) seeds: FxHashSet<Name>,
    /// Funcs that hold adjoints.
    pub(super) made: FxHashSet<Name>,
    /// Outputs that the pipeline had before.
    pub(super) outputs: Vec<Name>,
}

impl Adjoints {
    /// The adjoint of a Func, input or float parameter: a Func over the same coordinates (none of a parameter) with one element for
    /// each float element of it. Of what was derived for it is right everywhere; of other Funcs, which lie on the way, where they
    /// are needed.
    pub fn of(&self, name: &str) -> Option<&Func> {
        self.of.get(name)
    }

    /// The adjoint of a Func on the way as it is behind its definition `stage`: 0 is the pure one, k the k-th update.
    pub fn of_stage(&self, name: &str, stage: usize) -> Option<&Func> {
        self.stages.get(&(Name::from(name), stage))
    }

    /// The reason why the adjoint of `name` is 0: the node that has no slope, and the way from `name` to an output on which it lies. Or why
    /// it scatters: each coordinate that could not be solved for the loops, and the node that makes it data. None if it has no adjoint.
    ///
    /// ```text
    /// d_f is 0: cast<i32> in lut has no slope (f -> lut -> out)
    /// d_f scatters along dimension 0: f is read at i32(g(x)), and cast<i32> in out is data
    /// d_f gathers
    /// ```
    pub fn explain(&self, name: &str) -> Option<&str> {
        self.why.get(name).map(|s| &**s)
    }

    /// Names that have an adjoint, in the order in which they were reached.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.of.keys()
    }
}

/// Adds to `p` the adjoints of `wrt` (inputs, Funcs and float parameters, by name): J^T w, where J are the partial derivatives
/// of the outputs named in `seeds` and w is what stands beside their names, a Func or an input of the same dimensions and types, for
/// an output without dimensions also a parameter. The domain of an output is that of its seed, if this is an input, else that of its own
/// buffer. An output without dimensions that is not named has the seed 1.
///
/// The adjoint of `f` is called `d_f`, with as many underscores behind as it takes to be a name of its own. Without directives
/// adjoints are computed at root. Outputs stay as they are.
///
/// # Errors
/// A pipeline that is refused anyway; names that are not there or are integers; a seed of other dimensions or types; two seeds of
/// one output; no seed at all; coordinates without bounds. The pipeline is then as it was.
pub fn propagate_adjoints(p: &mut Pipeline, seeds: &[(&str, &str)], wrt: &[&str]) -> Result<Adjoints, Error> {
    whole(p, |p| added(p, seeds, wrt, Along::Partials, None))
}

/// As [`propagate_adjoints`], with each partial derivative squared: of the seed w it gives the sum over all ways from an output to an
/// element of `wrt`, and over all elements of the output, of w times the squares of the partials along the way. Where no two ways
/// meet this is diag(J^T diag(w) J); elsewhere it leaves out the products of different ways. For w >= 0 it is never negative, and positive
/// wherever the diagonal is, cancellation between the ways of one definition apart.
///
/// Reads of one element by one definition count as one way.
///
/// # Errors
/// As for [`propagate_adjoints`].
pub fn propagate_squares(p: &mut Pipeline, seeds: &[(&str, &str)], wrt: &[&str]) -> Result<Adjoints, Error> {
    whole(p, |p| added(p, seeds, wrt, Along::Squares, None))
}

/// Makes `change` of `p`, all of it or nothing.
fn whole<T>(p: &mut Pipeline, change: impl FnOnce(&mut Pipeline) -> Result<T, Error>) -> Result<T, Error> {
    let mut changed = p.clone();
    let made = change(&mut changed)?;
    *p = changed;
    Ok(made)
}

/// Memory that the states of one update may take which are kept for its adjoint.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Bytes.
    pub bytes: u64,
    /// The k of which every k-th state is kept: those of a block of k iterations are computed again from the one in front of it. None: all
    /// are kept. Memory is least where k is the root of twice the number of iterations.
    pub every: Option<u32>,
    /// The extents of outputs and inputs, by name. States of which these do not tell the size are not counted.
    pub estimates: &'a [(&'a str, &'a [i32])],
}

/// Memory for states, as a caller allows it.
pub(super) struct Allowed {
    /// Bytes.
    pub bytes: u64,
    /// The k of which every k-th state is kept; none: all are.
    pub every: Option<u32>,
    /// Sizes, as estimated.
    pub known: Known,
}

/// As [`propagate_adjoints`]. Of an update that destroys what its derivative needs, every k-th state is kept, as `memory` says, and one whose
/// states take more is refused.
///
/// What is between two states that are kept is computed again for each adjoint that reads it, a block at a time under
/// [`schedule`](crate::gradient::schedule); without directives, all blocks.
///
/// # Errors
/// Those of [`propagate_adjoints`]; every 0th; steps beyond the memory, which name the update, its bytes, and the iterations or the k that fit.
pub fn propagate_adjoints_within(
    p: &mut Pipeline,
    seeds: &[(&str, &str)],
    wrt: &[&str],
    memory: &Memory,
) -> Result<Adjoints, Error> {
    let &Memory { bytes, every, estimates } = memory;
    if every == Some(0) {
        return Err(error(p, "every 0th state is to be kept: keep every 1st, or a later one".into()));
    }
    let allowed = Allowed { bytes, every, known: known(p, estimates) };
    whole(p, |p| added(p, seeds, wrt, Along::Partials, Some(allowed)))
}

/// As [`propagate_adjoints`]; of a pipeline that is refused a part may have been added.
fn added(
    p: &mut Pipeline,
    seeds: &[(&str, &str)],
    wrt: &[&str],
    along: Along,
    memory: Option<Allowed>,
) -> Result<Adjoints, Error> {
    validate(p)?;
    let wrt: IndexSet<Name> = wrt.iter().map(|n| Name::from(*n)).collect();
    for name in &wrt {
        let target =
            Target::find(p, name).ok_or_else(|| error(p, format!("there is no {name} to derive for")))?;
        if !target.types.iter().any(|t| t.is_float()) {
            let why = format!("{name} is of integers, which have no derivative: derive for floats");
            return Err(error(p, why));
        }
    }
    let seeds = Seed::all(p, seeds)?;
    let domains = seeds.iter().map(|s| (s.output.clone(), s.domain.clone())).collect();
    let support = supports(p, &domains, &Known::default())?;
    let mut r = Reverse {
        along,
        active: active(p, wrt.iter().cloned()),
        before: p.funcs.keys().cloned().collect(),
        p,
        wrt: wrt.iter().cloned().collect(),
        support,
        terms: FxHashMap::default(),
        befores: FxHashMap::default(),
        memory,
        blocks: vec![],
        reader: String::new(),
        scatters: FxHashMap::default(),
        adjoints: Adjoints::default(),
    };
    r.adjoints.outputs = r.p.outputs.iter().map(|o| o.func.clone()).collect();
    r.adjoints.seeds = seeds.iter().filter_map(|s| s.by.clone()).collect();
    for s in &seeds {
        r.seed(s);
    }
    for f in consumers_first(r.p, seeds.iter().map(|s| s.output.clone())) {
        if r.active.contains(&f) {
            r.func(&f)?;
        }
    }
    for name in &wrt {
        if !r.adjoints.of.contains_key(name) {
            r.gather(name)?;
        }
    }
    r.unshare();
    r.share();
    r.explain(&seeds);
    r.adjoints.wrt = wrt;
    Ok(r.end())
}

/// Reverse mode under way. Invariant: every Func comes behind all that read it, so that its terms are complete.
pub(super) struct Reverse<'p> {
    pub p: &'p mut Pipeline,
    along: Along,
    /// Funcs of the pipeline as it came.
    before: FxHashSet<Name>,
    /// Names that have an adjoint.
    pub active: FxHashSet<Name>,
    wrt: FxHashSet<Name>,
    pub support: Boxes,
    terms: FxHashMap<Name, Vec<Term>>,
    /// Funcs as they are before an update of theirs.
    befores: FxHashMap<(Name, usize), Func>,
    /// Memory for the states of an update.
    pub memory: Option<Allowed>,
    /// The states and the adjoints of one block of iterations after the other, of each update of which not all are kept.
    pub blocks: Vec<[Name; 2]>,
    /// The definition that is gone through, as schedules call it.
    pub reader: String,
    /// By name, words on each coordinate along which its adjoint scatters.
    scatters: FxHashMap<Name, IndexSet<String>>,
    pub adjoints: Adjoints,
}

impl Reverse<'_> {
    fn seed(&mut self, s: &Seed) {
        let f = self.p.funcs[&s.output].clone();
        let own: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
        let facts = self.place(&f.name, &f.vars).facts;
        let floats = f.types().into_iter().enumerate().filter(|(_, t)| t.is_float());
        for (k, (value, ty)) in floats.enumerate() {
            let near: Vec<Expr> = own.iter().zip(&s.domain).map(|(x, i)| x.clamp(&i.min, &i.max)).collect();
            let inside = inside(&own, &s.domain).filter(|c| facts.decide(c) != Some(true));
            let at = if inside.is_some() { &near } else { &own };
            let term = match &s.by {
                Some(by) if self.p.params.contains_key(by) => Expr::param(by.clone(), ty),
                Some(by) => selected(&inside.map(|c| c.likely()), Expr::call(by.clone(), ty, at.clone(), k)),
                None => Expr::constant(ty, 1.0),
            };
            let at = vec![None; own.len()];
            let term = Term { value, at, loops: vec![], held: 0, predicate: None, cond: None, term };
            self.terms.entry(f.name.clone()).or_default().push(term);
        }
    }

    /// Knowledge of the place where the adjoint of `name` is computed.
    fn place(&self, name: &Name, vars: &[Var]) -> Place {
        match self.support.get(name).filter(|_| !self.wrt.contains(name)) {
            Some(b) => Place::within(vars, b),
            None => Place::default(),
        }
    }

    /// The adjoint of `name` from its terms, which are complete.
    fn gather(&mut self, name: &Name) -> Result<Option<Adjoint>, Error> {
        let Some(target) = Target::find(self.p, name) else { return Ok(None) };
        let Some(mut d) = Adjoint::zero(fresh(self.p, &format!("d_{name}")), &target) else {
            return Ok(None);
        };
        d.add(self.terms.remove(name).unwrap_or_default());
        let d = self.keep(d);
        self.adjoints.of.insert(name.clone(), d.func.clone());
        Ok(Some(d))
    }

    /// The adjoints of what Func `name` reads.
    fn func(&mut self, name: &Name) -> Result<(), Error> {
        let f = self.p.funcs[name].clone();
        let Some(mut d) = self.gather(name)? else { return Ok(()) };
        for k in (0..f.updates.len()).rev() {
            self.reader = explain::stage(name, k + 1);
            self.adjoints.stages.insert((name.clone(), k + 1), d.func.clone());
            d = self.update(&f, k, d)?;
        }
        self.adjoints.stages.insert((name.clone(), 0), d.func.clone());
        self.reader = explain::stage(name, 0);
        let own: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
        let seeds =
            f.values.iter().enumerate().filter_map(|(k, v)| Some((v.clone(), d.at(&own, k)?))).collect();
        let space = Space::new(&f.vars, &self.support[name], |_| true, &Default::default());
        self.spread(name, &space, seeds)
    }

    /// Adds a Func that holds an adjoint. It is stored: the adjoint of a chain, substituted, would repeat the whole chain for each read.
    pub(super) fn keep(&mut self, d: Adjoint) -> Adjoint {
        self.p.stored.insert(d.func.name.clone());
        self.adjoints.made.insert(d.func.name.clone());
        self.p.func(d.func.clone());
        d
    }

    /// The Func that `f` is before its update `k`.
    pub(super) fn before(&mut self, f: &Func, k: usize) -> Func {
        if k == f.updates.len() {
            return f.clone();
        }
        let key = (f.name.clone(), k);
        if let Some(known) = self.befores.get(&key) {
            return known.clone();
        }
        let name = fresh(self.p, &format!("{}_before{k}", f.name));
        let old = Func { updates: f.updates[..k].to_vec(), ..f.clone() };
        let new = self.p.func(renamed(&old, &name));
        self.support.insert(name, self.support[&f.name].clone());
        self.befores.insert(key, new.clone());
        new
    }

    /// Adds to the adjoints of all that the values in `seeds` read; each comes with its own adjoint. Both are over the loops of `space`.
    pub(super) fn spread(&mut self, by: &Name, space: &Space, seeds: Vec<(Expr, Expr)>) -> Result<(), Error> {
        for read in self.reads(&seeds, &self.active) {
            self.read(by, space, read)?;
        }
        Ok(())
    }

    /// The reads of what is `active` in the values of `seeds`, each with its adjoint.
    pub(super) fn reads(&self, seeds: &[(Expr, Expr)], active: &FxHashSet<Name>) -> Vec<Read> {
        match self.along {
            Along::Partials => reads(seeds, active),
            Along::Squares => seeds.iter().flat_map(|(v, adjoint)| squares(v, adjoint, active)).collect(),
        }
    }

    fn read(&mut self, by: &Name, space: &Space, read: Read) -> Result<(), Error> {
        let Some(target) = Target::find(self.p, &read.name) else { return Ok(()) };
        let place = self.place(&read.name, &target.vars);
        let inverter = Inverter { p: self.p, space, prefix: by };
        let inverses = inverter.of(&read.args, &target.vars, &place).map_err(|why| error(self.p, why))?;
        let adjoint = selected(&read.cond, read.adjoint);
        let terms = self.terms.entry(read.name.clone()).or_default();
        for i in inverses {
            let term = tidy(&Substitution::new(&i.point).apply(&adjoint));
            if term.as_float() == Some(0.0) {
                continue;
            }
            let is_moved = |a: &Expr| i.loops.iter().any(|r| uses_var(a, &r.name));
            let moved = i.at.iter().enumerate().filter(|(_, a)| a.as_ref().is_some_and(is_moved));
            let is_held = |e: &Expr| space.axes.iter().any(|a| a.is_held && uses_var(e, &a.name));
            let words = moved.map(|(d, _)| {
                let held = is_held(&read.args[d]);
                explain::scatter(&read.name, d, &self.reader, &read.args[d], held)
            });
            self.scatters.entry(read.name.clone()).or_default().extend(words);
            let needed = |e: &Expr| within_supports(self.p, e, &self.support, &i.place);
            let loops = i.loops.iter().map(|r| {
                let (min, extent) = (needed(&r.min), needed(&r.extent));
                RVar { name: r.name.clone(), min, extent }
            });
            // A piece that no point belongs to is written nowhere else than where others are.
            let at = i.at.iter().enumerate().map(|(d, a)| {
                let a = needed(a.as_ref()?);
                let to = self.support.get(&read.name).filter(|_| !self.wrt.contains(&read.name));
                Some(to.map_or(a.clone(), |to| i.place.clamped(self.p, &a, &to[d]).0))
            });
            let term = Term {
                value: read.value,
                at: at.collect(),
                loops: loops.collect(),
                held: i.held,
                predicate: i.predicate.as_ref().map(needed),
                cond: i.cond.as_ref().map(needed),
                term: needed(&term),
            };
            terms.push(term);
        }
        Ok(())
    }

    /// The ranges of all axes of a space of Func `of`, without variables.
    pub(super) fn hull(&self, of: &Name, space: &Space) -> Result<FxHashMap<Name, Interval>, Error> {
        space
            .hull(self.p)
            .map_err(|why| error(self.p, format!("a reduction variable of {of} has no bounds: {why}")))
    }

    /// The condition that an update of space `space` writes element `vars`, and where; none if it may write it twice.
    pub(super) fn written(&self, by: &Name, space: &Space, args: &[Expr], vars: &[Var]) -> Option<Expr> {
        let inverter = Inverter { p: self.p, space, prefix: by };
        let [i] = &inverter.of(args, vars, &Place::default()).ok()?[..] else { return None };
        if !i.loops.is_empty() {
            return None;
        }
        let fixed = i.at.iter().zip(vars).filter_map(|(a, v)| Some(v.expr().eq_(a.as_ref()?)));
        let bare = i.cond.iter().map(bare);
        let all = fixed.chain(bare).reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::bool(true));
        Some(within_supports(self.p, &all, &self.support, &i.place))
    }

    /// Puts into words how each adjoint came about.
    fn explain(&mut self, seeds: &[Seed]) {
        let outputs: Vec<Name> = seeds.iter().map(|s| s.output.clone()).collect();
        for (name, d) in &self.adjoints.of {
            let scatters = self.scatters.get(name).into_iter().flatten().map(|s| format!("{} {s}", d.name));
            let scatters: Vec<String> = scatters.collect();
            let is_zero = d.updates.is_empty() && d.values.iter().all(|v| v.as_float() == Some(0.0));
            let why = match (is_zero, scatters.is_empty()) {
                (true, _) => explain::zero(self.p, &outputs, name, &d.name),
                (false, false) => scatters.join("\n"),
                (false, true) => format!("{} gathers", d.name),
            };
            self.adjoints.why.insert(name.clone(), why);
        }
    }

    /// Has sums over the same iterations go through them together.
    fn share(&mut self) {
        let tuples = share_sums(self.p, &self.adjoints.made);
        self.adjoints.made.extend(tuples);
        for f in self.adjoints.of.values_mut().chain(self.adjoints.stages.values_mut()) {
            if let Some(now) = self.p.funcs.get(&f.name) {
                f.clone_from(now);
            }
        }
    }

    /// Removes what was made and nobody needs.
    fn end(self) -> Adjoints {
        let mut needed: FxHashSet<Name> = self.before;
        let roots = self.adjoints.of.values().chain(self.adjoints.stages.values()).map(|f| f.name.clone());
        needed.extend(consumers_first(self.p, roots));
        self.p.funcs.retain(|name, _| needed.contains(name));
        self.p.stored.retain(|name| needed.contains(name));
        self.p.slices.retain(|name| needed.contains(name));
        self.adjoints
    }
}

/// `e` with all that it reads inside of what is needed of it. Coordinates of points that count lie there; those of others, which are
/// clamped in each dimension of the space alone, may not, as where the end of a loop depends on another.
fn within_supports(p: &Pipeline, e: &Expr, support: &Boxes, place: &Place) -> Expr {
    crate::expr::walk::rewrite(e, &mut Default::default(), &mut |_, new| {
        let ExprKind::Call { name, args, .. } = new.kind() else { return new };
        let Some(all) = support.get(name) else { return new };
        new.with_children(args.iter().zip(all).map(|(a, i)| place.clamped(p, a, i).0).collect())
    })
}

/// `f` under another name, its reads of itself too.
pub(super) fn renamed(f: &Func, name: &Name) -> Func {
    let mut calls = |e: &Expr| reread(e, &f.name, &mut |args, k, ty| Expr::call(name.clone(), ty, args, k));
    let updates = f.updates.iter().map(|u| crate::func::Update {
        args: u.args.iter().map(&mut calls).collect(),
        values: u.values.iter().map(&mut calls).collect(),
        rdom: crate::func::RDom { predicate: u.rdom.predicate.as_ref().map(&mut calls), ..u.rdom.clone() },
    });
    Func { name: name.clone(), updates: updates.collect(), ..f.clone() }
}

/// `e` with every read of `f` replaced by what `by` makes of its coordinates, element and type.
pub(super) fn reread(
    e: &Expr,
    f: &Name,
    by: &mut impl FnMut(Vec<Expr>, usize, crate::ScalarType) -> Expr,
) -> Expr {
    crate::expr::walk::rewrite(e, &mut Default::default(), &mut |_, new| match new.kind() {
        ExprKind::Call { name, args, value } if name == f => by(args.clone(), *value, new.ty().scalar),
        _ => new,
    })
}

/// Does an expression read `f`?
pub(super) fn reads_func(e: &Expr, f: &Name) -> bool {
    nodes([e]).into_iter().any(|n| matches!(n.kind(), ExprKind::Call { name, .. } if name == f))
}
