// SPDX-License-Identifier: Apache-2.0

//! From what a request says to elements: the `uadt` functions of the types. A range stands for many
//! elements.

use crate::element::{Device, Element, IFACE_LEN, Prefix};
use crate::error::Code;
use crate::given::{Given, IFACE_WILDCARD, PHYSDEV};
use crate::kind::{Dimension, Family, Kind};
use crate::options::{Options, Shape, bytes, mask32, v4};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// TCP, UDP, SCTP, UDP-Lite (`ip_set_proto_with_ports()`).
pub(crate) const WITH_PORTS: [u8; 4] = [6, 17, 132, 136];

/// What a dimension of addresses goes through.
#[derive(Clone, Copy, Debug)]
enum Span {
    /// One.
    One(Prefix),
    /// IPv4 addresses in host order, ends included, in steps.
    Hosts { from: u32, to: u32, step: u64, len: u8 },
    /// The networks that IPv4 addresses in host order fall into, ends included.
    Nets { from: u32, to: u32 },
}

fn prefix4(address: u32, len: u8) -> Prefix {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&address.to_be_bytes());
    Prefix { address: bytes, len }
}

/// The largest network that begins with an address and does not reach beyond another one, and its
/// last address (`ip_set_range_to_cidr()`).
fn network_within(from: u32, to: u32) -> (u8, u32) {
    (1..32)
        .filter(|len| from & mask32(*len) == from)
        .map(|len| (len, from | !mask32(len)))
        .find(|(_, last)| *last <= to)
        .unwrap_or((32, from))
}

impl Span {
    /// How many there are, at most.
    fn count(self) -> u64 {
        match self {
            Span::One(_) => 1,
            Span::Hosts { from, to, step, .. } => u64::from(to.saturating_sub(from)) / step + 1,
            // A range is of so many networks.
            Span::Nets { .. } => 64,
        }
    }

