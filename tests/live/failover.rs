// SPDX-License-Identifier: Apache-2.0

//! A pair of firewalls, R and P: R runs the dataplane, P a kernel with conntrackd, or a dataplane,
//! too. A and B have a wire to each, and addresses at one of the two. R and P have a wire of their
//! own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::net::{Net, Reading, sh};

/// How R and P reach each other.
#[derive(Clone, Copy, Debug)]
enum Link {
    Unicast4,
    Unicast6,
    Multicast4,
    Multicast6,
}

/// What the second firewall runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Conntrackd,
    Penstock,
}

struct Pair {
    net: Net,
    /// The namespace of the second firewall.
    p: String,
    peer: Peer,
    /// What it runs.
    running: Option<Reading>,
    /// Programs that run until the end.
    programs: Vec<Reading>,
}

/// The file of one side.
fn config(mode: &str, link: Link, own: u8, directory: &Path) -> String {
    let other = 3 - own;
    let (device, second) = if own == 1 { ("rs", "rt") } else { ("ps", "pt") };
    let mode = mode
        .replace("OWN", &own.to_string())
        .replace("PEER", &other.to_string())
        .replace("SECOND", second);
    let link = match link {
        Link::Unicast4 => format!(
            "UDP {{\nIPv4_address 198.19.0.{own}\nIPv4_Destination_Address 198.19.0.{other}\nPort 3780\n"
        ),
        Link::Unicast6 => format!(
            "UDP {{\nIPv6_address 2001:db8:9::{own}\nIPv6_Destination_Address 2001:db8:9::{other}\nPort 3780\n"
        ),
        Link::Multicast4 => format!(
            "Multicast {{\nIPv4_address 225.0.0.50\nGroup 3780\nIPv4_interface 198.19.0.{own}\n"
        ),
        Link::Multicast6 => "Multicast {\nIPv6_address ff12::50\nGroup 3780\n".to_owned(),
    };
    let (lock, socket) = (directory.join("lock"), directory.join("ctl"));
    format!(
        "Sync {{
	Mode {mode}
	{link}
		Interface {device}
		SndSocketBuffer 1249280
		RcvSocketBuffer 1249280
		Checksum on
	}}
}}
General {{
	HashSize 32768
	HashLimit 131072
	LogFile on
	LockFile {}
	UNIX {{
		Path {}
	}}
	NetlinkBufferSize 2097152
	NetlinkBufferSizeMaxGrowth 8388608
	Filter From Userspace {{
		Address Ignore {{
			IPv4_address 127.0.0.1
			IPv4_address 198.19.0.0/16
			IPv6_address 2001:db8:9::/64
			IPv6_address fe80::/10
			IPv6_address ff00::/8
		}}
	}}
}}
",
        lock.display(),
        socket.display()
    )
}

/// Rules of both: addresses and marks change.
fn rules(prefix: char) -> String {
    format!(
        "table ip nat {{
	chain pre {{
		type nat hook prerouting priority dstnat; policy accept;
		ip daddr 198.18.0.1 tcp dport 8080 dnat to 198.18.1.2:80
	}}
	chain post {{
		type nat hook postrouting priority srcnat; policy accept;
		oifname \"{prefix}1\" tcp dport {{ 21, 80 }} snat to 198.18.1.1:20000-29999
		oifname \"{prefix}1\" icmp type echo-request snat to 198.18.1.1
	}}
}}
table inet filter {{
	ct helper ftp {{
		type \"ftp\" protocol tcp
	}}
	chain help {{
		type filter hook prerouting priority filter; policy accept;
		tcp dport 21 ct helper set \"ftp\"
	}}
	# Until connections are taken over, the host would reset what it does not know.
	chain input {{
		type filter hook input priority filter; policy accept;
		tcp dport 20000-29999 drop
	}}
	chain forward {{
		type filter hook forward priority filter; policy accept;
		ct mark set 7
		ct state invalid drop
		ip protocol tcp ct state new tcp flags & (fin | syn | rst | ack) != syn drop
	}}
}}
"
    )
}

