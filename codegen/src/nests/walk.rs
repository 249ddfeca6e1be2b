//! The walk from outside in: levels, with what is stored and computed there.

use crate::error::Error;
use crate::expr::Expr;
use crate::ir::rewrite::{block, branch, under};
use crate::ir::stmt::Stmt;
use crate::nests::allocation_bounds::allocate;
use crate::nests::bounds_inference::{needed, region};
use crate::nests::checks;
use crate::nests::found::Found;
use crate::nests::in_place::note_once;
use crate::nests::joint_regions::note_whole_nest;
use crate::nests::outputs::{copy_to_output, has_storage};
use crate::nests::regions::Regions;
use crate::nests::root_checks::root_checks;
use crate::nests::scope::Scope;
use crate::nests::sinks::own_tile;
use crate::nests::sliding_window::{check_store_races, slide, told};
use crate::nests::storage_folding::{check_folds, note_live};
use crate::nests::windows;
use crate::plan::plans::{FuncPlan, Level, Stage, illegal};

/// Makes what stands at a place, given the walk that is there.
pub(super) type Make<'a, 'p> = &'a mut dyn FnMut(&mut Walk<'p>) -> Result<Stmt, Error>;

/// The walk, in three parts of different lifetimes. Passes take those that they need.
pub(super) struct Walk<'p> {
    /// Of the place.
    pub scope: Scope<'p>,
    /// Of the levels that are open.
    pub regions: Regions,
    /// Of the whole.
    pub found: Found,
}

impl<'p> Walk<'p> {
    /// Everything at `level`: what is stored there and, under `conds`, computed there, then `rest`.
    pub(super) fn level(&mut self, level: &Level, conds: &[Expr], rest: Make<'_, 'p>) -> Result<Stmt, Error> {
        let placed =
            |f: &&FuncPlan| f.compute == *level || f.store == *level || f.hoist.as_ref() == Some(level);
        let here: Vec<&FuncPlan> = self.scope.plan.funcs.values().filter(placed).collect();
        if here.is_empty() && *level != Level::Root {
            return rest(self);
        }
        let checks = match self.regions.opened.get(level) {
            Some(lets) => {
                lets.iter().for_each(|(n, v)| self.scope.facts.enter_let(n, v));
                vec![]
            }
            None => {
                let checks = open_level(&mut self.scope, &mut self.regions, &mut self.found, &here, level)?;
                // Here, since levels are also opened to try something, as run-ups are.
                for f in here.iter().filter(|f| f.compute == *level) {
                    let required = &self.regions.at[&(f.func.name.clone(), level.clone())];
                    check_folds(&self.scope.facts, f, required)?;
                }
                checks
            }
        };
        let body = self.realize(&here, level, conds, rest)?;
        Ok(checks::guarded(&self.regions.opened[level], checks, body))
    }

