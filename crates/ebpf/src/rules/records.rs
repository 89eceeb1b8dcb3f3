// SPDX-License-Identifier: Apache-2.0

//! What programs tell this process: packets that rules log, steps of packets that are traced,
//! quotas that are used up. All programs of all generations put records into one ring.
//!
//! ```text
//! step:   site, id of the trace, mark, 0                              (16 bytes)
//! packet: the same, lengths, devices, metadata, link header, bytes    (from 96 bytes on)
//! ```
//!
//! A record that finds no room is lost and counted; the packet does not wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use penstock_bpf::{Map, MapKind, MapSpec, RecordRing, SharedWords};

use super::sites::{Site, Sites};

/// Bytes of the ring.
const RING: u32 = 1 << 21;

/// Packets that are traced at the same time, at most.
const TRACED: u32 = 4096;

/// Words that programs share with this process.
const LISTENED: u32 = 0;
const ZERO: u32 = 1;
const LOST: u32 = 2;

/// Where the words are, in bytes.
pub(super) const AT_LISTENED: u32 = LISTENED * 8;
/// From [`AT_LISTENED`] on: a word that is always zero, which the verifier does not know.
pub(super) const AT_ZERO: i16 = (ZERO - LISTENED) as i16 * 8;
pub(super) const AT_LOST: u32 = LOST * 8;

/// Bytes of a step.
pub(super) const STEP: i16 = 16;
/// Bytes of a packet's record in front of its bytes.
pub(super) const HEAD: i16 = 96;

/// Where what is in a record.
pub(super) const AT_SITE: i16 = 0;
pub(super) const AT_TRACE: i16 = 4;
pub(super) const AT_MARK: i16 = 8;
/// Bytes that are in the record, and that the packet has.
pub(super) const AT_CAPTURED: i16 = 16;
pub(super) const AT_LEN: i16 = 20;
/// Indexes of devices, 0 for none.
pub(super) const AT_INPUT: i16 = 24;
pub(super) const AT_OUTPUT: i16 = 28;
/// Of the packet, and of its tag; in network order, 0 for no tag.
pub(super) const AT_PROTOCOL: i16 = 32;
pub(super) const AT_TAG_PROTOCOL: i16 = 34;
pub(super) const AT_TAG: i16 = 36;
/// Bytes of the link header that are not among the packet's.
pub(super) const AT_LINK_LEN: i16 = 38;
/// Byte of `struct sk_buff` with the packet's type.
pub(super) const AT_TYPE: i16 = 39;
/// Whether there is an owner, and who.
pub(super) const AT_OWNED: i16 = 40;
pub(super) const AT_UID: i16 = 44;
pub(super) const AT_GID: i16 = 48;
/// The kernel's monotonic clock.
pub(super) const AT_TIME: i16 = 56;
pub(super) const AT_LINK: i16 = 64;
/// Bytes of a link header at most.
pub(super) const LINK: i16 = 32;

/// What programs need to tell something.
#[derive(Debug)]
pub struct Records {
    ring: Arc<Map>,
    traced: Arc<Map>,
    words: SharedWords,
    pub(super) sites: Sites,
}

/// A step of a traced packet, or a packet.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where, and what.
    pub site: Arc<Site>,
    /// Number of the trace, 0 for none.
    pub trace: u32,
    /// Mark of the packet.
    pub mark: u32,
    /// The packet, where it is told.
    pub packet: Option<Captured>,
}

/// A packet in a record.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Index of the device of arrival as the hook has it, 0 for none.
    pub input: u32,
    /// Index of the device on the way out as the hook has it, 0 for none.
    pub output: u32,
    /// Ethertype, 0 if the packet's bytes say it.
    pub protocol: u16,
    /// A tag that is not in the packet's bytes: protocol, and the rest of it.
    pub tag: Option<(u16, u16)>,
    /// `PACKET_*`
    pub packet_type: u8,
    /// User and group of the socket.
    pub owner: Option<(u32, u32)>,
    /// When, by the kernel's monotonic clock, in nanoseconds.
    pub time: u64,
    /// A link header that is not among the bytes.
    pub link: Vec<u8>,
    /// As much of the packet as the record has: from the link header on at a device, from the
    /// network header on at a hook of IP.
    pub bytes: Vec<u8>,
    /// Bytes of the packet.
    pub len: u32,
}

