// SPDX-License-Identifier: Apache-2.0

//! Elements that are nothing but constants, from their text to the bytes of keys and data: what
//! large sets consist of.
//!
//! The forms are those that every list has: `198.18.0.1`, `198.18.0.0/24`,
//! `2001:db8::1-2001:db8::f`, `198.18.0.1 . 80`, `198.18.0.1 : drop`. Whatever looks otherwise in
//! the least (names, leading zeros, comments, embedded IPv4 addresses, numbers out of range) is
//! left to the parser and evaluation, which also say what is wrong with it.

use penstock_program::{Data, Verdict};
use penstock_ruleset::model::ElementData;
use penstock_syntax::datatype::{ByteOrder, DataType};

use crate::cache::{DataKind, SetInfo};
use crate::key_type::{Field, KeyType};

/// Longest key or data.
const LONGEST: usize = 64;

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ip4,
    Ip6,
    Ether,
    /// A decimal number up to this one.
    Number(u64),
}

#[derive(Clone, Copy, Debug)]
struct PlainField {
    form: Form,
    bytes: usize,
    order: ByteOrder,
}

/// What keys, or data, are made of.
#[derive(Clone, Debug)]
struct PlainType {
    fields: Vec<PlainField>,
    /// Fields are padded to words.
    concat: bool,
    ranges: bool,
}

#[derive(Clone, Debug)]
enum PlainData {
    None,
    Value(PlainType),
    Verdict,
}

/// Reads plain elements of one set.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    key: PlainType,
    data: PlainData,
}

/// First and last value, and whether it was written as more than one.
struct Ends {
    first: [u8; LONGEST],
    last: [u8; LONGEST],
    len: usize,
    interval: bool,
}

impl PlainField {
    fn of(field: &Field) -> Option<Self> {
        let (form, bits) = match field.dtype {
            DataType::IpAddr => (Form::Ip4, 32),
            DataType::Ip6Addr => (Form::Ip6, 128),
            DataType::EtherAddr => (Form::Ether, 48),
            DataType::InetService => (Form::Number(0xffff), 16),
            DataType::InetProtocol => (Form::Number(0xff), 8),
            DataType::Mark => (Form::Number(0xffff_ffff), 32),
            _ => return None,
        };
        let number = matches!(form, Form::Number(_));
        let fits = field.len == bits && (number || field.order == ByteOrder::Big);
        fits.then_some(PlainField { form, bytes: bits as usize / 8, order: field.order })
    }

    /// Reads a value into bytes of a register; returns how long it is.
    #[inline]
    fn read(&self, text: &[u8], out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.bytes)?;
        match self.form {
            Form::Ip4 => ip4(text, out.try_into().ok()?),
            Form::Ip6 => ip6(text, out.try_into().ok()?),
            Form::Ether => ether(text, out.try_into().ok()?),
            Form::Number(most) => {
                let (value, len) = decimal(text, 10)?;
                if value > most {
                    return None;
                }
                match self.order {
                    ByteOrder::Big => {
                        out.copy_from_slice(value.to_be_bytes().get(8 - self.bytes..)?)
                    }
                    ByteOrder::Host | ByteOrder::Invalid => {
                        out.copy_from_slice(value.to_le_bytes().get(..self.bytes)?);
                    }
                }
                Some(len)
            }
        }
    }
}

impl PlainType {
    fn of(ty: &KeyType, ranges: bool) -> Option<Self> {
        let fields = ty.fields.iter().map(PlainField::of).collect::<Option<Vec<_>>>()?;
        let padded: usize = fields.iter().map(|f| f.bytes.next_multiple_of(4)).sum();
        // Intervals are compared by their bytes.
        let comparable = !ranges || fields.iter().all(|f| f.order == ByteOrder::Big);
        let fits = !fields.is_empty() && padded <= LONGEST && comparable;
        fits.then_some(PlainType { fields, concat: ty.is_concat(), ranges })
    }

