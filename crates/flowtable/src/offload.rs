// SPDX-License-Identifier: Apache-2.0

//! Devices that forward flows themselves (`flags offload`, `nf_flow_table_offload.c`), and the
//! worker that tells them.
//!
//! A flow runs in software until the device has taken it, and again when the device gives it up:
//! refusing, a full table and a full queue lose nothing. Workers only put
//! [`Request`]s into a queue of bounded length and takes [`Answer`]s from another; the worker, on a
//! thread of its own, does what takes time.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::arrival::Arrival;
use crate::key::Key;
use crate::xmit::Xmit;

/// One direction of a flow, in the form for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareHalf {
    /// Addresses, ports and protocols of packets; [`Key::arrival`] means nothing here.
    pub key: Key,
    /// Where they arrive.
    pub arrival: Arrival,
    /// Addresses and ports with which they leave.
    pub leaves: Key,
    /// How they leave.
    pub xmit: Xmit,
}

/// A flow in the form for devices: packets that need software (a FIN, a reset, a fragment, an
/// expiring TTL) must reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareFlow {
    /// Original and reply direction.
    pub halves: [HardwareHalf; 2],
}

/// What a device has forwarded of a flow since it was asked last, or took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareCounts {
    /// Packets and bytes from the network header on, of each direction.
    pub packets: [(u64, u64); 2],
    /// Time of the latest packet, nanoseconds; 0 for none.
    pub used: u64,
}

/// Why a device did not take a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadError {
    /// It cannot do what the flow needs.
    Unsupported,
    /// It has no room.
    Full,
}

/// A device that can forward flows. Flows are named by a cookie that is used once.
pub trait FlowOffload: Send {
    /// Takes a flow (`FLOW_CLS_REPLACE`).
    ///
    /// # Errors
    /// It does not; then the flow stays in software and is offered again later.
    fn add(&mut self, cookie: u64, flow: &HardwareFlow) -> Result<(), OffloadError>;

    /// Gives a flow up (`FLOW_CLS_DESTROY`): when this returns, all its packets come to software.
    /// What it counted last.
    fn delete(&mut self, cookie: u64) -> HardwareCounts;

    /// What it has forwarded of a flow (`FLOW_CLS_STATS`); `None` if it no longer has the flow.
    fn statistics(&mut self, cookie: u64) -> Option<HardwareCounts>;
}

/// What the worker is to do.
#[derive(Clone, Debug)]
pub enum Request {
    /// [`FlowOffload::add`].
    Add(u64, Box<HardwareFlow>),
    /// [`FlowOffload::delete`].
    Delete(u64),
    /// [`FlowOffload::statistics`].
    Statistics(u64),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Answer to [`Request::Add`].
    Added(u64, Result<(), OffloadError>),
    /// Answer to [`Request::Delete`].
    Deleted(u64, HardwareCounts),
    /// Answer to [`Request::Statistics`].
    Statistics(u64, Option<HardwareCounts>),
}

/// The other end of an [`Offloader`]: does what is asked, one after the other.
pub struct Worker {
    requests: Receiver<Request>,
    answers: SyncSender<Answer>,
    device: Box<dyn FlowOffload>,
}

impl Worker {
    /// Waits for the next request and serves it. `false` when the sender is gone.
    pub fn step(&mut self) -> bool {
        self.requests.recv().is_ok_and(|request| self.serve(&request))
    }

    /// Does what is asked for now, without waiting.
    pub fn step_all(&mut self) {
        while let Ok(request) = self.requests.try_recv() {
            self.serve(&request);
        }
    }

    fn serve(&mut self, request: &Request) -> bool {
        let answer = match request {
            Request::Add(cookie, flow) => Answer::Added(*cookie, self.device.add(*cookie, flow)),
            Request::Delete(cookie) => Answer::Deleted(*cookie, self.device.delete(*cookie)),
            Request::Statistics(cookie) => {
                Answer::Statistics(*cookie, self.device.statistics(*cookie))
            }
        };
        self.answers.send(answer).is_ok()
    }
}

/// Where flows for a device are put; dropping it ends the worker.
#[derive(Debug)]
pub struct Offloader {
    requests: Option<SyncSender<Request>>,
    answers: Receiver<Answer>,
    /// Requests without answer: never more than either queue takes, so that the worker does not
    /// wait to answer.
    pending: usize,
    length: usize,
    thread: Option<JoinHandle<()>>,
}

impl Offloader {
    /// Both ends, the worker to be run by the caller. At most `length` requests wait.
    pub fn pair(device: Box<dyn FlowOffload>, length: usize) -> (Offloader, Worker) {
        let (to, requests) = sync_channel(length);
        let (answers, from) = sync_channel(length);
        let offloader =
            Offloader { requests: Some(to), answers: from, pending: 0, length, thread: None };
        (offloader, Worker { requests, answers, device })
    }

