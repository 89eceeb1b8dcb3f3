// SPDX-License-Identifier: Apache-2.0

//! Decides the translation of a connection's addresses, once per direction, and applies it to its
//! packets (`nf_nat_setup_info()`, `nf_nat_packet()`).

use penstock_conntrack::{Conntrack, Direction, Tuple, status};
use penstock_packet::{Ct, Packet};
use penstock_random::Random;
use penstock_wire::protocol;

use crate::choose::{Flows, unique_tuple};
use crate::header::{self, Target};
use crate::range::{MAP_IPS, Manip, PROTO_SPECIFIED, Range};

/// A connection in its table, for the choice of a tuple.
struct Candidate<'a> {
    table: &'a mut Conntrack,
    n: u32,
    original: Tuple,
    reply_zone: u16,
}

impl Candidate<'_> {
    /// A reply tuple in each zone where it may be in use: with a zone for one direction only, the
    /// tuples of a connection are in different zones.
    fn zones(&self, reply: &Tuple) -> [Tuple; 2] {
        [Tuple { zone: self.reply_zone, ..*reply }, Tuple { zone: self.original.zone, ..*reply }]
    }
}

impl Flows for Candidate<'_> {
    fn is_taken(&mut self, reply: &Tuple) -> bool {
        let [first, second] = self.zones(reply);
        self.table.is_taken(&first, self.n)
            || first.zone != second.zone && self.table.is_taken(&second, self.n)
    }

    fn is_taken_as_it_is(&mut self, reply: &Tuple) -> bool {
        if !self.is_taken(reply) {
            return false;
        }
        if !allows_clash(reply.protocol) {
            return true;
        }
        let Some((other, _)) = self.zones(reply).iter().find_map(|t| self.table.find(t)) else {
            return true;
        };
        let Some(other) = self.table.connection_ref(other) else { return true };
        let translated = other.status() & (status::NAT_MASK | status::SEQ_ADJUST) != 0;
        let [there, back] = [Direction::Original, Direction::Reply].map(|d| other.tuple(d));
        // As long as nothing was translated the two are the same connection from either side.
        translated || there != reply || *back != self.original
    }

    fn make_room(&mut self, reply: &Tuple) -> bool {
        let found = self.zones(reply).iter().find_map(|t| self.table.find(t));
        let Some((other, Direction::Reply)) = found.filter(|(other, _)| other.entry != self.n)
        else {
            return self.is_taken(reply);
        };
        if !self.table.makes_way(other.entry, self.n) {
            return true;
        }
        self.table.kill(other.entry);
        self.is_taken(reply)
    }

    fn same_source(&mut self, original: &Tuple, accept: &mut dyn FnMut(&Tuple) -> bool) {
        for n in self.table.by_source(original) {
            if let Some(other) = self.table.connection_at(n)
                && accept(other.tuple(Direction::Reply))
            {
                return;
            }
        }
    }

    fn has_master(&self) -> bool {
        self.table.connection_at(self.n).is_some_and(|c| c.master().is_some())
    }
}

/// Protocols for which two connections may clash and be one after all (`allow_clash`).
const fn allows_clash(protocol: u8) -> bool {
    matches!(protocol, protocol::UDP | protocol::UDPLITE | protocol::GRE)
}

/// Whether the translation of the source or destination is decided already
/// (`nf_nat_initialized()`).
#[inline]
pub fn is_bound(status: u32, manip: Manip) -> bool {
    status & manip.done() != 0
}

