// SPDX-License-Identifier: Apache-2.0

//! Lines of `nft monitor trace`.

use std::fmt::Display;

use penstock_program::expr::PayloadBase;
use penstock_ruleset::model::Family;

use super::Printer;
use crate::ast::expr::{Payload, RelOp};
use crate::ast::{Expr, ExprKind};
use crate::datatype::{ByteOrder, DataType, Format, Type};
use crate::names::Names;
use crate::proto::{self, Proto, Template, link, network, transport};
use crate::source::Loc;

/// Where a line comes from.
#[derive(Clone, Copy, Debug)]
pub struct TraceSource<'a> {
    /// Of the packet, the same in all chains.
    pub id: u32,
    /// Of the table.
    pub family: Family,
    /// The table.
    pub table: &'a str,
    /// The chain.
    pub chain: &'a str,
}

/// A packet as the kernel describes it in a trace: names of devices by index, and the beginnings of
/// its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedPacket<'a> {
    /// Index of the device it came in on.
    pub iif: Option<u32>,
    /// Index of the device it goes out on.
    pub oif: Option<u32>,
    /// Names of these devices, where they are known; others are looked up.
    pub devices: [Option<&'a str>; 2],
    /// `ARPHRD_*` of the device it came in on.
    pub iif_type: Option<u16>,
    /// `NFPROTO_*` of the hook: 2 and 10 in inet chains.
    pub nfproto: u8,
    /// Link header; empty if there is none to be shown.
    pub link: &'a [u8],
    /// Network header; the kernel gives at most [`NETWORK_SHOWN`] bytes.
    pub network: &'a [u8],
    /// Transport header; at most [`TRANSPORT_SHOWN`] bytes.
    pub transport: &'a [u8],
}

/// Bytes of the link header that a trace has at most (`NFT_TRACETYPE_LL_HSIZE`).
pub const LINK_SHOWN: usize = 20;
/// Bytes of the network header that a trace has at most (`NFT_TRACETYPE_NETWORK_HSIZE`).
pub const NETWORK_SHOWN: usize = 40;
/// Bytes of the transport header that a trace has at most (`NFT_TRACETYPE_TRANSPORT_HSIZE`).
pub const TRANSPORT_SHOWN: usize = 20;

fn start(place: &TraceSource<'_>) -> String {
    format!("trace id {:08x} {} {} {} ", place.id, place.family.name(), place.table, place.chain)
}

/// A rule that was reached to its end, or that decided. `rule` is its text
/// (`Listing::rule` of the crate `penstock-lang`); the verdict is as nft writes it: `accept`,
/// `jump sub`, `stolen`.
pub fn rule_line(place: &TraceSource<'_>, rule: &str, verdict: impl Display) -> String {
    format!("{}rule {rule} (verdict {verdict})", start(place))
}

/// The end of a regular chain. The mark is shown where it is not 0.
pub fn verdict_line(place: &TraceSource<'_>, verdict: impl Display, mark: u32) -> String {
    let mut line = format!("{}verdict {verdict} ", start(place));
    push_mark(&mut line, mark);
    line
}

/// The end of a base chain. The mark is shown where it is not 0.
pub fn policy_line(place: &TraceSource<'_>, accept: bool, mark: u32) -> String {
    let policy = if accept { "accept" } else { "drop" };
    let mut line = format!("{}policy {policy} ", start(place));
    push_mark(&mut line, mark);
    line
}

fn push_mark(line: &mut String, mark: u32) {
    if mark != 0 {
        line.push_str(&format!("meta mark {mark:#010x} "));
    }
}

/// The packet as it enters a base chain.
pub fn packet_line(
    place: &TraceSource<'_>,
    packet: &TracedPacket<'_>,
    format: Format,
    names: &dyn Names,
) -> String {
    let mut printer = Printer::new(format, names);
    printer.push(&start(place));
    printer.push("packet: ");
    for ((key, index), known) in
        [("iif", packet.iif), ("oif", packet.oif)].into_iter().zip(packet.devices)
    {
        if let Some(index) = index {
            match known.map(str::to_owned).or_else(|| names.interface_name(index)) {
                Some(name) => printer.write(format_args!("{key} \"{name}\" ")),
                None => printer.write(format_args!("{key} {index} ")),
            }
        }
    }
    push_headers(&mut printer, place.family, packet);
    printer.out
}

