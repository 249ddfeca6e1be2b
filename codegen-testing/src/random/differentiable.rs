//! Pipelines to be derived, among them random ones of one and two dimensions, in f64: index maps, bilinear samples, boundaries, updates of every form,
//! tuples, places of extrema, parameters.

use crate::reference::{Bindings, Realization, Value};
use crate::rng::Rng;
use rustc_hash::FxHashSet;
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::gradient::{Memory, propagate_adjoints_within};
use sumsq_codegen::{Constraint, Error, Expr, Func, Input, Pipeline, RDom, ScalarType, Var, boundary};

/// First coordinate and extent of each dimension.
pub type Domain = Vec<(i32, usize)>;

/// A pipeline with one output, and all that it needs to run.
#[derive(Clone)]
pub struct Differentiable {
    pub pipeline: Pipeline,
    pub bindings: Bindings,
    pub domain: Domain,
    /// Inputs, Funcs and parameters that are derived for.
    pub wrt: Vec<&'static str>,
}

impl Differentiable {
    /// Of `p`, whose last Func is its output over `domain`.
    pub fn new(
        mut p: Pipeline,
        output: &Func,
        domain: &[(i32, usize)],
        wrt: &[&'static str],
    ) -> Differentiable {
        p.outputs.clear();
        p.output_strided(output, vec![Constraint::new(); output.vars.len()]);
        Differentiable {
            pipeline: p,
            bindings: Bindings::default(),
            domain: domain.to_vec(),
            wrt: wrt.to_vec(),
        }
    }

    /// Binds an input to random values over a domain.
    pub fn bind(&mut self, name: &str, domain: &[(i32, usize)], rng: &mut Rng) {
        let types = self.pipeline.inputs[name].types.clone();
        self.bindings.inputs.insert(name.into(), values(&types, domain, rng));
    }

    /// The Func that is derived.
    pub fn output(&self) -> Func {
        self.pipeline.funcs[&self.pipeline.outputs[0].func].clone()
    }

    /// The adjoints, seeded with a random input `w`, as a pipeline with an output for each of `wrt`, and its domains.
    pub fn adjoint(&self) -> Result<(Pipeline, Bindings, Vec<Domain>), Error> {
        self.adjoint_keeping(None)
    }

    /// As [`Differentiable::adjoint`], where of updates that need all their states every k-th is kept.
    pub fn adjoint_keeping(&self, every: Option<u32>) -> Result<(Pipeline, Bindings, Vec<Domain>), Error> {
        let (mut p, mut b, output) = (self.pipeline.clone(), self.bindings.clone(), self.output());
        let types: Vec<ScalarType> = output.types().into_iter().filter(|t| t.is_float()).collect();
        p.input(loose(Input::strided("w", &types, output.vars.len())));
        b.inputs.insert("w".into(), values(&types, &self.domain, &mut Rng::new(7)));
        let memory = Memory { bytes: u64::MAX, every, estimates: &[] };
        let adjoints = propagate_adjoints_within(&mut p, &[(&output.name, "w")], &self.wrt, &memory)?;
        p.outputs.clear();
        let mut domains = vec![];
        for name in &self.wrt {
            let d = adjoints.of(name).expect("what is derived for has an adjoint");
            p.output_strided(d, vec![Constraint::new(); d.vars.len()]);
            domains.push(self.domain_of(name));
        }
        Ok((p, b, domains))
    }

    /// The domain of an input; none of a parameter.
    pub fn domain_of(&self, name: &str) -> Domain {
        match self.bindings.inputs.get(name) {
            Some(r) => r.min.iter().copied().zip(r.extents.iter().copied()).collect(),
            None => vec![],
        }
    }
}

/// An input whose first dimension may have any stride.
pub fn loose(mut i: Input) -> Input {
    i.constraints.iter_mut().for_each(|c| *c = Constraint::new());
    i
}

/// Random values over a domain: floats from 0.25 to 1.25, integers from 0 to 7.
pub fn values(types: &[ScalarType], domain: &[(i32, usize)], rng: &mut Rng) -> Realization {
    let extents: Vec<usize> = domain.iter().map(|d| d.1).collect();
    let min: Vec<i32> = domain.iter().map(|d| d.0).collect();
    let mut unit = || (rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
    Realization::from_fn(types, &extents, |_, k| match types[k].is_float() {
        true => 0.25 + unit(),
        false => (unit() * 8.0).floor(),
    })
    .moved_to(&min)
}

/// Extent of all inputs and outputs, per dimension.
const N: i32 = 6;

/// Operations from which on a pipeline gets no more Funcs. Adjoints have six times as many and are read over larger and larger domains, so that a
/// few pipelines would take as long as all others.
const ENOUGH: usize = 120;

/// The pipeline of a seed.
pub fn drawn(seed: u64) -> Differentiable {
    let mut b = Builder { rng: Rng::new(seed), p: Pipeline::new("random"), made: vec![], count: 0 };
    let f = b.p.input(Input::strided("f", &[F64], 2));
    let g = b.p.input(Input::strided("g", &[F64], 1));
    b.p.param("gain", F64);
    let plane = b.continued("cf", &f);
    let row = b.continued("cg", &g);
    b.made = vec![plane, row];
    for _ in 0..b.rng.range(1, 4) {
        let f = b.func();
        b.made.push(f);
        if operations(&b.p) > ENOUGH {
            break;
        }
    }
    let out = b.made.pop().expect("a Func");
    // The pipeline reads both inputs, so that nothing is derived for that has no adjoint.
    let vars = out.vars.clone();
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let both = out.at(&at, 0)
        + b.made[0].at(&[at[0].clone(), at[at.len() - 1].clone()], 0)
        + b.made[1].at(&at[..1], 0);
    let out = b.p.define("out", &vars, both);
    let domain: Vec<(i32, usize)> = vars.iter().map(|_| (b.rng.range(-2, 2) as i32, N as usize)).collect();
    let mut inputs = Rng::new(seed ^ 0x5eed);
    let (starts, rows) = ([(-1, N as usize), (2, N as usize + 1)], [(0, N as usize)]);
    let mut d = Differentiable::new(b.p, &out, &domain, &["f", "g", "gain"]);
    d.bind("f", &starts, &mut inputs);
    d.bind("g", &rows, &mut inputs);
    d.bindings.params.insert("gain".into(), Value::Float(0.75));
    d
}

struct Builder {
    rng: Rng,
    p: Pipeline,
    /// Funcs that may be read anywhere.
    made: Vec<Func>,
    count: usize,
}

impl Builder {
    fn name(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}{}", self.count)
    }

    /// An input as a Func that may be read anywhere.
    fn continued(&mut self, name: &str, of: &Input) -> Func {
        let d = of.domain();
        let f = match self.rng.below(5) {
            0 => boundary::constant_exterior(name, of, &d, &[Expr::from(0.5)]),
            1 => boundary::repeat_edge(name, of, &d),
            2 => boundary::repeat_image(name, of, &d),
            3 => boundary::mirror_image(name, of, &d),
            _ => boundary::mirror_interior(name, of, &d),
        };
        self.p.func(f)
    }

    /// A coordinate made of `vars`.
    fn coordinate(&mut self, vars: &[Expr]) -> Expr {
        let x = self.rng.pick(vars);
        let y = self.rng.pick(vars);
        let k = self.rng.range(-2, 2) as i32;
        match self.rng.below(14) {
            0..4 => x + k,
            4 => x * 2 + k,
            5 => (x + k) / 2,
            6 => x.modulo(3) + k,
            7 => x + y,
            8 => x * 2 - y,
            9 => Expr::from(k),
            10 => -x,
            11 => (x * 3 + y) / 2,
            12 => x.clamp(k, y),
            _ => {
                // Data: between -2 and 3.
                let value = self.read(vars);
                (value.sin() * 2.5).cast(I32).clamp(-2, 3)
            }
        }
    }

    /// A value of something made before, at coordinates made of `vars`.
    fn read(&mut self, vars: &[Expr]) -> Expr {
        let f = self.rng.pick(&self.made);
        let at: Vec<Expr> = f.vars.iter().map(|_| self.coordinate(vars)).collect();
        f.at(&at, self.rng.below(floats(&f)))
    }

    /// A value between the elements of something made before, at a place that is data.
    fn sampled(&mut self, vars: &[Expr]) -> Expr {
        let f = self.rng.pick(&self.made);
        let element = self.rng.below(floats(&f));
        let axes: Vec<(Expr, Expr)> = f.vars.iter().map(|_| self.between(vars)).collect();
        // The first axis changes fastest.
        let corners = 1 << axes.len();
        let taps = (0..corners).map(|corner: i32| {
            let next = |d: usize| corner >> d & 1;
            let at: Vec<Expr> = axes.iter().enumerate().map(|(d, (at, _))| at + next(d)).collect();
            let shares =
                axes.iter().enumerate().map(|(d, (_, s))| if next(d) == 1 { s.clone() } else { 1.0 - s });
            shares.fold(f.at(&at, element), |value, share| value * share)
        });
        taps.reduce(|a, b| a + b).expect("a Func has dimensions")
    }

    /// A place from -2 to 2 on an axis: the element before it, and the share of the next one.
    fn between(&mut self, vars: &[Expr]) -> (Expr, Expr) {
        let place = self.read(vars).sin() * 2.5 + 0.2;
        let first = place.floor();
        let share = place - &first;
        (first.cast(I32).clamp(-3, 2), share)
    }

    /// A float of moderate size.
    fn value(&mut self, vars: &[Expr], depth: usize) -> Expr {
        if depth == 0 {
            return if self.rng.percent(10) { self.sampled(vars) } else { self.read(vars) };
        }
        let other = self.rng.below(depth);
        let (a, b) = (self.value(vars, depth - 1), self.value(vars, other));
        match self.rng.below(15) {
            0 | 1 => a * 0.5 + b,
            2 | 3 => a * b * 0.25,
            4 => a.sin() - b,
            5 => a.max(&b),
            6 => Expr::select(a.lt(&b), (&a * &a + 0.1).sqrt(), &b),
            7 => a / (&b * &b + 1.0),
            8 => (a - b).abs(),
            9 => (&a * &a + 0.2).log() - b,
            10 => (a.sin() - 0.5).exp() * b,
            11 => (&a * &a + 0.3).pow(b.sin()),
            12 => (a.powi(2) * 0.3 + b).strict_float(),
            13 => a * Expr::param("gain", F64) + b * 0.5,
            _ => Expr::select(vars[0].modulo(2).eq_(0), a, b.atan2(1.5)),
        }
    }

    fn func(&mut self) -> Func {
        let dims = 1 + self.rng.below(2);
        let vars: Vec<Var> = Var::all(["x", "y"])[..dims].to_vec();
        let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
        let name = self.name("h");
        if self.rng.percent(15) {
            let f = self.tuple(&name, &vars);
            return self.p.func(f);
        }
        let start = if self.rng.percent(15) { self.best(&at) } else { self.value(&at, 1) };
        let f = Func::new(&*name, &vars, vec![start]);
        let updated = match self.rng.below(9) {
            0 | 1 => f,
            2 => self.sum(f, &at),
            3 => self.extremum(f, &at),
            4 => self.overwritten(f, &at),
            5 => self.scan(f, &at),
            6 => self.in_place(f, &at),
            7 => self.histogram(f, &at),
            _ => {
                let f = self.sum(f, &at);
                self.in_place(f, &at)
            }
        };
        let updated = if self.rng.percent(20) { self.in_place(updated, &at) } else { updated };
        self.p.func(updated)
    }

    /// Two floats and a number that counts, with an update that steps, adds up, or keeps the greater pair.
    fn tuple(&mut self, name: &str, vars: &[Var]) -> Func {
        let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
        let starts = vec![self.value(&at, 1), self.read(&at), Expr::from(0)];
        let f = Func::new(name, vars, starts);
        let r = self.domain(&at);
        let inner = Self::with(&at, &r);
        let (a, b, n) = (f.at(&at, 0), f.at(&at, 1), f.at(&at, 2));
        let (v, w) = (self.value(&inner, 1), self.read(&inner));
        let values = match self.rng.below(3) {
            0 => vec![&b * 0.5 + a.sin() * v, a * w * 0.4 + b.cos(), n + 1],
            1 => vec![a + v * &w, b - w, n + 1],
            _ => {
                let is_better = v.gt(&a);
                let either = |new: Expr, old: Expr| Expr::select(&is_better, new, old);
                vec![either(v.clone(), a.clone()), either(w, b), either(&n + 1, n.clone())]
            }
        };
        f.update(at, values, r)
    }

    /// The greatest or least value over a domain, and what lies at its place.
    fn best(&mut self, at: &[Expr]) -> Expr {
        let first = self.rng.range(-1, 2) as i32;
        let r = RDom::new([(&*self.name("r"), first, self.rng.range(2, 5) as i32)]);
        let term = self.value(&Self::with(at, &r), 1);
        let name = self.name("best");
        let best = match self.rng.percent(50) {
            true => self.p.argmax(name, &r, term),
            false => self.p.argmin(name, &r, term),
        };
        let f = self.rng.pick(&self.made);
        let place: Vec<Expr> = f.vars.iter().map(|_| best[0].clone()).collect();
        &best[1] * 0.5 + f.at(&place, 0)
    }

    /// A domain of one or two variables, perhaps ragged or with a predicate.
    fn domain(&mut self, vars: &[Expr]) -> RDom {
        let (n, m) = (self.rng.range(1, 4) as i32, self.rng.range(-1, 2) as i32);
        let (a, b) = (self.name("r"), self.name("r"));
        let mut r = match self.rng.below(4) {
            0 => RDom::new([(&*a, Expr::from(m), Expr::from(n)), (&*b, Expr::from(0), Expr::from(2))]),
            1 => RDom::new([(&*a, Expr::from(m), vars[0].clamp(0, n))]),
            _ => RDom::new([(&*a, Expr::from(m), Expr::from(n + 2))]),
        };
        if self.rng.percent(30) {
            r = r.clone().filter((r.var(0) + &vars[0]).modulo(3).ne_(1));
        }
        r
    }

    fn with(vars: &[Expr], r: &RDom) -> Vec<Expr> {
        vars.iter().cloned().chain((0..r.vars.len()).map(|i| r.var(i))).collect()
    }

    fn sum(&mut self, f: Func, at: &[Expr]) -> Func {
        let r = self.domain(at);
        let term = self.value(&Self::with(at, &r), 1);
        let sum = f.at(at, 0) + term * 0.5;
        let sum = if r.vars.len() == 2 { sum.strict_float() } else { sum };
        f.update(at.to_vec(), vec![sum], r)
    }

    fn extremum(&mut self, f: Func, at: &[Expr]) -> Func {
        let r = self.domain(at);
        let term = self.value(&Self::with(at, &r), 1);
        let old = f.at(at, 0);
        let value = if self.rng.percent(50) { old.max(term) } else { term.min(old) };
        f.update(at.to_vec(), vec![value], r)
    }

    fn overwritten(&mut self, f: Func, at: &[Expr]) -> Func {
        let r = RDom::new([(&*self.name("r"), 0, 4)]);
        let mut to = at.to_vec();
        let last = to.len() - 1;
        let v = r.var(0);
        to[last] = match self.rng.below(4) {
            0 => Expr::from(1),
            1 => v * 2 - 1,
            2 => v.modulo(2),
            _ => v / 2 * 2,
        };
        let value = self.value(&Self::with(&at[..last], &r), 1);
        f.update(to, vec![value], r)
    }

    fn scan(&mut self, f: Func, at: &[Expr]) -> Func {
        let r = RDom::new([(&*self.name("r"), -1, 6)]);
        let (mut to, mut from, mut far) = (at.to_vec(), at.to_vec(), at.to_vec());
        let last = to.len() - 1;
        let (v, up) = (r.var(0), self.rng.percent(50));
        let v = if up { v } else { 4 - v };
        let step = if up { -1 } else { 1 };
        (to[last], from[last], far[last]) = (v.clone(), &v + step, &v + step * 2);
        let mut value = f.at(&from, 0) * 0.5 + self.value(&Self::with(&at[..last], &r), 1);
        if self.rng.percent(50) {
            value = value + f.at(&far, 0).sin() * f.at(&from, 0) * 0.3;
        }
        f.update(to, vec![value], r)
    }

    fn in_place(&mut self, f: Func, at: &[Expr]) -> Func {
        let old = f.at(at, 0);
        let r = if self.rng.percent(50) { RDom::default() } else { self.domain(at) };
        let value = self.value(&Self::with(at, &r), 1);
        let value = match self.rng.below(3) {
            0 => old.clone() * old.sin() + value,
            1 => old * value * 0.5,
            _ => (&old * 0.7).atan2(value + 2.0) + old.cos(),
        };
        f.update(at.to_vec(), vec![value], r)
    }

    fn histogram(&mut self, f: Func, at: &[Expr]) -> Func {
        let r = self.domain(&at[..1]);
        let last = at.len() - 1;
        let inner = Self::with(&at[..last], &r);
        let mut to = at.to_vec();
        to[last] = (self.read(&inner).sin() * 3.0).cast(I32).clamp(-3, 3);
        let old = f.at(&to, 0);
        let value = self.value(&inner, 1);
        let value = match self.rng.below(3) {
            0 => old * 0.9 * &value + value,
            1 => old - value,
            _ => old + value,
        };
        // The domain must not depend on a variable that is not there.
        let r = if last == 0 { without_variables(r) } else { r };
        f.update(to, vec![value], r)
    }
}

/// The number of different nodes in a pipeline's definitions.
fn operations(p: &Pipeline) -> usize {
    let (mut seen, mut left) = (FxHashSet::default(), vec![]);
    for f in p.funcs.values() {
        left.extend(f.values.iter().cloned());
        left.extend(f.updates.iter().flat_map(|u| u.args.iter().chain(&u.values)).cloned());
    }
    while let Some(e) = left.pop() {
        if seen.insert(e.clone()) {
            e.for_each_child(|c| left.push(c.clone()));
        }
    }
    seen.len()
}

/// Elements that are floats, which come first.
fn floats(f: &Func) -> usize {
    f.types().iter().filter(|t| t.is_float()).count()
}

fn without_variables(r: RDom) -> RDom {
    let vars = r.vars.into_iter().map(|v| match v.extent.as_int() {
        Some(_) => v,
        None => sumsq_codegen::RVar { extent: Expr::from(3), ..v },
    });
    RDom { vars: vars.collect(), predicate: None }
}
