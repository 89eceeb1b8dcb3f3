// SPDX-License-Identifier: Apache-2.0

//! ipset(8), and rules of iptables with its sets.
//!
//! Members are listed sorted: the kernel has those of a hash in an order of its own. Its seed is by
//! chance, and so are buckets with several elements, which the size in memory depends on: it is
//! compared for sets without elements.

use std::process::Command;

use crate::side::{Scratch, both, has, left};

/// Leaves out seeds, and seconds that went by.
const STABLE: &str = "stable() {
    sed -E 's/(initval[ >])0x[0-9a-f]+/\\1N/; s/(timeout[ >])([0-9]{2,3}|1000)([ <]|$)/\\1T\\3/'
}
without_memory() { sed -E 's/^(Size in memory: |<memsize>)[0-9]+/\\1M/'; }\n";

/// Runs a script on both sides, and compares.
fn both_stable(script: &str) -> Option<String> {
    both(&format!("{STABLE}{{ {script}\n }} 2>&1 | stable")).map(|left| left.stdout)
}

/// The same without sizes in memory.
fn both_without_memory(script: &str) -> Option<String> {
    both_stable(&format!("{{ {script}\n }} 2>&1 | without_memory"))
}

/// Sets of each type that the kernel here has, with their elements: also those that are refused.
const TYPES: &[&str] = &[
    "create s bitmap:ip range 198.18.0.0/24
     add s 198.18.0.1; add s 198.18.0.1; add s 198.18.0.8-198.18.0.11; add s 198.18.0.32/30
     add s 198.18.1.0; add s 198.18.0.250-198.18.1.2; test s 198.18.0.9; test s 198.18.0.12
     del s 198.18.0.9; del s 198.18.0.9; -exist del s 198.18.0.9; -exist add s 198.18.0.1",
    "create s bitmap:ip range 198.18.0.0/16 netmask 24 timeout 1000 counters comment skbinfo
     add s 198.18.7.9 comment hello packets 3 bytes 4; add s 198.18.8.0/23 timeout 0
     add s 198.18.16.0 skbmark 0x10/0xff skbprio 1:2 skbqueue 3; test s 198.18.7.255",
    "create s bitmap:ip,mac range 198.18.0.0-198.18.0.200
     add s 198.18.0.1,02:00:00:00:00:01; add s 198.18.0.2; add s 198.18.0.1
     test s 198.18.0.1; test s 198.18.0.1,02:00:00:00:00:02; add s 198.18.0.201
     test s 198.18.0.1,02:00:00:00:00:01",
    "create s bitmap:port range 1000-2000 timeout 900
     add s 1000; add s 1500-1503; add s 2001; add s 999; add s 1501 timeout 800; test s 1502
     -exist add s 1501 timeout 700; test s 1999; del s 1500-1501",
    "create s hash:ip maxelem 4
     add s 198.18.0.1; add s 198.18.0.8/30; add s 198.18.0.9; test s 198.18.0.10; add s 0.0.0.0
     del s 198.18.0.1; -exist del s 198.18.0.1; test s 198.18.0.1",
    "create s hash:ip netmask 24 counters hashsize 5 bucketsize 7 initval 0x1234
     add s 198.18.0.1; add s 198.18.1.0-198.18.3.255; test s 198.18.2.9; del s 198.18.3.3
     -exist add s 198.18.0.9 packets 5 bytes 60",
    "create s hash:ip bitmask 255.255.0.255
     add s 198.18.7.1; test s 198.18.9.1; test s 198.18.9.2",
    "create s hash:ip family inet6 timeout 1000
     add s 2001:db8::1; add s 2001:db8::2 timeout 0; add s 2001:db8::3/128; add s 2001:db8::4/64
     add s 2001:db8::1-2001:db8::4; test s 2001:db8::1",
    "create s hash:ip family inet6 netmask 64
     add s 2001:db8::1; test s 2001:db8::2; test s 2001:db8:1::2",
    "create s hash:ip,port
     add s 198.18.0.1,80; add s 198.18.0.1,udp:53; add s 198.18.0.1,icmp:ping
     add s 198.18.0.1,vrrp:0; add s 198.18.0.4/31,tcp:20-22; test s 198.18.0.1,tcp:80
     test s 198.18.0.1,80; test s 198.18.0.5,21; add s 198.18.0.1",
    "create s hash:ip,port family inet6 comment
     add s 2001:db8::1,80-81 comment 'two words'; add s 2001:db8::1,icmpv6:ping
     add s 2001:db8::1,sctp:9; test s 2001:db8::1,81",
    "create s hash:ip,port,ip
     add s 198.18.0.1,80,198.19.0.1; add s 198.18.0.1,udp:53,198.19.0.1
     add s 198.18.0.4/30,80,198.19.0.1; test s 198.18.0.1,80,198.19.0.1
     test s 198.18.0.1,80,198.19.0.2",
    "create s hash:ip,port,net
     add s 198.18.0.1,80,198.19.0.0/24; add s 198.18.0.1,80,198.19.0.128/25 nomatch
     test s 198.18.0.1,80,198.19.0.1; test s 198.18.0.1,80,198.19.0.129
     add s 198.18.0.1,80,198.19.1.0-198.19.1.6; test s 198.18.0.1,80,198.19.0.129 nomatch",
    "create s hash:ip,port,net family inet6
     add s 2001:db8::1,80,2001:db8:1::/48; test s 2001:db8::1,80,2001:db8:1::9",
    "create s hash:net counters
     add s 10.0.0.0/8; add s 10.1.0.0/16 nomatch; add s 10.1.2.0/24; test s 10.1.3.4
     test s 10.1.2.3; test s 10.2.0.0/16; test s 10.2.0.1; add s 0.0.0.0/0
     add s 198.18.0.3-198.18.0.9; add s 10.1.2.9/24; test s 10.1.3.4 nomatch
     -exist add s 10.0.0.0/8 packets 9; del s 10.1.0.0/16; test s 10.1.3.4",
    "create s hash:net family inet6 skbinfo
     add s 2001:db8::/32 skbmark 1 skbprio 0:9; add s 2001:db8:1::1; test s 2001:db8::7
     add s ::/0; add s 2001:db8:2::-2001:db8:3::",
    "create s hash:net,port
     add s 198.18.0.0/24,80; add s 198.18.0.0/25,tcp:81-82; add s 198.18.0.9,udp:53 nomatch
     test s 198.18.0.200,80; test s 198.18.0.200,81; test s 198.18.0.9,udp:53
     add s 198.18.4.0-198.18.6.255,9",
    "create s hash:net,iface
     add s 198.18.0.0/24,eth0; add s 198.18.0.0/24,eth1 nomatch; add s 0.0.0.0/0,lo
     add s 198.18.1.0/24,physdev:br0; add s 198.18.2.0/24,wg wildcard
     test s 198.18.0.1,eth0; test s 198.18.0.1,eth1; test s 198.18.0.1,eth2; test s 8.8.8.8,lo
     test s 198.18.2.1,wg7; add s 198.18.0.0/24,eth0",
    "create a hash:ip; create b hash:net; create n hash:ip family inet6; create s list:set size 9
     add s a; add s b before a; add s n after a; add s a; add s c; add s s; test s a
     test s a before b; test s b before a; test s n after a; add s b after c; del s a; del s a
     test s a; destroy b; flush b; rename b z; swap a n; swap a b; swap b a; swap a q; swap q a
     list b; destroy s; destroy b; list -n",
    "create s hash:ip timeout 1 maxelem 2 forceadd
     add s 198.18.0.1 timeout 4294967; add s 198.18.0.2 timeout 99999999",
];

