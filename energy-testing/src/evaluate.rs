//! The value of an expression at one place, channel by channel.

use crate::case::{At, Case, Expr, Op, Source};
use crate::dual::Dual;

/// A place at which an expression is evaluated: gives its reads, coordinates and bounds tests there.
pub trait Place {
    fn read(&self, source: Source, at: &At, channel: usize) -> Dual;
    /// Channel of a field at whole coordinates, 0 outside of its domain.
    fn tap(&self, field: usize, channel: usize, at: &[i64]) -> f64;
    fn index(&self, dim: usize) -> f64;
    /// Tells whether the box around the element lies in the domain.
    fn inside(&self, lo: &[i64], hi: &[i64]) -> bool;
    /// The result of an operation, rounded as this place rounds.
    fn rounded(&self, result: Dual) -> Dual {
        result
    }
    /// Tells whether what a rounding decides is open, that is NaN: the angle of a point on the cut of `atan2`, a quotient by 0.
    fn is_wary(&self) -> bool {
        false
    }
}

/// |.|_2 of `L_p` stays away from 0 by this.
const L_P_EPSILON: f64 = 1e-7;

/// All channels of an expression at a place.
pub fn evaluate(case: &Case, e: &Expr, place: &dyn Place) -> Vec<Dual> {
    let (op, operands) = match e {
        Expr::Number(v) => return vec![Dual::number(*v)],
        Expr::Param(p, None) => return case.params[*p].iter().map(|&v| Dual::number(v)).collect(),
        Expr::Param(p, Some(c)) => return vec![Dual::number(case.params[*p][*c])],
        Expr::Read(source, at, [first, end]) => {
            return (*first..*end).map(|c| place.read(*source, at, c)).collect();
        }
        Expr::Index(d) => return vec![Dual::number(place.index(*d))],
        Expr::Squared => unreachable!("q is nowhere but in a loss"),
        Expr::InBounds(offset, half_width) => {
            let k = half_width.unwrap_or(0);
            let moved = |by: i64| offset.iter().map(|o| o + by).collect::<Vec<_>>();
            return vec![Dual::truth(place.inside(&moved(-k), &moved(k)))];
        }
        Expr::Call(op, operands) => (op, operands),
    };
    if *op == Op::Gone {
        return vec![Dual::number(0.0); case.width(e)];
    }
    let values: Vec<Vec<Dual>> = operands.iter().map(|o| evaluate(case, o, place)).collect();
    let ops = Rounding { place };
    let all = |v: &[Dual]| v.iter().skip(1).fold(v[0].clone(), |p, f| ops.mul(&p, f));
    match op {
        Op::Vector => values.concat(),
        Op::Channel(c) => vec![values[0][*c].clone()],
        Op::Sum => vec![ops.sum(&values[0])],
        Op::All => vec![all(&values[0])],
        Op::Any if values[0].iter().any(|v| v.value.is_nan()) => vec![Dual::unknown()],
        Op::Any => vec![Dual::truth(values[0].iter().any(Dual::holds))],
        Op::Dot => vec![ops.dot(&values[0], &values[1])],
        Op::Norm => vec![ops.norm(&values[0])],
        Op::Normalize => {
            let norm = ops.norm(&values[0]);
            values[0].iter().map(|v| place.rounded(v.div(&norm))).collect()
        }
        Op::Length => {
            let width = values[0].len().max(values[1].len());
            let difference = |c| place.rounded(entry(&values[0], c).sub(entry(&values[1], c)));
            vec![ops.norm(&(0..width).map(difference).collect::<Vec<_>>())]
        }
        Op::Matrix3x3Mul => (0..3).map(|r| ops.dot(&values[0][3 * r..3 * r + 3], &values[1])).collect(),
        Op::Rotate2D => ops.rotated(&values[0][0], [&values[1][0], &values[1][1]]).into(),
        Op::Rotate3D => {
            let (a, v) = (&values[0], &values[1]);
            // About x, then y, then z, each counter-clockwise seen against its axis.
            let [y, z] = ops.rotated(&a[0], [&v[1], &v[2]]);
            let [z, x] = ops.rotated(&a[1], [&z, &v[0]]);
            let [x, y] = ops.rotated(&a[2], [&x, &y]);
            vec![x, y, z]
        }
        Op::Sample(image, partials, channel) => {
            let channels = channel.map_or(0..case.fields[*image].channels, |c| c..c + 1);
            let at: Vec<&Dual> = values.iter().map(|v| &v[0]).collect();
            channels.map(|c| place.rounded(sample(place, *image, partials, c, &at))).collect()
        }
        Op::LP(p, _) => {
            let base = ops.norm(&values[1]).add(&Dual::number(L_P_EPSILON));
            let power = place.rounded(base.pow(&Dual::number(p - 2.0)));
            let weight = place.rounded(power.sqrt());
            values[0].iter().map(|v| ops.mul(v, &weight)).collect()
        }
        _ => {
            let width = values.iter().map(Vec::len).max().unwrap_or(1);
            let own = |c: usize| {
                let entries: Vec<&Dual> = values.iter().map(|v| entry(v, c)).collect();
                let result = match op {
                    Op::Unary(name) => {
                        let square = |v| place.rounded(Dual::number(v)).value;
                        entries[0].unary_rounded(name, square)
                    }
                    // Beside the cut it is pi or -pi; the slopes are the same on both sides.
                    Op::Atan2 if place.is_wary() && entries[0].value == 0.0 && entries[1].value <= 0.0 => {
                        Dual { value: f64::NAN, ..elementwise(op, &entries) }
                    }
                    Op::Div if place.is_wary() && entries[1].value == 0.0 => {
                        Dual::open([entries[0], entries[1]])
                    }
                    _ => elementwise(op, &entries),
                };
                if result.boolean || matches!(op, Op::Select | Op::Neg) {
                    result
                } else {
                    place.rounded(result)
                }
            };
            (0..width).map(own).collect()
        }
    }
}

