// SPDX-License-Identifier: Apache-2.0

//! Sets that are in force: compared with what was published, repaired if somebody else has changed
//! them, and renewed before their elements end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use penstock_fleet::blobs::Blobs;
use penstock_fleet::canary::Node;
use penstock_fleet::elements::{Delta, Elements, Sum};
use penstock_fleet::manifest::SetData;
use penstock_fleet::tree::{self, Tree};
use penstock_fleet::{Digest, Manifest, listed};
use penstock_listing::Listing;
use penstock_listing::element::{expires, renewed, timeout};

use crate::renewals::Renewals;
use crate::{Commit, Host, NotCommitted, text};

/// Elements that are renewed in one transaction.
const TOGETHER: usize = 65_536;
/// What could not be renewed is tried again after this time.
const AGAIN: Duration = Duration::from_secs(5);

/// How many elements there are, and their sum.
type Total = (u64, Sum);

/// What is known of the sets in force.
#[derive(Debug)]
pub struct Sets {
    /// Time between two comparisons.
    every: Duration,
    compare_at: Instant,
    /// Time to the next comparison if this one fails.
    pause: Duration,
    /// The ruleset of the dataplane that was compared last.
    compared: Option<u64>,
    /// By title: the sum of what was published, and what a listing of it comes to.
    listed: HashMap<String, (Sum, Total)>,
    /// By title: what is in force, and stays another set than the published one or none at all.
    different: HashMap<String, Option<Total>>,
    /// By title: the timeout of elements that say none. Found out when all is put in force.
    timeouts: Option<HashMap<String, Duration>>,
    renewals: Renewals,
    /// Repairs since the agent began.
    pub repairs: u64,
    /// What the last one did.
    pub repaired: String,
    /// What is wrong.
    pub why: String,
}

/// Whether a set in force is as it is wanted.
#[derive(PartialEq)]
enum State {
    Wanted,
    /// It is not, or is not there.
    Other(Option<Total>),
}

/// What is in force, and where.
pub struct InForce<'a> {
    /// The name of the manifest.
    pub tree: Digest,
    /// The manifest.
    pub manifest: &'a Manifest,
    /// The node.
    pub node: &'a Node,
    /// Its blobs.
    pub blobs: &'a Blobs<'a>,
}

impl Sets {
    /// Nothing is in force yet.
    pub fn new(every: Duration) -> Sets {
        Sets {
            every,
            compare_at: later(every),
            pause: AGAIN,
            compared: None,
            listed: HashMap::new(),
            different: HashMap::new(),
            timeouts: None,
            renewals: Renewals::default(),
            repairs: 0,
            repaired: String::new(),
            why: String::new(),
        }
    }

    /// All was put in force anew.
    pub fn all_put(&mut self) {
        self.begin_anew();
        self.different.clear();
        self.why.clear();
    }

    fn begin_anew(&mut self) {
        self.renewals.clear();
        self.timeouts = None;
        self.compared = None;
    }

    /// Elements of sets were changed.
    pub fn put(&mut self, changed: &[(SetData, Delta)]) {
        self.compared = None;
        for (set, delta) in changed {
            self.different.remove(&set.title());
            self.put_elements(&set.title(), delta.add.iter().map(String::as_str));
        }
    }