#[test]
fn sets_of_each_type_are_as_in_the_kernel() {
    if !has("ipset") {
        return;
    }
    for commands in TYPES {
        let lines = commands.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
        let lines: String = lines.map(|line| format!("ipset {line}; echo $?\n")).collect();
        let all = both_without_memory(&format!(
            "{lines} ipset list -s; ipset save -s; ipset list -t; ipset list -o xml -s"
        ));
        if let Some(all) = all {
            assert!(all.contains("Type: "), "{all}");
        }
    }
}

#[test]
fn sets_are_made_and_refused_as_in_the_kernel() {
    if !has("ipset") {
        return;
    }
    both_stable(
        "for set in 'bitmap:ip range 10.0.0.0/8' 'bitmap:ip range 10.0.0.0/8 netmask 24' \
            'bitmap:ip range 10.0.0.0/8 netmask 8' 'bitmap:ip range 10.0.0.9-10.0.0.3' \
            'bitmap:ip range 10.0.0.1-10.0.0.6 netmask 31' 'bitmap:port range 9-1' \
            'hash:ip netmask 33' 'hash:ip netmask 0' 'hash:ip netmask 32' 'hash:nothing' \
            'hash:ip family inet6 netmask 32' 'hash:ip maxelem 0' 'hash:ip hashsize 100' \
            'hash:ip bucketsize 1' 'hash:ip bucketsize 99' 'hash:ip timeout 4294968' \
            'hash:ip timeout 0' 'list:set size 1' 'hash:net family inet6 counters' \
            'hash:ip netmask 24 bitmask 255.0.0.0' 'hash:net,iface comment skbinfo' \
            'hash:ip,port hashsize 4096 initval 7' 'hash:ip,port,net family inet6 timeout 9'; do
            ipset create s $set && ipset list && ipset save && ipset list -t s
            ipset create s $set; ipset -exist create s $set; echo $?
            ipset -exist create s hash:ip maxelem 77; ipset destroy s
        done
        ipset list nothing; ipset destroy nothing; ipset flush nothing; ipset add nothing 1.2.3.4
        ipset test nothing 1.2.3.4; ipset rename nothing other; ipset version
        ipset create a hash:ip; ipset create b hash:ip; ipset rename a b; ipset rename a c
        ipset destroy; ipset list",
    );
}

