// SPDX-License-Identifier: Apache-2.0

//! Names of rules in profiles and maps.

use penstock_program::Image;
use penstock_program::image::RuleIndex;

/// The words that name a rule: family, table, chain and handle.
pub fn rule_name(image: &Image, rule: RuleIndex) -> String {
    match image.place(rule) {
        Some((nfproto, table, chain, handle)) => {
            let family = match nfproto {
                1 => "inet",
                2 => "ip",
                3 => "arp",
                7 => "bridge",
                10 => "ip6",
                _ => "netdev",
            };
            format!("{family} {table} {chain} handle {handle}")
        }
        None => format!("rule {}", rule.0),
    }
}
