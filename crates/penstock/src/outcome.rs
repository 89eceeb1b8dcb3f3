// SPDX-License-Identifier: Apache-2.0

//! What came of one packet, collected.

use std::fmt;

use crate::{
    Delivered, Device, DropReason, Dropped, Logged, QueueReply, Queued, Sent, Sink, Traced,
};

/// Something that happened, with bytes of its own. See [`Sink`] for what each is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A frame has left.
    Sent {
        /// By this device.
        device: Device,
        /// The frame, as in [`Sent::frame`].
        frame: Vec<u8>,
        /// `meta mark`.
        mark: u32,
    },
    /// A packet has come to the host.
    Delivered {
        /// In by this device.
        device: Device,
        /// The packet from its network header on.
        packet: Vec<u8>,
        /// `meta mark`.
        mark: u32,
    },
    /// A packet has ended.
    Dropped {
        /// Why.
        reason: DropReason,
        /// By which rule or policy, if one did it: `inet filter forward handle 12`.
        rule: Option<String>,
    },
    /// A `log` statement.
    Logged {
        /// `prefix "…"`, or nothing.
        prefix: String,
        /// `group N`.
        group: Option<u16>,
        /// The packet from its network header on.
        packet: Vec<u8>,
    },
    /// A traced packet has gone a step: a line of `nft monitor trace`.
    Traced(String),
    /// A rule has given a packet to a queue without a listener: it continued or was dropped.
    Queued(u16),
}

/// What became of a packet in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has left by this device.
    Sent(Device),
    /// It has come to the host, in by this device.
    Delivered(Device),
    /// It has ended.
    Dropped(DropReason),
    /// It waits (a fragment for the others, or in the queue of a device), or something else was
    /// made of it.
    Held,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Sent(device) => write!(f, "sent by device {}", device.index()),
            Fate::Delivered(_) => f.write_str("delivered"),
            Fate::Dropped(reason) => write!(f, "dropped: {reason}"),
            Fate::Held => f.write_str("held"),
        }
    }
}

/// A [`Sink`] that collects what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// In the order in which it happened.
    pub events: Vec<Event>,
}

impl Outcome {
    /// What became of the packet: the last event that is an end. Answers to a packet and copies of
    /// it are sent before it ends itself, and what it brings about by the loopback device comes
    /// after it.
    pub fn fate(&self) -> Fate {
        let end = |event: &Event| match event {
            Event::Sent { device, .. } => Some(Fate::Sent(*device)),
            Event::Delivered { device, .. } => Some(Fate::Delivered(*device)),
            Event::Dropped { reason, .. } => Some(Fate::Dropped(*reason)),
            Event::Logged { .. } | Event::Traced(_) | Event::Queued(_) => None,
        };
        self.events.iter().rev().find_map(end).unwrap_or(Fate::Held)
    }

    /// The frames that have left, each with its device.
    pub fn sent(&self) -> impl Iterator<Item = (Device, &[u8])> {
        self.events.iter().filter_map(|event| match event {
            Event::Sent { device, frame, .. } => Some((*device, &frame[..])),
            _ => None,
        })
    }

    /// The rule or policy that dropped the packet, as in `inet filter forward handle 12`.
    pub fn dropped_by(&self) -> Option<&str> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Dropped { rule, .. } => rule.as_deref(),
            _ => None,
        })
    }

    /// The lines of `nft monitor trace`, if the packet was traced.
    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(|event| match event {
            Event::Traced(line) => Some(&line[..]),
            _ => None,
        })
    }
}

impl Sink for Outcome {
    fn sent(&mut self, frame: &Sent<'_>) {
        let Sent { device, frame, mark, .. } = *frame;
        self.events.push(Event::Sent { device, frame: frame.to_vec(), mark });
    }

    fn delivered(&mut self, packet: &Delivered<'_>) {
        let Delivered { device, packet, mark, .. } = *packet;
        self.events.push(Event::Delivered { device, packet: packet.to_vec(), mark });
    }

    fn dropped(&mut self, packet: &Dropped<'_>) {
        let rule = packet.rule.map(|rule| rule.to_string());
        self.events.push(Event::Dropped { reason: packet.reason, rule });
    }

    fn logged(&mut self, record: &Logged<'_>) {
        let Logged { prefix, group, packet, .. } = *record;
        let (prefix, packet) = (prefix.to_owned(), packet.to_vec());
        self.events.push(Event::Logged { prefix, group, packet });
    }

    fn traced(&mut self, step: &Traced<'_>) {
        self.events.push(Event::Traced(step.line.to_owned()));
    }

    fn queued(&mut self, packet: &Queued<'_>) -> QueueReply {
        self.events.push(Event::Queued(packet.queue));
        QueueReply::Nobody
    }
}
