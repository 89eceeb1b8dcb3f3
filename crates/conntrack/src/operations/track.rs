// SPDX-License-Identifier: Apache-2.0

//! Giving a packet its connection (`nf_conntrack_in()`).

use super::seek::TupleLookup;
use crate::complaint::Complaint;
use crate::dissect;
use crate::packet::{Hook, PacketView, Verdict};
use crate::settings::Tracker;
use crate::table::{Conntrack, NONE};
use crate::tracker::{self, Context, Outcome};
use crate::{Direction, Tuple, event, status};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_wire::protocol;

/// The connection of a packet that was looked up, what the packet is to it, and its fate. So small
/// that it is returned in a register.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// Number of the entry; [`Ct::NONE`] of an invalid packet.
    entry: u32,
    info: CtInfo,
    /// Its fate.
    pub verdict: Verdict,
    /// Its connection was in the table before.
    pub known: bool,
}

const _: () = assert!(size_of::<Sighting>() == size_of::<u64>());

/// What is known of a packet's connection before it is looked up.
#[derive(Clone, Copy)]
enum Known<'a> {
    Nothing,
    Found(u32, Direction),
    /// It is not in the table.
    Absent(&'a TupleLookup),
}

impl Conntrack {
    /// What is wrong with the packet that was tracked last, if its protocol is the one of
    /// [`Settings::log_invalid`](crate::Settings::log_invalid); once.
    pub fn take_complaints(&self) -> [Option<Complaint>; 2] {
        self.complaints.take()
    }

