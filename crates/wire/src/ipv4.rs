// SPDX-License-Identifier: Apache-2.0

//! IPv4 (RFC 791): header, checks of received packets, TTL, fragmentation. Options have their own
//! file.

use crate::field::{array, be16, put, put16};
use crate::{checksum, ipv4_options};
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_LEN: usize = 60;
/// Smallest MTU of a link (RFC 791).
pub const MIN_MTU: usize = 68;

/// Do not fragment.
pub const DF: u16 = 0x4000;
/// More fragments follow.
pub const MF: u16 = 0x2000;
/// The reserved bit.
pub const RESERVED: u16 = 0x8000;
/// Fragment offset, in units of eight bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

const VERSION_IHL: usize = 0;
const TOS: usize = 1;
const TOTAL_LEN: usize = 2;
const ID: usize = 4;
const FRAG: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SRC: usize = 12;
const DST: usize = 16;

/// Read view of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if 20 bytes are not there. Version, header length and total length are not looked at:
    /// that is [`check_input`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        self.fixed[VERSION_IHL] >> 4
    }

    /// Header length in bytes, as the header says: 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.fixed[VERSION_IHL] & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.fixed[TOS]
    }

    /// Total length, header included.
    #[inline]
    pub fn total_len(&self) -> u16 {
        be16(self.fixed, TOTAL_LEN)
    }

    /// Identification.
    #[inline]
    pub fn id(&self) -> u16 {
        be16(self.fixed, ID)
    }

    /// Flags and fragment offset together.
    #[inline]
    pub fn frag(&self) -> u16 {
        be16(self.fixed, FRAG)
    }

    /// Do not fragment.
    #[inline]
    pub fn df(&self) -> bool {
        self.frag() & DF != 0
    }

    /// More fragments.
    #[inline]
    pub fn mf(&self) -> bool {
        self.frag() & MF != 0
    }

    /// Fragment offset in units of eight bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        self.frag() & OFFSET_MASK
    }

    /// Whether it is a fragment, first or later (`ip_is_fragment()`).
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.frag() & (MF | OFFSET_MASK) != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.fixed[TTL]
    }

    /// Protocol number.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.fixed[PROTOCOL]
    }

    /// Header checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<LEN, 4>(self.fixed, SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<LEN, 4>(self.fixed, DST))
    }

    /// Option bytes, as far as they are there.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        let len = self.header_len().saturating_sub(LEN);
        self.rest.get(..len).unwrap_or(self.rest)
    }

    /// What follows the header, clipped to the total length where that is shorter than what is
    /// there.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let start = self.header_len().saturating_sub(LEN);
        let end = usize::from(self.total_len()).saturating_sub(LEN).min(self.rest.len());
        self.rest.get(start..end).unwrap_or(&[])
    }

    /// Whether the header checksum is right; false if options are not all there.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        let len = self.header_len();
        if len == LEN {
            return checksum::Sum::new().bytes(self.fixed).is_valid();
        }
        len > LEN
            && self.options().len() == len - LEN
            && checksum::Sum::new().bytes(self.fixed).bytes(self.options()).is_valid()
    }

    /// Sum over the pseudo header for a transport header of `len` bytes with its data.
    #[inline]
    pub fn pseudo(&self, len: usize) -> checksum::Sum {
        checksum::pseudo_v4(self.src(), self.dst(), self.protocol(), len as u32)
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP {} > {}: ttl {}, proto {}, length {}",
            self.src(),
            self.dst(),
            self.ttl(),
            self.protocol(),
            self.total_len()
        )?;
        if self.is_fragment() {
            write!(f, ", frag {}{}", self.fragment_offset() * 8, if self.mf() { "+" } else { "" })?;
        }
        Ok(())
    }
}

/// Why a received packet is not IPv4 (the drop reasons of `ip_rcv_core()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// The header is cut, the version is not 4, or a length field is impossible (`IP_INHDR`).
    Header,
    /// The header checksum is wrong (`IP_CSUM`).
    Checksum,
    /// Fewer bytes are there than the total length says (`PKT_TOO_SMALL`).
    Truncated,
}

