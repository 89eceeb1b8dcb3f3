// SPDX-License-Identifier: Apache-2.0

//! Counters, quotas, limits, `last`, connection limits and objects (`net/netfilter/nft_counter.c`,
//! `nft_quota.c`, `nft_limit.c`, `nft_last.c`, `nft_connlimit.c`, `nft_synproxy.c`).

use std::sync::Arc;

use penstock_packet::Packet;
use penstock_wire::{ethernet, protocol};

use super::Step;
use crate::env::ConnCount;
use crate::linked::{LinkedVerdict, Stateful};
use crate::operand::Synproxy;
use crate::{Env, State};

#[inline(always)]
pub(super) fn counter<E: Env>(state: &State, packet: &Packet, env: &E) -> Step {
    count(state, packet, env);
    Step::Next
}

/// Counts a packet, if the state is that of a counter.
#[inline(always)]
pub fn count<E: Env>(state: &State, packet: &Packet, env: &E) {
    if let State::Counter(counter) = state {
        counter.count(env.worker(), packet.len() as u64);
    }
}

#[inline(never)]
pub(super) fn run<E: Env>(stateful: &Stateful, packet: &mut Packet, env: &mut E) -> Step {
    match stateful {
        Stateful::Counter(state) => counter(state, packet, env),
        Stateful::Quota { bytes, over, state } => match &**state {
            State::Quota(quota) => {
                Step::unless(quota.consume(packet.len() as u64, *bytes) != *over)
            }
            _ => Step::Next,
        },
        Stateful::NamedQuota { bytes, over, state } => {
            named_quota(*bytes, *over, state, packet, env)
        }
        Stateful::Limit { bucket, state } => match &**state {
            State::Limit(limit) => {
                Step::unless(!limit.take(bucket, packet.len() as u64, packet.meta.time))
            }
            _ => Step::Next,
        },
        Stateful::Last(state) => {
            if let State::Last(last) = &**state {
                last.touch(packet.meta.time);
            }
            Step::Next
        }
        Stateful::Connlimit { limit, over, state } => {
            connlimit(*limit, *over, ConnCount::State(state), packet, env)
        }
        Stateful::Ct(object) => env.ct_object(packet, object).into(),
        Stateful::Synproxy(offer) => synproxy(offer, packet, env),
        Stateful::SecMark(mark) => {
            packet.meta.secmark = *mark;
            Step::Next
        }
    }
}

fn named_quota<E: Env>(
    bytes: u64,
    over: bool,
    state: &Arc<State>,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let State::Quota(quota) = &**state else { return Step::Next };
    let is_over = quota.consume(packet.len() as u64, bytes);
    if is_over && quota.tell_once() {
        env.quota_depleted(state);
    }
    Step::unless(is_over != over)
}

pub(super) fn connlimit<E: Env>(
    limit: u32,
    over: bool,
    count: ConnCount<'_>,
    packet: &Packet,
    env: &mut E,
) -> Step {
    match env.connlimit(packet, count) {
        Some(connections) => Step::unless((connections > limit) != over),
        None => Step::Verdict(LinkedVerdict::Drop),
    }
}

#[inline(never)]
pub(super) fn synproxy<E: Env>(offer: &Synproxy, packet: &mut Packet, env: &mut E) -> Step {
    let tcp = packet.transport().is_some_and(|t| t.protocol == protocol::TCP);
    if !tcp || !matches!(packet.meta.protocol, ethernet::IPV4 | ethernet::IPV6) {
        return Step::Break;
    }
    env.synproxy(packet, offer).into()
}
