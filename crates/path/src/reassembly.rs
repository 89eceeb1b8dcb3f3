//! Putting fragments together again for this host (`net/ipv4/ip_fragment.c`, `net/ipv6/reassembly.c`,
//! `net/ipv4/inet_fragment.c`).
//!
//! A fragment that lies wholly within what is there is dropped; one that overlaps it partly ends the whole packet.
//! What waits is bounded in bytes, and in time by the packet clock.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use penstock_packet::Packet;
use penstock_wire::{icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

use crate::ip6;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::{Destination, Worker};

/// Bytes that a waiting fragment counts for beside its own.
const OVERHEAD: usize = 256;

/// Source, destination, identification, protocol.
pub(crate) type Fragments4 = Fragments<(u32, u32, u16, u8)>;
/// Source, destination, identification, and the device where the addresses mean something on one link only.
pub(crate) type Fragments6 = Fragments<(u128, u128, u32, u32)>;

/// Packets of which not all fragments have come.
#[derive(Debug)]
pub(crate) struct Fragments<K> {
    waiting: HashMap<K, Waiting>,
    /// Keys and numbers in order of their deadlines.
    deadlines: VecDeque<(u64, K, u64)>,
    memory: usize,
    made: u64,
}

impl<K> Default for Fragments<K> {
    fn default() -> Self {
        Fragments { waiting: HashMap::new(), deadlines: VecDeque::new(), memory: 0, made: 0 }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// Tells packets apart that follow each other under one key.
    number: u64,
    /// The fragment at offset 0, with its headers.
    first: Option<Packet>,
    to: Option<Destination>,
    pieces: Vec<(usize, Vec<u8>)>,
    /// Stretches without a gap that came in order (`fragrun`).
    runs: Vec<(usize, usize)>,
    /// The end of what is known of the packet.
    len: usize,
    last_in: bool,
    bytes: usize,
    max_size: usize,
    max_df_size: usize,
    /// A bit per value of the ECN field.
    ecn: u8,
}

/// A fragment's part of the packet.
struct Part<'a> {
    offset: usize,
    data: &'a [u8],
    more: bool,
    /// Bytes of the fragment with its IPv4 header.
    size: usize,
    df: bool,
    ecn: u8,
}

enum Inserted {
    Waits,
    Complete,
    /// It is there already.
    Duplicate,
    /// The packet cannot be right: all of it goes.
    Corrupt,
}

impl Waiting {
    fn insert(&mut self, part: &Part<'_>) -> Inserted {
        let mut end = part.offset + part.data.len();
        if !part.more {
            if end < self.len || (self.last_in && end != self.len) {
                return Inserted::Corrupt;
            }
            self.last_in = true;
            self.len = end;
        } else {
            end &= !7;
            if end > self.len {
                if self.last_in {
                    return Inserted::Corrupt;
                }
                self.len = end;
            }
        }
        if end <= part.offset {
            return Inserted::Corrupt;
        }
        let beyond = self.pieces.iter().map(|(at, p)| at + p.len()).max().unwrap_or(0);
        if end > beyond {
            if part.offset < beyond {
                return Inserted::Corrupt;
            }
            match self.runs.last_mut() {
                Some(run) if run.1 == part.offset => run.1 = end,
                _ => self.runs.push((part.offset, end)),
            }
        } else {
            for &(from, to) in &self.runs {
                if part.offset >= from && end <= to {
                    return Inserted::Duplicate;
                }
                if part.offset < to && end > from {
                    return Inserted::Corrupt;
                }
            }
            let at = self.runs.partition_point(|r| r.0 < part.offset);
            self.runs.insert(at, (part.offset, end));
        }
        self.pieces.push((part.offset, part.data[..end - part.offset].to_vec()));
        self.bytes += end - part.offset;
        self.ecn |= 1 << part.ecn;
        self.max_size = self.max_size.max(part.size);
        if part.df {
            self.max_df_size = self.max_df_size.max(part.size);
        }
        let first_in = self.pieces.iter().any(|p| p.0 == 0);
        if first_in && self.last_in && self.bytes == self.len { Inserted::Complete } else { Inserted::Waits }
    }

    /// The ECN field of the whole packet, or `None` where the fragments cannot belong together (RFC 3168, 5.3).
    fn ecn(&self) -> Option<u8> {
        const NOT_ECT: u8 = 1;
        const CE: u8 = 8;
        if self.ecn & NOT_ECT != 0 && self.ecn != NOT_ECT {
            return None;
        }
        Some(if self.ecn & CE != 0 && self.ecn != CE { 3 } else { 0 })
    }

    fn memory(&self) -> usize {
        self.bytes + self.pieces.len() * OVERHEAD
    }
}

/// What became of a fragment.
enum Took {
    Waits,
    Complete(Box<Waiting>),
    Dropped(DropReason),
}

impl<K: Hash + Eq + Copy> Fragments<K> {
    fn take(
        &mut self,
        key: K,
        part: &Part<'_>,
        packet: &Packet,
        to: Option<&Destination>,
        timeout: u64,
        memory: usize,
    ) -> Took {
        if self.memory > memory {
            return Took::Dropped(DropReason::ReassemblyFull);
        }
        let made = &mut self.made;
        let deadlines = &mut self.deadlines;
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            *made += 1;
            deadlines.push_back((packet.meta.time.saturating_add(timeout), key, *made));
            Waiting { number: *made, ..Waiting::default() }
        });
        let before = waiting.memory();
        let inserted = waiting.insert(part);
        self.memory = self.memory + waiting.memory() - before;
        match inserted {
            Inserted::Duplicate => Took::Dropped(DropReason::Fragment),
            Inserted::Corrupt => {
                self.remove(&key);
                Took::Dropped(DropReason::Fragment)
            }
            Inserted::Waits | Inserted::Complete => {
                if part.offset == 0 {
                    waiting.first = Some(packet.clone());
                    waiting.to = to.copied();
                }
                if !matches!(inserted, Inserted::Complete) {
                    return Took::Waits;
                }
                match self.remove(&key) {
                    Some(whole) => Took::Complete(Box::new(whole)),
                    None => Took::Waits,
                }
            }
        }
    }

    fn remove(&mut self, key: &K) -> Option<Waiting> {
        let gone = self.waiting.remove(key)?;
        self.memory -= gone.memory().min(self.memory);
        Some(gone)
    }

    /// A packet whose time is over.
    fn expired(&mut self, now: u64) -> Option<Waiting> {
        while let Some(&(deadline, key, number)) = self.deadlines.front() {
            let current = self.waiting.get(&key).is_some_and(|w| w.number == number);
            if current && deadline > now {
                return None;
            }
            self.deadlines.pop_front();
            if current {
                return self.remove(&key);
            }
        }
        None
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Takes an IPv4 fragment. `true` if `packet` is now the whole packet.
    pub(crate) fn ip4_reassemble(&mut self, packet: &mut Packet, to: &Destination) -> bool {
        let network = packet.network();
        let Some(h) = ipv4::Header::new(network) else { return false };
        let part = Part {
            offset: usize::from(h.fragment_offset()) * 8,
            data: h.payload(),
            more: h.mf(),
            size: network.len(),
            df: h.df(),
            ecn: h.tos() & 3,
        };
        let key = (h.src().into(), h.dst().into(), h.id(), h.protocol());
        let (time, memory) = (self.settings.fragment_time, self.settings.fragment_memory);
        let whole = match self.state.fragments4.take(key, &part, packet, Some(to), time, memory) {
            Took::Waits => {
                self.state.counters.taken += 1;
                return false;
            }
            Took::Dropped(why) => {
                self.drop(why, packet);
                return false;
            }
            Took::Complete(whole) => whole,
        };
        let iif = packet.meta.iif;
        let (Some(ecn), Some(first)) = (whole.ecn(), whole.first.as_ref()) else {
            self.drop(DropReason::Fragment, packet);
            return false;
        };
        let Some(header_len) = ipv4::Header::new(first.network()).map(|h| h.header_len()) else {
            return false;
        };
        if header_len + whole.len > 65535 {
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        packet.clone_from(first);
        packet.meta.iif = iif;
        rebuild(packet, header_len, &whole);
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            let tos = h.read().tos() | ecn;
            h.set_tos(tos);
            h.set_frag(if whole.max_df_size == whole.max_size { ipv4::DF } else { 0 });
            h.set_total_len((header_len + whole.len) as u16);
            h.fill_checksum();
        }
        true
    }

    /// Takes an IPv6 fragment whose fragment header is at `at`. `true` if `packet` is now the whole packet.
    pub(crate) fn ip6_reassemble(&mut self, packet: &mut Packet, at: usize) -> bool {
        let network = packet.network();
        let header = network.get(at..).and_then(ipv6_ext::Fragment::new);
        let (Some(h), Some(f)) = (ipv6::Header::new(network), header) else {
            self.drop(DropReason::Ip6Extension, packet);
            return false;
        };
        let (offset, more, id, next) =
            (usize::from(f.fragment_offset()) * 8, f.more(), f.id(), f.next_header());
        let behind = at + ipv6_ext::FRAGMENT_LEN;
        if offset == 0 && !more {
            // Not cut at all (an atomic fragment): the header goes.
            return self.without_fragment_header(packet, at, next);
        }
        let problem = icmpv6::PARAMETER_PROBLEM;
        if offset == 0 && !upper_header_there(network, behind, next) {
            const INCOMPLETE_CHAIN: u8 = 3;
            self.icmp6_error(packet, problem, INCOMPLETE_CHAIN, 0);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        let data = network.get(behind..).unwrap_or(&[]);
        let field = icmpv6::parameter_problem::HEADER_FIELD;
        if offset + data.len() > 65535 {
            self.icmp6_error(packet, problem, field, (at + 2) as u32);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        if more && data.len() % 8 != 0 {
            self.icmp6_error(packet, problem, field, 4);
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        let (saddr, daddr) = (u128::from(h.src()), u128::from(h.dst()));
        let link = ip6::needs_device(saddr) || ip6::needs_device(daddr);
        let key = (saddr, daddr, id, if link { packet.meta.iif } else { 0 });
        let part = Part { offset, data, more, size: network.len(), df: false, ecn: h.traffic_class() & 3 };
        let (time, memory) = (self.settings.fragment6_time, self.settings.fragment_memory);
        let whole = match self.state.fragments6.take(key, &part, packet, None, time, memory) {
            Took::Waits => {
                self.state.counters.taken += 1;
                return false;
            }
            Took::Dropped(why) => {
                self.drop(why, packet);
                return false;
            }
            Took::Complete(whole) => whole,
        };
        let iif = packet.meta.iif;
        let (Some(ecn), Some(first)) = (whole.ecn(), whole.first.as_ref()) else {
            self.drop(DropReason::Fragment, packet);
            return false;
        };
        packet.clone_from(first);
        packet.meta.iif = iif;
        let Some((at, next)) = fragment_header(packet.network()) else {
            self.drop(DropReason::Fragment, packet);
            return false;
        };
        rebuild(packet, at + ipv6_ext::FRAGMENT_LEN, &whole);
        if at - ipv6::LEN + whole.len > 65535 {
            self.drop(DropReason::Fragment, packet);
            return false;
        }
        if ecn != 0 {
            let class = ipv6::Header::new(packet.network()).map_or(0, |h| h.traffic_class());
            if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
                h.set_traffic_class(class | ecn);
            }
        }
        self.without_fragment_header(packet, at, next)
    }

    /// Takes the fragment header at `at` out and makes the lengths right.
    fn without_fragment_header(&mut self, packet: &mut Packet, at: usize, next: u8) -> bool {
        let mut bytes = self.bytes();
        bytes.extend_from_slice(packet.network());
        let found = ipv6_ext::find(&bytes, Some(protocol::FRAGMENT), ipv6_ext::Walk::default());
        let before = next_field_before(&bytes, at);
        let done = match (found, before) {
            (Ok(_), Some(field)) => {
                bytes.drain(at..(at + ipv6_ext::FRAGMENT_LEN).min(bytes.len()));
                if let Some(byte) = bytes.get_mut(field) {
                    *byte = next;
                }
                let len = bytes.len() - ipv6::LEN;
                if let Some(mut h) = ipv6::HeaderMut::new(&mut bytes) {
                    h.set_payload_len(len as u16);
                }
                let meta = packet.meta.clone();
                packet.load_network(&bytes);
                packet.meta = meta;
                true
            }
            _ => {
                self.drop(DropReason::Ip6Extension, packet);
                false
            }
        };
        self.give_back(bytes);
        done
    }

    /// Ends what waited too long, and tells the senders (`ip_expire()`, `ip6frag_expire_frag_queue()`).
    pub(crate) fn expire_fragments(&mut self, now: u64) {
        while let Some(gone) = self.state.fragments4.expired(now) {
            let Some(mut first) = gone.first else {
                self.state.counters.count(DropReason::ReassemblyTimeout);
                continue;
            };
            first.meta.time = now;
            let code = icmp::time_exceeded::REASSEMBLY;
            self.icmp4_error(&first, gone.to.as_ref(), icmp::TIME_EXCEEDED, code, 0, true);
            self.drop(DropReason::ReassemblyTimeout, &first);
        }
        while let Some(gone) = self.state.fragments6.expired(now) {
            let Some(mut first) = gone.first else {
                self.state.counters.count(DropReason::ReassemblyTimeout);
                continue;
            };
            first.meta.time = now;
            self.icmp6_error(&first, icmpv6::TIME_EXCEEDED, icmpv6::time_exceeded::REASSEMBLY, 0);
            self.drop(DropReason::ReassemblyTimeout, &first);
        }
    }
}

/// Puts the parts behind the first `keep` bytes of the packet.
fn rebuild(packet: &mut Packet, keep: usize, whole: &Waiting) {
    let mut bytes = packet.network()[..keep.min(packet.network().len())].to_vec();
    bytes.resize(keep + whole.len, 0);
    for (at, piece) in &whole.pieces {
        if let Some(place) = bytes.get_mut(keep + at..keep + at + piece.len()) {
            place.copy_from_slice(piece);
        }
    }
    let meta = packet.meta.clone();
    packet.load_network(&bytes);
    packet.meta = meta;
}

/// Offset of the fragment header of a packet, and the type of what follows it.
fn fragment_header(network: &[u8]) -> Option<(usize, u8)> {
    let found = ipv6_ext::find(network, Some(protocol::FRAGMENT), ipv6_ext::Walk::default()).ok()?;
    Some((found.offset, *network.get(found.offset)?))
}

/// Offset of the byte that names the header at `at`.
fn next_field_before(network: &[u8], at: usize) -> Option<usize> {
    let mut field = 6;
    let mut position = ipv6::LEN;
    while position < at {
        let header = ipv6_ext::OptionsHeader::new(network.get(position..)?)?;
        field = position;
        position += header.header_len();
    }
    (position == at).then_some(field)
}

/// Whether a first fragment holds all headers up to that of the transport (`ipv6frag_thdr_truncated()`).
fn upper_header_there(network: &[u8], at: usize, next: u8) -> bool {
    let Some(found) = ipv6_ext::skip(network, at, next) else { return next == protocol::NO_NEXT };
    let need = match found.protocol {
        protocol::TCP => 20,
        protocol::UDP => 8,
        protocol::ICMPV6 => 8,
        _ => 1,
    };
    found.offset + need <= network.len()
}
