// SPDX-License-Identifier: Apache-2.0

//! Calls of `nft`, and netfilter sockets: a child of the evaluator serves the client, and the dataplane answers the child.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use penstock_system::SystemNames;

use super::Server;
use crate::control::protocol::Message;
use crate::control::{Client, Rights, not_now};
use crate::evaluator::{Attendance, Call, End, Task};
use crate::rules::Process;

impl Server {
    /// Serves a client that calls `nft`. Returns the exit status, unless a child has told it.
    pub(super) fn nft(
        &self,
        client: &Client,
        args: Vec<String>,
        rights: Rights,
        process: &Process,
    ) -> io::Result<Option<u8>> {
        match self.evaluate(client, Task::Nft(args), rights, process)? {
            End::Done => Ok(None),
            End::HandedOver(_) => self.traces(client).map(Some),
            End::Failed(sentence) => {
                client.say(&Message::Err(format!("Error: {sentence}\n")))?;
                Ok(Some(1))
            }
        }
    }

    /// Serves a client that has netfilter sockets. Returns the exit status, unless a child has told
    /// it.
    pub(super) fn netfilter(
        &self,
        client: &Client,
        rights: Rights,
        process: &Process,
    ) -> io::Result<Option<u8>> {
        match self.evaluate(client, Task::Netfilter, rights, process)? {
            End::Done | End::HandedOver(_) => Ok(None),
            End::Failed(sentence) => {
                client.say(&Message::Err(format!("Error: {sentence}\n")))?;
                Ok(Some(1))
            }
        }
    }

    /// Has a child of the evaluator serve a client.
    pub(super) fn evaluate(
        &self,
        client: &Client,
        task: Task,
        rights: Rights,
        process: &Process,
    ) -> io::Result<End> {
        let call = Call::of(&self.config, task, rights, process.clone());
        let called = self.evaluator.call(Some(&self.rules), client.as_fd(), call.clone());
        Ok(match called {
            Ok(channel) => {
                let names = Box::new(SystemNames::default());
                let (evaluator, rules) = (&*self.evaluator, Some(&*self.rules));
                let tables = Some(&*self.tables);
                let listeners = Some(&self.listeners);
                Attendance { evaluator, channel, rules, tables, listeners, names, call }.attend()
            }
            Err(e) => End::Failed(format!("{}: {e}", not_now::NO_EVALUATOR)),
        })
    }

    /// Tells a client of traces until it goes.
    fn traces(&self, client: &Client) -> io::Result<u8> {
        /// How soon a client that went away is noticed where nothing happens.
        const PULSE: Duration = Duration::from_millis(500);
        let heard = self.rules.watch_traces();
        loop {
            match heard.texts.recv_timeout(PULSE) {
                Ok(text) => client.say(&Message::Out(text))?,
                Err(RecvTimeoutError::Timeout) => client.is_there()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
            let missed = heard.take_missed();
            if missed > 0 {
                client.say(&Message::Out(format!("# {missed} lines of traces were lost\n")))?;
            }
        }
    }
}