    fn put_elements<'e>(&mut self, title: &str, elements: impl Iterator<Item = &'e str>) {
        // Otherwise all elements are looked at later.
        let Some(timeouts) = &self.timeouts else { return };
        let usual = timeouts.get(title).copied();
        let now = Instant::now();
        for element in elements {
            if let Some(timeout) = timeout(element).or(usual) {
                let left = expires(element).unwrap_or(timeout);
                self.renewals.put(title, timeout, left, now, fastrand::f64());
            }
        }
    }

    /// How long there is nothing to do.
    pub fn idle(&self) -> Duration {
        let next = self.renewals.next().map_or(self.compare_at, |at| at.min(self.compare_at));
        next.saturating_duration_since(Instant::now())
    }

    /// Does what is due.
    pub fn keep(&mut self, now: &InForce<'_>, host: &mut dyn Host) {
        let is_due = Instant::now() >= self.compare_at;
        if is_due {
            self.compare_at = later(self.every);
        }
        if !host.reads_elements() || now.manifest.sets.is_empty() {
            return;
        }
        let kept = self.learn_timeouts(now, host).and_then(|()| self.renew(now, host));
        if let Err(why) = kept {
            self.why = why;
        }
        if is_due {
            self.compare(now, host);
        }
    }

    /// Looks up timeouts of sets and of their elements, after all was put in force.
    fn learn_timeouts(&mut self, now: &InForce<'_>, host: &mut dyn Host) -> Result<(), String> {
        if self.timeouts.is_some() || host.generation().is_none() {
            return Ok(());
        }
        let mut with_timeouts = Vec::new();
        let mut timeouts = HashMap::new();
        for set in &now.manifest.sets {
            // One that is gone is found out when it is compared.
            let Some(text) = host.list(set, false)? else { continue };
            let listing = Listing::of(&text)?;
            if let Some(timeout) = listing.timeout() {
                timeouts.insert(set.title(), timeout);
            }
            if listing.has_timeouts() {
                with_timeouts.push(set);
            }
        }
        let read = |set: &SetData| tree::elements(set, now.blobs).map_err(|e| e.to_string());
        let all = with_timeouts.iter().map(|set| read(set)).collect::<Result<Vec<_>, _>>()?;
        self.timeouts = Some(timeouts);
        for (set, elements) in with_timeouts.into_iter().zip(all) {
            self.put_elements(&set.title(), elements.values().map(String::as_str));
        }
        Ok(())
    }

    fn renew(&mut self, now: &InForce<'_>, host: &mut dyn Host) -> Result<(), String> {
        let due = self.renewals.take_due(Instant::now());
        let mut result = Ok(());
        // Groups of one set are next to each other.
        for groups in due.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(set) = groups.first().and_then(|(title, _)| now.manifest.set(title)) else {
                continue;
            };
            let times: Vec<Duration> = groups.iter().map(|(_, time)| *time).collect();
            let renewed = self.renew_set(set, &times, now, host);
            let (title, instant) = (set.title(), Instant::now());
            for time in times {
                let left = if renewed.is_ok() { time } else { AGAIN };
                self.renewals.put(&title, time, left, instant, fastrand::f64());
            }
            if let Err(why) = renewed {
                // The set may be another one than the published one.
                (self.compared, self.compare_at) = (None, Instant::now());
                result = Err(format!("elements of set {title} are not renewed: {why}"));
            }
        }
        result
    }

    /// Renews elements of a set that have one of these timeouts.
    fn renew_set(
        &self,
        set: &SetData,
        times: &[Duration],
        now: &InForce<'_>,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let usual = self.timeouts.as_ref().and_then(|all| all.get(&set.title())).copied();
        let tree = Tree::read(now.tree, now.blobs).map_err(|e| e.to_string())?;
        let elements = tree::elements(set, now.blobs).map_err(|e| e.to_string())?;
        let renewed = |element: &String| {
            let time = timeout(element).or(usual).filter(|time| times.contains(time))?;
            Some(renewed(element, time))
        };
        let all: Vec<String> = elements.values().filter_map(renewed).collect();
        all.chunks(TOGETHER).try_for_each(|some| {
            let delta = Delta { remove: Vec::new(), add: some.to_vec() };
            commit(now, &tree, false, &text::changed(set, &delta), host)
        })
    }

    /// Compares all sets, unless nobody has changed the ruleset since.
    fn compare(&mut self, now: &InForce<'_>, host: &mut dyn Host) {
        let Some(generation) = host.generation() else { return self.compare_again() };
        if self.compared == Some(generation) {
            return;
        }
        let mut why = String::new();
        for set in &now.manifest.sets {
            let title = set.title();
            match self.compare_set(set, now, host) {
                Ok(None) => {}
                Ok(Some(repaired)) => {
                    self.repairs += 1;
                    self.repaired = format!("set {title}: {repaired}");
                    host.say(&format!("repaired {}", self.repaired));
                }
                Err(e) => why = format!("set {title} is not as it was published: {e}"),
            }
        }
        match why.is_empty() {
            true => (self.compared, self.pause) = (Some(generation), AGAIN),
            false => self.compare_again(),
        }
        self.why = why;
    }

    /// What could not be compared or repaired is tried again soon, and then less and less often.
    fn compare_again(&mut self) {
        self.compare_at = self.compare_at.min(later(self.pause));
        self.pause = (self.pause * 2).min(self.every.max(AGAIN));
    }

    /// Compares a set, and says how it was repaired if it was.
    fn compare_set(
        &mut self,
        set: &SetData,
        now: &InForce<'_>,
        host: &mut dyn Host,
    ) -> Result<Option<String>, String> {
        let title = set.title();
        // Without a listing, the set itself is gone.
        let text = host.list(set, true)?;
        let listing = text.as_deref().map(Listing::of).transpose()?;
        let there = listing.as_ref().map(listed::sum);
        let known = self.listed.get(&title).filter(|(sum, _)| *sum == set.sum);
        let known = known.map(|(_, listed)| *listed);
        if there.is_some() && (there == Some((set.elements, set.sum)) || there == known) {
            return Ok(None);
        }
        if self.different.get(&title) == Some(&there) {
            return Err("a repair did not change that".into());
        }
        let tree = Tree::read(now.tree, now.blobs).map_err(|e| e.to_string())?;
        let wanted = self.wanted(set, &tree, now, host)?;
        let delta = listing.map(|listing| difference(&listing, &wanted));
        drop(text);
        if let Some(delta) = delta {
            if delta.is_empty() {
                return Ok(None);
            }
            let repaired = commit(now, &tree, false, &text::changed(set, &delta), host);
            if repaired.is_ok() && state(set, &wanted, host)? == State::Wanted {
                self.put_elements(&title, delta.add.iter().map(String::as_str));
                let (come, gone) = (delta.add.len(), delta.remove.len());
                return Ok(Some(format!("elements added: {come}, deleted: {gone}")));
            }
        }
        self.put_all(now, host)?;
        match state(set, &wanted, host)? {
            State::Wanted => Ok(Some("the whole ruleset was put in force again".into())),
            State::Other(there) => {
                // It is not tried again before somebody changes it once more.
                self.different.insert(title, there);
                Err("a repair did not change that".into())
            }
        }
    }

    /// What is published, as the dataplane would list it.
    fn wanted(
        &mut self,
        set: &SetData,
        tree: &Tree,
        now: &InForce<'_>,
        host: &mut dyn Host,
    ) -> Result<Elements, String> {
        let elements = tree::elements(set, now.blobs).map_err(|e| e.to_string())?;
        let text = host.listed(tree, now.node, set, &text::added(set, &elements))?;
        let listing = Listing::of(&text)?;
        self.listed.insert(set.title(), (set.sum, listed::sum(&listing)));
        Ok(listed::elements(&listing))
    }

    /// Puts the whole ruleset in force again.
    fn put_all(&mut self, now: &InForce<'_>, host: &mut dyn Host) -> Result<(), String> {
        let tree = Tree::read(now.tree, now.blobs).map_err(|e| e.to_string())?;
        let all = text::all(now.manifest, now.blobs).map_err(|e| e.to_string())?;
        commit(now, &tree, true, &all, host)?;
        self.begin_anew();
        Ok(())
    }
}

