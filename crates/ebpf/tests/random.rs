// SPDX-License-Identifier: Apache-2.0

//! Random tables on random frames: programs at all places and the interpreter agree on verdicts and counters.

mod made;
mod rights;

use fastrand::Rng;
use made::frames::{MAC, frame};
use made::{BASES, Made, sets};
use penstock_bpf::netfilter::{self, InetFamily, InetHook, NetfilterHook};
use penstock_bpf::{Next, tcx, xdp};
use penstock_ebpf::rules::{Device, Entry, Job, Place, compile};
use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::Hook;
use penstock_program::env::{Context, Interface};
use penstock_program::image::{ChainIndex, Image};
use penstock_program::state::CounterState;
use penstock_program::{Outcome, State, run};
use penstock_testkit::program::MockEnv;
use penstock_wire::ethernet::Mac;
use std::sync::Arc;

fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

fn device() -> Device {
    let interface = Interface { name: name("lan"), kind: name("veth"), arphrd: 1, group: 3 };
    Device { index: 1, mac: MAC, interface }
}

/// What the dataplane does with a frame at a place; whether it continues.
fn interpreted(image: &Image, entries: &[Entry], frame: &[u8], spot: Spot) -> bool {
    let mut packet = Packet::new();
    let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
    outside.interfaces.insert(1, spot.interface());
    if !packet.receive_ethernet(frame, spot.mac()) {
        return true;
    }
    packet.meta.iif = 1;
    if packet.untag().is_err() {
        return true;
    }
    packet.find_transport_checked();
    match spot {
        Spot::Xdp | Spot::TcxIngress => {}
        Spot::TcxEgress => {
            outside.context.hook = Hook::Egress;
            (packet.meta.iif, packet.meta.oif) = (0, 1);
            packet.data_at_link();
        }
        Spot::Netfilter(at) => {
            // A run by hand has the devices of output at all hooks (`verify_and_copy_hook_state()`
            // looks at the hook before it has copied it), and the packet is on one, as at
            // postrouting.
            outside.context = Context { family: family(at.family), hook: Hook::Postrouting };
            (packet.meta.iif, packet.meta.oif) = (0, 1);
        }
    }
    for entry in entries {
        let chain = match entry {
            Entry::Netdev(chain) => {
                outside.context.family = Family::Netdev;
                chain
            }
            Entry::Ip(chain) => chain,
            Entry::Inet(chain) => {
                outside.context.family = match packet.meta.protocol {
                    0x0800 => Family::Ip,
                    0x86dd => Family::Ip6,
                    _ => continue,
                };
                if packet.transport().is_none() {
                    return false;
                }
                chain
            }
        };
        match run(image, *chain, &mut packet, &mut outside) {
            Outcome::Accept => {}
            Outcome::Policy if image.chain(*chain).unwrap().policy_accept != Some(false) => {}
            _ => return false,
        }
    }
    true
}

fn family(family: InetFamily) -> Family {
    match family {
        InetFamily::V4 => Family::Ip,
        InetFamily::V6 => Family::Ip6,
    }
}

/// Whether IP lets a packet pass to its hooks.
fn is_valid(frame: &[u8], family: InetFamily) -> bool {
    let packet = &frame[14..];
    let number = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match family {
        InetFamily::V4 => {
            if frame[12..14] != [8, 0] || packet.len() < 20 {
                return false;
            }
            let header = usize::from(packet[0] & 15) * 4;
            packet[0] >> 4 == 4 && header >= 20 && (header..=packet.len()).contains(&number(2))
        }
        InetFamily::V6 => {
            frame[12..14] == [0x86, 0xdd]
                && packet.len() >= 40
                && packet[0] >> 4 == 6
                && number(4) + 40 <= packet.len()
        }
    }
}

/// Where programs run in these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Xdp,
    TcxIngress,
    TcxEgress,
    Netfilter(NetfilterHook),
}

impl Spot {
    /// By hand packets are as if they came by the loopback device.
    fn mac(self) -> Mac {
        if self == Spot::Xdp { MAC } else { Mac::ZERO }
    }

    fn interface(self) -> Interface {
        match self {
            Spot::Netfilter(_) => {
                Interface { name: name("lo"), kind: [0; 16], arphrd: 772, group: 0 }
            }
            Spot::Xdp | Spot::TcxIngress | Spot::TcxEgress => device().interface,
        }
    }

    /// The verdicts of packets that continue, and of others.
    fn verdicts(self) -> (i32, i32) {
        match self {
            Spot::Xdp => (xdp::PASS, xdp::DROP),
            Spot::TcxIngress | Spot::TcxEgress => (tcx::NEXT, tcx::DROP),
            Spot::Netfilter(_) => (netfilter::ACCEPT, netfilter::DROP),
        }
    }

    /// Whether the kernel makes a packet of a frame that is the same as the interpreter's.
    fn suits(self, frame: &[u8]) -> bool {
        let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        match self {
            Spot::Xdp => true,
            // A packet has its tag in the metadata, and something after its link header. The
            // loopback device, by which it comes here, has another broadcast address than others.
            _ if tagged || frame.len() == 14 || frame.starts_with(&[0xff; 6]) => false,
            Spot::TcxIngress => true,
            // The host sends no IP that is malformed.
            Spot::TcxEgress => match frame[12..14] {
                [8, 0] => is_valid(frame, InetFamily::V4),
                [0x86, 0xdd] => is_valid(frame, InetFamily::V6),
                _ => true,
            },
            Spot::Netfilter(hook) => is_valid(frame, hook.family),
        }
    }
}

