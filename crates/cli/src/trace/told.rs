// SPDX-License-Identifier: Apache-2.0

//! The report on a packet: the rules that it meets, its fate, and that of packets that it causes.

use std::fmt::Write;

use penstock_dataplane::{DropEvent, QueueRecord, Queued, Sink, TraceRecord};
use penstock_net::Link;
use penstock_packet::{Meta, Packet};
use penstock_print::drops::words;

use crate::input::Outgoing;
use crate::tracer::Tracer;

/// Takes what the path gives out, from when it is to listen.
pub struct Told<'n> {
    tracer: Tracer<'n>,
    listening: bool,
    text: String,
    /// What tells frames that captures have as sent apart.
    pub outgoing: Outgoing,
    /// To look into frames that leave.
    packet: Packet,
}

impl<'n> Told<'n> {
    /// Tells with what this tracer knows.
    pub fn new(tracer: Tracer<'n>) -> Self {
        Told {
            tracer,
            listening: false,
            text: String::new(),
            outgoing: Outgoing::default(),
            packet: Packet::new(),
        }
    }

    /// From here on.
    pub fn listen(&mut self) {
        self.listening = true;
    }

    /// What there was to tell, in lines.
    pub fn text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.listening {
            // Writing to a String does not fail.
            let _ = writeln!(self.text, "{line}");
        }
    }
}

impl Sink for Told<'_> {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.outgoing.sent(meta.time, frame);
        self.packet.receive_ethernet(frame, device.mac);
        // What cannot be taken apart is shown as it is.
        let _ = self.packet.untag();
        self.packet.find_transport_checked();
        let headers = self.tracer.headers(&self.packet);
        self.line(format_args!("sent on {}: {headers}", device.name));
    }

    fn deliver(&mut self, device: &Link, packet: &Packet) {
        let headers = self.tracer.headers(packet);
        self.line(format_args!("delivered to the host from {}: {headers}", device.name));
    }

    fn drop(&mut self, drop: &DropEvent<'_>, _packet: &Packet) {
        self.line(format_args!("dropped: {}", words(drop)));
    }

    fn queue(&mut self, record: &QueueRecord<'_>, _packet: &Packet) -> Queued {
        self.line(format_args!("queued to {}: no listener", record.queue));
        Queued::Nobody
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        if self.listening {
            self.tracer.line(record, packet, &mut self.text);
        }
    }
}
