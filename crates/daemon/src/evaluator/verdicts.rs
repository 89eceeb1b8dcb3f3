// SPDX-License-Identifier: Apache-2.0

//! What netfilter sockets ask about packets of queues and logs. Verdicts that nobody waits for are
//! asked together: as many as the client has sent by then.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use penstock_nfnetlink::{LogConfig, PacketListeners, QueueConfig, QueueVerdict, only_decides};
use penstock_ruleset::Errno;

use super::child::{Child, GRACE, Verdicts, unexpected};
use super::netfilter::Batch;
use super::protocol::{Answer, Ask};
use super::sandbox;
use crate::control::PATIENCE;
use crate::control::netfilter::{Datagram, Recipient, Request};
use crate::control::protocol::Message;
use crate::packet_listeners::{self, Decision};

/// Requests with verdicts that are carried out together at most, and their bytes: the dataplane
/// takes no longer question.
const TOGETHER: usize = 128;
const BYTES: usize = 256 << 10;

impl Child<'_> {
    /// Carries out verdicts that nobody waits for: these, and those that the client has sent since.
    /// Gives the first message that is none.
    pub(super) fn carry_out(&mut self, first: Request) -> io::Result<Option<Message>> {
        let (mut bytes, mut all, mut other) = (first.datagram.len(), vec![first], None);
        while all.len() < TOGETHER && bytes < BYTES && other.is_none() && self.has_more() {
            match self.client.hear(PATIENCE)? {
                Message::Send(request) => {
                    bytes += request.datagram.len();
                    all.push(request);
                }
                message => other = Some(message),
            }
        }
        sandbox::alarm(self.call.time.as_secs().saturating_add(GRACE));
        let refused = self.decide(&all);
        sandbox::stop_alarm();
        self.say_datagrams(refused?)?;
        Ok(other)
    }

    /// Whether the client has said something, and is there.
    fn has_more(&self) -> bool {
        if self.client.has_received() {
            return true;
        }
        let fd = self.client.as_fd().as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 && self.client.is_there().is_ok() }
    }

    /// Decides, and gives the answers to what is refused.
    fn decide(&mut self, all: &[Request]) -> io::Result<Vec<Datagram>> {
        if !all.iter().all(|request| only_decides(&request.datagram)) {
            return Err(unexpected());
        }
        self.verdicts = Verdicts::Noted(Vec::new());
        let mut answers = Vec::with_capacity(all.len());
        let mut ends = Vec::with_capacity(all.len());
        for request in all {
            answers.push(self.answer(request, false)?);
            ends.push(self.noted());
        }
        let Verdicts::Noted(noted) = std::mem::take(&mut self.verdicts) else {
            return Err(unexpected());
        };
        let failed = match noted.is_empty() {
            true => BTreeMap::new(),
            false => match self.ask(&Ask::Verdicts(noted))? {
                Answer::Refusals(failed) => failed.into_iter().collect(),
                _ => return Err(unexpected()),
            },
        };
        let mut begin = 0;
        for ((request, answer), end) in all.iter().zip(&mut answers).zip(ends) {
            if failed.range(begin..end).next().is_some() {
                let known = |n| failed.get(&n).map_or(Ok(()), |errno| Err(*errno));
                self.verdicts = Verdicts::Known((begin..end).map(known).collect());
                *answer = self.answer(request, false)?;
                self.verdicts = Verdicts::Asked;
            }
            begin = end;
        }
        let own = |(request, answers): (&Request, Vec<Datagram>)| {
            let port = request.port;
            let to = move |answer: Datagram| match answer.to {
                Recipient::Sender => Datagram { to: Recipient::Port(port), ..answer },
                Recipient::Others(_) | Recipient::All(_) | Recipient::Port(_) => answer,
            };
            answers.into_iter().map(to)
        };
        Ok(all.iter().zip(answers).flat_map(own).collect())
    }

    /// How many verdicts are noted.
    fn noted(&self) -> u32 {
        match &self.verdicts {
            Verdicts::Noted(noted) => noted.len() as u32,
            Verdicts::Asked | Verdicts::Known(_) => 0,
        }
    }
}

impl Batch<'_, '_> {
    fn packets_answer(&mut self, ask: packet_listeners::Ask) -> Result<(), Errno> {
        match self.child.ask(&Ask::Packets(ask)) {
            Ok(Answer::Packets(answer)) => answer,
            Ok(_) => Err(self.wrong_answer()),
            Err(e) => Err(self.broke(e).errno),
        }
    }
}

impl PacketListeners for Batch<'_, '_> {
    fn configure_queue(&mut self, port: u32, queue: u16, asked: &QueueConfig) -> Result<(), Errno> {
        self.packets_answer(packet_listeners::Ask::Queue(port, queue, *asked))
    }

    fn may_decide(&mut self, port: u32, queue: u16) -> Result<(), Errno> {
        self.packets_answer(packet_listeners::Ask::MayDecide(port, queue))
    }

    fn decide(&mut self, port: u32, queue: u16, verdict: QueueVerdict) -> Result<(), Errno> {
        let decision = Decision { port, queue, verdict };
        match &mut self.child.verdicts {
            Verdicts::Asked => {}
            Verdicts::Noted(noted) => {
                noted.push(decision);
                return Ok(());
            }
            Verdicts::Known(known) => return known.pop_front().unwrap_or(Ok(())),
        }
        self.packets_answer(packet_listeners::Ask::Decide(decision))
    }

    fn configure_log(&mut self, port: u32, group: u16, asked: &LogConfig) -> Result<(), Errno> {
        self.packets_answer(packet_listeners::Ask::Log(port, group, *asked))
    }
}
