// SPDX-License-Identifier: Apache-2.0

//! The cases of the kernel's own test of flowtables
//! (`tools/testing/selftests/net/netfilter/nft_flowtable.sh`): a connection through two routers
//! carries data both ways, and the first router's flowtable has part in it.
//!
//! ```text
//! A (MTU 9000) --- veth0 r1 veth1 --- MTU 1500 --- veth0 r2 veth1 --- B (MTU 2000)
//! ```

mod router;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_dataplane::{Dataplane, Frame};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::{Frame as Layers, *};
use penstock_wire::tcp::flag::{ACK, PSH, SYN};
use penstock_wire::{ipv4, ipv6, tcp};
use router::*;

/// Bytes that each end sends.
const FILE: usize = 40_000;

const R1: &str = "
link set lo up
link add veth0 address 02:00:00:00:00:11 mtu 9000 type veth
link add veth1 address 02:00:00:00:00:12 mtu 1500 type veth
link set veth0 up
link set veth1 up
addr add 198.18.10.1/24 dev veth1
addr add 2001:db8:a::1/64 dev veth1 nodad
neigh add 198.18.10.2 lladdr 02:00:00:00:00:21 dev veth1
neigh add 2001:db8:a::2 lladdr 02:00:00:00:00:21 dev veth1
";

/// The side of A, on a device.
const NEAR: &str = "
addr add 198.18.1.1/24 dev DEV
addr add 2001:db8:1::1/64 dev DEV nodad
neigh add 198.18.1.99 lladdr 02:00:00:00:00:91 dev DEV
neigh add 2001:db8:1::99 lladdr 02:00:00:00:00:91 dev DEV
";

const R2: &str = "
link set lo up
link add veth0 address 02:00:00:00:00:21 mtu 1500 type veth
link add veth1 address 02:00:00:00:00:22 mtu 2000 type veth
link set veth0 up
link set veth1 up
addr add 198.18.10.2/24 dev veth0
addr add 198.18.2.1/24 dev veth1
addr add 2001:db8:a::2/64 dev veth0 nodad
addr add 2001:db8:2::1/64 dev veth1 nodad
neigh add 198.18.10.1 lladdr 02:00:00:00:00:12 dev veth0
neigh add 2001:db8:a::1 lladdr 02:00:00:00:00:12 dev veth0
neigh add 198.18.2.99 lladdr 02:00:00:00:00:92 dev veth1
neigh add 2001:db8:2::99 lladdr 02:00:00:00:00:92 dev veth1
";

const ROUTES: [&str; 2] = [
    "route add default via 198.18.10.2\nroute add default via 2001:db8:a::2\n",
    "route add default via 198.18.10.1\nroute add default via 2001:db8:a::1\n",
];

const NAT: &str = "table ip nat {
    chain prerouting {
        type nat hook prerouting priority 0
        ip daddr 198.19.6.6 tcp dport 1666 counter dnat ip to 198.18.2.99:12345
    }
    chain postrouting {
        type nat hook postrouting priority 0
        oifname { veth1, \"tun*\" } counter masquerade
    }
}";

