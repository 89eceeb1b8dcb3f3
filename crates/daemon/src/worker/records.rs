// SPDX-License-Identifier: Apache-2.0

//! What programs of an attached ruleset tell, as events of packets.

use penstock_dataplane::{LogRecord, Place, Sink, TraceEvent, TraceRecord, TraceVerdict};
use penstock_ebpf::rules::{Captured, Event, Record, Site, Verdict};
use penstock_net::Network;
use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_program::{Context, Family, Hook, State};
use penstock_wire::ethernet;

use super::sink::LiveSink;
use crate::now;

/// The longest packet: that of the largest super-packets.
const LONGEST: usize = 1 << 20;

impl LiveSink {
    /// Tells of what programs tell.
    pub(super) fn take_records(&mut self, records: Vec<Record>) {
        for record in records {
            match &record.site.event {
                Event::Packet => {
                    self.unshown.put(record);
                    continue;
                }
                Event::Rule(..) | Event::Policy(_) => {
                    if let Some(packet) = self.unshown.take(record.trace) {
                        self.take_record(&packet);
                    }
                }
                Event::Log(_) | Event::UsedUp(_) => {}
            }
            self.take_record(&record);
        }
    }

    fn take_record(&mut self, record: &Record) {
        let site = &*record.site;
        let net = self.network().clone();
        if let Event::UsedUp(quota) = &site.event {
            if let State::Quota(state) = &*quota.0
                && state.tell_once()
            {
                self.quota_depleted(&quota.0);
            }
            return;
        }
        let none = Captured::default();
        let captured = record.packet.as_ref().unwrap_or(&none);
        let mut packet = packet(captured, site.hook, &net);
        packet.meta.mark = record.mark;
        packet.meta.trace_id = record.trace;
        let family = match (site.hook_family, packet.meta.protocol) {
            (Family::Inet, ethernet::IPV6) => Family::Ip6,
            (Family::Inet, _) => Family::Ip,
            (family, _) => family,
        };
        let context = Context { family, hook: site.hook };
        let (input, output) = (net.link(captured.input), net.link(captured.output));
        let event = match &site.event {
            Event::Log(log) => {
                let (place, ports, connection) = (place(site, None), [None; 2], None);
                let record = LogRecord { log, place, context, input, output, ports, connection };
                return self.log(&record, &packet);
            }
            Event::UsedUp(_) => return,
            Event::Packet => TraceEvent::Packet,
            Event::Rule(_, verdict @ Verdict::Return) => TraceEvent::Return(word(verdict)),
            Event::Rule(_, verdict) => TraceEvent::Rule(word(verdict)),
            Event::Policy(accept) => TraceEvent::Policy(*accept),
        };
        let handle = match &site.event {
            Event::Rule(handle, _) => Some(*handle),
            _ => None,
        };
        let record = TraceRecord { place: place(site, handle), context, input, output, event };
        self.trace(&record, &packet);
    }
}

fn place(site: &Site, rule: Option<u64>) -> Place<'_> {
    Place { family: site.family, table: &site.table, chain: &site.chain, rule }
}

fn word(verdict: &Verdict) -> TraceVerdict<'_> {
    match verdict {
        Verdict::Accept => TraceVerdict::Accept,
        Verdict::Drop => TraceVerdict::Drop,
        Verdict::Continue => TraceVerdict::Continue,
        Verdict::Return => TraceVerdict::Return,
        Verdict::Jump(chain) => TraceVerdict::Jump(chain),
        Verdict::Goto(chain) => TraceVerdict::Goto(chain),
    }
}

/// The packet as it was at a hook. What the record has not of its bytes is zero.
fn packet(captured: &Captured, hook: Hook, net: &Network) -> Packet {
    let at_device = matches!(hook, Hook::Ingress | Hook::Egress);
    let mut frame = captured.link.clone();
    frame.extend_from_slice(&captured.bytes);
    frame.resize((captured.link.len() + captured.len as usize).min(LONGEST), 0);
    let mut packet = Packet::new();
    let in_driver = captured.protocol == 0;
    if in_driver {
        // As the driver hands it over.
        let mac = net.link(captured.input).map(|link| link.mac).unwrap_or_default();
        packet.receive_ethernet(&frame, mac);
        // A program has looked at the tag, if there is one.
        let _ = packet.untag();
    } else {
        let link_len = if at_device { ethernet::LEN } else { captured.link.len() };
        packet.load(&frame, link_len);
        packet.meta.protocol = captured.protocol;
        packet.meta.packet_type = packet_type(captured.packet_type);
        let tag = captured.tag.map(|(protocol, tci)| VlanTag { protocol, tci });
        packet.meta.vlan = tag;
    }
    packet.meta.iif = captured.input;
    packet.meta.oif = captured.output;
    packet.meta.owner = captured.owner;
    packet.meta.time =
        now().saturating_sub(penstock_bpf::monotonic().saturating_sub(captured.time));
    if at_device {
        packet.find_transport_checked();
    } else {
        packet.find_transport();
    }
    if hook == Hook::Egress {
        packet.data_at_link();
    }
    packet
}

/// `PACKET_*`
fn packet_type(number: u8) -> PacketType {
    use PacketType::{Broadcast, Host, Loopback, Multicast, OtherHost, Outgoing};
    let all = [Host, Broadcast, Multicast, OtherHost, Outgoing, Loopback];
    all.into_iter().find(|kind| *kind as u8 == number).unwrap_or_default()
}
