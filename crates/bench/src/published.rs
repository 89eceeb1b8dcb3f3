// SPDX-License-Identifier: Apache-2.0

//! What the work on nf_tables has published: the cases of its tables, with their figures, which are
//! of other machines and kernels.

use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_testkit::build::*;
use penstock_wire::ethernet::Mac;

use crate::frames::{flow, udp};
use crate::ingress::{self, ports, ranges};
use crate::router::Fate;
use crate::{Published, Scale, esp};

/// A line of a table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) published: Published,
    /// What the kernel's variant is called, where there is one. Cases may share it.
    pub(crate) kernel: Option<&'static str>,
    /// The same for both but for the names of devices: `lan` and `wan`.
    pub(crate) rules: String,
    /// Different headers, which come in turn.
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) fate: Fate,
    pub(crate) with: With,
    /// Our base chains are called one by one by their addresses.
    pub(crate) walked: bool,
}

/// What is there besides rules, or in their place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    Nothing,
    /// A classifier of traffic control that passes what leaves by `wan`.
    Classifier,
    /// A rule of iptables drops at raw prerouting. Ours has that of nft.
    Iptables,
    /// The flowtable of the rules has the flows of all frames.
    Flowtable,
    /// A tunnel of ESP with AES-128-GCM to the next router.
    Esp,
}

impl Case {
    /// The smallest frames, which are sent.
    fn sent(
        name: &'static str,
        published: &'static str,
        kernel: Option<&'static str>,
        rules: String,
    ) -> Self {
        Case {
            name,
            published: Published { figure: published, bits: None },
            kernel,
            rules,
            frames: (0..64).map(|n| udp([198, 18, 0, 7], 1024 + n, [198, 19, 0, 7], 9)).collect(),
            fate: Fate::Sent,
            with: With::Nothing,
            walked: false,
        }
    }

    /// The smallest frames, which are dropped.
    fn dropped(
        name: &'static str,
        published: &'static str,
        kernel: &'static str,
        rules: String,
    ) -> Self {
        let frames = (0..64).map(|n| flow(n, 9)).collect();
        Case { fate: Fate::Dropped, frames, ..Case::sent(name, published, Some(kernel), rules) }
    }

    fn with(self, with: With) -> Self {
        Case { with, ..self }
    }

    fn walked(self) -> Self {
        Case { walked: true, ..self }
    }

    /// These frames, with a figure in bits a second.
    fn of(self, frames: Vec<Vec<u8>>) -> Self {
        let bits = frames.first().map(|frame| 8 * frame.len() as u64);
        Case { published: Published { bits, ..self.published }, frames, ..self }
    }
}

/// A chain at egress of `wan`.
fn egress(rules: &str) -> String {
    format!(
        "table netdev t {{ chain c {{ type filter hook egress device wan priority 0;\n{rules}\n}}\n}}\n"
    )
}

/// Egress: without the hook, with it, and with rules.
fn at_egress() -> Vec<Case> {
    let miss = egress("udp dport 10 drop");
    vec![
        Case::sent("egress-without", "2.92 Mpps", Some("kernel/egress-without"), String::new()),
        Case::sent("egress-with", "2.94 Mpps", Some("kernel/egress-with"), egress("")),
        Case::sent("egress-tc", "2.66 Mpps", Some("kernel/egress-tc"), String::new())
            .with(With::Classifier),
        Case::sent("egress-nft", "2.41 Mpps", Some("kernel/egress-nft"), miss),
    ]
}

