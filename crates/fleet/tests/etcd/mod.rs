// SPDX-License-Identifier: Apache-2.0

//! Clusters of etcd on the loopback device.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_fleet::open;
use penstock_fleet::store::Access;

use crate::Folder;

/// Members that end with the test.
pub struct Cluster {
    ports: Vec<(u16, u16)>,
    members: Vec<Option<Child>>,
    folder: Folder,
}

impl Cluster {
    /// Starts members and waits until they answer; `None`, with a message, without the program.
    pub fn start(count: usize) -> Option<Cluster> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no etcd (Debian package etcd-server)");
            return None;
        }
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("bound").port()
        };
        let ports = (0..count).map(|_| (free(), free())).collect();
        let folder = Folder::new(&format!("etcd{count}"));
        let mut cluster = Cluster { ports, members: Vec::new(), folder };
        for number in 0..count {
            let member = cluster.member(number, "new");
            cluster.members.push(Some(member));
        }
        cluster.wait();
        Some(cluster)
    }

    fn member(&self, number: usize, state: &str) -> Child {
        let (client, peer) = self.ports[number];
        let all: Vec<String> = (0..self.ports.len())
            .map(|n| format!("m{n}=http://127.0.0.1:{}", self.ports[n].1))
            .collect();
        let client = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        Command::new("etcd")
            .args(["--name", &format!("m{number}"), "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.folder.0.join(format!("m{number}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(","), "--initial-cluster-state", state])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts")
    }

    fn wait(&self) {
        let store = open(&self.address("wait"), &Access::default()).expect("an address");
        let begin = Instant::now();
        while store.head().is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "etcd does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The address of a store with a prefix.
    pub fn address(&self, prefix: &str) -> String {
        let members = self.ports.iter().map(|(client, _)| format!("127.0.0.1:{client}"));
        format!("etcd://{}/{prefix}", members.collect::<Vec<_>>().join(","))
    }

    /// Kills a member.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut member) = self.members[number].take() {
            member.kill().expect("it runs");
            member.wait().expect("it ends");
        }
    }

    /// Starts a member again.
    pub fn again(&mut self, number: usize) {
        self.members[number] = Some(self.member(number, "existing"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
        }
    }
}