    /// Reads `value`, `value . value`, with prefixes and ranges where they may be.
    #[inline]
    fn read(&self, text: &[u8], mut at: usize, ends: &mut Ends) -> Option<usize> {
        let mut len = 0;
        ends.interval = false;
        for (i, field) in self.fields.iter().enumerate() {
            if i > 0 {
                at += text.get(at..)?.starts_with(b" . ").then_some(3)?;
            }
            let to = len + field.bytes;
            at += field.read(text.get(at..)?, ends.first.get_mut(len..)?)?;
            match text.get(at) {
                Some(b'/') if self.ranges && field.form != Form::Ether => {
                    if matches!(field.form, Form::Number(_)) {
                        return None;
                    }
                    let (bits, digits) = decimal(text.get(at + 1..)?, 3)?;
                    at += 1 + digits;
                    prefix(
                        ends.first.get_mut(len..to)?,
                        ends.last.get_mut(len..to)?,
                        bits as usize,
                    )?;
                    ends.interval = true;
                }
                Some(b'-') if self.ranges => {
                    at += 1;
                    at += field.read(text.get(at..)?, ends.last.get_mut(len..)?)?;
                    if ends.first.get(len..to) > ends.last.get(len..to) {
                        return None;
                    }
                    ends.interval = true;
                }
                _ => ends.last.get_mut(len..to)?.copy_from_slice(ends.first.get(len..to)?),
            }
            len = to;
            if self.concat {
                let padded = len.next_multiple_of(4);
                ends.first.get_mut(len..padded)?.fill(0);
                ends.last.get_mut(len..padded)?.fill(0);
                len = padded;
            }
        }
        ends.len = len;
        Some(at)
    }
}

impl Plain {
    /// For elements of a set; `None` if they are of other types, or are more than key and data.
    pub(crate) fn of(info: &SetInfo) -> Option<Plain> {
        if info.timeout || info.dynamic || !info.stmts.is_empty() {
            return None;
        }
        let data = match &info.data {
            None => PlainData::None,
            Some(DataKind::Value { ty, interval: false }) => {
                PlainData::Value(PlainType::of(ty, false)?)
            }
            Some(DataKind::Verdict) => PlainData::Verdict,
            Some(DataKind::Value { .. } | DataKind::Object(_)) => return None,
        };
        Some(Plain { key: PlainType::of(&info.key, info.interval)?, data })
    }

    /// Reads elements from a byte on and passes each to `take`: first key, last key of an interval,
    /// data. Returns where the first thing starts that is no such element: another element, or the
    /// closing brace.
    pub(crate) fn read(
        &self,
        text: &[u8],
        mut at: usize,
        mut take: impl FnMut(&[u8], Option<&[u8]>, Option<ElementData>),
    ) -> usize {
        let mut key = Ends { first: [0; LONGEST], last: [0; LONGEST], len: 0, interval: false };
        let mut value = Ends { first: [0; LONGEST], last: [0; LONGEST], len: 0, interval: false };
        loop {
            at = after_blanks(text, at);
            let Some((end, data)) = self.element(text, at, &mut key, &mut value) else { return at };
            let end = after_blanks(text, end);
            // There may be a comma after the last one.
            let next = match text.get(end) {
                Some(b',') => end + 1,
                Some(b'}') => end,
                _ => return at,
            };
            let first = &key.first[..key.len];
            let last = Some(&key.last[..key.len]);
            take(
                first,
                last.filter(|last| key.interval && (self.key.concat || *last != first)),
                data,
            );
            at = next;
        }
    }

    #[inline]
    fn element(
        &self,
        text: &[u8],
        at: usize,
        key: &mut Ends,
        value: &mut Ends,
    ) -> Option<(usize, Option<ElementData>)> {
        let end = self.key.read(text, at, key)?;
        if matches!(self.data, PlainData::None) {
            return Some((end, None));
        }
        let from = end + text.get(end..)?.starts_with(b" : ").then_some(3)?;
        match &self.data {
            PlainData::None => None,
            PlainData::Value(ty) => {
                let end = ty.read(text, from, value)?;
                Some((end, Some(ElementData::Value(Data::new(value.first.get(..value.len)?)))))
            }
            PlainData::Verdict => {
                let rest = text.get(from..)?;
                let (len, verdict) = match () {
                    () if rest.starts_with(b"drop") => (4, Verdict::Drop),
                    () if rest.starts_with(b"accept") => (6, Verdict::Accept),
                    () => return None,
                };
                Some((from + len, Some(ElementData::Verdict(verdict))))
            }
        }
    }
}

