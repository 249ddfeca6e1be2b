//! Derivatives of one pipeline that must agree: adjoints, tangents, dual numbers and central differences of the reference evaluator; and
//! adjoints as machine code.

use std::ops::Deref;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::gradient::{propagate_adjoints, propagate_tangents, schedule};
use sumsq_codegen::limits::Effort;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Constraint, Expr, Func, Input, Name, Pipeline, RDom, ScalarType, Schedule};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::{Differentiable, Domain, drawn, loose, values};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate_dual, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

/// A pipeline with what it is run on: the domains of its outputs.
type Bound = (Pipeline, Bindings, Vec<Domain>);

/// A pipeline that is derived.
#[derive(Clone)]
pub struct Case(pub Differentiable);

impl Deref for Case {
    type Target = Differentiable;
    fn deref(&self) -> &Differentiable {
        &self.0
    }
}

impl Case {
    /// Of `p`, whose last Func is its output over `domain`.
    pub fn new(p: Pipeline, output: &Func, domain: &[(i32, usize)], wrt: &[&'static str]) -> Case {
        Case(Differentiable::new(p, output, domain, wrt))
    }

    /// The random one of a seed.
    pub fn drawn(seed: u64) -> Case {
        Case(drawn(seed))
    }

    /// Binds an input of random values over a domain.
    pub fn bind(mut self, name: &str, domain: &[(i32, usize)], rng: &mut Rng) -> Case {
        self.0.bind(name, domain, rng);
        self
    }

    /// Binds an input of one dimension to these values, from coordinate 0 on.
    pub fn with(self, name: &str, values: &[f64]) -> Case {
        self.with_from(name, 0, values)
    }

    /// As [`Case::with`], from coordinate `first` on.
    pub fn with_from(mut self, name: &str, first: i32, values: &[f64]) -> Case {
        let all = Realization::from_fn(&[ScalarType::F64], &[values.len()], |at, _| values[at[0] as usize]);
        self.0.bindings.inputs.insert(name.into(), all.moved_to(&[first]));
        self
    }

    /// Binds a float parameter.
    pub fn param(mut self, name: &str, value: f64) -> Case {
        self.0.bindings.params.insert(name.into(), Value::Float(value));
        self
    }

    /// Binds an integer parameter.
    pub fn count(mut self, name: &str, value: i64) -> Case {
        self.0.bindings.params.insert(name.into(), Value::Int(value));
        self
    }

    /// Random directions, one per name in `wrt`.
    fn directions(&self) -> Vec<Realization> {
        let mut rng = Rng::new(11);
        let types = |name: &&str| match self.pipeline.inputs.get(*name) {
            Some(i) => i.types.iter().copied().filter(|t| t.is_float()).collect(),
            None => vec![ScalarType::F64],
        };
        self.wrt.iter().map(|name| values(&types(name), &self.domain_of(name), &mut rng)).collect()
    }

    /// J v by tangents.
    fn tangent(&self, v: &[Realization]) -> Vec<f64> {
        let (mut p, mut b) = (self.pipeline.clone(), self.bindings.clone());
        let mut named: Vec<(&str, Name)> = vec![];
        for (name, v) in self.wrt.iter().zip(v) {
            let by: Name = format!("v_{name}").into();
            if p.params.contains_key(*name) {
                p.param(by.clone(), ScalarType::F64);
                b.params.insert(by.clone(), v.planes[0][0]);
            } else {
                p.input(loose(Input::strided(by.clone(), &v.types, v.extents.len())));
                b.inputs.insert(by.clone(), v.clone());
            }
            named.push((name, by));
        }
        let named: Vec<(&str, &str)> = named.iter().map(|(n, by)| (*n, &**by)).collect();
        let output = self.output();
        let tangents = propagate_tangents(&mut p, &named).expect("tangents");
        let Some(t) = tangents.of(&output.name) else { return vec![] };
        p.outputs.clear();
        p.output_strided(t, vec![Constraint::new(); t.vars.len()]);
        flat(
            &evaluate_over(&p, &b, std::slice::from_ref(&self.domain))
                .unwrap_or_else(|e| panic!("{e}\n{p:#?}"))[0],
        )
    }

    /// J v by central differences.
    fn differences(&self, v: &[Realization], h: f64) -> Vec<f64> {
        let moved = |h: f64| {
            let mut b = self.bindings.clone();
            for (name, v) in self.wrt.iter().zip(v) {
                if let Some(value) = b.params.get_mut(*name) {
                    *value = Value::Float(value.as_f64() + h * v.planes[0][0].as_f64());
                    continue;
                }
                let input = b.inputs.get_mut(*name).expect("an input");
                let floats = input.planes.iter_mut().zip(&input.types).filter(|(_, t)| t.is_float());
                for ((plane, _), dv) in floats.zip(&v.planes) {
                    for (x, d) in plane.iter_mut().zip(dv) {
                        *x = Value::Float(x.as_f64() + h * d.as_f64());
                    }
                }
            }
            let out = evaluate_over(&self.pipeline, &b, std::slice::from_ref(&self.domain)).expect("values");
            flat(&out[0])
        };
        moved(h).iter().zip(moved(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect()
    }

    /// J v by dual numbers.
    fn duals(&self, v: &[Realization]) -> Vec<f64> {
        let mut directions = Bindings::default();
        for (name, v) in self.wrt.iter().zip(v) {
            if self.pipeline.params.contains_key(*name) {
                directions.params.insert((*name).into(), v.planes[0][0]);
                continue;
            }
            // Every plane has a slope, those of integers 0.
            let types = &self.pipeline.inputs[*name].types;
            let mut planes = v.planes.iter();
            let zero = vec![Value::Float(0.0); v.planes[0].len()];
            let planes = types.iter().map(|t| if t.is_float() { planes.next() } else { None });
            let planes: Vec<_> = planes.map(|p| p.cloned().unwrap_or(zero.clone())).collect();
            let all = Realization { types: vec![ScalarType::F64; types.len()], planes, ..v.clone() };
            directions.inputs.insert((*name).into(), all);
        }
        let domains = std::slice::from_ref(&self.domain);
        let (values, slopes) =
            evaluate_dual(&self.pipeline, &self.bindings, &directions, domains).expect("dual numbers");
        let floats = values[0].types.iter().zip(&slopes[0].planes).filter(|(t, _)| t.is_float());
        floats.flat_map(|(_, plane)| plane.iter().map(|v| v.as_f64())).collect()
    }

    /// Compares a pipeline as machine code with what is expected of it.
    fn run(&self, (p, b, domains): &Bound, s: &Schedule, effort: Effort, expected: &[Realization]) {
        let options = LowerOptions { verify: true, ..LowerOptions::default() };
        let compiled = lower(p, s, &options).and_then(|f| native::compile_lowered(&f, p, s, effort));
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}\n{s}"));
        let came = on_threads(p, &compiled, b, domains, s);
        for (a, want) in came.iter().zip(expected) {
            for (x, y) in flat(a).iter().zip(flat(want)) {
                assert!((x - y).abs() <= 1e-12 * (1.0 + y.abs()), "{x} instead of {y}\n{s}");
            }
        }
    }

    /// The Hessian of the sum of squares of the output is symmetric: `<u, H v> = <v, H u>`, where H v is the tangent of the adjoint.
    pub fn check_symmetric(&self) {
        let (mut p, output) = (self.pipeline.clone(), self.output());
        let (loops, at): (Vec<_>, Vec<_>) = self
            .domain
            .iter()
            .enumerate()
            .map(|(d, (min, n))| ((format!("e{d}"), *min, *n as i32), Expr::var(format!("e{d}"))))
            .unzip();
        let value = output.at(&at, 0);
        let e = p.sum("squares", &RDom::new(loops), &value * &value);
        let e = p.define("energy", [], e);
        p.outputs.clear();
        p.output(&e);
        let adjoints = propagate_adjoints(&mut p, &[], &self.wrt).expect("adjoints");
        let named: Vec<String> = self.wrt.iter().map(|n| format!("v_{n}")).collect();
        for (name, by) in self.wrt.iter().zip(&named) {
            match self.pipeline.inputs.get(*name) {
                Some(i) => drop(p.input(loose(Input::strided(by.as_str(), &i.types, i.dims)))),
                None => drop(p.param(by.as_str(), ScalarType::F64)),
            }
        }
        let named: Vec<(&str, &str)> = self.wrt.iter().copied().zip(named.iter().map(|n| &**n)).collect();
        let tangents = propagate_tangents(&mut p, &named).expect("tangents");
        p.outputs.clear();
        let mut domains = vec![];
        for name in &self.wrt {
            let Some(t) = adjoints.of(name).and_then(|d| tangents.of(&d.name)) else { continue };
            p.output_strided(t, vec![Constraint::new(); t.vars.len()]);
            domains.push((name, self.domain_of(name)));
        }
        let only: Vec<Domain> = domains.iter().map(|d| d.1.clone()).collect();
        let directions = [11, 12].map(|seed| {
            let mut rng = Rng::new(seed);
            let each = self.wrt.iter().map(|n| values(&[ScalarType::F64], &self.domain_of(n), &mut rng));
            each.collect::<Vec<_>>()
        });
        let products = [0, 1].map(|k| {
            let mut b = self.bindings.clone();
            for ((name, by), v) in named.iter().zip(&directions[k]) {
                match self.pipeline.params.contains_key(*name) {
                    true => drop(b.params.insert((*by).into(), v.planes[0][0])),
                    false => drop(b.inputs.insert((*by).into(), v.clone())),
                }
            }
            let product = evaluate_over(&p, &b, &only).expect("Hessian products");
            let others = domains.iter().zip(&product).flat_map(|((name, _), h)| {
                let place = self.wrt.iter().position(|n| n == *name).expect("a name");
                flat(h)
                    .into_iter()
                    .zip(flat(&directions[1 - k][place]))
                    .map(|(a, b)| a * b)
                    .collect::<Vec<_>>()
            });
            let terms: Vec<f64> = others.collect();
            (terms.iter().sum::<f64>(), terms.iter().map(|t| t.abs()).sum::<f64>())
        });
        let [(a, size), (b, other)] = products;
        assert!((a - b).abs() <= 1e-10 * size.max(other).max(1e-3), "<u, H v> = {a}, <v, H u> = {b}");
    }

    /// Checks that the adjoints of `wrt` are these, made of the output's; and that all agree on them.
    pub fn gives(&self, expected: impl Fn(&[f64]) -> Vec<Vec<f64>>) {
        let (p, b, domains) = self.adjoint().unwrap_or_else(|e| panic!("{e}"));
        let d = evaluate_over(&p, &b, &domains).unwrap_or_else(|e| panic!("{e}"));
        let expected = expected(&flat(&b.inputs["w"]));
        for ((name, came), expected) in self.wrt.iter().zip(&d).zip(expected) {
            let near = |(a, b): (f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
            let came = flat(came);
            assert_eq!(came.len(), expected.len());
            let same = came.iter().copied().zip(&expected).all(near);
            assert!(same, "d_{name} is {came:?} instead of {expected:?}\n{}", text(&p));
        }
        self.check_exact();
    }

    /// Checks that all agree.
    pub fn check(&self) {
        let (v, tangent) = self.check_exact();
        for (i, (t, fd)) in tangent.iter().zip(self.differences(&v, 1e-6)).enumerate() {
            assert!((t - fd).abs() <= 1e-6 * (1.0 + fd.abs()), "output {i}: tangent {t}, difference {fd}");
        }
        assert!(tangent.iter().any(|t| *t != 0.0), "nothing was tested");
    }

    /// As [`Case::check`] without differences, which mean nothing at kinks. Returns directions and tangents.
    pub fn check_exact(&self) -> (Vec<Realization>, Vec<f64>) {
        self.check_code();
        self.check_values()
    }

    /// Checks that the pipeline and its adjoints are the same as machine code, without directives and under the first schedule.
    pub fn check_code(&self) {
        self.code_agrees(self.kept(), &[false, true], Effort::Full);
    }

    /// As [`Case::check_code`], of one choice of states that are kept and under one schedule, which follow from a seed; and of seven seeds in
    /// eight by code that is made fast. Compiling takes nearly all of a random case's time, and another pipeline shows more than more code of one.
    pub fn check_some_code(&self, seed: u64) {
        let (kept, seed) = (self.kept(), seed as usize);
        let every = kept[seed / 2 % kept.len()];
        let effort = if seed / 8 % 8 == 0 { Effort::Full } else { Effort::Least };
        self.code_agrees(&[every], &[seed % 2 == 1], effort);
    }

    /// Checks code of the pipeline, and of its adjoints for choices of states that are kept; without directives, or under the first schedule.
    fn code_agrees(&self, kept: &[Option<u32>], scheduled: &[bool], effort: Effort) {
        let own = (self.pipeline.clone(), self.bindings.clone(), vec![self.domain.clone()]);
        let adjoint = |every: &Option<u32>| self.adjoint_keeping(*every).unwrap_or_else(|e| panic!("{e}"));
        for bound in std::iter::once(own).chain(kept.iter().map(adjoint)) {
            let (p, b, domains) = &bound;
            let values = evaluate_over(p, b, domains).unwrap_or_else(|e| panic!("{e}\n{}", text(p)));
            for &scheduled in scheduled {
                let s = if scheduled { first_schedule(p) } else { Schedule::new() };
                self.run(&bound, &s, effort, &values);
            }
        }
    }

    /// Choices of the k of which every k-th state is kept, where there are states to keep.
    fn kept(&self) -> &'static [Option<u32>] {
        let steps = |p: &Pipeline| p.funcs.keys().any(|n| n.contains("_steps"));
        let is_stepped = self.adjoint().is_ok_and(|(p, ..)| steps(&p));
        if is_stepped { &[None, Some(1), Some(3), Some(4)] } else { &[None] }
    }

    /// The text of its Funcs.
    pub fn text(&self) -> String {
        text(&self.pipeline)
    }

    /// Checks that adjoints, tangents and dual numbers agree, all of them by the reference evaluator. Returns directions and tangents.
    pub fn check_values(&self) -> (Vec<Realization>, Vec<f64>) {
        let v = self.directions();
        let tangent = self.tangent(&v);
        for &every in self.kept() {
            self.check_adjoint(every, &v, &tangent);
        }
        for (i, (t, dual)) in tangent.iter().zip(self.duals(&v)).enumerate() {
            assert!(
                (t - dual).abs() <= 1e-12 * (1.0 + dual.abs()),
                "output {i}: tangent {t}, dual number {dual}"
            );
        }
        (v, tangent)
    }

    /// Checks that adjoints and tangents agree, <w, J v> = <J^T w, v>, where of states every k-th is kept.
    fn check_adjoint(&self, every: Option<u32>, v: &[Realization], tangent: &[f64]) {
        let (p, b, domains) = self.adjoint_keeping(every).unwrap_or_else(|e| panic!("{e}"));
        let d = evaluate_over(&p, &b, &domains).unwrap_or_else(|e| panic!("{e}\n{}", text(&p)));
        let w = flat(&b.inputs["w"]);
        let dot = |a: &[f64], b: &[f64]| -> (f64, f64) {
            assert_eq!(a.len(), b.len());
            let terms = || a.iter().zip(b).map(|(a, b)| a * b);
            (terms().sum(), terms().map(f64::abs).sum())
        };
        let (forward, size) = dot(&w, tangent);
        let all: Vec<f64> = d.iter().flat_map(flat).collect();
        let (backward, other) = dot(&all, &v.iter().flat_map(flat).collect::<Vec<f64>>());
        let scale = size.max(other).max(1e-3);
        assert!(
            (forward - backward).abs() <= 1e-10 * scale,
            "<w, J v> = {forward}, <J^T w, v> = {backward}, every {every:?}\n{}",
            text(&p)
        );
    }
}

/// The first schedule of a pipeline.
fn first_schedule(p: &Pipeline) -> Schedule {
    let estimates = ["w", "f", "g"].map(|n| (n, &[4096; 3][..]));
    schedule(p, &estimates, &[], &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// The outputs of a pipeline on one thread, and to the bit on more.
pub fn on_threads(
    p: &Pipeline,
    compiled: &Compiled,
    b: &Bindings,
    domains: &[Domain],
    s: &Schedule,
) -> Vec<Realization> {
    let run = |threads: usize| {
        native::execute(p, compiled, b, domains, threads).unwrap_or_else(|e| panic!("{e}\n{s}\n{}", text(p)))
    };
    let one = run(1);
    for threads in [2, 3, 5, 8] {
        for (a, b) in one.iter().zip(run(threads)) {
            assert!(bits(a) == bits(&b), "{threads} threads give something else\n{s}");
        }
    }
    one
}

/// All elements, by their bits.
fn bits(r: &Realization) -> Vec<u64> {
    let bits = |v: &Value| match v {
        Value::Int(v) => *v as u64,
        Value::Float(v) => v.to_bits(),
    };
    r.planes.iter().flatten().map(bits).collect()
}

/// The text of all Funcs.
fn text(p: &Pipeline) -> String {
    p.funcs.values().map(text_of).collect::<Vec<_>>().join("\n")
}

/// The text of a Func's definitions.
pub fn text_of(f: &Func) -> String {
    let list = |v: &[sumsq_codegen::Expr]| v.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(", ");
    let vars = f.vars.iter().map(|v| v.name().to_string()).collect::<Vec<_>>().join(", ");
    let mut s = format!("{}({vars}) = ({})", f.name, list(&f.values));
    for u in &f.updates {
        let r = u.rdom.vars.iter().map(|r| format!("{} in {} + [0, {})", r.name, r.min, r.extent));
        let r = r.collect::<Vec<_>>().join(", ");
        let p = u.rdom.predicate.as_ref().map(|p| format!(" where {p}")).unwrap_or_default();
        s += &format!("\n  {}({}) = ({})  [{r}{p}]", f.name, list(&u.args), list(&u.values));
    }
    s
}

/// All floats.
pub fn flat(r: &Realization) -> Vec<f64> {
    let floats = r.planes.iter().zip(&r.types).filter(|(_, t)| t.is_float());
    floats.flat_map(|(plane, _)| plane.iter().map(|v| v.as_f64())).collect()
}
