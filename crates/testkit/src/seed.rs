// SPDX-License-Identifier: Apache-2.0

//! Test RNG seeding. Random tests run the same cases each time, unless the environment asks for
//! others (`PENSTOCK_SEED`) or for more (`PENSTOCK_ROUNDS`).

use fastrand::Rng;

/// Seed of a test: `PENSTOCK_SEED`, otherwise 1. Prints it, so that a failed test can be run again.
pub fn seed() -> u64 {
    let seed = number("PENSTOCK_SEED", 1);
    println!("PENSTOCK_SEED={seed}");
    seed
}

/// Number of random cases of a test: `PENSTOCK_ROUNDS`, otherwise `enough`.
pub fn rounds(enough: usize) -> usize {
    number("PENSTOCK_ROUNDS", enough as u64) as usize
}

/// A number from the environment variable `name`; `default` if it is not set or not a number.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Random choices, for generators of test cases.
pub trait Chance {
    /// Source of the random numbers.
    fn rng(&mut self) -> &mut Rng;

    /// One of the items of `of`, which is not empty.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng().usize(..of.len())]
    }

    /// True with a probability of 1 in `n`.
    fn one_in(&mut self, n: u32) -> bool {
        self.rng().u32(..n) == 0
    }
}

impl Chance for Rng {
    fn rng(&mut self) -> &mut Rng {
        self
    }
}
