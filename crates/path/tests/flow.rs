//! Flowtables: what leaves is what leaves without them.

mod router;

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_path::{Dataplane, Frame};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_wire::build::*;
use router::*;

/// Where a flowtable is, if anywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nowhere,
    Ingress,
    EarlyIngress,
}

impl At {
    /// A flowtable `f`, and a rule that puts flows there.
    fn texts(self, flags: &str) -> (String, &'static str) {
        let hook = match self {
            At::Nowhere => return (String::new(), ""),
            At::Ingress => "ingress",
            At::EarlyIngress => "early_ingress",
        };
        let flowtable =
            format!("flowtable f {{ hook {hook} priority 0; devices = {{ wan, lan }}; {flags} }}");
        (flowtable, "meta l4proto { tcp, udp } flow add @f")
    }
}

/// Masquerades what leaves by `wan`, forwards a port to the host behind `lan`.
fn rules(at: At, more: &str) -> String {
    let (flowtable, add) = at.texts("counter;");
    format!(
        "table inet t {{
            {flowtable}
            chain f {{
                type filter hook forward priority 0
                {add}
                {more}
            }}
            chain in {{
                type nat hook prerouting priority dstnat
                iifname wan tcp dport 8080 dnat ip to 198.18.1.7:80
            }}
            chain out {{
                type nat hook postrouting priority srcnat
                oifname wan meta nfproto ipv4 masquerade
            }}
        }}"
    )
}

fn commit(ruleset: &mut Ruleset, text: &str) {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{}\n{text}", outcome.stderr);
}

fn set_rules(path: &mut Dataplane, text: &str) -> Ruleset {
    let mut ruleset = Ruleset::default();
    commit(&mut ruleset, text);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap_or_else(|e| panic!("{e}"))));
    ruleset
}

fn with_rules(text: &str) -> Dataplane {
    let mut path = router(NET);
    set_rules(&mut path, text);
    path
}

/// A frame at a time in microseconds from the start.
#[derive(Clone, Debug)]
struct Step {
    device: &'static str,
    micros: u64,
    frame: Vec<u8>,
}

fn lan(micros: u64, frame: Vec<u8>) -> Step {
    Step { device: "lan", micros, frame }
}

fn wan(micros: u64, frame: Vec<u8>) -> Step {
    Step { device: "wan", micros, frame }
}

fn run(path: &mut Dataplane, steps: &[Step]) -> Seen {
    let mut seen = Seen::default();
    let index = |path: &Dataplane, name| path.network().link_by_name(name).unwrap().index;
    let devices = [index(path, "wan"), index(path, "lan")];
    let frames = steps.iter().map(|step| Frame {
        device: devices[usize::from(step.device == "lan")],
        bytes: &step.frame,
        time: START + step.micros * 1000,
    });
    path.receive(frames, &mut seen);
    seen
}

/// What leaves between two hosts on a device, in order. What the router itself says has a number of its own.
fn by_hosts(seen: &Seen) -> BTreeMap<(String, Vec<u8>), Vec<Vec<u8>>> {
    let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (device, frame) in &seen.frames {
        let addresses = match frame[12..14] {
            [8, 0] => frame[26..34].to_vec(),
            _ => frame[22..54].to_vec(),
        };
        let mut frame = frame.clone();
        if frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] != 8 && frame[34] != 0 {
            (frame[18], frame[19], frame[24], frame[25]) = (0, 0, 0, 0);
        }
        out.entry((device.clone(), addresses)).or_default().push(frame);
    }
    out
}

fn udp(from: Ethernet, src: &str, dst: &str, ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    (from / Ipv4::new(src, dst) / Udp::new(ports[0], ports[1]) / payload(data)).build()
}

/// An exchange over UDP from behind the router; answers come to its address.
fn udp_flow(start: u64, port: u16, packets: u64) -> Vec<Step> {
    let there = udp(from_lan(), "198.18.1.7", "198.18.0.7", [port, 53], b"question");
    let back = udp(from_wan(), "198.18.0.7", "198.18.0.1", [53, port], b"answer");
    (0..packets)
        .flat_map(|n| [lan(start + 20 * n, there.clone()), wan(start + 20 * n + 7, back.clone())])
        .collect()
}

#[test]
fn the_second_packet_of_udp_is_offloaded_and_leaves_as_before() {
    for at in [At::Ingress, At::EarlyIngress] {
        let steps = udp_flow(0, 1000, 5);
        let plain = run(&mut with_rules(&rules(At::Nowhere, "")), &steps);
        let mut path = with_rules(&rules(at, "counter"));
        let fast = run(&mut path, &steps);
        assert_eq!(by_hosts(&fast), by_hosts(&plain), "{at:?}");
        assert_eq!(plain.frames.len(), 10);
        let counts = path.flow_counts();
        assert_eq!((counts.added, counts.expired, counts.torn_down), (1, 0, 0), "{at:?}");
        // A burst is looked up as it comes.
        if at == At::Ingress {
            assert_eq!((counts.packets, path.counters().fast), (8, 8));
        }
        let line = path.conntrack().iter().map(|c| c.line(Default::default()).to_string()).next().unwrap();
        assert!(line.contains("[OFFLOAD]"), "{line}");
        let flow = path.flows().next().unwrap();
        assert_eq!((flow.flowtable, flow.closing, flow.hardware), ("f", false, false));
        assert_eq!(flow.packets.iter().map(|p| p.0).sum::<u64>(), counts.packets);
        // A minute later it is connection tracking's again, and the packet goes there.
        let later = udp_flow(40_000_000, 1000, 1);
        let lines = run(&mut path, &later).lines;
        assert_eq!(lines.len(), 2, "{lines:?}");
        let counts = path.flow_counts();
        assert_eq!((counts.added, counts.expired), (2, 1));
    }
}
