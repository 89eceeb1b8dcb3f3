// SPDX-License-Identifier: Apache-2.0

//! What became of a packet, as values: for commands that hold it against what was expected.

use penstock_dataplane::{Place, TraceEvent, TraceVerdict};
use penstock_net::Link;
use penstock_packet::Packet;
use penstock_print::drops::Dropped;
use penstock_ruleset::Family;
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

/// What became of a packet, and of those that it caused.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Frames that left, in order.
    pub sent: Vec<Sent>,
    /// Packets that came to the host, in order.
    pub delivered: Vec<Delivered>,
    /// Packets that ended, in order.
    pub dropped: Vec<Ended>,
    /// Rules that did not break off, in order.
    pub met: Vec<Met>,
    /// Policies of chains that decided, and whether they accept.
    pub policies: Vec<(ChainName, bool)>,
    /// The number that traces give to the packet itself; others are those that it caused.
    id: Option<u32>,
}

/// A frame that left.
#[derive(Debug)]
pub struct Sent {
    /// Name of the device.
    pub device: String,
    /// From the link header on, if the device has one.
    pub frame: Vec<u8>,
    /// Length of the link header with its tags.
    pub network: usize,
    /// `meta mark` as it left.
    pub mark: u32,
    /// Its headers, as traces show them.
    pub headers: String,
}

/// A packet that came to the host.
#[derive(Debug)]
pub struct Delivered {
    /// From the network header on.
    pub packet: Vec<u8>,
    /// `meta mark` as it came.
    pub mark: u32,
    /// Its headers, as traces show them.
    pub headers: String,
}

/// A packet that ended.
#[derive(Debug)]
pub struct Ended {
    /// Why and where.
    pub why: Dropped,
    /// As traces number packets; 0 if no rule has seen it.
    id: u32,
}

/// Family, table and name of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainName {
    pub family: Family,
    pub table: String,
    pub chain: String,
}

/// A rule that did not break off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    pub chain: ChainName,
    /// Of the rule.
    pub handle: u64,
    /// Its verdict ends the base chain: accept, drop, queue, stolen.
    pub decides: bool,
}

/// What became of the packet itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left, or came to the host.
    Accepted,
    /// It ended.
    Dropped,
    /// It waits, or something else took it over.
    Neither,
}

impl Fate {
    /// As the command line has it.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Accepted => "accept",
            Fate::Dropped => "drop",
            Fate::Neither => "neither",
        }
    }
}

impl Sent {
    /// A frame that leaves by a device.
    pub fn new(device: &Link, frame: &[u8], mark: u32, headers: String) -> Self {
        let (name, network) = (device.name.to_string(), Sent::network_at(frame));
        Sent { device: name, frame: frame.to_vec(), network, mark, headers }
    }

    /// Where the network header of an Ethernet frame begins, after its tags.
    pub fn network_at(frame: &[u8]) -> usize {
        let mut at = ethernet::LEN;
        while let Some(ethernet::VLAN | ethernet::QINQ) =
            frame.get(at - 2..at).and_then(|b| b.first_chunk()).map(|b| u16::from_be_bytes(*b))
        {
            at += 4;
        }
        at
    }
}

/// The addresses and ports of a packet as matches, each with a blank before it. Its network header
/// begins at a byte of a frame; of frames that are not IP, the type.
pub fn ends(frame: &[u8], network: usize) -> String {
    let bytes = frame.get(network..).unwrap_or_default();
    let ethertype = frame.get(..network).and_then(|link| link.last_chunk()).copied();
    let ethertype = ethertype.map(u16::from_be_bytes);
    let is = |own| ethertype.is_none_or(|ethertype| ethertype == own);
    let mut packet = Packet::new();
    packet.load_network(bytes);
    let mut out = String::new();
    if let Some(header) =
        ipv4::Header::new(bytes).filter(|h| h.version() == 4 && is(ethernet::IPV4))
    {
        packet.meta.protocol = ethernet::IPV4;
        out = format!(" ip saddr {} ip daddr {}", header.src(), header.dst());
    } else if let Some(header) =
        ipv6::Header::new(bytes).filter(|h| h.version() == 6 && is(ethernet::IPV6))
    {
        packet.meta.protocol = ethernet::IPV6;
        out = format!(" ip6 saddr {} ip6 daddr {}", header.src(), header.dst());
    } else if let Some(ethertype) = ethertype {
        return format!(" ether type {ethertype:#06x}");
    }
    packet.find_transport_checked();
    let Some(transport) = packet.transport() else { return out };
    let name = match transport.protocol {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        other => return format!("{out} meta l4proto {other}"),
    };
    if transport.fragment_offset == 0
        && let Some([a, b, c, d]) =
            bytes.get(transport.offset.into()..).and_then(|b| b.first_chunk())
    {
        let (from, to) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        out += &format!(" {name} sport {from} {name} dport {to}");
    }
    out
}

impl ChainName {
    fn of(place: &Place<'_>) -> Self {
        let (table, chain) = (place.table.to_owned(), place.chain.to_owned());
        ChainName { family: place.family, table, chain }
    }
}

impl Outcome {
    /// A step of a trace.
    pub fn step(&mut self, id: u32, place: &Place<'_>, event: &TraceEvent<'_>) {
        self.id.get_or_insert(id);
        match (event, place.rule) {
            (TraceEvent::Policy(accept), _) => {
                self.policies.push((ChainName::of(place), *accept));
            }
            (TraceEvent::Rule(verdict) | TraceEvent::Return(verdict), Some(handle)) => {
                let decides = match verdict {
                    TraceVerdict::Accept
                    | TraceVerdict::Drop
                    | TraceVerdict::Stolen
                    | TraceVerdict::Queue => true,
                    TraceVerdict::Continue
                    | TraceVerdict::Return
                    | TraceVerdict::Jump(_)
                    | TraceVerdict::Goto(_) => false,
                };
                self.met.push(Met { chain: ChainName::of(place), handle, decides });
            }
            (TraceEvent::Packet | TraceEvent::Rule(_) | TraceEvent::Return(_), _) => {}
        }
    }

    /// A packet ends that traces have given a number, or 0.
    pub fn ended(&mut self, id: u32, why: Dropped) {
        self.dropped.push(Ended { why, id });
    }

    /// What became of the packet itself. What it causes (ICMP errors, copies) may end otherwise.
    pub fn fate(&self) -> Fate {
        let own = |ended: &&Ended| ended.id == 0 || self.id.is_none_or(|id| id == ended.id);
        let came_out = !self.sent.is_empty() || !self.delivered.is_empty();
        if self.dropped.iter().any(|ended| own(&ended)) {
            Fate::Dropped
        } else if came_out {
            Fate::Accepted
        } else if !self.dropped.is_empty() {
            Fate::Dropped
        } else {
            Fate::Neither
        }
    }

    /// All of it in words.
    pub fn words(&self) -> String {
        let dropped = self.dropped.iter().map(|ended| format!("dropped: {}", ended.why));
        let sent = self.sent.iter().map(|sent| format!("sent on {}", sent.device));
        let delivered = self.delivered.iter().map(|_| "delivered to the host".to_owned());
        let all: Vec<String> = dropped.chain(sent).chain(delivered).collect();
        if all.is_empty() {
            return "neither sent, delivered nor dropped: it waits, or was taken over".to_owned();
        }
        all.join("; ")
    }
}
