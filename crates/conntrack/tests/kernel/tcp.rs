// SPDX-License-Identifier: Apache-2.0

//! TCP: handshakes, closes and everything that goes wrong, by hand and by chance.

use crate::lab::{A, B};
use crate::{Step, agree, compare, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;

/// A segment.
struct Segment<'o> {
    /// From side a.
    there: bool,
    /// A letter for each flag.
    flags: &'o str,
    seq: u32,
    ack: u32,
    window: u16,
    options: &'o [u8],
    /// Bytes of payload.
    data: usize,
}

/// A segment from side a (`there`) with flags from letters, without options and payload.
fn segment(there: bool, flags: &str, seq: u32, ack: u32) -> Segment<'_> {
    Segment { there, flags, seq, ack, window: 1000, options: &[], data: 0 }
}

impl<'o> Segment<'o> {
    fn window(self, window: u16) -> Self {
        Segment { window, ..self }
    }

    fn options(self, options: &'o [u8]) -> Self {
        Segment { options, ..self }
    }

    fn data(self, data: usize) -> Self {
        Segment { data, ..self }
    }

    fn step(self) -> Step {
        let there = self.there;
        let (from, to, s, d) = if there { (A, B, 1000, 80) } else { (B, A, 80, 1000) };
        let bits = self.flags.chars().fold(0, |bits, c| {
            bits | match c {
                'F' => 1,
                'S' => 2,
                'R' => 4,
                'P' => 8,
                'A' => 16,
                'U' => 32,
                'E' => 64,
                _ => 0,
            }
        });
        let mut tcp = Tcp::new(s, d).ack(self.ack).flags(bits).seq(self.seq).window(self.window);
        if !self.options.is_empty() {
            tcp = tcp.raw_options(self.options);
        }
        (there, Ipv4::new(from, to) / tcp / payload(vec![b'x'; self.data]))
    }
}

fn t(flags: &str, seq: u32, ack: u32) -> Step {
    segment(true, flags, seq, ack).step()
}

fn b(flags: &str, seq: u32, ack: u32) -> Step {
    segment(false, flags, seq, ack).step()
}

fn data(there: bool, seq: u32, ack: u32, len: usize) -> Step {
    segment(there, "AP", seq, ack).data(len).step()
}

fn open() -> Vec<Step> {
    vec![t("S", 100, 0), b("SA", 500, 101), t("A", 101, 501)]
}

fn then(mut first: Vec<Step>, more: Vec<Step>) -> Vec<Step> {
    first.extend(more);
    first
}

