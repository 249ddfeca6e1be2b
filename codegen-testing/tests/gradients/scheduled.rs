//! First schedules: what is stored, where sums are computed, which loops are vectors and threads.

use crate::check::{flat, on_threads};
use crate::line;
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::gradient::{Memory, propagate_adjoints, propagate_adjoints_within, schedule};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::values;
use sumsq_codegen_testing::reference::{Bindings, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

/// Cheap Funcs that read each other at several places are not all substituted.
#[test]
fn long_chains_are_stored_now_and_then() {
    let (mut p, f, _, x) = line();
    let mut last = p.define("first", [x], f.of(x));
    for k in 0..24 {
        let value = last.of(x - 1) + last.of(x) * 2.0 + last.of(x + 1) + last.of(x + 3);
        last = p.define(format!("next{k}"), [x], value);
    }
    p.output(&last);
    let schedule = sumsq_codegen::gradient::schedule(&p, &[], &[], &[]).unwrap();
    let stored = (0..24).filter(|k| schedule.to_string().contains(&format!("next{k}: compute_root"))).count();
    assert!((6..=18).contains(&stored), "{stored} are stored\n{schedule}");
}

/// Updates are stages of their own: what two of them read is computed once for both. Of long terms few are written out.
#[test]
fn updates_share_what_is_dear() {
    let [x, k] = Var::all(["x", "k"]);
    let mut p = Pipeline::new("shared");
    let f = p.input(Input::strided("f", &[F64], 1));
    let term = (0..40).map(|i| (f.of(x + i) + i).sin()).reduce(|a, b| a * b).unwrap();
    let dear = p.define("dear", [x], term);
    let mut sums = p.define("sums", [k], Expr::constant(F64, 0.0));
    for i in 0..2 {
        let r = RDom::new([(format!("r{i}").as_str(), 0, 1 << 15)]);
        let value = dear.of(r.var(0)) * (k.expr() + i).cast(F64);
        sums = p.update(&sums, k, sums.of(k) + value, &r);
    }
    p.output(&sums);
    let sizes: [(&str, &[i32]); 2] = [("f", &[1 << 15]), ("sums", &[32])];
    let text = schedule(&p, &sizes, &[], &[]).unwrap().to_string();
    assert!(
        text.contains("dear: compute_root") && text.contains("split(k, k_block, k_element, 32, guard)"),
        "{text}"
    );
    // Computed where it is read, it is a term of more than a thousand nodes.
    let text = schedule(&p, &sizes, &[], &["dear"]).unwrap().to_string();
    assert!(!text.contains("dear: compute_root"), "{text}");
    let copies = text.split("k_element, ").nth(1).and_then(|t| t.split(',').next()).map(str::parse);
    assert!(matches!(copies, Some(Ok(2..=24))), "{text}");
}

/// An input that begins at 0 in all dimensions.
fn from_0(p: &mut Pipeline, name: &str, dims: usize) -> Input {
    let constraints = Constraint::defaults(dims).into_iter().enumerate();
    p.input(constraints.fold(Input::strided(name, &[F64], dims), |i, (d, c)| i.constrain(d, c.min(0))))
}

/// Each pixel of a plane is a mean of two neighbours at the place that `g` tells; with the slope by the planes.
fn warp() -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("warp");
    let [f, g] = [("f", 3), ("g", 2)].map(|(name, dims)| from_0(&mut p, name, dims));
    from_0(&mut p, "w", 3);
    let r = RDom::new([("i", 0, 2)]);
    let at = (g.of((x, y)).cast(I32) + r.var(0)).clamp(0, f.extent(0) - 1);
    let sum = p.sum("sum", &r, f.of((at, y, c)) * (r.var(0).cast(F64) + 0.5));
    let out = p.define("out", [x, y, c], sum);
    p.output_strided(&out, Constraint::defaults(3));
    let adjoints = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    let d_f = adjoints.of("f").unwrap();
    let over = |(d, c): (usize, Constraint)| c.min(f.min(d)).extent(f.extent(d));
    p.output_strided(d_f, Constraint::defaults(3).into_iter().enumerate().map(over).collect::<Vec<_>>());
    p
}

const SIZES: [(&str, &[i32]); 5] = [
    ("f", &[500, 300, 7]),
    ("g", &[500, 300]),
    ("w", &[500, 300, 7]),
    ("out", &[500, 300, 7]),
    ("d_f", &[500, 300, 7]),
];

