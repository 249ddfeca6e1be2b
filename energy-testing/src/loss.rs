//! Losses in numbers: rho(q) of a squared norm with two derivatives, and the weights of its rows.

use crate::case::{Case, Expr, Loss, LossKind, Op, Rho};

/// A block under its loss.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rho: f64,
    /// sqrt(rho'), 0 where rho' <= 0.
    pub root: f64,
    pub alpha: f64,
    /// alpha / q.
    pub bend: f64,
}

impl Shape {
    /// Without a loss.
    pub fn plain(q: f64) -> Shape {
        Shape { rho: q, root: 1.0, alpha: 0.0, bend: 0.0 }
    }

    /// Of a block whose squares add up to q (Triggs et al., "Bundle adjustment -- a modern synthesis", section 4.3). `scale` is that of
    /// the loss there, if it has one; each result is off by the factors of `off`, and rho' by up to `least`.
    pub fn new(case: &Case, loss: &Loss, scale: f64, q: f64, least: f64, off: &dyn Fn() -> f64) -> Shape {
        let Jet { of: [mut rho, slope, curvature], .. } = match &loss.rho {
            Rho::Scaled(kind, _) => scaled(*kind, scale, q),
            Rho::Power(p, eps) => {
                let [p, eps] = [p, eps].map(|e| formula(case, e, q, &|| 1.0).of[0]);
                let base = Jet::squared(q).add(Jet::number(eps * eps)).rounded(off);
                base.pow(p / 2.0).rounded(off)
            }
            Rho::Formula(e) => formula(case, e, q, off),
        };
        // log(1 + q/s^2) and s^2 - s^2 (..) are no better than s^2.
        if matches!(loss.rho, Rho::Scaled(..)) {
            rho += scale * scale * (off() - 1.0);
        }
        let slope = if off() < 1.0 { slope - least } else { slope + least };
        if slope <= 0.0 {
            return Shape { rho, root: 0.0, alpha: 0.0, bend: 0.0 };
        }
        let root = slope.sqrt();
        if !loss.second_order || curvature >= 0.0 || q == 0.0 {
            return Shape { rho, root, alpha: 0.0, bend: 0.0 };
        }
        // alpha is the smaller root of alpha^2/2 - alpha - q rho''/rho' = 0, where it has one below 1.
        let square = 1.0 + 2.0 * q * curvature / slope;
        let alpha = if square > 1e-6 { 1.0 - square.sqrt() } else { 0.0 };
        Shape { rho, root, alpha, bend: alpha / q }
    }
}

/// A value with its first and second derivative by q.
#[derive(Clone, Copy, Debug)]
struct Jet {
    of: [f64; 3],
    /// The size of what each was summed from: terms may cancel, also in another order.
    sizes: [f64; 3],
}

impl Jet {
    fn new(of: [f64; 3]) -> Jet {
        Jet { of, sizes: of.map(f64::abs) }
    }
    fn number(v: f64) -> Jet {
        Jet::new([v, 0.0, 0.0])
    }
    fn squared(q: f64) -> Jet {
        Jet::new([q, 1.0, 0.0])
    }

