//! Robust losses and named groups.

use super::agrees;
use sumsq::assembled::Explicit;
use sumsq::energy::Energy;
use sumsq::{CompileOptions, LossOrder, Options, Precision, ProblemData, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

const W: usize = 25;
const H: usize = 31;

const TEXT: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local A = Array("A", opt_float2, {W,H}, 1)
    local s = Param("s", float, 2)
    Residual{name="huber", loss=Huber(s), X(0,0) - A(0,0)}
    Residual{name="cauchy", loss=Cauchy(0.5), 3 * (X(0,0) - X(1,0))}
    Residual{name="tukey", loss=Tukey(2), 2 * X(0,0,0) * X(0,1,1), X(0,0,1) - 1}
    Residual{name="geman", loss=GemanMcClure(0.7), 3 * (X(0,0) - X(0,1))}
    Residual{name="plain", 0.2 * X(0,0)}
"#;

fn arrays() -> [sumsq::NamedArray; 3] {
    let mut random = Random::new(51);
    [
        doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("s", &[], vec![0.4]),
    ]
}

#[test]
fn losses_agree() {
    agrees(TEXT, &arrays());
}

/// E of every group, from the definitions of the losses.
#[test]
fn groups_by_name() {
    let (energy, mut data) = bind(TEXT, &arrays());
    assert_eq!(energy.groups, ["huber", "cauchy", "tukey", "geman", "plain"]);
    let [x, a] = [data.unknowns()[0].to_vec(), data.array("A").unwrap().into_owned()];
    let at = |v: &[f64], i: usize, j: usize, c: usize| v[2 * (j * W + i) + c];
    let mut expected = [0.0; 5];
    for (i, j) in (0..H).flat_map(|j| (0..W).map(move |i| (i, j))) {
        let norm = |f: &dyn Fn(usize) -> f64| (0..2).map(|c| f(c).powi(2)).sum::<f64>();
        let here = |c| at(&x, i, j, c);
        let fit = norm(&|c| here(c) - at(&a, i, j, c));
        expected[0] += if fit <= 0.16 { fit } else { 2.0 * 0.4 * fit.sqrt() - 0.16 };
        if i + 1 < W {
            let across = norm(&|c| 3.0 * (here(c) - at(&x, i + 1, j, c)));
            expected[1] += 0.25 * (1.0 + across / 0.25).ln();
        }
        let product = if j + 1 < H { 2.0 * here(0) * at(&x, i, j + 1, 1) } else { 0.0 };
        // Every argument is a block of its own.
        for sq in [product.powi(2), (here(1) - 1.0).powi(2)] {
            expected[2] += 4.0 / 3.0 * if sq <= 4.0 { 1.0 - (1.0 - sq / 4.0).powi(3) } else { 1.0 };
        }
        if j + 1 < H {
            let down = norm(&|c| 3.0 * (here(c) - at(&x, i, j + 1, c)));
            expected[3] += down / (1.0 + down / 0.49);
        }
        expected[4] += norm(&|c| 0.2 * here(c));
    }
    let explicit = Explicit::new(&energy, &data).unwrap();
    let by_explicit = explicit.energies(&explicit.initial());
    drop(explicit);
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        ..Options::default()
    };
    let solver = sumsq::Solver::compile(energy.clone(), &options.compile).unwrap();
    let by_generated = solver.plan(&data).unwrap().evaluate(&data).unwrap().energies;
    for (group, expected) in expected.into_iter().enumerate() {
        assert_close(&energy.groups[group], by_explicit.by_group[group], expected, 1e-12);
        assert_close(&energy.groups[group], by_generated.by_group[group], expected, 1e-12);
    }
    let report = solve(&energy, &mut data, &options);
    assert_eq!(report.groups, energy.groups);
    for step in &report.iterations {
        assert_close("sum of groups", step.energy_by_group.iter().sum(), step.energy, 1e-12);
    }
}

