// SPDX-License-Identifier: Apache-2.0

//! Protocol headers and how they nest (nft's `struct proto_desc`).
//!
//! The headers of one layer each have a file: [`link`], [`network`], [`transport`]; [`tunnel`]
//! holds those that carry frames or packets again. [`link`] also holds the pseudo headers that a
//! family starts from; their only field is a `meta` key.

use penstock_program::expr::{ChecksumType, MetaKey, PayloadBase};
use penstock_ruleset::Family;

use crate::datatype::{ByteOrder, DataType};

pub mod link;
pub mod network;
pub mod transport;
pub mod tunnel;

/// A header field.
#[derive(Debug, PartialEq, Eq)]
pub struct Template {
    /// As written after the header's name.
    pub name: &'static str,
    /// Data type.
    pub dtype: DataType,
    /// Bits from the start of the header.
    pub offset: u32,
    /// Bits.
    pub len: u32,
    /// Byte order in the header.
    pub order: ByteOrder,
    /// The `meta` key that is loaded in place of the field where it serves as a dependency
    /// (`meta l4proto` for what follows the network header).
    pub meta: Option<MetaKey>,
    /// Which messages have the field, for ICMP and ICMPv6.
    pub icmp: IcmpField,
}

/// Kinds of ICMP message that a field belongs to (nft's `enum icmp_hdr_field_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IcmpField {
    /// All messages.
    Any,
    Echo,
    Mtu,
    Address,
    Echo6,
    Mtu6,
    PointerParameter6,
    MaxDelay6,
    Target6,
    Redirect6,
}

impl IcmpField {
    /// Values of the `type` field of such messages, in the order nft puts them in a set; one value
    /// is compared directly. Empty for [`IcmpField::Any`].
    pub fn types(self) -> &'static [u8] {
        match self {
            IcmpField::Any => &[],
            IcmpField::Echo => &[8, 0],
            IcmpField::Mtu => &[3],
            IcmpField::Address => &[5],
            IcmpField::Echo6 => &[128, 129],
            IcmpField::Mtu6 => &[2],
            IcmpField::PointerParameter6 => &[4],
            IcmpField::MaxDelay6 => &[130],
            IcmpField::Target6 => &[130, 131, 132, 135, 136, 137],
            IcmpField::Redirect6 => &[137],
        }
    }
}

/// A protocol header.
#[derive(Debug)]
pub struct Proto {
    /// As written.
    pub name: &'static str,
    /// Which base its offsets count from; `None` for headers that stand at no fixed base (inside
    /// tunnels only).
    pub base: PayloadBase,
    /// Fields. Where several lie on the same bits, the first is the one that is listed.
    pub templates: &'static [Template],
    /// The field that says what follows, by index into `templates`.
    pub protocol_key: Option<usize>,
    /// Header number in that field -> following header.
    pub upper: &'static [(u32, &'static Proto)],
    /// Offset of the header's checksum in bytes, and its kind.
    pub checksum: Option<(u32, ChecksumType)>,
    /// Fields covered by the pseudo header of the transport checksum, by index.
    pub pseudo_header: &'static [usize],
    /// Length of the header in bits that is put before an upper header of the same base (stacked
    /// headers: VLAN).
    pub len: u32,
}

impl PartialEq for Proto {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Proto {}

impl Proto {
    /// The field of that name.
    pub fn template(&self, name: &str) -> Option<&'static Template> {
        // Read by one name, listed by another.
        let name = if name == "param-problem" { "parameter-problem" } else { name };
        self.templates.iter().find(|t| t.meta.is_none() && t.name == name)
    }

    /// The field on exactly these bits, the first in order of the table.
    pub fn template_at(&self, offset: u32, len: u32) -> Option<&'static Template> {
        self.templates.iter().find(|t| t.meta.is_none() && t.offset == offset && t.len == len)
    }

    /// The field that says what follows.
    pub fn protocol_template(&self) -> Option<&'static Template> {
        self.protocol_key.and_then(|i| self.templates.get(i))
    }

    /// Whether a field is covered by the pseudo header of the transport checksum.
    pub fn in_pseudo_header(&self, field: &Template) -> bool {
        self.pseudo_header
            .iter()
            .any(|&i| self.templates.get(i).is_some_and(|t| std::ptr::eq(t, field)))
    }

    /// The header that a number in the protocol field stands for.
    pub fn upper_by_number(&self, number: u32) -> Option<&'static Proto> {
        self.upper.iter().find(|(n, _)| *n == number).map(|(_, p)| *p)
    }

    /// The number that stands for a following header.
    pub fn number_of(&self, upper: &Proto) -> Option<u32> {
        self.upper.iter().find(|(_, p)| *p == upper).map(|(n, _)| *n)
    }

    /// Whether this is ICMP or ICMPv6: their fields depend on the message type.
    pub fn is_icmp(&self) -> bool {
        *self == transport::ICMP || *self == transport::ICMPV6
    }
}