    /// A function of it that has these derivatives.
    fn map(self, f: f64, d: f64, dd: f64) -> Jet {
        self.map_sized([f, d, dd], [f, d, dd].map(f64::abs))
    }
    /// The same, where the derivatives are themselves sums of terms of these sizes.
    fn map_sized(self, by: [f64; 3], sizes: [f64; 3]) -> Jet {
        let chain = |[_, first, second]: [f64; 3], [f, d, dd]: [f64; 3]| {
            [f, d * first, dd * first * first + d * second]
        };
        Jet { of: chain(self.of, by), sizes: chain(self.sizes, sizes) }
    }
    fn scaled(self, by: f64, plus: f64) -> Jet {
        let linear = |[f, d, dd]: [f64; 3], by, plus| [by * f + plus, by * d, by * dd];
        Jet { of: linear(self.of, by, plus), sizes: linear(self.sizes, by.abs(), plus.abs()) }
    }
    fn add(self, other: Jet) -> Jet {
        let sum = |a: [f64; 3], b: [f64; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        Jet { of: sum(self.of, other.of), sizes: sum(self.sizes, other.sizes) }
    }
    fn mul(self, other: Jet) -> Jet {
        let product = |a: [f64; 3], b: [f64; 3]| {
            [a[0] * b[0], a[1] * b[0] + a[0] * b[1], a[2] * b[0] + 2.0 * a[1] * b[1] + a[0] * b[2]]
        };
        Jet { of: product(self.of, other.of), sizes: product(self.sizes, other.sizes) }
    }

    /// The power by a constant; where the base is 0, exponents from 0 to 1 have the derivative 0.
    fn pow(self, exponent: f64) -> Jet {
        let base = self.of[0];
        let power = |factor: f64, c: f64| match factor {
            0.0 => 0.0,
            _ if base == 0.0 && -1.0 < c && c < 0.0 => 0.0,
            _ => factor * base.powf(c),
        };
        let c = exponent;
        self.map(power(1.0, c), power(c, c - 1.0), power(c * (c - 1.0), c - 2.0))
    }

    fn unary(self, name: &str) -> Jet {
        let x = self.of[0];
        match name {
            "abs" => self.map(x.abs(), if x >= 0.0 { 1.0 } else { -1.0 }, 0.0),
            "sqrt" => self.pow(0.5),
            "exp" => self.map(x.exp(), x.exp(), x.exp()),
            "log" => self.map(x.ln(), 1.0 / x, -1.0 / (x * x)),
            "sin" => self.map(x.sin(), x.cos(), -x.sin()),
            "cos" => self.map(x.cos(), -x.sin(), -x.cos()),
            "atan" => {
                let b = 1.0 + x * x;
                self.map(x.atan(), 1.0 / b, -2.0 * x / (b * b))
            }
            "tanh" => {
                let t = x.tanh();
                let (slope, size) = (1.0 - t * t, 1.0 + t * t);
                self.map_sized([t, slope, -2.0 * t * slope], [t.abs(), size, 2.0 * t.abs() * size])
            }
            _ => unreachable!("no function {name} in a loss"),
        }
    }

    fn rounded(self, off: &dyn Fn() -> f64) -> Jet {
        let [f, d, dd] = self.of;
        let [_, first, second] = self.sizes;
        let of = [f * off(), d + (off() - 1.0) * first, dd + (off() - 1.0) * second];
        Jet { of, ..self }
    }
}

/// The formula of a `Loss`.
fn formula(case: &Case, e: &Expr, q: f64, off: &dyn Fn() -> f64) -> Jet {
    let (op, operands) = match e {
        Expr::Number(v) => return Jet::number(*v),
        Expr::Param(p, c) => return Jet::number(case.params[*p][c.unwrap_or(0)]),
        Expr::Squared => return Jet::squared(q),
        Expr::Call(op, operands) => (op, operands),
        _ => unreachable!("{e:?} in a loss"),
    };
    let values: Vec<Jet> = operands.iter().map(|o| formula(case, o, q, off)).collect();
    let (a, b) = (values[0], values.get(1).copied().unwrap_or(values[0]));
    let result = match op {
        Op::Neg => return a.scaled(-1.0, 0.0),
        Op::Select => return if a.of[0] != 0.0 { b } else { values[2] },
        Op::Compare("less") => return Jet::number(f64::from(u8::from(a.of[0] < b.of[0]))),
        Op::Add => a.add(b),
        Op::Sub => a.add(b.scaled(-1.0, 0.0)),
        Op::Mul => a.mul(b),
        Op::Div => a.mul(b.pow(-1.0)),
        Op::Power => a.pow(b.of[0]),
        Op::Unary(name) => a.unary(name),
        _ => unreachable!("{op:?} in a loss"),
    };
    result.rounded(off)
}

/// rho(q) of a loss of the table, with derivatives from those of its parts.
fn scaled(kind: LossKind, s: f64, q: f64) -> Jet {
    if !(s > 0.0 && s.is_finite()) {
        return Jet::new([f64::NAN; 3]);
    }
    let (q, s2) = (Jet::squared(q), s * s);
    let ratio = q.scaled(1.0 / s2, 0.0);
    let r = ratio.of[0];
    match kind {
        LossKind::Huber if q.of[0] <= s2 => q,
        LossKind::Huber => q.pow(0.5).scaled(2.0 * s, -s2),
        LossKind::Cauchy => {
            let b = ratio.scaled(1.0, 1.0);
            b.map(r.ln_1p(), 1.0 / b.of[0], -1.0 / (b.of[0] * b.of[0])).scaled(s2, 0.0)
        }
        LossKind::Tukey if q.of[0] > s2 => Jet::number(s2 / 3.0),
        // s^2/3 (1 - (1 - r)^3) = s^2 (r - r^2 + r^3/3), which does not cancel.
        LossKind::Tukey => {
            ratio.map(r * (1.0 - r + r * r / 3.0), (1.0 - r).powi(2), -2.0 * (1.0 - r)).scaled(s2, 0.0)
        }
        // 2 s^2 (root - 1), by r = (root - 1) (root + 1).
        LossKind::SoftL1 => {
            let root = (1.0 + r).sqrt();
            ratio.map(2.0 * r / (root + 1.0), 1.0 / root, -0.5 * root.powi(-3)).scaled(s2, 0.0)
        }
        LossKind::Arctan => {
            let b = 1.0 + r * r;
            ratio.map(r.atan(), 1.0 / b, -2.0 * r / (b * b)).scaled(s2, 0.0)
        }
        LossKind::GemanMcClure => {
            let b = 1.0 + r;
            ratio.map(r / b, b.powi(-2), -2.0 * b.powi(-3)).scaled(s2, 0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{At, Field, Group, Kind, Source};
    use crate::system::{Noise, system};

    fn call(op: Op, operands: Vec<Expr>) -> Expr {
        Expr::Call(op, operands)
    }

    /// Every function that may be in a formula.
    fn formulas() -> Vec<Expr> {
        let q = || Expr::Squared;
        let shifted = || call(Op::Add, vec![q(), Expr::Number(0.75)]);
        let mut all: Vec<Expr> = ["abs", "sqrt", "exp", "log", "sin", "cos", "atan", "tanh"]
            .map(|name| call(Op::Unary(name), vec![call(Op::Mul, vec![shifted(), Expr::Number(0.5)])]))
            .into();
        all.push(call(Op::Neg, vec![call(Op::Power, vec![q(), Expr::Number(1.5)])]));
        all.push(call(Op::Div, vec![call(Op::Sub, vec![q(), Expr::Number(3.0)]), shifted()]));
        let below = |limit| call(Op::Compare("less"), vec![q(), Expr::Number(limit)]);
        all.push(call(Op::Select, vec![below(2.0), call(Op::Mul, vec![q(), shifted()]), q()]));
        all
    }

    #[test]
    fn derivatives_are_those_of_differences() {
        let (case, q, h) = (Case::default(), 1.25, 1e-4);
        for e in formulas() {
            let [below, here, above] = [q - h, q, q + h].map(|q| formula(&case, &e, q, &|| 1.0).of);
            for k in 0..2 {
                let slope = (above[k] - below[k]) / (2.0 * h);
                assert!((here[k + 1] - slope).abs() < 1e-6, "{e:?}: {here:?}, by differences {slope}");
            }
        }
    }

    /// 1 - tanh^2 has few digits where tanh is near 1: the noise says so.
    #[test]
    fn noise_reaches_as_far_as_terms_cancel() {
        let e = call(Op::Unary("tanh"), vec![Expr::Squared]);
        let exact = formula(&Case::default(), &e, 5.0, &|| 1.0);
        let noisy = formula(&Case::default(), &e, 5.0, &|| 1.0 + 1e-9);
        let off = (noisy.of[1] - exact.of[1]).abs();
        assert!(off > 1e-9 && exact.of[1] < 2e-4, "{off}");
    }

    /// X of two elements, an array of scales, and X under a loss.
    fn case(rho: Rho) -> Case {
        let field = |kind, values: [f64; 2]| Field { kind, space: 1, channels: 1, values: values.to_vec() };
        let fields =
            vec![field(Kind::Unknown("double"), [3.0, 4.0]), field(Kind::Array("double"), [-7.0, 2.0])];
        let value = Expr::Read(Source::Field(0), At::Offset(vec![0]), [0, 1]);
        let loss = Some(Loss { rho, second_order: false });
        let groups = vec![Group { name: None, loss, values: vec![value] }];
        Case { extents: vec![2], spaces: vec![vec![], vec![0]], fields, groups, ..Case::default() }
    }

    fn array(offset: i64) -> Expr {
        Expr::Read(Source::Field(1), At::Offset(vec![offset]), [0, 1])
    }

    #[test]
    fn a_scale_belongs_to_the_box() {
        let right = case(Rho::Scaled(LossKind::Huber, array(1)));
        let s = system(&right, &right.x(), Noise::NONE);
        // The second element sees no scale: its residual is 0, and so is its loss.
        assert_eq!(s.energies, [2.0 * 2.0 * 3.0 - 4.0]);
        assert_eq!(s.rows.iter().map(|r| r.residual).collect::<Vec<_>>(), [3.0, 0.0]);
        let here = case(Rho::Scaled(LossKind::Huber, array(0)));
        let s = system(&here, &here.x(), Noise::NONE);
        assert!(s.energies[0].is_nan() && !s.rows[0].is_finite() && s.rows[1].is_finite());
    }

    #[test]
    fn powers_are_of_the_squared_norm_and_count_where_it_is_0() {
        let of = case(Rho::Power(Expr::Number(3.0), Expr::Number(2.0)));
        let s = system(&of, &[0.0, 1.0], Noise::NONE);
        assert_eq!(s.energies, [8.0 + 5f64.powf(1.5)]);
        // Half of the slope of E is 1.5 sqrt(q + 4) x.
        assert!((s.gradient()[1] - 1.5 * 5f64.sqrt()).abs() < 1e-14, "{:?}", s.gradient());
    }
}
