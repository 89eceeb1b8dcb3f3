// SPDX-License-Identifier: Apache-2.0

//! Sends: `sendto(2)`, `sendmsg(2)`, `sendmmsg(2)`, `write(2)`, `writev(2)`.
//!
//! A datagram is carried out, and its answers are in the program's buffer, before the call returns.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Trapped;
use crate::address::Address;
use crate::context::{Context, Reply, Result};
use crate::notify::{Call, Outcome};
use crate::service::Sender;
use crate::socket::{ROW, Rooms, Unanswered};
use crate::sys::Errno;
use crate::task::MOST_PARTS;

/// Longest datagram, in bytes: a batch of some 500,000 rules.
const MOST: usize = 256 << 20;
/// Bytes of `struct msghdr` on machines of 64 bits, and of `struct mmsghdr`.
const HEADER: u64 = 56;
const HEADERS: u64 = 64;

/// A datagram.
struct Sent {
    bytes: Vec<u8>,
    flags: i32,
    /// Where it goes; as connected if it does not say.
    to: Option<Address>,
}

/// How many datagrams a call has.
fn count(this: &Trapped<'_>) -> u64 {
    if this.call.number == libc::SYS_sendmmsg {
        u64::from(this.call.arguments[2] as u32).min(MOST_PARTS)
    } else {
        1
    }
}

/// Reads a datagram of the call.
fn datagram(this: &mut Trapped<'_>, number: u64) -> std::result::Result<Sent, Errno> {
    let call = this.call;
    let [_, a, b, c, d, e] = call.arguments;
    let task = &mut this.task;
    match call.number {
        libc::SYS_write => {
            let bytes = task.gather(&[(a, b)], b, MOST)?;
            Ok(Sent { bytes, flags: 0, to: None })
        }
        libc::SYS_writev => {
            let (parts, len) = task.parts(a, b).map_err(|_| libc::EINVAL)?;
            Ok(Sent { bytes: task.gather(&parts, len, MOST)?, flags: 0, to: None })
        }
        libc::SYS_sendto => {
            let to = if d == 0 { None } else { Some(Address::read(task, d, e as i32)?) };
            Ok(Sent { bytes: task.gather(&[(a, b)], b, MOST)?, flags: c as i32, to })
        }
        _ => {
            let (header, flags) = if call.number == libc::SYS_sendmmsg {
                (a.saturating_add(number * HEADERS), c)
            } else {
                (a, b)
            };
            // Name, its length in 32 bits, parts, their number.
            let [name, name_len, parts, parts_len] = {
                let mut bytes = [0; 32];
                task.read(header, &mut bytes)?;
                std::array::from_fn(|i| {
                    u64::from_ne_bytes(bytes[8 * i..][..8].try_into().unwrap_or_default())
                })
            };
            let to = match name_len as i32 {
                _ if name == 0 => None,
                0 => None,
                len => Some(Address::read(task, name, len)?),
            };
            let (parts, len) = task.parts(parts, parts_len)?;
            Ok(Sent { bytes: task.gather(&parts, len, MOST)?, flags: flags as i32, to })
        }
    }
}

/// What the kernel refuses.
fn check(sent: &Sent, connected: Address, buffer: Option<usize>) -> std::result::Result<(), Errno> {
    /// What a datagram needs of the buffer for itself (`netlink_sendmsg()`).
    const OWN: usize = 32;
    if sent.flags & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if sent.bytes.is_empty() {
        return Err(libc::ENODATA);
    }
    let to = sent.to.unwrap_or(connected);
    if to.groups != 0 {
        return Err(libc::EPERM);
    }
    // No program listens there: all sockets of the service are the kernel's.
    if to.port != 0 {
        return Err(libc::ECONNREFUSED);
    }
    if buffer.is_some_and(|buffer| sent.bytes.len() > buffer.saturating_sub(OWN)) {
        return Err(libc::EMSGSIZE);
    }
    Ok(())
}

fn hash(sent: &[Sent]) -> u64 {
    let mut hasher = DefaultHasher::new();
    sent.iter().for_each(|sent| sent.bytes.hash(&mut hasher));
    hasher.finish()
}

