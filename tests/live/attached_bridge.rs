// SPDX-License-Identifier: Apache-2.0

//! Chains of bridges as programs, while the kernel's nf_tables has the same rules: both see the same
//! frames, and count the same, whatever state the ports are in.

use crate::net::Net;

/// Rules that count all that a program can tell at each hook.
const RULES: &str = "
table bridge t {
  chain pre { type filter hook prerouting priority -300;
    counter
    iifname r0 counter
    meta pkttype host counter
    meta pkttype other counter
    meta pkttype multicast counter
    ether daddr 01:80:c2:00:00:00 counter
    ether daddr 01:80:c2:00:00:03 counter
    ether daddr 01:80:c2:00:00:0e counter
    ether type vlan counter
    ether type 8021ad counter
    vlan id 7 counter
    vlan pcp 3 counter
    meta protocol arp counter
    udp dport 53 counter
    @ll,96,64 & 0x0000ffffffff0000 0x0000000708000000 counter
  }
  chain input { type filter hook input priority 0;
    counter
    meta pkttype host counter
    ether daddr 01:80:c2:00:00:03 counter
    ether daddr 01:80:c2:00:00:0e counter
    ether type vlan counter
    vlan id 7 counter
    meta length 60-100 counter
  }
  chain forward { type filter hook forward priority 0;
    counter
    iifname r0 oifname r1 counter
    iif r0 counter
    iifname r1 counter
    iifgroup 5 counter
    meta pkttype host counter
    ether type vlan vlan id 7 counter
    meta length > 100 counter
    udp dport { 53, 80 } counter
    meta mark 0 counter
  }
}
table netdev n {
  chain in { type filter hook ingress device r0 priority 0; ether type vlan vlan id 7 counter; counter; }
  chain out { type filter hook egress device r1 priority 0; ether type vlan counter; vlan id 7 counter; counter; }
}
";

/// What is done to the bridge, one thing after the other.
const CHANGES: [&str; 11] = [
    "true",
    "ip link set r0 group 5",
    "bridge link set dev r0 state 4",
    "bridge link set dev r0 state 2",
    "bridge link set dev r0 state 3; bridge link set dev r1 state 4",
    "bridge link set dev r1 state 3; ip link set br0 type bridge group_fwd_mask 0x4008",
    "ip link set r0 type bridge_slave group_fwd_mask 0x20",
    "ip link set br0 type bridge group_fwd_mask 0; ip link set br0 promisc on",
    "ip link set br0 type bridge mcast_snooping 0; ip link set br0 address 02:00:00:00:0b:0b",
    "ip link set r1 type bridge_slave hairpin on; ip link set r0 type bridge_slave hairpin on",
    "ip link set br0 promisc off; ip link set br0 type bridge stp_state 1 forward_delay 200",
];

