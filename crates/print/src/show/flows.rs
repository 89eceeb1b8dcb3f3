// SPDX-License-Identifier: Apache-2.0

//! Flows in flowtables, connections that rules wanted there and that are not there, and totals.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use penstock_conntrack::{Direction, EventKind, Outline, Tuple};
use penstock_dataplane::{
    FlowCounts, FlowEnd, FlowEntry, FlowEvent, FlowSummary, ListedFlow, RememberedWays,
};
use penstock_flowtable::{Encap, Tunnel, XmitType};
use penstock_net::Network;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::About;

/// On the command line.
pub const ABOUT: About = About {
    word: "flows",
    lists: "flows in flowtables, and why other connections are not there",
    milliseconds: None,
};

/// The list in JSON.
pub const KEY: &str = "flows";

/// A flow, or a connection that is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow<'a> {
    /// Family of the table that its flowtable is in.
    pub family: &'static str,
    /// The table.
    pub table: &'a str,
    /// The flowtable.
    pub flowtable: &'a str,
    /// Transport protocol: `tcp`, `udp`, `gre`, or `ip`.
    pub protocol: &'static str,
    /// Ends of the original direction, as its packets arrive.
    pub original: Ends,
    /// Ends of the original direction as its packets leave, if NAT changes them.
    pub leaves_as: Option<Ends>,
    /// Whether it is in the flowtable.
    #[serde(flatten)]
    pub state: State<'a>,
}

/// Addresses and ports of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Source.
    pub source: SocketAddr,
    /// Destination.
    pub destination: SocketAddr,
}

/// Whether a flow is in its flowtable.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum State<'a> {
    /// It is there.
    Offloaded {
        /// Of the original and of the reply direction.
        ways: Box<[Way<'a>; 2]>,
        /// Since it was added.
        #[serde(serialize_with = "seconds")]
        age: Duration,
        /// Since its latest packet.
        #[serde(serialize_with = "seconds")]
        idle: Duration,
        /// What forwards it.
        by: By,
        /// A FIN or a reset went.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        closing: bool,
    },
    /// It is not.
    Refused {
        /// Why.
        not_offloaded: &'static str,
    },
}

/// What forwards a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A device.
    Device,
    /// The flowtable.
    Flowtable,
}

/// The way of a direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way<'a> {
    /// Where its packets arrive.
    pub from: Stack<'a>,
    /// Where they leave, if there is no next hop with how they leave.
    pub to: Stack<'a>,
    /// The next hop, and how they leave.
    pub via: Option<Hop>,
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes from the network header on.
    pub bytes: u64,
}

/// A device with the headers around its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Its name.
    pub device: Arc<str>,
    /// Tags and sessions, the outermost first.
    pub encaps: &'a [Encap],
    /// A tunnel inside of them.
    pub tunnel: Option<Tunnel>,
    /// How packets leave.
    pub leaves: Leaves,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Its address.
    pub address: IpAddr,
    /// How packets leave.
    pub leaves: Leaves,
}

/// How packets leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// As packets of a route.
    #[default]
    Routed,
    /// As frames with link addresses that are known.
    Direct,
    /// Through IPsec.
    Ipsec,
}

/// Milliseconds are as exact as it is printed.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e3).round() / 1e3)
}

fn ends(tuple: &Tuple) -> Ends {
    Ends {
        source: SocketAddr::new(tuple.source(), tuple.src_id),
        destination: SocketAddr::new(tuple.destination(), tuple.dst_id),
    }
}

impl<'a> Flow<'a> {
    /// An entry of a flowtable; `now` are nanoseconds since the epoch.
    pub fn of(entry: &FlowEntry<'a>, net: &Network, now: u64) -> Self {
        match entry {
            FlowEntry::Flow(flow) => Flow::listed(flow, net, now),
            FlowEntry::Refused(refused) => {
                let of = (refused.family.name(), refused.table, refused.flowtable);
                let state = State::Refused { not_offloaded: refused.reason.text() };
                Flow::with(of, &refused.outline, state)
            }
        }
    }

    /// A flow that is in its flowtable, or was just removed from it.
    fn listed(flow: &ListedFlow<'a>, net: &Network, now: u64) -> Self {
        let ways = [Direction::Original, Direction::Reply].map(|d| way(flow, d, net));
        let since = |time| Duration::from_nanos(now.saturating_sub(time));
        let state = State::Offloaded {
            ways: Box::new(ways),
            age: since(flow.added),
            idle: since(flow.used),
            by: if flow.hardware { By::Device } else { By::Flowtable },
            closing: flow.closing,
        };
        let of = (flow.family.name(), flow.table, flow.flowtable);
        Flow::with(of, &flow.outline, state)
    }

