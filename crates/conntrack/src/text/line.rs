// SPDX-License-Identifier: Apache-2.0

//! Connections as text: a line of `conntrack -L` and of `/proc/net/nf_conntrack`.

use super::date;
use crate::expectation::{Expectation, expect_flag};
use crate::settings::SECOND;
use crate::table::{Connection, Conntrack, EventKind};
use crate::tracker::ProtocolState;
use crate::tuple::IPV4;
use crate::{Direction, Tuple, event, status};
use penstock_wire::protocol;
use std::fmt::{self, Write};

/// Which of the two forms, and what of `conntrack -o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// As the kernel's file has it, with family, zone and two references.
    pub proc: bool,
    /// With the family in front (`-o extended`).
    pub extended: bool,
    /// With the identifier (`-o id`).
    pub id: bool,
    /// With the time when it began (`-o ktimestamp`), in UTC.
    pub ktimestamp: bool,
    /// With the labels as numbers of bits (`-o labels` without a file of names).
    pub labels: bool,
    /// As a message of an event has it: what is not said there is left out. With the bits of
    /// [`crate::event`] that the event has.
    pub event: Option<(EventKind, u16)>,
}

/// A connection's line, without line end.
pub struct Line<'a> {
    connection: Connection<'a>,
    style: Style,
}

/// Name of an IP protocol as conntrack(8) has it: `unknown` for those that it does not name.
pub fn protocol_name(number: u8) -> &'static str {
    match number {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::UDPLITE => "udplite",
        protocol::ICMP => "icmp",
        protocol::ICMPV6 => "icmpv6",
        protocol::SCTP => "sctp",
        protocol::DCCP => "dccp",
        protocol::GRE => "gre",
        _ => "unknown",
    }
}

/// Family name and number.
fn family(l3: u8) -> &'static str {
    if l3 == IPV4 { "ipv4" } else { "ipv6" }
}

/// Addresses and identifiers of a direction, each followed by a space.
fn write_tuple(f: &mut impl Write, t: &Tuple, proc: bool) -> fmt::Result {
    write!(f, "src=")?;
    write_address(f, t, true, proc)?;
    write!(f, " dst=")?;
    write_address(f, t, false, proc)?;
    write!(f, " ")?;
    write_ids(f, t)
}

/// Identifiers of a direction, each followed by a space.
fn write_ids(f: &mut impl Write, t: &Tuple) -> fmt::Result {
    match t.protocol {
        protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP => {
            write!(f, "sport={} dport={} ", t.src_id, t.dst_id)
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let [kind, code] = t.dst_id.to_be_bytes();
            write!(f, "type={kind} code={code} id={} ", t.src_id)
        }
        protocol::GRE => write!(f, "srckey=0x{:x} dstkey=0x{:x} ", t.src_id, t.dst_id),
        _ => Ok(()),
    }
}

/// The kernel's file writes IPv6 addresses in full.
fn write_address(f: &mut impl Write, t: &Tuple, source: bool, proc: bool) -> fmt::Result {
    let address = if source { t.source() } else { t.destination() };
    match address {
        std::net::IpAddr::V6(a) if proc => {
            let s = a.segments().map(|s| format!("{s:04x}")).join(":");
            write!(f, "{s}")
        }
        address => write!(f, "{address}"),
    }
}