/// What differs from one case to another.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Lines about both routers.
    nets: [&'static str; 2],
    /// Device on the side of A that has the addresses.
    near: &'static str,
    routes: [&'static str; 2],
    /// Additional rules.
    rules: &'static str,
    v6: bool,
    /// Ends find out how long packets may be, instead of leaving it to routers to cut them.
    pmtu: bool,
    /// A is in this VLAN.
    vlan: Option<u16>,
    /// The address and port that A speaks to is translated.
    forwarded: bool,
}

const PLAIN: Case = Case {
    name: "forwarding",
    nets: ["", ""],
    near: "veth0",
    routes: ROUTES,
    rules: "",
    v6: false,
    pmtu: false,
    vlan: None,
    forwarded: false,
};

const IPIP: [&str; 2] = [
    "link add tun0 type ipip local 198.18.10.1 remote 198.18.10.2\nlink set tun0 up\n\
     link add tun6 type ip6tnl local 2001:db8:a::1 remote 2001:db8:a::2\nlink set tun6 up\n\
     addr add 198.18.100.1/24 dev tun0\n",
    "link add tun0 type ipip local 198.18.10.2 remote 198.18.10.1\nlink set tun0 up\n\
     link add tun6 type ip6tnl local 2001:db8:a::2 remote 2001:db8:a::1\nlink set tun6 up\n\
     addr add 198.18.100.2/24 dev tun0\n",
];
const IPIP_ROUTES: [&str; 2] = [
    "route add default dev tun0\nroute add 2001:db8:2::/64 dev tun6\n",
    "route add default dev tun0\nroute add 2001:db8:1::/64 dev tun6\n",
];
const VLAN_IPIP: [&str; 2] = [
    "link add link veth1 name veth1.10 type vlan id 10\nlink set veth1.10 up\n\
     addr add 198.18.20.1/24 dev veth1.10\naddr add 2001:db8:b::1/64 dev veth1.10 nodad\n\
     neigh add 198.18.20.2 lladdr 02:00:00:00:00:21 dev veth1.10\nneigh add 2001:db8:b::2 lladdr 02:00:00:00:00:21 dev veth1.10\n\
     link add tun0 type ipip local 198.18.20.1 remote 198.18.20.2\nlink set tun0 up\n\
     link add tun6 type ip6tnl local 2001:db8:b::1 remote 2001:db8:b::2\nlink set tun6 up\naddr add 198.18.100.1/24 dev tun0\n",
    "link add link veth0 name veth0.10 type vlan id 10\nlink set veth0.10 up\n\
     addr add 198.18.20.2/24 dev veth0.10\naddr add 2001:db8:b::2/64 dev veth0.10 nodad\n\
     neigh add 198.18.20.1 lladdr 02:00:00:00:00:12 dev veth0.10\nneigh add 2001:db8:b::1 lladdr 02:00:00:00:00:12 dev veth0.10\n\
     link add tun0 type ipip local 198.18.20.2 remote 198.18.20.1\nlink set tun0 up\n\
     link add tun6 type ip6tnl local 2001:db8:b::2 remote 2001:db8:b::1\nlink set tun6 up\naddr add 198.18.100.2/24 dev tun0\n",
];
const BRIDGE: &str = "link add br0 address 02:00:00:00:00:11 type bridge mcast_snooping 0\nlink set veth0 master br0\nlink set br0 up\n";
const BRIDGE_VLAN: &str = "link add br0 address 02:00:00:00:00:11 type bridge mcast_snooping 0\n\
    link add link veth0 name veth0.10 type vlan id 10\nlink set veth0.10 up\nlink set veth0.10 master br0\nlink set br0 up\n";
const SET_DSCP: [&str; 2] = [
    "table netdev d { chain c { type filter hook ingress device veth0 priority 0; ip dscp set cs3; }; }",
    "table netdev d { chain c { type filter hook egress device veth1 priority 0; ip dscp set cs3; }; }",
];

/// ESP between the routers, and policies for both families.
fn ipsec(router: usize) -> String {
    let keys = "enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f auth hmac(sha1) 0x000102030405060708090a0b0c0d0e0f10111213";
    let [one, two] = ["198.18.10.1", "198.18.10.2"];
    let mut out = format!(
        "xfrm state add src {one} dst {two} proto esp spi 0x11 reqid 1 mode tunnel flag af-unspec {keys}\n\
         xfrm state add src {two} dst {one} proto esp spi 0x12 reqid 1 mode tunnel flag af-unspec {keys}\n"
    );
    for nets in [["198.18.1.0/24", "198.18.2.0/24"], ["2001:db8:1::/64", "2001:db8:2::/64"]] {
        let (me, other) = (router, 1 - router);
        let ends = [one, two];
        out += &format!(
            "xfrm policy add src {} dst {} dir out tmpl src {} dst {} proto esp reqid 1 mode tunnel\n\
             xfrm policy add src {} dst {} dir fwd tmpl src {} dst {} proto esp reqid 1 mode tunnel\n",
            nets[me],
            nets[other],
            ends[me],
            ends[other],
            nets[other],
            nets[me],
            ends[other],
            ends[me]
        );
    }
    out
}

/// The rules of the first router, with a flowtable at a hook.
fn rules(hook: &str, more: &str) -> String {
    format!(
        "table inet filter {{
            flowtable f1 {{ hook {hook} priority 0; devices = {{ veth0, veth1 }}; }}
            counter routed_orig {{ }}
            counter routed_repl {{ }}
            chain forward {{
                type filter hook forward priority 0; policy drop
                oifname {{ veth1, \"tun*\" }} tcp dport 12345 ct mark set 1 flow add @f1 counter name routed_orig accept
                ct mark 1 counter name ct direction map {{ original : routed_orig, reply : routed_repl }} accept
                ct state established,related accept
                meta nfproto ipv4 meta l4proto 1 accept
                meta nfproto ipv6 meta l4proto 58 accept
            }}
        }}
        {more}"
    )
}

fn set_rules(path: &mut Dataplane, text: &str) {
    let mut ruleset = Ruleset::default();
    let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
        Origin::CommandLine,
        text.to_owned(),
        &mut ruleset,
        0,
    );
    assert!(outcome.ok, "{}\n{text}", outcome.stderr);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap_or_else(|e| panic!("{e}"))));
}

