//! A pipeline with adjoints as two gives the bits of the whole.

use crate::check::flat;
use crate::line;
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::gradient::propagate_adjoints;
use sumsq_codegen::{Constraint, Func, Input, Pipeline, RDom, Schedule, Source, Var};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::{Domain, values};
use sumsq_codegen_testing::reference::{Bindings, Realization};
use sumsq_codegen_testing::rng::Rng;

const N: usize = 9;

fn run(p: &Pipeline, b: &Bindings, domains: &[Domain]) -> Vec<Realization> {
    let compiled = native::compile(p, &Schedule::new()).unwrap_or_else(|e| panic!("{e}"));
    native::execute(p, &compiled, b, domains, 2).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs an output `out` over 0 .. N with the adjoints of `f` and `g`, whole and in halves that save these Funcs over these domains.
fn check(make: impl Fn(&mut Pipeline, &Input, &Input, Var) -> Func, saved: &[(&str, &[(i32, usize)])]) {
    let (mut p, f, g, x) = line();
    let out = make(&mut p, &f, &g, x);
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["f", "g"]).unwrap();
    let wide = || vec![(-2, N + 4)];
    let mut b = Bindings::default();
    let mut rng = Rng::new(3);
    for (name, domain) in [("f", wide()), ("g", wide()), ("w", vec![(0, N)])] {
        b.inputs.insert(name.into(), values(&[F64], &domain, &mut rng));
    }
    let mut whole = p.clone();
    for name in ["f", "g"] {
        whole.output_strided(d.of(name).unwrap(), Constraint::defaults(1));
    }
    let expected = run(&whole, &b, &[vec![(0, N)], wide(), wide()]);

    let names: Vec<&str> = saved.iter().map(|s| s.0).collect();
    let (forward, backward) = d.split(&p, &names).unwrap();
    assert!(!forward.inputs.contains_key("w") && forward.funcs.keys().all(|n| !n.starts_with("d_")));
    let compiled = native::compile(&backward, &Schedule::new()).unwrap();
    let sizes = [("d_f", &[(-2, N as i32 + 4)][..]), ("d_g", &[(-2, N as i32 + 4)]), ("w", &[(0, N as i32)])];
    let regions = compiled.required_regions_over(&sizes, &[]).unwrap();
    let mut domains = vec![vec![(0, N)]];
    for (name, domain) in saved {
        let ends = domain.iter().map(|(min, n)| (i64::from(*min), i64::from(*min) + *n as i64 - 1));
        assert_eq!(regions[*name], ends.collect::<Vec<_>>(), "{name}");
        domains.push(domain.to_vec());
    }
    let mut made = run(&forward, &b, &domains);
    let mut b = Bindings { inputs: b.inputs, params: b.params };
    for ((name, _), value) in saved.iter().zip(made.drain(1..)) {
        assert!(!backward.funcs.contains_key(*name));
        b.inputs.insert((*name).into(), value);
    }
    let gradients = run(&backward, &b, &[wide(), wide()]);
    for (a, b) in made.iter().chain(&gradients).zip(&expected) {
        assert_eq!(a.planes, b.planes);
    }
    assert!(gradients.iter().any(|g| flat(g).iter().any(|v| *v != 0.0)), "nothing was tested");
}

#[test]
fn halves_give_the_bits_of_the_whole() {
    let chain = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let h = p.define("h", [x], (f.of(x) * f.of(x)).sin());
        let k = p.define("k", [x], h.of(x - 1) * h.of(x + 1) * g.of(x));
        p.define("out", [x], k.of(x).exp() * h.of(x))
    };
    check(chain, &[("h", &[(-1, N + 2)]), ("k", &[(0, N)])]);
    check(chain, &[("h", &[(-1, N + 2)])]);
    check(chain, &[]);
    let bins = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let bin = p.define("bin", [x], (g.of(x) * 5.0).cast(I32).clamp(0, 6));
        let s = p.define("s", [x], f.of(bin.of(x)));
        let s = p.update(&s, x, s.of(x) * f.of(x) + g.of(bin.of(x)), &r);
        p.define("out", [x], s.of(x))
    };
    check(bins, &[("bin", &[(0, N)]), ("s_update0_steps", &[(0, N), (0, 3)])]);
}
