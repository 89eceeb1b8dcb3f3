// SPDX-License-Identifier: Apache-2.0

//! What the dataplanes of several workers share besides the rules: owners of packets, limits, who
//! makes machine code, what bridges have learned, and what ICMP messages said of paths.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_conntrack::Conntrack;
use penstock_random::Random;

use crate::bridge::SharedBridges;
use crate::code::Compiler;
use crate::limit::Limits;
use crate::path_mtus::SharedPathMtus;
use crate::settings::Settings;

/// What the workers of one path share, see [`Dataplane::of_worker`](crate::Dataplane::of_worker).
#[derive(Clone, Debug)]
pub struct Shared {
    tracking: Arc<penstock_conntrack::Shared>,
    limits: [SharedLimits; 2],
    compiler: Compiler,
    bridges: SharedBridges,
    path_mtus: SharedPathMtus,
    secrets: Secrets,
}

/// What strangers must not know, and all workers do.
#[derive(Clone, Copy)]
pub(crate) struct Secrets {
    /// Key of the cookies that answer SYN segments.
    pub(crate) cookies: [u64; 2],
    /// Key of the identifications of IPv4 packets.
    pub(crate) ip_ids: [u64; 2],
    /// Decides which of several queues gets a packet.
    pub(crate) queues: u32,
}

impl Secrets {
    fn new(random: &mut Random) -> Self {
        let mut pair = || [random.u64(), random.u64()];
        Secrets { cookies: pair(), ip_ids: pair(), queues: random.u32() }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Shared {
    /// For so many workers, at most [`WORKERS`](penstock_program::cells::WORKERS).
    pub fn new(workers: usize, settings: &Settings) -> Self {
        let mut random = Random::unknown();
        let tracking = penstock_conntrack::Shared::new(workers, &settings.conntrack, random.u64());
        let (compiler, bridges) = Default::default();
        Shared {
            tracking,
            limits: Default::default(),
            compiler,
            bridges,
            path_mtus: SharedPathMtus::default(),
            secrets: Secrets::new(&mut random),
        }
    }

    /// The owners of packets.
    pub fn tracking(&self) -> &Arc<penstock_conntrack::Shared> {
        &self.tracking
    }
}

/// A worker among several, or alone.
#[derive(Debug)]
pub(crate) struct Member {
    shared: Option<Shared>,
    /// Its number from 0 on.
    pub(crate) number: usize,
    /// Seed of its hash tables.
    pub(crate) seed: u64,
    /// Seed of its random numbers, for reproducible runs.
    repeats: Option<u64>,
    pub(crate) secrets: Secrets,
}

impl Member {
    /// One that is alone, and does the same each time.
    pub(crate) fn alone(seed: u64) -> Self {
        let secrets = Secrets::new(&mut Random::seeded(seed));
        Member { shared: None, number: 0, seed, repeats: Some(seed), secrets }
    }

    /// A single dataplane with unpredictable numbers.
    pub(crate) fn live() -> Self {
        let mut random = Random::unknown();
        let secrets = Secrets::new(&mut random);
        Member { shared: None, number: 0, seed: random.u64(), repeats: None, secrets }
    }

    /// One of several.
    pub(crate) fn of(shared: &Shared, number: usize) -> Self {
        let seed = Random::unknown().u64();
        Member {
            shared: Some(shared.clone()),
            number,
            seed,
            repeats: None,
            secrets: shared.secrets,
        }
    }

    /// Its random numbers.
    pub(crate) fn random(&self) -> Random {
        self.repeats.map_or_else(Random::unknown, Random::seeded)
    }

    /// The first of a worker's numbers out of 2^`bits`, so that no two workers begin with the same.
    pub(crate) fn first_of(&self, bits: u32) -> u64 {
        let workers = self.shared.as_ref().map_or(1, |s| s.tracking.workers());
        ((1u64 << bits) / workers as u64) * self.number as u64
    }

    /// Who makes machine code.
    pub(crate) fn compiler(&self) -> Compiler {
        self.shared.as_ref().map_or_else(Compiler::default, |shared| shared.compiler.clone())
    }

    /// What bridges have learned.
    pub(crate) fn bridges(&self) -> SharedBridges {
        self.shared.as_ref().map_or_else(SharedBridges::default, |shared| shared.bridges.clone())
    }

    /// What ICMP messages said of paths.
    pub(crate) fn path_mtus(&self) -> SharedPathMtus {
        self.shared.as_ref().map_or_else(SharedPathMtus::default, |s| s.path_mtus.clone())
    }

    pub(crate) fn limits(&self) -> [SharedLimits; 2] {
        self.shared.as_ref().map_or_else(Default::default, |s| s.limits.clone())
    }

    pub(crate) fn conntrack(&self, settings: &Settings) -> Conntrack {
        let settings = settings.conntrack.clone();
        match &self.shared {
            Some(shared) => {
                Conntrack::of_worker(settings, self.seed, &shared.tracking, self.number)
            }
            None => Conntrack::with_seed(settings, self.seed),
        }
    }
}

/// Limits on what this host says of packets. Workers take turns: only errors and redirects are
/// counted here.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLimits(Arc<Mutex<Limits>>);

impl SharedLimits {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Limits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
