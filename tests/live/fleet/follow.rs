// SPDX-License-Identifier: Apache-2.0

//! Nodes follow what is published: etcd on B, the dataplane and its agent on R, which reaches the
//! store through the rules that it gets from there.

use super::{Fleet, SETS, rules};
use crate::net::Net;

/// The store, as R and B reach it.
const STORE: &str = "etcd://198.18.1.2:2379/fleet";

/// Starts etcd on B.
fn etcd(net: &mut Net) {
    let url = "http://198.18.1.2:2379";
    let data = net.directory.join("etcd").display().to_string();
    net.spawn_in(
        'b',
        &format!(
            "etcd --log-level error --data-dir {data} --listen-client-urls {url} \
             --advertise-client-urls {url} --listen-peer-urls http://198.18.1.2:2380 \
             --initial-advertise-peer-urls http://198.18.1.2:2380 \
             --initial-cluster default=http://198.18.1.2:2380"
        ),
    );
    net.until_within(60, "etcd answers", |net| {
        net.run(&net.b, &format!("curl -sf --max-time 2 {url}/health")).0
    });
}

#[test]
fn node_follows_the_store_and_rolls_back_what_cuts_it_off() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    if !net.has("etcd") {
        return;
    }
    etcd(&mut net);
    let fleet = Fleet::new(&net, STORE, &net.b);
    net.down();
    let state = net.directory.join("state").display().to_string();
    net.up(&format!("r0 r1 --state {state} {}", fleet.agent("")));

    // What is published is in force, with its elements, its definitions and its tests.
    let list = fleet.file("list", "198.18.0.200, 198.18.7.0/24\n");
    fleet.file("net.ip", "link add r0 type veth\nlink set r0 up\naddress add 198.18.0.1/24 dev r0\nlink add r1 type veth\nlink set r1 up\naddress add 198.18.1.1/24 dev r1\n");
    fleet.file(
        "fw.test",
        "net net.ip\nrules main.nft\ntest telnet is dropped\n\
         packet r0 ip saddr 198.18.0.2 ip daddr 198.18.1.2 tcp dport 23\nexpect drop\n",
    );
    let claims = fleet.file("claims", "hook forward\nnever accept tcp dport 23\n");
    let options = format!(
        "--set 'inet fw blocked={list}' --define PORT=23 --define-for site=a:PORT=23-25 \
         --claims {claims} --test {0}/fw.test --with {0}/net.ip",
        fleet.directory
    );
    fleet.publish(&net, &options, &rules("tcp dport $PORT drop", ""));
    fleet.until_generation(&net, 1);
    let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    for part in ["198.18.0.200", "198.18.7.0/24", "tcp dport 23-25 drop"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }

    // A set changes, and counters of rules stay.
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
    let more = fleet.file("more", "198.18.0.2\n");
    fleet.ok(&net, &format!("set add inet fw blocked {more}"));
    fleet.until_generation(&net, 2);
    assert!(!net.run(&net.a, "ping -c 1 -W 1 198.18.1.2").0);
    fleet.ok(&net, &format!("set del inet fw blocked {more}"));
    fleet.until_generation(&net, 3);
    net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
    let listed = net.ok(&net.r, "$PENSTOCK nft list chain inet fw forward");
    assert!(listed.contains("counter packets 1 "), "{listed}");

    // What the node does not reach its store with is taken back by the node.
    fleet.publish(&net, "", &rules("", "tcp dport 2379 drop"));
    fleet.until(&net, "rolled back");
    let said = fleet.status(&net);
    assert!(said.contains("the store is away") && said.contains("behind"), "{said}");
    let now = net.ok(&net.r, "$PENSTOCK nft list ruleset");
    assert!(now.contains("tcp dport 23-25 drop") && !now.contains("2379"), "{now}");

    // What the dataplane refuses, since a claim does not hold there, is told.
    let back = fleet.ok(&net, "rollback");
    assert!(back.starts_with("generation 5: "), "{back}");
    fleet.until_generation(&net, 5);

    // Without the store, a dataplane gets the last rules from the disk of its node.
    net.ok(&net.b, "ip link set lo down; for p in $(ss -Hlntp 'sport = :2379' | grep -o 'pid=[0-9]*' | cut -d= -f2); do kill -9 $p; done");
    net.down();
    std::fs::remove_file(&state).unwrap();
    net.up(&format!("r0 r1 {}", fleet.agent("")));
    net.until_within(30, "the rules are there", |net| {
        net.run(&net.r, "$PENSTOCK nft list ruleset").1.contains("tcp dport 23-25 drop")
    });

    // The store comes back, and so does the report.
    net.ok(&net.b, "ip link set lo up");
    etcd(&mut net);
    fleet.publish(&net, "--no-sets", &rules("tcp dport 99 drop", ""));
    fleet.until_generation(&net, 6);
    assert!(net.ok(&net.r, "$PENSTOCK nft list ruleset").contains("tcp dport 99 drop"));
    // The agent ends with its dataplane.
    net.down();
    fleet.until_agent_ended(&net);
}

#[test]
fn agent_beside_an_attached_ruleset_and_heads_of_others() {
    let Some(net) = Net::new() else { return };
    let directory = net.directory.display().to_string();
    let at = |name: &str| format!("{directory}/{name}");
    std::fs::create_dir_all(at("store")).unwrap();
    std::fs::write(at("main.nft"), rules("", "")).unwrap();
    std::fs::write(at("sets.nft"), SETS).unwrap();
    for key in ["key", "other"] {
        net.ok(&net.r, &format!("$PENSTOCK fleet key {}", at(key)));
    }
    let fleet = |line: &str, key: &str| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (store, key) = (at("store"), at(key));
        format!("$PENSTOCK fleet {word} --source {store} --key {key} {rest}")
    };
    let agent = net.spawn_reading(
        &net.r,
        &format!(
            "$PENSTOCK agent --source {} --key {} --node r --state {} --dry-run",
            at("store"),
            at("key.pub"),
            at("agent")
        ),
    );
    let until = |what: &str| {
        net.until_within(30, what, |net| {
            std::fs::read_to_string(at("store/reports/r")).is_ok_and(|text| text.contains(what))
                && net.run(&net.r, "true").0
        });
    };
    let publish = format!("publish {}", at("main.nft"));
    net.ok(&net.r, &fleet(&publish, "key"));
    until("\"generation\":1");
    let first = std::fs::read(at("store/head")).unwrap();
    net.ok(&net.r, &fleet(&publish, "key"));
    until("\"generation\":2");
    let second = std::fs::read(at("store/head")).unwrap();
    // An old head, that of another key, and one that is cut off.
    let put = |bytes: &[u8]| {
        std::fs::write(at("store/new"), bytes).unwrap();
        std::fs::rename(at("store/new"), at("store/head")).unwrap();
    };
    put(&first);
    until("older than that of generation 2");
    put(&second[..second.len() / 2]);
    until("the head cannot be read");
    let (ok, said) = net.run(&net.r, &fleet("status", "key"));
    assert!(!ok && said.contains("the head cannot be read"), "{said}");
    std::fs::remove_file(at("store/head")).unwrap();
    net.ok(&net.r, &fleet(&publish, "other"));
    until("not signed by a key that is trusted");
    let (ok, said) = net.run(&net.r, &fleet(&publish, "key"));
    assert!(!ok && said.contains("not signed by a key that is trusted"), "{said}");
    put(&second);
    until("\"state\":\"in-force\"");
    let said = net.ok(&net.r, &fleet("status", "key.pub"));
    assert!(said.contains("nodes that report: 1, behind: 0"), "{said}");
    agent.end();
}
