// SPDX-License-Identifier: Apache-2.0

//! The server on the control socket: who connects, what they may, and what they ask.
//!
//! | file | is |
//! | --- | --- |
//! | `nft` | calls of `nft`, and netfilter sockets, which a child of the evaluator serves |
//! | `show`, `pages`, `talkers` | `penstock show`; long listings page by page |
//! | `table` | `penstock conntrack`, `penstock flows` |
//! | `failover` | `penstock failover` |
//! | `capture` | `penstock capture` |
//! | `bpf` | `penstock bpf` |
//! | [`metrics`] | metrics over HTTP |

mod bpf;
mod capture;
mod failover;
pub(crate) mod metrics;
mod nft;
mod pages;
mod show;
mod table;
mod talkers;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use penstock_lang::session::NOT_PERMITTED;
use penstock_print::show::Listing;

use crate::config::{Config, Driver, PortConfig};
use crate::connections::Tables;
use crate::control::protocol::Message;
use crate::control::{
    Admission, CaptureCall, Client, ConnectionTable, Listeners, PATIENCE, Pace, Peer, Rights,
    SHORT, TableCall,
};
use crate::devices::taken_ports::TakenPorts;
use crate::evaluator::Evaluator;
use crate::failover::{Failover, Kept, Opened};
use crate::offload::Offload;
use crate::packet_listeners::PacketListeners;
use crate::queue_programs::QueuePrograms;
use crate::requests::inbox::Inbox;
use crate::requests::workers::Workers;
use crate::requests::{PortRequest, SyncRequest};
use crate::rules::Rules;
use crate::seccomp::{self, Thread};
use crate::{log, rights};

/// How long those who may only look have to say what they want.
const HEARD: Duration = Duration::from_secs(5);
/// What is needed to ask for ports, and to ask about them.
#[derive(Clone)]
pub(crate) struct PortCalls {
    /// What the thread that takes and returns devices is asked by.
    pub(crate) sync: Arc<Inbox<SyncRequest>>,
    /// What is taken.
    pub(crate) taken: Arc<TakenPorts>,
}

impl PortCalls {
    /// Asks; what is to be printed, or the error.
    pub(crate) fn ask(&self, request: PortRequest) -> Result<String, String> {
        /// How long that may take, with many routes.
        const PATIENCE: Duration = Duration::from_secs(60);
        let (to, answer) = channel();
        self.sync.send(SyncRequest::Ports(request, to));
        answer
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| Err("the dataplane does not answer".into()))
    }
}

/// What connections share.
pub(crate) struct Server {
    pub(crate) rules: Arc<Rules>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) offload: Arc<Offload>,
    pub(crate) config: Arc<Config>,
    pub(crate) evaluator: Arc<Evaluator>,
    ports: PortCalls,
    /// Said once when the dataplane is to end.
    pub(crate) end: Box<dyn Fn() + Send + Sync>,
    pub(crate) admission: Arc<Admission>,
    /// How often workers are asked for those who may only look.
    pace: Arc<Pace>,
    tables: Arc<Tables>,
    /// The exchange with the other firewall of a pair.
    failover: RwLock<Option<Failover>>,
    pub(crate) listeners: PacketListeners,
    /// Programs of the configuration that get packets.
    pub(crate) queues: Arc<QueuePrograms>,
    /// Held by who counts time.
    counting: Mutex<()>,
    /// Held by who attaches or detaches programs.
    changing_programs: Mutex<()>,
    /// Nanoseconds since the epoch.
    started: u64,
}

/// Ends a thread that accepts connections of a socket.
fn end_accepting(listener: &impl AsRawFd, thread: JoinHandle<()>) {
    // SAFETY: no pointers. The thread is woken, and sees that nobody can connect any more.
    let told = unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) } == 0;
    // One that was not told ends with the process; one that has panicked has said so.
    if told {
        let _ = thread.join();
    }
}

/// A socket whose connections are being served.
struct ServedSocket {
    listener: UnixListener,
    thread: JoinHandle<()>,
}

impl ServedSocket {
    /// Clients have those rights at most.
    fn begin(server: &Arc<Server>, listener: UnixListener, most: Rights) -> io::Result<Self> {
        let (own, server) = (listener.try_clone()?, server.clone());
        let thread = Builder::new().name("control".into()).spawn(move || {
            seccomp::enter(Thread::Control);
            server.serve(&own, most);
        })?;
        Ok(ServedSocket { listener, thread })
    }

    fn end(self) {
        end_accepting(&self.listener, self.thread);
    }
}

/// Connections are being served.
pub(crate) struct Serving {
    private: ServedSocket,
    public: Option<ServedSocket>,
}

impl Serving {
    /// Begins.
    pub(crate) fn begin(server: &Arc<Server>, listeners: Listeners) -> io::Result<Self> {
        let Listeners { private, public } = listeners;
        let private = ServedSocket::begin(server, private, Rights::All)?;
        let public = public.map(|socket| ServedSocket::begin(server, socket, Rights::Look));
        Ok(Serving { private, public: public.transpose()? })
    }

