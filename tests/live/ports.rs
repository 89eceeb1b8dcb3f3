// SPDX-License-Identifier: Apache-2.0

//! Ports that come and go while packets pass, and the configuration that names them.

use crate::net::{Net, sh};

/// A third network: C behind a device of R's, 198.18.2.0/24. The dataplane need not have it.
struct Third {
    c: String,
}

impl Third {
    fn new(net: &mut Net, device: &str) -> Third {
        let c = net.another();
        let third = Third { c };
        third.plug(net, device);
        third
    }

    /// Makes the device, with addresses, a route and a neighbour.
    fn plug(&self, net: &Net, device: &str) {
        let (r, c) = (&net.r, &self.c);
        sh(&format!(
            "set -e
             ip -n {c} link add c0 address 02:00:00:00:0c:00 type veth peer name {device} netns {r} address 02:00:00:00:00:0c
             ip -n {c} addr add 198.18.2.2/24 dev c0
             ip -n {c} link set c0 up
             ip -n {c} route add default via 198.18.2.1
             ip -n {r} addr add 198.18.2.1/24 dev {device}
             ip -n {r} link set {device} up
             ip -n {r} route add 198.19.2.0/24 via 198.18.2.2
             ip -n {r} neigh add 198.18.2.77 lladdr 02:00:00:00:00:77 dev {device}"
        ));
    }

    /// What R has on the device.
    fn state(net: &Net, device: &str) -> String {
        let lines = format!(
            "ip -o addr show dev {device} | grep -o 'inet .*' | sed 's/ valid_lft.*//; s/[\\\\].*//'
             ip route show dev {device}; ip neigh show dev {device} nud permanent
             ip -o link show dev {device} | grep -o 'mtu [0-9]*'; ip -o link show dev {device} | grep -o 'ether [^ ]*'"
        );
        net.ok(&net.r, &lines)
    }
}

fn answers(net: &Net, from: &str, to: &str) -> bool {
    net.run(from, &format!("ping -c 1 -W 1 {to}")).0
}

#[test]
fn ports_come_and_go_and_others_lose_no_packet() {
    let Some(mut net) = Net::new() else { return };
    let third = Third::new(&mut net, "r2");
    let before = Third::state(&net, "r2");
    for (driver, by, workers) in
        [("packet", "packet socket", 1), ("auto", "packet socket", 2), ("xdp", "AF_XDP, copies", 2)]
    {
        net.up(&format!("r0 r1 --driver {driver} --workers {workers}"));
        net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
        let a = net.a.clone();
        let flood = net.spawn_reading(&a, "ping -q -i 0.01 -c 400 -W 5 198.18.1.2");
        for round in 0..3 {
            net.ok(&net.r, &format!("$PENSTOCK port add r2 --driver {driver}"));
            let list = net.ok(&net.r, "$PENSTOCK port list");
            assert!(list.contains(&format!("r2              r2.port         {by} ")), "{list}");
            assert!(Third::state(&net, "r2").contains("198.18.2.1/24"));
            net.ok(&net.a, "ping -c 3 -i 0.05 -W 3 198.18.2.2");
            net.ok(&third.c, "ping -c 1 -W 3 198.18.2.1");
            net.nft(
                "flush ruleset
                 table inet t { chain f { type filter hook forward priority 0; iif r2 counter; oif r2 counter; }; }",
            );
            net.ok(&third.c, "ping -c 2 -i 0.05 -W 3 198.18.1.2");
            let rules = net.ok(&net.r, "$PENSTOCK nft list ruleset");
            assert_eq!(rules.matches("counter packets 2 ").count(), 2, "{round} {rules}");
            net.nft("flush ruleset");
            net.ok(&net.r, "$PENSTOCK port del r2");
            assert_eq!(Third::state(&net, "r2"), before);
            assert!(!net.ok(&net.r, "ip -o link").contains("r2.port"));
            net.ok(&net.r, "ping -c 1 -W 3 198.18.2.2");
        }
        let said = flood.wait();
        assert!(said.contains("400 received, 0% packet loss"), "{driver} {workers}: {said}");
        net.down();
    }
}

