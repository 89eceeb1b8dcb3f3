//! What bridges learn (`crates/path/src/bridge/learned.rs`).

#[path = "../../crates/path/src/bridge/learned.rs"]
mod product;

use loom::sync::Arc;
use loom::thread;
use product::{Key, Learned, Terms};

use crate::Model;

/// `penstock_net::Mac`.
#[derive(Clone, Copy)]
struct Mac([u8; 6]);

/// One bucket: few words, which all addresses share.
const ROOM: usize = 4;

const TERMS: Terms = Terms { ageing: 1000, limit: ROOM };

pub const MODELS: &[Model] = &[
    Model::new("bridges: an address that two learn at once is known once", 2, known_once),
    Model::new("bridges: nobody is told another address's port", 2, no_others_port),
    Model::new("bridges: what is forgotten while it is learned counts right", 2, forgotten),
    Model::new("bridges: no more are known than may be", 2, limited),
];

fn key(n: u8) -> Key {
    Key::new(Mac([2, 0, 0, 0, 0, n]), 0)
}

/// With its memory made, which happens once.
fn table() -> Arc<Learned> {
    let table = Learned::default();
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
    table.learn(key(1), 2, 5, TERMS);
    other.join().expect("it ends");
    // Who came last may have been told that it is there; once it is seen again it is.
    table.learn(key(1), 3, 6, TERMS);
    assert_eq!(table.find(key(1), 6, TERMS.ageing), Some(3));
    table.forget(|port| port != 3);
    assert_eq!(table.find(key(1), 6, TERMS.ageing), None, "it was there once");
}

fn no_others_port() {
    let table = table();
    table.learn(key(1), 1, 5, TERMS);
    let other = {
        let table = table.clone();
        thread::spawn(move || {
            table.forget(|_| false);
            table.learn(key(2), 2, 5, TERMS);
        })
    };
    let found = table.find(key(1), 5, TERMS.ageing);
    assert!(found.is_none_or(|port| port == 1), "{found:?}");
    let found = table.find(key(2), 5, TERMS.ageing);
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
    let learned = (1..=8).filter(|n| {
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
