//! Seeded noise, the same on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded sequence.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// In (0, 1].
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, variance 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut random = Random::new(1);
        let n = 20_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let moment = |k: i32| values.iter().map(|v| v.powi(k)).sum::<f64>() / f64::from(n);
        assert!(moment(1).abs() < 0.03 && (moment(2) - 1.0).abs() < 0.04, "{} {}", moment(1), moment(2));
        assert!((moment(4) - 3.0).abs() < 0.3, "{}", moment(4));
    }
}
