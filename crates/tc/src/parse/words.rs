// SPDX-License-Identifier: Apache-2.0

//! The words of tc(8): rates, sizes, times, handles.

pub(super) use penstock_iproute2::{Words, lines, number, unknown};

use crate::rate::Rate;

/// `VALUE` or `VALUE/MASK`.
pub(super) fn masked<T: Copy>(
    text: &str,
    all: T,
    read: impl Fn(&str) -> Option<T>,
) -> Option<(T, T)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((read(value)?, read(mask)?)),
        None => Some((read(text)?, all)),
    }
}

/// The number before a unit, and the unit.
fn with_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

/// A rate: bits per second unless the unit says `bps`, which are bytes (`get_rate64()`).
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (number, unit) = with_unit(text)?;
    let unit = unit.to_ascii_lowercase();
    let (scale, bits) = match unit
        .strip_suffix("bps")
        .map(|s| (s, false))
        .or(unit.strip_suffix("bit").map(|s| (s, true)))
    {
        Some((scale, bits)) => (scale, bits),
        None => (&*unit, true),
    };
    let factor = match scale {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024f64.powi(2),
        "gi" => 1024f64.powi(3),
        "ti" => 1024f64.powi(4),
        _ => return None,
    };
    let bytes = number * factor / if bits { 8.0 } else { 1.0 };
    (bytes >= 1.0).then_some(Rate(bytes as u64))
}

/// A size in bytes; `k` and its like are powers of 1024 (`get_size()`).
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1024.0,
        "m" | "mb" => 1024f64.powi(2),
        "g" | "gb" => 1024f64.powi(3),
        "bit" => 1.0 / 8.0,
        "kbit" => 1024.0 / 8.0,
        "mbit" => 1024f64.powi(2) / 8.0,
        "gbit" => 1024f64.powi(3) / 8.0,
        _ => return None,
    };
    Some((number * factor) as u64)
}

/// A time in nanoseconds; without unit it is microseconds (`get_time()`).
pub(super) fn time(text: &str) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" => 1e9,
        "ms" | "msec" | "msecs" => 1e6,
        "" | "us" | "usec" | "usecs" => 1e3,
        "ns" | "nsec" | "nsecs" => 1.0,
        _ => return None,
    };
    Some((number * factor) as u64)
}

/// A handle of a queueing discipline or a class: `10:` or `1:2`, hexadecimal, or `root`.
pub(super) fn class(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let part =
        |text: &str| if text.is_empty() { Some(0) } else { u16::from_str_radix(text, 16).ok() };
    Some(u32::from(part(major)?) << 16 | u32::from(part(minor)?))
}

/// An ethertype by name or number, as `protocol` and `vlan_ethtype` take it.
pub(super) fn ethertype(text: &str) -> Option<u16> {
    Some(match text.to_ascii_lowercase().as_str() {
        "all" => crate::config::ALL,
        "ip" | "ipv4" => 0x0800,
        "ipv6" => 0x86dd,
        "arp" => 0x0806,
        "802.1q" => 0x8100,
        "802.1ad" => 0x88a8,
        "ppp_ses" => 0x8864,
        "ppp_disc" => 0x8863,
        "mpls_uc" => 0x8847,
        other => {
            return other
                .strip_prefix("0x")
                .map_or_else(|| number(other), |h| u16::from_str_radix(h, 16).ok());
        }
    })
}

/// A transport protocol by name or number.
pub(super) fn ip_protocol(text: &str) -> Option<u8> {
    Some(match text {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "icmpv6" => 58,
        "sctp" => 132,
        "udplite" => 136,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        other => return number(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_units_of_tc() {
        assert_eq!(rate("1mbit"), Some(Rate(125_000)));
        assert_eq!(rate("1MBps"), Some(Rate(1_000_000)));
        assert_eq!(rate("8kibit"), Some(Rate(1024)));
        assert_eq!((rate("fast"), rate("0")), (None, None));
        assert_eq!(
            (size("10kb"), size("1500"), size("1mb"), size("8kbit")),
            (Some(10240), Some(1500), Some(1 << 20), Some(1024))
        );
        assert_eq!(
            (time("50ms"), time("7"), time("1s")),
            (Some(50_000_000), Some(7_000), Some(1_000_000_000))
        );
        assert_eq!(
            (class("1:"), class("1:10"), class("ffff:fff3")),
            (Some(0x10000), Some(0x10010), Some(0xffff_fff3))
        );
    }
}
