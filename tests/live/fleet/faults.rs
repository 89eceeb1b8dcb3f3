// SPDX-License-Identifier: Apache-2.0

//! A node of a fleet while things fail. It is never without rules, never has half of them, and never
//! those of a generation that was not published.

use std::time::Duration;

use super::watch::Marked;
use super::{Fleet, slow};
use crate::net::{Net, Reading, sh};

/// Starts an agent on R that is no child of the dataplane.
fn agent(net: &Net, fleet: &Fleet, options: &str) -> Reading {
    agent_after(net, fleet, "", options)
}

/// Starts it in a shell that has run a line before.
fn agent_after(net: &Net, fleet: &Fleet, line: &str, options: &str) -> Reading {
    let Fleet { directory, store, .. } = fleet;
    let line = format!(
        "exec 2>> {directory}/agent.log; {line}
         exec $PENSTOCK agent --source {store} --key {directory}/key.pub --node r \
         --state {directory}/agent {options}"
    );
    net.spawn_reading(&net.r, &line)
}

/// A dataplane and a store in a directory, with the first publication in force.
fn begun(options: &str) -> Option<(Net, Fleet, Marked, Reading)> {
    let mut net = Net::new()?;
    let fleet = Fleet::in_directory(&net);
    let state = net.directory.join("state").display().to_string();
    net.up(&format!("r0 r1 --state {state}"));
    let marked = Marked::default();
    let running = agent(&net, &fleet, options);
    marked.publish(&net, &fleet, 1, "");
    fleet.until_generation(&net, 1);
    Some((net, fleet, marked, running))
}

#[test]
fn agent_is_killed_while_a_change_waits_for_its_health() {
    // The check takes longer than the test waits.
    let flag = std::env::temp_dir().join(format!("penstock-health-{}", std::process::id()));
    let check = format!("--health 'test ! -e {0} || sleep 60' --confirm 4", flag.display());
    let Some((net, fleet, marked, running)) = begun(&check) else { return };
    std::fs::write(&flag, "").unwrap();
    marked.all_along(&net, || {
        marked.publish(&net, &fleet, 2, "");
        marked.until(&net, 2);
        running.stop();
        // Nobody confirms it.
        marked.until(&net, 1);
    });
    assert!(net.log().contains("is taken back; "), "{}", net.log());
    std::fs::remove_file(&flag).unwrap();
    let running = agent(&net, &fleet, &check);
    marked.until(&net, 2);
    fleet.until_generation(&net, 2);
    running.end();
}

#[test]
fn next_agent_comes_while_a_change_still_waits() {
    let flag = std::env::temp_dir().join(format!("penstock-well-{}", std::process::id()));
    let check = format!("--health 'test ! -e {0} || sleep 60' --confirm 8", flag.display());
    let Some((net, fleet, marked, running)) = begun(&check) else { return };
    std::fs::write(&flag, "").unwrap();
    let running = marked.all_along(&net, || {
        marked.publish(&net, &fleet, 2, "");
        marked.until(&net, 2);
        running.stop();
        std::fs::remove_file(&flag).unwrap();
        // The dataplane takes nothing from it until the change is taken back.
        let running = agent(&net, &fleet, &check);
        fleet.until(&net, "a change waits for its confirmation");
        fleet.until_generation(&net, 2);
        running
    });
    assert!(net.log().contains("is taken back; "), "{}", net.log());
    assert_eq!(marked.look(&net), Some(2));
    running.end();
}

#[test]
fn agent_is_killed_at_any_time_of_a_change() {
    // An agent that is killed before it has confirmed a change costs this time.
    let confirm = "--confirm 6";
    let Some((net, fleet, marked, running)) = begun(confirm) else { return };
    let running = marked.all_along(&net, || {
        let mut running = running;
        for number in 2..10 {
            marked.publish(&net, &fleet, number, "");
            std::thread::sleep(Duration::from_millis(number * 17 % 120));
            running.stop();
            running = agent(&net, &fleet, confirm);
            marked.until(&net, number);
        }
        running
    });
    fleet.until_generation(&net, 9);
    running.end();
}

#[test]
fn dataplane_is_killed_and_begins_with_its_rules() {
    let Some((mut net, fleet, marked, running)) = begun("") else { return };
    let state = net.directory.join("state").display().to_string();
    for number in [1, 2, 3] {
        if number > 1 {
            marked.publish(&net, &fleet, number, "");
            fleet.until_generation(&net, number);
        }
        // What was reported is kept, and is there before anybody was asked.
        signal(&running, "STOP");
        net.kill_both();
        net.up(&format!("r0 r1 --state {state}"));
        assert_eq!(marked.look(&net), Some(number));
        signal(&running, "CONT");
        marked.until(&net, number);
    }
    marked.publish(&net, &fleet, 4, "");
    fleet.until_generation(&net, 4);
    // Without a state of its own, it gets them from the agent.
    net.kill_both();
    std::fs::remove_file(&state).unwrap();
    let (ok, said) = net.run(&net.r, "$PENSTOCK show");
    assert!(!ok, "{said}");
    net.up("r0 r1");
    net.until_within(30, "the agent gives them", |net| {
        net.run(&net.r, "$PENSTOCK nft list ruleset").1.contains("ends 4")
    });
    assert_eq!(marked.look(&net), Some(4));
    running.end();
}