/// The checks of `ip_rcv_core()` on a packet that begins at `bytes`, in their order. Returns the
/// total length, to which the packet must be trimmed.
///
/// # Errors
/// The first check that fails.
#[inline]
pub fn check_input(bytes: &[u8]) -> Result<usize, InputError> {
    let Some(h) = Header::new(bytes) else { return Err(InputError::Header) };
    let header_len = h.header_len();
    if h.version() != 4 || header_len < LEN || header_len > bytes.len() {
        return Err(InputError::Header);
    }
    if !h.checksum_ok() {
        return Err(InputError::Checksum);
    }
    let total = usize::from(h.total_len());
    if bytes.len() < total {
        return Err(InputError::Truncated);
    }
    if total < header_len {
        return Err(InputError::Header);
    }
    Ok(total)
}

/// Setters on an IPv4 header. Only [`HeaderMut::decrement_ttl`] and [`HeaderMut::fill_checksum`]
/// touch the checksum.
#[derive(Debug)]
pub struct HeaderMut<'a> {
    fixed: &'a mut [u8; LEN],
    rest: &'a mut [u8],
}

impl<'a> HeaderMut<'a> {
    /// `None` if 20 bytes are not there.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk_mut()?;
        Some(Self { fixed, rest })
    }

    /// This header for reading.
    #[inline]
    pub fn read(&self) -> Header<'_> {
        Header { fixed: self.fixed, rest: self.rest }
    }

    /// Option bytes for writing, as far as they are there.
    #[inline]
    pub fn options_mut(&mut self) -> &mut [u8] {
        let len = self.read().options().len();
        self.rest.get_mut(..len).unwrap_or(&mut [])
    }

    /// Sets the type of service.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.fixed[TOS] = tos;
    }

    /// Sets the total length.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put16(self.fixed, TOTAL_LEN, len);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_id(&mut self, id: u16) {
        put16(self.fixed, ID, id);
    }

    /// Sets flags and fragment offset.
    #[inline]
    pub fn set_frag(&mut self, frag: u16) {
        put16(self.fixed, FRAG, frag);
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.fixed[TTL] = ttl;
    }

    /// Sets the header checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.fixed, CHECKSUM, checksum);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, addr: Ipv4Addr) {
        put(self.fixed, SRC, addr.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, addr: Ipv4Addr) {
        put(self.fixed, DST, addr.octets());
    }

    /// Takes one from the TTL and updates the checksum incrementally (`ip_decrease_ttl()`); returns
    /// the new TTL.
    #[inline]
    pub fn decrement_ttl(&mut self) -> u8 {
        let check = checksum::after_ttl_decrement(be16(self.fixed, CHECKSUM));
        put16(self.fixed, CHECKSUM, check);
        self.fixed[TTL] = self.fixed[TTL].wrapping_sub(1);
        self.fixed[TTL]
    }

    /// Recomputes the checksum over header and options (`ip_send_check()`).
    #[inline]
    pub fn fill_checksum(&mut self) {
        put16(self.fixed, CHECKSUM, 0);
        let check = checksum::Sum::new().bytes(self.fixed).bytes(self.read().options()).finish();
        put16(self.fixed, CHECKSUM, check);
    }
}

/// An IPv4 header without options; length fields and checksum are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset.
    pub frag: u16,
    /// Bytes after the header.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a header; options are left out.
    pub fn parse(h: &Header<'_>) -> Self {
        Self {
            src: h.src(),
            dst: h.dst(),
            protocol: h.protocol(),
            tos: h.tos(),
            ttl: h.ttl(),
            id: h.id(),
            frag: h.frag(),
            payload_len: h.total_len().saturating_sub(h.header_len() as u16),
        }
    }

    /// The header's bytes with its checksum.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        // Whole words: bytes that are written one by one and read together have to wait.
        let total = self.payload_len.wrapping_add(LEN as u16);
        let first = 0x45 << 24 | u32::from(self.tos) << 16 | u32::from(total);
        let second = u32::from(self.id) << 16 | u32::from(self.frag);
        let third = u32::from(self.ttl) << 24 | u32::from(self.protocol) << 16;
        let (src, dst) = (u32::from(self.src), u32::from(self.dst));
        let sum = checksum::Sum::new().u32(first).u32(second).u32(third).u32(src).u32(dst);
        let third = third | u32::from(sum.finish());
        let pair = |a: u32, b: u32| (u64::from(a) << 32 | u64::from(b)).to_be_bytes();
        let mut b = [0; LEN];
        put(&mut b, VERSION_IHL, pair(first, second));
        put(&mut b, TTL, pair(third, src));
        put(&mut b, DST, dst.to_be_bytes());
        b
    }
}

