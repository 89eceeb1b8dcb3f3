// SPDX-License-Identifier: Apache-2.0

//! One client of the ruleset for each socket.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use penstock_launcher::{Answers, FoundIpSet, IpSetKey, Notification, Request, Service, SocketId};
use penstock_nfnetlink::{
    Backend, Client, Process, SocketOption, changes_between, connection_changes_between,
};
use penstock_ruleset::Generation;

use crate::connections;
use crate::ip_sets;
use crate::stored::Stored;
use crate::watch::Watch;

/// Answers programs from a state file.
#[derive(Debug)]
pub struct StateService {
    stored: Stored,
    /// Each with whether it may change anything.
    clients: HashMap<SocketId, (Client, bool)>,
    watch: Option<Watch>,
    /// What members of groups know; `None` if there are none.
    told: Option<Told>,
}

/// What members of groups have been told of.
#[derive(Debug)]
struct Told {
    generation: Arc<Generation>,
    /// As in a state file.
    connections: Arc<str>,
}

impl Told {
    fn of(stored: &Stored) -> Self {
        Told { generation: stored.generation(), connections: stored.saved_connections() }
    }
}

impl StateService {
    /// Without clients yet.
    pub fn new(stored: Stored) -> Self {
        StateService { stored, clients: HashMap::new(), watch: None, told: None }
    }

    /// What members of groups have yet to be told: another process has changed the file.
    fn untold(&mut self) -> Vec<Notification> {
        let Some(told) = &mut self.told else { return Vec::new() };
        let before = std::mem::replace(told, Told::of(&self.stored));
        let mut all = changes_between(&before.generation, &told.generation, self.stored.now());
        if before.connections != told.connections {
            let [mut before, mut now] = [&before, &*told].map(|told| {
                let helpers = told.generation.globals.connection_helpers();
                connections::load(&told.connections, helpers)
            });
            all.extend(connection_changes_between(&mut before, &mut now).unwrap_or_default());
        }
        converted(all)
    }
}

fn converted(all: Vec<penstock_nfnetlink::Notification>) -> Vec<Notification> {
    let converted =
        |n: penstock_nfnetlink::Notification| Notification { group: n.group, datagram: n.datagram };
    all.into_iter().map(converted).collect()
}

impl Service for StateService {
    fn start(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        let watch = Watch::folder_of(self.stored.path())?;
        Ok(Some(self.watch.insert(watch).descriptor()))
    }

    fn look(&mut self, listened: u32) -> Vec<Notification> {
        if let Some(watch) = &self.watch {
            watch.drain();
        }
        if listened == 0 {
            self.told = None;
            return Vec::new();
        }
        // A file that cannot be read now is told of when it can be.
        if self.stored.begin_request(false).is_err() {
            return Vec::new();
        }
        if self.told.is_none() {
            self.told = Some(Told::of(&self.stored));
        }
        self.untold()
    }

    fn due(&self) -> Option<Instant> {
        self.stored.due()
    }

    fn wake(&mut self) {
        self.stored.flush();
        // Members of groups know what was written.
        if let Some(told) = &mut self.told {
            *told = Told::of(&self.stored);
        }
    }

    fn end(&mut self) {
        for (client, _) in std::mem::take(&mut self.clients).into_values() {
            self.stored.close(client.port());
        }
        self.stored.flush();
    }

    fn open(&mut self, socket: SocketId, may_change: bool) {
        self.clients.insert(socket, (Client::new(0), may_change));
    }

    fn bind(&mut self, socket: SocketId, port: u32) {
        if let Some((client, _)) = self.clients.get_mut(&socket) {
            client.bind(port, 0);
        }
    }

    fn set_option(&mut self, socket: SocketId, option: i32, on: bool) {
        if let Some((client, _)) = self.clients.get_mut(&socket)
            && let Some(option) = SocketOption::from_number(option)
        {
            client.set_option(option, on);
        }
    }

    fn receives_into(&mut self, socket: SocketId, bytes: usize) {
        if let Some((client, _)) = self.clients.get_mut(&socket) {
            client.receives_into(bytes);
        }
    }

    fn ip_set(&mut self, key: IpSetKey<'_>) -> Option<FoundIpSet> {
        self.stored.begin_request(false).ok()?;
        let process = Process { id: 0, name: "".into(), may_change: false };
        let answers = Client::new(0).receive(&ip_sets::request(key), &process, &mut self.stored);
        ip_sets::found(&answers.datagrams)
    }

    fn receive(&mut self, socket: SocketId, request: &Request<'_>) -> Answers {
        let Some((client, may_change)) = self.clients.get_mut(&socket) else {
            return Answers::default();
        };
        let may_change = *may_change && request.sender.may_change;
        let changes = may_change && penstock_nfnetlink::may_change(request.datagram);
        if let Err(errno) = self.stored.begin_request(changes) {
            let datagrams = client.refuse(request.datagram, errno).datagrams;
            return Answers { datagrams, ..Answers::default() };
        }
        let mut before = self.untold();
        let Some((client, _)) = self.clients.get_mut(&socket) else {
            return Answers::default();
        };
        let process = Process {
            id: request.sender.thread,
            name: request.sender.name.as_str().into(),
            may_change,
        };
        client.set_listened(request.listened != 0);
        let answers = client.receive(request.datagram, &process, &mut self.stored);
        self.stored.end_request();
        if let Some(told) = &mut self.told {
            *told = Told::of(&self.stored);
        }
        before.extend(converted(answers.before));
        let notifications = converted(answers.notifications);
        Answers { before, datagrams: answers.datagrams, notifications }
    }

    fn close(&mut self, socket: SocketId) -> Answers {
        if let Some((client, _)) = self.clients.remove(&socket) {
            self.stored.close(client.port());
        }
        // The program may have ended: those that waited for it look at the file.
        self.wake();
        Answers::default()
    }
}
