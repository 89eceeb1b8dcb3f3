// SPDX-License-Identifier: Apache-2.0

//! Running the helper of a packet's connection, and doing what it asks for.

use crate::complaint::Wrong;
use crate::dissect::{self, Layers};
use crate::expectation::{ExpectError, Expectation};
use crate::helper::{Action, Announcement, Edit, Helpers, Message, Otherwise, Ports, Surroundings};
use crate::packet::Verdict;
use crate::reference::Ref;
use crate::seqadj;
use crate::table::{Connection, Conntrack, NONE, zone_of};
use crate::{Direction, Tuple, event, status};
use penstock_packet::{Ct, CtInfo, Packet};
use penstock_wire::{protocol, tcp, udp};

/// Ports, or pairs of ports, that are tried for a connection of a translated master.
const TRIES: usize = 128;

/// Replaces bytes in the data of a packet: packet, offset of the transport header from the network
/// header, its protocol, offset in the data, length, new bytes. Lengths and checksums follow.
/// `false` if it cannot.
pub type Replace = fn(&mut Packet, usize, u8, usize, usize, &[u8]) -> bool;

/// What a message announces cannot be tracked.
struct Refused;

/// What becomes of a packet where its helper has been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helped {
    /// It passes.
    Accept,
    /// It is dropped.
    Drop,
    /// A program is to read it, which listens to this queue; [`Conntrack::adjust`] follows then.
    Queue(u16),
}

impl Conntrack {
    /// Gives a new connection a helper, as rules do it (`ct helper set`). `false`, and nothing
    /// changes, if it is confirmed or has one already, or protocol or family are not the helper's.
    pub fn set_helper(&mut self, n: u32, number: u16) -> bool {
        let e = &self.store[n];
        let (protocol, l3) = (e.original.protocol, e.original.l3);
        let fits = self.helpers.get(number).is_some_and(|h| h.serves(l3, protocol));
        if !fits || e.has(status::CONFIRMED) || self.extra(n).is_some_and(|x| x.helper.is_some()) {
            return false;
        }
        self.give_helper(n, number);
        self.store[n].status |= status::HELPER;
        true
    }

    /// All helpers.
    pub fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// Has other programs as helpers from now on. Connections whose helper is gone have none, and
    /// nothing that it expected is expected any more (`nf_conntrack_helper_unregister()`).
    pub fn set_helpers(&mut self, helpers: Helpers) {
        if self.helpers.is_same(&helpers) {
            return;
        }
        self.helpers = helpers;
        let of_programs = |c: &Connection<'_>| c.is_helped_by_program();
        let helped: Vec<u32> = self.iter().filter(of_programs).map(|c| c.number()).collect();
        for n in helped {
            let helpers = self.helpers.clone();
            let helping = &mut self.extra_mut(n).helper;
            if !helping.as_mut().is_some_and(|helping| helping.follow(&helpers)) {
                *helping = None;
                self.remove_expectations_of(n);
                self.note(n, event::HELPER);
            }
        }
    }

    /// Sets whether FTP may send its data from or to a third party. The kernel's default is no.
    pub fn set_ftp_loose(&mut self, loose: bool) {
        self.helper_options.ftp_loose = loose;
    }

