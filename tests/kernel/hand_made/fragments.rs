// SPDX-License-Identifier: Apache-2.0

//! Fragments where rules need whole packets: what each hook sees, what is put together, how it
//! leaves.

use std::time::Duration;

use super::{from, on};
use crate::frame::Frame;
use crate::net::{dmz, lan, out4, out6, own4, wan};
use crate::scenario::Scenario;

/// Counts fragments and packets before and after reassembly, and where they leave.
const HOOKS: &str = "
table inet t {
	chain early { type filter hook prerouting priority -450; counter; ip frag-off & 0x3fff != 0 counter; exthdr frag exists counter; ether saddr 02:00:00:00:01:10 counter; }
	chain raw { type filter hook prerouting priority -350; counter; ip frag-off & 0x3fff != 0 counter; exthdr frag exists counter; ether saddr 02:00:00:00:01:10 counter; meta length > 1500 counter; }
	chain pre { type filter hook prerouting priority 0; counter; ct state new counter; ct state invalid counter; }
	chain in { type filter hook input priority 0; counter; udp dport 9 counter; meta length > 1500 counter; }
	chain thru { type filter hook forward priority 0; counter; udp dport 9 counter; ct state established counter; meta length > 1500 counter; ip dscp af11 counter; ip ecn ce counter; ip6 ecn ce counter; }
	chain outearly { type filter hook output priority -450; counter; }
	chain out { type filter hook output priority 0; counter; icmp type time-exceeded counter; icmp type destination-unreachable counter; icmpv6 type packet-too-big counter; }
	chain post { type filter hook postrouting priority 0; counter; meta length > 1500 counter; }
}
table netdev n {
	chain i { type filter hook ingress devices = { lan, wan, dmz } priority 0; counter; }
	chain e { type filter hook egress device wan priority 0; counter; ip frag-off & 0x3fff != 0 counter; ip frag-off & 0x4000 != 0 counter; }
	chain f { type filter hook egress device lan priority 0; counter; }
	chain g { type filter hook egress device dmz priority 0; counter; }
}
";

/// An IPv4 packet in pieces: bytes `cuts[n]..cuts[n + 1]` of a datagram of `len` bytes of data, in
/// this order.
fn pieces(
    head: impl Fn() -> Frame,
    whole: &Frame,
    id: u16,
    df: bool,
    cuts: &[(usize, usize)],
) -> Vec<Frame> {
    let bytes = whole.bytes();
    let payload = &bytes[14 + 20..];
    cuts.iter()
        .map(|&(start, end)| {
            let end = end.min(payload.len());
            let flags = u16::from(df) << 14 | u16::from(end < payload.len()) << 13;
            head()
                .id(id)
                .set(6, &(flags | (start / 8) as u16).to_be_bytes())
                .protocol(bytes[14 + 9])
                .data(&payload[start..end])
        })
        .collect()
}

/// Fragments of IPv6.
fn pieces6(
    head: impl Fn() -> Frame,
    whole: &Frame,
    id: u32,
    cuts: &[(usize, usize)],
) -> Vec<Frame> {
    let bytes = whole.bytes();
    let payload = &bytes[14 + 40..];
    cuts.iter()
        .map(|&(start, end)| {
            let end = end.min(payload.len());
            head()
                .fragment6((start / 8) as u16, end < payload.len(), id)
                .protocol(bytes[14 + 6])
                .data(&payload[start..end])
        })
        .collect()
}

/// Bytes that differ, so that order matters.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

const END: usize = usize::MAX;

