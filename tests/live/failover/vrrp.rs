// SPDX-License-Identifier: Apache-2.0

//! Two firewalls beside each other on a LAN and on an outside network, whose addresses keepalived
//! moves. What has the addresses is killed while connections pass it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::pair::{Link, Peer, config};
use super::secure;
use crate::net::{Net, Reading, setting, sh};

/// Sends numbers over one connection and waits for each, until a file is there. Says how many came
/// back, and how long the longest wait was.
const TALK: &str = r#"
import os, socket, sys, time
sock = socket.create_connection(("198.18.1.2", 80), 10)
sock.settimeout(60)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
count, longest = 0, 0
while not os.path.exists(sys.argv[1]):
    began = time.monotonic()
    sent = count.to_bytes(8, "big")
    sock.sendall(sent)
    got = b""
    while len(got) < len(sent):
        data = sock.recv(65536)
        assert data, "it has ended"
        got += data
    assert got == sent
    longest = max(longest, time.monotonic() - began)
    count += 1
    open(sys.argv[2] + ".new", "w").write(f"{count} {longest:.3f}")
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    time.sleep(0.01)
"#;

const ECHO: &str = r#"
import socket, threading
def stream(sock):
    while data := sock.recv(65536):
        sock.sendall(data)
listen = socket.create_server(("198.18.1.2", 80))
while True:
    threading.Thread(target=stream, args=(listen.accept()[0],)).start()
"#;

/// The SSH server of B, for root with one key; files of the user that it looks at are of its own.
const SSHD: &str = r#"
set -e
dir=$1
cd "$dir"
dropbearkey -t ed25519 -f host >host.log 2>&1
dropbearkey -t ed25519 -f own >own.log 2>&1
mount -t tmpfs -o mode=700 none /root
mkdir -m 700 /root/.ssh
grep ^ssh-ed25519 own.log >/root/.ssh/authorized_keys
chmod 600 /root/.ssh/authorized_keys
exec dropbear -F -E -s -m -r host -p 198.18.1.2:22 -P sshd.pid
"#;

/// Sends a number twenty times a second to a shell by SSH, which sends it back, until a file is
/// there. The last line that comes says how the session has ended.
const SSH: &str = r#"
cd "$1"
number=0
while [ ! -e stop ]; do
    echo $number
    number=$((number + 1))
    sleep 0.05
done | HOME="$1" dbclient -y -y -T -i own root@198.18.1.2 'while read -r number; do echo "$number"; done'
echo "ended with $?"
"#;

/// All connections are translated, and neither begin in the middle nor with an invalid packet.
fn rules(prefix: char) -> String {
    format!(
        "table ip nat {{
	chain post {{
		type nat hook postrouting priority srcnat; policy accept;
		oifname \"{prefix}1\" ip protocol tcp snat to 198.18.1.1:20000-29999
	}}
}}
table inet filter {{
	chain input {{
		type filter hook input priority filter; policy accept;
		tcp dport 20000-29999 drop
	}}
	chain forward {{
		type filter hook forward priority filter; policy drop;
		ct state invalid drop
		ct state established accept
		iifname \"{prefix}0\" ip protocol tcp ct state new tcp flags & (fin | syn | rst | ack) == syn accept
	}}
}}
"
    )
}

/// What keepalived of a firewall is told. The time between adverts may be set: other tests share
/// the processors, and late adverts are lost ones.
fn keepalived(prefix: char, priority: u8, commands: [&str; 3]) -> String {
    let interval = setting("PENSTOCK_VRRP_CENTISECONDS", 50) as f64 / 100.0;
    let [primary, backup, fault] = commands;
    format!(
        "global_defs {{
	vrrp_version 3
	script_user root
	vrrp_priority -20
}}
vrrp_instance lan {{
	state BACKUP
	interface {prefix}0
	virtual_router_id 51
	priority {priority}
	advert_int {interval}
	track_interface {{
		{prefix}1
	}}
	virtual_ipaddress {{
		198.18.0.1/24 dev {prefix}0
		198.18.1.1/24 dev {prefix}1
	}}
	notify_master \"{primary}\"
	notify_backup \"{backup}\"
	notify_fault \"{fault}\"
}}
"
    )
}