#[test]
fn attached_bridges_count_as_nf_tables_does() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.bridge() {
        return;
    }
    let in_r = |net: &Net, line: &str| net.ok(&net.r, line);
    in_r(
        &net,
        "for t in ip ip6 arp; do sysctl -qw net.bridge.bridge-nf-call-${t}tables=0 || true; done",
    );
    // Nothing but these frames.
    for (namespace, devices) in [(&net.a, "a0"), (&net.b, "b0"), (&net.r, "r0 r1 br0")] {
        let quiet = "sysctl -qw net.ipv6.conf.$d.disable_ipv6=1; ip addr flush dev $d";
        net.ok(namespace, &format!("for d in {devices}; do {quiet}; done"));
    }
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, RULES).unwrap();
    net.attach(&format!("--rules {}", file.display()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached_bridge.py");
    let load = format!(
        "$PENSTOCK nft flush ruleset; $PENSTOCK nft -f {0}; nft flush ruleset; nft -f {0}",
        file.display()
    );
    let counted = std::cell::Cell::new(0);
    for (seed, change) in CHANGES.iter().enumerate() {
        in_r(&net, change);
        in_r(&net, &load);
        let mac = in_r(&net, "cat /sys/class/net/br0/address");
        net.until("the change is followed", |net| {
            let lists = ["nft list ruleset", "$PENSTOCK nft list ruleset"];
            net.ok(&net.a, &format!("python3 {script} a0 {} {seed} 400", mac.trim()));
            net.ok(&net.b, &format!("python3 {script} b0 {} {seed} 100", mac.trim()));
            std::thread::sleep(std::time::Duration::from_millis(200));
            let [kernel, attached] = lists.map(|line| in_r(net, line));
            let fresh = kernel.matches("packets").count() - kernel.matches("packets 0 ").count();
            counted.set(counted.get() + fresh);
            if kernel == attached {
                return true;
            }
            for (kernel, attached) in kernel.lines().zip(attached.lines()) {
                if kernel != attached {
                    eprintln!("after {change}\n  kernel:   {kernel}\n  attached: {attached}");
                }
            }
            in_r(net, &load);
            false
        });
    }
    let counted = counted.get();
    assert!(counted > CHANGES.len() * 15, "{counted} counters of {} rounds", CHANGES.len());
}

/// What has no program, with a word of the reason.
const REFUSED: [(&str, &str); 8] = [
    ("chain c { type filter hook output priority 0; counter; }", "output of bridges"),
    ("chain c { type filter hook postrouting priority 0; counter; }", "postrouting of bridges"),
    ("chain c { type filter hook input priority 0; iifname r0 counter; }", "port of arrival"),
    ("chain c { type filter hook prerouting priority 0; log; }", "`log`"),
    ("chain c { type filter hook prerouting priority 0; ct state new counter; }", "not tracked"),
    ("chain c { type filter hook prerouting priority 0; meta nftrace set 1; }", "nftrace set"),
    (
        "chain c { type filter hook prerouting priority 0; ether daddr set 02:00:00:00:00:01; }",
        "change of the packet",
    ),
    (
        "chain c { type filter hook prerouting priority 0; meta ibrname br0 counter; }",
        "bri_iifname",
    ),
];

#[test]
fn what_bridges_cannot_do_as_programs_is_refused() {
    let Some(mut net) = Net::new() else { return };
    if !net.bridge() {
        return;
    }
    let off =
        "for t in ip ip6 arp; do sysctl -qw net.bridge.bridge-nf-call-${t}tables=0 || true; done";
    net.ok(&net.r, off);
    net.attach("--rules /dev/null");
    let said = |chain: &str| {
        let line = format!("$PENSTOCK nft 'table bridge t {{ {chain} \n}}' 2>&1");
        let (done, said) = net.run(&net.r, &line);
        if done {
            net.ok(&net.r, "$PENSTOCK nft flush ruleset");
        }
        said
    };
    for (chain, reason) in REFUSED {
        let chain = chain.replace("; }", "\n}").replace("0; ", "0;\n");
        let said = said(&chain);
        assert!(said.contains(reason), "{chain}\n{said}");
    }
    let forward = "chain c { type filter hook forward priority 0;\n counter\n }";
    let prerouting = "chain c { type filter hook prerouting priority 0;\n counter\n }";
    let with_vlan =
        "ip link set br0 type bridge nf_call_iptables 0; ip link add link r1 name v type vlan id 7";
    for (line, chain, reason) in [
        ("ip link set r0 mtu 1400", forward, "different MTUs"),
        (
            "ip link set r0 mtu 1500; ip link set br0 type bridge nf_call_iptables 1",
            forward,
            "hooks of IP",
        ),
        (with_vlan, prerouting, "VLAN devices"),
    ] {
        let (done, printed) = net.run(&net.r, line);
        if !done && printed.contains("Unknown device type") {
            eprintln!("skipped: this kernel has no VLAN devices");
            continue;
        }
        assert!(done, "{line}: {printed}");
        net.until("the change is followed", |_| said(chain).contains(reason));
    }
    net.run(&net.r, "ip link del v");
    net.until("nothing speaks against it", |net| {
        let chain =
            "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }";
        net.run(&net.r, &format!("$PENSTOCK nft '{chain}'")).0
    });
}
