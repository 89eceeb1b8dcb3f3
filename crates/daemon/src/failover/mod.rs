// SPDX-License-Identifier: Apache-2.0

//! The other firewalls: connections go to them, and are taken over from them, by the protocol of
//! conntrackd, by that of Penstock, or by way of NATS ([`penstock_ctsync`]).
//!
//! | file | is |
//! | --- | --- |
//! | `turns` | what the thread does over and over, by whatever protocol |
//! | `exchange` | the thread, for conntrackd's protocol |
//! | `announce` | addresses are announced after a takeover |
//! | `bulk` | the table is told part by part |
//! | `take_over` | connections of the peer are entered into the tables of the workers |
//! | `convert` | connections of the table as messages have them, and back |
//! | `timers` | connections that end later, or are told again |
//! | `sockets` | options and addresses of sockets |
//! | [`links`] | links of conntrackd's protocol, and which of them is used |
//! | [`secure`] | the thread, for the protocol of Penstock |
//! | [`nats`] | the threads of clusters, by way of NATS |
//! | `own_side` | the own tables as records, and what others have told by records is entered |
//! | `external` | what another firewall has told by records |
//! | `elements` | elements of sets that packets change |
//! | `outbox` | records that wait to be sent |
//! | `secret` | files that nobody else may read |

mod announce;
mod bulk;
mod convert;
mod elements;
mod exchange;
mod external;
pub(crate) mod links;
pub(crate) mod nats;
mod outbox;
mod own_side;
mod secret;
pub(crate) mod secure;
mod sockets;
mod take_over;
mod timers;
mod turns;

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use penstock_ctsync::config::{Config, Nats, Secure};
use penstock_ctsync::{ExpectationCache, ExternalCache};
use penstock_print::show::sync::SyncStatus as Status;

use crate::connections::Tables;
use crate::devices::taken_ports::TakenPorts;
use crate::failover::announce::Announcer;
use crate::failover::exchange::Exchange;
use crate::failover::links::Links;
use crate::failover::nats::{NatsExchange, NatsLink, Node};
use crate::failover::own_side::OwnSide;
use crate::failover::secure::{Peer, SecureExchange, SecureLink};
use crate::failover::timers::Purge;
use crate::failover::turns::Turns;
use crate::peer_watcher::{PeerWatcher, Waker};
use crate::requests::inbox::Inbox;
use crate::rules::Rules;
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
    Status(Sender<Status>),
    /// The end.
    Stop,
}

/// What an exchange that ends leaves to another one.
#[derive(Default)]
pub(crate) struct Kept {
    /// What a peer has told by conntrackd's protocol.
    told: Option<Box<(ExternalCache, ExpectationCache)>>,
    /// Peers of the protocol of Penstock, and what they have told.
    peers: Vec<Peer>,
    /// Nodes of a cluster, and what they have told.
    nodes: Vec<Node>,
    purge: Purge,
    /// Of the tables, as peers of Penstock know it.
    generation: Option<u64>,
    /// There was one: peers do not know what happens in between.
    went_on: bool,
}

/// What is open to speak with peers.
pub(crate) enum Opened {
    /// Links of conntrackd's protocol.
    Conntrackd(Links),
    /// The socket of the protocol of Penstock, and who the peers are.
    Secure(SecureLink, Secure),
    /// What servers of NATS are spoken with by, and the cluster. Servers may come later.
    Nats(Box<(NatsLink, Nats)>),
}

impl Opened {
    /// Opens what a file says.
    ///
    /// # Errors
    /// A device or an address is not there, or a key: a sentence.
    pub(crate) fn open(config: &Config) -> Result<Self, String> {
        match (&config.secure, &config.nats) {
            (Some(secure), _) => Ok(Opened::Secure(SecureLink::open(secure)?, secure.clone())),
            (None, Some(nats)) => Ok(Opened::Nats(Box::new((NatsLink::open(nats)?, nats.clone())))),
            (None, None) => Links::open(&config.links).map(Opened::Conntrackd),
        }
    }
}

/// The exchange with the peer, for those who ask.
pub(crate) struct Failover {
    asked: Arc<Inbox<Request>>,
    thread: Mutex<Option<JoinHandle<Kept>>>,
}

impl Failover {
    /// Begins, on links that are open.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub(crate) fn begin(
        config: &Config,
        links: Opened,
        kept: Kept,
        tables: Arc<Tables>,
        rules: Arc<Rules>,
        ports: Arc<TakenPorts>,
    ) -> io::Result<Self> {
        let asked = Arc::new(Inbox::new()?);
        let waker = Arc::new(Waker::new()?);
        let (watcher, told) =
            PeerWatcher::new(config.filter.clone(), config.expectations.clone(), waker);
        let announcer = Announcer::new(config.announce, ports)?;
        let (to_watch, asks, config) = (tables.clone(), asked.clone(), config.clone());
        let thread = Builder::new().name("peer".into());
        let begins = crate::now();
        let thread = match links {
            Opened::Conntrackd(links) => {
                let mut exchange =
                    Exchange::new(config, links, tables, told, asks, announcer, begins);
                exchange.resume(kept, begins);
                thread.spawn(move || {
                    seccomp::enter(Thread::Peer);
                    exchange.run()
                })?
            }
            Opened::Secure(link, secure) => {
                let elements = secure.elements;
                let own = OwnSide::new(config, tables, rules, told, announcer, elements);
                let mut exchange = SecureExchange::new(own, secure, link, asks);
                exchange.resume(kept);
                thread.spawn(move || {
                    seccomp::enter(Thread::SecurePeer);
                    exchange.run()
                })?
            }
            Opened::Nats(opened) => {
                let (link, nats) = *opened;
                let elements = nats.elements;
                let own = OwnSide::new(config, tables, rules, told, announcer, elements);
                let mut exchange = NatsExchange::begin(own, nats, link, asks)?;
                exchange.resume(kept);
                thread.spawn(move || {
                    seccomp::enter(Thread::ClusterPeer);
                    exchange.run()
                })?
            }
        };
        to_watch.tell_peer(watcher);
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
    pub(crate) fn status(&self) -> Option<Status> {
        /// How long it may take: connections may be taken over.
        const PATIENCE: Duration = Duration::from_secs(5);
        let (to, answer) = channel();
        self.asked.send(Request::Status(to));
        answer.recv_timeout(PATIENCE).ok()
    }

    /// Ends. Returns what is kept for another exchange with the same peers.
    pub(crate) fn end(&self) -> Kept {
        self.asked.send(Request::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that has panicked has said so.
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}
