// SPDX-License-Identifier: Apache-2.0

//! What is known of chains before code is made.

use std::collections::HashMap;

use penstock_program::State;
use penstock_program::image::{ChainIndex, Image, LinkedValue, Stateful};
use penstock_program::interp::JUMP_STACK;
use penstock_program::op::{Effect, Info, Load, Op, Parts};
use penstock_sets::{ElementRef, Set};

/// Whether an operation may run for later packets before earlier ones are done, without any
/// difference.
fn burst_safe(op: &Op, info: &Info) -> bool {
    let counts = |e: ElementRef<'_, LinkedValue>| {
        e.value.statements.iter().all(|s| matches!(s, Stateful::Counter(_)))
    };
    let silent = |set: &Set<LinkedValue>| set.iter_unordered().all(counts);
    info.burst_safe && op.fixed_set().is_none_or(silent)
}

/// Whether all that an operation wants of the order of packets is that those before have changed
/// sets already.
fn is_dynamic_lookup(op: &Op) -> bool {
    matches!(op, Op::LookupDynamic { load: Load::Nothing, .. })
}

/// What is known of a chain and the chains that it calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// Rules of the chain itself and of all chains that it calls, as often as it calls them.
    pub(crate) weight: u64,
    /// Chains on top of it at most; `None` if that is more than the stack holds, or they call each
    /// other in circles.
    pub(crate) depth: Option<usize>,
    /// All rules write registers before they read them.
    pub(crate) sound: bool,
    /// May change the packet's bytes or metadata.
    pub(crate) changes: bool,
    /// May begin or end tracing.
    pub(crate) traces: bool,
    /// Packets of a burst have no influence on each other.
    pub(crate) burst_safe: bool,
    /// They have none but by the sets that packets change, in which they are looked up.
    pub(crate) safe_in_order: bool,
    pub(crate) needs: Parts,
}

impl Summary {
    /// Whether code can be made for it.
    pub(crate) fn compiles(&self) -> bool {
        self.sound && self.depth.is_some()
    }
}

/// Summaries of chains, made as they are asked for.
pub(crate) struct Analysis<'a> {
    image: &'a Image,
    summaries: HashMap<ChainIndex, Option<Summary>>,
    /// How many rules call a chain.
    pub(crate) callers: HashMap<ChainIndex, u32>,
}

/// Rules of a chain.
pub(crate) fn rules(image: &Image, chain: ChainIndex) -> std::ops::Range<u32> {
    let end = image.rules.len() as u32;
    image.chain(chain).map_or(0..0, |c| c.first.min(end)..c.end.min(end))
}

/// Counter of the packets that the policy of a base chain decides on.
pub(crate) fn policy_counter(image: &Image, chain: ChainIndex) -> Option<&State> {
    image.chain(chain)?.policy_counter.as_deref()
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        Analysis { image, summaries: HashMap::new(), callers: HashMap::new() }
    }

    /// What is known of a chain.
    pub(crate) fn summary(&mut self, chain: ChainIndex) -> Summary {
        match self.summaries.get(&chain) {
            Some(Some(summary)) => return summary.clone(),
            // It is being looked at: a circle.
            Some(None) => return Summary { depth: None, sound: true, ..Summary::default() },
            None => {}
        }
        self.summaries.insert(chain, None);
        let summary = self.make(chain);
        self.summaries.insert(chain, Some(summary.clone()));
        summary
    }

    fn make(&mut self, chain: ChainIndex) -> Summary {
        let mut all = Summary {
            depth: Some(0),
            sound: true,
            burst_safe: true,
            safe_in_order: true,
            ..Summary::default()
        };
        all.needs.length = policy_counter(self.image, chain).is_some();
        for rule in &self.image.rules[range(rules(self.image, chain))] {
            all.weight = all.weight.saturating_add(1);
            let mut written = 0;
            for op in self.image.ops_of(rule) {
                let info = op.info();
                all.sound &= info.reads & !written == 0 && info.stays_in_registers;
                written |= info.writes;
                all.changes |= matches!(info.effect, Effect::Bytes | Effect::Metadata);
                all.traces |= info.traces;
                all.burst_safe &= burst_safe(op, &info);
                all.safe_in_order &= burst_safe(op, &info) || is_dynamic_lookup(op);
                all.needs.add(info.parts);
                for (target, call) in op.targets() {
                    *self.callers.entry(target).or_default() += 1;
                    let callee = self.summary(target);
                    all.weight = all.weight.saturating_add(callee.weight);
                    all.sound &= callee.sound;
                    all.changes |= callee.changes;
                    all.traces |= callee.traces;
                    all.burst_safe &= callee.burst_safe;
                    all.safe_in_order &= callee.safe_in_order;
                    all.needs.add(callee.needs);
                    let beneath = callee.depth.map(|depth| depth + usize::from(call));
                    all.depth =
                        all.depth.zip(beneath).map(|(a, b)| a.max(b)).filter(|d| *d <= JUMP_STACK);
                }
            }
        }
        all
    }
}

pub(crate) fn range(rules: std::ops::Range<u32>) -> std::ops::Range<usize> {
    rules.start as usize..rules.end as usize
}
