// SPDX-License-Identifier: Apache-2.0

//! `penstock conntrack` and `penstock flows`: connections are listed, removed, counted, and watched.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use penstock_conntrack::Outline;
use penstock_dataplane::{Dataplane, FlowEntry};
use penstock_lang::session::NOT_PERMITTED;
use penstock_print::list::{Entries, List};
use penstock_print::show::Form;
use penstock_print::show::connections::{self, Connection as Listed};
use penstock_print::show::flows::{self, Flow};
use penstock_ruleset::Errno;

use super::Server;
use crate::control::protocol::Message;
use crate::control::{
    Budget, Client, ConnectionTable, Exceeded, Rights, TableAction, TableCall, Telling,
};
use crate::events::LineWatcher;
use crate::requests::Request;

/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Connections that a worker looks at between two bursts.
const PAGE: usize = 1024;

impl TableCall {
    fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Text }
    }

    /// The command that asks.
    fn command(&self) -> &'static str {
        match self.table {
            ConnectionTable::Connections => "conntrack",
            ConnectionTable::Flows => "flows",
        }
    }

    /// What the table is called in JSON.
    fn key(&self) -> &'static str {
        match self.table {
            ConnectionTable::Connections => connections::KEY,
            ConnectionTable::Flows => flows::KEY,
        }
    }
}

/// What conntrack(8) says at the end, on standard error.
fn summary(what: &str, call: &TableCall, count: impl Display) -> Message {
    Message::Err(format!("penstock {}: {count} flow entries have been {what}.\n", call.command()))
}

/// What filters look at of an entry.
fn outline_of<'e>(entry: &'e FlowEntry<'_>) -> &'e Outline {
    match entry {
        FlowEntry::Flow(flow) => &flow.outline,
        FlowEntry::Refused(flow) => &flow.outline,
    }
}

impl Server {
    /// Does what a call asks for; the exit status.
    pub(super) fn table(&self, client: &Client, call: TableCall, rights: Rights) -> io::Result<u8> {
        let looks = rights == Rights::Look;
        if looks && call.changes() {
            client.say(&Message::Err(format!("Error: {NOT_PERMITTED}\n")))?;
            return Ok(1);
        }
        if call.action == TableAction::Events {
            return self.events(client, call);
        }
        client.set_budget(Some(Budget::of_listing(looks)));
        let end = client.end().filter(|_| looks);
        let done = match call.action {
            TableAction::Count => self.count(client, &call),
            TableAction::List | TableAction::Events => self.list_chosen(client, &call, end),
            TableAction::Delete | TableAction::Flush => self.remove_all(client, &call),
        };
        client.set_budget(None);
        match done {
            Ok(status) => Ok(status),
            Err(e) => {
                let reason = Exceeded::of(&e).ok_or(e)?;
                client.say(&Message::Err(format!("Error: {reason}\n")))?;
                Ok(1)
            }
        }
    }

    fn count(&self, client: &Client, call: &TableCall) -> io::Result<u8> {
        let flows = call.table == ConnectionTable::Flows;
        let count = move |path: &Dataplane| match flows {
            true => path.flow_count() as u64,
            false => u64::from(path.conntrack().count()),
        };
        let all: u64 = self.look(count)?.into_iter().sum();
        client.say(&Message::Out(format!("{all}\n")))?;
        Ok(0)
    }

    fn list_chosen(
        &self,
        client: &Client,
        call: &TableCall,
        looks: Option<Instant>,
    ) -> io::Result<u8> {
        let mut telling = Telling::new(client);
        let mut list = List::begin(call.form(), call.key(), &mut telling)?;
        let shown = Arc::new(AtomicU64::new(0));
        let (chosen, counted) = (Arc::new(call.clone()), shown.clone());
        match call.table {
            ConnectionTable::Connections => {
                self.list(looks, &mut list, move |path, first, page| {
                    path.conntrack().iter_from(first).try_for_each(|c| {
                        page.push(c.number(), || {
                            let chosen =
                                chosen.filter.has(&c).then(|| Listed::styled(&c, chosen.style))?;
                            counted.fetch_add(1, Relaxed);
                            Some(chosen)
                        })
                    });
                })?
            }
            ConnectionTable::Flows => self.list(looks, &mut list, move |path, first, page| {
                let now = crate::now();
                path.flow_entries(first).try_for_each(|(number, entry)| {
                    page.push(number, || {
                        let entry = entry?;
                        if !chosen.filter.has_outline(outline_of(&entry)) {
                            return None;
                        }
                        counted.fetch_add(1, Relaxed);
                        Some(Flow::of(&entry, path.network(), now))
                    })
                });
            })?,
        }
        list.end()?;
        io::Write::flush(&mut telling)?;
        client.say(&summary("shown", call, shown.load(Relaxed)))?;
        Ok(0)
    }

