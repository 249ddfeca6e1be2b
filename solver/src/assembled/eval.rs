//! Evaluation of a [`Tape`] at one instance: value, partials, and the branches taken.
//!
//! The rules at singular points are those of the energy language: a Select passes only the branch it takes, a partial that is
//! zero stays zero whatever it is multiplied with (so that neither a NaN nor an Inf leaks from where nothing flows), abs has
//! slope +1 at 0, sqrt and x^c (0 < c < 1) have slope 0 at 0.

use crate::assembled::domain::{Instance, Point};
use crate::assembled::tape::{Image, Op, Reg, Tape};
use sumsq_energy::dag::{Compare, Function, interpolate};

/// Scratch space of evaluations, reused from instance to instance.
#[derive(Default)]
pub(super) struct Workspace {
    values: Vec<f64>,
    partials: Vec<f64>,
    /// Prefix products of a Prod.
    products: Vec<f64>,
}

impl Workspace {
    /// Partials of the last operation, in the order of its slots.
    pub fn result_partials(&self, tape: &Tape) -> &[f64] {
        &self.partials[tape.partials_of(tape.ops.len() - 1)]
    }
}

/// The value of `tape` at an instance.
pub(super) fn value(tape: &Tape, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) -> f64 {
    value_with(tape, at, point, &[], work)
}

/// [`value`], the sampled images being `tangents` if there are any.
fn value_with(
    tape: &Tape,
    at: &Instance<'_>,
    point: &Point<'_>,
    tangents: &[Tangent],
    work: &mut Workspace,
) -> f64 {
    work.values.clear();
    let mut tangents = tangents.iter();
    for op in &tape.ops {
        let tangent = if let Op::Sample { at, .. } = op { tangents.next().zip(Some(at)) } else { None };
        let v = match tangent {
            Some((tangent, place)) => tangent.value(place, &work.values),
            None => op_value(tape, op, &work.values, at, point),
        };
        work.values.push(v);
    }
    work.values.last().copied().unwrap_or(0.0)
}

/// A sampled image as a linear function of the place, with the slopes that its derivative images give.
pub(super) struct Tangent {
    value: f64,
    place: Vec<f64>,
    slopes: Vec<f64>,
}

impl Tangent {
    fn value(&self, place: &[Reg], values: &[f64]) -> f64 {
        let moved = place.iter().zip(&self.place).map(|(r, c)| values[*r as usize] - c);
        // A slope that is not finite matters only along it.
        let along = self.slopes.iter().zip(moved).filter(|(_, by)| *by != 0.0);
        self.value + along.map(|(s, by)| s * by).sum::<f64>()
    }
}

/// The tangent of each sampled image of `tape`, in order.
pub(super) fn tangents(
    tape: &Tape,
    at: &Instance<'_>,
    point: &Point<'_>,
    work: &mut Workspace,
) -> Vec<Tangent> {
    value(tape, at, point, work);
    let tangent = |(k, op): (usize, &Op)| {
        let Op::Sample { partials, at: place, .. } = op else { return None };
        Some(Tangent {
            value: work.values[k],
            place: place.iter().map(|r| work.values[*r as usize]).collect(),
            slopes: partials.iter().map(|image| sample(*image, place, &work.values, at, point)).collect(),
        })
    };
    tape.ops.iter().enumerate().filter_map(tangent).collect()
}

/// The value of `tape` at an instance, its sampled images being `tangents`, and a hash of every decision taken on the way: equal hashes,
/// same smooth piece.
pub(super) fn value_and_branches(
    tape: &Tape,
    at: &Instance<'_>,
    point: &Point<'_>,
    tangents: &[Tangent],
    work: &mut Workspace,
) -> (f64, u64) {
    let result = value_with(tape, at, point, tangents, work);
    let mut branches = 0xcbf2_9ce4_8422_2325_u64;
    let mut note =
        |decision: bool| branches = (branches ^ u64::from(decision)).wrapping_mul(0x0100_0000_01b3);
    for (k, op) in tape.ops.iter().enumerate() {
        match op {
            Op::Unary(Function::Abs, a) => note(work.values[*a as usize] >= 0.0),
            Op::Compare(..) | Op::NonZero(_) => note(work.values[k] != 0.0),
            Op::Select(c, ..) => note(work.values[*c as usize] != 0.0),
            _ => {}
        }
    }
    (result, branches)
}