#[test]
fn hand_made_tcp_connections_are_tracked_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let fin = || {
        then(open(), vec![t("FA", 101, 501), b("A", 501, 102), b("FA", 501, 102), t("A", 102, 502)])
    };
    let scale = [3, 3, 7, 1];
    let sack_ok = [4, 2, 1, 1];
    let scenarios = vec![
        (
            "open and close",
            then(fin(), vec![t("A", 102, 502), t("S", 9000, 0), b("SA", 7000, 9001)]),
        ),
        (
            "server closes",
            then(
                open(),
                vec![b("FA", 501, 101), t("A", 101, 502), t("FA", 101, 502), b("A", 502, 102)],
            ),
        ),
        (
            "both close",
            then(
                open(),
                vec![t("FA", 101, 501), b("FA", 501, 101), t("A", 102, 502), b("A", 502, 102)],
            ),
        ),
        (
            "syn again",
            vec![
                t("S", 100, 0),
                t("S", 100, 0),
                t("S", 200, 0),
                b("SA", 500, 201),
                b("SA", 500, 201),
                t("A", 201, 501),
            ],
        ),
        ("refused", vec![t("S", 100, 0), b("RA", 0, 101), t("S", 100, 0)]),
        ("reset", then(open(), vec![t("R", 101, 0), t("S", 300, 0), b("SA", 600, 301)])),
        ("reset back", then(open(), vec![b("RA", 501, 101), b("R", 501, 0), t("A", 101, 501)])),
        (
            "reset out of window",
            then(open(), vec![b("R", 400, 0), b("R", 502, 0), b("R", 90_000, 0), b("R", 501, 0)]),
        ),
        ("reset after data", then(open(), vec![data(false, 501, 101, 10), b("R", 511, 0)])),
        (
            "reset of a reset",
            vec![t("S", 100, 0), b("SA", 500, 101), t("R", 101, 0), t("R", 101, 0)],
        ),
        (
            "picked up",
            vec![t("A", 100, 500), b("A", 500, 100), data(true, 100, 500, 50), b("A", 500, 150)],
        ),
        (
            "picked up from the other side",
            vec![b("PA", 500, 100), t("A", 100, 500), b("FA", 500, 100)],
        ),
        (
            "impossible beginnings",
            vec![
                t("SA", 1, 1),
                t("FA", 1, 1),
                t("RA", 1, 1),
                t("R", 1, 0),
                t("", 1, 0),
                t("SF", 1, 0),
                t("SR", 1, 0),
                t("FPU", 1, 0),
                t("F", 1, 0),
                t("SP", 1, 0),
            ],
        ),
        ("urgent", vec![t("SU", 1, 0), b("SA", 9, 2), t("AU", 2, 10), t("FAU", 2, 10)]),
        (
            "simultaneous open",
            vec![
                t("S", 100, 0),
                b("S", 500, 0),
                t("SA", 100, 501),
                b("SA", 500, 101),
                t("A", 101, 501),
                b("A", 501, 101),
            ],
        ),
        (
            "simultaneous open with acks",
            vec![
                t("S", 100, 0),
                b("S", 500, 0),
                t("SA", 100, 501),
                b("A", 501, 101),
                t("A", 101, 501),
            ],
        ),
        (
            "syn in the middle",
            then(open(), vec![t("S", 5000, 0), b("A", 501, 101), t("R", 101, 0), t("S", 5000, 0)]),
        ),
        (
            "syn in the middle answered",
            then(open(), vec![t("S", 5000, 0), b("SA", 9000, 5001), t("A", 5001, 9001)]),
        ),
        (
            "challenge ack in last ack",
            then(
                open(),
                vec![
                    t("FA", 101, 501),
                    b("FA", 501, 102),
                    t("S", 9999, 0),
                    b("A", 502, 102),
                    t("A", 102, 502),
                ],
            ),
        ),
        (
            "half open server",
            vec![t("S", 100, 0), b("A", 7000, 8000), t("R", 8000, 0), t("S", 100, 0)],
        ),
        (
            "data out of window",
            then(
                open(),
                vec![
                    data(true, 101, 501, 100),
                    data(true, 3000, 501, 10),
                    data(true, 50, 501, 10),
                    data(true, 201, 501, 1000),
                    b("A", 501, 1201),
                ],
            ),
        ),
        (
            "ack of what was not sent",
            then(
                open(),
                vec![
                    b("A", 501, 200),
                    data(true, 101, 501, 100),
                    b("A", 501, 201),
                    b("A", 501, 202),
                ],
            ),
        ),
        (
            "old acks",
            then(
                open(),
                vec![
                    data(true, 101, 501, 900),
                    b("A", 501, 1001),
                    b("A", 501, 101),
                    b("A", 501, 100u32.wrapping_sub(70_000)),
                ],
            ),
        ),
        (
            "slightly too much",
            then(
                open(),
                vec![data(true, 101, 501, 1005), data(true, 1106, 501, 10), b("A", 501, 1106)],
            ),
        ),
        (
            "reset beyond the window",
            then(
                open(),
                vec![data(false, 501, 101, 225), data(false, 727, 101, 1001), b("R", 1728, 0)],
            ),
        ),
        (
            "reset of both in a simultaneous open",
            vec![t("S", 100, 0), b("S", 500, 0), b("R", 70_501, 0), t("R", 70_501, 0)],
        ),
        ("retransmissions", then(open(), vec![data(true, 101, 501, 10); 6])),
        ("same acks", then(open(), vec![b("A", 501, 101); 6])),
        (
            "zero window",
            then(
                open(),
                vec![
                    segment(false, "A", 501, 101).window(0).step(),
                    t("A", 101, 501),
                    segment(false, "A", 501, 101).window(5).step(),
                ],
            ),
        ),
        (
            "unacknowledged data",
            then(
                open(),
                vec![
                    data(true, 101, 501, 10),
                    data(false, 501, 101, 10),
                    t("A", 111, 511),
                    b("A", 511, 111),
                ],
            ),
        ),
        (
            "keep-alive",
            then(
                open(),
                vec![
                    t("A", 100, 501),
                    b("A", 501, 101),
                    segment(true, "A", 100, 501).data(1).step(),
                ],
            ),
        ),
        (
            "window scale",
            vec![
                segment(true, "S", 100, 0).options(&scale).step(),
                segment(false, "SA", 500, 101).options(&scale).step(),
                segment(true, "A", 101, 501).step(),
                segment(false, "A", 501, 101).step(),
                data(true, 101, 501, 1400),
                segment(true, "AP", 60_000, 501).data(100).step(),
            ],
        ),
        (
            "window scale of one side",
            vec![
                segment(true, "S", 100, 0).options(&scale).step(),
                segment(false, "SA", 500, 101).options(&sack_ok).step(),
                segment(true, "A", 101, 501).step(),
                data(true, 101, 501, 1400),
                data(true, 1501, 501, 1400),
            ],
        ),
        (
            "window scale of twenty and of a syn sent again",
            vec![
                segment(true, "S", 100, 0).options(&[3, 3, 20, 0]).step(),
                segment(true, "S", 100, 0).step(),
                segment(true, "S", 200, 0).options(&scale).step(),
                segment(false, "SA", 500, 201).options(&scale).step(),
                segment(false, "SA", 500, 201).step(),
                segment(true, "A", 201, 501).step(),
                data(true, 201, 501, 1400),
            ],
        ),
        (
            "sack",
            vec![
                segment(true, "S", 100, 0).options(&sack_ok).step(),
                segment(false, "SA", 500, 101).options(&sack_ok).step(),
                segment(true, "A", 101, 501).step(),
                data(true, 101, 501, 100),
                data(true, 301, 501, 100),
                segment(false, "A", 501, 201)
                    .options(&[1, 1, 5, 10, 0, 0, 1, 45, 0, 0, 1, 145])
                    .step(),
                segment(false, "A", 501, 201)
                    .options(&[1, 1, 5, 10, 0, 0, 1, 45, 0, 0, 9, 145])
                    .step(),
                segment(false, "A", 501, 201).options(&[5, 3, 0, 0]).step(),
                data(true, 1101, 501, 150),
            ],
        ),
        (
            "out of window fin and reset",
            then(
                open(),
                vec![t("FA", 50_000, 501), b("R", 300, 0), b("FA", 90_000, 101), t("FA", 101, 501)],
            ),
        ),
        (
            "bad header",
            vec![
                (true, Ipv4::new(A, B) / Tcp::new(1, 2).flags(2).checksum(7)),
                (true, Ipv4::new(A, B) / Tcp::new(1, 2).flags(2).header_len(16)),
                (true, Ipv4::new(A, B) / Tcp::new(1, 2).flags(2).header_len(24)),
            ],
        ),
        (
            "close wait then reset",
            then(
                open(),
                vec![t("FA", 101, 501), b("A", 501, 102), b("R", 999_999, 0), t("S", 7, 0)],
            ),
        ),
        (
            "time wait opened from the other side",
            then(fin(), vec![b("S", 20_000, 0), t("SA", 30_000, 20_001), b("A", 20_001, 30_001)]),
        ),
    ];
    agree(&mut lab, &Settings::default(), &scenarios, false);
}

