// SPDX-License-Identifier: Apache-2.0

//! Helpers of traffic control and filters of sockets (`net/core/filter.c`, `net/core/skbuff.c`).

use super::{Called, Copied, status};
use crate::context::{Context, Skb, link_protocol};
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::packet::ETHERNET;
use crate::run::Run;

fn skb<'a>(run: &'a mut Run<'_>, helper: &'static str) -> Result<&'a mut Skb, FaultKind> {
    run.context_argument(helper, 1)?;
    match run.context {
        Context::Skb(skb) => Ok(skb),
        _ => Err(FaultKind::Unavailable(helper)),
    }
}

pub(super) fn load_bytes(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_skb_load_bytes";
    skb(run, NAME)?;
    let len = run.length(NAME, 4)?;
    let (offset, to) = (run.r[2] as u32, run.r[3]);
    let from = if offset > i32::MAX as u32 { usize::MAX } else { offset as usize };
    match run.copy_out(from, to, len) {
        Some(Copied::Whole) => Ok(0),
        Some(Copied::Short) => {
            if let Some(place) = run.memory_mut(to, len) {
                place.fill(0);
            }
            Ok(Errno::FAULT.result())
        }
        None => Err(FaultKind::Argument(NAME, 3)),
    }
}

pub(super) fn store_bytes(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_skb_store_bytes";
    /// `BPF_F_RECOMPUTE_CSUM`, `BPF_F_INVALIDATE_HASH`.
    const KNOWN: u64 = 3;
    const INVALIDATE_HASH: u64 = 2;
    skb(run, NAME)?;
    let len = run.length(NAME, 4)?;
    let (offset, from, flags) = (run.r[2] as u32, run.r[3], run.r[5]);
    if flags & !KNOWN != 0 {
        return Ok(Errno::INVAL.result());
    }
    if offset > i32::MAX as u32 {
        return Ok(Errno::FAULT.result());
    }
    match run.copy_in(offset as usize, from, len) {
        Some(Copied::Whole) => {}
        Some(Copied::Short) => return Ok(Errno::FAULT.result()),
        None => return Err(FaultKind::Argument(NAME, 3)),
    }
    if flags & INVALIDATE_HASH != 0 {
        skb(run, NAME)?.hash = 0;
    }
    Ok(0)
}

pub(super) fn set_hash_invalid(run: &mut Run<'_>) -> Called {
    skb(run, "bpf_set_hash_invalid")?.hash = 0;
    Ok(0)
}

/// All bytes of a packet are at hand; more than it has cannot be.
pub(super) fn pull_data(run: &mut Run<'_>) -> Called {
    let len = run.r[2] as u32 as usize;
    let has = skb(run, "bpf_skb_pull_data")?.packet.len();
    Ok(if len <= has { 0 } else { Errno::NOMEM.result() })
}

/// The longest packet, for a helper that makes it longer (`__bpf_skb_max_len()`).
fn longest(skb: &Skb) -> usize {
    match skb.mtu {
        0 => 1 << 16,
        mtu => mtu as usize + ETHERNET,
    }
}

pub(super) fn change_tail(run: &mut Run<'_>) -> Called {
    let (len, flags) = (run.r[2] as u32 as usize, run.r[3]);
    let skb = skb(run, "bpf_skb_change_tail")?;
    if flags != 0 || len > longest(skb) || len < ETHERNET {
        return Ok(Errno::INVAL.result());
    }
    Ok(status(skb.packet.set_len(len).ok_or(Errno::NOMEM)))
}

pub(super) fn change_head(run: &mut Run<'_>) -> Called {
    let (by, flags) = (run.r[2] as u32 as usize, run.r[3]);
    let skb = skb(run, "bpf_skb_change_head")?;
    if flags != 0 || skb.packet.len() + by > longest(skb) {
        return Ok(Errno::INVAL.result());
    }
    Ok(status(skb.packet.insert(0, by).ok_or(Errno::NOMEM)))
}

/// Protocols of tags, as numbers in the order of the network.
const Q: u16 = 0x8100_u16.to_be();
const AD: u16 = 0x88a8_u16.to_be();

