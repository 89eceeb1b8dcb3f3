// SPDX-License-Identifier: Apache-2.0

//! Owners of tuples (`crates/conntrack/src/table/directory.rs`).

#[path = "../../crates/conntrack/src/table/directory.rs"]
mod product;

use product::Directory;

use crate::Model;
use crate::sync::{Arc, thread};

pub const MODELS: &[Model] = &[
    Model::new("directory: of two who enter a tuple at most one has it", 9, at_most_one),
    Model::new("directory: a released tuple may be entered by others", 9, given_back),
    Model::new("directory: a tuple is found as long as it is entered", 9, found),
];

const HASH: u64 = 0x1200;

fn at_most_one() {
    let directory = Arc::new(Directory::new(0));
    let other = {
        let directory = directory.clone();
        thread::spawn(move || directory.claim(HASH, 1).is_ok())
    };
    let one = directory.claim(HASH, 0).is_ok();
    let other = other.join().expect("it ends");
    assert!(!(one && other));
    let expected = if one { Some(0) } else { other.then_some(1) };
    assert_eq!(directory.find(HASH), expected);
}

fn given_back() {
    let directory = Arc::new(Directory::new(0));
    directory.claim(HASH, 0).expect("it is free");
    let other = {
        let directory = directory.clone();
        thread::spawn(move || directory.claim(HASH, 1).is_ok())
    };
    directory.release(HASH, 0);
    let other = other.join().expect("it ends");
    assert_eq!(directory.find(HASH), other.then_some(1));
    assert_eq!(directory.claim(HASH, 0).is_ok(), !other);
}

fn found() {
    let directory = Arc::new(Directory::new(0));
    // Another tuple, in a word before.
    directory.claim(HASH + 0x100, 1).expect("there is room");
    directory.claim(HASH, 0).expect("it is free");
    let other = {
        let directory = directory.clone();
        thread::spawn(move || {
            directory.release(HASH + 0x100, 1);
            assert!(directory.claim(HASH, 1).is_err());
            directory.claim(HASH + 0x200, 1).expect("there is room");
        })
    };
    assert_eq!(directory.find(HASH), Some(0));
    other.join().expect("it ends");
}
