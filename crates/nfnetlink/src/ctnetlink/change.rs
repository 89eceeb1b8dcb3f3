// SPDX-License-Identifier: Apache-2.0

//! What a message says of a connection that is to be entered or changed
//! (`ctnetlink_create_conntrack()`, `ctnetlink_change_conntrack()`).

use penstock_conntrack::{
    Flow, FlowChange, Helpers, ProtocolChange, SeqAdjust, Tracker, Tuple, status, tuple::IPV4,
};
use penstock_nat::{Range, range};
use penstock_ruleset::Errno;

use crate::message::{Attribute, Attributes, Check, Failure, Policy};
use crate::uapi::ctnetlink::*;

const HELP_POLICY: Policy =
    &[(CTA_HELP_NAME, Check::NulString(15)), (CTA_HELP_INFO, Check::Least(1))];
const PROTOINFO_POLICY: Policy = &[
    (CTA_PROTOINFO_TCP, Check::Nested),
    (CTA_PROTOINFO_DCCP, Check::Nested),
    (CTA_PROTOINFO_SCTP, Check::Nested),
];
const TCP_POLICY: Policy = &[
    (CTA_PROTOINFO_TCP_STATE, Check::U8),
    (CTA_PROTOINFO_TCP_WSCALE_ORIGINAL, Check::U8),
    (CTA_PROTOINFO_TCP_WSCALE_REPLY, Check::U8),
    (CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, Check::Least(2)),
    (CTA_PROTOINFO_TCP_FLAGS_REPLY, Check::Least(2)),
];
const SCTP_POLICY: Policy = &[
    (CTA_PROTOINFO_SCTP_STATE, Check::U8),
    (CTA_PROTOINFO_SCTP_VTAG_ORIGINAL, Check::U32),
    (CTA_PROTOINFO_SCTP_VTAG_REPLY, Check::U32),
];
const SEQADJ_POLICY: Policy = &[
    (CTA_SEQADJ_CORRECTION_POS, Check::U32),
    (CTA_SEQADJ_OFFSET_BEFORE, Check::U32),
    (CTA_SEQADJ_OFFSET_AFTER, Check::U32),
];
const SYNPROXY_POLICY: Policy = &[
    (CTA_SYNPROXY_ISN, Check::U32),
    (CTA_SYNPROXY_ITS, Check::U32),
    (CTA_SYNPROXY_TSOFF, Check::U32),
];
const NAT_POLICY: Policy = &[
    (CTA_NAT_V4_MINIP, Check::U32),
    (CTA_NAT_V4_MAXIP, Check::U32),
    (CTA_NAT_V6_MINIP, Check::Least(16)),
    (CTA_NAT_V6_MAXIP, Check::Least(16)),
    (CTA_NAT_PROTO, Check::Nested),
];
const PROTONAT_POLICY: Policy =
    &[(CTA_PROTONAT_PORT_MIN, Check::U16), (CTA_PROTONAT_PORT_MAX, Check::U16)];

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// States of TCP (`TCP_CONNTRACK_MAX`).
const TCP_STATES: u8 = 10;
/// States of SCTP (`SCTP_CONNTRACK_MAX`).
const SCTP_STATES: u8 = 9;
/// Jiffies of a timeout at most, as a kernel with 250 Hz has it (`INT_MAX`), in seconds.
const LONGEST: u64 = i32::MAX as u64 / 250;

/// `EPERM`: the timeout is fixed.
fn eperm() -> Failure {
    Errno::Eperm.into()
}

/// Bits that messages do not change (`IPS_UNCHANGEABLE_MASK`).
const UNCHANGEABLE: u32 = status::NAT_DONE_MASK
    | status::NAT_MASK
    | status::EXPECTED
    | status::CONFIRMED
    | status::DYING
    | status::SEQ_ADJUST
    | status::TEMPLATE
    | status::NAT_CLASH
    | status::OFFLOAD
    | status::HW_OFFLOAD;
/// All bits that there are (`__IPS_MAX_BIT`).
const KNOWN: u32 = (1 << 16) - 1;