    /// Whether those who may look are served.
    pub(crate) fn has_readers(&self) -> bool {
        self.public.is_some()
    }

    /// Serves those who may look as well.
    pub(crate) fn add_readers(
        &mut self,
        server: &Arc<Server>,
        listener: UnixListener,
    ) -> io::Result<()> {
        self.public = Some(ServedSocket::begin(server, listener, Rights::Look)?);
        Ok(())
    }

    /// Accepts none of those who may look any more. Connected ones stay.
    pub(crate) fn end_readers(&mut self) {
        self.public.take().into_iter().for_each(ServedSocket::end);
    }

    /// Ends: no further connections are accepted. Connected clients stay.
    pub(crate) fn end(self) {
        [Some(self.private), self.public].into_iter().flatten().for_each(ServedSocket::end);
    }
}

impl Server {
    pub(crate) fn new(
        rules: Arc<Rules>,
        workers: Arc<Workers>,
        offload: Arc<Offload>,
        config: Arc<Config>,
        evaluator: Arc<Evaluator>,
        ports: PortCalls,
        end: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let admission = Admission::new(config.readers, rights::spare_descriptors());
        let (pace, counting, started) = (Arc::new(Pace::new()), Mutex::default(), crate::now());
        let tables = Arc::new(Tables::new(workers.clone(), pace.clone()));
        let queues = Arc::new(QueuePrograms::new(workers.clone()));
        let listeners = PacketListeners::new(workers.clone(), queues.clone());
        Arc::new(Server {
            rules,
            workers,
            offload,
            config,
            evaluator,
            ports,
            end,
            admission,
            pace,
            tables,
            failover: RwLock::default(),
            listeners,
            queues,
            counting,
            changing_programs: Mutex::default(),
            started,
        })
    }