    fn with(
        (family, table, flowtable): (&'static str, &'a str, &'a str),
        outline: &Outline,
        state: State<'a>,
    ) -> Self {
        let [original, reply] = &outline.tuples;
        // It leaves as what replies answer to.
        let translated =
            original.invert().is_some_and(|plain| plain != Tuple { zone: plain.zone, ..*reply });
        let protocol = match original.protocol {
            6 => "tcp",
            17 => "udp",
            47 => "gre",
            _ => "ip",
        };
        let leaves_as = reply.invert().filter(|_| translated).map(|leaves| ends(&leaves));
        Flow { family, table, flowtable, protocol, original: ends(original), leaves_as, state }
    }
}

fn way<'a>(flow: &ListedFlow<'a>, direction: Direction, net: &Network) -> Way<'a> {
    let at = direction as usize;
    let (arrival, xmit, (packets, bytes)) = (flow.arrivals[at], flow.xmits[at], flow.packets[at]);
    let leaves = match xmit.xmit_type {
        XmitType::Neigh => Leaves::Routed,
        XmitType::Direct => Leaves::Direct,
        XmitType::Xfrm(_) => Leaves::Ipsec,
    };
    let via = xmit.next_hop.map(|address| Hop { address, leaves });
    Way {
        from: Stack {
            device: net.name_of(arrival.device),
            encaps: arrival.encaps.as_slice(),
            tunnel: arrival.tunnel,
            leaves: Leaves::Routed,
        },
        to: Stack {
            device: net.name_of(xmit.device),
            encaps: xmit.encaps.as_slice(),
            tunnel: xmit.tunnel.map(|tunnel| tunnel.ends),
            leaves: if via.is_none() { leaves } else { Leaves::Routed },
        },
        via,
        mtu: xmit.mtu,
        packets,
        bytes,
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Device => "in hardware",
            By::Flowtable => "in software",
        })
    }
}

impl fmt::Display for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Leaves::Routed => "",
            Leaves::Direct => " direct",
            Leaves::Ipsec => " ipsec",
        })
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.address, self.leaves)
    }
}

impl Serialize for Hop {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        for encap in self.encaps {
            match encap.protocol {
                0x8864 => write!(f, " pppoe {}", encap.id)?,
                0x88a8 => write!(f, " 802.1ad {}", encap.id)?,
                _ => write!(f, " vlan {}", encap.id)?,
            }
        }
        if let Some(tunnel) = self.tunnel {
            write!(f, " tunnel {} > {}", tunnel.src, tunnel.dst)?;
        }
        write!(f, "{}", self.leaves)
    }
}

impl Serialize for Stack<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Ends {
    /// `198.18.1.7:1000 > 198.18.0.7:53`, addresses of IPv6 in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.source, self.destination)
    }
}

impl Flow<'_> {
    /// Where it is, and between which ends.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow { family, table, flowtable, protocol, original, leaves_as, .. } = self;
        write!(f, "{family} {table} {flowtable}: {protocol} {original}")?;
        leaves_as.iter().try_for_each(|leaves| write!(f, ", leaves as {leaves}"))
    }
}

impl fmt::Display for Flow<'_> {
    /// Its lines, without the last end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        match &self.state {
            State::Refused { not_offloaded } => write!(f, "\n    not offloaded: {not_offloaded}"),
            State::Offloaded { ways, age, idle, by, closing } => {
                ways.iter().try_for_each(|way| way.line(*age, f))?;
                let (age, idle) = (age.as_secs_f64(), idle.as_secs_f64());
                write!(f, "\n    age {age:.3} s, idle {idle:.3} s, ")?;
                write!(f, "{by}")?;
                f.write_str(if *closing { ", closing" } else { "" })
            }
        }
    }
}

impl fmt::Display for Way<'_> {
    /// Where its packets arrive and leave, and how many they were.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Way { from, to, via, mtu, packets, bytes } = self;
        write!(f, "{from} -> {to}")?;
        if let Some(hop) = via {
            write!(f, " via {hop}")?;
        }
        write!(f, " mtu {mtu}: {packets} packets {bytes} bytes")
    }
}

