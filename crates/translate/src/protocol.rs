// SPDX-License-Identifier: Apache-2.0

//! Names of protocols.

/// A protocol as nft knows it: by its usual name, or its number.
pub fn protocol(name: &str) -> String {
    const NUMBERS: [(&str, &str); 14] = [
        ("igmp", "2"),
        ("ipencap", "4"),
        ("ipip", "4"),
        ("egp", "8"),
        ("ipv6", "41"),
        ("ipv6-route", "43"),
        ("ipv6-frag", "44"),
        ("gre", "47"),
        ("ipv6-nonxt", "59"),
        ("ipv6-opts", "60"),
        ("ospf", "89"),
        ("pim", "103"),
        ("vrrp", "112"),
        ("l2tp", "115"),
    ];
    const NAMES: [(&str, &str); 11] = [
        ("1", "icmp"),
        ("6", "tcp"),
        ("17", "udp"),
        ("33", "dccp"),
        ("50", "esp"),
        ("51", "ah"),
        ("58", "icmpv6"),
        ("ipv6-icmp", "icmpv6"),
        ("icmp6", "icmpv6"),
        ("132", "sctp"),
        ("136", "udplite"),
    ];
    let name = name.to_ascii_lowercase();
    let found = NUMBERS.iter().chain(&NAMES).find(|(from, _)| *from == name);
    found.map_or(name.clone(), |(_, to)| (*to).to_owned())
}
