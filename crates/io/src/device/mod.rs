// SPDX-License-Identifier: Apache-2.0

//! Devices of the network namespace: frames of wires, and of the host.
//!
//! | device | receives and sends by | super-packets | who else sees its frames |
//! | --- | --- | --- | --- |
//! | [`packet`] | a packet socket | whole | the kernel, unless it is [`Shut`] |
//! | [`tap`] | the other end of a TAP | whole | nobody |
//! | [`xdp`] | AF_XDP sockets, one for each queue | cut | nobody |
//!
//! All work alike: [`Rx::fetch`] takes a burst of frames, which are there until the next one;
//! [`Tx::send`] keeps frames until [`Tx::flush`]. Nothing here blocks but [`wait`]. Everything ends
//! with the process: programs, rings and sockets are held by descriptors.
//!
//! What a device does to checksums is done here: a frame that is received has a whole checksum,
//! unless it is a super-packet ([`Received::gso`]): its checksum is computed when it leaves.

mod bare;
mod bpf;
mod gro;
mod launch;
mod local;
mod mirror;
pub mod packet;
mod supers;
mod sys;
pub mod tap;
pub mod vnet;
pub mod xdp;

use std::os::fd::{AsFd, BorrowedFd};

use penstock_packet::Gso;

pub use bare::BareTx;
pub use bpf::{Redirect, Shut, Unfiltered};
pub use gro::{gro, set_gro};
pub use launch::Launcher;
pub use local::LocalTx;
pub use mirror::{Mirror, MirrorTx};
pub use packet::{PacketRx, PacketTx, promiscuous};
pub use sys::{interface_index, wait};
pub use tap::{Tap, TapHeaders, TapRx, TapTx};
pub use xdp::{XdpDevice, XdpKind, XdpRx, XdpTx, XdpWish};

/// Frames of a burst at most.
pub const BURST: usize = 64;

/// A frame that was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// From the destination link address on, tags included, without checksum.
    pub bytes: &'a [u8],
    /// It is a super-packet.
    pub gso: Option<Gso>,
}

/// A receiving side.
#[derive(Debug)]
pub enum Rx {
    /// Of a packet socket.
    Packet(PacketRx),
    /// Of a TAP.
    Tap(TapRx),
    /// Of a queue by AF_XDP.
    Xdp(XdpRx),
}

impl Rx {
    /// Takes up to [`BURST`] frames, and gives those of the last burst back. How many.
    pub fn fetch(&mut self) -> usize {
        match self {
            Rx::Packet(rx) => rx.fetch(),
            Rx::Tap(rx) => rx.fetch(),
            Rx::Xdp(rx) => rx.fetch(),
        }
    }

    /// A frame of the burst, by its number.
    #[inline]
    pub fn frame(&self, i: usize) -> Option<Received<'_>> {
        match self {
            Rx::Packet(rx) => rx.frame(i),
            Rx::Tap(rx) => rx.frame(i),
            Rx::Xdp(rx) => rx.frame(i),
        }
    }

    /// Gives the frames of the burst back.
    pub fn release(&mut self) {
        match self {
            Rx::Packet(rx) => rx.release(),
            Rx::Tap(_) => {}
            Rx::Xdp(rx) => rx.release(),
        }
    }

    /// Takes the error of a socket, such as that of a device that went down, so that waiting for
    /// frames waits again. `false` if nothing will ever come.
    pub fn settle(&mut self) -> bool {
        match self {
            Rx::Tap(rx) => rx.is_there,
            Rx::Packet(_) | Rx::Xdp(_) => {
                sys::take_error(self.as_fd());
                true
            }
        }
    }

    /// Frames that were lost since there was no room, as far as it is known here.
    pub fn lost(&self) -> u64 {
        match self {
            Rx::Packet(rx) => rx.lost,
            Rx::Xdp(rx) => rx.lost(),
            Rx::Tap(_) => 0,
        }
    }
}

impl AsFd for Rx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Rx::Packet(rx) => rx.as_fd(),
            Rx::Tap(rx) => rx.as_fd(),
            Rx::Xdp(rx) => rx.as_fd(),
        }
    }
}

/// A sending side.
#[derive(Debug)]
pub enum Tx {
    /// Of a packet socket.
    Packet(PacketTx),
    /// Of a TAP.
    Tap(TapTx),
    /// Of AF_XDP.
    Xdp(XdpTx),
}

impl Tx {
    /// Sends a frame, at the latest with the next flush. `mark` is for the tc stage of the device,
    /// where it has one.
    #[inline]
    pub fn send(&mut self, frame: &[u8], gso: Option<Gso>, mark: u32) {
        match self {
            Tx::Packet(tx) => tx.send(frame, gso, mark),
            Tx::Tap(tx) => tx.send(frame, gso),
            Tx::Xdp(tx) => tx.send(frame, gso),
        }
    }

    /// Sends everything queued.
    pub fn flush(&mut self) {
        match self {
            Tx::Packet(tx) => tx.flush(),
            Tx::Tap(tx) => tx.flush(),
            Tx::Xdp(tx) => tx.flush(),
        }
    }

    /// Frames that were sent in bursts from XDP ([`Launcher`]).
    pub fn launched(&self) -> u64 {
        match self {
            Tx::Packet(_) | Tx::Tap(_) => 0,
            Tx::Xdp(tx) => tx.launched,
        }
    }

    /// Frames that the device did not take.
    pub fn refused(&self) -> u64 {
        match self {
            Tx::Packet(tx) => tx.refused,
            Tx::Tap(tx) => tx.refused,
            Tx::Xdp(tx) => tx.refused,
        }
    }
}
