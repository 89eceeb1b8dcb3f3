// SPDX-License-Identifier: Apache-2.0

//! `reject` at ingress of a device in nf_tables, and in a program: what comes back for the same
//! frames is the same, byte for byte, and both count the same.

mod namespaces;
mod reject_frames;
mod rights;
mod sockets;

use fastrand::Rng;
use namespaces::{Namespaces, run};
use penstock_bpf::{Link, Mode, Next, tcx, xdp};
use penstock_ebpf::rules::{Counters, Device, Entry, Job, Place, SharedStates, compile};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_program::env::Interface;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_ruleset::{Family, Ruleset};
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;
use penstock_wire::{icmpv6, ipv4, ipv6, ipv6_ext};
use reject_frames::{Made, frame, left_to_device};
use sockets::{LeftToDevice, Socket};

/// Of the datagram that follows each frame: when its answer comes, that of the frame has come.
const MARK: &[u8] = b"the answer to this comes last";

/// Two hosts A and B, each with a device of R: nf_tables is at r0, the program at r1.
struct Lab {
    all: Namespaces,
    ends: [Socket; 2],
}

impl Lab {
    fn new(name: &str, mtu: usize) -> Self {
        let all = Namespaces::new(name);
        for end in ["a", "r", "b"] {
            all.inside(end, || {
                for which in ["default", "all"] {
                    let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                    std::fs::write(file, "1").unwrap();
                }
            });
        }
        all.connect();
        all.inside("r", || {
            std::fs::write("/proc/sys/net/ipv4/ip_default_ttl", "77").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/hop_limit", "78").unwrap();
        });
        for (end, devices) in [("a", &["a0"][..]), ("r", &["r0", "r1"]), ("b", &["b0"])] {
            let up: String =
                devices.iter().map(|d| format!("link set {d} mtu {mtu} up\n")).collect();
            all.ip(end, &up);
        }
        let ends = [("a", "a0"), ("b", "b0")];
        let ends = ends.map(|(end, device)| all.inside(end, || Socket::new(device)));
        Lab { all, ends }
    }

    fn nft(&self, command: &str, input: &str) -> String {
        run(&format!("ip netns exec {} nft {command}", self.all.name("r")), input)
    }

    /// What comes back for a frame that an end sends.
    fn answers(&self, end: usize, made: &Made) -> Option<Vec<Vec<u8>>> {
        let socket = &self.ends[end];
        if !socket.send(&made.bytes, made.left) {
            return None;
        }
        let last = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
            / Ipv4::new("198.18.0.1", "198.18.0.2")
            / Udp::new(1, 7777)
            / payload(MARK);
        assert!(socket.send(&last.build(), LeftToDevice::default()));
        let mut all = Vec::new();
        loop {
            let (answer, is_super) = socket.receive(2000).unwrap_or_else(|| {
                panic!(
                    "no last answer: {end} {all:02x?} {:02x?}",
                    &made.bytes[..made.bytes.len().min(80)]
                )
            });
            assert!(!is_super, "{answer:02x?}");
            if answer.windows(MARK.len()).any(|part| part == MARK) {
                return Some(all);
            }
            all.push(answer);
        }
    }
}

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// Where a program is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Xdp,
    Tcx,
    Egress,
}

/// Attaches the chains of a ruleset to r1.
fn attach(lab: &Lab, ruleset: &Ruleset, at: At, states: &SharedStates) -> (Link, Counters) {
    let linked = Linked::new(&ruleset.generation()).unwrap();
    let mut bases: Vec<_> = linked.bases.iter().collect();
    bases.sort_by_key(|base| base.base.priority);
    let entry = |base: &&LinkedBase| match base.family {
        Family::Inet => Entry::Inet(base.chain),
        _ => Entry::Netdev(base.chain),
    };
    let entries: Vec<_> = bases.iter().map(entry).collect();
    let index = lab.all.index("r1");
    let padded = |text: &str| {
        let mut out = [0; 16];
        out[..text.len()].copy_from_slice(text.as_bytes());
        out
    };
    let interface = Interface { name: padded("r1"), kind: padded("veth"), arphrd: 1, group: 0 };
    let device = Device { index, mac: Mac([2, 0, 0, 0, 0, 0xf1]), interface };
    let place = match at {
        At::Xdp => Place::Xdp(&device),
        At::Tcx => Place::TcxIngress(&device),
        At::Egress => Place::TcxEgress(&device),
    };
    let (image, shared) = (&linked.image, Some(states));
    let job = Job { image, entries: &entries, place, next: &Next::Pass, shared, routes: None };
    let compiled = compile(job).unwrap_or_else(|e| panic!("{e}"));
    let (program, counts) = compiled
        .load("rules")
        .unwrap_or_else(|e| panic!("{e}\n{}", &e.log[e.log.len().saturating_sub(6000)..]));
    let attach = || match at {
        At::Egress => program.attach_egress(index),
        At::Xdp | At::Tcx => program.attach(index, Mode::Native),
    };
    (lab.all.inside("r", || attach().unwrap()), counts)
}

