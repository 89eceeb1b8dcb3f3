// SPDX-License-Identifier: Apache-2.0

//! Words of ip(8) in addition to those that all batch files have: prefixes.

use std::net::{IpAddr, Ipv4Addr};

pub(crate) use penstock_iproute2::{Words, address, lines, number, unknown};

/// A prefix as a number with its length, and whether it is IPv6. `default`, `any` and `all` are
/// length 0 of the wanted family. A missing length is the whole address.
pub(crate) fn prefix(text: &str, v6: bool) -> Option<(u128, u8, bool)> {
    if matches!(text, "default" | "any" | "all") {
        return Some((0, 0, v6));
    }
    let (head, len) = match text.split_once('/') {
        Some((head, len)) => (head, Some(len)),
        None => (text, None),
    };
    // `ip` takes IPv4 prefixes with trailing bytes left out: 198.18/15.
    let address = address(head).or_else(|| {
        let bytes: Vec<u8> = head.split('.').map(|p| p.parse().ok()).collect::<Option<_>>()?;
        if bytes.len() >= 4 {
            return None;
        }
        let mut full = [0; 4];
        full[..bytes.len()].copy_from_slice(&bytes);
        Some(Ipv4Addr::from(full).into())
    })?;
    let (value, bits) = match address {
        IpAddr::V4(a) => (u128::from(u32::from(a)), 32),
        IpAddr::V6(a) => (u128::from(a), 128),
    };
    let len = match len {
        None => bits,
        Some(l) => match l.parse::<u8>() {
            Ok(l) if l <= bits => l,
            Ok(_) => return None,
            Err(_) => {
                let mask = u32::from(l.parse::<Ipv4Addr>().ok().filter(|_| bits == 32)?);
                if mask.leading_ones() + mask.trailing_zeros() < 32 && mask != 0 {
                    return None;
                }
                mask.leading_ones() as u8
            }
        },
    };
    Some((value, len, bits == 128))
}
