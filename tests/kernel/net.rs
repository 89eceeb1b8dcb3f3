// SPDX-License-Identifier: Apache-2.0

//! The router that most scenarios are about, and the frames that come to it.

use crate::frame::{Frame, Mac, bare, ethernet};

/// Three wires, static neighbours, one route of each kind.
pub const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link add name dmz address 02:00:00:00:05:01 mtu 1300 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link set dmz addrgenmode none up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
addr add 198.18.5.1/24 dev dmz
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:2::1/64 dev wan nodad
addr add 2001:db8:5::1/64 dev dmz nodad
route add default via 198.19.0.2 dev wan
route add 198.18.128.0/17 via 198.19.0.3 dev wan
route add 198.18.200.0/24 via 198.18.5.20 dev dmz
route add unreachable 198.18.64.0/24
route add prohibit 198.18.65.0/24
route add blackhole 198.18.66.0/24
route add default via 2001:db8:2::2 dev wan
route add 2001:db8:200::/48 via 2001:db8:5::20 dev dmz
route add unreachable 2001:db8:64::/48
route add prohibit 2001:db8:65::/48
route add blackhole 2001:db8:66::/48
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.18.0.11 lladdr 02:00:00:00:01:11 dev lan nud permanent
neigh add 198.18.5.20 lladdr 02:00:00:00:05:20 dev dmz nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
neigh add 198.19.0.3 lladdr 02:00:00:00:02:03 dev wan nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 2001:db8:5::20 lladdr 02:00:00:00:05:20 dev dmz nud permanent
neigh add 2001:db8:2::2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

/// The usual network, with marks that choose routing tables.
pub fn net_with_rules() -> String {
    format!(
        "{NET}\
rule add fwmark 1 iif lan lookup 100 pref 100
rule add fwmark 1 iif wan lookup 100 pref 100
rule add fwmark 3/3 iif lan lookup 101 pref 101
rule add from 198.18.0.11 to 198.19.64.0/18 lookup 100 pref 102
route add default via 198.18.5.20 dev dmz table 100
route add blackhole 198.19.77.0/24 table 101
route add 198.19.0.0/16 via 198.19.0.3 dev wan table 101
"
    )
}

/// The router's addresses on its wires.
pub const LAN: Mac = [2, 0, 0, 0, 1, 1];
pub const WAN: Mac = [2, 0, 0, 0, 2, 1];
pub const DMZ: Mac = [2, 0, 0, 0, 5, 1];
/// Who talks to it.
pub const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];
pub const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];
pub const SERVER: Mac = [2, 0, 0, 0, 5, 0x20];

/// A frame of the client to the router.
pub fn lan() -> Frame {
    ethernet(LAN, CLIENT)
}

/// A frame of the gateway to the router.
pub fn wan() -> Frame {
    ethernet(WAN, GATEWAY)
}

/// A frame of the server to the router.
pub fn dmz() -> Frame {
    ethernet(DMZ, SERVER)
}

/// From the client to the far side.
pub fn out4() -> Frame {
    lan().ip4("198.18.0.10", "198.19.0.2")
}

/// From the client to the far side.
pub fn out6() -> Frame {
    lan().ip6("2001:db8:1::10", "2001:db8:2::2")
}

/// From the host to the far side.
pub fn own4() -> Frame {
    bare().ip4("198.19.0.1", "198.19.0.2")
}

/// From the host to the far side.
pub fn own6() -> Frame {
    bare().ip6("2001:db8:2::1", "2001:db8:2::2")
}

/// SYN options as Linux sends them: MSS 1460, SACK permitted, timestamps, window scale 7.
pub const SYN_OPTIONS: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];

