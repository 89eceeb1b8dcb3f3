// SPDX-License-Identifier: Apache-2.0

//! A ruleset that is published in a store, and nodes that follow it.

mod cluster;
mod faults;
mod follow;
mod many;
mod sets;
mod watch;

use std::path::Path;

use crate::net::{Net, Reading};

/// A set that is published as data.
const SETS: &str = "table inet fw {
	set blocked {
		type ipv4_addr
		flags interval
	}
}
";

/// A router's rules; `own` is what passes the host's own hooks.
fn rules(forward: &str, own: &str) -> String {
    format!(
        "flush ruleset
include \"./sets.nft\"
table inet fw {{
	chain forward {{
		type filter hook forward priority filter; policy accept;
		ip saddr @blocked counter drop
		{forward}
	}}
	chain output {{
		type filter hook output priority filter; policy accept;
		{own}
	}}
}}
"
    )
}

/// Publishes into a store.
struct Fleet {
    directory: String,
    store: String,
    /// The namespace that it is published from.
    space: String,
}

impl Fleet {
    /// With a key and a file of sets, in a store that is there.
    fn new(net: &Net, store: &str, space: &str) -> Fleet {
        let directory = net.directory.display().to_string();
        let fleet = Fleet { directory, store: store.to_owned(), space: space.to_owned() };
        fleet.file("sets.nft", SETS);
        net.ok(space, &format!("$PENSTOCK fleet key {}/key", fleet.directory));
        fleet
    }

    /// The same, over another way to the store.
    fn over(fleet: &Fleet, store: &str) -> Fleet {
        let Fleet { directory, space, .. } = fleet;
        Fleet { directory: directory.clone(), store: store.to_owned(), space: space.clone() }
    }

    /// With a store in a directory.
    fn in_directory(net: &Net) -> Fleet {
        let store = net.directory.join("store");
        std::fs::create_dir_all(&store).unwrap();
        Fleet::new(net, &store.display().to_string(), &net.r)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = Path::new(&self.directory).join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn command(&self, line: &str) -> String {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Fleet { directory, store, .. } = self;
        format!("$PENSTOCK fleet {word} --source {store} --key {directory}/key {rest}")
    }

    /// Runs `penstock fleet`, which must go well. What it said on standard output.
    fn ok(&self, net: &Net, line: &str) -> String {
        net.ok(&self.space, &self.command(line))
    }

    /// Publishes a ruleset, and gives its generation.
    fn publish(&self, net: &Net, options: &str, text: &str) -> u64 {
        let file = self.file("main.nft", text);
        let said = self.ok(net, &format!("publish {options} {file}"));
        said.split([' ', ':']).nth(1).unwrap().parse().unwrap()
    }

    /// What `penstock fleet status` prints.
    fn status(&self, net: &Net) -> String {
        net.run(&self.space, &self.command("status")).1
    }

    /// Waits for what the node tells.
    fn until(&self, net: &Net, what: &str) {
        net.until_within(60, what, |net| self.status(net).contains(what));
    }

    /// Waits until the node has a generation in force.
    fn until_generation(&self, net: &Net, generation: u64) {
        self.until(net, &format!("\nr{generation:>30} "));
    }

    /// Waits for the agent of a dataplane that has ended: it ends, and reports that, a moment later.
    fn until_agent_ended(&self, net: &Net) {
        let agents =
            format!("ps -eo args | grep -c '[p]enstock agent --source={}' || true", self.store);
        net.until("the agent has ended", |net| net.run(&net.r, &agents).1.trim() == "0");
    }

    /// What an agent is started with, as options of `penstock up`.
    fn agent(&self, options: &str) -> String {
        let Fleet { directory, store, .. } = self;
        format!(
            "--source {store} --agent key={directory}/key.pub node=r label=site=a \
             state={directory}/agent confirm=8 {options}"
        )
    }
}

/// Serves a directory on B by a web server that answers after some seconds.
fn slow(net: &Net, directory: &str, seconds: f64) -> Reading {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/fleet/slow.py");
    let server = net.spawn_reading(&net.b, &format!("python3 {script} {directory} {seconds}"));
    net.until("the server listens", |net| net.run(&net.b, "ss -lnt | grep -q :8080").0);
    server
}
