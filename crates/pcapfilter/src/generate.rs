// SPDX-License-Identifier: Apache-2.0

//! What the parts of a filter ask of a packet's bytes, in the order in which libpcap asks.

use std::rc::Rc;

use crate::condition::{Comparison, Condition, Test, Value, apply};
use crate::token::dotted;
use crate::tree::{
    Arithmetic, Direction, Filter, Id, Kind, Operator, Primitive, Protocol, Qualifiers, Relation,
};
use crate::{Error, Link, Result, names};

const IP: u32 = 0x0800;
const ARP: u32 = 0x0806;
const RARP: u32 = 0x8035;
const VLAN: [u32; 3] = [0x8100, 0x88a8, 0x9100];
const IP6: u32 = 0x86dd;
const MPLS: u32 = 0x8847;
const PPPOE_DISCOVERY: u32 = 0x8863;
const PPPOE_SESSION: u32 = 0x8864;

const TCP: u32 = 6;
const UDP: u32 = 17;
const FRAGMENT: u32 = 44;
const ICMP6: u32 = 58;
const SCTP: u32 = 132;

pub(crate) fn condition(filter: &Filter, link: Link) -> Result<Condition> {
    let (first, linktype, network) = match link {
        Link::Raw => (First::Raw, 0, 0),
        Link::Ethernet => (First::Ethernet, 12, 14),
    };
    Generator { first, link: 0, linktype, network, labels: 0 }.filter(filter)
}

/// The innermost link header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Raw,
    Ethernet,
    Ppp,
}

/// Where headers are at this place of the text.
struct Generator {
    first: First,
    link: u32,
    linktype: u32,
    network: u32,
    /// Labels of MPLS so far.
    labels: u32,
}

impl Generator {
    fn filter(&mut self, filter: &Filter) -> Result<Condition> {
        Ok(match filter {
            Filter::And(left, right) => {
                let left = self.filter(left)?;
                left.and(self.filter(right)?)
            }
            Filter::Or(left, right) => {
                let left = self.filter(left)?;
                left.or(self.filter(right)?)
            }
            Filter::Not(inner) => self.filter(inner)?.not(),
            Filter::Primitive(primitive, at) => {
                self.primitive(primitive).map_err(|error| match error {
                    Wrong::Here(why) => Error::new(at.clone(), why),
                    Wrong::There(error) => error,
                })?
            }
        })
    }

    fn primitive(&mut self, primitive: &Primitive) -> Part<Condition> {
        match primitive {
            Primitive::Of(qualifiers, id) => self.identifier(*qualifiers, id),
            Primitive::Protocol(protocol) => self.protocol(*protocol),
            Primitive::Relation(relation, left, right) => self.relation(*relation, left, right),
            Primitive::Multicast(protocol) => match protocol {
                Protocol::Default | Protocol::Link if self.first == First::Ethernet => {
                    Ok(Condition::test(load(1, self.link), Comparison::AnyBit, 1))
                }
                Protocol::Ip => {
                    let group = Condition::test(
                        load(1, self.network + 16),
                        Comparison::GreaterOrEqual,
                        224,
                    );
                    Ok(self.is(IP)?.and(group))
                }
                Protocol::Ip6 => Ok(self.is(IP6)?.and(equal(load(1, self.network + 24), 255))),
                Protocol::Default | Protocol::Link => here("there is no header of Ethernet here"),
                _ => here("only `ether`, `ip` and `ip6` have groups"),
            },
            Primitive::Broadcast(Protocol::Default | Protocol::Link) => {
                match self.first == First::Ethernet {
                    true => self.mac(Direction::Destination, [0xff; 6]),
                    false => here("there is no header of Ethernet here"),
                }
            }
            Primitive::Broadcast(Protocol::Ip) => {
                here("the mask of the network is not known here; compare `ip dst host …`")
            }
            Primitive::Broadcast(_) => here("only `ether` has broadcasts here"),
            Primitive::Greater(number) => {
                Ok(Condition::test(Value::Length, Comparison::GreaterOrEqual, *number))
            }
            Primitive::Less(number) => {
                Ok(Condition::test(Value::Length, Comparison::Greater, *number).not())
            }
            Primitive::Vlan(number) => self.vlan(*number),
            Primitive::Mpls(label) => self.mpls(*label),
            Primitive::PppoeDiscovery => match self.first {
                First::Raw => here("there is no header of Ethernet here"),
                _ => self.is(PPPOE_DISCOVERY),
            },
            Primitive::PppoeSession(session) => self.pppoe_session(*session),
        }
    }

