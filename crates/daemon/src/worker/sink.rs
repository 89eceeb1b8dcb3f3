// SPDX-License-Identifier: Apache-2.0

//! Where packets go that leave the path: wires, the host, the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_dataplane::{
    BpfFault, DropEvent, DropReason, LogRecord, QueueRecord, Queued, Sink, TraceRecord,
};
use penstock_io::device::{BareTx, LocalTx, PacketTx};
use penstock_net::{LOOPBACK, Link, Network};
use penstock_packet::{Meta, Packet, PacketType};
use penstock_print::log;
use penstock_program::State;
use penstock_wire::ethernet;

use super::host_side::way_up;
use super::mirrors::Mirrors;
use super::placed_drops::PlacedDrops;
use super::unshown::Unshown;
use crate::broadcast::Broadcast;
use crate::events;
use crate::lines::Lines;
use crate::loggers::Logger;
use crate::port_share::Out;
use crate::probe::{Probe, number_of};
use crate::queues::Listeners;
use crate::requests::inbox::Inbox;
use crate::requests::{SyncRequest, SystemTracer};

/// Questions about neighbours that wait to be asked.
const ASKS: usize = 1024;

/// All of it.
pub(crate) struct LiveSink {
    /// By number; `None` for a number that no port has.
    ports: Vec<Option<Out>>,
    /// Number of the port by index of its link.
    by_index: Vec<Option<u16>>,
    net: Arc<Network>,
    /// Devices that are no ports, and that packets were routed to.
    others: HashMap<u32, Option<PacketTx>>,
    /// Those of them that have no link header.
    bare: HashMap<u32, Option<BareTx>>,
    local: Option<LocalTx>,
    asks: Arc<Inbox<SyncRequest>>,
    /// When log lines begin to count, by the packet clock.
    started: u64,
    lines: Lines,
    pub(crate) probes: Vec<Probe>,
    pub(crate) listeners: Listeners,
    /// Programs with netfilter sockets that packets of groups go to.
    pub(crate) loggers: Arc<[Logger]>,
    /// Programs that listen to what happens.
    pub(crate) watchers: events::Listeners,
    pub(crate) trace: Option<(Arc<SystemTracer>, Arc<Broadcast>)>,
    scratch: Vec<u8>,
    /// A frame of the host's without its tags.
    pub(crate) untagged: Vec<u8>,
    line: String,
    pub(super) unshown: Unshown,
    /// Packets for the host that no port could take there.
    pub(crate) undelivered: u64,
    /// Drops by rule.
    pub(crate) placed_drops: PlacedDrops,
    /// Ports that programs of the host listen to.
    pub(super) mirrors: Mirrors,
    /// Packets sent by devices that are no ports.
    pub(crate) elsewhere: u64,
    /// Frames of the host that count at another port.
    pub(crate) ignored: u64,
}

impl LiveSink {
    pub(crate) fn new(net: Arc<Network>, asks: Arc<Inbox<SyncRequest>>, lines: Lines) -> Self {
        LiveSink {
            ports: Vec::new(),
            by_index: Vec::new(),
            net,
            others: HashMap::new(),
            bare: HashMap::new(),
            local: LocalTx::open().ok(),
            asks,
            started: crate::now(),
            lines,
            probes: Vec::new(),
            listeners: Listeners::default(),
            loggers: Arc::default(),
            watchers: events::Listeners::default(),
            trace: None,
            scratch: Vec::new(),
            untagged: Vec::new(),
            line: String::new(),
            unshown: Unshown::default(),
            undelivered: 0,
            placed_drops: PlacedDrops::default(),
            mirrors: Mirrors::default(),
            elsewhere: 0,
            ignored: 0,
        }
    }

    /// The network in force.
    pub(super) fn network(&self) -> &Arc<Network> {
        &self.net
    }

    /// Numbers of ports by indexes of links.
    pub(crate) fn indexes(&self) -> &[Option<u16>] {
        &self.by_index
    }

    /// Another network is in force.
    pub(crate) fn set_network(&mut self, net: Arc<Network>) {
        self.others.retain(|index, _| net.link(*index).is_some());
        self.bare.retain(|index, _| net.link(*index).is_some());
        self.net = net;
    }

    /// Sends everything queued.
    pub(crate) fn flush(&mut self) {
        for port in self.ports.iter_mut().flatten() {
            port.tx.flush();
            port.host_tx.flush();
        }
        self.mirrors.flush();
        self.others.values_mut().flatten().for_each(PacketTx::flush);
    }

    #[inline]
    fn port(&mut self, index: u32) -> Option<&mut Out> {
        let number = (*self.by_index.get(index as usize)?)?;
        self.port_mut(usize::from(number))
    }

    /// The port with a number.
    #[inline]
    pub(crate) fn port_mut(&mut self, number: usize) -> Option<&mut Out> {
        self.ports.get_mut(number)?.as_mut()
    }

    /// The port with a number, to look at.
    #[inline]
    pub(crate) fn port_at(&self, number: usize) -> Option<&Out> {
        self.ports.get(number)?.as_ref()
    }