/// One of the two.
struct Firewall {
    namespace: String,
    /// First letter of its devices.
    prefix: char,
    runs: Peer,
    running: Option<Reading>,
    keepalived: Option<Reading>,
}

/// Both of them, and the networks.
struct Networks {
    net: Net,
    firewalls: [Firewall; 2],
}

impl Networks {
    /// A and B have one wire each to both firewalls. `None` where something is missing.
    fn new(runs: [Peer; 2], config: impl Fn(&Net, u8, &Path) -> String) -> Option<Self> {
        let mut net = Net::new()?;
        let needed =
            ["keepalived", "conntrackd", "conntrack", "python3", "nft", "iperf3", "dropbear"];
        if !needed.iter().all(|program| net.has(program)) {
            return None;
        }
        let (p, s) = (net.another(), net.another());
        let (a, b, r) = (&net.a, &net.b, &net.r);
        sh(&format!("ip -n {a} link del a0; ip -n {b} link del b0"));
        for (bridge, subnet, end, device) in [("lan", 0, a, "a0"), ("out", 1, b, "b0")] {
            sh(&format!(
                "set -e
                 ip -n {s} link add {bridge} type bridge; ip -n {s} link set {bridge} up
                 ip -n {s} link add {device} type veth peer name {device} netns {end}
                 ip -n {s} link add r{subnet} type veth peer name r{subnet} netns {r}
                 ip -n {s} link add p{subnet} type veth peer name p{subnet} netns {p}
                 for d in {device} r{subnet} p{subnet}; do ip -n {s} link set $d master {bridge}; ip -n {s} link set $d up; done
                 ip -n {end} addr add 198.18.{subnet}.2/24 dev {device}
                 ip -n {end} addr add 2001:db8:{subnet}::2/64 dev {device} nodad
                 ip -n {end} link set {device} up
                 ip -n {r} addr add 198.18.{subnet}.251/24 dev r{subnet}
                 ip -n {p} addr add 198.18.{subnet}.252/24 dev p{subnet}
                 ip -n {r} link set r{subnet} up; ip -n {p} link set p{subnet} up"
            ));
        }
        sh(&format!(
            "set -e
             ip -n {a} route add default via 198.18.0.1
             ip -n {r} link add rs type veth peer name ps netns {p}
             ip -n {r} link set rs up; ip -n {p} link set ps up
             ip -n {r} addr add 198.19.0.1/24 dev rs; ip -n {p} addr add 198.19.0.2/24 dev ps"
        ));
        net.ok(&p, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        let firewall = |number: u8, namespace: &str, prefix| Firewall {
            namespace: namespace.to_owned(),
            prefix,
            runs: runs[usize::from(number) - 1],
            running: None,
            keepalived: None,
        };
        let firewalls = [firewall(1, &net.r, 'r'), firewall(2, &p, 'p')];
        let mut networks = Networks { net, firewalls };
        for number in [0, 1] {
            let directory = networks.path(number, "");
            let text = config(&networks.net, number as u8 + 1, &directory);
            networks.begin(number, &text);
        }
        Some(networks)
    }

    fn path(&self, number: usize, name: &str) -> PathBuf {
        let directory = self.net.directory.join(number.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(name)
    }

    /// A firewall begins, without addresses.
    fn begin(&mut self, number: usize, text: &str) {
        let (sync, rules_file, log) =
            (self.path(number, "sync"), self.path(number, "rules"), self.path(number, "log"));
        let Firewall { namespace, prefix, runs, .. } = &self.firewalls[number];
        std::fs::write(&sync, text).unwrap();
        std::fs::write(&rules_file, rules(*prefix)).unwrap();
        let (sync, rules_file) = (sync.display(), rules_file.display());
        let running = match runs {
            Peer::Penstock => {
                let line = format!(
                    "$PENSTOCK up {prefix}0 {prefix}1 --seccomp kill --on-death closed --rules {rules_file} \
                     --sync {sync} 2>&1"
                );
                let running = self.net.spawn_in_file(namespace, &line, &log);
                self.net.until_within(30, "it runs", |net| net.run(namespace, "$PENSTOCK show").0);
                running
            }
            Peer::Conntrackd => {
                self.net.ok(namespace, &format!("nft -f {rules_file}"));
                let line = format!("conntrackd -C {sync}");
                let running = self.net.spawn_in_file(namespace, &line, &log);
                self.net.until("it runs", |net| net.run(namespace, &format!("{line} -s")).0);
                running
            }
        };
        self.firewalls[number].running = Some(running);
    }

    /// keepalived of a firewall begins.
    fn elect(&mut self, number: usize, priority: u8) {
        let script = self.path(number, "script");
        let sync = self.path(number, "sync");
        let Firewall { namespace, prefix, runs, .. } = &self.firewalls[number];
        let sync = sync.display();
        let text = match runs {
            Peer::Penstock => "#!/bin/sh\nexec $PENSTOCK failover $1\n".to_owned(),
            Peer::Conntrackd => format!(
                "#!/bin/sh
                 d='conntrackd -C {sync}'
                 case $1 in
                 primary) $d -c; $d -f; $d -R; $d -B;;
                 backup) $d -t; $d -n;;
                 fault) $d -t;;
                 esac
                "
            ),
        };
        std::fs::write(&script, text).unwrap();
        sh(&format!("chmod 755 {}", script.display()));
        let [primary, backup, fault] = ["primary", "backup", "fault"]
            .map(|word| format!("PENSTOCK={} {} {word}", crate::net::program(), script.display()));
        let [primary, backup, fault] =
            [primary, backup, fault].map(|line| format!("/usr/bin/env {line}"));
        let text = keepalived(*prefix, priority, [&primary, &backup, &fault]);
        let file = self.path(number, "keepalived.conf");
        std::fs::write(&file, text).unwrap();
        let line = format!(
            "keepalived -n -l -D -P -f {} -p {} -r {} 2>&1",
            file.display(),
            self.path(number, "parent.pid").display(),
            self.path(number, "vrrp.pid").display()
        );
        let log = self.path(number, "keepalived.log");
        self.firewalls[number].keepalived = Some(self.net.spawn_in_file(namespace, &line, &log));
    }

    fn has_addresses(&self, number: usize) -> bool {
        let Firewall { namespace, prefix, .. } = &self.firewalls[number];
        self.net.run(namespace, &format!("ip -4 addr show dev {prefix}1 | grep -q 198.18.1.1/24")).0
    }

    /// How many connections a firewall has of the other one.
    fn cached(&self, number: usize) -> usize {
        let Firewall { namespace, runs, .. } = &self.firewalls[number];
        match runs {
            Peer::Conntrackd => {
                let line = format!("conntrackd -C {} -e", self.path(number, "sync").display());
                self.net.ok(namespace, &line).lines().count()
            }
            Peer::Penstock => {
                let status = self.net.ok(namespace, "$PENSTOCK failover status -j");
                let rest = status.split("\"cached\":").nth(1).unwrap();
                rest.split(',').next().unwrap().parse().unwrap()
            }
        }
    }

    /// A firewall fails at once: what runs there is killed, and nothing leaves it any more.
    fn fail(&mut self, number: usize) {
        let pids: Vec<_> = ["parent.pid", "vrrp.pid"]
            .map(|name| std::fs::read_to_string(self.path(number, name)).unwrap())
            .iter()
            .map(|pid| pid.trim().to_owned())
            .collect();
        sh(&format!("kill -9 {}", pids.join(" ")));
        let firewall = &mut self.firewalls[number];
        firewall.keepalived = None;
        drop(firewall.running.take().unwrap().stop());
        if firewall.runs == Peer::Conntrackd {
            let (namespace, prefix) = (&firewall.namespace, firewall.prefix);
            for device in 0..2 {
                sh(&format!("ip -n {namespace} link set {prefix}{device} down"));
            }
        }
    }

    /// A session of SSH from A to B begins; its lines come to the file that is returned with it.
    fn session(&mut self) -> (Reading, PathBuf) {
        let [server, client, lines] =
            ["sshd.sh", "ssh.sh", "ssh.log"].map(|name| self.path(0, name));
        std::fs::write(&server, SSHD).unwrap();
        std::fs::write(&client, SSH).unwrap();
        let directory = self.path(0, "");
        let directory = directory.display();
        self.net.spawn_in('b', &format!("unshare -m sh {} {directory}", server.display()));
        self.net.until("SSH listens", |net| net.run(&net.b, "ss -lnt | grep -q :22").0);
        let line = format!("sh {} {directory}", client.display());
        (self.net.spawn_in_file(&self.net.a, &line, &lines), lines)
    }

    /// Resets of established connections that A and B have sent or seen.
    fn resets(&self) -> u64 {
        let of = |namespace: &str| {
            let said = self.net.ok(namespace, "nstat -asz TcpEstabResets TcpOutRsts");
            let count = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
            said.lines().skip(1).filter_map(count).sum::<u64>()
        };
        of(&self.net.a) + of(&self.net.b)
    }

    /// Connections of A that are established.
    fn established(&self) -> usize {
        self.net.ok(&self.net.a, "ss -Htn state established").lines().count()
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.net.run(&self.net.a, "ss -tna; ip neigh").1);
        }
        for number in [0, 1] {
            if std::thread::panicking() {
                for name in ["log", "keepalived.log", "talk.log", "ssh.log", "iperf.json"] {
                    let text = std::fs::read_to_string(self.path(number, name));
                    eprintln!("{number}: {name}:\n{}", text.unwrap_or_default());
                }
            }
            let firewall = &mut self.firewalls[number];
            firewall.keepalived.take().into_iter().for_each(|running| drop(running.end()));
            firewall.running.take().into_iter().for_each(|running| drop(running.end()));
        }
    }
}