/// Answers datagrams and streams.
const SERVER: &str = r#"
import socket, threading
def datagrams(family, address):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind((address, 5000))
    while True:
        data, peer = sock.recvfrom(9000)
        sock.sendto(data, peer)
def stream(sock):
    while data := sock.recv(65536):
        sock.sendall(data)
for family, address in [(socket.AF_INET, "198.18.1.2"), (socket.AF_INET6, "2001:db8:1::2")]:
    threading.Thread(target=datagrams, args=(family, address)).start()
listen = socket.create_server(("198.18.1.2", 80))
while True:
    threading.Thread(target=stream, args=(listen.accept()[0],)).start()
"#;

/// Greets, and connects to no port that it hears of.
const FTP_SERVER: &str = r#"
import socket
listen = socket.create_server(("198.18.1.2", 21))
keep = []
while True:
    control, _ = listen.accept()
    control.sendall(b"220 hello\r\n")
    keep.append(control)
"#;

/// Says where it listens.
const FTP_CLIENT: &str = r#"
import socket, time
control = socket.create_connection(("198.18.1.2", 21), 5)
control.recv(99)
# The helper begins to read at the end of a line that it has seen.
control.sendall(b"USER x\r\n")
time.sleep(0.3)
control.sendall(b"PORT 198,18,0,2,4,5\r\n")
time.sleep(0.3)
print("done", flush=True)
time.sleep(1000)
"#;

/// One connection of each kind, which stay until the end.
const CLIENT: &str = r#"
import socket, sys, time
keep = []
for family, address in [(socket.AF_INET, "198.18.1.2"), (socket.AF_INET6, "2001:db8:1::2")]:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.settimeout(5)
    sock.sendto(b"x", (address, 5000))
    sock.recv(9)
    keep.append(sock)
for address in [("198.18.1.2", 80), ("198.18.0.1", 8080)]:
    sock = socket.create_connection(address, 5)
    sock.sendall(b"x")
    sock.recv(9)
    keep.append(sock)
print("done", flush=True)
time.sleep(1000)
"#;

/// Sends numbers and waits for each, until a file is there. Says how many came back.
const STREAM: &str = r#"
import os, socket, sys, time
sock = socket.create_connection(("198.18.1.2", 80), 10)
sock.settimeout(60)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
count = 0
while not os.path.exists(sys.argv[1]):
    sent = count.to_bytes(8, "big") * 100
    sock.sendall(sent)
    got = b""
    while len(got) < len(sent):
        data = sock.recv(65536)
        assert data, "it has ended"
        got += data
    assert got == sent
    count += 1
    open(sys.argv[2], "w").write(str(count))
    time.sleep(0.01)
print("answered", count)
"#;