pub fn all() -> Vec<Scenario> {
    let case = |name: &str, frames: &[Vec<Frame>]| from(on(name, HOOKS), "lan", &frames.concat());
    let udp = |len: usize| out4().udp(1, 9).data(&bytes(len));
    let udp6 = |len: usize| out6().udp(1, 9).data(&bytes(len));
    let f4 =
        |id: u16, len: usize, cuts: &[(usize, usize)]| pieces(out4, &udp(len), id, false, cuts);
    let f6 = |id: u32, len: usize, cuts: &[(usize, usize)]| pieces6(out6, &udp6(len), id, cuts);
    let small = || lan().ip4("198.18.0.10", "198.18.5.20");
    let small6 = || lan().ip6("2001:db8:1::10", "2001:db8:5::20");
    let host = || lan().ip4("198.18.0.10", "198.18.0.1");
    let host6 = || lan().ip6("2001:db8:1::10", "2001:db8:1::1");
    let d = |head: &dyn Fn() -> Frame, id: u16, len: usize, df: bool, cuts: &[(usize, usize)]| {
        pieces(head, &head().udp(1, 9).data(&bytes(len)), id, df, cuts)
    };
    let d6 = |head: &dyn Fn() -> Frame, id: u32, len: usize, cuts: &[(usize, usize)]| {
        pieces6(head, &head().udp(1, 9).data(&bytes(len)), id, cuts)
    };
    vec![
        case(
            "tracked_fragments_are_one_packet_between_and_fragments_outside",
            &[
                f4(1, 3000, &[(0, 1480), (1480, 2960), (2960, END)]),
                f6(1, 3000, &[(0, 1448), (1448, 2896), (2896, END)]),
                vec![out4().udp(1, 9).data(&bytes(100)), out6().udp(1, 9).data(&bytes(100))],
            ],
        ),
        case(
            "fragments_leave_as_large_as_they_came",
            &[
                f4(11, 1000, &[(0, 400), (400, 800), (800, END)]),
                f4(12, 1000, &[(0, 8), (8, 16), (16, END)]),
                f4(13, 1000, &[(800, END), (400, 800), (0, 400)]),
                f4(14, 1000, &[(400, 800), (0, 400), (800, END)]),
                f4(15, 1000, &[(0, 608), (608, END)]),
                f4(16, 1000, &[(0, 104), (104, END)]),
                f6(12, 1000, &[(0, 400), (400, 800), (800, END)]),
                f6(13, 1000, &[(800, END), (400, 800), (0, 400)]),
                f6(14, 1000, &[(0, 8), (8, 16), (16, END)]),
                f6(15, 2000, &[(0, 8), (8, 1200), (1200, END)]),
                f6(16, 40, &[(0, END)]),
                f6(17, 3000, &[(1400, 2800), (2800, END), (0, 1400)]),
            ],
        ),
        case("headers_in_several_fragments", &{
            let tcp = |id: u16, cuts: &[(usize, usize)]| {
                pieces(out4, &out4().tcp(id, 80).data(&bytes(1000)), id, false, cuts)
            };
            let options = |id: u32, cuts: &[(usize, usize)]| {
                pieces6(out6, &out6().extension(60, &[0; 6]).udp(id as u16, 9).data(&bytes(1400)), id, cuts)
            };
            vec![
                tcp(61, &[(0, 8), (8, 400), (400, END)]),
                tcp(62, &[(0, 16), (16, 400), (400, END)]),
                tcp(63, &[(0, 24), (24, 400), (400, END)]),
                tcp(64, &[(400, END), (8, 400), (0, 8)]),
                tcp(65, &[(400, END), (16, 400), (0, 16)]),
                tcp(66, &[(400, END), (24, 400), (0, 24)]),
                options(61, &[(0, 1000), (1000, END)]),
                options(62, &[(1000, END), (0, 1000)]),
                options(63, &[(0, 16), (16, END)]),
                // No fragment may be empty, nor lack a header.
                vec![
                    out6().fragment6(0, true, 64).protocol(60).data(b""),
                    out6().fragment6(0, true, 65).protocol(17).data(&[1]),
                    out6().fragment6(0, true, 66).protocol(60).data(&[17]),
                    out6().fragment6(0, true, 67).protocol(60).data(&[17, 0, 0, 0, 0, 0, 0, 0]),
                ],
            ]
        }),
        case(
            "fragments_for_a_smaller_mtu",
            &[
                d(&small, 21, 2000, false, &[(0, 1480), (1480, END)]),
                d(&small, 22, 2000, false, &[(0, 1280), (1280, END)]),
                d(&small, 23, 2000, false, &[(0, 1272), (1272, END)]),
                d(&small, 24, 2000, true, &[(0, 1480), (1480, END)]),
                d(&small, 25, 2000, true, &[(0, 1280), (1280, END)]),
                d(&small, 26, 2000, true, &[(0, 800), (800, 1600), (1600, END)]),
                d6(&small6, 21, 2000, &[(0, 1448), (1448, END)]),
                d6(&small6, 22, 2000, &[(0, 1240), (1240, END)]),
                d6(&small6, 23, 2000, &[(0, 1256), (1256, END)]),
                d6(&small6, 24, 2000, &[(0, 800), (800, 1600), (1600, END)]),
            ],
        ),
        case("fragments_with_df", &{
            let mut mixed = d(&out4, 33, 1000, true, &[(0, 400), (400, 800), (800, END)]);
            mixed[1] = d(&out4, 33, 1000, false, &[(400, 800)]).remove(0);
            let mut largest = d(&out4, 34, 1000, false, &[(0, 400), (400, END)]);
            largest[1] = d(&out4, 34, 1000, true, &[(400, END)]).remove(0);
            [
                d(&out4, 31, 1000, true, &[(0, 400), (400, END)]),
                d(&out4, 32, 3000, true, &[(0, 1480), (1480, 2960), (2960, END)]),
                mixed,
                largest,
            ]
        }),
        case(
            "fragments_that_overlap_repeat_or_contradict",
            &[
                f4(41, 1000, &[(0, 400), (0, 400), (400, END)]),
                f4(42, 1000, &[(0, 400), (392, 800), (800, END)]),
                f4(43, 1000, &[(0, 400), (800, END), (400, 808)]),
                f4(44, 1000, &[(0, 400), (400, 800), (0, 800), (800, END)]),
                f4(45, 1000, &[(0, 800), (8, 400), (800, END)]),
                f4(46, 1000, &[(800, END), (0, 400), (400, 1000), (400, 800)]),
                {
                    let mut longer = f4(47, 1000, &[(0, 400), (800, END)]);
                    longer.extend(f4(47, 2000, &[(1008, 2000)]));
                    longer.extend(f4(47, 1000, &[(400, 800)]));
                    longer
                },
                f6(41, 1000, &[(0, 400), (0, 400), (400, END)]),
                f6(42, 1000, &[(0, 400), (392, 800), (800, END)]),
                f6(43, 1000, &[(0, 400), (800, END), (400, 808), (400, 800)]),
                f6(44, 1000, &[(0, 800), (8, 400), (800, END)]),
                {
                    let mut longer = f6(47, 1000, &[(0, 400), (800, END)]);
                    longer.extend(f6(47, 2000, &[(1008, 2000)]));
                    longer.extend(f6(47, 1000, &[(400, 800)]));
                    longer
                },
            ],
        ),
        case(
            "fragments_of_odd_sizes",
            &[
                // A piece that is not the last and no multiple of eight.
                f4(51, 1000, &[(0, 396), (392, END)]),
                f4(52, 1000, &[(0, 396), (400, END)]),
                vec![
                    out4().id(53).fragment(0, true).protocol(17),
                    out4().id(54).fragment(8191, false).protocol(17).zeros(100),
                    out4().id(55).fragment(8191, true).protocol(17).zeros(8),
                ],
                f6(51, 1000, &[(0, 396)]),
                f6(52, 1000, &[(0, 400), (400, 804), (400, END)]),
                vec![
                    out6().fragment6(0, true, 53).protocol(17),
                    out6().fragment6(8191, false, 54).protocol(17).zeros(100),
                    out6().fragment6(0, true, 55).protocol(17).zeros(4),
                    // A first piece without all of its headers, and one of a TCP header.
                    out6().fragment6(0, true, 56).protocol(6).zeros(8),
                    out6().fragment6(1, false, 56).protocol(6).zeros(24),
                    out6().fragment6(0, false, 57).protocol(17).data(&bytes(100)),
                    out6().fragment6(0, true, 58).extension(60, &[0; 6]).protocol(17).zeros(8),
                ],
                // Options before and after the fragment header.
                pieces6(
                    || out6().extension(0, &[0; 6]),
                    &out6().udp(1, 9).data(&bytes(600)),
                    59,
                    &[(0, 304), (304, END)],
                ),
            ],
        ),
        case("fragments_with_ecn", &{
            let cuts = [(0, 400), (400, 800), (800, END)];
            let with = |id: u16, values: [u8; 3]| -> Vec<Frame> {
                let part = |(cut, tos)| pieces(|| out4().tos(tos), &udp(1000), id, false, &[cut]);
                cuts.into_iter().zip(values).flat_map(part).collect()
            };
            let with6 = |id: u32, values: [u8; 3]| -> Vec<Frame> {
                let head = |tos: u8| out6().set(0, &[0x60 | tos >> 4, tos << 4]);
                let part = |(cut, tos)| pieces6(|| head(tos), &udp6(1000), id, &[cut]);
                cuts.into_iter().zip(values).flat_map(part).collect()
            };
            [
                with(61, [2, 2, 3]),
                with(62, [2, 0, 2]),
                with(63, [3, 3, 3]),
                with(64, [1, 2, 1]),
                with(65, [0, 0, 3]),
                with(66, [0x28, 0x28, 0x28]),
                with(67, [0x28, 0, 0]),
                with6(61, [2, 2, 3]),
                with6(62, [2, 0, 2]),
                with6(63, [3, 3, 3]),
                with6(64, [0x28, 0, 0]),
            ]
        }),
        case(
            "fragments_with_options",
            &[
                pieces(
                    || out4().ip_options(&[0x94, 4, 0, 0]),
                    &udp(1000),
                    71,
                    false,
                    &[(0, 400), (400, END)],
                ),
                {
                    let mut mixed =
                        pieces(|| out4().ip_options(&[1, 1, 1, 0]), &udp(1000), 72, false, &[(0, 400)]);
                    mixed.extend(f4(72, 1000, &[(400, END)]));
                    mixed
                },
            ],
        ),
        case(
            "fragments_for_the_host",
            &[
                d(&host, 81, 2000, false, &[(0, 1480), (1480, END)]),
                d(&host, 82, 2000, false, &[(1480, END), (0, 1480)]),
                d(&host, 83, 2000, true, &[(0, 800), (800, END)]),
                d6(&host6, 81, 2000, &[(0, 1448), (1448, END)]),
                d6(&host6, 82, 2000, &[(1448, END), (0, 1448)]),
            ],
        ),
        {
            let mut own = vec![];
            let whole = own4().udp(1, 9).data(&bytes(1000));
            let payload = whole.bytes()[20..].to_vec();
            for (start, end, more) in [(0, 400, true), (400, 1008, false)] {
                own.push(
                    own4()
                        .id(91)
                        .fragment((start / 8) as u16, more)
                        .protocol(17)
                        .data(&payload[start..end]),
                );
            }
            from(on("fragments_of_the_host_itself", HOOKS), "host", &own)
        },
        case("fragments_of_different_packets_in_between", &{
            let (a, b) = (f4(101, 1000, &[(0, 400), (400, END)]), f4(102, 1000, &[(0, 600), (600, END)]));
            let (c, e) = (f6(101, 1000, &[(0, 400), (400, END)]), f6(102, 1000, &[(0, 600), (600, END)]));
            [vec![a[0].clone(), b[1].clone(), c[1].clone(), a[1].clone(), e[0].clone(), b[0].clone(), c[0].clone(), e[1].clone()]]
        }),
        {
            let far = |n: u16| out4().id(200 + n).fragment(0, true).protocol(17).zeros(16);
            let mut scenario = on("fragments_too_far_apart", HOOKS);
            for (id, others) in [(111u16, 63u16), (112, 64)] {
                let parts = f4(id, 1000, &[(0, 400), (400, END)]);
                scenario = scenario.frame("lan", &parts[0]);
                for n in 0..others {
                    scenario = scenario.frame("lan", &far(id * 70 + n));
                }
                scenario = scenario.frame("lan", &parts[1]);
            }
            scenario
        },
        from(
            on(
                "untracked_fragments_stay_fragments",
                "
table inet t {
	chain early { type filter hook prerouting priority -450; udp sport 1 counter notrack; counter; }
	chain raw { type filter hook prerouting priority -350; counter; }
	chain thru { type filter hook forward priority 0; counter; ct state untracked counter; ct state invalid counter; ct state new counter; }
}
",
            ),
            "lan",
            &[f4(121, 1000, &[(0, 400), (400, END)]), f6(121, 1000, &[(0, 400), (400, END)])].concat(),
        ),
        from(
            on(
                "without_tracking_fragments_pass_as_they_are",
                &HOOKS.replace("ct state new counter;", "").replace("ct state invalid counter;", "").replace(
                    "ct state established counter;",
                    "",
                ),
            ),
            "lan",
            &[f4(131, 1000, &[(0, 400), (400, END)]), f6(131, 1000, &[(0, 400), (400, END)])].concat(),
        ),
        from(
            on(
                "tracking_one_family_leaves_the_other_alone",
                "
table ip t {
	chain c { type filter hook forward priority 0; counter; ct state new counter; }
}
table ip6 t {
	chain c { type filter hook forward priority 0; counter; exthdr frag exists counter; }
}
",
            ),
            "lan",
            &[f4(141, 1000, &[(0, 400), (400, END)]), f6(141, 1000, &[(0, 400), (400, END)])].concat(),
        ),
        from(
            on("answers_in_fragments_belong_to_the_connection", HOOKS),
            "lan",
            &f4(151, 1000, &[(0, 400), (400, END)]),
        )
        .frame("wan", &wan().ip4("198.19.0.2", "198.18.0.10").udp(9, 1).data(b"short"))
        .frame(
            "wan",
            &pieces(
                || wan().ip4("198.19.0.2", "198.18.0.10"),
                &wan().ip4("198.19.0.2", "198.18.0.10").udp(9, 1).data(&bytes(700)),
                152,
                false,
                &[(0, 400)],
            )[0],
        )
        .frame("dmz", &dmz().ip4("198.18.5.20", "198.18.0.10").udp(1, 9)),
        {
            let first = |frames: Vec<Frame>| frames[0].clone();
            let timeouts = on("fragments_that_wait_too_long", HOOKS)
                .sysctl("net.ipv4.ipfrag_time", 1)
                .sysctl("net.netfilter.nf_conntrack_frag6_timeout", 1);
            // Far enough from each other for the order in which the kernel's timers run.
            let pieces = [
                f4(161, 1000, &[(0, 400)]),
                f4(162, 1000, &[(400, 800)]),
                d(&host, 163, 1000, false, &[(0, 400)]),
                f6(161, 1000, &[(0, 400)]),
                f6(162, 1000, &[(400, 800)]),
                d6(&host6, 163, 1000, &[(0, 400)]),
            ];
            pieces
                .into_iter()
                .fold(timeouts, |s, piece| s.frame("lan", &piece[0]).wait(Duration::from_millis(100)))
                .wait(Duration::from_millis(1500))
                .frame("lan", &first(f4(161, 1000, &[(400, END)])))
                .frame("lan", &out4().udp(5, 9))
        },
    ]
}
