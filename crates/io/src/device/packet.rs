// SPDX-License-Identifier: Apache-2.0

//! Devices by packet sockets: a ring to receive, batches of messages to send.
//!
//! The ring is `TPACKET_V2`: `TPACKET_V3` hands over blocks of frames, so that a lone frame waits a
//! millisecond or more for its block to be closed. Frames that do not fit into a place of the ring
//! (super-packets) come whole by `recv(2)`, and the ring says when (`TP_STATUS_COPY`); so the ring
//! stays small, and in the cache. Both ways have virtio-net headers (`PACKET_VNET_HDR`):
//! super-packets pass uncut, and unfinished checksums are known as such.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use penstock_packet::Gso;
use penstock_wire::vlan;

use super::supers::Supers;
use super::sys::{self, Mapping, check};
use super::{BURST, Received, vnet};

const PACKET_ADD_MEMBERSHIP: i32 = 1;
const PACKET_RX_RING: i32 = 5;
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VERSION: i32 = 10;
const PACKET_RESERVE: i32 = 12;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_FANOUT: i32 = 18;
const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Sockets get frames by a hash of their flow, which is the same in both directions and on all
/// devices.
const FANOUT_HASH: u32 = 0;
const FANOUT_UNIQUE_ID: u32 = 0x2000;
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;
const TPACKET_V2: i32 = 1;
const PACKET_MR_PROMISC: u16 = 1;

const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
const STATUS_COPY: u32 = 2;
const STATUS_VLAN: u32 = 0x10;
const STATUS_VLAN_PROTOCOL: u32 = 0x40;

/// Places in the ring.
const PLACES: u32 = 4096;
/// A frame of at least so many bytes is sent from where it is: a separate call costs less than a
/// copy.
pub(super) const LARGE: usize = 4096;
/// Bytes of received super-packets that wait for us, and of frames on their way out.
const QUEUED: i32 = 32 << 20;

#[repr(C)]
#[derive(Clone, Copy)]
struct RingRequest {
    block_size: u32,
    blocks: u32,
    place_size: u32,
    places: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Membership {
    index: i32,
    kind: u16,
    len: u16,
    address: [u8; 8],
}

/// `struct tpacket2_hdr`, without its first word, the status.
#[repr(C)]
#[derive(Clone, Copy)]
struct PlaceHeader {
    len: u32,
    kept: u32,
    mac: u16,
    net: u16,
    seconds: u32,
    nanoseconds: u32,
    vlan_tci: u16,
    vlan_protocol: u16,
}

fn open(index: u32, protocol: u16) -> io::Result<(OwnedFd, libc::sockaddr_ll)> {
    let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    // SAFETY: all zeroes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    Ok((fd, address))
}

/// A packet socket that keeps a device promiscuous while it is there: the host's groups are those
/// of its TAP, not of the device.
pub fn promiscuous(index: u32) -> io::Result<OwnedFd> {
    let (fd, _) = open(index, 0)?;
    let membership =
        Membership { index: index as i32, kind: PACKET_MR_PROMISC, len: 0, address: [0; 8] };
    sys::set(&fd, libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership)?;
    Ok(fd)
}

/// The receiving side.
#[derive(Debug)]
pub struct PacketRx {
    fd: OwnedFd,
    ring: Mapping,
    place_size: usize,
    /// The place to look at next.
    next: u32,
    /// The frames of the burst.
    burst: Vec<(Where, usize, Option<Gso>)>,
    /// Places that the burst takes.
    taken: u32,
    /// Super-packets of the burst, with a virtio-net header before each.
    large: Option<Supers>,
    /// Frames that were cut since too much waited.
    pub(super) lost: u64,
}

#[derive(Clone, Copy, Debug)]
enum Where {
    /// Offset in the ring.
    Ring(usize),
    /// Number of the buffer; the frame follows the header.
    Large(usize),
}

impl PacketRx {
    /// Receives from a device with frames of up to `frame_len` bytes, super-packets aside.
    pub fn open(index: u32, frame_len: usize) -> io::Result<Self> {
        let (socket, address) = Self::open_unbound(index, frame_len)?;
        sys::bind(&socket.fd, &address)?;
        Ok(socket)
    }

