// SPDX-License-Identifier: Apache-2.0

//! TAPs: devices of the host with their other end, a file, here.
//!
//! A TAP that we create disappears when its last file is closed. An existing persistent one
//! (`ip tuntap add`) is opened by its name in its network namespace; it may be moved to another one
//! afterwards. What its file is like (headers before frames, offloads) is set by the program that
//! opens it, and stays so when it is closed.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use penstock_bpf::SocketFilter;
use penstock_packet::Gso;

use super::packet::{Batch, LARGE};
use super::supers::Supers;
use super::sys::check;
use super::{BURST, Received, vnet};

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNGETIFF: libc::Ioctl = 0x8004_54d2_u32 as libc::Ioctl;
const TUNGETVNETHDRSZ: libc::Ioctl = 0x8004_54d7_u32 as libc::Ioctl;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
const TUNSETIFINDEX: libc::Ioctl = 0x4004_54da;
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0_u32 as libc::Ioctl;
const TUNSETFILTEREBPF: libc::Ioctl = 0x8004_54e1_u32 as libc::Ioctl;

const IFF_TAP: i16 = 2;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
const IFF_MULTI_QUEUE: i16 = 0x0100;

/// `TUN_F_CSUM`, `_TSO4`, `_TSO6`, `_TSO_ECN`.
const TCP_OFFLOADS: libc::c_ulong = 0xf;
/// `TUN_F_USO4`, `_USO6`.
const UDP_OFFLOADS: libc::c_ulong = 0x60;

/// Settings of a TAP's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapHeaders {
    /// Frames have a header of the file's own before them.
    pub packet_info: bool,
    /// Frames have a virtio-net header before them.
    pub vnet_header: bool,
    /// The device may have several queues, each a file.
    pub several: bool,
}

impl TapHeaders {
    fn flags(self) -> i16 {
        let TapHeaders { packet_info, vnet_header, several } = self;
        let given = |on: bool, flag: i16| if on { flag } else { 0 };
        IFF_TAP
            | given(!packet_info, IFF_NO_PI)
            | given(vnet_header, IFF_VNET_HDR)
            | given(several, IFF_MULTI_QUEUE)
    }
}

/// The name of the device that a request is about.
fn name_in(request: &libc::ifreq) -> String {
    request.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
}

/// Our end of a TAP. Clones are the same end.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    flags: i16,
}

impl Tap {
    /// Creates a TAP, or opens an existing one that is not open elsewhere. A name without `%d` is
    /// used as it is. The device is gone when its last opening is closed, unless it is persistent.
    pub fn open(name: &str) -> io::Result<Tap> {
        Tap::attach(name, None, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    }

    /// Makes a TAP that may have several queues, with this index, if it says one; `EBUSY` if
    /// another device has it.
    pub fn open_as(name: &str, index: Option<u32>) -> io::Result<Tap> {
        Tap::attach(name, index, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE)
    }

    /// One more queue, after those that it has, if it may have several. The host sends packets of a
    /// flow by the queue that the answers came by, unless a program chooses.
    pub fn queue(&self) -> io::Result<Tap> {
        Tap::attach(&name_in(&self.request()?), None, self.flags)
    }

    /// A program chooses the queue by which the host sends a packet: its result, modulo the number
    /// of queues. `None` ends it.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub(super) fn set_steering(&self, program: Option<&SocketFilter>) -> io::Result<()> {
        self.set_program(TUNSETSTEERINGEBPF, program)
    }

