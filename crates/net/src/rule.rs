// SPDX-License-Identifier: Apache-2.0

//! Routing policy rules.

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up this table.
    Lookup(u32),
    /// Continue at the rule with this priority.
    Goto(u32),
    /// Do nothing.
    Nop,
    /// Refuse silently.
    Blackhole,
    /// Refuse with "unreachable".
    Unreachable,
    /// Refuse with "prohibited".
    Prohibit,
}

/// A routing rule (`ip rule`). Addresses are numbers as in [`crate::Route`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Lower is asked first.
    pub priority: u32,
    /// `not`: the rule applies where its selectors do not.
    pub invert: bool,
    /// Source prefix.
    pub from: (u128, u8),
    /// Destination prefix.
    pub to: (u128, u8),
    /// TOS, 0 for any.
    pub tos: u8,
    /// Mark and mask; a mask of 0 matches all.
    pub mark: (u32, u32),
    /// Name of the incoming link.
    pub iif: Option<String>,
    /// Its index; 0 where no such link exists, which never matches.
    pub iif_index: u32,
    /// Name of the outgoing link that was asked for.
    pub oif: Option<String>,
    /// Its index.
    pub oif_index: u32,
    /// Transport protocol.
    pub protocol: Option<u8>,
    /// Source ports, both included.
    pub sport: Option<(u16, u16)>,
    /// Destination ports, both included.
    pub dport: Option<(u16, u16)>,
    /// What it does.
    pub action: Action,
    /// Ignore results with prefixes up to this length.
    pub suppress_prefix_length: Option<u8>,
    /// Ignore results that leave by a link of this group.
    pub suppress_group: Option<u32>,
    /// Realms given to what it routes (IPv4).
    pub realm: u32,
}

impl Rule {
    /// A rule for everything.
    pub fn all(priority: u32, action: Action) -> Rule {
        Rule {
            priority,
            invert: false,
            from: (0, 0),
            to: (0, 0),
            tos: 0,
            mark: (0, 0),
            iif: None,
            iif_index: 0,
            oif: None,
            oif_index: 0,
            protocol: None,
            sport: None,
            dport: None,
            action,
            suppress_prefix_length: None,
            suppress_group: None,
            realm: 0,
        }
    }
}