    /// A port with a number that no other one has.
    pub(crate) fn add_port(&mut self, number: usize, out: Out) {
        let index = out.index as usize;
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
        }
        if self.by_index.len() <= index {
            self.by_index.resize(index + 1, None);
        }
        if let (Some(place), Some(at)) = (self.ports.get_mut(number), self.by_index.get_mut(index))
        {
            // What is sent there goes to the port, and no longer to a device of the host's.
            self.others.remove(&out.index);
            (*place, *at) = (Some(out), Some(number as u16));
        }
    }

    /// Forgets the port with a number.
    pub(crate) fn remove_port(&mut self, number: usize) -> Option<Out> {
        let out = self.ports.get_mut(number)?.take()?;
        if let Some(at) = self.by_index.get_mut(out.index as usize) {
            *at = None;
        }
        Some(out)
    }

    /// Gives the host a frame of a port as it came, which the path has let end.
    pub(super) fn give_host_as_it_came(&mut self, port: usize, frame: &[u8]) {
        if let Some(out) = self.port_mut(port) {
            out.traffic.to_host.count(frame.len());
            out.host_tx.send(frame, None, 0);
            let index = out.index;
            self.mirrors.given(index);
        }
    }

    /// Gives a packet to the host as if it had come by a device.
    fn give_host(&mut self, device: &Link, packet: &Packet) {
        if device.index == LOOPBACK {
            let sent = self.local.as_ref().is_some_and(|local| local.send(packet.network()));
            self.undelivered += u64::from(!sent);
            return;
        }
        // What the host itself has sent comes back to it without us.
        if packet.meta.packet_type == PacketType::Loopback {
            return;
        }
        let gso = packet.meta.gso;
        let whole = packet.link().len() == ethernet::LEN;
        if whole && let Some(port) = self.port(device.index) {
            port.traffic.to_host.count(packet.frame().len());
            port.host_tx.send(packet.frame(), gso, 0);
            self.mirrors.given(device.index);
            return;
        }
        let mut tags = Vec::new();
        let Some(index) = way_up(&self.net, device, &self.by_index, &mut tags) else {
            self.undelivered += 1;
            return;
        };
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        match packet.link().get(..12) {
            Some(addresses) if whole => frame.extend_from_slice(addresses),
            _ => {
                frame.extend_from_slice(&device.mac.0);
                frame.extend_from_slice(&[0; 6]);
            }
        }
        frame.extend_from_slice(&tags);
        frame.extend_from_slice(&packet.meta.protocol.to_be_bytes());
        frame.extend_from_slice(packet.network());
        match self.port(index) {
            Some(port) => {
                port.traffic.to_host.count(frame.len());
                port.host_tx.send(&frame, gso, 0);
                self.mirrors.given(index);
            }
            None => self.undelivered += 1,
        }
        self.scratch = frame;
    }
}

impl Sink for LiveSink {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        if let Some(port) = self.port(device.index) {
            port.traffic.sent.count(frame.len());
            port.tx.send(frame, meta.gso, meta.mark);
            return;
        }
        self.elsewhere += 1;
        if !device.has_link_header() {
            let bare =
                self.bare.entry(device.index).or_insert_with(|| BareTx::open(device.index).ok());
            let sent = bare.as_mut().is_some_and(|tx| tx.send(frame, meta.mark));
            self.undelivered += u64::from(!sent);
            return;
        }
        let other =
            self.others.entry(device.index).or_insert_with(|| PacketTx::open(device.index).ok());
        match other {
            Some(tx) => tx.send(frame, meta.gso, meta.mark),
            None => self.undelivered += 1,
        }
    }

    fn tap(&mut self, device: &Link, frame: &[u8], meta: &Meta, outgoing: bool) {
        match outgoing {
            true => self.mirrors.sent(device.index, frame, meta.gso),
            false => self.mirrors.received(device.index, frame, meta.gso),
        }
    }

    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.give_host(device, packet);
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.placed_drops.count(drop, 1);
        // Programs of the host that speak the protocol listen on packet sockets.
        if drop.reason == DropReason::Ethertype {
            let net = self.net.clone();
            if let Some(link) = net.link(packet.meta.iif) {
                self.give_host(link, packet);
            }
        }
    }

    fn drop_several(&mut self, drop: &DropEvent<'_>, packets: u64) -> bool {
        let counts = drop.reason != DropReason::Ethertype;
        if counts {
            self.placed_drops.count(drop, packets);
        }
        counts
    }

    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        let LiveSink { probes, lines, loggers, .. } = self;
        if let Some(number) = number_of(record.place.table) {
            if let Some(probe) = probes.iter().find(|p| p.number == number) {
                probe.take(record, packet);
            }
            return;
        }
        for probe in probes.iter().filter(|p| p.group.is_some() && p.group == record.log.group) {
            probe.take(record, packet);
        }
        for logger in loggers.iter().filter(|l| Some(l.group) == record.log.group) {
            logger.take(record, packet);
        }
        // Groups are for those who listen to them: `penstock capture --log-group`.
        if record.log.group.is_none() {
            let mut line = log::line(record, packet, self.started);
            line.push('\n');
            lines.say(&line);
        }
    }

    fn queue(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        self.listeners.send(record, packet)
    }

    fn bpf_fault(&mut self, fault: &BpfFault<'_>) {
        let BpfFault { label, program, fault } = fault;
        self.lines.say(&format!("{label}: BPF program {}: {fault}\n", program.name()));
    }

    fn bpf_printk(&mut self, line: &str) {
        self.lines.say(&format!("bpf_printk: {line}\n"));
    }

    fn resolve(&mut self, device: &Link, next_hop: IpAddr) -> bool {
        device.index != LOOPBACK
            && self.asks.try_send(SyncRequest::Resolve(device.index, next_hop), ASKS)
    }

    fn quota_depleted(&mut self, quota: &Arc<State>) {
        self.watchers.sockets.iter().for_each(|watcher| watcher.tell_used_up(quota));
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        if let Some((tracer, to)) = &self.trace
            && number_of(record.place.table).is_none()
        {
            self.line.clear();
            tracer.line(record, packet, &mut self.line);
            to.say(&self.line);
        }
    }
}