#[inline]
fn after_blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n')) {
        at += 1;
    }
    at
}

/// A decimal number of so many digits at most, without leading zeros.
#[inline]
fn decimal(text: &[u8], most: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    let mut len = 0;
    while let Some(digit) = text.get(len).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        if len == most {
            return None;
        }
        value = value * 10 + u64::from(digit);
        len += 1;
    }
    (len > 0 && (len == 1 || text.first() != Some(&b'0'))).then_some((value, len))
}

#[inline]
fn ip4(text: &[u8], out: &mut [u8; 4]) -> Option<usize> {
    let mut at = 0;
    for (i, byte) in out.iter_mut().enumerate() {
        if i > 0 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let (value, len) = decimal(text.get(at..)?, 3)?;
        *byte = u8::try_from(value).ok()?;
        at += len;
    }
    Some(at)
}

/// The value of each hexadecimal digit, `NO_DIGIT` of other bytes.
static HEX: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};
const NO_DIGIT: u8 = 0xff;

#[inline]
fn hex(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).map(|b| HEX[usize::from(*b)]).filter(|digit| *digit != NO_DIGIT)
}

/// Groups of up to four digits, `::` once for two groups of zeros or more.
#[inline]
fn ip6(text: &[u8], out: &mut [u8; 16]) -> Option<usize> {
    let mut groups = [0u16; 8];
    let (mut count, mut elided, mut at) = (0, None, 0);
    if text.starts_with(b"::") {
        (elided, at) = (Some(0), 2);
    }
    while count < 8 {
        let Some(mut group) = hex(text, at).map(u16::from) else { break };
        let start = at;
        at += 1;
        while let Some(digit) = hex(text, at) {
            if at - start == 4 {
                return None;
            }
            group = group << 4 | u16::from(digit);
            at += 1;
        }
        groups[count] = group;
        count += 1;
        if text.get(at) != Some(&b':') || count == 8 {
            break;
        }
        if text.get(at + 1) == Some(&b':') {
            if elided.is_some() {
                return None;
            }
            (elided, at) = (Some(count), at + 2);
        } else {
            hex(text, at + 1)?;
            at += 1;
        }
    }
    let tail = match elided {
        Some(from) if count <= 6 => count - from,
        None if count == 8 => 8,
        _ => return None,
    };
    // What stands after the zeros moves to the end.
    let head = count - tail;
    *out = [0; 16];
    for (i, group) in groups.iter().take(count).enumerate() {
        let place = if i < head { i } else { i + 8 - count };
        out.get_mut(place * 2..place * 2 + 2)?.copy_from_slice(&group.to_be_bytes());
    }
    // An address that continues is another one, or none.
    (!matches!(text.get(at), Some(b':' | b'.'))).then_some(at)
}

#[inline]
fn ether(text: &[u8], out: &mut [u8; 6]) -> Option<usize> {
    for (i, byte) in out.iter_mut().enumerate() {
        if i > 0 && text.get(i * 3 - 1) != Some(&b':') {
            return None;
        }
        *byte = hex(text, i * 3)? << 4 | hex(text, i * 3 + 1)?;
    }
    Some(17)
}

/// First and last value of a prefix.
#[inline]
fn prefix(first: &mut [u8], last: &mut [u8], bits: usize) -> Option<()> {
    if bits > first.len() * 8 {
        return None;
    }
    for (i, (first, last)) in first.iter_mut().zip(last).enumerate() {
        let mask = match bits.saturating_sub(i * 8) {
            0 => 0,
            kept @ 1..=7 => 0xffu8 << (8 - kept),
            _ => 0xff,
        };
        *first &= mask;
        *last = *first | !mask;
    }
    Some(())
}