/// Fragments of a packet by their places: whether more follow, and their bytes.
type Pieces = BTreeMap<usize, (bool, Vec<u8>)>;

/// One end of the connection.
struct Host {
    mac: [&'static str; 2],
    own: IpAddr,
    other: IpAddr,
    ports: [u16; 2],
    vlan: Option<u16>,
    df: bool,
    /// Longest packet.
    mtu: usize,
    /// What it has received from the beginning on, and pieces that came before what is missing.
    received: Vec<u8>,
    early: BTreeMap<usize, Vec<u8>>,
    /// How far the other end has it.
    acked: usize,
    fragments: BTreeMap<Vec<u8>, Pieces>,
    classes: Vec<u8>,
    id: u16,
}

impl Host {
    fn data(&self) -> Vec<u8> {
        (0..FILE).map(|n| (n * 7 + n / 251) as u8 ^ self.mac[0].as_bytes()[16]).collect()
    }

    fn frame(&mut self, flags: u8, seq: usize, ack: usize, data: &[u8]) -> Vec<u8> {
        self.id += 1;
        let tcp = Tcp::new(self.ports[0], self.ports[1]).seq(seq as u32);
        let tcp = if flags & ACK != 0 { tcp.ack(ack as u32) } else { tcp };
        let tcp = tcp.flags(flags);
        let link = Ethernet::new(self.mac[0], self.mac[1]);
        let link: Layers = match self.vlan {
            Some(id) => link / Vlan::new(id),
            None => link.into(),
        };
        match (self.own, self.other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let ip = Ipv4::new(own, other).id(self.id);
                (link / if self.df { ip.df() } else { ip } / tcp / payload(data)).build()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (link / Ipv6::new(own, other) / tcp / payload(data)).build()
            }
            _ => panic!("two families"),
        }
    }

    /// What it has to send at present: as much as a window takes.
    fn speaks(&mut self) -> Vec<Vec<u8>> {
        let data = self.data();
        let room = self.mtu - 20 - if self.own.is_ipv6() { 40 } else { 20 };
        let ack = 1 + self.received.len();
        let mut frames = vec![self.frame(ACK, 1 + self.acked, ack, b"")];
        let window = &data[self.acked..(self.acked + 16_000).min(FILE)];
        for (n, piece) in window.chunks(room).enumerate() {
            frames.push(self.frame(ACK | PSH, 1 + self.acked + n * room, ack, piece));
        }
        frames
    }

    fn hears(&mut self, frame: &[u8]) {
        let at = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
        assert_eq!(at == 18, self.vlan.is_some());
        let bytes = &frame[at..];
        if bytes[0] >> 4 == 6 {
            let h = ipv6::Header::new(bytes).unwrap();
            let len = usize::from(h.payload_len());
            return self.transport(bytes[6], &bytes[40..40 + len]);
        }
        let h = ipv4::Header::new(bytes).unwrap();
        let data = &bytes[20..usize::from(h.total_len())];
        if !h.is_fragment() {
            self.classes.push(h.tos());
            return self.transport(bytes[9], data);
        }
        let (offset, more) = (usize::from(h.frag() & 0x1fff) * 8, h.frag() & 0x2000 != 0);
        let key = [&bytes[4..6], &bytes[12..20]].concat();
        let pieces = self.fragments.entry(key.clone()).or_default();
        pieces.insert(offset, (more, data.to_vec()));
        let mut whole = Vec::new();
        for (&offset, (more, piece)) in &*pieces {
            if offset != whole.len() {
                return;
            }
            whole.extend_from_slice(piece);
            if !more {
                self.fragments.remove(&key);
                return self.transport(6, &whole);
            }
        }
    }

