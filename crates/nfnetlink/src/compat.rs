// SPDX-License-Identifier: Apache-2.0

//! The subsystem nft_compat (`net/netfilter/nft_compat.c`): iptables-nft asks which extensions of
//! x_tables there are, and in which revisions.

use penstock_ruleset::{Errno, Family};

use crate::message::{Check, Failure, Message, Policy, Writer, flags};

/// `NFNL_SUBSYS_NFT_COMPAT`
pub const SUBSYSTEM: u8 = 11;
/// `NFNL_MSG_COMPAT_GET`
const GET: u8 = 0;
const NFTA_COMPAT_NAME: u16 = 1;
const NFTA_COMPAT_REV: u16 = 2;
const NFTA_COMPAT_TYPE: u16 = 3;
/// `XT_EXTENSION_MAXNAMELEN`
const NAME_MAX: usize = 29;
/// The program asks for a revision that is not there.
const EPROTONOSUPPORT: i32 = 93;

/// `nfnl_compat_policy_get`
const POLICY: Policy = &[
    (NFTA_COMPAT_NAME, Check::NulString(NAME_MAX)),
    (NFTA_COMPAT_REV, Check::U32),
    (NFTA_COMPAT_TYPE, Check::U32),
];

/// Families that have an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// All (`NFPROTO_UNSPEC`).
    All,
    Ip,
    Ip6,
    /// IPv4 and IPv6.
    Both,
    Bridge,
    Arp,
}

impl Of {
    fn has(self, family: Family) -> bool {
        match self {
            Of::All => true,
            Of::Ip => family == Family::Ip,
            Of::Ip6 => family == Family::Ip6,
            Of::Both => matches!(family, Family::Ip | Family::Ip6),
            Of::Bridge => family == Family::Bridge,
            Of::Arp => family == Family::Arp,
        }
    }
}

/// Matches by name, with their revisions (`struct xt_match` in `net/netfilter/xt_*.c`,
/// `net/ipv4/netfilter`, `net/ipv6/netfilter`, `net/bridge/netfilter`).
const MATCHES: &[(&str, Of, &[u32])] = &[
    ("802_3", Of::Bridge, &[0]),
    ("addrtype", Of::All, &[1]),
    ("addrtype", Of::Ip, &[0]),
    ("ah", Of::Both, &[0]),
    ("among", Of::Bridge, &[0]),
    ("arp", Of::Bridge, &[0]),
    ("bpf", Of::All, &[0, 1]),
    ("cgroup", Of::All, &[0, 1, 2]),
    ("cluster", Of::All, &[0]),
    ("comment", Of::All, &[0]),
    ("connbytes", Of::All, &[0]),
    ("connlabel", Of::All, &[0]),
    ("connlimit", Of::All, &[1]),
    ("connmark", Of::All, &[1]),
    ("conntrack", Of::All, &[1, 2, 3]),
    ("cpu", Of::All, &[0]),
    ("dccp", Of::Both, &[0]),
    ("devgroup", Of::All, &[0]),
    ("dscp", Of::Both, &[0]),
    ("dst", Of::Ip6, &[0]),
    ("ecn", Of::Both, &[0]),
    ("esp", Of::Both, &[0]),
    ("eui64", Of::Ip6, &[0]),
    ("frag", Of::Ip6, &[0]),
    ("hashlimit", Of::Both, &[1, 2, 3]),
    ("hbh", Of::Ip6, &[0]),
    ("helper", Of::All, &[0]),
    ("hl", Of::Ip6, &[0]),
    ("icmp", Of::Ip, &[0]),
    ("icmp6", Of::Ip6, &[0]),
    ("ip", Of::Bridge, &[0]),
    ("ip6", Of::Bridge, &[0]),
    ("iprange", Of::Both, &[1]),
    ("ipv6header", Of::Ip6, &[0]),
    ("ipvs", Of::All, &[0]),
    ("l2tp", Of::Both, &[0]),
    ("length", Of::Both, &[0]),
    ("limit", Of::All, &[0]),
    ("mac", Of::Both, &[0]),
    ("mark", Of::All, &[1]),
    ("mark_m", Of::Bridge, &[0]),
    ("mh", Of::Ip6, &[0]),
    ("multiport", Of::Both, &[1]),
    ("nfacct", Of::All, &[0]),
    ("osf", Of::Both, &[0]),
    ("owner", Of::Both, &[1]),
    ("physdev", Of::Both, &[0]),
    ("pkttype", Of::All, &[0]),
    ("policy", Of::Both, &[0]),
    ("quota", Of::All, &[0]),
    ("rateest", Of::All, &[0]),
    ("realm", Of::All, &[0]),
    ("recent", Of::Both, &[0, 1]),
    ("rpfilter", Of::Both, &[0]),
    ("rt", Of::Ip6, &[0]),
    ("sctp", Of::Both, &[0]),
    ("set", Of::All, &[0, 1, 2, 3, 4]),
    ("socket", Of::Ip, &[0]),
    ("socket", Of::Both, &[1, 2, 3]),
    ("srh", Of::Ip6, &[0, 1]),
    ("state", Of::All, &[0]),
    ("statistic", Of::All, &[0]),
    ("stp", Of::Bridge, &[0]),
    ("string", Of::All, &[1]),
    ("tcp", Of::Both, &[0]),
    ("tcpmss", Of::Both, &[0]),
    ("time", Of::All, &[0]),
    ("tos", Of::Both, &[1]),
    ("ttl", Of::Ip, &[0]),
    ("u32", Of::All, &[0]),
    ("udp", Of::Both, &[0]),
    ("udplite", Of::Both, &[0]),
    ("vlan", Of::Bridge, &[0]),
];

