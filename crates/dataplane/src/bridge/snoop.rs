// SPDX-License-Identifier: Apache-2.0

//! What packets to groups say about memberships and multicast routers: IGMP, MLD, and the messages
//! that give routers away (`ip_mc_check_igmp()`, `ipv6_mc_check_mld()`, `br_multicast_rcv()`).

use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_net::GroupAddress;
use penstock_wire::group_record::{Record, RecordType, Records, Truncated};
use penstock_wire::{ethernet, icmpv6, igmp, ipv4, ipv6, ipv6_ext, protocol};

const SECOND: u64 = 1_000_000_000;
/// Units of the maximum response time of IGMP, and of MLD, in nanoseconds.
const TENTH: u64 = SECOND / 10;
const MILLISECOND: u64 = SECOND / 1000;
/// What no delay at all counts as: a tick of the kernel's.
const TICK: u64 = 4 * MILLISECOND;

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_PIM_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 13);
const ALL_SNOOPERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 106);
const ALL_NODES6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_SNOOPERS6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x6a);

/// Not sound enough for a bridge that snoops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A packet to a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard<'p> {
    pub(crate) v6: bool,
    /// Where it goes.
    pub(crate) group: GroupAddress,
    pub(crate) said: Said<'p>,
}

/// What it says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'p> {
    /// Nothing.
    Data,
    /// It comes from a router.
    Router,
    /// A host is a member of a group; version 1 or 2 of IGMP, version 1 of MLD.
    Report(GroupAddress),
    /// A host joins and leaves groups; version 3 of IGMP, version 2 of MLD.
    Reports(Reports<'p>),
    /// A host leaves a group.
    Leave(GroupAddress),
    /// Somebody asks who is a member of all groups, or of one.
    Query(Query),
    /// A question about sources of a group, or one of no meaning.
    OtherQuery,
}

/// A question about memberships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// Who asks.
    pub(crate) from: u128,
    /// `None` for all.
    pub(crate) group: Option<GroupAddress>,
    /// Nanoseconds until all have answered.
    pub(crate) delay: u64,
}

/// Records of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reports<'p> {
    V4(Records<'p, 4>),
    V6(Records<'p, 16>),
}

impl Iterator for Reports<'_> {
    /// A group, and whether the host is a member of it now, from whatever source; no group for a
    /// record that says nothing.
    type Item = Result<Option<(GroupAddress, bool)>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Reports::V4(records) => {
                records.next().map(|r| change(r, |g| GroupAddress::V4(g.into())))
            }
            Reports::V6(records) => {
                records.next().map(|r| change(r, |g| GroupAddress::V6(g.into())))
            }
        }
    }
}

fn change<const N: usize>(
    record: Result<Record<N>, Truncated>,
    group: impl FnOnce([u8; N]) -> GroupAddress,
) -> Result<Option<(GroupAddress, bool)>, Malformed> {
    let record = record.map_err(|Truncated| Malformed)?;
    Ok(record.kind.map(|kind| {
        let includes = matches!(kind, RecordType::IsInclude | RecordType::ToInclude);
        (group(record.group), record.sources != 0 || !includes)
    }))
}

impl Heard<'_> {
    /// Whether all ports get it whoever is a member: what is for all hosts of the link, and messages
    /// that are for routers and bridges alike.
    pub(crate) fn is_for_all(&self) -> bool {
        match self.said {
            Said::Data | Said::Router => match self.group {
                GroupAddress::V4(group) => is_local(group),
                GroupAddress::V6(group) => group == ALL_NODES6,
                GroupAddress::Link(_) => false,
            },
            Said::Report(_) => false,
            Said::Reports(_) | Said::Leave(_) | Said::Query(_) | Said::OtherQuery => true,
        }
    }
}

/// Whether memberships of a group are never looked at: those of the link for IPv4, all nodes for
/// IPv6.
pub(crate) fn is_unlisted(group: GroupAddress) -> bool {
    match group {
        GroupAddress::V4(group) => is_local(group),
        GroupAddress::V6(group) => group == ALL_NODES6,
        GroupAddress::Link(_) => false,
    }
}

/// 224.0.0.0/24 (`ipv4_is_local_multicast()`).
fn is_local(group: Ipv4Addr) -> bool {
    group.octets()[..3] == [224, 0, 0]
}

