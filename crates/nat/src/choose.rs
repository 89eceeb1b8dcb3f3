// SPDX-License-Identifier: Apache-2.0

//! Which tuple a connection gets (`get_unique_tuple()` of `net/netfilter/nf_nat_core.c`).
//!
//! A connection that is translated within a [`Range`] keeps its tuple if possible; otherwise it
//! gets the mapping of other connections of the same source; otherwise an address of the range by a
//! hash of its addresses, and a port that is free there. What is visible outside is as the kernel
//! does it, so a client keeps its address over a change from one to the other; ports that the
//! kernel draws at random are drawn from a generator that the caller owns.

use penstock_conntrack::{Tuple, tuple};
use penstock_random::Random;
use penstock_wire::jhash::{jhash, reciprocal_scale};
use penstock_wire::protocol;

use crate::range::{
    MAP_IPS, Manip, PERSISTENT, PROTO_OFFSET, PROTO_RANDOM_ALL, PROTO_SPECIFIED, Range,
};

/// Values that are tried in sequence before the search restarts elsewhere (`NF_NAT_MAX_ATTEMPTS`).
const ATTEMPTS: u32 = 128;
/// Where fewer attempts than this are left in a round, closing connections make room
/// (`NF_NAT_HARDER_THRESH`).
const HARDER: u32 = ATTEMPTS / 4;
/// Shortest round (observed: rounds of 128, 64, 32, 16 and 8).
const SHORTEST: u32 = 16;

/// What is asked about the connections there are, on behalf of one that has no place in the table
/// yet.
pub trait Flows {
    /// Whether a connection other than the one asked for has this tuple in either direction, in the
    /// zone of the one asked for. A connection with the same original tuple as the one asked for
    /// does not count (`nf_conntrack_tuple_taken()`).
    fn is_taken(&mut self, reply: &Tuple) -> bool;

    /// [`Flows::is_taken`] for a connection that is about to stay as it is: one that runs the other
    /// way, untranslated, does not count where the protocol lets such clashes be resolved
    /// (`nf_nat_used_tuple_new()`).
    fn is_taken_as_it_is(&mut self, reply: &Tuple) -> bool {
        self.is_taken(reply)
    }

    /// Like [`Flows::is_taken`], but a TCP connection that is closed or closing, and has lower
    /// sequence numbers than the new one, is removed to make room (`nf_nat_used_tuple_harder()`).
    fn make_room(&mut self, reply: &Tuple) -> bool {
        self.is_taken(reply)
    }

    /// Reply tuples of connections with the same original source and protocol, the newest first,
    /// until `accept` returns `true`. `original` is the tuple of the one asked for, as far as it is
    /// translated.
    fn same_source(&mut self, original: &Tuple, accept: &mut dyn FnMut(&Tuple) -> bool);

    /// Whether the connection was expected by another: only then may GRE keys change.
    fn has_master(&self) -> bool;
}

/// The tuple of replies; a message type without replies is its own inverse.
fn inverse(t: &Tuple) -> Tuple {
    t.invert().unwrap_or(*t)
}

/// A tuple for a connection that is at present `original` (in its original direction, with what was
/// translated before), so that answers find it. If there is none that is free, one that is not: the
/// connection will not be confirmed then.
pub fn unique_tuple(
    original: &Tuple,
    range: &Range,
    manip: Manip,
    flows: &mut impl Flows,
    random: &mut Random,
) -> Tuple {
    let keep = range.flags & PROTO_RANDOM_ALL == 0;
    if manip == Manip::Source && keep {
        if range.has_source(original) {
            if !flows.is_taken_as_it_is(&inverse(original)) {
                return *original;
            }
        } else if let Some(found) = as_the_same_source(original, range, flows)
            && !flows.is_taken(&inverse(&found))
        {
            return found;
        }
    }
    let mut t = *original;
    address(&mut t, range, manip);
    if keep {
        if range.flags & PROTO_SPECIFIED == 0 {
            if !flows.is_taken(&inverse(&t)) {
                return t;
            }
        } else if range.flags & PROTO_OFFSET == 0
            && range.has_id(&t, manip)
            && (range.min_id == range.max_id || !flows.is_taken(&inverse(&t)))
        {
            return t;
        }
    }
    identifier(&mut t, range, manip, flows, random);
    t
}

/// What another connection of the same source was translated to, if it is within the range
/// (`find_appropriate_src()`).
fn as_the_same_source(original: &Tuple, range: &Range, flows: &mut impl Flows) -> Option<Tuple> {
    let mut found = None;
    flows.same_source(original, &mut |reply| {
        let seen = inverse(reply);
        let candidate = Tuple { src: seen.src, src_id: seen.src_id, ..*original };
        if range.has_source(&candidate) {
            found = Some(candidate);
        }
        found.is_some()
    });
    found
}

fn words(address: &[u8; 16]) -> [[u8; 4]; 4] {
    let (words, _) = address.as_chunks::<4>();
    [words[0], words[1], words[2], words[3]]
}

