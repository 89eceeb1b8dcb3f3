// SPDX-License-Identifier: Apache-2.0

//! What the product's files ask of their crates, as little as will do.

/// `penstock_sets::hash`: the hash of a key is the key, so that models say which bucket it is in.
pub mod hash {
    pub const SPREAD: u64 = 1;

    pub fn seed() -> u64 {
        0
    }

    pub fn fold(a: u64, _: u64) -> u64 {
        a
    }
}

/// `penstock_program::cells`, for one counter.
pub mod cells {
    use std::sync::atomic::Ordering::Relaxed;

    use crate::sync::AtomicU64;

    /// Workers of the models.
    const WORKERS: usize = 2;

    #[derive(Clone, Copy)]
    pub struct WorkerNumber(pub usize);

    impl WorkerNumber {
        pub const FIRST: WorkerNumber = WorkerNumber(0);
    }

    pub struct Cells([[AtomicU64; 2]; WORKERS]);

    impl Cells {
        pub fn take() -> (Cells, [u64; 2]) {
            // Who had the cells before has counted.
            let cell = || [5, 7].map(AtomicU64::new);
            let cells = Cells(std::array::from_fn(|_| cell()));
            let before = cells.sum();
            (cells, before)
        }

        pub fn give_back(&self) {}

        pub fn of(&self, worker: WorkerNumber) -> &[AtomicU64; 2] {
            &self.0[worker.0]
        }

        pub fn sum(&self) -> [u64; 2] {
            [0, 1].map(|n| {
                self.0.iter().fold(0, |sum: u64, row| sum.wrapping_add(row[n].load(Relaxed)))
            })
        }
    }
}

/// What `penstock_program::operand` has of limits.
pub mod operand {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LimitType {
        Packets,
        Bytes,
    }

    pub struct Limit {
        pub rate: u64,
        pub unit: u64,
        pub burst: u32,
        pub kind: LimitType,
        pub over: bool,
    }
}

/// `penstock_daemon::event`.
pub mod event {
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::atomic::Ordering::SeqCst;

    use crate::sync::AtomicBool;

    #[derive(Debug)]
    pub struct Event(AtomicBool);

    impl Event {
        pub fn new() -> std::io::Result<Self> {
            Ok(Event(AtomicBool::new(false)))
        }

        pub fn signal(&self) {
            self.0.store(true, SeqCst);
        }

        pub fn clear(&self) {
            self.0.store(false, SeqCst);
        }

        /// Whether who waits for it is woken.
        pub fn is_signalled(&self) -> bool {
            self.0.load(SeqCst)
        }
    }

    impl AsFd for Event {
        fn as_fd(&self) -> BorrowedFd<'_> {
            unreachable!("models wait for no descriptor")
        }
    }
}
