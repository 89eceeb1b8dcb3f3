// SPDX-License-Identifier: Apache-2.0

//! Rulesets as users write them, with frames and their fate in XDP; and rules that are refused,
//! with the reason.

mod rights;

use std::sync::Arc;

use penstock_bpf::netfilter::{self, InetFamily, InetHook, NetfilterHook};
use penstock_bpf::{AttachPoint, Next, Program, tcx, xdp};
use penstock_ebpf::rules::{Compiled, Device, Entry, Job, NotOffloadable, Place, compile};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_program::Hook;
use penstock_program::env::Interface;
use penstock_ruleset::link::Linked;
use penstock_ruleset::{Family, Ruleset};
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

/// Rules and commands, given one after the other; what is printed.
fn nft(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

fn device() -> Device {
    let mut name = [0; 16];
    name[..3].copy_from_slice(b"lan");
    let interface = Interface { name, kind: [0; 16], arphrd: 1, group: 0 };
    Device { index: 1, mac: Mac([2, 0, 0, 0, 0, 2]), interface }
}

/// The chains of ingress, in order of their priorities.
fn offload(ruleset: &Ruleset) -> Result<Compiled, NotOffloadable> {
    let linked = Linked::new(&ruleset.generation()).unwrap();
    let mut bases: Vec<_> = linked.bases.iter().filter(|b| b.base.hook == Hook::Ingress).collect();
    bases.sort_by_key(|b| b.base.priority);
    let entry = |family, chain| match family {
        Family::Inet => Entry::Inet(chain),
        _ => Entry::Netdev(chain),
    };
    let entries: Vec<_> = bases.iter().map(|b| entry(b.family, b.chain)).collect();
    let device = device();
    compile(Job {
        image: &linked.image,
        entries: &entries,
        place: Place::Xdp(&device),
        next: &Next::Pass,
        shared: None,
        routes: None,
    })
}

fn chain(rules: &str) -> String {
    // A block ends a line.
    format!("table netdev t {{ {rules}\n}}")
        .replace("} chain", "}\nchain")
        .replace("chain in {", "chain in { type filter hook ingress device \"lan\" priority 0;")
}

fn ethernet() -> Ethernet {
    Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
}

/// Frames by names, so that cases are short.
fn frame(name: &str) -> Vec<u8> {
    let v4 = || Ipv4::new("198.18.3.7", "198.19.0.1");
    let v6 = || Ipv6::new("2001:db8:5::1", "2001:db8::2");
    let udp = |port| Udp::new(5000, port) / payload(b"some data");
    let tcp = |port| Tcp::new(5000, port);
    match name {
        "udp9" => ethernet() / v4() / udp(9),
        "udp80" => ethernet() / v4() / udp(80),
        "udp9-vlan5" => ethernet() / Vlan::new(5) / v4() / udp(9),
        "udp9-qinq" => ethernet() / Vlan::new(7).service() / Vlan::new(5) / v4() / udp(9),
        "udp9-options" => ethernet() / v4().options(&[1, 1, 1, 1]) / udp(9),
        "udp9-fragment" => ethernet() / v4().fragment(2, true) / udp(9),
        "udp9-long" => ethernet() / v4() / Udp::new(5000, 9) / payload([0; 900]),
        "syn80" => ethernet() / v4() / tcp(80).syn(),
        "syn80-mss" => ethernet() / v4() / tcp(80).syn().nop().mss(400).sack_permitted(),
        "ack80" => ethernet() / v4() / tcp(80).ack(1),
        "udp9-v6" => ethernet() / v6() / udp(9),
        "udp9-v6-extensions" => ethernet() / v6() / HopByHop::new() / DestOptions::new() / udp(9),
        "arp" => ethernet() / Arp::request("02:00:00:00:00:01", "198.18.3.7", "198.19.0.1"),
        "cut" => (ethernet() / v4() / udp(9)).truncate(36),
        _ => panic!("no frame {name}"),
    }
    .build()
}

/// Rules, frames that are dropped, frames that are not, and what `list ruleset` shows of counters.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    (
        "chain in { udp dport 9 counter drop; }",
        "udp9 udp9-vlan5 udp9-options udp9-long udp9-v6 udp9-v6-extensions udp9-fragment",
        "udp80 syn80 arp cut udp9-qinq",
        &["udp dport 9 counter packets 7 bytes"],
    ),
    ("chain in { vlan id 5 drop; }", "udp9-vlan5", "udp9 udp9-qinq", &[]),
    ("chain in { ether type 8021ad vlan id 7 drop; }", "udp9-qinq", "udp9 udp9-vlan5", &[]),
    ("chain in { meta protocol arp drop; ether type ip6 drop; }", "arp udp9-v6", "udp9", &[]),
    ("chain in { tcp flags & (syn | ack) == syn counter drop; }", "syn80", "ack80 udp80", &["packets 1 bytes 40"]),
    (
        "chain in { tcp option maxseg size < 500 tcp option sack-perm exists counter drop; tcp option timestamp exists drop; tcp option maxseg missing udp dport 80 drop; }",
        "syn80-mss udp80",
        "syn80 udp9 arp",
        &["packets 1 bytes 48"],
    ),
    (
        "chain in { exthdr hbh exists dst nexthdr 17 counter drop; exthdr hbh missing udp dport 80 drop; exthdr frag exists drop; }",
        "udp9-v6-extensions",
        "udp9-v6 udp9 udp80 arp udp9-fragment",
        &["packets 1 bytes 73"],
    ),
    ("chain in { meta length > 500 drop; }", "udp9-long", "udp9", &[]),
    ("chain in { ip frag-off & 0x1fff != 0 drop; }", "udp9-fragment", "udp9 arp", &[]),
    ("chain in { ip saddr 198.18.2.0-198.18.3.6 drop; ip daddr 198.19.0.0/16 ip saddr != 198.18.3.7 drop; }", "", "udp9", &[]),
    ("chain in { ip saddr { 198.18.0.0/22, 203.0.113.1 } udp dport 9 drop; }", "udp9", "udp80 udp9-v6", &[]),
    ("chain in { ip6 saddr 2001:db8:5::/48 drop; }", "udp9-v6", "udp9", &[]),
    (
        "set many { type ipv4_addr; flags interval; elements = { 198.18.0.0-198.18.3.6, 198.18.3.7, 198.18.4.0/24,
            10.0.0.0/8, 11.0.0.1-11.0.0.3, 12.0.0.0/9, 13.1.0.0/16, 14.0.0.1, 15.0.0.1, 16.0.0.1-16.0.3.4 }; }
         chain in { ip saddr @many udp dport != { 80, 443 } counter drop; }",
        "udp9",
        "udp80 udp9-v6",
        &["packets 1 bytes 37"],
    ),
    (
        "set counted { typeof udp dport; counter; elements = { 9, 10, 11, 12, 13, 14 }; } chain in { udp dport @counted drop; }",
        "udp9 udp9-v6",
        "udp80",
        &["9 counter packets 2 bytes 94"],
    ),
    (
        "chain in { ip saddr . udp dport { 198.18.3.7 . 9, 198.18.3.8 . 1-20 } drop; }",
        "udp9 udp9-vlan5",
        "udp80 udp9-v6",
        &[],
    ),
    (
        "chain in { udp dport vmap { 1-8 : accept, 9 : jump nine, 10-100 : accept }; counter drop; }
         chain nine { ip version 4 counter return; accept; }",
        "udp9 arp syn80",
        "udp80 udp9-v6",
        &["ip version 4 counter packets 1 bytes 37", "counter packets 3 bytes"],
    ),
];

