// SPDX-License-Identifier: Apache-2.0

//! What is told of a connection (`ctnetlink_fill_info()`, `ctnetlink_conntrack_event()`).

use penstock_conntrack::{Flow, ProtocolInfo, SeqAdjust, event, status};

use super::tuple;
use crate::message::{NESTED, Writer};
use crate::uapi::ctnetlink::*;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Whole seconds of some nanoseconds.
fn seconds(ns: u64) -> u32 {
    u32::try_from(ns / SECOND).unwrap_or(u32::MAX)
}

/// How much is told of a protocol's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    All,
    /// What it was when the connection ended.
    State,
}

fn write_protocol(to: &mut Writer, info: &ProtocolInfo, told: Told) {
    let all = told == Told::All;
    let mut nest = |kind: u16, write: &dyn Fn(&mut Writer)| {
        to.nest(CTA_PROTOINFO | NESTED, |to| to.nest(kind | NESTED, |to| write(to)));
    };
    match *info {
        ProtocolInfo::None => {}
        ProtocolInfo::Tcp { state, scales, flags } => nest(CTA_PROTOINFO_TCP, &|to| {
            to.u8(CTA_PROTOINFO_TCP_STATE, state);
            if all {
                to.u8(CTA_PROTOINFO_TCP_WSCALE_ORIGINAL, scales[0]);
                to.u8(CTA_PROTOINFO_TCP_WSCALE_REPLY, scales[1]);
                // Flags, and a mask of none.
                to.attribute(CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, &[flags[0], 0]);
                to.attribute(CTA_PROTOINFO_TCP_FLAGS_REPLY, &[flags[1], 0]);
            }
        }),
        ProtocolInfo::Sctp { state, tags } => nest(CTA_PROTOINFO_SCTP, &|to| {
            to.u8(CTA_PROTOINFO_SCTP_STATE, state);
            if all {
                to.be32(CTA_PROTOINFO_SCTP_VTAG_ORIGINAL, tags[0]);
                to.be32(CTA_PROTOINFO_SCTP_VTAG_REPLY, tags[1]);
            }
        }),
        ProtocolInfo::Dccp { state, role, handshake } => nest(CTA_PROTOINFO_DCCP, &|to| {
            to.u8(CTA_PROTOINFO_DCCP_STATE, state);
            if all {
                to.u8(CTA_PROTOINFO_DCCP_ROLE, role);
                to.be64(CTA_PROTOINFO_DCCP_HANDSHAKE_SEQ, handshake);
            }
        }),
    }
}

fn write_counters(to: &mut Writer, flow: &Flow) {
    let Some(counters) = &flow.counters else { return };
    for (kind, counter) in [CTA_COUNTERS_ORIG, CTA_COUNTERS_REPLY].into_iter().zip(counters) {
        to.nest(kind | NESTED, |to| {
            to.be64(CTA_COUNTERS_PACKETS, counter.packets);
            to.be64(CTA_COUNTERS_BYTES, counter.bytes);
        });
    }
}

fn write_times(to: &mut Writer, flow: &Flow) {
    let Some((start, stop)) = flow.times else { return };
    to.nest(CTA_TIMESTAMP | NESTED, |to| {
        to.be64(CTA_TIMESTAMP_START, start);
        if stop != 0 {
            to.be64(CTA_TIMESTAMP_STOP, stop);
        }
    });
}

fn write_helper(to: &mut Writer, flow: &Flow) {
    if let Some(name) = &flow.helper {
        to.nest(CTA_HELP | NESTED, |to| {
            to.string(CTA_HELP_NAME, name);
            if let Some(data) = &flow.helper_data {
                to.attribute(CTA_HELP_INFO, data);
            }
        });
    }
}

fn write_labels(to: &mut Writer, flow: &Flow) {
    if let Some(labels) = flow.labels.filter(|labels| labels.iter().any(|word| *word != 0)) {
        let bytes: Vec<u8> = labels.iter().flat_map(|word| word.to_ne_bytes()).collect();
        to.attribute(CTA_LABELS, &bytes);
    }
}

