// SPDX-License-Identifier: Apache-2.0

//! The same packets through the tracker here and through that of the kernel: what rules see of each
//! packet and what `conntrack -L` shows after it must be the same. Needs root and the tools `ip`,
//! `nft`, `conntrack` and `python3`; is skipped with a message otherwise.

mod damaged;
mod helpers;
mod lab;
mod policies;
mod sctp;
mod sip;
mod tcp;
mod udplite;

use fastrand::Rng;
use lab::{A, A6, B, B6, Lab};
use penstock_conntrack::{
    Conntrack, Direction, HELPERS, Helped, Hook, Settings, Style, Surroundings, Verdict,
};
use penstock_packet::Packet;
use penstock_testkit::build::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A packet on its way: from side a or not.
pub type Step = (bool, Frame);

/// Our side.
struct Ours {
    table: Conntrack,
    /// Numbers of timeout policies with their protocols.
    policies: Vec<(u8, u16)>,
}

/// A timeout policy: a protocol, and seconds by the names of states.
pub type Policy = (u8, Vec<(&'static str, u32)>);

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

impl Ours {
    fn send(&mut self, packet: &[u8]) -> &'static str {
        let mut p = Packet::new();
        p.load(packet, 0);
        p.meta.time = now();
        assert_eq!(self.table.track(&mut p, Hook::Prerouting), Verdict::Accept);
        let state = match p.meta.ct.state() {
            1 => "invalid",
            2 => "established",
            4 => "related",
            8 => "new",
            64 => "untracked",
            _ => "?",
        };
        if let Some(n) = self.table.resolve(&p.meta.ct) {
            // As the lab's rules do it.
            let to = *self.table.connection_at(n).unwrap().tuple(Direction::Original);
            if let Some(at) =
                HELPERS.iter().position(|h| h.port == to.dst_id && h.protocol == to.protocol)
            {
                self.table.set_helper(n, at as u16 + 1);
            }
            if let Some((_, policy)) = self.policies.iter().find(|(p, _)| *p == to.protocol) {
                self.table.set_policy(n, *policy);
            }
        }
        if self.table.help(&mut p, Surroundings::default(), |_, _, _, _, _, _| false)
            == Helped::Drop
        {
            self.table.release(&mut p.meta.ct);
            return "lost";
        }
        assert_eq!(self.table.confirm(&mut p), Verdict::Accept);
        state
    }

    fn list(&mut self) -> Vec<String> {
        self.table.expire(now());
        let mut lines: Vec<String> =
            self.table.iter().map(|c| c.line(Style::default()).to_string()).collect();
        lines.sort();
        lines
    }
}

/// Splits a line into its timeout and the rest.
fn timeout_of(line: &str) -> (i64, String) {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let timeout =
        words.remove(if words[1].starts_with("proto=") { 0 } else { 2 }).parse().unwrap_or(-1);
    (timeout, words.join(" "))
}

fn alike(ours: &[String], theirs: &[String]) -> bool {
    let mut theirs: Vec<(i64, String)> = theirs.iter().map(|l| timeout_of(l)).collect();
    ours.len() == theirs.len()
        && ours.iter().all(|line| {
            let (timeout, rest) = timeout_of(line);
            let found = theirs.iter().position(|(t, r)| *r == rest && (t - timeout).abs() <= 1);
            found.map(|i| theirs.swap_remove(i)).is_some()
        })
}

/// Sends the packets through both and compares.
pub fn compare(
    lab: &mut Lab,
    name: &str,
    settings: &Settings,
    steps: &[Step],
) -> Result<(), String> {
    compare_all(lab, name, settings, steps, false)
}

/// [`compare`], with what is expected after each packet.
pub fn compare_all(
    lab: &mut Lab,
    name: &str,
    settings: &Settings,
    steps: &[Step],
    expectations: bool,
) -> Result<(), String> {
    compare_with(lab, name, settings, steps, expectations, &[])
}

/// Sends the packets of scenarios through both, and says where they differ. `expectations` are
/// compared, too, if wanted.
pub fn agree<N: AsRef<str>>(
    lab: &mut Lab,
    settings: &Settings,
    scenarios: &[(N, Vec<Step>)],
    expectations: bool,
) {
    let compared = scenarios
        .iter()
        .map(|(name, steps)| compare_all(lab, name.as_ref(), settings, steps, expectations));
    let failed: Vec<String> = compared.filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Sends random packets through both, where checksums are verified and where they are not.
pub fn agree_by_chance(what: &str, rounds: usize, steps: impl Fn(&mut Rng) -> Vec<Step>) {
    let Some(mut lab) = lab() else { return };
    let first = penstock_testkit::seed();
    let mut failed = Vec::new();
    for verified in [true, false] {
        lab.sysctl("nf_conntrack_checksum", u32::from(verified));
        let settings = Settings { checksum: verified, ..Settings::default() };
        for seed in first..first + penstock_testkit::rounds(rounds) as u64 {
            let steps = steps(&mut Rng::with_seed(seed));
            let name = format!("{what} {seed}, checksums verified: {verified}");
            let hex = |(there, frame): &Step| {
                let bytes: String = frame.build().iter().map(|b| format!("{b:02x}")).collect();
                format!("{} {bytes}\n", if *there { "->" } else { "<-" })
            };
            let compared = compare(&mut lab, &name, &settings, &steps);
            failed.extend(compared.err().map(|e| e + &steps.iter().map(hex).collect::<String>()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// [`compare_all`], where all connections get timeout policies that the lab's rules set.
pub fn compare_with(
    lab: &mut Lab,
    name: &str,
    settings: &Settings,
    steps: &[Step],
    expectations: bool,
    policies: &[Policy],
) -> Result<(), String> {
    lab.said();
    lab.flush();
    let settings = Settings { log_invalid: 255, ..settings.clone() };
    let mut ours = Ours { table: Conntrack::new(settings), policies: vec![] };
    for (protocol, seconds) in policies {
        let named: Vec<_> =
            seconds.iter().map(|(name, s)| (*name, Duration::from_secs(u64::from(*s)))).collect();
        let policy = ours.table.add_policy(*protocol, &named).unwrap();
        ours.policies.push((*protocol, policy));
    }
    let (mut story, mut complaints) = (String::new(), Vec::new());
    for (n, (from_a, frame)) in steps.iter().enumerate() {
        let packet = frame.build();
        let theirs_state = lab.send(*from_a, &packet);
        let ours_state = ours.send(&packet);
        complaints
            .extend(ours.table.take_complaints().into_iter().flatten().map(|c| c.to_string()));
        let (mut theirs, mut ours_list) = (lab.list(), ours.list());
        if expectations {
            theirs.extend(lab.list_expected());
            ours_list.extend(ours.table.expectation_lines().map(|l| l.to_string()));
        }
        story += &format!(
            "{n} {} {}: {ours_state}\n",
            if *from_a { "->" } else { "<-" },
            describe(&packet)
        );
        for line in &ours_list {
            story += &format!("      {line}\n");
        }
        if theirs_state != ours_state || !alike(&ours_list, &theirs) {
            return Err(format!(
                "{name}, packet {n}:\n{story}{}\nthe kernel: {theirs_state}\n      {}\n{}\n",
                complaints.join("\n"),
                theirs.join("\n      "),
                lab.said().join("\n"),
            ));
        }
    }
    let said = lab.said();
    if said != complaints {
        let (ours, theirs) = (complaints.join("\n      "), said.join("\n      "));
        return Err(format!("{name}:\n{story}log:\n      {ours}\nthe kernel's:\n      {theirs}\n"));
    }
    Ok(())
}

fn describe(packet: &[u8]) -> String {
    let h = penstock_wire::ipv4::Header::new(packet);
    match h {
        Some(h) if h.version() == 4 && h.protocol() == 6 => {
            penstock_wire::tcp::Header::new(h.payload())
                .map_or_else(String::new, |t| format!("{t} length {}", h.payload().len()))
        }
        Some(h) if h.version() == 4 => {
            format!("protocol {} length {}", h.protocol(), h.payload().len())
        }
        _ => format!("{} bytes of IPv6", packet.len()),
    }
}

/// The lab, or nothing after saying why.
pub fn lab() -> Option<Lab> {
    match Lab::new() {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("left out: no comparison with the kernel ({})", why.trim());
            None
        }
    }
}

fn udp(there: bool) -> Frame {
    let (from, to, s, d) = if there { (A, B, 1000, 53) } else { (B, A, 53, 1000) };
    Ipv4::new(from, to) / Udp::new(s, d) / payload(b"data")
}

#[test]
fn udp_and_icmp_flows_are_tracked_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let v4 = |there: bool| if there { Ipv4::new(A, B) } else { Ipv4::new(B, A) };
    let v6 = |there: bool| if there { Ipv6::new(A6, B6) } else { Ipv6::new(B6, A6) };
    let error4 = |there, kind, code, quoted: Frame| {
        v4(there) / Icmp::new(kind, code) / payload(quoted.build())
    };
    let error6 = |there, kind, code, quoted: Frame| {
        v6(there) / Icmpv6::new(kind, code) / payload(quoted.build())
    };
    let udp6 = |there: bool| {
        v6(there) / Udp::new(if there { 7 } else { 8 }, if there { 8 } else { 7 }) / payload(b"x")
    };
    let gre1 = |there, call: u16| {
        let mut header = vec![0x20, 0x01, 0x88, 0x0b, 0, 4];
        header.extend(call.to_be_bytes());
        header.extend([1, 2, 3, 4]);
        v4(there).protocol(47) / payload(header)
    };
    let scenarios: Vec<(&str, Vec<Step>)> = vec![
        ("udp", vec![(true, udp(true)), (true, udp(true)), (false, udp(false)), (true, udp(true))]),
        (
            "wrong udp",
            vec![
                (true, v4(true) / Udp::new(1, 2).checksum(0xbad) / payload(b"x")),
                (true, v4(true) / Udp::new(1, 2).checksum(0) / payload(b"x")),
                (true, v4(true) / Udp::new(1, 2).length(7)),
                (true, v4(true) / Udp::new(1, 2).length(8) / payload(b"pad")),
                (true, v4(true) / Udp::new(1, 3).length(80)),
                (true, v6(true) / Udp::new(1, 2).checksum(0) / payload(b"x")),
                (true, v6(true) / Udp::new(1, 2).checksum(0xbad) / payload(b"x")),
            ],
        ),
        (
            // The kernel takes the protocol number of UDP for the checksum, so it finds only wrong
            // ones right.
            "udplite that is wrong anyhow",
            vec![
                (true, v4(true) / UdpLite::new(1, 4).coverage(7) / payload(b"abcd")),
                (true, v4(true) / UdpLite::new(1, 5).coverage(80) / payload(b"abcd")),
                (true, (v4(true).protocol(136) / payload(b"abcdefg"))),
            ],
        ),
        (
            "echo",
            vec![
                (false, v4(false) / Icmp::echo_reply(7, 1)),
                (true, v4(true) / Icmp::echo_request(7, 1)),
                (true, v4(true) / Icmp::echo_request(7, 2)),
                (false, v4(false) / Icmp::echo_reply(7, 1)),
                (true, v4(true) / Icmp::echo_request(7, 3)),
                (true, v4(true) / Icmp::new(13, 0)),
                (false, v4(false) / Icmp::new(14, 0)),
                (true, v4(true) / Icmp::new(17, 0)),
                (true, v4(true) / Icmp::new(15, 3)),
                (true, v4(true) / Icmp::new(19, 0)),
                (true, v4(true) / Icmp::new(40, 0)),
                (true, v4(true) / Icmp::new(10, 0)),
                (true, v4(true) / Icmp::echo_request(9, 1).checksum(3)),
            ],
        ),
        (
            "echo in IPv6",
            vec![
                (true, v6(true) / Icmpv6::echo_request(7, 1)),
                (false, v6(false) / Icmpv6::echo_reply(7, 1)),
                (true, v6(true) / Icmpv6::new(139, 0)),
                (true, v6(true) / Icmpv6::new(129, 0)),
                (true, v6(true) / Icmpv6::new(200, 0)),
                (true, v6(true) / Icmpv6::new(143, 0)),
                (true, v6(true) / Icmpv6::new(130, 0)),
                (
                    true,
                    v6(true) / HopByHop::new() / DestOptions::new() / Icmpv6::echo_request(8, 1),
                ),
                (true, v6(true) / Icmpv6::echo_request(7, 1).checksum(5)),
            ],
        ),
        (
            "errors",
            vec![
                (false, error4(false, 3, 3, udp(true))),
                (true, udp(true)),
                (false, error4(false, 3, 3, udp(true))),
                (false, error4(false, 11, 0, udp(true))),
                (false, error4(false, 4, 0, udp(true))),
                (false, error4(false, 5, 1, udp(true))),
                (false, error4(false, 12, 0, udp(true))),
                (true, error4(true, 3, 3, udp(false))),
                (false, error4(false, 3, 3, udp(false))),
                (true, error4(true, 3, 3, udp(true))),
                (false, error4(false, 3, 1, udp(true).truncate(24))),
                (false, error4(false, 3, 1, udp(true).truncate(23))),
                (
                    false,
                    error4(false, 3, 1, Ipv4::new(A, B).fragment(8, true) / Udp::new(1000, 53)),
                ),
                (false, v4(false) / Icmp::new(3, 3).checksum(9) / payload(udp(true).build())),
                (true, v4(true) / Icmp::echo_request(7, 1)),
                (false, error4(false, 3, 1, v4(true) / Icmp::echo_request(7, 1))),
                (false, error4(false, 3, 1, v4(true) / Icmp::echo_request(8, 1))),
                (false, error4(false, 3, 1, error4(true, 3, 1, udp(false)))),
            ],
        ),
        (
            "errors in IPv6",
            vec![
                (true, udp6(true)),
                (false, error6(false, 1, 4, udp6(true))),
                (false, error6(false, 2, 0, udp6(true))),
                (false, error6(false, 3, 0, udp6(true))),
                (false, error6(false, 4, 1, udp6(true))),
                (false, error6(false, 100, 1, udp6(true))),
                (false, error6(false, 1, 4, udp6(false))),
                (
                    false,
                    error6(
                        false,
                        1,
                        4,
                        v6(true) / DestOptions::new() / Udp::new(7, 8) / payload(b"x"),
                    ),
                ),
                (false, error6(false, 1, 4, v6(true) / Fragment::new(0, true, 1) / Udp::new(7, 8))),
                (
                    false,
                    error6(
                        false,
                        1,
                        4,
                        v6(true) / Fragment::new(9, true, 1).next_header(17) / payload(b"abcdefgh"),
                    ),
                ),
            ],
        ),
        (
            "other protocols",
            vec![
                (true, v4(true).protocol(89) / payload(b"ospf")),
                (false, v4(false).protocol(89) / payload(b"ospf")),
                (true, v4(true) / Esp::new(1, 1)),
                (true, v4(true) / Ah::new(1, 1) / Udp::new(1, 2)),
                (true, v6(true) / Ah::new(1, 1) / Udp::new(1, 2)),
                (true, v4(true).protocol(4) / payload(udp(true).build())),
                (true, v4(true).protocol(58) / payload(b"abcdefgh")),
                (true, v6(true).next_header(1) / payload(b"\x08\0\0\0abcd")),
                (true, v6(true).into()),
                (true, v4(true).protocol(255) / payload(b"")),
            ],
        ),
        (
            "gre",
            vec![
                (true, v4(true) / Gre::new() / payload(b"x")),
                (true, v4(true) / Gre::new().key(5) / payload(b"x")),
                (false, v4(false) / Gre::new() / payload(b"x")),
                (true, v4(true) / Gre::new() / payload(b"x")),
                (true, gre1(true, 9)),
                (false, gre1(false, 9)),
                (false, gre1(false, 0)),
                (true, v4(true).protocol(47) / payload([0x20, 1, 8, 0, 0, 0, 0, 1])),
                (true, v4(true).protocol(47) / payload([0x20, 1, 0x88, 0x0b])),
                (true, v4(true).protocol(47) / payload([0x20])),
            ],
        ),
        (
            "short headers",
            vec![
                (true, v4(true).protocol(17) / payload(b"abc")),
                (true, v4(true).protocol(17) / payload(b"abcd")),
                (true, v4(true).protocol(6) / payload(b"abcdefghijklmnop")),
                (true, v4(true).protocol(132) / payload(b"abcdefgh")),
            ],
        ),
    ];
    agree(&mut lab, &Settings::default(), &scenarios, false);
}

#[test]
fn sctp_associations_are_tracked_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let packet = |there: bool, vtag: u32, chunks: &[(u8, u8)]| {
        let (from, to, s, d) = if there { (A, B, 1, 2) } else { (B, A, 2, 1) };
        let mut layer = Sctp::new(s, d).vtag(vtag);
        for &(kind, flags) in chunks {
            let tag: u32 = if there { 0x11 } else { 0x22 };
            let mut data = tag.to_be_bytes().to_vec();
            data.extend([0; 12]);
            layer = layer.chunk(kind, flags, &data);
        }
        (there, Frame::from(Ipv4::new(from, to)) / layer)
    };
    // Tags that packets of a direction carry are those that the other side offered.
    let there = |kind| packet(true, if kind == 1 { 0 } else { 0x22 }, &[(kind, 0)]);
    let back = |kind| packet(false, if kind == 1 { 0 } else { 0x11 }, &[(kind, 0)]);
    let open = || vec![there(1), back(2), there(10), back(11)];
    let with = |steps: Vec<Step>, more: Vec<Step>| [steps, more].concat();
    let mut scenarios: Vec<(String, Vec<Step>)> = vec![
        ("open".into(), with(open(), vec![there(0), back(3), there(7), back(8), there(14)])),
        ("server closes".into(), with(open(), vec![back(7), there(8), back(14), there(1)])),
        (
            "abort".into(),
            with(open(), vec![packet(true, 0x33, &[(6, 0)]), packet(true, 0x11, &[(6, 1)])]),
        ),
        ("init again".into(), vec![there(1), there(1), back(1), back(2), there(1), there(10)]),
        ("heartbeat first".into(), vec![there(4), back(5), there(0), back(0)]),
        (
            "wrong tags".into(),
            with(open(), vec![packet(true, 9, &[(0, 0)]), packet(false, 9, &[(0, 0)])]),
        ),
        (
            "wrong heartbeat".into(),
            with(open(), vec![packet(true, 9, &[(4, 0)]), packet(false, 8, &[(5, 0)]), back(0)]),
        ),
        (
            "first is data".into(),
            vec![there(0), back(0), there(2), there(11), there(14), there(6), there(8)],
        ),
        (
            "bundled".into(),
            vec![
                packet(true, 0, &[(1, 0), (0, 0)]),
                there(1),
                back(2),
                packet(true, 0x22, &[(10, 0), (0, 0)]),
                packet(false, 0x11, &[(0, 0), (11, 0)]),
            ],
        ),
        (
            "bad checksum".into(),
            vec![(true, Ipv4::new(A, B) / Sctp::new(1, 2).chunk(1, 0, &[0; 16]).checksum(1))],
        ),
    ];
    for prefix in 1..=4 {
        for kind in [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 14, 200] {
            let begin = open()[..prefix].to_vec();
            scenarios.push((
                format!("{prefix} packets, then chunk {kind}"),
                with(begin.clone(), vec![there(kind)]),
            ));
            scenarios.push((
                format!("{prefix} packets, then chunk {kind} back"),
                with(begin, vec![back(kind)]),
            ));
        }
    }
    agree(&mut lab, &Settings::default(), &scenarios, false);
}
