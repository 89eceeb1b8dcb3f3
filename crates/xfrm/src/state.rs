// SPDX-License-Identifier: Apache-2.0

//! A state at work: keys, sequence numbers, lifetime (`struct xfrm_state`).

use crate::crypto::{ESP, Key, Seq};
use crate::replay::{Refused, Replay};
use crate::{Flow, Mode, Stat, StateConfig, Template, Usage};

/// Bytes of a UDP header.
pub(crate) const UDP: usize = 8;

/// What went wrong with packets of a state, as `ip -s xfrm state` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateStats {
    /// Sequence numbers outside of the window.
    pub replay_window: u64,
    /// Sequence numbers that were there before.
    pub replay: u64,
    /// Wrong integrity values.
    pub failed: u64,
}

/// What is wrong with a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Its sequence number.
    Number(Refused),
    /// Its integrity value.
    Integrity,
    /// Something that has no counter of its own.
    Other(Stat),
}

impl From<Stat> for Wrong {
    fn from(stat: Stat) -> Self {
        Wrong::Other(stat)
    }
}

/// What a state puts around packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Before a packet: before all of it in tunnel mode, after its IP header in transport mode.
    head: usize,
    /// Of that, ESP's header and the initialization vector.
    pub(crate) front: usize,
    /// Payload and trailer are padded to a multiple of it, a power of two.
    block: usize,
    /// The integrity value.
    pub(crate) icv: usize,
}

impl Sizes {
    fn of(config: &StateConfig, key: &Key) -> Sizes {
        let ip = match (config.mode, config.destination.is_ipv6()) {
            (Mode::Transport, _) => 0,
            (Mode::Tunnel, false) => penstock_wire::ipv4::LEN,
            (Mode::Tunnel, true) => penstock_wire::ipv6::LEN,
        };
        let udp = if config.encapsulation.is_some() { UDP } else { 0 };
        let front = ESP + key.iv_len();
        Sizes { head: ip + udp + front, front, block: key.block_len(), icv: key.icv_len() }
    }
}

/// A state at work.
#[derive(Debug)]
pub struct State {
    /// As configured.
    pub config: StateConfig,
    pub(crate) key: Key,
    pub(crate) sizes: Sizes,
    replay: Replay,
    oseq: u64,
    usage: Usage,
    stats: StateStats,
    /// Reached a soft limit.
    dying: bool,
    /// Removed: lookups no longer find it.
    dead: bool,
}

impl State {
    /// `None` if keys are not as long as the algorithms take.
    pub(crate) fn new(config: StateConfig, salt: u128) -> Option<State> {
        let key = Key::new(&config.algorithms, salt)?;
        let replay = Replay::new(config.window, config.flags.esn, config.seq);
        let oseq = config.oseq;
        let (usage, stats) = (Usage::default(), StateStats::default());
        let sizes = Sizes::of(&config, &key);
        Some(State { config, key, sizes, replay, oseq, usage, stats, dying: false, dead: false })
    }

    /// What it has done.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What went wrong.
    pub fn stats(&self) -> StateStats {
        self.stats
    }

    /// Whether a soft limit is reached.
    pub fn is_dying(&self) -> bool {
        self.dying
    }

    /// Whether it is used up.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Latest sequence number that has left, and highest that has arrived.
    pub fn sequence(&self) -> (u64, u64) {
        (self.oseq, self.replay.top())
    }

    /// Whether its addresses are IPv6.
    pub fn v6(&self) -> bool {
        self.config.destination.is_ipv6()
    }

    pub(crate) fn set_added(&mut self, now: u64) {
        if self.usage.added == 0 {
            self.usage.added = now;
        }
    }

    /// Whether it is still there; time may just have run out.
    #[inline]
    pub(crate) fn is_there(&mut self, now: u64) -> bool {
        if !self.dead && self.config.limits.time_over(&self.usage, now) {
            self.dead = true;
        }
        !self.dead
    }

