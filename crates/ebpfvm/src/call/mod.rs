// SPDX-License-Identifier: Apache-2.0

//! What the functions of the kernel do when a program calls them. Arguments are R1 to R5. A
//! function that the kernel's verifier would not let a program call in this way ends the program.

mod checksum;
mod connection;
mod dynptr;
mod fib;
mod maps;
mod mtu;
mod skb;
mod trace;
mod xdp;

use crate::fault::FaultKind;
use crate::helper::Helper;
use crate::map::Errno;
use crate::run::Run;
use crate::space::{PACKET, split};

pub(crate) use skb::load as load_packet;

/// R0 afterwards.
pub(crate) type Called = Result<u64, FaultKind>;

/// What most helpers return.
fn status(result: Result<(), Errno>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(errno) => errno.result(),
    }
}

/// What a function of the kernel does.
pub(crate) type Function = fn(&mut Run<'_>) -> Called;

/// What a function does, except those that call functions of the program or continue in another
/// one.
pub(crate) fn function(helper: Helper) -> Function {
    match helper {
        Helper::MapLookup => maps::lookup,
        Helper::MapUpdate => maps::update,
        Helper::MapDelete => maps::delete,
        Helper::MapPush => maps::push,
        Helper::MapPop => |run| maps::pop(run, "bpf_map_pop_elem", false),
        Helper::MapPeek => |run| maps::pop(run, "bpf_map_peek_elem", true),
        Helper::RingOutput => maps::ring_output,
        Helper::RingReserve => maps::ring_reserve,
        Helper::RingSubmit => |run| maps::ring_commit(run, "bpf_ringbuf_submit", false),
        Helper::RingDiscard => |run| maps::ring_commit(run, "bpf_ringbuf_discard", true),
        Helper::RingQuery => maps::ring_query,
        Helper::KtimeGetNs | Helper::KtimeGetBootNs | Helper::KtimeGetCoarseNs => {
            |run| Ok(run.host.now())
        }
        Helper::Prandom => |run| Ok(u64::from(run.host.random())),
        Helper::Processor | Helper::NumaNode => |_| Ok(0),
        Helper::RcuReadLock | Helper::RcuReadUnlock => |_| Ok(0),
        Helper::TracePrintk => trace::printk,
        Helper::CsumDiff => checksum::diff,
        Helper::L3CsumReplace => checksum::replace_l3,
        Helper::L4CsumReplace => checksum::replace_l4,
        Helper::SkbLoadBytes => skb::load_bytes,
        Helper::SkbStoreBytes => skb::store_bytes,
        Helper::SkbVlanPush => skb::vlan_push,
        Helper::SkbVlanPop => skb::vlan_pop,
        Helper::SkbChangeTail => skb::change_tail,
        Helper::SkbChangeHead => skb::change_head,
        Helper::SkbPullData => skb::pull_data,
        Helper::SetHashInvalid => skb::set_hash_invalid,
        Helper::Redirect => xdp::redirect,
        Helper::RedirectMap => xdp::redirect_map,
        Helper::XdpCtLookup => |run| connection::lookup(run, "bpf_xdp_ct_lookup"),
        Helper::SkbCtLookup => |run| connection::lookup(run, "bpf_skb_ct_lookup"),
        Helper::CtRelease => connection::release,
        Helper::FibLookup => fib::lookup,
        Helper::CheckMtu => mtu::check,
        Helper::XdpAdjustHead => xdp::adjust_head,
        Helper::XdpAdjustTail => xdp::adjust_tail,
        Helper::XdpAdjustMeta => xdp::adjust_meta,
        Helper::XdpBuffLen => xdp::buff_len,
        Helper::XdpLoadBytes => xdp::load_bytes,
        Helper::XdpStoreBytes => xdp::store_bytes,
        Helper::DynptrFromMem => dynptr::from_mem,
        Helper::DynptrFromSkb => |run| dynptr::from_packet(run, "bpf_dynptr_from_skb"),
        Helper::DynptrFromXdp => |run| dynptr::from_packet(run, "bpf_dynptr_from_xdp"),
        Helper::DynptrRead => dynptr::read,
        Helper::DynptrWrite => dynptr::write,
        Helper::DynptrData => dynptr::data,
        Helper::DynptrSlice => |run| dynptr::slice(run, false),
        Helper::DynptrSliceRdwr => |run| dynptr::slice(run, true),
        Helper::DynptrAdjust => dynptr::adjust,
        Helper::DynptrIsNull => dynptr::is_null,
        Helper::DynptrIsRdonly => dynptr::is_rdonly,
        Helper::DynptrSize => dynptr::size,
        Helper::DynptrClone => dynptr::clone,
        // `Missing` stands where an object uses a field or function that is not there.
        Helper::Missing => |_| Err(FaultKind::Unavailable(Helper::Missing.name())),
        Helper::TailCall => |_| Err(FaultKind::Unavailable(Helper::TailCall.name())),
        Helper::Loop => |_| Err(FaultKind::Unavailable(Helper::Loop.name())),
        Helper::ForEachMapElem => |_| Err(FaultKind::Unavailable(Helper::ForEachMapElem.name())),
    }
}

impl Run<'_> {
    /// Checks that an argument is the context.
    fn context_argument(&self, helper: &'static str, number: u8) -> Result<(), FaultKind> {
        let value = self.r[usize::from(number & 15)];
        let wrong = FaultKind::Argument(helper, number);
        if self.context.is_packet_object(value) { Ok(()) } else { Err(wrong) }
    }

    /// The length that an argument says, in bytes, which is paid for.
    fn length(&mut self, helper: &'static str, number: u8) -> Result<usize, FaultKind> {
        let value = self.r[usize::from(number & 15)];
        let wrong = FaultKind::Argument(helper, number);
        let length = usize::try_from(value).ok().filter(|n| *n <= 1 << 29).ok_or(wrong)?;
        self.pay(length as u64 / 16)?;
        Ok(length)
    }

    /// Copies bytes from the packet, from where the program sees it on, to memory.
    fn copy_out(&mut self, from: usize, to: u64, len: usize) -> Option<Copied> {
        match self.context.packet().bytes().get(from..).is_some_and(|p| p.len() >= len) {
            true => {}
            false => return self.memory_mut(to, len).map(|_| Copied::Short),
        }
        if split(to).0 != PACKET {
            let bytes = self.context.packet().bytes().get(from..from + len)?;
            self.state.memory_mut(to, len)?.copy_from_slice(bytes);
            return Some(Copied::Whole);
        }
        // The target is checked first, then bytes go in pieces, without memory of their own.
        self.memory_mut(to, len)?;
        let mut piece = [0; 64];
        for at in (0..len).step_by(piece.len()) {
            let n = piece.len().min(len - at);
            let piece = piece.get_mut(..n)?;
            piece.copy_from_slice(self.context.packet().bytes().get(from + at..from + at + n)?);
            self.memory_mut(to + at as u64, n)?.copy_from_slice(piece);
        }
        Some(Copied::Whole)
    }

    /// Copies bytes from memory into the packet.
    fn copy_in(&mut self, to: usize, from: u64, len: usize) -> Option<Copied> {
        self.memory(from, len)?;
        if self.context.packet().bytes().get(to..).is_none_or(|p| p.len() < len) {
            return Some(Copied::Short);
        }
        let mut piece = [0; 64];
        for at in (0..len).step_by(piece.len()) {
            let n = piece.len().min(len - at);
            let piece = piece.get_mut(..n)?;
            piece.copy_from_slice(self.memory(from + at as u64, n)?);
            let packet = self.context.packet_mut().bytes_mut();
            packet.get_mut(to + at..to + at + n)?.copy_from_slice(piece);
        }
        Some(Copied::Whole)
    }

    /// Copies between two places of memory, which may overlap.
    fn copy_within(&mut self, to: u64, from: u64, len: usize) -> Option<()> {
        self.memory(from, len)?;
        self.memory_mut(to, len)?;
        let mut piece = [0; 64];
        let step = piece.len();
        let pieces = len.div_ceil(step);
        for number in 0..pieces {
            // From the end if the target is later.
            let at = if to > from { pieces - 1 - number } else { number } * step;
            let n = step.min(len - at);
            let piece = piece.get_mut(..n)?;
            piece.copy_from_slice(self.memory(from + at as u64, n)?);
            self.memory_mut(to + at as u64, n)?.copy_from_slice(piece);
        }
        Some(())
    }
}

/// Whether the packet was long enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Whole,
    Short,
}