/// Drops at ingress by one rule, most of which look into a set.
fn drops() -> Vec<Case> {
    let raw = "table ip raw { chain PREROUTING { type filter hook prerouting priority raw;
               udp dport 9 drop; }; }";
    let anonymous = |ports: String| ingress::chain(&format!("udp dport {{ {ports} }} drop"));
    let named = |set: &str, lookup: &str| {
        format!(
            "table netdev t {{ set s {{ {set}; }}
             chain c {{ type filter hook ingress device lan priority 0; {lookup} @s drop; }}; }}"
        )
    };
    let elements = |each: &dyn Fn(Ipv4Addr) -> String| {
        let all = (0..1000u32).map(|n| each(Ipv4Addr::from(0xc612_0100 + n)));
        format!("elements = {{ {} }}", all.collect::<Vec<_>>().join(", "))
    };
    let addresses = elements(&|a| a.to_string());
    let with_port = elements(&|a| format!("{a} . 9"));
    let resizable = named(&format!("type ipv4_addr; {addresses}"), "ip saddr");
    let fixed = named(&format!("type ipv4_addr; size 1000; {addresses}"), "ip saddr");
    let long = named(
        &format!("type ipv4_addr . inet_service; size 1000; {with_port}"),
        "ip saddr . udp dport",
    );
    let bitmap =
        named(&format!("type inet_service; elements = {{ {} }}", ports(1000)), "udp dport");
    let one = ingress::chain("udp dport 9 drop");
    let case = Case::dropped;
    vec![
        case("drop-iptables", "6.00 Mpps", "kernel/drop-iptables", raw.into()).with(With::Iptables),
        case("drop-one", "12.36 Mpps", "kernel/drop-one", one),
        case("drop-set384", "11.84 Mpps", "kernel/drop-set384", anonymous(ports(384))),
        case("drop-resizable", "11.08 Mpps", "kernel/drop-resizable", resizable),
        case("drop-fixed", "13.11 Mpps", "kernel/drop-fixed", fixed),
        case("drop-fixed-long", "12.67 Mpps", "kernel/drop-fixed-long", long),
        case("drop-bitmap", "16.76 Mpps", "kernel/drop-bitmap", bitmap),
        case("drop-ranges3", "9.95 Mpps", "kernel/drop-ranges3", anonymous(ranges(3))),
        case("drop-ranges12", "9.13 Mpps", "kernel/drop-ranges12", anonymous(ranges(12))),
    ]
}

/// A field of a concatenation with ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Net,
    Net6,
    Port,
    Proto,
    Mac,
}

/// The destination that elements `n` of nets have in their middle.
fn inside(n: u32) -> (Ipv4Addr, Ipv6Addr) {
    (
        Ipv4Addr::from(0xc613_0003 + 8 * n),
        Ipv6Addr::from((0x2001_0db8 << 96) + 8 * u128::from(n) + 3),
    )
}

impl Field {
    /// Its type, and the expression that reads it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Field::Net => ("ipv4_addr", "ip daddr"),
            Field::Net6 => ("ipv6_addr", "ip6 daddr"),
            Field::Port => ("inet_service", "udp dport"),
            Field::Proto => ("inet_proto", "meta l4proto"),
            Field::Mac => ("ether_addr", "ether saddr"),
        }
    }

    /// Its part of element `n`.
    fn part(self, n: u32) -> String {
        let (four, six) = inside(n);
        match self {
            Field::Net => format!(
                "{}-{}",
                Ipv4Addr::from_bits(four.to_bits() - 2),
                Ipv4Addr::from_bits(four.to_bits() + 3)
            ),
            Field::Net6 => format!(
                "{}-{}",
                Ipv6Addr::from_bits(six.to_bits() - 2),
                Ipv6Addr::from_bits(six.to_bits() + 3)
            ),
            Field::Port => format!("{}-{}", 2 * n + 1, 2 * n + 2),
            Field::Proto => "17-18".into(),
            Field::Mac => Mac([2, 0, 0, 0, (n >> 8) as u8, n as u8]).to_string(),
        }
    }
}

/// A frame for element `n`.
fn of_element(n: u32, fields: &[Field]) -> Vec<u8> {
    let has = |field| fields.contains(&field);
    let from = if has(Field::Mac) { Field::Mac.part(n) } else { "02:00:00:00:00:a7".into() };
    let ether = Ethernet::new(from.as_str(), "02:00:00:00:00:02");
    let port = if has(Field::Port) { (2 * n + 1) as u16 } else { 9 };
    let udp = Udp::new(1024, port) / payload([0; 18]);
    let (four, six) = inside(n);
    match has(Field::Net6) {
        true => (ether / Ipv6::new("2001:db8:1::7", six) / udp).build(),
        false => (ether / Ipv4::new("198.18.0.7", four) / udp).build(),
    }
}

