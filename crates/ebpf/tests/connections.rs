// SPDX-License-Identifier: Apache-2.0

//! What programs of devices say of connections before the kernel tracks their packets, against what
//! its tracker says right after: both count the same frames, of which most are made at random.

mod namespaces;
mod rights;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use fastrand::Rng;
use namespaces::{Namespaces, run};
use penstock_bpf::{AttachPoint, Link, Mode, Next};
use penstock_ebpf::rules::{Counters, Device, Entry, Job, Place, SharedStates, compile};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_program::env::Interface;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

/// Two hosts, and the router on its second device.
const HOSTS: [&str; 3] = ["198.18.0.7", "198.19.0.7", "198.19.0.1"];
const HOSTS6: [&str; 3] = ["2001:db8:0:a::7", "2001:db8:0:b::7", "2001:db8:0:b::1"];
const MACS: [[&str; 2]; 2] =
    [["02:00:00:00:00:a0", "02:00:00:00:00:f0"], ["02:00:00:00:00:b0", "02:00:00:00:00:f1"]];

/// A router between two ends that take no frame themselves.
struct Lab {
    all: Namespaces,
    sockets: [OwnedFd; 2],
}

impl Lab {
    fn new(name: &str) -> Self {
        let all = Namespaces::new(name);
        for end in ["a", "r", "b"] {
            all.inside(end, || {
                std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
            });
        }
        all.connect();
        for (end, net, v6) in [("a", "198.18.0", "2001:db8:0:a"), ("b", "198.19.0", "2001:db8:0:b")]
        {
            let lines = format!(
                "link set {end}0 up\naddr add {net}.7/24 dev {end}0\naddr add {v6}::7/64 dev {end}0 nodad\n"
            );
            all.ip(end, &lines);
        }
        // Nobody has these link addresses.
        all.ip(
            "r",
            "link set lo up\nlink set r0 up\nlink set r1 up\n\
             addr add 198.18.0.1/24 dev r0\naddr add 198.19.0.1/24 dev r1\n\
             addr add 2001:db8:0:a::1/64 dev r0 nodad\naddr add 2001:db8:0:b::1/64 dev r1 nodad\n\
             neigh add 198.18.0.7 lladdr 02:00:00:00:00:ee dev r0 nud permanent\n\
             neigh add 198.19.0.7 lladdr 02:00:00:00:00:ee dev r1 nud permanent\n\
             neigh add 2001:db8:0:a::7 lladdr 02:00:00:00:00:ee dev r0 nud permanent\n\
             neigh add 2001:db8:0:b::7 lladdr 02:00:00:00:00:ee dev r1 nud permanent\n",
        );
        let lab = Lab { sockets: ["a", "b"].map(|end| all.inside(end, || socket(end))), all };
        lab.set("ipv4/ip_forward", "1");
        lab.set("ipv6/conf/all/forwarding", "1");
        lab
    }

    fn set(&self, name: &str, value: &str) {
        let file = format!("/proc/sys/net/{name}");
        self.all
            .inside("r", || std::fs::write(&file, value).unwrap_or_else(|e| panic!("{file}: {e}")));
    }

    fn nft(&self, command: &str, input: &str) -> String {
        run(&format!("ip netns exec {} nft {command}", self.all.name("r")), input)
    }

