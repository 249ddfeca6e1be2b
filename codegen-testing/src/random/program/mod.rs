//! Random pipelines over two to four dims: pointwise Funcs, stencils, pyramids, tuples, boundary conditions, reductions of every kind, histograms,
//! scatters, scans and plain updates, of all types; inputs and outputs of every layout; names of every form.
//!
//! Every program keeps the language's one rule about integers: coordinates, and comparisons that read no memory, do not
//! overflow.

pub mod buffers;
mod funcs;
mod special;
mod values;

use crate::reference::{Bindings, Value};
use crate::rng::Rng;
use std::collections::HashMap;
use sumsq_codegen::{Expr, Func, Input, Name, Pipeline, ScalarType, Schedule, Var};

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
/// Floats at the ends of what there is: NaN, infinities, -0, denormal numbers of each type, and the largest of f32.
const SPECIAL: [f64; 9] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 6e-8, -1e-40, 5e-324, f32::MAX as f64, f64::MIN];
/// Bins of a histogram.
pub const BINS: i64 = 12;
/// Points of an input or output, at most.
pub const MOST_POINTS: usize = 840;

/// Beginning of the names of [`Builder::siblings`].
const SIBLING: &str = "near";

/// First coordinate and number of coordinates, per dimension.
pub type Domain = Vec<(i32, usize)>;

/// A program with its schedule and all it needs to run.
#[derive(Clone, Default)]
pub struct Case {
    pub pipeline: Pipeline,
    pub schedule: Schedule,
    pub bindings: Bindings,
    /// Of every output.
    pub domains: Vec<Domain>,
    /// Sums whose terms a schedule may add in another order, as a Func that sums the terms' magnitudes, and the
    /// number of terms. No other Func reads such a sum.
    pub free_sums: HashMap<Name, (Func, usize)>,
    /// Conditions without which Funcs are 0: a dimension and, over it and parameters, the condition.
    pub gates: HashMap<Name, (Name, Expr)>,
    /// Outputs that may take the place of an input.
    pub in_place: HashMap<Name, Name>,
    /// Outputs that may be stored by the nest of their only consumer.
    pub sinks: Vec<Name>,
    /// Funcs of which their only consumer needs a few rows or columns at a time.
    pub rings: Vec<Name>,
    /// The ways it is run.
    pub by: Executors,
}

/// Executors of a case, besides its lowered statements on checked memory and its machine code.
#[derive(Clone, Copy, Default)]
pub struct Executors {
    /// A C program that links what is compiled ahead of time.
    pub ahead: bool,
    /// Its loop nests, before they are lowered, on checked memory.
    pub nests: bool,
    /// LLVM's passes are run over the machine code.
    pub optimised: bool,
}

/// Something that can be called.
#[derive(Clone)]
enum Callee {
    Input(Input),
    Func(Func),
}

struct Builder<'a> {
    rng: &'a mut Rng,
    /// The case being made: without outputs and their domains until the end.
    case: Case,
    callees: Vec<Callee>,
    /// Extents of the inputs, and of outputs over as many dims.
    size: Vec<usize>,
    /// Are Funcs sums and products of floats, whose error under reordering has a bound?
    smooth: bool,
    /// Suffix of the names of Funcs, inputs, variables and parameters.
    ending: &'static str,
}

/// A program without a schedule.
pub fn program(rng: &mut Rng) -> Case {
    let size = size(rng);
    let smooth = rng.percent(15);
    let ending = if rng.percent(85) { "" } else { rng.pick(&["$", ".q", "_0", ".0.x", "β", "o"]) };
    let mut b = Builder { rng, case: Case::default(), callees: vec![], size, smooth, ending };
    b.case.pipeline = Pipeline::new("random");
    for i in 0..b.rng.range(1, 2) {
        b.input(i as usize);
    }
    b.params();
    for i in 0..b.rng.range(1, 5) {
        let name = b.name(&format!("f{i}"));
        b.func(&name);
    }
    if b.rng.percent(20) {
        b.siblings();
    }
    b.outputs();
    b.case
}

/// Two extents, or more and smaller ones; now and then one of 0, or a large one.
fn size(rng: &mut Rng) -> Vec<usize> {
    let most: &[i64] = match rng.below(10) {
        0 | 1 => &[13, 6, 5],
        2 => &[7, 4, 3, 3],
        _ => &[40, 21],
    };
    let mut size: Vec<usize> = most.iter().map(|&n| rng.range(1, n) as usize).collect();
    let d = rng.below(size.len());
    match rng.below(50) {
        0 | 1 => size[d] = 0,
        2 => {
            size.fill(1);
            size[d] = rng.range(100, MOST_POINTS as i64) as usize;
        }
        _ => {}
    }
    size
}