    /// Opens `count` sockets, of which each gets its share: a hash over addresses and ports that is
    /// the same in both directions, and on all devices that are opened with as many sockets,
    /// selects the socket of a frame.
    pub fn open_several(index: u32, frame_len: usize, count: usize) -> io::Result<Vec<Self>> {
        if count <= 1 {
            return Ok(vec![Self::open(index, frame_len)?]);
        }
        let mut sockets = Vec::new();
        let mut group = (FANOUT_HASH | FANOUT_UNIQUE_ID | FANOUT_IGNORE_OUTGOING) << 16;
        for _ in 0..count {
            let (socket, address) = Self::open_unbound(index, frame_len)?;
            // Until it has joined the others it would get what they get.
            sys::receive_nothing(&socket.fd, true)?;
            sys::bind(&socket.fd, &address)?;
            sys::set(&socket.fd, libc::SOL_PACKET, PACKET_FANOUT, &group)?;
            let id = sys::get::<u32>(&socket.fd, libc::SOL_PACKET, PACKET_FANOUT)? & 0xffff;
            group = (FANOUT_HASH | FANOUT_IGNORE_OUTGOING) << 16 | id;
            sockets.push(socket);
        }
        for socket in &sockets {
            sys::receive_nothing(&socket.fd, false)?;
        }
        Ok(sockets)
    }

    fn open_unbound(index: u32, frame_len: usize) -> io::Result<(Self, libc::sockaddr_ll)> {
        let (fd, mut address) = open(index, 0)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_RESERVE, &16u32)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_COPY_THRESH, &1i32)?;
        sys::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUED)?;
        let place_size = (frame_len + 160).next_power_of_two().clamp(2048, 1 << 16);
        let block_size = place_size.max(1 << 16);
        let places = PLACES.min((64 << 20) / place_size as u32);
        let blocks = places * place_size as u32 / block_size as u32;
        let request = RingRequest {
            block_size: block_size as u32,
            blocks,
            place_size: place_size as u32,
            places,
        };
        sys::set(&fd, libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        let ring = Mapping::of(&fd, blocks as usize * block_size, 0)?;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        let burst = Vec::with_capacity(BURST);
        let socket =
            PacketRx { fd, ring, place_size, next: 0, burst, taken: 0, large: None, lost: 0 };
        Ok((socket, address))
    }

    fn places(&self) -> u32 {
        (self.ring.len() / self.place_size) as u32
    }

    fn status(&self, place: u32) -> &AtomicU32 {
        let at = (place % self.places()) as usize * self.place_size;
        // SAFETY: every place of the ring begins with its status, a 32-bit word that the kernel and
        // we write in turns; it is aligned, since places are, and lives as long as the mapping that
        // is borrowed.
        unsafe { AtomicU32::from_ptr(self.ring.start().add(at).cast()) }
    }

    /// Takes up to [`BURST`] frames; returns how many.
    pub fn fetch(&mut self) -> usize {
        self.release();
        while self.burst.len() < BURST {
            let place = self.next.wrapping_add(self.taken);
            let status = self.status(place).load(Ordering::Acquire);
            if status & STATUS_USER == 0 || self.taken == self.places() {
                break;
            }
            self.taken += 1;
            self.take(place, status);
        }
        self.burst.len()
    }

    fn take(&mut self, place: u32, status: u32) {
        let at = (place % self.places()) as usize * self.place_size;
        // SAFETY: the status says that the place is ours until we give it back: its header was
        // written by the kernel, and follows the status, aligned.
        let header = unsafe { self.ring.start().add(at + 4).cast::<PlaceHeader>().read() };
        let mac = usize::from(header.mac);
        let kept = header.kept as usize;
        if mac < vnet::LEN + vlan::LEN || mac + kept > self.place_size {
            self.lost += 1;
            return;
        }
        let tag = (status & STATUS_VLAN != 0).then(|| {
            let protocol =
                if status & STATUS_VLAN_PROTOCOL != 0 { header.vlan_protocol } else { 0x8100 };
            (protocol, header.vlan_tci)
        });
        if status & STATUS_COPY != 0 {
            return self.take_large(tag);
        }
        if header.len != header.kept {
            self.lost += 1;
            return;
        }
        let start = at + mac - vnet::LEN;
        // SAFETY: inside of the place, as was checked, which is ours until we give it back; nothing
        // else is borrowed from the ring while `self` is borrowed to change.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(self.ring.start().add(start), vnet::LEN + kept)
        };
        let Some((vnet, frame)) = bytes.split_first_chunk_mut::<{ vnet::LEN }>() else { return };
        let gso = vnet::received(vnet, frame);
        let (mut offset, mut len) = (at + mac, kept);
        if let Some(tag) = tag
            && put_tag(bytes, vnet::LEN, tag)
        {
            (offset, len) = (offset - vlan::LEN, len + vlan::LEN);
        }
        self.burst.push((Where::Ring(offset), len, gso));
    }

    /// A frame that came whole, outside of the ring.
    fn take_large(&mut self, tag: Option<(u16, u16)>) {
        let number =
            self.burst.iter().filter(|(place, ..)| matches!(place, Where::Large(_))).count();
        if self.large.is_none() {
            self.large = Supers::new().ok();
        }
        let Some(buffer) = self.large.as_mut().and_then(|large| large.get_mut(number)) else {
            self.lost += 1;
            return;
        };
        // SAFETY: the buffer lives through the call and has that many bytes.
        let got =
            unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Some((vnet, frame)) = buffer
            .get_mut(..usize::try_from(got).unwrap_or(0))
            .and_then(|b| b.split_first_chunk_mut::<{ vnet::LEN }>())
        else {
            self.lost += 1;
            return;
        };
        let gso = vnet::received(vnet, frame);
        let mut len = frame.len();
        let tagged = tag.is_some_and(|tag| put_tag(buffer, vnet::LEN, tag));
        if tagged {
            len += vlan::LEN;
        }
        // What follows the header is the frame; with a tag it begins four bytes before.
        let place = if tagged { Where::Large(number | TAGGED) } else { Where::Large(number) };
        self.burst.push((place, len, gso));
    }

    /// A frame of the burst.
    pub fn frame(&self, i: usize) -> Option<Received<'_>> {
        let (place, len, gso) = *self.burst.get(i)?;
        let bytes = match place {
            // SAFETY: inside of a place that is ours until the burst is released, for which `self`
            // is borrowed to change.
            Where::Ring(offset) => unsafe {
                std::slice::from_raw_parts(self.ring.start().add(offset), len)
            },
            Where::Large(number) => {
                let start = if number & TAGGED != 0 { vnet::LEN - vlan::LEN } else { vnet::LEN };
                self.large.as_ref()?.get(number & !TAGGED)?.get(start..start + len)?
            }
        };
        Some(Received { bytes, gso })
    }

    /// Gives the places of the burst back.
    pub fn release(&mut self) {
        self.burst.clear();
        for _ in 0..std::mem::take(&mut self.taken) {
            self.status(self.next).store(STATUS_KERNEL, Ordering::Release);
            self.next = self.next.wrapping_add(1) % self.places();
        }
        fence(Ordering::SeqCst);
    }
}

