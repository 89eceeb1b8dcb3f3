// SPDX-License-Identifier: Apache-2.0

//! The changes of a text, on their way to the dataplane while the text is still being evaluated.

use std::cell::RefCell;
use std::io;

use penstock_lang::session::remote::Changes;
use penstock_ruleset::model::Generation;
use penstock_ruleset::{Change, received};

use super::protocol::Ask;
use crate::channel::Channel;

/// Bytes of changes that are sent at once.
const TOGETHER: usize = 60 << 10;

#[derive(Default)]
struct Pending {
    /// Of which generation, and when.
    base: (u32, u64),
    begun: bool,
    bytes: Vec<u8>,
    /// Some were too many to be held.
    lost: bool,
    failed: Option<io::Error>,
}

/// Where changes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// They go to the dataplane as they come.
    Sent,
    /// They are held until they are asked for, up to so many bytes.
    Held(usize),
    /// They are only for the child itself.
    Kept,
}

/// Notes changes.
pub(super) struct Recorder<'c> {
    channel: &'c Channel,
    delivery: Delivery,
    pending: RefCell<Pending>,
}

impl<'c> Recorder<'c> {
    pub(super) fn new(channel: &'c Channel, delivery: Delivery) -> Self {
        Recorder { channel, delivery, pending: RefCell::default() }
    }

    /// Sends the rest. An error if anything could not be sent, or held.
    pub(super) fn flush(&self) -> io::Result<()> {
        let pending = &mut *self.pending.borrow_mut();
        if pending.lost {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.send(pending);
        pending.failed.take().map_or(Ok(()), Err)
    }

    /// Takes all changes, with their generation and time, if none was sent so far.
    pub(super) fn take_unsent(&self) -> Option<(u32, u64, Vec<u8>)> {
        let pending = &mut *self.pending.borrow_mut();
        let unsent = !pending.begun && !pending.lost && self.delivery == Delivery::Sent;
        let (generation, now) = pending.base;
        unsent.then(|| {
            pending.begun = true;
            (generation, now, std::mem::take(&mut pending.bytes))
        })
    }

    fn send(&self, pending: &mut Pending) {
        let sent = (|| {
            if !pending.begun {
                pending.begun = true;
                let (generation, now) = pending.base;
                self.channel.say(&Ask::Begin { generation, now })?;
            }
            if !pending.bytes.is_empty() {
                self.channel.say(&Ask::Changes)?;
                self.channel.send(&pending.bytes, &[])?;
                pending.bytes.clear();
            }
            Ok(())
        })();
        if let Err(e) = sent {
            pending.failed.get_or_insert(e);
            pending.bytes.clear();
        }
    }
}

impl Changes for Recorder<'_> {
    fn begin(&self, generation: &Generation, now: u64) {
        let bytes = std::mem::take(&mut self.pending.borrow_mut().bytes);
        *self.pending.borrow_mut() =
            Pending { base: (generation.id, now), bytes, ..Pending::default() };
        self.pending.borrow_mut().bytes.clear();
    }

    fn note(&self, change: &Change) {
        let pending = &mut *self.pending.borrow_mut();
        if self.delivery == Delivery::Kept || pending.lost {
            return;
        }
        received::send(change, &mut pending.bytes);
        match self.delivery {
            Delivery::Sent if pending.bytes.len() >= TOGETHER => self.send(pending),
            Delivery::Held(most) if pending.bytes.len() > most => {
                (pending.lost, pending.bytes) = (true, Vec::new());
            }
            Delivery::Sent | Delivery::Held(_) | Delivery::Kept => {}
        }
    }
}