    /// The packet is of a protocol of the link layer.
    fn is(&self, protocol: u32) -> Part<Condition> {
        if self.labels > 0 {
            let version = match protocol {
                IP => 0x40,
                IP6 => 0x60,
                _ => return here("only IPv4 and IPv6 are known after MPLS"),
            };
            let last = masked(load(1, self.network - 2), 1, 1);
            return Ok(last.and(masked(load(1, self.network), 0xf0, version)));
        }
        Ok(match self.first {
            First::Raw => match protocol {
                IP => masked(load(1, 0), 0xf0, 0x40),
                IP6 => masked(load(1, 0), 0xf0, 0x60),
                _ => Condition::Constant(false),
            },
            First::Ethernet if protocol <= 1500 => {
                let length = Condition::test(load(2, self.linktype), Comparison::Greater, 1500);
                length.not().and(equal(load(1, self.linktype + 2), protocol))
            }
            First::Ethernet => equal(load(2, self.linktype), protocol),
            First::Ppp => {
                let protocol = match protocol {
                    IP => 0x21,
                    IP6 => 0x57,
                    MPLS => 0x281,
                    other => other,
                };
                equal(load(2, self.linktype), protocol)
            }
        })
    }

    fn ip_protocol(&self, protocol: u32) -> Part<Condition> {
        Ok(self.is(IP)?.and(equal(load(1, self.network + 9), protocol)))
    }

    /// Also after one header of a fragment.
    fn ip6_protocol(&self, protocol: u32) -> Part<Condition> {
        let next = || load(1, self.network + 6);
        let fragment = equal(next(), FRAGMENT).and(equal(load(1, self.network + 40), protocol));
        Ok(self.is(IP6)?.and(equal(next(), protocol).or(fragment)))
    }

    fn either_protocol(&self, protocol: u32) -> Part<Condition> {
        Ok(self.ip_protocol(protocol)?.or(self.ip6_protocol(protocol)?))
    }

    fn protocol(&self, protocol: Protocol) -> Part<Condition> {
        match protocol {
            Protocol::Ip => self.is(IP),
            Protocol::Arp => self.is(ARP),
            Protocol::Rarp => self.is(RARP),
            Protocol::Ip6 => self.is(IP6),
            Protocol::Tcp => self.either_protocol(TCP),
            Protocol::Udp => self.either_protocol(UDP),
            Protocol::Sctp => self.either_protocol(SCTP),
            Protocol::Pim => self.either_protocol(103),
            Protocol::Ah => self.either_protocol(51),
            Protocol::Esp => self.either_protocol(50),
            Protocol::Icmp => self.ip_protocol(1),
            Protocol::Igmp => self.ip_protocol(2),
            Protocol::Igrp => self.ip_protocol(9),
            Protocol::Vrrp | Protocol::Carp => self.ip_protocol(112),
            Protocol::Icmp6 => self.ip6_protocol(ICMP6),
            Protocol::Default | Protocol::Link => here("`ether` is no condition by itself"),
        }
    }

    fn not_fragment(&self) -> Condition {
        Condition::test(load(2, self.network + 6), Comparison::AnyBit, 0x1fff).not()
    }

    fn identifier(&self, qualifiers: Qualifiers, id: &Id) -> Part<Condition> {
        match qualifiers.kind {
            Kind::Default | Kind::Host | Kind::Net => self.address(qualifiers, id),
            Kind::Port | Kind::PortRange => self.ports(qualifiers, id),
            Kind::Protocol => self.protocol_number(qualifiers, id),
        }
    }

