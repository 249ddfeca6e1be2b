//! Random pipelines: pointwise Funcs, stencils, pyramids, tuples, boundary conditions, reductions of every kind, histograms,
//! scatters, scans and plain updates, of all types.
//!
//! Every program keeps the language's one rule about integers: coordinates, and comparisons that read no memory, do not
//! overflow.

mod funcs;
mod values;

use crate::rng::Rng;
use std::collections::HashMap;
use sumsq_codegen::reference::{Bindings, Realization, Value};
use sumsq_codegen::{Constraint, Expr, Func, Input, Layout, Name, Pipeline, ScalarType, Schedule, Var};

/// Types of Funcs, inputs and parameters; the common ones more often.
const TYPES: [ScalarType; 16] = [
    ScalarType::U8,
    ScalarType::U8,
    ScalarType::I8,
    ScalarType::I16,
    ScalarType::I16,
    ScalarType::U16,
    ScalarType::I32,
    ScalarType::I32,
    ScalarType::U32,
    ScalarType::I64,
    ScalarType::U64,
    ScalarType::Bool,
    ScalarType::F16,
    ScalarType::F32,
    ScalarType::F32,
    ScalarType::F64,
];
/// Bins of a histogram.
pub const BINS: i64 = 12;

/// What the names of [`Builder::siblings`] start with.
const SIBLING: &str = "near";

/// First coordinate and number of coordinates, per dimension.
pub type Domain = Vec<(i32, usize)>;

/// A program with its schedule and all it needs to run.
#[derive(Clone)]
pub struct Case {
    pub pipeline: Pipeline,
    pub schedule: Schedule,
    pub bindings: Bindings,
    /// Of every output.
    pub domains: Vec<Domain>,
    /// Sums whose terms a schedule may add in another order, as a Func that sums the terms' magnitudes, and the
    /// number of terms. No other Func reads such a sum.
    pub free_sums: HashMap<Name, (Func, usize)>,
}

/// Something that can be called.
#[derive(Clone)]
enum Callee {
    Input(Input),
    Func(Func),
}

struct Builder<'a> {
    rng: &'a mut Rng,
    pipeline: Pipeline,
    callees: Vec<Callee>,
    free_sums: HashMap<Name, (Func, usize)>,
    /// Extents of the inputs, and of two-dimensional outputs.
    size: [usize; 2],
}

/// A program without a schedule.
pub fn program(rng: &mut Rng) -> Case {
    let size = [rng.range(1, 40) as usize, rng.range(1, 21) as usize];
    let mut b =
        Builder { rng, pipeline: Pipeline::new("random"), callees: vec![], free_sums: HashMap::new(), size };
    let mut bindings = Bindings::default();
    for i in 0..b.rng.range(1, 2) {
        let (name, r) = b.input(i as usize);
        bindings.inputs.insert(name, r);
    }
    b.pipeline.param("scale", ScalarType::I32);
    bindings.params.insert("scale".into(), Value::Int(b.rng.range(-3, 3)));
    let ty = b.rng.pick(&TYPES);
    b.pipeline.param("any", ty);
    let any = b.number(ty);
    bindings.params.insert("any".into(), any);
    for i in 0..b.rng.range(1, 5) {
        b.func(&format!("f{i}"));
    }
    if b.rng.percent(20) {
        b.siblings();
    }
    let domains = b.outputs();
    Case { pipeline: b.pipeline, schedule: Schedule::new(), bindings, domains, free_sums: b.free_sums }
}