/// The ruleset for a device.
fn rules(device: &str) -> String {
    format!(
        "table netdev t {{
            chain in {{ type filter hook ingress device \"{device}\" priority 0; policy drop;
                udp dport 7777 counter reject
                ip ttl 3 counter accept
                tcp dport 1 counter reject with icmpx admin-prohibited
                tcp dport 2 counter reject with icmpx port-unreachable
                ip protocol tcp tcp dport 3 counter reject with icmp host-prohibited
                ip6 nexthdr tcp tcp dport 3 counter reject with icmpv6 policy-fail
                tcp dport 4 jump deep
                meta l4proto tcp counter reject with tcp reset
                udp dport 1-3 counter reject with icmpx host-unreachable
                meta protocol ip counter reject with icmp net-unreachable
                meta protocol ip6 counter reject with icmpv6 no-route
                counter reject with icmpx no-route
            }}
            chain deep {{ counter
                tcp flags syn counter reject with tcp reset
                counter reject with icmpx admin-prohibited
            }}
        }}\n"
    )
}

/// A ruleset with a chain that programs search, after one that accepts.
fn long_rules(device: &str) -> String {
    let many = |lines: &mut dyn Iterator<Item = String>| lines.collect::<String>();
    let addresses = many(&mut (1..90).map(|n| {
        let how = ["with icmp host-prohibited", "", "with icmpx no-route"][n % 3];
        format!("ip saddr 198.18.{}.{} counter reject {how}\n", n / 9, n % 9 + 1)
    }));
    let ports = many(&mut (1..90).map(|n| {
        let how = ["tcp reset", "icmpx admin-prohibited"][n % 2];
        format!("tcp dport {n} ip6 saddr 2001:db8::{:x} counter reject with {how}\n", n % 9 + 1)
    }));
    format!(
        "table netdev t {{
            chain first {{ type filter hook ingress device \"{device}\" priority -5; policy accept;
                meta length > 5000 counter drop
                counter
            }}
            chain in {{ type filter hook ingress device \"{device}\" priority 0; policy drop;
                udp dport 7777 counter reject
                {addresses}
                {ports}
                meta l4proto tcp counter reject with tcp reset
                counter reject
            }}
        }}\n"
    )
}

/// A chain at egress of a device, which sees the answers.
fn egress(device: &str) -> String {
    format!(
        "table netdev answers {{
            chain out {{ type filter hook egress device \"{device}\" priority 0; policy accept;
                icmp type destination-unreachable counter
                icmpv6 type destination-unreachable counter
                tcp flags & (rst | ack) == rst | ack counter
                meta mark 0 meta priority 0 counter
                meta pkttype host counter
                meta length < 100 counter
                ip ttl 77 ip protocol icmp counter
                meta protocol vlan counter
                counter
            }}
        }}\n"
    )
}

/// Whether a packet has so many extension headers that an error does not quote the transport header.
/// At tcx it is not answered: what a sender on the same machine has found cannot be cut off.
fn transport_is_late(frame: &[u8]) -> bool {
    let at = if frame[12] == 0x81 || frame[12] == 0x88 { 18 } else { 14 };
    if frame.len() < at + ipv6::LEN || frame[at - 2..at] != [0x86, 0xdd] {
        return false;
    }
    let found = ipv6_ext::skip(&frame[at..], ipv6::LEN, frame[at + 6]);
    found.is_some_and(|found| found.offset > icmpv6::REJECT_QUOTE_MAX)
}

fn counters(listing: &str) -> Vec<String> {
    let counts = |line: &str| line.split_once(" packets ").map(|(_, rest)| rest.to_owned());
    listing.lines().filter_map(counts).collect()
}