/// Random numbers stay below the modulus, are not all the same, and have the offset.
#[test]
fn numbers_at_random_are_in_their_range() {
    if !rights::may_load() {
        return;
    }
    let mut ruleset = Ruleset::default();
    nft(
        &mut ruleset,
        &chain(
            "chain in { numgen random mod 2 offset 7 vmap { 7 : goto first, 8 : goto second }; drop; }
             chain first { counter; accept; }
             chain second { counter; accept; }",
        ),
    );
    let (program, mut counts) = offload(&ruleset).unwrap().load("rules").unwrap();
    assert_eq!(program.run(&frame("udp9"), 0, 2000).unwrap().verdict, xdp::PASS);
    counts.collect().unwrap();
    let listed = nft(&mut ruleset, "list ruleset");
    let counted: Vec<u32> = listed
        .split("counter packets ")
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect();
    // Each is 1000 but for 11 deviations.
    assert!(counted.iter().all(|n| (750..=1250).contains(n)), "{listed}");
    assert_eq!(counted.iter().sum::<u32>(), 2000, "{listed}");
}

#[test]
fn rulesets_have_their_effect_in_xdp() {
    if !rights::may_load() {
        return;
    }
    for (rules, dropped, passed, counters) in CASES {
        let mut ruleset = Ruleset::default();
        nft(&mut ruleset, &chain(rules));
        let compiled = offload(&ruleset).unwrap_or_else(|e| panic!("{rules}: {e}"));
        let (program, mut counts) =
            compiled.load("rules").unwrap_or_else(|e| panic!("{rules}: {e}"));
        for (names, verdict) in [(dropped, xdp::DROP), (passed, xdp::PASS)] {
            for name in names.split_whitespace() {
                let ran = program.run(&frame(name), 0, 1).unwrap();
                assert_eq!((ran.verdict, ran.frame), (verdict, frame(name)), "{name}: {rules}");
            }
        }
        counts.collect().unwrap();
        // What is counted already is not counted again.
        counts.collect().unwrap();
        let listed = nft(&mut ruleset, "list ruleset");
        for counter in *counters {
            assert!(listed.contains(counter), "{counter}: {listed}");
        }
    }
}

