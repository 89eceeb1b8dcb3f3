// SPDX-License-Identifier: Apache-2.0

//! What matches of x_tables ask of the headers of IPv6. Numbers are in host order.

use std::cmp::Ordering;

use super::masked::Masked;

/// What is asked of the headers of an IPv6 packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ipv6Match {
    /// Hop-by-hop or destination options.
    Options(OptionsMatch),
    /// A fragment header.
    Fragment(FragmentMatch),
    /// A routing header.
    Routing(RoutingMatch),
    /// A segment routing header.
    Segments(SegmentsMatch),
    /// An authentication header.
    Authentication {
        /// Security parameter index.
        spi: Within,
        /// Bytes of the header.
        len: Number,
        /// The reserved field is zero.
        reserved: bool,
    },
    /// The type of a mobility header.
    Mobility(Within),
    /// The source has the interface identifier of the link address.
    Eui64,
    /// Which headers there are.
    Headers {
        /// A bit for each: `MASK_HOPOPTS` and so on.
        wanted: u8,
        /// Bits that are to be missing; with others allowed, as many as there are.
        inverted: u8,
        /// There may be others.
        others: bool,
    },
}

/// A number that is asked for, and whether it is to be another one; `None` for any.
pub type Number = Option<(u32, bool)>;

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// First and last number.
    pub range: [u32; 2],
    /// Everything outside of it.
    pub inverted: bool,
}

impl Within {
    /// Whether a number is meant.
    pub fn has(&self, number: u32) -> bool {
        (self.range[0]..=self.range[1]).contains(&number) != self.inverted
    }
}

/// What is asked of a header with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsMatch {
    /// Number of the header: hop-by-hop or destination options.
    pub header: u8,
    /// Bytes of the header.
    pub len: Number,
    /// Type and length of the first options, 255 for any length; `None` for any options.
    pub options: Option<Box<[[u8; 2]]>>,
}

/// What is asked of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentMatch {
    /// Identification.
    pub id: Within,
    /// Reserved bits are zero.
    pub reserved: bool,
    /// It is the first fragment.
    pub first: bool,
    /// More fragments follow.
    pub more: bool,
    /// No more fragments follow.
    pub last: bool,
}

/// What is asked of a routing header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingMatch {
    /// Segments left.
    pub left: Within,
    /// Bytes of the header.
    pub len: Number,
    /// Type.
    pub kind: Number,
    /// The reserved word is zero.
    pub reserved: bool,
    /// Addresses in it; `None` for any.
    pub addresses: Option<Box<[[u8; 16]]>>,
    /// There may be other addresses, between these and after them.
    pub others: bool,
}

/// What is asked of a segment routing header (RFC 8754). Each is with whether the result is
/// inverted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentsMatch {
    /// A field, how it compares with a number, and the number.
    pub numbers: Box<[(SegmentField, Ordering, u8, bool)]>,
    /// The tag as it is in the header.
    pub tag: Option<([u8; 2], bool)>,
    /// A segment, and the address and mask that it is compared with.
    pub addresses: Box<[(Segment, Masked, bool)]>,
}

/// A number of a segment routing header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentField {
    /// Next header.
    Next,
    /// Header extension length.
    Len,
    /// Segments left.
    Left,
    /// Last entry.
    Last,
}

/// A segment of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// That before the active one.
    Previous,
    /// That after the active one.
    Next,
    /// The end of the way.
    Last,
}