fn signal(process: &Reading, signal: &str) {
    sh(&format!("kill -{signal} {}", process.id()));
}

#[test]
fn disk_of_the_agent_is_full() {
    let Some(mut net) = Net::new() else { return };
    let fleet = Fleet::in_directory(&net);
    net.up("r0 r1");
    let marked = Marked::default();
    // The file system is that of the agent's process alone.
    let full =
        format!("mkdir {0}/agent; mount -t tmpfs -o size=64k none {0}/agent", fleet.directory);
    let running = agent_after(&net, &fleet, &full, "");
    marked.publish(&net, &fleet, 1, "");
    fleet.until_generation(&net, 1);
    assert!(!fleet.status(&net).contains("cannot be written"), "{}", fleet.status(&net));
    let large = "# this takes place\n".repeat(20_000);
    for number in [2, 3] {
        let more = format!("{large}# {number}\n");
        marked.all_along(&net, || {
            marked.publish(&net, &fleet, number, &more);
            fleet.until_generation(&net, number);
        });
        fleet.until(&net, "the state directory cannot be written: ");
    }
    assert_eq!(marked.look(&net), Some(3));
    running.end();
}

#[test]
fn clock_of_the_node_is_hours_off() {
    let Some(mut net) = Net::new() else { return };
    let Some(library) = crate::clock::shim(&net) else { return };
    let clock = net.directory.join("clock");
    let jump = |hours: i64| std::fs::write(&clock, (hours * 3600).to_ne_bytes()).unwrap();
    jump(-9);
    let fleet = Fleet::in_directory(&net);
    net.up("r0 r1");
    let marked = Marked::default();
    let preload = format!("export PENSTOCK_TEST_CLOCK={} LD_PRELOAD={library}", clock.display());
    let running = agent_after(&net, &fleet, &preload, "--lease 3");
    for (number, hours) in [(1, -9), (2, 9), (3, -50_000), (4, 0)] {
        jump(hours);
        marked.publish(&net, &fleet, number, "");
        fleet.until_generation(&net, number);
        assert_eq!(marked.look(&net), Some(number), "{hours}");
        // Its report is good for as long as those of others.
        std::thread::sleep(Duration::from_secs(2));
        let status = fleet.status(&net);
        assert!(status.contains("nodes that report: 1, behind: 0"), "{hours}: {status}");
    }
    running.stop();
    fleet.until(&net, "nodes that report: 0");
}

#[test]
fn heads_that_are_wrong_change_nothing() {
    let Some((net, fleet, marked, running)) = begun("") else { return };
    let head = |name: &str| net.directory.join("store").join(name);
    let put = |bytes: &[u8]| {
        std::fs::write(head("new"), bytes).unwrap();
        std::fs::rename(head("new"), head("head")).unwrap();
    };
    let first = std::fs::read(head("head")).unwrap();
    marked.publish(&net, &fleet, 2, "");
    fleet.until_generation(&net, 2);
    let second = std::fs::read(head("head")).unwrap();
    net.ok(&net.r, &format!("$PENSTOCK fleet key {}/other", fleet.directory));
    let report = |what: &str| {
        net.until_within(30, what, |_| {
            std::fs::read_to_string(head("reports/r")).is_ok_and(|text| text.contains(what))
        });
        assert_eq!(marked.look(&net), Some(2), "{what}");
    };
    marked.all_along(&net, || {
        put(&first);
        report("older than that of generation 2");
        put(&second[..second.len() - 20]);
        report("the head cannot be read");
        std::fs::remove_file(head("head")).unwrap();
        let other = format!(
            "$PENSTOCK fleet publish --source {} --key {1}/other {1}/main.nft",
            fleet.store, fleet.directory
        );
        net.ok(&net.r, &other);
        report("not signed by a key that is trusted");
        put(&second);
        report("\"state\":\"in-force\"");
    });
    running.end();
}

#[test]
fn store_is_slow_and_then_does_not_answer() {
    let Some(mut net) = Net::new() else { return };
    let mut fleet = Fleet::in_directory(&net);
    let directory = fleet.store.clone();
    let server = slow(&net, &directory, 2.0);
    net.up("r0 r1");
    let marked = Marked::default();
    fleet.store = "http://198.18.1.2:8080".into();
    let running = agent(&net, &fleet, "");
    fleet.store = directory.clone();
    for number in [1, 2] {
        marked.publish(&net, &fleet, number, "");
        // Reports come over the slow server.
        fleet.until_generation(&net, number);
        assert_eq!(marked.look(&net), Some(number));
    }
    // It takes connections, and never answers.
    signal(&server, "STOP");
    marked.publish(&net, &fleet, 3, "");
    marked.all_along(&net, || std::thread::sleep(Duration::from_secs(3)));
    assert_eq!(marked.look(&net), Some(2));
    signal(&server, "CONT");
    marked.until(&net, 3);
    running.end();
}
