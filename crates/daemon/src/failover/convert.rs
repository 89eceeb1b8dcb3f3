// SPDX-License-Identifier: Apache-2.0

//! Connections of the table as messages have them, and back (`build.c`, and `nl_create_conntrack()`
//! of conntrack-tools).

use penstock_conntrack::{
    Direction, Flow, FlowChange, Follow, Helpers, ProtocolChange, ProtocolInfo, Tuple, expect_flag,
    status,
};
use penstock_ctsync::{ConnectionState, ExpectationState, Nat, Tcp};
use penstock_nat::{Range, range};
use penstock_nfnetlink::{Expected, NewExpected, NewFlow, Wanted, settable_status};
use penstock_wire::protocol;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Flags of one side of TCP (`IP_CT_TCP_FLAG_*`).
mod side {
    pub(super) const WINDOW_SCALE: u8 = 1;
    pub(super) const SACK_PERM: u8 = 2;
    pub(super) const CLOSE_INIT: u8 = 4;
    pub(super) const BE_LIBERAL: u8 = 8;
}

/// `TCP_CONNTRACK_TIME_WAIT`
const TIME_WAIT: u8 = 7;

/// A connection as messages have it.
pub(super) fn state_of(flow: &Flow, window_tracking: bool) -> ConnectionState {
    let Flow { original, reply, .. } = flow;
    let decided = |bit: u32| flow.status & bit != 0;
    let (source, destination) = (decided(status::SRC_NAT_DONE), decided(status::DST_NAT_DONE));
    let ports = matches!(
        original.protocol,
        protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP
    );
    // The identifier of ICMP is on the side of the source in both directions.
    let reply_source_id = match original.protocol {
        protocol::ICMP | protocol::ICMPV6 => Some(reply.src_id),
        _ => ports.then_some(reply.dst_id),
    };
    let mut out = ConnectionState {
        original: *original,
        status: Some(flow.status & !status::DYING),
        timeout: Some(u32::try_from(flow.left / SECOND).unwrap_or(u32::MAX)),
        mark: Some(flow.mark),
        master: flow.master.filter(|_| decided(status::EXPECTED)),
        source_address: Some(reply.dst).filter(|a| source && *a != original.src),
        destination_address: Some(reply.src).filter(|a| destination && *a != original.dst),
        source_port: reply_source_id.filter(|p| source && *p != original.src_id),
        destination_port: Some(reply.src_id)
            .filter(|p| ports && destination && *p != original.dst_id),
        shifts: flow.shifts.filter(|_| decided(status::SEQ_ADJUST)),
        helper: flow.helper.clone(),
        ..ConnectionState::default()
    };
    match flow.protocol {
        ProtocolInfo::None => {}
        ProtocolInfo::Tcp { state, scales, .. } => {
            out.tcp = Some(Tcp { state, scales: window_tracking.then_some(scales) });
        }
        ProtocolInfo::Sctp { state, tags } => out.sctp = Some((state, tags)),
        ProtocolInfo::Dccp { state, role, .. } => out.dccp = Some((state, role)),
    }
    if let Some(labels) = flow.labels.filter(|labels| labels.iter().any(|word| *word != 0)) {
        out.labels = labels.into();
    }
    out
}

