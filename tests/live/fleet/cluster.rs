// SPDX-License-Identifier: Apache-2.0

//! etcd of one member and of three on B, which R reaches through the rules that it gets from there:
//! members are killed, and the network is cut.

use std::time::Duration;

use super::Fleet;
use super::watch::Marked;
use crate::net::{Net, Reading};

/// Members of a cluster, each on ports of its own.
struct Cluster {
    members: Vec<Option<Reading>>,
    directory: String,
}

/// Ports for clients and for other members.
fn ports(member: usize) -> (usize, usize) {
    (2379 + member * 10, 2380 + member * 10)
}

impl Cluster {
    /// Starts it; `None`, and said, without the program.
    fn start(net: &Net, count: usize) -> Option<Cluster> {
        if !net.has("etcd") {
            return None;
        }
        let directory = net.directory.display().to_string();
        let mut cluster = Cluster { members: Vec::new(), directory };
        cluster.members.resize_with(count, || None);
        (0..count).for_each(|member| cluster.begin(net, member));
        (0..count).for_each(|member| cluster.until_well(net, member));
        Some(cluster)
    }

    fn begin(&mut self, net: &Net, member: usize) {
        let all = (0..self.members.len()).map(|n| format!("m{n}=http://198.18.1.2:{}", ports(n).1));
        let all = all.collect::<Vec<_>>().join(",");
        let ((client, peer), directory) = (ports(member), &self.directory);
        let line = format!(
            "etcd --name m{member} --log-level error --data-dir {directory}/m{member} \
             --listen-client-urls http://198.18.1.2:{client} \
             --advertise-client-urls http://198.18.1.2:{client} \
             --listen-peer-urls http://198.18.1.2:{peer} \
             --initial-advertise-peer-urls http://198.18.1.2:{peer} --initial-cluster {all}"
        );
        self.members[member] = Some(net.spawn_reading(&net.b, &line));
    }

    fn until_well(&self, net: &Net, member: usize) {
        let url = format!("http://198.18.1.2:{}/health", ports(member).0);
        let asks = format!("curl -sf --max-time 2 {url}");
        net.until_within(60, "the member is well", |net| net.run(&net.b, &asks).0);
    }

    /// Kills a member by SIGKILL.
    fn kill(&mut self, member: usize) {
        self.members[member].take().unwrap().stop();
    }

    /// The member that leads, as one that answers says.
    fn leader(&self, net: &Net) -> usize {
        let status = |member: usize| {
            let url = format!("http://198.18.1.2:{}/v3/maintenance/status", ports(member).0);
            let said = net.ok(&net.b, &format!("curl -sf --max-time 2 -d '{{}}' {url}"));
            let part = |word: &str| {
                let rest = said.split_once(&format!("\"{word}\":\"")).unwrap().1;
                rest.split('"').next().unwrap().to_owned()
            };
            (part("member_id"), part("leader"))
        };
        let mut there = (0..self.members.len()).filter(|n| self.members[*n].is_some());
        let leads = |member: &usize| {
            let (id, leader) = status(*member);
            id == leader
        };
        there.find(leads).expect("one leads")
    }

    /// The store, as R and B reach it.
    fn address(&self) -> String {
        let hosts = (0..self.members.len()).map(|n| format!("198.18.1.2:{}", ports(n).0));
        format!("etcd://{}/fleet", hosts.collect::<Vec<_>>().join(","))
    }
}

/// A node on a cluster, with the first publication in force.
fn begun(count: usize) -> Option<(Net, Cluster, Fleet, Marked)> {
    let mut net = Net::new()?;
    net.up("r0 r1");
    let cluster = Cluster::start(&net, count)?;
    net.down();
    let fleet = Fleet::new(&net, &cluster.address(), &net.b);
    net.up(&format!("r0 r1 {}", fleet.agent("confirm=20")));
    let marked = Marked::default();
    marked.publish(&net, &fleet, 1, "");
    fleet.until_generation(&net, 1);
    Some((net, cluster, fleet, marked))
}

/// Drops what B gets from R for etcd, or what it gets for some ports on its own.
fn cut(net: &Net, what: &str) {
    net.ok(
        &net.b,
        &format!(
            "nft 'table inet cut {{ chain input {{ type filter hook input priority 0; {what} drop; }}; }}'"
        ),
    );
}

fn heal(net: &Net) {
    net.ok(&net.b, "nft delete table inet cut");
}

