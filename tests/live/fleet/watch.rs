// SPDX-License-Identifier: Apache-2.0

//! Publications that can be told apart by any part of them, and a look at the node all along: it has
//! one of them, and all of it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Fleet;
use crate::net::Net;

/// Publications, and what was seen of them.
#[derive(Default)]
pub struct Marked {
    /// Numbers of those that may be in force.
    published: Mutex<BTreeSet<u64>>,
    over: AtomicBool,
}

/// The ruleset with a number in its first and last rule; that of the set is in its element.
fn rules(number: u64, more: &str) -> String {
    format!(
        "flush ruleset
include \"./sets.nft\"
table inet fw {{
	chain forward {{
		type filter hook forward priority filter; policy accept;
		comment \"begins {number}\"
		ip saddr @blocked counter drop
		ip daddr 198.18.1.66 counter drop
		{more}
	}}
}}
table inet last {{
	chain output {{
		type filter hook output priority filter; policy accept;
		tcp dport 9 counter comment \"ends {number}\"
	}}
}}
"
    )
}

/// Numbers in a listing, in order: those of the set, the first rules, and the last.
fn numbers(listing: &str) -> Option<[u64; 3]> {
    let after = |word: &str| {
        let rest = listing.split_once(word)?.1;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u64>().ok()
    };
    let (high, low) = (after("198.19.")?, {
        let rest = listing.split_once("198.19.")?.1;
        let low = rest.split_once('.')?.1;
        low[..low.find(|c: char| !c.is_ascii_digit())?].parse::<u64>().ok()?
    });
    Some([high * 256 + low, after("begins ")?, after("ends ")?])
}

impl Marked {
    /// Publishes the ruleset of a number, with further rules. Gives the generation.
    pub fn publish(&self, net: &Net, fleet: &Fleet, number: u64, more: &str) -> u64 {
        self.published.lock().unwrap().insert(number);
        let list = fleet.file("list", &format!("198.19.{}.{}\n", number / 256, number % 256));
        let set = format!("--set 'inet fw blocked={list}'");
        fleet.publish(net, &set, &rules(number, more))
    }

    /// What the node has in force; `None` if there is no dataplane now.
    pub fn look(&self, net: &Net) -> Option<u64> {
        let (ok, listing) = net.run(&net.r, "$PENSTOCK nft list ruleset");
        if !ok {
            return None;
        }
        let found = numbers(&listing);
        let Some([set, begins, ends]) = found else { panic!("the node has no rules: {listing}") };
        assert!(set == begins && begins == ends, "the node has half of it: {listing}");
        let published = self.published.lock().unwrap();
        assert!(published.contains(&set), "{set} was never published");
        Some(set)
    }

    /// Waits until the node has the ruleset of a number.
    pub fn until(&self, net: &Net, number: u64) {
        let what = format!("the ruleset {number} is in force");
        net.until_within(90, &what, |net| self.look(net) == Some(number));
    }

    /// Looks again and again while something happens. A dataplane that is there has rules.
    pub fn all_along<T>(&self, net: &Net, happens: impl FnOnce() -> T) -> T {
        /// It also ends if what happens fails.
        struct Over<'o>(&'o AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        self.over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut looks = 0u64;
                while !self.over.load(Ordering::Relaxed) {
                    looks += u64::from(self.look(net).is_some());
                    std::thread::sleep(Duration::from_millis(20));
                }
                looks
            });
            let over = Over(&self.over);
            let happened = happens();
            drop(over);
            let looks = watch.join().expect("the node had one of them all along");
            assert!(looks > 0, "nothing was seen");
            happened
        })
    }
}
