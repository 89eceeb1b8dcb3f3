// SPDX-License-Identifier: Apache-2.0

//! What others ask of a protocol's state without knowing the protocol.

use super::ProtocolState;
use super::tcp::{self, side_flag};
use crate::settings::Tracker;

/// How long a connection lives while its packets are not tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untracked {
    /// As long as packets may come.
    Lasting,
    /// As long as its end may take.
    Closing,
    /// As long as its last tracked packet said.
    AsItIs,
}

impl ProtocolState {
    /// Name of the state of protocols that have one.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Tcp(t) => Some(t.state.name()),
            Self::Sctp(s) => Some(s.state.name()),
            Self::Dccp(d) => Some(d.state.name()),
            Self::None | Self::Udp { .. } | Self::Gre { .. } => None,
        }
    }

    /// Whether an assured connection may be dropped early (`can_early_drop()` of its protocol).
    pub fn may_drop_early(&self) -> bool {
        match self {
            Self::Tcp(t) => t.may_drop_early(),
            Self::Sctp(s) => s.may_drop_early(),
            Self::Dccp(d) => d.may_drop_early(),
            Self::None | Self::Udp { .. } | Self::Gre { .. } => false,
        }
    }

    /// Whether TCP has closed the connection.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Tcp(t) if t.is_over())
    }

    /// Whether TCP is established.
    pub fn is_established(&self) -> bool {
        matches!(self, Self::Tcp(t) if t.state == tcp::State::Established)
    }

    /// Packets are not tracked from now on.
    pub fn leave_tracking(&mut self) {
        if let Self::Tcp(t) = self {
            // Windows are not known afterwards.
            t.seen.iter_mut().for_each(|side| side.flags |= side_flag::BE_LIBERAL);
        }
    }

    /// How long the connection lives while its packets are not tracked
    /// (`nf_flow_table_extend_ct_timeout()`).
    pub fn while_untracked(&self) -> Untracked {
        match self {
            Self::Tcp(t) if t.state == tcp::State::Established => Untracked::Lasting,
            Self::Tcp(t) if t.may_drop_early() => Untracked::Closing,
            Self::Udp { .. } => Untracked::Lasting,
            Self::Tcp(_) | Self::None | Self::Gre { .. } | Self::Sctp(_) | Self::Dccp(_) => {
                Untracked::AsItIs
            }
        }
    }

    /// Packets are tracked again: returns the tracker and the state that sets the timeout; `None`
    /// without one (`flow_offload_fixup_ct()`). `closing` if a FIN or reset was among those that
    /// were not tracked, `replied` if there were packets in both directions.
    pub fn return_to_tracking(&mut self, closing: bool, replied: bool) -> Option<(Tracker, usize)> {
        match self {
            Self::Tcp(t) => {
                t.return_to_tracking(closing);
                Some((Tracker::Tcp, t.state as usize))
            }
            Self::Udp { .. } => Some((Tracker::Udp, usize::from(replied))),
            Self::Gre { .. } => Some((Tracker::Gre, usize::from(replied))),
            Self::None | Self::Sctp(_) | Self::Dccp(_) => None,
        }
    }
}