/// Losses of second order: members of a block that read different unknowns and leave the domain at different places, what is excluded, scalars,
/// blocks far out and far in.
#[test]
fn second_order_agrees() {
    let mut random = Random::new(53);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local s = Param("s", float, 2)
        Exclude(greater(A(0,0,0), 0.8))
        Residual{name="huber", loss=SecondOrder(Huber(s)), X(0,0) - A(0,0)}
        Residual{name="cauchy", loss=SecondOrder(Cauchy(0.5)),
                 Vector(X(0,0,0) - X(1,0,1), sin(X(0,1,1)), InBounds(-1,0) * X(-1,0,0) * X(0,0,1))}
        Residual{name="tukey", loss=SecondOrder(Tukey(2)), 2 * X(0,0,0) * X(0,1,1), X(0,0,1) - 1}
        Residual{name="geman", loss=SecondOrder(GemanMcClure(0.7)), 3 * (X(0,0) - X(0,1))}
        Residual{name="first", loss=Cauchy(0.3), X(0,0) - X(1,1)}
        Residual{name="plain", 0.2 * X(0,0)}
    "#;
    let arrays = [
        doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("s", &[], vec![0.4]),
    ];
    agrees(text, &arrays);
}

/// |r|^2 = s^2 to the last bit, where D of Tukey is -4 s^2 / 0.
#[test]
fn second_order_agrees_on_the_threshold() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        Residual{loss=SecondOrder(Tukey(0.9521484375)), X(0,0,0) + X(-1,0,1)}
        Energy(0.1 * X(0,0))
    "#;
    let x = (0..2 * W * H).map(|i| if i % 2 == 0 { 0.5 } else { -1.4521484375 }).collect();
    agrees(text, &[doubles("X", &[H, W, 2], x)]);
}

/// Ceres' smooth losses, to both orders.
#[test]
fn soft_l1_and_arctan_agree() {
    for order in ["", "SecondOrder"] {
        let text = format!(
            "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', opt_float2, {{W,H}}, 0)\n\
             local A = Array('A', opt_float2, {{W,H}}, 1)\nlocal s = Param('s', float, 2)\n\
             Residual{{loss={order}(SoftL1(s)), 2 * (X(0,0) - A(0,0)), X(0,0,0) - X(1,0,1)}}\n\
             Residual{{loss={order}(Arctan(2)), X(0,0) * X(0,1) - A(0,0), 1e-9 * X(0,0)}}\nEnergy(0.2 * X(0,0))"
        );
        agrees(&text, &arrays());
    }
}

/// Losses whose slopes are derived, to both orders: blocks that leave the domain, what is excluded, a rho that is not 0 at 0.
#[test]
fn power_and_formulas_agree() {
    for order in ["", "SecondOrder"] {
        let text = format!(
            "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', opt_float2, {{W,H}}, 0)\n\
             local A = Array('A', opt_float2, {{W,H}}, 1)\nlocal s = Param('s', float, 2)\n\
             Exclude(greater(A(0,0,0), 0.8))\n\
             Residual{{loss={order}(Power(0.9, s)), 2 * (X(0,0) - A(0,0)), X(0,0,0) - X(1,0,1)}}\n\
             Residual{{loss={order}(Power(2.6, 0.5)), X(0,0) - X(0,1)}}\n\
             Residual{{loss={order}(Loss(function(q) return q / sqrt(1 + q / s) end)), X(0,0) * X(0,1) - A(0,0)}}\n\
             Residual{{loss={order}(Loss(function(q) return log(1 + q + q^2) end)), X(0,0,0) - X(1,0,0)}}\n\
             Energy(0.2 * X(0,0))"
        );
        agrees(&text, &arrays());
    }
}