/// Returns how large the numbers are that the value is made of: sums with all signs made equal. A function passes on the error of its
/// operand, to first order.
pub(super) fn magnitude(tape: &Tape, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) -> f64 {
    value(tape, at, point, work);
    let mut sizes: Vec<f64> = Vec::with_capacity(tape.ops.len());
    for (k, op) in tape.ops.iter().enumerate() {
        let here = work.values[k].abs();
        let value = |r: &Reg| work.values[*r as usize];
        let size = |r: &Reg| sizes[*r as usize];
        // Relative error of an operand in units of rounding, beyond the one that every value has.
        let excess = |r: &Reg| if value(r) == 0.0 { 0.0 } else { (size(r) / value(r).abs() - 1.0).max(0.0) };
        sizes.push(match op {
            Op::Sum { constant, terms } => {
                constant.abs() + terms.iter().map(|(c, r)| c.abs() * size(r)).sum::<f64>()
            }
            Op::Prod(factors) => {
                // A lone factor that is 0 passes on its error times the others; two such pass on none, to first order.
                let zero = |f: &&(Reg, i32)| value(&f.0) == 0.0;
                match (factors.iter().find(zero), factors.iter().filter(zero).count()) {
                    (Some((z, 1)), 1) => {
                        let others = factors.iter().filter(|f| f.0 != *z);
                        size(z) * others.map(|(r, e)| value(r).abs().powi(*e)).product::<f64>()
                    }
                    _ => {
                        here * (1.0
                            + factors.iter().map(|(r, e)| f64::from(e.abs()) * excess(r)).sum::<f64>())
                    }
                }
            }
            Op::Unary(f, a) => here + unary_slope(*f, value(a), work.values[k]).abs() * size(a),
            Op::Binary(_, a, b) => here * (1.0 + excess(a) + excess(b)),
            Op::Select(c, a, b) => size(if truth(value(c)) { a } else { b }),
            _ => here,
        });
    }
    sizes.last().copied().unwrap_or(0.0)
}

/// An image at the coordinates where it is sampled.
pub(super) struct Sampled<'t> {
    pub image: Image,
    /// Its derivative images, where the unknowns move the coordinates; else none.
    pub partials: &'t [Image],
    pub place: Vec<f64>,
}

/// The sampled images of `tape`.
pub(super) fn samples<'t>(
    tape: &'t Tape,
    at: &Instance<'_>,
    point: &Point<'_>,
    work: &mut Workspace,
) -> Vec<Sampled<'t>> {
    value(tape, at, point, work);
    let sampled = |(k, op): (usize, &'t Op)| {
        let Op::Sample { image, partials, at } = op else { return None };
        let partials: &[Image] = if tape.slots_of(k).is_empty() { &[] } else { partials };
        Some(Sampled {
            image: *image,
            partials,
            place: at.iter().map(|r| work.values[*r as usize]).collect(),
        })
    };
    tape.ops.iter().enumerate().filter_map(sampled).collect()
}

/// The value of `tape`, leaving its partials in `work` (see [`Workspace::result_partials`]). A read out of the domain or of
/// an excluded unknown is a constant.
pub(super) fn value_and_partials(
    tape: &Tape,
    at: &Instance<'_>,
    point: &Point<'_>,
    work: &mut Workspace,
) -> f64 {
    let result = value(tape, at, point, work);
    work.partials.clear();
    work.partials.resize(tape.partials_len(), 0.0);
    for (k, op) in tape.ops.iter().enumerate() {
        if !tape.partials_of(k).is_empty() {
            op_partials(tape, k, op, at, point, work);
        }
    }
    result
}

fn truth(v: f64) -> bool {
    v != 0.0
}

fn number(b: bool) -> f64 {
    f64::from(u8::from(b))
}