    /// Runs the helper of the packet's connection, at the end of input and postrouting just before
    /// [`Conntrack::confirm`] (`nf_confirm()`): it may make expectations, and rewrite the text of a
    /// translated connection with `replace`. Then sequence numbers are adjusted where text was
    /// rewritten before. Why a packet is dropped is among [`Conntrack::take_complaints`].
    #[inline]
    pub fn help(
        &mut self,
        packet: &mut Packet,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Helped {
        let ct = packet.meta.ct;
        let Some(n) = self.resolve(&ct) else { return Helped::Accept };
        if ct.info == CtInfo::RelatedReply || !self.is_helped(n) {
            return Helped::Accept;
        }
        self.help_and_adjust(packet, n, surroundings, replace)
    }

    /// Whether a connection has a helper, or its sequence numbers are shifted.
    #[inline]
    fn is_helped(&self, n: u32) -> bool {
        let e = &self.store[n];
        e.extra != NONE
            && (e.has(status::SEQ_ADJUST) || self.extra(n).is_some_and(|x| x.helper.is_some()))
    }

    /// Whether nothing is left to be done at the end of its way for a packet with this connection:
    /// [`Conntrack::help`] and [`Conntrack::confirm`] would only let it pass.
    #[inline]
    pub fn is_settled(&self, ct: &Ct) -> bool {
        !self.is_observed() && self.resolve(ct).is_none_or(|n| self.is_plain(n))
    }

    /// Whether connection `n` is in the table and packets reach the end of their way as they are:
    /// there is only to tell what was noted ([`Conntrack::tell_noted`]).
    pub fn is_plain(&self, n: u32) -> bool {
        self.store[n].has(status::CONFIRMED) && !self.is_helped(n)
    }

    fn help_and_adjust(
        &mut self,
        packet: &mut Packet,
        n: u32,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Helped {
        let Some(at) = dissect::layers(packet.network()) else { return Helped::Accept };
        let helping = self.extra(n).and_then(|x| x.helper.as_ref());
        if let Some(queue) = helping.and_then(|helping| helping.queue()) {
            return Helped::Queue(queue);
        }
        let adjust = self.store[n].has(status::SEQ_ADJUST);
        let helped = self.run_helper(packet, n, &at, surroundings, replace);
        if helped.is_err() || adjust && !self.adjust_sequence(packet, n, &at) {
            self.statistics.drop += 1;
            return Helped::Drop;
        }
        Helped::Accept
    }

    /// Shifts the sequence numbers of a packet that a program has read
    /// (`nf_confirm_cthelper()`).
    pub fn adjust(&mut self, packet: &mut Packet) -> Verdict {
        let Some(n) = self.resolve(&packet.meta.ct) else { return Verdict::Accept };
        let Some(at) = dissect::layers(packet.network()) else { return Verdict::Accept };
        if self.store[n].has(status::SEQ_ADJUST) && !self.adjust_sequence(packet, n, &at) {
            self.statistics.drop += 1;
            return Verdict::Drop;
        }
        Verdict::Accept
    }

    /// Shifts the numbers of a segment; `false` if it is cut.
    fn adjust_sequence(&self, packet: &mut Packet, n: u32, at: &Layers) -> bool {
        if at.protocol != protocol::TCP {
            return true;
        }
        let direction = direction_of(packet);
        self.sequence_adjustments(n)
            .is_none_or(|pairs| seqadj::adjust_packet(packet, pairs, direction, at.offset))
    }

    /// Lets the helper read a packet, and does what it asks for.
    fn run_helper(
        &mut self,
        packet: &mut Packet,
        n: u32,
        at: &Layers,
        surroundings: Surroundings,
        replace: Replace,
    ) -> Result<(), Refused> {
        let (info, direction) = (packet.meta.ct.info, direction_of(packet));
        let e = &self.store[n];
        if e.extra == NONE {
            return Ok(());
        }
        let Some(helping) = &mut self.extras[e.extra as usize].helper else { return Ok(()) };
        let transport = packet.network().get(at.offset..).unwrap_or(&[]);
        let (header, seq, whole) = match at.protocol {
            protocol::TCP => match tcp::Header::new(transport) {
                Some(h) => (h.header_len(), h.seq(), true),
                None => return Ok(()),
            },
            protocol::UDP => {
                let length = udp::Header::new(transport).map(|h| usize::from(h.length()));
                (udp::LEN, 0, length == Some(transport.len()))
            }
            _ => return Ok(()),
        };
        let helper = helping.known();
        let actions = helping.read(&Message {
            master: Ref { entry: n, serial: e.serial },
            direction,
            established: matches!(info, CtInfo::Established | CtInfo::EstablishedReply),
            seq,
            data: transport.get(header..).unwrap_or(&[]),
            whole,
            tuples: [e.original, e.reply],
            translated: e.has(status::NAT_MASK),
            expected: e.has(status::EXPECTED),
            surroundings,
            options: self.helper_options,
            helper: &helper,
        });
        let goes_on = helping.goes_on();
        let (mut edits, mut port, mut result) = (Vec::new(), None, Ok(()));
        for action in actions {
            if let Action::Redirect(to) = action {
                port = Some(to);
                continue;
            }
            let done = self.act(n, action, &mut edits);
            if done.is_err() && !goes_on {
                return done;
            }
            result = result.and(done);
        }
        result?;
        edits.sort_by_key(|e| e.at);
        if let Some(port) = port {
            let header = packet.network_mut().get_mut(at.offset..).unwrap_or_default();
            if let Some(mut header) = udp::HeaderMut::new(header) {
                header.set_dport(port);
            }
            // The checksum follows.
            edits.push(Edit { at: 0, len: 0, text: Vec::new() });
        }
        // From the back, so that offsets stay right.
        for edit in edits.iter().rev() {
            if !replace(packet, at.offset, at.protocol, edit.at, edit.len, &edit.text) {
                let text = self.extra(n).and_then(|x| x.helper.as_ref()?.cannot_edit());
                return Err(self.refused(n, text.map(Wrong::Text)));
            }
        }
        // All of a segment together: a second shift at the same number would be lost.
        let growth: i64 = edits.iter().map(Edit::growth).sum();
        if at.protocol == protocol::TCP && growth != 0 {
            self.shift_sequence(n, direction, seq, growth as i32);
        }
        Ok(())
    }

    /// Does one thing that the helper of connection `n` asks for; new text is added to `edits`.
    fn act(&mut self, n: u32, action: Action, edits: &mut Vec<Edit>) -> Result<(), Refused> {
        match action {
            Action::Live(timeout) => self.set_timeout(n, timeout),
            Action::Expect(announcement) => self.announce(n, announcement, edits)?,
            Action::Unexpect(which) => self.unexpect_of(n, which),
            Action::Renew { class, wanted, wrong } => {
                if !wanted.iter().any(|one| self.renew_expectation(n, class, one)) {
                    if wrong.is_some() {
                        return Err(self.refused(n, wrong));
                    }
                    self.unexpect_of(n, |e| e.class == class);
                }
            }
            Action::ExpectCall(both) => self.expect_call(n, *both),
            Action::EndCall(both) => self.end_call(n, *both, Self::kill),
            Action::Edit(edit) => edits.push(edit),
            Action::EditLength { at, len, old, since } => {
                let growth: i64 = edits.iter().filter(|e| e.at >= since).map(Edit::growth).sum();
                edits.push(Edit { at, len, text: (old + growth).to_string().into() });
            }
            Action::Remember(memory) => {
                if let Some(helping) = &mut self.extra_mut(n).helper {
                    helping.remember(memory);
                }
            }
            // They are for the packet, which is not here.
            Action::Redirect(_) => {}
            Action::Drop(why) => return Err(self.refused(n, why)),
        }
        Ok(())
    }

    /// Expects a connection that connection `n` announces, and names its port in the text.
    fn announce(
        &mut self,
        n: u32,
        announcement: Announcement,
        edits: &mut Vec<Edit>,
    ) -> Result<(), Refused> {
        let Announcement { expectation, max, ports, otherwise, edit } = announcement;
        let port = match ports {
            Ports::AsItIs => {
                let port = expectation.tuple.dst_id;
                self.expect(expectation, max).ok().map(|()| port)
            }
            Ports::FirstFree => self.expect_first_free(&expectation, max),
            Ports::Pair { asked, search } => {
                let tries = if search { TRIES } else { 1 };
                self.expect_pair(n, &expectation, max, asked, tries)
            }
        };
        match (port, otherwise) {
            (Some(port), _) => {
                edits.extend(edit.and_then(|edit| edit.with(port)));
                Ok(())
            }
            (None, Otherwise::Pass) => Ok(()),
            (None, Otherwise::Drop(why)) => {
                Err(self.refused(n, why.iter().copied().map(Wrong::Text)))
            }
        }
    }

    /// Notes why the helper of connection `n` drops a packet.
    #[cold]
    fn refused(&self, n: u32, why: impl IntoIterator<Item = Wrong>) -> Refused {
        if let Some(helping) = self.extra(n).and_then(|x| x.helper.as_ref()) {
            let name = helping.built_in_name();
            why.into_iter().for_each(|why| self.complaints.note_helper(name, why));
        }
        Refused
    }

    /// Expects a connection at the first port, from the expectation's on, that is free; returns the
    /// port.
    fn expect_first_free(&mut self, expectation: &Expectation, max: u32) -> Option<u16> {
        let first = expectation.tuple.dst_id;
        // Some hundred tries, as the kernel's limit for UDP and TCP ports in helpers.
        for (tries, port) in (first..=u16::MAX).chain(1024..first.max(1024)).enumerate() {
            match self.expect(at_port(expectation, port), max) {
                Ok(()) => return Some(port),
                Err(ExpectError::Busy) if tries < TRIES => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Expects data and control of a stream at two ports, see [`Ports::Pair`]; returns the port
    /// that the text is to name.
    fn expect_pair(
        &mut self,
        n: u32,
        data: &Expectation,
        max: u32,
        asked: u16,
        tries: usize,
    ) -> Option<u16> {
        if data.follow.is_none() && self.is_expected_elsewhere(n, data, asked) {
            return Some(asked);
        }
        let base = data.tuple.dst_id;
        let mut control = data.clone();
        if let Some(follow) = &mut control.follow {
            follow.port |= 1;
        }
        let mut candidate = base;
        for _ in 0..tries {
            let both = [at_port(data, candidate), at_port(&control, candidate | 1)];
            match self.expect_stream(both, max) {
                Ok(()) => return Some(if candidate == base { asked } else { candidate }),
                Err(ExpectError::Busy) => {}
                Err(_) => return None,
            }
            candidate = candidate.checked_add(2).unwrap_or(1024);
        }
        None
    }

    /// Expects both parts of a stream. If the same is expected as something else, or by another
    /// connection, already (`EALREADY`), an untranslated one is content with that, and a translated
    /// one fails (`nf_nat_sdp_media()`).
    fn expect_stream(&mut self, both: [Expectation; 2], max: u32) -> Result<(), ExpectError> {
        let translated = both[0].follow.is_some();
        match both.each_ref().map(|one| self.is_expected_otherwise(one)) {
            [false, false] => self.expect_both(both, max),
            _ if translated => Err(ExpectError::Already),
            [true, true] => Ok(()),
            [first, _] => {
                let [data, control] = both;
                self.expect(if first { control } else { data }, max)
            }
        }
    }

    /// Whether a connection with the same helper expects the stream already, to the port that is
    /// asked for: several may receive the same call (`set_expected_rtp_rtcp()`).
    fn is_expected_elsewhere(&self, n: u32, data: &Expectation, asked: u16) -> bool {
        let e = &self.store[n];
        let zone = zone_of(&e.original, &e.reply);
        let Some(other) = self.find_expectation(&Tuple { dst_id: asked, zone, ..data.tuple })
        else {
            return false;
        };
        let helper = |n| self.extra(n).and_then(|x| Some(x.helper.as_ref()?.helper()));
        other.class == data.class
            && other.master != data.master
            && self.resolve_ref(other.master).is_some_and(|master| {
                matches!((helper(master), helper(n)), (Some(a), Some(b)) if std::ptr::eq(a, b))
            })
    }

    /// Expects the connections of a call, and lets their packets find the source identifiers that
    /// they do not carry (`exp_gre()`). A connection has one call at a time.
    fn expect_call(&mut self, n: u32, [original, reply]: [Expectation; 2]) {
        let max = 2;
        let tuples = [original.tuple, reply.tuple];
        if self.expect(original, max).is_err() {
            return;
        }
        let mut done = self.expect(reply, max).is_ok();
        if done && !self.enter_keys(n, Direction::Original, tuples[0]) {
            done = false;
        } else if done && !self.enter_keys(n, Direction::Reply, tuples[1]) {
            self.forget_keys(n);
            done = false;
        }
        if !done {
            self.unexpect_of(n, |e| {
                tuples.iter().any(|t| Tuple { zone: e.tuple.zone, ..*t } == e.tuple)
            });
        }
    }
}

/// The direction of a packet in its connection.
fn direction_of(packet: &Packet) -> Direction {
    if packet.meta.ct.info.is_reply() { Direction::Reply } else { Direction::Original }
}

/// An expectation at another port.
fn at_port(expectation: &Expectation, port: u16) -> Expectation {
    let tuple = Tuple { dst_id: port, ..expectation.tuple };
    Expectation { tuple, ..expectation.clone() }
}

#[cfg(test)]
mod tests;