/// Entry `c`; one channel goes with all.
fn entry(v: &[Dual], c: usize) -> &Dual {
    if v.len() == 1 { &v[0] } else { &v[c] }
}

fn elementwise(op: &Op, v: &[&Dual]) -> Dual {
    let (a, b) = (v[0], v.get(1).copied().unwrap_or(v[0]));
    let logical = matches!(op, Op::Compare(_) | Op::And | Op::Or | Op::Not);
    if logical && v.iter().any(|v| v.value.is_nan()) {
        return Dual::unknown();
    }
    match op {
        Op::Neg => Dual::chain(-a.value, [(-1.0, a)]),
        Op::Add => a.add(b),
        Op::Sub => a.sub(b),
        Op::Mul => a.mul(b),
        Op::Div => a.div(b),
        Op::Power | Op::Pow => a.pow(b),
        Op::Atan2 => a.atan2(b),
        Op::Compare(name) => {
            let (a, b) = (a.value, b.value);
            Dual::truth(match *name {
                "eq" => a == b,
                "less" => a < b,
                "lesseq" => a <= b,
                "greater" => a > b,
                "greatereq" => a >= b,
                _ => unreachable!("no comparison {name}"),
            })
        }
        Op::And => Dual::truth(v.iter().all(|v| v.holds())),
        Op::Or => Dual::truth(v.iter().any(|v| v.holds())),
        Op::Not => Dual::truth(!a.holds()),
        Op::Select if a.value.is_nan() => Dual::open([b, v[2]]),
        Op::Select => if a.holds() { b } else { v[2] }.clone(),
        _ => unreachable!("{op:?} is no function of channels"),
    }
}

/// Sums and products of several numbers.
struct Rounding<'a> {
    place: &'a dyn Place,
}

impl Rounding<'_> {
    fn mul(&self, a: &Dual, b: &Dual) -> Dual {
        self.place.rounded(a.mul(b))
    }

    fn sum(&self, v: &[Dual]) -> Dual {
        v.iter().skip(1).fold(v[0].clone(), |sum, t| self.place.rounded(sum.add(t)))
    }

    fn dot(&self, a: &[Dual], b: &[Dual]) -> Dual {
        let width = a.len().max(b.len());
        let products: Vec<Dual> = (0..width).map(|c| self.mul(entry(a, c), entry(b, c))).collect();
        self.sum(&products)
    }

    fn norm(&self, v: &[Dual]) -> Dual {
        self.place.rounded(self.dot(v, v).sqrt())
    }

    /// (x, y) turned by an angle from x towards y.
    fn rotated(&self, angle: &Dual, [x, y]: [&Dual; 2]) -> [Dual; 2] {
        let (cos, sin) = (angle.unary("cos"), angle.unary("sin"));
        let (cos_x, sin_y) = (self.mul(&cos, x), self.mul(&sin, y));
        let (sin_x, cos_y) = (self.mul(&sin, x), self.mul(&cos, y));
        [self.place.rounded(cos_x.sub(&sin_y)), self.place.rounded(sin_x.add(&cos_y))]
    }
}

