// SPDX-License-Identifier: Apache-2.0

//! Devices by AF_XDP sockets: frames in memory that is shared with the kernel, or with the device.
//!
//! A socket per queue, each with its own memory: one half of its frames receives, the other sends.
//! Before frames leave, super-packets are cut; frames from a neighbour on this machine may have
//! unfinished checksums without a mark, so these are recognised and finished.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use penstock_bpf::Mode;
use penstock_packet::Gso;
use penstock_packet::gso::{Headers, finish_begun, segments};
use penstock_wire::ethernet;

use super::bpf::Redirect;
use super::launch::{self, Launcher, Pad};
use super::sys::{self, Mapping, check};
use super::{BURST, Received};

/// How long a device is tried that is busy, and how often.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

const AF_XDP: i32 = 44;
const SOL_XDP: i32 = 283;
const XDP_MMAP_OFFSETS: i32 = 1;
const XDP_RX_RING: i32 = 2;
const XDP_TX_RING: i32 = 3;
const XDP_UMEM_REG: i32 = 4;
const XDP_UMEM_FILL_RING: i32 = 5;
const XDP_UMEM_COMPLETION_RING: i32 = 6;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

const XDP_COPY: u16 = 1 << 1;
const XDP_ZEROCOPY: u16 = 1 << 2;
const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
const NEED_WAKEUP: u32 = 1;

const PAGE_RX: i64 = 0;
const PAGE_TX: i64 = 0x8000_0000;
const PAGE_FILL: i64 = 0x1_0000_0000;
const PAGE_COMPLETION: i64 = 0x1_8000_0000;

