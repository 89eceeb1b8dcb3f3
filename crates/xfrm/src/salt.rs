// SPDX-License-Identifier: Apache-2.0

//! Unpredictable numbers.

use ring::rand::{SecureRandom, SystemRandom};

/// A salt for [`Xfrm::new`](crate::Xfrm::new), from the system.
///
/// # Panics
/// The system has no random numbers.
pub fn random_salt() -> u128 {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("random numbers of the system");
    u128::from_ne_bytes(bytes)
}
