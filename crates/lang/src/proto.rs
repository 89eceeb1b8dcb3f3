//! Protocol headers and how they nest (nft's `struct proto_desc`).

use penstock_program::expr::{ChecksumType, PayloadBase};

use crate::ast::expr::ByteOrder;
use crate::datatype::DataType;

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
    /// Never listed for raw matches of these bits (nft's `meta_key`/filter of icmp id, sequence and the like are
    /// told apart by the dependencies, see `proto` tables).
    pub unlisted: bool,
}

/// A protocol header.
#[derive(Debug)]
pub struct Proto {
    /// As written.
    pub name: &'static str,
    /// Which base its offsets count from.
    pub base: PayloadBase,
    /// Fields; the first may be unnamed.
    pub templates: &'static [Template],
    /// The field that says what follows, by index into `templates`.
    pub protocol_key: Option<usize>,
    /// Header number in that field -> following header.
    pub upper: &'static [(u32, &'static Proto)],
    /// Offset of the header's checksum in bytes, and its kind.
    pub checksum: Option<(u32, ChecksumType)>,
    /// Fields covered by the pseudo header of the transport checksum (saddr, daddr), by index.
    pub pseudo_header: &'static [usize],
}

impl PartialEq for Proto {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
