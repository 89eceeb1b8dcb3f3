// SPDX-License-Identifier: Apache-2.0

//! From Rust to machine code, and from code to Rust: functions that code calls.

use std::ffi::c_void;

use crate::call;
use crate::code::Function;
use crate::context::{Context, ProgramKind};
use crate::fault::FaultKind;
use crate::helper::Helper;
use crate::interp::Then;
use crate::op::Size;
use crate::run::Run;
use crate::space::{VALUES, address};

// What a function of a program gives apart from the number of an instruction.

/// The interpreter shall continue at [`State::pc`](crate::state::State::pc).
pub(super) const INTERPRET: u64 = 1 << 32;
/// A call went wrong: [`State::fault`](crate::state::State::fault).
pub(super) const FAULT: u64 = 2 << 32;
/// Another program continues: [`State::target`](crate::state::State::target).
pub(super) const TAIL: u64 = 3 << 32;
/// The function ends at this instruction.
pub(super) const LEAVE: u64 = 4 << 32;

impl Run<'_> {
    /// Says where code finds what is known of the packet.
    #[inline]
    pub(super) fn look(&mut self) {
        let at: *mut c_void = match &mut *self.context {
            Context::Xdp(xdp) => (&raw mut *xdp).cast(),
            Context::Skb(skb) => (&raw mut **skb).cast(),
            Context::Netfilter(nf) => (&raw mut **nf).cast(),
        };
        self.state.context_at = at.expose_provenance() as u64;
    }

    /// Runs a program from its beginning, or by the function of the code there, to its end: R0.
    #[inline]
    pub(crate) fn program_from(
        &mut self,
        first: Option<Function>,
        start: u32,
        kind: ProgramKind,
    ) -> Result<u64, FaultKind> {
        match first {
            Some(function) => self.finish(function),
            None => {
                self.clear_registers();
                self.function_from(start, kind)
            }
        }
    }

    /// Runs a function to its end: R0.
    pub(crate) fn function_from(
        &mut self,
        start: u32,
        kind: ProgramKind,
    ) -> Result<u64, FaultKind> {
        match self.code().and_then(|code| code.later(start, kind)) {
            Some(function) => self.finish(function),
            None => self.until(start),
        }
    }

    #[inline]
    fn finish(&mut self, function: Function) -> Result<u64, FaultKind> {
        self.look();
        let status = self.enter_code(function);
        if status >= INTERPRET {
            return self.settled(status);
        }
        self.pc = status as u32;
        Ok(self.r[0])
    }

    #[cold]
    fn settled(&mut self, status: u64) -> Result<u64, FaultKind> {
        match self.settle(status) {
            FAULT => Err(self.fault.take().unwrap_or(FaultKind::Steps)),
            end => {
                self.pc = end as u32;
                Ok(self.r[0])
            }
        }
    }

    #[inline]
    fn enter_code(&mut self, function: Function) -> u64 {
        // SAFETY: the function was made by `jit::make` for this signature. It is one of the code in
        // the state (`State::set_code`), which no run exchanges. The code was made for the maps and
        // the stack of this machine (`Code::is_for`), and `look` has said where the context of this
        // run is. The lifetime is forgotten only during the call.
        unsafe { function((&raw mut *self).cast()) }
    }

    /// Does what a function left to do: the instruction that ends it, or [`FAULT`].
    #[cold]
    fn settle(&mut self, mut status: u64) -> u64 {
        loop {
            let result = match status {
                INTERPRET => self.until(self.pc),
                TAIL => {
                    let (start, kind) = (self.target, self.context.kind());
                    if let Some(function) = self.code().and_then(|code| code.later(start, kind)) {
                        status = self.enter_code(function);
                        continue;
                    }
                    self.until(start)
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

/// Loads from any address, into [`State::loaded`](crate::state::State::loaded): whether it may.
pub(super) extern "C" fn load(run: Handed, at: u64, size: u64) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    match run.load(at, size_of(size)) {
        Ok(value) => {
            run.loaded = value;
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
    run.look();
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

/// Runs the instruction at [`State::pc`](crate::state::State::pc) by the interpreter, with
/// registers in [`State::r`](crate::state::State::r): 0, [`FAULT`], [`TAIL`] or [`LEAVE`].
pub(super) extern "C" fn step(run: Handed) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    run.step_for_code()
}

/// Calls a function of the kernel that [`call::function`] gave, with arguments in
/// [`State::r`](crate::state::State::r), where its result is then: 0 or [`FAULT`].
pub(super) extern "C" fn helper(run: Handed, function: *const c_void) -> u64 {
    // SAFETY: only code calls this, with its own argument.
    let run = unsafe { run_of(run) };
    // SAFETY: code has the address of a function of this type here.
    let function = unsafe { std::mem::transmute::<*const c_void, call::Function>(function) };
    let result = function(run);
    run.look();
    match result {
        Ok(value) => {
            run.r[0] = value;
            0
        }
        Err(fault) => run.fail(fault),
    }
}

impl Run<'_> {
    fn step_for_code(&mut self) -> u64 {
        let pc = self.pc;
        self.r[10] = Self::frame_end(self.depth);
        let op = self.ops[pc as usize];
        let then = self.step(op);
        self.look();
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
                self.target = to;
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

/// Whether a function may move the packet, or change its length.
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
