//! The course of PCG in a linear system: points that it has passed, and the iterations that it is likely to take from there.
//!
//! An iteration brings the less, the later it comes. At first this falls like a power of k, in the end like a power of a constant. So the rate between two points,
//! taken for a constant, tells too early an end more often than too late a one.

/// A point in the course of PCG.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reached {
    /// Iterations so far.
    pub iterations: usize,
    /// Q, the decrease of the model.
    pub q: f64,
    /// |r|^2.
    pub rr: f64,
}

/// The rule by which PCG ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    /// k (Q_k - Q_{k-1}) is at most so much of Q_k.
    Model(f64),
    /// |r|^2 is at most this.
    Residual(f64),
}

/// Points in the course of PCG, the first one first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Course(Vec<Reached>);

/// Iterations at the first point that tells anything.
const FIRST: usize = 4;

/// PCG is not taken to need more than so many times the iterations that it has had.
pub const LONGEST: usize = 16;

impl Course {
    /// Adds a point behind the others.
    pub fn pass(&mut self, at: Reached) {
        self.0.push(at);
    }

    /// Iterations at the next point, at most so many: half as many again as at the last one.
    pub fn next(&self, most: usize) -> usize {
        let last = self.0.last().map_or(0, |at| at.iterations);
        (last + (last / 2).max(FIRST)).min(most)
    }

    /// The last point with at most three quarters of the last one's iterations, else the first one: the rate between both is that of the end.
    pub fn before(&self) -> Option<Reached> {
        let last = self.0.last()?;
        let early = self.0.iter().rev().find(|at| 4 * at.iterations <= 3 * last.iterations);
        early.or(self.0.first()).copied()
    }

    /// Iterations from the last point to the end, if they go on to bring as much less as they did between the last points; at most [`LONGEST`]
    /// times those so far. `None` where there are too few points to tell.
    pub fn left(&self, end: End) -> Option<f64> {
        let [.., a, b, c] = self.0[..] else { return None };
        let [ka, kb, kc] = [a, b, c].map(|at| at.iterations as f64);
        // The gain of an iteration or |r|^2, at two points, and the rate at which it falls.
        let (first, last, between) = match end {
            End::Model(_) => ((b.q - a.q) / (kb - ka), (c.q - b.q) / (kc - kb), (kc - ka) / 2.0),
            End::Residual(_) => (b.rr, c.rr, kc - kb),
        };
        let rate = (first / last).ln() / between;
        let longest = LONGEST * c.iterations;
        if rate.is_nan() || rate <= 0.0 {
            return Some(longest as f64);
        }
        let ends = |left: usize| {
            let share = (-rate * left as f64).exp();
            match end {
                End::Model(zeta) => {
                    let gain = last * (-rate * (kc - kb) / 2.0).exp();
                    (kc + left as f64) * gain * share <= zeta * (c.q + gain * (1.0 - share) / rate)
                }
                End::Residual(bound) => last * share <= bound,
            }
        };
        Some((0..longest).find(|&left| ends(left)).unwrap_or(longest) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The course of a Q whose lack falls by `rate` an iteration, up to `last`; |r|^2 is that lack.
    fn course(rate: f64, last: usize) -> Course {
        let mut course = Course::default();
        loop {
            let k = course.next(last);
            let lack = (-rate * k as f64).exp();
            course.pass(Reached { iterations: k, q: 1.0 - lack, rr: lack });
            if k == last {
                return course;
            }
        }
    }

    #[test]
    fn a_constant_rate_tells_the_end() {
        let of = course(0.02, 60);
        // |r|^2 = e^(-0.02 k) is 1e-6 at k = 691.
        assert_eq!(of.left(End::Residual(1e-6)), Some(631.0));
        let left = of.left(End::Model(0.01)).unwrap();
        // The gain at the middle of an interval is taken to be its mean: off by a little more than one in a hundred.
        let gain = |k: f64| 0.02 * (-0.02 * k).exp();
        let ends = |k: f64| k * gain(k) <= 0.01 * (1.0 - (-0.02 * k).exp());
        let end = (1..).map(f64::from).find(|&k| ends(k)).unwrap();
        assert!((60.0 + left - end).abs() <= 0.02 * end, "{left} {end}");
    }

    #[test]
    fn nobody_looks_further_than_that() {
        assert_eq!(course(1e-9, 50).left(End::Residual(1e-6)), Some(800.0));
        // Nothing is known of what does not fall, or is no number.
        for strange in [f64::NAN, 2.0] {
            let mut of = course(0.02, 50);
            of.pass(Reached { iterations: 75, q: strange, rr: strange });
            assert_eq!(of.left(End::Residual(1e-6)), Some(1200.0));
            assert_eq!(of.left(End::Model(0.01)), Some(1200.0));
        }
        assert_eq!(course(0.02, 8).left(End::Model(0.01)), None);
        // At its end already.
        assert_eq!(course(1.0, 40).left(End::Residual(1e-6)), Some(0.0));
    }

    #[test]
    fn points_lie_farther_and_farther_apart() {
        let of = course(0.02, 100);
        let at: Vec<usize> = of.0.iter().map(|at| at.iterations).collect();
        assert_eq!(at, [4, 8, 12, 18, 27, 40, 60, 90, 100]);
        assert_eq!(of.before().unwrap().iterations, 60);
        assert_eq!(course(0.02, 4).before().unwrap().iterations, 4);
        assert_eq!(Course::default().before(), None);
    }
}
