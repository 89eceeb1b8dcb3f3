// SPDX-License-Identifier: Apache-2.0

//! Trackers: what packets do to the state of their connection (`nf_conntrack_proto_*.c`).
//!
//! One file per protocol, each with a function from the state, a packet and its [`Context`] to an
//! [`Outcome`]. It changes nothing but that state; its caller does to the table what the outcome
//! says.

pub(crate) mod dccp;
mod generic;
mod gre;
mod icmp;
mod icmpv6;
pub(crate) mod sctp;
mod state;
pub(crate) mod tcp;
mod udp;

pub(crate) use state::Untracked;
pub(crate) use udp::{is_right as is_right_udp, renewed as renewed_udp};

use crate::complaint::{Complaints, Wrong};
use crate::packet::{Hook, PacketView};
use crate::seqadj::SeqAdjust;
use crate::settings::{Settings, Timeouts, Tracker};
use crate::tuple::Tuple;
use crate::{event, status};
use dccp::Dccp;
use sctp::Sctp;
use tcp::Tcp;

/// What a protocol's tracker remembers of a connection (`union nf_conntrack_proto`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ProtocolState {
    /// Nothing.
    None,
    /// UDP: from when on the flow is a stream, in nanoseconds.
    Udp {
        stream_after: u64,
    },
    /// GRE: its timeouts.
    Gre {
        timeout: u64,
        stream_timeout: u64,
    },
    Tcp(Tcp),
    Sctp(Sctp),
    Dccp(Dccp),
}

/// What a tracker reads besides the packet and the protocol's state.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub now: u64,
    /// The connection's status bits.
    pub status: u32,
    /// When the connection ends, once it is confirmed.
    pub expires: u64,
    pub original: &'a Tuple,
    pub settings: &'a Settings,
    /// Those of the protocol that hold for this connection.
    pub timeouts: &'a Timeouts,
    /// Shifts of sequence numbers by direction.
    pub seqadj: Option<&'a [SeqAdjust; 2]>,
    /// SYN proxy holds the connection open.
    pub synproxy: bool,
    /// What is wrong with the packet.
    pub complaints: &'a Complaints,
}

impl Context<'_> {
    /// Whether one of these status bits is set.
    #[inline(always)]
    fn has(&self, bits: u32) -> bool {
        self.status & bits != 0
    }

    /// Notes what is wrong with a packet, if that is asked for.
    #[cold]
    fn complain(&self, protocol: u8, what: Wrong) {
        self.complaints.note(self.settings.log_invalid, protocol, what);
    }

    /// A packet that is invalid for a reason with a fixed text.
    #[cold]
    fn invalid(&self, p: &PacketView<'_>, why: &'static str) -> Outcome {
        self.complain(p.at.protocol, Wrong::Text(why));
        Outcome::INVALID
    }

    /// Whether the checksum of a packet must be verified.
    #[inline(always)]
    fn verifies(&self, p: &PacketView<'_>) -> bool {
        self.settings.checksum && p.hook == Hook::Prerouting && !p.unfinished
    }
}

/// What a packet is to its connection (`nf_conntrack_handle_packet()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// Part of the connection, which lives for [`Outcome::timeout`] from now on.
    Accept,
    /// Part of the connection, of which it changes neither life nor counters.
    Ignore,
    /// Part of the connection, which it ends.
    End,
    /// Not part of any connection (`-NF_ACCEPT`).
    Invalid,
    /// Invalid, and a sign that we are out of step: the connection lives no longer than
    /// [`Outcome::timeout`] from now on.
    OutOfStep,
    /// The connection ends, and the packet begins a new one (`-NF_REPEAT`).
    Repeat,
}

/// What a packet does to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// In nanoseconds, for verdicts with a timeout.
    pub timeout: u64,
    /// Status bits that are set from now on.
    pub status: u32,
    /// Bits of [`event`] that are noted, whatever the verdict is.
    pub events: u16,
    pub verdict: Verdict,
    /// The protocol has closed the connection: what is attached to it ends.
    pub closed: bool,
}

// It is returned in two registers.
const _: () = assert!(size_of::<Outcome>() == 16);

impl Outcome {
    const INVALID: Outcome = Outcome::of(Verdict::Invalid);
    const IGNORE: Outcome = Outcome::of(Verdict::Ignore);

    const fn of(verdict: Verdict) -> Self {
        Outcome { timeout: 0, status: 0, events: 0, verdict, closed: false }
    }

    #[inline(always)]
    const fn accept(timeout: u64) -> Self {
        Outcome { timeout, ..Outcome::of(Verdict::Accept) }
    }

    /// The connection is not dropped early from now on.
    #[inline(always)]
    const fn assured(self) -> Self {
        Outcome {
            status: self.status | status::ASSURED,
            events: self.events | event::ASSURED,
            ..self
        }
    }

    /// The protocol's state is another than before, if `changed`.
    #[inline(always)]
    const fn changed(self, changed: bool) -> Self {
        Outcome {
            events: if changed { self.events | event::PROTOINFO } else { self.events },
            ..self
        }
    }
}

/// Runs the tracker of a packet's protocol. The context is made where it is used: of a tracker that
/// is inlined only what it reads is looked up.
#[inline(always)]
pub(crate) fn run<'a>(
    tracker: Tracker,
    state: &mut ProtocolState,
    p: &PacketView<'_>,
    context: impl FnOnce() -> Context<'a>,
) -> Outcome {
    match tracker {
        Tracker::Udp => udp::packet(state, p, &context()),
        Tracker::Tcp => tcp::packet(state, p, &context()),
        Tracker::Icmp => icmp::packet(p, &context()),
        Tracker::Icmpv6 => icmpv6::packet(p, &context()),
        Tracker::Sctp => sctp::packet(state, p, &context()),
        Tracker::Dccp => dccp::packet(state, p, &context()),
        Tracker::Gre => gre::packet(state, &context()),
        Tracker::Generic => generic::packet(&context()),
    }
}
