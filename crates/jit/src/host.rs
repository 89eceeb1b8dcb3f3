// SPDX-License-Identifier: Apache-2.0

//! What compiled code calls: the interpreter's functions, made for one kind of outside.

use std::ffi::c_void;
use std::marker::PhantomData;

use penstock_packet::Packet;
use penstock_program::classify::Candidate;
use penstock_program::image::{ChainIndex, Image, RuleIndex};
use penstock_program::interp::engine::{
    Position, Registers, end_of_base, execute, found_at, resume, resume_found,
};
use penstock_program::op::Op;
use penstock_program::{Env, run};

use crate::outcome::{self, step};

/// The outside of hook lists: what programs ask ([`Env`]), and which chain it is that asks.
pub trait Host: Env {
    /// What is asked from now on, entry `entry` of the list asks. With `begins` it has just begun
    /// to be traced.
    fn enter(&mut self, entry: usize, begins: bool);

    /// What the lookup of a chain has found for a packet of a burst
    /// ([`find`](penstock_program::interp::engine::find)), if that was asked beforehand and the
    /// packet has not changed since.
    fn found(&mut self, chain: ChainIndex, packet: &Packet) -> Option<Option<Candidate>> {
        let _ = (chain, packet);
        None
    }

    /// Runs an entry that is no chain ([`Entry::Stage`](crate::Entry::Stage)). With 0 the packet
    /// continues; everything else ends the list and is returned in
    /// [`Decision::Stage`](crate::Decision::Stage).
    fn stage(&mut self, entry: usize, packet: &mut Packet) -> u32;
}

/// Addresses of the functions for one kind of [`Host`].
///
/// Equal ones have equal addresses: code that was compiled with one may be run with the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helpers {
    /// An operation.
    pub(crate) any: Address,
    /// The frequent ones, by themselves.
    pub(crate) lookup: Address,
    pub(crate) lookup_dynamic: Address,
    /// What follows a lookup of which is known where the key is.
    pub(crate) found: Address,
    pub(crate) stateful: Address,
    /// A base chain.
    pub(crate) interpret: Address,
    /// The rest of a chain.
    pub(crate) resume: Address,
    /// An entry that is no chain.
    pub(crate) stage: Address,
}

/// Where a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(*const ());

// SAFETY: it is the address of a function and nothing is read or written through it.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// A call of [`tick`](crate::profile::tick), which needs no host.
    pub(crate) fn of_tick() -> Self {
        Address(crate::profile::tick as *const ())
    }

    /// A call of a set search, which needs no host.
    pub(crate) fn of_search(function: *const ()) -> Self {
        Address(function)
    }

    pub(crate) fn number(self) -> u64 {
        self.0.addr() as u64
    }
}

/// Makes the table a constant of each kind of host, so that all code shares one in memory.
struct TableOf<H>(PhantomData<fn(&mut H)>);

impl<H: Host> TableOf<H> {
    const TABLE: Helpers = Helpers {
        any: Address(any::<H> as *const ()),
        lookup: Address(lookup::<H> as *const ()),
        lookup_dynamic: Address(lookup_dynamic::<H> as *const ()),
        found: Address(found::<H> as *const ()),
        stateful: Address(stateful::<H> as *const ()),
        interpret: Address(interpret::<H> as *const ()),
        resume: Address(resume_chain::<H> as *const ()),
        stage: Address(stage::<H> as *const ()),
    };
}

impl Helpers {
    /// Those for `H`.
    #[inline]
    pub fn of<H: Host>() -> &'static Self {
        &TableOf::<H>::TABLE
    }
}

/// What every function here gets from compiled code.
///
/// # Invariant
/// Compiled code is called by [`Bound`](crate::Bound) only, which passes it pointers made from
/// `&mut Packet` and `&mut H` of the very `H` that its [`Helpers`] were made for. The code passes
/// them on as they are, never two calls at a time, and does not use the packet itself while a call
/// lasts. Operations and images are those of the generation that the code holds on to; registers
/// are 64 bytes at a multiple of 16 in its own stack frame.
struct Call<'a, H> {
    packet: &'a mut Packet,
    host: &'a mut H,
}

impl<H: Host> Call<'_, H> {
    /// # Safety
    /// The invariant above.
    #[inline(always)]
    unsafe fn new(packet: *mut Packet, host: *mut c_void) -> Self {
        // SAFETY: the caller vouches for the invariant of this type.
        unsafe { Call { packet: &mut *packet, host: &mut *host.cast::<H>() } }
    }
}

extern "C" fn any<H: Host>(
    packet: *mut Packet,
    host: *mut c_void,
    op: *const Op,
    registers: *mut Registers,
    entry: u64,
) -> u64 {
    // SAFETY: called by compiled code, see `Call`.
    let (call, op, registers) = unsafe { (Call::<H>::new(packet, host), &*op, &mut *registers) };
    call.host.enter(entry as usize, false);
    step::pack(execute(op, registers, call.packet, call.host))
}

