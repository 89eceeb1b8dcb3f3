// SPDX-License-Identifier: Apache-2.0

//! Connections as rules see them, and the table of them at the end.

use std::time::Duration;

use super::on;
use crate::frame::{Frame, bare};
use crate::net::{dmz, lan, wan};
use crate::scenario::Scenario;

/// Counts every state at every hook that has one.
const STATES: &str = "
table inet t {
	chain pre { type filter hook prerouting priority 0; ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; ct state untracked counter; }
	chain in { type filter hook input priority 0; ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; ct direction original counter; ct direction reply counter; }
	chain thru { type filter hook forward priority 0; ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; ct direction original counter; ct direction reply counter; ct status assured counter; ct status seen-reply counter; ct status confirmed counter; }
	chain out { type filter hook output priority 0; ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; ct direction original counter; ct direction reply counter; }
	chain post { type filter hook postrouting priority 0; ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; }
}
";

/// Two ends of a flow through the router, and who speaks.
#[derive(Clone, Copy)]
struct Ends {
    six: bool,
    client: u16,
    server: u16,
}

impl Ends {
    fn forth(self) -> Frame {
        match self.six {
            false => lan().ip4("198.18.0.10", "198.19.0.2"),
            true => lan().ip6("2001:db8:1::10", "2001:db8:2::2"),
        }
    }

    fn back(self) -> Frame {
        match self.six {
            false => wan().ip4("198.19.0.2", "198.18.0.10"),
            true => wan().ip6("2001:db8:2::2", "2001:db8:1::10"),
        }
    }