impl Pair {
    /// Both run, and R has the addresses. `None` where something is missing.
    fn new(peer: Peer, mode: &str, link: Link, workers: u32) -> Option<Pair> {
        let mut net = Net::new()?;
        let needed = ["conntrackd", "conntrack", "python3", "nft"];
        if !needed.iter().all(|program| net.has(program)) {
            return None;
        }
        let p = net.another();
        let (a, b, r) = (&net.a, &net.b, &net.r);
        sh(&format!(
            "set -e
             ip -n {a} link add a1 type veth peer name p0 netns {p}
             ip -n {b} link add b1 type veth peer name p1 netns {p}
             ip -n {r} link add rs type veth peer name ps netns {p}
             for l in '{a} a1' '{b} b1' '{p} p0' '{p} p1' '{p} ps' '{r} rs'; do set -- $l; ip -n $1 link set $2 up; done
             ip -n {r} link add rt type veth peer name pt netns {p}
             for l in '{p} pt' '{r} rt'; do set -- $l; ip -n $1 link set $2 up; done
             ip -n {r} addr add 198.19.1.1/24 dev rt; ip -n {p} addr add 198.19.1.2/24 dev pt
             ip -n {r} addr add 198.19.0.1/24 dev rs; ip -n {p} addr add 198.19.0.2/24 dev ps
             ip -n {r} addr add 2001:db8:9::1/64 dev rs nodad; ip -n {p} addr add 2001:db8:9::2/64 dev ps nodad"
        ));
        net.ok(&p, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        for (name, text) in [("server.py", SERVER), ("client.py", CLIENT), ("stream.py", STREAM)] {
            std::fs::write(net.directory.join(name), text).unwrap();
        }
        net.spawn_in('b', &format!("python3 {}", net.directory.join("server.py").display()));
        net.until("the servers are there", |net| {
            net.run(&net.b, "test $(ss -lnu | grep -c :5000) = 2 && ss -lnt | grep -q :80").0
        });
        for (own, name) in [(1, "r.conf"), (2, "p.conf")] {
            let text = config(mode, link, own, &net.directory);
            std::fs::write(net.directory.join(name), text).unwrap();
        }
        let sync = net.directory.join("r.conf");
        net.up(&format!("r0 r1 --workers {workers} --sync {}", sync.display()));
        net.nft(&rules('r'));
        let mut pair = Pair { net, p, peer, running: None, programs: Vec::new() };
        let file = pair.path("p.nft");
        std::fs::write(&file, rules('p')).unwrap();
        pair.begin_peer();
        match peer {
            Peer::Conntrackd => pair.net.ok(&pair.p, &format!("nft -f {}", file.display())),
            Peer::Penstock => pair.net.ok(&pair.p, &format!("$PENSTOCK nft -f {}", file.display())),
        };
        Some(pair)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.net.directory.join(name)
    }

    fn begin_peer(&mut self) {
        let config = self.path("p.conf");
        let line = match self.peer {
            Peer::Conntrackd => format!("conntrackd -C {}", config.display()),
            Peer::Penstock => {
                format!("$PENSTOCK up p0 p1 --seccomp kill --sync {}", config.display())
            }
        };
        self.running = Some(self.net.spawn_in_file(&self.p, &line, &self.path("p.log")));
        self.net.until_within(30, "the peer runs", |net| match self.peer {
            Peer::Conntrackd => net.run(&self.p, &self.conntrackd("-s")).0,
            Peer::Penstock => net.run(&self.p, "$PENSTOCK show").0,
        });
    }

    /// A call of conntrackd.
    fn conntrackd(&self, option: &str) -> String {
        format!("conntrackd -C {} {option}", self.path("p.conf").display())
    }

    /// Connections of a firewall, sorted, without what differs by the time.
    fn connections(&self, of_r: bool) -> Vec<String> {
        let (namespace, exec) = match (of_r, self.peer) {
            (true, _) => (&self.net.r, "$PENSTOCK exec -- "),
            (false, Peer::Penstock) => (&self.p, "$PENSTOCK exec -- "),
            (false, Peer::Conntrackd) => (&self.p, ""),
        };
        let mut all = Vec::new();
        for family in ["ipv4", "ipv6"] {
            let said = self.net.ok(namespace, &format!("{exec}conntrack -f {family} -L"));
            let line = |line: &str| {
                let mut words: Vec<_> = line.split_whitespace().collect();
                words.remove(2);
                words.retain(|word| !word.starts_with("use="));
                words.join(" ")
            };
            let own = ["198.19.", "2001:db8:9:", "fe80:", "127.0.0.1", "ff02:"];
            let ours = |line: &&str| !own.iter().any(|network| line.contains(network));
            all.extend(said.lines().filter(ours).map(line));
        }
        all.sort();
        all
    }

    /// How many connections a firewall has of the other one.
    fn cached(&self, of_r: bool) -> usize {
        match (of_r, self.peer) {
            (false, Peer::Conntrackd) => {
                self.net.ok(&self.p, &self.conntrackd("-e")).lines().count()
            }
            _ => {
                let namespace = if of_r { &self.net.r } else { &self.p };
                let status = self.net.ok(namespace, "$PENSTOCK failover status -j");
                let rest = status.split("\"cached\":").nth(1).unwrap();
                rest.split(',').next().unwrap().parse().unwrap()
            }
        }
    }

    /// A firewall takes the connections of the other one over.
    fn becomes_primary(&self, of_r: bool) {
        match (of_r, self.peer) {
            (false, Peer::Conntrackd) => {
                for option in ["-c", "-f", "-R", "-B"] {
                    self.net.ok(&self.p, &self.conntrackd(option));
                }
            }
            _ => {
                let namespace = if of_r { &self.net.r } else { &self.p };
                let said = self.net.ok(namespace, "$PENSTOCK failover primary");
                assert!(said.contains("taken over") && !said.contains("could not"), "{said}");
            }
        }
    }

    /// A and B have a connection of each kind.
    fn traffic(&mut self) {
        let file = self.path("client.log");
        let line = format!("python3 {}", self.path("client.py").display());
        let client = self.net.spawn_in_file(&self.net.a, &line, &file);
        self.programs.push(client);
        self.net.until("there are connections", |_| {
            std::fs::read_to_string(&file).unwrap_or_default().contains("done")
        });
        self.net.ok(&self.net.a, "ping -c 1 -W 2 198.18.1.2");
    }

    /// Expectations of a firewall, sorted, without their times.
    fn expectations(&self, of_r: bool) -> Vec<String> {
        let (namespace, exec) = match of_r {
            true => (&self.net.r, "$PENSTOCK exec -- "),
            false => (&self.p, ""),
        };
        let said = self.net.ok(namespace, &format!("{exec}conntrack -L expect"));
        let timeless = |line: &str| line.split_once(' ').unwrap().1.to_owned();
        let mut all: Vec<_> = said.lines().map(timeless).collect();
        all.sort();
        all
    }

    /// The addresses of A and B move from the wires to one firewall to those of the other.
    fn move_addresses(&self, to_r: bool) {
        let Pair { net, p, .. } = self;
        let (from, to) = if to_r { (1, 0) } else { (0, 1) };
        for (namespace, letter, subnet) in [(&net.a, 'a', 0), (&net.b, 'b', 1)] {
            net.ok(
                namespace,
                &format!(
                    "ip addr del 198.18.{subnet}.2/24 dev {letter}{from}
                     ip addr add 198.18.{subnet}.2/24 dev {letter}{to}
                     ip route replace default via 198.18.{subnet}.1 dev {letter}{to}"
                ),
            );
        }
        for subnet in 0..2 {
            let (gets, loses) = match to_r {
                true => ((&net.r, 'r'), (p, 'p')),
                false => ((p, 'p'), (&net.r, 'r')),
            };
            let address = format!("198.18.{subnet}.1/24");
            net.ok(loses.0, &format!("ip addr del {address} dev {}{subnet}", loses.1));
            net.ok(gets.0, &format!("ip addr add {address} dev {}{subnet}", gets.1));
        }
    }
}

const MODES: [&str; 3] = ["FTFW { }", "NOTRACK { }", "ALARM {\nRefreshTime 1\nCacheTimeout 9\n}"];

/// Both have the same connections after one of them took them over.
fn same_on_both(pair: &Pair, of_r: bool) {
    let expected = pair.connections(!of_r);
    let enough = expected.len() >= 5 && expected.iter().any(|line| line.contains("198.18.1.1"));
    assert!(enough, "{expected:#?}");
    pair.net.until("all connections are told", |_| pair.cached(of_r) >= expected.len());
    pair.becomes_primary(of_r);
    assert_eq!(pair.connections(of_r), expected);
}

#[test]
fn connections_reach_conntrackd_in_all_modes() {
    let links = [Link::Unicast4, Link::Multicast6, Link::Multicast4];
    for (mode, link) in MODES.into_iter().zip(links) {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, link, 1) else { return };
        pair.traffic();
        same_on_both(&pair, false);
    }
}

