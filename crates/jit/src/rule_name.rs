// SPDX-License-Identifier: Apache-2.0

//! Names of rules in profiles and maps.

use penstock_program::Image;
use penstock_program::image::RuleIndex;

/// The words that name a rule: family, table, chain and handle.
pub fn rule_name(image: &Image, rule: RuleIndex) -> String {
    match image.place(rule) {
        Some((family, table, chain, handle)) => {
            format!("{} {table} {chain} handle {handle}", family.name())
        }
        None => format!("rule {}", rule.0),
    }
}
