//! Inferences about the levels that are open.

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::rebuild::rebuild;
use crate::analysis::algebra::{Facts, Interval};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use crate::plan::plans::Level;
use crate::schedule::{LoopLevel, StageId};
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop that begins early.
#[derive(Clone)]
pub struct RunUp {
    /// Its variable, in full.
    pub var: Name,
    /// The first value for which everything runs.
    pub first: Expr,
    /// Number of iterations before that.
    pub length: i64,
    /// Does a window in registers slide over it? Then the loop is cut where they end.
    pub windows: bool,
}

/// Regions of Funcs at the levels that were opened, with the names that are bound there.
///
/// Invariant: what is known here of a level follows from the scope in which that was opened, and uses names that are bound there
/// or further out. One value, saved before and put back behind each special version of a stage: every version
/// infers anew what lies inside of it.
#[derive(Clone, Default)]
pub struct Regions {
    /// Regions by Func and level, in the order in which they were inferred.
    pub at: IndexMap<(Name, Level), Vec<Interval>>,
    /// Regions that the loops of Funcs cover at their compute level: the region less what sliding saves.
    pub produced: FxHashMap<Name, Vec<Interval>>,
    /// A slid end, and that end before sliding.
    pub unslid: FxHashMap<Name, Expr>,
    /// A slid end of a loop that begins early, and what it is once all that it reads has begun.
    pub steady: FxHashMap<Name, Expr>,
    /// Bound names of the bounds of reduction variables.
    pub rvars: FxHashMap<(StageId, Name), (Expr, Expr)>,
    /// Own tile of each sink, and the domain of each output that has storage besides its buffer.
    pub own: FxHashMap<Name, Vec<Interval>>,
    /// Regions that whole joint nests need of the Funcs that several of their stages read.
    pub whole_nest: FxHashMap<Name, Vec<Interval>>,
    /// Of the same Funcs at their store levels: what is needed, before it is rounded.
    pub stored: FxHashMap<(Name, Level), Vec<Interval>>,
    /// Joint loops with iterations that may be none of some stage.
    pub differing: FxHashSet<LoopLevel>,
    /// Loops in which something is computed, with the iterations ahead of them.
    pub run_ups: FxHashMap<Level, Option<RunUp>>,
    /// Assertions, not yet placed, that regions are those that the schedule says.
    pub checks: Vec<Stmt>,
    /// Lets of levels that were opened (a body emitted twice repeats them).
    pub opened: FxHashMap<Level, Vec<(Name, Expr)>>,
    /// Lets of the level being opened.
    opening: Option<Vec<(Name, Expr)>>,
}

impl Regions {
    /// Names are bound at a level from here on.
    pub fn begin(&mut self) {
        self.opening = Some(vec![]);
    }

    /// `level`, which was begun, is open.
    pub fn end(&mut self, level: &Level) {
        let lets = self.opening.take().unwrap_or_default();
        self.opened.insert(level.clone(), lets);
    }

    /// Binds `name` at the level being opened, unless the value is a name or two, plus a constant: those cancel better
    /// in plain sight, and do not grow along a chain. Returns what stands for the value.
    pub fn bind(&mut self, facts: &mut Facts, name: String, value: &Expr) -> Expr {
        let p = Polys::default().of(value);
        if p.is_plain() {
            return rebuild(&p, value.ty());
        }
        let name: Name = name.into();
        facts.enter_let(&name, value);
        match &mut self.opening {
            Some(lets) => lets.push((name.clone(), value.clone())),
            None => unreachable!("bind: no level is open"),
        }
        Expr::new(ExprKind::Var(name), value.ty())
    }

    /// Binds the ends of `i` as `<prefix>.min` and `<prefix>.max`.
    pub fn bind_ends(&mut self, facts: &mut Facts, prefix: &str, i: &Interval) -> Interval {
        let min = self.bind(facts, format!("{prefix}.min"), &i.min);
        Interval { min, max: self.bind(facts, format!("{prefix}.max"), &i.max) }
    }
}
