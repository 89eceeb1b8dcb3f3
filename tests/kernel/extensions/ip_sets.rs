// SPDX-License-Identifier: Apache-2.0

//! Rules that look into sets of ipset(8), and change them.

use super::{Rules, program_is_there, scenario};
use crate::net::zoo;
use crate::scenario::Scenario;

/// Sets, of IPv4 and IPv6. `@` stands for the scenario's number: sets stay in the kernel as long as
/// the namespace.
const SETS: &str = "\
create @ip hash:ip counters
add @ip 198.18.0.10
add @ip 198.19.0.2 packets 7 bytes 700
create @ip6 hash:ip family inet6 counters
add @ip6 2001:db8:1::10
create @net hash:net counters
add @net 198.18.0.0/16
add @net 198.18.5.0/24 nomatch
add @net 198.18.5.20
add @net 198.19.0.0/24 packets 2
create @net6 hash:net family inet6 counters
add @net6 2001:db8::/32
add @net6 2001:db8:5::/48 nomatch
create @port hash:ip,port
add @port 198.18.0.10,tcp:40000-40001
add @port 198.18.0.10,udp:53
add @port 198.19.0.2,80
add @port 198.19.0.2,icmp:8/0
add @port 198.18.0.10,esp:0
create @port6 hash:ip,port family inet6
add @port6 2001:db8:2::2,80-443
add @port6 2001:db8:2::2,icmpv6:128/0
add @port6 2001:db8:1::10,udp:53
create @ppi hash:ip,port,ip
add @ppi 198.18.0.10,80,198.19.0.2
add @ppi 198.18.0.10,udp:53,198.19.0.2
create @ppn hash:ip,port,net
add @ppn 198.18.0.10,80,198.19.0.0/16
add @ppn 198.18.0.10,80,198.19.0.2 nomatch
add @ppn 198.18.0.10,443,0.0.0.0/1
create @np hash:net,port
add @np 198.18.0.0/24,80
add @np 198.18.0.10,80 nomatch
add @np 198.16.0.0/12,udp:53
create @if hash:net,iface
add @if 198.18.0.0/24,lan
add @if 198.19.0.0/16,wan
add @if 198.18.0.11,lan nomatch
add @if 0.0.0.0/0,d wildcard
create @bi bitmap:ip range 198.18.0.0/16
add @bi 198.18.0.0/28
create @bn bitmap:ip range 198.18.0.0/15 netmask 24
add @bn 198.19.0.2
create @bm bitmap:ip,mac range 198.18.0.0/24
add @bm 198.18.0.10,02:00:00:00:01:10
add @bm 198.18.0.11
create @bp bitmap:port range 0-1023
add @bp 80-100
add @bp 22
create @mask hash:ip netmask 24
add @mask 198.18.0.1
create @list list:set counters
add @list @ip
add @list @net
add @list @net6
create @info hash:net skbinfo
add @info 198.18.0.0/24 skbmark 0x10/0xf0 skbprio 1:2
create @new hash:ip counters
create @new6 hash:ip family inet6 counters
create @newnet hash:net
add @newnet 10.0.0.0/24
create @newport hash:ip,port timeout 600
create @newlist list:set
add @newlist @new
add @newlist @new6
";

/// Matches of packets that are forwarded.
const IPV4: &[&str] = &[
    "-m set --match-set @ip src",
    "-m set --match-set @ip dst",
    "-m set ! --match-set @ip src",
    "-m set --match-set @ip src,dst",
    "-m set --match-set @net src",
    "-m set --match-set @net dst",
    "-m set --match-set @net dst --return-nomatch",
    "-m set ! --match-set @net dst --return-nomatch",
    "-m set --match-set @port src,src",
    "-m set --match-set @port dst,dst",
    "-m set --match-set @port src,dst",
    "-m set --match-set @port src",
    "-m set --match-set @ppi src,dst,dst",
    "-m set --match-set @ppi dst,src,src",
    "-m set --match-set @ppn src,dst,dst",
    "-m set --match-set @ppn src,dst,dst --return-nomatch",
    "-m set --match-set @np src,dst",
    "-m set --match-set @np dst,dst",
    "-m set --match-set @if src,src",
    "-m set --match-set @if src,dst",
    "-m set --match-set @if dst,dst",
    "-m set --match-set @bi src",
    "-m set --match-set @bn dst",
    "-m set --match-set @bm src,src",
    "-m set --match-set @bm src,dst",
    "-m set --match-set @bp dst",
    "-m set --match-set @bp src",
    "-m set --match-set @mask src",
    "-m set --match-set @list src",
    "-m set --match-set @list dst,dst",
    "-m set --match-set @ip dst --packets-gt 9",
    "-m set --match-set @ip dst --packets-eq 8 --bytes-gt 700",
    "-m set --match-set @net dst ! --packets-eq 5",
    "-m set --match-set @net dst ! --update-counters --packets-lt 3",
    "-m set --match-set @list dst ! --update-subcounters",
];

