// SPDX-License-Identifier: Apache-2.0

//! IPv6 (RFC 8200): the fixed header, checks of received packets, scopes of addresses. Extension
//! headers have their own file.

use crate::field::{array, be16, be32, put, put16, put32};
use crate::{checksum, protocol};
use std::fmt;
use std::net::Ipv6Addr;

/// Bytes of the fixed header.
pub const LEN: usize = 40;
/// Smallest MTU of a link.
pub const MIN_MTU: usize = 1280;

const VERSION: usize = 0;
const PAYLOAD_LEN: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: usize = 8;
const DST: usize = 24;

/// Read view of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if 40 bytes are not there. Version and length are not looked at: that is
    /// [`check_input`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        self.fixed[VERSION] >> 4
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be16(self.fixed, VERSION) >> 4) as u8
    }

    /// Flow label.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.fixed, VERSION) & 0x000f_ffff
    }

    /// Length of what follows the fixed header.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        be16(self.fixed, PAYLOAD_LEN)
    }

    /// Type of the first header after this one.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.fixed[NEXT_HEADER]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.fixed[HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<LEN, 16>(self.fixed, SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<LEN, 16>(self.fixed, DST))
    }

    /// What follows the fixed header, clipped to the payload length.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(..usize::from(self.payload_len())).unwrap_or(self.rest)
    }

    /// Sum over the pseudo header for an upper-layer header `protocol` of `len` bytes with its
    /// data.
    #[inline]
    pub fn pseudo(&self, protocol: u8, len: usize) -> checksum::Sum {
        checksum::pseudo_v6(self.src(), self.dst(), protocol, len as u32)
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP6 {} > {}: hlim {}, next-header {}, payload length {}",
            self.src(),
            self.dst(),
            self.hop_limit(),
            self.next_header(),
            self.payload_len()
        )
    }
}

/// Scope field of a multicast address (RFC 4291, 2.7).
#[inline]
pub const fn multicast_scope(addr: Ipv6Addr) -> u8 {
    addr.octets()[1] & 0x0f
}

/// Whether the address is of link-local scope: fe80::/10, or multicast of interface-local or
/// link-local scope.
#[inline]
pub const fn is_link_scoped(addr: Ipv6Addr) -> bool {
    addr.is_unicast_link_local() || (addr.is_multicast() && multicast_scope(addr) <= 2)
}

/// Why a received packet is not IPv6 (the drop reasons of `ip6_rcv_core()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// The header is cut, the version is not 6, or an address may not be on the wire (`IP_INHDR`
    /// and others).
    Header,
    /// Fewer bytes are there than the payload length says (`PKT_TOO_SMALL`).
    Truncated,
}

/// The checks of `ip6_rcv_core()` on a packet that begins at `bytes`, in their order, except for
/// hop-by-hop options, which come after them. Returns the length of the whole packet, to which it
/// must be trimmed.
///
/// `loopback` says that the packet came from the loopback device, where loopback addresses and
/// interface-local groups are in order. `l2_group` is not asked for: `drop_unicast_in_l2_multicast`
/// is off by default.
///
/// # Errors
/// The first check that fails.
#[inline]
pub fn check_input(bytes: &[u8], loopback: bool) -> Result<usize, InputError> {
    let Some(h) = Header::new(bytes) else { return Err(InputError::Header) };
    if h.version() != 6 {
        return Err(InputError::Header);
    }
    let (src, dst) = (h.src(), h.dst());
    if !loopback && (src.is_loopback() || dst.is_loopback()) {
        return Err(InputError::Header);
    }
    if dst.is_multicast() {
        match multicast_scope(dst) {
            0 => return Err(InputError::Header),
            1 if !loopback => return Err(InputError::Header),
            _ => {}
        }
    }
    if src.is_multicast() {
        return Err(InputError::Header);
    }
    let payload_len = usize::from(h.payload_len());
    // A zero length may mean a jumbogram, with its length in a hop-by-hop option.
    if payload_len == 0 && h.next_header() == protocol::HOP_BY_HOP {
        return Ok(bytes.len());
    }
    if LEN + payload_len > bytes.len() {
        return Err(InputError::Truncated);
    }
    Ok(LEN + payload_len)
}

/// Setters on an IPv6 header.
#[derive(Debug)]
pub struct HeaderMut<'a>(&'a mut [u8; LEN]);