/// Binds a connection that is not confirmed yet to the translation of a rule
/// (`nf_nat_setup_info()`). Confirmed ones stay as they are. `false` if it is bound already, or has
/// no tuple that could be translated: the packet must be dropped.
pub fn bind(
    table: &mut Conntrack,
    n: u32,
    range: &Range,
    manip: Manip,
    random: &mut Random,
) -> bool {
    let Some(connection) = table.connection_at(n) else { return false };
    if connection.status() & status::CONFIRMED != 0 {
        return true;
    }
    if is_bound(connection.status(), manip) {
        return false;
    }
    let original = *connection.tuple(Direction::Original);
    let reply = *connection.tuple(Direction::Reply);
    // What it looks like from the other side, after what was translated before.
    let Some(current) = reply.invert() else { return false };
    let current = Tuple { zone: original.zone, ..current };
    let mut candidate = Candidate { table, n, original, reply_zone: reply.zone };
    let new = unique_tuple(&current, range, manip, &mut candidate, random);
    if new != current {
        let Some(reply) = new.invert() else { return false };
        table.alter_reply(n, &reply);
        table.set_status(n, manip.changed());
    }
    if manip == Manip::Source {
        table.link_source(n);
    }
    table.set_status(n, manip.done());
    true
}

/// Binds a connection that no rule translates: it keeps its address, and its port unless another
/// connection has that (`nf_nat_alloc_null_binding()`).
pub fn bind_to_itself(table: &mut Conntrack, n: u32, manip: Manip, random: &mut Random) -> bool {
    let Some(connection) = table.connection_at(n) else { return false };
    let reply = connection.tuple(Direction::Reply);
    let address = match manip {
        Manip::Source => reply.dst,
        Manip::Destination => reply.src,
    };
    bind(table, n, &Range::address(address), manip, random)
}

/// Binds a connection that a translated one announced: its source becomes what the other side of
/// that one sees, its destination what was announced before it was translated
/// (`nf_nat_follow_master()`; `nf_nat_sip_expected()`, which begins with the destination). Data of a
/// PPTP call from the client gets the call id that the server knows as its source's
/// (`pptp_nat_expected()`). Does nothing for others. `false` if the packet must be dropped.
pub fn bind_as_announced(table: &mut Conntrack, n: u32, random: &mut Random) -> bool {
    let Some(connection) = table.connection_at(n) else { return false };
    let bound = status::CONFIRMED | status::NAT_DONE_MASK;
    let Some(follow) = connection.follow().filter(|_| connection.status() & bound == 0) else {
        return true;
    };
    let Some(master) = connection.master() else { return true };
    let across = master.tuple(follow.direction.opposite());
    let gre = connection.tuple(Direction::Original).protocol == protocol::GRE;
    let with_port = |range: Range| Range {
        flags: MAP_IPS | PROTO_SPECIFIED,
        min_id: follow.port,
        max_id: follow.port,
        ..range
    };
    let source = Range::address(across.dst);
    let destination = Range::address(follow.address.unwrap_or(across.src));
    let (source, destination) = if gre && follow.direction == Direction::Original {
        (with_port(source), destination)
    } else {
        (source, with_port(destination))
    };
    // A port that is taken is drawn anew for the source when the destination is known.
    let of_sip = master.helper() == Some("sip");
    let mut both = [(&source, Manip::Source), (&destination, Manip::Destination)];
    if of_sip {
        both.reverse();
    }
    both.into_iter().all(|(range, manip)| bind(table, n, range, manip, random))
}

/// Ends the connections that are masqueraded through a device: all when it went down, else those
/// that have an address that was taken from it (`masq_device_event()`, `masq_inet_event()`).
/// Returns how many.
pub fn forget_masqueraded(table: &mut Conntrack, device: u32, address: Option<[u8; 16]>) -> usize {
    table.kill_if(|connection| {
        connection.masquerade() == device
            && address.is_none_or(|a| connection.tuple(Direction::Reply).dst == a)
    })
}

/// Translates a packet of a bound connection (`nf_nat_packet()`). `false` if it must be dropped
/// since its headers are truncated.
#[inline]
pub fn follow(table: &Conntrack, ct: &Ct, packet: &mut Packet, manip: Manip) -> bool {
    let Some(connection) = table.connection(ct) else { return true };
    let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
    if connection.status() & manip.due(direction) == 0 {
        return true;
    }
    let target = Target::answered_by(connection.tuple(direction.opposite()), manip);
    header::translate(packet.network_mut(), 0, &target)
}

#[cfg(test)]
mod tests;
