// SPDX-License-Identifier: Apache-2.0

//! Helpers that `ct helper` objects may name, and the address families that they serve.

use penstock_conntrack::{HELPERS, Helper};
use penstock_program::{Errno, Family};
use penstock_wire::protocol;

/// Helpers that the kernel has and the packet path has not (`nf_conntrack_h323_main.c`): objects
/// may name them, and rules with these objects do not run.
const KERNELS_ALONE: [(&str, u8); 3] =
    [("Q.931", protocol::TCP), ("RAS", protocol::UDP), ("H.245", protocol::UDP)];

/// The built-in helper of this name for connections of this protocol.
pub fn find(name: &str, l4proto: u8) -> Option<&'static Helper> {
    HELPERS.iter().find(|h| h.name == name && h.protocol == l4proto)
}

/// The address family (`NFPROTO_*`) of a new object in a table of `family`, of which `l3proto` is
/// asked, 0 for the table's. It is what the kernel lists (`nft_ct_helper_obj_init` and
/// `nft_ct_helper_obj_dump` in `net/netfilter/nft_ct.c`): where both families are asked for, the
/// one that the helper serves. For a helper that only the kernel has it is `l3proto` as it stands.
/// `helper` says whether it serves IPv4, and IPv6; it is `None` if there is none of the name.
///
/// # Errors
/// `EINVAL` if a table of one IP family asks for the other one, `ENOENT` if the helper is not there
/// or does not serve the family, `EAFNOSUPPORT` if connections do not have it.
pub(crate) fn l3proto(
    family: Family,
    (name, l4proto): (&str, u8),
    helper: Option<[bool; 2]>,
    l3proto: u16,
) -> Result<u16, Errno> {
    const INET: u16 = Family::Inet as u16;
    const NETDEV: u16 = Family::Netdev as u16;
    const BRIDGE: u16 = Family::Bridge as u16;
    const IP: u16 = Family::Ip as u16;
    const IP6: u16 = Family::Ip6 as u16;
    let Some([ipv4, ipv6]) = helper else {
        return match KERNELS_ALONE.contains(&(name, l4proto)) {
            true => Ok(l3proto),
            false => Err(Errno::Enoent),
        };
    };
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
