//! Where a program goes on with packets that it has nothing more to say about.

use std::sync::Arc;

use crate::asm::{Asm, Helper, Reg, Width};
use crate::map::Map;
use crate::program::{Place, tcx, xdp};

/// What follows a program.
#[derive(Clone, Debug)]
pub enum Next {
    /// The kernel: its bridge, its IP, its packet sockets.
    Pass,
    /// The AF_XDP socket of the queue ([`MapKind::Sockets`](crate::MapKind::Sockets)), or [`Next::Pass`] where there is
    /// none. At tcx it is [`Next::Pass`].
    Sockets(Arc<Map>),
    /// Another program of the same place ([`MapKind::Programs`](crate::MapKind::Programs)), exchanged there in one step.
    Program {
        /// Programs.
        programs: Arc<Map>,
        /// Which of them.
        index: u32,
        /// What follows where there is none.
        otherwise: Box<Next>,
    },
}

/// `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

impl Next {
    /// Ends a program with it. R6 is its context.
    pub fn emit(&self, asm: &mut Asm, place: Place) {
        match (self, place) {
            (Next::Pass, Place::Xdp) => asm.exit_with(xdp::PASS),
            (Next::Pass | Next::Sockets(_), Place::Tcx) => asm.exit_with(tcx::NEXT),
            (Next::Sockets(sockets), Place::Xdp) => {
                asm.load(Width::W, Reg::R2, Reg::R6, RX_QUEUE_INDEX);
                asm.map(Reg::R1, sockets);
                // The verdict where the queue has no socket.
                asm.mov(Reg::R3, xdp::PASS);
                asm.call(Helper::RedirectMap);
                asm.exit();
            }
            (Next::Program { programs, index, otherwise }, _) => {
                asm.mov(Reg::R1, Reg::R6);
                asm.map(Reg::R2, programs);
                asm.mov32(Reg::R3, *index);
                asm.call(Helper::TailCall);
                otherwise.emit(asm, place);
            }
        }
    }
}
