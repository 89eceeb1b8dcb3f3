// SPDX-License-Identifier: Apache-2.0

//! DCCP (`nf_conntrack_proto_dccp.c`, which Linux had until 6.16; RFC 4340).

use super::{Context, Outcome, ProtocolState, Verdict};
use crate::complaint::Wrong;
use crate::packet::PacketView;
use crate::{Direction, status};
use penstock_wire::dccp::{self, packet};

/// State of a connection (`enum ct_dccp_states`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No packet seen.
    None = 0,
    /// Request seen.
    Request = 1,
    /// Response seen.
    Respond = 2,
    /// Response acknowledged.
    PartOpen = 3,
    /// Both sides have sent.
    Open = 4,
    /// The server asked the client to close.
    CloseReq = 5,
    /// Close seen.
    Closing = 6,
    /// Reset seen.
    TimeWait = 7,
}

impl State {
    /// All of them by number.
    pub(crate) const ALL: [State; 8] = [
        State::None,
        State::Request,
        State::Respond,
        State::PartOpen,
        State::Open,
        State::CloseReq,
        State::Closing,
        State::TimeWait,
    ];

    /// As listings have it.
    pub const fn name(self) -> &'static str {
        match self {
            State::None => "NONE",
            State::Request => "REQUEST",
            State::Respond => "RESPOND",
            State::PartOpen => "PARTOPEN",
            State::Open => "OPEN",
            State::CloseReq => "CLOSEREQ",
            State::Closing => "CLOSING",
            State::TimeWait => "TIMEWAIT",
        }
    }
}

/// Who began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A connection (`struct nf_ct_dccp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dccp {
    pub state: State,
    pub role: [Role; 2],
    pub last_dir: Direction,
    pub last_packet: u8,
    /// Sequence number of the Response.
    pub handshake: u64,
}

impl Dccp {
    pub(crate) const NEW: Dccp = Dccp {
        state: State::None,
        role: [Role::Client, Role::Server],
        last_dir: Direction::Original,
        last_packet: packet::REQUEST,
        handshake: 0,
    };

    /// Whether an assured connection may be dropped when the table is full.
    pub fn may_drop_early(&self) -> bool {
        matches!(self.state, State::CloseReq | State::Closing | State::TimeWait)
    }
}

enum Next {
    To(State),
    Ignore,
    Invalid,
}

/// Where a packet leads (`dccp_state_table`).
fn next(role: Role, kind: u8, state: State) -> Next {
    use State::{CloseReq, Closing, None, Open, PartOpen, Request, Respond, TimeWait};
    match (role, kind, state) {
        (Role::Client, packet::REQUEST, None | Request | TimeWait) => Next::To(Request),
        (Role::Client, packet::REQUEST, Respond) => Next::To(Respond),
        (Role::Client, packet::REQUEST, _) => Next::Ignore,
        (Role::Client, packet::RESPONSE, None | TimeWait) => Next::Invalid,
        (Role::Client, packet::RESPONSE, _) => Next::Ignore,
        (Role::Client, packet::ACK | packet::DATA_ACK, Respond | PartOpen) => Next::To(PartOpen),
        (
            Role::Client,
            packet::ACK | packet::DATA_ACK | packet::DATA,
            Open | CloseReq | Closing,
        ) => Next::To(state),
        (Role::Client, packet::CLOSE, PartOpen | Open | CloseReq) => Next::To(Closing),
        (Role::Server, packet::REQUEST, None) => Next::Invalid,
        (Role::Server, packet::REQUEST, TimeWait) => Next::To(Request),
        (Role::Server, packet::REQUEST, _) => Next::Ignore,
        (Role::Server, packet::RESPONSE, Request | Respond) => Next::To(Respond),
        (Role::Server, packet::RESPONSE, PartOpen | Open | CloseReq | Closing) => Next::Ignore,
        (Role::Server, packet::ACK | packet::DATA_ACK | packet::DATA, PartOpen | Open) => {
            Next::To(Open)
        }
        (Role::Server, packet::ACK | packet::DATA_ACK | packet::DATA, Closing) => Next::To(Closing),
        (Role::Server, packet::CLOSE_REQUEST, PartOpen | Open | CloseReq | Closing) => {
            Next::To(CloseReq)
        }
        (Role::Server, packet::CLOSE, PartOpen | Open | Closing) => Next::To(Closing),
        (_, packet::RESET, None) => Next::Invalid,
        // For the server the kernel's table has one entry too many, so that its reset renews this
        // state.
        (Role::Client, packet::RESET, TimeWait) => Next::Ignore,
        (_, packet::RESET, _) => Next::To(TimeWait),
        (_, packet::SYNC | packet::SYNC_ACK, None) => Next::Invalid,
        (_, packet::SYNC | packet::SYNC_ACK, _) => Next::Ignore,
        _ => Next::Invalid,
    }
}