fn op_value(tape: &Tape, op: &Op, values: &[f64], at: &Instance<'_>, point: &Point<'_>) -> f64 {
    let v = |r: &Reg| values[*r as usize];
    match op {
        Op::Const(c) => *c,
        Op::Param(p, channel) => point.params[*p as usize][usize::from(*channel)],
        Op::Read(r) => at.read(&tape.reads[*r as usize], point),
        Op::Index(d) => at.coordinate(*d) as f64,
        Op::InBounds { lo, hi } => number(at.box_inside(lo, hi)),
        Op::Free(space, place) => number(at.is_free(*space, place)),
        Op::Sum { constant, terms } => terms.iter().fold(*constant, |sum, (c, r)| sum + c * v(r)),
        // One quotient: a condition on it is exact.
        Op::Prod(factors) => {
            let side = |positive: bool| {
                let own = factors.iter().filter(|(_, e)| (*e > 0) == positive);
                own.map(|(r, e)| power(v(r), e.abs())).product::<f64>()
            };
            side(true) / side(false)
        }
        Op::Sample { image, at: place, .. } => sample(*image, place, values, at, point),
        Op::Unary(f, a) => unary(*f, v(a)),
        // A zero has no sign: 0 is added to make it 0.
        Op::Binary(Function::Atan2, y, x) => (v(y) + 0.0).atan2(v(x) + 0.0),
        Op::Binary(_, base, exponent) => v(base).powf(v(exponent)),
        Op::Compare(Compare::Eq, a, b) => number(v(a) == v(b)),
        Op::Compare(Compare::Less, a, b) => number(v(a) < v(b)),
        Op::Compare(Compare::LessEq, a, b) => number(v(a) <= v(b)),
        Op::NonZero(a) => number(truth(v(a))),
        Op::SameVertex(a, b) => number(at.same_vertex(a, b)),
        Op::InBoundsAt { space, at: place, lo, hi } => number(at.box_inside_at(*space, place, lo, hi)),
        Op::IndexAt(space, place, d) => f64::from(at.coordinate_at(*space, place, *d)),
        Op::And(operands) => number(operands.iter().all(|r| truth(v(r)))),
        Op::Or(operands) => number(operands.iter().any(|r| truth(v(r)))),
        Op::Not(a) => number(!truth(v(a))),
        Op::Select(c, a, b) => {
            if truth(v(c)) {
                v(a)
            } else {
                v(b)
            }
        }
    }
}

/// `image` interpolated at the coordinates that `place` holds.
fn sample(image: Image, place: &[Reg], values: &[f64], at: &Instance<'_>, point: &Point<'_>) -> f64 {
    let coordinates: Vec<f64> = place.iter().map(|r| values[*r as usize]).collect();
    interpolate(&coordinates, &mut |tap| at.tap(image, tap, point))
}

/// Adds the partials of operation `k`, whose operands' partials are complete.
fn op_partials(tape: &Tape, k: usize, op: &Op, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) {
    let v = |work: &Workspace, r: &Reg| work.values[*r as usize];
    match op {
        Op::Read(r) if at.column(&tape.reads[*r as usize]).is_some() => {
            work.partials[tape.partials_of(k).start] = 1.0;
        }
        Op::Sum { terms, .. } => terms.iter().for_each(|(c, r)| chain(tape, k, *r, *c, work)),
        Op::Prod(factors) => product_partials(tape, k, factors, work),
        Op::Sample { partials, at: place, .. } => {
            for (image, coordinate) in partials.iter().zip(place) {
                let slope = sample(*image, place, &work.values, at, point);
                chain(tape, k, *coordinate, slope, work);
            }
        }
        Op::Unary(f, a) => {
            let slope = unary_slope(*f, v(work, a), work.values[k]);
            chain(tape, k, *a, slope, work);
        }
        Op::Binary(Function::Atan2, y, x) => {
            let (vy, vx) = (v(work, y), v(work, x));
            let square = vx * vx + vy * vy;
            let (dy, dx) = if square == 0.0 { (0.0, 0.0) } else { (vx / square, -vy / square) };
            chain(tape, k, *y, dy, work);
            chain(tape, k, *x, dx, work);
        }
        Op::Binary(_, base, exponent) => {
            let (b, e) = (v(work, base), v(work, exponent));
            chain(tape, k, *base, power_slope(b, e), work);
            let slope = work.values[k] * b.ln();
            chain(tape, k, *exponent, slope, work);
        }
        Op::Select(c, a, b) => {
            let taken = if truth(v(work, c)) { a } else { b };
            chain(tape, k, *taken, 1.0, work);
        }
        _ => {}
    }
}