#[test]
fn chains_run_in_the_order_of_their_priorities() {
    if !rights::may_load() {
        return;
    }
    let mut ruleset = Ruleset::default();
    nft(
        &mut ruleset,
        "table netdev t {
            chain late { type filter hook ingress device lan priority 10; policy drop; udp dport 9 counter accept; }
            chain early { type filter hook ingress device lan priority -10; udp dport 80 drop; ip saddr 198.18.3.7 accept; }
        }
        table inet i { chain c { type filter hook ingress device lan priority 20; meta nfproto ipv6 drop; }; }",
    );
    let (program, mut counts) = offload(&ruleset).unwrap().load("rules").unwrap();
    let verdict = |name| program.run(&frame(name), 0, 1).unwrap().verdict;
    assert_eq!(["udp80", "udp9", "syn80", "arp", "udp9-v6"].map(verdict), [1, 2, 1, 1, 1]);
    counts.collect().unwrap();
    let listed = nft(&mut ruleset, "list ruleset");
    assert!(listed.contains("udp dport 9 counter packets 2 bytes 94 accept"), "{listed}");
}

/// Chains of `inet` drop IP that is malformed, and see nothing else.
#[test]
fn chains_of_inet_see_ip_only() {
    if !rights::may_load() {
        return;
    }
    let mut ruleset = Ruleset::default();
    nft(
        &mut ruleset,
        "table inet t { chain c { type filter hook ingress device lan priority 0; policy drop; udp dport 9 accept; }; }",
    );
    let (program, _) = offload(&ruleset).unwrap().load("rules").unwrap();
    let verdict = |name| program.run(&frame(name), 0, 1).unwrap().verdict;
    assert_eq!(["udp9", "udp80", "arp", "cut"].map(verdict), [2, 1, 2, 1]);
}

#[test]
fn rules_without_xdp_code_give_the_reason() {
    for (rules, reason) in [
        ("chain in { limit rate 5/second drop; }", "`limit` has no BPF code at XDP"),
        ("chain in { quota 5 mbytes drop; }", "`quota` has no BPF code at XDP"),
        ("chain in { log; }", "`log` has no BPF code at XDP"),
        (
            "chain in { udp dport 9 drop; meta mark set 5; }",
            "`meta mark set` has no BPF code at XDP",
        ),
        ("chain in { ip ttl set 5; }", "`a change of the packet` has no BPF code at XDP"),
        ("chain in { fwd to 1; }", "`fwd` has no BPF code at XDP"),
        ("chain in { dup to 1; }", "`dup` has no BPF code at XDP"),
        ("chain in { meta hour < \"12:00\" drop; }", "`meta hour` has no BPF code at XDP"),
        ("chain in { numgen inc mod 2 0 drop; }", "`numgen inc` has no BPF code at XDP"),
        (
            "chain in { ip option lsrr exists drop; }",
            "`an option or extension header` has no BPF code at XDP, since the kernel checks all \
             options before it looks for one, by a function that programs cannot call",
        ),
        (
            "set s { type ipv4_addr; flags timeout; elements = { 198.18.0.1 timeout 5m }; } chain in { ip saddr @s drop; }",
            "elements of the set expire",
        ),
        (
            "set s { type ipv4_addr; flags dynamic,timeout; timeout 5m; size 100; } chain in { add @s { ip saddr }; }",
            "`add, update or delete of a set's element` has no BPF code at XDP",
        ),
        (
            "set s { type ipv4_addr; limit rate 5/second; elements = { 198.18.0.1 }; } chain in { ip saddr @s drop; }",
            "elements of the set have statements other than one counter",
        ),
    ] {
        let mut ruleset = Ruleset::default();
        nft(&mut ruleset, &chain(rules));
        let refused = offload(&ruleset).map(drop).unwrap_err();
        assert_eq!(refused.reason, reason, "{rules}");
        let text = refused.to_string();
        assert!(
            text.starts_with("table netdev t chain in handle ") && text.ends_with(reason),
            "{text}"
        );
    }
}