impl Builder<'_> {
    fn input(&mut self, i: usize) -> (Name, Realization) {
        let ty = self.rng.pick(&TYPES);
        let name = format!("in{i}");
        let strided = self.rng.percent(25);
        let input = if strided { Input::strided(name, &[ty], 2) } else { Input::new(name, &[ty], 2) };
        let input = self.pipeline.input(input);
        let mut r = Realization::zeros(&[ty], &self.size);
        if strided {
            r = r.moved_to(&[self.rng.range(-9, 9) as i32, self.rng.range(-9, 9) as i32]);
        }
        r.planes[0].fill_with(|| self.number(ty));
        self.callees.push(Callee::Input(input.clone()));
        (input.name, r)
    }

    /// A small number, sometimes one from the whole range of the type.
    fn number(&mut self, ty: ScalarType) -> Value {
        if ty.is_int() && self.rng.percent(15) {
            return Value::Int(ty.wrap(self.rng.next() as i64 >> self.rng.below(64)));
        }
        let scale = if self.rng.percent(20) { 200 } else { 5 };
        Value::of(ty, self.rng.range(-scale, 3 * scale) as f64 / 2.0)
    }

    /// Adds a Func to the pipeline, and to what may be called.
    fn add(&mut self, f: Func) {
        let f = self.pipeline.func(f);
        if !self.free_sums.contains_key(&f.name) {
            self.callees.push(Callee::Func(f));
        }
    }

    /// The last Func, sometimes others, and those that nothing else may read. Tuples of several types lie in strided buffers.
    fn outputs(&mut self) -> Vec<Domain> {
        let last = self.pipeline.funcs.len() - 1;
        let mut domains = vec![];
        for (i, f) in self.pipeline.funcs.clone().into_values().enumerate() {
            let sibling = f.name.starts_with(SIBLING);
            if i != last && !sibling && !self.free_sums.contains_key(&f.name) && !self.rng.percent(20) {
                continue;
            }
            let types = f.types();
            let mixed = types.iter().any(|t| *t != types[0]);
            let extents = match f.vars.len() {
                0 => vec![],
                1 => vec![BINS as usize],
                _ if sibling && self.rng.percent(50) => {
                    self.size.map(|n| self.rng.range(1, n as i64) as usize).to_vec()
                }
                _ => self.size.to_vec(),
            };
            let strided = mixed || self.rng.percent(25);
            if strided {
                self.pipeline.output_strided(&f, Constraint::defaults(extents.len()));
            } else {
                self.pipeline.output(&f);
            }
            let mut first = || if strided { self.rng.range(-9, 9) as i32 } else { 0 };
            domains.push(extents.into_iter().map(|n| (first(), n)).collect());
        }
        domains
    }

    fn callee(&mut self) -> Callee {
        self.rng.pick(&self.callees.clone())
    }

    /// The first input: its domain is that of reductions over everything.
    fn first_input(&self) -> Input {
        match &self.callees[0] {
            Callee::Input(i) => i.clone(),
            Callee::Func(_) => unreachable!("inputs come first"),
        }
    }

    /// A call around the coordinates `at` (two of them).
    fn call(&mut self, callee: &Callee, at: &[Expr]) -> Expr {
        match callee {
            Callee::Input(i) => {
                let inside = |d: usize| at[d].clone().max(i.min(d)).min(i.min(d) + i.extent(d) - 1);
                i.at(&[inside(0), inside(1)], 0)
            }
            Callee::Func(f) => {
                let k = self.rng.below(f.values.len());
                match f.vars.len() {
                    0 => f.at(&[], k),
                    1 => f.at(&[self.bin(at)], k),
                    _ => f.at(&at.iter().map(|e| self.coordinate(e)).collect::<Vec<_>>(), k),
                }
            }
        }
    }

    /// A coordinate near `e`: shifted, scaled, clamped, wrapped around or mirrored.
    fn coordinate(&mut self, e: &Expr) -> Expr {
        match self.rng.below(14) {
            0 => e.clone() + self.rng.range(-3, 3),
            1 => (e.clone() + 1) / 2,
            2 => e.clone() * 2 + self.rng.range(0, 1),
            3 => e.clone().max(0).min(self.rng.range(1, 9) as i32),
            4 => e.clone().modulo(5),
            5 => Expr::from(self.rng.range(-1, 9) as i32) - e.clone(),
            _ => e.clone(),
        }
    }

    /// A bin of a histogram, from the data (clamped, or hashed) or from coordinates.
    fn bin(&mut self, at: &[Expr]) -> Expr {
        let inputs: Vec<Callee> =
            self.callees.iter().filter(|c| matches!(c, Callee::Input(_))).cloned().collect();
        let callee = self.rng.pick(&inputs);
        let index = match self.rng.below(10) {
            0..3 => {
                let hashed = self.call(&callee, at).cast(ScalarType::U32) * 0x9e37_79b9;
                return (hashed.shr(Expr::int(ScalarType::U32, 7)) % BINS).cast(ScalarType::I32);
            }
            3..7 => self.call(&callee, at).cast(ScalarType::U8).cast(ScalarType::I32) / 3,
            _ => &at[0] + &at[1],
        };
        index.max(0).min(BINS as i32 - 1)
    }
}

impl Callee {
    fn ty(&self) -> ScalarType {
        match self {
            Callee::Input(i) => i.types[0],
            Callee::Func(f) => f.types()[0],
        }
    }
}

fn xy() -> ([Var; 2], [Expr; 2]) {
    let vars = [Var::new("x"), Var::new("y")];
    let at = [vars[0].expr(), vars[1].expr()];
    (vars, at)
}

/// Whether a buffer lies anywhere in memory, as text.
pub fn layout_text(layout: Layout) -> &'static str {
    if layout == Layout::Strided { " strided" } else { "" }
}
