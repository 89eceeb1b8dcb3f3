// SPDX-License-Identifier: Apache-2.0

//! Fragments that wait for the rest of their packet (`net/ipv4/inet_fragment.c`).
//!
//! One mechanism for all who put packets together: connection tracking before routing, and the host
//! for what is delivered to it. A fragment that lies wholly within what is there is dropped; one
//! that overlaps it partly ends the whole packet. What waits is bounded in bytes ([`OVERHEAD`]
//! counted for each fragment), and in time by the packet clock. What a fragment costs depends
//! neither on how many packets wait nor on how they are cut.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use hashlink::LinkedHashMap;
use penstock_packet::Packet;

/// Bytes that a waiting fragment counts for besides its own: what the kernel's buffers take for a
/// small one.
const OVERHEAD: usize = 640;
/// Bytes that a waiting packet counts for.
const QUEUE: usize = 200;
/// Emptied [`Waiting`]s that are kept for the next packets.
const SPARE: usize = 64;
/// Bytes of parts that one of them has room for at most; larger ones are freed.
const SPARE_BYTES: usize = 4 << 10;

/// Who puts a packet together (`enum ip_defrag_users`, `enum ip6_defrag_users`): fragments meet
/// those of the same user only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum User {
    /// The host, for what is delivered to it.
    Host,
    /// Connection tracking at `prerouting`, in a zone.
    In(u16),
    /// Connection tracking at `output`, in a zone.
    Out(u16),
    /// Connection tracking on a bridge, in a zone.
    Bridge(u16),
}

/// What fragments of one IPv4 packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key4 {
    pub(crate) saddr: u32,
    pub(crate) daddr: u32,
    pub(crate) id: u16,
    pub(crate) protocol: u8,
    pub(crate) user: User,
}

/// What fragments of one IPv6 packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key6 {
    pub(crate) saddr: u128,
    pub(crate) daddr: u128,
    pub(crate) id: u32,
    /// Device of arrival, where it tells packets apart.
    pub(crate) device: u32,
    pub(crate) user: User,
}

/// A key of [`Fragments`].
pub(crate) trait Key: Hash + Eq + Copy {
    /// Who sends it, where packets are given up after too many other fragments of the same source.
    fn source(&self) -> Option<u32>;
}

impl Key for Key4 {
    fn source(&self) -> Option<u32> {
        Some(self.saddr)
    }
}

impl Key for Key6 {
    fn source(&self) -> Option<u32> {
        None
    }
}

/// Limits of a table of fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Nanoseconds that a packet waits.
    pub(crate) time: u64,
    /// Bytes that wait, all together.
    pub(crate) memory: usize,
    /// Fragments of one source between two of a packet (`ipfrag_max_dist`), 0 for any number.
    pub(crate) distance: u32,
}

/// Packets of which not all fragments have come.
#[derive(Debug)]
pub(crate) struct Fragments<K> {
    /// In order of their deadlines, since all wait equally long.
    waiting: LinkedHashMap<K, Waiting>,
    /// Fragments seen of each source of which packets wait, and how many of them wait.
    sources: HashMap<u32, (u32, u32)>,
    memory: usize,
    spare: Vec<Waiting>,
    /// Parts that wait.
    parts: usize,
    /// Parts that ended: in a packet that was put together, or with one that was given up.
    ended: u64,
}

impl<K: Hash + Eq> Default for Fragments<K> {
    fn default() -> Self {
        Fragments {
            waiting: LinkedHashMap::new(),
            sources: HashMap::new(),
            memory: 0,
            spare: Vec::new(),
            parts: 0,
            ended: 0,
        }
    }
}

/// A fragment's part of the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Bytes from the beginning of what was cut.
    pub(crate) offset: usize,
    pub(crate) data: &'a [u8],
    pub(crate) more: bool,
    /// What counts as the fragment's size for cutting the packet again.
    pub(crate) size: usize,
    pub(crate) df: bool,
    /// ECN field.
    pub(crate) ecn: u8,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: u32,
    len: u32,
    /// Where in [`Waiting::data`].
    at: usize,
}

/// A packet in parts.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    deadline: u64,
    /// The fragment at offset 0, with its headers.
    first: Option<Packet>,
    /// In order of arrival.
    pieces: Vec<Piece>,
    data: Vec<u8>,
    /// The last stretch without a gap, if there is any part at all (`last_run_head`).
    last_run: Option<(usize, usize)>,
    /// Those before it, first byte to end. Neighbours are not joined, as in the kernel.
    runs: BTreeMap<usize, usize>,
    /// The end of what is known of the packet.
    len: usize,
    last_in: bool,
    first_in: bool,
    /// Device of arrival of the latest fragment.
    pub(crate) device: u32,
    /// Value of the source's counter at the latest fragment.
    seen: u32,
    /// Largest fragment.
    pub(crate) max_size: usize,
    /// Largest fragment with DF.
    pub(crate) max_df_size: usize,
    /// A bit per value of the ECN field.
    ecn: u8,
}

