// SPDX-License-Identifier: Apache-2.0

//! `bpf_xdp_ct_lookup()`, `bpf_skb_ct_lookup()` and `bpf_ct_release()` of a program in C
//! (`objects/connections.c`): by the dataplane with both engines, and by the kernel in a namespace
//! with the same connections, the same answers to random questions. Needs root, clang, libbpf and
//! conntrack(8), and is skipped with a message otherwise.

mod bpf;
#[path = "../../ebpfvm/tests/kernel/compile.rs"]
mod compile;
#[path = "../../ebpfvm/tests/kernel/loader.rs"]
mod loader;
mod router;

use std::net::IpAddr;
use std::process::Command;

use bpf::*;
use fastrand::Rng;
use loader::{Loader, hexadecimal};
use penstock_conntrack::tuple::{IPV4, IPV6, address};
use penstock_conntrack::{FlowChange, Tuple, status};
use penstock_dataplane::{BpfHook, Dataplane};
use router::*;

const LINKS: &str = "
link set lo up
link add name wan index 11 address 02:00:00:00:00:01 type veth peer name wan1
link set wan addrgenmode none
link set wan up
";
const WAN: u32 = 11;

/// A connection, in the words of conntrack(8), and as a tuple for each direction.
struct Connection {
    words: &'static str,
    protocol: u8,
    original: (&'static str, u16, &'static str, u16),
    reply: (&'static str, u16, &'static str, u16),
    zones: [u16; 2],
    mark: u32,
    status: u32,
}

const CONNECTIONS: &[Connection] = &[
    Connection {
        words: "-p udp -s 198.18.0.7 -d 198.18.1.7 --sport 1000 --dport 53 -u ASSURED,SEEN_REPLY -m 5",
        protocol: 17,
        original: ("198.18.0.7", 1000, "198.18.1.7", 53),
        reply: ("198.18.1.7", 53, "198.18.0.7", 1000),
        zones: [0; 2],
        mark: 5,
        status: status::ASSURED | status::SEEN_REPLY,
    },
    Connection {
        words: "-p udp -s 198.18.0.7 -d 198.18.1.7 --sport 1000 --dport 53 -m 9 --zone 5",
        protocol: 17,
        original: ("198.18.0.7", 1000, "198.18.1.7", 53),
        reply: ("198.18.1.7", 53, "198.18.0.7", 1000),
        zones: [5; 2],
        mark: 9,
        status: 0,
    },
    Connection {
        words: "-p tcp -s 198.18.0.7 -d 198.18.1.9 --sport 2000 --dport 80 -r 198.18.1.7 -q 198.18.1.1 \
                --reply-port-src 8080 --reply-port-dst 2001 --state ESTABLISHED -u SEEN_REPLY",
        protocol: 6,
        original: ("198.18.0.7", 2000, "198.18.1.9", 80),
        reply: ("198.18.1.7", 8080, "198.18.1.1", 2001),
        zones: [0; 2],
        mark: 0,
        status: status::SEEN_REPLY,
    },
    Connection {
        words: "-p udp -s 198.18.0.8 -d 198.18.1.7 --sport 1 --dport 2 --orig-zone 7 -m 77",
        protocol: 17,
        original: ("198.18.0.8", 1, "198.18.1.7", 2),
        reply: ("198.18.1.7", 2, "198.18.0.8", 1),
        zones: [7, 0],
        mark: 77,
        status: 0,
    },
    Connection {
        words: "-p udp -s 198.18.0.1 -d 198.18.0.1 --sport 9 --dport 9 -m 4294967295",
        protocol: 17,
        original: ("198.18.0.1", 9, "198.18.0.1", 9),
        reply: ("198.18.0.1", 9, "198.18.0.1", 9),
        zones: [0; 2],
        mark: u32::MAX,
        status: 0,
    },
    Connection {
        words: "-p udp -s 2001:db8::7 -d 2001:db8:1::7 --sport 3000 --dport 443 -m 6",
        protocol: 17,
        original: ("2001:db8::7", 3000, "2001:db8:1::7", 443),
        reply: ("2001:db8:1::7", 443, "2001:db8::7", 3000),
        zones: [0; 2],
        mark: 6,
        status: 0,
    },
];

impl Connection {
    fn tuple(&self, direction: usize) -> Tuple {
        let (src, src_id, dst, dst_id) = [self.original, self.reply][direction];
        let [src, dst]: [IpAddr; 2] = [src, dst].map(|text| text.parse().unwrap());
        Tuple {
            src: address(src),
            dst: address(dst),
            src_id,
            dst_id,
            zone: self.zones[direction],
            l3: if src.is_ipv4() { IPV4 } else { IPV6 },
            protocol: self.protocol,
        }
    }
}

/// A namespace with the connections.
fn namespace() -> Option<Namespace> {
    let namespace = Namespace::new("connections")?;
    namespace.batch(&[], LINKS);
    for Connection { words, .. } in CONNECTIONS {
        let done = Command::new("ip")
            .args(["netns", "exec", &namespace.0, "conntrack", "-I", "-t", "1000"])
            .args(words.split_whitespace())
            .output();
        match done {
            Ok(done) if done.status.success() => {}
            Ok(done) => panic!("conntrack {words}: {}", String::from_utf8_lossy(&done.stderr)),
            Err(error) => panic!("ip: {error}"),
        }
    }
    Some(namespace)
}