#[test]
fn long_chains_are_compiled() {
    if !rights::may_load() {
        return;
    }
    let rules: String = (0..5_000)
        .map(|n| format!("ip saddr 10.0.{}.{} drop;\n", n / 256 % 256, n % 256))
        .collect();
    let mut ruleset = Ruleset::default();
    nft(&mut ruleset, &chain(&format!("chain in {{ {rules} udp dport 9 drop; }}")));
    let (program, _) = offload(&ruleset).unwrap().load("rules").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        ["udp9", "udp80"].map(|n| program.run(&frame(n), 0, 1).unwrap().verdict),
        [xdp::DROP, xdp::PASS]
    );
}

#[test]
fn chains_that_call_each_other_too_often_are_refused() {
    // Each calls the next one twice, and each call has a copy.
    let called =
        |n: usize| format!("chain c{n} {{ jump c{}; udp dport {n} jump c{}; }}\n", n + 1, n + 1);
    let chains: String = (0..13).rev().map(called).collect();
    let mut ruleset = Ruleset::default();
    let last =
        format!("chain c13 {{ {} }}\n", "udp dport 1-9 ip saddr 198.18.0.1 counter;\n".repeat(8));
    nft(&mut ruleset, &chain(&format!("{last}{chains}chain in {{ jump c0; }}")));
    let refused = offload(&ruleset).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "the program would have more than 200000 instructions");
}

/// Who loads programs can drop all other rights before.
#[test]
fn programs_need_three_rights() {
    if !rights::may_load() {
        return;
    }
    let mut ruleset = Ruleset::default();
    nft(
        &mut ruleset,
        &chain(CASES.iter().map(|c| c.0).find(|rules| rules.contains("@many")).unwrap()),
    );
    let compiled = Arc::new(offload(&ruleset).unwrap());
    let flows = penstock_ebpf::flow::Flows::new(4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rights::keep_only(&[rights::NET_ADMIN, rights::BPF, rights::PERFMON]);
            compiled.load("rules").map(drop).unwrap_or_else(|e| panic!("{e}\n{}", e.log));
            for place in [AttachPoint::Xdp, AttachPoint::Tcx] {
                let code =
                    flows.program(&penstock_ebpf::flow::Site::new(place, Next::Pass)).unwrap();
                Program::load(place, "flow", &code)
                    .map(drop)
                    .unwrap_or_else(|e| panic!("{place}: {e}\n{}", e.log));
            }
        });
    });
}

/// The chains of a hook of IPv4, compiled.
fn at_hook(ruleset: &Ruleset, hook: NetfilterHook) -> Result<Compiled, NotOffloadable> {
    let linked = Linked::new(&ruleset.generation()).unwrap();
    let entries: Vec<_> = linked.bases.iter().map(|b| Entry::Ip(b.chain)).collect();
    compile(Job {
        image: &linked.image,
        entries: &entries,
        place: Place::Netfilter(hook),
        next: &Next::Pass,
        shared: None,
        routes: None,
    })
}

const FORWARD: NetfilterHook = NetfilterHook { family: InetFamily::V4, hook: InetHook::Forward };