/// The header of that name, as the grammar knows it.
pub fn find(name: &str) -> Option<&'static Proto> {
    ALL.iter().find(|p| p.name == name).copied()
}

/// All headers that can be written.
pub static ALL: &[&Proto] = &[
    &link::ETHER,
    &link::VLAN,
    &network::ARP,
    &network::IP,
    &network::IP6,
    &transport::ICMP,
    &transport::ICMPV6,
    &transport::IGMP,
    &transport::TCP,
    &transport::UDP,
    &transport::UDPLITE,
    &transport::DCCP,
    &transport::SCTP,
    &transport::AH,
    &transport::ESP,
    &transport::COMP,
    &transport::TH,
    &tunnel::VXLAN,
    &tunnel::GENEVE,
    &tunnel::GRE,
    &tunnel::GRETAP,
];

/// What is known of a packet before any match: the base and header that the hooks of a family start
/// with (nft's `hook_proto_desc`).
pub fn of_family(family: Family) -> (PayloadBase, &'static Proto) {
    match family {
        Family::Bridge => (PayloadBase::Link, &link::ETHER),
        Family::Netdev => (PayloadBase::Link, &link::NETDEV),
        Family::Inet => (PayloadBase::Link, &link::INET),
        Family::Ip => (PayloadBase::Network, &network::IP),
        Family::Ip6 => (PayloadBase::Network, &network::IP6),
        Family::Arp => (PayloadBase::Network, &network::ARP),
    }
}

/// A whole field in network order.
const fn field(name: &'static str, dtype: DataType, offset: u32, len: u32) -> Template {
    Template { name, dtype, offset, len, order: ByteOrder::Big, meta: None, icmp: IcmpField::Any }
}

/// A field that does not fill bytes: evaluation treats it as a host integer and shifts it into
/// place.
const fn bits(name: &'static str, dtype: DataType, offset: u32, len: u32) -> Template {
    Template { name, dtype, offset, len, order: ByteOrder::Host, meta: None, icmp: IcmpField::Any }
}

/// A field of some ICMP messages.
const fn icmp(name: &'static str, offset: u32, len: u32, messages: IcmpField) -> Template {
    Template {
        name,
        dtype: DataType::Integer,
        offset,
        len,
        order: ByteOrder::Big,
        meta: None,
        icmp: messages,
    }
}

/// A pseudo field: what follows, read from a `meta` key.
const fn meta(
    name: &'static str,
    dtype: DataType,
    key: MetaKey,
    len: u32,
    order: ByteOrder,
) -> Template {
    Template { name, dtype, offset: 0, len, order, meta: Some(key), icmp: IcmpField::Any }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_header_stay_inside_it_and_have_one_name_each() {
        for proto in ALL {
            for (i, t) in proto.templates.iter().enumerate() {
                assert!(t.len > 0 && t.len <= 128, "{} {}", proto.name, t.name);
                assert!(
                    t.order == ByteOrder::Host
                        || (t.offset % 8 == 0 && t.len % 8 == 0)
                        || t.meta.is_some()
                );
                let same =
                    proto.templates[..i].iter().filter(|o| o.name == t.name && o.meta.is_none());
                assert_eq!(same.count(), 0, "{} {} twice", proto.name, t.name);
            }
        }
    }

    #[test]
    fn headers_link_both_ways() {
        assert_eq!(network::IP.upper_by_number(6), Some(&transport::TCP));
        assert_eq!(link::ETHER.number_of(&network::IP6), Some(0x86dd));
        assert_eq!(link::INET.number_of(&network::IP6), Some(10));
        assert_eq!(find("th"), Some(&transport::TH));
        assert_eq!(
            find("tcp").and_then(|t| t.template("flags")).map(|t| (t.offset, t.len)),
            Some((104, 8))
        );
        assert!(network::IP.in_pseudo_header(network::IP.template("saddr").unwrap()));
        assert!(!network::IP6.in_pseudo_header(network::IP6.template("hoplimit").unwrap()));
    }
}
