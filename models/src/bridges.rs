// SPDX-License-Identifier: Apache-2.0

//! What bridges learn (`crates/dataplane/src/bridge/learned.rs`).

#[path = "../../crates/dataplane/src/bridge/learned.rs"]
mod product;

use product::{Key, Learned, Terms};

use crate::Model;
use crate::sync::{Arc, thread};

/// `penstock_net::Mac`.
#[derive(Clone, Copy)]
struct Mac([u8; 6]);

/// Two buckets: few words, which all addresses share.
const ROOM: usize = 8;

const TERMS: Terms = Terms { ageing: 1000, limit: ROOM };

pub const MODELS: &[Model] = &[
    Model::new("bridges: an address that two learn at once is known once", 2, known_once),
    Model::new("bridges: lookups never return another address's port", 3, no_others_port),
    Model::new("bridges: what is forgotten while it is learned counts right", 2, forgotten),
    Model::new("bridges: no more are known than may be", 2, limited),
];

fn key(n: u8) -> Key {
    Key::new(Mac([2, 0, 0, 0, 0, n]), 0)
}

/// With its memory made, which happens once. Odd addresses may be in both buckets, even ones in the
/// first.
fn table() -> Arc<Learned> {
    let table = Learned::with_secret([0, 0]);
    table.learn(key(9), 9, 0, TERMS);
    table.forget(|_| false);
    Arc::new(table)
}

fn known_once() {
    let table = table();
    let other = {
        let table = table.clone();
        thread::spawn(move || table.learn(key(1), 1, 5, TERMS))
    };
    // Makes one bucket the fuller one, so that the two may go by different ones.
    let third = {
        let table = table.clone();
        thread::spawn(move || table.learn(key(3), 3, 5, TERMS))
    };
    table.learn(key(1), 2, 5, TERMS);
    other.join().expect("it ends");
    third.join().expect("it ends");
    // Who came last may have been told that it is there; once it is seen again it is.
    table.learn(key(1), 4, 6, TERMS);
    assert_eq!(table.find(key(1), 6, TERMS.ageing), Some(4));
    table.forget(|port| port != 4);
    assert_eq!(table.find(key(1), 6, TERMS.ageing), None, "it was there once");
}

fn no_others_port() {
    let table = table();
    table.learn(key(1), 1, 5, TERMS);
    let other = {
        let table = table.clone();
        thread::spawn(move || {
            table.forget(|_| false);
            table.learn(key(3), 2, 5, TERMS);
        })
    };
    let found = table.find(key(1), 5, TERMS.ageing);
    assert!(found.is_none_or(|port| port == 1), "{found:?}");
    let found = table.find(key(3), 5, TERMS.ageing);
    assert!(found.is_none_or(|port| port == 2), "{found:?}");
    other.join().expect("it ends");
}

fn forgotten() {
    let table = table();
    let other = {
        let table = table.clone();
        thread::spawn(move || table.forget(|_| false))
    };
    table.learn(key(1), 1, 5, TERMS);
    other.join().expect("it ends");
    table.forget(|_| false);
    // Were the count wrong, fewer could be learned now, or more.
    let learned = (1..=12).filter(|n| {
        table.learn(key(*n), 1, 6, TERMS);
        table.find(key(*n), 6, TERMS.ageing).is_some()
    });
    assert_eq!(learned.count(), ROOM);
}

fn limited() {
    let table = table();
    let terms = Terms { limit: 1, ..TERMS };
    let other = {
        let table = table.clone();
        thread::spawn(move || table.learn(key(1), 1, 5, terms))
    };
    table.learn(key(2), 2, 5, terms);
    other.join().expect("it ends");
    let known = [1, 2].into_iter().filter(|n| table.find(key(*n), 5, TERMS.ageing).is_some());
    assert!(known.count() <= 1);
}