    /// With the worker on its own thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(device: Box<dyn FlowOffload>, length: usize) -> std::io::Result<Offloader> {
        Self::start_with(device, length, || {})
    }

    /// With the worker on its own thread, which does `first` before anything else.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start_with(
        device: Box<dyn FlowOffload>,
        length: usize,
        first: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Offloader> {
        let (mut offloader, mut worker) = Self::pair(device, length);
        let thread = std::thread::Builder::new().name("flow-offload".into());
        offloader.thread = Some(thread.spawn(move || {
            first();
            while worker.step() {}
        })?);
        Ok(offloader)
    }

    /// Puts a request into the queue; `false` if that is full.
    pub fn ask(&mut self, request: Request) -> bool {
        let Some(requests) = self.requests.as_ref().filter(|_| self.pending < self.length) else {
            return false;
        };
        match requests.try_send(request) {
            Ok(()) => {
                self.pending += 1;
                true
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// The next answer, if there is one.
    pub fn answer(&mut self) -> Option<Answer> {
        if self.pending == 0 {
            return None;
        }
        match self.answers.try_recv() {
            Ok(answer) => {
                self.pending -= 1;
                Some(answer)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Requests that have no answer yet.
    pub fn pending(&self) -> usize {
        self.pending
    }
}

impl Drop for Offloader {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It does what waits, and ends; there is room for all its answers.
            let _ = thread.join();
        }
    }
}

/// A device for tests, which keeps flows in memory and does what its fields say.
#[derive(Debug, Default)]
pub struct TestDevice {
    /// Flows that it has, with what it counted of them.
    pub flows: HashMap<u64, (HardwareFlow, HardwareCounts)>,
    /// Flows that it has room for; 0 for any number.
    pub room: usize,
    /// Refuses the first of so many offered flows; 0 for none.
    pub refuse_every: u64,
    /// Forgets the flow of the first of so many statistics requests; 0 for none.
    pub forget_every: u64,
    /// How long it takes for everything.
    pub delay: std::time::Duration,
    /// How many were offered so far.
    pub offered: u64,
    /// How often it was asked for statistics so far.
    pub asked: u64,
}

/// Whether it is the turn of one of `every`.
fn turn(count: &mut u64, every: u64) -> bool {
    *count += 1;
    every != 0 && (*count - 1).is_multiple_of(every)
}

impl FlowOffload for TestDevice {
    fn add(&mut self, cookie: u64, flow: &HardwareFlow) -> Result<(), OffloadError> {
        std::thread::sleep(self.delay);
        if turn(&mut self.offered, self.refuse_every) {
            return Err(OffloadError::Unsupported);
        }
        if self.room != 0 && self.flows.len() >= self.room {
            return Err(OffloadError::Full);
        }
        self.flows.insert(cookie, (*flow, HardwareCounts::default()));
        Ok(())
    }

    fn delete(&mut self, cookie: u64) -> HardwareCounts {
        std::thread::sleep(self.delay);
        self.flows.remove(&cookie).map(|(_, counts)| counts).unwrap_or_default()
    }

    fn statistics(&mut self, cookie: u64) -> Option<HardwareCounts> {
        std::thread::sleep(self.delay);
        if turn(&mut self.asked, self.forget_every) {
            self.flows.remove(&cookie);
        }
        self.flows.get(&cookie).map(|(_, counts)| *counts)
    }
}

/// Several owners of one device, so that a test can look at it meanwhile.
impl<T: FlowOffload> FlowOffload for std::sync::Arc<std::sync::Mutex<T>> {
    fn add(&mut self, cookie: u64, flow: &HardwareFlow) -> Result<(), OffloadError> {
        self.lock().unwrap_or_else(|e| e.into_inner()).add(cookie, flow)
    }

    fn delete(&mut self, cookie: u64) -> HardwareCounts {
        self.lock().unwrap_or_else(|e| e.into_inner()).delete(cookie)
    }

    fn statistics(&mut self, cookie: u64) -> Option<HardwareCounts> {
        self.lock().unwrap_or_else(|e| e.into_inner()).statistics(cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> HardwareFlow {
        let key = Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1, 2], 17);
        let xmit = Xmit::neighbour(2, [2; 6], [3; 6], 1500);
        let half = HardwareHalf { key, arrival: Arrival::on(1), leaves: key, xmit };
        HardwareFlow { halves: [half; 2] }
    }

    #[test]
    fn a_full_queue_is_reported_and_answers_free_slots() {
        let (mut offloader, mut worker) = Offloader::pair(Box::new(TestDevice::default()), 2);
        assert!(
            offloader.ask(Request::Add(1, flow().into()))
                && offloader.ask(Request::Add(2, flow().into()))
        );
        assert!(!offloader.ask(Request::Add(3, flow().into())));
        worker.step_all();
        // Not before they were taken: the worker must never wait to answer.
        assert!(!offloader.ask(Request::Add(3, flow().into())));
        assert_eq!(offloader.answer(), Some(Answer::Added(1, Ok(()))));
        assert!(offloader.ask(Request::Statistics(1)));
        worker.step_all();
        assert_eq!(offloader.answer(), Some(Answer::Added(2, Ok(()))));
        assert_eq!(
            offloader.answer(),
            Some(Answer::Statistics(1, Some(HardwareCounts::default())))
        );
        assert_eq!((offloader.answer(), offloader.pending()), (None, 0));
    }

    #[test]
    fn an_offload_thread_answers_and_ends() {
        let mut offloader = Offloader::start(Box::new(TestDevice::default()), 8).unwrap();
        assert!(offloader.ask(Request::Add(1, flow().into())) && offloader.ask(Request::Delete(1)));
        let mut answers = Vec::new();
        while answers.len() < 2 {
            answers.extend(offloader.answer());
            std::thread::yield_now();
        }
        assert_eq!(
            answers,
            [Answer::Added(1, Ok(())), Answer::Deleted(1, HardwareCounts::default())]
        );
        assert!(offloader.ask(Request::Add(2, flow().into())));
        drop(offloader);
    }

    #[test]
    fn the_test_device_refuses_forgets_and_fills_up() {
        let mut device =
            TestDevice { refuse_every: 3, room: 2, forget_every: 2, ..TestDevice::default() };
        let added: Vec<_> = (0..5).map(|n| device.add(n, &flow())).collect();
        let (no, full) = (Err(OffloadError::Unsupported), Err(OffloadError::Full));
        assert_eq!(added, [no, Ok(()), Ok(()), no, full]);
        assert_eq!(device.statistics(1), None);
        assert_eq!(device.statistics(2), Some(HardwareCounts::default()));
    }
}
