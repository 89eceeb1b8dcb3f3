// SPDX-License-Identifier: Apache-2.0

//! What iptables-save(8), ip6tables-save(8) and ipset(8) print, as a ruleset of nftables that treats
//! packets alike.
//!
//! Nothing is guessed: a rule that has no equal is left out, and listed with the reason. What
//! matches are is known from `iptables-extensions(8)` and `net/netfilter/xt_*.c`.
//!
//! ```
//! let save = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
//! let translated = penstock_translate::translate(&[("rules.v4", save)], None).unwrap();
//! assert!(translated.left_out.is_empty());
//! assert!(translated.text.contains("tcp dport 22 counter packets 0 bytes 0 accept"));
//! ```

mod args;
mod chains;
mod context;
mod ipset;
mod matches;
mod nat;
mod protocol;
mod rule;
mod save;
mod targets;
mod words;

use std::fmt;

use ipset::IpSets;

/// The family of iptables rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Of `iptables`.
    Ip4,
    /// Of `ip6tables`.
    Ip6,
}

impl Family {
    /// As nft calls its tables and headers.
    fn name(self) -> &'static str {
        match self {
            Family::Ip4 => "ip",
            Family::Ip6 => "ip6",
        }
    }
}

/// A ruleset of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// For `nft -f`. What was left out stands there as comments.
    pub text: String,
    /// What has no equal, in the order of the files.
    pub left_out: Vec<LeftOut>,
}

/// A line that is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file, as it was given.
    pub file: String,
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: left out: {}: {}", self.file, self.line, self.text, self.reason)
    }
}

/// What a text is, by its first lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `iptables-save` or `ip6tables-save`.
    Iptables,
    /// Of `ebtables-save`.
    Ebtables,
    /// Of `ipset save`.
    Ipset,
}

/// What a text is, if it is something that belongs to x_tables.
pub fn kind(text: &str) -> Option<Kind> {
    let is_ebtables = text.lines().take(3).any(|line| line.contains("ebtables-save"));
    let first =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let mut words = first.split_whitespace();
    match (words.next()?, words.next(), words.next()) {
        (table, None, None) if save::is_table(table) => {
            let is_ebtables = is_ebtables || table == "*broute";
            Some(if is_ebtables { Kind::Ebtables } else { Kind::Iptables })
        }
        ("create", Some(_), Some(kind)) if kind.contains(':') => Some(Kind::Ipset),
        _ => None,
    }
}

/// Translates the files of a host together: sets of one may be used by rules of another. `family`
/// is that of rules where the file does not tell.
///
/// # Errors
/// A file is none of these, or breaks off: `FILE:LINE: Error: …`.
pub fn translate(files: &[(&str, &str)], family: Option<Family>) -> Result<Translation, String> {
    let mut sets = IpSets::default();
    let mut tables = Vec::new();
    let mut left_out = Vec::new();
    for (name, text) in files {
        match kind(text) {
            Some(Kind::Ipset) => sets.read(name, text, &mut left_out)?,
            Some(Kind::Iptables) => tables.extend(save::read(name, text, family)?),
            Some(Kind::Ebtables) => {
                return Err(format!(
                    "{name}:1: Error: rules of ebtables are not translated: `ebtables-translate` \
                     does it, a rule at a time"
                ));
            }
            None => {
                return Err(format!(
                    "{name}:1: Error: this is not what `iptables-save`, `ip6tables-save` or `ipset \
                     save` print"
                ));
            }
        }
    }
    let text = chains::tables(&tables, &sets, &mut left_out);
    Ok(Translation { text, left_out })
}
