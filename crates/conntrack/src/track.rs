// SPDX-License-Identifier: Apache-2.0

//! Giving a packet its connection (`nf_conntrack_in()`).

use crate::conntrack::{Conntrack, Hook, Outcome, Seen, Verdict};
use crate::dissect::{self, Layers};
use crate::events::event;
use crate::settings::Tracker;
use crate::tuple::{IPV4, IPV6};
use crate::{Direction, Tuple, status};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_wire::protocol;

impl Conntrack {
    /// Looks a packet up and gives it its connection in [`penstock_packet::Meta::ct`], a new and
    /// unconfirmed one if there is none. A packet that already has one, or is untracked, goes on as
    /// it is; what rules asked for before ([`Ct::template`]) is followed. An invalid packet has no
    /// connection afterwards.
    ///
    /// The time is that of the packet. `Drop` if the table is full.
    #[inline]
    pub fn track(&mut self, packet: &mut Packet, hook: Hook) -> Verdict {
        self.advance(packet.meta.time);
        let before = packet.meta.ct;
        if before.has_entry() || before.info == CtInfo::Untracked {
            return Verdict::Accept;
        }
        packet.meta.ct = Ct::default();
        let Some(at) = dissect::layers(packet.network()) else {
            self.statistics.invalid += 1;
            return Verdict::Accept;
        };
        let (ct, verdict) = {
            let (network, unfinished) = (packet.network(), packet.meta.gso.is_some());
            let p = Seen { network, at, info: CtInfo::New, hook, len: packet.len(), unfinished };
            self.track_seen(p, before.template, None)
        };
        packet.meta.ct = ct;
        verdict
    }

    /// [`Conntrack::track`] of a received packet that nothing has changed since it was sought, if
    /// it belongs to a connection in the table; else `None`, and nothing has happened but that time
    /// has passed. `network` are its bytes from the network header on, without padding.
    #[inline]
    pub fn track_sought(
        &mut self,
        network: &[u8],
        sought: &Sought,
        time: u64,
    ) -> Option<(Ct, Verdict)> {
        self.advance(time);
        let (n, direction) = self.find_hashed(sought.hash, &sought.tuple)?;
        if self.store[n].expires <= self.now {
            return None;
        }
        let at =
            Layers { l3: sought.tuple.l3, protocol: sought.tuple.protocol, offset: sought.offset };
        let (info, hook) = (CtInfo::New, Hook::Prerouting);
        let p = Seen { network, at, info, hook, len: network.len(), unfinished: false };
        Some(self.track_seen(p, 0, Some((n, direction))))
    }

    /// `found` is what the look-up has found already.
    #[inline]
    fn track_seen(
        &mut self,
        mut p: Seen<'_>,
        template: u16,
        mut found: Option<(u32, Direction)>,
    ) -> (Ct, Verdict) {
        if matches!(p.at.protocol, protocol::ICMP | protocol::ICMPV6)
            && let Some(ct) = self.icmp_error(&p, template)
        {
            return (ct, Verdict::Accept);
        }
        loop {
            let looked_up = match found.take() {
                Some((n, direction)) => {
                    p.info = self.info_of(n, direction);
                    Ok(Some(n))
                }
                None => self.look_up(&mut p, template),
            };
            let n = match looked_up {
                Ok(Some(n)) => n,
                Ok(None) => return self.invalid(),
                Err(Full) => {
                    self.statistics.drop += 1;
                    return (Ct::default(), Verdict::Drop);
                }
            };
            let outcome = match Tracker::of(p.at.protocol) {
                Tracker::Udp => self.udp_packet(n, &p),
                Tracker::Tcp => self.tcp_packet(n, &p),
                Tracker::Icmp => self.icmp_packet(n, &p),
                Tracker::Icmpv6 => self.icmpv6_packet(n, &p),
                Tracker::Sctp => self.sctp_packet(n, &p),
                Tracker::Dccp => self.dccp_packet(n, &p),
                Tracker::Gre => self.gre_packet(n, &p),
                Tracker::Generic => self.generic_packet(n, &p),
            };
            let e = &mut self.store[n];
            if outcome == Outcome::Accept {
                let ct = Ct { entry: n, serial: e.serial, info: p.info, template: 0 };
                if p.info == CtInfo::EstablishedReply && !e.has(status::SEEN_REPLY) {
                    e.status |= status::SEEN_REPLY;
                    self.note(n, event::REPLY);
                }
                return (ct, Verdict::Accept);
            }
            if !e.has(status::CONFIRMED | status::DYING) {
                self.destroy(n);
            }
            match outcome {
                Outcome::Repeat => continue,
                Outcome::Drop => {
                    self.statistics.drop += 1;
                    self.statistics.invalid += 1;
                    return (Ct::default(), Verdict::Drop);
                }
                Outcome::Accept | Outcome::Invalid => return self.invalid(),
            }
        }
    }

    #[cold]
    fn invalid(&mut self) -> (Ct, Verdict) {
        self.statistics.invalid += 1;
        (Ct::default(), Verdict::Accept)
    }

    /// The tuple of a packet in a zone.
    #[inline(always)]
    pub(crate) fn tuple_at(&self, network: &[u8], at: &Layers, zone: u16) -> Option<Tuple> {
        dissect::tuple(network, at, zone, |t| self.keymap.source_key(t))
    }