impl Records {
    /// Nothing is told yet.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub(super) fn new() -> io::Result<Self> {
        let map = |name, kind, key, value, entries| {
            Arc::new(Map::new(MapSpec { name, kind, key, value, entries }))
        };
        Ok(Records {
            ring: map("rule_records", MapKind::Records, 0, 0, RING),
            traced: map("rule_traced", MapKind::RecentHash, 8, 16, TRACED),
            words: SharedWords::new("rule_listened", LOST + 1)?,
            sites: Sites::default(),
        })
    }

    /// The ring.
    pub(super) fn ring(&self) -> &Arc<Map> {
        &self.ring
    }

    /// Packets that are traced, by the address of their `struct sk_buff`.
    pub(super) fn traced(&self) -> &Arc<Map> {
        &self.traced
    }

    pub(super) fn words(&self) -> &Arc<Map> {
        self.words.map()
    }

    /// Begins to read.
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2).
    pub fn reader(&self) -> io::Result<RecordRing> {
        RecordRing::new(&self.ring)
    }

    /// Says whether somebody listens to traces: packets are traced only then.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn listen(&self, listens: bool) -> io::Result<()> {
        let Some(word) = self.words.get(LISTENED) else { return Ok(()) };
        if listens && word.load(Relaxed) == 0 {
            // Those of before are gone.
            while let Some(key) = self.traced.next_key(None)? {
                self.traced.remove(&key)?;
            }
        }
        word.store(listens.into(), Relaxed);
        Ok(())
    }

    /// Whether packets may be traced.
    pub fn is_listened(&self) -> bool {
        self.words.get(LISTENED).is_some_and(|word| word.load(Relaxed) != 0)
    }

    /// How many records were lost since this was asked for the last time.
    pub fn take_lost(&self) -> u64 {
        self.words.get(LOST).map_or(0, |word| word.swap(0, Relaxed))
    }

    /// A record of the ring; `None` if its program is long gone.
    pub fn decode(&self, bytes: &[u8]) -> Option<Record> {
        let word =
            |at: i16| bytes.get(at as usize..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let half =
            |at: i16| bytes.get(at as usize..)?.first_chunk().map(|half| u16::from_be_bytes(*half));
        let byte = |at: i16| bytes.get(at as usize).copied();
        let site = self.sites.get(word(AT_SITE)?)?;
        let (trace, mark) = (word(AT_TRACE)?, word(AT_MARK)?);
        if bytes.len() == STEP as usize {
            return Some(Record { site, trace, mark, packet: None });
        }
        let captured = word(AT_CAPTURED)? as usize;
        let tag_protocol = half(AT_TAG_PROTOCOL)?;
        let tag = u16::from_ne_bytes(half(AT_TAG)?.to_be_bytes());
        let link = bytes.get(AT_LINK as usize..)?.get(..byte(AT_LINK_LEN)?.into())?;
        let time = bytes.get(AT_TIME as usize..)?.first_chunk()?;
        let packet = Captured {
            input: word(AT_INPUT)?,
            output: word(AT_OUTPUT)?,
            protocol: half(AT_PROTOCOL)?,
            tag: (tag_protocol != 0).then_some((tag_protocol, tag)),
            packet_type: byte(AT_TYPE)?,
            owner: (word(AT_OWNED)? != 0).then_some((word(AT_UID)?, word(AT_GID)?)),
            time: u64::from_ne_bytes(*time),
            link: link.to_vec(),
            bytes: bytes.get(HEAD as usize..)?.get(..captured)?.to_vec(),
            len: word(AT_LEN)?,
        };
        Some(Record { site, trace, mark, packet: Some(packet) })
    }
}
