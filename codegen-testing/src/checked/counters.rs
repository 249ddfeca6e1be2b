//! Counters of a checked run.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::ops::RangeInclusive;
use sumsq_codegen::expr::{Flat, Name};

/// Counts of one Func or input.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct FuncCounters {
    /// Elements stored in intermediate storage (flat: all stores, vector lanes each).
    pub stores: usize,
    /// Elements stored in an output buffer (coordinates only).
    pub output_stores: usize,
    /// Store instructions: a vector counts once (flat only).
    pub store_instructions: usize,
    /// Elements loaded, vector lanes each; a node that a statement shares counts once.
    pub loads: usize,
    /// Load instructions: a vector counts once.
    pub load_instructions: usize,
    /// Arithmetic operations of its definitions, guards included, those inside of coordinates and indices not. Of flat
    /// statements a vector operation counts once.
    pub operations: usize,
    /// Distinct points computed (coordinates only).
    pub points: usize,
    /// Most operations of the whole run between computing one of its values and reading it.
    pub reuse_distance: usize,
    /// Most elements of one allocation, per tuple element.
    pub allocated: usize,
    /// Allocations.
    pub allocations: usize,
}

/// Kinds of counted things.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    /// A Func or input, before flattening.
    Func(Name),
    /// A flat buffer.
    Flat(Flat),
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Counted::Func(name) => f.write_str(name),
            Counted::Flat(flat) => write!(f, "{flat}"),
        }
    }
}

impl From<&Name> for Counted {
    fn from(func: &Name) -> Counted {
        Counted::Func(func.clone())
    }
}
impl From<&Flat> for Counted {
    fn from(flat: &Flat) -> Counted {
        Counted::Flat(flat.clone())
    }
}

/// Counts of a run.
#[derive(Clone, Default, Debug)]
pub struct Counters {
    counted: IndexMap<Counted, FuncCounters, FxBuildHasher>,
    points: FxHashSet<(Name, Vec<i64>)>,
    /// Arithmetic operations so far, those of let-bound data among them.
    pub operations: usize,
    /// Iterations of all loops.
    pub iterations: usize,
    /// Longest chain of dependences, in stores: through values, and through storage that is used again.
    pub chain: usize,
}

impl Counters {
    /// Counts of a Func or input, or of the flat buffer that prints so; zeros if it was never touched.
    pub fn of(&self, name: &str) -> FuncCounters {
        let func = self.counted.get(&Counted::Func(name.into()));
        func.or_else(|| self.counted.get(&Counted::Flat(name.into()))).cloned().unwrap_or_default()
    }

    /// All counts, in order of first mention.
    pub fn iter(&self) -> impl Iterator<Item = (&Counted, &FuncCounters)> {
        self.counted.iter()
    }

    /// The least and greatest coordinate of a Func that was computed, per dimension; none if no point was (coordinates only).
    pub fn region(&self, func: &str) -> Option<Vec<RangeInclusive<i64>>> {
        let ends = |at: &[i64]| at.iter().map(|&c| c..=c).collect();
        let both = |a: Vec<RangeInclusive<i64>>, b: Vec<RangeInclusive<i64>>| {
            let join = |(a, b): (RangeInclusive<i64>, RangeInclusive<i64>)| {
                *a.start().min(b.start())..=*a.end().max(b.end())
            };
            a.into_iter().zip(b).map(join).collect()
        };
        self.points.iter().filter(|(f, _)| **f == *func).map(|(_, at)| ends(at)).reduce(both)
    }

    /// Distinct points of all Funcs.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// Largest distance between computing and reading a value, of all Funcs.
    pub fn reuse_distance(&self) -> usize {
        self.counted.values().map(|f| f.reuse_distance).max().unwrap_or(0)
    }

    /// Returns how many points could be computed at once, on average, by a machine with as many units as it can use.
    pub fn span(&self) -> f64 {
        self.points() as f64 / self.chain.max(1) as f64
    }

    pub(super) fn count(&mut self, what: impl Into<Counted>) -> &mut FuncCounters {
        self.counted.entry(what.into()).or_default()
    }

    /// A point of `func` was computed with so many operations.
    pub(super) fn computed(&mut self, func: &Name, at: &[i64], operations: usize) {
        self.operations += operations;
        let new = self.points.insert((func.clone(), at.to_vec()));
        let f = self.count(func);
        f.operations += operations;
        f.points += new as usize;
    }
}
