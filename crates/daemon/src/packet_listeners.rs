// SPDX-License-Identifier: Apache-2.0

//! Programs with netfilter sockets that packets of queues and logs go to
//! (`net/netfilter/nfnetlink_queue.c`, `nfnetlink_log.c`): which socket has which queue and which
//! group, and what it has asked for.
//!
//! Workers give packets to the line of a program ([`Line`]) and never wait. What its program gets
//! is written by the thread that reads the line.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_dataplane::NewLink;
use penstock_io::queue::{Answer, Verdict};
use penstock_nfnetlink::{
    About, Bind, LogConfig, LogSettings, QueueConfig, QueueVerdict, QueuedPacket, VerdictLink,
    end_of_logged, write_logged, write_queued,
};
use penstock_ruleset::Errno;
use serde::{Deserialize, Serialize};

use crate::loggers::Logger;
use crate::packet_line::{Given, Logged, Packet};
use crate::queue_programs::QueuePrograms;
use crate::queues::{Program, Wishes};
use crate::requests::workers::Workers;
use crate::requests::{Further, Request};

/// Packets on their way to the programs of one client.
const WAITING: usize = 16 << 10;
/// Messages with answers that wait for a worker; who has given more waits.
const ANSWERS: usize = 256;
/// `NFQNL_QMAX_DEFAULT`
const LENGTH: u32 = 1024;
/// `NFQNL_MAX_COPY_RANGE`, and as much of a packet that is logged.
const MOST_COPIED: u32 = 0xffff - 4;
/// `NFULNL_NLBUFSIZ_DEFAULT` and `NFULNL_NLBUFSIZ_MAX`: bytes of a datagram.
const BUFFER: u32 = 3776;
const MOST_BUFFER: u32 = 131_072;
/// `NFULNL_QTHRESH_DEFAULT`
const THRESHOLD: u32 = 100;
/// `NFQNL_COPY_NONE`, `NFQNL_COPY_META`, `NFQNL_COPY_PACKET`, as in nfnetlink_log.
const COPY_NONE: u8 = 0;
const COPY_META: u8 = 1;
const COPY_PACKET: u8 = 2;
/// `NFQA_CFG_F_*`
const FAIL_OPEN: u32 = 1;
const CONNTRACK: u32 = 2;
const GSO: u32 = 4;
const UID_GID: u32 = 8;
const SECCTX: u32 = 16;
/// `NFULNL_CFG_F_*`
const SEQ: u16 = 1;
const SEQ_GLOBAL: u16 = 2;
const LOG_CONNTRACK: u16 = 4;

/// What a client asks: a method of [`PacketListeners`](penstock_nfnetlink::PacketListeners) each,
/// with the port id of the socket and the number of queue or group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Queue(u32, u16, QueueConfig),
    MayDecide(u32, u16),
    Decide(Decision),
    Log(u32, u16, LogConfig),
    /// The socket is closed.
    Closed(u32),
}

/// A verdict of a socket about packets of a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Decision {
    /// The socket's port id.
    pub port: u32,
    pub queue: u16,
    pub verdict: QueueVerdict,
}

/// Where packets for one client go.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    client: u64,
    to: SyncSender<Packet>,
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    client: u64,
    port: u32,
}

/// A queue that a socket has.
#[derive(Debug)]
struct Queue {
    owner: Owner,
    wishes: Wishes,
    flags: u32,
    /// Numbers of the packets that the program was given, and has not decided about.
    given: BTreeSet<u64>,
}

/// A group that a socket has.
#[derive(Debug)]
struct Group {
    owner: Owner,
    logger: Logger,
    flags: u16,
    /// Bytes of a datagram.
    buffer: u32,
    /// Packets of a datagram.
    threshold: u32,
    /// Packets so far.
    sequence: u32,
}

#[derive(Debug, Default)]
struct Inner {
    queues: HashMap<u16, Queue>,
    groups: HashMap<u16, Group>,
    /// Packets that were logged.
    sequence: u32,
}

/// All sockets that packets go to.
pub(crate) struct PacketListeners {
    workers: Arc<Workers>,
    /// Queues of programs that speak another protocol.
    others: Arc<QueuePrograms>,
    clients: AtomicU64,
    inner: Mutex<Inner>,
}