/// The headers of a packet, as the line of a trace shows them to a family.
pub fn headers(
    family: Family,
    packet: &TracedPacket<'_>,
    format: Format,
    names: &dyn Names,
) -> String {
    let mut printer = Printer::new(format, names);
    push_headers(&mut printer, family, packet);
    printer.out
}

fn push_headers(printer: &mut Printer<'_>, family: Family, packet: &TracedPacket<'_>) {
    let mut shown = Shown::new(family, packet);
    shown.header(PayloadBase::Link, packet.link);
    shown.header(PayloadBase::Network, packet.network);
    shown.header(PayloadBase::Transport, packet.transport);
    for part in &shown.parts {
        match part {
            Part::Field { match_, .. } => printer.expr(match_),
            Part::Raw { base, offset, bits } => printer.raw_bits(*base, *offset, bits),
        }
        printer.push(" ");
    }
}

/// A piece of a header.
enum Part {
    /// A field and its value.
    Field { proto: &'static Proto, field: &'static Template, match_: Expr },
    /// Bits that belong to no known field, highest first.
    Raw { base: PayloadBase, offset: u32, bits: Vec<bool> },
}

struct Shown {
    family: Family,
    link: Option<&'static Proto>,
    network: Option<&'static Proto>,
    transport: Option<&'static Proto>,
    parts: Vec<Part>,
}

/// Fields that are shown and their order, for headers of which not all are.
fn shown_fields(proto: &Proto) -> Option<&'static [&'static str]> {
    const ETHER: &[&str] = &["saddr", "daddr", "type"];
    const ARP: &[&str] = &["operation"];
    const IP: &[&str] = &["saddr", "daddr", "dscp", "ecn", "ttl", "id", "protocol", "length"];
    const IP6: &[&str] =
        &["saddr", "daddr", "dscp", "ecn", "hoplimit", "flowlabel", "nexthdr", "length"];
    const TCP: &[&str] = &["sport", "dport", "flags", "window"];
    match proto {
        p if *p == link::ETHER => Some(ETHER),
        p if *p == network::ARP => Some(ARP),
        p if *p == network::IP => Some(IP),
        p if *p == network::IP6 => Some(IP6),
        p if *p == transport::TCP => Some(TCP),
        _ => None,
    }
}

/// `ARPHRD_ETHER`.
const ARPHRD_ETHER: u16 = 1;
const ETHERTYPE_VLAN: u32 = 0x8100;

impl Shown {
    fn new(family: Family, packet: &TracedPacket<'_>) -> Self {
        let (base, known) = proto::of_family(family);
        let mut shown =
            Shown { family, link: None, network: None, transport: None, parts: Vec::new() };
        match base {
            PayloadBase::Link if *known == link::INET || *known == link::NETDEV => {
                shown.network = known.upper_by_number(packet.nfproto.into());
            }
            PayloadBase::Link => shown.link = Some(known),
            _ => shown.network = Some(known),
        }
        if shown.link.is_none() && packet.iif_type == Some(ARPHRD_ETHER) {
            shown.link = Some(&link::ETHER);
        }
        shown
    }

