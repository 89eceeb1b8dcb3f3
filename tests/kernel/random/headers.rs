// SPDX-License-Identifier: Apache-2.0

//! Scenarios of headers by chance: options and extension headers in any order and number, lengths
//! that lie, headers that are cut off, tags and sessions around them, and rules that ask for all of
//! it, by name and by raw bytes.

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, ethernet};
use crate::net::{CLIENT, DMZ, GATEWAY, LAN, NET, SERVER, WAN};
use crate::scenario::Scenario;
use crate::sift::sift;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut g = Generator(Rng::with_seed(seed));
    let rules = sift(g.ruleset());
    let mut s = Scenario::new(&format!("random_headers_{seed}"), NET, &rules).at_once();
    for _ in 0..g.0.usize(40..100) {
        s.frames.push(g.frame());
    }
    s
}

/// Fields of headers that packets here have, and some of their values.
const FIELDS: &[(&str, &[u64])] = &[
    ("ip hdrlength", &[4, 5, 6, 7, 15]),
    ("ip version", &[4, 5, 6]),
    ("ip length", &[0, 19, 20, 28, 60, 65535]),
    ("ip frag-off", &[0, 1, 0x2000, 0x4000, 0x8000]),
    ("ip protocol", &[0, 6, 17, 50, 51, 255]),
    ("ip6 length", &[0, 8, 16, 40]),
    ("ip6 nexthdr", &[0, 6, 17, 43, 44, 51, 58, 59, 60, 135]),
    ("ip6 flowlabel", &[0, 0x12345]),
    ("ip6 version", &[4, 6, 7]),
    ("hbh nexthdr", &[0, 6, 17, 43, 44, 58, 60]),
    ("hbh hdrlength", &[0, 1, 2, 255]),
    ("dst nexthdr", &[6, 17, 43, 44, 51, 60]),
    ("dst hdrlength", &[0, 1, 2, 255]),
    ("rt nexthdr", &[6, 17, 44, 60]),
    ("rt hdrlength", &[0, 2, 4]),
    ("rt type", &[0, 2, 3, 4]),
    ("rt seg-left", &[0, 1, 2]),
    ("srh last-entry", &[0, 1]),
    ("srh flags", &[0, 8]),
    ("srh tag", &[0, 0x1234]),
    ("frag nexthdr", &[6, 17, 58, 60]),
    ("frag reserved", &[0, 7]),
    ("frag frag-off", &[0, 1, 2, 8191]),
    ("frag reserved2", &[0, 2]),
    ("frag more-fragments", &[0, 1]),
    ("frag id", &[1, 2, 3, 0xabcd]),
    ("mh nexthdr", &[59, 6]),
    ("mh type", &[0, 5, 6]),
    ("mh checksum", &[0, 0x0100]),
    ("ah hdrlength", &[4, 1]),
    ("ah spi", &[0x200, 1]),
    ("ah sequence", &[6, 0]),
    ("esp spi", &[0x100, 5]),
    ("esp sequence", &[5, 6]),
    ("comp cpi", &[3, 5]),
    ("ip option rr type", &[7]),
    ("ip option rr length", &[3, 7, 11, 39]),
    ("ip option rr ptr", &[3, 4, 8]),
    ("ip option rr addr", &[0, 0x0102_0304]),
    ("ip option lsrr ptr", &[4, 8]),
    ("ip option ssrr length", &[7, 3]),
    ("ip option ra value", &[0, 1]),
    ("ip option ra length", &[4, 5]),
    ("tcp option maxseg length", &[4, 2, 0]),
    ("tcp option maxseg size", &[500, 1400, 1460]),
    ("tcp option window count", &[3, 7, 14]),
    ("tcp option window length", &[3, 4]),
    ("tcp option sack-perm length", &[2, 3]),
    ("tcp option sack length", &[10, 18, 34]),
    ("tcp option sack left", &[1, 3]),
    ("tcp option sack1 right", &[4, 2]),
    ("tcp option sack3 left", &[7, 8]),
    ("tcp option timestamp tsval", &[9, 0x01020304]),
    ("tcp option timestamp tsecr", &[0, 5]),
    ("tcp option timestamp length", &[10, 9]),
    ("tcp option fastopen length", &[2, 10]),
    ("tcp option md5sig length", &[18, 2]),
    ("tcp option mptcp subtype", &[0, 1, 2]),
    ("tcp option @30,16,4", &[0, 1, 2]),
    ("tcp option @253,16,16", &[0x0102, 7]),
    ("tcp option @8,48,32", &[0, 5]),
    ("tcp doff", &[0, 4, 5, 6, 10, 15]),
    ("tcp flags", &[0, 2, 0x10, 0x12, 0xff]),
    ("tcp reserved", &[0, 1]),
    ("tcp checksum", &[0, 1]),
    ("tcp urgptr", &[0, 9]),
    ("udp length", &[0, 7, 8, 9, 20, 65535]),
    ("udp checksum", &[0, 1]),
    ("udplite csumcov", &[0, 4, 8, 12]),
    ("udplite dport", &[53, 80]),
    ("sctp vtag", &[0, 7]),
    ("sctp dport", &[53, 80]),
    ("sctp chunk data flags", &[0, 3]),
    ("sctp chunk data length", &[16, 17, 20]),
    ("sctp chunk data stream", &[0, 5]),
    ("sctp chunk init num-inbound-streams", &[10, 1]),
    ("sctp chunk sack cum-tsn-ack", &[0x55, 1]),
    ("dccp dport", &[53, 80]),
    ("dccp type", &[0, 1, 2, 4]),
    ("icmp type", &[0, 3, 5, 8, 11, 12]),
    ("icmp code", &[0, 1, 4, 9]),
    ("icmp id", &[0, 1, 0x1234]),
    ("icmp sequence", &[0, 1, 5]),
    ("icmp mtu", &[0, 1280, 1400]),
    ("icmpv6 type", &[1, 2, 3, 4, 128, 135]),
    ("icmpv6 code", &[0, 1, 4]),
    ("icmpv6 mtu", &[0, 1280]),
    ("icmpv6 id", &[0, 0x1234]),
    ("igmp type", &[0x11, 0x16]),
    ("igmp mrt", &[0, 5]),
    ("th sport", &[53, 80, 443, 1]),
    ("th dport", &[53, 80, 443, 1]),
    ("meta l4proto", &[0, 1, 6, 17, 44, 50, 51, 58, 59, 60, 132, 255]),
    ("meta length", &[20, 28, 40, 48, 60, 100]),
    ("meta pkttype", &[0, 1, 2, 3]),
];

