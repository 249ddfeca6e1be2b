//! Strided buffers, tuples of several types, parameters of every type.

use crate::{assert_lines, run_program};
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, Dimension, Pool, Scalar, View};
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, ScalarType, Schedule, Var};

const WIDTH: i32 = 33;
const HEIGHT: i32 = 9;
const PITCH: i64 = 3 * WIDTH as i64 + 5;

/// The greatest of the colours, their mean times `gain` and their sum, of interleaved pixels and those to the right.
fn colours() -> (Pipeline, Schedule) {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("colours");
    let width = p.param("width", ScalarType::I32);
    let gain = p.param("gain", ScalarType::F32);
    let twice = &width + &width;
    let interleaved = Constraint::new().stride(3).extent((&twice + &twice) / 4);
    let channels = Constraint::new().min(0).extent(3).stride(1);
    let input = Input::strided("rgb", &[ScalarType::U8], 3).constrain(0, interleaved).constrain(2, channels);
    let i = p.input(input);
    let c = |dx: i64, k: i32| i.at(&[&x + dx, y.clone(), k.into()], 0);
    let most = (0..3).fold(c(1, 0), |m, k| m.max(c(0, k)));
    let sum = (0..3).map(|k| c(0, k).cast(ScalarType::I64)).reduce(|a, b| a + b).expect("three");
    let grey = sum.cast(ScalarType::F32) * gain / 3.0;
    let out = p.func(Func::new("out", &[vx, vy], vec![most, grey, sum]));
    p.output_strided(&out, Constraint::defaults(2));
    let text = "out: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)";
    (p, Schedule::parse(text).expect("text"))
}

const KINDS: [ScalarType; 12] = {
    use ScalarType::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64]
};

/// A tuple of parameters of all types.
fn kinds() -> Pipeline {
    let v = Var::new("v");
    let mut p = Pipeline::new("kinds");
    let values: Vec<Expr> = KINDS.iter().map(|ty| p.param(format!("of_{}", ty.name()), *ty)).collect();
    let all = p.func(Func::new("all", &[v], values));
    p.output_strided(&all, Constraint::defaults(1));
    p
}

/// Returns what the program prints of `colours`, by arithmetic: `(greatest, mean, sum)` at every point of the part.
fn colours_here() -> Vec<String> {
    let at = |x: i32, y: i32, c: i64| {
        let i = (HEIGHT - 1 - (y - 7)) as i64 * PITCH + (x + 4) as i64 * 3 + c;
        i * 37 % 251
    };
    let mut lines = vec![];
    for y in 8..14 {
        for x in -3..14 {
            let own: Vec<i64> = (0..3).map(|c| at(x, y, c)).collect();
            let sum: i64 = own.iter().sum();
            let most = own.into_iter().fold(at(x + 1, y, 0), i64::max);
            lines.push(format!("{most} {:08x} {sum}", (sum as f32 * 0.75 / 3.0).to_bits()));
        }
    }
    lines.push("0 0 0".into());
    lines
}

/// The error of a run in this process with these dimensions of `rgb`, `out.0` and `out.1`.
fn refusal(rgb: &[Dimension], out: [&[Dimension]; 2], width: i32) -> String {
    let (p, s) = colours();
    let compiled = Compiled::new(&p, &s, &Target::host()).expect("compiles");
    let pixels = vec![0u8; 4 * HEIGHT as usize * PITCH as usize];
    let (mut most, mut grey, mut sum) = (vec![0u8; 240], vec![0f32; 240], vec![0i64; 240]);
    let rgb = View::reading(&pixels, rgb).expect("fits");
    let last = [part()[0], Dimension::new(out[0][1].min, 6, 20)];
    let outputs = [View::new(&mut most, out[0]), View::new(&mut grey, out[1]), View::new(&mut sum, &last)];
    let [a, b, c] = outputs.map(|v| v.expect("fits"));
    let buffers: [(&str, &Buffer); 4] = [("rgb", &rgb), ("out.0", &a), ("out.1", &b), ("out.2", &c)];
    let params = [("width", Scalar::I32(width)), ("gain", Scalar::F32(0.75))];
    compiled.run(&Pool::new(1), &buffers, &params).expect_err("refused").to_string()
}

fn part() -> [Dimension; 2] {
    [Dimension::new(-3, 17, 1), Dimension::new(8, 6, 20)]
}

/// Returns what the program prints of its mistakes, those apart that this process cannot make.
fn refusals() -> Vec<String> {
    let rgb = [Dimension::new(-4, WIDTH, 3), Dimension::new(7, HEIGHT, -PITCH), Dimension::new(0, 3, 1)];
    let with = |d: usize, to: Dimension| {
        let mut all = rgb;
        all[d] = to;
        all
    };
    let of_part = |d: usize, to: Dimension| {
        let mut all = part();
        all[d] = to;
        all
    };
    let input = |rgb: &[Dimension], width| refusal(rgb, [&part(), &part()], width);
    let second = |dims: [Dimension; 2]| refusal(&rgb, [&part(), &dims], WIDTH);
    let low = of_part(1, Dimension::new(12, 6, 20));
    let lines = [
        "colours: rgb: expected elements of type u8, got i8".into(),
        input(&rgb[..2], WIDTH),
        "colours: rgb: expected layout Strided, got Record(4)".into(),
        input(&rgb, WIDTH + 1),
        input(&with(0, Dimension::new(-4, WIDTH, 4)), WIDTH),
        input(&with(2, Dimension::new(0, 4, 1)), WIDTH),
        input(&with(2, Dimension::new(1, 3, 1)), WIDTH),
        "colours: rgb: coordinates from 7 on, -1 of them, are not possible".into(),
        second(of_part(1, Dimension::new(8, 5, 20))),
        second(of_part(1, Dimension::new(8, 6, 24))),
        second(of_part(0, Dimension::new(-2, 17, 1))),
        "colours: out.0: coordinates of dimension 1 share elements with others".into(),
        refusal(&rgb, [&low, &low], WIDTH),
        "colours: out.1: no buffer is bound to it".into(),
    ];
    lines.into()
}

#[test]
fn a_c_program_gives_the_same_results() {
    let printed = run_program("strided", include_str!("strided.c"), &[colours(), (kinds(), Schedule::new())]);
    let mut want = colours_here();
    want.extend(want.clone());
    want.extend(refusals());
    let kinds = [
        1,
        0x80,
        0x8000,
        0x8000_0000,
        1 << 63,
        0xff,
        0xffff,
        0xffff_ffff,
        u64::MAX,
        0x3e00,
        0.1f32.to_bits() as u64,
        0.1f64.to_bits(),
    ];
    want.extend(kinds.map(|bits| format!("{bits:x}")));
    assert_lines(&printed, &want);
}
