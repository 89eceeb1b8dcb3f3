// SPDX-License-Identifier: Apache-2.0

//! The thread of the client of NATS. It connects again and again, reads the stream, and publishes.
//! The exchange never waits for it: both directions have queues of a limited length.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::{Context, ContextBuilder, PublishError};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::{Client, ConnectOptions, Event as ClientEvent};
use futures_util::StreamExt;
use penstock_ctsync::cluster::LONGEST_PLAIN;
use penstock_ctsync::config::Nats;
use penstock_ctsync::secure::{Digest, Record, Records};
use tokio::sync::{mpsc, oneshot};

use super::link::NatsLink;
use crate::event::Event;
use crate::log;

/// Messages that wait to be published.
pub(super) const OUT: usize = 64;
/// Messages of others that wait for the exchange.
pub(super) const IN: usize = 256;
/// Messages that are published and not acknowledged yet, at most.
const UNACKNOWLEDGED: usize = 256;
/// How long an answer of the servers is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a server is asked whether it is there; it is lost when two answers are missing.
const PING: Duration = Duration::from_secs(2);
/// How long is waited before servers are connected to again.
const RETRY: Duration = Duration::from_secs(1);
/// How often the state of the stream is asked for.
const LOOK: Duration = Duration::from_secs(5);
/// Bytes of a message at most, which the stream refuses otherwise.
const LONGEST: usize = LONGEST_PLAIN + 1024;
/// Nodes whose snapshots are looked for at most.
const NODES: usize = 64;

/// What the exchange wants to know of a message once it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// It begins a snapshot with this mark.
    Begin(u64),
    /// It ends one.
    End(u64),
    /// It has this number of `Alive`.
    Alive(u64),
}

/// A message to be published.
pub(super) struct Outgoing {
    pub(super) subject: Arc<str>,
    pub(super) payload: Vec<u8>,
    pub(super) tag: Option<Tag>,
}

/// What the client tells.
pub(super) enum Incoming {
    /// The stream is there, from that server. Messages after a place in it, up to another one, come
    /// first.
    Up { server: String, after: u64, until: u64 },
    /// A message: its place in the stream, and how many nanoseconds ago it was stored.
    Message { payload: Vec<u8>, place: u64, age: u64 },
    /// A message that was published is stored, at a place in the stream.
    Stored { tag: Tag, place: u64 },
    /// The first place in the stream that is still there.
    Kept { first: u64 },
    /// The servers are not there, or refuse: a sentence.
    Down(String),
}

/// The end of the exchange. When it is dropped, the thread of the client ends.
pub(super) struct ClientEnd {
    pub(super) out: mpsc::Sender<Outgoing>,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    /// Signalled when something came, or there is place again.
    pub(super) event: Arc<Event>,
    /// The client ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// The end of the client.
pub(super) struct NatsClient {
    config: Nats,
    link: NatsLink,
    out: mpsc::Receiver<Outgoing>,
    to: mpsc::Sender<Incoming>,
    event: Arc<Event>,
    stop: oneshot::Receiver<()>,
    /// The place of the last message that was read.
    read: Option<u64>,
    /// What the log has said last of servers that are not there.
    said: String,
}

/// The subject of a shard.
pub(super) fn shard_subject(cluster: &str, shard: usize) -> Arc<str> {
    format!("penstock.{cluster}.{shard}").into()
}

/// The subject of a node that has told where its last snapshot begins.
pub(super) fn told_subject(cluster: &str, node: &str) -> Arc<str> {
    format!("penstock.{cluster}.told.{node}").into()
}

/// Both ends.
pub(super) fn client(config: Nats, link: NatsLink) -> std::io::Result<(NatsClient, ClientEnd)> {
    let (out, from_exchange) = mpsc::channel(OUT);
    let (to, incoming) = mpsc::channel(IN);
    let (stopping, stop) = oneshot::channel();
    let event = Arc::new(Event::new()?);
    let end = ClientEnd { out, incoming, event: event.clone(), _stop: stopping };
    let said = String::new();
    Ok((NatsClient { config, link, out: from_exchange, to, event, stop, read: None, said }, end))
}

impl NatsClient {
    /// Works until the other end is dropped.
    pub(super) fn run(mut self) {
        loop {
            // What is left of a connection ends with its runtime.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .max_blocking_threads(1)
                .build();
            let why = match runtime {
                Ok(runtime) => {
                    let why = runtime.block_on(self.until_stopped());
                    runtime.shutdown_background();
                    why
                }
                Err(e) => {
                    std::thread::sleep(RETRY);
                    Some(e.to_string())
                }
            };
            if why.is_none() || self.out.is_closed() {
                return;
            }
        }
    }

