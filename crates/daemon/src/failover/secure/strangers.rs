// SPDX-License-Identifier: Apache-2.0

//! Connections that were accepted, and have not shown yet that they are of a peer. They come from
//! addresses of peers only, there are few at a time, and few handshakes in a second are computed.

use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use penstock_ctsync::secure::{Handshake, PrivateKey, PublicKey, Session};

use super::peer::HANDSHAKE;
use super::wire::Wire;

/// Connections at a time; the oldest one ends if there are more.
const MOST: usize = 8;
/// Connections that are accepted before others have their turn.
const ACCEPTED: usize = 16;
/// Handshakes that are computed in a second at most.
const COMPUTED: u32 = 20;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// How far one is.
enum Stage {
    /// Its handshake is waited for.
    Greets(Box<Handshake>),
    /// A frame by the keys of the handshake is waited for: a handshake may be another one's, sent
    /// again.
    Proves(Box<Session>, PublicKey),
}

struct Stranger {
    wire: Box<Wire>,
    stage: Stage,
    since: u64,
}

/// All of them, and the socket that they connect to.
pub(super) struct Strangers {
    listener: TcpListener,
    all: Vec<Stranger>,
    /// Handshakes that were computed in the second that began at a time.
    computed: (u64, u32),
    /// Connections that were refused.
    pub(super) refused: u64,
}

/// A connection that is of a peer.
pub(super) struct Known {
    pub(super) wire: Box<Wire>,
    pub(super) session: Box<Session>,
    pub(super) key: PublicKey,
    /// The records of the frame that has shown it.
    pub(super) first: Vec<u8>,
}

impl Strangers {
    /// On a socket that listens, and does not wait.
    pub(super) fn new(listener: TcpListener) -> Self {
        Strangers { listener, all: Vec::new(), computed: (0, 0), refused: 0 }
    }

    /// What is waited for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let all = self.all.iter().map(|stranger| stranger.wire.waits());
        std::iter::once((self.listener.as_fd(), false)).chain(all)
    }

    /// Accepts those who come from addresses of peers.
    pub(super) fn accept(&mut self, own: &PrivateKey, is_peer: impl Fn(IpAddr) -> bool, now: u64) {
        for _ in 0..ACCEPTED {
            let Ok((stream, from)) = self.listener.accept() else { return };
            let accepted = is_peer(from.ip()).then(|| {
                let wire = Box::new(Wire::accepted(stream).ok()?);
                let handshake = Box::new(Handshake::accept(own).ok()?);
                Some(Stranger { wire, stage: Stage::Greets(handshake), since: now })
            });
            let Some(stranger) = accepted.flatten() else {
                self.refused += 1;
                continue;
            };
            if self.all.len() >= MOST {
                self.all.remove(0);
                self.refused += 1;
            }
            self.all.push(stranger);
        }
    }

    /// Hears what they say. Those who have shown that they are a peer are no strangers any more.
    pub(super) fn hear(
        &mut self,
        is_peer: impl Fn(&PublicKey) -> bool + Copy,
        now: u64,
    ) -> Vec<Known> {
        let mut known = Vec::new();
        if now.saturating_sub(self.computed.0) >= SECOND {
            self.computed = (now, 0);
        }
        for mut stranger in std::mem::take(&mut self.all) {
            let late = now.saturating_sub(stranger.since) >= HANDSHAKE;
            if late || stranger.wire.receive().is_err() {
                self.refused += 1;
                continue;
            }
            match self.step(stranger, is_peer) {
                Some(Step::Waits(stranger)) => self.all.push(stranger),
                Some(Step::Known(one)) => known.push(one),
                None => self.refused += 1,
            }
        }
        known
    }

    fn step(&mut self, stranger: Stranger, is_peer: impl Fn(&PublicKey) -> bool) -> Option<Step> {
        let Stranger { mut wire, stage, since } = stranger;
        let stage = match stage {
            Stage::Greets(handshake) => {
                let wants = handshake.wants();
                if wire.received().len() < wants {
                    return Some(Step::Waits(Stranger {
                        wire,
                        stage: Stage::Greets(handshake),
                        since,
                    }));
                }
                self.computed.1 += 1;
                if self.computed.1 > COMPUTED {
                    return None;
                }
                let mut answer = Vec::new();
                let said = wire.received().get(..wants).unwrap_or_default();
                let (session, key) = handshake.receive(said, is_peer, &mut answer).ok()?;
                wire.take(wants);
                wire.sending.extend(answer);
                Stage::Proves(Box::new(session), key)
            }
            proves => proves,
        };
        wire.send().ok()?;
        let Stage::Proves(mut session, key) = stage else { return None };
        let opened = session.open(wire.received()).ok()?;
        let Some((first, len)) = opened.map(|(records, len)| (records.to_vec(), len)) else {
            return Some(Step::Waits(Stranger { wire, stage: Stage::Proves(session, key), since }));
        };
        wire.take(len);
        Some(Step::Known(Known { wire, session, key, first }))
    }
}

/// What becomes of a stranger.
enum Step {
    Waits(Stranger),
    Known(Known),
}
