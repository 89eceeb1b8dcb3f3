// SPDX-License-Identifier: Apache-2.0

//! Type-length-value with one byte each for type and length, as libnftnl has it in userdata.

/// Appends one value; what is longer than 255 bytes is continued in a further one of the same type.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let mut rest = value;
    loop {
        let (now, later) = rest.split_at(rest.len().min(255));
        out.push(kind);
        out.push(now.len() as u8);
        out.extend_from_slice(now);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
}

/// Collects all values of one type.
pub(crate) fn get(data: &[u8], kind: u8) -> Option<Vec<u8>> {
    let mut found = None;
    let mut rest = data;
    while let [k, len, tail @ ..] = rest {
        let len = usize::from(*len).min(tail.len());
        let (value, next) = tail.split_at(len);
        if *k == kind {
            found.get_or_insert_with(Vec::new).extend_from_slice(value);
        }
        rest = next;
    }
    found
}

/// A number of four bytes in host order.
pub(crate) fn number(data: &[u8], kind: u8) -> Option<u32> {
    get(data, kind)?.try_into().ok().map(u32::from_ne_bytes)
}
