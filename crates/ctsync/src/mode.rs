// SPDX-License-Identifier: Apache-2.0

//! The exchange with a peer, in one of the modes.

use crate::alarm::Alarm;
use crate::config;
use crate::ftfw::FtFw;
use crate::message::{Message, flag};
use crate::notrack::NoTrack;
use crate::outgoing::{Encoded, Queue};
use crate::received::Received;
use crate::sequence::Tracked;

/// The exchange with a peer. Times are nanoseconds of a clock that only goes forward.
#[derive(Debug)]
pub struct Mode(Which);

#[derive(Debug)]
enum Which {
    FtFw(Box<FtFw>),
    Alarm(Alarm),
    NoTrack(NoTrack),
}

const SECOND: u64 = 1_000_000_000;

impl Mode {
    /// The exchange begins. `first` is the first sequence number, conntrackd's is the time in
    /// seconds.
    pub fn new(config: &config::Mode, first: u32, now: u64) -> Self {
        Mode(match *config {
            config::Mode::FtFw { window, resend_queue } => {
                Which::FtFw(Box::new(FtFw::new(window, resend_queue, first, now)))
            }
            config::Mode::Alarm { refresh, .. } => {
                Which::Alarm(Alarm::new(u64::from(refresh) * SECOND, first, now))
            }
            config::Mode::NoTrack => Which::NoTrack(NoTrack::new(first, now)),
        })
    }

    fn queue(&self) -> &Queue {
        match &self.0 {
            Which::FtFw(mode) => &mode.queue,
            Which::Alarm(mode) => &mode.queue,
            Which::NoTrack(mode) => &mode.queue,
        }
    }

    /// What has come from the peer, and what has not.
    pub fn tracked(&self) -> &Tracked {
        match &self.0 {
            Which::FtFw(mode) => &mode.tracked,
            Which::Alarm(mode) => &mode.tracked,
            Which::NoTrack(mode) => &mode.tracked,
        }
    }

    /// How many messages wait to be sent.
    pub fn waiting(&self) -> usize {
        self.queue().len()
    }

    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.queue().sent()
    }

    /// How many messages the peer has not acknowledged; nothing where it acknowledges none.
    pub fn unacknowledged(&self) -> Option<usize> {
        match &self.0 {
            Which::FtFw(mode) => Some(mode.resend.len()),
            Which::Alarm(_) | Which::NoTrack(_) => None,
        }
    }

    /// How many messages were not kept until they were acknowledged.
    pub fn given_up(&self) -> u64 {
        match &self.0 {
            Which::FtFw(mode) => mode.resend.given_up(),
            Which::Alarm(_) | Which::NoTrack(_) => 0,
        }
    }

    /// Whether the peer can be asked for all that it has.
    pub fn has_resync(&self) -> bool {
        !matches!(self.0, Which::Alarm(_))
    }

    /// A message is to be sent.
    pub fn enqueue(&mut self, message: Encoded) {
        match &mut self.0 {
            Which::FtFw(mode) => mode.enqueue(message),
            Which::Alarm(mode) => mode.queue.push_data(message),
            Which::NoTrack(mode) => mode.queue.push_data(message),
        }
    }

    /// The peer is to send all that it has. `false` in ALARM mode, where it does so anyway.
    pub fn request_resync(&mut self) -> bool {
        let queue = match &mut self.0 {
            Which::FtFw(mode) => &mut mode.queue,
            Which::NoTrack(mode) => &mut mode.queue,
            Which::Alarm(_) => return false,
        };
        queue.push_control(flag::RESYNC, Some((0, 0)));
        true
    }

    /// Fills a datagram of at most `limit` bytes with messages that wait; a longer message has one
    /// of its own. `false` if none waits.
    pub fn send(&mut self, now: u64, datagram: &mut Vec<u8>, limit: usize) -> bool {
        datagram.clear();
        match &mut self.0 {
            Which::FtFw(mode) => while mode.send(now, datagram, limit) {},
            Which::Alarm(mode) => while mode.queue.send(datagram, limit, || 0).is_some() {},
            Which::NoTrack(mode) => while mode.send(now, datagram, limit) {},
        }
        !datagram.is_empty()
    }

    /// Takes a message of the peer.
    pub fn receive(&mut self, message: &Message<'_>) -> Received {
        match &mut self.0 {
            Which::FtFw(mode) => mode.receive(message),
            Which::Alarm(mode) => mode.receive(message),
            Which::NoTrack(mode) => mode.receive(message),
        }
    }

    /// When [`Mode::tick`] has something to do.
    pub fn due(&self) -> Option<u64> {
        match &self.0 {
            Which::FtFw(mode) => Some(mode.due()),
            Which::NoTrack(mode) => Some(mode.due()),
            Which::Alarm(_) => None,
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        match &mut self.0 {
            Which::FtFw(mode) => mode.tick(now),
            Which::NoTrack(mode) => mode.tick(now),
            Which::Alarm(_) => {}
        }
    }

    /// How many of `count` connections are to be told again now; none but in ALARM mode.
    pub fn refresh(&mut self, now: u64, count: usize) -> usize {
        match &mut self.0 {
            Which::Alarm(mode) => mode.refresh(now, count),
            Which::FtFw(_) | Which::NoTrack(_) => 0,
        }
    }

    /// Forgets the messages that wait.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Which::FtFw(mode) => mode.queue.clear(),
            Which::Alarm(mode) => mode.queue.clear(),
            Which::NoTrack(mode) => mode.queue.clear(),
        }
    }
}
