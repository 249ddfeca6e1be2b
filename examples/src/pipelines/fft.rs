//! Fourier transforms of 32 x 32 pixels: columns, then rows, each as eight times four (Cooley, Tukey 1965).

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
    schedules: schedules!("fft", narrow),
};

/// Numbers in a transform: `FIRST` times `SECOND`.
const SIZE: i32 = 32;
const FIRST: i32 = 8;
const SECOND: i32 = 4;

#[derive(Clone)]
struct Complex {
    re: Expr,
    im: Expr,
}

impl Complex {
    fn of(f: &Func, at: &[Expr]) -> Complex {
        Complex { re: f.at(at, 0), im: f.at(at, 1) }
    }

    fn plus(&self, other: &Complex) -> Complex {
        Complex { re: &self.re + &other.re, im: &self.im + &other.im }
    }

    fn minus(&self, other: &Complex) -> Complex {
        Complex { re: &self.re - &other.re, im: &self.im - &other.im }
    }

    /// The number times `exp(-2 pi i k / n)`. Quarters of a turn multiply nothing.
    fn turned(&self, k: i32, n: i32) -> Complex {
        let Complex { re, im } = self.clone();
        match (4 * k) % (4 * n) {
            0 => Complex { re, im },
            turn if turn == n => Complex { re: im, im: -re },
            turn if turn == 2 * n => Complex { re: -re, im: -im },
            turn if turn == 3 * n => Complex { re: -im, im: re },
            _ => {
                let angle = -2.0 * PI * f64::from(k) / f64::from(n);
                let (cos, sin) = (Expr::float(F32, angle.cos()), Expr::float(F32, angle.sin()));
                Complex { re: &re * &cos - &im * &sin, im: re * sin + im * cos }
            }
        }
    }
}

/// The transform of a power of two of numbers, from those of the even and of the odd ones.
fn transform(values: &[Complex]) -> Vec<Complex> {
    let n = values.len() as i32;
    if n == 1 {
        return values.to_vec();
    }
    let half = |odd: usize| transform(&values.iter().skip(odd).step_by(2).cloned().collect::<Vec<_>>());
    let (even, odd) = (half(0), half(1));
    let odd: Vec<Complex> = (0..).zip(&odd).map(|(k, v)| v.turned(k, n)).collect();
    let pairs = || even.iter().zip(&odd);
    pairs().map(|(a, b)| a.plus(b)).chain(pairs().map(|(a, b)| a.minus(b))).collect()
}

/// Number `k` of these.
fn chosen(k: &Expr, values: &[Complex]) -> [Expr; 2] {
    let part = |of: fn(&Complex) -> &Expr| Expr::mux(k, values.iter().map(|v| of(v).clone()));
    [part(|v| &v.re), part(|v| &v.im)]
}

/// Transforms `of` along dimension `d`, the line `o` of the other one: numbers at distance `SECOND` first, from `r` on; their frequencies `k`, turned,
/// then over `r`.
fn pass(p: &mut Pipeline, name: &str, of: &dyn Fn(&[Expr; 3]) -> Complex, d: usize) -> Func {
    let [x, y, n, o, r, k] = Var::all(["x", "y", "n", "o", "r", "k"]);
    let apart = |i: i32| {
        let place = r + i * SECOND;
        of(&if d == 0 { [place, o.expr(), n.expr()] } else { [o.expr(), place, n.expr()] })
    };
    let values = transform(&(0..FIRST).map(apart).collect::<Vec<_>>());
    let parts = p.define_tuple(format!("{name}_parts"), [o, r, k, n], chosen(&k.expr(), &values).to_vec());

    let (place, line) = if d == 0 { (x, y) } else { (y, x) };
    let frequency = place % FIRST;
    let turned = |i: i32| {
        let part = Complex::of(&parts, &[line.expr(), i.into(), frequency.clone(), n.expr()]);
        let [re, im] = chosen(&frequency, &(0..FIRST).map(|k| part.turned(i * k, SIZE)).collect::<Vec<_>>());
        Complex { re, im }
    };
    let values = transform(&(0..SECOND).map(turned).collect::<Vec<_>>());
    p.define_tuple(name, [x, y, n], chosen(&(place / FIRST), &values).to_vec())
}

fn build(_: &Setup) -> Pipeline {
    let mut p = Pipeline::new("fft");
    let [re, im] = ["re", "im"].map(|name| p.input(Input::strided(name, &[F32], 3)));
    let columns = pass(&mut p, "columns", &|at| Complex { re: re.at(at, 0), im: im.at(at, 0) }, 1);
    let rows = pass(&mut p, "rows", &|at| Complex::of(&columns, at), 0);
    for (k, name) in ["out_re", "out_im"].into_iter().enumerate() {
        let [x, y, n] = Var::all(["x", "y", "n"]);
        let output = p.define(name, [x, y, n], rows.at(&[x, y, n].map(Expr::from), k));
        // Both outputs are computed together: over the same domain.
        let mut constraints = Constraint::defaults(3);
        for (d, c) in constraints.iter_mut().enumerate().filter(|_| k > 0) {
            *c = c.clone().min(min_param("out_re", d)).extent(extent_param("out_re", d));
        }
        p.output_strided(&output, constraints);
    }
    p
}