    fn transport(&mut self, protocol: u8, bytes: &[u8]) {
        match protocol {
            6 => {
                let h = tcp::Header::new(bytes).unwrap();
                let data = &bytes[h.header_len()..];
                if h.flags() & SYN != 0 {
                    return;
                }
                self.acked = self.acked.max(h.ack_seq() as usize - 1);
                self.early.insert(h.seq() as usize - 1, data.to_vec());
                while let Some((&at, _)) =
                    self.early.first_key_value().filter(|(at, _)| **at <= self.received.len())
                {
                    let piece = self.early.remove(&at).unwrap();
                    let new = self.received.len() - at;
                    self.received.extend_from_slice(piece.get(new..).unwrap_or_default());
                }
            }
            // The packet was too long.
            1 if bytes[0] == 3 && bytes[1] == 4 => {
                self.mtu = u16::from_be_bytes([bytes[6], bytes[7]]).into()
            }
            58 if bytes[0] == 2 => {
                self.mtu = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize
            }
            _ => panic!("protocol {protocol}: {bytes:02x?}"),
        }
    }
}

/// Frames of an end go through both routers; what reaches which end.
fn pass(
    routers: &mut [Dataplane; 2],
    from: usize,
    frames: Vec<Vec<u8>>,
    time: u64,
) -> Vec<(usize, Vec<u8>)> {
    let mut arrived = Vec::new();
    let mut on_way = vec![(from, if from == 0 { "veth0" } else { "veth1" }, frames)];
    while let Some((n, device, frames)) = on_way.pop() {
        let mut seen = Seen::default();
        let index = routers[n].network().link_by_name(device).unwrap().index;
        routers[n]
            .receive(frames.iter().map(|bytes| Frame { device: index, bytes, time }), &mut seen);
        // Packets may be too long for a device, or for a tunnel of IPsec.
        let too_long = ["MTU", "too big", "XfrmOutStateModeError"];
        let mut drops = seen.lines.iter().filter(|line| line.starts_with("drop"));
        let as_wanted = drops.all(|line| too_long.iter().any(|why| line.contains(why)));
        assert!(as_wanted, "{:?}", seen.lines);
        let (mut out, mut on) = (Vec::new(), Vec::new());
        for (device, frame) in seen.frames {
            match (n, &*device) {
                (0, "veth0") | (1, "veth1") => out.push((n, frame)),
                _ => on.push(frame),
            }
        }
        arrived.extend(out);
        if !on.is_empty() {
            on_way.push((1 - n, if n == 0 { "veth0" } else { "veth1" }, on));
        }
    }
    arrived
}

/// A connection with data both ways; returns the routers, and the TOS that B has seen.
fn transfer(case: &Case, hook: &str) -> (Dataplane, Vec<u8>) {
    let protected = case.name.contains("ipsec");
    let net = |n: usize| {
        let (base, near) =
            if n == 0 { (R1, NEAR.replace("DEV", case.near)) } else { (R2, String::new()) };
        let ipsec = if protected { ipsec(n) } else { String::new() };
        format!("{base}{}{near}{}{ipsec}", case.nets[n], case.routes[n])
    };
    let mut routers = [router(&net(0)), router(&net(1))];
    set_rules(&mut routers[0], &rules(hook, case.rules));
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let [a, b] =
        if case.v6 { ["2001:db8:1::99", "2001:db8:2::99"] } else { ["198.18.1.99", "198.18.2.99"] };
    let (to, port) = if case.forwarded { ("198.19.6.6", 1666) } else { (b, 12345) };
    let host = |mac, own, other, ports, mtu, vlan| Host {
        mac,
        own: address(own),
        other: address(other),
        ports,
        vlan,
        df: case.pmtu,
        mtu,
        received: vec![],
        early: BTreeMap::new(),
        acked: 0,
        fragments: BTreeMap::new(),
        classes: vec![],
        id: 0,
    };
    let mut hosts = [
        host(["02:00:00:00:00:91", "02:00:00:00:00:11"], a, to, [40000, port], 9000, case.vlan),
        host(["02:00:00:00:00:92", "02:00:00:00:00:22"], b, a, [12345, 40000], 2000, None),
    ];
    let mut time = START;
    let mut send = |hosts: &mut [Host; 2], from: usize, frames: Vec<Vec<u8>>| {
        time += SECOND / 1000;
        let arrived = pass(&mut routers, from, frames, time);
        arrived.into_iter().for_each(|(to, frame)| hosts[to].hears(&frame));
    };
    let syn = hosts[0].frame(SYN, 0, 0, b"");
    if !case.rules.is_empty() && case.rules.contains("masquerade") {
        hosts[1].other = address("198.18.10.1");
        if case.nets[0].contains("tun0") {
            hosts[1].other = address("198.18.100.1");
        }
    }
    send(&mut hosts, 0, vec![syn]);
    let answer = hosts[1].frame(SYN | ACK, 0, 1, b"");
    send(&mut hosts, 1, vec![answer]);
    for round in 0..200 {
        for n in 0..2 {
            let frames = hosts[n].speaks();
            send(&mut hosts, n, frames);
        }
        if hosts.iter().all(|host| host.received.len() == FILE) {
            for n in 0..2 {
                assert!(
                    hosts[n].received == hosts[1 - n].data(),
                    "{} {hook}: other data",
                    case.name
                );
            }
            let [_, b] = hosts;
            let [one, _] = routers;
            return (one, b.classes);
        }
        assert!(
            round < 199,
            "{} {hook}: {:?}",
            case.name,
            hosts.map(|h| (h.received.len(), h.acked, h.mtu))
        );
    }
    unreachable!()
}