/// Streams of iperf3 in the tests.
const STREAMS: usize = 50;

/// The file of a side for conntrackd's protocol.
fn conntrackd(_: &Net, own: u8, directory: &Path) -> String {
    config("FTFW { }", Link::Unicast4, own, directory)
}

/// Fifty streams, one that waits for each answer and a session of SSH go on when the first firewall fails.
fn streams_survive(runs: [Peer; 2], config: impl Fn(&Net, u8, &Path) -> String) {
    let Some(mut networks) = Networks::new(runs, config) else { return };
    networks.elect(0, 150);
    networks.net.until("the first one is primary", |_| networks.has_addresses(0));
    networks.elect(1, 100);
    let (echo, talk) = (networks.path(0, "echo.py"), networks.path(0, "talk.py"));
    std::fs::write(&echo, ECHO).unwrap();
    std::fs::write(&talk, TALK).unwrap();
    networks.net.spawn_in('b', &format!("python3 {}", echo.display()));
    networks.net.until("it listens", |net| net.run(&net.b, "ss -lnt | grep -q :80").0);
    networks.net.serve_iperf();
    let (stop, count) = (networks.path(0, "stop"), networks.path(0, "count"));
    let line = format!("python3 {} {} {} 2>&1", talk.display(), stop.display(), count.display());
    let talking = networks.path(0, "talk.log");
    let talking = networks.net.spawn_in_file(&networks.net.a, &line, &talking);
    let line = format!("iperf3 -c 198.18.1.2 -P {STREAMS} -b 200K -t 16 --json");
    let said = networks.path(0, "iperf.json");
    let iperf = networks.net.spawn_in_file(&networks.net.a, &line, &said);
    let (session, lines) = networks.session();
    let typed = || std::fs::read_to_string(&lines).unwrap_or_default().lines().count();
    // Those of data, that of control, and the two others.
    let all = STREAMS + 3;
    networks.net.until("all are established", |_| networks.established() == all);
    networks.net.until("all are told", |_| networks.cached(1) >= all);
    let counted = || -> (u64, f64) {
        let text = std::fs::read_to_string(&count).unwrap_or_default();
        let (count, longest) = text.split_once(' ').unwrap_or(("0", "0"));
        (count.parse().unwrap(), longest.parse().unwrap())
    };
    networks.net.until("answers come", |_| counted().0 > 50 && typed() > 5);
    networks.net.until("only the first one is primary", |_| {
        networks.has_addresses(0) && !networks.has_addresses(1)
    });
    let resets = networks.resets();
    networks.fail(0);
    networks.net.until("the second one is primary", |_| networks.has_addresses(1));
    let before = (counted().0, typed());
    networks
        .net
        .until("answers go on", |_| counted().0 > before.0 + 100 && typed() > before.1 + 20);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!((networks.established(), networks.resets()), (all, resets), "{runs:?}");
    iperf.wait();
    std::fs::write(&stop, "").unwrap();
    let log = talking.wait();
    drop(session.wait());
    let session = std::fs::read_to_string(&lines).unwrap();
    let mut echoed: Vec<_> = session.lines().collect();
    assert_eq!(echoed.pop(), Some("ended with 0"), "{session}");
    let numbers = (0..echoed.len()).map(|number| number.to_string());
    assert!(echoed.iter().copied().eq(numbers), "{session}");
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(!said.contains("\"error\""), "{log}{said}");
    let retransmits = said.split("\"sum_sent\"").nth(1).and_then(|sums| {
        sums.split("\"retransmits\":").nth(1)?.split([',', '\n']).next()?.trim().parse::<u64>().ok()
    });
    eprintln!(
        "{runs:?}: the longest wait was {} s; {retransmits:?} segments were sent again",
        counted().1
    );
}

