// SPDX-License-Identifier: Apache-2.0

//! The report on a packet: the rules that it meets, its fate, and that of packets that it causes.

use std::fmt::Write;

use penstock_dataplane::{DropEvent, QueueRecord, Queued, Sink, TraceRecord};
use penstock_net::Link;
use penstock_packet::{Meta, Packet};
use penstock_print::drops::Dropped;
use penstock_print::rules::WrittenRules;

use super::outcome::{Delivered, Outcome, Sent};
use crate::input::Outgoing;
use crate::tracer::Tracer;

/// Takes what the path gives out, from when it is to listen.
pub struct Told<'n> {
    tracer: Tracer<'n>,
    listening: bool,
    text: String,
    outcome: Outcome,
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
            outcome: Outcome::default(),
            outgoing: Outgoing::default(),
            packet: Packet::new(),
        }
    }

    /// From here on.
    pub fn listen(&mut self) {
        self.listening = true;
    }

    /// The rules, as traces name them.
    pub fn rules(&self) -> &WrittenRules {
        self.tracer.rules()
    }

    /// The tracer, for the next one.
    pub fn into_tracer(self) -> Tracer<'n> {
        self.tracer
    }

    /// What became of the packet, and what there was to tell, in lines. The next packet begins with
    /// nothing.
    pub fn take(&mut self) -> (Outcome, String) {
        (std::mem::take(&mut self.outcome), std::mem::take(&mut self.text))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

impl Sink for Told<'_> {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.outgoing.sent(meta.time, frame);
        if !self.listening {
            return;
        }
        self.packet.receive_ethernet(frame, device.mac);
        // What cannot be taken apart is shown as it is.
        let _ = self.packet.untag();
        self.packet.find_transport_checked();
        let headers = self.tracer.headers(&self.packet);
        self.line(format_args!("sent on {}: {headers}", device.name));
        self.outcome.sent.push(Sent::new(device, frame, meta.mark, headers));
    }

    fn deliver(&mut self, device: &Link, packet: &Packet) {
        if !self.listening {
            return;
        }
        let headers = self.tracer.headers(packet);
        self.line(format_args!("delivered to the host from {}: {headers}", device.name));
        let (packet, mark) = (packet.network().to_vec(), packet.meta.mark);
        self.outcome.delivered.push(Delivered { packet, mark, headers });
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        if !self.listening {
            return;
        }
        let dropped = Dropped::of(drop, Some(self.tracer.rules()));
        self.line(format_args!("dropped: {dropped}"));
        self.outcome.ended(packet.meta.trace_id, dropped);
    }

    fn queue(&mut self, record: &QueueRecord<'_>, _packet: &Packet) -> Queued {
        if self.listening {
            self.line(format_args!("queued to {}: no listener", record.queue));
        }
        Queued::Nobody
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        if self.listening {
            self.tracer.line(record, packet, &mut self.text);
            self.outcome.step(packet.meta.trace_id, &record.place, &record.event);
        }
    }
}
