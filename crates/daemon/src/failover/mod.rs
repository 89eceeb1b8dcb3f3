// SPDX-License-Identifier: Apache-2.0

//! The other firewall of a pair: connections go to it, and are taken over from it, by the protocol
//! of conntrackd ([`penstock_ctsync`]).
//!
//! | file | is |
//! | --- | --- |
//! | `exchange` | the thread: events, datagrams and requests, one after the other |
//! | `announce` | addresses are announced after a takeover |
//! | `bulk` | the table is told part by part |
//! | `take_over` | connections of the peer are entered into the tables of the workers |
//! | `convert` | connections of the table as messages have them, and back |
//! | [`links`] | sockets, and which of them is used |

mod announce;
mod bulk;
mod convert;
mod exchange;
pub(crate) mod links;
mod take_over;

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use penstock_ctsync::config::Config;
use penstock_print::show::peer::PeerStatus;

use crate::connections::Tables;
use crate::devices::taken_ports::TakenPorts;
use crate::failover::announce::Announcer;
use crate::failover::exchange::Exchange;
use crate::failover::links::Links;
use crate::peer_watcher::{PeerWatcher, Waker};
use crate::requests::inbox::Inbox;
use crate::seccomp::{self, Thread};

/// What `penstock failover` asks for, as conntrackd's script for keepalived does by `conntrackd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// This firewall has the addresses from now on: `conntrackd -c`, `-f`, `-R` and `-B`.
    Primary,
    /// The other one has them: `conntrackd -t` and `-n`.
    Backup,
    /// This one cannot have them: `conntrackd -t`.
    Fault,
}

impl Transition {
    /// By the words of the command line.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "primary" => Some(Transition::Primary),
            "backup" => Some(Transition::Backup),
            "fault" => Some(Transition::Fault),
            _ => None,
        }
    }
}

/// What is asked of the thread.
pub(crate) enum Request {
    /// A transition; answered with what came of it, or the error.
    Transition(Transition, Sender<Result<String, String>>),
    /// How it is.
    Status(Sender<PeerStatus>),
    /// The end.
    Stop,
}

/// The exchange with the peer, for those who ask.
pub(crate) struct Failover {
    asked: Arc<Inbox<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Failover {
    /// Begins, on links that are open.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub(crate) fn begin(
        config: &Config,
        links: Links,
        tables: Arc<Tables>,
        ports: Arc<TakenPorts>,
    ) -> io::Result<Self> {
        let asked = Arc::new(Inbox::new()?);
        let waker = Arc::new(Waker::new()?);
        let (watcher, told) =
            PeerWatcher::new(config.filter.clone(), config.expectations.clone(), waker);
        let announcer = Announcer::new(config.announce, ports)?;
        let exchange = Exchange::new(
            config.clone(),
            links,
            tables.clone(),
            told,
            asked.clone(),
            announcer,
            crate::now(),
        );
        let thread = Builder::new().name("peer".into()).spawn(move || {
            seccomp::enter(Thread::Peer);
            exchange.run();
        })?;
        tables.tell_peer(watcher);
        Ok(Failover { asked, thread: Mutex::new(Some(thread)) })
    }

    /// Does what a transition needs; the answer is what came of it, or the error.
    pub(crate) fn transition(&self, transition: Transition) -> Result<String, String> {
        /// How long many connections may take.
        const PATIENCE: Duration = Duration::from_secs(300);
        let (to, answer) = channel();
        self.asked.send(Request::Transition(transition, to));
        let answer = answer.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|_| Err("the exchange with the peer does not answer".into()))
    }

    /// How it is; `None` if the thread does not answer.
    pub(crate) fn status(&self) -> Option<PeerStatus> {
        /// How long it may take: connections may be taken over.
        const PATIENCE: Duration = Duration::from_secs(5);
        let (to, answer) = channel();
        self.asked.send(Request::Status(to));
        answer.recv_timeout(PATIENCE).ok()
    }

    /// Ends.
    pub(crate) fn end(&self) {
        self.asked.send(Request::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that has panicked has said so.
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}
