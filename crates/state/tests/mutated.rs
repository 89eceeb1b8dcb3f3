// SPDX-License-Identifier: Apache-2.0

//! Manipulated files with valid checksums: nothing in them makes the process panic, or run what no
//! ruleset expresses.

#[path = "../../dataplane/tests/router/mod.rs"]
mod router;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fastrand::Rng;
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_state::State;
use penstock_testkit::build::*;

/// Something of every kind that a ruleset has.
const RULES: &str = "
table inet t {
  counter hits { packets 1 bytes 2 }
  quota q { 10 mbytes used 1 mbytes }
  limit l { rate 10/second burst 5 packets }
  ct helper ftp { type \"ftp\" protocol tcp; }
  ct timeout slow { protocol tcp; policy = { established : 100 }; }
  ct expectation e { protocol tcp; dport 5; timeout 1m; size 3; }
  synproxy proxy { mss 1460; wscale 7; timestamp sack-perm; }
  flowtable f { hook ingress priority filter; devices = { wan, lan }; }
  set nets { type ipv4_addr; flags interval; elements = { 198.18.0.0/24, 10.0.0.1-10.0.0.7 } }
  set pairs { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 1-80 } }
  set seen { type ipv4_addr; size 99; flags dynamic,timeout; timeout 1h; elements = { 198.18.0.9 timeout 5m } }
  set counted { type ipv4_addr; size 9; flags dynamic; counter; elements = { 198.18.0.8 counter packets 5 bytes 6 } }
  map marks { type ipv4_addr : mark; elements = { 198.18.0.7 : 5, * : 7 } }
  map ways { type inet_service : verdict; elements = { 2 : jump other, 3 : drop } }
  map names { type inet_service : counter; elements = { 2 : \"hits\" } }
  chain in {
    type filter hook forward priority filter; policy accept;
    ip saddr @nets counter packets 7 bytes 8 meta mark set ip saddr map @marks
    ip saddr . udp dport @pairs update @seen { ip saddr timeout 3m }
    add @counted { ip saddr counter }
    tcp dport { 22, 80-90 } ct state new limit rate 5/minute log prefix \"x\" counter name hits
    udp dport vmap @ways
    counter name udp dport map @names
    quota name q limit name l queue num 5 bypass
    meta random & 3 == 0 numgen random mod 5 == 3 jhash ip saddr mod 7 == 1 drop
    udp dport 4789 vxlan ip saddr 10.0.0.1 last counter
    ct expectation set e ct helper set ftp ct timeout set slow flow add @f
    jump { udp dport 7 accept; }
    fib daddr type local ct count over 3 reject
  }
  chain other { tcp flags syn tcp option maxseg size set rt mtu return; }
  chain nat { type nat hook postrouting priority srcnat; oifname lan meta l4proto tcp masquerade random; }
}
table netdev d { chain i { type filter hook ingress device wan priority 0; ether type arp drop; dup to 3; }; }
table bridge b { chain i { type filter hook prerouting priority 0; ip saddr 1.2.3.4 drop; }; }
";

fn ruleset() -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, RULES.into(), &mut ruleset, router::START);
    assert!(outcome.ok, "{}", outcome.stderr);
    ruleset
}

/// A state of this ruleset.
fn with_ruleset(bytes: &[u8]) -> Vec<u8> {
    let state = State::default().to_bytes(router::START);
    // Magic, version, head of the links: `r` follows.
    let mut out = state[..17 + 13].to_vec();
    for (tag, part) in [(b'r', bytes), (b'c', b"".as_slice()), (b's', b""), (b'e', b"")] {
        let mut head = vec![tag];
        head.extend((part.len() as u64).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        sum.update(part);
        out.extend(head);
        out.extend(sum.finalize().to_le_bytes());
        out.extend(part);
    }
    out
}

/// Some frames of kinds that the rules ask for.
fn frames() -> Vec<Vec<u8>> {
    let from = |last: u8| {
        router::from_wan() / Ipv4::new(format!("198.18.0.{last}").as_str(), "198.18.1.7")
    };
    vec![
        (from(7) / Udp::new(1, 2) / payload(b"abc")).build(),
        (from(8) / Udp::new(1, 4789) / payload([0; 60])).build(),
        (from(9) / Tcp::new(1000, 22).syn() / payload(b"")).build(),
        (from(9) / Tcp::new(1000, 80).ack(7) / payload(b"x")).build(),
    ]
}

/// Runs what was accepted: packets, another change, a listing, and once more through a file.
fn use_it(state: State) {
    let mut ruleset = state.ruleset;
    let mut path = router::router(router::NET);
    if let Ok(linked) = Linked::new(&ruleset.generation()) {
        path.set_rules(Arc::new(linked));
    }
    let mut time = router::START;
    for frame in frames() {
        time += 400_000_000;
        router::receive_at(&mut path, "wan", &frame, time);
        router::receive_at(&mut path, "lan", &frame, time);
    }
    for command in ["list ruleset", "add rule inet t in counter", "delete table inet t"] {
        let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
        session.run(Origin::CommandLine, command.into(), &mut ruleset, time);
    }
    assert!(
        Ruleset::from_saved(&ruleset.save(time)).is_ok(),
        "what was accepted is not accepted again"
    );
}

fn mutated(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    /// Kind and version.
    const FIXED: usize = 11;
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(FIXED..bytes.len());
        match random.u8(..8) {
            0..3 => bytes[at] ^= 1 << random.u8(..8),
            3 => bytes[at] = random.u8(..),
            4 => bytes[at] = bytes[at].wrapping_add(1),
            5 => bytes[at] = [0, 0x7f, 0x80, 0xff][random.usize(..4)],
            6 => drop(bytes.remove(at)),
            _ => bytes.insert(at, random.u8(..)),
        }
    }
    bytes
}

