// SPDX-License-Identifier: Apache-2.0

//! What IPv6 addresses mean by themselves. Addresses are numbers in host order.

/// Scope of all hosts, of [`scope`] and [`usual_scope`].
pub(crate) const GLOBAL: u8 = 14;

/// Whether an address means something on one link only (`rt6_need_strict()`): groups, link-local,
/// loopback.
#[inline]
pub const fn needs_device(address: u128) -> bool {
    address >> 120 == 0xff || is_link_local(address) || address == 1
}

/// Whether a unicast address is link-local.
#[inline]
pub const fn is_link_local(address: u128) -> bool {
    address >> 118 == 0x3fa
}

/// Scope as `ipv6_addr_src_scope()` has it: 1 interface, 2 link, 5 site, 14 global, and all others
/// of groups.
pub(crate) fn scope(address: u128) -> u8 {
    let top = (address >> 112) as u16;
    if top >> 8 == 0xff {
        (top & 0xf) as u8
    } else if is_link_local(address) || address == 1 {
        2
    } else if top & 0xffc0 == 0xfec0 {
        5
    } else {
        GLOBAL
    }
}

/// Scope as `ipv6_addr_scope()` has it: 1 interface, 2 link, 5 site; all others count as global.
pub(crate) fn usual_scope(address: u128) -> u8 {
    match scope(address) {
        scope @ (1 | 2 | 5) => scope,
        _ => GLOBAL,
    }
}
