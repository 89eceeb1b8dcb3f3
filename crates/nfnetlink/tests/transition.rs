// SPDX-License-Identifier: Apache-2.0

//! Batches that bring a ruleset to the kernel and change it there, taken by a [`Client`] in the
//! kernel's place: both then list the same.

use std::collections::HashMap;

use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_nfnetlink::kernel::{KernelBatch, KernelHandles, KernelTables, transition};
use penstock_nfnetlink::{Client, Local, Process};
use penstock_ruleset::{Generation, Ruleset};

/// A ruleset and changes of it, one after the other.
const CASES: [&[&str]; 6] = [
    &[
        "table inet t { chain i { type filter hook input priority 0; policy drop; counter reject; } }",
        "add rule inet t i tcp dport 22 accept; insert rule inet t i iifname lo accept",
        "add chain inet t i { policy accept; }; flush chain inet t i",
        "add chain inet t j; add rule inet t i jump j; add rule inet t j counter drop",
        "delete table inet t",
    ],
    &[
        "table ip t { set s { type ipv4_addr; flags interval; elements = { 198.18.0.0/24, 198.18.2.1 } }
           chain f { type filter hook forward priority 0; ip saddr @s ip daddr { 198.18.7.0/24, 198.18.8.1-198.18.8.9 } drop; } }",
        "add element ip t s { 198.18.5.0/24 }; delete element ip t s { 198.18.2.1 }",
        "flush set ip t s",
        "flush chain ip t f; add rule ip t f tcp dport { 1, 2, 5-9 } counter; add rule ip t f accept",
    ],
    &[
        "table inet t { map v { type inet_service : verdict; elements = { 1 : jump a, 2 : drop } }
           chain a { counter; }
           chain f { type filter hook forward priority 0; tcp dport vmap @v; } }",
        "add chain inet t b { counter; }; add element inet t v { 3 : goto b }; delete element inet t v { 1 }; delete chain inet t a",
        "delete element inet t v { 3 }; delete chain inet t b",
    ],
    &[
        "table inet t { counter c { packets 7 bytes 70 }
           quota q { 10 mbytes used 1 mbytes }
           map m { type ipv4_addr : counter; elements = { 198.18.0.1 : \"c\" } }
           chain f { type filter hook forward priority 0; counter name ip saddr map @m; quota name q drop; } }",
        "add counter inet t d { packets 1 bytes 2 }; add element inet t m { 198.18.0.2 : \"d\" }",
        "delete element inet t m { 198.18.0.1 }; delete counter inet t c",
    ],
    &[
        "table ip n { chain p { type nat hook prerouting priority dstnat; tcp dport 80 dnat to 198.18.0.1:8080; }
           chain q { type nat hook postrouting priority srcnat; oifname \"wan\" masquerade random; } }
         table bridge b { chain f { type filter hook forward priority 0; ether type arp accept; } }
         table arp a { chain i { type filter hook input priority 0; arp operation request counter; } }",
        "delete table bridge b; add rule ip n q oifname \"dmz\" snat to 198.18.0.2-198.18.0.9 persistent",
    ],
    &[
        "table inet t { set d { type ipv4_addr . inet_service; flags dynamic,timeout; timeout 1h; size 100; counter; }
           chain f { type filter hook forward priority 0;
             update @d { ip saddr . tcp dport counter } reject
             tcp option maxseg size set rt mtu
             reset tcp option timestamp
             last counter comment \"here\"; } }",
        "add rule inet t f ct count over 3 reject with icmpx admin-prohibited",
    ],
];

fn listing(generation: &Generation) -> String {
    let listing = Listing { generation, format: Format::default(), names: &NoNames, now: 0 };
    let text = listing.ruleset(None);
    let own = text.lines().filter(|line| line.trim() != "flags owner");
    // A line of its own stands after flags.
    own.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The rules of both sides have the same order.
fn handles(ours: &Generation, kernel: &Generation) -> KernelHandles {
    let mut handles = HashMap::new();
    for (ours, kernel) in ours.tables.iter().zip(&kernel.tables) {
        for chain in &ours.chains {
            let there = kernel.chains.iter().find(|there| there.name == chain.name);
            let there = there.map(|there| there.rules.as_slice()).unwrap_or_default();
            assert_eq!(there.len(), chain.rules.len(), "{}", chain.name);
            for (rule, there) in chain.rules.iter().zip(there) {
                handles.insert((ours.handle, rule.handle), there.handle);
            }
        }
    }
    handles
}

#[test]
fn the_other_side_has_what_the_ruleset_has() {
    let process = Process { id: 1, name: "penstock".into(), may_change: true };
    for steps in CASES {
        let (mut ruleset, mut kernel) = (Ruleset::default(), Local::default());
        let mut client = Client::new(4711);
        let mut known = HashMap::new();
        for step in steps {
            let before = ruleset.generation();
            let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
            // A block ends its line.
            let text = step.replace("} }", "}\n}").replace("} }", "}\n}").replace("; };", "; }\n");
            let outcome = session.run(Origin::CommandLine, text, &mut ruleset, 0);
            assert_eq!(outcome.stderr, "", "{step}");
            let after = ruleset.generation();
            let mut batch = KernelBatch::new(0);
            let both = (before.tables.as_slice(), after.tables.as_slice());
            transition(&mut batch, both, &[], &known, KernelTables { persist: false });
            // A check changes nothing.
            let there = listing(&kernel.ruleset.generation());
            client.receive(&batch.bytes(true), &process, &mut kernel);
            assert_eq!(listing(&kernel.ruleset.generation()), there, "{step}");
            let answers = client.receive(&batch.bytes(false), &process, &mut kernel);
            // One answer, to the last message: no error.
            let [answer] = answers.datagrams.as_slice() else { panic!("{step}: {answers:?}") };
            assert_eq!(&answer[16..20], &[0; 4], "{step}");
            assert_eq!(listing(&kernel.ruleset.generation()), listing(&after), "{step}");
            known = handles(&after, &kernel.ruleset.generation());
            // What is there already needs no message.
            let mut again = KernelBatch::new(0);
            let both = (after.tables.as_slice(), after.tables.as_slice());
            transition(&mut again, both, &[], &known, KernelTables { persist: false });
            assert!(again.is_empty(), "{step}");
        }
    }
}