    /// Removes what is chosen, page by page. As with conntrack(8), none at all is a failure, but
    /// for all of them.
    fn remove_all(&self, client: &Client, call: &TableCall) -> io::Result<u8> {
        let failed = |e: Errno| io::Error::other(format!("{e:?}"));
        let chosen = Arc::new(call.clone());
        let lists = call.action == TableAction::Delete;
        let mut telling = Telling::new(client);
        let mut count = 0;
        {
            let mut list = match lists {
                true => Some(List::begin(call.form(), call.key(), &mut telling)?),
                false => None,
            };
            for worker in 0..self.workers.count() {
                let mut next = Some(0);
                while let Some(first) = next {
                    let (entries, removed, more) = match call.table {
                        ConnectionTable::Connections => {
                            self.tables.remove_chosen(worker, first, &chosen).map_err(failed)?
                        }
                        ConnectionTable::Flows => self.end_flows(worker, first, &chosen)?,
                    };
                    if let Some(list) = &mut list {
                        list.entries(&entries)?;
                    }
                    count += removed;
                    next = more;
                }
            }
            list.map_or(Ok(()), List::end)?;
        }
        io::Write::flush(&mut telling)?;
        client.say(&summary("deleted", call, count))?;
        Ok(u8::from(lists && count == 0))
    }

    /// Gives flows of a worker back to connection tracking, some from a number on. Returns their
    /// entries in a list, how many they are, and where the next ones begin.
    fn end_flows(
        &self,
        worker: usize,
        first: u32,
        call: &Arc<TableCall>,
    ) -> io::Result<(Entries, u32, Option<u32>)> {
        let call = call.clone();
        let request = |to: std::sync::mpsc::Sender<_>| {
            Request::Change(Box::new(move |path: &mut Dataplane| {
                let now = crate::now();
                let (mut entries, mut numbers, mut next) =
                    (Entries::new(call.form()), Vec::new(), None);
                for (seen, (number, entry)) in path.flow_entries(first).enumerate() {
                    if seen >= PAGE {
                        next = Some(number);
                        break;
                    }
                    let Some(entry) = entry else { continue };
                    let is_flow = matches!(entry, FlowEntry::Flow(_));
                    if is_flow && call.filter.has_outline(outline_of(&entry)) {
                        entries.push(&Flow::of(&entry, path.network(), now));
                        numbers.push(number);
                    }
                }
                let ended = numbers.into_iter().filter(|number| path.end_flow(*number)).count();
                let _ = to.send((entries, ended as u32, next));
            }))
        };
        self.workers.ask_one(worker, request, ANSWER).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Tells of events until the client goes.
    fn events(&self, client: &Client, call: TableCall) -> io::Result<u8> {
        /// How soon a client that has gone is noticed.
        const PULSE: Duration = Duration::from_millis(200);
        /// Bytes told at once.
        const TOGETHER: usize = 64 << 10;
        let command = call.command();
        let (reader, lines, missed) = LineWatcher::new(call);
        self.tables.watch_lines(&reader);
        let told = (|| {
            loop {
                let mut text = match lines.recv_timeout(PULSE) {
                    Ok(text) => text,
                    Err(RecvTimeoutError::Timeout) => {
                        client.is_there()?;
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(0),
                };
                while text.len() < TOGETHER
                    && let Ok(more) = lines.try_recv()
                {
                    text.push_str(&more);
                }
                client.say(&Message::Out(text))?;
                match missed.swap(0, Relaxed) {
                    0 => {}
                    missed => client.say(&Message::Err(format!(
                        "penstock {command}: {missed} events were missed\n"
                    )))?,
                }
            }
        })();
        self.tables.unwatch_lines(&reader);
        told
    }
}
