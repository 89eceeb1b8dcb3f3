// SPDX-License-Identifier: Apache-2.0

//! Names that a filter may have in place of numbers.
//!
//! They are the same on each machine, so a filter means the same wherever its rule is read.

/// Numbers that have a name within expressions: fields of headers and their values.
const CONSTANTS: &[(&str, u32)] = &[
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-multicastlistenerreportv2", 143),
];

/// Protocols of the Internet Protocol (`/etc/protocols`).
const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("ipip", 94),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

/// Protocols of Ethernet.
const LINKS: &[(&str, u32)] =
    &[("ip", 0x0800), ("arp", 0x0806), ("rarp", 0x8035), ("ip6", 0x86dd), ("loopback", 0x9000)];

const TCP: u32 = 6;
const UDP: u32 = 17;

/// Services (`/etc/services`): port, and the protocol where there is one only.
const SERVICES: &[(&str, u32, Option<u32>)] = &[
    ("ftp-data", 20, Some(TCP)),
    ("ftp", 21, Some(TCP)),
    ("ssh", 22, Some(TCP)),
    ("telnet", 23, Some(TCP)),
    ("smtp", 25, Some(TCP)),
    ("domain", 53, None),
    ("bootps", 67, Some(UDP)),
    ("bootpc", 68, Some(UDP)),
    ("tftp", 69, Some(UDP)),
    ("http", 80, Some(TCP)),
    ("kerberos", 88, None),
    ("pop3", 110, Some(TCP)),
    ("sunrpc", 111, None),
    ("ntp", 123, Some(UDP)),
    ("imap2", 143, Some(TCP)),
    ("snmp", 161, None),
    ("bgp", 179, Some(TCP)),
    ("ldap", 389, None),
    ("isakmp", 500, Some(UDP)),
    ("syslog", 514, Some(UDP)),
    ("ldaps", 636, None),
    ("imaps", 993, Some(TCP)),
    ("pop3s", 995, Some(TCP)),
];

fn find(rows: &[(&str, u32)], name: &str) -> Option<u32> {
    rows.iter().find(|row| row.0 == name).map(|row| row.1)
}

pub(crate) fn constant(name: &str) -> Option<u32> {
    find(CONSTANTS, name)
}

pub(crate) fn protocol(name: &str) -> Option<u32> {
    find(PROTOCOLS, name)
}

pub(crate) fn link_protocol(name: &str) -> Option<u32> {
    find(LINKS, name)
}

/// The port of a service, and its protocol if it has only one.
pub(crate) fn service(name: &str) -> Option<(u32, Option<u32>)> {
    SERVICES.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
}
