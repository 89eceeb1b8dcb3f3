// SPDX-License-Identifier: Apache-2.0

//! What a rule is translated in, and what is known of it so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::Family;
use crate::ipset::IpSets;

/// What a rule is translated in.
pub struct Place<'a> {
    pub family: Family,
    /// Names of the table's chains in nft.
    pub chains: &'a BTreeMap<String, String>,
    pub sets: &'a IpSets,
    /// Names that several rules call what they remember packets in.
    pub shared: &'a BTreeSet<String>,
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cond {
    /// Matches of nft.
    If(String),
    /// The same, which remember what passed them.
    Remembers(String),
    /// One of these, of which a packet meets one at most.
    Either(Vec<String>),
}

/// A rule that is being translated.
pub struct Rule<'a> {
    pub place: &'a Place<'a>,
    /// The chain, as iptables calls it.
    pub chain: &'a str,
    /// The protocol that all packets of the rule have.
    pub protocol: Option<String>,
    /// Text for people.
    pub comment: Option<String>,
    /// Sets that the rule uses: their names, and how they are declared.
    pub sets: BTreeMap<String, String>,
    /// The number of the rule in its table.
    pub number: usize,
}

impl Rule<'_> {
    /// The name of the IP header in nft.
    pub fn ip(&self) -> &'static str {
        self.place.family.name()
    }

    /// The protocol, if it is one of those with ports.
    pub fn with_ports(&self) -> Result<&str, String> {
        let protocol = self.protocol.as_deref();
        protocol
            .filter(|p| ["tcp", "udp", "udplite", "sctp", "dccp"].contains(p))
            .ok_or_else(|| "it needs -p with a protocol that has ports".to_owned())
    }

    /// The name in nft of a chain of the table.
    pub fn chain_name(&self, name: &str) -> Result<&str, String> {
        let found = self.place.chains.get(name);
        found.map(String::as_str).ok_or_else(|| format!("there is no chain `{name}`"))
    }
}
