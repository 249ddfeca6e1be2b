//! Random pipelines: pointwise Funcs, stencils, tuples, reductions, histograms, scans and plain updates.

use crate::rng::Rng;
use std::collections::HashMap;
use sumsq_codegen::reference::{Bindings, Realization, Value};
use sumsq_codegen::{Expr, Func, Input, Name, Pipeline, RDom, ScalarType, Schedule, Var};

/// Types of Funcs and inputs.
const TYPES: [ScalarType; 5] =
    [ScalarType::U8, ScalarType::I16, ScalarType::I32, ScalarType::F32, ScalarType::F64];
/// Bins of a histogram.
pub const BINS: i64 = 12;

/// A program with its schedule and all it needs to run.
#[derive(Clone)]
pub struct Case {
    pub pipeline: Pipeline,
    pub schedule: Schedule,
    pub bindings: Bindings,
    /// Of every output.
    pub extents: Vec<Vec<usize>>,
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
    /// Extents of the inputs, which are also those of two-dimensional outputs.
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
    bindings.params.insert("scale".into(), Value::Int(b.rng.range(-3, 3)));
    b.pipeline.param("scale", ScalarType::I32);
    for i in 0..b.rng.range(1, 5) {
        b.func(i as usize);
    }
    b.outputs();
    let extents = b
        .pipeline
        .outputs
        .iter()
        .map(|o| match b.pipeline.funcs[&o.func].vars.len() {
            0 => vec![],
            1 => vec![BINS as usize],
            _ => size.to_vec(),
        })
        .collect();
    Case { pipeline: b.pipeline, schedule: Schedule::new(), bindings, extents, free_sums: b.free_sums }
}

