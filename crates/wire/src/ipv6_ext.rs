// SPDX-License-Identifier: Apache-2.0

//! IPv6 extension headers: the kernel's two walks over them, the headers themselves, options,
//! fragmentation.
//!
//! The kernel counts as extension headers: hop-by-hop, routing, fragment, AH, no-next-header and
//! destination options (`ipv6_ext_hdr()`). ESP and the mobility header end every walk like a
//! transport protocol does.

use crate::field::{be16, be32, get16, put16, put32};
use crate::ipv6;
use crate::protocol::{AH, DEST_OPTIONS, FRAGMENT, HOP_BY_HOP, NO_NEXT, ROUTING};
use std::net::Ipv6Addr;

/// Bytes of a fragment header, and the unit in which the other headers are long.
pub const FRAGMENT_LEN: usize = 8;

/// Type of a routing header: RPL source routes (RFC 6554).
pub const ROUTING_RPL: u8 = 3;
/// Type of a routing header: segments (RFC 8754).
pub const ROUTING_SEGMENTS: u8 = 4;

/// Option: one byte of padding.
pub const OPTION_PAD1: u8 = 0;
/// Option: padding.
pub const OPTION_PADN: u8 = 1;
/// Option: router alert.
pub const OPTION_ROUTER_ALERT: u8 = 5;
/// Option: CALIPSO label.
pub const OPTION_CALIPSO: u8 = 7;
/// Option: in-situ operation and maintenance.
pub const OPTION_IOAM: u8 = 49;
/// Option: jumbo payload.
pub const OPTION_JUMBO: u8 = 194;
/// Option: home address.
pub const OPTION_HOME_ADDRESS: u8 = 201;

/// Options of a hop-by-hop header at most (`net.ipv6.max_hbh_opts_number`), padding not counted.
pub const MAX_OPTIONS: usize = 8;

/// Whether the kernel walks over this header (`ipv6_ext_hdr()`).
#[inline]
pub const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AH | NO_NEXT | DEST_OPTIONS)
}

/// Length of a header of type `protocol` with length byte `units`.
#[inline]
const fn extension_len(protocol: u8, units: u8) -> usize {
    match protocol {
        FRAGMENT => FRAGMENT_LEN,
        AH => (units as usize + 2) * 4,
        _ => (units as usize + 1) * 8,
    }
}

/// What [`find`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundHeader {
    /// The header's protocol number.
    pub protocol: u8,
    /// Its offset from the start of the packet. 0 if it belongs to a later fragment and so is not
    /// there.
    pub offset: usize,
    /// Offset of the fragment in units of eight bytes; 0 in a first fragment and a whole packet.
    pub fragment_offset: u16,
    /// Whether a fragment header stands before it, or is it.
    pub is_fragment: bool,
}

/// Why [`find`] found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindError {
    /// The chain of headers is cut (`-EBADMSG`).
    Malformed,
    /// The header is not in the chain (`-ENOENT`).
    Absent,
}

/// How [`find`] walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// End at an authentication header when looking for the last one (`IP6_FH_F_AUTH`); nftables
    /// does.
    pub stop_at_ah: bool,
    /// Pass by routing headers without segments left (`IP6_FH_F_SKIP_RH`).
    pub skip_done_routing: bool,
}

/// Finds the first header of type `target`, or the last header of the chain for `None`, as
/// `ipv6_find_hdr()` does. `packet` begins with the IPv6 header; version, length and truncation are
/// not checked; what is after the payload length is walked over as well if it is there.
///
/// # Errors
/// See [`FindError`].
#[inline]
pub fn find(packet: &[u8], target: Option<u8>, walk: Walk) -> Result<FoundHeader, FindError> {
    let Some(&first) = packet.get(6) else { return Err(FindError::Malformed) };
    if !is_extension(first) {
        return match target {
            Some(t) if t != first => Err(FindError::Absent),
            _ => Ok(FoundHeader {
                protocol: first,
                offset: ipv6::LEN,
                fragment_offset: 0,
                is_fragment: false,
            }),
        };
    }
    find_extension(packet, first, target, walk)
}

