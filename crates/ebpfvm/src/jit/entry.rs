// SPDX-License-Identifier: Apache-2.0

//! From Rust to machine code, and from code to Rust: functions that code calls.

use crate::code::Function;
use crate::context::{Context, ProgramKind};
use crate::fault::FaultKind;
use crate::helper::Helper;
use crate::interp::Then;
use crate::op::{Op, Size};
use crate::run::Run;
use crate::space::{CONTEXT, PACKET, VALUES, address, split};
use crate::visible::FIELDS;

// What a function of a program gives apart from the number of an instruction.

/// The interpreter shall continue at [`Run::pc`].
pub(super) const INTERPRET: u64 = 1 << 32;
/// A call went wrong: [`Run::fault`].
pub(super) const FAULT: u64 = 2 << 32;
/// Another program continues: [`Visible::target`](crate::visible::Visible::target).
pub(super) const TAIL: u64 = 3 << 32;
/// The function ends at this instruction.
pub(super) const LEAVE: u64 = 4 << 32;

/// Which field of [`Visible::fields`](crate::visible::Visible::fields) an access to a context reads.
pub(super) fn field_of(kind: ProgramKind, at: u32, size: Size) -> Option<usize> {
    if size != Size::W {
        return None;
    }
    match kind {
        ProgramKind::Xdp => match at {
            0 => Some(0),
            4 => Some(1),
            8 => Some(2),
            12 => Some(3),
            16 => Some(4),
            _ => None,
        },
        ProgramKind::Tc => match at {
            76 => Some(0),
            80 => Some(1),
            140 => Some(2),
            0 => Some(3),
            8 => Some(4),
            16 => Some(5),
            36 => Some(6),
            40 => Some(7),
            _ => None,
        },
        ProgramKind::SocketFilter | ProgramKind::Netfilter => None,
    }
}

impl Run<'_> {
    /// Looks at the context and the packet again.
    #[inline]
    pub(super) fn look(&mut self) {
        let packet = self.context.packet();
        let (meta, data, end) = packet.bounds();
        let visible = &mut self.visible;
        visible.start = address(PACKET, meta as u32);
        visible.bias =
            (packet.address().expose_provenance() as u64).wrapping_sub(address(PACKET, 0));
        visible.places = if self.direct { (end - meta) as u64 + 1 } else { 0 };
        let [start, past, before] = [data, end, meta].map(|at| address(PACKET, at as u32));
        let fields: [u64; FIELDS] = match &*self.context {
            Context::Xdp(xdp) => {
                [start, past, before, u64::from(xdp.ingress), u64::from(xdp.queue), 0, 0, 0]
            }
            Context::Skb(skb) => [
                start,
                past,
                before,
                (end - data) as u64,
                u64::from(skb.mark),
                u64::from(skb.protocol),
                u64::from(skb.ingress_ifindex),
                u64::from(skb.ifindex),
            ],
            Context::Netfilter(_) => [0; FIELDS],
        };
        visible.fields = fields;
    }

    /// Runs a function to its end: R0.
    #[inline]
    pub(crate) fn function_from(&mut self, start: u32) -> Result<u64, FaultKind> {
        let Some(code) = self.code else { return self.until(start, self.depth) };
        let Some(function) = code.function(start, self.context.kind()) else {
            return self.until(start, self.depth);
        };
        self.visible.stack = self.stack.address().expose_provenance() as u64;
        self.look();
        let status = self.enter_code(function);
        match self.settle(status) {
            FAULT => Err(self.fault.take().unwrap_or(FaultKind::Steps)),
            at => {
                self.pc = at as u32;
                Ok(self.r[0])
            }
        }
    }

    #[inline]
    fn enter_code(&mut self, function: Function) -> u64 {
        // SAFETY: the function was made by `Code::make` for this signature, and lives as long as
        // the reference to its code in this value. The code was made for the maps of this machine
        // (`Code::is_for`), and `look` has seen packet and context of this run. The lifetime is
        // forgotten only during the call.
        unsafe { function((&raw mut *self).cast()) }
    }

    /// Does what a function left to do: the instruction that ends it, or [`FAULT`].
    fn settle(&mut self, mut status: u64) -> u64 {
        loop {
            let result = match status {
                INTERPRET => {
                    self.r[10] = Self::frame_end(self.depth);
                    self.until(self.pc, self.depth)
                }
                TAIL => {
                    let start = self.visible.target;
                    if let Some(function) =
                        self.code.and_then(|code| code.function(start, self.context.kind()))
                    {
                        status = self.enter_code(function);
                        continue;
                    }
                    self.r[10] = Self::frame_end(self.depth);
                    self.until(start, self.depth)
                }
                other => return other,
            };
            return match result {
                Ok(_) => u64::from(self.pc),
                Err(fault) => self.fail(fault),
            };
        }
    }

    fn fail(&mut self, fault: FaultKind) -> u64 {
        self.fault = Some(fault);
        FAULT
    }
}

