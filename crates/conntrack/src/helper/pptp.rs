// SPDX-License-Identifier: Apache-2.0

//! PPTP (`nf_conntrack_pptp.c`, `nf_nat_pptp.c`; RFC 2637): calls are made over TCP, their data
//! goes in GRE with the call id of the receiver as key. The client is the PNS, the server the PAC.

use super::{Action, Edit, Memory, Message};
use crate::expectation::{Expectation, Follow};
use crate::{Direction, Tuple};
use penstock_wire::protocol;

const CONTROL: u16 = 1;
const COOKIE: u32 = 0x1a2b_3c4d;
/// Where the message's own part begins.
const BODY: usize = 12;
/// Result codes for success.
const OK: u8 = 1;

/// Message types and how long their own part is.
mod message {
    pub const START_REQUEST: u16 = 1;
    pub const START_REPLY: u16 = 2;
    pub const STOP_REQUEST: u16 = 3;
    pub const STOP_REPLY: u16 = 4;
    pub const OUT_CALL_REQUEST: u16 = 7;
    pub const OUT_CALL_REPLY: u16 = 8;
    pub const IN_CALL_REQUEST: u16 = 9;
    pub const IN_CALL_REPLY: u16 = 10;
    pub const IN_CALL_CONNECT: u16 = 11;
    pub const CALL_CLEAR: u16 = 12;
    pub const CALL_DISCONNECT: u16 = 13;
    pub const WAN_ERROR: u16 = 14;
    pub const LINK_INFO: u16 = 15;