fn find_extension(
    packet: &[u8],
    first: u8,
    target: Option<u8>,
    walk: Walk,
) -> Result<FoundHeader, FindError> {
    let mut out =
        FoundHeader { protocol: first, offset: ipv6::LEN, fragment_offset: 0, is_fragment: false };
    loop {
        let mut found = target == Some(out.protocol);
        if !is_extension(out.protocol) || out.protocol == NO_NEXT {
            return if target.is_none() || found { Ok(out) } else { Err(FindError::Absent) };
        }
        let word = |at| get16(packet, out.offset + at).ok_or(FindError::Malformed);
        let [next, units] = word(0)?.to_be_bytes();
        match out.protocol {
            ROUTING => {
                let [_, segments_left] = word(2)?.to_be_bytes();
                if walk.skip_done_routing && segments_left == 0 {
                    found = false;
                }
            }
            FRAGMENT => {
                out.is_fragment = true;
                let offset = word(2)? >> 3;
                if offset != 0 {
                    if target.is_none() && (!is_extension(next) || next == NO_NEXT) {
                        return Ok(FoundHeader {
                            protocol: next,
                            offset: 0,
                            fragment_offset: offset,
                            ..out
                        });
                    }
                    if !found {
                        return Err(FindError::Absent);
                    }
                    return Ok(FoundHeader { fragment_offset: offset, ..out });
                }
            }
            AH if walk.stop_at_ah && target.is_none() => return Ok(out),
            _ => {}
        }
        if found {
            return Ok(out);
        }
        out.offset += extension_len(out.protocol, units);
        out.protocol = next;
    }
}

/// Where [`skip`] arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Protocol of the header there; [`FRAGMENT`] for a later fragment.
    pub protocol: u8,
    /// Its offset.
    pub offset: usize,
    /// Offset and flags of the last fragment header passed, as in the header; 0 if there was none.
    pub frag: u16,
}

/// Passes over extension headers from `offset`, where one of type `protocol` begins, as
/// `ipv6_skip_exthdr()` does; authentication headers too. A later fragment ends the walk at its
/// fragment header. `None` if the chain is cut or ends with no-next-header.
#[inline]
pub fn skip(packet: &[u8], offset: usize, protocol: u8) -> Option<Skipped> {
    let mut out = Skipped { protocol, offset, frag: 0 };
    while is_extension(out.protocol) {
        if out.protocol == NO_NEXT {
            return None;
        }
        let [next, units] = get16(packet, out.offset)?.to_be_bytes();
        if out.protocol == FRAGMENT {
            out.frag = get16(packet, out.offset + 2)?;
            if out.frag & !7 != 0 {
                break;
            }
        }
        out.offset += extension_len(out.protocol, units);
        out.protocol = next;
    }
    Some(out)
}

/// Read view of an options header: hop-by-hop or destination.
#[derive(Clone, Copy, Debug)]
pub struct OptionsHeader<'a> {
    bytes: &'a [u8],
    next: u8,
}

impl<'a> OptionsHeader<'a> {
    /// `None` if not all bytes that its length byte says are there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let [next, units] = *bytes.first_chunk()?;
        let bytes = bytes.get(..extension_len(HOP_BY_HOP, units))?;
        Some(Self { bytes, next })
    }

    /// Type of the following header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.next
    }

    /// Bytes of the whole header.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.bytes.len()
    }

    /// The options: type and data. Ends at the first that is cut.
    pub fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.bytes.get(2..).unwrap_or(&[]);
        std::iter::from_fn(move || match rest {
            [] => None,
            [OPTION_PAD1, tail @ ..] => {
                rest = tail;
                Some((OPTION_PAD1, &[][..]))
            }
            [kind, len, tail @ ..] => {
                let (data, tail) = tail.split_at_checked(usize::from(*len))?;
                rest = tail;
                Some((*kind, data))
            }
            [_] => None,
        })
    }
}

/// Why hop-by-hop options make the receiver drop a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// Malformed, or of a type that says drop in silence.
    Drop,
    /// Answered by a parameter problem with this code and pointer.
    Problem {
        /// Code of the parameter problem.
        code: u8,
        /// Offset from the start of the packet of the byte that is wrong.
        pointer: usize,
    },
}

