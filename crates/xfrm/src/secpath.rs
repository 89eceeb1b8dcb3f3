// SPDX-License-Identifier: Apache-2.0

//! What a packet came through, and whether that is what policy wants (`struct sec_path`,
//! `xfrm_policy_ok()`).

use crate::config::DEPTH;
use crate::states::StateId;
use crate::states::States;
use crate::{Level, Mode, Template};

/// The states that a packet came through, the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecPath {
    states: [StateId; DEPTH],
    len: u8,
    /// So many of them a policy has asked for already.
    verified: u8,
}

impl SecPath {
    /// The states.
    #[inline]
    pub fn states(&self) -> &[StateId] {
        self.states.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Through another one; `false` if there were too many.
    pub fn push(&mut self, state: StateId) -> bool {
        let Some(place) = self.states.get_mut(usize::from(self.len)) else { return false };
        *place = state;
        self.len += 1;
        true
    }

    fn tunnel_from(&self, states: &States, from: usize) -> bool {
        let from = from.max(usize::from(self.verified));
        self.states().iter().skip(from).any(|&id| states.get(id).config.mode == Mode::Tunnel)
    }

    /// Whether it came through a tunnel that no policy has asked for yet.
    pub(crate) fn has_tunnel(&self, states: &States) -> bool {
        self.tunnel_from(states, 0)
    }

    /// Whether it came through what the templates ask for, in this order, and no other tunnel.
    pub(crate) fn satisfies(&mut self, states: &States, templates: &[Template]) -> bool {
        let mut at = 0;
        for template in templates.iter().rev() {
            match self.find(states, template, at) {
                Some(next) => at = next,
                None => return false,
            }
        }
        if self.tunnel_from(states, at) {
            return false;
        }
        self.verified = at as u8;
        true
    }

    /// The place after the state that a template asks for, from a place on; that place itself for
    /// one that may go unused.
    fn find(&self, states: &States, template: &Template, start: usize) -> Option<usize> {
        let optional = template.level == Level::Use;
        if optional && template.mode == Mode::Transport {
            return Some(start);
        }
        for (at, &id) in self.states().iter().enumerate().skip(start) {
            let state = states.get(id);
            if state.answers(template) {
                return Some(at + 1);
            }
            if state.config.mode == Mode::Tunnel && at >= usize::from(self.verified) {
                break;
            }
        }
        optional.then_some(start)
    }
}
