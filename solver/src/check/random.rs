//! A small seeded generator: certificates must be the same on every machine.

/// The next number of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seeded numbers.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// From 0 inclusive to 1 exclusive.
    pub fn uniform(&mut self) -> f64 {
        (splitmix64(&mut self.0) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// `n` numbers from -1 to 1: the direction of a check that was given none.
pub fn seeded_direction(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..n).map(|_| 2.0 * random.uniform() - 1.0).collect()
}
