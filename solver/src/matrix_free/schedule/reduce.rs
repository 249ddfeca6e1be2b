//! Reductions over a domain, the same for any number of threads.
//!
//! The domain is cut along its last dim into strips, whose height comes from sizes alone; strips run in parallel, each with one
//! accumulator per vector lane; lanes, then strips, are summed in a fixed order. All accumulators are float64.

use crate::matrix_free::Skeleton;
use crate::matrix_free::draft::{Draft, all};
use crate::matrix_free::params::{Size, strip};
use crate::matrix_free::pipelines::gather::BLOCKS;
use crate::matrix_free::vectors::VectorId;
use sumsq_codegen::{Expr, Func, LoopLevel, Memory, Name, RDom, ScalarType, StageId, Tail};
use sumsq_energy::model::Domain;

/// Operator of one element of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sum from 0.
    Add,
    /// Maximum from 0.
    Max,
}

/// The points of a domain to reduce over.
pub struct Points {
    /// The reduction domain.
    pub rdom: RDom,
    /// Its variables as expressions: the coordinates of a point.
    pub coordinates: Vec<Expr>,
    /// Run-time height of a strip.
    pub strip: Expr,
}

impl Skeleton {
    /// All points of a domain.
    pub fn points(&self, domain: Domain) -> Points {
        let (vars, extents) = self.domain_vars(domain);
        let vars = vars.into_iter().zip(extents).map(|(v, n)| (format!("r{v}"), Expr::from(0), n));
        let rdom = RDom::new(vars);
        let coordinates = (0..rdom.vars.len()).map(|d| rdom.var(d)).collect();
        Points { rdom, coordinates, strip: strip(domain) }
    }
}

/// The loops of a nest that producers are computed at.
#[derive(Clone)]
pub struct Loops {
    /// The innermost loop outside of the vector: where producers of single vectors are computed.
    pub vector: LoopLevel,
    /// The loop over rows of a strip (equal to `strip` in one dimension), and the parallel loop over strips: of reductions.
    pub rows: Option<(LoopLevel, LoopLevel)>,
}

