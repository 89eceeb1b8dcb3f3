// SPDX-License-Identifier: Apache-2.0

//! Helpers that `ct helper` objects may name, and the address families that they serve.

use penstock_conntrack::{HELPERS, Helper};
use penstock_program::{Errno, Family};

/// The built-in helper of this name for connections of this protocol.
pub fn find(name: &str, l4proto: u8) -> Option<&'static Helper> {
    HELPERS.iter().find(|h| h.name == name && h.protocol == l4proto)
}

/// The address family (`NFPROTO_*`) of a new object in a table of `family`, of which `l3proto` is
/// asked, 0 for the table's. It is what the kernel lists (`nft_ct_helper_obj_init` and
/// `nft_ct_helper_obj_dump` in `net/netfilter/nft_ct.c`): where both families are asked for, the
/// one that the helper serves. For a helper that is not there it is `l3proto` as it stands.
/// `helper` says whether it serves IPv4, and IPv6.
///
/// # Errors
/// `EINVAL` if a table of one IP family asks for the other one, `ENOENT` if the helper does not
/// serve the family, `EAFNOSUPPORT` if connections do not have it.
pub(crate) fn l3proto(
    family: Family,
    helper: Option<[bool; 2]>,
    l3proto: u16,
) -> Result<u16, Errno> {
    const INET: u16 = Family::Inet as u16;
    const NETDEV: u16 = Family::Netdev as u16;
    const BRIDGE: u16 = Family::Bridge as u16;
    const IP: u16 = Family::Ip as u16;
    const IP6: u16 = Family::Ip6 as u16;
    let Some([ipv4, ipv6]) = helper else { return Ok(l3proto) };
    let asked = if l3proto == 0 { family as u16 } else { l3proto };
    match asked {
        IP if family == Family::Ip6 => Err(Errno::Einval),
        IP6 if family == Family::Ip => Err(Errno::Einval),
        IP if !ipv4 => Err(Errno::Enoent),
        IP6 if !ipv6 => Err(Errno::Enoent),
        IP | IP6 => Ok(asked),
        INET | NETDEV | BRIDGE => Ok(match (ipv4, ipv6) {
            (true, true) => INET,
            (true, false) => IP,
            _ => IP6,
        }),
        _ => Err(Errno::Eafnosupport),
    }
}
