// SPDX-License-Identifier: Apache-2.0

//! The same rules in nf_tables and as programs at the hooks and devices of a router, one after the
//! other for each packet, while two hosts talk through it and to it: both count the same.

mod namespaces;
mod rights;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use namespaces::{Namespaces, run};
use penstock_bpf::{InetFamily, InetHook, Link, NetfilterHook, Next, Program};
use penstock_ebpf::rules::{Compiled, Counters, Device, Entry, Job, Place, compile};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_program::Hook;
use penstock_program::env::Interface;
use penstock_ruleset::link::Linked;
use penstock_ruleset::{Family, Ruleset};
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

/// Bytes of a connection.
const AMOUNT: usize = 8 << 20;
const PORT: u16 = 5201;

/// Where A sends to: namespace and address.
const TARGETS: [(&str, &str); 4] =
    [("b", "198.19.0.7"), ("r", "198.18.0.1"), ("b", "2001:db8:0:b::7"), ("r", "2001:db8:0:a::1")];

/// Two hosts and a router in between.
struct Lab(Namespaces);

impl Deref for Lab {
    type Target = Namespaces;

    fn deref(&self) -> &Namespaces {
        &self.0
    }
}

/// Neighbours that are known are not probed while a test runs: rules would count packets that come
/// before programs are attached.
fn no_probes() {
    for version in ["ipv4", "ipv6"] {
        for device in std::fs::read_dir(format!("/proc/sys/net/{version}/neigh")).unwrap() {
            let file = device.unwrap().path().join("delay_first_probe_time");
            std::fs::write(file, "3600").unwrap();
        }
    }
}

impl Lab {
    fn new(name: &str) -> Self {
        let lab = Lab(Namespaces::new(name));
        for end in ["a", "r", "b"] {
            lab.inside(end, || {
                for file in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
                    std::fs::write(format!("/proc/sys/net/{file}"), "0").unwrap();
                }
                // Rules read a later fragment's network header where the flow label is.
                std::fs::write("/proc/sys/net/ipv6/auto_flowlabels", "0").unwrap();
            });
        }
        lab.connect();
        for end in ["a", "r", "b"] {
            lab.inside(end, no_probes);
        }
        let inside = |end: &str, lines: &str| lab.ip(end, lines);
        let host = |end: &str, net: &str, v6: &str| {
            format!(
                "link set {end}0 up\naddr add {net}.7/24 dev {end}0\naddr add {v6}::7/64 dev {end}0 nodad\n\
                 route add default via {net}.1\nroute add default via {v6}::1\n"
            )
        };
        inside("a", &host("a", "198.18.0", "2001:db8:0:a"));
        inside("b", &host("b", "198.19.0", "2001:db8:0:b"));
        inside(
            "r",
            "link set lo up\nlink set r0 up\nlink set r1 up\n\
             addr add 198.18.0.1/24 dev r0\naddr add 198.19.0.1/24 dev r1\n\
             addr add 2001:db8:0:a::1/64 dev r0 nodad\naddr add 2001:db8:0:b::1/64 dev r1 nodad\n",
        );
        lab.inside("r", || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        lab
    }

    fn nft(&self, command: &str, input: &str) -> String {
        run(&format!("ip netns exec {} nft {command}", self.name("r")), input)
    }

