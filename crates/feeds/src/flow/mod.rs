// SPDX-License-Identifier: Apache-2.0

//! Flow specifications of BGP: which packets (RFC 8955 for IPv4, RFC 8956 for IPv6), and what is to
//! become of them.
//!
//! | module | is |
//! | --- | --- |
//! | [`values`] | which values the operators of a component allow |
//! | [`order`] | which specification comes first (RFC 8955, section 5.1) |
//! | [`action`] | actions, from extended communities |
//! | [`rules`] | rules of nft that do the same |

pub mod action;
pub mod order;
pub mod rules;
pub mod values;

use std::fmt;

use crate::span::Family;

/// A prefix, or with an offset the bits of an address from there on (RFC 8956, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The address as a number; only bits from `offset` to `length` are not zero.
    pub address: u128,
    /// The first bit that counts, from the highest one. Zero for IPv4.
    pub offset: u8,
    /// The first bit that does not count any more.
    pub length: u8,
}

impl Pattern {
    /// Bits of an address from an offset to a length; `None` if they are not within addresses of
    /// the family.
    pub fn new(family: Family, address: u128, offset: u8, length: u8) -> Option<Pattern> {
        let bits = family.bits();
        let is_sound = length <= bits && (offset < length || (offset == 0 && length == 0));
        if !is_sound || (family == Family::V4 && offset != 0) {
            return None;
        }
        let pattern = Pattern { address, offset, length };
        Some(Pattern { address: address & pattern.mask(family), ..pattern })
    }

    /// The bits that count.
    pub fn mask(self, family: Family) -> u128 {
        let from = |bit: u8| {
            family.highest()
                & u128::MAX.checked_shr(128 - u32::from(family.bits() - bit)).unwrap_or(0)
        };
        from(self.offset) & !from(self.length)
    }
}

/// What a component of numbers is about, with its type (RFC 8955, section 4.2.2; RFC 8956,
/// section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Field {
    /// The protocol; of IPv6 the first that is no extension header.
    Protocol = 3,
    /// The port of either end.
    Port = 4,
    /// The port of the destination.
    DestinationPort = 5,
    /// The port of the source.
    SourcePort = 6,
    /// The type of ICMP or ICMPv6.
    IcmpType = 7,
    /// The code of ICMP or ICMPv6.
    IcmpCode = 8,
    /// Bytes of the packet, the IP header included.
    Length = 10,
    /// The DSCP.
    Dscp = 11,
    /// The flow label of IPv6.
    FlowLabel = 13,
}

impl Field {
    /// The highest value that packets can have.
    pub fn highest(self) -> u32 {
        match self {
            Field::Protocol | Field::IcmpType | Field::IcmpCode => 0xff,
            Field::Port | Field::DestinationPort | Field::SourcePort | Field::Length => 0xffff,
            Field::Dscp => 0x3f,
            Field::FlowLabel => 0xf_ffff,
        }
    }
}

/// What a component of bits is about, with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BitField {
    /// Flags of TCP: the byte that ends in SYN and FIN.
    TcpFlags = 9,
    /// Whether and which fragment: [`FRAGMENT_DF`] and so on.
    Fragment = 12,
}

/// DF is set (IPv4).
pub const FRAGMENT_DF: u32 = 1;
/// A fragment other than the first.
pub const FRAGMENT_IS: u32 = 2;
/// The first fragment of several.
pub const FRAGMENT_FIRST: u32 = 4;
/// The last fragment.
pub const FRAGMENT_LAST: u32 = 8;

/// A comparison with a number. Without any of the three it is false, with all of them true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numeric {
    /// It and the one before must hold; otherwise one of them (section 4.2.1.1).
    pub and: bool,
    /// Smaller.
    pub less: bool,
    /// Greater.
    pub greater: bool,
    /// Equal.
    pub equal: bool,
    /// What is compared with.
    pub value: u32,
}

/// A comparison with bits (section 4.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    /// It and the one before must hold; otherwise one of them.
    pub and: bool,
    /// The opposite.
    pub not: bool,
    /// All of the bits are set; otherwise any of them.
    pub all: bool,
    /// The bits.
    pub value: u32,
}