/// What is there or not.
const PRESENT: &[&str] = &[
    "exthdr hbh",
    "exthdr dst",
    "exthdr rt",
    "exthdr frag",
    "exthdr mh",
    "ip option rr",
    "ip option lsrr",
    "ip option ssrr",
    "ip option ra",
    "tcp option eol",
    "tcp option nop",
    "tcp option maxseg",
    "tcp option window",
    "tcp option sack-perm",
    "tcp option sack",
    "tcp option timestamp",
    "tcp option fastopen",
    "tcp option md5sig",
    "tcp option mptcp",
    "tcp option 253",
    "sctp chunk data",
    "sctp chunk init",
    "sctp chunk init-ack",
    "sctp chunk sack",
    "sctp chunk heartbeat",
    "sctp chunk abort",
    "sctp chunk error",
    "sctp chunk shutdown",
    "sctp chunk cookie-echo",
    "sctp chunk asconf",
];

/// What changes a packet.
const CHANGES: &[&str] = &[
    "tcp option maxseg size set 900",
    "tcp option maxseg size set 65535",
    "tcp option timestamp tsval set 77",
    "tcp option sack-perm exists counter reset tcp option sack-perm",
    "reset tcp option timestamp",
    "reset tcp option 253",
    "reset tcp option maxseg",
    "tcp flags set 16",
    "tcp dport set 99",
    "udp dport set 99",
    "udp sport set 98",
    "udplite dport set 97",
    "sctp dport set 96",
    "dccp sport set 95",
    "icmp code set 3",
    "icmp sequence set 9",
    "icmpv6 code set 1",
    "ip ttl set 7",
    "ip dscp set cs1",
    "ip ecn set ce",
    "ip6 hoplimit set 7",
    "ip6 dscp set ef",
    "ip6 flowlabel set 9",
    "ip6 ecn set ect0",
    "ip id set 7",
    "@th,0,16 set 0x1234",
    "@th,16,8 set 9",
    "@nh,8,8 set 4",
    "@ih,0,8 set 1",
    "@ll,0,8 set 2",
    "meta mark set 3",
];