/// A formula that says what a loss of the table says is the same loss.
#[test]
fn a_formula_is_the_loss_that_it_writes() {
    for (named, formula) in [
        ("Huber(s)", "Select(lesseq(q, s*s), q, 2*s*sqrt(q) - s*s)"),
        ("Cauchy(s)", "s*s * log(1 + q/(s*s))"),
        ("Arctan(s)", "s*s * atan(q/(s*s))"),
        ("GemanMcClure(s)", "q / (1 + q/(s*s))"),
    ] {
        for order in ["", "SecondOrder"] {
            let at = |loss: &str| {
                let text = format!(
                    "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', opt_float2, {{W,H}}, 0)\n\
                     local A = Array('A', opt_float2, {{W,H}}, 1)\nlocal s = Param('s', float, 2)\n\
                     Residual{{loss={order}({loss}), X(0,0) - A(0,0), X(0,0) - X(1,0)}}"
                );
                let (energy, data) = bind(&text, &arrays());
                let explicit = Explicit::new(&energy, &data).unwrap();
                let x = explicit.initial();
                let v = Random::new(57).numbers(x.len());
                let compile = CompileOptions { precision: Precision::F64, ..CompileOptions::default() };
                let solver = sumsq::Solver::compile(energy.clone(), &compile).unwrap();
                let point = solver.plan(&data).unwrap().evaluate(&data).unwrap();
                (point.energies.total, point.gradient.concat(), explicit.jtjv(&x, &v))
            };
            let (named_at, formula_at) = (at(named), at(&format!("Loss(function(q) return {formula} end)")));
            assert_close(named, formula_at.0, named_at.0, 1e-12);
            let pairs = named_at.1.iter().zip(&formula_at.1).chain(named_at.2.iter().zip(&formula_at.2));
            for (a, b) in pairs {
                assert!((a - b).abs() <= 1e-10, "{order} {named}: {a} {b}");
            }
        }
    }
}

/// (x - a)^2 + |x| has its minimum at a - 1/2.
/// Params of `Power` that are not positive are refused, as numbers are, when they are bound.
#[test]
fn params_of_power_are_positive() {
    let text = "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\nlocal p, eps = Param('p', float, 1), Param('eps', float, 2)
                Residual{name='fit', loss=Power(p, 0.5 * eps), X(0) - 1}";
    let energy = Energy::from_text("power.t", text).unwrap();
    for [p, eps] in [[-1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, -1.0]] {
        let arrays =
            [doubles("X", &[2], vec![0.0, 3.0]), doubles("p", &[], vec![p]), doubles("eps", &[], vec![eps])];
        let Err(error) = ProblemData::bind(&energy, &arrays) else { panic!("{p}, {eps} make a loss") };
        let error = error.to_string();
        for part in ["`fit` (line 4)", "is no number", "positive params of `Power`"] {
            assert!(error.contains(part), "{p}, {eps}: no `{part}` in: {error}");
        }
    }
    let arrays =
        [doubles("X", &[2], vec![0.0, 3.0]), doubles("p", &[], vec![1.0]), doubles("eps", &[], vec![2.0])];
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    let report = solve(&energy, &mut data, &Options::default());
    assert_close("E", report.energy_initial, 2f64.sqrt() + 5f64.sqrt(), 1e-6);
}

#[test]
fn power_minimises_what_it_reports() {
    let text = "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\n\
                local A = Array('A', opt_float, {N}, 1)\n\
                Energy(X(0) - A(0))\nResidual{name='p', loss=Power(1, 1e-6), X(0)}";
    let a = [1.5, 2.0, 4.0];
    let (energy, mut data) = bind(text, &[doubles("X", &[3], a.to_vec()), doubles("A", &[3], a.to_vec())]);
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions {
            iterations: Some(200),
            function_tolerance: Some(1e-15),
            ..SolveOptions::default()
        },
    };
    let report = solve(&energy, &mut data, &options);
    for (x, a) in data.unknowns()[0].iter().zip(a) {
        assert_close("x", *x, a - 0.5, 1e-5);
    }
    let expected: f64 = a.iter().map(|a| 0.25 + (a - 0.5)).sum();
    assert_close("E", report.energy_final, expected, 1e-6);
}

