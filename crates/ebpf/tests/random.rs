// SPDX-License-Identifier: Apache-2.0

//! Random tables on random frames: XDP programs and the interpreter agree on verdicts and counters.

mod made;
mod rights;

use fastrand::Rng;
use made::frames::{MAC, frame};
use made::{BASES, Made, sets};
use penstock_bpf::{AttachPoint, Next, tcx, xdp};
use penstock_ebpf::rules::{Device, Entry, Job, Place, compile};
use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::Hook;
use penstock_program::env::Interface;
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

/// What the dataplane does with a frame at ingress; whether it continues.
fn interpreted(image: &Image, entries: &[Entry], frame: &[u8], mac: Mac) -> bool {
    let mut packet = Packet::new();
    let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
    outside.interfaces.insert(1, device().interface);
    if !packet.receive_ethernet(frame, mac) {
        return true;
    }
    packet.meta.iif = 1;
    if packet.untag().is_err() {
        return true;
    }
    packet.find_transport_checked();
    for entry in entries {
        let chain = match entry {
            Entry::Netdev(chain) | Entry::Ip(chain) => chain,
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
        if matches!(entry, Entry::Netdev(_)) {
            outside.context.family = Family::Netdev;
        }
        match run(image, *chain, &mut packet, &mut outside) {
            Outcome::Accept => {}
            Outcome::Policy if image.chain(*chain).unwrap().policy_accept != Some(false) => {}
            _ => return false,
        }
    }
    true
}

fn values(states: &[Arc<State>]) -> Vec<(u64, u64)> {
    let read = |state: &Arc<State>| match &**state {
        State::Counter(counter) => counter.read(),
        _ => unreachable!("only counters are made"),
    };
    states.iter().map(read).collect()
}

/// Both run the same image, the kernel first; what it counted is noted and subtracted.
fn check(rng: &mut Rng, place: AttachPoint, frames: usize, context: &str) -> bool {
    let mut made = Made::random(rng);
    if place == AttachPoint::Tcx {
        made.without_tags();
    }
    let (mut image, mut states) = made.0.link(Family::Netdev).unwrap();
    states.extend(sets::states(&made.0));
    for chain in image.chains.iter_mut().take(BASES) {
        chain.policy_accept = Some(rng.u8(..4) > 0);
        if rng.bool() {
            let counter = Arc::new(State::Counter(CounterState::new(0, 0)));
            states.push(counter.clone());
            chain.policy_counter = Some(counter);
        }
    }
    let entries: Vec<_> = (0..BASES as u32)
        .map(|c| {
            if rng.u8(..4) == 0 { Entry::Inet(ChainIndex(c)) } else { Entry::Netdev(ChainIndex(c)) }
        })
        .collect();
    let device = device();
    let at = match place {
        AttachPoint::Xdp => Place::Xdp(&device),
        AttachPoint::Tcx => Place::TcxIngress(&device),
    };
    let job = Job { image: &image, entries: &entries, place: at, next: &Next::Pass };
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
        let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        // A packet at tcx has its tag in the metadata, and something after its link header. The
        // loopback device, by which it comes here, has another broadcast address than others.
        if place == AttachPoint::Tcx
            && (tagged || frame.len() == 14 || frame.starts_with(&[0xff; 6]))
        {
            continue;
        }
        // By hand it is as if it came by the loopback device.
        let (mac, pass, drop) = match place {
            AttachPoint::Xdp => (MAC, xdp::PASS, xdp::DROP),
            AttachPoint::Tcx => (Mac::ZERO, tcx::NEXT, tcx::DROP),
        };
        let before = values(&states);
        let ran = match program.run(&frame, 0, 1) {
            Ok(ran) => ran,
            // The kernel makes no packets of frames that are too short for their protocol.
            Err(e) if place == AttachPoint::Tcx && e.kind() == std::io::ErrorKind::InvalidInput => {
                continue;
            }
            Err(e) => panic!("{context}: {e}"),
        };
        counters.collect().unwrap();
        let counted: Vec<_> =
            values(&states).iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        let before = values(&states);
        let accepted = interpreted(&image, &entries, &frame, mac);
        let wanted: Vec<_> =
            values(&states).iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        let told = || format!("{context} frame {n} {entries:?}\n{made}\n{frame:02x?}");
        assert_eq!(ran.verdict, if accepted { pass } else { drop }, "{}", told());
        assert_eq!(ran.frame, frame, "{}", told());
        assert_eq!(counted, wanted, "{}", told());
    }
    true
}

fn rounds(place: AttachPoint, rounds: usize) {
    if !rights::may_load() {
        return;
    }
    let seed = penstock_testkit::seed();
    let rounds = penstock_testkit::rounds(rounds);
    let mut rng = Rng::with_seed(seed);
    let mut offloaded = 0;
    for round in 0..rounds {
        offloaded += usize::from(check(&mut rng, place, 60, &format!("seed {seed} round {round}")));
    }
    println!("{offloaded} of {rounds} offloaded");
    assert!(offloaded * 2 > rounds, "seed {seed}");
}

#[test]
fn xdp_programs_agree_with_the_interpreter() {
    rounds(AttachPoint::Xdp, 40);
}

#[test]
fn tcx_programs_agree_with_the_interpreter() {
    rounds(AttachPoint::Tcx, 30);
}
