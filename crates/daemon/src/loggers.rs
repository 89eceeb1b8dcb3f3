// SPDX-License-Identifier: Apache-2.0

//! Packets that rules log to a group, for programs with netfilter sockets: the worker's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use penstock_dataplane::LogRecord;
use penstock_nfnetlink::{About, LoggedPacket, of_connection};
use penstock_packet::Packet;

use crate::clock;
use crate::packet_line::{self, Logged};

/// A program that gets the packets of a group.
#[derive(Clone, Debug)]
pub(crate) struct Logger {
    /// The group.
    pub(crate) group: u16,
    /// Port id of its socket.
    pub(crate) port: u32,
    /// Bytes of each packet that it gets, from the network header on.
    pub(crate) copy: u32,
    /// It wants to know connections of packets.
    pub(crate) connection: bool,
    /// It has missed packets.
    pub(crate) missed: Arc<AtomicBool>,
    /// Where packets go.
    pub(crate) to: SyncSender<packet_line::Packet>,
}

impl Logger {
    /// Gives it a packet that a rule has logged to its group. If there is no room it misses the
    /// packet.
    pub(crate) fn take(&self, record: &LogRecord<'_>, packet: &Packet) {
        let (log, meta, passage) = (record.log, &packet.meta, record.passage());
        // A frame that leaves has its link header at the front (skb->data).
        let network = if packet.data_start() < 0 { packet.frame() } else { packet.network() };
        let len = self.copy.min(log.snaplen.unwrap_or(u32::MAX)) as usize;
        let payload = network.get(..len).unwrap_or(network);
        let about = About {
            family: passage.family,
            hook: passage.hook,
            protocol: meta.protocol,
            mark: meta.mark,
            input: passage.input,
            output: passage.output,
            ports: passage.ports,
            link: packet.link().to_vec(),
            vlan: meta.vlan.map(|tag| [tag.protocol, tag.tci]),
            connection: record
                .connection
                .as_ref()
                .filter(|_| self.connection)
                .map(|connection| (Box::new(of_connection(connection)), meta.ct.info as u8)),
            len: network.len() as u32,
            payload: (len != 0).then(|| payload.to_vec()),
        };
        let time = clock::wall_time(meta.time);
        let hardware = record.input.map_or(0, |link| link.hardware_type());
        let (group, prefix, owner) = (self.group, log.prefix.clone(), meta.owner);
        let logged = LoggedPacket { group, prefix, time, hardware, owner, about };
        let threshold = log.queue_threshold.unwrap_or(0);
        let logged = Logged { port: self.port, packet: Box::new(logged), threshold };
        if self.to.try_send(packet_line::Packet::Logged(logged)).is_err() {
            self.missed.store(true, Relaxed);
        }
    }
}
