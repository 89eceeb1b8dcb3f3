// SPDX-License-Identifier: Apache-2.0

//! Forms of single attributes, and the macro that makes reader and writer of an expression from
//! one list of its attributes.

use penstock_program::Register;

use super::number::Numbered;
use crate::message::{Attribute, Check, Failure, Writer};

/// What the kernel's policy says of attributes of a form.
pub trait Checked {
    /// The check.
    const CHECK: Check;
}

/// How an attribute holds a value of type `T`.
pub trait Form<T>: Checked {
    /// Its value.
    ///
    /// # Errors
    /// The kernel's, for a value that cannot be, or an attribute that is missing.
    fn read(attribute: Option<Attribute<'_>>) -> Result<T, Failure>;

    /// Appends it, if the kernel does.
    fn write(value: &T, kind: u16, to: &mut Writer);
}

/// A register, in network order.
pub struct Reg;
/// A register, in network order, or none.
pub struct OptReg;
/// Four bytes in network order, which have to be there.
pub struct Be32;
/// Four bytes in network order; 0 if they are missing.
pub struct Be32Or0;
/// Four bytes in network order; absent for 0.
pub struct Be32Not0;
/// Eight bytes in network order; 0 if they are missing.
pub struct Be64Or0;
/// One byte, which has to be there.
pub struct U8;
/// One byte; 0 if it is missing.
pub struct U8Or0;
/// Two bytes in network order; 0 if they are missing.
pub struct Be16Or0;
/// A value of an enumeration, in four bytes in network order, which has to be there.
pub struct Enum;
/// A value of an enumeration, in four bytes in network order; the first one if it is missing.
pub struct EnumOrFirst;
/// Four bytes in network order, 0 or not; `false` if they are missing.
pub struct Bool32;
/// One byte, 0 or not.
pub struct Bool8;

fn needed(attribute: Option<Attribute<'_>>) -> Result<Attribute<'_>, Failure> {
    attribute.ok_or(Failure::einval())
}

/// A register by the kernel's number. Registers of 16 bytes and the ones of 4 bytes in their place
/// have one number each here, as in the kernel's answers (`nft_parse_register()`).
///
/// # Errors
/// `ERANGE`.
pub fn register(number: u32) -> Result<Register, Failure> {
    let register = Register(u8::try_from(number).map_err(|_| Failure::erange())?);
    match register.slot() {
        Some(slot) => Ok(Register::from_slot(slot)),
        None if register == Register::VERDICT => Ok(register),
        None => Err(Failure::erange()),
    }
}

/// The kernel's number of a register in its answers (`nft_dump_register()`).
pub fn register_number(register: Register) -> u32 {
    register.slot().map_or(register, Register::from_slot).0.into()
}

impl Form<Register> for Reg {
    fn read(attribute: Option<Attribute<'_>>) -> Result<Register, Failure> {
        register(needed(attribute)?.be32())
    }
    fn write(value: &Register, kind: u16, to: &mut Writer) {
        to.be32(kind, register_number(*value));
    }
}

impl Form<Option<Register>> for OptReg {
    fn read(attribute: Option<Attribute<'_>>) -> Result<Option<Register>, Failure> {
        attribute.map(|a| register(a.be32())).transpose()
    }
    fn write(value: &Option<Register>, kind: u16, to: &mut Writer) {
        if let Some(value) = value {
            to.be32(kind, register_number(*value));
        }
    }
}

impl<T: Numbered> Form<T> for Enum {
    fn read(attribute: Option<Attribute<'_>>) -> Result<T, Failure> {
        T::from_number(needed(attribute)?.be32())
    }
    fn write(value: &T, kind: u16, to: &mut Writer) {
        to.be32(kind, value.number());
    }
}

impl<T: Numbered> Form<T> for EnumOrFirst {
    fn read(attribute: Option<Attribute<'_>>) -> Result<T, Failure> {
        T::from_number(attribute.map_or(T::FIRST, |a| a.be32()))
    }
    fn write(value: &T, kind: u16, to: &mut Writer) {
        to.be32(kind, value.number());
    }
}

macro_rules! numbers {
    ($($form:ident)*) => {$(
        impl Checked for $form {
            const CHECK: Check = Check::U32;
        }
    )*};
}

numbers! { Reg OptReg Enum EnumOrFirst }

macro_rules! forms {
    ($($form:ident $type:ty, $check:expr, $read:expr, $write:expr;)*) => {$(
        impl Checked for $form {
            const CHECK: Check = $check;
        }
        impl Form<$type> for $form {
            fn read(attribute: Option<Attribute<'_>>) -> Result<$type, Failure> {
                let read: fn(Option<Attribute<'_>>) -> Result<$type, Failure> = $read;
                read(attribute)
            }
            fn write(value: &$type, kind: u16, to: &mut Writer) {
                let write: fn(&mut Writer, u16, $type) = $write;
                write(to, kind, *value);
            }
        }
    )*};
}

forms! {
    Be32 u32, Check::U32, |a| Ok(needed(a)?.be32()), |w, k, v| w.be32(k, v);
    Be32Or0 u32, Check::U32, |a| Ok(a.map_or(0, |a| a.be32())), |w, k, v| w.be32(k, v);
    Be32Not0 u32, Check::U32, |a| Ok(a.map_or(0, |a| a.be32())),
        |w, k, v| if v != 0 { w.be32(k, v) };
    Be64Or0 u64, Check::U64, |a| Ok(a.map_or(0, |a| a.be64())), |w, k, v| w.be64(k, v);
    U8 u8, Check::U8, |a| Ok(needed(a)?.u8()), |w, k, v| w.u8(k, v);
    U8Or0 u8, Check::U8, |a| Ok(a.map_or(0, |a| a.u8())), |w, k, v| w.u8(k, v);
    Be16Or0 u16, Check::U16, |a| Ok(a.map_or(0, |a| a.be16())), |w, k, v| w.be16(k, v);
    Bool32 bool, Check::U32, |a| Ok(a.is_some_and(|a| a.be32() != 0)),
        |w, k, v| w.be32(k, v.into());
    Bool8 bool, Check::U8, |a| Ok(needed(a)?.u8() != 0), |w, k, v| w.u8(k, v.into());
}

/// Attributes of expressions that are structures: for each field its attribute and its form, in
/// the order in which the kernel sends them.
macro_rules! attributes {
    ($($(#[$doc:meta])* $expr:ident: $($field:ident $attribute:ident $form:ident),* $(,)?;)*) => {$(
        $(#[$doc])*
        impl $crate::expression::Codec for penstock_program::expr::$expr {
            const POLICY: $crate::message::Policy =
                &[$(($attribute, <$form as $crate::expression::form::Checked>::CHECK)),*];
            fn read(
                attributes: &$crate::message::Attributes<'_>,
                _: &$crate::expression::Ids,
            ) -> Result<Self, $crate::message::Failure> {
                Ok(penstock_program::expr::$expr {
                    $($field: <$form as $crate::expression::form::Form<_>>::read(
                        attributes.get($attribute),
                    )?),*
                })
            }
            fn write(&self, to: &mut $crate::message::Writer) {
                $(<$form as $crate::expression::form::Form<_>>::write(
                    &self.$field, $attribute, to,
                );)*
            }
        }
    )*};
}
pub(super) use attributes;