#[test]
fn connections_of_conntrackd_are_taken_over_in_all_modes() {
    let links = [Link::Multicast4, Link::Unicast6, Link::Unicast4];
    for (mode, link) in MODES.into_iter().zip(links) {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, link, 2) else { return };
        pair.net.ok(
            &pair.net.b,
            "ip addr del 2001:db8:1::2/64 dev b0; ip addr add 2001:db8:1::2/64 dev b1 nodad",
        );
        pair.net.ok(
            &pair.net.a,
            "ip addr del 2001:db8::2/64 dev a0; ip addr add 2001:db8::2/64 dev a1 nodad",
        );
        pair.move_addresses(false);
        for (subnet, namespace, letter) in [("0", &pair.net.a, 'a'), ("1", &pair.net.b, 'b')] {
            pair.net
                .ok(&pair.p, &format!("ip addr add 2001:db8:{subnet}::1/64 dev p{subnet} nodad"));
            pair.net.ok(
                namespace,
                &format!("ip route replace default via 2001:db8:{subnet}::1 dev {letter}1"),
            );
        }
        pair.traffic();
        same_on_both(&pair, true);
    }
}

#[test]
fn all_connections_are_sent_when_the_peer_asks_for_them() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let Some(mut pair) = Pair::new(peer, MODES[0], Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        // It begins anew, and knows nothing.
        pair.running.take().unwrap().end();
        pair.begin_peer();
        assert_eq!(pair.cached(false), 0);
        match peer {
            Peer::Conntrackd => pair.net.ok(&pair.p, &pair.conntrackd("-n")),
            Peer::Penstock => pair.net.ok(&pair.p, "$PENSTOCK failover backup"),
        };
        pair.net.until("all connections are told again", |_| pair.cached(false) >= count);
    }
}

