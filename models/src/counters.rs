// SPDX-License-Identifier: Apache-2.0

//! What rules count and limit (`crates/program/src/state`).

#[path = "../../crates/program/src/state/connlimit.rs"]
mod connlimit;
#[path = "../../crates/program/src/state/counter.rs"]
mod counter;
#[path = "../../crates/program/src/state/limit.rs"]
mod limit;

use connlimit::{ConnCountState, join, leave};
use counter::CounterState;
use limit::{Bucket, LimitState};

use crate::Model;
use crate::cells::WorkerNumber;
use crate::operand::{Limit, LimitType};
use crate::sync::{Arc, thread};

pub const MODELS: &[Model] = &[
    Model::new("counters: two who reset while a worker counts are told all of it, once", 2, reset),
    Model::new("counters: reads are never negative, nor more than was counted", 3, read),
    Model::new("limits: of two packets one is within a limit of one", 3, within),
    Model::new("connection limits: who leaves takes nothing from another's count", 3, joined),
];

fn reset() {
    let counter = Arc::new(CounterState::new(10, 100));
    let worker = {
        let counter = counter.clone();
        thread::spawn(move || {
            counter.count(WorkerNumber(0), 30);
        })
    };
    let other = {
        let counter = counter.clone();
        thread::spawn(move || {
            counter.count(WorkerNumber(1), 30);
            counter.reset()
        })
    };
    let told = [counter.reset(), other.join().expect("it ends")];
    worker.join().expect("it ends");
    let left = counter.read();
    let all = told.iter().fold(left, |sum, told| (sum.0 + told.0, sum.1 + told.1));
    assert_eq!(all, (12, 160), "{told:?}, then {left:?}");
}

fn read() {
    let counter = Arc::new(CounterState::new(1, 10));
    let worker = {
        let counter = counter.clone();
        thread::spawn(move || counter.count(WorkerNumber(0), 10))
    };
    let other = {
        let counter = counter.clone();
        thread::spawn(move || counter.reset())
    };
    let (packets, bytes) = counter.read();
    assert!(packets <= 2 && bytes <= 20, "{packets} packets, {bytes} bytes");
    worker.join().expect("it ends");
    other.join().expect("it ends");
}

fn within() {
    let limit = Limit { rate: 1, unit: 1, burst: 1, kind: LimitType::Packets, over: false };
    let bucket = Bucket::new(&limit).expect("a limit");
    let state = Arc::new(LimitState::default());
    let other = {
        let state = state.clone();
        thread::spawn(move || state.take(&bucket, 1, 5))
    };
    let one = state.take(&bucket, 1, 5);
    assert!(one != other.join().expect("it ends"));
}

fn joined() {
    let state = Arc::new(ConnCountState::default());
    let (count, id) = join(state.word());
    assert_eq!(count, 1);
    let other = {
        let state = state.clone();
        thread::spawn(move || {
            let (count, id) = join(state.word());
            assert!((1..=2).contains(&count));
            leave(state.word(), id);
        })
    };
    leave(state.word(), id);
    other.join().expect("it ends");
    assert_eq!(join(state.word()).0, 1);
}
