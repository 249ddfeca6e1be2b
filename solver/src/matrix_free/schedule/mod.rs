//! The nests of a pipeline: what it says of how each of its Funcs is computed.
//!
//! Pipelines say this much and no more. Loops, lanes and sizes are those of a machine: [`cpu`] makes directives of nests.

pub mod cpu;
pub mod reduce;

use crate::matrix_free::draft::Draft;
use crate::matrix_free::vectors::VectorId;
use sumsq_codegen::{Expr, Func, Name};
use sumsq_energy::model::Domain;

/// The nest of a Func: how it is computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Nest {
    /// The Func.
    pub func: Name,
    /// Its variables, fastest first.
    pub vars: Vec<Name>,
    /// Number of its updates.
    pub updates: usize,
    /// Place and order of its computation.
    pub kind: Kind,
    /// An expression in the coordinates of its points: vectors for which it is false are skipped.
    pub live: Option<Expr>,
    /// The input that it overwrites.
    pub in_place_of: Option<VectorId>,
}

/// The kinds of nests.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A nest of its own over the points of an output, cut into strips along the last dim.
    Map(Strip),
    /// A nest of its own over the rows of a vertex, (lane, block).
    Rows,
    /// A nest of its own: sums and maxima over the points of these variables, the same for any number of threads.
    Reduction(Vec<Name>, Strip),
    /// Inside of the nest of its reader, vector by vector, and stored there.
    StoredIn(Name),
    /// Inside of the nest of its reader, vector by vector, in registers.
    RegistersIn(Name),
    /// Inside of the reduction that reads it, row by row, in a ring of rows.
    RingIn(Name, Ring),
    /// Substituted into what reads it.
    Inline,
}

/// The share of a domain that one thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strip {
    /// Rows of a domain, by its sizes.
    Of(Domain),
    /// Blocks of the rows of a vertex.
    Blocks,
    /// Entries of the rows of a vertex.
    Entries,
}

/// A ring of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Rows that are read on either side; `None` leaves the number of rows to the engine.
    pub reach: Option<u32>,
    /// Also stored to memory, past the caches where vectors are larger than these.
    pub stored: bool,
}

impl Draft<'_> {
    fn nest(&mut self, f: &Func, kind: Kind) {
        let vars = f.vars.iter().map(|v| v.0.clone()).collect();
        let (func, updates) = (f.name.clone(), f.updates.len());
        self.nests.push(Nest { func, vars, updates, kind, live: None, in_place_of: None });
    }

    /// Computes an output in a nest of its own.
    pub fn map(&mut self, f: &Func, strip: Strip) {
        self.nest(f, Kind::Map(strip));
    }

    /// As [`Draft::map`], over the vector that it reads.
    pub fn map_over(&mut self, f: &Func, strip: Strip, id: VectorId) {
        self.map(f, strip);
        self.nests.last_mut().expect("just pushed").in_place_of = Some(id);
    }

    /// Computes sums over the rows of a vertex in a nest of its own.
    pub fn map_rows(&mut self, f: &Func) {
        self.nest(f, Kind::Rows);
    }

    /// Computes an output vector by vector inside of the nest of `reader`, and stores it there.
    pub fn store_in(&mut self, reader: &Func, f: &Func) {
        self.nest(f, Kind::StoredIn(reader.name.clone()));
    }

    /// As [`Draft::store_in`], over the vector that it reads.
    pub fn store_over(&mut self, reader: &Func, f: &Func, id: VectorId) {
        self.store_in(reader, f);
        self.nests.last_mut().expect("just pushed").in_place_of = Some(id);
    }

    /// Computes a Func vector by vector in registers, inside of the nest of `reader`.
    pub fn registers_in(&mut self, reader: &Func, f: &Func) {
        self.nest(f, Kind::RegistersIn(reader.name.clone()));
    }

    /// As [`Draft::registers_in`]; substituted where nothing is gathered.
    pub fn gathered_in(&mut self, reader: &Func, f: &Func) {
        if f.updates.is_empty() { self.inline(f) } else { self.registers_in(reader, f) }
    }

    /// Computes a Func row by row inside of the reduction `reader`.
    pub fn ring_in(&mut self, reader: &Name, f: &Func, ring: Ring) {
        self.nest(f, Kind::RingIn(reader.clone(), ring));
    }

    /// Substitutes a Func into what reads it.
    pub fn inline(&mut self, f: &Func) {
        self.nest(f, Kind::Inline);
    }

    /// Skips the vectors of the nest of `f` for which `live`, an expression in the coordinates of its points, is false.
    pub fn skip_unless(&mut self, f: &Func, live: Option<Expr>) {
        let nest = self.nests.iter_mut().rfind(|n| n.func == f.name);
        nest.expect("the Func has a nest").live = live;
    }
}