#[derive(Debug, PartialEq, Eq)]
enum Inserted {
    Waits,
    Complete,
    /// It is there already.
    Duplicate,
    /// It contradicts what is known about the packet's length, or is empty.
    Impossible,
    /// It overlaps another.
    Overlap,
}

impl Waiting {
    fn insert(&mut self, part: &Part<'_>) -> Inserted {
        let mut end = part.offset + part.data.len();
        if part.more {
            end &= !7;
            if end > self.len {
                if self.last_in {
                    return Inserted::Impossible;
                }
                self.len = end;
            }
        } else {
            if end < self.len || (self.last_in && end != self.len) {
                return Inserted::Impossible;
            }
            self.last_in = true;
            self.len = end;
        }
        if end <= part.offset {
            return Inserted::Impossible;
        }
        match self.last_run {
            None => self.last_run = Some((part.offset, end)),
            Some((from, to)) if to < end => {
                if part.offset < to {
                    return Inserted::Overlap;
                }
                if part.offset == to {
                    self.last_run = Some((from, end));
                } else {
                    self.runs.insert(from, to);
                    self.last_run = Some((part.offset, end));
                }
            }
            Some(last) => {
                // The run that begins last before the end of this part is the one that it could
                // touch.
                let before = self.runs.range(..end).next_back().map(|(from, to)| (*from, *to));
                let near = if last.0 < end { Some(last) } else { before };
                if let Some((from, to)) = near.filter(|(_, to)| part.offset < *to) {
                    let within = part.offset >= from && end <= to;
                    return if within { Inserted::Duplicate } else { Inserted::Overlap };
                }
                self.runs.insert(part.offset, end);
            }
        }
        let len = end - part.offset;
        self.pieces.push(Piece {
            offset: part.offset as u32,
            len: len as u32,
            at: self.data.len(),
        });
        self.data.extend_from_slice(&part.data[..len]);
        self.ecn |= 1 << (part.ecn & 3);
        self.max_size = self.max_size.max(part.size);
        if part.df {
            self.max_df_size = self.max_df_size.max(part.size);
        }
        self.first_in |= part.offset == 0;
        if self.first_in && self.last_in && self.data.len() == self.len {
            Inserted::Complete
        } else {
            Inserted::Waits
        }
    }

    /// The ECN field that the whole packet's gets in addition, or `None` where the fragments cannot
    /// belong together (RFC 3168, 5.3; `ip_frag_ecn_table`).
    pub(crate) fn ecn(&self) -> Option<u8> {
        const NOT_ECT: u8 = 1;
        const CE: u8 = 8;
        if self.ecn & NOT_ECT != 0 && self.ecn != NOT_ECT {
            return None;
        }
        Some(if self.ecn & CE != 0 && self.ecn != CE { 3 } else { 0 })
    }

    /// Bytes of all parts.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The fragment with the packet's headers.
    pub(crate) fn first(&self) -> Option<&Packet> {
        self.first.as_ref()
    }

    /// Takes the same out.
    pub(crate) fn take_first(&mut self) -> Option<Packet> {
        self.first.take()
    }

    /// Sizes and bytes of the parts of a complete packet, in their order.
    pub(crate) fn parts(&mut self) -> impl Iterator<Item = &[u8]> {
        self.pieces.sort_unstable_by_key(|p| p.offset);
        self.pieces.iter().map(|p| &self.data[p.at..p.at + p.len as usize])
    }

    /// Whether no part has come that could belong to a packet.
    pub(crate) fn has_no_part(&self) -> bool {
        self.pieces.is_empty()
    }

    fn memory(&self) -> usize {
        QUEUE + self.data.len() + self.pieces.len() * OVERHEAD
    }

    /// Forgets all parts, and keeps the room that they took.
    fn clear(&mut self) {
        let (mut pieces, mut data) =
            (std::mem::take(&mut self.pieces), std::mem::take(&mut self.data));
        pieces.clear();
        data.clear();
        *self = Waiting { pieces, data, ..Waiting::default() };
    }
}

/// What became of a fragment.
// A box would be an allocation for each packet that is put together.
#[expect(clippy::large_enum_variant)]
pub(crate) enum Took {
    Waits,
    Complete(Waiting),
    /// It is there already, and counts as waiting or as dropped depending on who asks.
    Duplicate,
    /// This fragment is wrong; the packet may have to go with it ([`Fragments::give_up`]).
    Impossible,
    /// The packet is gone.
    Overlap,
    /// No more fragments can wait.
    Full,
}

