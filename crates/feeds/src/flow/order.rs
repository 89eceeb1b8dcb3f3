// SPDX-License-Identifier: Apache-2.0

//! Which of two flow specifications comes first: RFC 8955, section 5.1, and for patterns with an
//! offset RFC 8956, section 4.

use std::cmp::Ordering;

use super::{Bits, Component, FlowSpec, Numeric, Pattern};
use crate::span::Family;

impl FlowSpec {
    /// `Less` if this one is evaluated before another one. Families are apart: that of IPv4 is
    /// first.
    pub fn order(&self, other: &FlowSpec) -> Ordering {
        let family = self.family;
        family.cmp(&other.family).then_with(|| {
            for (mine, its) in self.components.iter().zip(&other.components) {
                let decided =
                    mine.number().cmp(&its.number()).then_with(|| same_type(family, mine, its));
                if decided != Ordering::Equal {
                    return decided;
                }
            }
            // The one that asks more is first.
            other.components.len().cmp(&self.components.len())
        })
    }
}

fn same_type(family: Family, mine: &Component, its: &Component) -> Ordering {
    match (mine, its) {
        (Component::Destination(mine), Component::Destination(its))
        | (Component::Source(mine), Component::Source(its)) => patterns(family, *mine, *its),
        _ => longest(&data(mine), &data(its)),
    }
}

/// The lower address is first, of equal ones the longer prefix; before that, the lower offset.
fn patterns(family: Family, mine: Pattern, its: Pattern) -> Ordering {
    let common = Pattern { length: mine.length.min(its.length), ..mine }.mask(family);
    mine.offset
        .cmp(&its.offset)
        .then_with(|| (mine.address & common).cmp(&(its.address & common)))
        .then_with(|| its.length.cmp(&mine.length))
}

/// The lower bytes are first; if one begins with the other, the longer.
fn longest(mine: &[u8], its: &[u8]) -> Ordering {
    let common = mine.len().min(its.len());
    mine[..common].cmp(&its[..common]).then_with(|| its.len().cmp(&mine.len()))
}

/// The bytes of a component in an update, with the fewest bytes for each value.
fn data(component: &Component) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut item = |operator: u8, and: bool, last: bool, value: u32| {
        let (length, width) = match value {
            0..=0xff => (0u8, 1),
            0x100..=0xffff => (1, 2),
            _ => (2, 4),
        };
        bytes.push(operator | u8::from(and) << 6 | u8::from(last) << 7 | length << 4);
        bytes.extend_from_slice(&value.to_be_bytes()[4 - width..]);
    };
    match component {
        Component::Destination(_) | Component::Source(_) => {}
        Component::Numbers(_, items) => {
            for (i, Numeric { and, less, greater, equal, value }) in items.iter().enumerate() {
                let operator = u8::from(*less) << 2 | u8::from(*greater) << 1 | u8::from(*equal);
                item(operator, *and, i + 1 == items.len(), *value);
            }
        }
        Component::Bits(_, items) => {
            for (i, Bits { and, not, all, value }) in items.iter().enumerate() {
                let operator = u8::from(*not) << 1 | u8::from(*all);
                item(operator, *and, i + 1 == items.len(), *value);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::{BitField, Field};
    use super::*;

    fn dst(family: Family, text: &str, offset: u8) -> Component {
        let (address, length) = text.split_once('/').unwrap();
        let span: crate::span::Span = address.parse().unwrap();
        let length = length.parse().unwrap();
        Component::Destination(Pattern::new(family, span.first(), offset, length).unwrap())
    }

    fn equal(field: Field, values: &[u32]) -> Component {
        let items = values.iter().map(|&value| Numeric {
            and: false,
            less: false,
            greater: false,
            equal: true,
            value,
        });
        Component::Numbers(field, items.collect())
    }

    #[test]
    fn specifications_are_in_the_order_of_the_rfc() {
        let (v4, v6) = (Family::V4, Family::V6);
        let of = |family, components: Vec<Component>| FlowSpec::new(family, components).unwrap();
        let flags = Component::Bits(
            BitField::TcpFlags,
            vec![Bits { and: false, not: false, all: true, value: 2 }],
        );
        let ordered = [
            of(v4, vec![dst(v4, "198.18.0.0/24", 0), equal(Field::Protocol, &[6])]),
            of(v4, vec![dst(v4, "198.18.0.0/24", 0)]),
            of(v4, vec![dst(v4, "198.18.0.0/16", 0), equal(Field::Port, &[25])]),
            of(v4, vec![dst(v4, "198.18.0.0/16", 0)]),
            of(v4, vec![dst(v4, "198.19.0.0/24", 0)]),
            // A list that goes on has no end mark (0x80) in its first operator.
            of(v4, vec![equal(Field::Protocol, &[6, 17])]),
            of(v4, vec![equal(Field::Protocol, &[6]), flags.clone()]),
            of(v4, vec![equal(Field::Protocol, &[6])]),
            of(v4, vec![equal(Field::Protocol, &[17])]),
            of(v4, vec![equal(Field::Port, &[80])]),
            // Two bytes, 0x91, are after one, 0x81.
            of(v4, vec![equal(Field::Port, &[1000])]),
            of(v4, vec![flags]),
            of(v6, vec![dst(v6, "2001:db8::/32", 0)]),
            of(v6, vec![dst(v6, "2001:db8::/64", 16)]),
        ];
        for (i, mine) in ordered.iter().enumerate() {
            for (j, its) in ordered.iter().enumerate() {
                assert_eq!(mine.order(its), i.cmp(&j), "{mine} / {its}");
            }
        }
    }
}
