// SPDX-License-Identifier: Apache-2.0

//! What Linux 6.18 is the reference for, which Debian does not have (docs/testing.md): scenarios of
//! `tests/kernel` that are about it are left out, and random ones lose the rules and frames that
//! are. They are compared where the machine itself has that kernel.

use crate::scenario::Scenario;

/// Names, and what newer kernels do there.
const OF_6_18: [(&[&str], &str); 9] = [
    (
        &["ct_other_protocols", "nat_masquerade_many_protocols", "nat_masquerade_zoo"],
        "7.3 knows nothing of UDP-Lite but its addresses",
    ),
    (
        &[
            "headers_of_cut_packets_and_later_fragments_at_ingress",
            "raw_payload",
            "rejects_of_every_type",
            "udp_and_udplite_fields",
        ],
        "in 7.3 no rule finds a transport header in later fragments",
    ),
    (
        &["ipv6_extension_headers_that_cannot_be"],
        "in 7.3 rules find no transport header after some malformed extension headers",
    ),
    (
        &["path_mtu_of_packets_that_have_no_socket"],
        "in 7.3 an error about UDP says how long packets may be also without a socket",
    ),
    (
        &["rules_change_packets"],
        "7.3 does not write to a flow label, TCP flags, or bytes after the IPv4 header from there",
    ),
    (
        &["tags_survive_forwarding_between_devices", "vlan_tags_at_ingress"],
        "in 7.3 rules at ingress look into both of two 802.1Q tags",
    ),
    (
        &[
            "bridge_does_not_flood",
            "bridge_group_forward_mask",
            "bridge_hooks_and_all_kinds_of_frames",
            "bridge_isolated",
            "bridge_port_down",
            "bridge_promiscuous",
        ],
        "in 7.3 rules look into the tag of a raw frame that the host sends on a bridge",
    ),
    (&["tc_egress_sees_what_chains_left"], "7.3 ends a packet that copies itself at egress sooner"),
    (
        &["reject_of_padded_frames", "rejects_at_other_hooks"],
        "Debian's kernels have no `reject` at ingress of devices",
    ),
];

/// Why a scenario is not compared with a kernel of Debian.
pub fn other(name: &str) -> Option<&'static str> {
    let (_, reason) = OF_6_18.iter().find(|(names, _)| names.contains(&name))?;
    Some(reason)
}

/// Whether a kernel of this version tracks DCCP, as Linux did until 6.16.
pub fn tracks_dccp(version: &str) -> bool {
    let mut numbers = version.split('.').map(|n| n.parse().unwrap_or(u32::MAX));
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    (major, minor) < (6, 16)
}

/// A random scenario of `tests/kernel` without rules and frames that Linux 7.3 treats otherwise.
pub fn fit(mut scenario: Scenario) -> Scenario {
    let (mut netdev, intervals) = (false, scenario.rules.contains("flags interval"));
    let mut kept = String::new();
    for line in scenario.rules.lines() {
        if let Some(table) = line.strip_prefix("table ") {
            netdev = table.starts_with("netdev ");
        }
        let refused = netdev && line.contains("reject") || intervals && is_byte_of_several(line);
        if !(is_written_otherwise(line) || refused) {
            kept += line;
            kept.push('\n');
        }
    }
    scenario.rules = kept;
    // Where fragments are put together, rules see none, but at egress, where the router makes some
    // itself. Rules of random fragments ask for no transport header there.
    let about_fragments = scenario.name.starts_with("random_fragments_");
    let at_egress = scenario.rules.contains("hook egress") && !about_fragments;
    let (whole, longest) = match at_egress {
        true => (false, SMALLEST_MTU + 14),
        false => (scenario.tracks(), usize::MAX),
    };
    scenario.frames.retain(|(source, frame)| {
        if frame.len() > longest {
            return false;
        }
        let packet = match source.as_str() {
            "host" => Some(&frame[..]),
            _ => inside(frame),
        };
        packet.is_some_and(|packet| match headers(packet) {
            Headers::Protocol(UDPLITE, _) | Headers::Malformed => false,
            Headers::Protocol(ICMP | ICMPV6, rest) => !quotes_udplite(rest),
            Headers::LaterFragment => whole,
            Headers::Protocol(..) | Headers::NoIp => true,
        })
    });
    scenario
}

