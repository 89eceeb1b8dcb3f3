// SPDX-License-Identifier: Apache-2.0

//! Who is served at a time: places that only root can take, and places of those who may only look.
//!
//! A stranger is turned away before anything is done for it. Those who may only look have places of
//! their own, of which one user gets some; so whatever they do, root finds a place. The kernel says
//! who asks, so it is the same by whatever socket a client comes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_lang::session::NOT_PERMITTED;
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use super::protocol::LONGEST;

/// Places of root: programs under `penstock exec` have one for each.
const ROOTS: usize = 256;
/// Places of those who may only look.
const LOOKERS: usize = 32;
/// Places of one user of them.
const EACH: usize = 8;
/// Descriptors that a client takes: its connection, files with names, and what changes are
/// evaluated with.
const DESCRIPTORS: usize = 6;
/// Minimum of root's places, even with few descriptors.
const FEWEST: usize = 4;

/// What a client may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rights {
    /// Everything.
    All,
    /// List, show, and have a change checked.
    Look,
}

/// Longest message of a client that may only look: only what changes a ruleset is long.
pub(crate) const SHORT: usize = 64 << 10;

impl Rights {
    /// Bytes of the longest message of such a client.
    pub(crate) fn longest(self) -> usize {
        match self {
            Rights::All => LONGEST,
            Rights::Look => SHORT,
        }
    }
}

/// All places.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Others than root may look.
    readers: AtomicBool,
    roots: usize,
    lookers: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    roots: usize,
    /// Users who may only look, an entry for each place that they have.
    lookers: Vec<u32>,
}

/// A client's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    of: Arc<Admission>,
    user: u32,
    pub(crate) rights: Rights,
}

impl Admission {
    /// Sizes the places by the descriptors: `spare` of them are available for clients.
    pub(crate) fn new(readers: bool, spare: usize) -> Arc<Self> {
        let clients = spare / DESCRIPTORS;
        let lookers = LOOKERS.min(clients / 3);
        let roots = ROOTS.min(clients - lookers).max(FEWEST);
        let readers = AtomicBool::new(readers);
        Arc::new(Admission { readers, roots, lookers, taken: Mutex::default() })
    }

    /// Others than root may look from now on, or not. Those who have a place keep it.
    pub(crate) fn set_readers(&self, readers: bool) {
        self.readers.store(readers, Relaxed);
    }

    /// Gives a place to a client, who has those rights at most by the socket that it came by.
    ///
    /// # Errors
    /// There is none for it: a sentence.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: Peer,
        most: Rights,
    ) -> Result<Admitted, &'static str> {
        const TOO_MANY: &str = "too many clients";
        let place = |rights| Admitted { of: self.clone(), user: peer.user, rights };
        if most == Rights::All && peer.is_trusted() {
            let mut taken = self.taken();
            if taken.roots >= self.roots {
                return Err(TOO_MANY);
            }
            taken.roots += 1;
            return Ok(place(Rights::All));
        }
        if !self.readers.load(Relaxed) {
            return Err(NOT_PERMITTED);
        }
        let mut taken = self.taken();
        let own = taken.lookers.iter().filter(|user| **user == peer.user).count();
        if own >= EACH || taken.lookers.len() >= self.lookers {
            return Err(TOO_MANY);
        }
        taken.lookers.push(peer.user);
        Ok(place(Rights::Look))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        match self.rights {
            Rights::All => taken.roots -= 1,
            Rights::Look => {
                if let Some(place) = taken.lookers.iter().position(|user| *user == self.user) {
                    taken.lookers.swap_remove(place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many of a user ask at once; how many places they get.
    fn flood(of: &Arc<Admission>, user: u32, many: usize) -> Vec<Admitted> {
        (0..many).filter_map(|_| of.admit(Peer { process: 1, user }, Rights::All).ok()).collect()
    }

    #[test]
    fn unauthorised_users_get_no_connection_slot() {
        let of = Admission::new(false, 10_000);
        let refused =
            of.admit(Peer { process: 1, user: 65534 }, Rights::All).expect_err("it is a stranger");
        assert_eq!(refused, NOT_PERMITTED);
        assert_eq!(flood(&of, 0, 2 * ROOTS).len(), ROOTS);
    }

    #[test]
    fn a_flooding_user_leaves_slots_for_others() {
        let of = Admission::new(true, 10_000);
        let mut all: Vec<Vec<Admitted>> = (1000..1003).map(|user| flood(&of, user, 100)).collect();
        assert!(all.iter().all(|places| places.len() == EACH));
        assert_eq!(flood(&of, 0, 20).len(), 20);
        let others = flood(&of, 7, 100);
        assert_eq!(others.len(), EACH, "one user does not take all places");
        assert_eq!(flood(&of, 8, 1).len(), 0, "all places of those who look are taken");
        assert_eq!(flood(&of, 0, 2 * ROOTS).len(), ROOTS);
        all.remove(0);
        assert_eq!(flood(&of, 8, 100).len(), EACH, "places are given back");
    }

    #[test]
    fn slots_shrink_with_the_descriptor_limit() {
        for (spare, roots, lookers) in [(10_000, ROOTS, 32), (120, 14, 6), (0, FEWEST, 0)] {
            let of = Admission::new(true, spare);
            assert_eq!((of.roots, of.lookers), (roots, lookers), "{spare}");
        }
    }
}