impl Inner {
    /// The answer to a packet of a queue.
    fn decide(
        &mut self,
        owner: Owner,
        number: u16,
        verdict: QueueVerdict,
    ) -> Result<(u16, Answer, Further), Errno> {
        /// `NF_VERDICT_FLAG_QUEUE_BYPASS`
        const BYPASS: u32 = 0x8000;
        let queue = self.queues.get_mut(&number).ok_or(Errno::Enodev)?;
        if queue.owner != owner {
            return Err(Errno::Eperm);
        }
        let id = whole_number(&queue.given, verdict.id);
        let found = match verdict.up_to {
            true => {
                let later = queue.given.split_off(&(id + 1));
                let meant = std::mem::replace(&mut queue.given, later);
                !meant.is_empty()
            }
            false => queue.given.remove(&id),
        };
        if !found {
            return Err(Errno::Enoent);
        }
        let answer = Answer {
            id,
            up_to: verdict.up_to,
            verdict: match verdict.verdict & 0xff {
                0 => Verdict::Drop,
                1 => Verdict::Accept,
                3 => Verdict::Queue,
                4 => Verdict::Repeat,
                _ => Verdict::Stop,
            },
            queue: (verdict.verdict >> 16) as u16,
            bypass: verdict.verdict & BYPASS != 0,
            mark: verdict.mark,
            payload: verdict.payload,
        };
        let QueueVerdict { priority, connection, link, .. } = verdict;
        let link = link.map(|link| {
            let VerdictLink { vlan, header } = *link;
            NewLink { vlan, header }
        });
        let further = Further { priority, connection, link };
        Ok((number, answer, further))
    }
}

impl PacketListeners {
    /// None yet. Nobody gets the queues of `others`.
    pub(crate) fn new(workers: Arc<Workers>, others: Arc<QueuePrograms>) -> Self {
        let (clients, inner) = Default::default();
        PacketListeners { workers, others, clients, inner }
    }