    /// One connection. `None` if the exchange ends, else why the connection has.
    async fn until_stopped(&mut self) -> Option<String> {
        let (stop, mut rest) = (
            &mut self.stop,
            Session {
                config: &self.config,
                link: &self.link,
                out: &mut self.out,
                to: &self.to,
                event: &self.event,
                read: &mut self.read,
                said: &mut self.said,
            },
        );
        let why = tokio::select! {
            _ = &mut *stop => return None,
            done = rest.run() => match done {
                Ok(()) => return None,
                Err(why) => why,
            },
        };
        rest.say(&why);
        rest.tell(Incoming::Down(why.clone())).await;
        tokio::select! {
            _ = stop => None,
            () = tokio::time::sleep(RETRY) => Some(why),
        }
    }
}

/// A connection.
struct Session<'a> {
    config: &'a Nats,
    link: &'a NatsLink,
    out: &'a mut mpsc::Receiver<Outgoing>,
    to: &'a mpsc::Sender<Incoming>,
    event: &'a Arc<Event>,
    read: &'a mut Option<u64>,
    said: &'a mut String,
}

/// An answer that is waited for.
type Acknowledgement = Pin<Box<dyn Future<Output = Result<PublishAck, PublishError>> + Send>>;

/// The first answer that is waited for; never ready if there is none.
async fn first(
    waiting: &mut VecDeque<(Option<Tag>, Acknowledgement)>,
) -> Result<PublishAck, PublishError> {
    match waiting.front_mut() {
        Some((_, acknowledgement)) => acknowledgement.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Session<'_> {
    /// Says something in the log unless that was said last.
    fn say(&mut self, sentence: &str) {
        if *self.said != sentence {
            log(format_args!("NATS: {sentence}"));
            sentence.clone_into(self.said);
        }
    }

    async fn tell(&self, incoming: Incoming) {
        // The exchange may have ended.
        let _ = self.to.send(incoming).await;
        self.event.signal();
    }

    /// Connects, and works until the exchange ends. The error is why the connection has: a sentence.
    async fn run(&mut self) -> Result<(), String> {
        let (events, mut happens) = mpsc::unbounded_channel();
        let client = self.connect(events).await?;
        let jetstream = ContextBuilder::new()
            .timeout(PATIENCE)
            .ack_timeout(PATIENCE)
            .max_ack_inflight(2 * UNACKNOWLEDGED)
            .build(client.clone());
        let stream = self.stream(&jetstream).await?;
        let state = stream.get_info().await.map_err(|e| e.to_string())?.state;
        // What was lost with the stream begins anew.
        let after = self.read.filter(|read| *read <= state.last_sequence).map(|read| read + 1);
        let begin = match after {
            Some(begin) => begin,
            None => self.snapshots(&stream).await?.unwrap_or(0),
        };
        let begin = begin.max(state.first_sequence).max(1);
        *self.read = Some(begin - 1);
        let mut messages = read_from(&stream, begin).await?;
        // Which one of many is known by its name only: its address may be that of all devices.
        let server = match &*self.config.servers {
            [server] => server.clone(),
            _ => client.server_info().server_name,
        };
        self.say(&format!("connected to {server}"));
        // Those of the connection before have another place in the order by now.
        while self.out.try_recv().is_ok() {}
        self.tell(Incoming::Up { server, after: begin - 1, until: state.last_sequence }).await;
        let mut waiting = VecDeque::new();
        let mut looks = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                message = messages.next() => {
                    let message = message.ok_or("the stream is gone")?;
                    let message = message.map_err(|e| format!("the stream: {e}"))?;
                    let info = message.info().map_err(|e| format!("the stream: {e}"))?;
                    let place = info.stream_sequence;
                    let age = age(info.published.unix_timestamp_nanos());
                    *self.read = Some(place);
                    // The stream may be of another's making.
                    if message.payload.len() <= LONGEST {
                        let payload = message.payload.to_vec();
                        self.tell(Incoming::Message { payload, place, age }).await;
                    }
                }
                outgoing = self.out.recv(), if waiting.len() < UNACKNOWLEDGED => {
                    let Some(Outgoing { subject, payload, tag }) = outgoing else { return Ok(()) };
                    let published = jetstream.publish(subject.to_string(), payload.into()).await;
                    let published = published.map_err(|e| format!("publishing: {e}"))?;
                    waiting.push_back((tag, published.into_future()));
                    if self.out.len() == OUT / 2 {
                        self.event.signal();
                    }
                }
                acknowledged = first(&mut waiting) => {
                    let place = acknowledged.map_err(|e| format!("publishing: {e}"))?.sequence;
                    let (tag, _) = waiting.pop_front().unwrap_or((None, Box::pin(std::future::pending())));
                    if let Some(tag) = tag {
                        self.tell(Incoming::Stored { tag, place }).await;
                    }
                }
                happened = happens.recv() => {
                    if let Some(why) = happened {
                        return Err(why);
                    }
                }
                _ = looks.tick() => {
                    let (stream, to, event) = (stream.clone(), self.to.clone(), self.event.clone());
                    tokio::spawn(async move {
                        if let Ok(info) = stream.get_info().await {
                            // As above.
                            let _ = to.send(Incoming::Kept { first: info.state.first_sequence }).await;
                            event.signal();
                        }
                    });
                }
            }
        }
    }

    async fn connect(&self, events: mpsc::UnboundedSender<String>) -> Result<Client, String> {
        let mut options = ConnectOptions::new()
            .name(format!("penstock {}", self.config.node))
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .ping_interval(PING)
            .max_reconnects(1)
            .require_tls(self.link.servers.iter().any(|server| server.starts_with("tls:")))
            .event_callback(move |event| {
                let why = match event {
                    ClientEvent::Disconnected => Some("the connection is lost".to_owned()),
                    ClientEvent::Closed => Some("the connection is closed".to_owned()),
                    ClientEvent::LameDuckMode => Some("the server is about to end".to_owned()),
                    _ => None,
                };
                if let Some(why) = why {
                    // Nobody listens any more where the connection has ended.
                    let _ = events.send(why);
                }
                std::future::ready(())
            });
        if let Some((user, password)) = &self.link.login {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(path) = &self.link.authorities {
            options = options.add_root_certificates(path.clone());
        }
        let connected = options.connect(self.link.servers.clone()).await;
        connected.map_err(|e| format!("{}: {}", self.link.servers.join(", "), with_source(&e)))
    }

    /// The stream of the cluster, which is made if it is not there.
    async fn stream(&mut self, jetstream: &Context) -> Result<Stream, String> {
        let cluster = &self.config.cluster;
        let wanted = stream::Config {
            name: format!("penstock-{cluster}"),
            description: Some("connections of firewalls (penstock up --sync)".into()),
            subjects: vec![format!("penstock.{cluster}.*"), format!("penstock.{cluster}.told.*")],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            max_age: Duration::from_secs(self.config.max_age),
            max_bytes: self.config.max_bytes,
            max_message_size: LONGEST as i32,
            storage: if self.config.in_memory { StorageType::Memory } else { StorageType::File },
            num_replicas: self.config.replicas,
            ..Default::default()
        };
        let stream = jetstream.get_or_create_stream(wanted.clone()).await;
        let stream =
            stream.map_err(|e| format!("the stream {}: {}", wanted.name, with_source(&e)))?;
        let there = &stream.cached_info().config;
        if let Some(subject) = wanted.subjects.iter().find(|s| !there.subjects.contains(s)) {
            return Err(format!("the stream {} has no subject {subject}", wanted.name));
        }
        let limits = |config: &stream::Config| {
            (config.max_age, config.max_bytes, config.num_replicas, config.storage)
        };
        if limits(there) != limits(&wanted) {
            log(format_args!(
                "NATS: the stream {} has other limits than the file: it stays as it is",
                wanted.name
            ));
        }
        Ok(stream)
    }

    /// Where the earliest of the last snapshots of all nodes begins; `None` if none has told.
    async fn snapshots(&self, stream: &Stream) -> Result<Option<u64>, String> {
        let filter = told_subject(&self.config.cluster, "*");
        let failed = |e: &dyn std::fmt::Display| format!("the stream: {e}");
        let mut subjects = stream.info_with_subjects(&*filter).await.map_err(|e| failed(&e))?;
        let (mut earliest, mut seen) = (None::<u64>, 0);
        while let Some(subject) = subjects.next().await {
            let (subject, _) = subject.map_err(|e| failed(&e))?;
            seen += 1;
            if seen > NODES {
                break;
            }
            // It may be too old by now.
            let Ok(message) = stream.get_last_raw_message_by_subject(&subject).await else {
                continue;
            };
            let mut payload = message.payload.to_vec();
            let Ok((_, records)) = self.link.sealing.open(&mut payload) else { continue };
            if let Some(Ok(Some(Record::ToldAt(place)))) =
                Records::of(records).next(&mut Digest::default())
            {
                earliest = Some(earliest.map_or(place, |other| other.min(place)));
            }
        }
        Ok(earliest)
    }
}

/// Reads the stream from a place on.
async fn read_from(stream: &Stream, begin: u64) -> Result<Ordered, String> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: begin },
        ..Default::default()
    };
    let failed = |e: &dyn std::error::Error| format!("the stream: {}", with_source(e));
    let consumer: async_nats::jetstream::consumer::Consumer<pull::OrderedConfig> =
        stream.create_consumer(config).await.map_err(|e| failed(&e))?;
    consumer.messages().await.map_err(|e| failed(&e))
}

/// An error with what has caused it, unless it says so itself.
fn with_source(e: &dyn std::error::Error) -> String {
    let mut said = e.to_string();
    let mut source = e.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            said.push_str(&format!(": {text}"));
        }
        source = cause.source();
    }
    said
}

/// How many nanoseconds ago a time was, by the clock of the day; 0 if it is to come.
fn age(published: i128) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    let ago = i128::try_from(now).unwrap_or_default() - published;
    u64::try_from(ago).unwrap_or_default()
}