const PORTS: [u16; 4] = [1, 53, 80, 443];

struct Generator(Rng);

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.0
    }
}

impl Generator {
    // ---- rules ----

    fn ruleset(&mut self) -> String {
        let ingress = self.chain("netdev", "ingress device lan", 6..20);
        let egress = self.chain("netdev", "egress device wan", 2..8);
        let mut text = format!("table netdev n {{\n{ingress}{egress}}}\ntable inet i {{\n");
        for hook in ["prerouting", "input", "forward", "postrouting"] {
            if self.one_in(2) {
                text += &self.chain("inet", hook, 3..14);
            }
        }
        text + "}\n"
    }

    fn chain(&mut self, family: &str, hook: &str, count: std::ops::Range<usize>) -> String {
        let name = hook.split(' ').next().unwrap_or_default();
        let own = matches!(name, "egress" | "postrouting");
        let mut text = format!("\tchain {name} {{\n\t\ttype filter hook {hook} priority -10;\n");
        for _ in 0..self.0.usize(count) {
            text += &format!("\t\t{}\n", self.rule(family, own));
        }
        text + "\t}\n"
    }

    /// `own` says that packets of the host's own come by, too: what is chance in them is not asked
    /// for or made.
    fn rule(&mut self, family: &str, own: bool) -> String {
        let mut rule = match self.0.u8(..10) {
            0..5 => self.field(),
            5..7 => format!("{} {}", self.pick(PRESENT), self.pick(&["exists", "missing"])),
            _ => self.raw(own),
        };
        if family == "netdev" && self.one_in(8) {
            rule = self
                .pick(&[
                    "ether type vlan vlan id 10",
                    "vlan id 10 vlan pcp 3",
                    "vlan dei 1",
                    "ether type 8021ad",
                    "ether type 0x8864",
                    "vlan type ip",
                    "meta protocol vlan",
                    "meta protocol { ip, 0x8864 }",
                    "ether type 8021ad vlan id 5 vlan type 8021q",
                ])
                .into();
        }
        rule += " counter";
        if self.one_in(6) && !own {
            rule = format!("{} counter", self.pick(CHANGES));
        }
        if self.one_in(14) {
            rule += self.pick(&[" drop", " accept"]);
        }
        rule
    }

    fn field(&mut self) -> String {
        let (name, values) = self.pick(FIELDS);
        let v = self.pick(values);
        match self.0.u8(..8) {
            0 => format!("{name} != {v}"),
            1 => format!("{name} {} {v}", self.pick(&["<", ">", "<=", ">="])),
            2 => {
                let mut several = values.to_vec();
                several.truncate(3);
                let several: Vec<_> = several.iter().map(u64::to_string).collect();
                format!("{name} {}{{ {} }}", self.pick(&["", "!= "]), several.join(", "))
            }
            3 => {
                let (low, high) =
                    (*values.iter().min().unwrap_or(&0), *values.iter().max().unwrap_or(&1));
                if low < high { format!("{name} {low}-{high}") } else { format!("{name} {v}") }
            }
            _ => format!("{name} {v}"),
        }
    }

