// SPDX-License-Identifier: Apache-2.0

//! Connections: the lines of `conntrack -L` and of `/proc/net/nf_conntrack`.

use std::fmt;
use std::net::IpAddr;

use penstock_conntrack::{self as conntrack, Direction, Style, Tuple, status};
use penstock_wire::protocol;
use serde::{Serialize, Serializer};

use super::About;

/// On the command line.
pub const ABOUT: About = About {
    word: "conntrack",
    lists: "connections, as `conntrack -L` prints them",
    milliseconds: None,
};

/// The list in JSON.
pub const KEY: &str = "connections";

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Connection<'a> {
    /// Name of the transport protocol; `unknown` for those that conntrack(8) does not name.
    pub protocol: &'static str,
    /// Its number.
    pub protocol_number: u8,
    /// Seconds until the connection ends if no packet comes; none while a flowtable has it, as in
    /// the kernel (`ctnetlink_dump_info()`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// State, for protocols that have one; none while a flowtable has the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// Mark.
    pub mark: u32,
    /// Security mark, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secmark: Option<u32>,
    /// Zone, if it is not 0 and the same for both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<u16>,
    /// Seconds since it began, if that is recorded (`nf_conntrack_timestamp`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_time: Option<u64>,
    /// Helper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<&'a str>,
    /// References: its own, and those of expected connections.
    #[serde(rename = "use")]
    pub references: u32,
    /// The original direction.
    pub original: End,
    /// The reply direction.
    pub reply: End,
    /// Flags.
    pub flags: Flags,
}

/// A direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// What else tells connections between the addresses apart.
    #[serde(flatten)]
    pub ids: Ids,
    /// Zone of the original direction, if the other one has another zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_orig: Option<u16>,
    /// Zone of the reply direction, if the original one has another zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_reply: Option<u16>,
    /// Packets and bytes, if they are counted (`nf_conntrack_acct`).
    #[serde(flatten)]
    pub counter: Option<Counter>,
}

/// Packets and bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes from the network header on.
    pub bytes: u64,
}

/// Identifiers of a direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Ids {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// No packet of the reply direction came.
    pub unreplied: bool,
    /// `HW_OFFLOAD`, `OFFLOAD` or `ASSURED`.
    pub kept: Option<&'static str>,
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
        /// Nanoseconds.
        const SECOND: u64 = 1_000_000_000;
        let c = connection;
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
        Connection {
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

impl fmt::Display for End {
    /// Each word is followed by a space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src={} dst={} ", self.src, self.dst)?;
        match &self.ids {
            Ids::Ports { sport, dport } => write!(f, "sport={sport} dport={dport} ")?,
            Ids::Icmp { kind, code, id } => write!(f, "type={kind} code={code} id={id} ")?,
            Ids::Gre { srckey, dstkey } => write!(f, "srckey={srckey:#x} dstkey={dstkey:#x} ")?,
            Ids::None {} => {}
        }
        if let Some(zone) = self.zone_orig {
            write!(f, "zone-orig={zone} ")?;
        }
        if let Some(zone) = self.zone_reply {
            write!(f, "zone-reply={zone} ")?;
        }
        match self.counter {
            Some(Counter { packets, bytes }) => write!(f, "packets={packets} bytes={bytes} "),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Connection<'_> {
    /// A line, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {} ", self.protocol, self.protocol_number)?;
        if let Some(seconds) = self.timeout {
            write!(f, "{seconds} ")?;
        }
        if let Some(state) = self.state {
            write!(f, "{state} ")?;
        }
        write!(f, "{}", self.original)?;
        if self.flags.unreplied {
            f.write_str("[UNREPLIED] ")?;
        }
        write!(f, "{}", self.reply)?;
        if let Some(flag) = self.flags.kept {
            write!(f, "[{flag}] ")?;
        }
        write!(f, "mark={} ", self.mark)?;
        if let Some(mark) = self.secmark {
            write!(f, "secmark={mark} ")?;
        }
        if let Some(zone) = self.zone {
            write!(f, "zone={zone} ")?;
        }
        if let Some(seconds) = self.delta_time {
            write!(f, "delta-time={seconds} ")?;
        }
        if let Some(helper) = self.helper {
            write!(f, "helper={helper} ")?;
        }
        write!(f, "use={}", self.references)
    }
}
