//! Extension headers, options and chunks (nft's `struct exthdr_desc`).

use penstock_program::expr::ExthdrOp;

use crate::proto::Template;

/// An extension header, option or chunk.
#[derive(Debug)]
pub struct ExthdrDesc {
    /// As written.
    pub name: &'static str,
    /// Number on the wire.
    pub kind: u8,
    /// What walks to it.
    pub op: ExthdrOp,
    /// Fields, offsets in bits from its start.
    pub templates: &'static [Template],
}

impl PartialEq for ExthdrDesc {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