    /// Sends a frame from an end.
    fn send(&self, end: usize, frame: &[u8]) {
        // SAFETY: the frame is as long as said and only read.
        let sent = unsafe {
            let socket = self.sockets[end].as_raw_fd();
            libc::send(socket, frame.as_ptr().cast(), frame.len(), 0)
        };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// The chain of a ruleset on devices of R.
    fn attach(
        &self,
        ruleset: &Ruleset,
        at: At,
        states: &SharedStates,
        devices: &[(&str, u8)],
    ) -> (Vec<Link>, Vec<Counters>) {
        let linked = Linked::new(&ruleset.generation()).unwrap();
        let entries: Vec<_> = linked.bases.iter().map(|base| Entry::Inet(base.chain)).collect();
        let on = |(name, mac): &(&str, u8)| {
            let index = self.all.index(name);
            let padded = |text: &str| {
                let mut out = [0; 16];
                out[..text.len()].copy_from_slice(text.as_bytes());
                out
            };
            let interface =
                Interface { name: padded(name), kind: padded("veth"), arphrd: 1, group: 0 };
            let device = Device { index, mac: Mac([2, 0, 0, 0, 0, *mac]), interface };
            let place = match at.0 {
                AttachPoint::Xdp => Place::Xdp(&device),
                AttachPoint::Tcx => Place::TcxIngress(&device),
            };
            let compiled = compile(Job {
                image: &linked.image,
                entries: &entries,
                place,
                next: &Next::Pass,
                shared: Some(states),
                routes: None,
            })
            .unwrap();
            let (program, counts) = compiled
                .load("rules")
                .unwrap_or_else(|e| panic!("{e}\n{}", &e.log[e.log.len().saturating_sub(6000)..]));
            (self.all.inside("r", || program.attach(index, at.1).unwrap()), counts)
        };
        devices.iter().map(on).unzip()
    }
}

/// A packet socket on the device of an end.
fn socket(end: &str) -> OwnedFd {
    let name = std::ffi::CString::new(format!("{end}0")).unwrap();
    // SAFETY: the address is as long as said, the name is a string that ends, and the descriptor is
    // nobody else's.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(fd >= 0);
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let size = size_of_val(&address) as u32;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), size), 0);
        socket
    }
}

/// Where programs are.
#[derive(Clone, Copy, Debug)]
struct At(AttachPoint, Mode);

const PLACES: [At; 3] = [
    At(AttachPoint::Xdp, Mode::Native),
    At(AttachPoint::Xdp, Mode::Generic),
    At(AttachPoint::Tcx, Mode::Any),
];

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, 0);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// Rules in a chain at ingress.
fn at_ingress(rules: &str) -> Ruleset {
    let text = format!(
        "table inet d {{ chain c {{ type filter hook ingress device r0 priority 0; policy accept;\n{rules} }}\n }}"
    );
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, &text);
    ruleset
}

/// What both count: rules about states, and about the rest of the connection.
fn rules() -> [String; 3] {
    let protocols =
        ["meta l4proto tcp", "meta l4proto udp", "icmp type { 3, 11 }", "icmpv6 type { 1, 3 }"];
    let states = ["new", "established", "related", "invalid", "untracked"];
    let states = protocols
        .iter()
        .flat_map(|protocol| states.map(|state| format!("{protocol} ct state {state} counter\n")))
        .collect();
    let rest = "ct state new tcp dport 80 counter\n ct state established,related counter\n\
         meta l4proto { tcp, udp } ct direction original counter\n\
         meta l4proto { tcp, udp } ct direction reply counter\n\
         icmp type 3 ct direction original counter\n icmp type 3 ct direction reply counter\n\
         meta l4proto tcp ct status seen-reply counter\n meta l4proto udp ct status seen-reply counter\n\
         meta l4proto { tcp, udp } ct status snat counter\n meta l4proto udp ct status confirmed counter\n\
         meta l4proto { tcp, udp } ct mark 7 counter\n meta l4proto { tcp, udp } ct mark 0 counter\n\
         meta l4proto { tcp, udp } ct zone 0 counter\n\
         meta l4proto { tcp, udp } ct l3proto ipv6 counter\n ct protocol tcp counter\n ct protocol udp counter\n"
        .to_owned();
    let tuples = "ct original ip saddr 198.18.0.7 counter\n ct original ip daddr 198.18.0.7 counter\n\
         ct reply ip saddr 198.18.0.7 counter\n ct reply ip daddr 198.19.0.1 counter\n ct reply ip daddr 198.18.0.7 counter\n\
         ct original ip6 saddr 2001:db8:0:a::7 counter\n ct original ip6 daddr 2001:db8:0:a::7 counter\n\
         ct reply ip6 saddr 2001:db8:0:a::7 counter\n ct reply ip6 daddr 2001:db8:0:a::7 counter\n\
         meta l4proto tcp ct original proto-src 80 counter\n meta l4proto tcp ct original proto-dst 80 counter\n\
         meta l4proto udp ct reply proto-src 80 counter\n meta l4proto udp ct reply proto-dst 80 counter\n"
        .to_owned();
    [states, rest, tuples]
}