/// Whether a set in force has the elements that are wanted.
fn state(set: &SetData, wanted: &Elements, host: &mut dyn Host) -> Result<State, String> {
    let Some(text) = host.list(set, true)? else { return Ok(State::Other(None)) };
    let listing = Listing::of(&text)?;
    Ok(match difference(&listing, wanted).is_empty() {
        true => State::Wanted,
        false => State::Other(Some(listed::sum(&listing))),
    })
}

/// What makes a set the wanted one. Elements that packets have added stay.
fn difference(listing: &Listing<'_>, wanted: &Elements) -> Delta {
    let mut delta = Delta::between(&listed::elements(listing), wanted);
    if listing.is_dynamic() {
        delta.remove.retain(|key| wanted.contains_key(key));
    }
    delta
}

/// Puts what was in force before in force again: it was found healthy then.
fn commit(
    now: &InForce<'_>,
    tree: &Tree,
    whole: bool,
    elements: &str,
    host: &mut dyn Host,
) -> Result<(), String> {
    let commit = Commit { tree, node: now.node, whole, elements, confirm: Duration::ZERO };
    host.commit(&commit, &mut || Ok(())).map_err(|e| match e {
        NotCommitted::Refused(why)
        | NotCommitted::RolledBack(why)
        | NotCommitted::NoDataplane(why)
        | NotCommitted::NotNow(why) => why,
    })
}

/// After about a time: agents of a fleet do not do it all at once.
fn later(time: Duration) -> Instant {
    Instant::now() + time.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_that_fail_are_repeated_soon_and_then_less_often() {
        let seconds = Duration::from_secs;
        for (every, pauses) in [(60, &[5, 10, 20, 40, 60, 60][..]), (1, &[5, 5][..])] {
            let mut sets = Sets::new(seconds(every));
            for pause in pauses {
                assert_eq!(sets.pause, seconds(*pause), "{every}");
                sets.compare_at = later(seconds(every));
                sets.compare_again();
                assert!(sets.idle() <= seconds(*pause.min(&every)).mul_f64(1.25), "{every}");
            }
        }
    }
}
