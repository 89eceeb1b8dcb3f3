// SPDX-License-Identifier: Apache-2.0

//! What programs tell: a thread reads the ring and hands records to a worker, which does with them
//! what it does with packets of its own that rules log or trace.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use penstock_bpf::RecordRing;
use penstock_ebpf::rules::Records;
use penstock_io::device::wait;

use crate::log;
use crate::requests::Request;
use crate::requests::workers::Workers;
use crate::seccomp::{self, Thread};

/// Records at once.
const BATCH: usize = 256;

/// Milliseconds after which losses are looked for, with records or without.
const IDLE: i32 = 1000;

/// How often losses are told at most.
const PAUSE: Duration = Duration::from_secs(10);

/// Begins to read.
pub(super) fn begin(records: Arc<Records>, workers: Arc<Workers>) -> io::Result<()> {
    let ring = records.reader()?;
    let thread = std::thread::Builder::new().name("records".into());
    thread.spawn(move || {
        seccomp::enter(Thread::Records);
        read(&records, ring, &workers);
    })?;
    Ok(())
}

fn read(records: &Records, mut ring: RecordRing, workers: &Workers) {
    let (mut ready, mut lost) = (Vec::new(), Lost::default());
    loop {
        let mut batch = Vec::new();
        ring.read(BATCH, |bytes| batch.extend(records.decode(bytes)));
        lost.add(records.take_lost());
        if batch.is_empty() {
            if let Err(e) = wait(&[ring.as_fd()], &mut ready, IDLE) {
                log(format_args!("waiting for what programs tell: {e}"));
                std::thread::sleep(Duration::from_millis(IDLE as u64));
            }
            continue;
        }
        // The next ones wait in the ring, which is bounded.
        let (done, answer) = channel();
        workers.tell_each([Request::Records(batch, done)]);
        if answer.recv().is_err() {
            return;
        }
    }
}

/// Records that found no room.
#[derive(Default)]
struct Lost {
    count: u64,
    told: Option<Instant>,
}

impl Lost {
    fn add(&mut self, count: u64) {
        self.count += count;
        if self.count > 0 && self.told.is_none_or(|told| told.elapsed() > PAUSE) {
            log(format_args!("{} records of rules that log or trace were LOST", self.count));
            *self = Lost { count: 0, told: Some(Instant::now()) };
        }
    }
}
