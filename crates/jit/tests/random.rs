// SPDX-License-Identifier: Apache-2.0

//! Random tables on random packets: compiled code and the interpreter agree on verdicts, packets,
//! states, what is asked of the outside, and traces.

mod tables;

use std::sync::Arc;

use fastrand::Rng;
use penstock_jit::{
    Bursts, Compiled, Decision, Entry, Helpers, Host, List, Options, PackedDecision, compile,
};
use penstock_packet::Packet;
use penstock_program::image::{ChainIndex, Image};
use penstock_program::state::CounterState;
use penstock_program::{Family, Hook};
use penstock_program::{Outcome, State, run};
use penstock_testkit::program::MockEnv;
use tables::host::Listed;
use tables::{BASES, Made, packet};

/// What running the list by the interpreter decides.
fn interpreted(image: &Image, packet: &mut Packet, host: &mut Listed) -> Decision {
    for (entry, what) in host.entries.clone().iter().enumerate() {
        let chain = match *what {
            Entry::Chain { chain, .. } => chain,
            Entry::InetIngress { chain } if matches!(packet.meta.protocol, 0x0800 | 0x86dd) => {
                if packet.transport().is_none() {
                    return Decision::BadHeader { entry };
                }
                chain
            }
            Entry::InetIngress { .. } => continue,
            Entry::Stage => match host.stage(entry, packet) {
                0 => continue,
                answer => return Decision::Stage { entry, answer },
            },
        };
        host.enter(entry, true);
        match run(image, chain, packet, host) {
            Outcome::Accept => {}
            Outcome::Policy if image.chain(chain).unwrap().policy_accept.unwrap_or(true) => {}
            outcome => return Decision::Chain { entry, outcome },
        }
    }
    Decision::Pass
}

/// Everything that can be seen of a packet.
fn seen(packet: &Packet) -> String {
    format!(
        "{:?} {:?} {} {:?}",
        packet.frame(),
        packet.transport(),
        packet.data_start(),
        packet.meta
    )
}

fn lists(rng: &mut Rng, image: &Image) -> Vec<List> {
    let family = *rng.choice(&[Family::Ip, Family::Ip6, Family::Netdev]).unwrap();
    let bases: Vec<_> = (0..image.chains.len()).take(BASES).map(|i| ChainIndex(i as u32)).collect();
    let entry = |rng: &mut Rng, chain| match rng.u8(..6) {
        0 if family == Family::Netdev => Entry::InetIngress { chain },
        _ => Entry::Chain { chain, family },
    };
    let mut all = List {
        entries: bases.iter().map(|c| entry(rng, *c)).collect(),
        bursts: Bursts::Always,
        ..List::default()
    };
    if rng.u8(..4) == 0 {
        all.entries.insert(rng.usize(..=all.entries.len()), Entry::Stage);
    }
    vec![
        List { bursts: Bursts::Always, ..List::of([Entry::Chain { chain: bases[0], family }]) },
        all,
    ]
}

/// Gives the number of chains that code was made for, and that of the others.
fn check(made: &Made, rng: &mut Rng, packets: usize, lookups: bool, context: &str) -> [usize; 2] {
    let (image, states) = made.link();
    let lists = lists(rng, &image);
    let mut image = image;
    for chain in image.chains.iter_mut().take(BASES) {
        chain.policy_accept = Some(rng.u8(..3) > 0);
    }
    // States are shared by what is linked once, so the other engine gets its own.
    let (mut other, other_states) = made.link();
    // Of packets that policies decide on.
    let (mut counters, mut other_counters) = (Vec::new(), Vec::new());
    for (mine, theirs) in other.chains.iter_mut().zip(&mut image.chains) {
        mine.policy_accept = theirs.policy_accept;
        if mine.policy_accept.is_some() && rng.bool() {
            for (chain, counters) in [(mine, &mut other_counters), (theirs, &mut counters)] {
                let counter = Arc::new(State::Counter(CounterState::new(0, 0)));
                counters.push(counter.clone());
                chain.policy_counter = Some(counter);
            }
        }
    }
    if lookups {
        other.force_lookups(8);
    }
    let compiled = compile(
        Arc::new(other),
        &lists,
        Helpers::of::<Listed>(),
        Options { verify: true, indirect: rng.u8(..4) == 0, ..Options::default() },
    )
    .unwrap();
    let left = compiled.interpreted();
    for n in 0..packets {
        let list = rng.usize(..lists.len());
        let original = packet(rng);
        let (mut a, mut b) = (original.clone(), original.clone());
        let mut outside =
            MockEnv::at(Family::Ip, *rng.choice(&[Hook::Forward, Hook::Ingress]).unwrap());
        outside.random = rng.u32(..);
        outside.fib_interface = Some(3);
        let entries = lists[list].entries.clone();
        let mut host = Listed { outside, entries, protocol: original.meta.protocol };
        let mut other_host = host.clone();
        let wanted = interpreted(&image, &mut a, &mut host);
        let got = jit(&compiled, list, rng.bool(), &mut b, &mut other_host);
        let (outside, other_outside) = (host.outside, other_host.outside);
        let told = || format!("{context} packet {n} list {:?}\n{made}\n{original:?}", lists[list]);
        assert_eq!(wanted, got, "{}", told());
        assert_eq!(seen(&a), seen(&b), "{}", told());
        assert_eq!(outside.events, other_outside.events, "{}", told());
        assert_eq!(outside.queries, other_outside.queries, "{}", told());
    }
    assert_eq!(made.values(&states), made.values(&other_states), "{context}\n{made}");
    let [counted, other_counted] = [&counters, &other_counters].map(|all| {
        let counted = all.iter().map(|state| match &**state {
            State::Counter(counter) => counter.read(),
            _ => unreachable!("only counters are made"),
        });
        counted.collect::<Vec<_>>()
    });
    assert_eq!(counted, other_counted, "{context}\n{made}");
    let chains: usize =
        lists.iter().flat_map(|l| &l.entries).filter(|e| **e != Entry::Stage).count();
    // Once for single packets, once for bursts.
    [2 * chains - left.min(2 * chains), left]
}

fn jit(
    compiled: &Compiled,
    list: usize,
    burst: bool,
    packet: &mut Packet,
    outside: &mut Listed,
) -> Decision {
    let code = compiled.bind::<Listed>().unwrap();
    if !burst {
        return code.run(list, packet, outside).unwrap();
    }
    let mut decisions = [PackedDecision::default()];
    code.run_burst(list, std::slice::from_mut(packet), outside, &mut decisions).unwrap();
    decisions[0].unpack()
}

#[test]
fn compiled_code_agrees_with_the_interpreter() {
    let seed = penstock_testkit::seed();
    let rounds = penstock_testkit::rounds(60);
    let mut rng = Rng::with_seed(seed);
    let (mut native, mut left) = (0, 0);
    for round in 0..rounds {
        let made = Made::random(&mut rng);
        let done =
            check(&made, &mut rng, 60, round % 4 == 0, &format!("seed {seed} round {round}"));
        (native, left) = (native + done[0], left + done[1]);
    }
    println!("chains: {native} compiled, {left} interpreted");
    assert!(native > 2 * left, "seed {seed}");
}

#[test]
fn compiled_long_chains_agree_with_the_interpreter() {
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    for round in 0..12 {
        let made = Made::long(&mut rng, [30, 200, 400][round % 3]);
        check(&made, &mut rng, 150, round % 2 == 1, &format!("seed {seed} long {round}"));
    }
}
