// SPDX-License-Identifier: Apache-2.0

//! Tuples and zones (`ctnetlink_dump_tuples()`, `ctnetlink_parse_tuple_filter()`).

use penstock_conntrack::tuple::{IPV4, IPV6};
use penstock_conntrack::{Direction, Tuple};
use penstock_ruleset::Errno;

use crate::connections::Wanted;
use crate::message::{Attribute, Attributes, Check, Failure, NESTED, Policy, Writer};
use crate::uapi::ctnetlink::*;

const TUPLE_POLICY: Policy = &[
    (CTA_TUPLE_IP, Check::Nested),
    (CTA_TUPLE_PROTO, Check::Nested),
    (CTA_TUPLE_ZONE, Check::U16),
];
const IP_POLICY: Policy = &[
    (CTA_IP_V4_SRC, Check::U32),
    (CTA_IP_V4_DST, Check::U32),
    (CTA_IP_V6_SRC, Check::Least(16)),
    (CTA_IP_V6_DST, Check::Least(16)),
];
const PROTO_POLICY: Policy = &[(CTA_PROTO_NUM, Check::U8)];
const PORT_POLICY: Policy = &[(CTA_PROTO_SRC_PORT, Check::U16), (CTA_PROTO_DST_PORT, Check::U16)];
const ICMP_POLICY: Policy = &[
    (CTA_PROTO_ICMP_TYPE, Check::U8),
    (CTA_PROTO_ICMP_CODE, Check::U8),
    (CTA_PROTO_ICMP_ID, Check::U16),
];
const ICMPV6_POLICY: Policy = &[
    (CTA_PROTO_ICMPV6_TYPE, Check::U8),
    (CTA_PROTO_ICMPV6_CODE, Check::U8),
    (CTA_PROTO_ICMPV6_ID, Check::U16),
];

/// What identifies a flow of a protocol besides addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identifiers {
    None,
    /// Ports, or keys of GRE.
    Ports,
    /// Identifier, type, code: their attributes and bits of filters.
    Icmp([u16; 3], [u32; 3], Policy),
}

impl Identifiers {
    fn of(protocol: u8) -> Self {
        match protocol {
            // TCP, UDP, DCCP, GRE, SCTP, UDP-Lite.
            6 | 17 | 33 | 47 | 132 | 136 => Identifiers::Ports,
            1 => Identifiers::Icmp(
                [CTA_PROTO_ICMP_ID, CTA_PROTO_ICMP_TYPE, CTA_PROTO_ICMP_CODE],
                [filter::PROTO_ICMP_ID, filter::PROTO_ICMP_TYPE, filter::PROTO_ICMP_CODE],
                ICMP_POLICY,
            ),
            58 => Identifiers::Icmp(
                [CTA_PROTO_ICMPV6_ID, CTA_PROTO_ICMPV6_TYPE, CTA_PROTO_ICMPV6_CODE],
                [filter::PROTO_ICMPV6_ID, filter::PROTO_ICMPV6_TYPE, filter::PROTO_ICMPV6_CODE],
                ICMPV6_POLICY,
            ),
            _ => Identifiers::None,
        }
    }
}

/// A zone with the directions that it is for (`struct nf_conntrack_zone`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// By direction, 0 where it is not for that one.
    pub zones: [u16; 2],
}

impl Zone {
    /// The zone of both directions (`ctnetlink_parse_zone()`).
    pub fn read(attribute: Option<Attribute<'_>>) -> Self {
        Zone { zones: [attribute.map_or(0, |zone| zone.be16()); 2] }
    }

    /// A tuple in it.
    pub fn wanted(self, tuple: Tuple) -> Wanted {
        Wanted { tuple, zones: self.zones }
    }
}

/// Appends addresses and identifiers.
fn write_parts(to: &mut Writer, tuple: &Tuple) {
    write_addresses(to, tuple);
    write_identifiers(to, tuple);
}

/// Appends the addresses of a tuple.
pub fn write_addresses(to: &mut Writer, tuple: &Tuple) {
    to.nest(CTA_TUPLE_IP | NESTED, |to| {
        let (source, destination, len) = match tuple.l3 {
            IPV4 => (CTA_IP_V4_SRC, CTA_IP_V4_DST, 4),
            _ => (CTA_IP_V6_SRC, CTA_IP_V6_DST, 16),
        };
        to.attribute(source, &tuple.src[..len]);
        to.attribute(destination, &tuple.dst[..len]);
    });
}

/// Appends protocol and identifiers of a tuple.
pub fn write_identifiers(to: &mut Writer, tuple: &Tuple) {
    to.nest(CTA_TUPLE_PROTO | NESTED, |to| {
        to.u8(CTA_PROTO_NUM, tuple.protocol);
        match Identifiers::of(tuple.protocol) {
            Identifiers::None => {}
            Identifiers::Ports => {
                to.be16(CTA_PROTO_SRC_PORT, tuple.src_id);
                to.be16(CTA_PROTO_DST_PORT, tuple.dst_id);
            }
            Identifiers::Icmp([id, kind, code], _, _) => {
                let [of_kind, of_code] = tuple.dst_id.to_be_bytes();
                to.be16(id, tuple.src_id);
                to.u8(kind, of_kind);
                to.u8(code, of_code);
            }
        }
    });
}

/// Appends a tuple without its zone.
pub fn write(to: &mut Writer, kind: u16, tuple: &Tuple) {
    to.nest(kind | NESTED, |to| write_parts(to, tuple));
}