#[test]
fn a_file_of_commands_is_restored_up_to_the_line_that_is_wrong() {
    if !has("ipset") {
        return;
    }
    both_without_memory(
        "ipset restore <<'END'
create s hash:net
add s 10.0.0.0/8
add s 10.1.0.0/16
add s 10.0.0.0/8
add s 10.2.0.0/16
END
        echo $?; ipset list -s
        ipset -exist restore <<'END'
create s hash:net
add s 10.0.0.0/8
create t hash:ip timeout 1000
add t 198.18.0.1
add t 198.18.0.2 timeout 0
del t 198.18.0.1
END
        echo $?; ipset save -s >/tmp/q.$$; ipset destroy; ipset restore </tmp/q.$$
        rm /tmp/q.$$; ipset save -s
        i=0; { echo create many hash:ip
            while [ $i -lt 3000 ]; do
                echo add many 10.0.$((i / 256)).$((i % 256)); i=$((i + 1))
            done
        } | ipset restore
        echo $?; ipset list many -s | tail -n +8 | md5sum; ipset list many -t | grep Number",
    );
}

#[test]
fn rules_hold_their_sets() {
    if !has("ipset") || !has("iptables-nft") {
        return;
    }
    let all = both_without_memory(
        "ipset create a hash:ip; ipset create n hash:net family inet6; ipset create p hash:ip,port
        iptables-nft -A INPUT -m set --match-set a src -j DROP; echo $?
        iptables-nft -A INPUT -m set ! --match-set p dst,src -m comment --comment x -j ACCEPT
        iptables-nft -A INPUT -m set --match-set a src --return-nomatch ! --update-counters
        iptables-nft -A INPUT -m set --match-set a src --packets-gt 3 ! --bytes-eq 9
        iptables-nft -A INPUT -m set --match-set missing src -j DROP; echo $?
        iptables-nft -A FORWARD -j SET --add-set a src --exist --timeout 5
        iptables-nft -A FORWARD -j SET --del-set p src,dst
        iptables-nft -t mangle -A FORWARD -j SET --map-set a src --map-mark --map-prio
        iptables-nft -A FORWARD -j SET --map-set a src --map-mark; echo $?
        iptables-nft -t mangle -A PREROUTING -j SET --map-set a src --map-prio; echo $?
        ip6tables-nft -A INPUT -m set --match-set n dst
        iptables-nft -S; iptables-nft -t mangle -S; ip6tables-nft -S
        ipset list -t; ipset destroy a; ipset destroy; ipset rename a b; ipset swap a p
        iptables-nft-save | grep -v '^#'
        iptables-nft -F; iptables-nft -t mangle -F; ipset list -t a; ipset destroy a; ipset list -n
        ip6tables-nft -F; ipset destroy; ipset list -n",
    );
    if let Some(all) = all {
        assert!(all.contains("--match-set a src"), "{all}");
    }
}

/// Gives a program less memory than the set may need. The hard limit stays: not every root can lift
/// one.
const LITTLE_MEMORY: &str = "ulimit -S -d 51200; exec \"$@\"";

#[test]
fn limits_of_a_program_are_not_those_of_its_sets() {
    if !has("ipset") {
        return;
    }
    let folder = Scratch::new();
    let mut limited = Command::new("sh");
    limited.args(["-c", LITTLE_MEMORY, "sh", env!("CARGO_BIN_EXE_penstock"), "exec", "--state"]);
    limited.arg(folder.state());
    limited.args(["--", "sh", "-c", "ipset create s hash:ip maxelem 1000000 && ulimit -S -d"]);
    let left = left(&mut limited);
    assert_eq!(left.stdout, "51200\n", "{}", left.stderr);
}