#[test]
fn rules_without_netfilter_code_give_the_reason() {
    if !rights::may_load() {
        return;
    }
    for (rule, reason) in [
        ("log", "`log` has no BPF code at netfilter hook ip forward"),
        ("meta mark set 5", "`meta mark set` has no BPF code at netfilter hook ip forward"),
        ("meta nftrace set 1", "`meta nftrace set` has no BPF code at netfilter hook ip forward"),
        ("meta skuid 0 drop", "`meta skuid` has no BPF code at netfilter hook ip forward"),
        ("queue", "`queue` has no BPF code at netfilter hook ip forward"),
        ("reject", "`reject` has no BPF code at netfilter hook ip forward"),
        ("ct mark set 5", "`ct` has no BPF code at netfilter hook ip forward"),
        ("ct helper \"ftp\"", "`ct helper` has no BPF code at netfilter hook ip forward"),
        (
            "@ll,96,16 5 drop",
            "a load after the link addresses has no BPF code at netfilter hook ip forward, since a tag may be out of band",
        ),
    ] {
        let mut ruleset = Ruleset::default();
        let chain = "type filter hook forward priority 0;";
        nft(&mut ruleset, &format!("table ip t {{ chain f {{ {chain} {rule}\n}}\n}}"));
        assert_eq!(at_hook(&ruleset, FORWARD).map(drop).unwrap_err().reason, reason, "{rule}");
    }
}

/// Programs of chains that ask for little are programs, too.
#[test]
fn short_chains_run_at_netfilter_hooks() {
    if !rights::may_load() {
        return;
    }
    for (rules, names, verdict) in [
        ("counter", "udp9 syn80", netfilter::ACCEPT),
        ("policy drop;", "udp9 syn80", netfilter::DROP),
        ("udp dport 9 counter drop", "udp9 udp9-options udp9-long", netfilter::DROP),
        ("udp dport 9 counter drop", "udp80 syn80", netfilter::ACCEPT),
        ("ct state invalid drop", "udp9", netfilter::DROP),
    ] {
        let mut ruleset = Ruleset::default();
        let chain = "type filter hook forward priority 0;";
        nft(&mut ruleset, &format!("table inet t {{ chain f {{ {chain} {rules}\n}}\n}}"));
        let loaded = at_hook(&ruleset, FORWARD).unwrap().load("rules");
        let (program, _) = loaded.unwrap_or_else(|e| panic!("{rules}: {e}\n{}", e.log));
        for name in names.split_whitespace() {
            let ran = program.run_netfilter(&frame(name), FORWARD, 1).unwrap();
            assert_eq!(ran.verdict, verdict, "{name}: {rules}");
        }
    }
}

/// At both ends of tcx rules set mark and priority, and later rules see it.
#[test]
fn rules_at_tcx_set_what_later_rules_see() {
    if !rights::may_load() {
        return;
    }
    for (hook, egress) in [("ingress", false), ("egress", true)] {
        let mut ruleset = Ruleset::default();
        nft(
            &mut ruleset,
            &format!(
                "table netdev t {{ chain c {{ type filter hook {hook} device lan priority 0;
                    meta mark 5 drop
                    udp dport 9 meta mark set 5 meta priority set 1:2
                    meta mark 5 meta priority 1:2 counter drop
                }}
                }}"
            ),
        );
        let linked = Linked::new(&ruleset.generation()).unwrap();
        let entries = [Entry::Netdev(linked.bases[0].chain)];
        let device = device();
        let place = if egress { Place::TcxEgress(&device) } else { Place::TcxIngress(&device) };
        let job = Job {
            image: &linked.image,
            entries: &entries,
            place,
            next: &Next::Pass,
            shared: None,
            routes: None,
        };
        let loaded = compile(job).unwrap().load("rules");
        let (program, _) = loaded.unwrap_or_else(|e| panic!("{e}\n{}", e.log));
        let verdict = |name| program.run(&frame(name), 0, 1).unwrap().verdict;
        assert_eq!(["udp9", "udp80"].map(verdict), [tcx::DROP, tcx::NEXT], "{hook}");
        let job = Job { place: Place::Xdp(&device), ..job };
        assert_eq!(
            compile(job).map(drop).unwrap_err().reason,
            "`meta mark set` has no BPF code at XDP"
        );
    }
}
