// SPDX-License-Identifier: Apache-2.0

//! Datagrams of netlink as the bytes of one input: each with its length in two bytes before it, in
//! network byte order. And what holds for those that answer them.

/// Datagrams as an input.
pub fn with_lengths(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let one = |d: &Vec<u8>| [(d.len() as u16).to_be_bytes().to_vec(), d.clone()].concat();
    datagrams.iter().flat_map(one).collect()
}

/// The datagrams of an input; the last one may be cut.
pub fn of(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_be_bytes(*len)).min(after.len());
        let (datagram, next) = after.split_at(len);
        rest = next;
        Some(datagram)
    })
}

/// An answer is whole messages.
pub fn check(datagram: &[u8]) {
    let mut rest = datagram;
    while !rest.is_empty() {
        let len = rest.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b) as usize);
        assert!((16..=rest.len()).contains(&len), "an answer is no message: {datagram:02x?}");
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
}

/// A dump of what was taken has an end (`NLMSG_DONE`).
pub fn check_dump(datagrams: &[Vec<u8>]) {
    datagrams.iter().for_each(|d| check(d));
    let last = datagrams.last().expect("a dump has an end");
    assert_eq!(last[4..6], 3u16.to_ne_bytes(), "a dump of what was taken");
}
