// SPDX-License-Identifier: Apache-2.0

//! All workers, for those who ask them something or tell them.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::requests::Request;
use crate::requests::inbox::Inbox;

/// The inboxes of all workers, in their order; there is at least one.
pub(crate) struct Workers {
    inboxes: Vec<Arc<Inbox<Request>>>,
    /// Held while a request goes to all workers, so that all get requests in the same order.
    order: Mutex<()>,
}

/// The first line of a dump of connections.
const HEAD: &str = "penstock-conntrack 1\n";

impl Workers {
    /// So many, who do not work yet.
    pub(crate) fn new(count: usize) -> std::io::Result<Self> {
        let inboxes = (0..count.max(1))
            .map(|_| Inbox::new().map(Arc::new))
            .collect::<std::io::Result<_>>()?;
        Ok(Workers { inboxes, order: Mutex::default() })
    }

    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    /// The inboxes.
    pub(crate) fn inboxes(&self) -> &[Arc<Inbox<Request>>] {
        &self.inboxes
    }

    fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all.
    pub(crate) fn tell(&self, mut request: impl FnMut() -> Request) {
        let _order = self.order();
        self.inboxes.iter().for_each(|inbox| inbox.send(request()));
    }

    /// Tells each something else, as long as there is something.
    pub(crate) fn tell_each(&self, requests: impl IntoIterator<Item = Request>) {
        let _order = self.order();
        self.inboxes.iter().zip(requests).for_each(|(inbox, request)| inbox.send(request));
    }

    /// Asks all; the answers in their order, or `None` if one does not answer in time.
    pub(crate) fn ask<T>(
        &self,
        request: impl Fn(Sender<T>) -> Request,
        patience: Duration,
    ) -> Option<Vec<T>> {
        let until = Instant::now() + patience;
        let order = self.order();
        let answers: Vec<_> = self
            .inboxes
            .iter()
            .map(|inbox| {
                let (to, answer) = channel();
                inbox.send(request(to));
                answer
            })
            .collect();
        drop(order);
        let left = || until.saturating_duration_since(Instant::now());
        answers.into_iter().map(|answer| answer.recv_timeout(left()).ok()).collect()
    }

    /// Asks one, by its number.
    pub(crate) fn ask_one<T>(
        &self,
        worker: usize,
        request: impl FnOnce(Sender<T>) -> Request,
        patience: Duration,
    ) -> Option<T> {
        let (to, answer) = channel();
        self.inboxes.get(worker)?.send(request(to));
        answer.recv_timeout(patience).ok()
    }
}

/// One dump of those of several workers.
pub(crate) fn whole<S: AsRef<str>>(dumps: &[S]) -> String {
    let rest = |dump: &'_ S| dump.as_ref().strip_prefix(HEAD).unwrap_or(dump.as_ref()).to_owned();
    std::iter::once(HEAD.to_owned()).chain(dumps.iter().map(rest)).collect()
}

/// A dump cut into those of several workers. Whom a connection has announced goes with it.
pub(crate) fn parts(dump: &str, workers: usize) -> Vec<String> {
    use std::collections::HashMap;
    let field = |line: &str, key: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(key)?.parse::<u32>().ok())
    };
    let lines = || dump.lines().skip(1);
    let masters: HashMap<u32, u32> = lines()
        .filter(|line| line.starts_with("flow "))
        .filter_map(|line| Some((field(line, "id=")?, field(line, "master=")?)))
        .collect();
    let first_of = |mut id: u32| {
        // There are no circles of masters; a dump that has one is cut anywhere.
        for _ in 0..masters.len() {
            match masters.get(&id) {
                Some(master) => id = *master,
                None => break,
            }
        }
        id
    };
    let mut parts = vec![HEAD.to_owned(); workers.max(1)];
    for line in lines() {
        let key = if line.starts_with("expect ") { "master=" } else { "id=" };
        let worker = field(line, key).map_or(0, |id| first_of(id) as usize % parts.len());
        parts[worker].push_str(line);
        parts[worker].push('\n');
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_dump_keeps_children_with_their_masters() {
        let lines = [
            "flow id=4 proto=6",
            "flow id=7 proto=6 master=4",
            "flow id=5 proto=6",
            "flow id=9 proto=17 master=7",
            "expect master=9 x",
            "expect master=5 y",
        ];
        let dump = format!("{HEAD}{}\n", lines.join("\n"));
        let cut = parts(&dump, 2);
        let of = |lines: &[&str]| format!("{HEAD}{}\n", lines.join("\n"));
        assert_eq!(cut, [of(&[lines[0], lines[1], lines[3], lines[4]]), of(&[lines[2], lines[5]])]);
        let again = whole(&cut);
        assert_eq!(again.lines().count(), lines.len() + 1);
        assert_eq!(parts(&again, 1), std::slice::from_ref(&again));
    }
}
