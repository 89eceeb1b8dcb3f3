// SPDX-License-Identifier: Apache-2.0

//! What happens to packets, as reported to sinks.

use std::fmt;
use std::net::IpAddr;

use crate::{Device, DropReason, Family};

/// A rule, or the policy of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePlace<'a> {
    /// Family of the table.
    pub family: Family,
    /// The table.
    pub table: &'a str,
    /// The chain.
    pub chain: &'a str,
    /// The rule's handle; `None` for the chain's policy.
    pub handle: Option<u64>,
}

/// As in `inet filter forward handle 12`.
impl fmt::Display for RulePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family.name(), self.table, self.chain)?;
        self.handle.map_or(Ok(()), |handle| write!(f, " handle {handle}"))
    }
}

/// A frame leaves by a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// The device.
    pub device: Device,
    /// Its name.
    pub name: &'a str,
    /// The frame with its Ethernet header and tags, checksums whole; on a device without link
    /// header the IP packet.
    pub frame: &'a [u8],
    /// `meta mark`.
    pub mark: u32,
    /// `meta priority`.
    pub priority: u32,
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}

/// A packet has come to the host itself: IP after the `input` hook, or ARP. Nothing answers for the
/// host's sockets; the program may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// The device that it came in by.
    pub device: Device,
    /// Its name.
    pub name: &'a str,
    /// EtherType, host byte order: 0x0800, 0x86dd or 0x0806.
    pub protocol: u16,
    /// The packet from its network header on.
    pub packet: &'a [u8],
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}

/// A packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<'a> {
    /// Why.
    pub reason: DropReason,
    /// The rule or policy that dropped it, if one did.
    pub rule: Option<RulePlace<'a>>,
    /// The packet from its network header on; empty if that was not found.
    pub packet: &'a [u8],
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}

/// A `log` statement, or what connection tracking says of an invalid packet
/// (`nf_conntrack_log_invalid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged<'a> {
    /// The rule; names are empty if it is connection tracking.
    pub rule: RulePlace<'a>,
    /// `prefix "…"`, or nothing.
    pub prefix: &'a str,
    /// `group N`.
    pub group: Option<u16>,
    /// Device of arrival, where the hook has one.
    pub input: Option<Device>,
    /// Device of departure, where the hook has one.
    pub output: Option<Device>,
    /// The packet from its network header on.
    pub packet: &'a [u8],
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}

/// A traced packet goes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced<'a> {
    /// Tells packets apart.
    pub id: u32,
    /// Where. The handle is `None` unless a rule is what happened.
    pub place: RulePlace<'a>,
    /// The line that `nft monitor trace` prints, without its end.
    pub line: &'a str,
}

/// Number of a packet that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub(crate) u64);

/// A rule gives a packet to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// By which it is answered: [`Dataplane::answer`](crate::Dataplane::answer).
    pub id: QueueId,
    /// Number of the queue.
    pub queue: u16,
    /// The rule.
    pub rule: Option<RulePlace<'a>>,
    /// Device of arrival, where the hook has one.
    pub input: Option<Device>,
    /// Device of departure, where the hook has one.
    pub output: Option<Device>,
    /// The packet from its network header on.
    pub packet: &'a [u8],
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}

/// The link address of a next hop is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unresolved<'a> {
    /// The device that leads to it.
    pub device: Device,
    /// The device's name.
    pub name: &'a str,
    /// The next hop.
    pub next_hop: IpAddr,
}

/// A frame passes a device that is captured ([`Dataplane::capture`](crate::Dataplane::capture)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// The device.
    pub device: Device,
    /// Its name.
    pub name: &'a str,
    /// On its way out, or else in.
    pub outgoing: bool,
    /// The frame with its Ethernet header.
    pub frame: &'a [u8],
    /// Time of the packet, in nanoseconds since the epoch.
    pub time: u64,
}