#[test]
fn a_port_that_is_added_has_the_driver_that_is_asked_for() {
    let Some(mut net) = Net::new() else { return };
    let third = Third::new(&mut net, "r2");
    // Where the limit of locked memory may be raised, if it may be here, and where it may not.
    let limited = "ulimit -l 64; PENSTOCK=\"setpriv --bounding-set -sys_resource $PENSTOCK\"";
    for limit in ["", limited] {
        for (first, driver, carrier) in [
            ("packet", "xdp", "AF_XDP"),
            ("xdp", "xdp", "AF_XDP"),
            ("packet", "xdp-generic", "AF_XDP"),
            ("xdp", "packet", "packet socket"),
        ] {
            net.up_after(limit, &format!("r0 r1 --driver {first} --workers 2"));
            net.ok(&net.r, &format!("$PENSTOCK port add r2 --driver {driver}"));
            let shown = net.ok(&net.r, "$PENSTOCK show");
            let line =
                shown.lines().find(|line| line.contains("  r2.port by ")).unwrap_or_default();
            assert!(line.contains(carrier), "{limit} {first} {driver}: {shown}{}", net.log());
            net.ok(&net.a, "ping -c 3 -i 0.05 -W 3 198.18.2.2");
            net.ok(&third.c, "ping -c 1 -W 3 198.18.2.1");
            net.down();
        }
    }
}

#[test]
fn added_ports_are_returned_whoever_dies() {
    let Some(mut net) = Net::new() else { return };
    let third = Third::new(&mut net, "r2");
    let before = Third::state(&net, "r2");
    // The dataplane ends in order, is killed, or is killed together with its guardian.
    for end in 0..3 {
        net.up("r0 r1");
        net.ok(&net.r, "$PENSTOCK port add r2");
        net.ok(&net.a, "ping -c 1 -W 3 198.18.2.2");
        match end {
            0 => net.down(),
            1 => net.kill(),
            _ => {
                net.kill_both();
                net.ok(&net.r, "$PENSTOCK down");
            }
        }
        net.until("the device is back", |net| {
            net.run(&net.r, "ip link show r2").0 && Third::state(net, "r2") == before
        });
        net.until("the kernel forwards", |net| answers(net, &net.a, "198.18.2.2"));
        net.until("in both directions", |net| answers(net, &third.c, "198.18.1.2"));
    }
}

#[test]
fn a_kill_in_the_middle_leaves_every_device_whole() {
    let Some(mut net) = Net::new() else { return };
    Third::new(&mut net, "r2");
    let before = Third::state(&net, "r2");
    for round in 0..8u64 {
        net.up("r0 r1");
        if round % 2 == 1 {
            net.ok(&net.r, "$PENSTOCK port add r2");
        }
        let what = if round % 2 == 1 { "del" } else { "add" };
        let r = net.r.clone();
        let call = net.spawn_reading(&r, &format!("$PENSTOCK port {what} r2"));
        std::thread::sleep(std::time::Duration::from_millis(5 + round * 7));
        if round % 4 < 2 {
            net.kill_both();
            net.ok(&net.r, "$PENSTOCK down");
        } else {
            net.kill();
        }
        call.wait();
        net.until("the device is back", |net| {
            net.run(&net.r, "ip link show r2").0 && Third::state(net, "r2") == before
        });
        net.until("so are the others", |net| answers(net, &net.a, "198.18.1.2"));
        let names = net.ok(&net.r, "ip -o link");
        assert!(!names.contains(".port"), "{round} {what}: {names}");
    }
}

