// SPDX-License-Identifier: Apache-2.0

//! Actions of filters (`net/sched/act_*.c`).

use crate::rate::Bucket;

/// What follows an action (`TC_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The packet continues (`TC_ACT_OK`).
    Ok,
    /// The filters start again (`TC_ACT_RECLASSIFY`).
    Reclassify,
    /// The packet is dropped (`TC_ACT_SHOT`).
    Shot,
    /// The next action.
    Pipe,
    /// The next filter (`TC_ACT_UNSPEC`).
    Continue,
    /// Taken, without counting as a drop (`TC_ACT_STOLEN`, `TC_ACT_QUEUED`).
    Stolen,
}

/// What `act_vlan` does to the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VlanAction {
    Pop,
    Push { protocol: u16, id: u16, priority: u8 },
    Modify { protocol: Option<u16>, id: Option<u16>, priority: Option<u8> },
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `gact`: nothing but its control.
    Plain(Control),
    /// Sends the packet, or a copy, to a device: out of it, or as if it had come in by it.
    Mirred { device: u32, to_ingress: bool, copy: bool, control: Control },
    /// Writes metadata of the packet.
    Skbedit { mark: Option<(u32, u32)>, priority: Option<u32>, to_host: bool, control: Control },
    /// Changes the VLAN tag.
    Vlan { change: VlanAction, control: Control },
    /// Limits a rate; `state` is the number of its tokens.
    Police(Police),
}

/// `police`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Police {
    pub(crate) state: usize,
    pub(crate) bucket: Option<Bucket>,
    pub(crate) peak: Option<Bucket>,
    /// Longer packets exceed at once.
    pub(crate) mtu: u64,
    pub(crate) exceed: Control,
    pub(crate) conform: Control,
}

/// What a policer remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tokens {
    tokens: i64,
    peak_tokens: i64,
    /// Time of the last packet that conformed; `None` before the first, when buckets are full.
    at: Option<u64>,
}

impl Police {
    /// `tcf_police_act()` for a packet of `len` bytes at time `now`.
    pub(crate) fn decide(&self, tokens: &mut Tokens, len: u64, now: u64) -> Control {
        if len > self.mtu {
            return self.exceed;
        }
        let Some(bucket) = &self.bucket else { return self.conform };
        let (had, had_peak, elapsed) = match tokens.at {
            Some(at) => (tokens.tokens, tokens.peak_tokens, now.saturating_sub(at) as i64),
            None => (bucket.depth, self.peak.map_or(0, |p| p.depth), 0),
        };
        let left = bucket.after(had, elapsed.min(bucket.depth), len);
        let peak_left = self.peak.map_or(0, |p| p.after(had_peak, elapsed.min(bucket.depth), len));
        if left | peak_left < 0 {
            return self.exceed;
        }
        *tokens = Tokens { tokens: left, peak_tokens: peak_left, at: Some(now) };
        self.conform
    }
}
