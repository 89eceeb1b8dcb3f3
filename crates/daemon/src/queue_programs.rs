// SPDX-License-Identifier: Apache-2.0

//! Which programs of the configuration get packets of which queues.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use crate::config::QueueConfig;
use crate::queue_server::{Place, serve};
use crate::requests::workers::Workers;

/// All of them. A queue that had a program once keeps its thread.
pub(crate) struct QueuePrograms {
    workers: Arc<Workers>,
    places: Mutex<BTreeMap<u16, Arc<Place>>>,
}

impl QueuePrograms {
    /// None yet.
    pub(crate) fn new(workers: Arc<Workers>) -> Self {
        QueuePrograms { workers, places: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the ones from now on, and no others. Those that stay keep their connections.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn set(&self, queues: &[QueueConfig]) -> io::Result<()> {
        let mut places = self.lock();
        for (num, place) in &*places {
            if queues.iter().all(|queue| queue.num != *num) {
                place.set(None);
            }
        }
        for QueueConfig { num, socket } in queues {
            if let Some(place) = places.get(num) {
                place.set(Some(socket));
                continue;
            }
            let place = Arc::new(Place::default());
            place.set(Some(socket));
            let (num, own, workers) = (*num, place.clone(), self.workers.clone());
            Builder::new().name("queue".into()).spawn(move || serve(num, &own, &workers))?;
            places.insert(num, place);
        }
        Ok(())
    }

    /// Whether a program has a queue, or is about to.
    pub(crate) fn has(&self, num: u16) -> bool {
        self.lock().get(&num).is_some_and(|place| place.is_taken())
    }
}
