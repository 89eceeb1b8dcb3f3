// SPDX-License-Identifier: Apache-2.0

//! Random numbers for packets: ports of NAT, identifications of fragments, `meta random`, secrets
//! of cookies.
//!
//! Attackers see some of these numbers and profit from guessing the next one, so they come from a
//! stream cipher (ChaCha with eight rounds, RFC 8439), keyed once by the system (getrandom(2), or
//! random(4) where that is refused). A worker has its own generator: a number costs no lock
//! and no system call. The generator is not recreated after fork(2), since no process that is
//! forked handles packets.
//!
//! A generator with a seed gives the same numbers each time, for runs that repeat.
//!
//! ```
//! use penstock_random::Random;
//!
//! assert_eq!(Random::seeded(7).u64(), Random::seeded(7).u64());
//! assert_ne!(Random::unknown().u64(), Random::unknown().u64());
//! ```

use std::fs::File;
use std::io::{self, Read};

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// 16-bit numbers that are drawn before they are asked for.
const AHEAD: usize = 16;

/// A generator.
#[derive(Debug)]
pub struct Random {
    words: ChaCha8Rng,
    /// Another stream of the same key, for 16-bit numbers.
    halves: ChaCha8Rng,
    ahead: [u16; AHEAD],
    /// Which of them is next.
    next: usize,
}

impl Random {
    /// A generator with unpredictable numbers.
    ///
    /// # Panics
    ///
    /// The system has no random numbers: neither getrandom(2) nor `/dev/urandom` gives any.
    pub fn unknown() -> Self {
        let mut key = [0; 32];
        if let Err(refused) = fill(&mut key) {
            let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
            assert!(
                read.is_ok(),
                "the system has no random numbers: {refused}; /dev/urandom: {read:?}"
            );
        }
        Self::of([ChaCha8Rng::from_seed(key), ChaCha8Rng::from_seed(key)])
    }

    /// One that repeats.
    pub fn seeded(seed: u64) -> Self {
        Self::of([ChaCha8Rng::seed_from_u64(seed), ChaCha8Rng::seed_from_u64(seed)])
    }

    /// Of two generators with the same key.
    fn of([words, mut halves]: [ChaCha8Rng; 2]) -> Self {
        halves.set_stream(1);
        let ahead = std::array::from_fn(|_| halves.next_u32() as u16);
        Random { words, halves, ahead, next: 0 }
    }

    /// Another one, of which the numbers of this one tell nothing.
    pub fn split(&mut self) -> Self {
        let mut key = [0; 32];
        self.words.fill_bytes(&mut key);
        Self::of([ChaCha8Rng::from_seed(key), ChaCha8Rng::from_seed(key)])
    }

    /// Any 16 bits.
    #[inline]
    pub fn u16(&mut self) -> u16 {
        let place = &mut self.ahead[self.next % AHEAD];
        self.next = (self.next + 1) % AHEAD;
        std::mem::replace(place, self.halves.next_u32() as u16)
    }

    /// What [`Random::u16`] will give after `nth` others, to prepare for it: of the next 16 numbers;
    /// a wrong one for those after them.
    #[inline]
    pub fn foretold_u16(&self, nth: usize) -> u16 {
        self.ahead[(self.next + nth) % AHEAD]
    }

    /// Any 32 bits.
    #[inline]
    pub fn u32(&mut self) -> u32 {
        self.words.next_u32()
    }

    /// Any 32 bits but zero.
    #[inline]
    pub fn nonzero_u32(&mut self) -> u32 {
        loop {
            match self.u32() {
                0 => {}
                number => return number,
            }
        }
    }

    /// Any 64 bits.
    #[inline]
    pub fn u64(&mut self) -> u64 {
        self.words.next_u64()
    }
}

/// Fills bytes with getrandom(2).
fn fill(key: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = key.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: the length is that of the bytes.
        let len = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(len) {
            Ok(len) => filled += len,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_version() {
        let mut random = Random::seeded(1);
        let numbers =
            [random.u64(), random.split().u64(), u64::from(random.u32()), u64::from(random.u16())];
        assert_eq!(
            numbers.map(|n| format!("{n:x}")).join(" "),
            "67094cea8ca40db1 4fef0c2ab6bedaae e9e22058 ade7"
        );
    }

    #[test]
    fn numbers_come_as_foretold() {
        let mut random = Random::seeded(3);
        for nth in (0..AHEAD).cycle().take(100) {
            let foretold = random.foretold_u16(nth);
            random.u32();
            (0..nth).for_each(|_| _ = random.u16());
            assert_eq!(random.u16(), foretold);
        }
    }

    #[test]
    fn values_are_uniformly_distributed() {
        let mut random = Random::seeded(2);
        let mut counts = [0u32; 256];
        for _ in 0..256 * 1000 {
            counts[usize::from(random.u16() >> 8)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