#[test]
fn sums_scatters_and_threads() {
    let p = warp();
    let s = schedule(&p, &SIZES, &[], &[]).unwrap();
    let text = s.to_string();
    let line = |of: &str| text.lines().find_map(|l| l.strip_prefix(of)).unwrap_or_default().to_string();
    // One place reads the sum; who wants to keep it has it at root.
    assert!(line("sum: ").starts_with("compute_at(out, xo)"), "{text}");
    let kept = schedule(&p, &SIZES, &["sum"], &[]).unwrap().to_string();
    assert!(kept.contains("sum: compute_root"), "{kept}");
    // The coordinate that is data comes first: lanes would lie in planes far apart. Seven planes are few tasks.
    let scatter = line("d_f.update(0): ");
    assert!(
        scatter.starts_with("reorder(sum_update0_i, sum_update0_x, _1, _2) unroll(sum_update0_i)"),
        "{text}"
    );
    assert!(scatter.ends_with("parallel(_2) parallel(_1)") && !scatter.contains("vectorize"), "{text}");
    // Slopes are summed where they are wanted.
    let lowered = lower(&p, &s, &LowerOptions::default()).unwrap().body.to_string();
    assert!(lowered.contains("d_f") && !lowered.contains("allocate d_f"), "{lowered}");

    let compiled = native::compile(&p, &s).unwrap();
    for (w, h) in [(19, 5), (3, 2), (1, 1)] {
        let (mut rng, mut b) = (Rng::new(5), Bindings::default());
        let planes = [(0, w), (0, h), (0, 2)];
        for (name, dims) in [("f", 3), ("g", 2), ("w", 3)] {
            b.inputs.insert(name.into(), values(&[F64], &planes[..dims], &mut rng));
        }
        let domains = [planes.to_vec(), planes.to_vec()];
        let expected = evaluate_over(&p, &b, &domains).unwrap();
        for (came, want) in on_threads(&p, &compiled, &b, &domains, &s).iter().zip(&expected) {
            for (a, b) in flat(came).into_iter().zip(flat(want)) {
                assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} instead of {b}");
            }
        }
    }
}

/// Lanes along x would each add at a depth of their own; along channels they stay together, in storage, too, and who reads them goes along these soonest.
#[test]
fn sums_at_depths_that_are_data_have_vectors_of_channels() {
    let [x, z, c] = Var::all(["x", "z", "c"]);
    let mut p = Pipeline::new("depths");
    let [depth, f] = [("depth", 2), ("f", 3)].map(|(name, dims)| from_0(&mut p, name, dims));
    let r = RDom::new([("i", 0, 40)]);
    let at = (depth.of((x, r.var(0))) * 4.0).cast(I32).clamp(0, 3);
    let sums = p.define("sums", [x, z, c], Expr::constant(F64, 0.0));
    let sums = p.add_to(&sums, (x, at, c), f.of((x, r.var(0), c)), &r);
    let near = RDom::new([("j", 0, 3)]);
    let out = p.sum("out", &near, sums.of((x + near.var(0), z, c)));
    let out = p.define("blurred", [x, z, c], out);
    p.output_strided(&out, Constraint::defaults(3));
    let s = schedule(&p, &[("blurred", &[64, 4, 12])], &[], &[]).unwrap();
    let text = s.to_string();
    for line in [
        "sums: compute_root reorder_storage(c, x, z) split(c, co, ci, 4, auto) vectorize(ci)",
        "sums.update(0): split(c, co, ci, 4, predicate) vectorize(ci) reorder(ci, co, i, x)",
        "out.update(0): split(x, xo, xi, 4, predicate) vectorize(xi) reorder(xi, j, c, xo, z)",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let compiled = native::compile(&p, &s).unwrap();
    for (width, channels) in [(9, 12), (3, 7), (1, 1)] {
        let (mut rng, mut b) = (Rng::new(7), Bindings::default());
        let planes = [(0, width + 2), (0, 40), (0, channels)];
        b.inputs.insert("depth".into(), values(&[F64], &planes[..2], &mut rng));
        b.inputs.insert("f".into(), values(&[F64], &planes, &mut rng));
        let domains = [vec![(0, width), (0, 4), (0, channels)]];
        let expected = evaluate_over(&p, &b, &domains).unwrap();
        let came = on_threads(&p, &compiled, &b, &domains, &s);
        for (a, b) in flat(&came[0]).into_iter().zip(flat(&expected[0])) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} instead of {b}");
        }
    }
}

/// A large sum has its short loop inside, and is swept along the long one.
#[test]
fn large_sums_with_short_loops() {
    let (mut p, f, _, x) = line();
    from_0(&mut p, "w", 1);
    let scale = p.param("scale", F64);
    let r = RDom::new([("i", 0, 3)]);
    let sum = p.sum("sum", &r, f.of(x + r.var(0)) * &scale);
    let out = p.define("out", [x], sum);
    p.output_strided(&out, Constraint::defaults(1));
    let adjoints = propagate_adjoints(&mut p, &[("out", "w")], &["scale"]).unwrap();
    let update = &adjoints.of("scale").unwrap().updates[0];
    let loops: Vec<&str> = update.rdom.vars.iter().map(|r| &*r.name).collect();
    assert_eq!(loops, ["sum_update0_i", "sum_update0_x"]);
    p.outputs.clear();
    p.output(adjoints.of("scale").unwrap());
    let s = schedule(&p, &[("w", &[100_000])], &[], &[]).unwrap().to_string();
    assert!(
        s.contains("sum_update0_x_row_lane, 4, predicate) rfactor(sum_update0_x_row_lane as lane"),
        "{s}"
    );
}