/// What valid hop-by-hop options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopByHop {
    /// Offset of the next header.
    pub next_offset: usize,
    /// Type of the next header.
    pub next_header: u8,
    /// Value of the router alert option.
    pub router_alert: Option<u16>,
    /// Payload length of a jumbogram; the packet must be trimmed to 40 bytes more.
    pub jumbo: Option<u32>,
}

/// Checks the hop-by-hop options of a received packet as `ipv6_parse_hopopts()` does. `packet`
/// begins with the IPv6 header, with next header hop-by-hop, and passed [`ipv6::check_input`].
///
/// # Errors
/// The packet must be dropped, with an answer or without.
pub fn check_hop_by_hop(packet: &[u8]) -> Result<HopByHop, OptionError> {
    const START: usize = ipv6::LEN;
    let ip = ipv6::Header::new(packet).ok_or(OptionError::Drop)?;
    let rest = packet.get(START..).unwrap_or(&[]);
    if rest.len() < 8 {
        return Err(OptionError::Drop);
    }
    let header = OptionsHeader::new(rest).ok_or(OptionError::Drop)?;
    let end = START + header.header_len();
    let mut out =
        HopByHop { next_offset: end, next_header: header.next_header(), ..HopByHop::default() };
    let (mut at, mut count, mut padding) = (START + 2, 0, 0);
    while at < end {
        let kind = packet[at];
        if kind == OPTION_PAD1 {
            // Padding aligns to eight bytes, so more than seven is wrong (RFC 4942, 2.1.9.5).
            padding += 1;
            if padding > 7 {
                return Err(OptionError::Drop);
            }
            at += 1;
            continue;
        }
        let Some(&len) = packet[..end].get(at + 1) else { return Err(OptionError::Drop) };
        let Some(data) = packet[..end].get(at + 2..at + 2 + usize::from(len)) else {
            return Err(OptionError::Drop);
        };
        if kind == OPTION_PADN {
            padding += data.len() + 2;
            if padding > 7 || data.iter().any(|b| *b != 0) {
                return Err(OptionError::Drop);
            }
        } else {
            count += 1;
            if count > MAX_OPTIONS {
                return Err(OptionError::Drop);
            }
            padding = 0;
            check_hop_option(packet, &ip, at, kind, data, &mut out)?;
        }
        at += 2 + data.len();
    }
    Ok(out)
}

fn check_hop_option(
    packet: &[u8],
    ip: &ipv6::Header<'_>,
    at: usize,
    kind: u8,
    data: &[u8],
    out: &mut HopByHop,
) -> Result<(), OptionError> {
    let problem = |pointer| OptionError::Problem { code: 0, pointer };
    match (kind, data) {
        (OPTION_ROUTER_ALERT, [a, b]) => out.router_alert = Some(u16::from_be_bytes([*a, *b])),
        (OPTION_ROUTER_ALERT, _) => return Err(OptionError::Drop),
        (OPTION_JUMBO, [a, b, c, d]) if at & 3 == 2 => {
            let len = u32::from_be_bytes([*a, *b, *c, *d]);
            if len <= 0xffff {
                return Err(problem(at + 2));
            }
            if ip.payload_len() != 0 {
                return Err(problem(at));
            }
            if len as usize > packet.len() - ipv6::LEN {
                return Err(OptionError::Drop);
            }
            out.jumbo = Some(len);
        }
        (OPTION_JUMBO, _) => return Err(OptionError::Drop),
        // In-situ OAM is off unless a device enables it, and then the option is passed over.
        (OPTION_IOAM, _) if at & 3 == 0 => {}
        (OPTION_IOAM, _) => return Err(OptionError::Drop),
        // Labels are accepted only of domains that NetLabel is configured for, and there are none.
        (OPTION_CALIPSO, _) => return Err(OptionError::Drop),
        _ => match kind >> 6 {
            0 => {}
            1 => return Err(OptionError::Drop),
            3 if ip.dst().is_multicast() => return Err(OptionError::Drop),
            _ => return Err(OptionError::Problem { code: 2, pointer: at }),
        },
    }
    Ok(())
}