#[test]
fn tcp_settings_act_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let wild = then(
        open(),
        vec![
            data(true, 50_000, 501, 10),
            b("A", 501, 90_000),
            b("R", 400, 0),
            b("R", 90_000, 0),
            t("FA", 50_000, 501),
            t("A", 101, 501),
        ],
    );
    let pickup = vec![t("A", 100, 500), b("A", 500, 100), t("S", 1, 0), b("SA", 1, 2)];
    for (name, value) in [
        ("nf_conntrack_tcp_be_liberal", 1),
        ("nf_conntrack_tcp_loose", 0),
        ("nf_conntrack_tcp_ignore_invalid_rst", 1),
        ("nf_conntrack_tcp_max_retrans", 1),
    ] {
        let mut settings = Settings::default();
        let before = settings.get(name).unwrap();
        settings.set(name, value).unwrap();
        lab.sysctl(name, value);
        let again = then(open(), vec![data(true, 101, 501, 10); 3]);
        agree(
            &mut lab,
            &settings,
            &[(name, wild.clone()), (name, pickup.clone()), (name, again)],
            false,
        );
        lab.sysctl(name, before);
    }
}

/// What one side of a random connection knows.
#[derive(Clone, Copy)]
struct End {
    next: u32,
    seen: u32,
}

