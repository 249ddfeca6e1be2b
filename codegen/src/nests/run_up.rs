//! Iterations ahead of a loop, in which windows fill.
//!
//! Where Funcs that feed each other slide over one loop, its first iteration would compute the whole window of each: that of the first of a chain
//! of stencils holds all rows that the later ones need for theirs, and storage is sized for it. Such a loop begins as many iterations earlier as the
//! longest window takes to fill. In these the Funcs that slide compute what is new to them, as in all others; nothing else runs. Storage
//! then holds what one iteration reads, however long the chain.
//!
//! So does a loop over which a window in registers slides ([`crate::nests::windows`]), also of a single Func.
//!
//! Only on a host, and only where all that is placed in the loop slides upwards with it.

use crate::analysis::algebra::Interval;
use crate::expr::walk::{substitute, variables};
use crate::expr::{Expr, Name};
use crate::nests::emit::enter_loop;
use crate::nests::found::Found;
use crate::nests::regions::{Regions, RunUp};
use crate::nests::scope::{Around, Scope, Surroundings};
use crate::nests::sliding_window::find_slides;
use crate::nests::slots::{Emit, Item};
use crate::nests::walk::{Walk, open_level};
use crate::nests::windows;
use crate::plan::plans::{FuncPlan, Level};
use crate::schedule::LoopLevel;
use rustc_hash::FxHashMap;

/// Most iterations ahead of a loop.
const MOST: i64 = 1024;

impl<'p> Walk<'p> {
    /// The run-up of loop `j` of a stage, counted from outside, if it has one. The same again where the loop is emitted twice.
    pub(super) fn run_up(&mut self, cx: &Emit<'p>, j: usize) -> Option<RunUp> {
        let dim = &cx.s.dims[cx.s.dims.len() - 1 - j];
        let level = Level::At(LoopLevel { stage: cx.s.id.clone(), var: dim.name.clone() });
        if let Some(known) = self.regions.run_ups.get(&level) {
            return known.clone();
        }
        let here: Vec<&FuncPlan> = self.scope.plan.funcs.values().filter(|f| f.compute == level).collect();
        let stored = self.scope.plan.funcs.values().any(|f| f.store == level);
        let names: Vec<&Name> = here.iter().map(|f| &f.func.name).collect();
        let feeds = |f: &Name| self.scope.callers(f).iter().any(|(stage, _)| names.contains(&&stage.func));
        let plain = |f: &&FuncPlan| f.output.is_none() && !f.sink && f.stages.len() == 1;
        let may = !stored
            && here.iter().all(plain)
            && (names.iter().any(|f| feeds(f)) || here.iter().any(|f| windows::is_wanted(f)))
            && self.scope.surroundings() == Surroundings::Host;
        let found = if may { self.measured(cx, j, &level, &here) } else { None };
        self.regions.run_ups.insert(level, found.clone());
        found
    }

    /// The run-up, from what the Funcs `here` would need if the loop began where it begins. They must still slide where it begins early.
    fn measured(&self, cx: &Emit<'p>, j: usize, level: &Level, here: &[&FuncPlan]) -> Option<RunUp> {
        let tried = self.tried(cx, j, level, here, None)?;
        let first = tried.scope.facts.first(&tried.var)?.clone();
        let mut length = 0;
        for f in here {
            length = length.max(tried.fill(f, level, &first)?);
        }
        let windows = here.iter().any(|f| windows::is_wanted(f));
        let run_up = (length > 0).then_some(RunUp { var: tried.var, first, length, windows })?;
        let tried = self.tried(cx, j, level, here, Some(&run_up))?;
        here.iter().all(|f| tried.upwards(f, level).is_some()).then_some(run_up)
    }

    /// Loop `j` opened for the Funcs `here`, in copies of what is known.
    fn tried(
        &self,
        cx: &Emit<'p>,
        j: usize,
        level: &Level,
        here: &[&FuncPlan],
        run_up: Option<&RunUp>,
    ) -> Option<Tried<'p>> {
        let (mut scope, mut regions) = (self.scope.clone(), self.regions.clone());
        let mut inner = cx.clone();
        if let Some(run_up) = run_up {
            inner.begin_early(j, run_up);
            regions.run_ups.insert(level.clone(), Some(run_up.clone()));
        }
        let var = enter_loop(&mut scope, &mut inner, j).ok()?.var;
        let Some(Around::Loop(..)) = scope.around.last() else { return None };
        for item in &inner.slots[j + 1] {
            match item {
                Item::Let(name, value) => scope.facts.enter_let(name, value),
                Item::Tail(value, max) => scope.enter_tail(value, max),
                _ => return None,
            }
        }
        open_level(&mut scope, &mut regions, &mut Found::default(), here, level).ok()?;
        Some(Tried { scope, regions, var })
    }
}

/// A loop that was opened to see what slides in it.
struct Tried<'p> {
    scope: Scope<'p>,
    regions: Regions,
    /// Its variable, in full.
    var: Name,
}

impl Tried<'_> {
    /// The dimension in which `f` slides upwards, and its region.
    fn upwards(&self, f: &FuncPlan, level: &Level) -> Option<(usize, &[Interval])> {
        let required = self.regions.at.get(&(f.func.name.clone(), level.clone()))?;
        let slides = find_slides(&self.scope, &self.regions, f, required).ok()?;
        let loops = self.scope.loops_since_store(f).count();
        let slide = slides.first().filter(|s| s.up && loops == 1)?;
        Some((slide.dim, required))
    }

    /// Iterations ahead of the first that the window of `f` takes to fill.
    fn fill(&self, f: &FuncPlan, level: &Level, first: &Expr) -> Option<i64> {
        let (d, required) = self.upwards(f, level)?;
        let ends = [&required[d].min, &required[d].max];
        let [min, max] = ends.map(|e| self.scope.facts.expand(e, &self.var, &self.regions.unslid));
        fill(&self.scope, [&min, &max], &self.var, first)
    }
}

/// Iterations before the first that a window `[min, max]` takes to fill up to its first region.
fn fill(scope: &Scope, [min, max]: [&Expr; 2], var: &Name, first: &Expr) -> Option<i64> {
    let at = |e: &Expr, v: Expr| {
        let e = substitute(e, &FxHashMap::from_iter([(var.clone(), v)]));
        (!variables(&e).contains(var)).then_some(e)
    };
    let begin = at(min, first.clone())?;
    // All that comes before the newest value of the iteration ahead of these is not needed any more.
    let enough = |n: i64| {
        let before = at(max, first.clone() - (n + 1) as i32);
        before.is_some_and(|last| scope.facts.proves_le(&(last + 1), &begin))
    };
    if !enough(MOST) {
        return None;
    }
    let (mut less, mut n) = (-1, MOST);
    while n - less > 1 {
        let middle = (less + n) / 2;
        if enough(middle) { n = middle } else { less = middle }
    }
    Some(n)
}