#[test]
fn streams_survive_the_loss_of_a_dataplane_beside_another_one() {
    streams_survive([Peer::Penstock, Peer::Penstock], conntrackd);
}

#[test]
fn streams_survive_the_loss_of_a_dataplane_by_the_protocol_of_penstock() {
    streams_survive([Peer::Penstock, Peer::Penstock], |net, own, _| secure::own_config(net, own));
}

#[test]
fn streams_survive_the_loss_of_a_dataplane_beside_a_kernel() {
    streams_survive([Peer::Penstock, Peer::Conntrackd], conntrackd);
}

#[test]
fn streams_survive_the_loss_of_a_kernel_beside_a_dataplane() {
    streams_survive([Peer::Conntrackd, Peer::Penstock], conntrackd);
}

/// Which link address A has for an address, without asking anew.
fn known_to_a(net: &Net, address: &str) -> String {
    let said = net.ok(&net.a, &format!("ip neigh show to {address} dev a0"));
    said.split("lladdr ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("").to_owned()
}

#[test]
fn hosts_learn_where_the_addresses_are() {
    let Some(networks) = Networks::new([Peer::Penstock; 2], conntrackd) else { return };
    let net = &networks.net;
    let addresses = ["198.18.0.1", "2001:db8::1"];
    let mac = |number: usize| {
        let Firewall { namespace, prefix, .. } = &networks.firewalls[number];
        net.ok(namespace, &format!("cat /sys/class/net/{prefix}0/address")).trim().to_owned()
    };
    let set = |number: usize, word: &str| {
        let Firewall { namespace, prefix, .. } = &networks.firewalls[number];
        net.ok(
            namespace,
            &format!(
                "ip addr {word} 198.18.0.1/24 dev {prefix}0
                 ip addr {word} 2001:db8::1/64 dev {prefix}0 nodad"
            ),
        );
    };
    set(0, "add");
    for address in addresses {
        net.until("it answers", |net| net.run(&net.a, &format!("ping -c 1 -W 1 {address}")).0);
        assert_eq!(known_to_a(net, address), mac(0));
    }
    for to in [1, 0] {
        set(1 - to, "del");
        set(to, "add");
        let said = net.ok(&networks.firewalls[to].namespace, "$PENSTOCK failover primary");
        assert!(said.contains("taken over"), "{said}");
        for address in addresses {
            net.until("A has learned it", |net| known_to_a(net, address) == mac(to));
        }
        net.ok(&networks.firewalls[1 - to].namespace, "$PENSTOCK failover backup");
    }
    let status = net.ok(&net.r, "$PENSTOCK failover status");
    assert!(status.contains("addresses announced by "), "{status}");
}
