// SPDX-License-Identifier: Apache-2.0

//! What a scenario has besides rules and frames: programs that rules give packets to, listeners to
//! log groups and to events of connections, sockets of the host, fingerprints of systems. Both
//! sides tell in lines what came of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::compare::without_chance;
use crate::frame::checksum;
use crate::nfnl_socket::attributes;
use crate::scenario::Scenario;

/// Fingerprints of operating systems, as nftables' package has them.
pub const FINGERPRINTS: &str = "/usr/share/doc/nftables/examples/pf.os";

/// All services of a scenario.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Services {
    /// Programs, each for a queue.
    pub queues: Vec<Queue>,
    /// Groups of `log group` that are listened to.
    pub log_groups: Vec<u16>,
    /// Whether events of connections and expectations are listened to.
    pub events: bool,
    /// Sockets of the host, as `penstock run --sockets` reads them.
    pub sockets: String,
    /// Whether [`FINGERPRINTS`] are known.
    pub fingerprints: bool,
}

/// A program that answers for the packets of a queue.
#[derive(Clone, Serialize, Deserialize)]
pub struct Queue {
    /// Number of the queue.
    pub number: u16,
    /// Its answers, one for each packet in their order; the last one is for all that follow.
    pub replies: Vec<Reply>,
    /// Bytes of each packet that it wants.
    pub copy: u32,
    /// How many packets may wait.
    pub length: u32,
    /// Whether packets pass by if more wait.
    pub fail_open: bool,
    /// It answers for the oldest packet when so many wait.
    pub window: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Reply {
    pub verdict: Verdict,
    pub mark: Option<u32>,
    pub change: Option<Change>,
}

/// Verdicts (`NF_*`).
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    Drop,
    #[default]
    Accept,
    Repeat,
    Stop,
    /// To another queue; it passes without a listener there if the flag is set.
    Queue(u16, bool),
}

/// Other bytes instead of a packet's.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Change {
    /// One byte, counted from the network header on.
    Byte(usize, u8),
    /// So many zeros at the end; the length of IP grows with it.
    Longer(usize),
    /// So many bytes at the end go; the length of IP shrinks with it.
    Shorter(usize),
}

impl Scenario {
    /// With a program that answers for the packets of a queue.
    pub fn queue(mut self, queue: Queue) -> Scenario {
        self.services.queues.push(queue);
        self
    }

    /// With a listener to a log group.
    pub fn log_group(mut self, group: u16) -> Scenario {
        self.services.log_groups.push(group);
        self
    }

    /// With a listener to the events of connections and expectations.
    pub fn events(mut self) -> Scenario {
        self.services.events = true;
        self
    }

    /// With sockets of the host, as `penstock run --sockets` reads them.
    pub fn sockets(mut self, lines: &str) -> Scenario {
        self.services.sockets = lines.into();
        self
    }

    /// With known fingerprints of operating systems.
    pub fn fingerprints(mut self) -> Scenario {
        self.services.fingerprints = true;
        self
    }
}

impl Queue {
    /// A program that gives these answers, each at once.
    pub fn new(number: u16, replies: &[Reply]) -> Queue {
        Queue {
            number,
            replies: replies.to_vec(),
            copy: 65_535,
            length: 1024,
            fail_open: false,
            window: 1,
        }
    }

    /// The answer for a packet by its place.
    pub fn reply(&self, place: usize) -> Reply {
        self.replies.get(place).or(self.replies.last()).copied().unwrap_or_default()
    }
}

impl Reply {
    /// A verdict alone.
    pub fn new(verdict: Verdict) -> Reply {
        Reply { verdict, ..Reply::default() }
    }

    /// With this mark.
    pub fn mark(self, mark: u32) -> Reply {
        Reply { mark: Some(mark), ..self }
    }

    /// With other bytes.
    pub fn change(self, change: Change) -> Reply {
        Reply { change: Some(change), ..self }
    }
}

