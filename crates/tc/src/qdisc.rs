// SPDX-License-Identifier: Apache-2.0

//! Queueing disciplines on the clock of the packets (`net/sched/sch_fifo.c`, `sch_prio.c`,
//! `sch_tbf.c`).
//!
//! A device takes frames as fast as its root discipline gives them, so frames wait only where a
//! discipline holds them back. [`Queues::next_time`] says when that ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use penstock_packet::Packet;

use crate::config::{Config, Device, Discipline, Node};

/// What a node holds.
#[derive(Debug, Default)]
struct Held {
    queue: VecDeque<Packet>,
    bytes: usize,
    /// Looked at, not yet gone (`qdisc_peek_dequeued()`).
    peeked: Option<Packet>,
    tokens: i64,
    peak_tokens: i64,
    at: Option<u64>,
}

/// The queues of all devices.
#[derive(Debug, Default)]
pub struct Queues {
    held: HashMap<u32, Vec<Held>>,
    /// When which device may send again.
    wakes: BinaryHeap<Reverse<(u64, u32)>>,
    /// The time that was last put there for each device.
    wake_of: HashMap<u32, u64>,
    waiting: usize,
    spare: Vec<Packet>,
}

/// Why no frame leaves.
#[derive(Clone, Copy)]
enum Not {
    /// Nothing before this time.
    Before(u64),
    Empty,
}

impl Queues {
    /// Empty queues.
    pub fn new(config: &Config) -> Self {
        let held = |d: &Device| d.nodes.iter().map(|_| Held::default()).collect();
        let devices = config.devices.iter().filter(|(_, d)| !d.nodes.is_empty());
        Queues { held: devices.map(|(&i, d)| (i, held(d))).collect(), ..Queues::default() }
    }

    /// Puts a copy of a frame into the queue of its device at its time. `false` if there is no room
    /// for it; the caller drops it then. [`Queues::leave`] gives what can leave at once. Lengths
    /// are those of the packet ([`Packet::len`]).
    pub fn put(&mut self, config: &Config, device: u32, packet: &Packet) -> bool {
        let (Some(conf), Some(held)) = (config.devices.get(&device), self.held.get_mut(&device))
        else {
            return false;
        };
        let len = packet.len();
        let mut at = 0;
        loop {
            let Some(node) = conf.nodes.get(at) else { return false };
            match &node.discipline {
                Discipline::Fifo { limit, bytes } => {
                    let Some(held) = held.get_mut(at) else { return false };
                    let room =
                        if *bytes { held.bytes + len <= *limit } else { held.queue.len() < *limit };
                    if !room {
                        return false;
                    }
                    let mut copy = self.spare.pop().unwrap_or_default();
                    copy.clone_from(packet);
                    held.bytes += len;
                    held.queue.push_back(copy);
                    self.waiting += 1;
                    return true;
                }
                Discipline::Prio { .. } => at = band(node, packet),
                Discipline::Tbf { longest, child, .. } => {
                    if len > *longest {
                        return false;
                    }
                    at = *child;
                }
            }
        }
    }

    /// The next frame of a device that can leave at `now`, which becomes its time. Where one has to
    /// wait, the device is remembered.
    pub fn leave(&mut self, config: &Config, device: u32, now: u64) -> Option<Packet> {
        if self.waiting == 0 {
            return None;
        }
        let conf = config.devices.get(&device)?;
        match next(&conf.nodes, self.held.get_mut(&device)?, 0, now) {
            Ok(mut frame) => {
                self.waiting -= 1;
                frame.meta.time = now;
                Some(frame)
            }
            Err(Not::Before(until)) => {
                if self.wake_of.insert(device, until) != Some(until) {
                    self.wakes.push(Reverse((until, device)));
                }
                None
            }
            Err(Not::Empty) => None,
        }
    }

    /// The earliest time up to `now` at which a device may send again, and the device.
    pub fn next_time(&mut self, now: u64) -> Option<(u64, u32)> {
        let &Reverse(first) = self.wakes.peek()?;
        if first.0 > now {
            return None;
        }
        self.wakes.pop();
        if self.wake_of.get(&first.1) == Some(&first.0) {
            self.wake_of.remove(&first.1);
        }
        Some(first)
    }

