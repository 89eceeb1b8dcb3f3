//! Where chance begins in tests, and how much of it there is: the same each time, so that a test that passed passes
//! again, unless the environment asks for other cases or for more of them.

/// Where random numbers begin: `PENSTOCK_SEED`, otherwise 1. It is printed, for a test that fails to be run again.
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