/// A component. Packets must meet all components of a specification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// Type 1: the address of the destination.
    Destination(Pattern),
    /// Type 2: the address of the source.
    Source(Pattern),
    /// Numbers.
    Numbers(Field, Vec<Numeric>),
    /// Bits.
    Bits(BitField, Vec<Bits>),
}

impl Component {
    /// Its type.
    pub fn number(&self) -> u8 {
        match self {
            Component::Destination(_) => 1,
            Component::Source(_) => 2,
            Component::Numbers(field, _) => *field as u8,
            Component::Bits(field, _) => *field as u8,
        }
    }
}

/// A flow specification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowSpec {
    /// The family of the packets.
    pub family: Family,
    components: Vec<Component>,
}

impl FlowSpec {
    /// Of components in any order.
    ///
    /// # Errors
    /// There is none, two are of one type, or the family has no such component.
    pub fn new(family: Family, mut components: Vec<Component>) -> Result<FlowSpec, String> {
        components.sort_by_key(Component::number);
        if components.is_empty() {
            return Err("there is no component".into());
        }
        if let Some(two) = components.windows(2).find(|two| two[0].number() == two[1].number()) {
            return Err(format!("two components of type {}", two[0].number()));
        }
        let is_of_v6 = |c: &Component| matches!(c, Component::Numbers(Field::FlowLabel, _));
        if family == Family::V4 && components.iter().any(is_of_v6) {
            return Err("IPv4 has no flow label".into());
        }
        let is_empty = |c: &Component| match c {
            Component::Numbers(_, items) => items.is_empty(),
            Component::Bits(_, items) => items.is_empty(),
            _ => false,
        };
        match components.iter().find(|c| is_empty(c)) {
            Some(empty) => Err(format!("the component of type {} is empty", empty.number())),
            None => Ok(FlowSpec { family, components }),
        }
    }

    /// The components, by their types.
    pub fn components(&self) -> &[Component] {
        &self.components
    }
}

impl fmt::Display for FlowSpec {
    /// For people, and for comments of rules: `dst 198.18.0.0/24 proto =6 dport =80|>8080&<8088`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, component) in self.components.iter().enumerate() {
            if i != 0 {
                f.write_str(" ")?;
            }
            match component {
                Component::Destination(p) => write!(f, "dst {}", rules::address(self.family, *p))?,
                Component::Source(p) => write!(f, "src {}", rules::address(self.family, *p))?,
                Component::Numbers(field, items) => {
                    let name = match field {
                        Field::Protocol => "proto",
                        Field::Port => "port",
                        Field::DestinationPort => "dport",
                        Field::SourcePort => "sport",
                        Field::IcmpType => "icmp-type",
                        Field::IcmpCode => "icmp-code",
                        Field::Length => "length",
                        Field::Dscp => "dscp",
                        Field::FlowLabel => "label",
                    };
                    write!(f, "{name} ")?;
                    for (i, item) in items.iter().enumerate() {
                        write!(f, "{}{item}", separator(i, item.and))?;
                    }
                }
                Component::Bits(field, items) => {
                    f.write_str(match field {
                        BitField::TcpFlags => "flags ",
                        BitField::Fragment => "fragment ",
                    })?;
                    for (i, item) in items.iter().enumerate() {
                        write!(f, "{}{item}", separator(i, item.and))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn separator(index: usize, and: bool) -> &'static str {
    match (index, and) {
        (0, _) => "",
        (_, true) => "&",
        (_, false) => "|",
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match (self.less, self.greater, self.equal) {
            (false, false, false) => return f.write_str("false"),
            (true, true, true) => return f.write_str("true"),
            (true, true, false) => "!=",
            (true, false, true) => "<=",
            (false, true, true) => ">=",
            (true, false, false) => "<",
            (false, true, false) => ">",
            (false, false, true) => "=",
        };
        write!(f, "{operator}{}", self.value)
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (not, all) = (if self.not { "!" } else { "" }, if self.all { "=" } else { "" });
        write!(f, "{not}{all}{:#x}", self.value)
    }
}
