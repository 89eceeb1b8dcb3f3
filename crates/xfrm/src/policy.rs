// SPDX-License-Identifier: Apache-2.0

//! Policies of one direction, found by addresses: one table per pair of prefix lengths
//! (`xfrm_policy_lookup()`).

use crate::{Direction, Flow, Policy, Usage};
use penstock_wire::quick::QuickMap;

/// A policy at work.
#[derive(Debug)]
struct Entry {
    policy: Policy,
    usage: Usage,
}

/// Policies with selectors of the same family and prefix lengths.
#[derive(Debug)]
struct Group {
    v6: bool,
    source: u8,
    destination: u8,
    /// The best priority in it.
    best: u32,
    /// By masked source and destination: numbers of policies, the one that comes first in front.
    policies: QuickMap<(u128, u128), Vec<u32>>,
}

/// All policies of a direction.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// In the order in which they come: by priority, then as they were added.
    entries: Vec<Entry>,
    /// By their best priority.
    groups: Vec<Group>,
}

fn masked(address: u128, len: u8, v6: bool) -> u128 {
    let bits = if v6 { 128 } else { 32 };
    if len == 0 { 0 } else { address >> (bits - len.min(bits)) << (bits - len.min(bits)) }
}

impl Policies {
    pub(crate) fn new(all: &[Policy], direction: Direction) -> Self {
        let mut chosen: Vec<&Policy> = all.iter().filter(|p| p.direction == direction).collect();
        chosen.sort_by_key(|p| p.priority);
        let mut policies = Policies::default();
        for policy in chosen {
            policies.push(policy.clone());
        }
        policies.groups.sort_by_key(|g| g.best);
        policies
    }

    fn push(&mut self, policy: Policy) {
        let number = self.entries.len() as u32;
        let selector = &policy.selector;
        let v6 = selector.v6 == Some(true);
        let (source, destination) = (selector.source.1, selector.destination.1);
        let same = |g: &Group| (g.v6, g.source, g.destination) == (v6, source, destination);
        let at = self.groups.iter().position(same).unwrap_or_else(|| {
            let (best, policies) = (policy.priority, QuickMap::default());
            self.groups.push(Group { v6, source, destination, best, policies });
            self.groups.len() - 1
        });
        if let Some(group) = self.groups.get_mut(at) {
            group
                .policies
                .entry((selector.source.0, selector.destination.0))
                .or_default()
                .push(number);
        }
        self.entries.push(Entry { policy, usage: Usage::default() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn set_added(&mut self, now: u64) {
        for entry in &mut self.entries {
            entry.usage.added = now;
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Policy> {
        self.entries.get(number as usize).map(|e| &e.policy)
    }

    /// The first policy with a selector that matches a packet.
    pub(crate) fn find(&mut self, flow: &Flow, now: u64) -> Option<u32> {
        let mut found: Option<(u32, u32)> = None;
        for group in &self.groups {
            if found.is_some_and(|(priority, _)| group.best > priority) {
                break;
            }
            if group.v6 != flow.v6 {
                continue;
            }
            let key = (
                masked(flow.saddr, group.source, flow.v6),
                masked(flow.daddr, group.destination, flow.v6),
            );
            let Some(numbers) = group.policies.get(&key) else { continue };
            for &number in numbers {
                let Some(Entry { policy, usage }) = self.entries.get(number as usize) else {
                    continue;
                };
                if policy.mark.matches(flow.mark)
                    && policy.selector.matches(flow)
                    && !policy.limits.time_over(usage, now)
                {
                    let rank = (policy.priority, number);
                    found = Some(found.map_or(rank, |f| f.min(rank)));
                    break;
                }
            }
        }
        let (_, number) = found?;
        if let Some(entry) = self.entries.get_mut(number as usize)
            && entry.usage.used == 0
        {
            entry.usage.used = now;
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Mark, Selector};

    fn random_policy(random: &mut fastrand::Rng) -> Policy {
        let v6 = random.bool();
        let mut prefix = || {
            let len = random.u8(0..4) * 2;
            let bits = if v6 { 128 } else { 32 };
            (masked(u128::from(random.u8(0..16)) << (bits - 4), len, v6), len)
        };
        let (source, destination) = (prefix(), prefix());
        let selector = Selector {
            v6: Some(v6),
            source,
            destination,
            protocol: random.u8(0..2) * 17,
            dport: (random.u16(0..3), if random.bool() { 0xffff } else { 0 }),
            ..Selector::default()
        };
        Policy {
            selector,
            direction: Direction::Out,
            action: Action::Allow,
            priority: random.u32(0..5),
            mark: Mark { value: 0, mask: random.u32(0..2) },
            limits: Default::default(),
            templates: Vec::new(),
        }
    }

    #[test]
    fn hashed_lookup_equals_a_linear_scan() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let all: Vec<Policy> =
                (0..random.usize(0..40)).map(|_| random_policy(&mut random)).collect();
            let mut policies = Policies::new(&all, Direction::Out);
            let mut ordered: Vec<&Policy> = all.iter().collect();
            ordered.sort_by_key(|p| p.priority);
            for _ in 0..100 {
                let v6 = random.bool();
                let bits = if v6 { 128 } else { 32 };
                let mut address = || u128::from(random.u8(0..16)) << (bits - 4);
                let (saddr, daddr) = (address(), address());
                let flow = Flow {
                    v6,
                    saddr,
                    daddr,
                    protocol: 17,
                    dport: random.u16(0..3),
                    mark: random.u32(0..2),
                    ..Flow::default()
                };
                let expected = ordered.iter().position(|p| {
                    p.selector.v6 == Some(v6)
                        && p.mark.matches(flow.mark)
                        && p.selector.matches(&flow)
                });
                assert_eq!(
                    policies.find(&flow, 1),
                    expected.map(|n| n as u32),
                    "{flow:?} {all:#?}"
                );
            }
        }
    }
}
