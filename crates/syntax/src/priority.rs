// SPDX-License-Identifier: Apache-2.0

//! Priorities of base chains by name (`enum nf_ip_hook_priorities`, `enum nf_br_hook_priorities`).

use penstock_ruleset::model::{Family, Hook};

use crate::datatype::Format;
use crate::release::Release;

/// Farthest distance from a named priority that is listed as an offset to it.
const NEAR: i32 = 10;

/// Names, in the order they are tried.
const NAMES: [&str; 7] = ["raw", "mangle", "dstnat", "filter", "security", "srcnat", "out"];

/// The number that a name stands for in a family and hook; `None` if the name does not fit there.
/// As in nft 1.1, `dstnat` also stands at `output`, and `srcnat` at `input`, where packets are
/// translated, too.
pub fn by_name(name: &str, family: Family, hook: Hook) -> Option<i32> {
    let hook = match (name, hook) {
        _ if family == Family::Bridge => hook,
        ("dstnat", Hook::Output) => Hook::Prerouting,
        ("srcnat", Hook::Input) => Hook::Postrouting,
        _ => hook,
    };
    listed(name, family, hook)
}

/// The number that a name stands for where nft 1.0.6 lists a priority by it.
fn listed(name: &str, family: Family, hook: Hook) -> Option<i32> {
    match family {
        Family::Bridge => match name {
            "dstnat" => (hook == Hook::Prerouting).then_some(-300),
            "filter" => Some(-200),
            "out" => (hook == Hook::Output).then_some(100),
            "srcnat" => (hook == Hook::Postrouting).then_some(300),
            _ => None,
        },
        Family::Ip | Family::Ip6 | Family::Inet => match name {
            "raw" => Some(-300),
            "mangle" => Some(-150),
            "dstnat" => (hook == Hook::Prerouting).then_some(-100),
            "filter" => Some(0),
            "security" => Some(50),
            "srcnat" => (hook == Hook::Postrouting).then_some(100),
            _ => None,
        },
        Family::Arp | Family::Netdev => (name == "filter").then_some(0),
    }
}

/// A priority as it is listed: the nearest name with an offset of at most ten, or a number.
pub fn text(priority: i32, family: Family, hook: Hook, format: &Format) -> String {
    if format.numeric_priority {
        return priority.to_string();
    }
    let number = match format.release {
        Release::V1_0_6 => listed,
        Release::V1_1 => by_name,
    };
    let near = NAMES
        .iter()
        .filter_map(|name| Some((*name, priority.checked_sub(number(name, family, hook)?)?)))
        .filter(|(_, offset)| (-NEAR..=NEAR).contains(offset))
        .min_by_key(|(_, offset)| offset.abs());
    match near {
        None => priority.to_string(),
        Some((name, 0)) => name.to_owned(),
        Some((name, offset)) if offset > 0 => format!("{name} + {offset}"),
        Some((name, offset)) => format!("{name} - {}", -offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_translation_fit_all_hooks_that_translate() {
        for (name, family, hook, expected) in [
            ("dstnat", Family::Ip, Hook::Output, Some(-100)),
            ("srcnat", Family::Inet, Hook::Input, Some(100)),
            ("srcnat", Family::Ip6, Hook::Output, None),
            ("dstnat", Family::Ip, Hook::Forward, None),
            ("dstnat", Family::Bridge, Hook::Output, None),
            ("srcnat", Family::Bridge, Hook::Input, None),
        ] {
            assert_eq!(by_name(name, family, hook), expected, "{name} at {hook:?}");
        }
    }

    #[test]
    fn priorities_within_ten_of_a_name_are_listed_by_it() {
        for (priority, family, hook, expected) in [
            (0, Family::Ip, Hook::Input, "filter"),
            (10, Family::Inet, Hook::Input, "filter + 10"),
            (11, Family::Inet, Hook::Output, "11"),
            (-101, Family::Ip6, Hook::Prerouting, "dstnat - 1"),
            (-100, Family::Ip6, Hook::Output, "-100"),
            (-100, Family::Netdev, Hook::Ingress, "-100"),
            (-290, Family::Bridge, Hook::Postrouting, "-290"),
            (-200, Family::Bridge, Hook::Input, "filter"),
            (300, Family::Bridge, Hook::Output, "300"),
            (-150, Family::Arp, Hook::Input, "-150"),
        ] {
            assert_eq!(text(priority, family, hook, &Format::default()), expected);
        }
        let numeric = Format { numeric_priority: true, ..Format::default() };
        assert_eq!(text(-300, Family::Ip, Hook::Output, &numeric), "-300");
        let later = Format { release: Release::V1_1, ..Format::default() };
        assert_eq!(text(-99, Family::Ip, Hook::Output, &later), "dstnat + 1");
    }
}
