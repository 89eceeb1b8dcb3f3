// SPDX-License-Identifier: Apache-2.0

//! What messages say of sets and elements.

use std::net::IpAddr;

use penstock_ipset::{Given, GivenExtensions, GivenSet};

use super::protocol;
use crate::message::{Attribute, Attributes, Check, Failure, Policy};
use crate::uapi::ipset::*;

/// `create_policy` of all types.
const SET: Policy = &[
    (IPSET_ATTR_IP, Check::Nested),
    (IPSET_ATTR_IP_TO, Check::Nested),
    (IPSET_ATTR_CIDR, Check::U8),
    (IPSET_ATTR_PORT, Check::U16),
    (IPSET_ATTR_PORT_TO, Check::U16),
    (IPSET_ATTR_TIMEOUT, Check::U32),
    (IPSET_ATTR_CADT_FLAGS, Check::U32),
    (IPSET_ATTR_MARKMASK, Check::U32),
    (IPSET_ATTR_BITMASK, Check::Nested),
    (IPSET_ATTR_INITVAL, Check::U32),
    (IPSET_ATTR_HASHSIZE, Check::U32),
    (IPSET_ATTR_MAXELEM, Check::U32),
    (IPSET_ATTR_NETMASK, Check::U8),
    (IPSET_ATTR_BUCKETSIZE, Check::U8),
    (IPSET_ATTR_SIZE, Check::U32),
];

/// `adt_policy` of all types.
const ELEMENT: Policy = &[
    (IPSET_ATTR_IP, Check::Nested),
    (IPSET_ATTR_IP_TO, Check::Nested),
    (IPSET_ATTR_CIDR, Check::U8),
    (IPSET_ATTR_PORT, Check::U16),
    (IPSET_ATTR_PORT_TO, Check::U16),
    (IPSET_ATTR_TIMEOUT, Check::U32),
    (IPSET_ATTR_PROTO, Check::U8),
    (IPSET_ATTR_CADT_FLAGS, Check::U32),
    (IPSET_ATTR_CADT_LINENO, Check::U32),
    (IPSET_ATTR_MARK, Check::U32),
    (IPSET_ATTR_ETHER, Check::Least(6)),
    (IPSET_ATTR_NAME, Check::String(IPSET_NAME_MAX)),
    (IPSET_ATTR_NAMEREF, Check::String(IPSET_NAME_MAX)),
    (IPSET_ATTR_IP2, Check::Nested),
    (IPSET_ATTR_CIDR2, Check::U8),
    (IPSET_ATTR_IP2_TO, Check::Nested),
    (IPSET_ATTR_IFACE, Check::NulString(15)),
    (IPSET_ATTR_BYTES, Check::U64),
    (IPSET_ATTR_PACKETS, Check::U64),
    (IPSET_ATTR_COMMENT, Check::NulString(IPSET_COMMENT_MAX)),
    (IPSET_ATTR_SKBMARK, Check::U64),
    (IPSET_ATTR_SKBPRIO, Check::U32),
    (IPSET_ATTR_SKBQUEUE, Check::U16),
];

const ADDRESS: Policy =
    &[(IPSET_ATTR_IPADDR_IPV4, Check::U32), (IPSET_ATTR_IPADDR_IPV6, Check::Least(16))];

/// An address (`ip_set_get_ipaddr4()`, `ip_set_get_ipaddr6()`).
fn address(given: &Attributes<'_>, kind: u16) -> Result<Option<IpAddr>, Failure> {
    let Some(attribute) = given.get(kind) else { return Ok(None) };
    let inner = attribute.attributes(ADDRESS).map_err(|_| protocol())?;
    if let Some(v4) = inner.get(IPSET_ATTR_IPADDR_IPV4) {
        return Ok(Some(v4.be32().to_be_bytes().into()));
    }
    let v6 = inner.get(IPSET_ATTR_IPADDR_IPV6).ok_or_else(protocol)?;
    let bytes: [u8; 16] = v6.payload.first_chunk().copied().ok_or_else(protocol)?;
    Ok(Some(bytes.into()))
}

