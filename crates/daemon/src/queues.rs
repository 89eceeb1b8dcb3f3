// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to programs (`queue`): the worker's side. The path never waits for a
//! program: a packet for which the program, or the queue to it, has no room is dropped, or passes
//! by.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_conntrack::Direction;
use penstock_dataplane::{QueueAnswer, QueueRecord, QueueVerdict, Queued};
use penstock_io::queue::{self, Answer, Connection, Message, Open, Verdict};
use penstock_nfnetlink::of_connection;
use penstock_packet::Packet;

use crate::clock;
use crate::packet_line::{self, Given};

/// `IPS_CONFIRMED`
const CONFIRMED: u32 = 1 << 3;
/// Packets on their way to a program, whatever it asks for.
pub(crate) const MOST: usize = 1 << 16;
/// Bytes of packets that a program has not answered.
const MOST_BYTES: usize = 64 << 20;

/// What a program wants of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// It takes packets; otherwise they are dropped.
    pub(crate) takes: bool,
    /// Packets that find no room pass by; otherwise they are dropped.
    pub(crate) fail_open: bool,
    /// Bytes of each packet, from the network header on.
    pub(crate) copy: u32,
    /// How many packets may wait.
    pub(crate) length: u32,
    /// It gets to know the connections of packets.
    pub(crate) connection: bool,
    /// It takes super-packets whole; otherwise they are cut.
    pub(crate) whole: bool,
}

/// Where packets for a program go.
#[derive(Clone, Debug)]
enum Way {
    /// To the thread that writes to its stream.
    Stream(SyncSender<Message>),
    /// To the thread that writes to its netfilter socket, which has a port id.
    Socket(u32, SyncSender<packet_line::Packet>),
}

/// A program that listens, for all workers.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    wishes: Wishes,
    way: Way,
    /// Number of the packet that it was given last; held while it is given one, so that they come
    /// in the order of their numbers.
    last: Arc<Mutex<u64>>,
    /// Packets without answer.
    waiting: Arc<AtomicUsize>,
    /// Bytes of them.
    bytes: Arc<AtomicUsize>,
}

impl Program {
    /// A program that has opened its queue; `to` leads to the thread that writes to it.
    pub(crate) fn new(open: Open, to: SyncSender<Message>) -> Self {
        let Open { fail_open, copy, length, .. } = open;
        let wishes =
            Wishes { takes: true, fail_open, copy, length, connection: false, whole: true };
        Program::of(wishes, Way::Stream(to))
    }

    /// A program with a netfilter socket, which has a port id; `to` leads to the thread that writes
    /// to it.
    pub(crate) fn of_socket(
        wishes: Wishes,
        port: u32,
        to: SyncSender<packet_line::Packet>,
    ) -> Self {
        Program::of(wishes, Way::Socket(port, to))
    }

    fn of(wishes: Wishes, way: Way) -> Self {
        let (last, waiting, bytes) = Default::default();
        Program { wishes, way, last, waiting, bytes }
    }

    /// Packets without answer.
    pub(crate) fn waiting(&self) -> &Arc<AtomicUsize> {
        &self.waiting
    }
}

/// The path's side of a program that listens, in one worker.
#[derive(Debug)]
pub(crate) struct Listener {
    num: u16,
    program: Program,
    /// Packets without a verdict: by the program's number, the dataplane's number and the length;
    /// some may have ended already.
    waiting: BTreeMap<u64, (u64, usize)>,
}

impl Listener {
    /// Gives a packet to the program.
    fn send(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        let Program { wishes, way, last, waiting, bytes } = &self.program;
        if !wishes.takes {
            return Queued::Full;
        }
        // Segments share what the packet has: a connection that is not confirmed can be confirmed
        // by one of them only.
        let shares = record.connection.as_ref().is_some_and(|c| c.status() & CONFIRMED == 0);
        if packet.meta.gso.is_some() && !wishes.whole && !shares {
            return Queued::Cut;
        }
        let full = if wishes.fail_open { Queued::PassedBy } else { Queued::Full };
        // What is held is the packet, and what goes to the program.
        let len = packet.network().len() * 2;
        let fits = bytes.load(Relaxed) + len <= MOST_BYTES;
        if !fits || waiting.load(Relaxed) >= (wishes.length as usize).min(MOST) {
            return full;
        }
        let mut given = Box::new(queue_packet(record, packet, wishes.copy));
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        given.id = last.wrapping_add(1);
        let id = given.id;
        let sent = match way {
            Way::Stream(to) => to.try_send(Message::Packet(given)).is_ok(),
            Way::Socket(port, to) => {
                let connection = record.connection.as_ref().filter(|_| wishes.connection);
                let connection = connection.map(|connection| {
                    (Box::new(of_connection(connection)), packet.meta.ct.info as u8)
                });
                let gso = packet.meta.gso.is_some();
                let (port, passage) = (*port, record.passage());
                let vlan = packet.meta.vlan.map(|tag| [tag.protocol, tag.tci]);
                let given = Given { port, packet: given, connection, gso, passage, vlan };
                to.try_send(packet_line::Packet::Queued(given)).is_ok()
            }
        };
        if !sent {
            return full;
        }
        *last = id;
        waiting.fetch_add(1, Relaxed);
        bytes.fetch_add(len, Relaxed);
        self.waiting.insert(id, (record.id, len));
        Queued::Held
    }