/// As [`any`], for one kind of operation: nothing is left to be chosen when it runs.
macro_rules! single {
    ($name:ident, $kind:pat) => {
        extern "C" fn $name<H: Host>(
            packet: *mut Packet,
            host: *mut c_void,
            op: *const Op,
            registers: *mut Registers,
            entry: u64,
        ) -> u64 {
            let (call, op, registers) =
                // SAFETY: called by compiled code, see `Call`.
                unsafe { (Call::<H>::new(packet, host), &*op, &mut *registers) };
            call.host.enter(entry as usize, false);
            match op {
                $kind => step::pack(execute(op, registers, call.packet, call.host)),
                _ => step::BREAK,
            }
        }
    };
}

single!(lookup, Op::Lookup { .. });
single!(lookup_dynamic, Op::LookupDynamic { .. });
single!(stateful, Op::Stateful(_));

extern "C" fn found<H: Host>(
    packet: *mut Packet,
    host: *mut c_void,
    op: *const Op,
    registers: *mut Registers,
    entry: u64,
    place: u64,
) -> u64 {
    // SAFETY: called by compiled code, see `Call`.
    let (call, op, registers) = unsafe { (Call::<H>::new(packet, host), &*op, &mut *registers) };
    call.host.enter(entry as usize, false);
    step::pack(found_at(op, place, registers, call.packet, call.host))
}

extern "C" fn interpret<H: Host>(
    packet: *mut Packet,
    host: *mut c_void,
    image: *const Image,
    chain: u64,
    entry: u64,
) -> u64 {
    // SAFETY: called by compiled code, see `Call`.
    let (call, image) = unsafe { (Call::<H>::new(packet, host), &*image) };
    call.host.enter(entry as usize, true);
    outcome::pack(run(image, ChainIndex(chain as u32), call.packet, call.host))
}

/// The numbers that say where to continue.
#[derive(Clone, Copy)]
pub(crate) struct ResumeAt {
    pub(crate) chain: ChainIndex,
    pub(crate) rule: RuleIndex,
    /// Operations of the rule that have run.
    pub(crate) skip: u16,
    /// The rule has just set `meta nftrace`.
    pub(crate) begins: bool,
    /// The chain is already at its end.
    pub(crate) over: bool,
    /// The base chain that ends where this chain ends.
    pub(crate) base: Option<ChainIndex>,
}

impl ResumeAt {
    const BEGINS: u64 = 1 << 16;
    const OVER: u64 = 1 << 17;
    const BASE: u64 = 1 << 18;

    pub(crate) fn pack(&self) -> [u64; 2] {
        let flag = |is, flag| if is { flag } else { 0 };
        let base = self.base.map_or(0, |base| Self::BASE | u64::from(base.0) << 32);
        let flags = flag(self.begins, Self::BEGINS) | flag(self.over, Self::OVER) | base;
        [u64::from(self.chain.0) | u64::from(self.rule.0) << 32, u64::from(self.skip) | flags]
    }

    /// Whether it is the whole of a chain that is run by the interpreter for its lookup.
    fn is_beginning(&self, image: &Image) -> bool {
        let first = image.chain(self.chain).map(|chain| chain.first);
        !self.begins && !self.over && self.skip == 0 && first == Some(self.rule.0)
    }

    fn position(&self) -> Position {
        Position { chain: self.chain, rule: self.rule, skip: self.skip.into() }
    }

    fn unpack([place, rest]: [u64; 2]) -> Self {
        ResumeAt {
            chain: ChainIndex(place as u32),
            rule: RuleIndex((place >> 32) as u32),
            skip: rest as u16,
            begins: rest & Self::BEGINS != 0,
            over: rest & Self::OVER != 0,
            base: (rest & Self::BASE != 0).then_some(ChainIndex((rest >> 32) as u32)),
        }
    }
}

/// Runs the rest of a chain by the interpreter. Compiled code calls it, with a parameter for each
/// value: a struct of them would have to be written to memory first.
extern "C" fn resume_chain<H: Host>(
    packet: *mut Packet,
    host: *mut c_void,
    image: *const Image,
    place: u64,
    rest: u64,
    registers: *mut Registers,
    entry: u64,
) -> u64 {
    // SAFETY: called by compiled code, see `Call`.
    let (call, image, registers) =
        unsafe { (Call::<H>::new(packet, host), &*image, &mut *registers) };
    let at = ResumeAt::unpack([place, rest]);
    call.host.enter(entry as usize, at.begins);
    let found = if at.is_beginning(image) { call.host.found(at.chain, call.packet) } else { None };
    let outcome = match found {
        _ if at.over => None,
        Some(found) => resume_found(image, at.chain, found, registers, call.packet, call.host),
        None => resume(image, at.position(), registers, call.packet, call.host),
    };
    if let Some(outcome) = outcome {
        return outcome::pack(outcome);
    }
    if let Some(base) = at.base {
        end_of_base(image, base, call.packet, call.host);
    }
    outcome::ENDED
}

extern "C" fn stage<H: Host>(packet: *mut Packet, host: *mut c_void, entry: u64) -> u64 {
    // SAFETY: called by compiled code, see `Call`.
    let call = unsafe { Call::<H>::new(packet, host) };
    u64::from(call.host.stage(entry as usize, call.packet))
}