fn text(given: &Attributes<'_>, kind: u16) -> Result<Option<Box<str>>, Failure> {
    given.get(kind).map(|a| a.text().map(Into::into).map_err(|_| protocol())).transpose()
}

/// What a message says of a new set.
pub fn set(data: &Attribute<'_>) -> Result<GivenSet, Failure> {
    let given = data.attributes(SET).map_err(|_| protocol())?;
    let u8 = |kind| given.get(kind).map(|a| a.u8());
    let be16 = |kind| given.get(kind).map(|a| a.be16());
    Ok(GivenSet {
        ip: address(&given, IPSET_ATTR_IP)?,
        ip_to: address(&given, IPSET_ATTR_IP_TO)?,
        cidr: u8(IPSET_ATTR_CIDR),
        port: be16(IPSET_ATTR_PORT),
        port_to: be16(IPSET_ATTR_PORT_TO),
        timeout: given.be32(IPSET_ATTR_TIMEOUT),
        flags: given.be32(IPSET_ATTR_CADT_FLAGS).unwrap_or(0),
        markmask: given.be32(IPSET_ATTR_MARKMASK),
        bitmask: address(&given, IPSET_ATTR_BITMASK)?,
        netmask: u8(IPSET_ATTR_NETMASK),
        initval: given.be32(IPSET_ATTR_INITVAL),
        hashsize: given.be32(IPSET_ATTR_HASHSIZE),
        maxelem: given.be32(IPSET_ATTR_MAXELEM),
        bucketsize: u8(IPSET_ATTR_BUCKETSIZE),
        size: given.be32(IPSET_ATTR_SIZE),
    })
}

/// What a message says of an element, and the number of its line as it lies there.
pub fn element(data: &Attribute<'_>) -> Result<(Given, Option<[u8; 4]>), Failure> {
    let given = data.attributes(ELEMENT).map_err(|_| protocol())?;
    let u8 = |kind| given.get(kind).map(|a| a.u8());
    let be16 = |kind| given.get(kind).map(|a| a.be16());
    let line = given.get(IPSET_ATTR_CADT_LINENO);
    let extensions = GivenExtensions {
        timeout: given.be32(IPSET_ATTR_TIMEOUT),
        packets: given.be64(IPSET_ATTR_PACKETS),
        bytes: given.be64(IPSET_ATTR_BYTES),
        comment: text(&given, IPSET_ATTR_COMMENT)?,
        skbmark: given.be64(IPSET_ATTR_SKBMARK),
        skbprio: given.be32(IPSET_ATTR_SKBPRIO),
        skbqueue: be16(IPSET_ATTR_SKBQUEUE),
    };
    let element = Given {
        ip: address(&given, IPSET_ATTR_IP)?,
        ip_to: address(&given, IPSET_ATTR_IP_TO)?,
        cidr: u8(IPSET_ATTR_CIDR),
        ip2: address(&given, IPSET_ATTR_IP2)?,
        ip2_to: address(&given, IPSET_ATTR_IP2_TO)?,
        cidr2: u8(IPSET_ATTR_CIDR2),
        port: be16(IPSET_ATTR_PORT),
        port_to: be16(IPSET_ATTR_PORT_TO),
        protocol: u8(IPSET_ATTR_PROTO),
        mark: given.be32(IPSET_ATTR_MARK),
        mac: given.get(IPSET_ATTR_ETHER).and_then(|a| a.payload.first_chunk().copied()),
        iface: text(&given, IPSET_ATTR_IFACE)?,
        name: text(&given, IPSET_ATTR_NAME)?,
        nameref: text(&given, IPSET_ATTR_NAMEREF)?,
        flags: given.be32(IPSET_ATTR_CADT_FLAGS).unwrap_or(0),
        extensions,
    };
    Ok((element, line.and_then(|a| a.payload.first_chunk().copied())))
}