    /// Gives one after the other, until `act` fails.
    fn each(self, act: &mut dyn FnMut(Prefix) -> Result<(), Code>) -> Result<(), Code> {
        match self {
            Span::One(prefix) => act(prefix),
            Span::Hosts { from, to, step, len } => {
                let mut at = u64::from(from);
                while at <= u64::from(to) {
                    act(prefix4(at as u32, len))?;
                    at += step;
                }
                Ok(())
            }
            Span::Nets { from, to } => {
                let mut at = from;
                loop {
                    let (len, last) = network_within(at, to);
                    act(prefix4(at, len))?;
                    match last.checked_add(1).filter(|_| last < to) {
                        Some(next) => at = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }
}

/// What an element of a request is, before its ranges are gone through.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    spans: [Option<Span>; 2],
    ports: (u16, u16),
    /// Everything else.
    element: Element,
    /// A link address was given.
    pub mac: Option<[u8; 6]>,
}

impl Ranges {
    /// Checks what a request says of an element. A `test` is of one element, and its ranges do not
    /// count.
    pub(crate) fn new(
        kind: Kind,
        family: Family,
        options: &Options,
        given: &Given,
        test: bool,
    ) -> Result<Self, Code> {
        let has = |dimension| kind.dimensions().contains(&dimension);
        let missing = (has(Dimension::Port) && given.port.is_none())
            || (has(Dimension::Iface) && given.iface.is_none())
            || (has(Dimension::Mark) && given.mark.is_none())
            || (has(Dimension::Mac) && given.mac.is_none() && kind != Kind::BitmapIpMac);
        if missing {
            return Err(Code::PROTOCOL);
        }
        let mut ranges = Ranges {
            spans: [None, None],
            ports: (given.port.unwrap_or(0), given.port.unwrap_or(0)),
            element: Element::default(),
            mac: given.mac,
        };
        if kind.is_bitmap() {
            ranges.bitmap(kind, options, given, test)?;
            return Ok(ranges);
        }
        if has(Dimension::Mac) {
            ranges.element.mac = given.mac.unwrap_or_default();
        }
        let mut net = 0;
        for dimension in kind.dimensions() {
            if matches!(dimension, Dimension::Ip | Dimension::Net) {
                let asked = Asked { kind, family, options, given, test, dimension: *dimension };
                ranges.spans[net] = Some(asked.span(net)?);
                net = 1;
            }
        }
        if has(Dimension::Mac) && ranges.element.mac == [0; 6] {
            return Err(Code::HASH_ELEM);
        }
        if has(Dimension::Mark) {
            let Shape::Hash { markmask, .. } = options.shape else { return Err(Code::PROTOCOL) };
            ranges.element.mark = given.mark.unwrap_or(0) & markmask;
        }
        if has(Dimension::Iface) {
            ranges.element.device = device(given);
        }
        if has(Dimension::Port) {
            ranges.port(family, given, test)?;
        }
        Ok(ranges)
    }

    fn port(&mut self, family: Family, given: &Given, test: bool) -> Result<(), Code> {
        let protocol = given.protocol.ok_or(Code::MISSING_PROTO)?;
        if protocol == 0 {
            return Err(Code::INVALID_PROTO);
        }
        self.element.protocol = protocol;
        let with_ports = WITH_PORTS.contains(&protocol);
        let icmp = if family == Family::V6 { ICMPV6 } else { ICMP };
        if !with_ports && protocol != icmp {
            self.ports = (0, 0);
        }
        if let Some(to) = given.port_to.filter(|_| with_ports && !test) {
            self.ports = (self.ports.0.min(to), self.ports.0.max(to));
        }
        Ok(())
    }

    fn bitmap(
        &mut self,
        kind: Kind,
        options: &Options,
        given: &Given,
        test: bool,
    ) -> Result<(), Code> {
        let Shape::Bitmap { first, last, netmask } = options.shape else {
            return Err(Code::PROTOCOL);
        };
        if kind == Kind::BitmapPort {
            let from = given.port.unwrap_or(0);
            let within = |port: u16| (first..=last).contains(&port.into());
            if !within(from) {
                return Err(Code::BITMAP_RANGE);
            }
            if let Some(to) = given.port_to.filter(|_| !test) {
                if to < from && !within(to) || !within(to) {
                    return Err(Code::BITMAP_RANGE);
                }
                self.ports = (from.min(to), from.max(to));
            }
            return Ok(());
        }
        let mut from = v4(given.ip)?;
        if !(first..=last).contains(&from) {
            return Err(Code::BITMAP_RANGE);
        }
        let mut to = from;
        if !test {
            match (given.ip_to, given.cidr) {
                (Some(end), _) => {
                    let end = v4(Some(end))?;
                    (from, to) = (from.min(end), from.max(end));
                    if from < first {
                        return Err(Code::BITMAP_RANGE);
                    }
                }
                (None, Some(cidr)) => {
                    if cidr == 0 || cidr > 32 {
                        return Err(Code::INVALID_CIDR);
                    }
                    (from, to) = (from & mask32(cidr), from | !mask32(cidr));
                    if from < first {
                        return Err(Code::BITMAP_RANGE);
                    }
                }
                (None, None) => {}
            }
            if to > last {
                return Err(Code::BITMAP_RANGE);
            }
        }
        let step = 1 << (32 - netmask);
        self.spans[0] = Some(Span::Hosts { from: from & mask32(netmask), to, step, len: 32 });
        Ok(())
    }

    /// How many elements there are, at most.
    pub(crate) fn count(&self) -> u64 {
        let spans = self.spans.iter().flatten().map(|span| span.count()).product::<u64>();
        spans.saturating_mul(u64::from(self.ports.1 - self.ports.0) + 1)
    }

    /// Gives one element after the other, until `act` fails.
    pub(crate) fn each(
        &self,
        act: &mut dyn FnMut(&Element) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let none = Span::One(Prefix::default());
        let [first, second] = self.spans.map(|span| span.unwrap_or(none));
        let mut element = self.element;
        first.each(&mut |prefix| {
            element.nets[0] = prefix;
            for port in self.ports.0..=self.ports.1 {
                element.port = port;
                second.each(&mut |prefix| {
                    element.nets[1] = prefix;
                    act(&element)
                })?;
            }
            Ok(())
        })
    }

    /// The one element of a test.
    pub(crate) fn one(&self) -> Element {
        let mut found = self.element;
        let _ = self.each(&mut |element| {
            found = *element;
            // The first one is enough.
            Err(Code::EIO)
        });
        found
    }
}

fn device(given: &Given) -> Device {
    let mut name = [0; IFACE_LEN];
    let text = given.iface.as_deref().unwrap_or_default().as_bytes();
    let len = text.len().min(IFACE_LEN - 1);
    name[..len].copy_from_slice(&text[..len]);
    let has = |flag| given.flags & flag != 0;
    Device { name, port: has(PHYSDEV), wildcard: has(IFACE_WILDCARD) }
}

/// One dimension of addresses, as a request has it.
struct Asked<'a> {
    kind: Kind,
    family: Family,
    options: &'a Options,
    given: &'a Given,
    test: bool,
    dimension: Dimension,
}

impl Asked<'_> {
    /// The addresses of the first or second dimension.
    fn span(&self, number: usize) -> Result<Span, Code> {
        let given = self.given;
        let (address, to, cidr) = match number {
            0 => (given.ip, given.ip_to, given.cidr),
            _ => (given.ip2, given.ip2_to, given.cidr2),
        };
        let address = bytes(address.ok_or(Code::PROTOCOL)?, self.family)?;
        let bits = self.family.bits();
        let is_net = self.dimension == Dimension::Net;
        let with_zero = matches!(self.kind, Kind::HashNetIface | Kind::HashNetNet);
        if is_net && cidr.is_some_and(|len| len > bits || len == 0 && !with_zero) {
            return Err(Code::INVALID_CIDR);
        }
        let to = to.filter(|_| is_net || number == 0 && self.kind != Kind::HashIpMac);
        if self.family == Family::V6 {
            if to.is_some() {
                return Err(Code::HASH_RANGE_UNSUPPORTED);
            }
            if !is_net && number == 0 && cidr.is_some_and(|len| len != bits) {
                return Err(Code::INVALID_CIDR);
            }
        }
        let len = if is_net { cidr.unwrap_or(bits) } else { bits };
        let address = self.masked(address, len);
        if self.kind == Kind::HashIp && address.address == [0; 16] {
            return Err(Code::HASH_ELEM);
        }
        if self.test || self.family == Family::V6 {
            return Ok(Span::One(address));
        }
        let from = u32::from_be_bytes(*address.address.first_chunk().unwrap_or(&[0; 4]));
        let to = to.map(|to| v4(Some(to))).transpose()?;
        let (from, to) = match (to, cidr) {
            (Some(to), _) => {
                // Where a range begins no prefix counts.
                let from = v4(if number == 0 { given.ip } else { given.ip2 })?;
                (from.min(to), from.max(to))
            }
            (None, _) if is_net => return Ok(Span::One(address)),
            (None, Some(cidr)) if number == 0 && self.kind != Kind::HashIpMac => {
                if cidr == 0 || cidr > 32 {
                    return Err(Code::INVALID_CIDR);
                }
                (from & mask32(cidr), from | !mask32(cidr))
            }
            (None, _) => return Ok(Span::One(address)),
        };
        if is_net {
            return match (from, to) {
                (0, u32::MAX) => Err(Code::HASH_RANGE),
                _ => Ok(Span::Nets { from, to }),
            };
        }
        if self.kind == Kind::HashIp && from == 0 {
            return Err(Code::HASH_ELEM);
        }
        Ok(self.hosts(from, to))
    }

    fn hosts(&self, from: u32, to: u32) -> Span {
        let step = match self.options.shape {
            Shape::Hash { netmask: Some(netmask), .. } => 1 << (32 - netmask),
            _ => 1,
        };
        let from = if step == 1 { from } else { from & !(step as u32).wrapping_sub(1) };
        Span::Hosts { from, to, step, len: 32 }
    }

    /// With the bits that count in this set.
    fn masked(&self, address: [u8; 16], len: u8) -> Prefix {
        masked(self.options, Prefix::masked(address, len))
    }
}

/// An address or network with the bits that count in a set with `netmask` or `bitmask`.
pub(crate) fn masked(options: &Options, prefix: Prefix) -> Prefix {
    let Shape::Hash { netmask, bitmask, .. } = &options.shape else { return prefix };
    let mut address = prefix.address;
    if let Some(mask) = bitmask {
        address.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    }
    match netmask {
        Some(netmask) => {
            Prefix { address: Prefix::masked(address, *netmask).address, len: prefix.len }
        }
        None => Prefix { address, len: prefix.len },
    }
}
