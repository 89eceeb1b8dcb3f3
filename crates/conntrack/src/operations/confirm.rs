// SPDX-License-Identifier: Apache-2.0

//! Entering new connections when their first packet leaves (`__nf_conntrack_confirm()`), and what
//! happens when another was quicker.

use crate::packet::Verdict;
use crate::settings::SECOND;
use crate::table::{Conntrack, NotEntered, sides};
use crate::{Tuple, status};
use penstock_packet::{CtInfo, Packet};
use penstock_wire::protocol;

impl Conntrack {
    /// Enters the packet's connection into the table if it is not there yet. Called at the end of
    /// input and postrouting. `Drop` if it cannot be entered; then the packet has no connection
    /// afterwards.
    #[inline]
    pub fn confirm(&mut self, packet: &mut Packet) -> Verdict {
        self.advance(packet.meta.time);
        let ct = packet.meta.ct;
        let Some(n) = self.resolve(&ct) else { return Verdict::Accept };
        if self.store[n].has(status::CONFIRMED) || ct.info.is_reply() {
            self.tell(n);
            return Verdict::Accept;
        }
        let verdict = self.confirm_new(packet, n);
        if verdict == Verdict::Accept
            && let Some(n) = self.resolve(&packet.meta.ct)
        {
            self.tell(n);
        }
        verdict
    }

    fn confirm_new(&mut self, packet: &mut Packet, n: u32) -> Verdict {
        let e = &self.store[n];
        if e.has(status::DYING) {
            return self.refuse(packet, n);
        }
        let (original, reply) = (e.original, e.reply);
        let (hashes, absent) = self.hashes_begun(n);
        let sides = sides(&original, &reply);
        let both = [(hashes[0], &original, sides[0]), (hashes[1], &reply, sides[1])];
        for (hash, tuple, side) in both.into_iter().skip(absent.into()) {
            while let Some((other, _)) = self.find_side(hash, tuple, side) {
                if self.store[other].expires <= self.now {
                    self.destroy(other);
                    continue;
                }
                return self.resolve_clash(packet, n, other, hashes[1]);
            }
        }
        self.insert(packet, n, hashes)
    }

    fn insert(&mut self, packet: &mut Packet, n: u32, hashes: [u64; 2]) -> Verdict {
        match self.enter(n, hashes) {
            Ok(()) => Verdict::Accept,
            Err(NotEntered::ChainTooLong) => {
                self.statistics.chaintoolong += 1;
                self.refuse(packet, n)
            }
            Err(NotEntered::Anothers) => self.refuse(packet, n),
        }
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

    /// Another entry has one of the tuples (`nf_ct_resolve_clash()`). If it is the same connection,
    /// seen from either end, the packet joins it. Packets of UDP and other connectionless protocols
    /// may also have a separate entry for a second, found by its reply tuple only, if just the
    /// original tuple is taken.
    ///
    /// The kernel drops a TCP packet if another packet entered its connection in between. Here
    /// packets go through in bursts, so that happens more often, and the packet joins that
    /// connection.
    #[cold]
    fn resolve_clash(
        &mut self,
        packet: &mut Packet,
        n: u32,
        other: u32,
        reply_hash: u64,
    ) -> Verdict {
        let original = self.store[n].original;
        let lenient = allows_clash(&original);
        if let Some(info) = self.may_join(n, other, lenient) {
            return self.join(packet, n, other, info);
        }
        if lenient {
            let reply = self.store[n].reply;
            match self.find_side(reply_hash, &reply, sides(&original, &reply)[1]) {
                Some((other, _)) => {
                    if let Some(info) = self.may_join(n, other, lenient) {
                        return self.join(packet, n, other, info);
                    }
                }
                None => {
                    let e = &mut self.store[n];
                    e.expires = SECOND;
                    e.status |= status::NAT_CLASH | status::FIXED_TIMEOUT;
                    if self.enter_reply(n, reply_hash).is_ok() {
                        self.statistics.clash_resolve += 1;
                        return Verdict::Accept;
                    }
                }
            }
        }
        self.refuse(packet, n)
    }

    /// What a packet with the unconfirmed entry `n` would be to entry `other`.
    fn may_join(&self, n: u32, other: u32, lenient: bool) -> Option<CtInfo> {
        let (loser, winner) = (&self.store[n], &self.store[other]);
        let same = loser.original == winner.original && loser.reply == winner.reply;
        let reverse = loser.original == winner.reply && loser.reply == winner.original;
        if reverse && lenient {
            Some(CtInfo::EstablishedReply)
        } else if same {
            Some(if winner.has(status::SEEN_REPLY) { CtInfo::Established } else { CtInfo::New })
        } else {
            None
        }
    }

    /// Gives the packet another entry than its own, which ends.
    fn join(&mut self, packet: &mut Packet, n: u32, other: u32, info: CtInfo) -> Verdict {
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
            self.forget_memo(other);
        }
        let winner = &self.store[other];
        packet.meta.ct =
            penstock_packet::Ct { entry: other, serial: winner.serial, info, template: 0 };
        self.statistics.clash_resolve += 1;
        Verdict::Accept
    }
}

/// Protocols with clash resolution (`allow_clash`).
fn allows_clash(tuple: &Tuple) -> bool {
    matches!(
        tuple.protocol,
        protocol::UDP | protocol::UDPLITE | protocol::ICMP | protocol::ICMPV6 | protocol::GRE
    )
}