/// What code hands to the following functions.
type Handed = *mut Run<'static>;

/// The run that code belongs to.
///
/// # Safety
/// The pointer is the one that `enter_code` gave to code which is calling now. That code holds no
/// reference, and `enter_code` does not use its own meanwhile.
unsafe fn run_of<'a>(run: Handed) -> &'a mut Run<'static> {
    // SAFETY: as the caller says.
    unsafe { &mut *run }
}

/// Loads from any address, into [`Visible::value`](crate::visible::Visible::value): whether it may.
pub(super) extern "C" fn load(run: Handed, at: u64, size: u64) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    match run.load(at, size_of(size)) {
        Ok(value) => {
            run.visible.value = value;
            1
        }
        Err(_) => 0,
    }
}

/// Stores to any address: whether it may.
pub(super) extern "C" fn store(run: Handed, at: u64, size: u64, value: u64) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    let done = run.store(at, size_of(size), value).is_ok();
    if split(at).0 == CONTEXT {
        run.look();
    }
    u64::from(done)
}

fn size_of(bytes: u64) -> Size {
    match bytes {
        1 => Size::B,
        2 => Size::H,
        4 => Size::W,
        _ => Size::D,
    }
}

/// Runs the instruction at [`Run::pc`] by the interpreter, with registers in [`Run::r`]: 0,
/// [`FAULT`], [`TAIL`] or [`LEAVE`].
pub(super) extern "C" fn step(run: Handed) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    run.step_for_code()
}

impl Run<'_> {
    fn step_for_code(&mut self) -> u64 {
        let pc = self.pc;
        self.r[10] = Self::frame_end(self.depth);
        let op = self.ops[pc as usize];
        let then = self.step(op);
        if matches!(op, Op::Call(helper) if moves_packet(helper)) {
            self.look();
        }
        match then {
            Ok(Then::Next) => 0,
            Ok(Then::Leave) => LEAVE,
            Ok(Then::Go(to)) => {
                // A program that is continued with: no other instruction that is run here jumps.
                if to <= pc
                    && let Err(fault) = self.pay(u64::from(pc - to) + 1)
                {
                    return self.fail(fault);
                }
                self.visible.target = to;
                TAIL
            }
            Err(fault) => self.fail(fault),
        }
    }
}

/// Settles what a function that code called has left to do: the instruction that ended it, or
/// [`FAULT`].
pub(super) extern "C" fn settle(run: Handed, status: u64) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    run.settle(status)
}

/// Looks a key up in a map: the address of the value, or 0.
pub(super) extern "C" fn find(run: Handed, map: u64, key: *const u8) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    let Some(found) = run.maps.get_mut(map as usize) else { return 0 };
    let len = found.spec().key as usize;
    // SAFETY: code has seen that as many bytes as a key of this map has may be read there. They are
    // in packet, stack or values of a map, to which `find` has no reference that it writes to.
    let key = unsafe { std::slice::from_raw_parts(key, len) };
    found.find(key).map_or(0, |at| address(VALUES + map as u32, at))
}

/// Whether a function may change what [`Run::look`] sees.
pub(super) fn moves_packet(helper: Helper) -> bool {
    use Helper::*;
    !matches!(
        helper,
        MapLookup
            | MapUpdate
            | MapDelete
            | MapPush
            | MapPop
            | MapPeek
            | KtimeGetNs
            | KtimeGetBootNs
            | KtimeGetCoarseNs
            | Prandom
            | Processor
            | NumaNode
            | TracePrintk
            | L3CsumReplace
            | L4CsumReplace
            | CsumDiff
            | SkbLoadBytes
            | XdpLoadBytes
            | XdpStoreBytes
            | SkbStoreBytes
            | Redirect
            | RedirectMap
            | FibLookup
            | CheckMtu
            | RingOutput
            | RingReserve
            | RingSubmit
            | RingDiscard
            | RingQuery
            | RcuReadLock
            | RcuReadUnlock
    )
}

/// Says that a run took too long, at an instruction: [`FAULT`].
pub(super) extern "C" fn too_long(run: Handed, at: u64) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    run.pc = at as u32;
    run.fail(FaultKind::Steps)
}
