// SPDX-License-Identifier: Apache-2.0

//! Sites: what the records of programs are about. A program says a number; equal sites of all
//! programs and generations have the same one, so that a program that stays the same keeps its
//! code.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_program::expr::Log;
use penstock_program::{Family, Hook};

use super::StateRef;

/// A place in a ruleset that programs tell of, and what they tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The hook.
    pub hook: Hook,
    /// Family of the hook: `Inet` where it is that of the packet.
    pub hook_family: Family,
    /// Family of the table.
    pub family: Family,
    /// Name of the table.
    pub table: Arc<str>,
    /// Name of the chain.
    pub chain: Arc<str>,
    /// What.
    pub event: Event,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A `log` statement met a packet.
    Log(Arc<Log>),
    /// A traced packet meets a base chain, or becomes a traced one in it.
    Packet,
    /// A rule with this handle met a traced packet.
    Rule(u64, Verdict),
    /// The policy of a base chain decides on a traced packet: accept, or drop.
    Policy(bool),
    /// A quota is used up.
    UsedUp(Quota),
}

/// What a rule says to a traced packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// `accept`
    Accept,
    /// `drop`
    Drop,
    /// `continue`, or none.
    Continue,
    /// `return`
    Return,
    /// `jump` to a chain.
    Jump(Arc<str>),
    /// `goto` a chain.
    Goto(Arc<str>),
}

/// The state of a quota, by itself.
#[derive(Clone, Debug)]
pub struct Quota(pub Arc<penstock_program::State>);

impl From<&StateRef> for Quota {
    fn from(state: &StateRef) -> Self {
        Quota(state.clone())
    }
}

impl PartialEq for Quota {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Quota {}

impl Hash for Quota {
    fn hash<H: Hasher>(&self, to: &mut H) {
        Arc::as_ptr(&self.0).addr().hash(to);
    }
}

/// How long records of a program that is gone may still be read.
const LATE: Duration = Duration::from_secs(60);

/// All sites by their numbers.
#[derive(Debug, Default)]
pub(super) struct Sites {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: HashMap<Arc<Site>, u32>,
    all: HashMap<u32, Arc<Site>>,
    last: u32,
    /// Sites that no program has, and since when.
    unused: HashMap<u32, Instant>,
}

impl Sites {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that is done under it leaves it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a site, which has it as long as the site is held.
    pub(super) fn number(&self, site: Site) -> (Arc<Site>, u32) {
        let mut inner = self.lock();
        if let Some((site, number)) = inner.numbers.get_key_value(&site) {
            return (site.clone(), *number);
        }
        let mut number = inner.last.wrapping_add(1);
        while inner.all.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        let site = Arc::new(site);
        inner.last = number;
        inner.numbers.insert(site.clone(), number);
        inner.all.insert(number, site.clone());
        (site, number)
    }

    /// The site with a number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Site>> {
        self.lock().all.get(&number).cloned()
    }

    /// Forgets sites that no program has had for a while.
    pub(super) fn release(&self) {
        let now = Instant::now();
        let Inner { numbers, all, unused, .. } = &mut *self.lock();
        numbers.retain(|site, number| {
            // Both maps have it.
            if Arc::strong_count(site) > 2 {
                unused.remove(number);
                return true;
            }
            let late = now.duration_since(*unused.entry(*number).or_insert(now)) > LATE;
            if late {
                all.remove(number);
                unused.remove(number);
            }
            !late
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sites_have_one_number() {
        let sites = Sites::default();
        let site = |event| Site {
            hook: Hook::Input,
            hook_family: Family::Ip,
            family: Family::Inet,
            table: "t".into(),
            chain: "c".into(),
            event,
        };
        let (first, one) = sites.number(site(Event::Packet));
        let (second, two) = sites.number(site(Event::Rule(4, Verdict::Accept)));
        assert_ne!(one, two);
        assert_eq!(sites.number(site(Event::Packet)).1, one);
        assert_eq!(sites.get(two), Some(second));
        drop(first);
        sites.release();
        assert_eq!(sites.number(site(Event::Packet)).1, one, "records may be on their way");
    }
}