/// The same over hyperedges whose vertices coincide, with a global.
#[test]
fn second_order_agrees_on_graphs() {
    let (n, edges, mut random) = (23, 90, Random::new(54));
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float3, {N}, 0)
        local T = Unknown("T", opt_float2, {}, 1)
        local A = Array("A", opt_float, {N}, 2)
        local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5)
        Energy(0.3 * (X(0) - A(0)), 0.5 * T(0))
        Residual{name="edge", loss=SecondOrder(GemanMcClure(1.5)), X(G.a) * T(0) - X(G.b) * A(G.a) + T(1)}
        Residual{name="turn", loss=SecondOrder(Cauchy(2)), Vector(X(G.a, 0) * X(G.b, 1), X(G.a, 2) - A(G.b))}
    "#;
    let arrays = [
        doubles("X", &[n, 3], random.numbers(3 * n)),
        doubles("T", &[2], vec![0.9, -0.2]),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, random.below(n - 2, edges)),
        indices("G.b", 1, random.below(4, edges)),
    ];
    agrees(text, &arrays);
}

/// Linear residuals in the convex part of their losses.
const CONVEX: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local A = Array("A", opt_float2, {W,H}, 1)
    local s = Param("s", float, 2)
    Residual{loss=Cauchy(5*s), Vector(X(0,0,0) - A(0,0,0), X(1,0,0) + X(0,0,1) - X(0,1,1))}
    Residual{loss=Tukey(25*s), 2 * (X(0,0) - X(1,0) + A(0,0))}
    Residual{loss=GemanMcClure(7*s), Vector(X(0,0,1) - A(0,0,1), X(0,0,0) + X(0,1,1))}
    Residual{loss=Huber(9*s), X(0,0) - X(0,1) - 0.3}
"#;