impl Draft<'_> {
    /// Adds the scalar tuple Func `name` that reduces `terms` (float64 each) over `points`, at root.
    pub fn reduce(&mut self, name: &str, points: &Points, terms: Vec<(Op, Expr)>) -> Func {
        let init = terms.iter().map(|_| Expr::float(ScalarType::F64, 0.0)).collect();
        let f = Func::new(name, &[], init);
        let values = all(&f, &[]).into_iter().zip(terms).map(|(old, (op, t))| match op {
            Op::Add => old + t,
            Op::Max => old.max(t),
        });
        let values = values.collect();
        let f = self.p.func(f.update(vec![], values, points.rdom.clone()));
        self.reduction(name, points);
        f
    }

    fn reduction(&mut self, name: &str, points: &Points) {
        let (strips, lanes) = (format!("{name}_s"), format!("{name}_sl"));
        let vars: Vec<&str> = points.rdom.vars.iter().map(|v| &*v.name).collect();
        let last = vars[vars.len() - 1];
        // In one dimension the vector loop is split from inside the strip.
        let first = if vars.len() == 1 { "row" } else { vars[0] };
        let (width, s) = (self.k.lanes, &mut self.s);
        s.func(name).compute_root().relaxed();
        s.update(name, 0)
            .split(last, "strip", "row", points.strip.clone(), Tail::Predicate)
            .split(first, "vec", "lane", width, Tail::Predicate)
            .rfactor(&[("strip", "s")], &strips);
        s.func(&strips).compute_root();
        s.update(&strips, 0).rfactor(&[("lane", "l")], &lanes).parallel("s").vectorize_loop("lane");
        let strip = LoopLevel::update(&strips, 0, "s");
        s.func(&lanes).compute_at(strip.clone()).store_in(Memory::Register).vectorize_loop("l");
        let mut order = vec!["l", "vec"];
        order.extend(vars[..vars.len() - 1].iter().skip(1));
        if vars.len() > 1 {
            order.push("row");
        }
        order.push("s");
        s.update(&lanes, 0).reorder(&order).vectorize_loop("l");
        let row = if vars.len() == 1 { strip.clone() } else { LoopLevel::update(&lanes, 0, "row") };
        let vector = LoopLevel::update(&lanes, 0, "vec");
        self.loops.insert(name.into(), Loops { vector, rows: Some((row, strip)) });
    }

    /// Computes an output at root: strips in parallel, vectors along dim 0.
    pub fn map(&mut self, f: &Func, strip: &Expr) {
        let vars: Vec<&str> = f.vars.iter().map(|v| &*v.0).collect();
        let last = vars[vars.len() - 1];
        let first = if vars.len() == 1 { "row" } else { vars[0] };
        self.s
            .func(&f.name)
            .compute_root()
            .relaxed()
            .split(last, "strip", "row", strip.clone(), Tail::Predicate)
            .split(first, "vec", "lane", self.k.lanes, Tail::Predicate)
            .parallel("strip")
            .vectorize_loop("lane");
        let vector = LoopLevel::pure(&f.name, "vec");
        self.loops.insert(f.name.clone(), Loops { vector, rows: None });
    }

    /// Computes sums over the rows of a vertex, over (lane, block), at root: blocks in parallel.
    pub fn map_rows(&mut self, f: &Func) {
        let (name, lanes) = (&f.name, self.k.lanes);
        self.s.func(name).compute_root().relaxed().split("block", "strip", "b", BLOCKS, Tail::Predicate);
        self.s.func(name).parallel("strip").vectorize("lane", lanes, Tail::Predicate);
        self.s.func(name).reorder(&["lanei", "laneo", "b", "strip"]);
        self.loops.insert(name.clone(), Loops { vector: LoopLevel::pure(name, "laneo"), rows: None });
    }

    /// Skips the vectors of the nest of `f` for which `live`, an expression in the coordinates of its points, is false.
    pub fn skip_unless(&mut self, f: &Func, live: Option<Expr>) {
        let Some(live) = live else { return };
        let vector = self.vector_of(&f.name);
        let StageId { func, stage } = &vector.stage;
        let stage = match stage {
            0 => self.s.func(func),
            update => self.s.update(func, update - 1),
        };
        stage.skip_unless(&vector.var, live);
    }

    /// The loop of a nest outside of its vectors.
    fn vector_of(&self, nest: &Name) -> LoopLevel {
        self.loops.get(nest).expect("the reader has a nest").vector.clone()
    }

    /// Computes an output vector by vector inside of the nest of `reader`, and stores it there.
    pub fn store_in(&mut self, reader: &Func, f: &Func) {
        let vector = self.vector_of(&reader.name);
        let (x, lanes) = (f.vars[0].0.clone(), self.k.lanes);
        self.s.func(&f.name).relaxed().compute_at(vector).vectorize(&x, lanes, Tail::Predicate).sink();
    }

    /// Computes a Func vector by vector in registers, inside of the nest of `reader`.
    pub fn registers_in(&mut self, reader: &Func, f: &Func) {
        let vector = self.vector_of(&reader.name);
        let (x, lanes) = (f.vars[0].0.clone(), self.k.lanes);
        self.s.func(&f.name).compute_at(vector).store_in(Memory::Register).vectorize(
            &x,
            lanes,
            Tail::Predicate,
        );
        for u in 0..f.updates.len() {
            self.s.update(&f.name, u).vectorize(&x, lanes, Tail::Predicate);
        }
    }

    /// As [`Draft::registers_in`]; substituted where nothing is gathered.
    pub fn gathered_in(&mut self, reader: &Func, f: &Func) {
        if f.updates.is_empty() { self.inline(f) } else { self.registers_in(reader, f) }
    }

    /// Makes an output overwrite the vector that it reads.
    pub fn in_place_of(&mut self, f: &Func, id: VectorId) {
        self.s.func(&f.name).in_place_of(&id.to_string());
    }

    /// Substitutes a Func into what reads it.
    pub fn inline(&mut self, f: &Func) {
        self.s.func(&f.name).inline();
    }
}

/// A ring of rows inside of a reduction over two dims.
pub struct Ring {
    /// Rows read on either side; `None` leaves the number of rows to the engine.
    pub reach: Option<u32>,
    /// Also stored to memory, past the cache where that is asked for.
    pub stored: bool,
    /// The vectors that are computed, an expression in the Func's variables.
    pub live: Option<Expr>,
}

impl Draft<'_> {
    /// Computes a Func row by row inside of the reduction `reader`.
    pub fn ring_in(&mut self, reader: &Name, f: &Func, ring: Ring) {
        let loops = self.loops.get(reader).expect("the reader has a nest");
        let (row, strip) = loops.rows.clone().expect("the reader is a reduction");
        let lanes = self.k.lanes;
        let mut stage = self.s.func(&f.name).relaxed().store_at(strip).compute_at(row);
        if let Some(reach) = ring.reach {
            stage = stage.fold_storage("y", (2 * reach + 1).next_power_of_two());
        }
        stage = stage.align_bounds("x", lanes as u32).vectorize("x", lanes, Tail::Predicate);
        if ring.stored {
            stage = stage.sink().non_temporal(Size::Streaming.expr());
        }
        if let Some(live) = ring.live {
            stage.skip_unless("xo", live);
        }
    }
}