fn write_shifts(to: &mut Writer, flow: &Flow) {
    if flow.status & status::SEQ_ADJUST == 0 {
        return;
    }
    let Some(shifts) = &flow.shifts else { return };
    let kinds = [CTA_SEQ_ADJ_ORIG, CTA_SEQ_ADJ_REPLY];
    for (kind, SeqAdjust { position, before, after }) in kinds.into_iter().zip(shifts) {
        to.nest(kind | NESTED, |to| {
            to.be32(CTA_SEQADJ_CORRECTION_POS, *position);
            to.be32(CTA_SEQADJ_OFFSET_BEFORE, *before as u32);
            to.be32(CTA_SEQADJ_OFFSET_AFTER, *after as u32);
        });
    }
}

/// Numbers of a SYN proxy are not kept: they are those of one that has not seen anything.
fn write_synproxy(to: &mut Writer, flow: &Flow) {
    if flow.synproxy {
        to.nest(CTA_SYNPROXY | NESTED, |to| {
            [CTA_SYNPROXY_ISN, CTA_SYNPROXY_ITS, CTA_SYNPROXY_TSOFF]
                .into_iter()
                .for_each(|kind| to.be32(kind, 0));
        });
    }
}

fn write_master(to: &mut Writer, flow: &Flow) {
    if let Some(master) = &flow.master {
        tuple::write(to, CTA_TUPLE_MASTER, master);
    }
}

/// Appends the attributes of a listing. `uses` is what refers to it besides the table and those
/// that it expected: `CTA_USE` counts all.
pub fn write(to: &mut Writer, flow: &Flow, uses: u32) {
    tuple::write_both(to, &flow.original, &flow.reply);
    to.be32(CTA_STATUS, flow.status);
    to.be32(CTA_MARK, flow.mark);
    to.be32(CTA_ID, flow.id);
    to.be32(CTA_USE, flow.children.saturating_add(uses).saturating_add(1));
    write_master(to, flow);
    if flow.status & status::OFFLOAD == 0 {
        to.be32(CTA_TIMEOUT, seconds(flow.left));
        write_protocol(to, &flow.protocol, Told::All);
    }
    write_counters(to, flow);
    write_times(to, flow);
    write_helper(to, flow);
    write_labels(to, flow);
    write_shifts(to, flow);
    write_synproxy(to, flow);
}

/// Appends the attributes of the connection of a packet (`__ctnetlink_glue_build()`).
pub fn write_glued(to: &mut Writer, flow: &Flow) {
    tuple::write_both(to, &flow.original, &flow.reply);
    to.be32(CTA_ID, flow.id);
    to.be32(CTA_STATUS, flow.status);
    to.be32(CTA_TIMEOUT, seconds(flow.left));
    write_protocol(to, &flow.protocol, Told::All);
    write_counters(to, flow);
    write_times(to, flow);
    write_helper(to, flow);
    write_master(to, flow);
    write_shifts(to, flow);
    write_synproxy(to, flow);
    to.be32(CTA_MARK, flow.mark);
    write_labels(to, flow);
}

/// Bits of [`event`] for what a program entered or changed: everything but its beginning.
pub const BY_PROGRAM: u16 = event::REPLY
    | event::ASSURED
    | event::HELPER
    | event::PROTOINFO
    | event::SEQADJ
    | event::MARK
    | SYNPROXY;

/// `IPCT_SYNPROXY`
const SYNPROXY: u16 = 1 << 11;

/// Appends the attributes of an event: `what` are bits of [`event`].
pub fn write_event(to: &mut Writer, flow: &Flow, what: u16) {
    tuple::write_both(to, &flow.original, &flow.reply);
    to.be32(CTA_ID, flow.id);
    to.be32(CTA_STATUS, flow.status);
    let left = seconds(flow.left);
    let is = |bits: u16| what & bits != 0;
    if is(event::DESTROY) {
        if left != 0 {
            to.be32(CTA_TIMEOUT, left);
        }
        write_counters(to, flow);
        write_times(to, flow);
        write_protocol(to, &flow.protocol, Told::State);
    } else {
        to.be32(CTA_TIMEOUT, left);
        if is(event::PROTOINFO) {
            write_protocol(to, &flow.protocol, Told::All);
        }
        write_helper(to, flow);
        if is(event::LABEL) {
            write_labels(to, flow);
        }
        if is(event::RELATED) {
            write_master(to, flow);
        }
        if is(event::SEQADJ) {
            write_shifts(to, flow);
        }
        if is(SYNPROXY) {
            write_synproxy(to, flow);
        }
    }
    if flow.mark != 0 || is(event::MARK) {
        to.be32(CTA_MARK, flow.mark);
    }
}