/// Puts an address of the range into the tuple: chosen by a hash of the source, and unless the
/// mapping is persistent of the destination (`find_best_ips_proto()`). The zone is part of it, too.
fn address(t: &mut Tuple, range: &Range, manip: Manip) {
    if range.flags & MAP_IPS == 0 {
        return;
    }
    if range.min_address == range.max_address {
        match manip {
            Manip::Source => t.src = range.min_address,
            Manip::Destination => t.dst = range.min_address,
        }
        return;
    }
    let last = if t.l3 == tuple::IPV4 { 0 } else { 3 };
    let persistent = range.flags & PERSISTENT != 0;
    let seed =
        if persistent { 0 } else { u32::from_ne_bytes(words(&t.dst)[last]) ^ u32::from(t.zone) };
    let mut hash = jhash(&t.src, seed);
    let (min, max) = (words(&range.min_address), words(&range.max_address));
    let mut free = false;
    for i in 0..=last {
        let (first, count) = if free {
            (0, u32::MAX)
        } else {
            let (first, last) = (u32::from_be_bytes(min[i]), u32::from_be_bytes(max[i]));
            (first, last.wrapping_sub(first).wrapping_add(1))
        };
        let word = first.wrapping_add(reciprocal_scale(hash, count)).to_be_bytes();
        let place = match manip {
            Manip::Source => &mut t.src,
            Manip::Destination => &mut t.dst,
        };
        place[4 * i..4 * i + 4].copy_from_slice(&word);
        // As soon as the address is below the range's end, the words that follow are free.
        free |= word != max[i];
        if !persistent {
            hash ^= u32::from_ne_bytes(words(&t.dst)[i]);
        }
    }
}

/// What a port may become that no rule says more of, first value and how many: it keeps the meaning
/// that its size has by convention.
const fn usual_choices(port: u16) -> (u16, u32) {
    match port {
        0..512 => (1, 511),
        512..1024 => (600, 424),
        _ => (1024, 64512),
    }
}

/// One of the choices, by a number that may be larger than how many there are.
const fn choice((first, count): (u16, u32), offset: u16) -> u16 {
    first.wrapping_add((offset as u32 % count) as u16)
}

/// The port that a source port becomes, if it is taken and no rule says more of it, by the number
/// that is drawn then.
pub const fn drawn_port(port: u16, number: u16) -> u16 {
    choice(usual_choices(port), number)
}

/// Which part of the tuple is a port, and what it may be: first value and how many. `None` if it is
/// to stay.
fn choices(t: &Tuple, range: &Range, manip: Manip, has_master: bool) -> Option<(u16, u32)> {
    let given = range.flags & PROTO_SPECIFIED != 0;
    // Ends may come in either order for ports only.
    let count = |min: u16, max: u16| u32::from(max.wrapping_sub(min)) + 1;
    match t.protocol {
        protocol::ICMP | protocol::ICMPV6 if !given => Some((0, 1 << 16)),
        protocol::ICMP | protocol::ICMPV6 => {
            Some((range.min_id, count(range.min_id, range.max_id)))
        }
        protocol::GRE if !has_master => None,
        protocol::GRE if !given => Some((1, u32::from(u16::MAX))),
        protocol::GRE => Some((range.min_id, count(range.min_id, range.max_id))),
        protocol::UDP | protocol::UDPLITE | protocol::TCP | protocol::SCTP | protocol::DCCP => {
            if given {
                let (min, max) = (range.min_id.min(range.max_id), range.min_id.max(range.max_id));
                return Some((min, count(min, max)));
            }
            if manip == Manip::Destination {
                return None;
            }
            Some(usual_choices(t.src_id))
        }
        _ => None,
    }
}

/// Searches a free port (`nf_nat_l4proto_unique_tuple()`).
fn identifier(
    t: &mut Tuple,
    range: &Range,
    manip: Manip,
    flows: &mut impl Flows,
    random: &mut Random,
) {
    let Some(choices) = choices(t, range, manip, flows.has_master()) else { return };
    let (_, count) = choices;
    let icmp = matches!(t.protocol, protocol::ICMP | protocol::ICMPV6);
    let by_source = icmp || manip == Manip::Source;
    let present = if by_source { t.src_id } else { t.dst_id };
    let mut offset = if range.flags & PROTO_OFFSET != 0 {
        present.wrapping_sub(range.base_id)
    } else if range.flags & PROTO_RANDOM_ALL != 0 || manip == Manip::Source {
        random.u16()
    } else {
        0
    };
    let mut attempts = count.min(ATTEMPTS);
    loop {
        for i in 0..attempts {
            *(if by_source { &mut t.src_id } else { &mut t.dst_id }) = choice(choices, offset);
            let reply = inverse(t);
            let harder = attempts - i <= HARDER && t.protocol == protocol::TCP;
            let taken = if harder { flows.make_room(&reply) } else { flows.is_taken(&reply) };
            if !taken {
                return;
            }
            offset = offset.wrapping_add(1);
        }
        if attempts >= count || attempts < SHORTEST {
            return;
        }
        attempts /= 2;
        offset = random.u16();
    }
}

#[cfg(test)]
mod tests;