#[test]
fn accepted_mutations_link_and_run() {
    let saved = ruleset().save(router::START);
    assert!(State::from_bytes(&with_ruleset(&saved)).is_ok());
    let mut random = Rng::with_seed(penstock_testkit::seed());
    let (mut accepted, rounds) = (0, penstock_testkit::rounds(1000));
    for round in 0..rounds {
        let bytes = mutated(&saved, &mut random);
        let run = || {
            let state = State::from_bytes(&with_ruleset(&bytes));
            state.map(use_it).is_ok()
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(good) => accepted += u32::from(good),
            Err(_) => {
                let changed = bytes.iter().zip(&saved).position(|(a, b)| a != b);
                panic!("round {round}: it panics with byte {changed:?} changed");
            }
        }
    }
    assert!(accepted as usize * 10 > rounds, "only {accepted} were accepted");
}

#[test]
fn states_that_no_text_expresses_are_refused() {
    for (name, change) in CHANGES {
        let ruleset = ruleset();
        let mut generation = (*ruleset.generation()).clone();
        let table = Arc::make_mut(&mut generation.tables[0]);
        change(table);
        let bytes = Ruleset::resume(generation, 9).save(router::START);
        let broken =
            State::from_bytes(&with_ruleset(&bytes)).map(drop).expect_err(name).to_string();
        assert!(broken.contains("is no ruleset"), "{name}: {broken}");
    }
}

type Change = (&'static str, fn(&mut penstock_ruleset::Table));

const CHANGES: &[Change] = &[
    ("two chains with one name", |table| {
        let name = table.chains[0].name.clone();
        Arc::make_mut(&mut table.chains[1]).name = name;
    }),
    ("a handle that was never given", |table| table.last_handle = 3),
    ("chains out of order", |table| table.chains.reverse()),
    ("one handle twice", |table| {
        let handle = table.sets[0].handle;
        Arc::make_mut(&mut table.flowtables[0]).handle = handle;
    }),
    ("flags that no table has", |table| table.flags = 64),
    ("a nat chain at a hook without one", |table| {
        let chain = table.chains.iter_mut().find(|c| &*c.name == "nat").unwrap();
        Arc::make_mut(chain).base.as_mut().unwrap().hook = penstock_program::Hook::Forward;
    }),
    ("a jump to a base chain", |table| {
        let base = table.chains.iter().find(|c| c.base.is_some()).unwrap().base.clone();
        let chain = table.chains.iter_mut().find(|c| &*c.name == "other").unwrap();
        Arc::make_mut(chain).base = base;
    }),
    ("a rule that asks a set that is not there", |table| {
        table.sets.retain(|set| &*set.name != "nets");
    }),
    ("a loop of chains", |table| {
        use penstock_program::expr::{Expr, Immediate, ImmediateData};
        let dreg = penstock_program::Register::VERDICT;
        let data = ImmediateData::Verdict(penstock_program::Verdict::Jump("other".into()));
        let chain = table.chains.iter_mut().find(|c| &*c.name == "other").unwrap();
        let rule = &mut Arc::make_mut(chain).rules[0];
        let rule = Arc::make_mut(rule);
        rule.exprs = vec![Expr::Immediate(Immediate { dreg, data })];
        rule.states = Vec::new();
    }),
];