    fn address(&self, qualifiers: Qualifiers, id: &Id) -> Part<Condition> {
        let Qualifiers { protocol, direction, kind } = qualifiers;
        let (address, mask) = match *id {
            Id::Mac(address) => {
                if protocol != Protocol::Link || kind == Kind::Net {
                    return here("an address of Ethernet follows `ether host`, `src` or `dst`");
                }
                if self.first != First::Ethernet {
                    return here("there is no header of Ethernet here");
                }
                return self.mac(direction, address);
            }
            Id::Name(ref name) => {
                return here(format!("`{name}` is no address; names are not looked up"));
            }
            Id::V6(address, bits) => {
                if bits != 128 && kind != Kind::Net {
                    return here("only `net` has a mask");
                }
                if !matches!(protocol, Protocol::Default | Protocol::Ip6) {
                    return here("an address of IPv6 is not one of this protocol");
                }
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                if address & !mask != 0 {
                    return here("the address has bits that are not of the network");
                }
                return self.directed(direction, |source| {
                    self.v6(if source { 8 } else { 24 }, address, mask)
                });
            }
            Id::Net4(value, bits, mask) => {
                if kind != Kind::Net {
                    return here("only `net` has a mask");
                }
                let address = value.checked_shl(32 - bits).unwrap_or(0);
                if address & !mask != 0 {
                    let network = dotted(address & mask);
                    return here(format!("the network of this mask begins at {network}"));
                }
                (address, mask)
            }
            Id::V4(value, bits) => {
                let left_out = 32 - bits;
                (
                    value.checked_shl(left_out).unwrap_or(0),
                    u32::MAX.checked_shl(left_out).unwrap_or(0),
                )
            }
            Id::Number(number) if kind == Kind::Net => {
                let zeros = if number == 0 { 0 } else { number.leading_zeros() / 8 * 8 };
                (number << zeros, u32::MAX << zeros)
            }
            Id::Number(number) => (number, u32::MAX),
        };
        let of = |protocol, source, destination| {
            self.directed(direction, |is_source| {
                let offset = self.network + if is_source { source } else { destination };
                Ok(self.is(protocol)?.and(masked(load(4, offset), mask, address)))
            })
        };
        match protocol {
            Protocol::Default if self.labels > 0 => of(IP, 12, 16),
            Protocol::Default => Ok(of(IP, 12, 16)?.or(of(ARP, 14, 24)?).or(of(RARP, 14, 24)?)),
            Protocol::Ip => of(IP, 12, 16),
            Protocol::Arp => of(ARP, 14, 24),
            Protocol::Rarp => of(RARP, 14, 24),
            Protocol::Link => here("this is no address of Ethernet"),
            _ => here("only `ip`, `ip6`, `arp`, `rarp` and `ether` have addresses"),
        }
    }

    /// A condition on the source, the destination, or both.
    fn directed(
        &self,
        direction: Direction,
        one: impl Fn(bool) -> Part<Condition>,
    ) -> Part<Condition> {
        match direction {
            Direction::Source => one(true),
            Direction::Destination => one(false),
            Direction::Both => Ok(one(true)?.and(one(false)?)),
            Direction::Either | Direction::Default => Ok(one(true)?.or(one(false)?)),
        }
    }

    fn v6(&self, offset: u32, address: u128, mask: u128) -> Part<Condition> {
        let mut condition = self.is(IP6)?;
        for word in 0..4 {
            let part = |value: u128| (value >> (96 - 32 * word)) as u32;
            if part(mask) != 0 {
                let load = load(4, self.network + offset + 4 * word);
                condition = condition.and(masked(load, part(mask), part(address)));
            }
        }
        Ok(condition)
    }

    fn mac(&self, direction: Direction, mac: [u8; 6]) -> Part<Condition> {
        let [a, b, c, d, e, f] = mac;
        self.directed(direction, |source| {
            let offset = self.link + if source { 6 } else { 0 };
            let last = equal(load(4, offset + 2), u32::from_be_bytes([c, d, e, f]));
            Ok(last.and(equal(load(2, offset), u32::from_be_bytes([0, 0, a, b]))))
        })
    }

