// SPDX-License-Identifier: Apache-2.0

//! Many elements in a row, packed: what a change of a large set brings.

use serde::{Deserialize, Serialize};

use crate::Element;

/// Elements in order. One that is no more than a key takes two more bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Received<V>", bound(deserialize = "V: Deserialize<'de>"))]
pub struct ElementList<V> {
    /// For each element: the length of its key, flags for its other parts, the key, the last key.
    bytes: Vec<u8>,
    /// Value and expiry of those that have [`REST`].
    rest: Vec<(V, Option<u64>)>,
    len: usize,
}

/// The element has a last key (of the same length).
const END: u8 = 1;
/// Its value is not the default one, or it expires.
const REST: u8 = 2;
/// The last key has another length, which stands before it. No set takes such an element.
const LENGTHS: u8 = 4;

/// The fields of a list as they come from outside.
#[derive(Deserialize)]
struct Received<V> {
    bytes: Vec<u8>,
    rest: Vec<(V, Option<u64>)>,
    len: usize,
}

impl<V> TryFrom<Received<V>> for ElementList<V> {
    type Error = &'static str;

    fn try_from(received: Received<V>) -> Result<Self, Self::Error> {
        let Received { bytes, rest, len } = received;
        let (mut left, mut elements, mut more) = (bytes.as_slice(), 0, 0);
        while let Some((_, end, flags)) = next_keys(&mut left) {
            if flags & !(END | REST | LENGTHS) != 0 || flags & LENGTHS != 0 && end.is_none() {
                return Err("flags that no element has");
            }
            elements += 1;
            more += usize::from(flags & REST != 0);
        }
        if !left.is_empty() || (elements, more) != (len, rest.len()) {
            return Err("elements do not match their number");
        }
        Ok(ElementList { bytes, rest, len })
    }
}

impl<V: Default + PartialEq> ElementList<V> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one at the end. Keys longer than 255 bytes, which no set has, are cut off there.
    pub fn push(&mut self, element: Element<V>) {
        let Element { key, key_end, value, expires_at } = element;
        let value = (value != V::default()).then_some(value);
        self.push_parts(&key, key_end.as_deref(), value, expires_at);
    }

    /// [`ElementList::push`] from an element's parts; no value means the default one.
    pub fn push_parts(
        &mut self,
        key: &[u8],
        key_end: Option<&[u8]>,
        value: Option<V>,
        expires_at: Option<u64>,
    ) {
        let key = &key[..key.len().min(255)];
        let mut flags = 0;
        if key_end.is_some() {
            flags |= END;
        }
        if key_end.is_some_and(|end| end.len() != key.len()) {
            flags |= LENGTHS;
        }
        if expires_at.is_some() || value.is_some() {
            flags |= REST;
            self.rest.push((value.unwrap_or_default(), expires_at));
        }
        self.bytes.extend_from_slice(&[key.len() as u8, flags]);
        self.bytes.extend_from_slice(key);
        if let Some(end) = key_end {
            let end = &end[..end.len().min(255)];
            if flags & LENGTHS != 0 {
                self.bytes.push(end.len() as u8);
            }
            self.bytes.extend_from_slice(end);
        }
        self.len += 1;
    }
}

/// First and last key, and what else there is.
pub(crate) type Keys<'a> = (&'a [u8], Option<&'a [u8]>, u8);

/// Takes the next element's keys off.
fn next_keys<'a>(bytes: &mut &'a [u8]) -> Option<Keys<'a>> {
    let (&[len, flags], rest) = bytes.split_first_chunk::<2>()?;
    let (key, mut rest) = rest.split_at_checked(len as usize)?;
    let mut end = None;
    if flags & END != 0 {
        let mut len = &len;
        if flags & LENGTHS != 0 {
            (len, rest) = rest.split_first()?;
        }
        let (last, behind) = rest.split_at_checked(usize::from(*len))?;
        (end, rest) = (Some(last), behind);
    }
    *bytes = rest;
    Some((key, end, flags))
}