/// A selection adds no term for what it never takes: the last factor is 1, and the channel that stood in for it has no slope from there.
#[test]
fn terms_that_are_0_are_left_out() {
    let [x, c] = Var::all(["x", "c"]);
    let mut p = Pipeline::new("affine");
    let [f, g] = ["f", "g"].map(|name| from_0(&mut p, name, 2));
    from_0(&mut p, "w", 2);
    let r = RDom::new([("i", 0, 4)]);
    let colour = Expr::select(r.var(0).eq_(3), 1.0, f.of((x, r.var(0).min(2))));
    let sum = p.sum("sum", &r, g.of((c, r.var(0))) * colour);
    let out = p.define("out", [x, c], sum);
    p.output(&out);
    let adjoints = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    let d_f = adjoints.of("f").unwrap();
    assert_eq!(d_f.updates.len(), 1, "{:?}", d_f.updates);
}

/// A recurrence of 1000 steps in place, of which every 40th state is kept: one block of the others is there at a time.
#[test]
fn blocks_of_steps_one_at_a_time() {
    let (mut p, f, g, x) = line();
    let r = RDom::new([("r", 0, 1000)]);
    let h = p.define("h", [x], f.of(x));
    let h = p.update(&h, x, h.of(x) * h.of(x) * g.of(r.var(0)) - Expr::from(0.5), &r);
    let out = p.define("out", [x], h.of(x));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    let memory = Memory { bytes: u64::MAX, every: Some(40), estimates: &[] };
    let d = propagate_adjoints_within(&mut p, &[("out", "w")], &["f", "g"], &memory).unwrap();
    p.outputs.clear();
    for name in ["f", "g"] {
        p.output_strided(d.of(name).unwrap(), Constraint::defaults(1));
    }
    let sizes: [(&str, &[i32]); 4] = [("w", &[100]), ("f", &[100]), ("d_f", &[100]), ("d_g", &[1000])];
    let s = schedule(&p, &sizes, &[], &[]).unwrap();
    // Each adjoint that reads them has states of its own, where it gets to their block.
    let text = s.to_string();
    for (of, at) in [
        ("h_update0_steps", "d_h_update0_kept.update(0), block"),
        ("h_update0_steps_", "d_g.update(0), h_update0_block"),
        ("d_h_update0_steps_", "d_g.update(0), h_update0_block"),
    ] {
        assert!(text.contains(&format!("\n{of}: compute_at({at})")), "{of}\n{text}");
    }
    let lowered = lower(&p, &s, &LowerOptions::default()).unwrap().body.to_string();
    let lines = |of: &str| lowered.lines().filter(|l| l.contains(of)).count();
    // In front of 25 blocks and behind the last, in two planes; in front of 40 steps and behind the last.
    for of in ["h_update0_kept", "d_h_update0_kept"] {
        assert_eq!(lines(&format!("let {of}.pitch.2 = {of}.pitch.1 * 26:i64")), 1, "{lowered}");
        assert_eq!(lines(&format!("let {of}.size = {of}.pitch.2 * 2:i64")), 1, "{lowered}");
    }
    for of in ["h_update0_steps", "h_update0_steps_", "d_h_update0_steps_"] {
        assert_eq!(lines(&format!("  let {of}.pitch.2 = {of}.pitch.1 * 41:i64")), 1, "{lowered}");
    }
    assert_eq!(
        d.explain("g").unwrap(),
        "d_g scatters along dimension 0: g is read at block * 40 + step, and h.update(0) is gone back through one iteration after the other"
    );
    let compiled = native::compile(&p, &s).unwrap();
    let mut b = Bindings::default();
    let mut rng = Rng::new(5);
    for (name, domain) in [("f", [(0, 7)]), ("g", [(0, 1000)]), ("w", [(0, 7)])] {
        b.inputs.insert(name.into(), values(&[F64], &domain, &mut rng));
    }
    let domains = [vec![(0, 7)], vec![(0, 1000)]];
    let expected = evaluate_over(&p, &b, &domains).unwrap();
    for (came, want) in on_threads(&p, &compiled, &b, &domains, &s).iter().zip(&expected) {
        assert!(flat(came).iter().zip(flat(want)).all(|(a, b)| (a - b).abs() <= 1e-11 * (1.0 + b.abs())));
    }
}