impl Way<'_> {
    /// Its line, with average rates since it was added.
    fn line(&self, age: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |count: u64| count as f64 * 1e9 / (age.as_nanos().max(1) as f64);
        write!(f, "\n    {self}")?;
        write!(f, ", {:.1} packets/s {:.0} bit/s", rate(self.packets), rate(self.bytes * 8))
    }
}

/// What happened to a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event<'a> {
    /// The word that connections have for events of its kind.
    event: &'static str,
    /// Why the flow was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<&'static str>,
    /// The flow as it is then.
    flow: Flow<'a>,
}

impl<'a> Event<'a> {
    /// What happened to an entry of a flowtable; `now` are nanoseconds since the epoch.
    pub fn of(event: FlowEvent, flow: &ListedFlow<'a>, net: &Network, now: u64) -> Self {
        let removed = match event {
            FlowEvent::Removed(FlowEnd::Expired) => Some("expired"),
            FlowEvent::Removed(FlowEnd::TornDown) => Some("torn down"),
            FlowEvent::Removed(FlowEnd::WithConnection) => Some("connection ended"),
            FlowEvent::Added | FlowEvent::ToDevice | FlowEvent::FromDevice => None,
        };
        let event = Event::kind(event).word().trim_matches(['[', ']']);
        Event { event, removed, flow: Flow::listed(flow, net, now) }
    }

    /// Which of the kinds of events of connections it is.
    pub fn kind(event: FlowEvent) -> EventKind {
        match event {
            FlowEvent::Added => EventKind::New,
            FlowEvent::ToDevice | FlowEvent::FromDevice => EventKind::Update,
            FlowEvent::Removed(_) => EventKind::Destroy,
        }
    }
}

impl fmt::Display for Event<'_> {
    /// A line without the word for its kind, and without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.flow.head(f)?;
        if let State::Offloaded { ways, by, .. } = &self.flow.state {
            ways.iter().try_for_each(|way| write!(f, ", {way}"))?;
            write!(f, ", {by}")?;
        }
        self.removed.iter().try_for_each(|why| write!(f, ", {why}"))
    }
}

/// What follows the list: what happened to flows so far, how often others were not offloaded, and
/// what their connections remembered of the ways of their packets.
#[derive(Clone, Debug)]
pub struct Totals<'a>(pub &'a FlowSummary);

impl fmt::Display for Totals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowCounts {
            added,
            expired,
            torn_down,
            ended,
            packets,
            chained,
            fell_back,
            taken,
            not_taken,
        } = self.0.counts;
        writeln!(
            f,
            "{added} flows added, {expired} expired, {torn_down} torn down, {ended} ended with their connection; \
             {packets} packets, {chained} of them in chains, {fell_back} fell back"
        )?;
        if taken + not_taken > 0 {
            writeln!(f, "devices took flows {taken} times, and refused them {not_taken} times")?;
        }
        for (reason, count) in &self.0.refusals {
            writeln!(f, "not offloaded {count} times: {reason}")?;
        }
        let RememberedWays { packets, directions, refused } = &self.0.ways;
        if directions + packets > 0 {
            writeln!(f, "ways remembered {directions} times, for {packets} packets")?;
        }
        refused.iter().try_for_each(|(reason, times)| {
            writeln!(f, "way not remembered {times} times: {reason}")
        })
    }
}

impl Serialize for Totals<'_> {
    /// How often connections were not offloaded, by reason, and what they remembered.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Refusals<'a>(&'a FlowSummary);
        impl Serialize for Refusals<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let refusals = self.0.refusals.iter();
                serializer.collect_map(refusals.map(|(reason, count)| (reason.text(), count)))
            }
        }
        struct Ways<'a>(&'a RememberedWays);
        impl Serialize for Ways<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let RememberedWays { packets, directions, refused } = self.0;
                let refused: BTreeMap<_, _> = refused.iter().copied().collect();
                let mut object = serializer.serialize_map(Some(3))?;
                object.serialize_entry("times", directions)?;
                object.serialize_entry("packets", packets)?;
                object.serialize_entry("not_remembered", &refused)?;
                object.end()
            }
        }
        let mut object = serializer.serialize_map(Some(2))?;
        object.serialize_entry("not_offloaded", &Refusals(self.0))?;
        object.serialize_entry("remembered_ways", &Ways(&self.0.ways))?;
        object.end()
    }
}
