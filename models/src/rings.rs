// SPDX-License-Identifier: Apache-2.0

//! What workers hand over and leave for one another (`crates/daemon/src/ring.rs`, `bell.rs`,
//! `inbox.rs`).

#[path = "../../crates/daemon/src/bell.rs"]
mod bell;
#[path = "../../crates/daemon/src/inbox.rs"]
mod inbox;
#[path = "../../crates/daemon/src/ring.rs"]
mod ring;

use bell::Bell;
use inbox::Inbox;
use ring::with_bytes;

use crate::Model;
use crate::sync::{Arc, AtomicBool, thread};
use std::sync::atomic::Ordering::SeqCst;

pub const MODELS: &[Model] = &[
    Model::new(
        "rings: frames come out whole and in order, around the end of the ring",
        3,
        in_order,
    ),
    Model::new("rings: a worker that is given something does not sleep", 3, woken),
    Model::new("inboxes: who waits is woken for every message", 3, told),
];

fn in_order() {
    // Room for two frames of 8 bytes (24 bytes each), and a rest that is skipped.
    let (mut giver, mut taker) = with_bytes::<u32>(64, 2);
    let other = thread::spawn(move || {
        let mut given = 0;
        for _ in 0..4 {
            // What finds no room is refused, and lost.
            given += u32::from(giver.give(given, &[given as u8; 8]));
        }
        given
    });
    let mut taken = 0;
    let mut take = |taker: &mut ring::Taker<u32>| {
        for i in 0..taker.fetch() {
            let (known, frame) = taker.frame(i).expect("a frame");
            assert_eq!((known, frame), (taken, &[taken as u8; 8][..]));
            taken += 1;
        }
        taker.release();
    };
    take(&mut taker);
    take(&mut taker);
    let given = other.join().expect("it ends");
    while !taker.is_empty() {
        take(&mut taker);
    }
    assert_eq!(given, taken);
}

fn woken() {
    let (mut giver, taker) = with_bytes::<u32>(64, 2);
    let bell = Arc::new(Bell::default());
    // Stands for the descriptor that the worker waits for.
    let rung = Arc::new(AtomicBool::new(false));
    let other = {
        let (bell, rung) = (bell.clone(), rung.clone());
        thread::spawn(move || {
            assert!(giver.give(1, &[1]));
            if bell.is_to_be_woken() {
                rung.store(true, SeqCst);
            }
        })
    };
    let sleeps = bell.fall_asleep(|| taker.is_empty());
    other.join().expect("it ends");
    assert!(!sleeps || rung.load(SeqCst), "it sleeps, and nobody wakes it");
}

fn told() {
    let inbox = Arc::new(Inbox::new().expect("an inbox"));
    let other = {
        let inbox = inbox.clone();
        thread::spawn(move || inbox.send(1))
    };
    let third = {
        let inbox = inbox.clone();
        thread::spawn(move || inbox.send(2))
    };
    let mut taken = Vec::new();
    // Once before all have been sent.
    taken.extend(inbox.take());
    other.join().expect("it ends");
    third.join().expect("it ends");
    // Who waits now is woken as long as there is something.
    while taken.len() < 2 {
        assert!(inbox.event.is_signalled(), "{taken:?}");
        taken.extend(inbox.take());
    }
    taken.sort_unstable();
    assert_eq!((taken, inbox.take()), (vec![1, 2], None));
}