/// A random story that is mostly right, with twists.
pub fn story(rng: &mut fastrand::Rng, len: usize) -> Vec<Step> {
    let mut ends = [End { next: rng.u32(..), seen: 0 }, End { next: rng.u32(..), seen: 0 }];
    let mut steps = Vec::new();
    let options: [&[u8]; 5] =
        [&[], &[3, 3, 4, 1], &[4, 2, 1, 1], &[4, 2, 3, 3, 7, 1], &[2, 4, 5, 0xb4]];
    for n in 0..len {
        let regular = n < 3 && rng.u32(..10) != 0;
        let there = if regular { n != 1 } else { rng.bool() };
        let flags = if regular {
            match n {
                0 => "S",
                1 => "SA",
                _ => "A",
            }
        } else {
            ["A", "A", "A", "AP", "AP", "FA", "FA", "S", "SA", "R", "RA"][rng.usize(..11)]
        };
        let side = usize::from(!there);
        let End { mut next, mut seen } = ends[side];
        if !regular && rng.u32(..5) == 0 {
            let by = [1, 2, 100, 5000, 70_000, 1 << 30][rng.usize(..6)];
            next = if rng.bool() { next.wrapping_add(by) } else { next.wrapping_sub(by) };
        }
        if !regular && rng.u32(..6) == 0 {
            let by = [1, 2, 100, 5000, 70_000][rng.usize(..5)];
            seen = if rng.bool() { seen.wrapping_add(by) } else { seen.wrapping_sub(by) };
        }
        if flags == "R" && rng.bool() {
            next = ends[1 - side].seen;
        }
        let window = [0, 1, 100, 1000, 1000, 1000, 65_535][rng.usize(..7)];
        let size = if flags.contains('P') { rng.usize(..1400) } else { 0 };
        let options =
            if flags.contains('S') || rng.u32(..8) == 0 { options[rng.usize(..5)] } else { &[] };
        let ack = if flags.contains('A') { seen } else { 0 };
        steps.push(
            segment(there, flags, next, ack).window(window).options(options).data(size).step(),
        );
        let extra = flags.chars().filter(|c| matches!(c, 'S' | 'F')).count() as u32;
        let end = next.wrapping_add(size as u32 + extra);
        if rng.u32(..8) != 0 {
            ends[side].next = end;
        }
        if rng.u32(..5) != 0 || regular {
            ends[1 - side].seen = end;
        }
    }
    steps
}

#[test]
fn random_tcp_connections_are_tracked_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let seed = penstock_testkit::seed();
    let stories = penstock_testkit::rounds(15);
    let mut rng = fastrand::Rng::with_seed(seed);
    for n in 0..stories {
        let steps = story(&mut rng, 14);
        let compared = compare(
            &mut lab,
            &format!("story {n} of PENSTOCK_SEED={seed}"),
            &Settings::default(),
            &steps,
        );
        if let Err(difference) = compared {
            panic!("{difference}");
        }
    }
}