#[test]
fn connections_transfer_data_and_are_offloaded() {
    let nat = Case { rules: NAT, ..PLAIN };
    let mut cases = vec![PLAIN, Case { name: "forwarding, IPv6", v6: true, pmtu: true, ..PLAIN }];
    for (name, nets, near, routes, vlan) in [
        ("", ["", ""], "veth0", ROUTES, None),
        (", IPIP tunnel", IPIP, "veth0", IPIP_ROUTES, None),
        (", IPIP tunnel over vlan", VLAN_IPIP, "veth0", IPIP_ROUTES, None),
        (", on bridge", [BRIDGE, ""], "br0", ROUTES, None),
        (", bridge and VLAN", [BRIDGE_VLAN, ""], "br0", ROUTES, Some(10)),
    ] {
        let around = Case { nets, near, routes, vlan, ..nat };
        for pmtu in [false, true].into_iter().filter(|pmtu| *pmtu || name.is_empty()) {
            let names = [("masquerade", false), ("dnat", true)];
            cases.extend(names.map(|(what, forwarded)| Case {
                name: format!("{what}{name}{}", if pmtu { ", pmtu" } else { "" }).leak(),
                pmtu,
                forwarded,
                ..around
            }));
        }
        if name.contains("IPIP") {
            let name = format!("IP6IP6{name}").leak();
            cases.push(Case { name, v6: true, pmtu: true, rules: "", ..around });
        }
    }
    cases.extend([
        Case { name: "ipsec tunnel mode", pmtu: true, ..PLAIN },
        Case { name: "ipsec tunnel mode, IPv6", pmtu: true, v6: true, ..PLAIN },
    ]);
    for case in &cases {
        for hook in ["ingress", "early_ingress"] {
            let (path, _) = transfer(case, hook);
            let counts = path.flow_counts();
            assert!(counts.added >= 1 && counts.torn_down == 0, "{} {hook}: {counts:?}", case.name);
            // Without finding out about MTUs only what is short can leave the rules.
            let least = if case.pmtu { 40 } else { 5 };
            assert!(counts.packets >= least, "{} {hook}: {counts:?}", case.name);
        }
    }
}

#[test]
fn rules_at_devices_see_flows_and_those_of_forward_only_what_comes_before() {
    const CS3: u8 = 24 << 2;
    for pmtu in [false, true] {
        // Early ingress is before the rules of its device.
        for hook in ["ingress", "early_ingress"] {
            let seen = |rules: &str| {
                let all = format!("{NAT}\n{rules}").leak();
                let (_, classes) = transfer(&Case { rules: all, pmtu, ..PLAIN }, hook);
                [0, CS3].map(|class| classes.contains(&class))
            };
            assert_eq!(seen(""), [true, false], "{hook}");
            if hook == "ingress" {
                assert_eq!(seen(SET_DSCP[0]), [false, true], "{hook}");
            }
            assert_eq!(seen(SET_DSCP[1]), [false, true], "{hook}");
            let forward = "table ip d { chain c { type filter hook forward priority -1; ip dscp set cs3; }; }";
            assert_eq!(seen(forward), [true, true], "{hook}");
        }
    }
}