/// Whether a rule writes what 7.3 lets no rule write (`nft_payload_set_eval()`).
fn is_written_otherwise(rule: &str) -> bool {
    ["tcp flags set", "ip6 flowlabel set", "ip6 ecn set"].iter().any(|what| rule.contains(what))
        || rule.split_once("@nh,").is_some_and(|(_, rest)| rest.contains(" set "))
}

/// Whether a rule may look a byte up in a concatenation with intervals, which nft 1.0.6 converts in
/// a way that 7.3 refuses (`nft_byteorder_init()`).
fn is_byte_of_several(rule: &str) -> bool {
    let bytes = ["meta l4proto", "meta pkttype", "meta nfproto", "ct direction"];
    rule.contains(" . ") && rule.contains('@') && bytes.iter().any(|key| rule.contains(key))
}

/// Of the devices of random scenarios.
const SMALLEST_MTU: usize = 1280;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const UDPLITE: u8 = 136;

/// What follows the link header and one tag, unless 7.3 looks further: into another tag of 802.1Q
/// and into PPPoE (`nft_meta_pktinfo_may_update()`).
fn inside(frame: &[u8]) -> Option<&[u8]> {
    let kind = |at| frame.get(at..at + 2).unwrap_or_default();
    let at = if matches!(kind(12), [0x81, 0] | [0x88, 0xa8]) { 16 } else { 12 };
    let looked_into = matches!(kind(at), [0x81, 0] | [0x88, 0x64]);
    (!looked_into).then(|| frame.get(at + 2..).unwrap_or_default())
}

/// Headers of a packet, as far as kernels read them differently.
enum Headers<'a> {
    NoIp,
    /// Headers beyond the end of the packet, or of lengths that cannot be.
    Malformed,
    LaterFragment,
    /// The protocol, and its header.
    Protocol(u8, &'a [u8]),
}

/// The headers of a packet.
fn headers(packet: &[u8]) -> Headers<'_> {
    match packet.first().map_or(0, |b| b >> 4) {
        4 if packet.len() >= 20 => match u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff {
            0 => {
                let length = usize::from(packet[0] & 15) * 4;
                Headers::Protocol(packet[9], packet.get(length..).unwrap_or_default())
            }
            _ => Headers::LaterFragment,
        },
        6 if packet.len() >= 40 => extensions(packet).unwrap_or(Headers::Malformed),
        _ => Headers::NoIp,
    }
}

/// The headers of an IPv6 packet; `None` if one is not there as a whole.
fn extensions(packet: &[u8]) -> Option<Headers<'_>> {
    let (mut next, mut at) = (packet[6], 40);
    loop {
        let header = packet.get(at..)?;
        let length = match next {
            0 | 43 | 60 | 135 | 139 | 140 => usize::from(*header.get(1)?) * 8 + 8,
            44 if u16::from_be_bytes([*header.get(2)?, *header.get(3)?]) >> 3 != 0 => {
                return Some(Headers::LaterFragment);
            }
            44 => 8,
            51 => usize::from(*header.get(1)?) * 4 + 8,
            _ => return Some(Headers::Protocol(next, header)),
        };
        next = *header.first()?;
        at += length;
    }
}

/// Whether an ICMP message has a packet of UDP-Lite in it.
fn quotes_udplite(message: &[u8]) -> bool {
    let quoted = message.get(8..).unwrap_or_default();
    matches!(headers(quoted), Headers::Protocol(UDPLITE, _))
}
