// SPDX-License-Identifier: Apache-2.0

//! Frames and messages between workers (`ring.rs` and `waker.rs` in `crates/daemon/src/worker`,
//! `inbox.rs` in `crates/daemon/src/requests`).

#[path = "../../crates/daemon/src/requests/inbox.rs"]
mod inbox;
#[path = "../../crates/daemon/src/worker/ring.rs"]
mod ring;
#[path = "../../crates/daemon/src/worker/waker.rs"]
mod waker;

use inbox::Inbox;
use ring::with_bytes;
use waker::Waker;

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
    let (mut producer, mut consumer) = with_bytes::<u32>(64, 2);
    let other = thread::spawn(move || {
        let mut given = 0;
        for _ in 0..4 {
            // What finds no room is refused, and lost.
            given += u32::from(producer.give(given, &[given as u8; 8]));
        }
        given
    });
    let mut taken = 0;
    let mut take = |consumer: &mut ring::Consumer<u32>| {
        for i in 0..consumer.fetch() {
            let (known, frame) = consumer.frame(i).expect("a frame");
            assert_eq!((known, frame), (taken, &[taken as u8; 8][..]));
            taken += 1;
        }
        consumer.release();
    };
    take(&mut consumer);
    take(&mut consumer);
    let given = other.join().expect("it ends");
    while !consumer.is_empty() {
        take(&mut consumer);
    }
    assert_eq!(given, taken);
}

fn woken() {
    let (mut producer, consumer) = with_bytes::<u32>(64, 2);
    let waker = Arc::new(Waker::default());
    // Stands for the descriptor that the worker waits for.
    let rung = Arc::new(AtomicBool::new(false));
    let other = {
        let (waker, rung) = (waker.clone(), rung.clone());
        thread::spawn(move || {
            assert!(producer.give(1, &[1]));
            if waker.is_to_be_woken() {
                rung.store(true, SeqCst);
            }
        })
    };
    let sleeps = waker.fall_asleep(|| consumer.is_empty());
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
