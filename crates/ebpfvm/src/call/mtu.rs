// SPDX-License-Identifier: Apache-2.0

//! `bpf_check_mtu()` (`bpf_xdp_check_mtu()`, `bpf_skb_check_mtu()` of `net/core/filter.c`).

use super::Called;
use crate::context::Context;
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::run::Run;

const NAME: &str = "bpf_check_mtu";
/// `BPF_MTU_CHK_SEGS`
const SEGMENTS: u64 = 1;
/// `BPF_MTU_CHK_RET_*`
const SUCCESS: u64 = 0;
const FRAGMENTATION_NEEDED: u64 = 1;
const SEGMENTS_TOO_BIG: u64 = 2;

pub(super) fn check(run: &mut Run<'_>) -> Called {
    run.context_argument(NAME, 1)?;
    let (index, at) = (run.r[2] as u32, run.r[3]);
    let (difference, flags) = (run.r[4] as i32, run.r[5]);
    let wrong = FaultKind::Argument(NAME, 3);
    let given = run.memory(at, 4).and_then(|bytes| bytes.first_chunk()).ok_or(wrong)?;
    let given = u32::from_le_bytes(*given);
    let (own, known) = match &*run.context {
        Context::Xdp(xdp) => (xdp.ingress, 0),
        Context::Skb(skb) => (skb.ifindex, SEGMENTS),
        Context::Netfilter(_) => return Err(FaultKind::Unavailable(NAME)),
    };
    if flags & !known != 0 || flags & SEGMENTS != 0 && (difference != 0 || given != 0) {
        return Ok(Errno::INVAL.result());
    }
    let index = if index == 0 { own } else { index };
    let Some(device) = run.host.device(index) else { return Ok(Errno::NODEV.result()) };
    // All of them are numbers with a sign, which go round.
    let most = device.mtu.wrapping_add(device.header) as i32;
    let len = match given {
        0 => run.context.packet().len() as u32,
        given => given.wrapping_add(device.header),
    };
    let len = (len as i32).wrapping_add(difference);
    let result = match &*run.context {
        _ if len <= most => SUCCESS,
        Context::Skb(skb) if skb.gso_size != 0 => {
            // skb_gso_validate_network_len()
            let segment = skb.gso_headers.saturating_add(skb.gso_size);
            let large = flags & SEGMENTS != 0 && segment > device.mtu;
            if large { SEGMENTS_TOO_BIG } else { SUCCESS }
        }
        _ => FRAGMENTATION_NEEDED,
    };
    run.memory_mut(at, 4).ok_or(wrong)?.copy_from_slice(&device.mtu.to_le_bytes());
    Ok(result)
}