impl<V> ElementList<V> {
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First and last keys of all.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Keys<'_>> {
        let mut bytes = self.bytes.as_slice();
        std::iter::from_fn(move || next_keys(&mut bytes))
    }

    /// Whether it is a list as [`ElementList::push`] makes it, for untrusted input: all keys are
    /// complete, and the numbers of keys and values are as stated.
    pub fn is_sound(&self) -> bool {
        let (mut bytes, mut count, mut values) = (self.bytes.as_slice(), 0, 0);
        while let Some((_, _, flags)) = next_keys(&mut bytes) {
            count += 1;
            values += usize::from(flags & REST != 0);
        }
        bytes.is_empty() && (count, values) == (self.len, self.rest.len())
    }

    /// Whether any expires.
    pub(crate) fn expires(&self) -> bool {
        self.rest.iter().any(|(_, expires_at)| expires_at.is_some())
    }

    /// The values that were given, and expiries: of all elements that are more than a key.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (&V, Option<u64>)> {
        self.rest.iter().map(|(value, expires_at)| (value, *expires_at))
    }

    /// Passes the keys and the value of each to `take`, in order.
    pub(crate) fn consume(self, mut take: impl FnMut(&[u8], Option<&[u8]>, V))
    where
        V: Default,
    {
        let mut bytes = self.bytes.as_slice();
        let mut rest = self.rest.into_iter();
        while let Some((key, end, flags)) = next_keys(&mut bytes) {
            let value = if flags & REST != 0 { rest.next().map(|(value, _)| value) } else { None };
            take(key, end, value.unwrap_or_default());
        }
    }
}

impl<V: Default + Clone> ElementList<V> {
    /// A copy of each.
    pub fn iter(&self) -> impl Iterator<Item = Element<V>> {
        let mut bytes = self.bytes.as_slice();
        let mut rest = self.rest.iter().cloned();
        std::iter::from_fn(move || next(&mut bytes, &mut rest))
    }
}

impl<V: Default> ElementList<V> {
    /// All of them, one after the other.
    pub fn into_elements(self) -> impl Iterator<Item = Element<V>> {
        let ElementList { bytes, rest, .. } = self;
        let mut rest = rest.into_iter();
        let mut at = 0;
        std::iter::from_fn(move || {
            let mut left = bytes.get(at..)?;
            let element = next(&mut left, &mut rest);
            at = bytes.len() - left.len();
            element
        })
    }
}

fn next<V: Default>(
    bytes: &mut &[u8],
    rest: &mut impl Iterator<Item = (V, Option<u64>)>,
) -> Option<Element<V>> {
    let (key, key_end, flags) = next_keys(bytes)?;
    let (value, expires_at) = if flags & REST != 0 { rest.next()? } else { Default::default() };
    Some(Element { key: key.into(), key_end: key_end.map(Into::into), value, expires_at })
}

impl<V: Default + PartialEq> Extend<Element<V>> for ElementList<V> {
    fn extend<I: IntoIterator<Item = Element<V>>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<V: Default + PartialEq> FromIterator<Element<V>> for ElementList<V> {
    fn from_iter<I: IntoIterator<Item = Element<V>>>(elements: I) -> Self {
        let mut list = ElementList::new();
        list.extend(elements);
        list
    }
}

impl<V: Default + PartialEq> From<Vec<Element<V>>> for ElementList<V> {
    fn from(elements: Vec<Element<V>>) -> Self {
        elements.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_unpack_unchanged() {
        let keys: [&[u8]; 4] = [&[], &[1], &[2; 16], &[3; 255]];
        let mut all = Vec::new();
        for key in keys {
            for end in [None, Some(key), Some(&[7, 8][..])] {
                for (value, expires_at) in [(0, None), (5, None), (0, Some(9)), (5, Some(u64::MAX))]
                {
                    all.push(Element {
                        key: key.into(),
                        key_end: end.map(Into::into),
                        value,
                        expires_at,
                    });
                }
            }
        }
        let list: ElementList<u8> = all.clone().into();
        assert_eq!(list.len(), all.len());
        assert_eq!(list.iter().collect::<Vec<_>>(), all);
        assert_eq!(list.into_elements().collect::<Vec<_>>(), all);
    }

    #[test]
    fn untrusted_lists_are_validated() {
        let element = [1, REST, 7];
        for (bytes, rest, len, taken) in [
            (&element[..], 1, 1, true),
            (&[], 0, 0, true),
            (&[1, END, 7, 8], 0, 1, true),
            (&element, 1, usize::MAX, false),
            (&element, 0, 1, false),
            (&element, 2, 1, false),
            (&element[..2], 1, 1, false),
            (&[1, 8, 7], 0, 1, false),
            (&[1, LENGTHS, 7], 0, 1, false),
        ] {
            let received = Received { bytes: bytes.to_vec(), rest: vec![(3u8, None); rest], len };
            assert_eq!(ElementList::try_from(received).is_ok(), taken, "{bytes:?} {rest} {len}");
        }
    }
}