    /// Raw bits anywhere, also across bytes and beyond the end.
    fn raw(&mut self, own: bool) -> String {
        let base = self.pick(&["ll", "nh", "nh", "th", "th", "th", "ih", "ih"]);
        let most = if self.one_in(5) { 1000 } else { 200 };
        let (at, len) = if self.one_in(3) {
            (self.0.u32(..most), self.0.u32(1..33))
        } else {
            (self.0.u32(..most / 8) * 8, self.pick(&[8, 16, 32, 64]))
        };
        // The identification, and the checksum over it.
        let base = if own && (base == "ll" || base == "nh" && at < 12 * 8) { "th" } else { base };
        let full = if len == 64 { u64::MAX } else { (1 << len) - 1 };
        let v = self.pick(&[0, 0, 1, 0x35, 0x50, full, full / 2]).min(full);
        // What is compared by size has whole bytes.
        let whole = len % 8 == 0 && at % 8 == 0;
        match self.0.u8(..6) {
            0 => format!("@{base},{at},{len} != {v}"),
            1 if whole && v > 0 && v < full => {
                format!("@{base},{at},{len} {} {v}", self.pick(&["<", ">", "<=", ">="]))
            }
            2 if whole => {
                let mask = self.pick(&[1, 0xf, 0xf0, 0x80]);
                format!("@{base},{at},{len} & {mask} {} 0", self.pick(&["==", "!="]))
            }
            _ => format!("@{base},{at},{len} {v}"),
        }
    }

    // ---- packets ----

    fn frame(&mut self) -> (String, Vec<u8>) {
        let device = self.pick(&["lan", "lan", "lan", "dmz"]);
        let (to, from): (Mac, Mac) = match device {
            "lan" => (LAN, CLIENT),
            _ => (DMZ, SERVER),
        };
        let to = if self.one_in(20) { self.pick(&[[0xff; 6], WAN, GATEWAY]) } else { to };
        let mut f = ethernet(to, from);
        if device == "lan" && self.one_in(6) {
            f = match self.0.u8(..4) {
                0 => f.vlan(self.pick(&[10, 0x600a, 0x100a, 0])),
                1 => f.tag(0x88a8, 5).tag(0x8100, 10),
                2 => f.tag(0x8100, 10).tag(0x8100, 0x6005),
                _ => f.tag(0x88a8, 0x1005),
            };
        }
        if device == "lan" && self.one_in(20) {
            // PPPoE: version and type, code, session, length, and the protocol of PPP.
            let inner = self.packet(crate::frame::bare(), "lan").bytes();
            let kind: [u8; 2] = if inner[0] >> 4 == 6 { [0, 0x57] } else { [0, 0x21] };
            let len = (inner.len() as u16 + 2).to_be_bytes();
            let session = [&[0x11, 0, 0, 7], &len[..], &kind, &inner].concat();
            return (device.into(), f.ethertype(0x8864).data(&session).bytes());
        }
        let f = self.packet(f, device);
        let mut bytes = f.bytes();
        if self.one_in(8) {
            bytes.truncate(self.0.usize(14..=bytes.len()));
        }
        (device.into(), bytes)
    }

    fn packet(&mut self, f: Frame, device: &str) -> Frame {
        let six = self.one_in(2);
        let own = self.one_in(8);
        let f = if six { self.ip6(f, device, own) } else { self.ip4(f, device, own) };
        self.upper(f, six)
    }