/// Where the tag is in a frame, and its bytes.
const TAG_AT: usize = 12;
const TAG: usize = 4;

pub(super) fn vlan_push(run: &mut Run<'_>) -> Called {
    let (protocol, tci) = (run.r[2] as u16, run.r[3] as u16);
    let skb = skb(run, "bpf_skb_vlan_push")?;
    let protocol = if protocol == AD { AD } else { Q };
    if let Some((old, of)) = skb.vlan {
        // The tag that it has apart goes into the frame.
        if skb.packet.insert(TAG_AT, TAG).is_none() {
            return Ok(Errno::NOMEM.result());
        }
        if let Some(tag) = skb.packet.bytes_mut().get_mut(TAG_AT..TAG_AT + TAG) {
            let [a, b] = of.to_ne_bytes();
            let [c, d] = old.to_be_bytes();
            tag.copy_from_slice(&[a, b, c, d]);
        }
        skb.protocol = u32::from(of);
    }
    skb.vlan = Some((tci, protocol));
    Ok(0)
}

/// Takes a tag out of the frame: its value.
fn untag(skb: &mut Skb) -> Option<u16> {
    let bytes = skb.packet.bytes();
    let tci = u16::from_be_bytes(*bytes.get(TAG_AT + 2..)?.first_chunk()?);
    let protocol = link_protocol(bytes.get(TAG_AT + TAG..)?)?;
    skb.packet.remove(TAG_AT, TAG)?;
    skb.protocol = u32::from(protocol);
    Some(tci)
}

pub(super) fn vlan_pop(run: &mut Run<'_>) -> Called {
    let skb = skb(run, "bpf_skb_vlan_pop")?;
    let is_tag = |skb: &Skb| skb.protocol == u32::from(Q) || skb.protocol == u32::from(AD);
    if skb.vlan.take().is_none() {
        if !is_tag(skb) {
            return Ok(0);
        }
        if untag(skb).is_none() {
            return Ok(Errno::NOMEM.result());
        }
    }
    if is_tag(skb) {
        let protocol = skb.protocol as u16;
        match untag(skb) {
            Some(tci) => skb.vlan = Some((tci, protocol)),
            None => return Ok(Errno::NOMEM.result()),
        }
    }
    Ok(0)
}

/// `LD_ABS` and `LD_IND`: bytes of a packet in the order of the network, at an offset from where
/// the program sees it, or at a negative one from another header. `None`: they are not there, and
/// the program ends with 0.
pub(crate) fn load(run: &Run<'_>, offset: i32, size: usize) -> Result<Option<u64>, FaultKind> {
    /// `SKF_NET_OFF`, `SKF_LL_OFF`.
    const NETWORK: i32 = -0x10_0000;
    const LINK: i32 = -0x20_0000;
    let Context::Skb(skb) = &*run.context else { return Err(FaultKind::NoPacket) };
    let bytes = skb.packet.bytes();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let get = |bytes: &[u8], at: i64| {
        let at = usize::try_from(at).ok()?;
        bytes.get(at..).and_then(|b| b.get(..size)).map(number)
    };
    let network = if skb.socket { 0 } else { ETHERNET as i64 };
    let at = i64::from(offset);
    Ok(match offset {
        0.. => get(bytes, at),
        NETWORK..0 => get(bytes, network + at - i64::from(NETWORK)),
        LINK..NETWORK if skb.socket => {
            // The link header, then the packet.
            let at = usize::try_from(at - i64::from(LINK)).unwrap_or(usize::MAX);
            let mut value = 0;
            for place in at..at.saturating_add(size) {
                let byte = match place.checked_sub(skb.link.len()) {
                    Some(place) => bytes.get(place),
                    None => skb.link.get(place),
                };
                let Some(byte) = byte else { return Ok(None) };
                value = value << 8 | u64::from(*byte);
            }
            Some(value)
        }
        LINK..NETWORK => get(bytes, at - i64::from(LINK)),
        _ => None,
    })
}
