// SPDX-License-Identifier: Apache-2.0

//! Where chance begins in tests, and how much of it there is: the same each time, so that a test
//! that passed passes again, unless the environment asks for other cases or for more of them.

use fastrand::Rng;

/// Where random numbers begin: `PENSTOCK_SEED`, otherwise 1. It is printed, for a test that fails
/// to be run again.
pub fn seed() -> u64 {
    let seed = number("PENSTOCK_SEED", 1);
    println!("PENSTOCK_SEED={seed}");
    seed
}

/// How many random cases a test makes: `PENSTOCK_ROUNDS`, otherwise what it thinks is enough.
pub fn rounds(enough: usize) -> usize {
    number("PENSTOCK_ROUNDS", enough as u64) as usize
}

/// A number that the environment may set, otherwise `default`; what is no number counts as not set.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Draws from tables of parts, for what makes cases by chance.
pub trait Chance {
    /// Where the draws come from.
    fn rng(&mut self) -> &mut Rng;

    /// One of these.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng().usize(..of.len())]
    }

    /// Whether what happens once in `n` times happens.
    fn one_in(&mut self, n: u32) -> bool {
        self.rng().u32(..n) == 0
    }
}

impl Chance for Rng {
    fn rng(&mut self) -> &mut Rng {
        self
    }
}