    fn ip4(&mut self, f: Frame, device: &str, own: bool) -> Frame {
        let source = if device == "lan" { "198.18.0.10" } else { "198.18.5.20" };
        let mut f = f.ip4(source, if own { "198.19.0.1" } else { "198.19.0.2" });
        if self.one_in(3) {
            const OPTIONS: &[&[u8]] = &[
                &[0x94, 4, 0, 0],
                &[0x94, 4, 0, 1],
                &[0x94, 5, 0, 0, 0],
                &[0x94, 2],
                &[7, 7, 4, 0, 0, 0, 0],
                &[7, 7, 8, 1, 2, 3, 4],
                &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0],
                &[7, 7, 3, 0, 0, 0, 0],
                &[7, 3, 4],
                &[7, 39, 4],
                &[7, 7, 8, 1, 2, 3, 4, 7, 7, 4, 0, 0, 0, 0],
                &[0x83, 7, 8, 1, 2, 3, 4],
                &[0x83, 7, 4, 198, 19, 0, 3],
                &[0x89, 7, 4, 198, 19, 0, 3],
                &[0x89, 3, 4],
                &[0x44, 8, 9, 0x10, 0, 0, 0, 0],
                &[0x44, 8, 9, 0xf0, 0, 0, 0, 0],
                &[0x44, 3, 5],
                &[1, 1, 1, 1],
                &[1, 0x94, 4, 0, 0],
                &[0],
                &[0, 0x94, 4, 0, 0],
                &[0x82, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &[0x99, 4, 1, 2],
                &[0x99, 0],
                &[0x99, 1],
                &[0x99, 9],
                &[0x99],
                &[0x86, 6, 0, 0, 0, 1],
            ];
            f = f.ip_options(self.pick(OPTIONS));
        }
        match self.0.u8(..24) {
            0 => f.set(0, &[self.pick(&[0x44, 0x46, 0x4f, 0x40, 0x55, 0x65])]),
            1 => f.length(self.pick(&[0, 10, 19, 20, 21, 24, 28, 30, 40, 1000])),
            2 => f.ttl(self.pick(&[0, 1, 2, 255])),
            3 => f.patch(10, &[1, 2]),
            4 => f.set(6, &self.pick(&[[0x80, 0], [0xc0, 0], [0x60, 0], [0x20, 0]])),
            5 => f.fragment(self.pick(&[1, 2, 8190, 8191]), self.0.bool()).id(self.0.u16(1..4)),
            6 => f.df(),
            7 => f.tos(self.0.u8(..)),
            _ => f,
        }
    }

    fn ip6(&mut self, f: Frame, device: &str, own: bool) -> Frame {
        let source = if device == "lan" { "2001:db8:1::10" } else { "2001:db8:5::20" };
        let mut f = f.ip6(source, if own { "2001:db8:2::1" } else { "2001:db8:2::2" });
        f = match self.0.u8(..24) {
            0 => f.set(0, &[self.pick(&[0x40, 0x70, 0x6f])]),
            1 => f.length(self.pick(&[0, 4, 7, 8, 9, 16, 24, 1000])),
            2 => f.ttl(self.pick(&[0, 1, 2, 255])),
            3 => f.set(1, &[1, 0x23, 0x45]),
            _ => f,
        };
        if self.one_in(2) {
            for _ in 0..self.pick(&[1, 1, 1, 2, 2, 3, 5, 9]) {
                f = self.extension(f);
            }
        }
        f
    }