/// Flags of a segment: mostly those of connections, sometimes any.
fn flags(rng: &mut Rng) -> u8 {
    match rng.u8(..12) {
        0..=2 => 0x02,
        3..=4 => 0x12,
        5..=8 => 0x10,
        9 => 0x11,
        10 => *rng.choice(&[0x04, 0x14]).unwrap(),
        _ => rng.u8(..),
    }
}

/// TCP or UDP, sometimes malformed, from one host to another.
fn packet(rng: &mut Rng, v6: bool, [src, dst]: [usize; 2]) -> Vec<u8> {
    let ports = [*rng.choice(&[1000, 1001]).unwrap(), *rng.choice(&[80, 81]).unwrap()];
    let [sport, dport] = if rng.bool() { ports } else { [ports[1], ports[0]] };
    if rng.u8(..4) > 0 {
        let mut tcp = Tcp::new(sport, dport).flags(flags(rng)).seq(rng.u32(1..4)).window(1000);
        if rng.u8(..40) == 0 {
            tcp = tcp.header_len(*rng.choice(&[0, 16, 24, 60]).unwrap());
        }
        return over_ip(v6, src, dst, tcp / payload([7; 4]));
    }
    let mut udp = Udp::new(sport, dport);
    if rng.u8(..20) == 0 {
        udp = udp.length(*rng.choice(&[0, 7, 8, 200]).unwrap());
    }
    over_ip(v6, src, dst, udp / payload([9; 4]))
}

fn over_ip(v6: bool, src: usize, dst: usize, what: impl Into<Frame>) -> Vec<u8> {
    if v6 {
        (Ipv6::new(HOSTS6[src], HOSTS6[dst]) / what.into()).build()
    } else {
        (Ipv4::new(HOSTS[src], HOSTS[dst]) / what.into()).build()
    }
}

/// An error about a packet that went the other way, or did not.
fn error(rng: &mut Rng, v6: bool, [src, dst]: [usize; 2]) -> Vec<u8> {
    let mut quoted = match rng.u8(..8) {
        0 => {
            let hosts = [rng.usize(..3), rng.usize(..3)];
            packet(rng, v6, hosts)
        }
        _ => packet(rng, v6, [dst, src]),
    };
    if rng.u8(..6) == 0 {
        quoted.truncate(rng.usize(..quoted.len()));
    }
    if v6 {
        over_ip(v6, src, dst, Icmpv6::new(*rng.choice(&[1, 3]).unwrap(), 0) / payload(quoted))
    } else {
        over_ip(v6, src, dst, Icmp::new(*rng.choice(&[3, 11]).unwrap(), 1) / payload(quoted))
    }
}

/// A frame, and the end that sends it.
fn frame(rng: &mut Rng) -> (usize, Vec<u8>) {
    let end = rng.usize(..2);
    let (v6, to) = (rng.bool(), if end == 0 { 1 } else { *rng.choice(&[0, 0, 2]).unwrap() });
    let packet = match rng.u8(..6) {
        0 => error(rng, v6, [end, to]),
        _ => packet(rng, v6, [end, to]),
    };
    (end, framed(end, v6, &packet))
}

fn framed(end: usize, v6: bool, packet: &[u8]) -> Vec<u8> {
    let [from, to] = MACS[end];
    let ethertype = if v6 { 0x86dd } else { 0x0800 };
    (Ethernet::new(from, to).ethertype(ethertype) / payload(packet)).build()
}

/// Counters of a listing, in order. Names of protocols are in files that the language is not given
/// here.
fn counted(listing: &str) -> Vec<&str> {
    listing.lines().filter_map(|line| Some(line.split_once(" packets ")?.1)).collect()
}

