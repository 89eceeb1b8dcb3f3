//! Counters, quotas, limits, `last` (`net/netfilter/nft_counter.c`, `nft_quota.c`, `nft_limit.c`, `nft_last.c`).

use penstock_packet::Packet;

use super::Step;
use crate::State;
use crate::image::Stateful;

#[inline(always)]
pub(super) fn counter(state: &State, packet: &Packet) -> Step {
    if let State::Counter(counter) = state {
        counter.count(packet.len() as u64);
    }
    Step::Next
}

#[inline(never)]
pub(super) fn run(stateful: &Stateful, packet: &Packet) -> Step {
    match stateful {
        Stateful::Counter(state) => counter(state, packet),
        Stateful::Quota { bytes, over, state } => match &**state {
            State::Quota(quota) => Step::unless(quota.consume(packet.len() as u64, *bytes) != *over),
            _ => Step::Next,
        },
        Stateful::Limit { bucket, state } => match &**state {
            State::Limit(limit) => Step::unless(!limit.take(bucket, packet.len() as u64, packet.meta.time)),
            _ => Step::Next,
        },
        Stateful::Last(state) => {
            if let State::Last(last) = &**state {
                last.touch(packet.meta.time);
            }
            Step::Next
        }
    }
}
