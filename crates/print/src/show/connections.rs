// SPDX-License-Identifier: Apache-2.0

//! Connections: the lines of `conntrack -L` and of `/proc/net/nf_conntrack`.

use std::fmt;
use std::net::IpAddr;

use penstock_conntrack::{self as conntrack, Direction, EventKind, Line, Style, Tuple, status};
use penstock_wire::protocol;
use serde::{Serialize, Serializer};

use super::About;
use crate::json;

/// On the command line.
pub const ABOUT: About = About {
    word: "conntrack",
    lists: "connections, as `conntrack -L` prints them",
    milliseconds: None,
};

/// The list in JSON.
pub const KEY: &str = "connections";

/// A connection of a table. Its text is conntrack's own [`Line`], so there is one form of it.
pub struct Connection<'a> {
    connection: conntrack::Connection<'a>,
    line: Line<'a>,
}

/// Its members in JSON.
#[derive(Serialize)]
struct Members<'a> {
    /// Name of the transport protocol; `unknown` for those that conntrack(8) does not name.
    protocol: &'static str,
    /// Its number.
    protocol_number: u8,
    /// Seconds until the connection ends if no packet comes; none while a flowtable has it, as in
    /// the kernel (`ctnetlink_dump_info()`).
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// State, for protocols that have one; none while a flowtable has the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Mark.
    mark: u32,
    /// Security mark, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    secmark: Option<u32>,
    /// Zone, if it is not 0 and the same for both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<u16>,
    /// Seconds since it began, if that is recorded (`nf_conntrack_timestamp`).
    #[serde(skip_serializing_if = "Option::is_none")]
    delta_time: Option<u64>,
    /// Helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    helper: Option<&'a str>,
    /// References: its own, and those of expected connections.
    #[serde(rename = "use")]
    references: u32,
    /// The original direction.
    original: End,
    /// The reply direction.
    reply: End,
    /// Flags.
    flags: Flags,
}

/// A direction.
#[derive(Serialize)]
struct End {
    /// Source address.
    src: IpAddr,
    /// Destination address.
    dst: IpAddr,
    /// What else tells connections between the addresses apart.
    #[serde(flatten)]
    ids: Ids,
    /// Zone of the original direction, if the other one has another zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_orig: Option<u16>,
    /// Zone of the reply direction, if the original one has another zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_reply: Option<u16>,
    /// Packets and bytes, if they are counted (`nf_conntrack_acct`).
    #[serde(flatten)]
    counter: Option<Counter>,
}

/// Packets and bytes of a direction.
#[derive(Serialize)]
struct Counter {
    /// Packets.
    packets: u64,
    /// Bytes from the network header on.
    bytes: u64,
}

/// Identifiers of a direction.
#[derive(Serialize)]
#[serde(untagged)]
enum Ids {
    /// Ports.
    Ports {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// ICMP and ICMPv6.
    Icmp {
        /// Type.
        #[serde(rename = "type")]
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier.
        id: u16,
    },
    /// GRE with keys.
    Gre {
        /// Key of the source.
        #[serde(serialize_with = "hexadecimal")]
        srckey: u16,
        /// Key of the destination.
        #[serde(serialize_with = "hexadecimal")]
        dstkey: u16,
    },
    /// None.
    None {},
}

/// A connection as a line of `/proc/net/nf_conntrack`.
pub struct ProcLine<'a>(pub conntrack::Connection<'a>);

impl fmt::Display for ProcLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.line(Style { proc: true, ..Style::default() }).fmt(f)
    }
}

impl Serialize for ProcLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn hexadecimal<S: Serializer>(key: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{key:#x}"))
}

/// Flags, which lines have in brackets.
struct Flags {
    /// No packet of the reply direction came.
    unreplied: bool,
    /// `HW_OFFLOAD`, `OFFLOAD` or `ASSURED`.
    kept: Option<&'static str>,
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.unreplied.then_some("UNREPLIED").into_iter().chain(self.kept))
    }
}

fn ids(tuple: &Tuple) -> Ids {
    let (sport, dport) = (tuple.src_id, tuple.dst_id);
    match tuple.protocol {
        protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP => {
            Ids::Ports { sport, dport }
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let [kind, code] = dport.to_be_bytes();
            Ids::Icmp { kind, code, id: sport }
        }
        protocol::GRE => Ids::Gre { srckey: sport, dstkey: dport },
        _ => Ids::None {},
    }
}

impl<'a> Connection<'a> {
    /// A connection of the table.
    pub fn of(connection: &conntrack::Connection<'a>) -> Self {
        Connection::styled(connection, Style::default())
    }

    /// A connection of the table, with a line in another style.
    pub fn styled(connection: &conntrack::Connection<'a>, style: Style) -> Self {
        Connection { connection: *connection, line: connection.line(style) }
    }
}

/// An event as a line of JSON, with its end.
pub fn event_json(kind: EventKind, connection: &conntrack::Connection<'_>) -> String {
    /// An event of a connection.
    #[derive(Serialize)]
    struct Event<'a> {
        event: &'a str,
        connection: Members<'a>,
    }
    let event = kind.word().trim_matches(['[', ']']);
    let event = Event { event, connection: Members::of(connection) };
    json::line(&event)
}

impl<'a> Members<'a> {
    fn of(c: &conntrack::Connection<'a>) -> Self {
        /// Nanoseconds.
        const SECOND: u64 = 1_000_000_000;
        let has = |bits| c.status() & bits != 0;
        let original = c.tuple(Direction::Original);
        let zones = [original.zone, c.zone(Direction::Reply)];
        let same = zones[0] == zones[1];
        let offloaded = has(status::OFFLOAD);
        let end = |direction| {
            let tuple = c.tuple(direction);
            let apart = |of: Direction| {
                let zone = zones[of as usize];
                (direction == of && !same && zone != 0).then_some(zone)
            };
            let counter = c.counters(direction);
            End {
                src: tuple.source(),
                dst: tuple.destination(),
                ids: ids(tuple),
                zone_orig: apart(Direction::Original),
                zone_reply: apart(Direction::Reply),
                counter: counter.map(|c| Counter { packets: c.packets, bytes: c.bytes }),
            }
        };
        Members {
            protocol: conntrack::protocol_name(original.protocol),
            protocol_number: original.protocol,
            timeout: (!offloaded).then(|| c.remaining() / SECOND),
            state: c.state().filter(|_| !offloaded),
            mark: c.mark(),
            secmark: Some(c.secmark()).filter(|mark| *mark != 0),
            zone: Some(zones[0]).filter(|zone| same && *zone != 0),
            delta_time: c.times().map(|(start, _)| c.now().saturating_sub(start) / SECOND),
            helper: c.helper(),
            references: 1 + c.children(),
            original: end(Direction::Original),
            reply: end(Direction::Reply),
            flags: Flags {
                unreplied: !has(status::SEEN_REPLY),
                kept: [
                    (status::HW_OFFLOAD, "HW_OFFLOAD"),
                    (status::OFFLOAD, "OFFLOAD"),
                    (status::ASSURED, "ASSURED"),
                ]
                .into_iter()
                .find_map(|(bit, flag)| has(bit).then_some(flag)),
            },
        }
    }
}

impl fmt::Display for Connection<'_> {
    /// The line of `conntrack -L`, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.fmt(f)
    }
}

impl Serialize for Connection<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Members::of(&self.connection).serialize(serializer)
    }
}
