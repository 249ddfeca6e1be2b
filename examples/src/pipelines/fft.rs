//! Fourier transforms of 32 x 32 pixels: five steps of radix two along x, then five along y (Cooley, Tukey 1965).

use super::application::{Application, Planes, Slot, as_first};
use super::setup::Setup;
use std::f64::consts::PI;
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::func::{extent_param, min_param};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, Var};

pub(super) const APPLICATION: Application = Application {
    name: "fft",
    about: "Fourier transforms of images of 32 x 32 complex numbers",
    slots: &[
        Slot::new("re", "real parts, in an archive of shape (N, 32, 32)", Planes::Array),
        Slot::new("im", "imaginary parts, of the same shape", Planes::Array),
    ],
    parameters: &[],
    build,
    extents: |setup, inputs| match inputs {
        [re, im] if re == im && re[..2] == [SIZE, SIZE] => as_first(setup, inputs),
        _ => Err(format!("expected two arrays of shape (N, {SIZE}, {SIZE}): {inputs:?}, x first")),
    },
    schedules: schedules!("fft"),
};

/// Numbers in a transform: 2 to the power of `STEPS`.
const SIZE: i32 = 32;
const STEPS: i32 = 5;

/// One step along dimension `d`: transforms of 2^(step - 1) numbers become transforms of 2^step. Those of the numbers t, t + M, t + 2M,
/// ..., of which there are M = SIZE / 2^step, lie at t + M k for frequency k.
fn step(p: &mut Pipeline, name: &str, of: &dyn Fn(&[Expr], usize) -> Expr, d: usize, step: i32) -> Func {
    let [x, y, n] = Var::all(["x", "y", "n"]);
    let place = [x, y, n][d].expr();
    let apart = SIZE >> step;
    let (first, frequency) = (&place % apart, &place / apart);
    // The halves come from the even and the odd numbers; both have half as many frequencies.
    let even = first + (&frequency % (1 << (step - 1))) * (2 * apart);
    let at = |x0: Expr| {
        let mut at = [x, y, n].map(Expr::from);
        at[d] = x0;
        at
    };
    let turn = |f: fn(f64) -> f64| {
        let value = |k: i32| Expr::float(F32, f(-2.0 * PI * f64::from(k) / f64::from(1 << step)));
        let last = (1 << step) - 1;
        (0..last).rev().fold(value(last), |rest, k| Expr::select(frequency.eq_(k), value(k), rest))
    };
    let (cos, sin) = (turn(f64::cos), turn(f64::sin));
    let [a, b] = [even.clone(), even + apart].map(at);
    let (re, im) = (of(&b, 0), of(&b, 1));
    let values = vec![of(&a, 0) + &cos * &re - &sin * &im, of(&a, 1) + cos * im + sin * re];
    p.define_tuple(name, [x, y, n], values)
}

fn build(_: &Setup) -> Pipeline {
    let mut p = Pipeline::new("fft");
    let inputs = ["re", "im"].map(|name| p.input(Input::strided(name, &[F32], 3)));
    let mut last: Option<Func> = None;
    for k in 0..2 * STEPS {
        let (d, number) = ((k / STEPS) as usize, k % STEPS + 1);
        let name = format!("{}{number}", ["x", "y"][d]);
        let next = match &last {
            None => step(&mut p, &name, &|at, k| inputs[k].at(at, 0), d, number),
            Some(f) => step(&mut p, &name, &|at, k| f.at(at, k), d, number),
        };
        last = Some(next);
    }
    for (k, name) in ["out_re", "out_im"].into_iter().enumerate() {
        let [x, y, n] = Var::all(["x", "y", "n"]);
        let part = last.as_ref().map_or_else(|| 0.0f32.into(), |f| f.at(&[x, y, n].map(Expr::from), k));
        let output = p.define(name, [x, y, n], part);
        // Both outputs are computed together: over the same domain.
        let mut constraints = Constraint::defaults(3);
        for (d, c) in constraints.iter_mut().enumerate().filter(|_| k > 0) {
            *c = c.clone().min(min_param("out_re", d)).extent(extent_param("out_re", d));
        }
        p.output_strided(&output, constraints);
    }
    p
}