    /// The exchange with the other firewalls, if there is one. It does not change while somebody
    /// asks.
    fn failover(&self) -> RwLockReadGuard<'_, Option<Failover>> {
        self.failover.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exchange with the other firewalls, to change it.
    pub(crate) fn failover_mut(&self) -> RwLockWriteGuard<'_, Option<Failover>> {
        self.failover.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Speaks with the other firewalls, on links that are open, with what was kept of another
    /// exchange with them.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub(crate) fn begin_failover(
        &self,
        config: &penstock_ctsync::config::Config,
        links: Opened,
        kept: Kept,
    ) -> io::Result<Failover> {
        Failover::begin(
            config,
            links,
            kept,
            self.tables.clone(),
            self.rules.clone(),
            self.ports.taken.clone(),
        )
    }

    /// Ends the exchange with the other firewalls, if there is one. Returns what is kept for another
    /// one.
    pub(crate) fn end_failover(&self, failover: Option<Failover>) -> Kept {
        let kept = failover.map(|failover| failover.end());
        self.tables.tell_no_peer();
        kept.unwrap_or_default()
    }

    /// Serves connections, each on its own thread, until the listener is shut down. Its clients
    /// have those rights at most.
    fn serve(self: Arc<Self>, listener: &UnixListener, most: Rights) {
        for stream in listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
                // The client is gone already, or there are no descriptors.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            // A client that goes away needs no answer.
            let _ = self.clone().begin(stream, most);
        }
    }

    /// Serves a client on its own thread, or refuses it.
    fn begin(self: Arc<Self>, stream: UnixStream, most: Rights) -> io::Result<()> {
        let peer = Peer::of(&stream)?;
        let place = match self.admission.admit(peer, most) {
            Ok(place) => place,
            Err(reason) => {
                // A new socket has room for it: the write does not wait.
                stream.set_nonblocking(true)?;
                return Client::new(stream, SHORT)?.refuse(reason);
            }
        };
        Builder::new().name("client".into()).spawn(move || {
            seccomp::inherit("client");
            // As above.
            let _ = self.client(peer, stream, place.rights);
            drop(place);
        })?;
        Ok(())
    }

    fn client(&self, peer: Peer, stream: UnixStream, rights: Rights) -> io::Result<()> {
        if rights == Rights::Look {
            // What they make us do has time.
            // SAFETY: no pointers; 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        }
        self.serve_one(peer, Client::new(stream, rights.longest())?, rights)
    }

    fn serve_one(&self, peer: Peer, client: Client, rights: Rights) -> io::Result<()> {
        let name =
            std::fs::read_to_string(format!("/proc/{}/comm", peer.process)).unwrap_or_default();
        let process = (peer.process, name.trim().to_owned());
        let look = rights == Rights::Look;
        let message = client.hear(if look { HEARD } else { PATIENCE })?;
        if self.rules.attached().is_some()
            && let Some(instead) = kernel_has(&message)
        {
            return client.refuse(&format!("the ruleset is attached to the kernel: {instead}"));
        }
        let status = match message {
            Message::Show(show) => return self.show(&client, show, rights),
            Message::Nft(args) => match self.nft(&client, args, rights, &process)? {
                Some(status) => status,
                // A child has told it all.
                None => return Ok(()),
            },
            Message::Netfilter => match self.netfilter(&client, rights, &process)? {
                Some(status) => status,
                None => return Ok(()),
            },
            Message::Down
            | Message::Detach
            | Message::Confirm
            | Message::Capture(_)
            | Message::Bpf(_)
            | Message::Ruleset
                if look =>
            {
                return client.refuse(NOT_PERMITTED);
            }
            Message::Capture(words) => match CaptureCall::of(words) {
                Some(call) if call.group.is_none() && self.rules.attached().is_some() => {
                    return client.refuse(
                        "the ruleset is attached to the kernel: tcpdump(8) captures there",
                    );
                }
                Some(call) => match self.capture(&client, &call, &process)? {
                    Some(status) => status,
                    None => return Ok(()),
                },
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
            Message::Bpf(call) => self.bpf(&client, call)?,
            Message::Ruleset => {
                client.say(&Message::Data(self.rules.whole(&[])))?;
                0
            }
            Message::Conntrack(words) => {
                self.table_call(&client, ConnectionTable::Connections, &words, rights)?
            }
            Message::Flows(words) => {
                self.table_call(&client, ConnectionTable::Flows, &words, rights)?
            }
            Message::Failover(words) => self.failover_call(&client, &words, rights)?,
            Message::Port(words) => {
                let request = port_request(&words).ok_or(io::ErrorKind::InvalidData)?;
                if look && !matches!(request, PortRequest::List(_)) {
                    return client.refuse(NOT_PERMITTED);
                }
                match self.ports.ask(request) {
                    Ok(text) => {
                        client.say(&Message::Out(text))?;
                        0
                    }
                    Err(e) => {
                        client.say(&Message::Err(format!("Error: {e}\n")))?;
                        1
                    }
                }
            }
            Message::Confirm => match self.rules.confirm(None) {
                true => 0,
                false => {
                    client.say(&Message::Err(
                        "Error: no change waits for its confirmation\n".into(),
                    ))?;
                    1
                }
            },
            Message::Detach if self.rules.attached().is_none() => {
                let sentence = "a dataplane runs here, which `penstock down` ends";
                client.say(&Message::Err(format!("Error: {sentence}\n")))?;
                1
            }
            Message::Down | Message::Detach => {
                if let Some(attached) = self.rules.attached() {
                    attached.leave_nothing();
                }
                log(format_args!("ended by process {} ({})", process.0, process.1));
                (self.end)();
                // The connection closes when all devices are returned.
                std::thread::sleep(Duration::from_secs(60));
                0
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        client.say(&Message::Exit(status))
    }
}

/// What to ask in place of an attached ruleset, which has no packets, connections or ports of its
/// own.
fn kernel_has(message: &Message) -> Option<&'static str> {
    match message {
        Message::Conntrack(_) => Some("conntrack(8) has the connections of the kernel"),
        Message::Show(show) if show.listing == Listing::Connections => {
            Some("conntrack(8) has the connections of the kernel")
        }
        Message::Flows(_) => Some("it has no flowtables there"),
        Message::Show(show) if show.listing == Listing::Flows => Some("it has no flowtables there"),
        Message::Failover(_) => Some("conntrackd(8) has the connections of the kernel"),
        Message::Port(_) => Some("it has no ports; `penstock show` says where its chains run"),
        Message::Bpf(_) => Some("bpftool(8) attaches programs there"),
        _ => None,
    }
}

impl Server {
    fn table_call(
        &self,
        client: &Client,
        table: ConnectionTable,
        words: &[String],
        rights: Rights,
    ) -> io::Result<u8> {
        match TableCall::parse(table, words) {
            Ok(call) => self.table(client, call, rights),
            Err(e) => {
                client.say(&Message::Err(format!("Error: {e}\n")))?;
                Ok(1)
            }
        }
    }
}

/// What the words of [`Message::Port`] ask for.
fn port_request(words: &[String]) -> Option<PortRequest> {
    let (what, rest) = words.split_first()?;
    match (what.as_str(), rest) {
        ("add", [_, ..]) => {
            let (ports, []) = rest.as_chunks::<3>() else { return None };
            let port = |[device, name, driver]: &[String; 3]| {
                let driver = Driver::NAMES.iter().find(|(word, _)| word == driver)?.1;
                let (device, name) = (device.clone(), name.clone());
                Some(PortConfig { device, name, driver, may_come_later: false })
            };
            ports.iter().map(port).collect::<Option<_>>().map(PortRequest::Add)
        }
        ("del", [_, ..]) => Some(PortRequest::Remove(rest.to_vec())),
        ("list", []) => Some(PortRequest::List(false)),
        ("list", [json]) if json == "json" => Some(PortRequest::List(true)),
        _ => None,
    }
}