const IPV6: &[&str] = &[
    "-m set --match-set @ip6 src",
    "-m set --match-set @net6 src",
    "-m set --match-set @net6 dst",
    "-m set --match-set @net6 dst --return-nomatch",
    "-m set --match-set @port6 dst,dst",
    "-m set --match-set @port6 src,dst",
    "-m set --match-set @list src",
    "-m set --match-set @bp dst",
];

/// Rules that change sets, and others that see it: table and rule.
const CHANGES: &[&[(&str, &str)]] = &[
    &[
        ("filter", "-m set --match-set @new src"),
        ("filter", "-p tcp -j SET --add-set @new src"),
        ("filter", "-m set --match-set @new src --packets-gt 3"),
        ("filter", "-p udp -j SET --del-set @new src"),
    ],
    &[
        ("filter", "-p tcp -m set ! --match-set @new dst -j SET --add-set @new dst --exist"),
        ("filter", "-m set --match-set @new dst --bytes-gt 100"),
    ],
    &[
        ("filter", "-j SET --add-set @newnet src"),
        ("filter", "-m set --match-set @newnet src"),
        ("filter", "-m set --match-set @newnet dst"),
    ],
    &[
        ("filter", "-j SET --add-set @newport src,dst --timeout 300"),
        ("filter", "-m set --match-set @newport src,dst"),
        ("filter", "-m set --match-set @newport src,src"),
    ],
    &[
        ("filter", "-j SET --add-set @newlist src"),
        ("filter", "-m set --match-set @new src"),
        ("filter", "-m set --match-set @newlist src"),
        ("filter", "-p udp -j SET --del-set @newlist src"),
    ],
    &[
        ("mangle", "-j SET --map-set @info src --map-mark --map-prio"),
        ("mangle", "-m mark --mark 0x10/0xf0"),
        ("filter", "-m mark --mark 0x10"),
    ],
    &[
        ("mangle", "-j MARK --set-mark 0xff"),
        ("mangle", "-j SET --map-set @info dst --map-mark"),
        ("filter", "-m mark --mark 0x1f"),
        ("filter", "-m mark --mark 0xff"),
    ],
];

/// One scenario for each line, or group of lines.
pub fn all() -> Vec<Scenario> {
    if !program_is_there("iptables-nft-restore") || !program_is_there("ipset") {
        return vec![];
    }
    let mut all: Vec<Scenario> = vec![];
    let mut add = |v6: bool, rules: &[(&str, &str)]| {
        let number = all.len();
        let own = |text: &str| text.replace('@', &format!("s{number}"));
        let rules: Vec<_> = rules.iter().map(|(table, rule)| (*table, own(rule))).collect();
        let rules: Rules<'_> =
            rules.iter().map(|(table, rule)| (*table, "FORWARD", rule.as_str())).collect();
        let none = vec![];
        let (v4, v6) = if v6 { (&none, &rules) } else { (&rules, &none) };
        let words = rules[0].2.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let name = format!("ipset_{number:03}_{words}");
        let mut scenario = scenario(&name, v4, v6, 60, number as u64);
        let sets = own(SETS);
        let with_rules = format!("ipset restore <<'END'\n{sets}END\n{}", scenario.commands);
        scenario = scenario.commands(&with_rules);
        for frame in zoo().iter().filter(|frame| !super::is_dccp(frame)) {
            scenario = scenario.frame("lan", frame);
        }
        all.push(scenario);
    };
    for rule in IPV4 {
        add(false, &[("filter", rule)]);
    }
    for rule in IPV6 {
        add(true, &[("filter", rule)]);
    }
    CHANGES.iter().for_each(|rules| add(false, rules));
    all
}
