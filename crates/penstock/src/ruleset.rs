// SPDX-License-Identifier: Apache-2.0

//! Rulesets, and rulesets made ready to run.

use std::sync::Arc;

use penstock_lang::datatype::Format;
use penstock_lang::json::to_text;
use penstock_lang::listing::{Listing, json};
use penstock_ruleset::Generation;
use penstock_ruleset::link::Linked;
use penstock_state::State;

use crate::names::NetworkNames;
use crate::{Counter, Error, Network, RulesetError, counter};

/// A ruleset: tables with chains, rules, sets, maps, objects and flowtables.
///
/// Clones are the same rules with the same counters, sets and quotas: what packets change in one is
/// seen in the other. What a [`Session`](crate::Session) changes is not.
#[derive(Clone, Debug)]
pub struct Ruleset {
    pub(crate) inner: penstock_ruleset::Ruleset,
    pub(crate) names: Arc<NetworkNames>,
}

impl Ruleset {
    /// A ruleset without tables, in which rules may name the devices of a network.
    pub fn empty(network: &Network) -> Self {
        let names = Arc::new(NetworkNames::new(network.inner.clone(), true));
        Ruleset { inner: penstock_ruleset::Ruleset::default(), names }
    }

    /// Takes the ruleset of a state file (of `penstock up --state`, `penstock nft --state`, or
    /// [`Ruleset::to_state`]), with what packets have changed in it, at a time in nanoseconds since
    /// the epoch.
    ///
    /// # Errors
    /// [`Error::State`].
    pub fn from_state(network: &Network, bytes: &[u8], now: u64) -> Result<Self, Error> {
        let state = State::from_bytes_at(bytes, now)
            .map_err(|broken| Error::State { at: broken.at, reason: broken.reason })?;
        Ok(Ruleset { inner: state.ruleset, ..Ruleset::empty(network) })
    }

    /// The ruleset as bytes that [`Ruleset::from_state`] and `penstock nft --state` read, with
    /// counters and elements as they are at a time in nanoseconds since the epoch.
    pub fn to_state(&self, now: u64) -> Vec<u8> {
        State { ruleset: self.inner.clone(), ..State::default() }.to_bytes(now)
    }

    /// The ruleset as `nft list ruleset` prints it, with counters and elements as they are at a
    /// time in nanoseconds since the epoch.
    pub fn to_text(&self, now: u64) -> String {
        self.listing(&self.inner.generation(), now, Format::default()).ruleset(None)
    }

    /// The ruleset as `nft -j list ruleset` prints it, without an end of line.
    pub fn to_json(&self, now: u64) -> String {
        to_text(&json::ruleset(
            &self.listing(&self.inner.generation(), now, Format::default()),
            None,
        ))
    }

    /// All counters: of each table the named ones, and then those of rules in order.
    pub fn counters(&self) -> Vec<Counter> {
        let format = Format { stateless: true, ..Format::default() };
        counter::all(&self.listing(&self.inner.generation(), 0, format))
    }

    /// Makes it ready to run. What takes time is done here: a thread that has no packets to pass
    /// may call this, and hand the result to one that has.
    ///
    /// # Errors
    /// [`Error::Ruleset`]: something in it cannot run here. Texts with such rules are refused when
    /// they are read; only states from elsewhere can have them.
    pub fn link(&self) -> Result<Rules, Error> {
        let generation = self.inner.generation();
        let linked = Linked::new(&generation)
            .map_err(|error| RulesetError::new(format!("Error: {error}"), Vec::new()))?;
        Ok(Rules::new(linked, generation, self.names.clone()))
    }

    fn listing<'a>(&'a self, generation: &'a Generation, now: u64, format: Format) -> Listing<'a> {
        Listing { generation, format, names: &*self.names, now }
    }
}

/// A ruleset made ready to run. Clones are the same.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) linked: Arc<Linked>,
    pub(crate) generation: Arc<Generation>,
    pub(crate) names: Arc<NetworkNames>,
}

impl Rules {
    pub(crate) fn new(
        linked: Linked,
        generation: Arc<Generation>,
        names: Arc<NetworkNames>,
    ) -> Self {
        linked.image.build_lookups();
        Rules { linked: Arc::new(linked), generation, names }
    }

    /// Counts commits: a ruleset that was changed has a greater number.
    pub fn generation(&self) -> u32 {
        self.generation.id
    }
}