    /// Whether a device may send again by then.
    #[inline]
    pub fn is_due(&self, time: u64) -> bool {
        self.wakes.peek().is_some_and(|Reverse((at, _))| *at <= time)
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a frame's memory back.
    pub fn give_back(&mut self, frame: Packet) {
        self.spare.push(frame);
    }
}

/// `prio_classify()`: the class that the priority or a filter names, else the map of priorities.
fn band(node: &Node, packet: &Packet) -> usize {
    const MAJOR: u32 = 0xffff_0000;
    let Discipline::Prio { bands, map, filters } = &node.discipline else { return usize::MAX };
    let priority = packet.meta.priority;
    let by_map = |priority: u32| usize::from(map[priority as usize & 15]);
    let number = if priority & MAJOR == node.handle {
        // No class, or one that is not there.
        (priority & !MAJOR).checked_sub(1).map_or(usize::MAX, |n| n as usize)
    } else {
        match filters.iter().find(|f| f.matches(packet)).and_then(|f| f.class) {
            Some(class) => (class & !MAJOR).checked_sub(1).map_or(usize::MAX, |n| n as usize),
            None => by_map(if priority & MAJOR != 0 { 0 } else { priority }),
        }
    };
    bands.get(number).or_else(|| bands.get(by_map(0))).copied().unwrap_or(usize::MAX)
}

/// A frame of a node that may leave at `now`.
fn next(nodes: &[Node], held: &mut [Held], at: usize, now: u64) -> Result<Packet, Not> {
    let Some(node) = nodes.get(at) else { return Err(Not::Empty) };
    match &node.discipline {
        Discipline::Fifo { .. } => {
            let own = &mut held[at];
            match own.queue.pop_front() {
                Some(frame) => {
                    own.bytes -= frame.len();
                    Ok(frame)
                }
                None => Err(Not::Empty),
            }
        }
        Discipline::Prio { bands, .. } => {
            let mut wait = None::<u64>;
            for &band in bands {
                match next(nodes, held, band, now) {
                    Ok(frame) => return Ok(frame),
                    Err(Not::Before(until)) => wait = Some(wait.map_or(until, |w| w.min(until))),
                    Err(Not::Empty) => {}
                }
            }
            Err(wait.map_or(Not::Empty, Not::Before))
        }
        Discipline::Tbf { bucket, peak, child, .. } => {
            if let Some(frame) = held[at].peeked.take() {
                return Ok(frame);
            }
            let len = match peek(nodes, held, *child, now) {
                Ok(len) => len as u64,
                Err(other) => return Err(other),
            };
            let own = &held[at];
            let (had, had_peak, elapsed) = match own.at {
                Some(at) => (own.tokens, own.peak_tokens, now.saturating_sub(at) as i64),
                None => (bucket.depth, peak.map_or(0, |p| p.depth), 0),
            };
            let elapsed = elapsed.min(bucket.depth);
            let left = bucket.after(had, elapsed, len);
            let peak_left = peak.map_or(0, |p| p.after(had_peak, elapsed, len));
            if left | peak_left < 0 {
                return Err(Not::Before(now + left.min(peak_left).unsigned_abs()));
            }
            let frame = next(nodes, held, *child, now);
            let own = &mut held[at];
            (own.tokens, own.peak_tokens, own.at) = (left, peak_left, Some(now));
            frame
        }
    }
}

/// Length of the frame that [`next`] would give. A `tbf` below another discipline gives its frame
/// up for that, and holds it until it is taken (`qdisc_peek_dequeued()`).
fn peek(nodes: &[Node], held: &mut [Held], at: usize, now: u64) -> Result<usize, Not> {
    let Some(node) = nodes.get(at) else { return Err(Not::Empty) };
    match &node.discipline {
        Discipline::Fifo { .. } => held[at].queue.front().map(Packet::len).ok_or(Not::Empty),
        Discipline::Prio { bands, .. } => {
            let mut wait = None::<u64>;
            for &band in bands {
                match peek(nodes, held, band, now) {
                    Err(Not::Before(until)) => wait = Some(wait.map_or(until, |w| w.min(until))),
                    Err(_) => {}
                    found => return found,
                }
            }
            Err(wait.map_or(Not::Empty, Not::Before))
        }
        Discipline::Tbf { .. } => {
            if held[at].peeked.is_none() {
                match next(nodes, held, at, now) {
                    Ok(frame) => held[at].peeked = Some(frame),
                    Err(other) => return Err(other),
                }
            }
            held[at].peeked.as_ref().map(Packet::len).ok_or(Not::Empty)
        }
    }
}