#[test]
fn a_refused_port_changes_nothing() {
    let Some(mut net) = Net::new() else { return };
    Third::new(&mut net, "r2");
    let before = Third::state(&net, "r2");
    net.up("r0 r1 --allow-read");
    for (call, message) in [
        ("add r2 r9", "Error: Cannot find device \"r9\""),
        ("add r2 r0", "Error: r0: it is a port already"),
        ("add r2 lo", "Error: lo: only Ethernet devices can be ports"),
        ("add r2=r1", "Error: r1: it is a port already"),
        ("del r9", "Error: r9: it is not a port"),
        ("del r0 r9", "Error: r9: it is not a port"),
    ] {
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK port {call}"));
        assert!(!ok && said.trim() == message, "{call}: {said}");
        assert_eq!(Third::state(&net, "r2"), before, "{call}");
    }
    let list = net.ok(&net.r, "$PENSTOCK port list -j");
    assert_eq!(list.matches("\"origin\": \"named\"").count(), 2, "{list}");
    // Who may only look cannot.
    let as_user = "setpriv --reuid 65534 --regid 65534 --clear-groups $PENSTOCK port";
    assert!(net.run(&net.r, &format!("{as_user} list")).0);
    let (ok, said) = net.run(&net.r, &format!("{as_user} add r2"));
    assert!(!ok && said.contains("Operation not permitted"), "{said}");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    // The last port may go, too.
    net.ok(&net.r, "$PENSTOCK port del r0.port r1");
    assert_eq!(net.ok(&net.r, "$PENSTOCK port list"), "");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    net.ok(&net.r, "$PENSTOCK port add r0 r1");
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    let list = net.ok(&net.r, "$PENSTOCK port list -j");
    assert_eq!(list.matches("\"origin\": \"added\"").count(), 2, "{list}");
}

#[test]
fn devices_like_a_pattern_become_ports_when_they_are_up() {
    let Some(mut net) = Net::new() else { return };
    let third = Third::new(&mut net, "v7");
    net.up("r0 r1 --ports v? late");
    let ports = |net: &Net| net.ok(&net.r, "$PENSTOCK port list");
    net.until("what was there is taken", |net| ports(net).contains("v7.port"));
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 3 198.18.2.2");
    assert!(ports(&net).contains("late") && ports(&net).contains("waited for"));
    // It goes with its device, and the next one is another port.
    net.ok(&third.c, "ip link del c0");
    net.until("the port has ended", |net| !ports(net).contains("v7.port"));
    assert!(!net.ok(&net.r, "ip -o link").contains("v7"));
    third.plug(&net, "v8");
    net.until("the next one is taken", |net| ports(net).contains("v8.port"));
    net.until("packets pass", |net| answers(net, &net.a, "198.18.2.2"));
    // Returned by hand, it stays returned.
    net.ok(&net.r, "$PENSTOCK port del v8; sleep 0.3");
    net.ok(&net.r, "ip link set v8 alias x; sleep 0.3");
    assert!(!ports(&net).contains("v8.port"), "{}", ports(&net));
    net.ok(&net.r, "$PENSTOCK port add v8");
    net.ok(&third.c, "ip link del c0");
    // One that is named, and comes later.
    net.ok(&net.r, "$PENSTOCK port del v8");
    third.plug(&net, "late");
    net.until("it is taken", |net| ports(net).contains("late.port"));
    net.until("packets pass", |net| answers(net, &net.a, "198.18.2.2"));
    net.down();
    assert!(net.ok(&net.r, "ip -o addr show dev late").contains("198.18.2.1"));
}