    /// A connection from A to an address of B or R that carries bytes both ways.
    fn connection(&self, end: &str, to: IpAddr) {
        let listener = self.inside(end, || TcpListener::bind((to, PORT)).unwrap());
        let mut client = self.inside("a", || TcpStream::connect((to, PORT)).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        let patience = Some(Duration::from_secs(20));
        client.set_read_timeout(patience).unwrap();
        client.set_write_timeout(patience).unwrap();
        server.set_read_timeout(patience).unwrap();
        let echoed = thread::scope(|scope| {
            let echo = scope.spawn(move || {
                let mut got = Vec::new();
                server.read_to_end(&mut got).unwrap();
                server.write_all(&got[..got.len() / 4]).unwrap();
            });
            client.write_all(&vec![7; AMOUNT]).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            client.read_to_end(&mut back).unwrap();
            echo.join().unwrap();
            back.len()
        });
        assert_eq!(echoed, AMOUNT / 4);
    }

    /// Datagrams from A, some in fragments, and answers.
    fn datagrams(&self, end: &str, to: IpAddr) {
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        for port in [53, 9000, 9001] {
            let server = self.inside(end, || UdpSocket::bind((to, port)).unwrap());
            let client = self.inside("a", || UdpSocket::bind((any, 20_000 + port)).unwrap());
            client.connect((to, port)).unwrap();
            for socket in [&server, &client] {
                socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            }
            let mut buffer = [0; 4096];
            for size in [1, 200, 1400, 3000, 4000] {
                client.send(&vec![9; size]).unwrap();
                let (len, from) = server.recv_from(&mut buffer).unwrap();
                server.send_to(&buffer[..len], from).unwrap();
                assert_eq!(client.recv(&mut buffer).unwrap(), size);
            }
        }
        // Nobody listens.
        let client = self.inside("a", || UdpSocket::bind((any, 0)).unwrap());
        client.send_to(b"x", (to, 7)).unwrap();
    }

    /// Frames with no tag, one and two that a packet socket of the router sends by r1.
    fn tagged(&self) {
        let link = || Ethernet::new("02:00:00:00:00:f1", "02:00:00:00:00:b0");
        let packet = || Ipv4::new("198.18.5.7", "198.18.5.8") / Udp::new(5, 9) / payload([7; 60]);
        let frames = [
            (link() / packet()).build(),
            (link() / Vlan::new(5) / packet()).build(),
            (link() / Vlan::new(5) / Vlan::new(7) / packet()).build(),
            (link() / Vlan::new(5).service() / Vlan::new(7) / packet()).build(),
        ];
        self.inside("r", || {
            // SAFETY: the address is as long as said, frames are read only, and the descriptor is
            // this thread's.
            unsafe {
                let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
                assert!(socket >= 0);
                let mut address: libc::sockaddr_ll = std::mem::zeroed();
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_ifindex = libc::if_nametoindex(c"r1".as_ptr()) as i32;
                for frame in &frames {
                    let sent = libc::sendto(
                        socket,
                        frame.as_ptr().cast(),
                        frame.len(),
                        0,
                        (&raw const address).cast(),
                        size_of_val(&address) as u32,
                    );
                    assert_eq!(sent, frame.len() as isize);
                }
                libc::close(socket);
            }
        });
    }

    /// What A gets answers to, from B and from the router: of datagrams of several sizes, and of
    /// connections.
    fn answered(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (end, to) in TARGETS {
            let to: IpAddr = to.parse().unwrap();
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            for port in [53, 9000, 9001, 9002] {
                let server = self.inside(end, || UdpSocket::bind((to, port)).unwrap());
                let client = self.inside("a", || UdpSocket::bind((any, 20_000 + port)).unwrap());
                client.connect((to, port)).unwrap();
                for socket in [&server, &client] {
                    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                }
                let mut buffer = [0; 4096];
                for size in [1, 200, 1400, 3000] {
                    let _ = client.send(&vec![9; size]);
                    let mut got = ["nothing", "a request", "an answer"].into_iter();
                    let mut end = got.next();
                    if let Ok((len, from)) = server.recv_from(&mut buffer) {
                        end = got.next();
                        let _ = server.send_to(&buffer[..len], from);
                        if client.recv(&mut buffer).is_ok() {
                            end = got.next();
                        }
                    }
                    all.push(format!("udp {to} {port} {size}: {end:?}"));
                }
            }
            for port in [5201, 5202, 5203] {
                let _listener = self.inside(end, || TcpListener::bind((to, port)).unwrap());
                // Shorter than the time after which the first packet is sent once more.
                let patience = Duration::from_millis(300);
                let connected =
                    self.inside("a", || TcpStream::connect_timeout(&(to, port).into(), patience));
                all.push(format!("tcp {to} {port}: {}", connected.is_ok()));
            }
        }
        thread::sleep(Duration::from_millis(100));
        all
    }

    fn traffic(&self) {
        for (end, to) in TARGETS {
            let to = to.parse().unwrap();
            self.datagrams(end, to);
            self.connection(end, to);
            let ping =
                format!("ip netns exec {} ping -c 3 -i 0.05 -s 2000 -W 5 {to}", self.name("a"));
            run(&ping, "");
        }
        // Answers to what closed the connections.
        thread::sleep(Duration::from_millis(300));
    }
}

fn load(compiled: &Compiled) -> (Program, Counters) {
    let loaded = compiled.load("rules");
    loaded.unwrap_or_else(|e| panic!("{e}\n{}", &e.log[e.log.len().saturating_sub(4000)..]))
}

/// Attaches the chains at egress of a ruleset to both devices of the router, where packets come
/// from the chains of nf_tables.
fn attach_egress(lab: &Lab, ruleset: &Ruleset) -> (Vec<Link>, Vec<Counters>) {
    let linked = Linked::new(&ruleset.generation()).unwrap();
    let entries: Vec<_> = linked.bases.iter().map(|base| Entry::Netdev(base.chain)).collect();
    let attach = |device: &str, mac: u8| {
        let index = lab.index(device);
        let padded = |text: &str| {
            let mut out = [0; 16];
            out[..text.len()].copy_from_slice(text.as_bytes());
            out
        };
        let interface =
            Interface { name: padded(device), kind: padded("veth"), arphrd: 1, group: 0 };
        let device = Device { index, mac: Mac([2, 0, 0, 0, 0, mac]), interface };
        let place = Place::TcxEgress(&device);
        let job = Job {
            image: &linked.image,
            entries: &entries,
            place,
            next: &Next::Pass,
            shared: None,
            routes: None,
        };
        let (program, counts) = load(&compile(job).unwrap());
        (lab.inside("r", || program.attach_egress(index).unwrap()), counts)
    };
    [attach("r0", 0xf0), attach("r1", 0xf1)].into_iter().unzip()
}

/// Attaches all chains of a ruleset at netfilter hooks, `later` than their priorities.
fn attach(lab: &Lab, ruleset: &Ruleset, later: i32) -> (Vec<Link>, Vec<Counters>) {
    let linked = Linked::new(&ruleset.generation()).unwrap();
    let (mut links, mut counters) = (Vec::new(), Vec::new());
    for base in &linked.bases {
        let hook = match base.base.hook {
            Hook::Prerouting => InetHook::Prerouting,
            Hook::Input => InetHook::Input,
            Hook::Forward => InetHook::Forward,
            Hook::Output => InetHook::Output,
            Hook::Postrouting => InetHook::Postrouting,
            Hook::Ingress | Hook::Egress => panic!("a chain of a device"),
        };
        let families: &[InetFamily] = match base.family {
            Family::Ip => &[InetFamily::V4],
            Family::Ip6 => &[InetFamily::V6],
            _ => &[InetFamily::V4, InetFamily::V6],
        };
        for family in families {
            let hook = NetfilterHook { family: *family, hook };
            let entries = [Entry::Ip(base.chain)];
            let place = Place::Netfilter(hook);
            let job = Job {
                image: &linked.image,
                entries: &entries,
                place,
                next: &Next::Pass,
                shared: None,
                routes: None,
            };
            let (program, counts) = load(&compile(job).unwrap_or_else(|e| panic!("{hook}: {e}")));
            let priority = base.base.priority + later;
            let link = lab.inside("r", || program.attach_netfilter(hook, priority, false).unwrap());
            links.push(link);
            counters.push(counts);
        }
    }
    (links, counters)
}

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// Rules that each count what they match: those of all families, and those of one. Together they
/// would ask for more fields than a program holds.
fn rules(family: &str) -> [String; 2] {
    let of_family = match family {
        "ip" => {
            "ip saddr 198.18.0.7 counter\n ip saddr 198.18.0.7 ip daddr 198.19.0.0/16 tcp flags syn counter\n\
             ip frag-off & 0x1fff != 0 counter\n icmp type echo-request counter\n ip ttl < 64 counter\n\
             ip daddr . tcp dport { 198.19.0.7 . 5201, 198.18.0.1 . 1-6000 } counter\n\
             ct original saddr 198.18.0.7 counter\n ct reply daddr 198.18.0.7 meta l4proto tcp ct reply proto-src 5201 counter\n\
             meta l4proto udp ct original saddr 198.18.0.7 ct original proto-dst 9000 counter\n\
             rt nexthop 198.19.0.7 counter\n rt nexthop 198.19.0.9 counter\n\
             rt nexthop 198.18.0.0/16 counter\n rt classid 0 counter\n rt classid 7 counter\n\
             rt ipsec missing counter\n"
        }
        "ip6" => {
            "ip6 saddr 2001:db8:0:a::7 counter\n ip6 nexthdr 44 counter\n icmpv6 type echo-reply counter\n\
             ip6 hoplimit < 64 udp length > 100 counter\n ct original saddr 2001:db8:0:a::7 counter\n\
             ct reply saddr 2001:db8:0:b::/64 counter\n\
             rt nexthop 2001:db8:0:b::7 counter\n rt nexthop 2001:db8:0:b::9 counter\n\
             rt nexthop 2001:db8:0:a::/64 counter\n meta l4proto { tcp, udp } rt ipsec missing counter\n"
        }
        _ => {
            "meta nfproto ipv4 meta l4proto tcp counter\n meta nfproto ipv6 meta l4proto udp counter\n\
             rt ip nexthop 198.19.0.0/24 counter\n rt ip6 nexthop 2001:db8:0:b::9 counter\n\
             ct original ip saddr 198.18.0.7 counter\n ct original ip6 daddr 2001:db8:0:b::7 counter\n"
        }
    };
    let all = "meta l4proto tcp counter\n meta l4proto udp counter\n meta l4proto tcp meta length > 1600 counter\n\
         udp dport @ports counter\n tcp dport 1-6000 meta length 41-1500 counter\n\
         @th,16,16 9001 meta l4proto udp counter\n meta l4proto tcp @ih,0,8 7 counter\n\
         meta l4proto udp @ih,0,8 9 counter\n @nh,0,8 & 0xf0 != 0 meta l4proto { tcp, udp } counter\n\
         ether saddr 02:00:00:00:00:a0 tcp dport 5201 counter\n ether daddr 02:00:00:00:00:f0 udp dport 53 counter\n\
         iifname \"r0\" meta l4proto tcp counter\n oifname \"r*\" meta l4proto udp counter\n oifname \"r1\" udp dport 53 counter\n\
         meta iifkind \"veth\" meta l4proto tcp counter\n meta oifkind \"veth\" meta l4proto tcp counter\n\
         meta iiftype 1 meta l4proto tcp counter\n meta oiftype 1 meta l4proto tcp counter\n\
         meta iifgroup != 7 meta l4proto tcp counter\n meta oifgroup != 7 meta l4proto tcp counter\n\
         meta pkttype host meta l4proto tcp counter\n meta mark 0 meta l4proto udp counter\n\
         meta protocol 0x0800 meta l4proto tcp counter\n meta priority != 7 meta l4proto udp counter\n\
         ct state new meta l4proto { tcp, udp } counter\n ct state established counter\n\
         ct state related,invalid,untracked meta l4proto { tcp, udp } counter\n\
         ct direction reply meta l4proto tcp counter\n ct direction original meta l4proto udp counter\n\
         ct status assured meta l4proto tcp counter\n ct status confirmed meta l4proto udp counter\n\
         ct mark 0 meta l4proto udp counter\n ct zone 0 meta l4proto tcp counter\n ct protocol tcp counter\n ct l3proto ipv6 meta l4proto tcp counter\n\
         meta l4proto udp ct original proto-dst 53 counter\n meta l4proto udp ct reply proto-dst 20053 counter\n\
         udp dport vmap { 53 : jump seen, 9000-9100 : goto end }\n";
    [all.to_owned(), of_family.to_owned()]
}

fn table(family: &str, chains: &str) -> String {
    format!(
        "table {family} t {{\n set ports {{ type inet_service; flags interval; counter; elements = {{ 53, 9000-9001, 20000-21000 }}; }}\n\
         chain seen {{ counter\n meta length > 500 counter return\n counter\n }}\n chain end {{ udp dport 9001 counter\n counter\n }}\n\
         {chains}\n}}\n"
    )
}

#[test]
fn programs_at_hooks_count_what_nf_tables_counts() {
    if !can() {
        return;
    }
    let lab = Lab::new("hooks");
    // Routes over a next hop.
    lab.ip("b", "addr add 198.19.0.9/24 dev b0\naddr add 2001:db8:0:b::9/64 dev b0 nodad\n");
    lab.ip(
        "r",
        "route add 198.19.0.7/32 via 198.19.0.9 dev r1 realm 7\n\
         route add 2001:db8:0:b::7/128 via 2001:db8:0:b::9 dev r1\n",
    );
    let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
    for family in ["inet", "ip", "ip6"] {
        let rules = rules(family);
        let chains: String = hooks
            .iter()
            .flat_map(|hook| {
                rules.iter().zip([10, 20]).map(move |(rules, priority)| {
                    format!(
                        "chain {hook}{priority} {{ type filter hook {hook} priority {priority}; policy accept;\n{rules} }}\n"
                    )
                })
            })
            .collect();
        let text = table(family, &chains);
        let mut ruleset = Ruleset::default();
        session(&mut ruleset, &text);
        lab.nft("-f -", &text);
        let (links, mut counters) = attach(&lab, &ruleset, 1);
        lab.traffic();
        drop(links);
        compare(&lab, &mut ruleset, &mut counters, family);
    }
}

/// The counters of both are equal.
fn compare(lab: &Lab, ruleset: &mut Ruleset, counters: &mut [Counters], about: &str) {
    let kernel = lab.nft("list ruleset", "");
    lab.nft("flush ruleset", "");
    counters.iter_mut().for_each(|counts| counts.collect().unwrap());
    let programs = session(ruleset, "list ruleset");
    // Names of types are in files that the language is not given here.
    let counts = |line: &str| line.split_once(" packets ").map(|(_, rest)| rest.to_owned());
    let differ: Vec<_> = (kernel.lines().zip(programs.lines()))
        .filter(|(kernel, programs)| counts(kernel) != counts(programs))
        .collect();
    assert!(differ.is_empty(), "{about}: {differ:#?}");
    assert_eq!(kernel.lines().count(), programs.lines().count(), "{about}");
    let counting = kernel.lines().filter(|line| line.contains(" packets ")).count();
    let zero = kernel.lines().filter(|line| line.contains(" packets 0 ")).count();
    println!("{about}: {counting} lines with counters, {zero} of them 0");
    assert!(counting > 2 * zero, "{about}: {kernel}");
}

/// Rules that drop at each hook, and by the state of connections.
const DROPPING: &str = "table inet t {
    set known { type inet_service; flags interval; elements = { 53, 9000-9001, 20000-30000 }; }
    map fate { type inet_service : verdict; elements = { 5201 : accept, 5202 : drop, 5203 : jump late } }
    chain late { meta nfproto ipv6 counter drop
        counter
    }
    chain pre { type filter hook prerouting priority -150; policy accept;
        udp dport 9000 udp length 208 counter drop
        meta l4proto udp counter
    }
    chain input { type filter hook input priority 0; policy drop;
        ct state established counter accept
        ct state new udp dport 9001 meta length > 1000 counter drop
        udp dport @known ct state new counter accept
        tcp dport vmap @fate
        meta l4proto { icmp, icmpv6 } accept
        meta l4proto tcp accept
    }
    chain forward { type filter hook forward priority 5; policy drop;
        iifname \"r0\" oifname \"r1\" jump there
        ct state established udp sport 9001 udp length < 100 counter drop
        ct direction reply ct state established accept
        meta l4proto { icmp, icmpv6 } accept
    }
    chain there { udp dport 9002 counter return
        udp dport @known counter accept
        tcp flags syn tcp dport vmap @fate
        meta l4proto tcp accept
    }
    chain output { type filter hook output priority 0; policy accept;
        udp sport 53 meta length 29 counter drop
        udp sport 53 counter
    }
    chain post { type filter hook postrouting priority 100; policy accept;
        oifname \"r1\" udp dport 53 meta length > 2000 counter drop
        oifname \"r1\" udp dport 53 counter
    }
}";

