// SPDX-License-Identifier: Apache-2.0

//! Counters: several workers count at once, and nothing is lost while others read and reset.

use std::sync::atomic::{AtomicBool, Ordering};

use penstock_program::WorkerNumber;
use penstock_program::expr::{Counter, Expr};
use penstock_program::state::{CounterState, State};

fn worker(number: usize) -> WorkerNumber {
    WorkerNumber::new(number).unwrap()
}

#[test]
fn counters_sum_over_workers() {
    let counter = CounterState::new(10, 1000);
    for number in [0, 3, 63, 3] {
        counter.count(worker(number), 60);
    }
    counter.add(5, 500);
    assert_eq!(counter.read(), (19, 1740));
    assert_eq!(counter.reset(), (19, 1740));
    assert_eq!(counter.read(), (0, 0));
    counter.count(worker(3), 7);
    assert_eq!(counter.reset(), (1, 7));
}

#[test]
fn a_new_counter_in_a_reused_cell_begins_at_its_value() {
    for round in 0..3 {
        let counters: Vec<_> = (0..600).map(|n| CounterState::new(n, 2 * n)).collect();
        for (n, counter) in (0..).zip(&counters) {
            assert_eq!(counter.read(), (n, 2 * n), "round {round}");
            counter.count(worker(round), n);
            assert_eq!(counter.read(), (n + 1, 3 * n), "round {round}");
        }
    }
}

#[test]
fn resets_take_each_packet_once_while_workers_count() {
    const WORKERS: u64 = 3;
    const PACKETS: u64 = 200_000;
    let state = Expr::Counter(Counter { packets: 0, bytes: 0 }).new_state(0).unwrap();
    let State::Counter(counter) = &state else { panic!("it is a counter's") };
    let over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|n| {
                let worker = worker(20 + n as usize);
                scope.spawn(move || (0..PACKETS).for_each(|_| counter.count(worker, 60)))
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut told = (0, 0);
                    while !over.load(Ordering::Acquire) {
                        let (packets, bytes) = counter.reset();
                        assert!(packets <= WORKERS * PACKETS && bytes <= WORKERS * PACKETS * 60);
                        assert!(counter.read().0 <= WORKERS * PACKETS);
                        told = (told.0 + packets, told.1 + bytes);
                    }
                    told
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Ordering::Release);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    let (packets, bytes) = told.into_iter().fold(counter.reset(), |a, b| (a.0 + b.0, a.1 + b.1));
    assert_eq!((packets, bytes), (WORKERS * PACKETS, WORKERS * PACKETS * 60));
}
