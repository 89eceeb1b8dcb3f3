// SPDX-License-Identifier: Apache-2.0

//! What is not as it should be: dropped by the IP layer, or by no match.

use super::{from, on};
use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, LAN, lan, out4, out6};
use crate::scenario::Scenario;

/// Counts what passes each stage.
const STAGES: &str = "
table netdev n {
	chain i {
		type filter hook ingress device lan priority 0;
		counter
		meta protocol ip counter
		meta l4proto udp counter
		udp dport 9 counter
		tcp dport 9 counter
		tcp flags syn counter
		@nh,0,8 >= 0 counter
		@th,0,8 >= 0 counter
	}
}
table inet t {
	chain p {
		type filter hook prerouting priority 0;
		counter
		meta l4proto udp counter
		meta l4proto tcp counter
		udp dport 9 counter
		tcp dport 9 counter
		udp length > 0 counter
		icmp type 8 counter
		icmpv6 type 128 counter
		tcp option maxseg exists counter
		tcp option maxseg size > 0 counter
		ip option ra exists counter
		exthdr hbh exists counter
		exthdr frag exists counter
		meta length > 0 counter
	}
	chain i {
		type filter hook input priority 0;
		counter
		udp dport 9 counter
	}
	chain f {
		type filter hook forward priority 0;
		counter
		udp dport 9 counter
	}
}
";

