// SPDX-License-Identifier: Apache-2.0

//! The kernel's side of one netlink socket.

use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Errno, Generation};

use crate::ctnetlink::{self, Exchange, Outcome};
use crate::message::{AckOptions, Failure, MIN_TYPE, Message, acknowledge, flags};
use crate::nf_tables::{self, Dump, Get, Stamp};
use crate::process::Process;
use crate::socket::{Answers, Notification, Socket};
use crate::{
    Backend, accounts, batch, compat, fingerprints, globals, helpers, hooks, ipset, packets,
    timeouts,
};

/// Options of level `SOL_NETLINK` that change what is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `NETLINK_CAP_ACK` (10): errors do not repeat the request.
    CapAck,
    /// `NETLINK_EXT_ACK` (11): errors say which attribute is to blame.
    ExtAck,
    /// `NETLINK_GET_STRICT_CHK` (12): filters of dumps are checked.
    StrictCheck,
}

impl SocketOption {
    /// By its number in `setsockopt(2)`; `None` for one that changes no answer.
    pub fn from_number(number: i32) -> Option<Self> {
        match number {
            10 => Some(SocketOption::CapAck),
            11 => Some(SocketOption::ExtAck),
            12 => Some(SocketOption::StrictCheck),
            _ => None,
        }
    }
}

/// The kernel's side of one netlink socket.
#[derive(Clone, Debug)]
pub struct Client {
    /// The socket's port id, as `getsockname(2)` gives it.
    port: u32,
    /// Bit `n` for group `n + 1`.
    groups: u64,
    cap_ack: bool,
    ext_ack: bool,
    strict_check: bool,
    /// Longest buffer that the program received into, in bytes.
    receive_buffer: usize,
    /// Whether another client is a member of a group.
    listened: bool,
}

/// Longest datagram of a dump before the program received anything (`NLMSG_GOODSIZE`).
const DUMP_MIN: usize = 3776;
/// Longest datagram of a dump, in bytes.
const DUMP_MAX: usize = 32 << 10;

impl Client {
    /// A socket that is bound to a port id (not 0), and member of no group.
    pub fn new(port: u32) -> Self {
        Client {
            port,
            groups: 0,
            cap_ack: false,
            ext_ack: false,
            strict_check: false,
            receive_buffer: DUMP_MIN,
            listened: true,
        }
    }

    /// The port id.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Takes another port id, and exactly the groups of a mask, as `bind(2)` with a `sockaddr_nl`
    /// does: bit 0 is group 1.
    pub fn bind(&mut self, port: u32, groups: u32) {
        self.port = port;
        self.groups = self.groups & !u64::from(u32::MAX) | u64::from(groups);
    }

    /// Joins or leaves a group: `NETLINK_ADD_MEMBERSHIP` and `NETLINK_DROP_MEMBERSHIP`. Numbers
    /// that no group has are ignored.
    pub fn set_membership(&mut self, group: u32, member: bool) {
        let Some(bit) = group.checked_sub(1).and_then(|n| 1u64.checked_shl(n)) else { return };
        if member {
            self.groups |= bit;
        } else {
            self.groups &= !bit;
        }
    }

    /// Sets an option.
    pub fn set_option(&mut self, option: SocketOption, on: bool) {
        match option {
            SocketOption::CapAck => self.cap_ack = on,
            SocketOption::ExtAck => self.ext_ack = on,
            SocketOption::StrictCheck => self.strict_check = on,
        }
    }

    /// The program receives into a buffer of so many bytes. Datagrams of dumps get as long as the
    /// longest buffer so far, and at most 32 KiB.
    pub fn receives_into(&mut self, bytes: usize) {
        self.receive_buffer = self.receive_buffer.max(bytes).min(DUMP_MAX);
    }

    /// Whether a notification is for it.
    pub fn wants(&self, notification: &Notification) -> bool {
        let bit = notification.group.checked_sub(1).and_then(|n| 1u64.checked_shl(n));
        bit.is_some_and(|bit| self.groups & bit != 0)
    }

    /// Says whether another client is a member of a group: if none is, notifications are not even
    /// written. A new client takes it that there is one.
    pub fn set_listened(&mut self, listened: bool) {
        self.listened = listened;
    }