/// Reads a packet from its network header on; `None` if it is neither IPv4 nor IPv6.
pub(crate) fn read(ethertype: u16, network: &[u8]) -> Result<Option<Heard<'_>>, Malformed> {
    match ethertype {
        ethernet::IPV4 => read4(network).map(Some),
        ethernet::IPV6 => read6(network).map(Some),
        _ => Ok(None),
    }
}

fn read4(network: &[u8]) -> Result<Heard<'_>, Malformed> {
    let header = ipv4::Header::new(network).ok_or(Malformed)?;
    let (start, end) = (header.header_len(), usize::from(header.total_len()));
    let sound = header.version() == 4
        && start >= ipv4::LEN
        && network.len() >= start
        && header.checksum_ok()
        && (start..=network.len()).contains(&end);
    if !sound {
        return Err(Malformed);
    }
    let said = match header.protocol() {
        protocol::IGMP => read_igmp(&header, &network[start..end])?,
        protocol::PIM if header.dst() == ALL_PIM_ROUTERS && is_hello(&network[start..]) => {
            Said::Router
        }
        _ => Said::Data,
    };
    Ok(Heard { v6: false, group: GroupAddress::V4(header.dst()), said })
}

/// Whether it is a hello of PIM version 2 (RFC 7761, 4.9).
fn is_hello(pim: &[u8]) -> bool {
    pim.first_chunk::<4>().is_some_and(|head| head[0] == 0x20)
}

fn read_igmp<'p>(header: &ipv4::Header<'_>, message: &'p [u8]) -> Result<Said<'p>, Malformed> {
    /// Bytes of a query of version 3 without sources.
    const QUERY_V3: usize = 12;
    let h = igmp::Header::new(message).ok_or(Malformed)?;
    if !penstock_wire::checksum::Sum::new().bytes(message).is_valid() {
        return Err(Malformed);
    }
    Ok(match h.kind() {
        igmp::MEMBERSHIP_REPORT_V1 | igmp::MEMBERSHIP_REPORT_V2 => {
            Said::Report(GroupAddress::V4(h.group()))
        }
        igmp::MEMBERSHIP_REPORT_V3 => {
            Said::Reports(Reports::V4(Records::new(message).ok_or(Malformed)?))
        }
        igmp::LEAVE_GROUP => Said::Leave(GroupAddress::V4(h.group())),
        igmp::MEMBERSHIP_QUERY => {
            let general = h.group().is_unspecified();
            if message.len() != igmp::LEN && message.len() < QUERY_V3
                || general && header.dst() != ALL_HOSTS
            {
                return Err(Malformed);
            }
            let from = u128::from(u32::from(header.src()));
            let group = (!general).then_some(GroupAddress::V4(h.group()));
            match (message.get(10..QUERY_V3), h.max_response()) {
                // Version 1 knows no times and no questions about a group.
                (None, 0) => Said::Query(Query { from, group: None, delay: 10 * SECOND }),
                (None, code) => Said::Query(Query { from, group, delay: u64::from(code) * TENTH }),
                (Some([0, 0]), 0) => Said::Query(Query { from, group, delay: TICK }),
                (Some([0, 0]), code) => {
                    Said::Query(Query { from, group, delay: response_time(code) * TENTH })
                }
                (Some(_), _) => Said::OtherQuery,
            }
        }
        igmp::MULTICAST_ROUTER_ADVERTISEMENT if header.dst() == ALL_SNOOPERS => Said::Router,
        _ => Said::Data,
    })
}

/// The maximum response time that a code of IGMPv3 stands for (RFC 3376, 4.1.1).
fn response_time(code: u8) -> u64 {
    if code < 0x80 {
        return code.into();
    }
    (u64::from(code & 0xf) | 0x10) << ((code >> 4 & 7) + 3)
}

fn read6(network: &[u8]) -> Result<Heard<'_>, Malformed> {
    let header = ipv6::Header::new(network).ok_or(Malformed)?;
    let end = ipv6::LEN + usize::from(header.payload_len());
    if header.version() != 6 || network.len() < end || end <= ipv6::LEN {
        return Err(Malformed);
    }
    // MLD comes with an option for routers only.
    let said = match header.next_header() {
        protocol::HOP_BY_HOP => {
            let skipped = ipv6_ext::skip(network, ipv6::LEN, protocol::HOP_BY_HOP);
            let skipped = skipped.ok_or(Malformed)?;
            match skipped.protocol {
                protocol::ICMPV6 => {
                    read_mld(&header, network[..end].get(skipped.offset..).ok_or(Malformed)?)?
                }
                _ => Said::Data,
            }
        }
        _ => Said::Data,
    };
    Ok(Heard { v6: true, group: GroupAddress::V6(header.dst()), said })
}