/// Partials of operation `k` += `slope` times those of `operand`. A zero partial contributes nothing, whatever the slope.
fn chain(tape: &Tape, k: usize, operand: Reg, slope: f64, work: &mut Workspace) {
    let operand = operand as usize;
    let (from, to) = (tape.partials_of(operand), tape.partials_of(k));
    // Operands come before their users, so their partials lie before too.
    let (before, here) = work.partials.split_at_mut(to.start);
    let targets = tape.slots_of(k);
    let mut t = 0;
    for (&slot, &partial) in tape.slots_of(operand).iter().zip(&before[from]) {
        while targets[t] != slot {
            t += 1;
        }
        if partial != 0.0 {
            here[t] += slope * partial;
        }
    }
}

/// d/df_i of prod f_j^e_j = e_i f_i^(e_i - 1) prod_{j != i} f_j^e_j, without division: a factor may be 0.
fn product_partials(tape: &Tape, k: usize, factors: &[(Reg, i32)], work: &mut Workspace) {
    let n = factors.len();
    let power_of = |work: &Workspace, i: usize| power(work.values[factors[i].0 as usize], factors[i].1);
    work.products.clear();
    let mut prefix = 1.0;
    for i in 0..n {
        work.products.push(prefix);
        prefix *= power_of(work, i);
    }
    let mut suffix = 1.0;
    for i in (0..n).rev() {
        let (r, e) = factors[i];
        let own = if e == 1 { 1.0 } else { f64::from(e) * power(work.values[r as usize], e - 1) };
        let slope = work.products[i] * own * suffix;
        chain(tape, k, r, slope, work);
        suffix *= power_of(work, i);
    }
}

/// x^e by multiplication.
fn power(x: f64, e: i32) -> f64 {
    if e == 1 { x } else { x.powi(e) }
}

/// d/dx x^c; the derivative of x^0 is 0 and of x^1 is 1, never 0 * Inf.
fn power_slope(x: f64, c: f64) -> f64 {
    if c == 0.0 || (x == 0.0 && c > 0.0 && c < 1.0) {
        0.0
    } else if c == 1.0 {
        1.0
    } else {
        c * x.powf(c - 1.0)
    }
}

fn unary(f: Function, x: f64) -> f64 {
    match f {
        Function::Abs => x.abs(),
        Function::Acos => x.acos(),
        Function::Acosh => x.acosh(),
        Function::Asin => x.asin(),
        Function::Asinh => x.asinh(),
        Function::Atan => x.atan(),
        Function::Atanh => x.atanh(),
        Function::Cos => x.cos(),
        Function::Cosh => x.cosh(),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Log10 => x.log10(),
        Function::Sin => x.sin(),
        Function::Sinh => x.sinh(),
        Function::Sqrt => x.sqrt(),
        Function::Tan => x.tan(),
        Function::Tanh => x.tanh(),
        // Functions of two operands never come here: the tape keeps them apart.
        Function::Atan2 | Function::Pow => f64::NAN,
    }
}

/// f'(x), with `y` = f(x).
fn unary_slope(f: Function, x: f64, y: f64) -> f64 {
    match f {
        Function::Abs if x >= 0.0 => 1.0,
        Function::Abs => -1.0,
        Function::Acos => -1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        Function::Acosh => 1.0 / ((x - 1.0).sqrt() * (x + 1.0).sqrt()),
        Function::Asin => 1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        Function::Asinh => 1.0 / x.hypot(1.0),
        Function::Atan => 1.0 / (1.0 + x * x),
        Function::Atanh => 1.0 / ((1.0 - x) * (1.0 + x)),
        Function::Cos => -x.sin(),
        Function::Cosh => x.sinh(),
        Function::Exp => y,
        Function::Log => 1.0 / x,
        Function::Log10 => 1.0 / (x * std::f64::consts::LN_10),
        Function::Sin => x.cos(),
        Function::Sinh => x.cosh(),
        Function::Sqrt if x == 0.0 => 0.0,
        Function::Sqrt => 0.5 / y,
        Function::Tan => 1.0 + y * y,
        Function::Tanh => 1.0 - y * y,
        Function::Atan2 | Function::Pow => f64::NAN,
    }
}