#[test]
fn what_the_wire_loses_is_sent_again() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let Some(mut pair) = Pair::new(peer, MODES[0], Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        // Both know that the other one has begun.
        std::thread::sleep(Duration::from_secs(3));
        pair.net.ok(
            &pair.p,
            "nft 'add table inet lose; add chain inet lose in { type filter hook input priority -300; };
                  add rule inet lose in udp dport 3780 drop'",
        );
        pair.traffic();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(pair.cached(false), count);
        pair.net.ok(&pair.p, "nft delete table inet lose");
        let count = pair.connections(true).len();
        pair.net.until("what was lost is told", |_| pair.cached(false) >= count);
        if peer == Peer::Penstock {
            let status = pair.net.ok(&pair.p, "$PENSTOCK failover status");
            assert!(!status.contains(" 0 lost"), "{status}");
        }
        same_on_both(&pair, false);
    }
}

/// Connections as conntrack(8) enters them.
const ENTERED: [&str; 12] = [
    "-p tcp -s 198.18.0.2 -d 198.18.1.2 --sport 1000 --dport 80 --state ESTABLISHED -t 300 -m 7 \
     --src-nat 198.18.5.5:4444 -u ASSURED,SEEN_REPLY",
    "-p tcp -s 198.18.0.2 -d 198.18.1.2 --sport 1001 --dport 80 --state TIME_WAIT -t 300 \
     --dst-nat 198.18.5.6:99 -u SEEN_REPLY",
    "-p tcp -s 198.18.0.3 -d 198.18.1.2 --sport 1002 --dport 80 --state SYN_SENT -t 300 \
     --src-nat 198.18.5.5 --dst-nat 198.18.5.7",
    "-p udp -s 198.18.0.3 -d 198.18.1.2 --sport 1003 --dport 53 -t 300 -m 4294967295",
    "-p udp -s 198.18.0.3 -d 198.18.1.2 --sport 1003 --dport 53 -t 300 -w 5",
    "-p udp -s 2001:db8::1 -d 2001:db8::2 --sport 1000 --dport 80 -t 300 --dst-nat 2001:db8::9",
    "-p tcp -s 2001:db8::1 -d 2001:db8::2 --sport 1001 --dport 80 --state ESTABLISHED -t 300 \
     --src-nat 2001:db8::8",
    "-p sctp -s 198.18.0.2 -d 198.18.1.2 --sport 5 --dport 6 -t 300 --state ESTABLISHED \
     --orig-vtag 1 --reply-vtag 2",
    "-p icmp -s 198.18.0.2 -d 198.18.1.2 --icmp-type 8 --icmp-code 0 --icmp-id 77 -t 300",
    "-p icmpv6 -s 2001:db8::1 -d 2001:db8::2 --icmpv6-type 128 --icmpv6-code 0 --icmpv6-id 78 -t 300",
    "-p 99 -s 198.18.0.3 -d 198.18.1.2 -t 300",
    "-p gre -s 198.18.0.3 -d 198.18.1.2 --srckey 0 --dstkey 0 -t 300",
];