    /// The packets that an answer is for.
    fn answered(&mut self, answer: &Answer) -> Vec<u64> {
        let meant = match answer.up_to {
            true => {
                let later = answer
                    .id
                    .checked_add(1)
                    .map_or_else(BTreeMap::new, |id| self.waiting.split_off(&id));
                std::mem::replace(&mut self.waiting, later)
            }
            false => self.waiting.remove_entry(&answer.id).into_iter().collect(),
        };
        self.program.waiting.fetch_sub(meant.len(), Relaxed);
        self.program.bytes.fetch_sub(meant.values().map(|(_, len)| len).sum(), Relaxed);
        meant.into_values().map(|(id, _)| id).collect()
    }
}

/// All programs that listen.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

impl Listeners {
    /// A program listens from now on, or no longer.
    pub(crate) fn set(&mut self, num: u16, opened: Option<Program>) {
        self.0.retain(|l| l.num != num);
        self.0.extend(opened.map(|program| Listener { num, program, waiting: BTreeMap::new() }));
    }

    /// A program wants something else of the packets of its queue.
    pub(crate) fn wish(&mut self, num: u16, wishes: Wishes) {
        for listener in self.0.iter_mut().filter(|listener| listener.num == num) {
            listener.program.wishes = wishes;
        }
    }

    /// Gives a packet to who listens.
    pub(crate) fn send(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        match self.0.iter_mut().find(|l| l.num == record.queue) {
            Some(listener) => listener.send(record, packet),
            None => Queued::Nobody,
        }
    }

    /// The packets that an answer is for.
    pub(crate) fn answered(&mut self, num: u16, answer: &Answer) -> Vec<u64> {
        self.0.iter_mut().find(|l| l.num == num).map_or_else(Vec::new, |l| l.answered(answer))
    }
}

/// A program's answer, for the path.
pub fn queue_answer(answer: &Answer) -> QueueAnswer<'_> {
    let verdict = match answer.verdict {
        Verdict::Drop => QueueVerdict::Drop,
        Verdict::Accept => QueueVerdict::Accept,
        Verdict::Queue => QueueVerdict::Queue { num: answer.queue, bypass: answer.bypass },
        Verdict::Repeat => QueueVerdict::Repeat,
        Verdict::Stop => QueueVerdict::Stop,
    };
    let payload = answer.payload.as_deref();
    QueueAnswer { mark: answer.mark, payload, ..QueueAnswer::new(verdict) }
}

/// A packet as a program sees it, with `copy` bytes from the network header on.
pub fn queue_packet(record: &QueueRecord<'_>, packet: &Packet, copy: u32) -> queue::Packet {
    let device = |link: Option<&penstock_net::Link>| {
        link.map_or((0, String::new()), |link| (link.index, link.name.to_string()))
    };
    let (meta, passage) = (&packet.meta, record.passage());
    let network = packet.network();
    let connection = record.connection.as_ref().map(|connection| Connection {
        info: meta.ct.info as u8,
        status: connection.status(),
        mark: connection.mark(),
        id: connection.id(),
        zone: connection.zone(Direction::Original),
    });
    queue::Packet {
        id: record.id,
        time: clock::wall_time(meta.time),
        queue: record.queue,
        protocol: meta.protocol,
        hook: passage.hook,
        family: passage.family,
        mark: meta.mark,
        priority: meta.priority,
        input: device(record.input),
        output: device(record.output),
        connection,
        link: packet.link().to_vec(),
        len: network.len() as u32,
        payload: network.get(..copy as usize).unwrap_or(network).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn listener() -> Listener {
        let (to, _) = sync_channel(1);
        let open = Open::default();
        let program = Program::new(open, to);
        let mut listener = Listener { num: 0, program, waiting: BTreeMap::new() };
        for id in 1..=5 {
            listener.waiting.insert(id, (id + 100, 10));
        }
        listener.program.waiting.store(5, Relaxed);
        listener.program.bytes.store(50, Relaxed);
        listener
    }

    #[test]
    fn verdicts_apply_to_waiting_packets_only() {
        for (id, up_to, expected) in [
            (3, false, &[103][..]),
            (3, true, &[101, 102, 103]),
            (9, false, &[]),
            (0, true, &[]),
            (u64::MAX, true, &[101, 102, 103, 104, 105]),
        ] {
            let mut listener = listener();
            let answer = Answer { up_to, ..Answer::new(id, Verdict::Accept) };
            assert_eq!(listener.answered(&answer), expected, "{id} {up_to}");
            assert!(listener.answered(&answer).is_empty(), "{id}: nobody answers twice");
            let left = 5 - expected.len();
            let counted =
                (listener.program.waiting.load(Relaxed), listener.program.bytes.load(Relaxed));
            assert_eq!(counted, (left, left * 10), "{id}");
        }
    }
}
