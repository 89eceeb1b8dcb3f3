// SPDX-License-Identifier: Apache-2.0

//! What programs do to connections (`nf_conntrack_netlink.c`).

use crate::flow::{Flow, FlowChange, NotInserted, ProtocolChange, ProtocolInfo};
use crate::reference::Ref;
use crate::settings::LONGEST;
use crate::table::{Connection, Conntrack, NotEntered, sides};
use crate::tracker::sctp::{self, Sctp};
use crate::tracker::tcp::{self, Tcp, side_flag};
use crate::tracker::{ProtocolState, dccp};
use crate::{Direction, Timeouts, Tracker, Tuple, status};

/// What a tracker remembers of a connection without packets. The kernel has zeroes there.
fn without_packets(protocol: u8, timeouts: &Timeouts) -> ProtocolState {
    match Tracker::of(protocol) {
        Tracker::Tcp => ProtocolState::Tcp(Tcp::NEW),
        Tracker::Udp => ProtocolState::Udp { stream_after: 0 },
        Tracker::Sctp => ProtocolState::Sctp(Sctp::NEW),
        Tracker::Dccp => ProtocolState::Dccp(dccp::Dccp::NEW),
        Tracker::Gre => ProtocolState::Gre { timeout: timeouts[0], stream_timeout: timeouts[1] },
        Tracker::Icmp | Tracker::Icmpv6 | Tracker::Generic => ProtocolState::None,
    }
}

fn change_protocol(state: &mut ProtocolState, change: &ProtocolChange) {
    match (state, *change) {
        (ProtocolState::Tcp(t), ProtocolChange::Tcp { state, flags, scales }) => {
            if let Some(state) = state.and_then(|n| tcp::State::ALL.get(usize::from(n))) {
                t.state = *state;
            }
            for (side, flags) in t.seen.iter_mut().zip(flags) {
                if let Some((flags, mask)) = flags {
                    side.flags = side.flags & !mask | flags & mask;
                }
            }
            if let Some(scales) = scales
                && t.seen.iter().all(|side| side.flags & side_flag::WINDOW_SCALE != 0)
            {
                // A larger one could not be shifted by.
                t.seen.iter_mut().zip(scales).for_each(|(side, scale)| side.scale = scale.min(14));
            }
        }
        (ProtocolState::Sctp(s), ProtocolChange::Sctp { state, tags }) => {
            if let Some(state) = sctp::State::ALL.get(usize::from(state)) {
                s.state = *state;
            }
            s.vtag = tags;
        }
        // A change for another protocol changes nothing.
        (_, ProtocolChange::Tcp { .. } | ProtocolChange::Sctp { .. }) => {}
    }
}

impl Connection<'_> {
    /// It as a value.
    pub fn flow(&self) -> Flow {
        let protocol = match self.proto() {
            ProtocolState::Tcp(t) => ProtocolInfo::Tcp {
                state: t.state as u8,
                scales: t.seen.map(|side| side.scale),
                flags: t.seen.map(|side| side.flags),
            },
            ProtocolState::Sctp(s) => ProtocolInfo::Sctp { state: s.state as u8, tags: s.vtag },
            ProtocolState::Dccp(d) => ProtocolInfo::Dccp {
                state: d.state as u8,
                role: u8::from(d.role[0] == dccp::Role::Server),
                handshake: d.handshake,
            },
            ProtocolState::None | ProtocolState::Udp { .. } | ProtocolState::Gre { .. } => {
                ProtocolInfo::None
            }
        };
        Flow {
            id: self.id(),
            original: *self.tuple(Direction::Original),
            reply: *self.tuple(Direction::Reply),
            status: self.status(),
            left: self.life(),
            mark: self.mark(),
            labels: self.labels(),
            helper: self.helper().map(Into::into),
            helper_data: self.helper_data(),
            master: self.master().map(|master| *master.tuple(Direction::Original)),
            counters: self.both_counters(),
            times: self.times(),
            shifts: self.shifts(),
            synproxy: self.has_synproxy(),
            protocol,
            children: self.children(),
            events: self.asked_events(),
        }
    }
}

impl Conntrack {
    /// A connection as a value; `None` if there is none of this number.
    pub fn flow(&self, n: u32) -> Option<Flow> {
        self.connection_at(n).map(|connection| connection.flow())
    }