/// Appends both tuples of a connection and their zones.
pub fn write_both(to: &mut Writer, original: &Tuple, reply: &Tuple) {
    let apart = original.zone != reply.zone;
    for (kind, tuple) in [(CTA_TUPLE_ORIG, original), (CTA_TUPLE_REPLY, reply)] {
        to.nest(kind | NESTED, |to| {
            write_parts(to, tuple);
            if apart && tuple.zone != 0 {
                to.be16(CTA_TUPLE_ZONE, tuple.zone);
            }
        });
    }
    if !apart && original.zone != 0 {
        to.be16(CTA_ZONE, original.zone);
    }
}

/// How a tuple of a message is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// `NFPROTO_*` of the message.
    pub family: u8,
    /// Which direction its zone is for.
    pub direction: Direction,
    /// Bits of [`filter`] that must be there.
    pub flags: u32,
}

impl Reading {
    /// A whole tuple.
    pub fn whole(family: u8, direction: Direction) -> Self {
        Reading { family, direction, flags: filter::ALL }
    }
}

/// A tuple of an attribute; `zone` becomes that of the tuple if it has one. `None` for a tuple that
/// cannot have a zone.
///
/// # Errors
/// `EOPNOTSUPP` for a family other than IPv4 and IPv6, `EINVAL` for a tuple with less than what is
/// asked for. No attribute is blamed.
pub fn read(
    attribute: Attribute<'_>,
    reading: Reading,
    zone: Option<&mut Zone>,
) -> Result<Tuple, Failure> {
    read_parts(attribute, reading, zone).map_err(Failure::blaming_nothing)
}

fn read_parts(
    attribute: Attribute<'_>,
    reading: Reading,
    zone: Option<&mut Zone>,
) -> Result<Tuple, Failure> {
    let given = attribute.attributes(TUPLE_POLICY)?;
    if ![IPV4, IPV6].contains(&reading.family) {
        return Err(Errno::Eopnotsupp.into());
    }
    let has = |flags: u32| reading.flags & flags != 0;
    let mut tuple = Tuple { l3: reading.family, ..Tuple::default() };
    if has(filter::IP_SRC | filter::IP_DST) {
        read_addresses(given.need(CTA_TUPLE_IP)?, reading.flags, &mut tuple)?;
    }
    if has(filter::PROTO_NUM) {
        read_identifiers(given.need(CTA_TUPLE_PROTO)?, reading.flags, &mut tuple)?;
    } else if has(filter::OF_PROTO) {
        return Err(Failure::einval());
    }
    if has(filter::TUPLE_ZONE)
        && let Some(of_tuple) = given.get(CTA_TUPLE_ZONE)
    {
        let zone = zone.filter(|zone| zone.zones == [0; 2]).ok_or(Failure::einval())?;
        zone.zones[reading.direction as usize] = of_tuple.be16();
    }
    Ok(tuple)
}

fn read_addresses(ip: Attribute<'_>, flags: u32, tuple: &mut Tuple) -> Result<(), Failure> {
    let given = ip.attributes(IP_POLICY)?;
    let (source, destination, len) = match tuple.l3 {
        IPV4 => (CTA_IP_V4_SRC, CTA_IP_V4_DST, 4),
        _ => (CTA_IP_V6_SRC, CTA_IP_V6_DST, 16),
    };
    let copy = |flag, kind, to: &mut [u8; 16]| -> Result<(), Failure> {
        if flags & flag != 0 {
            let from = given.need(kind)?.payload.get(..len).ok_or(Failure::erange())?;
            to[..len].copy_from_slice(from);
        }
        Ok(())
    };
    copy(filter::IP_SRC, source, &mut tuple.src)?;
    copy(filter::IP_DST, destination, &mut tuple.dst)
}

/// An attribute that must be there if the flags have a bit.
fn value<'a>(
    given: &Attributes<'a>,
    (flags, flag): (u32, u32),
    kind: u16,
) -> Result<Option<Attribute<'a>>, Failure> {
    if flags & flag != 0 { given.need(kind).map(Some) } else { Ok(None) }
}

fn read_identifiers(proto: Attribute<'_>, flags: u32, tuple: &mut Tuple) -> Result<(), Failure> {
    let given = proto.attributes(PROTO_POLICY)?;
    tuple.protocol = given.need(CTA_PROTO_NUM)?.u8();
    match Identifiers::of(tuple.protocol) {
        Identifiers::None => {}
        Identifiers::Ports => {
            let given = proto.attributes(PORT_POLICY)?;
            let source = value(&given, (flags, filter::PROTO_SRC_PORT), CTA_PROTO_SRC_PORT)?;
            let destination = value(&given, (flags, filter::PROTO_DST_PORT), CTA_PROTO_DST_PORT)?;
            tuple.src_id = source.map_or(0, |port| port.be16());
            tuple.dst_id = destination.map_or(0, |port| port.be16());
        }
        Identifiers::Icmp([id, kind, code], [of_id, of_kind, of_code], policy) => {
            let given = proto.attributes(policy)?;
            let kind = value(&given, (flags, of_kind), kind)?;
            let number = kind.map_or(0, |kind| kind.u8());
            tuple.dst_id = u16::from(number) << 8;
            if kind.is_some() && tuple.invert().is_none() {
                return Err(Failure::einval());
            }
            tuple.dst_id |=
                value(&given, (flags, of_code), code)?.map_or(0, |code| u16::from(code.u8()));
            tuple.src_id = value(&given, (flags, of_id), id)?.map_or(0, |id| id.be16());
        }
    }
    Ok(())
}
