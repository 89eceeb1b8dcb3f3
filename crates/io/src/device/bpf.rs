// SPDX-License-Identifier: Apache-2.0

//! The BPF programs that devices need to receive.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use penstock_bpf::asm::{Asm, AsmError, Code, Reg};
use penstock_bpf::{AttachPoint, Link, LoadError, Map, MapKind, MapSpec, Mode, Next, Program, tcx};

pub(super) fn refused(error: LoadError) -> io::Error {
    io::Error::new(error.error.kind(), error)
}

pub(super) fn impossible(error: AsmError) -> io::Error {
    io::Error::other(error)
}

/// A map of sockets by queue, and the program that gives each frame to the socket of its queue, or
/// to the kernel without one. Both are freed with the last holder.
#[derive(Debug)]
pub struct Redirect {
    sockets: Arc<Map>,
    link: Link,
    plain: Program,
    /// Frames can be sent to the device from XDP.
    pub(super) sends: AtomicBool,
}

impl Redirect {
    /// For a device with so many queues.
    pub(crate) fn attach(index: u32, queues: u32, mode: Mode) -> io::Result<Self> {
        let sockets =
            MapSpec { name: "xsk", kind: MapKind::Sockets, key: 4, value: 4, entries: queues };
        let sockets = Arc::new(Map::new(sockets));
        let plain = Program::load(AttachPoint::Xdp, "penstock_xsk", &Self::code(&sockets)?)
            .map_err(refused)?;
        let link = plain.attach(index, mode)?;
        Ok(Redirect { sockets, link, plain, sends: AtomicBool::new(false) })
    }

    fn code(sockets: &Arc<Map>) -> io::Result<Code> {
        let mut asm = Asm::new();
        asm.mov(Reg::R6, Reg::R1);
        Next::Sockets(sockets.clone()).emit(&mut asm, AttachPoint::Xdp);
        asm.finish().map_err(impossible)
    }

    /// Frames of a queue go to a socket from now on.
    pub(crate) fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.sockets.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }

    /// The sockets, for programs that go in front of them ([`Next::Sockets`]).
    pub fn sockets(&self) -> &Arc<Map> {
        &self.sockets
    }

    /// Puts a program before the sockets, which must end with a jump to them; `None` removes it.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn put_in_front(&self, program: Option<&Program>) -> io::Result<()> {
        self.link.replace(program.unwrap_or(&self.plain))
    }

    /// Whether frames can be sent to the device from XDP now (`NETDEV_XDP_ACT_NDO_XMIT`), and
    /// bursts are, by a [`Launcher`](super::Launcher).
    pub fn set_sends(&self, sends: bool) {
        self.sends.store(sends, Ordering::Relaxed);
    }

    /// What keeps the program on the device.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

/// Lets what is sent on a device pass, as long as it is there, whatever filters of traffic control
/// say.
#[derive(Debug)]
pub struct Unfiltered(#[expect(dead_code, reason = "keeps the program attached")] Link);

impl Unfiltered {
    /// Passes all frames of a device at tcx egress; no later filter sees them (Linux 6.6).
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn device(index: u32) -> io::Result<Self> {
        always("penstock_pass", tcx::PASS)?.attach_egress(index).map(Unfiltered)
    }
}

/// A program at tcx that gives every frame the same verdict.
fn always(name: &str, verdict: i32) -> io::Result<Program> {
    let mut asm = Asm::new();
    asm.exit_with(verdict);
    let code = asm.finish().map_err(impossible)?;
    Program::load(AttachPoint::Tcx, name, &code).map_err(refused)
}

/// Keeps the kernel's protocols from what a device receives, as long as it is there: packet sockets
/// have seen it by then.
#[derive(Debug)]
pub struct Shut(#[expect(dead_code, reason = "keeps the program attached")] Link);

impl Shut {
    /// Shuts a device: its frames end at tcx ingress (Linux 6.6).
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn device(index: u32) -> io::Result<Self> {
        always("penstock_shut", tcx::DROP)?.attach(index, Mode::Any).map(Shut)
    }
}