    pub const fn body_len(kind: u16) -> usize {
        match kind {
            START_REQUEST | START_REPLY => 144,
            STOP_REQUEST => 4,
            STOP_REPLY => 4,
            5 => 4,
            6 => 8,
            OUT_CALL_REQUEST => 156,
            OUT_CALL_REPLY => 20,
            IN_CALL_REQUEST => 208,
            IN_CALL_REPLY => 12,
            IN_CALL_CONNECT => 16,
            CALL_CLEAR => 4,
            CALL_DISCONNECT => 136,
            WAN_ERROR => 28,
            LINK_INFO => 12,
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
enum Session {
    #[default]
    None,
    Error,
    StopRequested,
    Requested,
    Confirmed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    OutRequested,
    OutConfirmed,
    InRequested,
    InReplied,
    InConfirmed,
    ClearRequested,
}

/// The session and its call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    session: Session,
    state: State,
    /// Call ids as the other side sees them.
    pns: u16,
    pac: u16,
    /// The client's call id as it chose it; another than `pns` if the connection is translated.
    pns_own: u16,
}

impl Call {
    /// The tuples of its data in both directions, for a connection with these.
    pub fn tuples(&self, [original, reply]: [Tuple; 2]) -> [Tuple; 2] {
        let of = |tuple, src_id, dst_id| Tuple { protocol: protocol::GRE, src_id, dst_id, ..tuple };
        [of(original, self.pns, self.pac), of(reply, self.pac, self.pns)]
    }
}

fn be16(data: &[u8], at: usize) -> u16 {
    data.get(at..at + 2).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_be_bytes(*b))
}

/// Puts a call id at an offset in the message's own part, if the connection is translated.
fn write(m: &Message<'_>, offset: usize, id: u16) -> Option<Action> {
    let text = id.to_be_bytes().to_vec();
    m.translated.then_some(Action::Edit(Edit { at: BODY + offset, len: 2, text }))
}

pub(super) fn read(m: &Message<'_>, memory: &mut Memory) -> Vec<Action> {
    if !m.established || m.data.len() < BODY {
        return Vec::new();
    }
    let cookie = u32::from(be16(m.data, 4)) << 16 | u32::from(be16(m.data, 6));
    let kind = be16(m.data, 8);
    if be16(m.data, 2) != CONTROL
        || cookie != COOKIE
        || m.data.len() - BODY < message::body_len(kind)
    {
        return Vec::new();
    }
    if !matches!(memory, Memory::Pptp(_)) {
        *memory = Memory::Pptp(Call::default());
    }
    let Memory::Pptp(call) = memory else { return Vec::new() };
    match m.direction {
        Direction::Original => from_client(m, call, kind).into_iter().collect(),
        Direction::Reply => from_server(m, call, kind),
    }
}

fn from_server(m: &Message<'_>, call: &mut Call, kind: u16) -> Vec<Action> {
    let body = &m.data[BODY..];
    let confirmed = call.session == Session::Confirmed;
    let (first, second) = (be16(body, 0), be16(body, 2));
    let mut actions = Vec::new();
    match kind {
        message::START_REPLY if call.session >= Session::Requested => {
            call.session = if body[2] == OK { Session::Confirmed } else { Session::Error };
        }
        message::STOP_REPLY if call.session <= Session::StopRequested => {
            call.session = if body[0] == OK { Session::None } else { Session::Error };
        }
        message::OUT_CALL_REPLY
            if confirmed
                && matches!(call.state, State::OutRequested | State::OutConfirmed)
                && call.pns == second =>
        {
            if body[4] == OK {
                call.state = State::OutConfirmed;
                call.pac = first;
                actions.push(expect_data(m, call));
            } else {
                call.state = State::None;
            }
            actions.extend(write(m, 2, call.pns_own));
        }
        message::IN_CALL_REQUEST if confirmed => {
            call.state = State::InRequested;
            call.pac = first;
        }
        message::IN_CALL_CONNECT
            if confirmed
                && matches!(call.state, State::InReplied | State::InConfirmed)
                && call.pns == first =>
        {
            call.state = State::InConfirmed;
            actions.push(expect_data(m, call));
            actions.extend(write(m, 0, call.pns_own));
        }
        message::CALL_DISCONNECT => {
            call.state = State::None;
            actions.push(Action::EndCall(Box::new(call.tuples(m.tuples))));
            actions.extend(write(m, 0, call.pns_own));
        }
        message::WAN_ERROR | message::LINK_INFO => actions.extend(write(m, 0, call.pns_own)),
        _ => {}
    }
    actions
}

/// Expects the data of a call in both directions, and lets GRE packets find their source keys
/// (`exp_gre()`).
fn expect_data(m: &Message<'_>, call: &Call) -> Action {
    let of = |direction: Direction| {
        let tuple = &m.tuples[direction as usize];
        let (from, to, port) = match direction {
            Direction::Original => (call.pns_own, call.pac, call.pns),
            Direction::Reply => (call.pac, call.pns, call.pns_own),
        };
        let basis = m.expect(protocol::GRE, Some(tuple.src), tuple.dst, to);
        Expectation {
            tuple: Tuple { src_id: from, ..basis.tuple },
            source_port: true,
            follow: m.translated.then_some(Follow { direction, address: None, port }),
            ..basis
        }
    };
    Action::ExpectCall(Box::new([of(Direction::Original), of(Direction::Reply)]))
}

fn from_client(m: &Message<'_>, call: &mut Call, kind: u16) -> Option<Action> {
    let body = &m.data[BODY..];
    let confirmed = call.session == Session::Confirmed;
    let id = be16(body, 0);
    // A translated client's call id becomes the port that it has outside, which is its own there.
    let outside = if m.translated { m.tuples[Direction::Reply as usize].dst_id } else { id };
    match kind {
        message::START_REQUEST if call.session == Session::None => {
            call.session = Session::Requested;
            None
        }
        message::STOP_REQUEST => {
            call.session = Session::StopRequested;
            None
        }
        message::OUT_CALL_REQUEST if confirmed => {
            call.state = State::OutRequested;
            call.pns_own = id;
            call.pns = outside;
            write(m, 0, outside)
        }
        message::IN_CALL_REPLY
            if matches!(call.state, State::InRequested | State::InReplied)
                && call.pac == be16(body, 2) =>
        {
            if body[4] == OK {
                call.state = State::InReplied;
                call.pns = id;
                // The kernel keeps what the client called itself for calls that it makes only.
                if !m.translated {
                    call.pns_own = id;
                }
            } else {
                call.state = State::None;
            }
            write(m, 0, call.pns)
        }
        message::CALL_CLEAR if confirmed => {
            call.state = State::ClearRequested;
            write(m, 0, call.pns)
        }
        _ => None,
    }
}