#[test]
fn all_fields_are_taken_over() {
    for tracking in ["On", "Off"] {
        for of_r in [false, true] {
            let mode = format!("FTFW {{\n}}\nOptions {{\nTCPWindowTracking {tracking}\n}}");
            let Some(pair) = Pair::new(Peer::Conntrackd, &mode, Link::Unicast6, 2) else { return };
            let (namespace, exec) = match of_r {
                true => (&pair.p, ""),
                false => (&pair.net.r, "$PENSTOCK exec -- "),
            };
            for entered in ENTERED {
                pair.net.ok(namespace, &format!("{exec}conntrack -I {entered}"));
            }
            let expected = pair.connections(!of_r);
            assert_eq!(expected.len(), ENTERED.len(), "{expected:#?}");
            pair.net.until("all is told", |_| pair.cached(of_r) >= expected.len());
            pair.becomes_primary(of_r);
            assert_eq!(pair.connections(of_r), expected);
        }
    }
}

#[test]
fn another_link_is_used_when_one_is_down() {
    for peer in [Peer::Conntrackd, Peer::Penstock] {
        let mode = "FTFW {\n}\nUDP {\nIPv4_address 198.19.1.OWN\nIPv4_Destination_Address 198.19.1.PEER\n\
            Port 3781\nInterface SECOND\n}";
        let Some(mut pair) = Pair::new(peer, mode, Link::Unicast4, 1) else { return };
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
        let active = || {
            let status = pair.net.ok(&pair.net.r, "$PENSTOCK failover status");
            let line = status.lines().find(|line| line.contains(", active;")).unwrap();
            line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned()
        };
        // conntrackd begins with the first one that its file has.
        let used = active();
        let other = if used == "rs" { "rt" } else { "rs" };
        pair.net.ok(&pair.net.r, &format!("ip link set {used} down"));
        pair.net.until("the other one is used", |_| active() == other);
        pair.traffic();
        let count = pair.connections(true).len();
        pair.net.until("all connections are told", |_| pair.cached(false) >= count);
    }
}

#[test]
fn expectations_are_taken_over_with_their_masters() {
    let mode = "FTFW {\n}\nOptions {\nExpectationSync On\n}";
    for of_r in [false, true] {
        let Some(mut pair) = Pair::new(Peer::Conntrackd, mode, Link::Unicast4, 1) else { return };
        if of_r {
            pair.move_addresses(false);
        }
        for (name, text) in [("ftp-server.py", FTP_SERVER), ("ftp-client.py", FTP_CLIENT)] {
            std::fs::write(pair.path(name), text).unwrap();
        }
        let server = format!("python3 {}", pair.path("ftp-server.py").display());
        pair.net.spawn_in('b', &server);
        pair.net.until("it listens", |net| net.run(&net.b, "ss -lnt | grep -q :21").0);
        let file = pair.path("ftp.log");
        let line = format!("python3 {}", pair.path("ftp-client.py").display());
        let client = pair.net.spawn_in_file(&pair.net.a, &line, &file);
        pair.programs.push(client);
        pair.net.until("something is expected", |_| {
            std::fs::read_to_string(&file).unwrap_or_default().contains("done")
        });
        let (expected, connections) = (pair.expectations(!of_r), pair.connections(!of_r));
        assert_eq!(expected.len(), 1, "{expected:#?}");
        assert!(connections.iter().any(|line| line.contains("helper=ftp")), "{connections:#?}");
        pair.net.until("all is told", |_| pair.cached(of_r) >= connections.len());
        std::thread::sleep(Duration::from_millis(500));
        pair.becomes_primary(of_r);
        assert_eq!(pair.connections(of_r), connections);
        assert_eq!(pair.expectations(of_r), expected, "{of_r}");
    }
}

/// Windows of connections that are taken over are checked.
const WINDOWS: &str = "FTFW {\n}\nOptions {\nTCPWindowTracking On\n}";