    fn ports(&self, qualifiers: Qualifiers, id: &Id) -> Part<Condition> {
        let protocol = match qualifiers.protocol {
            Protocol::Default => None,
            Protocol::Tcp => Some(TCP),
            Protocol::Udp => Some(UDP),
            Protocol::Sctp => Some(SCTP),
            _ => return here("only `tcp`, `udp` and `sctp` have ports"),
        };
        let range = qualifiers.kind == Kind::PortRange;
        let (first, last, protocol) = match id {
            Id::Number(port) => (*port, *port, protocol),
            Id::Name(name) if range => match name.split_once('-') {
                Some((first, last)) => {
                    let (first, protocol) = port(first, protocol)?;
                    let (last, protocol) = port(last, protocol)?;
                    (first.min(last), first.max(last), protocol)
                }
                None => {
                    let (port, protocol) = port(name, protocol)?;
                    (port, port, protocol)
                }
            },
            Id::Name(name) => {
                let (port, protocol) = port(name, protocol)?;
                (port, port, protocol)
            }
            _ => return here("this is no port"),
        };
        if last > 65535 {
            return here(format!("{last} is no port: the last one is 65535"));
        }
        // As libpcap orders them.
        let each = |one: &dyn Fn(u32) -> Part<Condition>| match protocol {
            Some(protocol) => one(protocol),
            None => Ok(one(SCTP)?.or(one(TCP)?.or(one(UDP)?))),
        };
        let compare = |value: Value| match range {
            true => {
                let value = Rc::new(value);
                let test = |comparison, with| {
                    let with = Rc::new(Value::Constant(with));
                    Condition::Test(Test { value: value.clone(), comparison, with })
                };
                test(Comparison::GreaterOrEqual, first).and(test(Comparison::Greater, last).not())
            }
            false => equal(value, first),
        };
        let v6 = each(&|protocol| {
            let ports = self.directed(qualifiers.direction, |source| {
                Ok(compare(load(2, self.network + if source { 40 } else { 42 })))
            })?;
            Ok(equal(load(1, self.network + 6), protocol).and(ports))
        })?;
        let v4 = each(&|protocol| {
            let ports = self.directed(qualifiers.direction, |source| {
                let index = Rc::new(Value::HeaderLength(self.network));
                let offset = self.network + if source { 0 } else { 2 };
                Ok(compare(Value::LoadAt { size: 2, index, offset }))
            })?;
            let protocol = equal(load(1, self.network + 9), protocol);
            Ok(protocol.and(self.not_fragment()).and(ports))
        })?;
        Ok(self.is(IP6)?.and(v6).or(self.is(IP)?.and(v4)))
    }

    fn protocol_number(&self, qualifiers: Qualifiers, id: &Id) -> Part<Condition> {
        if qualifiers.direction != Direction::Default {
            return here("protocols have no direction");
        }
        let link = qualifiers.protocol == Protocol::Link;
        let number = match id {
            Id::Number(number) => *number,
            Id::Name(name) => {
                let known = if link { names::link_protocol(name) } else { names::protocol(name) };
                match known {
                    Some(number) => number,
                    None => return here(format!("there is no protocol `{name}`")),
                }
            }
            _ => return here("this is no protocol"),
        };
        match qualifiers.protocol {
            Protocol::Default => self.either_protocol(number),
            Protocol::Ip => self.ip_protocol(number),
            Protocol::Ip6 => self.ip6_protocol(number),
            Protocol::Link if self.first == First::Ethernet && number <= 1500 => {
                match number {
                    // Frames without a protocol's number have several forms.
                    0x06 | 0xe0 | 0xf0 | 0xfe => here("this protocol of 802.2 is not known here"),
                    _ => self.is(number),
                }
            }
            Protocol::Link => self.is(number),
            _ => here("only `ip`, `ip6` and `ether` have protocols"),
        }
    }

    fn vlan(&mut self, number: Option<u32>) -> Part<Condition> {
        if self.first == First::Raw {
            return here("there is no header of Ethernet here; use `vlan id` in the rule");
        }
        if self.first != First::Ethernet || self.labels > 0 {
            return here("there are no VLANs after MPLS and PPPoE");
        }
        if number.is_some_and(|number| number > 4095) {
            return here("the last number of a VLAN is 4095");
        }
        let [a, b, c] = VLAN;
        let mut condition = self.is(a)?.or(self.is(b)?).or(self.is(c)?);
        if let Some(number) = number {
            condition = condition.and(masked(load(2, self.network), 0xfff, number));
        }
        self.linktype += 4;
        self.network += 4;
        Ok(condition)
    }

    fn mpls(&mut self, label: Option<u32>) -> Part<Condition> {
        if self.first == First::Raw {
            return here("there is no header of Ethernet here");
        }
        if label.is_some_and(|label| label > 0xf_ffff) {
            return here("the last label is 1048575");
        }
        let mut condition = match self.labels {
            0 => self.is(MPLS)?,
            _ => masked(load(1, self.network - 2), 1, 0),
        };
        if let Some(label) = label {
            condition = condition.and(masked(load(4, self.network), 0xffff_f000, label << 12));
        }
        self.network += 4;
        self.labels += 1;
        Ok(condition)
    }