/// J^T J of second order is half the Hessian of E, by differences of the gradient, if residuals are linear and rho is convex in them.
#[test]
fn second_order_is_the_hessian_of_convex_losses() {
    let (energy, data) = bind(CONVEX, &convex_arrays());
    let energy = LossOrder::Second.apply(energy);
    let explicit = Explicit::new(&energy, &data).unwrap();
    let (x, h) = (explicit.initial(), 1.0 / 65536.0);
    let v = Random::new(56).numbers(x.len());
    let at = |t: f64| explicit.gradient(&x.iter().zip(&v).map(|(x, v)| x + t * v).collect::<Vec<_>>());
    let slope = |h: f64| at(h).iter().zip(at(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect::<Vec<f64>>();
    let (coarse, fine) = (slope(2.0 * h), slope(h));
    let by_differences = coarse.iter().zip(fine).map(|(c, f)| (4.0 * f - c) / 3.0);
    let product = explicit.jtjv(&x, &v);
    let size = product.iter().fold(0.0, |m: f64, p| m.max(p.abs()));
    for (product, slope) in product.iter().zip(by_differences) {
        assert!((product - slope).abs() <= 1e-8 * size, "{product} {slope}");
    }
    // To first order it is not.
    let first = LossOrder::First.apply(energy.clone());
    let other = Explicit::new(&first, &data).unwrap().jtjv(&x, &v);
    assert!(other.iter().zip(&product).any(|(a, b)| (a - b).abs() > 1e-2 * size));
}

/// Gauss-Newton is then Newton's method: fewer steps to the same minimum. E and its gradient do not depend on the order.
#[test]
fn second_order_takes_fewer_steps() {
    let solved = |losses| {
        let (energy, mut data) = bind(CONVEX, &convex_arrays());
        let options = Options {
            compile: CompileOptions { losses, precision: Precision::F64, ..CompileOptions::default() },
            solve: SolveOptions {
                linear_tolerance: Some(1e-12),
                function_tolerance: Some(0.0),
                radius: Some(1e12),
                ..SolveOptions::default()
            },
        };
        let solver = sumsq::Solver::compile(energy.clone(), &options.compile).unwrap();
        let start = solver.plan(&data).unwrap().evaluate(&data).unwrap();
        let report = solve(&energy, &mut data, &options);
        let steps = report.iterations.iter().position(|i| i.gradient_max_norm <= 1e-4);
        (start, report.energy_final, steps.unwrap_or_else(|| panic!("{losses:?}: {report:?}")))
    };
    let ((start, first, slow), (same, second, fast)) = (solved(LossOrder::First), solved(LossOrder::Second));
    assert_close("energy", second, first, 1e-12);
    assert_close("energy at the start", same.energies.total, start.energies.total, 1e-12);
    for (a, b) in start.gradient.concat().iter().zip(same.gradient.concat()) {
        assert!((a - b).abs() <= 1e-10, "{a} {b}");
    }
    assert!(fast < slow, "{fast} steps and {slow}");
}

fn convex_arrays() -> [sumsq::NamedArray; 3] {
    let mut random = Random::new(55);
    [
        doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
        doubles("s", &[], vec![0.9]),
    ]
}

/// Elements with only outliers: the curvature of their losses would leave J^T J nothing to second order. They count as to first order.
#[test]
fn second_order_does_not_stall_on_elements_with_only_outliers() {
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float, {W,H,D}, 0)
        local A = Array("A", opt_float, {W,H,D}, 1)
        local M = Array("M", opt_float, {W,H,D}, 2)
        Exclude(less(M(0,0,0), 0.1))
        Residual{loss=Huber(0.01), X(0,0,0) - A(0,0,0)}
        Residual{loss=Huber(0.01), X(0,0,0) - X(1,0,0)}
        Residual{loss=Huber(0.01), X(0,0,0) - X(0,1,0)}
        Residual{loss=Huber(0.01), X(0,0,0) - X(0,0,1)}
    "#;
    let (w, h, d) = (11, 9, 7);
    let shape = [d, h, w];
    let mut random = Random::new(61);
    let mask = random.numbers(w * h * d).iter().map(|m| m.abs()).collect();
    // Far from everything at the start.
    let x = random.numbers(w * h * d).iter().map(|x| 4.0 + x).collect();
    let arrays = [
        doubles("X", &shape, x),
        doubles("A", &shape, random.numbers(w * h * d)),
        doubles("M", &shape, mask),
    ];
    let solved = |losses, precision| {
        let (energy, mut data) = bind(text, &arrays);
        let options = Options {
            compile: CompileOptions { losses, precision, ..CompileOptions::default() },
            solve: SolveOptions {
                iterations: Some(200),
                function_tolerance: Some(1e-5),
                ..SolveOptions::default()
            },
        };
        solve(&energy, &mut data, &options)
    };
    let first = solved(LossOrder::First, Precision::F64);
    assert!(first.energy_final < 0.5 * first.energy_initial, "{first}");
    for precision in [Precision::F64, Precision::Mixed] {
        let second = solved(LossOrder::Second, precision);
        assert!(second.energy_final < 1.001 * first.energy_final, "{first}\n{second}");
    }
}

/// Scales that differ from place to place, to both orders: of arrays and computed ones, beyond the element, where blocks leave the domain;
/// what is held or cut off needs none.
#[test]
fn scales_per_element_agree() {
    let mut random = Random::new(62);
    let mut scales: Vec<f64> = random.numbers(W * H).iter().map(|s| 0.2 + s.abs()).collect();
    let held: Vec<f64> = (0..W * H).map(|i| f64::from(u8::from(i % 7 == 3))).collect();
    scales.iter_mut().zip(&held).filter(|(_, h)| **h != 0.0).for_each(|(s, _)| *s = -1.0);
    let [x, a, s] = arrays();
    let arrays = [x, a, s, doubles("S", &[H, W], scales), doubles("Held", &[H, W], held)];
    for order in ["", "SecondOrder"] {
        let text = format!(
            "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', opt_float2, {{W,H}}, 0)\n\
             local A = Array('A', opt_float2, {{W,H}}, 1)\nlocal s = Param('s', float, 2)\n\
             local S = Array('S', opt_float, {{W,H}}, 3)\nlocal Held = Array('Held', opt_float, {{W,H}}, 4)\n\
             Exclude(Held(0,0))\n\
             local Wide = ComputedArray('Wide', {{W,H}}, 1 + abs(S(0,0)) + abs(S(1,0)))\n\
             Residual{{name='huber', loss={order}(Huber(S(0,0))), X(0,0) - A(0,0)}}\n\
             Residual{{name='cauchy', loss={order}(Cauchy(s + S(0,0)^2)), X(0,0) - X(1,0), X(0,0,1) * X(0,1,0)}}\n\
             Residual{{name='tukey', loss={order}(Tukey(Wide(0,0))), X(0,0) - X(0,1)}}\n\
             Residual{{name='geman', loss={order}(GemanMcClure(0.5 + abs(S(1,0)))), X(0,0) - 0.3}}\n\
             Residual{{name='soft', loss={order}(SoftL1(InBounds(-1,0) * s + 0.4)), X(0,0) - X(-1,0)}}\n\
             Energy(0.2 * X(0,0))"
        );
        agrees(&text, &arrays);
    }
}

/// The same over hyperedges, with a scale of each, of its vertices, and a global.
#[test]
fn scales_per_hyperedge_agree() {
    let (n, edges, mut random) = (23, 90, Random::new(63));
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float3, {N}, 0)
        local T = Unknown("T", opt_float, {}, 1)
        local S = Array("S", opt_float, {N}, 2)
        local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5)
        Energy(0.3 * X(0), 0.5 * T())
        Residual{name="edge", loss=SecondOrder(Cauchy(S(G.a))), X(G.a) * T() - X(G.b)}
        Residual{name="sum", loss=Huber(S(G.a) + S(G.b)), X(G.a, 0) + X(G.b, 1) - 1}
        Residual{name="all", loss=SoftL1(S(0)), T() - 2}
    "#;
    let arrays = [
        doubles("X", &[n, 3], random.numbers(3 * n)),
        doubles("T", &[1], vec![0.9]),
        doubles("S", &[n], random.numbers(n).iter().map(|s| 0.2 + s.abs()).collect()),
        indices("G.a", 1, random.below(n, edges)),
        indices("G.b", 1, random.below(n, edges)),
    ];
    agrees(text, &arrays);
}