#[test]
fn connections_at_devices_are_what_the_tracker_is_going_to_say() {
    if !namespaces::can(&["ip", "nft"]) {
        return;
    }
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    for (n, at) in PLACES.into_iter().enumerate() {
        for (rules, (nat, loose)) in
            rules().into_iter().zip([(false, "1"), (true, "0"), (true, "1")])
        {
            let lab = Lab::new(&format!("ct{n}"));
            let nat = if nat { "oifname r1 masquerade" } else { "" };
            let kernel = format!(
                "table inet t {{
                   chain pre {{ type filter hook prerouting priority -150; policy accept;\n{rules} }}
                   chain marks {{ type filter hook forward priority 0; udp dport 81 ct mark set 7; }}
                   chain nat {{ type nat hook postrouting priority 100; {nat}; }}
                 }}"
            );
            let mut ruleset = at_ingress(&rules);
            let states = SharedStates::new().unwrap();
            lab.nft("-f -", &kernel);
            // What sequence numbers say is what only the tracker knows.
            lab.set("netfilter/nf_conntrack_tcp_be_liberal", "1");
            lab.set("netfilter/nf_conntrack_tcp_ignore_invalid_rst", "1");
            lab.set("netfilter/nf_conntrack_tcp_loose", loose);
            let (links, mut counters) =
                lab.attach(&ruleset, at, &states, &[("r0", 0xf0), ("r1", 0xf1)]);
            for _ in 0..penstock_testkit::rounds(3000) {
                let (end, frame) = frame(&mut rng);
                lab.send(end, &frame);
            }
            drop(links);
            counters.iter_mut().for_each(|counts| counts.collect().unwrap());
            let kernel = lab.nft("list chain inet t pre", "");
            let own = session(&mut ruleset, "list ruleset");
            let (wanted, found) = (counted(&kernel), counted(&own));
            let differ: Vec<_> = (rules.lines().zip(wanted.iter().zip(&found)))
                .filter(|(_, (kernel, own))| kernel != own)
                .collect();
            assert!(differ.is_empty(), "{at:?} loose {loose}: {differ:#?}");
            assert_eq!([wanted.len(), found.len()], [rules.lines().count(); 2]);
            let zero = found.iter().filter(|counts| counts.starts_with("0 ")).count();
            println!("{at:?}: {} counters, {zero} of them 0", found.len());
        }
    }
}

#[test]
fn what_a_lookup_cannot_tell_is_untracked() {
    if !namespaces::can(&["ip", "nft"]) {
        return;
    }
    let v4 = |what: Frame| over_ip(false, 0, 1, what);
    let v6 = |what: Frame| over_ip(true, 0, 1, what);
    let udp = || Udp::new(1000, 80) / payload([7; 16]);
    let quoting_echo = over_ip(false, 1, 0, Icmp::echo_request(1, 1));
    let cases = [
        // Entries of these are found by no function.
        ("untracked", "an echo request", v4(Icmp::echo_request(7, 1).into())),
        ("untracked", "an echo reply", v4(Icmp::echo_reply(7, 1).into())),
        ("untracked", "an echo request of IPv6", v6(Icmpv6::echo_request(7, 1).into())),
        ("untracked", "SCTP", v4(Sctp::new(1, 2).into())),
        ("untracked", "an error about an echo", v4(Icmp::new(3, 1) / payload(quoting_echo))),
        // They are put together first.
        (
            "untracked",
            "a first fragment",
            (Ipv4::new(HOSTS[0], HOSTS[1]).fragment(0, true) / udp()).build(),
        ),
        (
            "untracked",
            "a later fragment",
            (Ipv4::new(HOSTS[0], HOSTS[1]).fragment(8, false) / udp()).build(),
        ),
        ("untracked", "a fragment of IPv6", v6(Fragment::new(0, true, 1) / udp())),
        ("untracked", "options of IPv6", v6(HopByHop::new() / udp())),
        // As for the tracker.
        ("untracked", "a neighbour", v6(Icmpv6::neighbour_solicitation(HOSTS6[1]).into())),
        ("invalid", "an ICMP type that begins nothing", v4(Icmp::new(9, 0).into())),
        ("invalid", "an unknown ICMP type", v4(Icmp::new(40, 0).into())),
        ("invalid", "an unknown ICMPv6 type", v6(Icmpv6::new(200, 0).into())),
        ("invalid", "an error about nothing", v4(Icmp::new(3, 1) / payload([]))),
        ("new", "a datagram", v4(udp())),
        ("new", "a datagram of IPv6", v6(udp())),
    ];
    let states = ["new", "established", "related", "invalid", "untracked"];
    // The end says something by itself, from its own address.
    let rule = |state| format!("ether saddr 02:00:00:00:00:aa ct state {state} counter\n");
    let rules: String = states.map(rule).concat();
    for at in PLACES {
        let lab = Lab::new("cannot");
        let mut ruleset = at_ingress(&rules);
        let shared = SharedStates::new().unwrap();
        let (_links, mut counters) = lab.attach(&ruleset, at, &shared, &[("r0", 0xf0)]);
        let mut before = vec![0; states.len()];
        for (state, about, packet) in &cases {
            let mut frame = framed(0, packet[0] >> 4 == 6, packet);
            frame[11] = 0xaa;
            lab.send(0, &frame);
            counters.iter_mut().for_each(|counts| counts.collect().unwrap());
            let listing = session(&mut ruleset, "list ruleset");
            let first = |counts: &str| counts.split(' ').next().unwrap().parse().unwrap();
            let after: Vec<u64> = counted(&listing).into_iter().map(first).collect();
            let is = |name: &str| states.iter().position(|state| *state == name).unwrap();
            let mut wanted = before.clone();
            wanted[is(state)] += 1;
            assert_eq!(after, wanted, "{at:?}: {about}");
            before = after;
        }
    }
}