/// A connection of the peer as one to enter, with so many seconds left: without checks of TCP
/// windows, which nobody has followed here, unless `window_tracking`. `None` if it has no answers
/// (ICMP), or its helper is not there.
pub(super) fn new_flow(
    state: &ConnectionState,
    seconds: u64,
    window_tracking: bool,
    helpers: &Helpers,
) -> Option<NewFlow> {
    let original = state.original;
    let reply = original.invert()?;
    let zones = [original.zone; 2];
    let wanted = |tuple: Tuple| Wanted { tuple, zones };
    let range = |address: Option<[u8; 16]>, port: Option<u16>| {
        let to = address.map_or(Range::default(), Range::address);
        port.map_or(to, |port| Range {
            flags: to.flags | range::PROTO_SPECIFIED,
            min_id: port,
            max_id: port,
            ..to
        })
    };
    let (mut source_port, mut destination_port) = (state.source_port, state.destination_port);
    if matches!(original.protocol, protocol::ICMP | protocol::ICMPV6) {
        // conntrackd takes type and code of the reply for an identifier (observed from 1.4.8).
        let type_and_code = [reply.dst_id, reply.dst_id.swap_bytes()];
        source_port = source_port.filter(|id| !type_and_code.contains(id));
        destination_port = None;
    }
    let source = (state.source_address, source_port);
    let destination = (state.destination_address, destination_port);
    let given = |(address, port): (Option<[u8; 16]>, Option<u16>)| {
        (address.is_some() || port.is_some()).then(|| range(address, port))
    };
    let both = [given(destination), given(source)];
    let helper = match &state.helper {
        Some(name) => Some(helpers.number(name, original.l3, original.protocol)?),
        None => None,
    };
    let word = |n: usize| (0, state.labels.get(n).copied().unwrap_or_default());
    let of_helper = if helper.is_some() { status::HELPER } else { 0 };
    let change = FlowChange {
        timeout: Some(seconds.saturating_mul(SECOND)),
        status: settable_status(state.status.unwrap_or_default()) | of_helper,
        mark: state.mark.map(|mark| (0, mark)),
        labels: (!state.labels.is_empty()).then(|| std::array::from_fn(word)),
        helper,
        helper_data: None,
        shifts: state.shifts.map_or([None; 2], |shifts| shifts.map(Some)),
        protocol: protocol_of(state, window_tracking),
    };
    let translation = both.iter().any(Option::is_some).then_some(both);
    Some(NewFlow { original, reply, master: state.master.map(wanted), translation, change })
}

fn protocol_of(state: &ConnectionState, window_tracking: bool) -> Option<ProtocolChange> {
    if let Some(Tcp { state, scales }) = state.tcp {
        let windows = if window_tracking { side::WINDOW_SCALE } else { side::BE_LIBERAL };
        let ends = if state >= TIME_WAIT { side::CLOSE_INIT } else { 0 };
        let flags = side::SACK_PERM | windows | ends;
        return Some(ProtocolChange::Tcp {
            state: Some(state),
            flags: [Some((flags, flags)); 2],
            scales,
        });
    }
    state.sctp.map(|(state, tags)| ProtocolChange::Sctp { state, tags })
}

/// What the kernel calls that does as [`Follow`] says (`nf_nat_core.c`).
const FOLLOW_MASTER: &str = "nat-follow-master";

/// An expectation as messages have it.
pub(super) fn expectation_state(expected: &Expected) -> ExpectationState {
    let e = &expected.expectation;
    let mask = Tuple {
        src: e.source_mask,
        dst: [0xff; 16],
        src_id: if e.source_port { u16::MAX } else { 0 },
        dst_id: u16::MAX,
        ..e.tuple
    };
    let nat = e.follow.map(|follow| Nat {
        tuple: Tuple {
            src: follow.address.unwrap_or_default(),
            src_id: follow.port,
            l3: expected.master.l3,
            protocol: expected.master.protocol,
            ..Tuple::ZERO
        },
        direction: follow.direction as u32,
    });
    ExpectationState {
        master: expected.master,
        expected: e.tuple,
        mask,
        timeout: Some(u32::try_from(expected.left / SECOND).unwrap_or(u32::MAX)),
        flags: Some(e.flags.into()),
        class: Some(e.class.into()),
        nat,
        helper: expected.helper.clone(),
        function: nat.map(|_| FOLLOW_MASTER.into()),
    }
}

/// An expectation of the peer as one to enter. `None` if its helper or its function is not there, or
/// a part of its source port counts.
pub(super) fn new_expected(state: &ExpectationState, helpers: &Helpers) -> Option<NewExpected> {
    let ExpectationState { master, expected, mask, .. } = *state;
    let source_port = match mask.src_id {
        0 => false,
        u16::MAX => true,
        _ => return None,
    };
    let helper = match &state.helper {
        Some(name) => helpers.number(name, master.l3, master.protocol)?,
        None => 0,
    };
    if state.function.as_deref().is_some_and(|name| name != FOLLOW_MASTER) {
        return None;
    }
    let follow = state.nat.map(|Nat { tuple, direction }| Follow {
        direction: if direction == 0 { Direction::Original } else { Direction::Reply },
        address: (tuple.src != [0; 16]).then_some(tuple.src),
        port: tuple.src_id,
    });
    Some(NewExpected {
        tuple: expected,
        source_mask: mask.src,
        source_port,
        master: Wanted { tuple: master, zones: [0; 2] },
        helper,
        class: u8::try_from(state.class.unwrap_or_default()).ok()?,
        flags: state.flags.unwrap_or_default() as u8 & !expect_flag::USERSPACE,
        follow,
    })
}
