// SPDX-License-Identifier: Apache-2.0

//! Connections that programs look up (`net/netfilter/nf_conntrack_bpf.c`): what they are found by,
//! what is known of them, and which ones a run holds.

use std::net::IpAddr;

use crate::types::{NF_CONN, connection as place};

/// What a connection is found by: one of its tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionQuery {
    /// The tuple.
    pub tuple: ConnectionTuple,
    /// TCP or UDP.
    pub protocol: u8,
    /// The zone that the tuple is in if it is that of the original direction, and of replies.
    pub zones: [u16; 2],
}

/// Addresses, both of one family, and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTuple {
    /// Where packets come from.
    pub source: IpAddr,
    /// Where they go to.
    pub destination: IpAddr,
    /// Source and destination port.
    pub ports: (u16, u16),
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionFound {
    /// Whether the tuple is that of replies.
    pub reply: bool,
    /// `IPS_*`.
    pub status: u32,
    /// Its mark.
    pub mark: u32,
    /// Its zone.
    pub zone: u16,
    /// TCP or UDP.
    pub protocol: u8,
    /// Of the original direction and of replies.
    pub tuples: [ConnectionTuple; 2],
}

/// Connections that one run may hold.
const MOST: usize = 8;
/// Bytes from connection to connection.
const STEP: u32 = 256;
const LEN: usize = place::LEN;

/// The connections that a run holds, as programs read them. There is memory for them once a program
/// has found one.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    all: Vec<Option<[u8; LEN]>>,
    held: usize,
}

impl Connections {
    /// A run begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.held != 0 {
            self.release_all();
        }
    }

    #[cold]
    fn release_all(&mut self) {
        self.all.fill(None);
        self.held = 0;
    }

    /// How many are held.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Holds one: its offset. Nothing if too many are held.
    pub(crate) fn hold(&mut self, found: &ConnectionFound) -> Option<u32> {
        if self.all.is_empty() {
            self.all.resize(MOST, None);
        }
        let slot = self.all.iter().position(Option::is_none)?;
        *self.all.get_mut(slot)? = Some(bytes(found));
        self.held += 1;
        Some(slot as u32 * STEP)
    }

    /// Releases the one at an offset, if it is held.
    pub(crate) fn release(&mut self, at: u32) -> Option<()> {
        if !at.is_multiple_of(STEP) {
            return None;
        }
        self.all.get_mut((at / STEP) as usize)?.take()?;
        self.held -= 1;
        Some(())
    }

    /// Reads a field.
    pub(crate) fn load(&self, at: u32, size: u32) -> Option<u64> {
        let (slot, at) = (at / STEP, at % STEP);
        let bytes = self.all.get(slot as usize)?.as_ref()?;
        if !NF_CONN.has(at, size) {
            return None;
        }
        let field = bytes.get(at as usize..(at + size) as usize)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// A connection as [`NF_CONN`] has it.
fn bytes(found: &ConnectionFound) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let mut put = |at: usize, value: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    };
    put(place::STATUS, &u64::from(found.status).to_le_bytes());
    put(place::MARK, &found.mark.to_le_bytes());
    put(place::ZONE, &found.zone.to_le_bytes());
    for (direction, (tuple, at)) in (0..).zip(found.tuples.iter().zip(place::TUPLES)) {
        for (address, part) in
            [(tuple.source, place::SOURCE), (tuple.destination, place::DESTINATION)]
        {
            match address {
                IpAddr::V4(address) => put(at + part, &address.octets()),
                IpAddr::V6(address) => put(at + part, &address.octets()),
            }
        }
        let family: u16 = if tuple.source.is_ipv4() { 2 } else { 10 };
        put(at + place::SPORT, &tuple.ports.0.to_be_bytes());
        put(at + place::DPORT, &tuple.ports.1.to_be_bytes());
        put(at + place::FAMILY, &family.to_le_bytes());
        put(at + place::PROTOCOL, &[found.protocol, direction]);
    }
    bytes
}
