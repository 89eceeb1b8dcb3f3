// SPDX-License-Identifier: Apache-2.0

//! Helpers that `ct helper` objects may name, and the address families that they serve.

use penstock_program::{Errno, Family};

/// A helper of connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtHelper {
    /// The name in `ct helper` objects.
    pub name: &'static str,
    /// IP protocol number of its connections.
    pub l4proto: u8,
    /// Whether it serves IPv6, too. All serve IPv4.
    pub ipv6: bool,
}

/// Helpers that the packet path has.
pub const HELPERS: [CtHelper; 11] = [
    CtHelper { name: "ftp", l4proto: 6, ipv6: true },
    CtHelper { name: "tftp", l4proto: 17, ipv6: true },
    CtHelper { name: "irc", l4proto: 6, ipv6: false },
    CtHelper { name: "amanda", l4proto: 17, ipv6: true },
    CtHelper { name: "netbios-ns", l4proto: 17, ipv6: false },
    CtHelper { name: "snmp", l4proto: 17, ipv6: false },
    CtHelper { name: "sane", l4proto: 6, ipv6: true },
    CtHelper { name: "pptp", l4proto: 6, ipv6: false },
    CtHelper { name: "sip", l4proto: 17, ipv6: true },
    CtHelper { name: "sip", l4proto: 6, ipv6: true },
    CtHelper { name: "snmp_trap", l4proto: 17, ipv6: false },
];

/// The helper of this name for connections of this protocol.
pub fn find(name: &str, l4proto: u8) -> Option<&'static CtHelper> {
    HELPERS.iter().find(|h| h.name == name && h.l4proto == l4proto)
}

/// The address family (`NFPROTO_*`) of a new object in a table of `family`, of which `l3proto` is
/// asked, 0 for the table's. It is what the kernel lists (`nft_ct_helper_obj_init` and
/// `nft_ct_helper_obj_dump` in `net/netfilter/nft_ct.c`): where both families are asked for, the
/// one that the helper serves. For a helper that is not there it is `l3proto` as it stands.
///
/// # Errors
/// `EINVAL` if a table of one IP family asks for the other one, `ENOENT` if the helper does not
/// serve the family, `EAFNOSUPPORT` if connections do not have it.
pub(crate) fn l3proto(family: Family, name: &str, l4proto: u8, l3proto: u16) -> Result<u16, Errno> {
    const INET: u16 = Family::Inet as u16;
    const NETDEV: u16 = Family::Netdev as u16;
    const BRIDGE: u16 = Family::Bridge as u16;
    const IP: u16 = Family::Ip as u16;
    const IP6: u16 = Family::Ip6 as u16;
    let Some(helper) = find(name, l4proto) else { return Ok(l3proto) };
    let asked = if l3proto == 0 { family as u16 } else { l3proto };
    match asked {
        IP if family == Family::Ip6 => Err(Errno::Einval),
        IP6 if family == Family::Ip => Err(Errno::Einval),
        IP6 if !helper.ipv6 => Err(Errno::Enoent),
        IP | IP6 => Ok(asked),
        INET | NETDEV | BRIDGE => Ok(if helper.ipv6 { INET } else { IP }),
        _ => Err(Errno::Eafnosupport),
    }
}