    fn extension(&mut self, f: Frame) -> Frame {
        const OPTIONS: &[&[u8]] = &[
            &[0; 6],
            &[1, 4, 0, 0, 0, 0],
            &[5, 2, 0, 0],
            &[5, 2, 0, 1, 0, 0],
            &[5, 3, 0, 0, 0],
            &[0xc2, 4, 0, 1, 0, 0],
            &[0xc2, 4, 0, 0, 0, 8],
            &[0x1e, 2, 0, 0],
            &[0x5e, 2, 0, 0],
            &[0x9e, 2, 0, 0],
            &[0xde, 2, 0, 0],
            &[0x1e, 9],
            &[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xc9, 16, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            &[0, 0, 0, 0, 0, 1],
            &[1, 4, 0, 0, 9, 0],
            &[4, 1, 0],
            &[0x31, 1, 0],
        ];
        const ROUTES: &[&[u8]] = &[
            &[0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
            &[2, 1, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
            &[3, 0, 0, 0, 0, 0],
            &[4, 0, 0, 8, 0x12, 0x34, 0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
            &[4, 1, 1, 0, 0, 0],
            &[9, 2, 0, 0, 0, 0],
        ];
        let f = match self.0.u8(..12) {
            0..3 => f.extension(0, self.pick(OPTIONS)),
            3..6 => f.extension(60, self.pick(OPTIONS)),
            6 | 7 => f.extension(43, self.pick(ROUTES)),
            8 => f.fragment6(0, false, self.0.u32(1..4)),
            9 => f.fragment6(self.pick(&[0, 1, 2, 8191]), self.0.bool(), self.0.u32(1..4)),
            10 => f.ah(0x200, 6),
            _ => f.extension(self.pick(&[135, 139, 140]), &[5, 0, 1, 0, 0, 0]),
        };
        match self.0.u8(..20) {
            0 => f.set(1, &[self.pick(&[0, 1, 2, 5, 255])]),
            1 => f.protocol(self.pick(&[0, 6, 17, 43, 44, 51, 59, 60, 255])),
            _ => f,
        }
    }

    fn upper(&mut self, f: Frame, six: bool) -> Frame {
        let (sport, dport) = (self.pick(&PORTS), self.pick(&PORTS));
        let len = self.0.usize(..40);
        let data: Vec<u8> = (0..len).map(|_| self.pick(&[0, 1, 2, 0x35, 0x50, 0xff])).collect();
        match self.0.u8(..16) {
            0..5 => self.tcp(f, sport, dport).data(&data),
            5..7 => {
                let f = f.udp(sport, dport);
                let f = match self.0.u8(..8) {
                    0 => f.length(self.pick(&[0, 7, 8, 9, 20, 65535])),
                    1 => f.patch(6, &[0, 0]),
                    _ => f,
                };
                f.data(&data)
            }
            7 => {
                let f = f.udplite(sport, dport);
                let f = if self.one_in(2) { f.length(self.pick(&[0, 4, 8, 12, 500])) } else { f };
                f.data(&data)
            }
            8 | 9 => self.sctp(f, sport, dport),
            10 => {
                let kind = self.pick(&[0, 1, 2, 4, 15]);
                let f = f.dccp((sport, dport), kind, 9, &[]);
                // Short sequence numbers.
                let f = if self.one_in(2) { f.set(8, &[kind << 1]) } else { f };
                f.data(&data)
            }
            11 | 12 => {
                let rest = self.pick(&[0, 0x1234_0001, 1280, 1400 << 8]);
                let code = self.pick(&[0, 0, 1, 4, 9]);
                if six {
                    f.icmp6(self.pick(&[1, 2, 3, 4, 128, 129, 135, 200]), code, rest).data(&data)
                } else {
                    f.icmp(self.pick(&[0, 3, 5, 8, 11, 12, 13, 30]), code, rest).data(&data)
                }
            }
            13 => {
                let (protocol, header): (u8, &[u8]) = self.pick(&[
                    (50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4]),
                    (
                        51,
                        &[17, 4, 0, 0, 0, 0, 2, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                    ),
                    (108, &[17, 0, 0, 3, 9, 9, 9, 9]),
                    (47, &[0x20, 0, 8, 0, 0, 0, 0, 77, 0x45, 0]),
                    (2, &[0x16, 0, 0xf9, 0xf6, 224, 0, 0, 9]),
                    (2, &[0x11, 5, 0, 0, 0, 0, 0, 0]),
                ]);
                f.transport(protocol, header)
            }
            14 => f.protocol(self.pick(&[0, 1, 6, 17, 41, 44, 58, 59, 60, 132, 255])).data(&data),
            _ => f.data(&[]),
        }
    }

    fn tcp(&mut self, f: Frame, sport: u16, dport: u16) -> Frame {
        const OPTIONS: &[&[u8]] = &[
            &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7],
            &[2, 4, 5, 0xb4],
            &[2, 4, 1, 0xf4, 1, 1, 1, 0],
            &[2, 3, 5, 0],
            &[2, 2, 2, 4, 5, 0x78],
            &[2, 0, 0, 0],
            &[2, 1, 2, 4],
            &[1, 1, 1, 2],
            &[1, 2, 4, 5],
            &[2, 4, 5, 0xb4, 2, 4, 1, 0],
            &[3, 3, 14, 1, 3, 3, 3, 0],
            &[3, 4, 7, 0],
            &[4, 2, 1, 1],
            &[4, 3, 1, 1],
            &[8, 10, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0],
            &[1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5, 0],
            &[8, 9, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0],
            &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1],
            &[5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0],
            &[
                5, 34, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0,
                0, 0, 7, 0, 0, 0, 8, 1, 1,
            ],
            &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0],
            &[34, 2, 0, 0],
            &[19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0],
            &[30, 4, 0x10, 0],
            &[30, 3, 0x20, 30],
            &[30, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            &[253, 4, 1, 2],
            &[253, 5, 0, 7, 0, 2, 4, 1],
            &[253, 3, 1, 253, 4, 1, 2, 0],
            &[0, 2, 4, 5],
            &[1, 1, 0, 4],
            &[9, 40, 0, 0],
            &[2],
            &[1, 1, 1, 30],
        ];
        let mut f = f.tcp(sport, dport).flags(self.pick(&[0, 2, 0x10, 0x12, 0x18, 0x11, 4, 0xff]));
        if self.one_in(8) {
            f = f.set(18, &[0, 9]);
        }
        if !self.one_in(3) {
            f = f.tcp_options(self.pick(OPTIONS));
        }
        match self.0.u8(..12) {
            0 => f.set(12, &[self.pick(&[0, 0x40, 0x50, 0x51, 0x60, 0x80, 0xf0])]),
            1 => f.patch(16, &[0, 1]),
            _ => f,
        }
    }

    /// Chunks with mostly correct lengths.
    fn sctp(&mut self, f: Frame, sport: u16, dport: u16) -> Frame {
        const CHUNKS: &[&[u8]] = &[
            &[0, 3, 0, 20, 0, 0, 0, 1, 0, 5, 0, 1, 0, 0, 0, 0, 9, 9, 9, 9],
            &[0, 3, 0, 17, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0],
            &[1, 0, 0, 20, 0, 0, 0, 1, 0, 0, 1, 0, 0, 10, 0, 10, 0, 0, 0, 5],
            &[2, 0, 0, 20, 0, 0, 0, 1, 0, 0, 1, 0, 0, 10, 0, 1, 0, 0, 0, 5],
            &[3, 0, 0, 16, 0, 0, 0, 0x55, 0, 0, 1, 0, 0, 0, 0, 0],
            &[4, 0, 0, 8, 0, 1, 0, 4],
            &[6, 0, 0, 4],
            &[7, 0, 0, 8, 0, 0, 0, 1],
            &[9, 0, 0, 4],
            &[10, 0, 0, 8, 1, 2, 3, 4],
            &[0xc1, 0, 0, 8, 0, 0, 0, 1],
            &[0, 0, 0, 0],
            &[0, 0, 0, 3],
            &[3, 0, 1, 0],
            &[0x55, 0, 0, 5, 1, 0, 0, 0],
        ];
        let mut header =
            [&sport.to_be_bytes()[..], &dport.to_be_bytes(), &[0, 0, 0, 7, 1, 2, 3, 4]].concat();
        for _ in 0..self.0.usize(..5) {
            header.extend(self.pick(CHUNKS));
        }
        f.transport(132, &header)
    }
}