/// A translated stream goes on through the other firewall, and back.
fn a_stream_survives(peer: Peer, mode: &str, workers: u32) {
    let Some(mut pair) = Pair::new(peer, mode, Link::Unicast4, workers) else { return };
    let (stop, count) = (pair.path("stop"), pair.path("count"));
    let line = format!(
        "python3 {} {} {} 2>&1",
        pair.path("stream.py").display(),
        stop.display(),
        count.display()
    );
    let stream = pair.net.spawn_in_file(&pair.net.a, &line, &pair.path("stream.log"));
    pair.programs.push(stream);
    let counted = || {
        let text = std::fs::read_to_string(&count).unwrap_or_default();
        text.parse::<u64>().unwrap_or_default()
    };
    let goes_on = |pair: &Pair, what: &str| {
        let before = counted();
        let log = || std::fs::read_to_string(pair.path("stream.log")).unwrap_or_default();
        pair.net.until_within(30, what, |_| {
            assert_eq!(log(), "", "{what}");
            counted() > before + 20
        });
    };
    goes_on(&pair, "the stream begins");
    // What is entered at once is not kept.
    let is_told =
        |pair: &Pair, of_r: bool| pair.cached(of_r) > 0 || mode.contains("DisableExternalCache");
    pair.net.until("it is told", |_| is_told(&pair, false));
    pair.move_addresses(false);
    pair.becomes_primary(false);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover backup");
    goes_on(&pair, "the stream goes on through the peer");
    pair.net.until("it is told back", |_| is_told(&pair, true));
    pair.move_addresses(true);
    pair.becomes_primary(true);
    goes_on(&pair, "the stream is back");
    let connections = pair.connections(true);
    let translated = |line: &String| line.contains("dport=80") && line.contains("dst=198.18.1.1");
    assert!(connections.iter().any(translated), "{connections:#?}");
    std::fs::write(&stop, "").unwrap();
    let said = pair.programs.pop().unwrap().wait();
    let log = std::fs::read_to_string(pair.path("stream.log")).unwrap();
    assert!(log.contains("answered"), "{said}{log}");
}

#[test]
fn a_translated_stream_survives_a_switch_to_a_kernel_with_conntrackd_and_back() {
    a_stream_survives(Peer::Conntrackd, MODES[0], 1);
    a_stream_survives(Peer::Conntrackd, WINDOWS, 2);
}

#[test]
fn a_translated_stream_survives_a_switch_to_another_dataplane_and_back() {
    a_stream_survives(Peer::Penstock, MODES[0], 2);
    a_stream_survives(Peer::Penstock, WINDOWS, 1);
    a_stream_survives(Peer::Penstock, "NOTRACK {\nDisableExternalCache On\n}", 2);
}

#[test]
fn connections_of_a_backup_end_unless_it_becomes_primary_before() {
    let mode = "FTFW {\nPurgeTimeout 2\n}";
    let Some(mut pair) = Pair::new(Peer::Penstock, mode, Link::Unicast4, 2) else { return };
    pair.traffic();
    let before = pair.connections(true);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover fault");
    assert!(pair.net.ok(&pair.net.r, "$PENSTOCK show").contains("all own connections end in"));
    pair.net.ok(&pair.net.r, "$PENSTOCK failover primary");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(pair.connections(true), before);
    pair.net.ok(&pair.net.r, "$PENSTOCK failover fault");
    pair.net.until("connections end", |_| pair.connections(true).is_empty());
    // The peer keeps them: it is not told.
    assert!(pair.cached(false) >= before.len());
}

#[test]
fn a_dataplane_without_a_peer_says_so() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    for word in ["primary", "status"] {
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK failover {word}"));
        assert!(!ok && said.contains("without --sync"), "{said}");
    }
    net.down();
    let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 --sync /nowhere");
    assert!(!ok && said.contains("--sync: /nowhere: No such file"), "{said}");
    let file = net.directory.join("x.conf");
    std::fs::write(&file, config("FTFW { }", Link::Unicast4, 1, &net.directory)).unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 --sync {}", file.display()));
    assert!(!ok && said.contains("sync: the link on rs: No such device"), "{said}");
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0=rs --sync {}", file.display()));
    assert!(!ok && said.contains("--sync: rs is a port; a link has its own device"), "{said}");
    assert!(net.run(&net.a, "ping -c 1 -W 2 198.18.1.2").0);
}