    fn pppoe_session(&mut self, session: Option<u32>) -> Part<Condition> {
        if self.first == First::Raw {
            return here("there is no header of Ethernet here");
        }
        if session.is_some_and(|session| session > 0xffff) {
            return here("the last number of a session is 65535");
        }
        let mut condition = self.is(PPPOE_SESSION)?;
        if let Some(session) = session {
            condition = condition.and(masked(load(4, self.network), 0xffff, session));
        }
        self.first = First::Ppp;
        self.link = self.network + 6;
        self.linktype = self.link;
        self.network = self.link + 2;
        Ok(condition)
    }

    fn relation(
        &self,
        relation: Relation,
        left: &Arithmetic,
        right: &Arithmetic,
    ) -> Part<Condition> {
        let (left, left_needs) = self.arithmetic(left)?;
        let (right, right_needs) = self.arithmetic(right)?;
        let (mut comparison, reversed) = match relation {
            Relation::Equal => (Comparison::Equal, false),
            Relation::NotEqual => (Comparison::Equal, true),
            Relation::Greater => (Comparison::Greater, false),
            Relation::GreaterOrEqual => (Comparison::GreaterOrEqual, false),
            Relation::Less => (Comparison::GreaterOrEqual, true),
            Relation::LessOrEqual => (Comparison::Greater, true),
        };
        let mut reversed = reversed;
        let (mut value, mut with) = (left, right);
        let condition = match (value.constant(), with.constant()) {
            (Some(left), Some(right)) => Condition::Constant(comparison.holds(left, right)),
            (constant, _) => {
                if constant.is_some() {
                    // a > b is not (b >= a).
                    (comparison, reversed) = match comparison {
                        Comparison::Greater => (Comparison::GreaterOrEqual, !reversed),
                        Comparison::GreaterOrEqual => (Comparison::Greater, !reversed),
                        same => (same, reversed),
                    };
                    std::mem::swap(&mut value, &mut with);
                }
                if let (Value::Operation(Operator::And, inner, mask), Some(0), Comparison::Equal) =
                    (&*value, with.constant(), comparison)
                    && mask.constant().is_some()
                {
                    // One instruction in place of two.
                    reversed = !reversed;
                    let (value, with) = (inner.clone(), mask.clone());
                    Condition::Test(Test { value, comparison: Comparison::AnyBit, with })
                } else {
                    Condition::Test(Test { value, comparison, with })
                }
            }
        };
        let condition = if reversed { condition.not() } else { condition };
        Ok(match (left_needs, right_needs) {
            (None, None) => condition,
            (Some(one), None) | (None, Some(one)) => one.and(condition),
            (Some(left), Some(right)) => left.and(right).and(condition),
        })
    }

    /// A value, and what a packet must be to have it. As in libpcap, what the right side of an
    /// operation needs is not asked.
    fn arithmetic(&self, arithmetic: &Arithmetic) -> Part<(Rc<Value>, Option<Condition>)> {
        match arithmetic {
            Arithmetic::Number(number) => Ok((Rc::new(Value::Constant(*number)), None)),
            Arithmetic::Length => Ok((Rc::new(Value::Length), None)),
            Arithmetic::Negative(inner) => {
                let (value, needs) = self.arithmetic(inner)?;
                Ok(match value.constant() {
                    Some(number) => (Rc::new(Value::Constant(number.wrapping_neg())), needs),
                    None => (Rc::new(Value::Negative(value)), needs),
                })
            }
            Arithmetic::Operation(operator, left, right, at) => {
                let (left, needs) = self.arithmetic(left)?;
                let (right, _) = self.arithmetic(right)?;
                let value = operation(*operator, left, right)
                    .map_err(|why| Wrong::There(Error::new(at.clone(), why)))?;
                Ok((value, needs))
            }
            Arithmetic::Load { protocol, index, size, at } => {
                let (index, needs) = self.arithmetic(index)?;
                self.field(*protocol, index, needs, *size).map_err(|wrong| match wrong {
                    Wrong::Here(why) => Wrong::There(Error::new(at.clone(), why)),
                    there => there,
                })
            }
        }
    }