/// The status bits that become set (`nf_ct_change_status_common()`).
fn status_bits(old: u32, new: u32) -> Result<u32, Failure> {
    let differ = old ^ new;
    let fixed = status::EXPECTED | status::CONFIRMED | status::DYING;
    let only_set = status::SEEN_REPLY | status::ASSURED;
    if differ & fixed != 0 || differ & only_set & !new != 0 {
        return Err(Errno::Ebusy.into());
    }
    Ok(settable_status(new))
}

/// The status bits that a program sets of a connection that it enters: those that it cannot change
/// are left aside.
pub fn settable_status(bits: u32) -> u32 {
    bits & KNOWN & !UNCHANGEABLE
}

/// The status bits that a verdict about a packet sets: others that cannot change are left aside
/// (`ctnetlink_update_status()`). `None` if it takes away what only comes.
pub(super) fn verdict_bits(old: u32, new: u32) -> Option<u32> {
    let only_set = status::SEEN_REPLY | status::ASSURED;
    (old & !new & only_set == 0).then(|| settable_status(new))
}

/// The helper of a message (`CTA_HELP`).
pub(super) struct Help<'a> {
    pub(super) name: &'a str,
    /// What a program keeps with the connection.
    pub(super) info: Option<&'a [u8]>,
}

impl<'a> Help<'a> {
    pub(super) fn read(help: Attribute<'a>) -> Result<Self, Failure> {
        let given = help.attributes(HELP_POLICY)?;
        let info = given.get(CTA_HELP_INFO).map(|info| info.payload);
        Ok(Help { name: given.need(CTA_HELP_NAME)?.text()?, info })
    }
}

/// The number of a helper for connections with a tuple.
///
/// # Errors
/// `EOPNOTSUPP` if there is none.
pub fn helper(helpers: &Helpers, name: &str, of: &Tuple) -> Result<u16, Failure> {
    helpers.number(name, of.l3, of.protocol).ok_or_else(|| Errno::Eopnotsupp.into())
}

fn read_shift(nest: Attribute<'_>) -> Result<SeqAdjust, Failure> {
    let given = nest.attributes(SEQADJ_POLICY)?;
    Ok(SeqAdjust {
        position: given.need(CTA_SEQADJ_CORRECTION_POS)?.be32(),
        before: given.need(CTA_SEQADJ_OFFSET_BEFORE)?.be32() as i32,
        after: given.need(CTA_SEQADJ_OFFSET_AFTER)?.be32() as i32,
    })
}

/// A change of the protocol's state; `None` if the message has none for this protocol.
fn read_protocol(nest: Attribute<'_>, protocol: u8) -> Result<Option<ProtocolChange>, Failure> {
    let given = nest.attributes(PROTOINFO_POLICY)?;
    match Tracker::of(protocol) {
        Tracker::Tcp => given.get(CTA_PROTOINFO_TCP).map(read_tcp).transpose(),
        Tracker::Sctp => given.get(CTA_PROTOINFO_SCTP).map(read_sctp).transpose(),
        // Linux 6.18 does not track DCCP.
        Tracker::Udp
        | Tracker::Icmp
        | Tracker::Icmpv6
        | Tracker::Dccp
        | Tracker::Gre
        | Tracker::Generic => Ok(None),
    }
}