    fn at(&self, base: PayloadBase) -> Option<&'static Proto> {
        match base {
            PayloadBase::Link => self.link,
            PayloadBase::Network => self.network,
            PayloadBase::Transport => self.transport,
            PayloadBase::Inner | PayloadBase::Tunnel => None,
        }
    }

    fn header(&mut self, base: PayloadBase, bytes: &[u8]) {
        let total = bytes.len() as u32 * 8;
        let mut start = 0;
        while start < total {
            let Some(proto) = self.at(base) else { break };
            let end = self.fields(proto, bytes, start, total);
            let again = self.at(base) != Some(proto);
            let done = end == start;
            start = end;
            if !again || done {
                break;
            }
        }
        if start < total {
            self.raw(base, bytes, start, total);
        }
    }

    /// Fields of one header from a bit on, each directly after the one before. Returns where they
    /// end.
    fn fields(&mut self, proto: &'static Proto, bytes: &[u8], start: u32, total: u32) -> u32 {
        let mut at = start;
        let mut found: Vec<(&'static Template, u128)> = Vec::new();
        for field in proto.templates {
            if field.meta.is_some() || field.offset + start != at || at + field.len > total {
                continue;
            }
            found.push((field, bits(bytes, at, field.len)));
            at += field.len;
        }
        let checksum =
            |field: &Template| proto.checksum.is_some_and(|(byte, _)| field.offset == byte * 8);
        let shown: Vec<(&'static Template, u128)> = match shown_fields(proto) {
            Some(order) => order
                .iter()
                .filter_map(|name| found.iter().find(|(f, _)| f.name == *name).copied())
                .collect(),
            None => found.iter().filter(|(f, _)| !checksum(f)).copied().collect(),
        };
        if !found.is_empty() {
            self.forget_implied(proto);
        }
        for (field, value) in shown {
            self.parts.push(Part::Field { proto, field, match_: equality(proto, field, value) });
        }
        for (field, value) in found {
            self.learn(proto, field, value as u32);
        }
        at
    }

    fn learn(&mut self, proto: &'static Proto, field: &Template, value: u32) {
        let tells = proto.protocol_template().is_some_and(|t| std::ptr::eq(t, field))
            || (*proto == network::IP && field.name == "protocol")
            || (*proto == network::IP6 && field.name == "nexthdr");
        let Some(upper) = tells.then(|| proto.upper_by_number(value)).flatten() else { return };
        match upper.base {
            PayloadBase::Link => self.link = Some(upper),
            PayloadBase::Network => self.network = Some(upper),
            PayloadBase::Transport => self.transport = Some(upper),
            PayloadBase::Inner | PayloadBase::Tunnel => {}
        }
    }

    /// Takes out what only says that this header follows.
    fn forget_implied(&mut self, proto: &Proto) {
        let base = proto.base;
        let keeps_ip_protocol = !matches!(self.family, Family::Ip | Family::Ip6);
        self.parts.retain(|part| {
            let Part::Field { proto: lower, field, match_ } = part else { return true };
            match base {
                PayloadBase::Link => {
                    let vlan = matches!(&match_.kind, ExprKind::Relational { right, .. }
                        if matches!(right.kind, ExprKind::Value(v) if v == u128::from(ETHERTYPE_VLAN)));
                    !(**lower == link::ETHER && field.name == "type" && vlan)
                }
                PayloadBase::Network => !(lower.base == PayloadBase::Link && field.name == "type"),
                PayloadBase::Transport => {
                    let protocol = field.name == "protocol" || field.name == "nexthdr";
                    !(lower.base == PayloadBase::Network && protocol && !keeps_ip_protocol)
                }
                PayloadBase::Inner | PayloadBase::Tunnel => true,
            }
        });
    }

    fn raw(&mut self, base: PayloadBase, bytes: &[u8], start: u32, total: u32) {
        let bits = (start..total).map(|i| bit(bytes, i)).collect();
        self.parts.push(Part::Raw { base, offset: start, bits });
    }
}

fn bit(bytes: &[u8], index: u32) -> bool {
    bytes.get(index as usize / 8).is_some_and(|byte| byte >> (7 - index % 8) & 1 != 0)
}

fn bits(bytes: &[u8], offset: u32, len: u32) -> u128 {
    (offset..offset + len).fold(0, |value, i| value << 1 | u128::from(bit(bytes, i)))
}

/// `FIELD == VALUE`
fn equality(proto: &'static Proto, field: &'static Template, value: u128) -> Expr {
    let typed = |kind, dtype, len| {
        Expr::typed(kind, Loc::default(), Type::Base(dtype), ByteOrder::Big, len)
    };
    let payload = Payload {
        base: proto.base,
        proto: Some(proto),
        field: Some(field),
        offset: field.offset,
        raw: false,
        inner: None,
    };
    let left = typed(ExprKind::Payload(payload), field.dtype, field.len);
    let right = typed(ExprKind::Value(value), field.dtype, field.len);
    let kind = ExprKind::Relational { op: RelOp::Eq, left: Box::new(left), right: Box::new(right) };
    typed(kind, DataType::Boolean, 1)
}