/// Sends frames to both, and compares what comes back, and counters of rules; of a chain at egress,
/// too: what is sent from tcx passes programs there, as what nf_tables sends passes its own chains.
fn compare(name: &str, at: At, rules: fn(&str) -> String, make: impl Fn(&mut Rng) -> Made) {
    let lab = Lab::new(name, if at == At::Xdp { 3000 } else { 9000 });
    if at == At::Xdp {
        // Who receives from XDP polls.
        run(&format!("ip netns exec {} ethtool -K b0 gro on", lab.all.name("b")), "");
    }
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, &rules("r1"));
    lab.nft("-f -", &rules("r0"));
    lab.nft("-f -", &egress("r0"));
    let mut answers = Ruleset::default();
    session(&mut answers, &egress("r1"));
    let states = SharedStates::new().unwrap();
    let (link, mut counts) = attach(&lab, &ruleset, at, &states);
    let (egress_link, mut egress_counts) = attach(&lab, &answers, At::Egress, &states);
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let (mut sent, mut answered, mut late, mut differ) = (0, 0, 0, 0);
    let frames = penstock_testkit::rounds(4000);
    for _ in 0..frames {
        let made = make(&mut rng);
        let [kernel, program] = [0, 1].map(|end| lab.answers(end, &made));
        let Some(wanted) = kernel else {
            assert!(program.is_none());
            continue;
        };
        sent += 1;
        answered += wanted.len();
        if at == At::Tcx && transport_is_late(&made.bytes) && program.as_ref() == Some(&vec![]) {
            late += 1;
        } else if program.as_ref() != Some(&wanted) {
            differ += 1;
            if differ <= 8 {
                let short = |bytes: &Vec<u8>| format!("{:02x?}", &bytes[..bytes.len().min(100)]);
                println!("{} bytes {} {:?}", made.bytes.len(), short(&made.bytes), made.left);
                for (who, all) in [("kernel", Some(wanted)), ("program", program)] {
                    for answer in all.unwrap_or_default() {
                        println!("  {who} {} bytes {}", answer.len(), short(&answer));
                    }
                }
            }
        }
    }
    drop((link, egress_link));
    counts.collect().unwrap();
    egress_counts.collect().unwrap();
    println!("{name}: {sent} frames, {answered} answers, {late} not quoted, {differ} differ");
    let kernel = counters(&lab.nft("list table netdev t", ""));
    assert_eq!(counters(&session(&mut ruleset, "list ruleset")), kernel);
    assert_eq!(differ, 0);
    assert!(sent > frames / 2 && answered > sent / 5 && answered < sent, "{sent} {answered}");
    let kernel = counters(&lab.nft("list table netdev answers", ""));
    let program = counters(&session(&mut answers, "list ruleset"));
    match at {
        At::Xdp => assert!(program.iter().all(|count| count == "0 bytes 0"), "{program:?}"),
        _ if late == 0 => assert_eq!(program, kernel),
        _ => {}
    }
}

fn can() -> bool {
    namespaces::can(&["ip", "nft", "ethtool"])
}

#[test]
fn programs_at_tcx_answer_what_nf_tables_answers() {
    if can() {
        compare("reject-tcx", At::Tcx, rules, |rng| frame(rng, 8900));
    }
}

#[test]
fn programs_at_tcx_answer_what_is_left_to_the_device() {
    if can() {
        compare("reject-left", At::Tcx, rules, |rng| left_to_device(rng, 8900, true));
    }
}

#[test]
fn programs_in_xdp_answer_what_nf_tables_answers() {
    if can() {
        compare("reject-xdp", At::Xdp, rules, |rng| frame(rng, 2900));
    }
}

#[test]
fn programs_in_xdp_answer_what_has_an_unfinished_checksum() {
    if can() {
        compare("reject-sums", At::Xdp, rules, |rng| left_to_device(rng, 2900, false));
    }
}

#[test]
fn long_chains_answer_what_nf_tables_answers() {
    if can() {
        compare("reject-long", At::Tcx, long_rules, |rng| frame(rng, 2900));
        compare("reject-lxdp", At::Xdp, long_rules, |rng| frame(rng, 2900));
    }
}