#[test]
fn programs_at_hooks_drop_what_nf_tables_drops() {
    if !can() {
        return;
    }
    let kernel = Lab::new("first");
    kernel.nft("-f -", DROPPING);
    let wanted = kernel.answered();
    let lab = Lab::new("second");
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, DROPPING);
    // Connections are tracked while some rule asks for their state.
    lab.nft("-f -", "table inet keep { chain c { ct state new\n }\n }");
    let (links, mut counters) = attach(&lab, &ruleset, 0);
    assert_eq!(lab.answered(), wanted);
    drop(links);
    compare(&kernel, &mut ruleset, &mut counters, "drops");
    let answers = wanted.iter().filter(|line| line.contains("answer") || line.ends_with("true"));
    let (answers, all) = (answers.count(), wanted.len());
    println!("{answers} of {all} answered");
    assert!(answers > all / 4 && answers < all * 3 / 4, "{wanted:#?}");
}

fn can() -> bool {
    namespaces::can(&["ip", "nft", "ping"])
}

#[test]
fn programs_at_tcx_egress_count_what_nf_tables_counts() {
    if !can() {
        return;
    }
    let lab = Lab::new("egress");
    let text = "table netdev t {
        set ports { type inet_service; flags interval; counter; elements = { 53, 9000-9001, 20000-21000 }; }
        chain seen { counter
            meta length > 500 counter return
            counter
        }
        chain out { type filter hook egress devices = { r0, r1 } priority 10; policy accept;
            meta l4proto tcp counter
            meta l4proto udp meta length > 1600 counter
            meta l4proto tcp meta length > 1600 counter
            meta l4proto tcp ip saddr 198.18.0.7 counter
            udp dport @ports counter
            tcp dport 1-6000 meta length 41-1500 counter
            ip saddr 198.18.0.7 ip daddr 198.19.0.7 counter
            ip frag-off & 0x1fff != 0 counter
            ip6 nexthdr 44 counter
            ip6 saddr 2001:db8:0:a::7 udp length > 100 counter
            meta l4proto tcp @ih,0,8 7 counter
            @th,16,16 9001 meta l4proto udp counter
            ether saddr 02:00:00:00:00:f0 tcp sport 5201 counter
            ether daddr 02:00:00:00:00:b0 udp dport 53 counter
            meta l4proto tcp meta oifname \"r0\" counter
            meta l4proto tcp meta iifname \"r0\" counter
            meta l4proto tcp meta oifkind \"veth\" counter
            meta l4proto tcp meta iiftype 1 counter
            meta l4proto tcp meta oiftype 1 counter
            meta l4proto tcp meta iifgroup 0 counter
            meta l4proto tcp meta iif 0 counter
            meta l4proto udp meta pkttype host counter
            meta l4proto tcp meta pkttype != host counter
            meta l4proto udp meta mark set 7
            meta l4proto udp meta mark 7 counter
            udp dport vmap { 53 : jump seen, 9000-9100 : continue }
            icmp type echo-request counter
            @nh,0,8 0x45 counter
            @nh,96,32 0xc6120507 counter
            meta protocol vlan counter
        }
    }";
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, text);
    lab.nft("-f -", text);
    let (links, mut counters) = attach_egress(&lab, &ruleset);
    lab.traffic();
    lab.tagged();
    drop(links);
    compare(&lab, &mut ruleset, &mut counters, "egress");
}