    /// Whether a socket has a queue.
    pub(crate) fn has(&self, number: u16) -> bool {
        self.lock().queues.contains_key(&number)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for another client, and its end.
    pub(crate) fn line(&self) -> (Line, Receiver<Packet>) {
        let (to, from) = sync_channel(WAITING);
        (Line { client: self.clients.fetch_add(1, Relaxed), to }, from)
    }

    /// The client of a line has gone.
    pub(crate) fn gone(&self, line: &Line) {
        self.release(|owner| owner.client == line.client);
    }

    /// Carries out what a client asks.
    ///
    /// # Errors
    /// Those of [`PacketListeners`](penstock_nfnetlink::PacketListeners).
    pub(crate) fn carry_out(&self, line: &Line, ask: Ask) -> Result<(), Errno> {
        let of = |port| Owner { client: line.client, port };
        match ask {
            Ask::Queue(port, number, asked) => self.queue(line, of(port), number, &asked),
            Ask::MayDecide(port, number) => {
                let inner = self.lock();
                let queue = inner.queues.get(&number).ok_or(Errno::Enodev)?;
                if queue.owner == of(port) { Ok(()) } else { Err(Errno::Eperm) }
            }
            Ask::Decide(decision) => match self.decide(line, vec![decision])[..] {
                [(_, errno), ..] => Err(errno),
                [] => Ok(()),
            },
            Ask::Log(port, number, asked) => self.log(line, of(port), number, &asked),
            Ask::Closed(port) => {
                self.release(|owner| *owner == of(port));
                Ok(())
            }
        }
    }

    /// Ends the listening of sockets.
    fn release(&self, which: impl Fn(&Owner) -> bool) {
        let mut inner = self.lock();
        let closed: Vec<u16> =
            inner.queues.extract_if(|_, queue| which(&queue.owner)).map(|(n, _)| n).collect();
        let groups = inner.groups.len();
        inner.groups.retain(|_, group| !which(&group.owner));
        if inner.groups.len() != groups {
            self.tell_loggers(&inner);
        }
        for number in closed {
            self.workers.tell(|| Request::Queue(number, None));
        }
    }

    /// `nfqnl_recv_config()`
    fn queue(
        &self,
        line: &Line,
        owner: Owner,
        number: u16,
        asked: &QueueConfig,
    ) -> Result<(), Errno> {
        // A forwarded packet has no user in the kernel, and sockets of the host's are not known.
        // Without a security module there are no contexts, either.
        let known = FAIL_OPEN | CONNTRACK | GSO | UID_GID | SECCTX;
        if asked.flags.is_some_and(|(flags, mask)| flags & (mask | !0x1f) & !known != 0) {
            return Err(Errno::Eopnotsupp);
        }
        let mut inner = self.lock();
        if inner.queues.get(&number).is_some_and(|queue| queue.owner != owner) {
            return Err(Errno::Eperm);
        }
        match asked.bind {
            Some(Bind::Begin) if inner.queues.contains_key(&number) => return Err(Errno::Ebusy),
            Some(Bind::Begin) if self.others.has(number) => return Err(Errno::Ebusy),
            Some(Bind::Begin) => {
                let wishes = Wishes { takes: false, length: LENGTH, ..Wishes::default() };
                let queue = Queue { owner, wishes, flags: 0, given: BTreeSet::new() };
                let program = Program::of_socket(wishes, owner.port, line.to.clone());
                self.workers.tell(|| Request::Queue(number, Some(program.clone())));
                inner.queues.insert(number, queue);
            }
            Some(Bind::End) => {
                inner.queues.remove(&number).ok_or(Errno::Enodev)?;
                self.workers.tell(|| Request::Queue(number, None));
                return Ok(());
            }
            None => {}
        }
        let queue = inner.queues.get_mut(&number).ok_or(Errno::Enodev)?;
        let wishes = &mut queue.wishes;
        if let Some((mode, range)) = asked.copy {
            (wishes.takes, wishes.copy) = match (mode, range) {
                (COPY_NONE, _) => (false, 0),
                (COPY_META, _) => (true, 0),
                (COPY_PACKET, 0) => (true, MOST_COPIED),
                (COPY_PACKET, range) => (true, range.min(MOST_COPIED)),
                // The kernel says nothing of a mode that is none.
                _ => (wishes.takes, wishes.copy),
            };
        }
        if let Some(length) = asked.length {
            wishes.length = length;
        }
        if let Some((flags, mask)) = asked.flags {
            queue.flags = queue.flags & !mask | flags & mask;
            wishes.fail_open = queue.flags & FAIL_OPEN != 0;
            wishes.connection = queue.flags & CONNTRACK != 0;
            wishes.whole = queue.flags & GSO != 0;
        }
        let wishes = *wishes;
        self.workers.tell(|| Request::QueueWishes(number, wishes));
        Ok(())
    }

    /// Decides about packets, in order (`nfqnl_recv_verdict()`, `nfqnl_recv_verdict_batch()`).
    /// Returns what is refused, by its place: with `ENODEV` if there is no such queue, with `EPERM`
    /// if another socket has it, and with `ENOENT` if no such packet waits.
    pub(crate) fn decide(&self, line: &Line, decisions: Vec<Decision>) -> Vec<(u32, Errno)> {
        let (mut answers, mut refused) = (Vec::with_capacity(decisions.len()), Vec::new());
        let mut inner = self.lock();
        for (place, Decision { port, queue, verdict }) in (0..).zip(decisions) {
            let owner = Owner { client: line.client, port };
            match inner.decide(owner, queue, verdict) {
                Ok(answer) => answers.push(answer),
                Err(errno) => refused.push((place, errno)),
            }
        }
        drop(inner);
        if answers.is_empty() {
            return refused;
        }
        let answers: Arc<[_]> = answers.into();
        // Only the worker that queued a packet knows it.
        for inbox in self.workers.inboxes() {
            let mut request = Request::Answers(answers.clone());
            while let Err(back) = inbox.offer(request, ANSWERS) {
                request = back;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        refused
    }

    /// `nfulnl_recv_config()`
    fn log(&self, line: &Line, owner: Owner, number: u16, asked: &LogConfig) -> Result<(), Errno> {
        let mut inner = self.lock();
        if inner.groups.get(&number).is_some_and(|group| group.owner != owner) {
            return Err(Errno::Eperm);
        }
        match asked.bind {
            Some(Bind::Begin) if inner.groups.contains_key(&number) => return Err(Errno::Ebusy),
            Some(Bind::Begin) => {
                let logger = Logger {
                    group: number,
                    port: owner.port,
                    // Whole packets, unless it says something else (`instance_create()`).
                    copy: MOST_COPIED,
                    connection: false,
                    missed: Arc::new(AtomicBool::new(false)),
                    to: line.to.clone(),
                };
                let (buffer, threshold) = (BUFFER, THRESHOLD);
                let group = Group { owner, logger, flags: 0, buffer, threshold, sequence: 0 };
                inner.groups.insert(number, group);
            }
            Some(Bind::End) => {
                inner.groups.remove(&number).ok_or(Errno::Enodev)?;
                self.tell_loggers(&inner);
                return Ok(());
            }
            None => {}
        }
        let group = inner.groups.get_mut(&number).ok_or(Errno::Enodev)?;
        if let Some((mode, range)) = asked.copy {
            group.logger.copy = match (mode, range) {
                (COPY_NONE | COPY_META, _) => 0,
                (COPY_PACKET, 0) => MOST_COPIED,
                (COPY_PACKET, range) => range.min(MOST_COPIED),
                _ => group.logger.copy,
            };
        }
        // The kernel says nothing of lengths and modes that it does not take.
        if let Some(buffer) = asked.buffer.filter(|b| (BUFFER..=MOST_BUFFER).contains(b)) {
            group.buffer = buffer;
        }
        if let Some(threshold) = asked.threshold {
            group.threshold = threshold;
        }
        if let Some(flags) = asked.flags {
            group.flags = flags;
            group.logger.connection = flags & LOG_CONNTRACK != 0;
        }
        self.tell_loggers(&inner);
        Ok(())
    }

    /// Tells all workers who gets logged packets. The lock is held: they get this in order.
    fn tell_loggers(&self, inner: &Inner) {
        let all: Arc<[Logger]> = inner.groups.values().map(|group| group.logger.clone()).collect();
        self.workers.tell(|| Request::Loggers(all.clone()));
    }

    /// Waits for packets of a line, and gives the datagrams for sockets with those port ids. An
    /// empty one says that packets were missed.
    ///
    /// # Errors
    /// None comes in that time, or nobody gives any more.
    pub(crate) fn next(
        &self,
        line: &Line,
        from: &Receiver<Packet>,
        time: Duration,
    ) -> Result<Vec<(u32, Vec<u8>)>, RecvTimeoutError> {
        /// Packets that are read at once.
        const TOGETHER: usize = 128;
        let first = from.recv_timeout(time)?;
        let packets = std::iter::once(first).chain(from.try_iter()).take(TOGETHER);
        let mut datagrams = Datagrams::default();
        for packet in packets {
            match packet {
                Packet::Queued(given) => datagrams.all.extend(self.queued(line, given)),
                Packet::Logged(logged) => self.logged(line, logged, &mut datagrams),
            }
        }
        Ok(datagrams.finish())
    }

    /// The datagram with a packet of a queue, unless nobody has that any more.
    fn queued(&self, line: &Line, given: Given) -> Option<(u32, Vec<u8>)> {
        let Given { port, packet, connection, gso, passage, vlan } = given;
        let mut inner = self.lock();
        let queue = inner.queues.get_mut(&packet.queue)?;
        if queue.owner != (Owner { client: line.client, port }) {
            return None;
        }
        queue.given.insert(packet.id);
        let copies = queue.wishes.copy != 0;
        drop(inner);
        let queued = QueuedPacket {
            id: packet.id as u32,
            queue: packet.queue,
            priority: packet.priority,
            gso,
            about: About {
                family: passage.family,
                hook: passage.hook,
                protocol: packet.protocol,
                mark: packet.mark,
                input: passage.input,
                output: passage.output,
                ports: passage.ports,
                link: packet.link,
                vlan,
                connection,
                len: packet.len,
                payload: copies.then_some(packet.payload),
            },
        };
        Some((port, write_queued(&queued)))
    }

    /// Adds a packet that was logged to the datagrams.
    fn logged(&self, line: &Line, logged: Logged, to: &mut Datagrams) {
        let Logged { port, packet, threshold: wanted } = logged;
        let mut inner = self.lock();
        let Inner { groups, sequence: global, .. } = &mut *inner;
        let Some(group) = groups.get_mut(&packet.group) else { return };
        if group.owner != (Owner { client: line.client, port }) {
            return;
        }
        if group.logger.missed.swap(false, Relaxed) {
            to.all.push((port, Vec::new()));
            to.open = None;
        }
        let next = |wanted: bool, number: &mut u32| {
            let own = *number;
            *number = number.wrapping_add(u32::from(wanted));
            wanted.then_some(own)
        };
        let settings = LogSettings {
            sequence: next(group.flags & SEQ != 0, &mut group.sequence),
            // It counts from 1.
            global_sequence: next(group.flags & SEQ_GLOBAL != 0, global).map(|n| n.wrapping_add(1)),
        };
        let (buffer, mut threshold) = (group.buffer as usize, group.threshold);
        if wanted != 0 {
            threshold = threshold.min(wanted.into());
        }
        drop(inner);
        to.add(packet.group, port, &write_logged(&packet, settings), (buffer, threshold));
    }
}

/// The number of a packet that a program knows by its lower half.
fn whole_number(given: &BTreeSet<u64>, id: u32) -> u64 {
    let last = given.last().copied().unwrap_or(0);
    let near = last & !u64::from(u32::MAX) | u64::from(id);
    // The program speaks of an earlier one, unless it speaks of none at all.
    if near > last { near.saturating_sub(1 << 32).max(u64::from(id)) } else { near }
}

/// Datagrams for sockets.
#[derive(Default)]
struct Datagrams {
    all: Vec<(u32, Vec<u8>)>,
    /// The group of the last one, and its packets, if there may be more.
    open: Option<(u16, u32)>,
}

impl Datagrams {
    /// Adds a message of a group to the last datagram if that is of this group and has room, or to
    /// another one. `most` are the bytes and the packets of a datagram.
    fn add(&mut self, group: u16, port: u32, message: &[u8], most: (usize, u32)) {
        const END: usize = 20;
        if let Some((of, packets)) = &mut self.open
            && let Some((_, last)) = self.all.last_mut()
            && (*of, *packets < most.1) == (group, true)
            && last.len() + message.len() + END <= most.0
        {
            last.extend_from_slice(message);
            *packets += 1;
            return;
        }
        self.end();
        self.all.push((port, message.to_vec()));
        self.open = Some((group, 1));
    }

    /// Several packets have an end.
    fn end(&mut self) {
        if let Some((_, 2..)) = self.open.take()
            && let Some((_, last)) = self.all.last_mut()
        {
            last.extend(end_of_logged());
        }
    }

    fn finish(mut self) -> Vec<(u32, Vec<u8>)> {
        self.end();
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_packets_are_found_by_their_lower_half() {
        let high = 7 << 32;
        let given: BTreeSet<u64> = [high - 2, high - 1, high, high + 1].into();
        for (id, expected) in [
            (u32::MAX, high - 1),
            (u32::MAX - 1, high - 2),
            (0, high),
            (1, high + 1),
            (2, high + 2 - (1 << 32)),
        ] {
            assert_eq!(whole_number(&given, id), expected, "{id}");
        }
        assert_eq!(whole_number(&BTreeSet::new(), 5), 5);
    }

    #[test]
    fn packets_of_a_group_share_a_datagram_up_to_its_limits() {
        let message = [1; 100];
        let mut datagrams = Datagrams::default();
        for _ in 0..5 {
            datagrams.add(3, 9, &message, (4000, 2));
        }
        datagrams.add(4, 9, &message, (220, 100));
        datagrams.add(4, 9, &message, (220, 100));
        datagrams.add(4, 9, &message, (219, 100));
        let lengths: Vec<_> = datagrams.finish().iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, [220, 220, 100, 220, 100]);
    }
}
