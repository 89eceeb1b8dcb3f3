// SPDX-License-Identifier: Apache-2.0

//! VM programs that no language made.

use std::cell::RefCell;
use std::sync::Arc;

use penstock_dataplane::Settings;
use penstock_ruleset::change::{Change, NewRule, Position};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::Family;
use penstock_ruleset::{Generation, Ruleset};

use super::Target;
use crate::generate::{Bytes, program as make_program};
use crate::network::{NOW, dataplane, net};
use crate::send::send;
use crate::{language, seeds};

pub const TARGET: Target = Target {
    name: "program",
    bytes: "VM programs in all families",
    holds: "those that the ruleset takes run on packets, and are listed",
    longest: 1024,
    seeds: || (0..20).map(|i| seeds::programs(&mut fastrand::Rng::with_seed(i))).collect(),
    make: |rng, _| seeds::programs(rng),
    run,
};

/// Sets and objects that programs name, and a chain at each hook for them.
const SETS: &str = "
table FAMILY t {
	counter k { }
	quota q { over 1000 bytes; }
	limit l { rate 10/second; }
	set addresses { type ipv4_addr; elements = { 198.18.0.10, 198.18.0.11 }; }
	set seen { type ipv4_addr; size 100; flags dynamic,timeout; }
	set ports { type inet_service; flags interval; elements = { 1-100, 1000-2000 }; }
	set pairs { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/24 . 1-100 }; }
	map marks { type inet_service : mark; elements = { 53 : 1, * : 2 }; }
	map verdicts { type inet_proto : verdict; elements = { udp : accept, tcp : jump other }; }
	map counters { type ipv4_addr : counter; elements = { 198.18.0.10 : \"k\" }; }
	chain other { counter; }
	CHAINS
}
";

/// The ruleset that programs are added to, in a family.
fn with_sets(family: Family) -> Ruleset {
    let (word, hooks): (_, &[&str]) = match family {
        Family::Netdev => ("netdev", &["ingress device lan", "egress device wan"]),
        Family::Ip => ("ip", &["prerouting", "input", "forward", "output", "postrouting"]),
        Family::Ip6 => ("ip6", &["prerouting", "input", "forward", "output", "postrouting"]),
        Family::Arp => ("arp", &["input", "output"]),
        _ => ("inet", &["ingress device lan", "prerouting", "input", "forward", "output", "postrouting"]),
    };
    let chain =
        |(i, hook): (usize, &&str)| format!("chain c{i} {{ type filter hook {hook} priority 0; }}\n\t");
    let chains: String = hooks.iter().enumerate().map(chain).collect();
    let text = SETS.replace("FAMILY", word).replace("CHAINS", &chains);
    language::load(&text, &net(), NOW).unwrap_or_else(|e| panic!("{e}"))
}

const FAMILIES: [Family; 5] = [Family::Netdev, Family::Inet, Family::Ip, Family::Ip6, Family::Arp];

fn run(data: &[u8]) {
    thread_local! {
        static RULESETS: RefCell<Vec<Ruleset>> = const { RefCell::new(Vec::new()) };
    }
    let mut bytes = Bytes::new(data);
    let family = FAMILIES[usize::from(bytes.byte()) % FAMILIES.len()];
    let mut ruleset = RULESETS.with_borrow_mut(|made| {
        if made.is_empty() {
            made.extend(FAMILIES.map(with_sets));
        }
        made[FAMILIES.iter().position(|f| *f == family).unwrap_or(0)].clone()
    });
    let mut transaction = ruleset.begin_at(NOW);
    let mut taken = 0;
    for _ in 0..bytes.below(12) + 1 {
        let exprs = make_program(&mut bytes);
        let change = Change::AddRule {
            family,
            table: "t".into(),
            chain: format!("c{}", bytes.below(6)).into(),
            position: Position::After(None),
            rule: NewRule { exprs, userdata: [].into(), origin: None },
        };
        taken += usize::from(transaction.apply(change).is_ok());
    }
    if taken == 0 || ruleset.commit(transaction).is_err() {
        return;
    }
    let generation: Arc<Generation> = ruleset.generation();
    let listing = language::list(&ruleset, &net(), NOW);
    assert!(listing.contains("table"), "{listing}");
    if let Ok(linked) = Linked::new(&generation) {
        let mut dataplane = dataplane(Settings::default());
        dataplane.set_rules(Arc::new(linked));
        let frames = seeds::frames();
        for _ in 0..12 {
            let at = usize::from(u16::from_ne_bytes([bytes.byte(), bytes.byte()]));
            send(&mut dataplane, &frames[at % frames.len()]);
        }
        send(&mut dataplane, bytes.rest());
        std::hint::black_box(language::list(&ruleset, &net(), NOW));
    }
}
