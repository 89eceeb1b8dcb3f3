// SPDX-License-Identifier: Apache-2.0

//! A filter as it was written.

use std::ops::Range;

/// A filter. Parts of it are worked through in the order of the text: `vlan` and its like change
/// what comes after them.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Not(Box<Filter>),
    Primitive(Primitive, Range<usize>),
}

#[derive(Clone, Debug)]
pub(crate) enum Primitive {
    Of(Qualifiers, Id),
    Protocol(Protocol),
    Relation(Relation, Arithmetic, Arithmetic),
    Multicast(Protocol),
    Broadcast(Protocol),
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    PppoeDiscovery,
    PppoeSession(Option<u32>),
    Greater(u32),
    Less(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    pub protocol: Protocol,
    pub direction: Direction,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Default,
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Default,
    Source,
    Destination,
    Either,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Default,
    Link,
    Ip,
    Arp,
    Rarp,
    Ip6,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Igmp,
    Igrp,
    Pim,
    Vrrp,
    Carp,
    Ah,
    Esp,
}

#[derive(Clone, Debug)]
pub(crate) enum Id {
    Number(u32),
    /// Value and bits, as [`crate::token::Token::V4`].
    V4(u32, u32),
    /// The same, with a mask: bits of it, or another such address.
    Net4(u32, u32, u32),
    V6(u128, u32),
    Mac([u8; 6]),
    Name(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Clone, Debug)]
pub(crate) enum Arithmetic {
    Number(u32),
    Length,
    Negative(Box<Arithmetic>),
    Operation(Operator, Box<Arithmetic>, Box<Arithmetic>, Range<usize>),
    Load { protocol: Protocol, index: Box<Arithmetic>, size: u8, at: Range<usize> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Modulo,
    Xor,
}
