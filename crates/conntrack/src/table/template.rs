// SPDX-License-Identifier: Apache-2.0

//! What rules ask for before a packet is tracked, and timeout policies.

use super::Conntrack;
use super::entry::NONE;
use crate::settings::{Timeouts, Tracker, duration_ns};
use std::time::Duration;

/// What is wanted of a connection that does not exist yet (`nf_ct_tmpl_alloc()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// Zone of the original direction (`ct zone set`, `ct original zone set`).
    pub original_zone: u16,
    /// Zone of the reply direction (`ct zone set`, `ct reply zone set`).
    pub reply_zone: u16,
    /// Timeout policy, 0 for none.
    pub policy: u16,
    /// Helper, 0 for none.
    pub helper: u16,
    /// Events of it and of its expectations that are reported; `None` for all.
    pub events: Option<[u16; 2]>,
}

/// Templates by number.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    list: Vec<Template>,
    numbers: std::collections::HashMap<Template, u16>,
}

impl Templates {
    #[inline]
    pub fn zones(&self, n: u16) -> [u16; 2] {
        match self.get(n) {
            Some(t) => [t.original_zone, t.reply_zone],
            None => [0; 2],
        }
    }

    #[inline]
    pub fn get(&self, n: u16) -> Option<&Template> {
        self.list.get(usize::from(n).checked_sub(1)?)
    }
}

/// Timeout policies by number.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    list: Vec<Option<(Tracker, u8, Timeouts)>>,
}

impl Policies {
    #[inline]
    pub fn timeouts(&self, n: u16) -> Option<&Timeouts> {
        self.list.get(usize::from(n).checked_sub(1)?)?.as_ref().map(|(_, _, t)| t)
    }

    pub fn tracker(&self, n: u16) -> Option<Tracker> {
        self.list.get(usize::from(n).checked_sub(1)?)?.as_ref().map(|(t, _, _)| *t)
    }
}

/// The timeouts with that of a new connection in front, where it is another state's.
fn with_first(tracker: Tracker, mut values: Timeouts) -> Timeouts {
    if matches!(tracker, Tracker::Tcp | Tracker::Sctp | Tracker::Dccp) {
        values[0] = values[1];
    }
    values
}

/// Why a timeout policy was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The protocol's tracker has no timeout of this name.
    UnknownName,
    /// There are 65535 policies already.
    TooMany,
}

impl Conntrack {
    /// The timeouts that hold for an entry: its policy's, or the settings'.
    #[inline(always)]
    pub(crate) fn timeouts(&self, n: u32, tracker: Tracker) -> &Timeouts {
        let extra = self.store[n].extra;
        if extra != NONE {
            let policy = self.extras[extra as usize].policy;
            if policy != 0
                && let Some(timeouts) = self.policies.timeouts(policy)
            {
                return timeouts;
            }
        }
        self.settings.timeouts(tracker)
    }

    /// The number of a template for [`penstock_packet::Ct::template`]; equal templates have the
    /// same number. 0, which is none, if there are 65535 others already.
    pub fn template(&mut self, template: Template) -> u16 {
        if let Some(&n) = self.templates.numbers.get(&template) {
            return n;
        }
        let Ok(n) = u16::try_from(self.templates.list.len() + 1) else { return 0 };
        self.templates.list.push(template);
        self.templates.numbers.insert(template, n);
        n
    }

    /// The zones of both directions that a template asks for.
    #[inline(always)]
    pub(crate) fn template_zones(&self, n: u16) -> [u16; 2] {
        if n == 0 { [0; 2] } else { self.templates.zones(n) }
    }

    /// What a template's number stands for; nothing for 0.
    pub fn template_of(&self, n: u16) -> Template {
        self.templates.get(n).copied().unwrap_or_default()
    }

    /// Makes a timeout policy for an IP protocol (`ct timeout` object). Timeouts that are not named
    /// are those of the settings at this moment.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn add_policy(
        &mut self,
        protocol: u8,
        timeouts: &[(&str, Duration)],
    ) -> Result<u16, PolicyError> {
        let tracker = Tracker::of(protocol);
        let mut values = *self.settings.timeouts(tracker);
        for (name, timeout) in timeouts {
            let t = tracker
                .timeouts()
                .iter()
                .find(|t| t.policy == *name)
                .ok_or(PolicyError::UnknownName)?;
            values[t.index] = duration_ns(*timeout);
        }
        self.store_policy(tracker, protocol, values)
    }

    fn intern_policy(
        &mut self,
        tracker: Tracker,
        protocol: u8,
        values: Timeouts,
    ) -> Result<u16, PolicyError> {
        let values = with_first(tracker, values);
        match self.policies.list.iter().position(|p| *p == Some((tracker, protocol, values))) {
            Some(n) => Ok(n as u16 + 1),
            None => self.store_policy(tracker, protocol, values),
        }
    }

    fn store_policy(
        &mut self,
        tracker: Tracker,
        protocol: u8,
        values: Timeouts,
    ) -> Result<u16, PolicyError> {
        let policy = Some((tracker, protocol, with_first(tracker, values)));
        if let Some(free) = self.policies.list.iter().position(Option::is_none) {
            self.policies.list[free] = policy;
            return Ok(free as u16 + 1);
        }
        let n = u16::try_from(self.policies.list.len() + 1).map_err(|_| PolicyError::TooMany)?;
        self.policies.list.push(policy);
        Ok(n)
    }

    /// The timeout policy that sets some states' timeouts, by number of the state and in seconds,
    /// and leaves the rest as the settings have it at this moment: made if there is none like it
    /// yet. Such a policy is not removed.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn policy_for(&mut self, protocol: u8, timeouts: &[(u8, u32)]) -> Result<u16, PolicyError> {
        let tracker = Tracker::of(protocol);
        let mut values = *self.settings.timeouts(tracker);
        for (state, seconds) in timeouts {
            let known = tracker.timeouts().iter().any(|t| t.index == usize::from(*state));
            if !known {
                return Err(PolicyError::UnknownName);
            }
            values[usize::from(*state)] = u64::from(*seconds) * crate::settings::SECOND;
        }
        self.intern_policy(tracker, protocol, values)
    }

    /// Removes a timeout policy. Connections that have it continue with the timeouts of the
    /// settings.
    pub fn remove_policy(&mut self, n: u16) {
        for extra in &mut self.extras {
            if extra.policy == n {
                extra.policy = 0;
            }
        }
        if let Some(slot) =
            usize::from(n).checked_sub(1).and_then(|i| self.policies.list.get_mut(i))
        {
            *slot = None;
        }
    }

    /// Gives a connection that is not confirmed yet a timeout policy, and it lives as long as that
    /// says for a new one (`ct timeout set`). Does nothing for a policy of another protocol and for
    /// confirmed connections.
    pub fn set_policy(&mut self, n: u32, policy: u16) {
        let protocol = self.store[n].original.protocol;
        if self.store[n].has(crate::status::CONFIRMED)
            || self.policies.tracker(policy) != Some(Tracker::of(protocol))
        {
            return;
        }
        self.extra_mut(n).policy = policy;
        if let Some(new) = self.policies.timeouts(policy).map(|t| t[0]) {
            self.set_timeout(n, new);
        }
    }
}
