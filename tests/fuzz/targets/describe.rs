// SPDX-License-Identifier: Apache-2.0

//! Packets that `penstock trace` is to make of a match.

use super::Target;
use crate::describe::{fields::Fields, frame};
use crate::network::net;
use crate::{language, mutate};

pub const TARGET: Target = Target {
    name: "describe",
    bytes: "a match that describes a packet, for `penstock trace`",
    holds: "what is made is no longer than a packet may be, and has in its network header what was said of it",
    longest: 512,
    seeds: || MATCHES.iter().map(|text| text.as_bytes().to_vec()).collect(),
    make: mutate::text_bytes,
    run,
};

const MATCHES: &[&str] = &[
    "ip saddr 198.18.0.5 ip daddr 198.19.0.9 tcp dport 443",
    "ip6 saddr 2001:db8::1 ip6 daddr 2001:db8::2 udp sport 53 udp dport 5000 meta length 1000",
    "ether saddr 02:00:00:00:00:09 vlan id 5 ip daddr 198.19.0.9 icmp type echo-request icmp id 7",
    "arp operation request arp saddr ip 198.18.0.5 arp daddr ip 198.18.0.1",
    "ip daddr 198.18.0.1 tcp flags syn,ack tcp sequence 77 tcp window 100 ip ttl 3 ip dscp cs1",
    "ip daddr 198.18.0.1 meta l4proto 17 @th,64,32 0x01020304 @ih,0,8 7",
    "ip6 daddr 2001:db8::2 icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 ip6 flowlabel 5",
    "meta protocol ip ip protocol 132 sctp dport 9 ip frag-off 0x2000 ip id 4",
];

/// Bytes of the longest packet with a link header and tags of any number.
const LONGEST: usize = 65_535 + 4096;

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let net = net();
    let Ok(fields) = Fields::parse(&text, &language::names(&net)) else { return };
    let lan = net.link_by_name("lan").expect("a link of the network");
    if let Ok(packet) = frame::ip(&fields) {
        let mut again = packet.clone();
        fields.network.put(&mut again);
        assert!(again == packet, "the header is not what was said: {text}");
    }
    for made in [frame::ip(&fields), frame::ethernet(&fields, lan.mac)].into_iter().flatten() {
        assert!(made.len() <= LONGEST, "{} bytes of: {text}", made.len());
    }
}