/// Read view of a routing header.
#[derive(Clone, Copy, Debug)]
pub struct Routing<'a>(&'a [u8; 4]);

impl<'a> Routing<'a> {
    /// `None` if four bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    /// Type of the following header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.0[0]
    }

    /// Bytes of the whole header.
    #[inline]
    pub fn header_len(&self) -> usize {
        extension_len(ROUTING, self.0[1])
    }

    /// Routing type: 0 source route, 2 mobility, 4 segment routing.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.0[2]
    }

    /// Segments left.
    #[inline]
    pub fn segments_left(&self) -> u8 {
        self.0[3]
    }
}

/// Read view of a fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a>(&'a [u8; FRAGMENT_LEN]);

impl<'a> Fragment<'a> {
    /// `None` if eight bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    /// Type of the following header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.0[0]
    }

    /// Fragment offset in units of eight bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        be16(self.0, 2) >> 3
    }

    /// More fragments.
    #[inline]
    pub fn more(&self) -> bool {
        self.0[3] & 1 != 0
    }

    /// Identification.
    #[inline]
    pub fn id(&self) -> u32 {
        be32(self.0, 4)
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentRepr {
    /// Type of the following header.
    pub next_header: u8,
    /// Fragment offset in units of eight bytes, below 2^13.
    pub fragment_offset: u16,
    /// More fragments.
    pub more: bool,
    /// Identification.
    pub id: u32,
}

impl FragmentRepr {
    /// Reads a header.
    pub fn parse(h: &Fragment<'_>) -> Self {
        Self {
            next_header: h.next_header(),
            fragment_offset: h.fragment_offset(),
            more: h.more(),
            id: h.id(),
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; FRAGMENT_LEN] {
        let mut b = [0; FRAGMENT_LEN];
        b[0] = self.next_header;
        put16(&mut b, 2, self.fragment_offset << 3 | u16::from(self.more));
        put32(&mut b, 4, self.id);
        b
    }
}

/// Bytes of an options header (hop-by-hop, destination) around `options`, padded to a multiple of
/// eight by PadN.
pub fn options_header(next_header: u8, options: &[u8]) -> Vec<u8> {
    let mut b = vec![next_header, 0];
    b.extend_from_slice(options);
    match b.len().next_multiple_of(8) - b.len() {
        0 => {}
        1 => b.push(OPTION_PAD1),
        n => {
            b.extend([OPTION_PADN, (n - 2) as u8]);
            b.resize(b.len() + n - 2, 0);
        }
    }
    b[1] = (b.len() / 8 - 1) as u8;
    b
}

/// Bytes of a routing header of the layout of types 0 and 2: four reserved bytes, then addresses.
pub fn routing_header(
    next_header: u8,
    kind: u8,
    segments_left: u8,
    addresses: &[Ipv6Addr],
) -> Vec<u8> {
    let mut b = vec![next_header, (addresses.len() * 2) as u8, kind, segments_left, 0, 0, 0, 0];
    for a in addresses {
        b.extend(a.octets());
    }
    b
}

/// Bytes of a mobility header (RFC 6275) with the message `kind` and its data, padded to a multiple
/// of eight. The checksum is taken as given.
pub fn mobility_header(next_header: u8, kind: u8, checksum: u16, data: &[u8]) -> Vec<u8> {
    let mut b = vec![next_header, 0, kind, 0];
    b.extend(checksum.to_be_bytes());
    b.extend_from_slice(data);
    b.resize(b.len().next_multiple_of(8), 0);
    b[1] = (b.len() / 8 - 1) as u8;
    b
}

/// Offset in a packet at which a fragment header goes, and the offset of the byte with the type of
/// what follows there: after hop-by-hop, routing, and destination options that a routing header
/// follows (`ip6_find_1stfragopt()`). `None` if the chain is cut.
pub fn unfragmentable_end(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut offset, mut next_at, mut found_routing) = (ipv6::LEN, 6, false);
    loop {
        match *packet.get(next_at)? {
            HOP_BY_HOP => {}
            ROUTING => found_routing = true,
            DEST_OPTIONS => {
                if found_routing {
                    return Some((offset, next_at));
                }
            }
            _ => return Some((offset, next_at)),
        }
        let [_, units] = *packet.get(offset..)?.first_chunk()?;
        next_at = offset;
        offset += extension_len(HOP_BY_HOP, units);
        if offset > packet.len() {
            return None;
        }
    }
}

/// Cuts a packet into fragments that fit `mtu`, as `ip6_fragment()` does on a linear buffer;
/// routers do so only with what they put together themselves. Each fragment is handed to `emit`,
/// built in `scratch`. A malformed packet or an `mtu` without room for eight bytes of data emits
/// nothing and gives `false`.
pub fn fragment(
    packet: &[u8],
    mtu: usize,
    id: u32,
    scratch: &mut Vec<u8>,
    emit: impl FnMut(&[u8]),
) -> bool {
    let Some((start, _)) = unfragmentable_end(packet) else { return false };
    if mtu < start + FRAGMENT_LEN + 8 {
        return false;
    }
    let room = mtu - start - FRAGMENT_LEN;
    cut(packet, |left| if left <= room { left } else { room & !7 }, id, scratch, emit)
}

/// Like [`fragment`], with pieces of the sizes that `size` gives when so many bytes after the
/// headers that every fragment has are left: at most that many, and a multiple of eight unless it
/// is all. Otherwise it gives `false` where that happens.
pub fn cut(
    packet: &[u8],
    mut size: impl FnMut(usize) -> usize,
    id: u32,
    scratch: &mut Vec<u8>,
    mut emit: impl FnMut(&[u8]),
) -> bool {
    let Some((start, next_at)) = unfragmentable_end(packet) else { return false };
    let (Some((head, data)), Some(&next_header)) =
        (packet.split_at_checked(start), packet.get(next_at))
    else {
        return false;
    };
    let mut done = 0;
    while done < data.len() {
        let left = data.len() - done;
        let len = size(left);
        if len == 0 || len > left || (len < left && !len.is_multiple_of(8)) {
            return false;
        }
        let repr =
            FragmentRepr { next_header, fragment_offset: (done / 8) as u16, more: len < left, id };
        scratch.clear();
        scratch.extend_from_slice(head);
        scratch.extend_from_slice(&repr.bytes());
        scratch.extend_from_slice(&data[done..done + len]);
        scratch[next_at] = FRAGMENT;
        let Some(mut ip) = ipv6::HeaderMut::new(scratch) else { return false };
        ip.set_payload_len((start - ipv6::LEN + FRAGMENT_LEN + len) as u16);
        emit(scratch);
        done += len;
    }
    true
}

/// Bytes of the headers of a packet that every fragment of it repeats (`ip6_find_1stfragopt()`);
/// `None` if they are cut.
pub fn unfragmentable_len(packet: &[u8]) -> Option<usize> {
    unfragmentable_end(packet).map(|(end, _)| end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ESP, MOBILITY, TCP, UDP};

    fn packet(first: u8, rest: &[u8]) -> Vec<u8> {
        let repr = ipv6::Repr {
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            next_header: first,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len: rest.len() as u16,
        };
        [&repr.bytes()[..], rest].concat()
    }

    fn fragment_header(next_header: u8, fragment_offset: u16, more: bool) -> [u8; 8] {
        FragmentRepr { next_header, fragment_offset, more, id: 9 }.bytes()
    }

    const NFT: Walk = Walk { stop_at_ah: true, skip_done_routing: false };

    #[test]
    fn the_last_header_is_found_as_in_the_kernel() {
        let ah =
            |next| [next, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let ok = |protocol, offset| Ok((protocol, offset, 0));
        for (first, rest, found) in [
            (TCP, vec![0; 20], ok(TCP, 40)),
            (TCP, vec![], ok(TCP, 40)),
            (HOP_BY_HOP, options_header(UDP, &[5, 2, 0, 0]), ok(UDP, 48)),
            (DEST_OPTIONS, options_header(ESP, &[]), ok(ESP, 48)),
            (MOBILITY, mobility_header(NO_NEXT, 1, 0, &[]), ok(MOBILITY, 40)),
            (ROUTING, routing_header(UDP, 0, 0, &["2001:db8::3".parse().unwrap()]), ok(UDP, 64)),
            (NO_NEXT, vec![], ok(NO_NEXT, 40)),
            (AH, ah(UDP).to_vec(), ok(AH, 40)),
            (FRAGMENT, fragment_header(UDP, 0, true).to_vec(), ok(UDP, 48)),
            (FRAGMENT, fragment_header(UDP, 5, true).to_vec(), Ok((UDP, 0, 5))),
            (FRAGMENT, fragment_header(DEST_OPTIONS, 5, true).to_vec(), Err(FindError::Absent)),
            (FRAGMENT, fragment_header(NO_NEXT, 5, true).to_vec(), Ok((NO_NEXT, 0, 5))),
            (FRAGMENT, vec![UDP, 0, 0], Err(FindError::Malformed)),
            (ROUTING, vec![UDP, 0, 0], Err(FindError::Malformed)),
            (DEST_OPTIONS, vec![UDP], Err(FindError::Malformed)),
            // The length of a header is believed; whether bytes are there shows when the next one
            // is read.
            (DEST_OPTIONS, vec![UDP, 9], ok(UDP, 120)),
            (DEST_OPTIONS, vec![DEST_OPTIONS, 9], Err(FindError::Malformed)),
        ] {
            let got = find(&packet(first, &rest), None, NFT)
                .map(|f| (f.protocol, f.offset, f.fragment_offset));
            assert_eq!(got, found, "{first} {rest:?}");
        }
        let p = packet(AH, &ah(UDP));
        assert_eq!(find(&p, None, Walk::default()).map(|f| (f.protocol, f.offset)), Ok((UDP, 64)));
        assert_eq!(skip(&p, 40, AH), Some(Skipped { protocol: UDP, offset: 64, frag: 0 }));
        assert_eq!(find(&p[..39], None, NFT), Err(FindError::Malformed));
    }

    #[test]
    fn a_header_in_the_chain_is_found_by_type() {
        let mut rest = options_header(ROUTING, &[]);
        rest.extend(routing_header(FRAGMENT, 2, 0, &[]));
        rest.extend(fragment_header(UDP, 0, false));
        let p = packet(HOP_BY_HOP, &rest);
        let at = |target, walk| find(&p, Some(target), walk).map(|f| f.offset);
        let done = Walk { skip_done_routing: true, ..Walk::default() };
        for (target, walk, found) in [
            (HOP_BY_HOP, NFT, Ok(40)),
            (ROUTING, NFT, Ok(48)),
            (ROUTING, done, Err(FindError::Absent)),
            (FRAGMENT, NFT, Ok(56)),
            (UDP, NFT, Ok(64)),
            (DEST_OPTIONS, NFT, Err(FindError::Absent)),
        ] {
            assert_eq!(at(target, walk), found, "{target}");
        }
        let later = packet(FRAGMENT, &fragment_header(UDP, 3, false));
        let f = find(&later, Some(FRAGMENT), NFT).unwrap();
        assert_eq!((f.offset, f.fragment_offset, f.is_fragment), (40, 3, true));
        assert_eq!(find(&later, Some(UDP), NFT), Err(FindError::Absent));
        assert_eq!(
            skip(&later, 40, FRAGMENT),
            Some(Skipped { protocol: FRAGMENT, offset: 40, frag: 24 })
        );
    }

    #[test]
    fn hop_by_hop_options_are_checked_as_in_the_kernel() {
        let with = |options: &[u8]| {
            let mut b = vec![UDP, 0];
            b.extend_from_slice(options);
            b[1] = (b.len() / 8 - 1) as u8;
            check_hop_by_hop(&packet(HOP_BY_HOP, &b))
        };
        let unknown = |pointer| Err(OptionError::Problem { code: 2, pointer });
        let good = HopByHop { next_offset: 48, next_header: UDP, ..HopByHop::default() };
        for (options, result) in [
            (&[0; 6][..], Ok(good)),
            (&[1, 4, 0, 0, 0, 0], Ok(good)),
            (&[1, 4, 0, 0, 0, 1], Err(OptionError::Drop)),
            (&[5, 2, 0, 3, 1, 0], Ok(HopByHop { router_alert: Some(3), ..good })),
            (&[5, 1, 0, 0, 0, 0], Err(OptionError::Drop)),
            (&[1, 5, 0, 0, 0, 0], Err(OptionError::Drop)),
            (&[0, 0, 0, 0, 0, 1], Err(OptionError::Drop)),
            (&[0x1e, 4, 0, 0, 0, 0], Ok(good)),
            (&[0, 0, 49, 2, 0, 0], Ok(good)),
            (&[49, 4, 0, 0, 0, 0], Err(OptionError::Drop)),
            (&[7, 4, 0, 0, 0, 0], Err(OptionError::Drop)),
            (&[0x5e, 4, 0, 0, 0, 0], Err(OptionError::Drop)),
            (&[0x9e, 4, 0, 0, 0, 0], unknown(42)),
            (&[0, 0xde, 3, 0, 0, 0], unknown(43)),
            (&[194, 4, 0, 0, 0xff, 0xff], Err(OptionError::Problem { code: 0, pointer: 44 })),
            (&[194, 4, 0, 1, 0, 0], Err(OptionError::Problem { code: 0, pointer: 42 })),
        ] {
            assert_eq!(with(options), result, "{options:?}");
        }
        let many = [0x1e, 0].repeat(11);
        assert_eq!(with(&many), Err(OptionError::Drop), "more than eight options");
        let long_padding = [1, 4, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 0];
        assert_eq!(with(&long_padding), Err(OptionError::Drop));
    }

    #[test]
    fn fragments_carry_the_unfragmentable_part_and_all_data() {
        let data: Vec<u8> = (0..100).collect();
        let hop = options_header(UDP, &[]);
        for (first, head, next_at) in [(UDP, &[][..], 6), (HOP_BY_HOP, &hop, 40)] {
            let p = packet(first, &[head, &data].concat());
            let (mut got, mut scratch) = (Vec::new(), Vec::new());
            assert!(fragment(&p, 100, 77, &mut scratch, |f| {
                assert!(f.len() <= 100);
                assert_eq!(ipv6::check_input(f, false), Ok(f.len()));
                assert_eq!(f[next_at], FRAGMENT);
                let start = 40 + head.len();
                let h = Fragment::new(&f[start..]).unwrap();
                assert_eq!((h.next_header(), h.id()), (UDP, 77));
                assert_eq!(usize::from(h.fragment_offset()) * 8, got.len());
                got.extend_from_slice(&f[start + 8..]);
                assert_eq!(h.more(), got.len() < 100);
            }));
            assert_eq!(got, data);
            assert!(!fragment(&p, 40 + head.len() + 15, 1, &mut scratch, |_| panic!()));
        }
    }

    #[test]
    fn no_bytes_make_the_walks_panic() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let kinds = [0, 6, 17, 43, 44, 50, 51, 59, 60, 135];
        for _ in 0..20_000 {
            let mut p: Vec<u8> = (0..rng.usize(..120)).map(|_| rng.u8(..4)).collect();
            for _ in 0..6 {
                if !p.is_empty() {
                    let at = rng.usize(..p.len());
                    p[at] = kinds[rng.usize(..kinds.len())];
                }
            }
            if let Some(b) = p.get_mut(6) {
                *b = kinds[rng.usize(..kinds.len())];
            }
            for target in [None, Some(44), Some(43), Some(17)] {
                let _ = find(&p, target, NFT);
            }
            let _ = (skip(&p, 40, 0), check_hop_by_hop(&p), unfragmentable_end(&p));
            fragment(&p, 80, 1, &mut Vec::new(), |_| {});
            if let Some(h) = p.get(40..).and_then(OptionsHeader::new) {
                h.options().count();
            }
        }
    }
}
