// SPDX-License-Identifier: Apache-2.0

//! Filters with the length of their program, and filters that have none.

use penstock_pcapfilter::{LONGEST, Link, compile};

#[test]
fn usual_filters_fit_a_rule() {
    // Instructions of libpcap 1.10.3: `tcpdump -y RAW -ddd FILTER | head -1`.
    for (filter, libpcap) in [
        ("tcp port 80 or 443", 26),
        ("port 80 or 443", 30),
        ("host 198.18.0.1 and not port 22", 20),
        ("tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", 12),
        ("icmp or icmp6", 15),
        ("net 198.18.0.0/15 and udp", 13),
        ("host 2001:db8::1 and tcp port 443", 27),
    ] {
        let program = compile(filter, Link::Raw).unwrap();
        println!("{filter}: {} here, {libpcap} of libpcap", program.len());
        assert!(program.len() <= libpcap + 3, "{filter}: {} of {libpcap}", program.len());
    }
}

#[test]
fn errors_are_at_their_place() {
    let mut wrong = Vec::new();
    for (filter, place, why) in [
        ("1.2.3.4", 0..7, "say what this is"),
        ("host example.org", 5..16, "`example.org` is no address; names are not looked up"),
        ("tcp or 80", 7..9, "say what this is"),
        ("tcp and", 7..7, "a condition is missing at the end"),
        ("(tcp", 4..4, "`)` is missing here"),
        ("tcp udp", 4..7, "the filter should end here"),
        ("port http or many", 13..17, "there is no service `many`"),
        ("udp port ssh", 9..12, "is not one of this protocol"),
        ("port 65536", 5..10, "65536 is no port"),
        ("net 10.1.0.0/8", 4..14, "the network of this mask begins at 10.0.0.0"),
        ("host 10.0.0.0/8", 5..15, "only `net` has a mask"),
        ("net 2001:db8::1/32", 4..18, "bits that are not of the network"),
        ("net 10.0.0.0/33", 4..12, "cannot have so many bits"),
        ("ip[1:3] = 2", 5..6, "a field has 1, 2 or 4 bytes"),
        ("len / 0 = 1", 0..7, "this divides by zero"),
        ("len << 32 = 1", 0..9, "more than 31 bits"),
        ("tcp and gateway x", 8..15, "`gateway` needs names of hosts"),
        ("ip protochain 6", 3..13, "`protochain` needs loops"),
        ("inbound", 0..7, "use `meta` in the rule"),
        ("ip broadcast", 0..12, "the mask of the network is not known"),
        ("ip and vlan 5", 7..13, "there is no header of Ethernet here"),
        ("ether host 2:0:0:0:0:1", 11..22, "there is no header of Ethernet here"),
        ("tcp src host 1.2.3.4", 13..20, "have addresses"),
        ("proto \\nothing", 6..14, "there is no protocol `nothing`"),
        ("ip[0x80000000] = 1", 0..14, "no packet has such an offset"),
        ("tcp $", 4..5, "no part of a filter begins with this"),
        ("300.1.1.1", 0..9, "300.1.1.1 is no address"),
        ("len > 99999999999", 6..17, "is no number of 32 bits"),
    ] {
        let error = compile(filter, Link::Raw).unwrap_err();
        if error.at != place || !error.why.contains(why) {
            wrong.push(format!("{filter}: {:?} {}", error.at, error.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn large_filters_are_compiled_or_refused() {
    for (filter, fine) in [
        (format!("{}tcp{}", "(".repeat(40), ")".repeat(40)), true),
        (format!("{}tcp{}", "(".repeat(1000), ")".repeat(1000)), false),
        (format!("{}tcp", "not ".repeat(1000)), false),
        (format!("len = {}1", "-".repeat(1000)), false),
        (format!("len = {}", vec!["1"; 1000].join("+")), true),
        (format!("len = {}", vec!["len"; 900].join("^")), false),
        (vec!["tcp"; 60].join(" or "), true),
        (format!("port {}", (1..30).map(|n| n.to_string()).collect::<Vec<_>>().join(" or ")), true),
        ("tcp or ".repeat(LONGEST), false),
    ] {
        let start: String = filter.chars().take(30).collect();
        assert_eq!(compile(&filter, Link::Raw).is_ok(), fine, "{start}");
    }
}
