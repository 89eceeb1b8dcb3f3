// SPDX-License-Identifier: Apache-2.0

//! Why and where a packet was dropped.

use std::fmt;

use penstock_dataplane::DropEvent;
use penstock_ruleset::Family;
use serde::Serialize;

use crate::rules::{Named, Written, WrittenRules};

/// Why packets were dropped, and by which rule or policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    reason: &'static str,
    #[serde(flatten)]
    place: Option<Place>,
}

/// The rule or policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    family: &'static str,
    table: String,
    chain: String,
    /// Of the rule; `None` for a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<u64>,
    #[serde(flatten)]
    rule: Option<Written>,
}

impl Place {
    /// A rule of a chain, with what is known of the rules; without a handle, the chain's policy.
    pub fn new(
        (family, table, chain): (Family, &str, &str),
        handle: Option<u64>,
        rules: Option<&WrittenRules>,
    ) -> Self {
        let rule = rules.zip(handle).and_then(|(rules, handle)| rules.rule(family, table, handle));
        Place {
            family: family.name(),
            table: table.to_owned(),
            chain: chain.to_owned(),
            handle,
            rule: rule.cloned(),
        }
    }
}

impl Dropped {
    /// What an event says, with what is known of the rules.
    pub fn of(drop: &DropEvent<'_>, rules: Option<&WrittenRules>) -> Self {
        let place = drop.place.as_ref();
        let place = place.map(|at| Place::new((at.family, at.table, at.chain), at.rule, rules));
        Dropped { reason: drop.reason.text(), place }
    }
}

impl Dropped {
    /// The reason alone, as counters call it.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Handle of the rule that did it, where one did.
    pub fn handle(&self) -> Option<u64> {
        self.place.as_ref()?.handle
    }
}

impl fmt::Display for Dropped {
    /// `rule: inet filter forward handle 12 at rules.nft:9: tcp dport 22 drop`,
    /// `policy: inet filter forward`, `no route`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        self.place.iter().try_for_each(|place| write!(f, ": {place}"))
    }
}

impl fmt::Display for Place {
    /// `inet filter forward handle 12 at rules.nft:9: tcp dport 22 drop`, `inet filter forward`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { family, table, chain, handle, rule } = self;
        write!(f, "{family} {table} {chain}")?;
        if let Some(handle) = handle {
            write!(f, " handle {handle}")?;
        }
        rule.as_ref().map_or(Ok(()), |rule| Named(rule).fmt(f))
    }
}
