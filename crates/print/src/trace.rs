// SPDX-License-Identifier: Apache-2.0

//! The lines of `nft monitor trace`.

use std::fmt::{self, Write};
use std::sync::Arc;

use penstock_dataplane::{TraceEvent, TraceRecord, TraceVerdict};
use penstock_lang::datatype::Format;
use penstock_lang::names::Names;
use penstock_lang::print::trace::{
    LINK_SHOWN, NETWORK_SHOWN, TRANSPORT_SHOWN, TraceSource, TracedPacket, headers, packet_line,
    policy_line, rule_line,
};
use penstock_packet::Packet;
use penstock_ruleset::{Family, Generation};

use crate::rules::WrittenRules;

/// Hardware type of Ethernet devices.
const ARPHRD_ETHER: u16 = 1;

/// Sources of names.
pub trait HasNames {
    /// The names.
    fn names(&self) -> &dyn Names;
}

impl HasNames for &(dyn Names + Sync) {
    fn names(&self) -> &dyn Names {
        *self
    }
}

impl<T: Names> HasNames for Arc<T> {
    fn names(&self) -> &dyn Names {
        &**self
    }
}

/// What traces need of a ruleset: its rules as they were loaded, as `nft monitor` knows them.
#[derive(Debug)]
pub struct Tracer<N> {
    names: N,
    rules: WrittenRules,
    tells_origins: bool,
}

impl<N: HasNames> Tracer<N> {
    /// For the rules of a generation at a time (nanoseconds since the epoch), as they are listed in
    /// a format.
    pub fn new(generation: &Generation, names: N, format: Format, now: u64) -> Self {
        let rules = WrittenRules::new(generation, names.names(), format, now);
        Tracer { names, rules, tells_origins: false }
    }

    /// Says of each rule where it was written, after what `nft monitor trace` says of it.
    pub fn with_origins(self) -> Self {
        Tracer { tells_origins: true, ..self }
    }

    /// The rules that it knows.
    pub fn rules(&self) -> &WrittenRules {
        &self.rules
    }

    /// The line of a step, with its end of line.
    pub fn line(&self, record: &TraceRecord<'_>, packet: &Packet, out: &mut String) {
        let at = &record.place;
        let place = TraceSource {
            id: packet.meta.trace_id,
            family: at.family,
            table: at.table,
            chain: at.chain,
        };
        let mark = packet.meta.mark;
        let line = match record.event {
            TraceEvent::Packet => self.packet(&place, record, packet),
            TraceEvent::Policy(accept) => policy_line(&place, accept, mark),
            TraceEvent::Rule(verdict) | TraceEvent::Return(verdict) => match at.rule {
                Some(handle) => self.rule(&place, handle, verdict),
                // nft says nothing about the end of a chain.
                None => return,
            },
        };
        // Writing to a String does not fail.
        let _ = writeln!(out, "{line}");
    }

    fn rule(&self, place: &TraceSource<'_>, handle: u64, verdict: TraceVerdict<'_>) -> String {
        let rule = self.rules.rule(place.family, place.table, handle);
        let line = rule_line(place, rule.map_or("", |rule| &rule.text), Word(verdict));
        match rule.and_then(|rule| rule.origin.as_ref()) {
            Some(origin) if self.tells_origins => format!("{line} # {origin} handle {handle}"),
            None if self.tells_origins => format!("{line} # handle {handle}"),
            Some(_) | None => line,
        }
    }

    fn packet(&self, place: &TraceSource<'_>, record: &TraceRecord<'_>, packet: &Packet) -> String {
        let link = link_header(packet);
        let mut shown = shown(record.context.family, &link, packet);
        shown.iif = record.input.map(|l| l.index);
        shown.oif = record.output.map(|l| l.index);
        shown.devices = [record.input, record.output].map(|link| link.map(|l| &*l.name));
        shown.iif_type = record.input.map(|l| l.hardware_type());
        packet_line(place, &shown, Format::default(), self.names.names())
    }

    /// The headers of a packet that has come in, as a netdev chain sees them.
    pub fn headers(&self, packet: &Packet) -> String {
        let link = link_header(packet);
        let mut shown = shown(Family::Netdev, &link, packet);
        shown.iif_type = packet.has_link().then_some(ARPHRD_ETHER);
        headers(Family::Netdev, &shown, Format::default(), self.names.names()).trim_end().to_owned()
    }
}

/// Headers as `nft_trace_notify()` takes them: from the data pointer, so that at egress there is no
/// link header.
fn link_header(packet: &Packet) -> Vec<u8> {
    let mut link = Vec::new();
    if packet.has_link() && (packet.data_start() == 0 || packet.meta.vlan.is_some()) {
        link.extend_from_slice(packet.link());
        if let (Some(tag), true) = (packet.meta.vlan, link.len() >= 12) {
            let bytes = [tag.protocol.to_be_bytes(), tag.tci.to_be_bytes()].concat();
            link.splice(12..12, bytes);
        }
        link.truncate(LINK_SHOWN);
    }
    link
}

fn shown<'p>(family: Family, link: &'p [u8], packet: &'p Packet) -> TracedPacket<'p> {
    let network = packet.network();
    let (network, transport) = match packet.transport() {
        Some(t) => network.split_at(usize::from(t.offset).min(network.len())),
        None => (network, &[][..]),
    };
    TracedPacket {
        iif: None,
        oif: None,
        devices: [None; 2],
        iif_type: None,
        nfproto: family as u8,
        link,
        network: &network[..network.len().min(NETWORK_SHOWN)],
        transport: &transport[..transport.len().min(TRANSPORT_SHOWN)],
    }
}

/// A verdict as nft writes it.
struct Word<'a>(TraceVerdict<'a>);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TraceVerdict::Accept => f.write_str("accept"),
            TraceVerdict::Drop => f.write_str("drop"),
            TraceVerdict::Stolen => f.write_str("stolen"),
            TraceVerdict::Continue => f.write_str("continue"),
            TraceVerdict::Return => f.write_str("return"),
            TraceVerdict::Jump(chain) => write!(f, "jump {chain}"),
            TraceVerdict::Goto(chain) => write!(f, "goto {chain}"),
            TraceVerdict::Queue => f.write_str("queue"),
        }
    }
}