fn values(states: &[Arc<State>]) -> Vec<(u64, u64)> {
    let read = |state: &Arc<State>| match &**state {
        State::Counter(counter) => counter.read(),
        _ => unreachable!("only counters are made"),
    };
    states.iter().map(read).collect()
}

/// Both run the same image, the kernel first; what it counted is noted and subtracted.
fn check(rng: &mut Rng, spot: Spot, frames: usize, context: &str) -> bool {
    let mut made = Made::random(rng);
    if spot != Spot::Xdp {
        made.without_tags();
    }
    if matches!(spot, Spot::TcxEgress | Spot::Netfilter(_)) {
        made.without_sockets();
    }
    let family = match spot {
        Spot::Netfilter(hook) => family(hook.family),
        _ => Family::Netdev,
    };
    let (mut image, mut states) = made.0.link(family).unwrap();
    states.extend(sets::states(&made.0));
    for chain in image.chains.iter_mut().take(BASES) {
        chain.policy_accept = Some(rng.u8(..4) > 0);
        if rng.bool() {
            let counter = Arc::new(State::Counter(CounterState::new(0, 0)));
            states.push(counter.clone());
            chain.policy_counter = Some(counter);
        }
    }
    let entry = |chain, rng: &mut Rng| match spot {
        Spot::Netfilter(_) => Entry::Ip(chain),
        Spot::Xdp | Spot::TcxIngress if rng.u8(..4) == 0 => Entry::Inet(chain),
        _ => Entry::Netdev(chain),
    };
    let entries: Vec<_> = (0..BASES as u32).map(|c| entry(ChainIndex(c), rng)).collect();
    let device = device();
    let place = match spot {
        Spot::Xdp => Place::Xdp(&device),
        Spot::TcxIngress => Place::TcxIngress(&device),
        Spot::TcxEgress => Place::TcxEgress(&device),
        Spot::Netfilter(hook) => Place::Netfilter(hook),
    };
    let job = Job { image: &image, entries: &entries, place, next: &Next::Pass, shared: None };
    let compiled = match compile(job) {
        Ok(compiled) => compiled,
        Err(refused) => {
            println!("{context}: {refused}");
            return false;
        }
    };
    let (program, mut counters) = match compiled.load("test") {
        Ok(loaded) => loaded,
        Err(e) => panic!("{context}: {e}\n{made}\n{}", &e.log[e.log.len().saturating_sub(4000)..]),
    };
    for n in 0..frames {
        let frame = frame(rng);
        if !spot.suits(&frame) {
            continue;
        }
        let (pass, drop) = spot.verdicts();
        let before = values(&states);
        let result = match spot {
            Spot::Netfilter(hook) => program.run_netfilter(&frame, hook, 1),
            _ => program.run(&frame, 0, 1),
        };
        let ran = match result {
            Ok(ran) => ran,
            // The kernel makes no packets of frames that are too short for their protocol.
            Err(e) if spot != Spot::Xdp && e.kind() == std::io::ErrorKind::InvalidInput => {
                continue;
            }
            Err(e) => panic!("{context}: {e}"),
        };
        counters.collect().unwrap();
        let counted: Vec<_> =
            values(&states).iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        let before = values(&states);
        let accepted = interpreted(&image, &entries, &frame, spot);
        let wanted: Vec<_> =
            values(&states).iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        let told = || format!("{context} frame {n} {entries:?}\n{made}\n{frame:02x?}");
        assert_eq!(ran.verdict, if accepted { pass } else { drop }, "{}", told());
        if !matches!(spot, Spot::Netfilter(_)) {
            assert_eq!(ran.frame, frame, "{}", told());
        }
        assert_eq!(counted, wanted, "{}", told());
    }
    true
}

fn rounds(spots: &[Spot], rounds: usize) {
    if !rights::may_load() {
        return;
    }
    let seed = penstock_testkit::seed();
    let rounds = penstock_testkit::rounds(rounds);
    let mut rng = Rng::with_seed(seed);
    let mut offloaded = 0;
    for round in 0..rounds {
        let spot = spots[round % spots.len()];
        offloaded +=
            usize::from(check(&mut rng, spot, 60, &format!("seed {seed} round {round} {spot:?}")));
    }
    println!("{offloaded} of {rounds} offloaded");
    assert!(offloaded * 2 > rounds, "seed {seed}");
}

#[test]
fn xdp_programs_agree_with_the_interpreter() {
    rounds(&[Spot::Xdp], 40);
}

#[test]
fn tcx_programs_agree_with_the_interpreter() {
    rounds(&[Spot::TcxIngress, Spot::TcxEgress], 40);
}

#[test]
fn netfilter_programs_agree_with_the_interpreter() {
    // At output a packet made by hand has no link header (`bpf_prog_test_run_nf()`).
    let hooks = InetHook::ALL.into_iter().filter(|hook| *hook != InetHook::Output);
    let spots: Vec<_> = hooks
        .flat_map(|hook| {
            [InetFamily::V4, InetFamily::V6]
                .map(|family| Spot::Netfilter(NetfilterHook { family, hook }))
        })
        .collect();
    rounds(&spots, 48);
}