impl AsFd for PacketRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Marks the number of a buffer with a tagged frame.
const TAGGED: usize = 1 << 31;

/// Inserts a tag into a frame that begins at `at`; its addresses move four bytes to the front.
fn put_tag(bytes: &mut [u8], at: usize, (protocol, tci): (u16, u16)) -> bool {
    let (Some(start), true) = (at.checked_sub(vlan::LEN), bytes.len() >= at + 12) else {
        return false;
    };
    bytes.copy_within(at..at + 12, start);
    let Some(place) = bytes.get_mut(start + 12..start + 16) else { return false };
    let (p, t) = place.split_at_mut(2);
    p.copy_from_slice(&protocol.to_be_bytes());
    t.copy_from_slice(&tci.to_be_bytes());
    true
}

/// The sending side: frames are kept until they are flushed together.
#[derive(Debug)]
pub struct PacketTx {
    fd: OwnedFd,
    batch: Batch,
    /// Frames that the device did not take.
    pub(super) refused: u64,
}

/// Frames that are sent together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<(usize, usize, u32)>,
}

impl Batch {
    /// Adds a frame with its virtio-net header before it; `false` if it cannot be sent.
    pub(crate) fn push(&mut self, frame: &[u8], gso: Option<Gso>, mark: u32) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; vnet::LEN]);
        self.bytes.extend_from_slice(frame);
        let Some(place) = self.bytes.get_mut(start..) else { return false };
        let (head, rest) = place.split_at_mut(vnet::LEN);
        match vnet::prepare(gso, rest) {
            Some(header) => head.copy_from_slice(&header),
            None => {
                self.bytes.truncate(start);
                return false;
            }
        }
        self.frames.push((start, vnet::LEN + frame.len(), mark));
        true
    }

    /// Whether it should be flushed before more comes.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= BURST || self.bytes.len() > 1 << 20
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    /// The frames, each after its virtio-net header.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().filter_map(|&(start, len, _)| self.bytes.get(start..start + len))
    }
}

