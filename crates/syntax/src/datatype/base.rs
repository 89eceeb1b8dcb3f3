// SPDX-License-Identifier: Apache-2.0

//! What a type is at the end of its chain of bases.

use super::{DataType, Type};

/// What operators, ranges and lengths go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Base {
    Invalid,
    Verdict,
    Integer,
    /// An integer of flag bits.
    Bitmask,
    String,
    Concat,
}

impl Type {
    /// The kind of a plain type; concatenations have a separate kind.
    pub fn kind(&self) -> Base {
        match self {
            Type::Concat(_) => Base::Concat,
            Type::Base(dtype) if dtype.base() == Some(DataType::Bitmask) => Base::Bitmask,
            Type::Base(dtype) => match dtype.basetype() {
                DataType::Integer => Base::Integer,
                DataType::String => Base::String,
                DataType::Verdict => Base::Verdict,
                _ => Base::Invalid,
            },
        }
    }

    /// Whether values are flags.
    pub fn is_bitmask(&self) -> bool {
        self.kind() == Base::Bitmask
    }

    /// In words, as messages have it.
    pub fn desc(&self) -> String {
        match self {
            Type::Base(dtype) => dtype.description().to_owned(),
            Type::Concat(parts) => {
                let parts: Vec<&str> = parts.iter().map(|p| p.description()).collect();
                format!("concatenation of ({})", parts.join(", "))
            }
        }
    }
}
