//! What the dataplanes of several workers have in common beside the rules: whose a packet is, limits, who makes machine code, and
//! what bridges have learned.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_conntrack::Conntrack;

use crate::bridge::SharedBridges;
use crate::code::Compiler;
use crate::limit::Limits;
use crate::settings::Settings;

/// What the workers of one path share, see [`Dataplane::of_worker`](crate::Dataplane::of_worker).
#[derive(Clone, Debug)]
pub struct Shared {
    tracking: Arc<penstock_conntrack::Shared>,
    limits: [SharedLimits; 2],
    compiler: Compiler,
    bridges: SharedBridges,
    seed: u64,
}

impl Shared {
    /// For so many workers, at most [`WORKERS`](penstock_program::cells::WORKERS).
    pub fn new(workers: usize, settings: &Settings) -> Self {
        let seed = unknown_seed();
        let tracking = penstock_conntrack::Shared::new(workers, &settings.conntrack, seed);
        let (compiler, bridges) = Default::default();
        Shared { tracking, limits: Default::default(), compiler, bridges, seed }
    }

    /// Whose packets are.
    pub fn tracking(&self) -> &Arc<penstock_conntrack::Shared> {
        &self.tracking
    }
}

/// A seed that nobody knows: from the system's random numbers.
pub(crate) fn unknown_seed() -> u64 {
    RandomState::new().hash_one(0u64)
}

/// A worker among several, or alone.
#[derive(Debug)]
pub(crate) struct Member {
    shared: Option<Shared>,
    /// Its number from 0 on.
    pub(crate) number: usize,
    /// Of its random numbers.
    pub(crate) seed: u64,
}

impl Member {
    /// One that is alone.
    pub(crate) fn alone(seed: u64) -> Self {
        Member { shared: None, number: 0, seed }
    }

    /// One of several.
    pub(crate) fn of(shared: &Shared, number: usize) -> Self {
        let seed = fastrand::Rng::with_seed(shared.seed ^ (number as u64 + 1)).u64(..);
        Member { shared: Some(shared.clone()), number, seed }
    }

    /// The first of a worker's numbers out of 2^`bits`, so that no two workers begin with the same.
    pub(crate) fn first_of(&self, bits: u32) -> u64 {
        let workers = self.shared.as_ref().map_or(1, |s| s.tracking.workers());
        ((1u64 << bits) / workers as u64) * self.number as u64
    }

    /// Of random numbers that are the same for all workers.
    pub(crate) fn common_seed(&self) -> u64 {
        self.shared.as_ref().map_or(self.seed, |shared| shared.seed)
    }

    /// What nobody may guess, and all workers know, comes from this.
    pub(crate) fn secrets(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.shared.as_ref().map_or_else(unknown_seed, |shared| shared.seed))
    }

    /// Who makes machine code.
    pub(crate) fn compiler(&self) -> Compiler {
        self.shared.as_ref().map_or_else(Compiler::default, |shared| shared.compiler.clone())
    }

    /// What bridges have learned.
    pub(crate) fn bridges(&self) -> SharedBridges {
        self.shared.as_ref().map_or_else(SharedBridges::default, |shared| shared.bridges.clone())
    }

    pub(crate) fn limits(&self) -> [SharedLimits; 2] {
        self.shared.as_ref().map_or_else(Default::default, |s| s.limits.clone())
    }

    pub(crate) fn conntrack(&self, settings: &Settings) -> Conntrack {
        let settings = settings.conntrack.clone();
        match &self.shared {
            Some(shared) => Conntrack::of_worker(settings, self.seed, &shared.tracking, self.number),
            None => Conntrack::with_seed(settings, self.seed),
        }
    }
}

/// Limits on what this host says of packets. Workers take turns: only errors and redirects are counted here.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLimits(Arc<Mutex<Limits>>);

impl SharedLimits {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Limits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
