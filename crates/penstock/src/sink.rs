// SPDX-License-Identifier: Apache-2.0

//! Where things go that leave the path. All that is known of the path's own sinks is here.

use std::cell::OnceCell;
use std::sync::Arc;

use penstock_dataplane::{
    DropEvent, LogRecord, Place, QueueRecord, Queued as QueueReply, TraceRecord,
};
use penstock_lang::datatype::Format;
use penstock_net::Link;
use penstock_packet::{Meta, Packet};

use crate::event::Unresolved;
use crate::names::NetworkNames;
use crate::{
    Captured, Delivered, Device, DropReason, Dropped, Logged, QueueId, Queued, RulePlace, Rules,
    Sent, Traced,
};
use penstock_print::trace::Tracer;

/// Receives what happens to packets, in order. Bytes must be copied if they are needed later. Only
/// [`Sink::sent`] has to be written.
///
/// A panic of a sink unwinds through the dataplane, which must not be used afterwards.
pub trait Sink {
    /// A frame leaves by a device.
    fn sent(&mut self, frame: &Sent<'_>);

    /// A packet has come to the host itself.
    fn delivered(&mut self, packet: &Delivered<'_>) {
        let _ = packet;
    }

    /// A packet ends.
    fn dropped(&mut self, packet: &Dropped<'_>) {
        let _ = packet;
    }

    /// Several packets end one after the other, all for the same reason in the same place. `true`
    /// if this call suffices; otherwise they are reported one by one.
    fn dropped_several(&mut self, reason: DropReason, rule: Option<RulePlace<'_>>, n: u64) -> bool {
        let _ = (reason, rule, n);
        false
    }

    /// A `log` statement.
    fn logged(&mut self, record: &Logged<'_>) {
        let _ = record;
    }

    /// A traced packet goes a step.
    fn traced(&mut self, step: &Traced<'_>) {
        let _ = step;
    }

    /// A rule gives a packet to a queue. With [`QueueReply::Held`] it waits for
    /// [`Dataplane::answer`](crate::Dataplane::answer), and without that it waits forever. By
    /// default there is no listener: it is dropped, or continues if the rule has `bypass`.
    fn queued(&mut self, packet: &Queued<'_>) -> QueueReply {
        let _ = packet;
        QueueReply::Nobody
    }

    /// A frame passes a device that is captured.
    fn captured(&mut self, frame: &Captured<'_>) {
        let _ = frame;
    }

    /// The link address of a next hop is unknown. With `true` the packet waits, within bounds,
    /// until a network has it ([`Dataplane::set_network`](crate::Dataplane::set_network));
    /// otherwise, and by default, it is dropped. Asked again each second.
    fn unresolved(&mut self, next_hop: &Unresolved<'_>) -> bool {
        let _ = next_hop;
        false
    }
}

/// Takes nothing.
impl Sink for () {
    fn sent(&mut self, _frame: &Sent<'_>) {}
}

/// Tells a [`Sink`] what the path tells.
pub(crate) struct Adapter<'a, S> {
    pub(crate) sink: &'a mut S,
    pub(crate) rules: &'a Rules,
    pub(crate) names: &'a Arc<NetworkNames>,
    pub(crate) tracer: &'a OnceCell<Tracer<Arc<NetworkNames>>>,
}

fn rule<'a>(place: &Place<'a>) -> RulePlace<'a> {
    let Place { family, table, chain, rule } = *place;
    RulePlace { family, table, chain, handle: rule }
}

fn device(link: &Link) -> Device {
    Device::from_index(link.index)
}

impl<S: Sink> penstock_dataplane::Sink for Adapter<'_, S> {
    fn transmit(&mut self, link: &Link, frame: &[u8], meta: &Meta) {
        let Meta { mark, priority, time, .. } = *meta;
        let (device, name) = (device(link), &*link.name);
        self.sink.sent(&Sent { device, name, frame, mark, priority, time });
    }

    fn tap(&mut self, link: &Link, frame: &[u8], meta: &Meta, outgoing: bool) {
        let (device, name, time) = (device(link), &*link.name, meta.time);
        self.sink.captured(&Captured { device, name, outgoing, frame, time });
    }

    fn deliver(&mut self, link: &Link, packet: &Packet) {
        let Meta { protocol, mark, time, .. } = packet.meta;
        let (device, name, packet) = (device(link), &*link.name, packet.network());
        self.sink.delivered(&Delivered { device, name, protocol, packet, mark, time });
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        let Meta { mark, time, .. } = packet.meta;
        let (reason, rule) = (drop.reason, drop.place.as_ref().map(rule));
        self.sink.dropped(&Dropped { reason, rule, packet: packet.network(), mark, time });
    }

    fn drop_several(&mut self, drop: &DropEvent<'_>, packets: u64) -> bool {
        self.sink.dropped_several(drop.reason, drop.place.as_ref().map(rule), packets)
    }

    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        self.sink.logged(&Logged {
            rule: rule(&record.place),
            prefix: record.log.prefix.as_deref().unwrap_or_default(),
            group: record.log.group,
            input: record.input.map(device),
            output: record.output.map(device),
            packet: packet.network(),
            mark: packet.meta.mark,
            time: packet.meta.time,
        });
    }

    fn queue(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> QueueReply {
        self.sink.queued(&Queued {
            id: QueueId(record.id),
            queue: record.queue,
            rule: record.place.as_ref().map(rule),
            input: record.input.map(device),
            output: record.output.map(device),
            packet: packet.network(),
            mark: packet.meta.mark,
            time: packet.meta.time,
        })
    }

    fn resolve(&mut self, link: &Link, next_hop: std::net::IpAddr) -> bool {
        self.sink.unresolved(&Unresolved { device: device(link), name: &link.name, next_hop })
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        let tracer = self.tracer.get_or_init(|| {
            let format = Format { stateless: true, ..Format::default() };
            let generation = &self.rules.generation;
            Tracer::new(generation, self.names.clone(), format, packet.meta.time)
        });
        let mut line = String::new();
        tracer.line(record, packet, &mut line);
        let line = line.trim_end_matches('\n');
        if !line.is_empty() {
            let (id, place) = (packet.meta.trace_id, rule(&record.place));
            self.sink.traced(&Traced { id, place, line });
        }
    }
}