impl<K: Key> Fragments<K> {
    /// Takes a fragment. `packet` is the fragment itself, `spare` a buffer for its headers if it is
    /// the first.
    pub(crate) fn take(
        &mut self,
        key: K,
        part: &Part<'_>,
        packet: &Packet,
        bounds: Bounds,
        spare: impl FnOnce() -> Packet,
    ) -> Took {
        if self.memory > bounds.memory {
            return Took::Full;
        }
        if !self.waiting.contains_key(&key) {
            let mut fresh = self.spare.pop().unwrap_or_default();
            fresh.deadline = packet.meta.time.saturating_add(bounds.time);
            self.memory += fresh.memory();
            self.waiting.insert(key, fresh);
            if let Some(source) = key.source() {
                self.sources.entry(source).or_default().1 += 1;
            }
        }
        if bounds.distance != 0 && self.too_far(&key, bounds.distance) {
            // ip_frag_reinit(): the parts are freed, the wait restarts.
            if let Some(waiting) = self.waiting.to_back(&key) {
                let seen = waiting.seen;
                self.parts -= waiting.pieces.len();
                self.ended += waiting.pieces.len() as u64;
                self.memory -= waiting.memory();
                waiting.clear();
                waiting.seen = seen;
                waiting.deadline = packet.meta.time.saturating_add(bounds.time);
                self.memory += waiting.memory();
            }
        }
        let Some(waiting) = self.waiting.get_mut(&key) else { return Took::Full };
        let before = waiting.memory();
        let inserted = waiting.insert(part);
        self.memory = self.memory + waiting.memory() - before;
        match inserted {
            Inserted::Duplicate => return Took::Duplicate,
            Inserted::Impossible => return Took::Impossible,
            Inserted::Overlap => {
                self.give_up(&key);
                return Took::Overlap;
            }
            Inserted::Waits | Inserted::Complete => self.parts += 1,
        }
        waiting.device = packet.meta.iif;
        if part.offset == 0 {
            let mut first = spare();
            first.clone_from(packet);
            waiting.first = Some(first);
        }
        if inserted == Inserted::Waits {
            return Took::Waits;
        }
        match self.remove(&key) {
            Some(whole) => {
                // The last one becomes the whole packet.
                self.ended += whole.pieces.len() as u64 - 1;
                Took::Complete(whole)
            }
            None => Took::Waits,
        }
    }

    /// `ip_frag_too_far()`: counts the fragment with its source, and tells whether too many came
    /// since the packet's last.
    fn too_far(&mut self, key: &K, distance: u32) -> bool {
        let Some(source) = key.source() else { return false };
        let Some((count, _)) = self.sources.get_mut(&source) else { return false };
        let Some(waiting) = self.waiting.get_mut(key) else { return false };
        *count = count.wrapping_add(1);
        let since = count.wrapping_sub(waiting.seen);
        waiting.seen = *count;
        !waiting.pieces.is_empty() && since > distance
    }

    fn remove(&mut self, key: &K) -> Option<Waiting> {
        let gone = self.waiting.remove(key)?;
        self.forget(key, &gone);
        Some(gone)
    }

    fn forget(&mut self, key: &K, gone: &Waiting) {
        self.memory -= gone.memory().min(self.memory);
        self.parts -= gone.pieces.len();
        if let Some(source) = key.source()
            && let std::collections::hash_map::Entry::Occupied(mut e) = self.sources.entry(source)
        {
            e.get_mut().1 -= 1;
            if e.get().1 == 0 {
                e.remove();
            }
        }
    }

    /// Ends a packet that waits, if it does.
    pub(crate) fn give_up(&mut self, key: &K) {
        if let Some(gone) = self.remove(key) {
            self.ended += gone.pieces.len() as u64;
            self.recycle(gone);
        }
    }

    /// Recycles the fragments of a reassembled packet.
    pub(crate) fn recycle(&mut self, mut done: Waiting) {
        if self.spare.len() < SPARE && done.data.capacity() <= SPARE_BYTES {
            done.clear();
            self.spare.push(done);
        }
    }

    /// An expired packet.
    pub(crate) fn expired(&mut self, now: u64) -> Option<(K, Waiting)> {
        let (_, oldest) = self.waiting.front()?;
        if oldest.deadline > now {
            return None;
        }
        let (key, gone) = self.waiting.pop_front()?;
        self.forget(&key, &gone);
        // One of them stands for the packet, which is dropped.
        self.ended += (gone.pieces.len() as u64).saturating_sub(1);
        Some((key, gone))
    }

    /// Parts that wait, and those that ended so far otherwise than as the packet that goes on or is
    /// dropped.
    pub(crate) fn account(&self) -> (usize, u64) {
        (self.parts, self.ended)
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