/// Cuts a packet into fragments that fit `mtu`, as `ip_do_fragment()` does on a linear buffer: the
/// header is copied, options without the copy flag become no-operations after the first fragment,
/// data is cut at multiples of eight, a packet that is itself a fragment keeps its offset and its
/// more-fragments bit, DF is cleared unless `df`. Each fragment is handed to `emit`, built in
/// `scratch`.
///
/// The packet has passed [`check_input`] and has no more bytes than its total length; `packet` that
/// is not such or an `mtu` without room for eight bytes of data emits nothing and gives `false`.
pub fn fragment(
    packet: &[u8],
    mtu: usize,
    df: bool,
    scratch: &mut Vec<u8>,
    emit: impl FnMut(&[u8]),
) -> bool {
    let Some(room) = Header::new(packet).and_then(|h| mtu.checked_sub(h.header_len())) else {
        return false;
    };
    if room < 8 {
        return false;
    }
    // The last piece may fill the MTU beyond a multiple of eight.
    cut(packet, |left| if left <= room { left } else { room & !7 }, df, scratch, emit)
}

/// Like [`fragment`], with pieces of the sizes that `size` gives when so many bytes of data are
/// left: at most that many, and a multiple of eight unless it is all. Otherwise it gives `false`
/// where that happens.
pub fn cut(
    packet: &[u8],
    mut size: impl FnMut(usize) -> usize,
    df: bool,
    scratch: &mut Vec<u8>,
    mut emit: impl FnMut(&[u8]),
) -> bool {
    let Some(h) = Header::new(packet) else { return false };
    let header_len = h.header_len();
    if header_len < LEN || packet.len() < header_len {
        return false;
    }
    let (header, data) = packet.split_at(header_len);
    let first_offset = h.fragment_offset();
    let not_last = h.mf();
    let mut done = 0;
    while done < data.len() {
        let left = data.len() - done;
        let len = size(left);
        if len == 0 || len > left || (len < left && !len.is_multiple_of(8)) {
            return false;
        }
        let more = not_last || len < left;
        scratch.clear();
        scratch.extend_from_slice(header);
        scratch.extend_from_slice(&data[done..done + len]);
        let Some(mut out) = HeaderMut::new(scratch) else { return false };
        // A packet that is itself a later fragment had its options replaced by the router that cut
        // it.
        if first_offset == 0 && done > 0 {
            ipv4_options::keep_copied(out.options_mut());
        }
        out.set_total_len((header_len + len) as u16);
        let offset = first_offset.wrapping_add((done / 8) as u16) & OFFSET_MASK;
        out.set_frag(offset | if more { MF } else { 0 } | if df { DF } else { 0 });
        out.fill_checksum();
        emit(scratch);
        done += len;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let repr = Repr {
            src: Ipv4Addr::new(198, 18, 0, 1),
            dst: Ipv4Addr::new(198, 18, 0, 2),
            protocol: 17,
            tos: 0x10,
            ttl: 64,
            id: 77,
            frag: 0,
            payload_len: (options.len() + payload.len()) as u16,
        };
        let mut p = repr.bytes().to_vec();
        p.extend(options);
        p.extend(payload);
        p[0] = 0x40 | (5 + options.len() / 4) as u8;
        HeaderMut::new(&mut p).unwrap().fill_checksum();
        p
    }

    #[test]
    fn emitted_headers_are_read_back() {
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..500 {
            let repr = Repr {
                src: Ipv4Addr::from_bits(rng.u32(..)),
                dst: Ipv4Addr::from_bits(rng.u32(..)),
                protocol: rng.u8(..),
                tos: rng.u8(..),
                ttl: rng.u8(..),
                id: rng.u16(..),
                frag: rng.u16(..),
                payload_len: rng.u16(..65000),
            };
            let bytes = repr.bytes();
            let h = Header::new(&bytes).unwrap();
            assert_eq!(Repr::parse(&h), repr);
            assert!(h.checksum_ok());
        }
    }

    #[test]
    fn input_checks_are_those_of_the_kernel() {
        let good = packet(&[1, 1, 1, 0], b"datagram");
        assert_eq!(check_input(&good), Ok(32));
        let mut padded = good.clone();
        padded.extend([0; 9]);
        assert_eq!(check_input(&padded), Ok(32), "padding is trimmed");
        for cut in 0..24 {
            assert_eq!(check_input(&good[..cut]), Err(InputError::Header), "{cut}");
        }
        for cut in 24..32 {
            assert_eq!(check_input(&good[..cut]), Err(InputError::Truncated), "{cut}");
        }
        let with = |at: usize, value: u8, fix: bool| {
            let mut p = good.clone();
            p[at] = value;
            if fix {
                HeaderMut::new(&mut p).unwrap().fill_checksum();
            }
            check_input(&p)
        };
        assert_eq!(with(0, 0x56, true), Err(InputError::Header), "version 5");
        assert_eq!(with(0, 0x44, true), Err(InputError::Header), "16 bytes of header");
        assert_eq!(with(0, 0x4f, true), Err(InputError::Header), "60 bytes of header");
        assert_eq!(with(8, 63, false), Err(InputError::Checksum));
        assert_eq!(with(3, 33, true), Err(InputError::Truncated));
        assert_eq!(with(3, 23, true), Err(InputError::Header), "total length inside the header");
        assert_eq!(with(3, 24, true), Ok(24));
    }

    #[test]
    fn a_ttl_step_keeps_the_checksum_right() {
        let mut p = packet(&[], b"x");
        for ttl in (0..64).rev() {
            assert_eq!(HeaderMut::new(&mut p).unwrap().decrement_ttl(), ttl);
            assert!(Header::new(&p).unwrap().checksum_ok());
        }
    }

    #[test]
    fn fragments_carry_all_data_and_only_copied_options() {
        // Record route (not copied), then loose source route (copied), then end.
        let options = [7, 7, 4, 0, 0, 0, 0, 0x83, 7, 4, 198, 18, 0, 9, 0, 0];
        let data: Vec<u8> = (0..100).collect();
        let whole = packet(&options, &data);
        for (mtu, sizes) in [
            (44, &[8; 13][..]), // twelve of eight and the rest of four
            (90, &[48, 52]),
            (136, &[100]),
        ] {
            let (mut got, mut lens, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
            assert!(fragment(&whole, mtu, false, &mut scratch, |f| {
                assert_eq!(check_input(f), Ok(f.len()));
                let h = Header::new(f).unwrap();
                assert!(f.len() <= mtu);
                assert_eq!(usize::from(h.fragment_offset()) * 8, got.len());
                let kept = if got.is_empty() { 7 } else { 1 };
                assert_eq!((h.options()[0], h.options()[7]), (kept, 0x83));
                got.extend_from_slice(h.payload());
                lens.push(h.payload().len());
                assert_eq!(h.mf(), got.len() < 100);
            }));
            assert_eq!(got, data);
            let mut sizes = sizes.to_vec();
            if mtu == 44 {
                sizes[12] = 4;
            }
            assert_eq!(lens, sizes);
        }
        assert!(!fragment(&whole, 43, false, &mut Vec::new(), |_| panic!()));
    }

    #[test]
    fn a_fragment_is_cut_again_with_its_offset() {
        let mut p = packet(&[], &[5; 24]);
        HeaderMut::new(&mut p).unwrap().set_frag(MF | 100);
        let mut frags = Vec::new();
        assert!(fragment(&p, 36, false, &mut Vec::new(), |f| frags
            .push(Header::new(f).unwrap().frag())));
        assert_eq!(frags, [MF | 100, MF | 102]);
    }
}