/// Ancillary data that gives a message a mark.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mark {
    header: libc::cmsghdr,
    mark: u32,
    padding: u32,
}

impl Mark {
    const LEN: usize = size_of::<libc::cmsghdr>() + 4;

    fn new(mark: u32) -> Mark {
        // SAFETY: all zeroes are a valid header; it has padding on some systems.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = Self::LEN as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SO_MARK;
        Mark { header, mark, padding: 0 }
    }

    /// Gives it to a message, which must not outlive it.
    fn put_on(&mut self, message: &mut libc::msghdr) {
        message.msg_control = (&raw mut *self).cast();
        message.msg_controllen = Self::LEN as _;
    }
}

impl PacketTx {
    /// Sends on a device.
    pub fn open(index: u32) -> io::Result<Self> {
        let (fd, address) = open(index, 0)?;
        sys::set(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        sys::set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUED)?;
        sys::bind(&fd, &address)?;
        Ok(PacketTx { fd, batch: Batch::default(), refused: 0 })
    }

    /// Packets that it sends have this priority in the kernel.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub(super) fn set_priority(&self, priority: u32) -> io::Result<()> {
        sys::set(&self.fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &priority)
    }

    /// Sends a frame, at the latest with the next [`PacketTx::flush`]. What the tc stage of the
    /// device sees is the mark.
    pub fn send(&mut self, frame: &[u8], gso: Option<Gso>, mark: u32) {
        if frame.len() >= LARGE
            && let Some(head) = vnet::Head::of(gso, frame)
        {
            self.flush();
            self.refused += u64::from(!self.send_large(&head, frame, mark));
            return;
        }
        if !self.batch.push(frame, gso, mark) {
            self.refused += 1;
        }
        if self.batch.is_full() {
            self.flush();
        }
    }

    /// Sends a frame from where it is; whether the device has taken it.
    fn send_large(&self, head: &vnet::Head, frame: &[u8], mark: u32) -> bool {
        let mut parts = head.parts(frame).map(sys::part);
        let mut marked = Mark::new(mark);
        // SAFETY: all zeroes are a valid message without contents.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        if mark != 0 {
            marked.put_on(&mut message);
        }
        loop {
            // SAFETY: the message, its parts and the mark live through the call, and nothing is
            // written to them.
            let sent = unsafe {
                libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
            };
            match check(sent as libc::c_long) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result.is_ok(),
            }
        }
    }

    /// Sends what is kept.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut iovecs = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BURST];
        // SAFETY: all zeroes are a valid empty header.
        let mut marks: [Mark; BURST] = unsafe { std::mem::zeroed() };
        // SAFETY: all zeroes are a valid message without contents.
        let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
        let count = self.batch.frames.len().min(BURST);
        for (i, &(start, len, mark)) in self.batch.frames.iter().enumerate().take(BURST) {
            let Some(bytes) = self.batch.bytes.get_mut(start..start + len) else { continue };
            iovecs[i] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &raw mut iovecs[i];
            header.msg_iovlen = 1;
            if mark != 0 {
                marks[i] = Mark::new(mark);
                marks[i].put_on(header);
            }
        }
        let mut at = 0;
        while at < count {
            let rest = &mut messages[at..count];
            // SAFETY: messages, vectors, marks and bytes all live through the call and do not move.
            let sent = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as u32,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match check(sent.into()) {
                Ok(n) if n > 0 => at += n as usize,
                // The first one of the rest is refused: too long, or no room in the queue of the
                // device.
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.refused += 1;
                    at += 1;
                }
            }
        }
        self.batch.clear();
    }
}
