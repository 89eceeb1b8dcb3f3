//! Entering new connections when their first packet leaves (`__nf_conntrack_confirm()`), and what happens when another
//! was quicker.

use crate::conntrack::{Conntrack, Verdict};
use crate::settings::SECOND;
use crate::{Direction, Tuple, status};
use penstock_packet::{CtInfo, Packet};
use penstock_wire::protocol;

impl Conntrack {
    /// To be called at the end of input and postrouting: enters the packet's connection into the table if it is not there
    /// yet. `Drop` if it cannot be entered; then the packet has no connection any more.
    #[inline]
    pub fn confirm(&mut self, packet: &mut Packet) -> Verdict {
        self.advance(packet.meta.time);
        let ct = packet.meta.ct;
        let Some(n) = self.resolve(&ct) else { return Verdict::Accept };
        if self.store[n].has(status::CONFIRMED) || ct.info.is_reply() {
            return Verdict::Accept;
        }
        self.confirm_new(packet, n)
    }

    fn confirm_new(&mut self, packet: &mut Packet, n: u32) -> Verdict {
        let e = &self.store[n];
        if e.has(status::DYING) {
            return self.refuse(packet, n);
        }
        let (original, reply) = (e.original, e.reply);
        let hashes = [self.hasher.tuple(&original), self.hasher.tuple(&reply)];
        for (hash, tuple) in [(hashes[0], &original), (hashes[1], &reply)] {
            while let Some((other, direction)) = self.find_hashed(hash, tuple) {
                if self.store[other].expires <= self.now {
                    self.destroy(other);
                    continue;
                }
                return self.resolve_clash(packet, n, other, direction, hashes[1]);
            }
        }
        self.insert(packet, n, hashes)
    }

    fn insert(&mut self, packet: &mut Packet, n: u32, hashes: [u64; 2]) -> Verdict {
        let inserted = self.index.insert(hashes[0], n, Direction::Original).is_ok();
        if !inserted || self.index.insert(hashes[1], n, Direction::Reply).is_err() {
            if inserted {
                self.index.remove(hashes[0], n, Direction::Original);
            }
            self.statistics.chaintoolong += 1;
            return self.refuse(packet, n);
        }
        self.start(n);
        Verdict::Accept
    }

    /// Begins the life of an entry that is in the hash table.
    pub(crate) fn start(&mut self, n: u32) {
        let now = self.now;
        self.store.unlink(n);
        let e = &mut self.store[n];
        // Counted from here, however long the packet took.
        e.expires = now.saturating_add(e.expires);
        e.status |= status::CONFIRMED;
        self.store.arm(n, now);
        self.stamp_start(n);
        self.statistics.insert += 1;
    }

    #[cold]
    fn refuse(&mut self, packet: &mut Packet, n: u32) -> Verdict {
        self.statistics.insert_failed += 1;
        self.statistics.drop += 1;
        packet.meta.ct = Default::default();
        if !self.store[n].has(status::DYING) {
            self.destroy(n);
        }
        Verdict::Drop
    }

    /// Another entry has one of the tuples (`nf_ct_resolve_clash()`). If it is the same connection, or the new one is not
    /// translated, the packet joins the winner. Packets of UDP and other protocols without connections may also have an entry
    /// of their own for a second, found by its original tuple only, if just the reply tuple is taken.
    #[cold]
    fn resolve_clash(
        &mut self,
        packet: &mut Packet,
        n: u32,
        other: u32,
        direction: Direction,
        reply_hash: u64,
    ) -> Verdict {
        let (loser, winner) = (&self.store[n], &self.store[other]);
        let same = loser.original == winner.original && loser.reply == winner.reply;
        let untranslated = !loser.has(status::NAT_DONE_MASK);
        let reverse = loser.original == winner.reply && loser.reply == winner.original;
        let lenient = allows_clash(&loser.original);
        let info = if same || (lenient && untranslated && direction == Direction::Original) {
            Some(if winner.has(status::SEEN_REPLY) { CtInfo::Established } else { CtInfo::New })
        } else if lenient && reverse {
            Some(CtInfo::EstablishedReply)
        } else {
            None
        };
        if let Some(info) = info {
            if let Some(counters) = self.counters(n).copied()
                && let Some(to) = self.counters_mut(other)
            {
                let side = &mut to[usize::from(info.is_reply())];
                side.packets += counters[0].packets;
                side.bytes += counters[0].bytes;
            }
            self.destroy(n);
            let winner = &mut self.store[other];
            if info.is_reply() {
                winner.status |= status::SEEN_REPLY;
            }
            packet.meta.ct = penstock_packet::Ct { entry: other, serial: winner.serial, info, template: 0 };
            self.statistics.clash_resolve += 1;
            return Verdict::Accept;
        }
        if lenient && self.insert_clash(n, reply_hash) {
            return Verdict::Accept;
        }
        self.refuse(packet, n)
    }

    /// Enters a connection whose reply tuple is another's (`nf_ct_resolve_clash_harder()`): allowed if that one has not seen a
    /// reply yet and is not translated differently towards the same peer.
    fn insert_clash(&mut self, n: u32, reply_hash: u64) -> bool {
        let Some((other, Direction::Reply)) = self.find_hashed(reply_hash, &self.store[n].reply) else {
            return false;
        };
        if self.store[other].has(status::SEEN_REPLY | status::FIXED_TIMEOUT) {
            return false;
        }
        let hash = self.hasher.tuple(&self.store[n].original);
        if self.find_hashed(hash, &self.store[n].original).is_some() {
            return false;
        }
        if self.index.insert(hash, n, Direction::Original).is_err() {
            return false;
        }
        let e = &mut self.store[n];
        e.expires = SECOND;
        e.status |= status::NAT_CLASH | status::FIXED_TIMEOUT;
        self.start(n);
        self.statistics.clash_resolve += 1;
        true
    }
}

/// Protocols whose clashes are resolved (`allow_clash`).
fn allows_clash(tuple: &Tuple) -> bool {
    matches!(
        tuple.protocol,
        protocol::UDP | protocol::UDPLITE | protocol::ICMP | protocol::ICMPV6 | protocol::GRE
    )
}
