// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change (`crates/sets/src/dynamic.rs`).

#[path = "../../crates/sets/src/dynamic.rs"]
mod product;

use std::sync::atomic::Ordering::Relaxed;

use product::{Dynamic, NEVER};

use crate::Model;
use crate::sync::{Arc, AtomicU64, thread};

pub const MODELS: &[Model] = &[
    Model::new("dynamic: who looks up sees a value of one element and one moment", 2, one_moment),
    Model::new("dynamic: a reused slot does not mislead readers", 3, reused),
    Model::new("dynamic: a listing has whole elements only", 2, listed),
    Model::new("dynamic: two who insert one key make one element", 2, once),
    Model::new("dynamic: there are no more elements than the limit", 2, limited),
    Model::new("dynamic: what expires while others search is found", 2, expiring),
    Model::new("dynamic: what was removed leaves its place once", 2, left_once),
    Model::new("dynamic: what is emptied while others insert counts right", 2, emptied),
];

fn key(n: u32) -> [u8; 4] {
    n.to_ne_bytes()
}

/// Two words that say which element they are of, and of when.
fn fill(n: u64) -> impl Fn(&[AtomicU64]) {
    move |words| {
        words[0].store(n, Relaxed);
        words[1].store(n + 100, Relaxed);
    }
}

fn read(words: &[AtomicU64]) -> (u64, u64) {
    (words[0].load(Relaxed), words[1].load(Relaxed))
}

fn table(size: u32) -> Arc<Dynamic> {
    Arc::new(Dynamic::new(4, 2, size))
}

fn one_moment() {
    let table = table(2);
    table.insert(&key(1), 0, NEVER, fill(1));
    let writer = {
        let table = table.clone();
        thread::spawn(move || {
            table.renew(&key(1), 0, |words| {
                fill(2)(words);
                Some(NEVER)
            });
        })
    };
    let (value, _) = table.lookup(&key(1), 0, read).expect("it is there all the time");
    assert!(value == (1, 101) || value == (2, 102), "{value:?}");
    writer.join().expect("it ends");
}

fn reused() {
    // One place, which goes from an element of one bucket to one of another.
    let table = table(1);
    table.insert(&key(1), 0, NEVER, fill(1));
    let remover = {
        let table = table.clone();
        thread::spawn(move || assert!(table.remove(&key(1), 0)))
    };
    let inserter = {
        let table = table.clone();
        thread::spawn(move || _ = table.insert(&key(2), 0, NEVER, fill(2)))
    };
    if let Some((value, _)) = table.lookup(&key(1), 0, read) {
        assert_eq!(value, (1, 101));
    }
    remover.join().expect("it ends");
    inserter.join().expect("it ends");
}

fn listed() {
    let table = table(1);
    table.insert(&key(1), 0, NEVER, fill(1));
    let writer = {
        let table = table.clone();
        thread::spawn(move || {
            table.remove(&key(1), 0);
            table.insert(&key(2), 0, NEVER, fill(2));
        })
    };
    for element in table.elements(0, read) {
        let n = u32::from_ne_bytes(element.key.as_ref().try_into().expect("four bytes"));
        assert_eq!(element.read, (u64::from(n), u64::from(n) + 100));
    }
    writer.join().expect("it ends");
}

fn once() {
    let table = table(2);
    let insert = |table: &Dynamic| table.insert(&key(1), 0, NEVER, fill(1)).expect("there is room");
    let other = {
        let table = table.clone();
        thread::spawn(move || insert(&table))
    };
    let (slot, made) = insert(&table);
    let (other_slot, other_made) = other.join().expect("it ends");
    assert!(made != other_made && slot == other_slot);
    assert_eq!(table.len(), 1);
}

fn limited() {
    let table = table(1);
    let insert = |table: &Dynamic, n| table.insert(&key(n), 0, NEVER, fill(1)).is_some();
    let other = {
        let table = table.clone();
        thread::spawn(move || insert(&table, 1))
    };
    let one = insert(&table, 2);
    let other = other.join().expect("it ends");
    assert!(one || other, "there is room for one");
    assert!(!(one && other) && table.len() == 1);
}

fn expiring() {
    let table = table(2);
    table.insert(&key(1), 0, 5, fill(1));
    let other = {
        let table = table.clone();
        thread::spawn(move || _ = table.insert(&key(2), 0, 10, fill(2)))
    };
    // The round of the search ends while the other one is entered.
    table.make_room(6, 8);
    other.join().expect("it ends");
    assert_eq!(table.len(), 1);
    table.make_room(10, 8);
    assert_eq!(table.len(), 0, "nothing hides from the next search");
}

fn left_once() {
    let table = table(2);
    table.insert(&key(1), 0, NEVER, fill(1));
    let remove = |table: &Dynamic| table.remove_later(&key(1), 0, 10);
    let other = {
        let table = table.clone();
        thread::spawn(move || remove(&table))
    };
    let one = remove(&table);
    assert!(one != other.join().expect("it ends"));
    assert_eq!(table.len(), 1, "its place is not free yet");
    table.make_room(10, 0);
    assert_eq!(table.len(), 0);
}

fn emptied() {
    let table = table(2);
    table.insert(&key(1), 0, NEVER, fill(1));
    let other = {
        let table = table.clone();
        thread::spawn(move || _ = table.insert(&key(2), 0, NEVER, fill(2)))
    };
    table.clear();
    other.join().expect("it ends");
    assert_eq!(table.len() as usize, table.elements(0, read).len());
}
