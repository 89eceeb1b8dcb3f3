// SPDX-License-Identifier: Apache-2.0

//! Helpers of XDP programs, and redirection (`net/core/filter.c`).

use super::{Called, Copied};
use crate::context::{Context, Redirect, Xdp};
use crate::fault::FaultKind;
use crate::map::{Errno, MapKind};
use crate::run::Run;

/// Bytes at the beginning of a driver's page that frames leave alone (`struct xdp_frame`).
const KEPT: usize = 40;
/// The most metadata, bytes.
const METADATA: usize = 255;

/// `XDP_ABORTED`, `XDP_REDIRECT`.
const ABORTED: u64 = 0;
const REDIRECT: u64 = 4;
/// `TC_ACT_SHOT`, `TC_ACT_REDIRECT`.
const SHOT: u64 = 2;
const TC_REDIRECT: u64 = 7;

fn xdp<'a>(run: &'a mut Run<'_>, helper: &'static str) -> Result<&'a mut Xdp, FaultKind> {
    run.context_argument(helper, 1)?;
    match run.context {
        Context::Xdp(xdp) => Ok(xdp),
        _ => Err(FaultKind::Unavailable(helper)),
    }
}

/// What a helper that moves a boundary returns.
fn moved(done: Option<()>) -> Called {
    Ok(done.map_or(Errno::INVAL.result(), |()| 0))
}

pub(super) fn adjust_head(run: &mut Run<'_>) -> Called {
    let by = run.r[2] as i32;
    moved(xdp(run, "bpf_xdp_adjust_head")?.packet.adjust_head(by, KEPT))
}

pub(super) fn adjust_tail(run: &mut Run<'_>) -> Called {
    let by = run.r[2] as i32;
    moved(xdp(run, "bpf_xdp_adjust_tail")?.packet.adjust_tail(by))
}

pub(super) fn adjust_meta(run: &mut Run<'_>) -> Called {
    /// `EACCES`
    const ACCESS: Errno = Errno(13);
    let by = run.r[2] as i32;
    let packet = &mut xdp(run, "bpf_xdp_adjust_meta")?.packet;
    let Some(meta) = packet.adjust_meta(by, KEPT) else { return Ok(Errno::INVAL.result()) };
    let (_, data, _) = packet.bounds();
    if !(data - meta).is_multiple_of(4) || data - meta > METADATA {
        return Ok(ACCESS.result());
    }
    packet.set_meta(meta);
    Ok(0)
}

pub(super) fn buff_len(run: &mut Run<'_>) -> Called {
    Ok(xdp(run, "bpf_xdp_get_buff_len")?.packet.len() as u64)
}

/// Offset and length of an access, or the error that the helper returns.
fn range(run: &mut Run<'_>, helper: &'static str) -> Result<(usize, usize), FaultKind> {
    xdp(run, helper)?;
    let len = run.length(helper, 4)?;
    Ok((run.r[2] as u32 as usize, len))
}

/// What comes of a copy.
fn copied(done: Option<Copied>, helper: &'static str) -> Called {
    match done {
        Some(Copied::Whole) => Ok(0),
        Some(Copied::Short) => Ok(Errno::INVAL.result()),
        None => Err(FaultKind::Argument(helper, 3)),
    }
}

pub(super) fn load_bytes(run: &mut Run<'_>) -> Called {
    let (offset, len) = range(run, "bpf_xdp_load_bytes")?;
    if offset > 0xffff || len > 0xffff {
        return Ok(Errno::FAULT.result());
    }
    let done = run.copy_out(offset, run.r[3], len);
    copied(done, "bpf_xdp_load_bytes")
}

pub(super) fn store_bytes(run: &mut Run<'_>) -> Called {
    let (offset, len) = range(run, "bpf_xdp_store_bytes")?;
    if offset > 0xffff || len > 0xffff {
        return Ok(Errno::FAULT.result());
    }
    let done = run.copy_in(offset, run.r[3], len);
    copied(done, "bpf_xdp_store_bytes")
}

/// `bpf_redirect()` of XDP and of traffic control.
pub(super) fn redirect(run: &mut Run<'_>) -> Called {
    let (device, flags) = (run.r[1] as u32, run.r[2]);
    let to = Redirect { device, ingress: flags == 1, broadcast: None, exclude_ingress: false };
    match run.context {
        Context::Xdp(_) if flags != 0 => Ok(ABORTED),
        Context::Xdp(xdp) => {
            xdp.redirect = Some(to);
            Ok(REDIRECT)
        }
        Context::Skb(_) if flags > 1 => Ok(SHOT),
        Context::Skb(skb) => {
            skb.redirect = Some(to);
            Ok(TC_REDIRECT)
        }
        Context::Netfilter(_) => Err(FaultKind::Unavailable("bpf_redirect")),
    }
}

/// Flags of `bpf_redirect_map()`: what is returned if there is no device, to all devices, and not
/// to the one of arrival.
const ACTION: u64 = 3;
const BROADCAST: u64 = 8;
const EXCLUDE_INGRESS: u64 = 16;

pub(super) fn redirect_map(run: &mut Run<'_>) -> Called {
    const NAME: &str = "bpf_redirect_map";
    let wrong = FaultKind::Argument(NAME, 1);
    let number = run.map_number(run.r[1]).ok_or(wrong)?;
    let (index, flags) = (run.r[2], run.r[3]);
    let map = run.state.maps.get_mut(number).ok_or(wrong)?;
    if !matches!(map.spec().kind, MapKind::Devices | MapKind::DevicesByHash) {
        return Err(wrong);
    }
    let Context::Xdp(xdp) = &mut *run.context else { return Err(FaultKind::Unavailable(NAME)) };
    if flags & !(ACTION | BROADCAST | EXCLUDE_INGRESS) != 0 {
        return Ok(ABORTED);
    }
    // A key of four bytes; larger numbers are none.
    let key = (index as u32).to_le_bytes();
    let found = map.get(&key).and_then(|value| value.first_chunk()).map(|v| u32::from_le_bytes(*v));
    let broadcast = flags & BROADCAST != 0;
    if found.is_none() && !broadcast {
        return Ok(flags & ACTION);
    }
    xdp.redirect = Some(Redirect {
        device: if broadcast { 0 } else { found.unwrap_or(0) },
        ingress: false,
        broadcast: broadcast.then_some(number as u32),
        exclude_ingress: flags & EXCLUDE_INGRESS != 0,
    });
    Ok(REDIRECT)
}
