// SPDX-License-Identifier: Apache-2.0

//! Programs of the host that watch the traffic of a TAP (tcpdump(8)): as long as there are any,
//! workers show them the frames of the port.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use penstock_io::device::{Mirror, MirrorTx};
use penstock_netlink::{PacketSocket, PacketSockets};

use super::{KernelSync, PATIENCE};
use crate::log;
use crate::processor_time;
use crate::requests::Request;

/// Finds those who listen.
pub(crate) struct Listeners {
    /// `None` if the kernel does not tell of packet sockets.
    sockets: Option<PacketSockets>,
    due: Instant,
    /// Indexes of TAPs on which frames cannot be shown to those who listen now.
    refused: HashSet<u32>,
}

impl Listeners {
    /// In the network namespace of the thread.
    pub(crate) fn new() -> Self {
        let sockets = PacketSockets::open().and_then(|mut all| all.list().map(|_| all));
        let sockets = sockets.inspect_err(|e| {
            log(format_args!("packet sockets: {e}: tcpdump sees frames of the host alone"))
        });
        Listeners { sockets: sockets.ok(), due: Instant::now(), refused: HashSet::new() }
    }

    /// How long until it looks again; `None` for never.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.sockets.is_some().then(|| self.due.saturating_duration_since(Instant::now()))
    }

    /// Those who watch traffic, at the times when it looks.
    fn look(&mut self) -> Option<Vec<PacketSocket>> {
        /// Time between two looks, and the part of a processor that they may take.
        const PAUSE: Duration = Duration::from_millis(200);
        const SHARE: u32 = 50;
        if self.due > Instant::now() {
            return None;
        }
        let before = processor_time::of_this_thread();
        let all = self.sockets.as_mut()?.list();
        let took = processor_time::of_this_thread().saturating_sub(before);
        self.due = Instant::now() + PAUSE.max(took * SHARE);
        // What cannot be read now is read the next time.
        Some(all.ok()?.into_iter().filter(PacketSocket::watches).collect())
    }
}

impl KernelSync {
    /// Has workers show the frames of ports whose TAPs are listened to, and of no others.
    pub(super) fn follow_listeners(&mut self) {
        let Some(listeners) = self.listeners.look() else { return };
        for at in 0..self.ports.len() {
            let port = &self.ports[at];
            let tap = port.taken.tap;
            let heard = listeners.iter().any(|listener| [0, tap].contains(&listener.device));
            match (heard, &port.mirror) {
                (true, None) if !self.listeners.refused.contains(&tap) => self.begin_mirror(at),
                (false, Some(_)) => self.end_mirror(at),
                (false, None) => _ = self.listeners.refused.remove(&tap),
                (true, _) => {}
            }
        }
    }

    fn begin_mirror(&mut self, at: usize) {
        let Some(port) = self.ports.get_mut(at) else { return };
        let workers = self.workers.count();
        let opened = Mirror::open(&port.tap, port.taken.tap, workers as u32).and_then(|mirror| {
            let senders: std::io::Result<Vec<MirrorTx>> =
                (0..workers).map(|_| mirror.sender()).collect();
            Ok((mirror, senders?))
        });
        match opened {
            Ok((mirror, senders)) => {
                port.mirror = Some(mirror);
                let senders = senders.into_iter();
                self.workers.tell_each(senders.map(|tx| Request::Mirror(Box::new(tx))));
            }
            Err(e) => {
                self.listeners.refused.insert(port.taken.tap);
                log(format_args!(
                    "{}: frames cannot be shown to those who listen: {e}",
                    port.taken.name
                ));
            }
        }
    }

    /// Nobody listens to a port any more, or it is about to go.
    pub(super) fn end_mirror(&mut self, at: usize) {
        let Some(port) = self.ports.get_mut(at) else { return };
        if port.mirror.take().is_some() {
            let tap = port.taken.tap;
            // What they had is closed here, while they go on.
            drop(self.workers.ask(|to| Request::EndMirror(tap, to), PATIENCE));
        }
    }
}
