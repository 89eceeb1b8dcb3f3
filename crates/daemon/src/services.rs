// SPDX-License-Identifier: Apache-2.0

//! What serves others while packets pass, and begins and ends as the configuration says: the control
//! socket and its copy for readers, metrics, programs of queues, and the beats for the guardian.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use penstock_ctsync::config::Config as SyncConfig;

use crate::config::{Config, QueueConfig};
use crate::control::{Listeners, listen_for_readers, remove_readers_socket};
use crate::failover::{Kept, Opened};
use crate::guardian::GuardianHandle;
use crate::guardian::heartbeat::Heartbeat;
use crate::log;
use crate::preflight::is_no_port;
use crate::requests::workers::Workers;
use crate::server::metrics::{self, ServingMetrics};
use crate::server::{Server, Serving};

/// All of it.
pub(crate) struct Services {
    server: Arc<Server>,
    workers: Arc<Workers>,
    guardian: GuardianHandle,
    serving: Serving,
    metrics: Option<ServingMetrics>,
    /// What peers are spoken with by.
    sync: Option<SyncConfig>,
    hang_time: Duration,
    heartbeat: Option<Heartbeat>,
}

impl Services {
    /// Begins with sockets that are open already.
    ///
    /// # Errors
    /// There is no thread to be had: a sentence.
    pub(crate) fn begin(
        server: Arc<Server>,
        guardian: GuardianHandle,
        config: &Config,
        listeners: Listeners,
        metrics: Option<TcpListener>,
        links: Option<Opened>,
    ) -> Result<Self, String> {
        let workers = server.workers.clone();
        let heartbeat = beat(&workers, &guardian, config.hang_time).map_err(failed)?;
        // Before anybody can ask for it.
        if let Some((sync, links)) = config.sync.as_ref().zip(links) {
            let failover = server.begin_failover(sync, links, Kept::default());
            *server.failover_mut() = Some(failover.map_err(failed)?);
        }
        let serving = Serving::begin(&server, listeners).map_err(failed)?;
        let metrics = config.metrics.zip(metrics);
        let metrics = metrics.map(|(at, socket)| ServingMetrics::begin(at, socket, server.clone()));
        let metrics = metrics.transpose().map_err(failed)?;
        let services = Services {
            server,
            workers,
            guardian,
            serving,
            metrics,
            sync: config.sync.clone(),
            hang_time: config.hang_time,
            heartbeat,
        };
        services.server.queues.set(&config.queues).map_err(failed)?;
        Ok(services)
    }

    /// Follows another configuration. What it says where something does not change is returned; the
    /// next change tries again.
    pub(crate) fn follow(&mut self, config: &Config) -> Vec<String> {
        let changes = [
            self.set_readers(config.readers),
            self.set_metrics(config.metrics),
            self.set_queues(&config.queues),
            self.set_sync(config),
            self.set_hang_time(config.hang_time),
        ];
        changes.into_iter().filter_map(Result::err).collect()
    }

    /// How long the guardian waits for a beat; zero for ever.
    pub(crate) fn hang_time(&self) -> Duration {
        self.hang_time
    }

    /// The beats end: the devices are about to be given back.
    pub(crate) fn end_heartbeat(&mut self) {
        self.heartbeat.take().into_iter().for_each(Heartbeat::end);
    }

    /// The exchange with the other firewall of a pair ends: it asks workers, which are about to end.
    pub(crate) fn end_failover(&self) {
        let failover = self.server.failover_mut().take();
        drop(self.server.end_failover(failover));
    }

    /// The control socket accepts nobody any more.
    pub(crate) fn end(self) {
        self.serving.end();
    }

    fn set_readers(&mut self, readers: bool) -> Result<(), String> {
        if readers == self.serving.has_readers() {
            return Ok(());
        }
        if readers {
            let listener = listen_for_readers().map_err(|e| format!("allow-read: {e}"))?;
            self.server.admission.set_readers(true);
            return self.serving.add_readers(&self.server, listener).map_err(failed);
        }
        self.server.admission.set_readers(false);
        self.serving.end_readers();
        remove_readers_socket();
        Ok(())
    }

    fn set_metrics(&mut self, address: Option<SocketAddr>) -> Result<(), String> {
        if address == self.metrics.as_ref().map(ServingMetrics::address) {
            return Ok(());
        }
        // Where it cannot be opened, the other one stays.
        let listener = address.map(metrics::listen).transpose()?;
        self.metrics.take().into_iter().for_each(ServingMetrics::end);
        let begin = |(at, socket)| ServingMetrics::begin(at, socket, self.server.clone());
        self.metrics = address.zip(listener).map(begin).transpose().map_err(failed)?;
        Ok(())
    }

    fn set_queues(&mut self, queues: &[QueueConfig]) -> Result<(), String> {
        let sockets = &self.server.listeners;
        if let Some(queue) = queues.iter().find(|queue| sockets.has(queue.num)) {
            return Err(format!(
                "queue {}: a program with a netfilter socket has it; queue stays as it is",
                queue.num
            ));
        }
        self.server.queues.set(queues).map_err(failed)
    }

    /// Peers are spoken with as the file says now. Connections that they have told stay known. Where
    /// that cannot be, everything stays as it is.
    fn set_sync(&mut self, config: &Config) -> Result<(), String> {
        if config.sync == self.sync {
            return Ok(());
        }
        let fails = |e: String| format!("{e}; sync stays as it is");
        if let Some(sync) = &config.sync {
            is_no_port(config, sync).map_err(fails)?;
        }
        // Who asks waits until there is another one.
        let mut place = self.server.failover_mut();
        // Addresses are free only then.
        let kept = self.server.end_failover(place.take());
        let Some(sync) = &config.sync else {
            self.sync = None;
            return Ok(());
        };
        match (Opened::open(sync), &self.sync) {
            (Ok(links), _) => {
                *place = Some(self.server.begin_failover(sync, links, kept).map_err(failed)?);
                self.sync = Some(sync.clone());
                sync.warnings.iter().for_each(|warning| log(format_args!("sync: {warning}")));
                Ok(())
            }
            (Err(e), None) => Err(fails(e)),
            (Err(e), Some(before)) => {
                let links = Opened::open(before).map_err(|again| format!("{e}; {again}"))?;
                *place = Some(self.server.begin_failover(before, links, kept).map_err(failed)?);
                Err(fails(e))
            }
        }
    }

    fn set_hang_time(&mut self, hang_time: Duration) -> Result<(), String> {
        if hang_time == self.hang_time {
            return Ok(());
        }
        let heartbeat = beat(&self.workers, &self.guardian, hang_time).map_err(failed)?;
        // The last beat of the one before would count otherwise.
        self.end_heartbeat();
        self.guardian.beat(hang_time);
        (self.heartbeat, self.hang_time) = (heartbeat, hang_time);
        Ok(())
    }
}

/// Begins to tell the guardian that packets are done, if it is to know.
fn beat(
    workers: &Arc<Workers>,
    guardian: &GuardianHandle,
    patience: Duration,
) -> io::Result<Option<Heartbeat>> {
    let begin = || Heartbeat::begin(workers.clone(), guardian.clone(), patience);
    (!patience.is_zero()).then(begin).transpose()
}

fn failed(e: io::Error) -> String {
    format!("a thread: {e}")
}