    /// A TCP segment from the client (`>`) or the server (`<`).
    fn tcp(self, way: char, flags: u8, seq: u32, ack: u32, data: usize) -> (&'static str, Frame) {
        let (source, frame) = if way == '>' {
            ("lan", self.forth().tcp(self.client, self.server))
        } else {
            ("wan", self.back().tcp(self.server, self.client))
        };
        let frame = frame.flags(flags).set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes());
        (source, if data > 0 { frame.zeros(data) } else { frame })
    }

    fn udp(self, way: char, data: &[u8]) -> (&'static str, Frame) {
        if way == '>' {
            ("lan", self.forth().udp(self.client, self.server).data(data))
        } else {
            ("wan", self.back().udp(self.server, self.client).data(data))
        }
    }

    /// An ICMP unreachable about a packet that was sent the other way.
    fn error(self, way: char, about: &Frame) -> (&'static str, Frame) {
        let (source, frame) = if way == '>' { ("lan", self.forth()) } else { ("wan", self.back()) };
        let inner = &about.bytes()[14..];
        (
            source,
            if self.six {
                frame.icmp6(1, 4, 0).data(inner)
            } else {
                frame.icmp(3, 3, 0).data(inner)
            },
        )
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

fn with(scenario: Scenario, frames: &[(&'static str, Frame)]) -> Scenario {
    frames.iter().fold(scenario, |s, (source, frame)| s.frame(source, frame))
}

/// Handshake, data in both directions, and an end by FIN.
fn whole_connection(e: Ends) -> Vec<(&'static str, Frame)> {
    vec![
        e.tcp('>', SYN, 1000, 0, 0),
        e.tcp('<', SYN | ACK, 5000, 1001, 0),
        e.tcp('>', ACK, 1001, 5001, 0),
        e.tcp('>', PSH | ACK, 1001, 5001, 100),
        e.tcp('<', ACK, 5001, 1101, 0),
        e.tcp('<', PSH | ACK, 5001, 1101, 500),
        e.tcp('>', ACK, 1101, 5501, 0),
        e.tcp('>', FIN | ACK, 1101, 5501, 0),
        e.tcp('<', ACK, 5501, 1102, 0),
        e.tcp('<', FIN | ACK, 5501, 1102, 0),
        e.tcp('>', ACK, 1102, 5502, 0),
    ]
}

pub fn all() -> Vec<Scenario> {
    let four = Ends { six: false, client: 40000, server: 80 };
    let six = Ends { six: true, ..four };
    let port = |client| Ends { client, ..four };
    let port6 = |client| Ends { client, ..six };
    let both = |f: &dyn Fn(Ends) -> Vec<(&'static str, Frame)>| [f(four), f(six)].concat();
    let states = |name: &str, frames: &[(&'static str, Frame)]| with(on(name, STATES), frames);
    let mut all = vec![
        states("ct_tcp_from_handshake_to_end", &both(&whole_connection)),
        states("ct_tcp_every_step_stays_in_the_table", &{
            // Connections that stop after every step of the life of one.
            (0..11)
                .flat_map(|n| {
                    whole_connection(port(41000 + n)).into_iter().take(usize::from(n) + 1)
                })
                .collect::<Vec<_>>()
        }),
        states(
            "ct_tcp_reset",
            &both(&|e| {
                let open = |e: Ends| whole_connection(e).into_iter().take(3).collect::<Vec<_>>();
                let (a, b, c, d) = (
                    Ends { client: 1, ..e },
                    Ends { client: 2, ..e },
                    Ends { client: 3, ..e },
                    Ends { client: 4, ..e },
                );
                [
                    vec![
                        a.tcp('>', SYN, 1000, 0, 0),
                        a.tcp('<', RST | ACK, 0, 1001, 0),
                        a.tcp('>', SYN, 2000, 0, 0),
                    ],
                    open(b),
                    vec![b.tcp('>', RST, 1001, 0, 0), b.tcp('<', ACK, 5001, 1001, 10)],
                    open(c),
                    // Far outside of the window.
                    vec![c.tcp('<', RST, 900_000, 0, 0), c.tcp('>', ACK, 1001, 5001, 10)],
                    vec![d.tcp('>', SYN, 1000, 0, 0), d.tcp('>', RST, 1001, 0, 0)],
                ]
                .concat()
            }),
        ),
        states(
            "ct_tcp_in_the_middle_of_a_connection",
            &both(&|e| {
                let (a, b, c) =
                    (Ends { client: 11, ..e }, Ends { client: 12, ..e }, Ends { client: 13, ..e });
                vec![
                    a.tcp('>', ACK, 700, 900, 50),
                    a.tcp('<', ACK, 900, 750, 0),
                    a.tcp('>', PSH | ACK, 750, 900, 20),
                    b.tcp('<', SYN | ACK, 5, 6, 0),
                    c.tcp('>', FIN | ACK, 5, 6, 0),
                    c.tcp('<', ACK, 6, 6, 0),
                ]
            }),
        ),
        states("ct_tcp_retransmissions_and_windows", &{
            let e = four;
            let mut frames = whole_connection(e).into_iter().take(5).collect::<Vec<_>>();
            frames.extend([
                e.tcp('>', PSH | ACK, 1001, 5001, 100),
                e.tcp('>', PSH | ACK, 1001, 5001, 100),
                e.tcp('>', PSH | ACK, 1001, 5001, 100),
                e.tcp('>', PSH | ACK, 1001, 5001, 100),
                // Beyond the window that the server offered, before it, an acknowledgement of what
                // was not sent.
                e.tcp('>', PSH | ACK, 200_000, 5001, 100),
                e.tcp('>', PSH | ACK, 4_000_000_000, 5001, 100),
                e.tcp('>', ACK, 1101, 900_000, 0),
                e.tcp('<', ACK, 5001, 1101, 0),
                e.tcp('<', ACK, 5000, 1101, 0),
                e.tcp('<', SYN | ACK, 5000, 1001, 0),
                e.tcp('>', SYN, 1000, 0, 0),
            ]);
            frames
        }),
        states(
            "ct_tcp_flags_that_make_no_sense",
            &[
                0,
                FIN,
                SYN | FIN,
                SYN | RST,
                PSH,
                FIN | PSH | 32,
                SYN | 32,
                SYN | PSH | ACK,
                RST | ACK,
                0xff,
                0x3f,
                SYN | 0xc0,
            ]
            .into_iter()
            .enumerate()
            .map(|(i, flags)| port(50 + i as u16).tcp('>', flags, 1, 1, 0))
            .collect::<Vec<_>>(),
        ),
        states(
            "ct_tcp_simultaneous_open_and_reopening",
            &both(&|e| {
                let (a, b) = (Ends { client: 21, ..e }, Ends { client: 22, ..e });
                let mut frames = vec![
                    a.tcp('>', SYN, 1000, 0, 0),
                    a.tcp('<', SYN, 5000, 0, 0),
                    a.tcp('>', SYN | ACK, 1000, 5001, 0),
                    a.tcp('<', SYN | ACK, 5000, 1001, 0),
                    a.tcp('>', ACK, 1001, 5001, 0),
                ];
                frames.extend(whole_connection(b));
                frames.extend([
                    b.tcp('>', SYN, 90_000, 0, 0),
                    b.tcp('<', SYN | ACK, 80_000, 90_001, 0),
                    b.tcp('>', ACK, 90_001, 80_001, 0),
                ]);
                frames
            }),
        ),
        states("ct_tcp_window_scale_and_sack", &{
            let e = four;
            let options = |f: (&'static str, Frame), o: &[u8]| (f.0, f.1.tcp_options(o));
            vec![
                options(e.tcp('>', SYN, 1000, 0, 0), &[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1]),
                options(
                    e.tcp('<', SYN | ACK, 5000, 1001, 0),
                    &[2, 4, 5, 0xb4, 1, 3, 3, 9, 4, 2, 1, 1],
                ),
                e.tcp('>', ACK, 1001, 5001, 0),
                e.tcp('>', ACK, 1001 + 60_000, 5001, 1000),
                options(
                    e.tcp('<', ACK, 5001, 1001, 0),
                    &[1, 1, 5, 10, 0, 0, 0xee, 0x49, 0, 0, 0xf2, 0x31],
                ),
                e.tcp('>', ACK, 1001 + 3_000_000, 5001, 1000),
                e.tcp('>', ACK, 1001 + 5_000_000, 5001, 1000),
            ]
        }),
        states(
            "ct_udp_streams",
            &both(&|e| {
                let (a, b) = (Ends { client: 31, ..e }, Ends { client: 32, ..e });
                vec![
                    a.udp('>', b"1"),
                    a.udp('>', b"2"),
                    b.udp('>', b"1"),
                    b.udp('<', b"2"),
                    b.udp('>', b"3"),
                    b.udp('<', b"4"),
                ]
            }),
        ),
        with(
            with(
                on("ct_udp_becomes_assured_after_two_seconds", STATES),
                &[four.udp('>', b"1"), four.udp('<', b"2")],
            )
            .wait(Duration::from_millis(2500)),
            &[
                four.udp('>', b"3"),
                four.udp('<', b"4"),
                four.udp('>', b"5"),
                port(33).udp('>', b"6"),
            ],
        ),
        with(
            with(
                on("ct_udp_lives_as_long_as_its_timeout", STATES)
                    .sysctl("net.netfilter.nf_conntrack_udp_timeout", 1),
                &[four.udp('>', b"1"), six.udp('>', b"1")],
            )
            .wait(Duration::from_millis(1600)),
            &[four.udp('<', b"2"), six.udp('>', b"3")],
        ),
        states("ct_echo_and_other_icmp", &{
            let f = |kind, rest| four.forth().icmp(kind, 0, rest).data(b"ping");
            let b = |kind, rest| four.back().icmp(kind, 0, rest).data(b"ping");
            let f6 = |kind, rest| six.forth().icmp6(kind, 0, rest).data(b"ping");
            let b6 = |kind, rest| six.back().icmp6(kind, 0, rest).data(b"ping");
            vec![
                ("lan", f(8, 0x0001_0001)),
                ("wan", b(0, 0x0001_0001)),
                ("lan", f(8, 0x0001_0002)),
                ("wan", b(0, 0x0002_0001)),
                ("lan", f(13, 0x0003_0001).zeros(12)),
                ("wan", b(14, 0x0003_0001).zeros(12)),
                ("lan", f(5, 0)),
                ("lan", f(40, 0)),
                ("lan", f(17, 0x0004_0001)),
                ("lan", f6(128, 0x0001_0001)),
                ("wan", b6(129, 0x0001_0001)),
                ("wan", b6(129, 0x0002_0001)),
                ("lan", f6(139, 0)),
                ("lan", f6(200, 0)),
            ]
        }),
        states(
            "ct_icmp_errors_belong_to_what_they_are_about",
            &both(&|e| {
                let (a, b, c) =
                    (Ends { client: 61, ..e }, Ends { client: 62, ..e }, Ends { client: 63, ..e });
                let (request, answer) = (a.udp('>', b"question"), a.udp('<', b"answer"));
                let syn = b.tcp('>', SYN, 1, 0, 0);
                vec![
                    request.clone(),
                    a.error('<', &request.1),
                    answer.clone(),
                    a.error('>', &answer.1),
                    syn.clone(),
                    b.error('<', &syn.1),
                    // About a packet that never was, and an error about an error.
                    c.error('<', &c.udp('>', b"never").1),
                    a.error('<', &a.error('>', &answer.1).1),
                    // In the wrong direction.
                    a.error('>', &request.1),
                ]
            }),
        ),
        states("ct_errors_of_the_router_are_related", &{
            let short = |e: Ends| e.forth().ttl(1).udp(e.client, 9).data(b"expires");
            vec![
                ("lan", short(port(71))),
                ("lan", short(port6(71))),
                ("lan", lan().ip4("198.18.0.10", "198.18.64.1").udp(72, 9)),
                ("lan", lan().ip6("2001:db8:1::10", "2001:db8:64::1").udp(72, 9)),
                ("lan", lan().ip4("198.18.0.10", "198.18.5.20").df().udp(73, 9).zeros(1400)),
                ("lan", lan().ip6("2001:db8:1::10", "2001:db8:5::20").udp(73, 9).zeros(1400)),
            ]
        }),
        states("ct_other_protocols", &{
            vec![
                ("lan", four.forth().transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4])),
                ("wan", four.back().transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4])),
                ("lan", four.forth().transport(47, &[0, 0, 8, 0, 1, 2, 3, 4])),
                ("wan", four.back().transport(47, &[0, 0, 8, 0, 1, 2, 3, 4])),
                ("lan", four.forth().protocol(253).data(b"unassigned")),
                ("wan", four.back().protocol(253).data(b"unassigned")),
                ("lan", four.forth().udplite(5, 6).data(b"lite")),
                ("wan", four.back().udplite(6, 5).data(b"lite")),
                ("lan", four.forth().transport(2, &[0x16, 0, 0xf9, 0xf6, 224, 0, 0, 9])),
                ("lan", six.forth().protocol(253).data(b"unassigned")),
                ("lan", six.forth().extension(60, &[0; 6]).udp(80, 81).data(b"options")),
                ("lan", six.forth().ah(5, 6).udp(82, 83).data(b"authenticated")),
            ]
        }),
        states("ct_what_is_broken_is_invalid", &{
            vec![
                ("lan", four.forth().udp(91, 9).data(b"wrong sum").patch(0, &[1])),
                ("lan", four.forth().udp(92, 9).patch(6, &[0, 0]).data(b"no sum")),
                ("lan", four.forth().tcp(93, 9).patch(16, &[9, 9])),
                ("lan", four.forth().tcp(94, 9).cut(14 + 20 + 12)),
                ("lan", four.forth().icmp(8, 0, 0x0009_0001).patch(2, &[1, 1])),
                ("lan", four.forth().udp(95, 9).patch(4, &[0, 4])),
                ("lan", four.forth().udp(96, 9).patch(4, &[1, 4])),
                ("lan", six.forth().udp(97, 9).patch(6, &[0, 0])),
                ("lan", six.forth().icmp6(128, 0, 5).patch(2, &[1, 1])),
                ("lan", four.forth().tcp(98, 9).patch(12, &[0x40])),
                ("lan", four.forth().tcp(99, 9).patch(12, &[0xf0])),
            ]
        }),
    ];
    all.extend(by_rules(four, six));
    all
}

/// What rules do with connections.
fn by_rules(four: Ends, six: Ends) -> Vec<Scenario> {
    let port = |client| Ends { client, ..four };
    // Replies, and the same from elsewhere, with rules that set zones.
    let replied = |name: &str, zones: &str| {
        let rules = format!(
            "
table inet t {{
	chain raw {{ type filter hook prerouting priority raw; {zones} }}
	chain thru {{ type filter hook forward priority 0; ct original zone 2 counter; ct reply zone 2 counter; ct state new counter; ct state established counter; ct direction reply counter; }}
}}
"
        );
        with(
            on(name, &rules),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                four.udp('>', b"3"),
                four.udp('<', b"4"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"5")),
                four.tcp('>', SYN, 100, 0, 0),
                four.tcp('<', SYN | ACK, 300, 101, 0),
                four.tcp('>', ACK, 101, 301, 0),
                six.udp('>', b"1"),
                six.udp('<', b"2"),
                six.udp('>', b"3"),
            ],
        )
    };
    vec![
        with(
            on(
                "ct_what_is_dropped_leaves_nothing_in_the_table",
                "
table inet t {
	chain pre { type filter hook prerouting priority 0; udp sport 1 counter drop; }
	chain in { type filter hook input priority 0; udp sport 2 counter drop; }
	chain thru { type filter hook forward priority 0; udp sport 3 counter drop; udp sport 4 counter reject; ct state new counter; }
	chain post { type filter hook postrouting priority 2147483647; udp sport 5 counter drop; }
	chain out { type filter hook output priority 0; ct state related counter; ct state established counter; ct state new counter; ct state invalid counter; }
}
table netdev n {
	chain e { type filter hook egress device wan priority 0; udp sport 6 counter drop; }
}
",
            ),
            &{
                let mut frames: Vec<_> = (1..8).map(|n| port(n).udp('>', b"x")).collect();
                frames.extend((1..8).map(|n| Ends { client: n, ..six }.udp('>', b"x")));
                frames.extend((1..8).map(|n| ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(n, 80))));
                // The first was dropped: this begins a connection.
                frames.push(port(3).udp('<', b"y"));
                frames
            },
        ),
        with(
            on(
                "ct_a_stateful_firewall",
                "
table inet t {
	chain thru {
		type filter hook forward priority 0; policy drop;
		ct state invalid counter drop
		ct state established,related counter accept
		iifname lan ct state new counter accept
		counter
	}
	chain in {
		type filter hook input priority 0; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname lan udp dport 53 counter accept
		counter
	}
}
",
            ),
            &[
                whole_connection(four),
                whole_connection(six),
                vec![
                    ("wan", four.back().tcp(5, 6)),
                    ("wan", four.back().udp(5, 6)),
                    four.udp('>', b"q"),
                    four.udp('<', b"a"),
                    ("wan", four.back().tcp(80, 40000).flags(ACK).set(4, &77u32.to_be_bytes())),
                    ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(7, 53)),
                    ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(7, 54)),
                ],
            ]
            .concat(),
        ),
        with(
            on(
                "ct_reset_by_a_rule_closes_the_connection",
                "
table inet t {
	chain thru {
		type filter hook forward priority 0;
		tcp flags psh counter reject with tcp reset
		ct state new counter
		ct state established counter
		ct state invalid counter
	}
	chain out {
		type filter hook output priority 0;
		ct state new counter; ct state established counter; ct state related counter; ct state invalid counter; ct direction reply counter; ct direction original counter
	}
}
",
            ),
            &[whole_connection(four), whole_connection(six), vec![port(9).tcp('>', SYN | PSH, 1, 0, 0)]].concat(),
        ),
        with(
            on(
                "ct_notrack",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; udp dport 80 notrack; }
	chain rawout { type filter hook output priority raw; udp dport 81 notrack; }
	chain thru { type filter hook forward priority 0; ct state untracked counter; ct state new counter; ct state invalid counter; ct state established counter; }
	chain out { type filter hook output priority 0; ct state untracked counter; ct state new counter; ct state invalid counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                six.udp('>', b"1"),
                ("lan", four.forth().udp(5, 81)),
                ("host", bare().ip4("198.19.0.1", "198.19.0.2").udp(6, 81)),
                ("host", bare().ip4("198.19.0.1", "198.19.0.2").udp(6, 82)),
                ("host", bare().ip6("2001:db8:2::1", "2001:db8:2::2").udp(6, 81)),
            ],
        ),
        with(
            on(
                "ct_zones_keep_flows_apart",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; iifname lan ct zone set 5; iifname dmz ct zone set 6; udp dport 70 ct original zone set 7; }
	chain thru { type filter hook forward priority 0; ct zone 5 counter; ct zone 6 counter; ct zone 0 counter; ct original zone 7 counter; ct state new counter; ct state established counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"1")),
                ("wan", four.back().udp(80, 40000)),
                ("lan", four.forth().udp(40000, 70)),
                six.udp('>', b"1"),
            ],
        ),
        with(
            on(
                "ct_flows_that_differ_in_their_original_zone_only",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; iifname lan ct original zone set 1; iifname dmz ct original zone set 2; }
	chain thru { type filter hook forward priority 0; ct original zone 1 counter; ct original zone 2 counter; ct state new counter; ct state established counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"1")),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"2")),
                four.udp('<', b"2"),
                four.udp('>', b"3"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"3")),
            ],
        ),
        with(
            on(
                "ct_zones_of_one_direction",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; iifname lan ct original zone set 2; iifname wan ct reply zone set 2; }
	chain thru { type filter hook forward priority 0; ct original zone 2 counter; ct reply zone 2 counter; ct state new counter; ct state established counter; ct direction reply counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                four.udp('>', b"3"),
                four.udp('<', b"4"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"5")),
                six.udp('>', b"1"),
                six.udp('<', b"2"),
                six.udp('>', b"3"),
            ],
        ),
        with(
            on(
                "ct_a_zone_of_the_original_direction",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; iifname lan ct original zone set 2; }
	chain thru { type filter hook forward priority 0; ct original zone 2 counter; ct reply zone 2 counter; ct state new counter; ct state established counter; ct direction reply counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                four.udp('>', b"3"),
                four.udp('<', b"4"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"5")),
                six.udp('>', b"1"),
                six.udp('<', b"2"),
                six.udp('>', b"3"),
            ],
        ),
        with(
            on(
                "ct_zones_of_one_direction_that_differ",
                "
table inet t {
	chain raw { type filter hook prerouting priority raw; iifname lan ct original zone set 2; iifname wan ct original zone set 3; }
	chain thru { type filter hook forward priority 0; ct original zone 2 counter; ct reply zone 2 counter; ct state new counter; ct state established counter; ct direction reply counter; }
}
",
            ),
            &[
                four.udp('>', b"1"),
                four.udp('<', b"2"),
                four.udp('>', b"3"),
                four.udp('<', b"4"),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").udp(40000, 80).data(b"5")),
                six.udp('>', b"1"),
                six.udp('<', b"2"),
                six.udp('>', b"3"),
            ],
        ),
        replied("ct_a_zone_of_the_reply_direction", "iifname lan ct reply zone set 2; iifname dmz ct reply zone set 3;"),
        replied("ct_a_zone_in_answer_to_one_of_a_direction", "iifname lan ct original zone set 2; iifname wan ct zone set 2;"),
        replied("ct_a_zone_of_the_reply_direction_on_both_sides", "iifname lan ct reply zone set 2; iifname wan ct reply zone set 2;"),
        with(
            on(
                "ct_zones_keep_fragments_apart",
                "
table inet t {
	chain early { type filter hook prerouting priority -450; iifname lan ct zone set 5; }
	chain thru { type filter hook forward priority 0; counter; ct zone 5 counter; ct zone 0 counter; }
}
",
            ),
            &[
                ("lan", four.forth().id(9).fragment(0, true).protocol(17).data(&[0, 1, 0, 2, 0, 24, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])),
                ("dmz", dmz().ip4("198.18.0.10", "198.19.0.2").id(9).fragment(2, false).protocol(17).zeros(8)),
                ("lan", four.forth().id(9).fragment(2, false).protocol(17).zeros(8)),
            ],
        ),
        with(
            on(
                "ct_zones_are_part_of_what_fragments_have_in_common",
                "
table inet t {
	chain early { type filter hook prerouting priority -450; ip ttl 63 ct zone set 5; ip ttl 62 ct reply zone set 5; }
	chain thru { type filter hook forward priority 0; counter; ct zone 5 counter; ct zone 0 counter; }
}
",
            ),
            &[
                ("lan", four.forth().id(9).ttl(63).fragment(0, true).protocol(17).data(&[0, 1, 0, 2, 0, 24, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])),
                ("lan", four.forth().id(9).fragment(2, false).protocol(17).zeros(8)),
                ("lan", four.forth().id(9).ttl(63).fragment(2, false).protocol(17).zeros(8)),
                ("lan", four.forth().id(9).ttl(62).fragment(0, true).protocol(17).data(&[0, 1, 0, 2, 0, 24, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])),
            ],
        ),
        with(
            on(
                "ct_marks_come_back_with_the_flow",
                "
table inet t {
	chain pre { type filter hook prerouting priority mangle; meta mark set ct mark; meta mark 0x7 counter; meta mark 0 counter; }
	chain thru { type filter hook forward priority 0; udp dport 80 ct mark set 7; tcp dport 80 ct mark set ct mark | 0x10; ct mark 0x7 counter; ct mark 0x10 counter; }
}
",
            ),
            &[
                vec![four.udp('>', b"1"), four.udp('<', b"2"), four.udp('>', b"3"), six.udp('>', b"1"), six.udp('<', b"1")],
                whole_connection(four),
            ]
            .concat(),
        ),
        with(
            on(
                "ct_packets_and_bytes_are_counted",
                "
table inet t {
	chain thru { type filter hook forward priority 0; ct bytes > 200 counter; ct packets > 3 counter; ct reply packets > 1 counter; ct original bytes > 100 counter; ct avgpkt > 45 counter; }
}
",
            )
            .sysctl("net.netfilter.nf_conntrack_acct", 1),
            &[whole_connection(four), vec![six.udp('>', b"1"), six.udp('<', b"2")]].concat(),
        ),
        with(
            on("ct_packets_of_the_host_itself", STATES),
            &[
                ("host", bare().ip4("198.19.0.1", "198.19.0.2").udp(1000, 53).data(b"q")),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(53, 1000).data(b"a")),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(53, 1001).data(b"unasked")),
                ("host", bare().ip6("2001:db8:2::1", "2001:db8:2::2").udp(1000, 53).data(b"q")),
                ("wan", wan().ip6("2001:db8:2::2", "2001:db8:2::1").udp(53, 1000).data(b"a")),
                ("host", bare().ip4("198.19.0.1", "198.19.0.2").tcp(1000, 80)),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.1").icmp(8, 0, 0x0001_0001)),
                // Over the loopback device a packet keeps its connection.
                ("host", bare().ip4("198.19.0.1", "198.18.0.1").udp(1002, 53).data(b"to oneself")),
                ("host", bare().ip6("2001:db8:2::1", "2001:db8:1::1").udp(1002, 53).data(b"to oneself")),
                ("lan", lan().ip4("198.18.0.10", "198.18.0.1").udp(1003, 53).data(b"in")),
                ("host", bare().ip4("198.18.0.1", "198.18.0.10").udp(53, 1003).data(b"out")),
            ],
        ),
        with(
            on(
                "ct_copies_are_not_tracked",
                "
table ip t {
	chain pre { type filter hook prerouting priority 0; udp dport 80 dup to 198.18.5.20; }
	chain out { type filter hook output priority 0; ct state untracked counter; ct state new counter; ct state established counter; ct state invalid counter; }
	chain post { type filter hook postrouting priority 0; ct state untracked counter; ct state new counter; ct state established counter; ct state invalid counter; }
}
",
            ),
            &[four.udp('>', b"1"), four.udp('<', b"2"), four.udp('>', b"3")],
        ),
        with(
            on(
                "ct_nothing_is_tracked_before_the_stage",
                "
table inet t {
	chain before { type filter hook prerouting priority -201; ct state new counter; ct state invalid counter; ct state established counter; ct state untracked counter; }
	chain at { type filter hook prerouting priority -199; ct state new counter; ct state invalid counter; ct state established counter; }
	chain last { type filter hook postrouting priority 2147483646; ct status confirmed counter; ct state new counter; }
}
",
            ),
            &[four.udp('>', b"1"), four.udp('<', b"2"), six.udp('>', b"1")],
        ),
        with(
            on(
                "ct_a_table_that_sleeps_tracks_all_the_same",
                "
table ip t {
	flags dormant
	chain c { type filter hook forward priority 0; ct state new counter; }
}
",
            ),
            &[four.udp('>', b"1"), six.udp('>', b"1")],
        ),
        with(
            on(
                "ct_nat_chains_without_rules_track_nothing",
                "
table ip t {
	chain c { type nat hook postrouting priority 100; counter; }
}
table ip6 t {
	chain c { type filter hook forward priority 0; ct state new counter; }
}
",
            ),
            &[four.udp('>', b"1"), six.udp('>', b"1")],
        ),
    ]
}
