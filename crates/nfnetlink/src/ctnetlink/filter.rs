// SPDX-License-Identifier: Apache-2.0

//! Which connections a dump or a flush is about (`ctnetlink_alloc_filter()`,
//! `ctnetlink_filter_match()`).

use penstock_conntrack::{Direction, Flow, Tuple};

use super::tuple::{self, Reading, Zone};
use crate::message::{Attributes, Check, Failure, Policy};
use crate::uapi::ctnetlink::*;

const POLICY: Policy = &[(CTA_FILTER_ORIG_FLAGS, Check::U32), (CTA_FILTER_REPLY_FLAGS, Check::U32)];

/// Which connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    family: u8,
    /// Value and mask.
    mark: (u32, u32),
    status: (u32, u32),
    zone: Option<u16>,
    /// By direction, with bits of [`filter`].
    tuples: [(u32, Tuple); 2],
}

/// Value and mask of a pair of attributes: a mask that is not given is `whole`.
fn masked(
    given: &Attributes<'_>,
    kinds: [u16; 2],
    whole: impl Fn(u32) -> u32,
) -> Result<(u32, u32), Failure> {
    match (given.be32(kinds[0]), given.be32(kinds[1])) {
        (Some(value), mask) => Ok((value, mask.unwrap_or(whole(value)))),
        (None, Some(_)) => Err(Failure::einval()),
        (None, None) => Ok((0, 0)),
    }
}

impl Filter {
    /// The filter of a message; `None` if it is about all connections.
    ///
    /// # Errors
    /// `EINVAL` for a mask without a value, a status of nothing, a tuple that is missing, or bits
    /// that are not known.
    pub fn read(family: u8, given: &Attributes<'_>) -> Result<Option<Self>, Failure> {
        let kinds = [CTA_MARK, CTA_FILTER, CTA_STATUS, CTA_ZONE];
        if family == 0 && !kinds.into_iter().any(|kind| given.has(kind)) {
            return Ok(None);
        }
        let mark = masked(given, [CTA_MARK, CTA_MARK_MASK], |_| u32::MAX)?;
        let status = masked(given, [CTA_STATUS, CTA_STATUS_MASK], |value| value)?;
        if given.has(CTA_STATUS) && status.1 == 0 {
            return Err(Failure::einval());
        }
        let mut zone = Zone::read(given.get(CTA_ZONE));
        let mut out = Filter {
            family,
            mark,
            status,
            zone: given.get(CTA_ZONE).map(|zone| zone.be16()),
            ..Filter::default()
        };
        let Some(nest) = given.get(CTA_FILTER) else { return Ok(Some(out)) };
        let flags = nest.attributes(POLICY)?;
        let places = [
            (CTA_FILTER_ORIG_FLAGS, CTA_TUPLE_ORIG, Direction::Original),
            (CTA_FILTER_REPLY_FLAGS, CTA_TUPLE_REPLY, Direction::Reply),
        ];
        for (place, (of_flags, of_tuple, direction)) in out.tuples.iter_mut().zip(places) {
            // In host order.
            let flags = flags.get(of_flags).and_then(|f| f.payload.first_chunk().copied());
            let flags = flags.map_or(0, u32::from_ne_bytes);
            if flags & !filter::ALL != 0 {
                return Err(Failure::einval());
            }
            if flags != 0 {
                let reading = Reading { family, direction, flags };
                *place = (flags, tuple::read(given.need(of_tuple)?, reading, Some(&mut zone))?);
            }
        }
        Ok(Some(out))
    }

    /// Whether a connection is among them.
    pub fn has(&self, flow: &Flow) -> bool {
        let fits = |value: u32, (wanted, mask): (u32, u32)| value & mask == wanted;
        (self.family == 0 || flow.original.l3 == self.family)
            && self.zone.is_none_or(|zone| zone == zone_of(flow))
            && fits(flow.mark, self.mark)
            && fits(flow.status, self.status)
            && is_like(&self.tuples[0], &flow.original)
            && is_like(&self.tuples[1], &flow.reply)
    }
}

/// The number of a connection's zone, whichever directions it is for.
fn zone_of(flow: &Flow) -> u16 {
    if flow.original.zone != 0 { flow.original.zone } else { flow.reply.zone }
}

/// Whether a tuple is like another one in what the flags say (`ctnetlink_filter_match_tuple()`).
fn is_like((flags, wanted): &(u32, Tuple), tuple: &Tuple) -> bool {
    let wants = |flag: u32| flags & flag != 0;
    let [kind, code] = tuple.dst_id.to_be_bytes();
    let [wanted_kind, wanted_code] = wanted.dst_id.to_be_bytes();
    let icmp = |of_id, of_kind, of_code| {
        !(wants(of_kind) && kind != wanted_kind
            || wants(of_code) && code != wanted_code
            || wants(of_id) && tuple.src_id != wanted.src_id)
    };
    let ids = match tuple.protocol {
        6 | 17 => {
            !(wants(filter::PROTO_SRC_PORT) && tuple.src_id != wanted.src_id
                || wants(filter::PROTO_DST_PORT) && tuple.dst_id != wanted.dst_id)
        }
        1 => icmp(filter::PROTO_ICMP_ID, filter::PROTO_ICMP_TYPE, filter::PROTO_ICMP_CODE),
        58 => icmp(filter::PROTO_ICMPV6_ID, filter::PROTO_ICMPV6_TYPE, filter::PROTO_ICMPV6_CODE),
        _ => true,
    };
    ids && !(wants(filter::IP_SRC) && tuple.src != wanted.src)
        && !(wants(filter::IP_DST) && tuple.dst != wanted.dst)
        && !(wants(filter::PROTO_NUM) && tuple.protocol != wanted.protocol)
}
