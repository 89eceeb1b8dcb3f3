// SPDX-License-Identifier: Apache-2.0

//! Where a program sends packets that it does not decide on.

use std::sync::Arc;

use crate::asm::{Asm, Helper, Reg, Width};
use crate::map::Map;
use crate::netfilter;
use crate::program::{ProgramKind, tcx, xdp};

/// What follows a program.
#[derive(Clone, Debug)]
pub enum Next {
    /// The kernel: its bridge, its IP, its packet sockets.
    Pass,
    /// The AF_XDP socket of the queue ([`MapKind::Sockets`](crate::MapKind::Sockets)), or
    /// [`Next::Pass`] without one. Elsewhere than at XDP it is always [`Next::Pass`].
    Sockets(Arc<Map>),
    /// Another program of the same place ([`MapKind::Programs`](crate::MapKind::Programs)),
    /// exchanged there in one step.
    Program {
        /// Programs.
        programs: Arc<Map>,
        /// Which of them.
        index: u32,
        /// What follows without one.
        otherwise: Box<Next>,
    },
}

/// `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// The verdict is for queues without socket.
fn to_socket(asm: &mut Asm, sockets: &Arc<Map>, otherwise: i32) {
    asm.load(Width::W, Reg::R2, Reg::R6, RX_QUEUE_INDEX);
    asm.map(Reg::R1, sockets);
    asm.mov(Reg::R3, otherwise);
    asm.call(Helper::RedirectMap);
    asm.exit();
}

impl Next {
    /// Ends an XDP program with the sockets at the end of the sequence, like [`Next::emit`];
    /// without a socket the packet is dropped.
    pub fn emit_sockets_or_drop(&self, asm: &mut Asm) {
        match self {
            Next::Pass => asm.exit_with(xdp::PASS),
            Next::Sockets(sockets) => to_socket(asm, sockets, xdp::DROP),
            Next::Program { otherwise, .. } => otherwise.emit_sockets_or_drop(asm),
        }
    }

    /// Ends a program with it. R6 is its context.
    pub fn emit(&self, asm: &mut Asm, kind: impl Into<ProgramKind>) {
        let kind = kind.into();
        match (self, kind) {
            (Next::Pass, ProgramKind::Xdp) => asm.exit_with(xdp::PASS),
            (Next::Pass | Next::Sockets(_), ProgramKind::SchedCls) => asm.exit_with(tcx::NEXT),
            (Next::Pass | Next::Sockets(_), ProgramKind::Netfilter) => {
                asm.exit_with(netfilter::ACCEPT);
            }
            (Next::Sockets(sockets), ProgramKind::Xdp) => to_socket(asm, sockets, xdp::PASS),
            (Next::Program { programs, index, otherwise }, _) => {
                asm.mov(Reg::R1, Reg::R6);
                asm.map(Reg::R2, programs);
                asm.mov32(Reg::R3, *index);
                asm.call(Helper::TailCall);
                otherwise.emit(asm, kind);
            }
        }
    }
}