pub fn all() -> Vec<Scenario> {
    let case = |name: &str, frames: &[Frame]| from(on(name, STAGES), "lan", frames);
    let udp4 = || out4().udp(1, 9).data(b"12345678");
    let ip4 = |offset: usize, bytes: &[u8]| out4().patch(offset, bytes).udp(1, 9).data(b"12345678");
    let udp6 = || out6().udp(1, 9).data(b"12345678");
    vec![
        case(
            "ipv4_headers_that_cannot_be",
            &[
                ip4(0, &[0x44]),
                ip4(0, &[0x55]),
                ip4(0, &[0x65]),
                ip4(0, &[0x4f]),
                ip4(10, &[0, 0]),
                ip4(10, &[0xff, 0xff]),
                out4().length(19).udp(1, 9).data(b"12345678"),
                out4().length(20).udp(1, 9).data(b"12345678"),
                out4().length(24).udp(1, 9).data(b"12345678"),
                out4().length(28).udp(1, 9).data(b"padding that the IP length does not count"),
                out4().length(200).udp(1, 9).data(b"short"),
                udp4(),
            ],
        ),
        case("ipv4_packets_that_are_cut", &(14..=46).map(|n| udp4().cut(n)).collect::<Vec<_>>()),
        case("ipv6_packets_that_are_cut", &(14..=70).map(|n| udp6().cut(n)).collect::<Vec<_>>()),
        case(
            "ipv4_addresses_that_cannot_be",
            &[
                lan().ip4("0.0.0.0", "198.19.0.2").udp(1, 9),
                lan().ip4("0.0.0.0", "198.18.0.1").udp(1, 9),
                lan().ip4("0.1.2.3", "198.19.0.2").udp(1, 9),
                lan().ip4("127.0.0.1", "198.19.0.2").udp(1, 9),
                lan().ip4("224.0.0.5", "198.19.0.2").udp(1, 9),
                lan().ip4("240.0.0.5", "198.19.0.2").udp(1, 9),
                lan().ip4("255.255.255.255", "198.19.0.2").udp(1, 9),
                lan().ip4("198.18.0.1", "198.19.0.2").udp(1, 9),
                lan().ip4("198.18.0.255", "198.19.0.2").udp(1, 9),
                lan().ip4("198.18.0.10", "0.0.0.0").udp(1, 9),
                lan().ip4("198.18.0.10", "127.0.0.1").udp(1, 9),
                lan().ip4("198.18.0.10", "240.0.0.1").udp(1, 9),
                lan().ip4("198.18.0.10", "255.255.255.255").udp(1, 9),
                lan().ip4("198.18.0.10", "198.18.0.255").udp(1, 9),
                lan().ip4("198.18.0.10", "198.18.0.1").udp(1, 9),
                lan().ip4("198.18.0.10", "198.19.0.1").udp(1, 9),
                lan().ip4("169.254.1.1", "198.19.0.2").udp(1, 9),
            ],
        ),
        case(
            "ipv6_addresses_that_cannot_be",
            &[
                lan().ip6("::", "2001:db8:2::2").udp(1, 9),
                lan().ip6("::1", "2001:db8:2::2").udp(1, 9),
                lan().ip6("ff02::1", "2001:db8:2::2").udp(1, 9),
                lan().ip6("fe80::1", "2001:db8:2::2").udp(1, 9),
                lan().ip6("2001:db8:1::1", "2001:db8:2::2").udp(1, 9),
                lan().ip6("2001:db8:1::10", "::").udp(1, 9),
                lan().ip6("2001:db8:1::10", "::1").udp(1, 9),
                lan().ip6("2001:db8:1::10", "ff01::1").udp(1, 9),
                lan().ip6("2001:db8:1::10", "ff00::1").udp(1, 9),
                lan().ip6("2001:db8:1::10", "2001:db8:1::1").udp(1, 9),
                lan().ip6("2001:db8:1::10", "2001:db8:2::1").udp(1, 9),
                lan().ip6("::ffff:198.18.0.10", "2001:db8:2::2").udp(1, 9),
                lan().ip6("2001:db8:1::10", "::ffff:198.19.0.2").udp(1, 9),
            ],
        ),
        case(
            "ipv6_headers_that_cannot_be",
            &[
                out6().patch(0, &[0x50]).udp(1, 9).data(b"12345678"),
                out6().patch(0, &[0x40]).udp(1, 9).data(b"12345678"),
                out6().length(0).udp(1, 9).data(b"12345678"),
                out6().length(8).udp(1, 9).data(b"12345678"),
                out6().length(4).udp(1, 9).data(b"12345678"),
                out6().length(900).udp(1, 9).data(b"12345678"),
                udp6().cut(14 + 39),
                udp6().cut(14 + 40),
                udp6(),
            ],
        ),
        case(
            "ipv6_extension_headers_that_cannot_be",
            &[
                out6().extension(0, &[0; 6]).patch(1, &[9]).udp(1, 9),
                out6().extension(0, &[0xc5, 2, 1, 2, 0, 0]).udp(1, 9),
                out6().extension(0, &[0x05, 2, 1, 2, 0, 0]).udp(1, 9),
                out6().extension(0, &[0x45, 2, 1, 2, 0, 0]).udp(1, 9),
                out6().extension(0, &[1, 200, 0, 0, 0, 0]).udp(1, 9),
                out6().extension(0, &[5, 2, 0, 0, 0, 0]).udp(1, 9),
                out6().extension(60, &[0xc5, 2, 1, 2, 0, 0]).udp(1, 9),
                out6().extension(60, &[0; 6]).patch(1, &[9]).udp(1, 9),
                out6().extension(60, &[0; 6]).extension(0, &[0; 6]).udp(1, 9),
                out6().extension(0, &[0; 6]).extension(0, &[0; 6]).udp(1, 9),
                out6().fragment6(0, true, 5).udp(1, 9).data(b"1234567"),
                out6().fragment6(0, false, 5).udp(1, 9),
                out6().fragment6(1, false, 5).protocol(17),
                out6().extension(43, &[0, 1, 0, 0, 0, 0]).udp(1, 9),
                out6().extension(0, &[0; 6]).cut(14 + 44),
                out6().extension(60, &[0; 6]).udp(1, 9).cut(14 + 48 + 3),
                out6().protocol(43),
                out6().protocol(0),
            ],
        ),
        case(
            "ipv4_options_that_cannot_be",
            &[
                out4().ip_options(&[7, 2, 0, 0]).udp(1, 9),
                out4().ip_options(&[7, 3, 4, 0]).udp(1, 9),
                out4().ip_options(&[7, 7, 3, 0, 0, 0, 0, 0]).udp(1, 9),
                out4().ip_options(&[7, 7, 9, 1, 1, 1, 1, 0]).udp(1, 9),
                out4().ip_options(&[7, 40, 4, 0]).udp(1, 9),
                out4().ip_options(&[0x99, 1, 0, 0]).udp(1, 9),
                out4().ip_options(&[0x99, 4, 0, 0]).udp(1, 9),
                out4().ip_options(&[0x94, 3, 0, 0]).udp(1, 9),
                out4().ip_options(&[1, 1, 1, 0]).udp(1, 9),
                out4().ip_options(&[0, 9, 9, 9]).udp(1, 9),
                out4().ip_options(&[131, 7, 4, 198, 18, 200, 1, 0]).udp(1, 9),
                lan()
                    .ip4("198.18.0.10", "198.18.0.1")
                    .ip_options(&[131, 7, 4, 198, 18, 200, 1, 0])
                    .udp(1, 9),
                out4().ip_options(&[137, 7, 4, 198, 19, 0, 2, 0]).udp(1, 9),
                out4().ip_options(&[134, 6, 0, 0, 0, 0, 0, 0]).udp(1, 9),
            ],
        ),
        case(
            "transport_headers_that_are_short_or_false",
            &[
                out4().transport(17, &[0, 1, 0, 9]),
                out4().transport(17, &[0, 1, 0, 9, 0, 8, 0]),
                out4().udp(1, 9).length(7),
                out4().udp(1, 9).length(100),
                out4().udp(1, 9).patch(6, &[1, 1]),
                out4().transport(6, &[0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
                out4().tcp(1, 9).patch(12, &[0x40]),
                out4().tcp(1, 9).patch(12, &[0x60]),
                out4().tcp(1, 9).patch(12, &[0xf0]).data(&[2, 4, 5, 0xb4, 0, 0, 0, 0]),
                out4().tcp(1, 9).tcp_options(&[2, 4, 5, 0xb4]),
                out4().tcp(1, 9).tcp_options(&[2, 3, 5, 0]),
                out4().tcp(1, 9).tcp_options(&[2, 0, 5, 0]),
                out4().tcp(1, 9).tcp_options(&[2, 1, 5, 0]),
                out4().tcp(1, 9).tcp_options(&[9, 6, 0, 0, 0, 0, 2, 4]),
                out4().tcp(1, 9).tcp_options(&[0, 0, 0, 0, 2, 4, 5, 0xb4]),
                out4().tcp(1, 9).tcp_options(&[1, 1, 1, 2]),
                out4().tcp(1, 9).patch(16, &[7, 7]),
                out4().transport(1, &[8]),
                out4().transport(1, &[8, 0, 0, 0]),
                out6().transport(17, &[0, 1, 0, 9]),
                out6().transport(58, &[128, 0]),
                out6().transport(6, &[0, 1]),
            ],
        ),
        case(
            "frames_for_others_and_of_other_kinds",
            &[
                ethernet([2, 9, 9, 9, 9, 9], CLIENT).ip4("198.18.0.10", "198.19.0.2").udp(1, 9),
                ethernet([0xff; 6], CLIENT).ip4("198.18.0.10", "198.19.0.2").udp(1, 9),
                ethernet([0xff; 6], CLIENT).ip4("198.18.0.10", "198.18.0.255").udp(1, 9),
                ethernet([1, 0, 0x5e, 0, 0, 5], CLIENT).ip4("198.18.0.10", "224.0.0.5").udp(1, 9),
                ethernet([1, 0, 0x5e, 0, 0, 1], CLIENT).ip4("198.18.0.10", "224.0.0.1").udp(1, 9),
                ethernet([0x33, 0x33, 0, 0, 0, 1], CLIENT)
                    .ip6("2001:db8:1::10", "ff02::1")
                    .udp(1, 9),
                ethernet([0x33, 0x33, 0, 0, 0, 9], CLIENT)
                    .ip6("2001:db8:1::10", "ff02::9")
                    .udp(1, 9),
                ethernet([0x33, 0x33, 0, 0, 0, 9], CLIENT)
                    .ip6("2001:db8:1::10", "ff0e::9")
                    .udp(1, 9),
                ethernet([0xff; 6], CLIENT).ip6("2001:db8:1::10", "2001:db8:2::2").udp(1, 9),
                ethernet(LAN, CLIENT).ethertype(0x88cc).data(&[2, 7, 4, 2, 0, 0, 0, 1, 16]),
                ethernet(LAN, CLIENT).ethertype(0x0026).data(&[0x42, 0x42, 3, 0, 0, 0, 0, 0]),
                ethernet(LAN, CLIENT).ethertype(0x86dd).data(&out4().udp(1, 9).bytes()[14..]),
                ethernet(LAN, CLIENT).ethertype(0x0800).data(&out6().udp(1, 9).bytes()[14..]),
                ethernet(LAN, CLIENT).ethertype(0x8864).data(&[0x11, 0, 0, 1, 0, 22, 0, 0x21]),
                ethernet(LAN, CLIENT).ethertype(0x0800),
                ethernet(LAN, [1, 0, 0, 0, 0, 1]).ip4("198.18.0.10", "198.19.0.2").udp(1, 9),
            ],
        ),
    ]
}