fn read_mld<'p>(header: &ipv6::Header<'_>, message: &'p [u8]) -> Result<Said<'p>, Malformed> {
    /// Bytes of the messages of version 1, and of a query of version 2 without sources.
    const LEN: usize = 24;
    const QUERY_V2: usize = 28;
    let h = icmpv6::Header::new(message).ok_or(Malformed)?;
    if !h.checksum_ok(header.pseudo(protocol::ICMPV6, message.len())) {
        return Err(Malformed);
    }
    let group = message.get(8..LEN).and_then(|g| g.first_chunk::<16>());
    let Some(group) = group.map(|g| Ipv6Addr::from(*g)) else {
        return Ok(router_advertised(header, h.kind()));
    };
    Ok(match h.kind() {
        icmpv6::MLD_REPORT => Said::Report(GroupAddress::V6(group)),
        icmpv6::MLD2_REPORT => Said::Reports(Reports::V6(Records::new(message).ok_or(Malformed)?)),
        icmpv6::MLD_DONE => Said::Leave(GroupAddress::V6(group)),
        icmpv6::MLD_QUERY => {
            let general = group.is_unspecified();
            if !is_of_link(header.src())
                || message.len() != LEN && message.len() < QUERY_V2
                || general && header.dst() != ALL_NODES6
            {
                return Err(Malformed);
            }
            let from = header.src().into();
            let group = (!general).then_some(GroupAddress::V6(group));
            let code = (h.rest_of_header() >> 16) as u16;
            match (message.get(26..QUERY_V2), code) {
                (None, 0) => Said::OtherQuery,
                (None, code) => {
                    Said::Query(Query { from, group, delay: u64::from(code) * MILLISECOND })
                }
                (Some([0, 0]), code) => {
                    let delay = (response_time6(code) * MILLISECOND).max(TICK);
                    Said::Query(Query { from, group, delay })
                }
                (Some(_), _) => Said::OtherQuery,
            }
        }
        kind => router_advertised(header, kind),
    })
}

fn router_advertised<'p>(header: &ipv6::Header<'_>, kind: u8) -> Said<'p> {
    let advertised =
        kind == icmpv6::MULTICAST_ROUTER_ADVERTISEMENT && header.dst() == ALL_SNOOPERS6;
    if advertised { Said::Router } else { Said::Data }
}

/// Whether an address has the scope of the link (`IPV6_ADDR_LINKLOCAL`).
fn is_of_link(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 0xfe && second & 0xc0 == 0x80 || first == 0xff && second & 0xf == 2
}

/// The maximum response delay that a code of MLDv2 stands for (RFC 3810, 5.1.3), in milliseconds.
fn response_time6(code: u16) -> u64 {
    if code < 0x8000 {
        return code.into();
    }
    (u64::from(code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_above_their_limit_are_exponents() {
        // RFC 3376, 4.1.1: (mantissa | 0x10) << (exponent + 3).
        for (code, want) in [(0x7f, 127), (0x80, 128), (0x8f, 248), (0xff, 31744)] {
            assert_eq!(response_time(code), want, "{code:#x}");
        }
        for (code, want) in [(0x7fff, 32767), (0x8000, 32768), (0xffff, 8_387_584)] {
            assert_eq!(response_time6(code), want, "{code:#x}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.usize(..120)).map(|_| random.u8(..)).collect();
            let v6 = random.bool();
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            if v6 && bytes.len() > ipv6::LEN {
                let len = (bytes.len() - ipv6::LEN) as u16;
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
                bytes[6] = protocol::HOP_BY_HOP;
                bytes[40] = protocol::ICMPV6;
            }
            let ethertype = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
            if let Ok(Some(Heard { said: Said::Reports(reports), .. })) = read(ethertype, &bytes) {
                assert!(reports.count() <= bytes.len());
            }
        }
    }
}
