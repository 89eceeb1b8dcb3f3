// SPDX-License-Identifier: Apache-2.0

//! What operations do.
//!
//! One file per group of expressions. Each takes registers, packet and environment, and answers
//! with a [`Step`].

mod bitwise;
mod compare;
mod ct;
mod dup_fwd;
mod dynset;
mod extension;
mod exthdr;
mod fib;
mod hash;
mod inner;
mod lookup;
mod meta;
mod nat;
mod numgen;
mod osf;
mod payload;
mod payload_set;
mod queue;
mod registers;
mod reject;
mod rt;
mod socket;
mod stateful;
mod xfrm;

use penstock_packet::Packet;

use crate::Env;
use crate::env::Decision;
use crate::linked::LinkedVerdict;
use crate::op::Op;
use crate::operand::{CtKey, MetaKey};

pub use hash::{jhash, reciprocal_scale};
pub use lookup::found_at;
pub use registers::Registers;
pub use stateful::count;

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next operation.
    Next,
    /// The end of the rule (`NFT_BREAK`).
    Break,
    /// The rule's verdict.
    Verdict(LinkedVerdict),
    /// Dropped, with a word for traces.
    Drop,
    /// The packet is gone.
    Stolen,
}

impl From<Decision> for Step {
    #[inline]
    fn from(decision: Decision) -> Step {
        match decision {
            Decision::Continue => Step::Next,
            Decision::Break => Step::Break,
            Decision::Accept => Step::Verdict(LinkedVerdict::Accept),
            Decision::Drop => Step::Verdict(LinkedVerdict::Drop),
            Decision::Stolen => Step::Stolen,
        }
    }
}

impl Step {
    #[inline(always)]
    fn unless(breaks: bool) -> Step {
        if breaks { Step::Break } else { Step::Next }
    }

    #[inline(always)]
    fn found(value: Option<()>) -> Step {
        Step::unless(value.is_none())
    }
}