impl Builder<'_> {
    /// Integers that only schedules and conditions use, and a value of any type.
    fn params(&mut self) {
        let scale = self.rng.range(-3, 3);
        self.param("scale", ScalarType::I32, Value::Int(scale));
        let ty = self.ty();
        let any = self.number(ty);
        self.param("any", ty, any);
        if self.rng.percent(30) {
            let factor = self.rng.range(1, 9);
            let name = self.param("factor", ScalarType::I32, Value::Int(factor));
            if self.rng.percent(50) {
                self.case.pipeline.param_in(name, ScalarType::I32, 1, 16);
            }
        }
    }

    fn param(&mut self, name: &str, ty: ScalarType, value: Value) -> Name {
        let name: Name = self.name(name).into();
        self.case.pipeline.param(name.clone(), ty);
        self.case.bindings.params.insert(name.clone(), value);
        name
    }

    /// `name` in the form of this program's names.
    fn name(&self, name: &str) -> String {
        format!("{name}{}", self.ending)
    }

    /// The integer that a run gives.
    fn scale(&self) -> Expr {
        Expr::param(self.name("scale"), ScalarType::I32)
    }

    /// Some type for a Func, an input or a parameter.
    fn ty(&mut self) -> ScalarType {
        self.ty_of(&TYPES)
    }

    /// One of these types; a float where all are to be floats.
    fn ty_of(&mut self, from: &[ScalarType]) -> ScalarType {
        if self.smooth {
            return self.rng.pick(&[ScalarType::F32, ScalarType::F32, ScalarType::F64]);
        }
        self.rng.pick(from)
    }

    /// Some type whose values can be compared and added.
    fn number_ty(&mut self) -> ScalarType {
        self.ty_of(&TYPES.map(|t| if t == ScalarType::Bool { ScalarType::U8 } else { t }))
    }

    /// A small number, sometimes one from the whole range of the type, or a float that is no ordinary one.
    fn number(&mut self, ty: ScalarType) -> Value {
        if ty.is_int() && self.rng.percent(15) {
            return Value::Int(ty.wrap(self.rng.bits() as i64 >> self.rng.below(64)));
        }
        if ty.is_float() && !self.smooth && self.rng.percent(12) {
            return Value::of(ty, self.rng.pick(&SPECIAL));
        }
        let scale = if self.rng.percent(20) { 200 } else { 5 };
        Value::of(ty, self.rng.range(-scale, 3 * scale) as f64 / 2.0)
    }

    /// Adds a Func to the pipeline, and to what may be called.
    fn add(&mut self, f: Func) {
        let f = self.case.pipeline.func(f);
        if !self.case.free_sums.contains_key(&f.name) && !self.case.in_place.contains_key(&f.name) {
            self.callees.push(Callee::Func(f));
        }
    }

    /// The variables and coordinates of all dimensions.
    fn space(&self) -> (Vec<Var>, Vec<Expr>) {
        let names = ["x", "y", "z", "w"].into_iter().take(self.size.len());
        let vars: Vec<Var> = names.map(|v| Var::new(self.name(v))).collect();
        let at = vars.iter().map(Var::expr).collect();
        (vars, at)
    }

    /// `at`, moved by the first two reduction variables along its first two dimensions.
    fn moved(at: &[Expr], by: &[Expr]) -> Vec<Expr> {
        let moved = |(d, e): (usize, &Expr)| by.get(d).map_or(e.clone(), |by| e + by);
        at.iter().enumerate().map(moved).collect()
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

    /// A call around the coordinates `at`, one per dimension.
    fn call(&mut self, callee: &Callee, at: &[Expr]) -> Expr {
        match callee {
            Callee::Input(i) => {
                let k = self.rng.below(i.types.len());
                let mut inside = |d: usize| {
                    let halo = if self.rng.percent(50) { i.halo[d] as i64 } else { 0 };
                    at[d].clone().max(i.min(d) - halo).min(i.min(d) + i.extent(d) + (halo - 1))
                };
                let inside: Vec<Expr> = (0..i.halo.len()).map(&mut inside).collect();
                i.at(&inside, k)
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

    /// A coordinate near `e`: shifted, scaled by a constant or a parameter, clamped, wrapped around or mirrored.
    fn coordinate(&mut self, e: &Expr) -> Expr {
        match self.rng.below(17) {
            0 => e.clone() + self.rng.range(-3, 3),
            1 => (e.clone() + 1) / 2,
            2 => e.clone() * 2 + self.rng.range(0, 1),
            3 => e.clone().max(0).min(self.rng.range(1, 9) as i32),
            4 => e.clone().modulo(5),
            5 => Expr::from(self.rng.range(-1, 9) as i32) - e.clone(),
            6 => e * &self.scale(),
            7 => e / &self.scale(),
            8 => e % &self.scale(),
            _ => e.clone(),
        }
    }

    /// A bin of a histogram, from the data (clamped, or hashed) or from coordinates.
    fn bin(&mut self, at: &[Expr]) -> Expr {
        let inputs: Vec<Callee> =
            self.callees.iter().filter(|c| matches!(c, Callee::Input(_))).cloned().collect();
        let callee = self.rng.pick(&inputs);
        let index = match self.rng.below(12) {
            0..3 => {
                let hashed = self.call(&callee, at).cast(ScalarType::U32) * 0x9e37_79b9i64;
                return (hashed.shr(Expr::int(ScalarType::U32, 7)) % BINS).cast(ScalarType::I32);
            }
            3..7 => self.call(&callee, at).cast(ScalarType::U8).cast(ScalarType::I32) / 3,
            // Of floats, whose own bounds say that there is such a bin. The products are exact, so that fused ones have the same bin.
            7 => {
                let share = self.call(&callee, at).cast(ScalarType::F32).clamp(0, 1);
                return (share * 8.0f32 + 0.5f32).cast(ScalarType::I32);
            }
            8 => {
                let share = Expr::random_f32(self.rng.below(100) as u32, at);
                (share * BINS as f32).cast(ScalarType::I32)
            }
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
