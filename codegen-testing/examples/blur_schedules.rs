//! Five schedules of one algorithm, measured: prints `docs/blur_schedules.md`.
//!
//! The two-stage blur of Ragan-Kelley et al. 2013, section 3.1, and the schedules that it discusses. The table is the
//! paper's figure 3, from the counters of a checked run ([`sumsq_codegen_testing::checked`]) of each.

use sumsq_codegen::{Error, Func, Input, LoopLevel, Pipeline, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::checked::{Counters, run_nests};
use sumsq_codegen_testing::reference::{Bindings, Realization};

/// Domain of the output.
pub const WIDTH: usize = 96;
pub const HEIGHT: usize = 64;
/// Edge of a tile, and height of a strip, as in the paper.
const TILE: i32 = 32;
const STRIP: i32 = 8;
/// Rows of blurx that are kept by a sliding window: three are live, and rings are powers of two.
const RING: u32 = 4;

/// blurx(x, y) = in(x-1, y) + in(x, y) + in(x+1, y); out(x, y) = blurx(x, y-1) + blurx(x, y) + blurx(x, y+1).
pub fn blur() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("blur");
    let mut input = Input::new("in", &[ScalarType::I32], 2);
    input.halo = vec![1, 1];
    let input = p.input(input);
    let along_x = |dx: i64| input.at(&[&x + dx, y.clone()], 0);
    let value = along_x(-1) + along_x(0) + along_x(1);
    let blurx = p.func(Func::new("blurx", &[vx, vy], vec![value]));
    let along_y = |dy: i64| blurx.at(&[x.clone(), &y + dy], 0);
    let out = p.func(Func::new("out", &[vx, vy], vec![along_y(-1) + along_y(0) + along_y(1)]));
    p.output(&out);
    p
}

/// The schedules by name. Storage lies outside of one serial loop where a window slides.
pub fn schedules() -> Vec<(&'static str, Schedule)> {
    let at = |var| LoopLevel::pure("out", var);
    let mut all = vec![];
    let mut add = |name, build: &dyn Fn(&mut Schedule)| {
        let mut s = Schedule::new();
        build(&mut s);
        all.push((name, s));
    };
    add("breadth-first", &|s| {
        s.func("blurx").compute_root();
    });
    add("full fusion", &|s| {
        s.func("blurx").compute_at(at("x"));
    });
    let sliding = |s: &mut Schedule, rows: i32| {
        s.func("out").split("y", "strip", "row", rows, Tail::GuardWithIf);
        s.func("blurx").store_at(at("strip")).compute_at(at("row")).fold_storage("y", RING);
    };
    add("sliding window", &|s| sliding(s, HEIGHT as i32));
    add("tiled", &|s| {
        let out = s.func("out");
        out.tile("x", "y", "tx", "ty", "xi", "yi", TILE, TILE, Tail::GuardWithIf).parallel("ty");
        s.func("blurx").compute_at(at("tx"));
    });
    add("sliding in strips", &|s| {
        sliding(s, STRIP);
        s.func("out").parallel("strip");
    });
    all
}

/// The input, halo included.
pub fn bindings() -> Bindings {
    let extents = [WIDTH, HEIGHT];
    let mut r = Realization::zeros(&[ScalarType::I32], &[WIDTH + 2, HEIGHT + 2]);
    for (i, at) in r.points().iter().enumerate() {
        let v = (at[0] * 31 + at[1] * 17) % 101;
        r.planes[0][i] = sumsq_codegen_testing::reference::Value::Int(v as i64);
    }
    let r = Realization { extents: extents.to_vec(), halo: vec![1, 1], ..r };
    Bindings { inputs: [("in".into(), r)].into_iter().collect(), ..Bindings::default() }
}

/// Counters of each schedule.
pub fn measure() -> Result<Vec<(&'static str, Schedule, Counters)>, Error> {
    let p = blur();
    schedules()
        .into_iter()
        .map(|(name, s)| {
            Ok((name, s.clone(), run_nests(&p, &s, &bindings(), &[vec![WIDTH, HEIGHT]])?.counters))
        })
        .collect()
}

/// The document.
pub fn document() -> Result<String, Error> {
    let all = measure()?;
    let least = all[0].2.operations as f64;
    let mut text = format!(
        "# Five schedules of a two-stage blur

The blur of section 3.1 of the Halide paper (Ragan-Kelley et al. 2013) on an image of {WIDTH} x {HEIGHT}, and its figure 3:
what a schedule trades. All five give the same output. Counted in checked runs; `cargo run -p sumsq-codegen-testing --example
blur_schedules` prints this file, and a test holds it against new counts.

- *span*: points computed, each counted once, over the longest chain of dependences between them (through values, and
  through storage that is used again): how many could be computed at a time.
- *reuse distance*: most arithmetic operations between computing a value of blurx and reading it.
- *work amplification*: arithmetic operations over those of the first row; in brackets, how often a point of blurx is
  computed.
- *storage*: elements of blurx that are allocated at a time.

| schedule | span | reuse distance | work amplification | storage |
|---|--:|--:|--:|--:|
"
    );
    for (name, _, c) in &all {
        let blurx = c.of("blurx");
        text += &format!(
            "| {name} | {:.0} | {} | {:.3} ({:.3}) | {} |\n",
            c.span(),
            c.reuse_distance(),
            c.operations as f64 / least,
            blurx.stores as f64 / blurx.points as f64,
            blurx.allocated
        );
    }
    let p = blur();
    for (name, s, _) in &all {
        text += &format!("\n## {name}\n\n```schedule\n{s}```\n```text\n{}```\n", p.print_loop_nest(s)?);
    }
    Ok(text)
}

#[allow(dead_code, reason = "the test includes this file as a module")]
fn main() -> Result<(), Error> {
    print!("{}", document()?);
    Ok(())
}
