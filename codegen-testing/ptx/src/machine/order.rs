//! Orders in which blocks, warps and lanes run.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// An order of threads and blocks. A program without faults computes the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Ascending,
    Descending,
    /// Another one for each seed.
    Shuffled(u64),
}

impl Order {
    /// The order that a number stands for: 0 ascending, 1 descending, others shuffled.
    pub fn of_seed(seed: u64) -> Order {
        match seed {
            0 => Order::Ascending,
            1 => Order::Descending,
            seed => Order::Shuffled(seed),
        }
    }

    /// Numbers below `n` in this order; `salt` tells several lists apart.
    pub fn of(self, n: u32, salt: u64) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n).collect();
        match self {
            Order::Ascending => {}
            Order::Descending => all.reverse(),
            Order::Shuffled(seed) => {
                let mut random = SplitMix64::seed_from_u64(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                for i in (1..all.len()).rev() {
                    all.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
                }
            }
        }
        all
    }
}
