//! Regions as a table, for people and for golden tests.
//!
//! ```text
//! func  level     dim  region                    produced                    memory  storage           fold
//! out   root      x    0 .. out.extent.0 - 1     all                         output
//! f     root      x    0 .. out.extent.0 + 1                                 heap    out.extent.0 + 2  4
//! f     out.s0.x  x    out.s0.x .. out.s0.x + 2  f.s0.x.min .. out.s0.x + 2
//!
//! let f.s0.x.min = select(out.s0.x == 0, out.s0.x, out.s0.x + 2)
//! ```
//! One row per Func and place, in the order of inference, and one line per dimension: the region needed of the Func there; what its
//! loops cover, if it is computed there; extent and fold of its storage, if it is stored there; what goes to an output buffer, if not
//! all does. Below, what the names stand for.

use crate::analysis::algebra::Interval;
use crate::expr::{Expr, Name};
use crate::nests::names::full_name;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::nests::storage::Storage;
use crate::plan::plans::Level;
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Formatter};

/// Every Func at every place, and what the names stand for.
#[derive(Clone, Debug, Default)]
pub struct RegionTable {
    rows: Vec<Row>,
    lets: Vec<(Name, Expr)>,
}

/// One Func at one level.
#[derive(Clone, Debug)]
struct Row {
    func: Name,
    /// `root`, or a loop as it is called in the body.
    level: Name,
    dims: Vec<Name>,
    region: Vec<Interval>,
    /// If it is computed here.
    produced: Option<Vec<Interval>>,
    /// If it is an output and stored here.
    output: bool,
    /// The part that goes to the output buffer from storage here.
    own: Option<Vec<Interval>>,
    /// If it is stored here, elsewhere than in an output buffer.
    storage: Option<Storage>,
}

impl RegionTable {
    /// Adds a level that was just opened: the regions from the one numbered `first` on, and its lets.
    pub fn note(
        &mut self,
        scope: &Scope,
        regions: &Regions,
        storage: &FxHashMap<Name, Storage>,
        opened: &Level,
        first: usize,
    ) {
        for ((func, level), region) in regions.at.iter().skip(first) {
            let f = &scope.plan.funcs[func];
            let (computed, stored) = (f.compute == *level, f.store == *level);
            let name = match level {
                Level::Root => "root".into(),
                Level::At(l) => full_name(scope.version_of(&l.stage), &l.var),
            };
            let storage = storage.get(func).filter(|_| stored);
            self.rows.push(Row {
                func: func.clone(),
                level: name,
                dims: f.func.vars.iter().map(|v| v.name().clone()).collect(),
                region: region.clone(),
                produced: regions.produced.get(func).filter(|_| computed).cloned(),
                output: stored && f.output.is_some(),
                own: regions.own.get(func).filter(|_| storage.is_some()).cloned(),
                storage: storage.cloned(),
            });
        }
        self.lets.extend(regions.opened.get(opened).into_iter().flatten().cloned());
    }

    /// Folds are decided when all places are known.
    pub fn note_folds(&mut self, storage: &FxHashMap<Name, Storage>) {
        for row in &mut self.rows {
            if let (Some(here), Some(s)) = (&mut row.storage, storage.get(&row.func)) {
                here.fold = s.fold.clone();
            }
        }
    }
}

const HEADER: [&str; 9] =
    ["func", "level", "dim", "region", "produced", "memory", "storage", "fold", "to output"];

impl Row {
    /// One line per dimension; one for a Func without any.
    fn lines(&self) -> Vec<[String; HEADER.len()]> {
        let mut lines: Vec<_> = (0..self.dims.len()).map(|d| self.line(d)).collect();
        if lines.is_empty() {
            lines.push(Default::default());
        }
        let memory = match (&self.storage, self.output) {
            (Some(s), true) => format!("{}, output", s.memory),
            (Some(s), false) => s.memory.to_string(),
            (None, true) => "output".into(),
            (None, false) => String::new(),
        };
        [lines[0][0], lines[0][1], lines[0][5]] = [self.func.to_string(), self.level.to_string(), memory];
        lines
    }

    fn line(&self, d: usize) -> [String; HEADER.len()] {
        let range = |i: &Interval| format!("{} .. {}", i.min, i.max);
        let produced = |all: &Vec<Interval>| match all[d] == self.region[d] {
            true => "all".into(),
            false => range(&all[d]),
        };
        let fold = |s: &Storage| s.fold[d].map(|n| n.to_string());
        [
            String::new(),
            String::new(),
            self.dims[d].to_string(),
            range(&self.region[d]),
            self.produced.as_ref().map(produced).unwrap_or_default(),
            String::new(),
            self.storage.as_ref().map(|s| s.region[d].1.to_string()).unwrap_or_default(),
            self.storage.as_ref().and_then(fold).unwrap_or_default(),
            self.own.as_ref().map(|own| range(&own[d])).unwrap_or_default(),
        ]
    }
}

impl Display for RegionTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut lines = vec![HEADER.map(String::from)];
        lines.extend(self.rows.iter().flat_map(Row::lines));
        let width = |k: usize| lines.iter().map(|l| l[k].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, &w)| format!("{cell:w$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        if !self.lets.is_empty() {
            writeln!(f)?;
        }
        self.lets.iter().try_for_each(|(name, value)| writeln!(f, "let {name} = {value}"))
    }
}