/// Bytes of a frame's place.
const PLACE: usize = 4096;
/// Slots to receive, and equally many to send: entries of each ring.
const ENTRIES: u32 = 2048;
/// Frames that one call sends; with less, a burst does not leave in one go.
const BUDGET: u32 = 256;
/// The longest frame: what a place holds after the kernel's headroom.
pub const LONGEST: usize = PLACE - 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct UmemRegistration {
    address: u64,
    len: u64,
    place: u32,
    headroom: u32,
    flags: u32,
    metadata: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct RingOffsets {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offsets {
    rx: RingOffsets,
    tx: RingOffsets,
    fill: RingOffsets,
    completion: RingOffsets,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Address {
    family: u16,
    flags: u16,
    index: u32,
    queue: u32,
    shared: u32,
}

/// An entry of the rings of frames (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

/// A ring of `ENTRIES` entries of `T`, of which the kernel writes one end.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    offsets: RingOffsets,
    /// Our end, and the other as it was last seen.
    own: u32,
    other: u32,
    entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, name: i32, offsets: RingOffsets, page: i64) -> io::Result<Self> {
        sys::set(fd, SOL_XDP, name, &ENTRIES)?;
        let len = offsets.entries as usize + ENTRIES as usize * size_of::<T>();
        let memory = Mapping::of(fd, len, page)?;
        Ok(Ring { memory, offsets, own: 0, other: 0, entry: std::marker::PhantomData })
    }

    #[inline]
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says where its words are in the mapping; they are aligned, and live as
        // long as it.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset as usize).cast()) }
    }

    #[inline]
    fn entry(&self, number: u32) -> *mut T {
        let at = self.offsets.entries as usize + (number % ENTRIES) as usize * size_of::<T>();
        debug_assert!(at + size_of::<T>() <= self.memory.len());
        // SAFETY: inside of the mapping, which has `ENTRIES` entries after `offsets.entries`.
        unsafe { self.memory.start().add(at).cast() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// Entries that may be produced.
    #[inline]
    fn room(&mut self) -> u32 {
        self.other = self.word(self.offsets.consumer).load(Ordering::Acquire);
        ENTRIES - self.own.wrapping_sub(self.other)
    }

    /// Produces an entry, for which there was room; the kernel sees it after [`Ring::publish`].
    #[inline]
    fn produce(&mut self, entry: T) {
        // SAFETY: the entry is ours: the kernel has consumed it, as `room` has seen, and reads it
        // only once published.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    #[inline]
    fn publish(&self) {
        self.word(self.offsets.producer).store(self.own, Ordering::Release);
    }

    /// Takes an entry that the kernel has produced.
    #[inline]
    fn consume(&mut self) -> Option<T> {
        if self.own == self.other {
            self.other = self.word(self.offsets.producer).load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        // SAFETY: the kernel has produced this entry, and does not touch it until we give it back.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// Releases consumed entries.
    #[inline]
    fn give_back(&self) {
        self.word(self.offsets.consumer).store(self.own, Ordering::Release);
    }
}

/// What both sides of a socket need.
#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    memory: Mapping,
    redirect: Arc<Redirect>,
}

impl Socket {
    /// The bytes of a frame.
    ///
    /// # Safety
    /// The place must be one that the caller has from the kernel, or is about to give to it, and
    /// not borrowed otherwise.
    #[allow(clippy::mut_from_ref, reason = "the rings say whose a place is")]
    unsafe fn bytes(&self, address: u64, len: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address).ok()?;
        if start.checked_add(len)? > self.memory.len() {
            return None;
        }
        // SAFETY: inside of the memory, and the caller's alone.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(start), len) })
    }
}

/// How a socket came to its frames, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpKind {
    /// Where the program runs.
    pub mode: Mode,
    /// Frames are not copied.
    pub zero_copy: bool,
}

/// What of AF_XDP is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpWish {
    /// Whatever is there, the best first.
    #[default]
    Any,
    /// Zero copy or nothing.
    ZeroCopy,
    /// Copies.
    Copy,
    /// The generic program.
    Generic,
}

/// Both sides of all queues of a device.
#[derive(Debug)]
pub struct XdpDevice {
    /// Both sides of each queue.
    pub queues: Vec<(XdpRx, XdpTx)>,
    /// How.
    pub kind: XdpKind,
    /// What gives frames to the sockets.
    pub redirect: Arc<Redirect>,
}

impl XdpDevice {
    /// Frames that a queue has memory for.
    pub const PLACES: u32 = 2 * ENTRIES;

    /// Opens a device with so many queues, or fewer, if not all are in use. With a launcher for
    /// [`XdpDevice::PLACES`] it sends bursts from XDP, where frames are copied and as long as
    /// [`Redirect::set_sends`] says that it can.
    pub fn open(
        index: u32,
        queues: u32,
        wish: XdpWish,
        launcher: Option<&Arc<Launcher>>,
    ) -> io::Result<Self> {
        let native = || XdpKind { mode: Mode::Native, zero_copy: false };
        let kinds = [
            XdpKind { zero_copy: true, ..native() },
            native(),
            XdpKind { mode: Mode::Generic, zero_copy: false },
        ];
        let wanted = kinds.into_iter().filter(|kind| match wish {
            XdpWish::Any => true,
            XdpWish::ZeroCopy => kind.zero_copy,
            XdpWish::Copy => !kind.zero_copy,
            XdpWish::Generic => kind.mode == Mode::Generic,
        });
        let wanted: Vec<_> = wanted.collect();
        let begun = Instant::now();
        loop {
            let mut result = Err(io::ErrorKind::Unsupported.into());
            for kind in &wanted {
                result = Self::open_as(index, queues.max(1), *kind, launcher);
                if result.is_ok() {
                    break;
                }
            }
            // The kernel releases queues and programs of a dead process a little later.
            let busy = |e: &io::Error| matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST));
            if begun.elapsed() >= PATIENCE || !result.as_ref().is_err_and(busy) {
                return result;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn open_as(
        index: u32,
        queues: u32,
        kind: XdpKind,
        launcher: Option<&Arc<Launcher>>,
    ) -> io::Result<Self> {
        let launcher = launcher.filter(|_| !kind.zero_copy && kind.mode == Mode::Native);
        let redirect = Arc::new(Redirect::attach(index, queues, kind.mode)?);
        let mut opened = Vec::new();
        for queue in 0..queues {
            opened.push(match open_queue(index, queue, kind, &redirect, launcher) {
                // A device may use fewer queues than it has.
                Err(e) if queue > 0 && e.raw_os_error() == Some(libc::EINVAL) => break,
                opened => opened?,
            });
        }
        Ok(XdpDevice { queues: opened, kind, redirect })
    }
}

fn open_queue(
    index: u32,
    queue: u32,
    kind: XdpKind,
    redirect: &Arc<Redirect>,
    launcher: Option<&Arc<Launcher>>,
) -> io::Result<(XdpRx, XdpTx)> {
    let fd = sys::socket(AF_XDP, libc::SOCK_RAW, 0)?;
    let pad = launcher.map(Launcher::pad).transpose()?;
    let memory = match &pad {
        Some(pad) => pad.places()?,
        None => Mapping::anonymous(XdpDevice::PLACES as usize * PLACE)?,
    };
    let registration = UmemRegistration {
        address: memory.start().expose_provenance() as u64,
        len: memory.len() as u64,
        place: PLACE as u32,
        headroom: 0,
        flags: 0,
        metadata: 0,
    };
    sys::set(&fd, SOL_XDP, XDP_UMEM_REG, &registration)?;
    let offsets = offsets(&fd)?;
    let mut fill = Ring::<u64>::map(&fd, XDP_UMEM_FILL_RING, offsets.fill, PAGE_FILL)?;
    let completion =
        Ring::<u64>::map(&fd, XDP_UMEM_COMPLETION_RING, offsets.completion, PAGE_COMPLETION)?;
    let received = Ring::<Descriptor>::map(&fd, XDP_RX_RING, offsets.rx, PAGE_RX)?;
    let sent = Ring::<Descriptor>::map(&fd, XDP_TX_RING, offsets.tx, PAGE_TX)?;
    for place in 0..ENTRIES {
        fill.produce(u64::from(place) * PLACE as u64);
    }
    fill.publish();
    let flags = XDP_USE_NEED_WAKEUP | if kind.zero_copy { XDP_ZEROCOPY } else { XDP_COPY };
    sys::bind(&fd, &Address { family: AF_XDP as u16, flags, index, queue, shared: 0 })?;
    // Kernels before 6.17 have no such option; their budget is 32.
    let _ = sys::set(&fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &BUDGET);
    redirect.set(queue, &fd)?;
    let socket = Arc::new(Socket { fd, memory, redirect: redirect.clone() });
    let burst = Vec::with_capacity(BURST);
    let rx = XdpRx { socket: socket.clone(), received, fill, burst };
    let free = (ENTRIES..2 * ENTRIES).map(|place| u64::from(place) * PLACE as u64).collect();
    let kept = Vec::with_capacity(ENTRIES as usize);
    let tx = XdpTx {
        socket,
        index,
        pad,
        sent,
        completion,
        free,
        kept,
        scratch: Vec::new(),
        refused: 0,
        launched: 0,
    };
    Ok((rx, tx))
}

fn offsets(fd: &OwnedFd) -> io::Result<Offsets> {
    let mut offsets = Offsets::default();
    let mut len = size_of::<Offsets>() as libc::socklen_t;
    let (to, fd) = ((&raw mut offsets).cast(), fd.as_raw_fd());
    // SAFETY: both live through the call, and `offsets` is `len` bytes long.
    let result = unsafe { libc::getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, to, &raw mut len) };
    check(result.into())?;
    if len as usize != size_of::<Offsets>() {
        // Kernels before 5.4 have no flags in them.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(offsets)
}

/// The receiving side of a queue.
#[derive(Debug)]
pub struct XdpRx {
    socket: Arc<Socket>,
    received: Ring<Descriptor>,
    fill: Ring<u64>,
    burst: Vec<Descriptor>,
}

impl XdpRx {
    /// Takes up to [`BURST`] frames; returns how many.
    pub fn fetch(&mut self) -> usize {
        self.release();
        while self.burst.len() < BURST
            && let Some(frame) = self.received.consume()
        {
            // SAFETY: the kernel has just given us this place.
            if let Some(bytes) = unsafe { self.socket.bytes(frame.address, frame.len as usize) } {
                finish_begun(bytes);
            }
            self.burst.push(frame);
        }
        self.burst.len()
    }

    /// A frame of the burst.
    pub fn frame(&self, i: usize) -> Option<Received<'_>> {
        let frame = self.burst.get(i)?;
        // SAFETY: the place is ours until the burst is released, for which `self` is borrowed to
        // change; it is only read until then.
        let bytes = unsafe { self.socket.bytes(frame.address, frame.len as usize) }?;
        Some(Received { bytes, gso: None })
    }

    /// Frames that found no place, or did not fit into one (`XDP_STATISTICS`).
    pub fn lost(&self) -> u64 {
        // rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full and more.
        let (mut counts, fd) = ([0u64; 6], self.socket.fd.as_raw_fd());
        let mut len = size_of_val(&counts) as libc::socklen_t;
        let to = counts.as_mut_ptr().cast();
        // SAFETY: both live through the call, and there are `len` bytes of room.
        unsafe { libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, to, &raw mut len) };
        counts[0] + counts[3]
    }

    /// Gives the places of the burst back.
    pub fn release(&mut self) {
        if self.burst.is_empty() {
            return;
        }
        self.received.give_back();
        // There is room: the ring has an entry for every place that receives.
        for frame in self.burst.drain(..) {
            self.fill.produce(frame.address - frame.address % PLACE as u64);
        }
        self.fill.publish();
        if self.fill.needs_wakeup() {
            // SAFETY: no pointers but null, which is allowed with no length.
            unsafe {
                libc::recvfrom(
                    self.socket.fd.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }
}

impl AsFd for XdpRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

/// The sending side.
#[derive(Debug)]
pub struct XdpTx {
    socket: Arc<Socket>,
    /// Of the device.
    index: u32,
    /// What bursts are sent by, if the socket is not faster.
    pad: Option<Pad>,
    sent: Ring<Descriptor>,
    completion: Ring<u64>,
    /// Places that are not on their way.
    free: Vec<u64>,
    /// Frames that wait for a flush.
    kept: Vec<Descriptor>,
    scratch: Vec<u8>,
    pub(super) refused: u64,
    /// Frames that were sent from XDP.
    pub(super) launched: u64,
}

impl XdpTx {
    /// Sends a frame, at the latest with the next [`XdpTx::flush`].
    pub fn send(&mut self, frame: &[u8], gso: Option<Gso>) {
        let Some((headers, gso)) = gso.and_then(|gso| Some((Headers::of_frame(frame)?, gso)))
        else {
            return self.put(frame);
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        segments(frame, headers, gso, &mut scratch, |segment| self.put(segment));
        self.scratch = scratch;
    }

    fn put(&mut self, frame: &[u8]) {
        if self.free.is_empty() {
            self.flush();
        }
        let place = if frame.len() <= LONGEST { self.free.pop() } else { None };
        let Some(address) = place else {
            self.refused += 1;
            return;
        };
        // SAFETY: the place is not on its way, and ours alone until it is published.
        if let Some(bytes) = unsafe { self.socket.bytes(address, frame.len()) } {
            bytes.copy_from_slice(frame);
        }
        self.kept.push(Descriptor { address, len: frame.len() as u32, options: 0 });
    }

    /// Sends queued frames, and reclaims the slots of sent ones.
    pub fn flush(&mut self) {
        /// Calls for a full ring: the kernel sends a budget's worth with each.
        const CALLS: u32 = ENTRIES / BUDGET + 1;
        self.launch();
        if !self.kept.is_empty() {
            for frame in self.kept.drain(..) {
                // There is room: the ring has an entry for every place that sends.
                self.sent.produce(frame);
            }
            self.sent.publish();
        }
        for _ in 0..CALLS {
            self.reap();
            if self.sent.room() == ENTRIES || !self.sent.needs_wakeup() {
                break;
            }
            // SAFETY: no pointers but null, which is allowed with no length.
            let result = unsafe {
                libc::sendto(
                    self.socket.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            if let Err(e) = check(result as libc::c_long)
                && !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS))
            {
                break;
            }
        }
        self.reap();
    }

    /// Sends what is kept from XDP, if that pays: nothing may be before it in the socket's ring.
    fn launch(&mut self) {
        let Some(pad) = &mut self.pad else { return };
        let fits =
            |frame: &Descriptor| (ethernet::LEN..=launch::LONGEST).contains(&(frame.len as usize));
        while self.kept.len() >= launch::LEAST
            && self.socket.redirect.sends.load(Ordering::Relaxed)
            && self.sent.room() == ENTRIES
            && self.kept.iter().all(fits)
        {
            let frames =
                self.kept.iter().map(|frame| ((frame.address / PLACE as u64) as u32, frame.len));
            let (gone, result) = pad.launch(self.index, frames);
            self.free
                .extend(self.kept.drain(..gone.min(self.kept.len())).map(|frame| frame.address));
            self.launched += gone as u64;
            let interrupted = result.is_err_and(|e| e.kind() == io::ErrorKind::Interrupted);
            if gone == 0 && !interrupted {
                break;
            }
        }
    }

    fn reap(&mut self) {
        while let Some(address) = self.completion.consume() {
            self.free.push(address - address % PLACE as u64);
        }
        self.completion.give_back();
    }
}
