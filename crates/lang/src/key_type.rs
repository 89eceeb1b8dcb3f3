// SPDX-License-Identifier: Apache-2.0

//! Types of keys and data of sets, field by field.

use std::sync::Arc;

use penstock_program::expr::MetaKey;
use penstock_syntax::ast::Expr;
use penstock_syntax::datatype::{Base, ByteOrder, DataType, Type};
use penstock_syntax::keys;

/// One field of a key, or of data: what a concatenation's part is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its type.
    pub dtype: DataType,
    /// Its byte order.
    pub order: ByteOrder,
    /// Its length in bits.
    pub len: u32,
}

impl Field {
    /// What an expression is; a concatenation inside a concatenation does not occur.
    pub fn of(expr: &Expr) -> Self {
        let dtype = match &expr.dtype {
            Type::Base(dtype) => *dtype,
            Type::Concat(_) => DataType::Invalid,
        };
        Field { dtype, order: expr.order, len: expr.len }
    }

    /// A basic type at its own length.
    pub fn base(dtype: DataType) -> Self {
        Field { dtype, order: dtype.order(), len: dtype.size() }
    }

    /// What a `meta` key gives.
    pub fn of_meta(key: MetaKey) -> Self {
        let value = keys::meta(key).value;
        Field { dtype: value.dtype, order: value.order, len: value.len }
    }

    /// Bits that it takes in registers.
    pub fn padded(&self) -> u32 {
        self.len.div_ceil(32) * 32
    }
}

/// Type of a set's key, or of a map's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The type.
    pub dtype: Type,
    /// One field, or those of the concatenation.
    pub fields: Arc<[Field]>,
}

impl KeyType {
    /// The key type of an evaluated expression.
    pub fn of(expr: &Expr) -> Self {
        let fields = expr.parts().iter().map(Field::of).collect();
        KeyType { dtype: expr.dtype.clone(), fields }
    }

    /// A basic type.
    pub fn base(field: Field) -> Self {
        KeyType { dtype: Type::Base(field.dtype), fields: Arc::from([field]) }
    }

    /// This type with numbers in network order, as keys of interval sets have them.
    pub(crate) fn big_endian(&self) -> KeyType {
        let fields = self
            .fields
            .iter()
            .map(|f| match Type::Base(f.dtype).kind() {
                Base::Integer | Base::Bitmask => Field { order: ByteOrder::Big, ..f.clone() },
                _ => f.clone(),
            })
            .collect();
        KeyType { dtype: self.dtype.clone(), fields }
    }

    /// Without what only the expression tells: raw bits are plain numbers, which are
    /// listed as decimal ones.
    pub fn without_expression(mut self) -> Self {
        if let (Type::Base(dtype @ DataType::RawInteger), [field]) =
            (&mut self.dtype, &*self.fields)
        {
            *dtype = DataType::Integer;
            self.fields = Arc::from([Field { dtype: DataType::Integer, ..field.clone() }]);
        }
        self
    }

    /// Bits: of the field, or of all fields padded.
    pub fn len(&self) -> u32 {
        match &self.dtype {
            Type::Base(_) => self.fields.first().map_or(0, |f| f.len),
            Type::Concat(_) => self.fields.iter().map(Field::padded).sum(),
        }
    }

    /// Whether it has no length.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is a concatenation.
    pub fn is_concat(&self) -> bool {
        matches!(self.dtype, Type::Concat(_))
    }

    /// Byte order of a plain key.
    pub fn order(&self) -> ByteOrder {
        match &self.dtype {
            Type::Base(_) => self.fields.first().map_or(ByteOrder::Invalid, |f| f.order),
            Type::Concat(_) => ByteOrder::Invalid,
        }
    }
}
