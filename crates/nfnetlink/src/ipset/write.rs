// SPDX-License-Identifier: Apache-2.0

//! What is told of sets and elements (`ip_set_dump_do()`, and `head` and `list` of the types).

use penstock_ipset::given::{IFACE_WILDCARD, NOMATCH, PHYSDEV};
use penstock_ipset::{Dimension, Element, Family, Kind, Listed, Shape, Told};

use super::SUBSYSTEM;
use crate::message::{Message, NESTED, Writer};
use crate::uapi::ipset::*;

/// `NLA_F_NET_BYTEORDER`
const NET: u16 = 0x4000;

/// A message in answer to another one.
fn answer(message: &Message<'_>, port: u32, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut to = Writer::default();
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(message.number());
    let start = to.begin(kind, 0, message.header.sequence, port);
    to.raw(&[Family::V4 as u8, 0, 0, 0]);
    write(&mut to);
    to.end(start);
    to.finish()
}

fn own_protocol(message: &Message<'_>) -> u8 {
    let given = message.attributes(&[]).ok();
    given.and_then(|given| given.get(IPSET_ATTR_PROTOCOL)).map_or(IPSET_PROTOCOL, |a| a.u8())
}

/// Answers `IPSET_CMD_PROTOCOL`.
pub fn protocol(message: &Message<'_>, port: u32) -> Vec<u8> {
    answer(message, port, |to| {
        to.u8(IPSET_ATTR_PROTOCOL, IPSET_PROTOCOL);
        to.u8(IPSET_ATTR_PROTOCOL_MIN, IPSET_PROTOCOL_MIN);
    })
}

/// Answers `IPSET_CMD_TYPE`.
pub fn kind(message: &Message<'_>, port: u32, kind: Kind, family: u8) -> Vec<u8> {
    answer(message, port, |to| {
        to.u8(IPSET_ATTR_PROTOCOL, own_protocol(message));
        to.string(IPSET_ATTR_TYPENAME, kind.name());
        to.u8(IPSET_ATTR_FAMILY, family);
        to.u8(IPSET_ATTR_REVISION, kind.newest_revision());
        to.u8(IPSET_ATTR_REVISION_MIN, 0);
    })
}

/// Answers `IPSET_CMD_HEADER`, or else `IPSET_CMD_GET_BYNAME`.
pub fn named(message: &Message<'_>, port: u32, set: &Listed, header: bool) -> Vec<u8> {
    answer(message, port, |to| {
        to.u8(IPSET_ATTR_PROTOCOL, own_protocol(message));
        if !header {
            to.u8(IPSET_ATTR_FAMILY, set.header.family as u8);
            to.be16(IPSET_ATTR_INDEX | NET, set.index);
            return;
        }
        to.string(IPSET_ATTR_SETNAME, &set.name);
        to.string(IPSET_ATTR_TYPENAME, set.header.kind.name());
        to.u8(IPSET_ATTR_FAMILY, set.header.family as u8);
        to.u8(IPSET_ATTR_REVISION, set.header.revision);
    })
}

/// Answers `IPSET_CMD_GET_BYINDEX`.
pub fn name(message: &Message<'_>, port: u32, set: &Listed) -> Vec<u8> {
    answer(message, port, |to| {
        to.u8(IPSET_ATTR_PROTOCOL, own_protocol(message));
        to.string(IPSET_ATTR_SETNAME, &set.name);
    })
}

fn address(to: &mut Writer, kind: u16, family: Family, bytes: &[u8; 16]) {
    to.nest(kind | NESTED, |to| match family {
        Family::V6 => to.attribute(IPSET_ATTR_IPADDR_IPV6 | NET, bytes),
        _ => to.attribute(IPSET_ATTR_IPADDR_IPV4 | NET, &bytes[..4]),
    });
}

fn address4(to: &mut Writer, kind: u16, address: u32) {
    to.nest(kind | NESTED, |to| to.be32(IPSET_ATTR_IPADDR_IPV4 | NET, address));
}

/// A set without its elements.
pub fn set(to: &mut Writer, set: &Listed, version: u8) {
    let header = &set.header;
    to.string(IPSET_ATTR_SETNAME, &set.name);
    to.string(IPSET_ATTR_TYPENAME, header.kind.name());
    to.u8(IPSET_ATTR_FAMILY, header.family as u8);
    to.u8(IPSET_ATTR_REVISION, header.revision);
    if version > IPSET_PROTOCOL_MIN {
        to.be16(IPSET_ATTR_INDEX | NET, set.index);
    }
    to.nest(IPSET_ATTR_DATA | NESTED, |to| {
        shape(to, set);
        to.be32(IPSET_ATTR_REFERENCES | NET, set.references);
        to.be32(IPSET_ATTR_MEMSIZE | NET, set.memory);
        to.be32(IPSET_ATTR_ELEMENTS | NET, set.elements);
        if let Some(timeout) = header.options.timeout {
            to.be32(IPSET_ATTR_TIMEOUT | NET, timeout);
        }
        let flags = header.options.flags();
        if flags != 0 {
            to.be32(IPSET_ATTR_CADT_FLAGS | NET, flags);
        }
    });
}