impl Builder<'_> {
    fn input(&mut self, i: usize) -> (Name, Realization) {
        let ty = self.rng.pick(&TYPES);
        let input = self.pipeline.input(Input::new(format!("in{i}"), &[ty], 2));
        let scale = if self.rng.percent(30) { 40 } else { 5 };
        let rng = &mut *self.rng;
        let values =
            Realization::from_fn(&[ty], &self.size, |_, _| rng.range(-scale, 3 * scale) as f64 / 2.0);
        self.callees.push(Callee::Input(input.clone()));
        (input.name, values)
    }

    fn func(&mut self, i: usize) {
        let name = format!("f{i}");
        let f = match self.rng.below(10) {
            0 | 1 => self.pointwise(&name),
            2 | 3 => self.stencil(&name),
            4 => self.local_sum(&name),
            5 => self.histogram(&name),
            6 => self.total(&name),
            7 => self.scan(&name),
            8 => self.extremum(&name),
            _ => self.updated(&name),
        };
        let f = self.pipeline.func(f);
        if !self.free_sums.contains_key(&f.name) {
            self.callees.push(Callee::Func(f));
        }
    }

    /// The last Func, sometimes others, and those that nothing else may read.
    fn outputs(&mut self) {
        let last = self.pipeline.funcs.len() - 1;
        for (i, f) in self.pipeline.funcs.clone().into_values().enumerate() {
            if i == last || self.free_sums.contains_key(&f.name) || self.rng.percent(20) {
                self.pipeline.output(&f);
            }
        }
    }

    fn pointwise(&mut self, name: &str) -> Func {
        let (vars, at) = xy();
        let ty = self.rng.pick(&TYPES);
        let values = (0..if self.rng.percent(25) { 2 } else { 1 }).map(|_| self.value(ty, &at, 3)).collect();
        Func::new(name, &vars, values)
    }

    fn stencil(&mut self, name: &str) -> Func {
        let (vars, at) = xy();
        let callee = self.callee();
        let ty = callee.ty();
        let terms = (0..self.rng.range(2, 4)).map(|_| {
            let shifted: Vec<Expr> = at.iter().map(|e| e.clone() + self.rng.range(-2, 2)).collect();
            self.call(&callee, &shifted)
        });
        let sum =
            terms.collect::<Vec<_>>().into_iter().reduce(|a, b| a + b).unwrap_or(Expr::constant(ty, 0.0));
        Func::new(name, &vars, vec![sum])
    }

    /// A sum, minimum or maximum over a small window around each point.
    fn local_sum(&mut self, name: &str) -> Func {
        let (vars, at) = xy();
        let (nx, ny) = (self.rng.range(1, 4), self.rng.range(1, 3));
        let from = Expr::from(self.rng.range(-2, 0) as i32);
        let mut r = RDom::new([
            (format!("{name}_r"), from, Expr::from(nx as i32)),
            (format!("{name}_s"), Expr::from(0), Expr::from(ny as i32)),
        ]);
        if self.rng.percent(30) {
            let odd = (r.var(0) + &r.var(1)).modulo(2).ne_(0);
            r = r.filter(odd);
        }
        let ty = self.rng.pick(&TYPES);
        let inner = [&at[0] + &r.var(0), &at[1] + &r.var(1)];
        let term = self.value(ty, &inner, 1);
        let f = Func::new(name, &vars, vec![Expr::constant(ty, 0.0)]);
        let own = f.at(&at, 0);
        let value = match self.rng.below(3) {
            0 => own.max(term),
            1 => own.min(term),
            _ => own + term,
        };
        f.update(at.to_vec(), vec![value], r)
    }

    /// Counts or sums by a bin that the data chooses.
    fn histogram(&mut self, name: &str) -> Func {
        let b = Var::new("b");
        let Some(Callee::Input(input)) = self.callees.first().cloned() else {
            unreachable!("inputs come first")
        };
        let r = RDom::new([
            (format!("{name}_r"), Expr::from(0), input.extent(0)),
            (format!("{name}_s"), Expr::from(0), input.extent(1)),
        ]);
        let at = [r.var(0), r.var(1)];
        let bin = self.bin(&at);
        let ty = self.rng.pick(&[ScalarType::I32, ScalarType::U8, ScalarType::F32]);
        let f = Func::new(name, &[b], vec![Expr::constant(ty, 0.0)]);
        let more = if self.rng.percent(50) { Expr::constant(ty, 1.0) } else { self.value(ty, &at, 1) };
        let value = f.at(std::slice::from_ref(&bin), 0) + more;
        f.update(vec![bin], vec![value], r)
    }

    /// A sum over the whole domain, in one or two tuple elements. Half of those in floats may be reordered.
    fn total(&mut self, name: &str) -> Func {
        let Some(Callee::Input(input)) = self.callees.first().cloned() else {
            unreachable!("inputs come first")
        };
        let r = RDom::new([
            (format!("{name}_r"), Expr::from(0), input.extent(0)),
            (format!("{name}_s"), Expr::from(0), input.extent(1)),
        ]);
        let ty = self.rng.pick(&[ScalarType::I32, ScalarType::F32, ScalarType::F64]);
        let at = [r.var(0), r.var(1)];
        let terms: Vec<Expr> = (0..self.rng.range(1, 2)).map(|_| self.value(ty, &at, 2)).collect();
        if ty.is_float() && self.rng.percent(50) {
            let magnitudes = terms.iter().map(|t| t.abs().cast(ScalarType::F64)).collect();
            let bound = Func::sum(format!("{name}_magnitude"), &[], r.clone(), magnitudes);
            self.free_sums.insert(name.into(), (bound, self.size[0] * self.size[1]));
        }
        Func::sum(name, &[], r, terms)
    }

    /// Where a value is greatest or least over the whole domain, and that value, which repeats.
    fn extremum(&mut self, name: &str) -> Func {
        let Some(Callee::Input(input)) = self.callees.first().cloned() else {
            unreachable!("inputs come first")
        };
        let r = RDom::new([
            (format!("{name}_r"), Expr::from(0), input.extent(0)),
            (format!("{name}_s"), Expr::from(0), input.extent(1)),
        ]);
        let ty = self.rng.pick(&[ScalarType::I32, ScalarType::U8, ScalarType::F32]);
        let at = [r.var(0), r.var(1)];
        let value = self.value(ty, &at, 2);
        let (start, greatest) = (self.rng.range(-5, 5), self.rng.percent(50));
        let start = Expr::constant(ty, start as f64);
        let f = Func::new(name, &[], vec![Expr::constant(ty, 99.0), start, Expr::constant(ty, 99.0)]);
        let old = |k: usize| f.at(&[], k);
        let better = if greatest { value.gt(old(1)) } else { old(1).gt(&value) };
        let new = [r.var(0).cast(ty), value, r.var(1).cast(ty)];
        let values = (0..3).map(|k| Expr::select(&better, &new[k], old(k))).collect();
        f.update(vec![], values, r)
    }

    /// A running sum along y over a fixed range.
    fn scan(&mut self, name: &str) -> Func {
        let (vars, at) = xy();
        let ty = self.rng.pick(&TYPES);
        let start = self.value(ty, &at, 2);
        let f = Func::new(name, &vars, vec![start]);
        let length = self.rng.range(1, 8) as i32;
        let r = RDom::new([(format!("{name}_r"), Expr::from(1), Expr::from(length))]);
        let (x, y) = (at[0].clone(), r.var(0));
        let value = f.at(&[x.clone(), y.clone()], 0) + f.at(&[x.clone(), y.clone() - 1], 0);
        f.update(vec![x, y], vec![value], r)
    }

    /// One or two updates of every point, or of a row.
    fn updated(&mut self, name: &str) -> Func {
        let (vars, at) = xy();
        let ty = self.rng.pick(&TYPES);
        let start = self.value(ty, &at, 2);
        let mut f = Func::new(name, &vars, vec![start]);
        for _ in 0..self.rng.range(1, 2) {
            let row = Expr::from(self.rng.range(0, 3) as i32);
            let place = if self.rng.percent(30) { vec![at[0].clone(), row] } else { at.to_vec() };
            let value = f.at(&place, 0) * 2 + self.value(ty, &place, 1);
            f = f.update(place, vec![value], RDom::default());
        }
        f
    }

    fn callee(&mut self) -> Callee {
        self.rng.pick(&self.callees.clone())
    }

    /// A call around the coordinates `at` (two of them).
    fn call(&mut self, callee: &Callee, at: &[Expr]) -> Expr {
        match callee {
            Callee::Input(i) => {
                let inside = |d: usize| at[d].clone().max(0).min(i.extent(d) - 1);
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

    /// A coordinate near `e`: shifted, scaled, clamped or mirrored.
    fn coordinate(&mut self, e: &Expr) -> Expr {
        match self.rng.below(12) {
            0 => e.clone() + self.rng.range(-3, 3),
            1 => (e.clone() + 1) / 2,
            2 => e.clone() * 2 + self.rng.range(0, 1),
            3 => e.clone().max(0).min(self.rng.range(1, 9) as i32),
            4 => e.clone().modulo(5),
            _ => e.clone(),
        }
    }

    /// A bin of a histogram, from the data or from coordinates.
    fn bin(&mut self, at: &[Expr]) -> Expr {
        let inputs: Vec<Callee> =
            self.callees.iter().filter(|c| matches!(c, Callee::Input(_))).cloned().collect();
        let index = if self.rng.percent(70) {
            let callee = self.rng.pick(&inputs);
            self.call(&callee, at).cast(ScalarType::U8).cast(ScalarType::I32) / 3
        } else {
            &at[0] + &at[1]
        };
        index.max(0).min(BINS as i32 - 1)
    }

    /// A value of type `ty` around the coordinates `at`.
    fn value(&mut self, ty: ScalarType, at: &[Expr], depth: usize) -> Expr {
        if depth == 0 || self.rng.percent(15) {
            return self.leaf(ty, at);
        }
        let a = self.value(ty, at, depth - 1);
        if self.rng.percent(15) {
            return if ty.is_float() { self.float_unary(a) } else { self.int_unary(ty, a) };
        }
        let b = self.value(ty, at, depth - 1);
        match self.rng.below(8) {
            0 => a - b,
            1 => a * b,
            2 => a.min(b),
            3 => a.max(b),
            4 => Expr::select(a.lt(&b), b, a),
            5 if !ty.is_float() => self.int_binary(a, b),
            5 => a / self.rng.range(2, 9),
            _ => a + b,
        }
    }

    fn leaf(&mut self, ty: ScalarType, at: &[Expr]) -> Expr {
        match self.rng.below(8) {
            0 => Expr::constant(ty, self.rng.range(0, 20) as f64),
            1 => self.rng.pick(at).cast(ty),
            2 => Expr::param("scale", ScalarType::I32).cast(ty),
            _ => {
                let callee = self.callee();
                self.call(&callee, at).cast(ty)
            }
        }
    }

    fn int_unary(&mut self, ty: ScalarType, a: Expr) -> Expr {
        match self.rng.below(5) {
            0 => a.not_(),
            1 => -a,
            2 if ty.is_signed() => a.abs(),
            3 => a.shl(Expr::int(ty, self.rng.range(0, 3))),
            _ => a.shr(Expr::int(ty, self.rng.range(0, 3))),
        }
    }

    fn int_binary(&mut self, a: Expr, b: Expr) -> Expr {
        match self.rng.below(7) {
            0 => a / b,
            1 => a.modulo(b),
            2 => a / self.rng.range(1, 9),
            3 => a.modulo(Expr::int(b.ty(), self.rng.range(1, 9))),
            4 => a.and(b),
            5 => a.or(b),
            _ => a.xor(b),
        }
    }

    fn float_unary(&mut self, a: Expr) -> Expr {
        match self.rng.below(6) {
            0 => -a,
            1 => a.abs().sqrt(),
            2 => a.floor(),
            3 => a.round(),
            4 => Expr::fma(&a, &a, &a),
            _ => a.abs(),
        }
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