/// Sends. A call that a signal has ended after its datagrams were carried out may be made again, by
/// the kernel (`SA_RESTART`) or by the program: then it returns what it would have returned.
pub(super) fn send(this: &mut Trapped<'_>) -> Result {
    let mut all = Vec::new();
    let mut failed = None;
    let mut bytes = 0;
    for number in 0..count(this) {
        match datagram(this, number) {
            Ok(sent) => {
                bytes += sent.bytes.len();
                all.push(sent);
            }
            Err(errno) => failed = Some(errno),
        }
        if bytes > MOST {
            failed = Some(libc::EMSGSIZE);
        }
        if failed.is_some() {
            break;
        }
    }
    this.bind_if_unbound()?;
    let call = this.call;
    let (before, connected, buffer) =
        this.context.socket(this.inode, |s| (s.unanswered.take(), s.peer, s.send_buffer))?;
    if let Some(before) = before
        && (before.thread, before.number) == (call.thread, call.number)
        && before.hash == hash(&all)
    {
        if this.context.listener.answer(&call, before.outcome).is_err() {
            let _ = this.context.socket(this.inode, |s| s.unanswered = Some(before));
        }
        return Ok(Reply::Done);
    }
    let named = {
        let mut sockets = this.context.sockets();
        let service = sockets.service_of(this.inode);
        service.is_none_or(|service| all.iter().any(|one| service.wants_name(&one.bytes)))
    };
    let sender = this.sender(named)?;
    let mut sent = 0;
    for one in &all {
        let done = check(one, connected, buffer)
            .and_then(|()| this.context.sockets().carry_out(this.inode, &sender, &one.bytes));
        if let Err(errno) = done {
            failed = Some(errno);
            break;
        }
        sent += 1;
    }
    let outcome = match (call.number, failed) {
        (libc::SYS_sendmmsg, _) if sent > 0 => {
            for (number, one) in (0..sent).zip(&all) {
                let at = call.arguments[1].saturating_add(number * HEADERS + HEADER);
                // The datagrams are sent, even if their lengths cannot be written.
                let _ = this.task.write_value(at, &(one.bytes.len() as u32));
            }
            Outcome::Value(sent as i64)
        }
        (_, Some(errno)) => Outcome::Error(errno),
        _ => Outcome::Value(all.first().map_or(0, |one| one.bytes.len() as i64)),
    };
    if sent > 0 && this.context.listener.answer(&call, outcome).is_err() {
        let Call { thread, number, .. } = call;
        let unanswered = Unanswered { thread, number, hash: hash(&all), outcome };
        let _ = this.context.socket(this.inode, |s| s.unanswered = Some(unanswered));
        return Ok(Reply::Done);
    }
    Ok(if sent > 0 { Reply::Done } else { Reply::Now(outcome) })
}

/// Carries out what a program has sent without a trapped call. Verdicts about packets, which nobody
/// waits for, are carried out together.
pub(crate) fn take_untrapped(context: &Context, inode: u64, rooms: &mut Rooms) {
    /// Times that datagrams are taken from a socket in a row, and bytes that are carried out
    /// together.
    const ROWS: usize = 8;
    const TOGETHER: usize = 32 << 10;
    let mut verdicts = Vec::new();
    for _ in 0..ROWS {
        let taken = context.socket(inode, |socket| socket.take_untrapped(rooms));
        let taken = taken.unwrap_or_default();
        let is_last = taken.len() < ROW;
        for datagram in taken {
            let is_verdict = {
                let mut sockets = context.sockets();
                sockets.service_of(inode).is_some_and(|service| !service.wants_name(&datagram))
            };
            if !is_verdict {
                untrapped(context, inode, &std::mem::take(&mut verdicts));
                untrapped(context, inode, &datagram);
                continue;
            }
            verdicts.extend(datagram);
            // Messages begin at multiples of four bytes.
            verdicts.resize(verdicts.len().next_multiple_of(4), 0);
            if verdicts.len() > TOGETHER {
                untrapped(context, inode, &std::mem::take(&mut verdicts));
            }
        }
        if is_last {
            break;
        }
    }
    untrapped(context, inode, &verdicts);
}

/// Carries out what a program sent without a trapped call, if anything.
fn untrapped(context: &Context, inode: u64, datagram: &[u8]) {
    if datagram.is_empty() {
        return;
    }
    let mut sockets = context.sockets();
    match sockets.get(inode) {
        Some(socket) if socket.port == 0 => {
            if sockets.bind_to_any(inode, 0).is_err() {
                return;
            }
        }
        Some(_) => {}
        None => return,
    }
    // Nobody says who sends it: the rights are those of who opened the socket.
    let sender = Sender { thread: 0, name: String::new(), may_change: true };
    let _ = sockets.carry_out(inode, &sender, datagram);
}
