// SPDX-License-Identifier: Apache-2.0

//! Sets that are published as data stay what was published: what is changed by hand is put right,
//! and elements with a timeout do not end.

use std::time::{Duration, Instant};

use super::{Fleet, rules};
use crate::net::Net;

/// Sets of several kinds.
const SETS: &str = "table inet fw {
	set blocked {
		type ipv4_addr
		flags interval
	}
	set timed {
		type ipv4_addr
		timeout 6s
	}
	set seen {
		type ipv4_addr
		size 100
		flags dynamic
	}
	map ports {
		type inet_service : verdict
		flags timeout
	}
}
";

/// What lasts of the elements of a set, sorted.
fn elements(net: &Net, set: &str) -> Vec<String> {
    let listed = net.ok(&net.r, &format!("$PENSTOCK nft list {set}"));
    let Some((_, elements)) = listed.split_once("elements = {") else { return Vec::new() };
    let elements = elements.split('}').next().unwrap();
    let lasting = |element: &str| {
        let mut words = element.split_whitespace();
        let mut lasting = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "expires" => _ = words.next(),
                _ => lasting.push(word),
            }
        }
        lasting.join(" ")
    };
    let mut all: Vec<String> = elements.split(',').map(lasting).collect();
    all.sort();
    all
}

fn publish(net: &Net, fleet: &Fleet) {
    fleet.file("sets.nft", SETS);
    // Not all of it is as nft prints it.
    let lists = [
        ("set", "blocked", "198.18.64.0/18, 198.18.7.0-198.18.7.255\n198.18.9.1 # one\n"),
        ("set", "timed", "198.18.0.7, 198.18.0.8 timeout 5s\n"),
        ("set", "seen", "198.18.0.9\n"),
        ("map", "ports", "http timeout 8s : drop, 23 : drop"),
    ];
    let sets = lists.map(|(_, name, text)| {
        let file = fleet.file(name, text);
        format!("--set 'inet fw {name}={file}'")
    });
    let forward = "add @seen { ip daddr }\n\t\ttcp dport vmap @ports";
    fleet.publish(net, &sets.join(" "), &rules(forward, ""));
    fleet.until_generation(net, 1);
}

const BLOCKED: [&str; 3] = ["198.18.64.0/18", "198.18.7.0/24", "198.18.9.1"];
const PORTS: [&str; 2] = ["23 : drop", "80 timeout 8s : drop"];

#[test]
fn elements_that_were_changed_by_hand_are_put_right() {
    let Some(mut net) = Net::new() else { return };
    let fleet = Fleet::in_directory(&net);
    net.up(&format!("r0 r1 {}", fleet.agent("compare=1")));
    publish(&net, &fleet);
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
    net.ok(&net.r, "$PENSTOCK nft add rule inet fw forward counter comment \\\"by hand\\\"");
    let mut repairs = 0;
    for (change, repaired) in [
        ("delete element inet fw blocked { 198.18.9.1 }", "blocked: elements added: 1, deleted: 0"),
        ("add element inet fw blocked { 198.18.0.2 }", "blocked: elements added: 0, deleted: 1"),
        (
            "delete element inet fw blocked { 198.18.7.0/24 }; add element inet fw blocked { 198.18.7.0/25 }",
            "blocked: elements added: 1, deleted: 1",
        ),
        ("flush set inet fw blocked", "blocked: elements added: 3, deleted: 0"),
        ("delete element inet fw ports { 23 }", "ports: elements added: 1, deleted: 0"),
        ("delete element inet fw seen { 198.18.0.9 }", "seen: elements added: 1, deleted: 0"),
    ] {
        net.ok(&net.r, &format!("$PENSTOCK nft '{change}'"));
        repairs += 1;
        fleet.until(&net, &format!("repairs: {repairs}, the last of set inet fw {repaired}\n"));
        assert_eq!(elements(&net, "set inet fw blocked"), BLOCKED, "{change}");
        assert_eq!(elements(&net, "map inet fw ports"), PORTS, "{change}");
        // What packets have added stays, and so do rules.
        assert!(elements(&net, "set inet fw seen").contains(&"198.18.1.2".to_owned()));
        assert!(net.ok(&net.r, "$PENSTOCK nft list ruleset").contains("by hand"), "{change}");
    }
    // Without the set, only the whole ruleset helps.
    net.ok(&net.r, "$PENSTOCK nft delete table inet fw");
    fleet.until(&net, &format!("repairs: {}, ", repairs + 1));
    assert_eq!(elements(&net, "set inet fw blocked"), BLOCKED);
    assert!(net.ok(&net.r, "$PENSTOCK nft list chain inet fw forward").contains("@seen"));
    assert!(fleet.status(&net).contains("behind: 0"));
    let metrics = fleet.ok(&net, "status --metrics");
    assert!(metrics.contains("penstock_fleet_node_repairs{node=\"r\",state=\"in force\"}"));
    net.down();
    fleet.until_agent_ended(&net);
}

#[test]
fn elements_with_a_timeout_are_renewed() {
    let Some(mut net) = Net::new() else { return };
    let fleet = Fleet::in_directory(&net);
    net.up(&format!("r0 r1 {}", fleet.agent("compare=3600")));
    publish(&net, &fleet);
    // One that comes later is renewed, too.
    let more = fleet.file("more", "198.18.0.10 timeout 4s\n");
    fleet.ok(&net, &format!("set add inet fw timed {more}"));
    fleet.until_generation(&net, 2);
    // Longer than each of the timeouts.
    let end = Instant::now() + Duration::from_secs(13);
    while Instant::now() < end {
        let timed = ["198.18.0.10 timeout 4s", "198.18.0.7", "198.18.0.8 timeout 5s"];
        assert_eq!(elements(&net, "set inet fw timed"), timed);
        assert_eq!(elements(&net, "map inet fw ports"), PORTS);
        std::thread::sleep(Duration::from_millis(200));
    }
    // Renewing them is no repair, and what is not published any more ends.
    assert!(!fleet.status(&net).contains("repairs"), "{}", fleet.status(&net));
    fleet.ok(&net, &format!("set del inet fw timed {more}"));
    fleet.until_generation(&net, 3);
    assert_eq!(elements(&net, "set inet fw timed").len(), 2);
    net.down();
    fleet.until_agent_ended(&net);
}
