// SPDX-License-Identifier: Apache-2.0

//! Frames that pass by a port, shown on the TAP that stands for it on the host, to programs that
//! listen there (tcpdump(8)), and to nothing else.
//!
//! | frame | goes to the TAP by | listeners see it | is discarded |
//! | --- | --- | --- | --- |
//! | received | a queue of the TAP's own | as received | at tcx ingress, which knows the queue |
//! | sent | a packet socket | as sent | by the filter of the TAP, which knows mark and priority |
//!
//! Listeners see a frame before either place discards it (`net/core/dev.c`, `drivers/net/tun.c`).
//! The host sends nothing by the queue: a program chooses among the others.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;

use penstock_bpf::asm::{Alu, Asm, AsmError, Code, Cond, Reg, Width};
use penstock_bpf::{AttachPoint, Link, Mode, Program, SocketFilter, tcx};
use penstock_packet::Gso;

use super::bpf::{impossible, refused};
use super::packet::PacketTx;
use super::tap::{Tap, TapTx};

/// Fields of `struct __sk_buff`.
const LEN: i16 = 0;
const MARK: i16 = 8;
const QUEUE: i16 = 12;
const PRIORITY: i16 = 32;
const HASH: i16 = 68;

/// What the frames that are sent to be shown have in the kernel, and no others.
#[derive(Clone, Copy, Debug)]
struct Signs {
    mark: u32,
    priority: u32,
}

impl Signs {
    /// Other ones each time, of 62 bits: no packet of the host has them by chance.
    fn random() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Signs { mark: random as u32 | 1, priority: (random >> u32::BITS) as u32 | 1 }
    }
}

/// Shows frames on a TAP. The last of all holders ends it.
#[derive(Debug)]
pub struct Mirror {
    /// Closed before the programs go: the host would send packets by it.
    queue: Tap,
    _programs: Programs,
    index: u32,
    signs: Signs,
}

/// The programs that keep what is shown from the host, and the host from the queue.
#[derive(Debug)]
struct Programs {
    tap: Tap,
    _ingress: Link,
}

impl Programs {
    fn set(tap: Tap, index: u32, queues: u32, signs: Signs) -> io::Result<Self> {
        let code = discard_queue(queues).map_err(impossible)?;
        let ingress = Program::load(AttachPoint::Tcx, "penstock_shown", &code).map_err(refused)?;
        let programs = Programs { _ingress: ingress.attach(index, Mode::Any)?, tap };
        let load = |code: Result<Code, AsmError>| {
            SocketFilter::load("penstock_shown", &code.map_err(impossible)?).map_err(refused)
        };
        programs.tap.set_filter(Some(&load(discard_signed(signs))?))?;
        programs.tap.set_steering(Some(&load(choose_of(queues))?))?;
        Ok(programs)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // A TAP that is gone has no programs.
        let _ = self.tap.set_steering(None);
        let _ = self.tap.set_filter(None);
    }
}

impl Mirror {
    /// Prepares to show frames on the TAP with this index, which has so many queues.
    ///
    /// # Errors
    /// Those of bpf(2), tcx (Linux 6.6), ioctl(2); a TAP with one queue gives `EINVAL`.
    pub fn open(tap: &Tap, index: u32, queues: u32) -> io::Result<Arc<Self>> {
        let signs = Signs::random();
        let programs = Programs::set(tap.try_clone()?, index, queues, signs)?;
        Ok(Arc::new(Mirror { queue: tap.queue()?, _programs: programs, index, signs }))
    }

    /// A sending side, for one worker.
    ///
    /// # Errors
    /// Those of socket(2).
    pub fn sender(self: &Arc<Self>) -> io::Result<MirrorTx> {
        let sent = PacketTx::open(self.index)?;
        sent.set_priority(self.signs.priority)?;
        let received = TapTx::new(self.queue.try_clone()?);
        Ok(MirrorTx { received, sent, mirror: self.clone() })
    }
}

/// Shows frames of one worker. To drop it takes time: the kernel waits until nobody uses the queue.
#[derive(Debug)]
pub struct MirrorTx {
    received: TapTx,
    sent: PacketTx,
    /// After the queue's handle.
    mirror: Arc<Mirror>,
}

impl MirrorTx {
    /// Index of the TAP.
    pub fn index(&self) -> u32 {
        self.mirror.index
    }

    /// Shows a frame as received, at the latest with the next [`MirrorTx::flush_received`].
    pub fn received(&mut self, frame: &[u8], gso: Option<Gso>) {
        self.received.send(frame, gso);
    }

    /// Shows a frame as sent, at the latest with the next [`MirrorTx::flush_sent`].
    pub fn sent(&mut self, frame: &[u8], gso: Option<Gso>) {
        self.sent.send(frame, gso, self.mirror.signs.mark);
    }

    /// Shows what is kept of received frames.
    pub fn flush_received(&mut self) {
        self.received.flush();
    }

    /// Shows what is kept of sent frames.
    pub fn flush_sent(&mut self) {
        self.sent.flush();
    }
}

/// At tcx ingress: discards what came by the queue after so many others.
fn discard_queue(queues: u32) -> Result<Code, AsmError> {
    let mut asm = Asm::new();
    let other = asm.label();
    asm.load(Width::W, Reg::R2, Reg::R1, QUEUE);
    // `skb_record_rx_queue()` counts from 1.
    asm.jump_if32(Cond::Ne, Reg::R2, queues as i32 + 1, other);
    asm.exit_with(tcx::DROP);
    asm.bind(other);
    asm.exit_with(tcx::NEXT);
    asm.finish()
}

/// The filter of a TAP: discards what has these signs.
fn discard_signed(signs: Signs) -> Result<Code, AsmError> {
    let mut asm = Asm::new();
    let other = asm.label();
    for (field, sign) in [(MARK, signs.mark), (PRIORITY, signs.priority)] {
        asm.load(Width::W, Reg::R2, Reg::R1, field);
        asm.jump_if32(Cond::Ne, Reg::R2, sign as i32, other);
    }
    asm.exit_with(0);
    asm.bind(other);
    asm.load(Width::W, Reg::R0, Reg::R1, LEN);
    asm.exit();
    asm.finish()
}

/// The steering of a TAP: one of so many queues, the same for all packets of a flow.
fn choose_of(queues: u32) -> Result<Code, AsmError> {
    let mut asm = Asm::new();
    asm.load(Width::W, Reg::R0, Reg::R1, HASH);
    asm.alu(Alu::Mod, Reg::R0, queues as i32);
    asm.exit();
    asm.finish()
}