/// E by the definition; and a place where the scale is no scale is named.
#[test]
fn scales_per_element_by_hand() {
    let text = "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\n\
                local S = Array('S', opt_float, {N}, 1)\nResidual{name='fit', loss=Huber(S(0)), X(0)}";
    let (x, s) = ([3.0, -0.5, 2.0], [1.0, 1.0, 0.25]);
    let at = |s: &[f64]| bind(text, &[doubles("X", &[3], x.to_vec()), doubles("S", &[3], s.to_vec())]);
    let (energy, mut data) = at(&s);
    let report = solve(&energy, &mut data, &Options::default());
    assert_close("E", report.energy_initial, (6.0 - 1.0) + 0.25 + (1.0 - 0.0625), 1e-12);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let (energy, data) = at(&[1.0, bad, 1.0]);
        let solver = sumsq::Solver::compile(energy, &CompileOptions::default()).unwrap();
        let mut problem = solver.plan(&data).unwrap();
        let Err(error) = problem.solve(&mut data.into_owned(), &SolveOptions::default()) else {
            panic!("the scale {bad} was accepted")
        };
        let text = error.to_string();
        for part in
            ["`fit`", "line 4", "scale is no positive number", "element (1) of {N}", "`S`[1] channel 0"]
        {
            assert!(text.contains(part), "{bad}: no `{part}` in: {text}");
        }
    }
}
