// SPDX-License-Identifier: Apache-2.0

//! The network of the soak: A – R – B by two ports, and C and D on a bridge of R, each behind a
//! port.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::net::{Net, sh};

/// Ports with their drivers, as `penstock up` takes them.
pub const PORTS: &str = "r0 r1 r2 r3 --driver packet --driver r1=xdp-generic --driver r3=xdp";
/// Names of the ports.
pub const NAMES: [&str; 4] = ["r0", "r1", "r2", "r3"];

/// The four neighbours and the router.
pub struct Lab {
    pub net: Net,
    pub c: String,
    pub d: String,
    pub state: PathBuf,
    pub queue: PathBuf,
    /// Whether the kernel has bridges.
    pub bridged: bool,
}

impl Lab {
    /// `None`, and said, without the rights to make it.
    pub fn new() -> Option<Lab> {
        let mut net = Net::new()?;
        let (c, d) = (net.another(), net.another());
        let (state, queue) = (net.directory.join("state"), net.directory.join("queue"));
        let bridged = net.run(&net.r, "ip link add br0 type bridge && ip link set br0 up").0;
        let lab = Lab { net, c, d, state, queue, bridged };
        for (end, n) in [(&lab.c, 2), (&lab.d, 3)] {
            lab.join(end, n);
        }
        let bridge = if lab.bridged { "br0" } else { "r2" };
        lab.net.ok(
            &lab.net.r,
            &format!(
                "ip addr add 198.18.2.1/24 dev {bridge}; ip addr add 2001:db8:2::1/64 dev {bridge} nodad"
            ),
        );
        Some(lab)
    }

    /// Makes the veth between a neighbour on the bridge and the router.
    fn join(&self, end: &str, n: u32) {
        let (r, into) = (&self.net.r, if self.bridged { "master br0" } else { "" });
        sh(&format!(
            "set -e
             ip -n {end} link add e0 address 02:00:00:00:0{n}:00 type veth peer name r{n} netns {r} address 02:00:00:00:00:0{n}
             ip -n {end} addr add 198.18.2.{n}/24 dev e0
             ip -n {end} addr add 2001:db8:2::{n}/64 dev e0 nodad
             ip -n {end} link set e0 up
             ip -n {end} route add default via 198.18.2.1
             ip -n {end} route add default via 2001:db8:2::1
             ip -n {r} link set r{n} up {into}"
        ));
    }

    /// Starts the dataplane, with all that it can keep and tell.
    pub fn up(&mut self) {
        let args = format!(
            "{PORTS} --workers 2 --state {} --metrics 127.0.0.1:9900 --queue 3={} --allow-read{}",
            self.state.display(),
            self.queue.display(),
            settings()
        );
        let more = std::env::var("PENSTOCK_SOAK_ARGS").unwrap_or_default();
        self.net.up(&format!("{args} {more}"));
    }

    /// A line of the shell in the router's namespace; whether it went well, and what it said.
    pub fn in_r(&self, line: &str) -> (bool, String) {
        self.net.run(&self.net.r, line)
    }

    /// Whether something holds within so many seconds.
    pub fn within(&self, seconds: u64, holds: impl Fn(&Lab) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(seconds);
        while !holds(self) {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        true
    }

    /// Removes B's device, with the port's on the other end, and recreates both. The dataplane may
    /// or may not have noticed when this returns.
    pub fn remake_b(&self) {
        let (b, r) = (&self.net.b, &self.net.r);
        self.net.run(b, "ip link del b0");
        std::thread::sleep(Duration::from_millis(300));
        let (made, said) = self.net.run(
            b,
            &format!(
                "set -e
                 ip link add b0 address 02:00:00:00:0b:00 type veth peer name r1.port netns {r} address 02:00:00:00:00:0b
                 ip addr add 198.18.1.2/24 dev b0; ip addr add 2001:db8:1::2/64 dev b0 nodad; ip link set b0 up
                 ip route add default via 198.18.1.1; ip route add default via 2001:db8:1::1"
            ),
        );
        assert!(made, "B's device: {said}");
    }
}

/// A line of the shell that tells how the network of a namespace is set up.
pub const NETWORK: &str =
    "ip -o -d link; ip -o addr; ip route; ip -6 route; ip neigh; tc filter show dev r0 ingress";

/// Timeouts, in seconds, short enough that the table of connections turns over many times.
const TIMEOUTS: [(&str, u32); 15] = [
    ("udp_timeout", 5),
    ("udp_timeout_stream", 10),
    ("icmp_timeout", 5),
    ("icmpv6_timeout", 5),
    ("generic_timeout", 5),
    ("tcp_timeout_syn_sent", 5),
    ("tcp_timeout_syn_recv", 5),
    ("tcp_timeout_established", 20),
    ("tcp_timeout_fin_wait", 5),
    ("tcp_timeout_close_wait", 5),
    ("tcp_timeout_last_ack", 5),
    ("tcp_timeout_time_wait", 5),
    ("tcp_timeout_close", 5),
    ("tcp_timeout_max_retrans", 10),
    ("tcp_timeout_unacknowledged", 10),
];
/// Connections at most.
const CONNECTIONS: u32 = 20_000;

/// Options of `penstock up` that say so.
fn settings() -> String {
    let known = TIMEOUTS.iter().copied().chain([("max", CONNECTIONS)]);
    known
        .map(|(name, value)| format!(" --sysctl net.netfilter.nf_conntrack_{name}={value}"))
        .collect()
}

/// Moves the calling thread into a namespace that `ip netns` has made.
pub fn enter(namespace: &str) {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    // SAFETY: setns takes a descriptor, which is open as long as `file`, and no pointer.
    let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0, "{namespace}: {}", std::io::Error::last_os_error());
}