    /// Finds the entry for a tuple whose zone may differ by direction, ending entries that have
    /// lived out on the way.
    #[inline(always)]
    pub(crate) fn find_in_zones(
        &mut self,
        tuple: &mut Tuple,
        zones: [u16; 2],
    ) -> (Option<(u32, Direction)>, u64) {
        tuple.zone = zones[0];
        let hash = self.hasher.tuple(tuple);
        if zones[0] == zones[1] {
            return (self.find_alive(hash, tuple), hash);
        }
        let found = self.find_alive(hash, tuple).filter(|(_, dir)| *dir == Direction::Original);
        if found.is_some() {
            return (found, hash);
        }
        tuple.zone = zones[1];
        let found = self
            .find_alive(self.hasher.tuple(tuple), tuple)
            .filter(|(_, dir)| *dir == Direction::Reply);
        tuple.zone = zones[0];
        (found, hash)
    }

    #[inline(always)]
    fn find_alive(&mut self, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        let (n, dir) = self.find_hashed(hash, tuple)?;
        if self.store[n].expires <= self.now {
            return self.find_after_expiry(n, hash, tuple);
        }
        Some((n, dir))
    }

    #[cold]
    fn find_after_expiry(&mut self, n: u32, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        self.destroy(n);
        self.find_alive(hash, tuple)
    }

    /// Finds or makes the packet's entry and says what the packet is to it (`resolve_normal_ct()`).
    #[inline(always)]
    fn look_up(&mut self, p: &mut Seen<'_>, template: u16) -> Result<Option<u32>, Full> {
        let Some(mut tuple) = self.tuple_at(p.network, &p.at, 0) else { return Ok(None) };
        let zones = if template == 0 { [0; 2] } else { self.templates.zones(template) };
        let (found, hash) = self.find_in_zones(&mut tuple, zones);
        let Some((n, direction)) = found else {
            p.info = CtInfo::New;
            return self.begin(p, &tuple, zones, hash, template);
        };
        p.info = self.info_of(n, direction);
        Ok(Some(n))
    }

    /// What a packet in a direction of a connection is to it.
    #[inline(always)]
    fn info_of(&self, n: u32, direction: Direction) -> CtInfo {
        let e = &self.store[n];
        match direction {
            Direction::Reply => CtInfo::EstablishedReply,
            Direction::Original if e.has(status::SEEN_REPLY) => CtInfo::Established,
            Direction::Original if e.has(status::EXPECTED) => CtInfo::Related,
            Direction::Original => CtInfo::New,
        }
    }

    /// Makes an entry (`init_conntrack()`).
    fn begin(
        &mut self,
        p: &mut Seen<'_>,
        tuple: &Tuple,
        zones: [u16; 2],
        hash: u64,
        template: u16,
    ) -> Result<Option<u32>, Full> {
        let Some(mut reply) = tuple.invert() else { return Ok(None) };
        reply.zone = zones[1];
        // It is looked up when the packet leaves.
        self.index.prefetch(self.hasher.tuple(&reply));
        if let Some(member) = &self.member {
            member.prefetch([tuple, &reply]);
        }
        let n = self.allocate(tuple, &reply, hash).ok_or(Full)?;
        if self.meet_expectation(n) {
            p.info = CtInfo::Related;
        }
        if template != 0 {
            self.apply_template(n, template);
        }
        Ok(Some(n))
    }
}

/// The table is full.
struct Full;

/// Where a packet is to be looked up, found out before its turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sought {
    tuple: Tuple,
    hash: u64,
    /// Offset of the transport header from the network header.
    offset: usize,
}

impl Conntrack {
    /// Where to look up a packet in zone 0, by its bytes from the network header on; `None` where
    /// connection tracking finds no tuple (fragments but the first, cut headers). The place in the
    /// hash table is fetched into the cache.
    #[inline]
    pub fn seek(&self, network: &[u8]) -> Option<Sought> {
        let at = dissect::layers(network)?;
        let tuple = self.tuple_at(network, &at, 0)?;
        Some(self.sought(tuple, at.offset))
    }

    /// The same for an IPv4 packet of TCP or UDP, of which the header without options and the ports
    /// are given.
    #[inline(always)]
    pub fn seek_ports4(&self, header: &[u8; 24]) -> Sought {
        const LEN: usize = 20;
        let word =
            |at: usize| header[at..].first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let tuple = Tuple {
            src: u128::from(word(12)).to_le_bytes(),
            dst: u128::from(word(16)).to_le_bytes(),
            src_id: half(LEN),
            dst_id: half(LEN + 2),
            zone: 0,
            l3: IPV4,
            protocol: header[9],
        };
        self.sought(tuple, LEN)
    }

    /// The same for IPv6, of which the header and the ports are given, without extension headers
    /// between them.
    #[inline(always)]
    pub fn seek_ports6(&self, header: &[u8; 44]) -> Sought {
        const LEN: usize = 40;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
        let tuple = Tuple {
            src: address(8),
            dst: address(24),
            src_id: half(LEN),
            dst_id: half(LEN + 2),
            zone: 0,
            l3: IPV6,
            protocol: header[6],
        };
        self.sought(tuple, LEN)
    }

    #[inline(always)]
    fn sought(&self, tuple: Tuple, offset: usize) -> Sought {
        let hash = self.hasher.tuple(&tuple);
        self.index.prefetch(hash);
        Sought { tuple, hash, offset }
    }

    /// Fetches the entry that a packet is likely to lead to, when its place in the hash table has
    /// come.
    #[inline]
    pub fn prefetch_sought(&self, sought: &Sought) {
        if let Some((n, direction)) = self.index.candidate(sought.hash) {
            // What is translated leaves as the other direction says.
            let both = direction == Direction::Reply || !self.sources.is_empty();
            self.store.prefetch(n, both);
        }
    }
}
