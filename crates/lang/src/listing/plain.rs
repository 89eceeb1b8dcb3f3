// SPDX-License-Identifier: Apache-2.0

//! Elements of large sets: from bytes to text without a tree for each.

use penstock_program::Verdict;
use penstock_ruleset::Set;
use penstock_ruleset::model::{ElementData, ElementValue};
use penstock_sets::ElementRef;
use penstock_syntax::datatype::{self, ByteOrder};
use penstock_syntax::print::Printer;

use crate::delinearize::{has_prefixes, prefix_length};
use crate::intervals::number;
use crate::key_type::{Field, KeyType};

/// Types of a set with values that are numbers, one after the other, and are written as such.
pub(super) struct PlainSet {
    key: KeyType,
    data: Option<KeyType>,
}

impl PlainSet {
    /// `None` if keys or data are text, flags, or no whole bytes.
    pub(super) fn of(set: &Set, key: &KeyType, data: Option<&(KeyType, bool)>) -> Option<Self> {
        let plain = |ty: &KeyType| {
            let is_plain = |f: &Field| {
                f.len > 0
                    && f.len.is_multiple_of(8)
                    && f.len <= 128
                    && !f.dtype.is_string()
                    && !f.dtype.is_bitmask()
            };
            ty.fields.iter().all(is_plain).then(|| ty.clone())
        };
        let data = match (set.data, data) {
            (Some(penstock_ruleset::model::MapData::Value { .. }), Some((ty, false))) => {
                Some(plain(ty)?)
            }
            (Some(penstock_ruleset::model::MapData::Value { .. }), _) => return None,
            _ => None,
        };
        Some(PlainSet { key: plain(key)?, data })
    }

    /// Whether an element is nothing but a key and plain data.
    pub(super) fn suits(&self, element: &ElementRef<'_, ElementValue>) -> bool {
        let value = element.value;
        let bare =
            value.exprs().is_empty() && value.timeout().is_none() && value.userdata().is_none();
        let data = match (&value.data, &self.data) {
            (None, None) => true,
            (Some(ElementData::Value(data)), Some(ty)) => data.bytes().len() == width(ty),
            (Some(ElementData::Verdict(verdict)), None) => verdict_word(verdict).is_some(),
            (Some(_) | None, _) => false,
        };
        bare && data && element.expires_at.is_none() && element.key.len() == width(&self.key)
    }
}

/// Verdicts that are a word.
fn verdict_word(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Accept => Some("accept"),
        Verdict::Drop => Some("drop"),
        Verdict::Queue
        | Verdict::Continue
        | Verdict::Break
        | Verdict::Return
        | Verdict::Jump(_)
        | Verdict::Goto(_) => None,
    }
}

/// Bytes of a key or data: a single field is not padded.
fn width(ty: &KeyType) -> usize {
    match ty.fields.as_ref() {
        [field] => field.len as usize / 8,
        fields => fields.iter().map(|f| f.padded() as usize / 8).sum(),
    }
}

/// Writes an element that [`PlainSet::suits`].
pub(super) fn plain_element(
    p: &mut Printer<'_>,
    types: &PlainSet,
    element: ElementRef<'_, ElementValue>,
) {
    plain_values(p, &types.key, element.key, element.key_end);
    match (&element.value.data, &types.data) {
        (Some(ElementData::Value(data)), Some(ty)) => {
            p.push(" : ");
            plain_values(p, ty, data.bytes(), None);
        }
        (Some(ElementData::Verdict(verdict)), _) => {
            p.push(" : ");
            p.push(verdict_word(verdict).unwrap_or_default());
        }
        (Some(_) | None, _) => {}
    }
}

fn plain_values(p: &mut Printer<'_>, ty: &KeyType, from: &[u8], to: Option<&[u8]>) {
    let mut at = 0;
    for (i, field) in ty.fields.iter().enumerate() {
        if i > 0 {
            p.push(" . ");
        }
        let bytes = at..at + field.len as usize / 8;
        let first = value(field, from.get(bytes.clone()).unwrap_or_default());
        match to
            .map(|to| value(field, to.get(bytes).unwrap_or_default()))
            .filter(|last| *last != first)
        {
            None => plain_value(p, field, first),
            Some(last) => p.numeric(|p| {
                plain_value(p, field, first);
                match prefix_length(first, last, field.len).filter(|_| has_prefixes(field.dtype)) {
                    Some(len) => p.write(format_args!("/{len}")),
                    None => {
                        p.push("-");
                        plain_value(p, field, last);
                    }
                }
            }),
        }
        at += field.padded() as usize / 8;
    }
}