impl<'a> HeaderMut<'a> {
    /// `None` if 40 bytes are not there.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        bytes.first_chunk_mut().map(Self)
    }

    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = be16(self.0, VERSION) & 0xf00f | u16::from(class) << 4;
        put16(self.0, VERSION, word);
    }

    /// Sets the flow label, of which 20 bits count.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let word = be32(self.0, VERSION) & 0xfff0_0000 | label & 0x000f_ffff;
        put32(self.0, VERSION, word);
    }

    /// Sets the payload length.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put16(self.0, PAYLOAD_LEN, len);
    }

    /// Sets the type of the first header after this one.
    #[inline]
    pub fn set_next_header(&mut self, protocol: u8) {
        self.0[NEXT_HEADER] = protocol;
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, limit: u8) {
        self.0[HOP_LIMIT] = limit;
    }

    /// Takes one from the hop limit; returns the new one.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> u8 {
        self.0[HOP_LIMIT] = self.0[HOP_LIMIT].wrapping_sub(1);
        self.0[HOP_LIMIT]
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, addr: Ipv6Addr) {
        put(self.0, SRC, addr.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, addr: Ipv6Addr) {
        put(self.0, DST, addr.octets());
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Type of the first header after this one.
    pub next_header: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, below 2^20.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Length of what follows.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self {
            src: h.src(),
            dst: h.dst(),
            next_header: h.next_header(),
            traffic_class: h.traffic_class(),
            flow_label: h.flow_label(),
            hop_limit: h.hop_limit(),
            payload_len: h.payload_len(),
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put32(
            &mut b,
            VERSION,
            6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff,
        );
        put16(&mut b, PAYLOAD_LEN, self.payload_len);
        b[NEXT_HEADER] = self.next_header;
        b[HOP_LIMIT] = self.hop_limit;
        put(&mut b, SRC, self.src.octets());
        put(&mut b, DST, self.dst.octets());
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repr(src: &str, dst: &str, payload_len: u16) -> Repr {
        Repr {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            next_header: 17,
            traffic_class: 0xa5,
            flow_label: 0xf_1234,
            hop_limit: 64,
            payload_len,
        }
    }

    #[test]
    fn emitted_headers_are_read_back_and_setters_touch_only_their_field() {
        let r = repr("2001:db8::1", "2001:db8::2", 9);
        let mut bytes = r.bytes();
        assert_eq!(Repr::parse(&Header::new(&bytes).unwrap()), r);
        let mut m = HeaderMut::new(&mut bytes).unwrap();
        m.set_traffic_class(0x5a);
        m.set_flow_label(0x0_4321);
        assert_eq!(m.decrement_hop_limit(), 63);
        let want = Repr { traffic_class: 0x5a, flow_label: 0x4321, hop_limit: 63, ..r };
        assert_eq!(Repr::parse(&Header::new(&bytes).unwrap()), want);
        assert_eq!(Header::new(&bytes).unwrap().version(), 6);
    }

    #[test]
    fn input_checks_are_those_of_the_kernel() {
        let packet = |r: Repr, n: usize| [&r.bytes()[..], &vec![0; n]].concat();
        let ok = packet(repr("2001:db8::1", "2001:db8::2", 8), 8);
        assert_eq!(check_input(&ok, false), Ok(48));
        for cut in 0..40 {
            assert_eq!(check_input(&ok[..cut], false), Err(InputError::Header));
        }
        for cut in 40..48 {
            assert_eq!(check_input(&ok[..cut], false), Err(InputError::Truncated));
        }
        for (src, dst, loopback, good) in [
            ("::1", "2001:db8::2", false, false),
            ("2001:db8::1", "::1", false, false),
            ("::1", "::1", true, true),
            ("2001:db8::1", "ff01::1", false, false),
            ("2001:db8::1", "ff00::1", true, false),
            ("2001:db8::1", "ff02::1", false, true),
            ("ff02::1", "2001:db8::2", false, false),
            ("::", "ff02::1", false, true),
        ] {
            let got = check_input(&packet(repr(src, dst, 0), 3), loopback);
            assert_eq!(got.is_ok(), good, "{src} {dst}");
        }
        let jumbo = packet(Repr { next_header: 0, ..repr("2001:db8::1", "2001:db8::2", 0) }, 24);
        assert_eq!(check_input(&jumbo, false), Ok(64));
    }
}