    /// Looks a packet up and gives it its connection in [`penstock_packet::Meta::ct`], a new and
    /// unconfirmed one if there is none. A packet that already has one, or is untracked, stays as
    /// it is; what rules requested before ([`Ct::template`]) is followed. An invalid packet gets no
    /// connection.
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
            let p =
                PacketView { network, at, info: CtInfo::New, hook, len: packet.len(), unfinished };
            self.track_view(p, before.template, Known::Nothing)
        };
        packet.meta.ct = ct;
        verdict
    }

    /// [`Conntrack::track`] of a received packet that nothing has changed since it was sought.
    /// `network` are its bytes from the network header on, without padding.
    #[inline(never)]
    pub fn track_sought(&mut self, network: &[u8], lookup: &TupleLookup, time: u64) -> Sighting {
        self.advance(time);
        let p = PacketView::sought(network, lookup.layers());
        let Some((n, direction)) = self.find_sought(lookup) else {
            return self.track_known(Known::Absent(lookup), p);
        };
        if self.store[n].expires <= self.now {
            return self.track_known(Known::Nothing, p);
        }
        match self.renew(n, direction, &p) {
            Some(info) => Sighting { entry: n, info, verdict: Verdict::Accept, known: true },
            None => self.track_known(Known::Found(n, direction), p),
        }
    }

    /// What a packet holds by what was found.
    #[inline(always)]
    pub fn ct_of(&self, sighting: Sighting) -> Ct {
        let Sighting { entry, info, .. } = sighting;
        match self.store.get_live(entry) {
            Some(e) => Ct { entry, serial: e.serial, info, template: 0 },
            None => Ct::default(),
        }
    }

    #[inline(never)]
    fn track_known(&mut self, known: Known<'_>, p: PacketView<'_>) -> Sighting {
        let (ct, verdict) = self.track_view(p, 0, known);
        let known = matches!(known, Known::Found(..));
        Sighting { entry: ct.entry, info: ct.info, verdict, known }
    }

    /// Tracks a packet of UDP that does nothing but renew the life of its connection, as most do
    /// that was answered: what it is to that. `None` for all others, and nothing has happened.
    #[inline(always)]
    fn renew(&mut self, n: u32, direction: Direction, p: &PacketView<'_>) -> Option<CtInfo> {
        const ANSWERED: u32 = status::CONFIRMED | status::SEEN_REPLY;
        let e = &self.store[n];
        if p.at.protocol != protocol::UDP || e.status & ANSWERED != ANSWERED || e.extra != NONE {
            return None;
        }
        let timeouts = self.settings.timeouts(Tracker::Udp);
        let timeout = tracker::renewed_udp(&e.proto, e.status, self.now, timeouts)?;
        if !tracker::is_right_udp(p, self.settings.checksum) {
            return None;
        }
        self.refresh(n, direction, p.len, timeout);
        Some(self.info_of(n, direction))
    }

    #[inline]
    fn track_view(
        &mut self,
        mut p: PacketView<'_>,
        template: u16,
        mut known: Known<'_>,
    ) -> (Ct, Verdict) {
        if matches!(p.at.protocol, protocol::ICMP | protocol::ICMPV6)
            && let Some(ct) = self.icmp_error(&p, template)
        {
            return (ct, Verdict::Accept);
        }
        loop {
            let looked_up = match std::mem::replace(&mut known, Known::Nothing) {
                Known::Found(n, direction) => {
                    p.info = self.info_of(n, direction);
                    Ok(Some(n))
                }
                Known::Absent(lookup) => {
                    let hashes = (lookup.hash, lookup.reply_hash);
                    self.begin(&mut p, &lookup.tuple(), [0; 2], hashes, template)
                }
                Known::Nothing => self.look_up(&mut p, template),
            };
            let n = match looked_up {
                Ok(Some(n)) => n,
                Ok(None) => return self.invalid(),
                Err(Full) => {
                    self.statistics.drop += 1;
                    return (Ct::default(), Verdict::Drop);
                }
            };
            let outcome = self.run_tracker(n, &p);
            if outcome.verdict == tracker::Verdict::Accept {
                self.refresh(n, p.direction(), p.len, outcome.timeout);
                return (self.joined(n, p.info), Verdict::Accept);
            }
            if let Some(end) = self.not_accepted(n, &p, outcome) {
                return end;
            }
        }
    }

    /// Handles a packet that does more than refresh its connection. `None` if it begins another
    /// one.
    #[cold]
    #[inline(never)]
    fn not_accepted(
        &mut self,
        n: u32,
        p: &PacketView<'_>,
        outcome: Outcome,
    ) -> Option<(Ct, Verdict)> {
        match outcome.verdict {
            tracker::Verdict::Accept | tracker::Verdict::Ignore => {
                Some((self.joined(n, p.info), Verdict::Accept))
            }
            tracker::Verdict::End => {
                self.account(n, p.direction(), p.len);
                self.kill(n);
                Some((self.joined(n, p.info), Verdict::Accept))
            }
            tracker::Verdict::Repeat => {
                self.kill(n);
                None
            }
            tracker::Verdict::OutOfStep => {
                self.set_timeout(n, outcome.timeout);
                self.leave(n);
                Some(self.invalid())
            }
            tracker::Verdict::Invalid => {
                self.leave(n);
                Some(self.invalid())
            }
        }
    }

    /// Runs the tracker of an entry's protocol, and notes what it says except its verdict.
    #[inline(always)]
    fn run_tracker(&mut self, n: u32, p: &PacketView<'_>) -> Outcome {
        let tracker = Tracker::of(p.at.protocol);
        let e = &mut self.store[n];
        let context = || {
            let (timeouts, seqadj, synproxy) = match e.extra {
                NONE => (self.settings.timeouts(tracker), None, false),
                extra => {
                    let x = &self.extras[extra as usize];
                    let policy = self.policies.timeouts(x.policy);
                    let timeouts = policy.unwrap_or_else(|| self.settings.timeouts(tracker));
                    (timeouts, x.seqadj.as_deref(), x.synproxy)
                }
            };
            Context {
                now: self.now,
                status: e.status,
                expires: e.expires,
                original: &e.original,
                settings: &self.settings,
                timeouts,
                seqadj,
                synproxy,
                complaints: &self.complaints,
            }
        };
        let outcome = tracker::run(tracker, &mut e.proto, p, context);
        // A status bit that is set is always told.
        if outcome.events != 0 {
            let before = e.status;
            e.status |= outcome.status;
            if before | outcome.status != before {
                self.forget_memo(n);
            }
            self.note(n, outcome.events);
        }
        if outcome.closed {
            self.detach_all(n);
        }
        outcome
    }

    /// What a packet holds that is part of a connection.
    #[inline(always)]
    fn joined(&mut self, n: u32, info: CtInfo) -> Ct {
        let e = &mut self.store[n];
        let ct = Ct { entry: n, serial: e.serial, info, template: 0 };
        if info == CtInfo::EstablishedReply && !e.has(status::SEEN_REPLY) {
            e.status |= status::SEEN_REPLY;
            self.forget_memo(n);
            self.note(n, event::REPLY);
        }
        ct
    }

    /// Ends an entry if the packet that is no part of it was its first.
    fn leave(&mut self, n: u32) {
        if !self.store[n].has(status::CONFIRMED | status::DYING) {
            self.destroy(n);
        }
    }

    #[cold]
    fn invalid(&mut self) -> (Ct, Verdict) {
        self.statistics.invalid += 1;
        (Ct::default(), Verdict::Accept)
    }

    /// Finds or makes the packet's entry and says what the packet is to it (`resolve_normal_ct()`).
    #[inline(always)]
    fn look_up(&mut self, p: &mut PacketView<'_>, template: u16) -> Result<Option<u32>, Full> {
        let Some(mut tuple) = self.tuple_at(p.network, &p.at, 0) else { return Ok(None) };
        let zones = self.template_zones(template);
        let (found, hash) = self.find_in_zones(&mut tuple, zones);
        let Some((n, direction)) = found else {
            return self.begin(p, &tuple, zones, (hash, None), template);
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

    /// Makes an entry (`init_conntrack()`). The hash of the tuple is given, and that of its inverse
    /// in the same zone, if it is known.
    fn begin(
        &mut self,
        p: &mut PacketView<'_>,
        tuple: &Tuple,
        zones: [u16; 2],
        (hash, reply_hash): (u64, Option<u64>),
        template: u16,
    ) -> Result<Option<u32>, Full> {
        p.info = CtInfo::New;
        let Some(mut reply) = tuple.invert() else { return Ok(None) };
        reply.zone = zones[1];
        let hashes = [hash, reply_hash.unwrap_or_else(|| self.hash(&reply))];
        // It is looked up when the packet leaves.
        self.prefetch_bucket(hashes[1]);
        self.prefetch_directory([tuple, &reply]);
        let n = self.allocate(tuple, &reply, hash).ok_or(Full)?;
        self.note_begun(n, hashes);
        if self.meet_expectation(n) {
            p.info = CtInfo::Related;
        }
        if template != 0 {
            self.apply_template(n, template);
        }
        Ok(Some(n))
    }

    /// Gives a new connection what rules asked for before it was there.
    fn apply_template(&mut self, n: u32, template: u16) {
        let t = self.template_of(template);
        if t.policy != 0 {
            self.set_policy(n, t.policy);
        }
        if t.helper != 0 {
            self.set_helper(n, t.helper);
        }
        if let Some(masks) = t.events {
            self.set_event_masks(n, masks);
        }
    }
}

/// The table is full.
struct Full;