#[test]
fn what_came_over_loopback_has_its_connection_at_tcx() {
    if !namespaces::can(&["ip", "nft", "ping"]) {
        return;
    }
    let lab = Lab::new("lo");
    let rules = rules()[0].replace("icmp type { 3, 11 }", "meta l4proto icmp")
        + "meta l4proto icmp ct direction original counter\n meta l4proto icmp ct direction reply counter\n\
           meta l4proto icmp ct original ip daddr 127.0.0.1 counter\n meta l4proto icmp ct status confirmed counter\n";
    let kernel = format!(
        "table inet t {{
           chain raw {{ type filter hook output priority -300; udp dport 9 notrack; }}
           chain pre {{ type filter hook prerouting priority -150; policy accept;\n{rules} }}
         }}"
    );
    let mut ruleset = at_ingress(&rules);
    let states = SharedStates::new().unwrap();
    lab.nft("-f -", &kernel);
    let at = At(AttachPoint::Tcx, Mode::Any);
    let (links, mut counters) = lab.attach(&ruleset, at, &states, &[("lo", 0)]);
    run(&format!("ip netns exec {} ping -q -c 3 -i 0.05 127.0.0.1", lab.all.name("r")), "");
    lab.all.inside("r", || {
        use std::net::{TcpListener, TcpStream, UdpSocket};
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffer = [0; 9];
        for _ in 0..3 {
            client.send_to(b"x", server.local_addr().unwrap()).unwrap();
            let (_, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(b"y", from).unwrap();
            client.recv_from(&mut buffer).unwrap();
        }
        // Not tracked; an error comes back.
        client.send_to(b"x", "127.0.0.1:9").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop((stream, listener.accept().unwrap()));
    });
    drop(links);
    counters.iter_mut().for_each(|counts| counts.collect().unwrap());
    let kernel = lab.nft("list chain inet t pre", "");
    let own = session(&mut ruleset, "list ruleset");
    let (wanted, found) = (counted(&kernel), counted(&own));
    assert_eq!(wanted, found, "{rules}");
    assert!(found.iter().filter(|counts| !counts.starts_with("0 ")).count() > 8, "{own}");
}

#[test]
fn many_rules_may_ask_for_the_connection() {
    if !namespaces::can(&["ip"]) {
        return;
    }
    let rules: String = (0..2000)
        .map(|n| {
            let state = ["new", "established,related", "invalid"][n % 3];
            format!("udp dport {} ct state {state} ct mark {} counter accept\n", 1000 + n, n % 7)
        })
        .collect();
    let lab = Lab::new("many");
    let mut ruleset = at_ingress(&rules);
    let shared = SharedStates::new().unwrap();
    for at in [PLACES[0], PLACES[2]] {
        let (links, mut counters) = lab.attach(&ruleset, at, &shared, &[("r0", 0xf0)]);
        lab.send(0, &framed(0, false, &over_ip(false, 0, 1, Udp::new(7, 2365) / payload([7; 4]))));
        drop(links);
        counters.iter_mut().for_each(|counts| counts.collect().unwrap());
        let listing = session(&mut ruleset, "list ruleset");
        let counted: Vec<_> = listing.lines().filter(|l| !l.contains("packets 0 ")).collect();
        let line = counted.iter().find(|line| line.contains("packets")).unwrap();
        assert!(line.contains("udp dport 2365 ct state new"), "{line}");
    }
}