#[test]
fn the_only_member_is_killed_and_the_network_is_cut() {
    let Some((net, mut cluster, fleet, marked)) = begun(1) else { return };
    marked.all_along(&net, || {
        cluster.kill(0);
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(marked.look(&net), Some(1));
        cluster.begin(&net, 0);
        cluster.until_well(&net, 0);
        marked.publish(&net, &fleet, 2, "");
        marked.until(&net, 2);

        // What is published meanwhile comes when the network does.
        cut(&net, "iifname b0 tcp dport 2379");
        marked.publish(&net, &fleet, 3, "");
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(marked.look(&net), Some(2));
        heal(&net);
        marked.until(&net, 3);
    });
    fleet.until_generation(&net, 3);
}

#[test]
fn sets_are_put_right_by_an_agent_that_has_just_begun() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let Some(cluster) = Cluster::start(&net, 1) else { return };
    let fleet = Fleet::new(&net, &cluster.address(), &net.b);
    let Fleet { directory, store, .. } = &fleet;
    let line = format!(
        "exec $PENSTOCK agent --source {store} --key {directory}/key.pub --node r \
         --state {directory}/agent --compare 1 --confirm 4 2>> {directory}/agent.log"
    );
    let marked = Marked::default();
    let mut running = net.spawn_reading(&net.r, &line);
    marked.publish(&net, &fleet, 1, "");
    fleet.until_generation(&net, 1);
    for number in 2..8 {
        marked.publish(&net, &fleet, number, "");
        std::thread::sleep(Duration::from_millis(number * 41 % 150));
        running.stop();
        running = net.spawn_reading(&net.r, &line);
        // It is refused where the change of the agent before still waits.
        net.run(&net.r, "$PENSTOCK nft flush set inet fw blocked");
        fleet.until_generation(&net, number);
        net.ok(&net.r, "$PENSTOCK nft flush set inet fw blocked");
        let element = format!("198.19.0.{number}");
        net.until_within(60, "the set is put right", |net| {
            net.ok(&net.r, "$PENSTOCK nft list set inet fw blocked").contains(&element)
        });
    }
    running.end();
}

#[test]
#[ignore = "takes minutes: make fleet"]
fn members_of_three_are_killed_in_turn() {
    let Some((net, mut cluster, fleet, marked)) = begun(3) else { return };
    let mut number = 1;
    let publish = |number: &mut u64| {
        *number += 1;
        marked.publish(&net, &fleet, *number, "");
        marked.until(&net, *number);
    };
    marked.all_along(&net, || {
        for member in 0..3 {
            cluster.kill(member);
            publish(&mut number);
            cluster.begin(&net, member);
            cluster.until_well(&net, member);
            publish(&mut number);
        }
        for _ in 0..3 {
            let leader = cluster.leader(&net);
            cluster.kill(leader);
            publish(&mut number);
            cluster.begin(&net, leader);
            cluster.until_well(&net, leader);
        }
        // One of three publishes nothing, and the node goes on.
        cluster.kill(0);
        cluster.kill(1);
        let file = fleet.file("main.nft", "flush ruleset\n");
        let (ok, said) = net.run(&net.b, &fleet.command(&format!("publish --no-sets {file}")));
        assert!(!ok && said.contains("the store is away"), "{said}");
        assert_eq!(marked.look(&net), Some(number));
        cluster.begin(&net, 0);
        cluster.until_well(&net, 0);
        publish(&mut number);
        cluster.begin(&net, 1);
        cluster.until_well(&net, 1);
    });
    fleet.until_generation(&net, number);
}

#[test]
#[ignore = "takes minutes: make fleet"]
fn member_that_is_cut_off_says_nothing_old() {
    let Some((net, cluster, fleet, marked)) = begun(3) else { return };
    marked.all_along(&net, || {
        // The node's watch is on a member that the others do not hear of any more.
        for member in 0..3 {
            let (_, peer) = ports(member);
            cut(&net, &format!("meta l4proto tcp tcp dport {peer}"));
            let others: Vec<String> = (0..3)
                .filter(|other| *other != member)
                .map(|other| format!("198.18.1.2:{}", ports(other).0))
                .collect();
            // It takes connections of its own as well.
            let own = format!("tcp sport {peer}");
            net.ok(&net.b, &format!("nft add rule inet cut input {own} drop"));
            let number = 2 + member as u64;
            let reached = Fleet::over(&fleet, &format!("etcd://{}/fleet", others.join(",")));
            net.until_within(60, "the others have a leader", |net| {
                let asks = reached.command("status");
                net.run(&net.b, &asks).1.contains("generation")
            });
            marked.publish(&net, &reached, number, "");
            marked.until(&net, number);
            heal(&net);
            cluster.until_well(&net, member);
        }
    });
    fleet.until_generation(&net, 4);
}
