//! Derivatives of one pipeline that must agree: adjoints, tangents, dual numbers and central differences of the reference evaluator; and
//! adjoints as machine code.

use sumsq_codegen::gradient::{propagate_adjoints, propagate_tangents, schedule};
use sumsq_codegen::{Constraint, Error, Func, Input, Name, Pipeline, ScalarType, Schedule};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate_dual, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

/// First coordinate and extent of each dimension.
pub type Domain = Vec<(i32, usize)>;

/// A pipeline with one output, and all that it needs to run.
pub struct Case {
    pub pipeline: Pipeline,
    pub bindings: Bindings,
    pub domain: Domain,
    /// Inputs, Funcs and parameters that are derived for.
    pub wrt: Vec<&'static str>,
}

impl Case {
    /// Of `p`, whose last Func is its output over `domain`.
    pub fn new(mut p: Pipeline, output: &Func, domain: &[(i32, usize)], wrt: &[&'static str]) -> Case {
        p.outputs.clear();
        p.output_strided(output, vec![Constraint::new(); output.vars.len()]);
        Case { pipeline: p, bindings: Bindings::default(), domain: domain.to_vec(), wrt: wrt.to_vec() }
    }

    /// Binds an input of random values over a domain.
    pub fn bind(mut self, name: &str, domain: &[(i32, usize)], rng: &mut Rng) -> Case {
        let types = self.pipeline.inputs[name].types.clone();
        self.bindings.inputs.insert(name.into(), random(&types, domain, rng));
        self
    }

    /// Binds a float parameter.
    pub fn param(mut self, name: &str, value: f64) -> Case {
        self.bindings.params.insert(name.into(), Value::Float(value));
        self
    }

    /// Binds an integer parameter.
    pub fn count(mut self, name: &str, value: i64) -> Case {
        self.bindings.params.insert(name.into(), Value::Int(value));
        self
    }

    fn output(&self) -> Func {
        self.pipeline.funcs[&self.pipeline.outputs[0].func].clone()
    }

    fn seeded(&self) -> (Pipeline, Bindings, &'static str) {
        let (mut p, mut b, output) = (self.pipeline.clone(), self.bindings.clone(), self.output());
        let types: Vec<ScalarType> = output.types().into_iter().filter(|t| t.is_float()).collect();
        p.input(loose(Input::strided("w", &types, output.vars.len())));
        b.inputs.insert("w".into(), random(&types, &self.domain, &mut Rng::new(7)));
        (p, b, "w")
    }

    /// The adjoints as a pipeline with an output for each of `wrt`, and its domains.
    pub fn adjoint(&self) -> Result<(Pipeline, Bindings, Vec<Domain>), Error> {
        let (mut p, b, w) = self.seeded();
        let output = self.output().name;
        let adjoints = propagate_adjoints(&mut p, &[(&output, w)], &self.wrt)?;
        p.outputs.clear();
        let mut domains = vec![];
        for name in &self.wrt {
            let d = adjoints.of(name).expect("what is derived for has an adjoint");
            p.output_strided(d, vec![Constraint::new(); d.vars.len()]);
            domains.push(self.domain_of(name));
        }
        Ok((p, b, domains))
    }

    fn domain_of(&self, name: &str) -> Domain {
        match self.bindings.inputs.get(name) {
            Some(r) => r.min.iter().copied().zip(r.extents.iter().copied()).collect(),
            None => vec![],
        }
    }

    /// Random directions, one per name in `wrt`.
    fn directions(&self) -> Vec<Realization> {
        let mut rng = Rng::new(11);
        let types = |name: &&str| match self.pipeline.inputs.get(*name) {
            Some(i) => i.types.iter().copied().filter(|t| t.is_float()).collect(),
            None => vec![ScalarType::F64],
        };
        self.wrt.iter().map(|name| random(&types(name), &self.domain_of(name), &mut rng)).collect()
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

    /// Runs the adjoints as machine code, without directives and under the first schedule.
    fn run(&self, p: &Pipeline, b: &Bindings, domains: &[Domain], expected: &[Realization]) {
        let estimates = [("w", 4096), ("f", 4096), ("g", 4096)].map(|(n, e)| (n, [e; 3]));
        let estimates: Vec<(&str, &[i32])> = estimates.iter().map(|(n, e)| (*n, &e[..])).collect();
        let first = schedule(p, &estimates, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
        for s in [Schedule::new(), first] {
            let compiled = native::compile(p, &s).unwrap_or_else(|e| panic!("{e}\n{s}"));
            let [one, three] = [1, 3].map(|threads| {
                native::execute(p, &compiled, b, domains, threads).unwrap_or_else(|e| {
                    panic!("{e}\n{s}\n{}", p.funcs.values().map(text_of).collect::<Vec<_>>().join("\n"))
                })
            });
            for ((a, b), want) in one.iter().zip(&three).zip(expected) {
                assert_eq!(a.planes, b.planes, "three threads give something else\n{s}");
                for (x, y) in flat(a).iter().zip(flat(want)) {
                    assert!((x - y).abs() <= 1e-12 * (1.0 + y.abs()), "{x} instead of {y}\n{s}");
                }
            }
        }
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
        let v = self.directions();
        let (p, b, domains) = self.adjoint().unwrap_or_else(|e| panic!("{e}"));
        let text = || p.funcs.values().map(text_of).collect::<Vec<_>>().join("\n");
        let d = evaluate_over(&p, &b, &domains).unwrap_or_else(|e| panic!("{e}\n{}", text()));
        let w = flat(&b.inputs["w"]);
        let tangent = self.tangent(&v);
        let dot = |a: &[f64], b: &[f64]| -> (f64, f64) {
            assert_eq!(a.len(), b.len());
            let terms = || a.iter().zip(b).map(|(a, b)| a * b);
            (terms().sum(), terms().map(f64::abs).sum())
        };
        let (forward, size) = dot(&w, &tangent);
        let all: Vec<f64> = d.iter().flat_map(flat).collect();
        let (backward, other) = dot(&all, &v.iter().flat_map(flat).collect::<Vec<f64>>());
        let scale = size.max(other).max(1e-3);
        assert!(
            (forward - backward).abs() <= 1e-10 * scale,
            "<w, J v> = {forward}, <J^T w, v> = {backward}\n{}",
            text()
        );
        for (i, (t, dual)) in tangent.iter().zip(self.duals(&v)).enumerate() {
            assert!(
                (t - dual).abs() <= 1e-12 * (1.0 + dual.abs()),
                "output {i}: tangent {t}, dual number {dual}"
            );
        }
        let forward = evaluate_over(&self.pipeline, &self.bindings, std::slice::from_ref(&self.domain))
            .expect("values");
        self.run(&self.pipeline, &self.bindings, std::slice::from_ref(&self.domain), &forward);
        self.run(&p, &b, &domains, &d);
        (v, tangent)
    }
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

/// An input whose first dimension may have any stride.
fn loose(mut i: Input) -> Input {
    i.constraints.iter_mut().for_each(|c| *c = Constraint::new());
    i
}

fn random(types: &[ScalarType], domain: &[(i32, usize)], rng: &mut Rng) -> Realization {
    let extents: Vec<usize> = domain.iter().map(|d| d.1).collect();
    let min: Vec<i32> = domain.iter().map(|d| d.0).collect();
    Realization::from_fn(types, &extents, |_, k| match types[k].is_float() {
        true => 0.25 + unit(rng),
        false => (unit(rng) * 8.0).floor(),
    })
    .moved_to(&min)
}

/// All floats.
fn flat(r: &Realization) -> Vec<f64> {
    let floats = r.planes.iter().zip(&r.types).filter(|(_, t)| t.is_float());
    floats.flat_map(|(plane, _)| plane.iter().map(|v| v.as_f64())).collect()
}

/// From 0 up to 1.
fn unit(rng: &mut Rng) -> f64 {
    (rng.bits() >> 11) as f64 / (1u64 << 53) as f64
}