/// Targets, likewise (`struct xt_target`).
const TARGETS: &[(&str, Of, &[u32])] = &[
    ("AUDIT", Of::All, &[0]),
    ("CHECKSUM", Of::All, &[0]),
    ("CLASSIFY", Of::All, &[0]),
    ("CONNMARK", Of::All, &[1, 2]),
    ("CONNSECMARK", Of::All, &[0]),
    ("CT", Of::All, &[0, 1, 2]),
    ("DNAT", Of::Ip, &[0]),
    ("DNAT", Of::Both, &[1]),
    ("DNAT", Of::All, &[2]),
    ("DNPT", Of::Ip6, &[0]),
    ("DSCP", Of::Both, &[0]),
    ("ECN", Of::Ip, &[0]),
    ("HL", Of::Ip6, &[0]),
    ("HMARK", Of::Both, &[0]),
    ("IDLETIMER", Of::All, &[0, 1]),
    ("LED", Of::All, &[0]),
    ("LOG", Of::Both, &[0]),
    ("MARK", Of::All, &[2]),
    ("MASQUERADE", Of::Both, &[0]),
    ("NETMAP", Of::Both, &[0]),
    ("NFLOG", Of::All, &[0]),
    ("NFQUEUE", Of::All, &[0, 1, 2, 3]),
    ("NOTRACK", Of::All, &[0]),
    ("RATEEST", Of::All, &[0]),
    ("REDIRECT", Of::Both, &[0]),
    ("REJECT", Of::Both, &[0]),
    ("SECMARK", Of::All, &[0, 1]),
    ("SET", Of::All, &[0, 1, 2, 3]),
    ("SNAT", Of::Ip, &[0]),
    ("SNAT", Of::Both, &[1]),
    ("SNAT", Of::All, &[2]),
    ("SNPT", Of::Ip6, &[0]),
    ("SYNPROXY", Of::Both, &[0]),
    ("TCPMSS", Of::Both, &[0]),
    ("TCPOPTSTRIP", Of::Both, &[0]),
    ("TEE", Of::Both, &[1]),
    ("TOS", Of::Both, &[1]),
    ("TPROXY", Of::Ip, &[0]),
    ("TPROXY", Of::Both, &[1]),
    ("TRACE", Of::All, &[0]),
    ("TTL", Of::Ip, &[0]),
    ("arpreply", Of::Bridge, &[0]),
    ("dnat", Of::Bridge, &[0]),
    ("log", Of::Bridge, &[0]),
    ("mangle", Of::Arp, &[0]),
    ("mark", Of::Bridge, &[0]),
    ("nflog", Of::Bridge, &[0]),
    ("redirect", Of::Bridge, &[0]),
    ("snat", Of::Bridge, &[0]),
];

/// The newest revision of an extension, if it has the one that is asked for
/// (`xt_find_revision()`).
///
/// # Errors
/// `ENOENT`: there is no such extension. `EPROTONOSUPPORT`: it lacks this revision.
fn newest(family: Family, name: &str, revision: u32, target: bool) -> Result<u32, Failure> {
    let all = if target { TARGETS } else { MATCHES };
    let found = || all.iter().filter(|(n, of, _)| *n == name && of.has(family));
    let revisions = || found().flat_map(|(_, _, revisions)| revisions.iter().copied());
    let newest = revisions().max().ok_or(Failure::from(Errno::Enoent))?;
    match revisions().any(|r| r == revision) {
        true => Ok(newest),
        false => Err(Failure { errno: EPROTONOSUPPORT, at: None, text: None }),
    }
}

/// Answers `NFNL_MSG_COMPAT_GET` (`nfnl_compat_get_rcu()`): the extension with its newest revision.
///
/// # Errors
/// Those of [`newest`]; `EINVAL` for another message, or a family without x_tables.
pub fn get(message: &Message<'_>, port: u32) -> Result<Vec<u8>, Failure> {
    if message.number() != GET {
        return Err(Failure::einval());
    }
    let given = message.attributes(POLICY)?;
    let name = given.need(NFTA_COMPAT_NAME)?.text()?;
    let revision = given.need(NFTA_COMPAT_REV)?.be32();
    let target = given.need(NFTA_COMPAT_TYPE)?.be32() == 1;
    let family = Family::from_number(message.family());
    let has_extensions =
        |f: &Family| matches!(f, Family::Ip | Family::Ip6 | Family::Bridge | Family::Arp);
    let family = family.filter(has_extensions).ok_or(Failure::einval())?;
    let newest = newest(family, name, revision, target)?;
    let mut to = Writer::default();
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(GET);
    let start = to.begin(kind, flags::MULTI, message.header.sequence, port);
    to.raw(&[family as u8, 0, 0, 0]);
    to.string(NFTA_COMPAT_NAME, name);
    to.be32(NFTA_COMPAT_REV, newest);
    to.be32(NFTA_COMPAT_TYPE, u32::from(target));
    to.end(start);
    Ok(to.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_is_told_if_there_is_the_one_asked_for() {
        for (family, name, revision, target, expected) in [
            (Family::Ip, "addrtype", 0, false, Ok(1)),
            (Family::Ip6, "addrtype", 0, false, Err(EPROTONOSUPPORT)),
            (Family::Ip, "conntrack", 3, false, Ok(3)),
            (Family::Ip, "icmp6", 0, false, Err(2)),
            (Family::Ip, "tcp", 0, true, Err(2)),
            (Family::Ip6, "DNAT", 2, true, Ok(2)),
            (Family::Bridge, "limit", 0, false, Ok(0)),
        ] {
            let found = newest(family, name, revision, target).map_err(|e| e.errno);
            assert_eq!(found, expected, "{family:?} {name}");
        }
    }
}