/// The sequence number of a header.
fn sequence(h: &dccp::Header<'_>, bytes: &[u8]) -> u64 {
    let number = |range: std::ops::Range<usize>| {
        bytes.get(range).unwrap_or(&[]).iter().fold(0, |n, b| n << 8 | u64::from(*b))
    };
    if h.is_long() { number(10..16) } else { number(9..12) }
}

/// The acknowledgement number of a header that has one.
fn acknowledged(h: &dccp::Header<'_>, bytes: &[u8]) -> Option<u64> {
    let at = if h.is_long() { dccp::LONG_LEN } else { dccp::LEN };
    let ack: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes(*ack) & 0xffff_ffff_ffff)
}

/// What is wrong with lengths, coverage, checksum or type (`dccp_error()`).
fn wrong(p: &PacketView<'_>, c: &Context<'_>, h: &dccp::Header<'_>) -> Option<&'static str> {
    let bytes = p.transport();
    let coverage = match bytes[5] & 0x0f {
        0 => bytes.len(),
        n => (usize::from(n) - 1) * 4,
    };
    if h.data_offset() < dccp::LEN || h.data_offset() > bytes.len() {
        return Some("nf_ct_dccp: truncated/malformed packet");
    }
    if coverage > bytes.len() {
        return Some("nf_ct_dccp: bad checksum coverage");
    }
    if c.verifies(p) && !p.checksum_ok(coverage) {
        return Some("nf_ct_dccp: bad checksum");
    }
    if h.kind() > packet::SYNC_ACK {
        return Some("nf_ct_dccp: reserved packet type");
    }
    let may_be_short = matches!(h.kind(), packet::DATA | packet::ACK | packet::DATA_ACK);
    (!may_be_short && !h.is_long()).then_some("nf_ct_dccp: type lacks 48bit sequence numbers")
}

/// Bytes of a header with what comes with its type, but without options (`__dccp_hdr_len()`).
fn len(h: &dccp::Header<'_>) -> usize {
    let of_type = match h.kind() {
        packet::DATA => 0,
        packet::REQUEST => 4,
        packet::RESPONSE | packet::RESET => 12,
        _ => 8,
    };
    of_type + if h.is_long() { dccp::LONG_LEN } else { dccp::LEN }
}

/// A packet of a connection (`nf_conntrack_dccp_packet()`).
#[inline(never)]
pub(super) fn packet(state: &mut ProtocolState, p: &PacketView<'_>, c: &Context<'_>) -> Outcome {
    let bytes = p.transport();
    let Some(h) = dccp::Header::new(bytes) else { return Outcome::INVALID };
    if let Some(why) = wrong(p, c, &h) {
        return c.invalid(p, why);
    }
    if len(&h) > bytes.len() {
        return Outcome::INVALID;
    }
    let (kind, direction) = (h.kind(), p.direction());
    if !c.has(status::CONFIRMED) {
        match next(Role::Client, kind, State::None) {
            Next::To(State::Request) => {}
            Next::Invalid => return c.invalid(p, "nf_ct_dccp: invalid state transition"),
            _ if !c.settings.dccp_loose => {
                return c.invalid(p, "nf_ct_dccp: not picking up existing connection");
            }
            _ => {}
        }
        *state = ProtocolState::Dccp(Dccp::NEW);
    }
    if kind == packet::RESET && !c.has(status::SEEN_REPLY) {
        return Outcome::of(Verdict::End);
    }
    let ProtocolState::Dccp(d) = state else { return Outcome::INVALID };
    let (this, other) = (direction as usize, direction.opposite() as usize);
    let old = d.state;
    let mut assured = false;
    let new = match next(d.role[this], kind, old) {
        Next::Invalid => return c.invalid(p, "nf_ct_dccp: invalid state transition"),
        Next::Ignore => {
            let answers = d.last_dir != direction && d.last_packet == packet::REQUEST;
            if !(answers && kind == packet::RESPONSE) {
                d.last_dir = direction;
                d.last_packet = kind;
                c.complain(p.at.protocol, Wrong::Text("nf_ct_dccp: invalid packet ignored"));
                return Outcome::IGNORE;
            }
            // Both are in step: so are we from here on.
            d.role[other] = Role::Client;
            d.role[this] = Role::Server;
            d.handshake = sequence(&h, bytes);
            State::Respond
        }
        Next::To(to) => {
            match to {
                State::Request if old == State::TimeWait && d.role[this] == Role::Server => {
                    d.role[this] = Role::Client;
                    d.role[other] = Role::Server;
                }
                State::Respond if old == State::Request => d.handshake = sequence(&h, bytes),
                State::PartOpen if old == State::Respond && kind == packet::ACK => {
                    assured = acknowledged(&h, bytes) == Some(d.handshake);
                }
                _ => {}
            }
            to
        }
    };
    d.last_dir = direction;
    d.last_packet = kind;
    d.state = new;
    let outcome = Outcome::accept(c.timeouts[new as usize]).changed(old != new);
    if assured { outcome.assured() } else { outcome }
}