    /// Bytes that it puts before a packet: before all of it in tunnel mode, after its IP header in
    /// transport mode.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        self.sizes.head
    }

    /// Bytes that it puts after so many.
    #[inline]
    pub(crate) fn trailer_len(&self, payload: usize) -> usize {
        let Sizes { block, icv, .. } = self.sizes;
        ((payload + 2 + block - 1) & !(block - 1)) - payload + icv
    }

    /// How long packets may be that fit into this many bytes afterwards (`xfrm_state_mtu()`).
    pub(crate) fn mtu(&self, outer: usize) -> usize {
        let kept = match (self.config.mode, self.v6()) {
            (Mode::Tunnel, _) => 0,
            (Mode::Transport, false) => penstock_wire::ipv4::LEN,
            (Mode::Transport, true) => penstock_wire::ipv6::LEN,
        };
        let Sizes { head, block, icv, .. } = self.sizes;
        let room = outer.saturating_sub(head + icv + kept);
        let room = (room & !(block - 1)) + kept;
        let room = room.saturating_sub(2);
        if self.v6() { room.max(penstock_wire::ipv6::MIN_MTU) } else { room }
    }

    /// Advances the lifetime by a packet (`xfrm_state_check_expire()`); `false` if it is over.
    #[inline]
    fn live(&mut self, now: u64) -> bool {
        if self.usage.used == 0 {
            self.usage.used = now;
        }
        if self.dead || self.config.limits.used_up(&self.usage) {
            self.dead = true;
            return false;
        }
        if !self.dying && self.config.limits.nearly_over(&self.usage, now) {
            self.dying = true;
        }
        true
    }

    /// A packet of so many bytes leaves: its sequence number.
    #[inline]
    pub(crate) fn depart(&mut self, bytes: usize, now: u64) -> Result<Seq, Stat> {
        if !self.live(now) {
            return Err(Stat::OutStateExpired);
        }
        let esn = self.config.flags.esn;
        let last = if esn { u64::MAX } else { u64::from(u32::MAX) };
        if self.oseq == last {
            if esn || !self.config.flags.oseq_may_wrap {
                return Err(Stat::OutStateSeq);
            }
            self.oseq = 0;
        } else {
            self.oseq += 1;
        }
        self.usage.bytes += bytes as u64;
        self.usage.packets += 1;
        Ok(Seq { number: self.oseq, esn })
    }

    /// A packet has arrived with the low half of its sequence number.
    #[inline]
    pub(crate) fn arrive(&mut self, low: u32, now: u64) -> Result<Seq, Wrong> {
        let seq = Seq { number: self.replay.whole(low), esn: self.config.flags.esn };
        self.replay.check(seq.number).map_err(Wrong::Number)?;
        if !self.live(now) {
            return Err(Wrong::Other(Stat::InStateExpired));
        }
        Ok(seq)
    }

    /// It was what it should be.
    #[inline]
    pub(crate) fn accept(&mut self, seq: Seq, bytes: usize) {
        self.replay.advance(seq.number);
        self.usage.bytes += bytes as u64;
        self.usage.packets += 1;
    }

    /// It was not: counts, and says how that is called.
    #[cold]
    pub(crate) fn count(&mut self, wrong: Wrong) -> Stat {
        match wrong {
            Wrong::Number(Refused::Window) => self.stats.replay_window += 1,
            Wrong::Number(Refused::Replay) => self.stats.replay += 1,
            Wrong::Integrity => self.stats.failed += 1,
            Wrong::Other(_) => {}
        }
        match wrong {
            Wrong::Number(_) => Stat::InStateSeq,
            Wrong::Integrity => Stat::InStateProto,
            Wrong::Other(stat) => stat,
        }
    }

    /// Whether packets may leave by it: it is there, and not used up.
    #[inline]
    pub(crate) fn is_usable(&mut self, now: u64) -> bool {
        self.is_there(now) && !self.config.limits.used_up(&self.usage)
    }

    /// Whether a packet may go through it on its way out (`xfrm_state_look_at()`).
    pub(crate) fn carries(&self, flow: &Flow) -> bool {
        let selector = &self.config.selector;
        selector.v6.is_none_or(|v6| v6 == flow.v6) && selector.matches(flow)
    }

    /// Whether it is what a template asks of a packet that came through it (`xfrm_state_ok()`).
    pub(crate) fn answers(&self, template: &Template) -> bool {
        let config = &self.config;
        (template.spi == 0 || template.spi == config.spi)
            && (template.reqid == 0 || template.reqid == config.reqid)
            && template.mode == config.mode
            && (config.mode == Mode::Transport
                || template.source.is_unspecified()
                || template.source == config.source)
    }
}
