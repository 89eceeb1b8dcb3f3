// SPDX-License-Identifier: Apache-2.0

//! Many publications, and many nodes.

use std::time::{Duration, Instant};

use super::Fleet;
use super::watch::Marked;
use crate::net::{Net, setting};

/// `PENSTOCK_PUBLICATIONS` in a row.
#[test]
#[ignore = "takes minutes: make fleet"]
fn publications_in_a_row_are_followed_all_along() {
    let Some(mut net) = Net::new() else { return };
    let fleet = Fleet::in_directory(&net);
    net.up(&format!("r0 r1 {}", fleet.agent("")));
    let marked = Marked::default();
    let last = setting("PENSTOCK_PUBLICATIONS", 1000);
    marked.publish(&net, &fleet, 1, "");
    fleet.until_generation(&net, 1);
    marked.all_along(&net, || {
        let mut before = 1;
        for number in 2..=last {
            marked.publish(&net, &fleet, number, "");
            // A node may pass over some, and does not go back.
            if let Some(now) = marked.look(&net) {
                assert!(now >= before, "{now} after {before}");
                before = now;
            }
            if number % 100 == 0 {
                fleet.ok(&net, "prune --keep 3");
            }
        }
        marked.until(&net, last);
    });
    fleet.until_generation(&net, last);
    let kept = fleet.ok(&net, "prune --keep 1");
    assert!(kept.starts_with("heads kept: 1, "), "{kept}");
    net.down();
    fleet.until_agent_ended(&net);
}

/// 200 agents in one process, without a dataplane, on one store: all of them follow, also after the
/// store was away.
#[test]
#[ignore = "takes minutes: make fleet"]
fn simulated_nodes_follow_one_store() {
    let Some(net) = Net::new() else { return };
    if !net.has("etcd") {
        return;
    }
    let etcd = || {
        let line = format!("etcd --log-level error --data-dir {}/etcd", net.directory.display());
        net.spawn_reading(&net.r, &line)
    };
    let store = etcd();
    let fleet = Fleet::new(&net, "etcd://127.0.0.1:2379/fleet", &net.r);
    net.until_within(60, "etcd answers", |net| fleet.status(net).contains("nothing is published"));
    let nodes = setting("PENSTOCK_NODES", 200);
    let Fleet { directory, store: address, .. } = &fleet;
    let line = format!(
        "$PENSTOCK agent --source {address} --key {directory}/key.pub --node n \
         --state {directory}/nodes --simulate {nodes}"
    );
    let agents = net.spawn_reading(&net.r, &line);
    let marked = Marked::default();
    let until_all = |generation: u64| {
        let expected = format!("nodes that report: {nodes}, behind: 0\n");
        net.until_within(120, &expected, |net| {
            let status = fleet.status(net);
            status.starts_with(&format!("generation {generation} ")) && status.contains(&expected)
        });
    };
    for number in 1..=10 {
        let begin = Instant::now();
        let generation = marked.publish(&net, &fleet, number, "");
        until_all(generation);
        eprintln!("{nodes} nodes: {:.1} s", begin.elapsed().as_secs_f64());
    }
    store.stop();
    std::thread::sleep(Duration::from_secs(5));
    let store = etcd();
    net.until_within(60, "etcd answers again", |net| fleet.status(net).contains("generation 10 "));
    let generation = marked.publish(&net, &fleet, 11, "");
    until_all(generation);
    agents.end();
    store.stop();
}
