// SPDX-License-Identifier: Apache-2.0

//! Expressions of captures (`penstock capture`, `penstock run --capture-match`).

use penstock_daemon::control::CaptureCall;
use penstock_daemon::probe;
use penstock_program::expr::Expr;

use super::Target;
use crate::network::net;
use crate::{language, mutate};

pub const TARGET: Target = Target {
    name: "filter",
    bytes: "the words of a capture: where, and what matches",
    holds: "an expression becomes one rule of matches in one chain, or an error; nothing else can be said with it",
    longest: 512,
    seeds,
    make: mutate::text_bytes,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let calls = [
        ("inet", "forward", "0", "", "tcp dport { 80, 443 }"),
        ("ip", "postrouting", "srcnat + 1", "", "ip saddr 198.18.0.0/24 ct state established"),
        ("netdev", "ingress", "-10", "lan", "ether type ip udp dport 53"),
        ("netdev", "egress", "filter", "", "meta length > 100"),
        ("bridge", "input", "0", "one", "vlan id 5"),
        ("inet", "input", "raw", "", "tcp flags & (syn | ack) == syn"),
    ];
    calls.map(|(a, b, c, d, e)| [a, b, c, d, e].join("\n").into_bytes()).to_vec()
}

/// Lines are family, hook, priority, device, expression.
fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut words = text.splitn(5, '\n').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    let (family, hook, priority, device) = (word(), word(), word(), word());
    let call = CaptureCall {
        family,
        hook,
        priority,
        device: Some(device).filter(|d| !d.is_empty()),
        snaplen: 256,
        group: None,
        expression: word(),
    };
    if !call.is_sound() {
        return;
    }
    let net = net();
    let ports = ["lan".to_owned(), "wan".to_owned()];
    let Ok(table) = probe::table(&call, 7, &ports, &language::names(&net)) else { return };
    assert_eq!(probe::number_of(&table.name), Some(7));
    let [chain] = &table.chains[..] else { panic!("{} chains of: {text}", table.chains.len()) };
    let [rule] = &chain.rules[..] else { panic!("{} rules of: {text}", chain.rules.len()) };
    let logs = rule.exprs.iter().filter(|e| matches!(e, Expr::Log(_))).count();
    assert_eq!(logs, 1, "of: {text}");
    let acts = |e: &&Expr| {
        matches!(
            e,
            Expr::Counter(_) | Expr::Objref(_) | Expr::Dynset(_) | Expr::PayloadSet(_) | Expr::MetaSet(_)
        )
    };
    assert_eq!(rule.exprs.iter().find(acts), None, "of: {text}");
}