    /// Takes a datagram that a process sent, and carries out what it asks for. All answers are in
    /// the result: a program that receives without blocking finds them.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        from: &Process,
        backend: &mut dyn Backend,
    ) -> Answers {
        let Some((first, rest)) = Message::first(datagram) else { return Answers::default() };
        if first.header.kind == batch::BEGIN {
            return batch::run(&self.socket(), &first, rest, from, backend);
        }
        let mut sent = Sent::default();
        let mut rest = datagram;
        while let Some((message, after)) = Message::first(rest) {
            rest = after;
            self.answer(&message, from, backend, &mut sent);
        }
        if sent.changes_connections
            && let Err(errno) = backend.keep_connections()
        {
            return self.refuse(datagram, errno);
        }
        if sent.changes_ip_sets
            && let Err(errno) = backend.keep_ip_sets()
        {
            return self.refuse(datagram, errno);
        }
        sent.answers
    }

    /// Refuses each request of a datagram with an error, as where the ruleset cannot be reached. Of
    /// a batch the first message is refused.
    pub fn refuse(&self, datagram: &[u8], errno: Errno) -> Answers {
        let mut answers = Answers::default();
        let mut rest = datagram;
        while let Some((message, after)) = Message::first(rest) {
            if message.header.has(flags::REQUEST) && message.header.kind >= MIN_TYPE {
                let acks = self.socket().acks;
                let ack = acknowledge(&message, Some(&errno.into()), self.port, acks);
                answers.datagrams.push(ack);
            }
            rest = if message.header.kind == batch::BEGIN { &[] } else { after };
        }
        answers
    }

    fn socket(&self) -> Socket {
        Socket {
            port: self.port,
            acks: AckOptions { cap: self.cap_ack, ext: self.ext_ack },
            listened: self.listened,
        }
    }

    /// Answers one message that is in no batch (`nfnetlink_rcv_msg()`).
    fn answer(
        &self,
        message: &Message<'_>,
        from: &Process,
        backend: &mut dyn Backend,
        to: &mut Sent,
    ) {
        let header = &message.header;
        let is_request = header.has(flags::REQUEST) && header.kind >= MIN_TYPE;
        let result = match is_request && message.has_family() {
            // Netlink's own messages, and answers, are left aside.
            false => Ok(Outcome::Acknowledge),
            true => self.request(message, from, backend, to),
        };
        let failure = result.as_ref().err();
        let acknowledge_it = match &result {
            Ok(Outcome::Acknowledge) => header.has(flags::ACK),
            Ok(Outcome::Dumped) => false,
            Err(_) => true,
        };
        if acknowledge_it {
            to.answers.datagrams.push(acknowledge(message, failure, self.port, self.socket().acks));
        }
    }

    /// Carries out a request about connections.
    fn connections(
        &self,
        message: &Message<'_>,
        from: &Process,
        backend: &mut dyn Backend,
        to: &mut Sent,
    ) -> Result<Outcome, Failure> {
        let helpers = backend.generation().globals.connection_helpers();
        let connections = backend.connections().ok_or(Failure::einval())?;
        let changes = ctnetlink::is_change(message.subsystem(), message.number());
        if changes && !from.may_change {
            return Err(Errno::Eperm.into());
        }
        let echo = message.header.has(flags::ECHO);
        let listened = self.listened || echo || connections.tells();
        let mut exchange =
            Exchange::new(connections, helpers, message, self.port, self.receive_buffer, listened);
        let outcome = ctnetlink::run(&mut exchange, message);
        let Exchange { changed, datagrams, events, connections, .. } = exchange;
        to.changes_connections |= changed;
        let notifications = events.iter().map(|event| ctnetlink::notification(event, self.port));
        if echo {
            // The sender's copy is an answer.
            to.answers.datagrams.extend(notifications.clone().map(|n| n.datagram));
        }
        if connections.tells() {
            connections.tell(self.port, events)?;
        } else if echo {
            to.answers.notifications.extend(notifications);
        } else {
            to.answers.before.extend(notifications);
        }
        to.answers.datagrams.extend(datagrams);
        outcome
    }

    fn request(
        &self,
        message: &Message<'_>,
        from: &Process,
        backend: &mut dyn Backend,
        to: &mut Sent,
    ) -> Result<Outcome, Failure> {
        match message.subsystem() {
            nf_tables::SUBSYSTEM => {}
            compat::SUBSYSTEM => {
                to.answers.datagrams.push(compat::get(message, self.port)?);
                return Ok(Outcome::Acknowledge);
            }
            ctnetlink::SUBSYSTEM | ctnetlink::SUBSYSTEM_EXP => {
                return self.connections(message, from, backend, to);
            }
            subsystem @ (accounts::SUBSYSTEM
            | timeouts::SUBSYSTEM
            | helpers::SUBSYSTEM
            | fingerprints::SUBSYSTEM) => {
                let (port, limit) = (self.port, self.receive_buffer);
                let request = globals::Request { message: *message, port, limit };
                let run = match subsystem {
                    accounts::SUBSYSTEM => accounts::run,
                    fingerprints::SUBSYSTEM => fingerprints::run,
                    helpers::SUBSYSTEM => helpers::run,
                    _ => timeouts::run,
                };
                let (outcome, datagrams) = run(&request, from, backend)?;
                to.answers.datagrams.extend(datagrams);
                return Ok(outcome);
            }
            hooks::SUBSYSTEM => {
                let generation = backend.generation();
                let datagrams = hooks::dump(message, &generation, self.port, self.receive_buffer)?;
                to.answers.datagrams.extend(datagrams);
                return Ok(Outcome::Dumped);
            }
            ipset::SUBSYSTEM => {
                let sets = backend.ip_sets().ok_or(Failure::einval())?;
                let changes = ipset::is_change(message.subsystem(), message.number());
                if changes && !from.may_change {
                    return Err(Errno::Eperm.into());
                }
                // One that is refused may have added elements before.
                to.changes_ip_sets |= changes;
                let asker = ipset::Asker { port: self.port, limit: self.receive_buffer };
                let answered = ipset::run(sets, message, asker)?;
                to.answers.datagrams.extend(answered.datagrams);
                return Ok(if answered.whole { Outcome::Dumped } else { Outcome::Acknowledge });
            }
            packets::SUBSYSTEM_QUEUE | packets::SUBSYSTEM_LOG => {
                let listeners = backend.packets().ok_or(Failure::einval())?;
                if !from.may_change {
                    return Err(Errno::Eperm.into());
                }
                let run = match message.subsystem() {
                    packets::SUBSYSTEM_QUEUE => packets::run_queue,
                    _ => packets::run_log,
                };
                return run(listeners, self.port, message).map(|()| Outcome::Acknowledge);
            }
            _ => return Err(Failure::einval()),
        }
        let number = message.number();
        // Changes are in batches.
        if nf_tables::is_change(number) {
            return Err(Failure::einval());
        }
        let now = backend.now();
        let mut shown = Err(Failure::einval());
        let observed = backend.observe(&nf_tables::named(message), &mut |generation| {
            shown = self.show(message, from, generation, now);
            shown.as_mut().map_or_else(|_| Vec::new(), |shown| std::mem::take(&mut shown.resets))
        });
        let mut shown = shown?;
        observed.map_err(|error| Failure::from(error.errno))?;
        to.answers.datagrams.append(&mut shown.datagrams);
        Ok(shown.outcome)
    }

    /// Answers a request from a generation, at a time of the packet clock in nanoseconds.
    fn show(
        &self,
        message: &Message<'_>,
        from: &Process,
        generation: &Generation,
        now: u64,
    ) -> Result<Shown, Failure> {
        let number = message.number();
        let stamp =
            Stamp { sequence: message.header.sequence, port: self.port, generation: generation.id };
        let dump = message.header.flags & flags::DUMP != 0 && nf_tables::can_dump(number);
        let shown = if dump {
            let dump = Dump::new(stamp, self.receive_buffer);
            let (datagrams, resets) = nf_tables::dump(generation, message, dump, now)?;
            Shown { datagrams, resets, outcome: Outcome::Dumped }
        } else {
            let mut get = Get::new(generation, now, stamp);
            nf_tables::get(&mut get, message, from)?;
            get.flush();
            let Get { datagrams, resets, .. } = get;
            Shown { datagrams, resets, outcome: Outcome::Acknowledge }
        };
        match shown.resets.is_empty() || from.may_change {
            true => Ok(shown),
            false => Err(Errno::Eperm.into()),
        }
    }
}

