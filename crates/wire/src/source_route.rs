// SPDX-License-Identifier: Apache-2.0

//! Source routes of IPv4 (RFC 791, 3.1; RFC 1812, 5.2.4.1): the addresses that a packet is to pass,
//! and what a router does with the option that has them (`ip_options_rcv_srr()`,
//! `ip_forward_options()`, `__ip_options_echo()` of `net/ipv4/ip_options.c`).

use std::net::Ipv4Addr;

/// Bytes of an IPv4 header without options.
const FIXED: usize = 20;
/// Bytes of options at most.
const MAX_LEN: usize = 40;
/// Bytes of an option before its first address: kind, length, pointer.
const HEAD: usize = 3;

/// Where the pointer of a source route is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At an address: the packet goes there.
    To(Ipv4Addr),
    /// Behind the last one: the packet is where it was to go.
    End,
    /// At an address that is not all there.
    Cut,
}

/// Where the option is in options that were found right, and how long it is. `position` counts
/// from the start of the IPv4 header.
fn place(options: &[u8], position: u8) -> Option<(usize, usize)> {
    let at = usize::from(position).checked_sub(FIXED)?;
    let len = usize::from(*options.get(at + 1)?);
    (len >= HEAD && at + len <= options.len()).then_some((at, len))
}

/// The option at a position from the start of the IPv4 header, and its pointer. `options` were
/// found right.
pub fn find(options: &[u8], position: u8) -> Option<(&[u8], u8)> {
    let (at, len) = place(options, position)?;
    let option = options.get(at..at + len)?;
    Some((option, *option.get(2)?))
}

/// The address in an option that a pointer is at.
pub fn next(option: &[u8], pointer: u8) -> Next {
    let pointer = usize::from(pointer);
    if pointer > option.len() {
        return Next::End;
    }
    let address = pointer.checked_sub(1).and_then(|at| option.get(at..)?.first_chunk::<4>());
    address.map_or(Next::Cut, |a| Next::To(Ipv4Addr::from(*a)))
}

/// Puts the forwarder's address in the place of the next hop, and the pointer behind it. Returns
/// whether the next hop was there.
pub fn fill(options: &mut [u8], position: u8, hop: Ipv4Addr, address: Ipv4Addr) -> bool {
    let Some((at, _)) = place(options, position) else { return false };
    let Some((option, mut pointer)) = find(options, position) else { return false };
    let behind = loop {
        match next(option, pointer) {
            Next::To(found) if found == hop => break pointer.saturating_add(4),
            Next::To(_) => pointer = pointer.saturating_add(4),
            Next::End | Next::Cut => return false,
        }
    };
    put(options, at + usize::from(pointer) - 1, address);
    if let Some(byte) = options.get_mut(at + 2) {
        *byte = behind;
    }
    true
}

/// Puts an address at the end of the route.
pub(crate) fn end_at(options: &mut [u8], position: u8, address: Ipv4Addr) {
    if let Some((at, len)) = place(options, position).filter(|(_, len)| *len >= HEAD + 4) {
        put(options, at + len - 4, address);
    }
}

fn put(options: &mut [u8], at: usize, address: Ipv4Addr) {
    if let Some(field) = options.get_mut(at..at + 4) {
        field.copy_from_slice(&address.octets());
    }
}

/// The way back along a source route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    bytes: [u8; MAX_LEN],
    len: usize,
    /// Where an answer goes first; the other addresses are in the option.
    pub(crate) first_hop: Ipv4Addr,
}

impl Back {
    /// The option; its last address is to be put in.
    pub(crate) fn option(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// The way back from where a packet of `source` is to it. `None` if it has passed no address of the
/// route but that of its source.
pub(crate) fn reverse(option: &[u8], source: Ipv4Addr) -> Option<Back> {
    let &[kind, _, pointer] = option.first_chunk::<HEAD>()?;
    let address = |at: usize| option.get(at..)?.first_chunk::<4>().copied();
    let mut from = usize::from(pointer).min(option.len() + 1).checked_sub(4).filter(|n| *n > 3)?;
    let mut back =
        Back { bytes: [0; MAX_LEN], len: HEAD + 4, first_hop: address(from - 1)?.into() };
    from -= 4;
    while from > 3 {
        back.bytes.get_mut(back.len - 4..back.len)?.copy_from_slice(&address(from - 1)?);
        back.len += 4;
        from -= 4;
    }
    // A route that begins with its source is mended (RFC 1812).
    if address(from + 3) == Some(source.octets()) {
        back.len -= 4;
    }
    if back.len < HEAD + 4 {
        return None;
    }
    back.bytes[..HEAD].copy_from_slice(&[kind, back.len as u8, 4]);
    Some(back)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option with these last bytes of addresses in 198.18.0.0/24.
    fn route(pointer: u8, hosts: &[u8]) -> Vec<u8> {
        let mut option = vec![131, 3 + 4 * hosts.len() as u8, pointer];
        hosts.iter().for_each(|host| option.extend([198, 18, 0, *host]));
        option
    }

    fn host(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, n)
    }

    #[test]
    fn a_forwarder_takes_the_place_of_the_next_hop() {
        let mut options = [vec![1], route(4, &[7, 8])].concat();
        let (option, pointer) = find(&options, 21).unwrap();
        assert_eq!((next(option, pointer), next(option, 12)), (Next::To(host(7)), Next::End));
        assert_eq!(next(&option[..9], 8), Next::Cut);
        assert!(fill(&mut options, 21, host(8), host(1)));
        assert_eq!(options, [vec![1], route(12, &[7, 1])].concat());
        assert!(!fill(&mut options, 21, host(8), host(1)));
    }

    #[test]
    fn an_answer_goes_back_along_the_route() {
        for (pointer, hosts, want) in [
            (4, &[7, 8, 9][..], None),
            (8, &[7, 8, 9], Some((7, route(4, &[0])))),
            (12, &[7, 8, 9], Some((8, route(4, &[7, 0])))),
            (16, &[7, 8, 9], Some((9, route(4, &[8, 7, 0])))),
            (40, &[7, 8, 9], Some((9, route(4, &[8, 7, 0])))),
            // The source itself is left out.
            (12, &[3, 8, 9], Some((8, route(4, &[0])))),
            (8, &[3, 8, 9], None),
        ] {
            let back = reverse(&route(pointer, hosts), host(3));
            // The last address is put in later.
            let open = |mut option: Vec<u8>| {
                let end = option.len() - 4;
                option[end..].fill(0);
                option
            };
            let got = back.map(|b| (b.first_hop, open(b.option().to_vec())));
            let want = want.map(|(first, option)| (host(first), open(option)));
            assert_eq!(got, want, "{pointer} {hosts:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        for _ in 0..20_000 {
            let mut options: Vec<u8> = (0..rng.usize(..=40)).map(|_| rng.u8(..24)).collect();
            let position = rng.u8(..64);
            if let Some((option, pointer)) = find(&options, position) {
                next(option, pointer);
            }
            fill(&mut options, position, Ipv4Addr::from(rng.u32(..)), Ipv4Addr::LOCALHOST);
            end_at(&mut options, position, Ipv4Addr::LOCALHOST);
            reverse(&options, Ipv4Addr::LOCALHOST);
        }
    }
}