impl<'a> Connection<'a> {
    /// The line that lists it.
    pub fn line(&self, style: Style) -> Line<'a> {
        Line { connection: *self, style }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (c, proc) = (&self.connection, self.style.proc);
        let original = c.tuple(Direction::Original);
        let has = |bits| c.status() & bits != 0;
        if proc || self.style.extended {
            write!(f, "{:<8} {} ", family(original.l3), original.l3)?;
        }
        write!(f, "{:<8} {} ", protocol_name(original.protocol), original.protocol)?;
        // A flowtable keeps an offloaded connection, and does not track its state: listings have
        // neither timeout nor state (`ctnetlink_dump_info()`, `ct_seq_show()`), events have both.
        let offloaded = has(status::OFFLOAD);
        let kept = offloaded && self.style.event.is_none();
        // The last event of a connection tells everything, others what has changed
        // (`ctnetlink_conntrack_event()`).
        let ended = matches!(self.style.event, Some((EventKind::Destroy, _)));
        let left = c.remaining() / SECOND;
        if !(kept || ended && left == 0) {
            write!(f, "{left} ")?;
        }
        let changed = |what: u16| self.style.event.is_none_or(|(_, all)| ended || all & what != 0);
        if proc && let ProtocolState::Gre { timeout, stream_timeout } = c.proto() {
            write!(f, "timeout={}, stream_timeout={} ", timeout / SECOND, stream_timeout / SECOND)?;
        }
        if let Some(state) = c.state().filter(|_| !kept && changed(event::PROTOINFO)) {
            write!(f, "{state} ")?;
        }
        for direction in [Direction::Original, Direction::Reply] {
            write_tuple(f, c.tuple(direction), proc)?;
            if original.zone != c.zone(Direction::Reply) {
                match direction {
                    Direction::Original if original.zone != 0 => {
                        write!(f, "zone-orig={} ", original.zone)?
                    }
                    Direction::Reply if c.zone(direction) != 0 => {
                        write!(f, "zone-reply={} ", c.zone(direction))?;
                    }
                    _ => {}
                }
            }
            let counted = self.style.event.is_none() || ended;
            if let Some(counter) = c.counters(direction).filter(|_| counted) {
                write!(f, "packets={} bytes={} ", counter.packets, counter.bytes)?;
            }
            if direction == Direction::Original && !has(status::SEEN_REPLY) {
                write!(f, "[UNREPLIED] ")?;
            }
        }
        if has(status::HW_OFFLOAD) {
            write!(f, "[HW_OFFLOAD] ")?;
        } else if offloaded {
            write!(f, "[OFFLOAD] ")?;
        } else if has(status::ASSURED) {
            write!(f, "[ASSURED] ")?;
        }
        if c.mark() != 0 || changed(event::MARK) && !ended {
            write!(f, "mark={} ", c.mark())?;
        }
        if c.secmark() != 0 && !proc && changed(event::SECMARK) {
            write!(f, "secmark={} ", c.secmark())?;
        }
        let same_zone = original.zone == c.zone(Direction::Reply);
        if same_zone && (original.zone != 0 || proc) {
            write!(f, "zone={} ", original.zone)?;
        }
        if !proc {
            if let Some((start, _)) = c.times().filter(|_| self.style.event.is_none() || ended) {
                let since = c.now().saturating_sub(start) / SECOND;
                write!(f, "delta-time={since} ")?;
                if self.style.ktimestamp {
                    write!(f, "[start={}] ", date::ctime(start))?;
                }
            }
            if let Some(helper) = c.helper() {
                write!(f, "helper={helper} ")?;
            }
        } else if let Some((start, _)) = c.times() {
            write!(f, "delta-time={} ", c.now().saturating_sub(start) / SECOND)?;
        }
        if self.style.event.is_none() {
            let references = if proc { 2 } else { 1 };
            write!(f, "use={}", references + c.children())?;
        }
        if !proc && self.style.id {
            write!(f, " id={}", c.id())?;
        }
        if !proc
            && self.style.labels
            && let Some(labels) = c.labels()
        {
            let bits: Vec<String> = (0..128)
                .filter(|b| labels[b / 32] >> (b % 32) & 1 != 0)
                .map(|b| b.to_string())
                .collect();
            if !bits.is_empty() {
                write!(f, " labels={}", bits.join(","))?;
            }
        }
        Ok(())
    }
}

/// An event as `conntrack -E` prints it.
pub struct EventLine<'a> {
    kind: EventKind,
    line: Line<'a>,
}

impl Connection<'_> {
    /// The line that tells of an event with these bits of [`crate::event`].
    pub fn event_line(&self, kind: EventKind, what: u16) -> EventLine<'_> {
        let style = Style { event: Some((kind, what)), ..Style::default() };
        EventLine { kind, line: self.line(style) }
    }
}

impl fmt::Display for EventLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9} {}", self.kind.word(), self.line.to_string().trim_end())
    }
}

/// The line of an expectation as `conntrack -L expect` has it.
pub struct ExpectationLine<'a> {
    expectation: &'a Expectation,
    left: u64,
    master: Option<Connection<'a>>,
}

impl<'a> ExpectationLine<'a> {
    /// The line of an expectation that ends in `left` nanoseconds.
    pub fn new(expectation: &'a Expectation, left: u64, master: Option<Connection<'a>>) -> Self {
        ExpectationLine { expectation, left, master }
    }
}

impl Conntrack {
    /// The lines of all expectations.
    pub fn expectation_lines(&self) -> impl Iterator<Item = ExpectationLine<'_>> {
        self.expectations().map(|(expectation, left)| {
            ExpectationLine::new(expectation, left, self.connection_ref(expectation.master))
        })
    }
}

impl fmt::Display for ExpectationLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = self.expectation;
        write!(f, "{} proto={} ", self.left / SECOND, e.tuple.protocol)?;
        write_tuple(f, &e.tuple, false)?;
        let src_id = if e.source_port { 0xffff } else { 0 };
        let mask = Tuple { src: e.source_mask, dst: [0xff; 16], src_id, dst_id: 0xffff, ..e.tuple };
        write!(f, "mask-src={} mask-dst={} ", mask.source(), mask.destination())?;
        write_ids(f, &mask)?;
        if let Some(master) = self.master {
            let t = master.tuple(Direction::Original);
            write!(f, "master-src={} master-dst={} ", t.source(), t.destination())?;
            write_ids(f, t)?;
            if t.zone != 0 {
                write!(f, "zone={} ", t.zone)?;
            }
        }
        let names = [
            (expect_flag::PERMANENT, "PERMANENT"),
            (expect_flag::INACTIVE, "INACTIVE"),
            (expect_flag::USERSPACE, "USERSPACE"),
        ];
        let flags: Vec<&str> =
            names.into_iter().filter(|(bit, _)| e.flags & bit != 0).map(|(_, n)| n).collect();
        if !flags.is_empty() {
            write!(f, "{} ", flags.join(","))?;
        }
        write!(f, "class={}", e.class)?;
        match self.master.and_then(|m| m.helper()) {
            Some(helper) => write!(f, " helper={helper}"),
            None => Ok(()),
        }
    }
}