/// Whether a datagram may change the ruleset or what packets have changed in it: a batch with its
/// end, a request that resets, or a change of connections or of sets of ipset.
pub fn may_change(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some((message, after)) = Message::first(rest) {
        let (subsystem, number) = (message.subsystem(), message.number());
        let resets = subsystem == nf_tables::SUBSYSTEM && nf_tables::is_reset(number);
        let changes = ctnetlink::is_change(subsystem, number)
            || accounts::is_change(subsystem, number)
            || fingerprints::is_change(subsystem, number)
            || helpers::is_change(subsystem, number)
            || ipset::is_change(subsystem, number)
            || timeouts::is_change(subsystem, number);
        if message.header.kind == batch::END || resets || changes {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether a datagram asks for packets of queues or logs: the socket may have some that end with it.
pub fn asks_for_packets(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some((message, after)) = Message::first(rest) {
        if matches!(message.subsystem(), packets::SUBSYSTEM_QUEUE | packets::SUBSYSTEM_LOG) {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether a datagram has verdicts about packets of queues alone, which are answered only if they
/// are refused: nobody waits for the answer.
pub fn only_decides(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some((message, after)) = Message::first(rest) {
        if !packets::is_quiet_verdict(&message) {
            return false;
        }
        rest = after;
    }
    true
}

/// Whether a datagram begins with a batch of changes of the ruleset.
pub fn begins_batch(datagram: &[u8]) -> bool {
    Message::first(datagram).is_some_and(|(message, _)| message.header.kind == batch::BEGIN)
}

/// The answer to a request that was right.
struct Shown {
    datagrams: Vec<Vec<u8>>,
    /// What is to be set to zero.
    resets: Vec<Reset>,
    outcome: Outcome,
}

/// What comes of a datagram so far.
#[derive(Debug, Default)]
struct Sent {
    answers: Answers,
    /// Connections have yet to be kept.
    changes_connections: bool,
    /// Sets of ipset have yet to be kept.
    changes_ip_sets: bool,
}