impl Printer<'_> {
    /// `@nh,0,320 0x…`: bits as one number.
    fn raw_bits(&mut self, base: PayloadBase, offset: u32, bits: &[bool]) {
        let name = match base {
            PayloadBase::Link => "ll",
            PayloadBase::Network => "nh",
            PayloadBase::Transport => "th",
            PayloadBase::Inner | PayloadBase::Tunnel => "ih",
        };
        // Two bytes where ports would be are a port.
        let port = match (base, offset, bits.len()) {
            (PayloadBase::Transport, 0, 16) => Some("th sport"),
            (PayloadBase::Transport, 16, 16) => Some("th dport"),
            _ => None,
        };
        if let Some(port) = port {
            let value = bits.iter().fold(0u32, |v, b| v << 1 | u32::from(*b));
            self.write(format_args!("{port} {value}"));
            return;
        }
        let lead = bits.len() % 4;
        let (first, rest) = bits.split_at(lead);
        let digits: String = std::iter::once(first)
            .filter(|d| !d.is_empty())
            .chain(rest.chunks(4))
            .map(|digit| digit.iter().fold(0u32, |v, b| v << 1 | u32::from(*b)))
            .filter_map(|digit| char::from_digit(digit, 16))
            .collect();
        let digits = digits.trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        self.write(format_args!("@{name},{offset},{} 0x{digits}", bits.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NoNames;

    const SADDR_DADDR: [u8; 8] = [198, 18, 0, 1, 198, 18, 0, 9];
    const ETHER: [u8; 12] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1];

    fn ip(protocol: u8, len: u8) -> Vec<u8> {
        [&[0x45, 0xb9, 0, len, 0, 7, 0, 0, 64, protocol, 0, 0][..], &SADDR_DADDR].concat()
    }

    fn line(family: Family, nfproto: u8, link: &[u8], network: &[u8], transport: &[u8]) -> String {
        let place = TraceSource { id: 0xdcab_d2cf, family, table: "t", chain: "c" };
        let iif_type = (!link.is_empty()).then_some(1);
        let packet = TracedPacket {
            iif: Some(3),
            oif: None,
            devices: [None; 2],
            iif_type,
            nfproto,
            link,
            network,
            transport,
        };
        let format = Format { numeric_protocol: true, ..Format::default() };
        packet_line(&place, &packet, format, &NoNames)
            .strip_prefix(&format!("trace id dcabd2cf {} t c packet: iif 3 ", family.name()))
            .unwrap_or_default()
            .to_owned()
    }

    #[test]
    fn packets_are_described_by_the_fields_that_nft_shows() {
        let ether = |kind: &[u8]| [&ETHER[..], kind].concat();
        let base = "ether saddr 02:00:00:00:00:01 ether daddr ff:ff:ff:ff:ff:ff ";
        let udp = [0, 53, 0, 54, 0, 8, 0, 0];
        let addresses =
            "ip saddr 198.18.0.1 ip daddr 198.18.0.9 ip dscp ef ip ecn ect1 ip ttl 64 ip id 7 ";
        for (family, nfproto, link, network, transport, expected) in [
            (
                Family::Netdev,
                5,
                ether(&[8, 0]),
                ip(17, 28),
                udp.to_vec(),
                format!(
                    "{base}{addresses}ip protocol 17 ip length 28 udp sport 53 udp dport 54 udp length 8 "
                ),
            ),
            (
                Family::Netdev,
                5,
                ether(&[0x81, 0, 0x60, 5, 8, 0]),
                ip(17, 28),
                udp.to_vec(),
                format!(
                    "{base}vlan pcp 3 vlan dei 0 vlan id 5 {addresses}ip protocol 17 ip length 28 udp sport 53 \
                     udp dport 54 udp length 8 "
                ),
            ),
            (
                Family::Netdev,
                5,
                ether(&[0x88, 0xb5]),
                vec![0; 30],
                vec![],
                format!("{base}ether type 0x88b5 @nh,0,240 0x0 "),
            ),
            (
                Family::Inet,
                2,
                vec![],
                ip(2, 28),
                vec![0x11, 5, 0, 0, 0xe0, 0, 0, 1],
                format!(
                    "{addresses}ip protocol 2 ip length 28 igmp type membership-query igmp mrt 5 @th,16,48 0xe0000001 "
                ),
            ),
            (
                Family::Ip,
                2,
                vec![],
                ip(6, 40),
                vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 0x12, 0, 5, 0, 6, 0, 7],
                format!(
                    "{addresses}ip length 40 tcp sport 1 tcp dport 2 tcp flags == 0x12 tcp window 5 "
                ),
            ),
        ] {
            assert_eq!(line(family, nfproto, &link, &network, &transport), expected);
        }
    }
}