fn dataplane(object: &[u8], hook: BpfHook, compiled: bool) -> Dataplane {
    let mut path = router(LINKS);
    path.conntrack_mut().advance(START);
    for connection in CONNECTIONS {
        let change = FlowChange {
            timeout: Some(1000 * SECOND),
            status: connection.status,
            mark: Some((0, connection.mark)),
            ..FlowChange::default()
        };
        let tuples = [connection.tuple(0), connection.tuple(1)];
        let done =
            path.conntrack_mut().insert_flow([&tuples[0], &tuples[1]], None, &change, |_, _| true);
        assert!(done.is_ok(), "{done:?}");
    }
    attach(&mut path, object, hook, compiled);
    path
}

/// A frame with a question, as `struct question` has it.
fn question(rng: &mut Rng) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xa7, 0x88, 0xb5];
    let connection = &CONNECTIONS[rng.usize(..CONNECTIONS.len())];
    let mut tuple = connection.tuple(rng.usize(..2));
    match rng.u8(..12) {
        0 => tuple.dst_id ^= 1,
        1 => tuple.src[3] ^= 1,
        2 => std::mem::swap(&mut tuple.src, &mut tuple.dst),
        3 => tuple.protocol = any(rng, &[1, 6, 17, 132, 0]),
        _ => {}
    }
    if rng.u8(..3) == 0 {
        tuple.zone = any(rng, &[0, 0, 5, 7, 9]);
    }
    let v4 = tuple.l3 == IPV4;
    let lengths = if rng.u8(..12) == 0 { [4, 6, 8] } else { [if v4 { 4 } else { 6 }; 3] };
    let mut sought = if v4 {
        [&tuple.src[..4], &tuple.dst[..4]].concat()
    } else {
        [tuple.src, tuple.dst].concat()
    };
    sought.extend(tuple.src_id.to_be_bytes());
    sought.extend(tuple.dst_id.to_be_bytes());
    sought.resize(36, 0);
    frame.push(any(rng, &lengths));
    frame.push(any(rng, &[16, 16, 16, 16, 12, 8]));
    frame.extend(sought);
    let common = rng.u8(..8) != 0;
    let netns: i32 = if common { -1 } else { any(rng, &[-2, 0, 3, i32::MIN]) };
    frame.extend(netns.to_le_bytes());
    frame.extend(rng.i32(..).to_le_bytes());
    frame.extend([tuple.protocol, rng.u8(..)]);
    frame.extend(tuple.zone.to_le_bytes());
    frame.push(if rng.bool() { 0 } else { rng.u8(..6) });
    let reserved = [0, 0, if rng.u8(..16) == 0 { 1 } else { 0 }];
    frame.extend(reserved);
    frame.resize(frame.len() + 200, 0);
    frame
}

#[test]
fn programs_find_the_connections_that_they_find_in_the_kernel() {
    let Some(object) = compile::compile("connections") else { return };
    let Some(loader) = Loader::build("connections") else { return };
    if Command::new("conntrack").arg("-V").output().is_err() {
        println!("skipped: no conntrack(8)");
        return;
    }
    let Some(namespace) = namespace() else { return };
    let mut rng = Rng::with_seed(setting("PENSTOCK_SEED").unwrap_or(1));
    let rounds = setting("PENSTOCK_ROUNDS").unwrap_or(2000);
    let questions: Vec<_> = (0..rounds).map(|_| question(&mut rng)).collect();
    for (program, hook) in
        [("xdp_ask", BpfHook::Xdp { device: WAN }), ("tc_ask", BpfHook::TcIngress { device: WAN })]
    {
        let input = |frame: &Vec<u8>| format!("{program} 0 {WAN} {}\n", hexadecimal(frame));
        let input: String = questions.iter().map(input).collect();
        let theirs = loader.run_in(&namespace.0, &object, &input).expect("the kernel takes it");
        let engines = [false, true];
        let mut paths = engines.map(|code| dataplane(&object, hook, code));
        let (mut found, mut wrong) = (0, Vec::new());
        for (frame, theirs) in questions.iter().zip(&theirs) {
            let (_, theirs) = theirs.split_once(' ').unwrap_or(("", theirs));
            // The end of the question, and of it all.
            let (asked, end) = (2 * (16 + 36 + 16), 2 * (16 + 36 + 16 + 16 + 88));
            found += u32::from(theirs.get(asked + 28..asked + 30) == Some("01"));
            for (path, code) in paths.iter_mut().zip(engines) {
                let ours = answer(path, frame);
                if ours != theirs {
                    let part =
                        |text: &str| text.chars().skip(28).take(end - 28).collect::<String>();
                    wrong.push(format!(
                        "{program} machine code {code}\n  asked {}\n  here  {}\n  there {}",
                        part(&hexadecimal(frame)),
                        part(&ours),
                        part(theirs)
                    ));
                }
            }
        }
        println!("{program}: {} questions, {found} connections", theirs.len());
        let few = &wrong[..wrong.len().min(8)];
        assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), few.join("\n"));
        assert!(found > 0, "none is found");
    }
}
