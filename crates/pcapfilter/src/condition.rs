// SPDX-License-Identifier: Apache-2.0

//! Conditions on the bytes of a packet, and the values that they compare.

use std::rc::Rc;

use crate::tree::Operator;

/// A number of 32 bits that a packet gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Constant(u32),
    /// The length of the packet.
    Length,
    /// Bytes at an offset.
    Load {
        size: u8,
        offset: u32,
    },
    /// Bytes at the sum of a value and an offset.
    LoadAt {
        size: u8,
        index: Rc<Value>,
        offset: u32,
    },
    /// The length of the IPv4 header at an offset.
    HeaderLength(u32),
    Operation(Operator, Rc<Value>, Rc<Value>),
    Negative(Rc<Value>),
}

impl Value {
    pub fn constant(&self) -> Option<u32> {
        match self {
            Value::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// The greatest number that it can be.
    pub fn most(&self) -> u32 {
        match self {
            Value::Constant(value) => *value,
            Value::Load { size: 1, .. } | Value::LoadAt { size: 1, .. } => 0xff,
            Value::Load { size: 2, .. } | Value::LoadAt { size: 2, .. } => 0xffff,
            Value::HeaderLength(_) => 60,
            Value::Operation(Operator::And, left, right) => left.most().min(right.most()),
            _ => u32::MAX,
        }
    }
}

/// The result of an operation on two constants; `None` for those that are wrong.
pub(crate) fn apply(operator: Operator, left: u32, right: u32) -> Option<u32> {
    match operator {
        Operator::Add => Some(left.wrapping_add(right)),
        Operator::Subtract => Some(left.wrapping_sub(right)),
        Operator::Multiply => Some(left.wrapping_mul(right)),
        Operator::Divide => left.checked_div(right),
        Operator::Modulo => left.checked_rem(right),
        Operator::Or => Some(left | right),
        Operator::And => Some(left & right),
        Operator::Xor => Some(left ^ right),
        Operator::ShiftLeft => left.checked_shl(right),
        Operator::ShiftRight => left.checked_shr(right),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

impl Comparison {
    pub fn holds(self, value: u32, with: u32) -> bool {
        match self {
            Comparison::Equal => value == with,
            Comparison::Greater => value > with,
            Comparison::GreaterOrEqual => value >= with,
            Comparison::AnyBit => value & with != 0,
        }
    }
}

/// A comparison of two values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Test {
    pub value: Rc<Value>,
    pub comparison: Comparison,
    pub with: Rc<Value>,
}

/// A condition. The left side of `And` and `Or` comes first: a packet that is too short for a test
/// matches nothing, so order has a meaning.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Constant(bool),
    Test(Test),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

impl Condition {
    pub fn test(value: Value, comparison: Comparison, with: u32) -> Condition {
        let with = Rc::new(Value::Constant(with));
        Condition::Test(Test { value: Rc::new(value), comparison, with })
    }

    pub fn and(self, other: Condition) -> Condition {
        Condition::And(self.into(), other.into())
    }

    pub fn or(self, other: Condition) -> Condition {
        Condition::Or(self.into(), other.into())
    }

    pub fn not(self) -> Condition {
        Condition::Not(self.into())
    }
}