fn read_tcp(nest: Attribute<'_>) -> Result<ProtocolChange, Failure> {
    let given = nest.attributes(TCP_POLICY)?;
    let state = given.get(CTA_PROTOINFO_TCP_STATE).map(|state| state.u8());
    if state.is_some_and(|state| state >= TCP_STATES) {
        return Err(Failure::erange());
    }
    let flags = |kind| {
        let pair = given.get(kind)?.payload.first_chunk::<2>()?;
        Some((pair[0], pair[1]))
    };
    let scale = |kind| given.get(kind).map(|scale: Attribute<'_>| scale.u8());
    let scales =
        scale(CTA_PROTOINFO_TCP_WSCALE_ORIGINAL).zip(scale(CTA_PROTOINFO_TCP_WSCALE_REPLY));
    Ok(ProtocolChange::Tcp {
        state,
        flags: [CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, CTA_PROTOINFO_TCP_FLAGS_REPLY].map(flags),
        scales: scales.map(|(original, reply)| [original, reply]),
    })
}

fn read_sctp(nest: Attribute<'_>) -> Result<ProtocolChange, Failure> {
    let given = nest.attributes(SCTP_POLICY)?;
    let state = given.need(CTA_PROTOINFO_SCTP_STATE)?.u8();
    let tags = [
        given.need(CTA_PROTOINFO_SCTP_VTAG_ORIGINAL)?.be32(),
        given.need(CTA_PROTOINFO_SCTP_VTAG_REPLY)?.be32(),
    ];
    if state >= SCTP_STATES {
        return Err(Failure::erange());
    }
    Ok(ProtocolChange::Sctp { state, tags })
}

/// Looks at what a SYN proxy should keep, which only zeroes fit.
fn check_synproxy(nest: Attribute<'_>) -> Result<(), Failure> {
    let given = nest.attributes(SYNPROXY_POLICY)?;
    for kind in [CTA_SYNPROXY_ISN, CTA_SYNPROXY_ITS, CTA_SYNPROXY_TSOFF] {
        if given.need(kind)?.be32() != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
    }
    Ok(())
}

/// The labels of a message, each word with the bits that stay and those that are flipped
/// (`nf_connlabels_replace()`).
pub(super) fn read_labels(
    given: &Attributes<'_>,
    labels: Attribute<'_>,
) -> Result<[(u32, u32); 4], Failure> {
    let len = labels.payload.len();
    let mask = given.get(CTA_LABELS_MASK).map(|mask| mask.payload);
    if !len.is_multiple_of(4) || mask.is_some_and(|mask| mask.is_empty() || mask.len() != len) {
        return Err(Failure::einval());
    }
    let word = |bytes: &[u8], n: usize| {
        let word = bytes.get(n * 4..n * 4 + 4).and_then(|b| b.first_chunk());
        word.map_or(0, |b| u32::from_ne_bytes(*b))
    };
    // Words that the message leaves out become zero.
    Ok(std::array::from_fn(|n| {
        let keep = mask.filter(|_| n * 4 < len).map_or(0, |mask| !word(mask, n));
        (keep, word(labels.payload, n))
    }))
}

/// What both new and existing connections take.
fn read_common(given: &Attributes<'_>, protocol: u8) -> Result<FlowChange, Failure> {
    let mut change = FlowChange::default();
    if let Some(nest) = given.get(CTA_PROTOINFO) {
        change.protocol = read_protocol(nest, protocol)?;
    }
    if let Some(mark) = given.be32(CTA_MARK) {
        change.mark = Some((given.be32(CTA_MARK_MASK).map_or(0, |mask| !mask), mark));
    }
    let shifts = [CTA_SEQ_ADJ_ORIG, CTA_SEQ_ADJ_REPLY];
    for (place, kind) in change.shifts.iter_mut().zip(shifts) {
        *place = given.get(kind).map(read_shift).transpose()?;
    }
    given.get(CTA_SYNPROXY).map(check_synproxy).transpose()?;
    Ok(change)
}

/// A timeout in nanoseconds.
pub(super) fn timeout(seconds: u32) -> u64 {
    u64::from(seconds).min(LONGEST) * SECOND
}

/// What a new connection begins with. `has_labels` says whether there is room for labels.
///
/// # Errors
/// `EINVAL` without a timeout; those of its parts.
pub fn read_new(
    helpers: &Helpers,
    given: &Attributes<'_>,
    original: &Tuple,
) -> Result<FlowChange, Failure> {
    let seconds = given.be32(CTA_TIMEOUT).ok_or(Failure::einval())?;
    let mut set = 0;
    let (mut helper_of, mut helper_data) = (None, None);
    if let Some(help) = given.get(CTA_HELP) {
        let help = Help::read(help)?;
        helper_of = Some(helper(helpers, help.name, original)?);
        helper_data = help.info.map(Into::into);
        set |= status::HELPER;
    }
    if let Some(new) = given.be32(CTA_STATUS) {
        set |= status_bits(status::CONFIRMED, new)?;
    }
    let labels = given.get(CTA_LABELS).and_then(|labels| read_labels(given, labels).ok());
    Ok(FlowChange {
        timeout: Some(timeout(seconds)),
        status: set,
        helper: helper_of,
        helper_data,
        labels,
        ..read_common(given, original.protocol)?
    })
}

/// What changes of a connection.
///
/// # Errors
/// `EOPNOTSUPP` for what only new connections have, or a helper where there was none; `EBUSY` for
/// status bits that cannot be changed, or another helper; `EPERM` for a fixed timeout; `ENOSPC` for
/// labels without room.
pub fn read_update(
    helpers: &Helpers,
    given: &Attributes<'_>,
    flow: &Flow,
) -> Result<FlowChange, Failure> {
    if [CTA_NAT_SRC, CTA_NAT_DST, CTA_TUPLE_MASTER].into_iter().any(|kind| given.has(kind)) {
        return Err(Errno::Eopnotsupp.into());
    }
    let protocol = flow.original.protocol;
    let (mut helper_of, mut helper_data) = (None, None);
    if let Some(help) = given.get(CTA_HELP) {
        let help = Help::read(help)?;
        helper_of = read_other_helper(helpers, help.name, flow)?;
        helper_data = help.info.map(Into::into);
    }
    let seconds = given.be32(CTA_TIMEOUT);
    if seconds.is_some() && flow.status & status::FIXED_TIMEOUT != 0 {
        return Err(eperm());
    }
    let new = given.be32(CTA_STATUS);
    let set = new.map_or(Ok(0), |new| status_bits(flow.status, new))?;
    let common = read_common(given, protocol)?;
    let labels = match given.get(CTA_LABELS) {
        None => None,
        Some(labels) => {
            let labels = read_labels(given, labels)?;
            flow.labels.ok_or(Failure::from(Errno::Enospc))?;
            Some(labels)
        }
    };
    Ok(FlowChange {
        timeout: seconds.map(timeout),
        status: set,
        helper: helper_of,
        helper_data,
        labels,
        ..common
    })
}

/// The number of the helper that a connection gets, 0 for none; `None` if it stays
/// (`ctnetlink_change_helper()`).
pub(super) fn read_other_helper(
    helpers: &Helpers,
    name: &str,
    flow: &Flow,
) -> Result<Option<u16>, Failure> {
    let has = flow.helper.as_deref();
    if flow.master.is_some() {
        return match has == Some(name) {
            true => Ok(None),
            false => Err(Errno::Ebusy.into()),
        };
    }
    if name.is_empty() {
        return Ok(has.map(|_| 0));
    }
    helper(helpers, name, &flow.original)?;
    match has {
        None => Err(Errno::Eopnotsupp.into()),
        Some(old) if old == name => Ok(None),
        Some(_) => Err(Errno::Ebusy.into()),
    }
}

/// Addresses and ports that a source or a destination goes to (`nfnetlink_parse_nat()`).
///
/// # Errors
/// `ERANGE` for attributes that are too short.
pub fn read_range(nest: Attribute<'_>, l3: u8) -> Result<Range, Failure> {
    let given = nest.attributes(NAT_POLICY)?;
    let mut out = Range::default();
    let (least, most, len) = match l3 {
        IPV4 => (CTA_NAT_V4_MINIP, CTA_NAT_V4_MAXIP, 4),
        _ => (CTA_NAT_V6_MINIP, CTA_NAT_V6_MAXIP, 16),
    };
    let address = |attribute: Attribute<'_>| {
        let mut out = [0; 16];
        let from = attribute.payload.get(..len).ok_or(Failure::erange())?;
        out[..len].copy_from_slice(from);
        Ok::<_, Failure>(out)
    };
    if let Some(least) = given.get(least) {
        out.min_address = address(least)?;
        out.flags |= range::MAP_IPS;
    }
    out.max_address = given.get(most).map_or(Ok(out.min_address), address)?;
    let Some(proto) = given.get(CTA_NAT_PROTO) else { return Ok(out) };
    let given = proto.attributes(PROTONAT_POLICY)?;
    if let Some(least) = given.get(CTA_PROTONAT_PORT_MIN) {
        out.min_id = least.be16();
        out.max_id = given.get(CTA_PROTONAT_PORT_MAX).map_or(out.min_id, |most| most.be16());
        out.flags |= range::PROTO_SPECIFIED;
    }
    Ok(out)
}