    /// Finds a connection that has not ended by its tuple, given in the zone of its original and of
    /// its reply direction. In the same zone either direction has it (`nf_conntrack_find_get()`).
    pub fn find_flow(&self, original: &Tuple, reply: &Tuple) -> Option<u32> {
        let sides = sides(original, reply);
        let mut found = [(original, sides[0]), (reply, sides[1])]
            .into_iter()
            .filter_map(|(tuple, side)| self.find_side(self.hash(tuple), tuple, side));
        found.find(|(n, _)| self.store[*n].expires > self.now).map(|(n, _)| n)
    }

    /// Enters a connection that no packet began, with `change` made to it. `prepare` may translate
    /// it before it is entered, and refuses it with `false`.
    ///
    /// # Errors
    /// See [`NotInserted`]; the table is as before.
    pub fn insert_flow(
        &mut self,
        [original, reply]: [&Tuple; 2],
        master: Option<Ref>,
        change: &FlowChange,
        prepare: impl FnOnce(&mut Conntrack, u32) -> bool,
    ) -> Result<Ref, NotInserted> {
        let hash = self.hash(original);
        let n = self.allocate(original, reply, hash).ok_or(NotInserted::Full)?;
        let proto = without_packets(
            original.protocol,
            self.settings().timeouts(Tracker::of(original.protocol)),
        );
        self.store[n].proto = proto;
        if !prepare(self, n) {
            self.destroy(n);
            return Err(NotInserted::Refused);
        }
        // It may be translated now.
        let (original, reply) = (self.store[n].original, self.store[n].reply);
        let hashes = [self.hash(&original), self.hash(&reply)];
        let sides = sides(&original, &reply);
        for (hash, tuple, side) in [(hashes[0], &original, sides[0]), (hashes[1], &reply, sides[1])]
        {
            while let Some((other, _)) = self.find_side(hash, tuple, side) {
                if self.store[other].expires > self.now {
                    self.destroy(n);
                    return Err(NotInserted::Exists);
                }
                self.destroy(other);
            }
        }
        self.store[n].expires = change.timeout.unwrap_or(0).min(LONGEST);
        if let Some(master) = master {
            self.set_master(n, master);
            self.set_status(n, status::EXPECTED);
        }
        if let Err(why) = self.enter(n, hashes) {
            self.destroy(n);
            return Err(match why {
                NotEntered::ChainTooLong => NotInserted::ChainTooLong,
                NotEntered::Anothers => NotInserted::Exists,
            });
        }
        self.mark_made(n);
        self.change_flow(n, &FlowChange { timeout: None, ..change.clone() });
        Ok(self.reference(n))
    }

    /// Changes a connection. A helper that is taken away takes its expectations with it.
    pub fn change_flow(&mut self, n: u32, change: &FlowChange) {
        if let Some(helper) = change.helper {
            self.remove_expectations_of(n);
            self.replace_helper(n, helper);
        }
        if let Some(data) = &change.helper_data
            && self.extra(n).is_some_and(|x| x.helper.is_some())
            && let Some(helping) = &mut self.extra_mut(n).helper
        {
            helping.set_data(data);
        }
        if let Some(timeout) = change.timeout {
            self.set_timeout(n, timeout);
        }
        self.set_status(n, change.status);
        if let Some(protocol) = &change.protocol {
            change_protocol(&mut self.store[n].proto, protocol);
        }
        if let Some((keep, flip)) = change.mark {
            let mark = self.store[n].mark & keep ^ flip;
            self.set_mark(n, mark);
        }
        for (direction, shift) in change.shifts.iter().enumerate() {
            if let Some(shift) = shift {
                self.put_sequence(n, direction, *shift);
            }
        }
        if let Some(words) = change.labels
            && let Some(old) = self.connection_at(n).and_then(|c| c.labels())
        {
            let mut new = old;
            new.iter_mut().zip(words).for_each(|(new, (keep, flip))| *new = *new & keep ^ flip);
            self.set_labels(n, new, [u32::MAX; 4]);
        }
    }

    /// Sets the counters of a connection to zero (`IPCTNL_MSG_CT_GET_CTRZERO`).
    pub fn zero_counters(&mut self, n: u32) {
        if let Some(counters) = self.counters_mut(n) {
            *counters = Default::default();
        }
    }
}