/// Loads metadata into the first register, and nothing else; whether there is such.
#[inline]
pub(crate) fn load_meta<E: Env>(
    key: MetaKey,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> bool {
    meta::get(key, 0, registers, packet, env) == Step::Next
}

/// Loads the state of the packet's connection, like [`load_meta`].
pub(crate) fn load_ct_state(registers: &mut Registers, packet: &Packet) -> bool {
    ct::state(0, registers, packet) == Step::Next
}

/// Loads the mark of the packet's connection, like [`load_meta`].
pub(crate) fn load_ct_mark<E: Env>(
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> bool {
    ct::get(CtKey::Mark, None, 0, registers, packet, env) == Step::Next
}

/// Runs one operation. A table with a row for each operation: one match, so that the interpreter
/// dispatches once.
#[inline(always)]
pub fn execute<E: Env>(
    op: &Op,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    match op {
        Op::Immediate { dst, len, data } => {
            match len {
                4 => registers
                    .set_word(*dst, u32::from_ne_bytes([data[0], data[1], data[2], data[3]])),
                _ => registers.set(*dst, data.get(..usize::from(*len)).unwrap_or(data)),
            }
            Step::Next
        }
        Op::Verdict(verdict) => Step::Verdict(*verdict),
        Op::LoadLink { dst, len, offset } => {
            payload::load_link(packet, *offset, *len, *dst, registers)
        }
        Op::LoadNetwork { dst, len, offset } => {
            Step::found(payload::load(packet.network(), *offset, *len, *dst, registers))
        }
        Op::LoadTransport { dst, len, offset } => {
            match packet.transport_bytes_for_load(*len, *offset) {
                Some(bytes) => Step::found(payload::load(bytes, *offset, *len, *dst, registers)),
                None => Step::Break,
            }
        }
        Op::LoadInner { dst, len, offset } => {
            payload::load_inner(packet, *offset, *len, *dst, registers)
        }
        Op::InTunnel(load) => inner::load(load, packet, registers),
        Op::PayloadSet { .. } => payload_set::write(op, registers, packet),
        Op::Meta { key, dst } => meta::get(*key, *dst, registers, packet, env),
        Op::MetaSet { key, src } => meta::set(*key, *src, registers, packet),
        Op::CmpWord { src, equal, mask, data } => {
            Step::unless((registers.word(*src) & mask == *data) != *equal)
        }
        Op::Cmp { op, src, len, data } => compare::cmp(*op, registers.bytes(*src, *len), data),
        Op::Range { inside, src, len, ends } => {
            compare::range(*inside, registers.bytes(*src, *len), ends)
        }
        Op::MaskXorWord { src, dst, mask, xor } => {
            registers.set_word(*dst, registers.word(*src) & mask ^ xor);
            Step::Next
        }
        Op::MaskXor { src, dst, words, mask_xor } => {
            bitwise::mask_xor(*src, *dst, *words, mask_xor, registers)
        }
        Op::Combine { op, src, other, dst, words } => {
            bitwise::combine(*op, *src, *other, *dst, *words, registers)
        }
        Op::Lshift { src, dst, words, bits } => {
            bitwise::lshift(*src, *dst, *words, *bits, registers)
        }
        Op::Rshift { src, dst, words, bits } => {
            bitwise::rshift(*src, *dst, *words, *bits, registers)
        }
        Op::Byteorder { src, dst, len, size } => {
            bitwise::byteorder(*src, *dst, *len, *size, registers)
        }
        Op::Lookup { .. } => lookup::lookup(op, registers, packet, env),
        Op::LookupDynamic { .. } => dynset::lookup(op, registers, packet, env),
        Op::SetUpdate(update) => dynset::update(update, registers, packet, env),
        Op::ObjectMap { src, key_len, set } => {
            lookup::object(set, *src, *key_len, registers, packet, env)
        }
        Op::Counter(state) => stateful::counter(state, packet, env),
        Op::Stateful(stateful) => stateful::run(stateful, packet, env),
        Op::Log(log) => {
            env.log(packet, log);
            Step::Next
        }
        Op::Exthdr { op, kind, offset, len, present, dst } => {
            let wanted = exthdr::Wanted { kind: *kind, offset: *offset, len: *len };
            exthdr::load(*op, wanted, *present, *dst, registers, packet)
        }
        Op::TcpOptionSet { kind, offset, len, src } => {
            let wanted = exthdr::Wanted { kind: *kind, offset: *offset, len: *len };
            exthdr::set(wanted, registers.bytes(*src, *len), packet)
        }
        Op::TcpOptionReset { kind } => exthdr::reset(*kind, packet),
        Op::NumgenInc { modulus, offset, dst, state } => {
            numgen::increment(*modulus, *offset, *dst, state, registers)
        }
        Op::NumgenRandom { modulus, offset, dst } => {
            numgen::random(*modulus, *offset, *dst, env.random(), registers)
        }
        Op::Jhash { src, len, dst, seed, modulus, offset } => {
            let h = hash::jhash(registers.bytes(*src, *len), *seed);
            registers.set_word(*dst, hash::reciprocal_scale(h, *modulus).wrapping_add(*offset));
            Step::Next
        }
        Op::Symhash { dst, modulus, offset } => {
            let h = hash::symmetric(packet);
            registers.set_word(*dst, hash::reciprocal_scale(h, *modulus).wrapping_add(*offset));
            Step::Next
        }
        Op::Fib { result, flags, dst } => fib::eval(*result, *flags, *dst, registers, packet, env),
        Op::Rt { key, dst } => rt::get(*key, *dst, registers, packet, env),
        Op::Reject(reject) => reject::eval(reject, packet, env),
        Op::Dup { addr, v6, dev } => dup_fwd::dup(*addr, *v6, *dev, registers, packet, env),
        Op::Fwd { dev, addr, v6 } => dup_fwd::fwd(*dev, *addr, *v6, registers, packet, env),
        Op::CtState { dst } => ct::state(*dst, registers, packet),
        Op::Ct { key, dir, dst } => ct::get(*key, *dir, *dst, registers, packet, env),
        Op::CtSet { key, src, len } => ct::set(*key, *src, *len, registers, packet, env),
        Op::CtSetZone { dir, src } => ct::set_zone(*dir, *src, registers, packet, env),
        Op::Notrack => ct::notrack(packet),
        Op::Nat(nat) => nat::eval(nat, registers, packet, env),
        Op::Queue(queue) => Step::Verdict(queue::eval(queue, registers, packet, env)),
        Op::Synproxy(offer) => stateful::synproxy(offer, packet, env),
        Op::FlowOffload(flowtable) => env.flow_offload(packet, *flowtable).into(),
        Op::Tproxy { family, addr, port } => {
            socket::tproxy(*family, *addr, *port, registers, packet, env)
        }
        Op::Socket { key, level, dst } => socket::load(*key, *level, *dst, registers, packet, env),
        Op::Osf { ttl, version, dst, added } => {
            osf::eval((*ttl, added), *version, *dst, registers, packet, env)
        }
        Op::Xfrm { key, out, spnum, dst } => {
            xfrm::get(*key, env.ipsec(packet, *out, *spnum), *dst, registers)
        }
        Op::Tunnel { key, dst } => xfrm::tunnel(*key, *dst, registers, packet, env),
        Op::Extension(extension) => extension::run(extension, packet, env),
    }
}