fn shape(to: &mut Writer, set: &Listed) {
    let header = &set.header;
    match &header.options.shape {
        Shape::Bitmap { first, last, .. } if header.kind == Kind::BitmapPort => {
            to.be16(IPSET_ATTR_PORT | NET, *first as u16);
            to.be16(IPSET_ATTR_PORT_TO | NET, *last as u16);
        }
        Shape::Bitmap { first, last, netmask } => {
            address4(to, IPSET_ATTR_IP, *first);
            address4(to, IPSET_ATTR_IP_TO, *last);
            if *netmask != 32 {
                to.u8(IPSET_ATTR_NETMASK, *netmask);
            }
        }
        Shape::Hash { hashsize, maxelem, netmask, bitmask, markmask, bucketsize, initval } => {
            to.be32(IPSET_ATTR_HASHSIZE | NET, *hashsize);
            to.be32(IPSET_ATTR_MAXELEM | NET, *maxelem);
            if let Some(bitmask) = bitmask {
                address(to, IPSET_ATTR_BITMASK, header.family, bitmask);
            }
            if let Some(netmask) = netmask {
                to.u8(IPSET_ATTR_NETMASK, *netmask);
            }
            if header.kind == Kind::HashIpMark {
                to.be32(IPSET_ATTR_MARKMASK | NET, *markmask);
            }
            to.u8(IPSET_ATTR_BUCKETSIZE, *bucketsize);
            to.be32(IPSET_ATTR_INITVAL | NET, *initval);
        }
        Shape::List { size } => to.be32(IPSET_ATTR_SIZE | NET, *size),
    }
}

/// How many elements from the beginning fit into a message of some bytes: one at least, if there is
/// any.
pub fn fitting(elements: &[Told], set: &Listed, limit: usize) -> usize {
    /// Of a set without its elements.
    const HEADERS: usize = 512;
    let mut writer = Writer::default();
    let room = limit.saturating_sub(HEADERS);
    let fits = elements.iter().position(|told| {
        element(&mut writer, set, told);
        writer.len() > room
    });
    fits.map_or(elements.len(), |at| at.max(1))
}

/// An element.
pub fn element(to: &mut Writer, set: &Listed, told: &Told) {
    to.nest(IPSET_ATTR_DATA | NESTED, |to| {
        match set.header.kind {
            Kind::ListSet => {
                to.string(IPSET_ATTR_NAME, told.name.as_deref().unwrap_or_default());
            }
            kind => key(to, kind, set.header.family, told),
        }
        extensions(to, set, told);
    });
}

fn key(to: &mut Writer, kind: Kind, family: Family, told: &Told) {
    let Element { nets, port, protocol, mac, mark, device } = &told.element;
    let mut flags = if told.carried.nomatch { NOMATCH } else { 0 };
    let mut net = 0;
    for dimension in kind.dimensions() {
        match dimension {
            Dimension::Ip | Dimension::Net => {
                let (of_address, of_len) = match net {
                    0 => (IPSET_ATTR_IP, IPSET_ATTR_CIDR),
                    _ => (IPSET_ATTR_IP2, IPSET_ATTR_CIDR2),
                };
                address(to, of_address, family, &nets[net].address);
                if *dimension == Dimension::Net {
                    to.u8(of_len, nets[net].len);
                }
                net = 1;
            }
            Dimension::Port => {
                to.be16(IPSET_ATTR_PORT | NET, *port);
                if kind != Kind::BitmapPort {
                    to.u8(IPSET_ATTR_PROTO, *protocol);
                }
            }
            Dimension::Mac if kind == Kind::BitmapIpMac => {
                if let Some(mac) = &told.carried.mac {
                    to.attribute(IPSET_ATTR_ETHER, mac);
                }
            }
            Dimension::Mac => to.attribute(IPSET_ATTR_ETHER, mac),
            Dimension::Mark => to.be32(IPSET_ATTR_MARK | NET, *mark),
            Dimension::Iface => {
                to.string(IPSET_ATTR_IFACE, device.text());
                flags |= if device.port { PHYSDEV } else { 0 };
                flags |= if device.wildcard { IFACE_WILDCARD } else { 0 };
            }
        }
    }
    if flags != 0 {
        to.be32(IPSET_ATTR_CADT_FLAGS | NET, flags);
    }
}

/// `ip_set_put_extensions()`
fn extensions(to: &mut Writer, set: &Listed, told: &Told) {
    let options = &set.header.options;
    let info = told.carried.skbinfo;
    if options.timeout.is_some() {
        to.be32(IPSET_ATTR_TIMEOUT | NET, told.timeout);
    }
    if options.counters {
        let [packets, bytes] = told.carried.counters;
        to.be64(IPSET_ATTR_BYTES | NET, bytes);
        to.be64(IPSET_ATTR_PACKETS | NET, packets);
    }
    if let Some(comment) = &told.comment {
        to.string(IPSET_ATTR_COMMENT, comment);
    }
    if options.skbinfo {
        if info.mark != 0 || info.mask != 0 {
            let mark = u64::from(info.mark) << 32 | u64::from(info.mask);
            to.be64(IPSET_ATTR_SKBMARK | NET, mark);
        }
        if info.priority != 0 {
            to.be32(IPSET_ATTR_SKBPRIO | NET, info.priority);
        }
        if info.queue != 0 {
            to.be16(IPSET_ATTR_SKBQUEUE | NET, info.queue);
        }
    }
}
