// SPDX-License-Identifier: Apache-2.0

//! What programs ask of connection tracking and translation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use crate::operand::NatKind;
use crate::state::dynamic::DynamicSet;
use crate::state::{self, State};

/// What the outside makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Decision {
    /// The rule continues.
    Continue,
    /// The rule ends (`NFT_BREAK`).
    Break,
    /// The verdict is accept.
    Accept,
    /// The verdict is drop.
    Drop,
    /// The outside has taken the packet (`NF_STOLEN`).
    Stolen,
}

/// A translation that a rule asks for (`struct nf_nat_range2` as `nft_nat_eval()`,
/// `nft_masq_eval()` and `nft_redir_eval()` fill it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatRequest {
    /// What is translated.
    pub kind: NatKind,
    /// First address in network order, an IPv4 address in the first four bytes; zeros unless
    /// `NF_NAT_RANGE_MAP_IPS` (1) is among the flags. With `NF_NAT_RANGE_NETMAP` (64) it is the
    /// finished address: the prefix, then the bits of the packet's own address.
    pub min_address: [u8; 16],
    /// Last address.
    pub max_address: [u8; 16],
    /// First port in host order; 0 unless `NF_NAT_RANGE_PROTO_SPECIFIED` (2) is among the flags.
    pub min_port: u16,
    /// Last port.
    pub max_port: u16,
    /// The port from which ports keep their distance in the range, in host order; 0 unless
    /// `NF_NAT_RANGE_PROTO_OFFSET` (32) is among the flags.
    pub base_port: u16,
    /// `NF_NAT_RANGE_*`.
    pub flags: u32,
}

/// A number of connections that `ct count` looks at: of a rule's expression or of an element of a
/// set.
#[derive(Clone, Copy, Debug)]
pub enum ConnCount<'a> {
    /// A rule's.
    State(&'a Arc<State>),
    /// An element's.
    Element {
        /// The set.
        set: &'a Arc<DynamicSet>,
        /// The element's slot.
        slot: u32,
        /// Which of its statements.
        statement: usize,
    },
}

impl ConnCount<'_> {
    fn word(&self) -> Option<&AtomicU64> {
        match self {
            ConnCount::State(state) => match &***state {
                State::Connlimit(count) => Some(count.word()),
                _ => None,
            },
            ConnCount::Element { set, slot, statement } => set.connections(*slot, *statement),
        }
    }

    fn load(&self) -> u64 {
        self.word().map_or(0, |word| word.load(Relaxed))
    }

    /// Connections counted at present.
    pub fn connections(&self) -> u32 {
        self.load() as u32
    }

    /// Which count it is; 0 before the first connection. No two counts have the same while both are
    /// in use, also where one element follows another in its place.
    pub fn id(&self) -> u32 {
        (self.load() >> 32) as u32
    }

    /// Counts one connection more: how many there are then, and what to drop when it ends.
    pub fn join(&self) -> (u32, CountedConnection) {
        let (connections, id) = self.word().map_or((0, 0), state::join);
        let place = match *self {
            ConnCount::State(state) => CountOwner::State(Arc::downgrade(state)),
            ConnCount::Element { set, slot, statement } => {
                CountOwner::Element { set: Arc::downgrade(set), slot, statement }
            }
        };
        (connections, CountedConnection { id, place })
    }
}

/// A connection in a [`ConnCount`]; it is taken out of it when this is dropped. It does not keep
/// the rule or the set.
#[derive(Debug)]
pub struct CountedConnection {
    id: u32,
    place: CountOwner,
}

#[derive(Debug)]
enum CountOwner {
    State(Weak<State>),
    Element { set: Weak<DynamicSet>, slot: u32, statement: usize },
}

impl CountedConnection {
    /// [`ConnCount::id`] of where it is counted.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether the count still exists: its rule or element, and no other one in its place.
    pub fn has_count(&self) -> bool {
        self.with_count(|count| count.id() == self.id).unwrap_or_default()
    }

    fn with_count<R>(&self, with: impl FnOnce(ConnCount<'_>) -> R) -> Option<R> {
        match &self.place {
            CountOwner::State(state) => Some(with(ConnCount::State(&state.upgrade()?))),
            CountOwner::Element { set, slot, statement } => {
                let set = set.upgrade()?;
                Some(with(ConnCount::Element { set: &set, slot: *slot, statement: *statement }))
            }
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.with_count(|count| {
            if let Some(word) = count.word() {
                state::leave(word, self.id);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ConnCountState;

    #[test]
    fn a_connection_leaves_its_connlimit_count() {
        let state = Arc::new(State::Connlimit(ConnCountState::default()));
        let count = ConnCount::State(&state);
        let (first, one) = count.join();
        let (second, other) = count.join();
        assert_eq!((first, second, count.connections()), (1, 2, 2));
        assert!(one.id() == other.id() && one.has_count());
        drop(one);
        assert_eq!(count.connections(), 1);
        drop(state);
        assert!(!other.has_count(), "its rule is gone");
        drop(other);
    }
}