fn plain_value(p: &mut Printer<'_>, field: &Field, value: u128) {
    datatype::print(field.dtype, value, field.len, &p.format, p.names, &mut p.out);
}

/// A number of a field's byte order.
fn value(field: &Field, bytes: &[u8]) -> u128 {
    let value = number(bytes).unwrap_or(0);
    match field.order {
        ByteOrder::Host => value.swap_bytes() >> (128 - field.len.clamp(8, 128)),
        ByteOrder::Big | ByteOrder::Invalid => value,
    }
}

#[cfg(test)]
mod tests {
    use penstock_ruleset::Ruleset;

    use super::*;
    use crate::delinearize::Delinearizer;
    use crate::listing::set;
    use crate::session::{Options, Session};
    use penstock_syntax::datatype::Format;
    use penstock_syntax::names::NoNames;
    use penstock_syntax::source::{NoFiles, Origin};

    /// Lists all sets of a text in both ways.
    fn check(text: &str) -> bool {
        let mut ruleset = Ruleset::default();
        let run = Session::new(Options::default(), &NoFiles, &NoNames).run(
            Origin::CommandLine,
            text.into(),
            &mut ruleset,
            1,
        );
        let generation = ruleset.generation();
        let numbers = Format { numeric_symbols: true, numeric_protocol: true, ..Format::default() };
        for table in &generation.tables {
            let delinearizer = Delinearizer { table, now: 1 };
            for set in &table.sets {
                let trees = delinearizer.elements(set);
                for format in [Format::default(), numbers] {
                    let mut printers = [(); 2].map(|()| Printer::new(format, &NoNames));
                    set::set(&mut printers[0], &delinearizer, set, None);
                    set::set(&mut printers[1], &delinearizer, set, Some(&trees));
                    assert_eq!(printers[0].out, printers[1].out, "{text}");
                }
            }
        }
        run.ok
    }

    #[test]
    fn elements_read_the_same_with_and_without_trees() {
        type Value = fn(&mut fastrand::Rng) -> String;
        let types: &[(&str, Value)] = &[
            ("ipv4_addr", |r| format!("198.18.{}.{}", r.u8(..), r.u8(..))),
            ("ipv6_addr", |r| {
                let group = |r: &mut fastrand::Rng| [0, 0, 0, 1, 0x10f, 0xffff][r.usize(..6)];
                let groups: Vec<_> = (0..8).map(|_| format!("{:x}", group(r))).collect();
                groups.join(":")
            }),
            ("ether_addr", |r| format!("02:00:00:{:02x}:00:{:02X}", r.u8(..), r.u8(..))),
            ("inet_service", |r| r.u16(..).to_string()),
            ("inet_proto", |r| r.u8(..).to_string()),
            ("mark", |r| r.u32(..).to_string()),
            ("ct_state", |_| "new".into()),
            ("ifname", |r| format!("\"eth{}\"", r.u8(..))),
            ("icmp_type", |_| "echo-request".into()),
            ("verdict", |r| ["drop", "accept", "jump c", "return"][r.usize(..4)].into()),
        ];
        let mut rng = fastrand::Rng::with_seed(3);
        let mut right = 0;
        for _ in 0..1500 {
            let fields: Vec<_> =
                (0..rng.usize(1..4)).map(|_| types[rng.usize(..types.len() - 1)]).collect();
            let data = rng.bool().then(|| types[rng.usize(..types.len())]);
            let interval = rng.bool();
            let names: Vec<_> = fields.iter().map(|f| f.0).collect();
            let mut elements = Vec::new();
            for _ in 0..rng.usize(1..6) {
                let key: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| match (*name, rng.u8(..3)) {
                        ("ipv4_addr", 0) if interval => value(&mut rng) + "/28",
                        ("ipv6_addr", 0) if interval => value(&mut rng) + "/64",
                        ("inet_service", 0) if interval => {
                            format!("{}-{}", rng.u8(..), rng.u16(300..))
                        }
                        _ => value(&mut rng),
                    })
                    .collect();
                let comment = if rng.u8(..9) == 0 { " comment \"x\"" } else { "" };
                let data =
                    data.map_or(String::new(), |(_, value)| format!(" : {}", value(&mut rng)));
                elements.push(key.join(" . ") + comment + &data);
            }
            let word = if data.is_some() { "map" } else { "set" };
            let to = data.map_or(String::new(), |(name, _)| format!(" : {name}"));
            let flags = if interval { "flags interval;" } else { "" };
            right += usize::from(check(&format!(
                "table ip t {{ chain c {{ }}; {word} s {{ type {}{to}; {flags} elements = {{ {} }}; }}; }}",
                names.join(" . "),
                elements.join(", "),
            )));
        }
        assert!(right > 500, "{right}");
    }
}
