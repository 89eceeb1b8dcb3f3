// SPDX-License-Identifier: Apache-2.0

//! Tells the guardian that packets are still processed: all workers answer.
//!
//! A process that is stopped, or has deadlocked workers, turns its ports into black holes. Without
//! a beat in time the guardian ends it, and returns the devices.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::GuardianHandle;
use crate::requests::Request;
use crate::requests::workers::Workers;
use crate::seccomp::{self, Thread};

/// Beats within the patience of the guardian.
const BEATS: u32 = 5;

/// The thread that asks and tells.
pub(crate) struct Heartbeat {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    /// Begins. The guardian waits for `patience` at most from one beat to the next.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn begin(
        workers: Arc<Workers>,
        handle: GuardianHandle,
        patience: Duration,
    ) -> io::Result<Heartbeat> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("heartbeat".into()).spawn(move || {
            seccomp::enter(Thread::Heartbeat);
            loop {
                if workers.ask(Request::Alive, patience).is_some() {
                    handle.beat(patience);
                }
                // Disconnected, too, it is over.
                if !matches!(
                    stopped.recv_timeout(patience / BEATS),
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                ) {
                    return;
                }
            }
        })?;
        Ok(Heartbeat { stop, thread })
    }

    /// Ends. One that has panicked has said so.
    pub(crate) fn end(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}
