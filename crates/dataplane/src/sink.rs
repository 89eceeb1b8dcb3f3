// SPDX-License-Identifier: Apache-2.0

//! Where things go that leave the path: frames, deliveries, drops, log and trace records.

use std::sync::Arc;

use penstock_conntrack::Connection;
use penstock_net::Link;
use penstock_packet::{Meta, Packet};
use penstock_program::State;
use penstock_program::expr::Log;

use crate::bpf::{BpfDifference, BpfFault};
use crate::reason::{DropEvent, Place};

/// A record of a `log` statement, or of connection tracking about an invalid packet: the packet as it
/// was then.
#[derive(Clone, Copy)]
pub struct LogRecord<'a> {
    /// What the statement asks for.
    pub log: &'a Log,
    /// Which rule; for connection tracking names are empty.
    pub place: Place<'a>,
    /// Hook and family.
    pub context: penstock_program::Context,
    /// Interface of arrival, where the hook has one.
    pub input: Option<&'a Link>,
    /// Interface of departure, where the hook has one.
    pub output: Option<&'a Link>,
    /// Ports of a bridge that a packet at a hook of IP came and leaves by, where they are known.
    pub ports: [Option<&'a Link>; 2],
    /// The packet's connection.
    pub connection: Option<Connection<'a>>,
}

/// A packet that a rule gives to a queue.
#[derive(Clone, Copy)]
pub struct QueueRecord<'a> {
    /// Number of the packet, by which it is answered:
    /// [`Dataplane::verdict`](crate::Dataplane::verdict).
    pub id: u64,
    /// Number of the queue.
    pub queue: u16,
    /// Which rule.
    pub place: Option<Place<'a>>,
    /// Hook and family.
    pub context: penstock_program::Context,
    /// Interface of arrival, where the hook has one.
    pub input: Option<&'a Link>,
    /// Interface of departure, where the hook has one.
    pub output: Option<&'a Link>,
    /// Ports of a bridge that a packet at a hook of IP came and leaves by, where they are known.
    pub ports: [Option<&'a Link>; 2],
    /// The packet's connection.
    pub connection: Option<Connection<'a>>,
}

/// What a queue does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// There is no listener: the packet is dropped, or continues if the rule has `bypass`.
    Nobody,
    /// Too many packets wait: it is dropped.
    Full,
    /// Too many packets wait: it continues as if it was accepted (`NFQA_CFG_F_FAIL_OPEN`).
    PassedBy,
    /// It waits for [`Dataplane::verdict`](crate::Dataplane::verdict).
    Held,
    /// It is a super-packet, and the listener wants its segments: each is queued by itself. Said of
    /// other packets it is as if the listener had no room.
    Cut,
}

/// What happened to a traced packet. `meta.trace_id` of the packet tells packets apart.
#[derive(Clone, Copy, Debug)]
pub struct TraceRecord<'a> {
    /// Where. The rule is `None` unless a rule is what happened.
    pub place: Place<'a>,
    /// Hook and family.
    pub context: penstock_program::Context,
    /// Interface of arrival, where the hook has one.
    pub input: Option<&'a Link>,
    /// Interface of departure, where the hook has one.
    pub output: Option<&'a Link>,
    /// What.
    pub event: TraceEvent<'a>,
}

/// A step of a traced packet, one line of `nft monitor trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEvent<'a> {
    /// The packet as it is when a base chain first has something to say about it: the `packet:`
    /// line.
    Packet,
    /// A rule that did not break off, and its verdict.
    Rule(TraceVerdict<'a>),
    /// A chain that returned; by a rule if the place names one.
    Return(TraceVerdict<'a>),
    /// The policy of the base chain, accept or drop.
    Policy(bool),
}

/// A verdict as a trace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerdict<'a> {
    /// `accept`.
    Accept,
    /// `drop`.
    Drop,
    /// `stolen`.
    Stolen,
    /// `continue`.
    Continue,
    /// `return`.
    Return,
    /// `jump` to a chain.
    Jump(&'a str),
    /// `goto` a chain.
    Goto(&'a str),
    /// `queue`.
    Queue,
}

/// Receives the output of the dataplane. Methods are called in the order of events; those with a
/// default body are optional. Bytes must be copied if they are needed later.
pub trait Sink {
    /// A frame leaves on a wire, tags included; on a device without link header the packet alone.
    /// `meta` is what the tc stage and queues see: mark, priority, time.
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta);

    /// A frame passes a device that is listened to
    /// ([`Dataplane::set_taps`](crate::Dataplane::set_taps)): on its way in, or `outgoing`.
    fn tap(&mut self, device: &Link, frame: &[u8], meta: &Meta, outgoing: bool) {
        let _ = (device, frame, meta, outgoing);
    }

    /// A packet has come to the host itself: an IP packet after `input`, or an ARP message.
    /// `device` is where it came in. The bytes are those from the network header on; the link
    /// header may still be there before it.
    fn deliver(&mut self, device: &Link, packet: &Packet);

    /// A packet ends.
    #[inline]
    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        let _ = (drop, packet);
    }

    /// Several packets end one after the other, all for the same reason in the same place. Whether
    /// this call suffices: then they are not reported one by one ([`Sink::drop`]), and nothing has
    /// to be known of the packets.
    #[inline]
    fn drop_several(&mut self, drop: &DropEvent<'_>, packets: u64) -> bool {
        let _ = (drop, packets);
        false
    }

    /// A `log` statement.
    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        let _ = (record, packet);
    }

    /// A rule gives a packet to a queue. It is answered later, not from here.
    fn queue(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        let _ = (record, packet);
        Queued::Nobody
    }

    /// The link address of a next hop is unknown. A sink that can find it out begins to, and says
    /// so: the packet then waits, within bounds, until a network has it
    /// ([`Dataplane::set_network`](crate::Dataplane::set_network)). Otherwise it is dropped. Asked
    /// again each second.
    fn resolve(&mut self, device: &Link, next_hop: std::net::IpAddr) -> bool {
        let _ = (device, next_hop);
        false
    }

    /// A quota is used up, of an object or of an account: once, until it is reset. The state is that
    /// which the object or the account has.
    fn quota_depleted(&mut self, quota: &Arc<State>) {
        let _ = quota;
    }

    /// A traced packet goes a step.
    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        let _ = (record, packet);
    }

    /// A BPF program was ended, as it did what it may not: told once for each attachment.
    fn bpf_fault(&mut self, fault: &BpfFault<'_>) {
        let _ = fault;
    }

    /// A packet of which the program of a chain makes something else than its rules: told once for
    /// each chain.
    fn bpf_differs(&mut self, difference: &BpfDifference<'_>, packet: &Packet) {
        let _ = (difference, packet);
    }

    /// A line of `bpf_printk()`, without the newline at its end.
    fn bpf_printk(&mut self, line: &str) {
        let _ = line;
    }
}