/// Drops by concatenations of ranges. The frames are for elements from all over the set.
pub(crate) fn concatenations(scale: Scale) -> Vec<Case> {
    use Field::*;
    let case = |name, published, kernel, fields: &[Field], count: u32| {
        let count = scale.count(count);
        let join = |part: &dyn Fn(Field) -> String| {
            fields.iter().map(|field| part(*field)).collect::<Vec<_>>().join(" . ")
        };
        let elements: Vec<_> = (0..count).map(|n| join(&|field| field.part(n))).collect();
        let (kinds, reads) = (join(&|f| f.names().0.into()), join(&|f| f.names().1.into()));
        let rules = format!(
            "table netdev t {{ set s {{ type {kinds}; flags interval; elements = {{ {} }}; }}
             chain c {{ type filter hook ingress device lan priority 0; {reads} @s drop; }}; }}",
            elements.join(", ")
        );
        let frames = (0..64u32).map(|n| of_element(n.wrapping_mul(7919) % count, fields)).collect();
        Case { frames, ..Case::dropped(name, published, kernel, rules) }
    };
    vec![
        case("net,port-1000", "7.5 Mpps", "kernel/net,port-1000", &[Net, Port], 1000),
        case("port,net-100", "8.1 Mpps", "kernel/port,net-100", &[Port, Net], 100),
        case("net6,port-1000", "4.8 Mpps", "kernel/net6,port-1000", &[Net6, Port], 1000),
        case("port,proto-30000", "2.6 Mpps", "kernel/port,proto-30000", &[Port, Proto], 30_000),
        case("net6,port,mac-10", "4.7 Mpps", "kernel/net6,port,mac-10", &[Net6, Port, Mac], 10),
        case(
            "net6,port,mac,proto-1000",
            "3.6 Mpps",
            "kernel/net6,port,mac,proto-1000",
            &[Net6, Port, Mac, Proto],
            1000,
        ),
        case("net,mac-1000", "6.4 Mpps", "kernel/net,mac-1000", &[Net, Mac], 1000),
    ]
}

/// A flowtable at a hook, which gets what is forwarded.
fn flowtable(hook: &str) -> String {
    format!(
        "table ip f {{ flowtable f {{ hook {hook} priority 0; devices = {{ lan, wan }}; }}
         chain c {{ type filter hook forward priority 0; flow add @f; }}; }}"
    )
}

/// Forwarding with hooks that are walked, with those for which code is generated, and past them.
fn hooks() -> Vec<Case> {
    let chain = |rules: &str| {
        format!("table ip t {{ chain c {{ type filter hook forward priority 0;\n{rules}\n}}\n}}\n")
    };
    let (filter, ct) = (chain("udp dport 10 drop"), chain("ct state new accept"));
    let case = |name, published, kernel, rules: &str| {
        Case::sent(name, published, Some(kernel), rules.into())
    };
    let flows = flowtable("ingress");
    vec![
        case("forward", "1.33 Mpps", "kernel/forward", ""),
        case("filter-walked", "1.24 Mpps", "kernel/filter", &filter).walked(),
        case("filter-generated", "1.35 Mpps", "kernel/filter", &filter),
        case("ct-walked", "0.95 Mpps", "kernel/ct", &ct).walked(),
        case("ct-generated", "1.07 Mpps", "kernel/ct", &ct),
        case("flowtable-2017", "5.16 Mpps", "kernel/flowtable", &flows).with(With::Flowtable),
        case("flowtable-2022", "5.77 Mpps", "kernel/flowtable", &flows).with(With::Flowtable),
    ]
}

/// A full frame of UDP, or of TCP in the middle of its connection, of flow 0.
fn full(tcp: bool) -> Vec<u8> {
    const LEN: usize = 1514;
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let ip = ether / Ipv4::new("198.18.1.0", "198.19.0.7");
    if tcp {
        let segment = Tcp::new(1024, 9).flags(0x18).seq(1).ack(1).window(30_000);
        (ip / segment / payload(vec![0; LEN - 54])).build()
    } else {
        (ip / Udp::new(1024, 9) / payload(vec![0; LEN - 42])).build()
    }
}

/// Bulk transfers of one flow: as they are forwarded, and by chains of packets at early ingress,
/// which kernels do not have.
fn bulk() -> Vec<Case> {
    let [tcp, udp] = [true, false].map(|tcp| vec![full(tcp); 64]);
    let early = |name, published| {
        Case::sent(name, published, None, flowtable("early_ingress")).with(With::Flowtable)
    };
    let esp = Case::sent("esp-forwarded", "6.0 Gbit/s", Some("kernel/esp"), String::new());
    let early_esp = Case::sent("esp-early-ingress", "7.5 Gbit/s", None, String::new());
    vec![
        Case::sent("tcp-forwarded", "32.5 Gbit/s", Some("kernel/tcp"), String::new())
            .of(tcp.clone()),
        early("tcp-early-ingress", "35.6 Gbit/s").of(tcp),
        Case::sent("udp-forwarded", "17.6 Gbit/s", Some("kernel/udp"), String::new())
            .of(udp.clone()),
        early("udp-early-ingress", "35.6 Gbit/s").of(udp),
        esp.of(esp::outgoing()).with(With::Esp),
        early_esp.of(esp::outgoing()).with(With::Esp),
    ]
}

/// All cases, table by table.
pub(crate) fn all(scale: Scale) -> Vec<Case> {
    [at_egress(), drops(), concatenations(scale), hooks(), bulk()].into_iter().flatten().collect()
}