    /// Storage and nests of `here`, each around those after it, and `rest` innermost.
    fn realize(
        &mut self,
        here: &[&'p FuncPlan],
        level: &Level,
        conds: &[Expr],
        rest: Make<'_, 'p>,
    ) -> Result<Stmt, Error> {
        let Some(f) = here.first() else { return rest(self) };
        let mut together = self.scope.plan.together.iter();
        let together = together.find(|t| f.compute == *level && t.funcs.contains(&f.func.name));
        let (own, later) = here.split_at(together.map_or(1, |t| t.funcs.len()));
        let mut parts = vec![];
        match together {
            Some(t) => {
                for ids in &t.steps {
                    parts.push(self.joint_nest(ids)?);
                }
            }
            None if f.compute == *level => {
                for s in &f.stages {
                    parts.push(self.joint_nest(std::slice::from_ref(&s.id))?);
                }
            }
            None => {}
        }
        let computed = own.iter().filter(|f| f.compute == *level);
        parts.extend(computed.filter_map(|f| copy_to_output(&self.regions, &self.found, f)));
        parts = parts.into_iter().map(|s| under(conds, s)).collect();
        parts.push(self.realize(later, level, conds, rest)?);
        let realized = |body: Stmt, f: &FuncPlan, region: &Vec<(Expr, Expr)>| Stmt::Realize {
            func: f.func.name.clone(),
            region: region.clone(),
            body: Box::new(body),
        };
        let windows = own.iter().filter(|f| f.compute == *level);
        let windows = windows.filter_map(|f| Some((f, self.found.storage.get(&f.func.name)?)));
        let body = windows.fold(block(parts), |body, (f, store)| match &store.window {
            Some(w) => realized(
                block(vec![body].into_iter().chain(windows::moved(f, store)).collect()),
                f,
                &w.region(store),
            ),
            None => body,
        });
        let stored = own.iter().rev().filter(|f| f.store == *level);
        let body = stored.fold(body, |body, f| match self.found.storage.get(&f.func.name) {
            Some(store) => realized(body, f, &store.region),
            None => body,
        });
        let hoisted = own.iter().rev().filter(|f| f.hoist.as_ref() == Some(level) && f.store != *level);
        Ok(hoisted.fold(body, |body, f| {
            let storage = self.found.storage.get(&f.func.name).and_then(|s| s.hoisted.as_ref());
            match storage {
                Some(region) => realized(body, f, region),
                None => body,
            }
        }))
    }

    /// Returns what `each` makes of every version of a stage, under its condition.
    pub(super) fn versions(
        &mut self,
        s: &'p Stage,
        each: &mut dyn FnMut(&mut Self, &'p Stage) -> Result<Stmt, Error>,
    ) -> Result<Stmt, Error> {
        let mut special = vec![];
        for (cond, version) in &s.special {
            let outside = self.regions.clone();
            let body = self.at(self.scope.clone(), |walk| {
                walk.scope.facts.assume(cond);
                walk.versions(version, each)
            });
            special.push((cond, body?));
            self.regions = outside;
        }
        if !special.is_empty() || s.version > 0 {
            self.scope.versions.insert(s.id.clone(), s);
        }
        let rest = each(self, s)?;
        Ok(special.into_iter().rev().fold(rest, |rest, (cond, body)| branch(cond.clone(), body, Some(rest))))
    }

    /// Returns what `each` makes at the place of `scope`, which is left behind it.
    pub(super) fn at<T>(&mut self, scope: Scope<'p>, each: impl FnOnce(&mut Self) -> T) -> T {
        let outside = std::mem::replace(&mut self.scope, scope);
        let made = each(self);
        self.scope = outside;
        made
    }
}

/// Opens a level: infers the regions of the Funcs `here` and binds their names, consumers first. Returns what is asserted there.
pub(super) fn open_level(
    scope: &mut Scope,
    regions: &mut Regions,
    found: &mut Found,
    here: &[&FuncPlan],
    level: &Level,
) -> Result<Vec<Stmt>, Error> {
    let (known, plan) = (regions.at.len(), scope.plan);
    regions.begin();
    for f in here.iter().rev() {
        open(scope, regions, found, f, level)?;
    }
    for t in plan.together.iter().filter(|t| plan.funcs[&t.funcs[0]].compute == *level) {
        for func in &t.shared {
            let needed = needed(scope, regions, func, level)?;
            note_whole_nest(scope, regions, func, needed);
        }
    }
    let checks = match level {
        Level::Root => root_checks(scope, regions, found)?,
        Level::At(_) => vec![],
    };
    regions.end(level);
    found.table.note(scope, regions, &found.storage, level, known);
    Ok(checks)
}

/// Infers the regions of `f` at `level`.
fn open(
    scope: &mut Scope,
    regions: &mut Regions,
    found: &mut Found,
    f: &FuncPlan,
    level: &Level,
) -> Result<(), Error> {
    let name = &f.func.name;
    if f.compute == *level {
        if !scope.is_inside(name, &f.store) {
            return Err(illegal(&f.stages[0].id, "store_at", "is not at or outside of compute_at"));
        }
        region(scope, regions, name, level)?;
        check_store_races(scope, f)?;
    }
    if f.hoist.as_ref() == Some(level) {
        region(scope, regions, name, level)?;
    }
    if f.store == *level {
        own_tile(scope, regions, f)?;
        if has_storage(scope, regions, f) {
            let stored = region(scope, regions, name, level)?;
            allocate(scope, regions, found, f, &stored)?;
        }
    }
    if f.compute == *level {
        let required = region(scope, regions, name, level)?;
        let slides = slide(scope, regions, f, &required);
        let slid = slides.as_deref().unwrap_or_default();
        note_live(scope, regions, found, f, (&required, slid));
        windows::note(scope, regions, found, f, (&required, slid));
        let is_only = scope.loops_since_store(f).count() == 1;
        note_once(scope, regions, found, f, slides.is_ok() && is_only);
        found.sliding.insert(name.clone(), told(f, slides));
    }
    Ok(())
}
