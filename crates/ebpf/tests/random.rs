// SPDX-License-Identifier: Apache-2.0

//! Random tables on random frames: programs at all places and the interpreter agree on verdicts and counters.

mod made;
mod rights;
mod spots;

use fastrand::Rng;
use made::frames::frame;
use made::{BASES, Made, sets};
use penstock_bpf::Next;
use penstock_bpf::netfilter::{InetFamily, InetHook, NetfilterHook};
use penstock_ebpf::rules::{Entry, Job, compile_with};
use penstock_program::Family;
use penstock_program::State;
use penstock_program::image::ChainIndex;
use penstock_program::state::CounterState;
use spots::{Spot, device, family, interpreted, values};
use std::sync::Arc;

/// Both run the same image, the kernel first; what it counted is noted and subtracted.
fn check(rng: &mut Rng, spot: Spot, frames: usize, context: &str) -> bool {
    let most = *rng.choice(&[8, 8, 8, 40]).unwrap();
    let mut made = Made::random(rng, most);
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
    let place = spot.place(&device);
    let job = Job {
        image: &image,
        entries: &entries,
        place,
        next: &Next::Pass,
        shared: None,
        routes: None,
    };
    let long = *rng.choice(&[1, 3, usize::MAX]).unwrap();
    let context = &format!("{context}, long from {long} rules");
    let compiled = match compile_with(job, long) {
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
        let ran = match spot.run(&program, &frame, 1) {
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
