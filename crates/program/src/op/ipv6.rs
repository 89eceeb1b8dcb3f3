// SPDX-License-Identifier: Apache-2.0

//! What matches of x_tables ask of the headers of IPv6. Numbers are in host order.

/// What is asked of the headers of an IPv6 packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ipv6Match {
    /// Hop-by-hop or destination options.
    Options(OptionsMatch),
    /// A fragment header.
    Fragment(FragmentMatch),
    /// A routing header.
    Routing(RoutingMatch),
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
