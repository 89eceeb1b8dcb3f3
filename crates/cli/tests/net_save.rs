// SPDX-License-Identifier: Apache-2.0

//! `penstock net save` prints lines from which ip(8) makes the same network again: those of a
//! namespace are applied to another, and what is saved there is the same.
//!
//! Needs the right to make namespaces, and ip(8); without them it is skipped, and says so.

use std::process::Command;

/// Makes a network, saves it, makes it again from what was saved, and saves that. Wires are veth,
/// since a kernel need not have dummy devices; their far ends are in a namespace of their own.
const SCRIPT: &str = r#"
mount -t tmpfs tmpfs /run
mkdir /run/netns
for name in first far second; do ip netns add $name; done
first="ip -n first"
$first link add name lan index 20 address 02:00:00:00:00:20 mtu 1400 type veth peer name l netns far
$first link add name wan index 21 address 02:00:00:00:00:21 type veth peer name w netns far
$first link add name port index 22 address 02:00:00:00:00:22 type veth peer name p netns far
$first link add name br0 index 23 address 02:00:00:00:00:23 type bridge ageing_time 20000
for device in l w p; do ip -n far link set dev $device up; done
$first link set port master br0
$first link set port type bridge_slave hairpin on learning off
for device in lo lan wan port br0; do $first link set dev $device up; done
$first addr add 198.18.0.1/24 broadcast 198.18.0.255 dev lan
$first addr add 198.18.1.1 peer 198.18.1.2/32 dev wan
$first addr add 198.18.2.1/24 dev br0 noprefixroute
$first addr add 2001:db8::1/64 dev lan nodad
$first route add default via 198.18.0.254 dev lan metric 7
$first route add 198.19.0.0/16 src 198.18.0.1 nexthop via 198.18.0.3 dev lan weight 2 nexthop dev wan
$first route add blackhole 198.19.9.0/24
$first route add 198.19.8.0/24 via 198.18.0.9 table 55 mtu 1300
$first route add 2001:db8:5::/48 via 2001:db8::9
$first rule add pref 99 from 198.18.0.0/24 fwmark 0x5/0xff lookup 55
$first rule add pref 100 iif lan ipproto tcp dport 80 unreachable
$first -6 rule add pref 101 to 2001:db8:9::/48 lookup 56
$first neigh add 198.18.0.254 lladdr 02:00:00:00:01:01 dev lan nud permanent
$first neigh add 2001:db8::9 lladdr 02:00:00:00:01:02 dev lan nud permanent
ip netns exec first "$PENSTOCK" net save > first.ip

# ip -batch takes neither lines of bridge(8) nor options.

sed -n 's/^-6 //p' first.ip > six.batch
grep -v '^bridge \|^-6 \|^#' first.ip | sed 's/ type dummy$/ type veth/' > four.batch
ip -n second link set lo up
ip -n second -batch four.batch
ip -n second link | sed -n 's/^[0-9]*: \(veth[0-9]*\)@.*/\1/p' | while read -r far; do
    ip -n second link set dev $far up
done
ip -n second -6 -batch six.batch
# Routes over devices wait for the far ends to be up; multipath ones are there from the start.
ip netns exec second "$PENSTOCK" net save | grep -v veth > second.ip
"#;

#[test]
fn a_saved_network_makes_the_same_network() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("net-save");
    std::fs::create_dir_all(&directory).expect("a directory");
    let can = Command::new("unshare").args(["--net", "--mount", "ip", "-V"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no right to make namespaces, or no ip(8)");
        return;
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation=private", "sh", "-euc", SCRIPT])
        .env("PENSTOCK", env!("CARGO_BIN_EXE_penstock"))
        .current_dir(&directory)
        .output()
        .expect("unshare");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("it was written");
    let (first, second) = (read("first.ip"), read("second.ip"));
    assert!(first.lines().count() > 20, "{first}");
    assert_eq!(first, second);
}