    /// A program says how many bytes of a packet of the host's the other end gets, 0 to discard
    /// it. `None` ends it.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub(super) fn set_filter(&self, program: Option<&SocketFilter>) -> io::Result<()> {
        self.set_program(TUNSETFILTEREBPF, program)
    }

    fn set_program(&self, request: libc::Ioctl, program: Option<&SocketFilter>) -> io::Result<()> {
        let program = program.map_or(-1, |program| program.as_fd().as_raw_fd());
        // SAFETY: a pointer to a descriptor's number that lives through the call, which reads it.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), request, &raw const program) }.into())?;
        Ok(())
    }

    /// Opens a TAP that is there; the kernel would make one that is not. `several` is what it was
    /// made as.
    ///
    /// # Errors
    /// `EBUSY` if another program has it open, also where several may have queues: they would have
    /// to agree on what stands before frames. `EPERM` if it belongs to another user. `EINVAL` if it
    /// was made otherwise.
    pub fn open_end(name: &str, several: bool) -> io::Result<Tap> {
        let queues = if several { IFF_MULTI_QUEUE } else { 0 };
        let tap = Tap::attach(name, None, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | queues)?;
        // Our settings are ignored if another queue is open.
        // SAFETY: the kernel has set this one of the fields that share their place.
        if unsafe { tap.request()?.ifr_ifru.ifru_flags } & IFF_VNET_HDR == 0 {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        tap.set_header_len(vnet::LEN as i32)?;
        Ok(tap)
    }

    /// Opens an existing TAP with its previous settings, to find out whether it is in use. Returns
    /// the length of the virtio-net header that it has, or would have, before frames. Errors are
    /// those of [`Tap::open_end`].
    pub fn probe(name: &str, was: TapHeaders) -> io::Result<i32> {
        Tap::attach(name, None, was.flags())?.header_len()
    }

    /// Restores a TAP as if we had never opened it. It is no longer open anywhere: for one with
    /// several queues the kernel does not tell, and keeps the settings of the other queues.
    pub fn restore(name: &str, was: TapHeaders, header_len: i32) -> io::Result<()> {
        let tap = Tap::attach(name, None, was.flags())?;
        tap.set_offloads(false)?;
        tap.set_header_len(header_len)
    }

    fn number(&self, request: libc::Ioctl) -> io::Result<i32> {
        let mut number = 0i32;
        // SAFETY: a pointer to a number that lives through the call.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), request, &raw mut number) }.into())?;
        Ok(number)
    }

    fn header_len(&self) -> io::Result<i32> {
        self.number(TUNGETVNETHDRSZ)
    }

    fn set_header_len(&self, len: i32) -> io::Result<()> {
        check(
            // SAFETY: a pointer to a number that lives through the call.
            unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETVNETHDRSZ, &raw const len) }.into(),
        )?;
        Ok(())
    }

    /// Its name and flags.
    fn request(&self) -> io::Result<libc::ifreq> {
        // SAFETY: all zeroes are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: the request lives through the call, which writes name and flags into it.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNGETIFF, &raw mut request) }.into())?;
        Ok(request)
    }

    /// Whether the device is there, in whatever namespace.
    pub fn is_there(&self) -> bool {
        self.request().is_ok()
    }

    /// Whether the device is up, in whatever namespace.
    pub fn is_up(&self) -> bool {
        let mut fd = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&raw mut fd, 1, 0) };
        fd.revents & (libc::POLLOUT | libc::POLLERR) == libc::POLLOUT
    }

    fn attach(name: &str, index: Option<u32>, flags: i16) -> io::Result<Tap> {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        if let Some(index) = index {
            check(
                // SAFETY: a pointer to a number that lives through the call.
                unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFINDEX, &raw const index) }.into(),
            )?;
        }
        // SAFETY: all zeroes are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{name}` is too long for a device"),
            ));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = flags;
        // SAFETY: the request lives through the call, which writes the name into it.
        check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) }.into())?;
        let name = name_in(&request);
        Ok(Tap { file, name, flags })
    }

    /// The name that it got.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the host may hand over super-packets and leave checksums to us.
    pub fn set_offloads(&self, on: bool) -> io::Result<()> {
        let set = |offloads: libc::c_ulong| {
            // SAFETY: the argument is a number.
            check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETOFFLOAD, offloads) }.into())
                .map(|_| ())
        };
        if !on {
            return set(0);
        }
        // Kernels before 6.2 do not know UDP's.
        set(TCP_OFFLOADS | UDP_OFFLOADS).or_else(|_| set(TCP_OFFLOADS))
    }

    /// Whether the device stays when it is closed.
    pub fn set_persistent(&self, on: bool) -> io::Result<()> {
        check(
            // SAFETY: the argument is a number.
            unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETPERSIST, libc::c_ulong::from(on)) }
                .into(),
        )?;
        Ok(())
    }

    /// Whether the device has a carrier.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let on = i32::from(on);
        // SAFETY: a pointer to a number that lives through the call.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const on) }.into())?;
        Ok(())
    }

    /// Another handle of this end.
    pub fn try_clone(&self) -> io::Result<Tap> {
        Ok(Tap { file: self.file.try_clone()?, name: self.name.clone(), flags: self.flags })
    }

    /// The descriptor alone, which keeps the device there.
    pub fn into_fd(self) -> OwnedFd {
        self.file.into()
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The receiving side: what the host sends.
#[derive(Debug)]
pub struct TapRx {
    tap: Tap,
    buffers: Supers,
    burst: Vec<(usize, Option<Gso>)>,
    /// The device is.
    pub(super) is_there: bool,
}

impl TapRx {
    /// Receives what is sent on the device. Fails if there is no room for frames.
    pub fn new(tap: Tap) -> io::Result<Self> {
        let buffers = Supers::new()?;
        Ok(TapRx { tap, buffers, burst: Vec::with_capacity(BURST), is_there: true })
    }

    /// Takes up to [`BURST`] frames; returns how many.
    pub fn fetch(&mut self) -> usize {
        self.burst.clear();
        while self.burst.len() < BURST {
            let Some(buffer) = self.buffers.get_mut(self.burst.len()) else { break };
            let len = match self.tap.file.read(buffer) {
                Ok(len) => len,
                Err(e) => {
                    self.is_there &= e.raw_os_error() != Some(libc::EBADFD);
                    break;
                }
            };
            let Some((header, frame)) =
                buffer.get_mut(..len).and_then(|b| b.split_first_chunk_mut::<{ vnet::LEN }>())
            else {
                break;
            };
            let gso = vnet::received(header, frame);
            self.burst.push((len, gso));
        }
        self.burst.len()
    }

    /// A frame of the burst.
    pub fn frame(&self, i: usize) -> Option<Received<'_>> {
        let (len, gso) = *self.burst.get(i)?;
        Some(Received { bytes: self.buffers.get(i)?.get(vnet::LEN..len)?, gso })
    }
}

impl AsFd for TapRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.file.as_fd()
    }
}

/// The sending side: what the host is to receive.
#[derive(Debug)]
pub struct TapTx {
    tap: Tap,
    batch: Batch,
    pub(super) refused: u64,
}

impl TapTx {
    /// Sends to the device.
    pub fn new(tap: Tap) -> Self {
        TapTx { tap, batch: Batch::default(), refused: 0 }
    }

    /// Sends a frame, at the latest with the next [`TapTx::flush`].
    pub fn send(&mut self, frame: &[u8], gso: Option<Gso>) {
        if frame.len() >= LARGE
            && let Some(head) = vnet::Head::of(gso, frame)
        {
            self.flush();
            let parts = head.parts(frame).map(IoSlice::new);
            self.refused += u64::from((&self.tap.file).write_vectored(&parts).is_err());
            return;
        }
        if !self.batch.push(frame, gso, 0) {
            self.refused += 1;
        }
        if self.batch.is_full() {
            self.flush();
        }
    }

    /// Sends what is kept. A device that is down takes nothing.
    pub fn flush(&mut self) {
        for frame in self.batch.frames() {
            if (&self.tap.file).write(frame).is_err() {
                self.refused += 1;
            }
        }
        self.batch.clear();
    }
}