#[test]
fn the_configuration_is_followed_at_sighup() {
    let Some(mut net) = Net::new() else { return };
    Third::new(&mut net, "r2");
    let (file, rules) = (net.directory.join("penstock.toml"), net.directory.join("rules.nft"));
    let write = |ports: &str, more: &str| {
        let text = format!("ports = [{ports}]\nrules = \"{}\"\n{more}", rules.display());
        std::fs::write(&file, text).unwrap();
    };
    let config = file.display().to_string();
    std::fs::write(&rules, "table inet one { }\n").unwrap();
    write("\"r0\", \"r1\"", "workers = 1\n");
    net.ok(&net.r, &format!("$PENSTOCK check {config}"));
    net.up(&format!("--config {config}"));
    let tables = |net: &Net| net.ok(&net.r, "$PENSTOCK nft list tables");
    assert_eq!(tables(&net), "table inet one\n");
    let hup = |net: &Net| sh(&format!("kill -HUP {}", net.pid()));
    // A port and the rules change, and what cannot is said.
    std::fs::write(&rules, "table inet two { }\n").unwrap();
    write("\"r0\", \"r1\", \"r2\"", "workers = 2\n");
    hup(&net);
    net.until("the rules are there", |net| tables(net) == "table inet two\n");
    let list = net.ok(&net.r, "$PENSTOCK port list");
    assert!(list.contains("r2.port"), "{list}");
    assert!(net.log().contains("workers changes at the next start only"), "{}", net.log());
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 3 198.18.2.2");
    // A wrong file changes nothing, and says where.
    write("\"r0\"", "workers = \"many\"\n");
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK check {config}; test $? = 2 && exit 9"));
    let place = format!("{config}:3:11-16: Error: workers takes `auto`");
    assert!(!ok && said.contains(&place), "{said}");
    hup(&net);
    net.until("it is said", |net| net.log().contains(&place));
    assert_eq!(net.ok(&net.r, "$PENSTOCK port list"), list);
    // Ports that it does not name any more go.
    write("\"r0\", \"r1\"", "");
    hup(&net);
    net.until("the port is gone", |net| !net.ok(&net.r, "$PENSTOCK port list").contains("r2.port"));
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 3 198.18.2.2");
    // Wrong rules are refused by `check`, too.
    std::fs::write(&rules, "table inet { \n").unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK check {config}"));
    assert!(!ok && said.contains("rules.nft:1:12-12: Error: syntax error"), "{said}");
}

#[test]
fn settings_change_at_sighup() {
    let Some(mut net) = Net::new() else { return };
    let (file, log) = (net.directory.join("penstock.toml"), net.directory.join("rules.log"));
    let write =
        |more: &str| std::fs::write(&file, format!("ports = [\"r0\", \"r1\"]\n{more}")).unwrap();
    let hup = |net: &Net| sh(&format!("kill -HUP {}", net.pid()));
    write("");
    net.up(&format!("--config {}", file.display()));
    net.nft(
        "table ip t { chain f { type filter hook forward priority 0; ct state new log prefix \"seen \"; }; }",
    );
    let udp = "python3 -c 'import socket; \
               socket.socket(2, 2).sendto(b\"x\", (\"198.18.1.2\", PORT))'";
    // Seconds that a new connection lives.
    let life = |net: &Net, port: u16| {
        net.ok(&net.a, &udp.replace("PORT", &port.to_string()));
        let listed = net.ok(&net.r, "$PENSTOCK show conntrack");
        let line = listed.lines().find(|line| line.contains(&format!("dport={port} ")));
        line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok()).unwrap_or(0u32)
    };
    net.until("the host's timeout counts", |net| (1..=30).contains(&life(net, 7)));
    write(&format!(
        "rule-log = \"{}\"\nbatch-time = 0.000001\nsysctl = [\"net.netfilter.nf_conntrack_udp_timeout=900\", \
         \"net.ipv4.ipfrag_time=9\"]\n",
        log.display()
    ));
    hup(&net);
    let ports = std::cell::Cell::new(1000);
    let fresh = || ports.replace(ports.get() + 1);
    net.until("the timeout of the file counts", |net| life(net, fresh()) > 800);
    net.until("rules log to the file", |net| {
        life(net, 8);
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("seen IN=r0"))
    });
    let said = "sysctl net.ipv4.ipfrag_time changes at the next start only";
    assert!(net.log().contains(said), "{}", net.log());
    let (ok, refused) = net.run(&net.r, "$PENSTOCK nft 'add table ip more'");
    assert!(!ok && refused.contains("takes longer than is allowed"), "{refused}");
    write("rule-log = \"/nowhere/log\"\n");
    hup(&net);
    net.until("the host's timeout counts again", |net| (1..=30).contains(&life(net, fresh())));
    net.until("it is said", |net| net.log().contains("/nowhere/log: No such file"));
    net.ok(&net.r, "$PENSTOCK nft 'add table ip more'");
}
