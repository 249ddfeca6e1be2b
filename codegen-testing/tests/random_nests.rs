//! Random schedules of one pipeline against the reference evaluator: chains of stencils, a reduction, in every placement.
//! `SUMSQ_FUZZ_CASES` sets how many cases run, `SUMSQ_FUZZ_SEED` the first seed.

use sumsq_codegen::schedule::Memory;
use sumsq_codegen::{Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::check::{bindings, pattern, try_check, with_halo};
use sumsq_codegen_testing::checked::TOO_LONG;
use sumsq_codegen_testing::rng::{Rng, setting};

const I32: ScalarType = ScalarType::I32;

/// Elements around the input that may be read.
const HALO: u32 = 300;
/// Product of the factors by which a stage is split, at most.
const MOST_ROUNDED: i32 = 64;

/// a = stencil of in; b = stencil of a; c(x, y) = sum over a window of b with an update; out = b, c, a mixed.
fn pipeline() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("random");
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![HALO; 2];
    let i = p.input(input);
    let at = |dx: i64, dy: i64| [&x + dx, &y + dy];
    let a =
        p.func(Func::new("a", &vars, vec![i.at(&at(-1, 0), 0) + i.at(&at(1, 1), 0), i.at(&at(0, -1), 0)]));
    let b = p.func(Func::new(
        "b",
        &vars,
        vec![a.at(&at(0, -1), 0) * 2 + a.at(&at(1, 1), 1) + a.at(&at(0, 0), 0)],
    ));
    let r = RDom::new([("rx", Expr::from(-1), Expr::from(3)), ("ry", Expr::from(0), Expr::from(2))]);
    let window = [&x + r.var(0), &y + r.var(1)];
    let odd = (r.var(0) + r.var(1)).modulo(2).eq_(0);
    let c = Func::sum("c", &vars, r.filter(odd), vec![b.at(&window, 0)]);
    let c = p.func(c);
    let half = [&x / 2, y.clone()];
    let value = b.at(&at(0, 0), 0) + c.at(&at(0, 1), 0) - a.at(&half, 0) + c.at(&at(0, -1), 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

/// Random splits and order of one stage; kinds are given to loops where they are often legal.
fn loops(r: &mut Rng, s: &mut Schedule, func: &str, stage: usize, output: bool) -> Vec<String> {
    let mut dims: Vec<String> = if stage == 0 { vec![] } else { vec!["rx".into(), "ry".into()] };
    dims.extend(["x".into(), "y".into()]);
    let mut h = if stage == 0 { s.func(func) } else { s.update(func, stage - 1) };
    let mut constant = vec![];
    let mut whole = 1;
    for _ in 0..r.below(4) {
        let old = r.pick(&dims);
        let (o, i) = (format!("{old}o"), format!("{old}i"));
        let tails = [Tail::GuardWithIf, Tail::Predicate, Tail::RoundUp];
        let tail = tails[r.below(if output || stage > 0 { 2 } else { 3 })];
        // Extents are rounded up to a multiple of all factors, in each of three Funcs that read each other: within the halo.
        let factor = r.pick(&[1, 2, 3, 4, 8]);
        let factor = if whole * factor <= MOST_ROUNDED { factor } else { 1 };
        whole *= factor;
        h = h.split(&old, &o, &i, factor, tail);
        let k = dims.iter().position(|d| *d == old).expect("picked");
        dims.splice(k..=k, [i.clone(), o]);
        constant.retain(|c| *c != old);
        constant.push(i);
    }
    if r.below(2) == 0 {
        for k in (1..dims.len()).rev() {
            let j = r.below(k + 1);
            dims.swap(k, j);
        }
        let names: Vec<&str> = dims.iter().map(|d| &**d).collect();
        h = h.reorder(&names);
    }
    if constant.contains(&dims[0]) && r.below(3) > 0 {
        h = h.vectorize_loop(&dims[0]);
    }
    if constant.contains(&dims[1]) && r.below(2) > 0 {
        h = h.unroll(&dims[1]);
    }
    let outer = &dims[dims.len() - 1];
    if !outer.starts_with('r') && dims.len() > 2 && r.below(3) == 0 {
        h.parallel(outer);
    }
    dims
}

fn schedule(r: &mut Rng) -> Schedule {
    let mut s = Schedule::new();
    let out = loops(r, &mut s, "out", 0, true);
    // Producers of a Func computed at a loop of `out` sit there or further out.
    let mut at = 0;
    for f in ["c", "b", "a"] {
        let kind = r.below(6);
        if kind == 0 && f != "c" {
            continue;
        }
        loops(r, &mut s, f, 0, false);
        if kind == 1 {
            s.func(f).compute_root();
            at = out.len();
        } else if at < out.len() {
            at = at.max(r.below(out.len()));
            s.func(f).compute_at(LoopLevel::pure("out", &out[at]));
            if r.below(2) == 0 {
                s.func(f).store_at(LoopLevel::pure("out", &out[at + r.below(out.len() - at)]));
            }
            if r.below(3) == 0 {
                s.func(f).fold_storage(r.pick(&["x", "y"]), r.pick(&[4, 8, 16]));
            }
        } else {
            s.func(f).compute_root();
        }
        if r.below(4) == 0 {
            s.func(f).align_bounds(r.pick(&["x", "y"]), r.pick(&[2, 4, 5]));
        }
        if kind > 3 && r.below(6) == 0 {
            s.func(f).store_in(r.pick(&[Memory::Stack, Memory::Register]));
        }
        if f == "c" {
            let dims = loops(r, &mut s, f, 1, false);
            let reduction: Vec<String> = dims.into_iter().filter(|d| d.starts_with('r')).collect();
            if r.below(3) == 0 {
                s.update("c", 0).rfactor(&[(&r.pick(&reduction), "u")], "c_u");
            }
        }
    }
    s
}

#[test]
fn random_schedules_agree_with_the_reference() {
    let (first, count) = (setting("SUMSQ_FUZZ_SEED", 0), setting("SUMSQ_FUZZ_CASES", 300));
    let p = pipeline();
    let (mut legal, mut slides, mut folds) = (0, 0, 0);
    for seed in first..first + count {
        let mut r = Rng::new(seed);
        let s = schedule(&mut r);
        let (w, h) = r.pick(&[(1, 1), (7, 5), (12, 9)]);
        let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[w, h], 3), &[HALO as usize; 2]))], vec![]);
        match std::panic::catch_unwind(|| try_check(&p, &s, &b, &[vec![w, h]], 0.0)) {
            Ok(Ok(ran)) => {
                legal += 1;
                slides += ran.nests.contains("select(") as usize;
                folds += s.to_string().contains("fold_storage") as usize;
            }
            Ok(Err(Error::Schedule { .. })) => {}
            // Legal, but of loops around loops that compute all anew.
            Ok(Err(e)) if e.to_string().contains(TOO_LONG) => {}
            Ok(Err(e)) => panic!("seed {seed}, {w} x {h}: {e}\n{s}"),
            Err(_) => panic!("seed {seed}, {w} x {h}\n{s}"),
        }
    }
    println!("{legal} of {count} schedules were legal, {slides} slid, {folds} folded");
    assert!(
        count < 100 || legal * 6 > count as usize,
        "too few legal schedules to mean anything: {legal} of {count}"
    );
}