impl Change {
    /// The packet that it makes of another.
    pub fn of(self, packet: &[u8]) -> Vec<u8> {
        let mut bytes = packet.to_vec();
        match self {
            Change::Byte(at, byte) => {
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
                return bytes;
            }
            Change::Longer(count) => bytes.resize(bytes.len() + count, 0),
            Change::Shorter(count) => bytes.truncate(bytes.len().saturating_sub(count)),
        }
        match bytes.first().map(|b| b >> 4) {
            Some(4) if bytes.len() >= 20 => {
                let length = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[10..12].fill(0);
                let sum = checksum(0, &bytes[..20]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            Some(6) if bytes.len() >= 40 => {
                let length = bytes.len() as u16 - 40;
                bytes[4..6].copy_from_slice(&length.to_be_bytes());
            }
            _ => {}
        }
        bytes
    }
}

/// Lines that services told, by what they are about, in their order.
pub type Told = BTreeMap<String, Vec<String>>;

/// A packet that a program was given.
#[derive(Default)]
pub struct Queued {
    pub protocol: u16,
    pub hook: u8,
    pub family: u8,
    pub mark: u32,
    pub priority: u32,
    pub input: String,
    pub output: String,
    /// Link address of the sender.
    pub from: Vec<u8>,
    /// `enum ip_conntrack_info`, status, mark and zone of its connection.
    pub connection: Option<(u8, u32, u32, u16)>,
    pub len: u32,
    pub payload: Vec<u8>,
}

impl Queued {
    /// Its line.
    pub fn line(&self) -> String {
        let mut text = format!(
            "hook={} family={} protocol={:04x} mark={} priority={:x} in={} out={} from={} len={}",
            self.hook,
            self.family,
            self.protocol,
            self.mark,
            self.priority,
            self.input,
            self.output,
            hex(&self.from),
            self.len
        );
        if let Some((info, status, mark, zone)) = self.connection {
            let _ = write!(text, " ct={info} status={status:x} mark={mark} zone={zone}");
        }
        let _ = write!(text, " {}", hex(&self.payload));
        text
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Tells which of the lines of two sides differ. Where packets were copied (`dup`), link addresses of
/// senders do not count: the kernel copies no link header, and tells what was in the memory.
pub fn differences(out: &mut String, kernel: &Told, ours: &Told, copied: bool) {
    let none = vec![];
    let mut all: Vec<_> = kernel.keys().chain(ours.keys()).collect();
    all.sort();
    all.dedup();
    for what in all {
        let (k, o) = (kernel.get(what).unwrap_or(&none), ours.get(what).unwrap_or(&none));
        let same = |n: &usize| match (k.get(*n), o.get(*n)) {
            (Some(k), Some(o)) => is_same(k, o, copied),
            (k, o) => k.is_none() && o.is_none(),
        };
        if let Some(n) = (0..k.len().max(o.len())).find(|n| !same(n)) {
            let _ = writeln!(out, "{what}: kernel {} lines, penstock {}", k.len(), o.len());
            for (side, lines) in [("kernel:  ", k), ("penstock:", o)] {
                for line in lines.iter().skip(n.saturating_sub(1)).take(3) {
                    let _ = writeln!(out, "  line {n} {side} {line}");
                }
            }
        }
    }
}

/// Whether two lines say the same. Remaining times, which are numbers, may be a second apart: the
/// kernel counts in ticks.
fn is_same(a: &str, b: &str, copied: bool) -> bool {
    let counts = |word: &&str| !(copied && word.starts_with("from="));
    let words = |line| str::split_whitespace(line).filter(counts).collect::<Vec<_>>();
    let (a, b) = (words(a), words(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            let near = || Some(a.parse::<u64>().ok()?.abs_diff(b.parse().ok()?) <= 1);
            a == b || near() == Some(true)
        })
}

/// What is compared of a record of nfnetlink_log: the family and all attributes but those of time,
/// of the order among other records, and of the owner of the socket, which is the one that frames
/// were sent by for the test. Interfaces go by their names.
pub fn log_line(record: &[u8], name: impl Fn(u32) -> String) -> String {
    const INTERFACES: std::ops::RangeInclusive<u16> = 4..=7;
    const PAYLOAD: u16 = 9;
    const LEFT_OUT: [u16; 5] = [3, 11, 12, 13, 14];
    let mut parts = vec![];
    for (kind, value) in attributes(record.get(4..).unwrap_or_default()) {
        if LEFT_OUT.contains(&kind) {
            continue;
        }
        let text = match value.first_chunk() {
            Some(index) if INTERFACES.contains(&kind) => name(u32::from_be_bytes(*index)),
            _ if kind == PAYLOAD => hex(&without_chance(value, 0)),
            _ => hex(value),
        };
        parts.push((kind, text));
    }
    parts.sort();
    let parts: Vec<_> = parts.iter().map(|(kind, text)| format!("{kind}:{text}")).collect();
    format!("family={} {}", record.first().copied().unwrap_or_default(), parts.join(" "))
}

/// The group of a record of nfnetlink_log.
pub fn log_group(record: &[u8]) -> u16 {
    record.get(2..4).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}