/// In an inet table nf_tables sends what the host sends. A program answers as in a netdev table: a
/// reset is the same, an error differs in its IP header.
#[test]
fn programs_of_inet_tables_answer_at_once() {
    if !can() {
        return;
    }
    let lab = Lab::new("reject-inet", 1500);
    lab.all.ip(
        "r",
        "addr add 198.18.0.1/24 dev r0\nneigh add 198.18.0.7 lladdr 02:00:00:00:00:a0 dev r0 nud permanent\n",
    );
    let rules = |device: &str| {
        format!(
            "table inet t {{
                chain in {{ type filter hook ingress device \"{device}\" priority 0; policy accept;
                    meta l4proto tcp counter reject with tcp reset
                    meta l4proto udp counter reject with icmpx admin-prohibited
                }}
            }}\n"
        )
    };
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, &rules("r1"));
    lab.nft("-f -", &rules("r0"));
    let states = SharedStates::new().unwrap();
    let (link, mut counts) = attach(&lab, &ruleset, At::Tcx, &states);
    let front = || {
        Ethernet::new("02:00:00:00:00:a0", "02:00:00:00:00:f0")
            / Ipv4::new("198.18.0.7", "198.18.0.1")
    };
    let answers = |frame: Frame| {
        [0, 1].map(|end| {
            assert!(lab.ends[end].send(&frame.build(), LeftToDevice::default()));
            lab.ends[end].receive(2000).expect("an answer").0
        })
    };
    let [kernel, program] = answers(front() / Tcp::new(5, 80).syn().seq(7).mss(1460));
    assert_eq!(program, kernel);
    let [kernel, program] = answers(front() / Udp::new(5, 53) / payload(b"question"));
    let (from, to) = (14 + ipv4::LEN, kernel.len());
    assert_eq!(program[from..], kernel[from..to], "the same error");
    assert_eq!(program[..15], kernel[..15], "the same link header");
    let [theirs, ours] = [&kernel, &program].map(|frame| ipv4::Header::new(&frame[14..]).unwrap());
    assert_eq!((theirs.src(), theirs.dst(), theirs.ttl()), (ours.src(), ours.dst(), ours.ttl()));
    assert_eq!((theirs.tos(), ours.tos()), (0xc0, 0));
    drop(link);
    counts.collect().unwrap();
    let kernel = counters(&lab.nft("list table inet t", ""));
    assert_eq!(counters(&session(&mut ruleset, "list ruleset")), kernel);
}

/// Rules before one that rejects have their own use of what its function is lent.
#[test]
fn answers_follow_all_that_rules_do() {
    if !rights::may_load() {
        return;
    }
    let interface = Interface { name: [0; 16], kind: [0; 16], arphrd: 1, group: 0 };
    let device = Device { index: 1, mac: Mac([2, 0, 0, 0, 0, 2]), interface };
    let frame = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
        / Ipv4::new("198.18.0.1", "198.18.0.2")
        / Udp::new(1, 53);
    let many = (0..30).map(|n| format!("@nh,{},32 1 drop\n", n * 8)).collect::<String>();
    for rules in [
        "log prefix \"x\"\n udp dport 53 reject",
        "log group 3\n ct state invalid drop\n log\n reject",
        "ct state new counter\n udp dport 53 log\n ct mark 0 reject\n reject",
        "meta nftrace set 1\n udp dport 53 reject",
        "limit rate 5/second counter\n quota 1 mbytes counter\n last\n reject",
        "add @seen { ip saddr timeout 1m counter }\n ip saddr @seen reject",
        "tcp option maxseg exists drop\n exthdr frag exists drop\n reject",
        "jump other\n drop",
        &format!("{many} log\n reject"),
    ] {
        let text = format!(
            "table inet t {{
                set seen {{ type ipv4_addr; flags dynamic,timeout; size 100; }}
                chain c {{ type filter hook ingress device lan priority 0; {rules}\n }}
                chain other {{ udp dport 53 log level info counter reject with icmpx no-route\n }}
            }}\n"
        );
        let mut ruleset = Ruleset::default();
        session(&mut ruleset, &text);
        let states = SharedStates::new().unwrap();
        states.records().listen(true).unwrap();
        let linked = Linked::new(&ruleset.generation()).unwrap();
        let entries = [Entry::Inet(linked.bases[0].chain)];
        for (place, verdict) in
            [(Place::Xdp(&device), xdp::TX), (Place::TcxIngress(&device), tcx::REDIRECT)]
        {
            if place.kind() == penstock_bpf::ProgramKind::Xdp && rules.contains("nftrace") {
                continue;
            }
            let (image, shared) = (&linked.image, Some(&states));
            let job =
                Job { image, entries: &entries, place, next: &Next::Pass, shared, routes: None };
            let compiled = compile(job).unwrap_or_else(|e| panic!("{place} {rules}: {e}"));
            let (program, _counts) = compiled.load("rules").unwrap_or_else(|e| {
                let log = &e.log[e.log.len().saturating_sub(3000)..];
                panic!("{place} {rules}: {e}\n{log}")
            });
            let ran = program.run(&frame.build(), 1, 1).unwrap();
            assert_eq!((ran.verdict, ran.frame.len()), (verdict, 14 + 28 + 28), "{place} {rules}");
        }
    }
}