/// One or more frames of every kind that can be forwarded, well-formed.
pub fn zoo() -> Vec<Frame> {
    let ext = |p: u8| out6().extension(p, &[0; 6]);
    vec![
        out4().tcp(40000, 80).tcp_options(&SYN_OPTIONS),
        out4().tcp(40000, 80).flags(0x10).data(b"GET / HTTP/1.0\r\n\r\n"),
        out4()
            .tos(0xb8)
            .df()
            .tcp(40001, 443)
            .flags(0x18)
            .set(4, &[1, 2, 3, 4, 5, 6, 7, 8])
            .data(b"x"),
        out4().tcp(40002, 22).flags(0x11),
        out4().tcp(40003, 22).flags(0x14),
        out4().tcp(40004, 23).flags(0),
        out4()
            .tcp(40005, 25)
            .flags(0x29)
            .set(18, &[0, 9])
            .tcp_options(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 2, 4, 2, 0x18]),
        out4().tcp(40006, 25).flags(0xc2).tcp_options(&[2, 4, 1, 0, 0, 7, 7, 7]),
        out4().id(7777).udp(5000, 53).data(b"query"),
        out4().udp(53, 53).zeros(500),
        out4().udp(5001, 4789).data(&[8, 0, 0, 0, 0, 0, 42, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        out4().udp(0, 65535),
        out4().udp(5002, 161).patch(6, &[0, 0]).data(b"no checksum"),
        out4().udplite(7, 9).data(b"lite"),
        out4().icmp(8, 0, 0x1234_0001).data(b"ping"),
        out4().icmp(0, 0, 0x1234_0002).data(b"pong"),
        out4().icmp(3, 4, 1400).data(&out4().udp(1, 2).bytes()[14..]),
        out4().icmp(13, 0, 5).zeros(12),
        out4().transport(2, &[0x16, 0, 0xf9, 0xf6, 224, 0, 0, 9]),
        out4().transport(
            132,
            &[
                0, 80, 0x1f, 0x90, 0, 0, 0, 7, 1, 2, 3, 4, 1, 0, 0, 20, 0, 0, 0, 1, 0, 0, 1, 0, 0,
                1, 0, 1, 0, 0, 0, 5,
            ],
        ),
        out4().transport(33, &[0, 80, 0x1f, 0x90, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 9]),
        out4().transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8]),
        out4().ah(0x200, 6).udp(700, 701),
        out4().transport(108, &[17, 0, 0, 3, 9, 9, 9, 9]),
        out4()
            .transport(47, &[0x20, 0, 8, 0, 0, 0, 0, 77])
            .ip4("198.18.9.9", "198.18.9.8")
            .udp(1, 2),
        out4().ip4("198.18.9.9", "198.18.9.8").udp(1, 2),
        out4().ip6("2001:db8:9::9", "2001:db8:9::8").udp(1, 2),
        out4().protocol(253).data(b"unassigned"),
        out4().fragment(0, true).id(9).udp(5000, 53).length(24).zeros(8),
        out4().fragment(2, false).id(9).protocol(17).zeros(8),
        out4().ip_options(&[7, 7, 4, 0, 0, 0, 0, 0]).udp(1, 2),
        out4().ip_options(&[0x94, 4, 0, 0]).udp(1, 2),
        lan().ip4("198.18.0.11", "198.18.5.20").udp(9, 9).data(b"other way"),
        lan().ip4("198.18.0.10", "198.18.200.7").tcp(1, 2),
        out6().tcp(40000, 80).tcp_options(&SYN_OPTIONS),
        out6().tcp(40000, 443).flags(0x10).data(b"payload"),
        out6().set(0, &[0x6b, 0x81, 0x23, 0x45]).udp(5000, 53).data(b"query6"),
        out6().udp(53, 5000).zeros(600),
        out6().udplite(7, 9).data(b"lite6"),
        out6().icmp6(128, 0, 0x1234_0001).data(b"ping6"),
        out6().icmp6(129, 0, 0x1234_0001).data(b"pong6"),
        out6().icmp6(2, 0, 1280).data(&out6().udp(1, 2).bytes()[14..]),
        out6().icmp6(1, 4, 0).zeros(40),
        out6().transport(132, &[0, 80, 0x1f, 0x90, 0, 0, 0, 7, 1, 2, 3, 4]),
        out6().transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8]),
        out6().ah(0x200, 6).udp(700, 701),
        ext(0).udp(1000, 1001),
        ext(60).udp(1002, 1003),
        ext(43).udp(1004, 1005),
        ext(0).extension(60, &[0; 6]).extension(43, &[0, 1, 0, 0, 0, 0]).tcp(1006, 1007),
        ext(135).data(b""),
        out6().fragment6(0, true, 0xabcd).udp(1008, 1009).zeros(16),
        out6().fragment6(3, false, 0xabcd).protocol(17).zeros(16),
        out6().data(b""),
        out6().protocol(253).data(b"unassigned"),
        out6().ip6("2001:db8:9::9", "2001:db8:9::8").tcp(1, 2),
        out6().ip4("198.18.9.9", "198.18.9.8").tcp(1, 2),
        lan().ip6("2001:db8:1::10", "2001:db8:200::7").ttl(255).tcp(1, 2),
    ]
}
