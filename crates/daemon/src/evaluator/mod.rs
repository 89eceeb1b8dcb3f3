// SPDX-License-Identifier: Apache-2.0

//! Rule texts are evaluated outside of the process that moves packets.
//!
//! ```text
//!   client ---- control socket ----> dataplane -- Serve, the client's connection --> evaluator
//!     ^                               |  ^  \---- each change that is in force ----->   |
//!     |                        answers|  |changes                                      fork
//!     |                               v  |                                              v
//!     \------------- text, files, listings, errors ---------------------------------> child
//! ```
//!
//! A text is read, evaluated and lowered by a child of the evaluator, which has a copy of the
//! ruleset, no rights, and limits of memory and time ([`sandbox`]). What it finds are changes
//! ([`penstock_ruleset::Change`]), which the dataplane applies to the ruleset itself as the kernel
//! applies netlink messages: every one is checked, and all are refused or none. The child speaks
//! with the client: text, listings and errors are never in the dataplane's memory, and a text that
//! takes all memory, or never ends, ends the child alone.
//!
//! If a child has died, the dataplane answers its client with a sentence. An evaluator that dies
//! takes its children with it; the process that has started it starts another one, which gets the
//! ruleset with the next call. Packets notice nothing of either.
//!
//! | file | is |
//! | --- | --- |
//! | [`process`] | the processes, and how they begin |
//! | [`sandbox`] | what they may do |
//! | [`mirror`] | the ruleset as they know it |
//! | [`child`] | serves one client |
//! | [`names`], [`files`] | what a text may ask for |
//! | [`recorder`] | changes on their way to the dataplane |
//! | `netfilter`, [`attend_netfilter`] | both sides, where the client is a netfilter socket |
//! | `kept` | what happened to connections, on its way to such a client |
//! | [`remote_connections`] | connections as such a client reads and changes them |
//! | `verdicts` | what such a client asks about packets |
//! | [`attend`] | the dataplane's side of a child |
//! | [`load`] | the dataplane's own files |
//! | [`protocol`] | what is said |

mod attend;
mod attend_netfilter;
mod child;
mod files;
mod kept;
mod load;
mod mirror;
mod names;
mod netfilter;
mod process;
mod protocol;
mod recorder;
mod remote_connections;
mod remote_ip_sets;
mod sandbox;
mod verdicts;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(crate) use attend::{Attendance, End};
pub(crate) use load::{check, load};
pub(crate) use protocol::{Call, Task};

use crate::channel::Channel;
use crate::config::Config;
use crate::control::PATIENCE;
use crate::rules::Rules;
use protocol::{Answer, Order, QUESTION, Unknowing};

/// The dataplane's end of the channel to the evaluator.
#[derive(Debug)]
pub(crate) struct Evaluator {
    line: Mutex<Line>,
    /// Held while a ruleset is sent to a read-only client: there is one such copy at a time.
    copies: Mutex<()>,
}

#[derive(Debug)]
struct Line {
    channel: Channel,
    /// The generation that the evaluator has, and its marks; zeroes if it has none.
    sent: (u32, u64),
}

impl Evaluator {
    /// Starts its processes. There must be no other thread yet, and nothing be open that others
    /// wait for.
    pub(crate) fn start(config: &Config) -> io::Result<Self> {
        let line = Mutex::new(Line { channel: process::start(config)?, sent: (0, 0) });
        Ok(Evaluator { line, copies: Mutex::default() })
    }

    /// Sends it a commit, before a client needs it.
    pub(crate) fn update(&self, rules: &Rules) {
        // Without an evaluator the next call reports that.
        let _ = self.line.lock().unwrap_or_else(PoisonError::into_inner).update(rules);
    }

    /// Has a child serve a client. Returns the channel to it.
    pub(crate) fn call(
        &self,
        rules: Option<&Rules>,
        client: BorrowedFd<'_>,
        call: Call,
    ) -> io::Result<Channel> {
        let (ours, theirs) = Channel::pair(PATIENCE)?;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = rules {
            line.update(rules)?;
        }
        line.channel.say_with(&Order::Serve, &[client, theirs.as_fd()])?;
        drop(line);
        ours.say(&Answer::Call(call))?;
        Ok(ours)
    }
}

impl Line {
    fn update(&mut self, rules: &Rules) -> io::Result<()> {
        while self.channel.is_ready(Some(Duration::ZERO))? {
            if self.channel.hear::<Unknowing>(QUESTION, Some(PATIENCE))?.is_none() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.sent = (0, 0);
        }
        let (generation, marks) = self.sent;
        for update in rules.since(generation, marks) {
            self.sent = update.leads_to();
            self.channel.say(&Order::Update(update))?;
        }
        rules.forget_changes();
        Ok(())
    }
}
