// SPDX-License-Identifier: Apache-2.0

//! Two firewalls between A and B, and the programs of A and B.

use std::path::{Path, PathBuf};

use crate::net::{Net, Reading, sh};

/// How R and P reach each other.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    Unicast4,
    Unicast6,
    Multicast4,
    Multicast6,
}

/// What the second firewall runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Conntrackd,
    Penstock,
}

pub struct Pair {
    pub net: Net,
    /// The namespace of the second firewall.
    pub p: String,
    peer: Peer,
    /// What it runs.
    pub running: Option<Reading>,
    /// Programs that run until the end.
    pub programs: Vec<Reading>,
}

/// The file of one side.
pub fn config(mode: &str, link: Link, own: u8, directory: &Path) -> String {
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
pub const FTP_SERVER: &str = r#"
import socket
listen = socket.create_server(("198.18.1.2", 21))
keep = []
while True:
    control, _ = listen.accept()
    control.sendall(b"220 hello\r\n")
    keep.append(control)
"#;

/// Says where it listens.
pub const FTP_CLIENT: &str = r#"
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

/// The script of a stream, what stops it, where it counts, and what it says.
const STREAM_FILES: [&str; 4] = ["stream.py", "stop", "count", "stream.log"];

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

/// A rule that has packets change a set and a map.
pub const CHANGED: &str = "table ip changed {
	set seen {
		type ipv4_addr
		flags dynamic, timeout
		timeout 1h
	}
	map places {
		type ipv4_addr : inet_service
		flags dynamic
		size 100
	}
	chain see {
		type filter hook forward priority -5; policy accept;
		udp dport 5000 update @seen { ip saddr } update @places { ip daddr : udp sport }
	}
}
";

impl Pair {
    /// Both run, and R has the addresses. `None` where something is missing.
    pub fn new(peer: Peer, mode: &str, link: Link, workers: u32) -> Option<Pair> {
        Self::with(peer, |net, own| config(mode, link, own, &net.directory), workers)
    }

    /// As [`Pair::new`], with files that `config` makes.
    pub fn with(peer: Peer, config: impl Fn(&Net, u8) -> String, workers: u32) -> Option<Pair> {
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
            let text = config(&net, own);
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.net.directory.join(name)
    }

    /// A stream from A to B begins, of which each part is answered.
    pub fn begin_stream(&mut self) {
        let [script, stop, count, log] = STREAM_FILES.map(|name| self.path(name));
        let line =
            format!("python3 {} {} {} 2>&1", script.display(), stop.display(), count.display());
        let stream = self.net.spawn_in_file(&self.net.a, &line, &log);
        self.programs.push(stream);
    }

    /// Waits until more of the stream is answered.
    pub fn stream_goes_on(&self, what: &str) {
        let [_, _, count, log] = STREAM_FILES.map(|name| self.path(name));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let counted = || read(&count).parse().unwrap_or(0_u64);
        let before = counted();
        self.net.until_within(30, what, |_| {
            assert_eq!(read(&log), "", "{what}");
            counted() > before + 20
        });
    }

    /// The stream ends, and has not been cut off before.
    pub fn end_stream(&mut self) {
        let [_, stop, _, log] = STREAM_FILES.map(|name| self.path(name));
        std::fs::write(&stop, "").unwrap();
        let said = self.programs.pop().unwrap().wait();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("answered"), "{said}{log}");
    }

    pub fn begin_peer(&mut self) {
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
    pub fn conntrackd(&self, option: &str) -> String {
        format!("conntrackd -C {} {option}", self.path("p.conf").display())
    }

    /// Connections of a firewall, sorted, without what differs by the time.
    pub fn connections(&self, of_r: bool) -> Vec<String> {
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
    pub fn cached(&self, of_r: bool) -> usize {
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
    pub fn becomes_primary(&self, of_r: bool) {
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
    pub fn traffic(&mut self) {
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
    pub fn expectations(&self, of_r: bool) -> Vec<String> {
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
    pub fn move_addresses(&self, to_r: bool) {
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