/// Multilinear interpolation; its derivative is that of the coordinates times the derivative images, sampled there.
fn sample(place: &dyn Place, image: usize, partials: &[usize], channel: usize, at: &[&Dual]) -> Dual {
    let value = interpolated(place, image, channel, at);
    let mut result = Dual::number(value);
    for (&partial, coordinate) in partials.iter().zip(at) {
        let slope = interpolated(place, partial, channel, at);
        result = result.add(&Dual::chain(0.0, [(slope, *coordinate)]));
    }
    result
}

/// Weights of the 2^n pixels around a place, times them.
fn interpolated(place: &dyn Place, image: usize, channel: usize, at: &[&Dual]) -> f64 {
    let mut total = 0.0;
    for corner in 0..1usize << at.len() {
        let (mut weight, mut pixel) = (1.0, Vec::new());
        for (d, coordinate) in at.iter().enumerate() {
            let below = coordinate.value.floor();
            let fraction = coordinate.value - below;
            let upper = corner >> d & 1;
            weight *= if upper == 1 { fraction } else { 1.0 - fraction };
            pixel.push((below as i64).saturating_add(upper as i64));
        }
        total += weight * place.tap(image, channel, &pixel);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Field, Group, Kind};
    use crate::system::{Noise, system};

    /// x = 0, one residual.
    fn case(residual: impl Fn(Expr) -> Expr) -> Case {
        let x = Field { kind: Kind::Unknown("double"), space: 1, channels: 1, values: vec![0.0] };
        let read = Expr::Read(Source::Field(0), At::Offset(vec![0]), [0, 1]);
        let groups = vec![Group { name: None, loss: None, values: vec![residual(read)] }];
        Case { extents: vec![1], spaces: vec![vec![], vec![0]], fields: vec![x], groups, ..Case::default() }
    }

    fn angle(y: Expr, x: f64) -> Expr {
        Expr::Call(Op::Atan2, vec![y, Expr::Number(x)])
    }

    #[test]
    fn the_angle_on_the_cut_is_open_and_its_slope_is_not() {
        for (x, value, slope) in [(-2.0, std::f64::consts::PI, -0.5), (-0.0, 0.0, 0.0), (2.0, 0.0, 0.5)] {
            let negated = |y: Expr| angle(Expr::Call(Op::Neg, vec![y]), x);
            for (case, slope) in [(case(|y| angle(y, x)), slope), (case(negated), -slope)] {
                let exact = system(&case, &[0.0], Noise::NONE);
                assert_eq!((exact.rows[0].residual, exact.rows[0].slopes[0].1), (value, slope));
                let wary = system(&case, &[0.0], Noise::WARY);
                assert_eq!(wary.rows[0].residual.is_nan(), x <= 0.0);
                assert_eq!(wary.rows[0].slopes[0].1, slope);
                assert_eq!(wary.gradient()[0].is_nan(), x <= 0.0);
            }
        }
    }

    #[test]
    fn what_an_open_number_decides_is_open_with_its_derivatives() {
        let less = |y: Expr| Expr::Call(Op::Compare("less"), vec![angle(y, -1.0), Expr::Number(1.0)]);
        let select = |y: Expr| Expr::Call(Op::Select, vec![less(y.clone()), y, Expr::Number(2.0)]);
        let guard = |y: Expr| Expr::Call(Op::Mul, vec![less(y.clone()), y]);
        let divide = |y: Expr| Expr::Call(Op::Div, vec![Expr::Number(1.0), y]);
        for case in [case(select), case(guard), case(divide)] {
            let wary = system(&case, &[0.0], Noise::WARY);
            assert!(wary.rows[0].residual.is_nan() && wary.rows[0].slopes[0].1.is_nan(), "{case:?}");
        }
    }
}