    fn field(
        &self,
        protocol: Protocol,
        index: Rc<Value>,
        needs: Option<Condition>,
        size: u8,
    ) -> Part<(Rc<Value>, Option<Condition>)> {
        let plus = |needs: Option<Condition>, more: Condition| match needs {
            Some(needs) => Some(needs.and(more)),
            None => Some(more),
        };
        let at = |offset: u32| -> Part<Rc<Value>> {
            Ok(Rc::new(match index.constant() {
                Some(constant) => match offset.checked_add(constant) {
                    Some(offset) if offset < 0x8000_0000 => Value::Load { size, offset },
                    _ => return here("no packet has such an offset"),
                },
                None => Value::LoadAt { size, index: index.clone(), offset },
            }))
        };
        match protocol {
            Protocol::Link => Ok((at(self.link)?, needs)),
            Protocol::Ip | Protocol::Arp | Protocol::Rarp | Protocol::Ip6 => {
                Ok((at(self.network)?, plus(needs, self.protocol(protocol)?)))
            }
            Protocol::Icmp6 => {
                let needs = plus(needs, self.is(IP6)?);
                let needs = plus(needs, equal(load(1, self.network + 6), ICMP6));
                Ok((at(self.network + 40)?, needs))
            }
            Protocol::Default => here("there is no such field"),
            _ => {
                let needs = plus(
                    Some(self.is(IP)?),
                    match needs {
                        Some(needs) => needs,
                        None => Condition::Constant(true),
                    },
                );
                let needs = plus(needs, self.protocol(protocol)?.and(self.not_fragment()));
                let header = Rc::new(Value::HeaderLength(self.network));
                let value = match index.constant() {
                    Some(constant) => {
                        let offset = self.network.checked_add(constant);
                        match offset.filter(|offset| *offset < 0x8000_0000) {
                            Some(offset) => Value::LoadAt { size, index: header, offset },
                            None => return here("no packet has such an offset"),
                        }
                    }
                    None => {
                        let index = Value::Operation(Operator::Add, index, header);
                        Value::LoadAt { size, index: Rc::new(index), offset: self.network }
                    }
                };
                Ok((Rc::new(value), needs))
            }
        }
    }
}

/// What is wrong with a primitive, or at another place.
enum Wrong {
    Here(String),
    There(Error),
}

type Part<T> = std::result::Result<T, Wrong>;

fn here<T>(why: impl Into<String>) -> Part<T> {
    Err(Wrong::Here(why.into()))
}

/// A port by number or name, and the protocol that this leaves.
fn port(name: &str, protocol: Option<u32>) -> Part<(u32, Option<u32>)> {
    if let Ok(port) = name.parse() {
        return Ok((port, protocol));
    }
    match names::service(name) {
        None => here(format!("there is no service `{name}`")),
        Some((port, None)) => Ok((port, protocol)),
        Some((port, only)) => match protocol {
            Some(asked) if only != protocol && asked != SCTP => {
                here(format!("the service `{name}` is not one of this protocol"))
            }
            Some(_) => Ok((port, protocol)),
            None => Ok((port, only)),
        },
    }
}

fn load(size: u8, offset: u32) -> Value {
    Value::Load { size, offset }
}

fn equal(value: Value, with: u32) -> Condition {
    Condition::test(value, Comparison::Equal, with)
}

fn masked(value: Value, mask: u32, with: u32) -> Condition {
    let whole = match value {
        Value::Load { size: 1, .. } => 0xff,
        Value::Load { size: 2, .. } => 0xffff,
        _ => u32::MAX,
    };
    match mask {
        _ if mask == whole => equal(value, with),
        _ => {
            let mask = Rc::new(Value::Constant(mask));
            equal(Value::Operation(Operator::And, Rc::new(value), mask), with)
        }
    }
}

/// An operation, worked out if both sides are constants.
fn operation(
    operator: Operator,
    left: Rc<Value>,
    right: Rc<Value>,
) -> std::result::Result<Rc<Value>, &'static str> {
    if let Some(right) = right.constant() {
        match operator {
            Operator::Divide | Operator::Modulo if right == 0 => {
                return Err("this divides by zero");
            }
            Operator::ShiftLeft | Operator::ShiftRight if right > 31 => {
                return Err("this shifts by more than 31 bits");
            }
            _ => {}
        }
        if let Some(value) = left.constant().and_then(|left| apply(operator, left, right)) {
            return Ok(Rc::new(Value::Constant(value)));
        }
    }
    let turns = matches!(
        operator,
        Operator::Add | Operator::Multiply | Operator::And | Operator::Or | Operator::Xor
    );
    let (left, right) = match left.constant() {
        Some(_) if turns => (right, left),
        _ => (left, right),
    };
    Ok(Rc::new(Value::Operation(operator, left, right)))
}
