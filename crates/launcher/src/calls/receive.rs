// SPDX-License-Identifier: Apache-2.0

//! Receives: `recvfrom(2)`, `recvmsg(2)`, `recvmmsg(2)`, `read(2)`, `readv(2)`.
//!
//! A datagram is taken out of the program's end of the pair, written into its memory, and the call
//! is answered. If the call has ended meanwhile, by a signal, the datagram is put back. Unlike the
//! kernel's, `recvmmsg(2)` does not wait for more once it has a datagram (as with
//! `MSG_WAITFORONE`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Trapped;
use crate::address::Address;
use crate::context::{Context, Reply, Result};
use crate::datagram::Datagram;
use crate::notify::{Call, Outcome};
use crate::sockets::Waiting;
use crate::sys::{self, Errno, socket_option};
use crate::task::{MOST_PARTS, Part, Task};

/// Bytes of `struct msghdr` on machines of 64 bits, and of `struct mmsghdr`.
const HEADER: u64 = 56;
const HEADERS: u64 = 64;
/// Offsets in `struct msghdr`.
const NAME_LEN: u64 = 8;
const CONTROL_LEN: u64 = 40;
const FLAGS: u64 = 48;
/// Receives that wait, above which those that have ended are looked for.
const MANY: usize = 128;

/// Where a datagram goes in the program's memory.
struct Target {
    parts: Vec<Part>,
    room: u64,
    /// Address and room of the sender's address.
    name: Option<(u64, i32)>,
    /// Where the length of the sender's address goes.
    name_len: Option<u64>,
    /// Address and room of control messages.
    control: Option<(u64, u64)>,
    /// Address of the header.
    header: Option<u64>,
}

/// How many datagrams a call takes at most.
fn count(call: &Call) -> usize {
    if call.number == libc::SYS_recvmmsg {
        u64::from(call.arguments[2] as u32).min(MOST_PARTS) as usize
    } else {
        1
    }
}

/// Flags of the call (`MSG_*`).
fn flags(call: &Call) -> i32 {
    match call.number {
        libc::SYS_recvfrom | libc::SYS_recvmmsg => call.int(3),
        libc::SYS_recvmsg => call.int(2),
        _ => 0,
    }
}

fn plain(parts: Vec<Part>, room: u64) -> Target {
    Target { parts, room, name: None, name_len: None, control: None, header: None }
}

/// Reads where the datagram with a number goes.
fn target(task: &mut Task, call: &Call, number: usize) -> std::result::Result<Target, Errno> {
    let [_, a, b, _, d, e] = call.arguments;
    match call.number {
        libc::SYS_read => Ok(plain(vec![(a, b)], b)),
        libc::SYS_readv => {
            let (parts, room) = task.parts(a, b).map_err(|_| libc::EINVAL)?;
            Ok(plain(parts, room))
        }
        libc::SYS_recvfrom => {
            let mut target = plain(vec![(a, b)], b);
            if d != 0 {
                target.name = Some((d, task.read_value(e)?));
                target.name_len = Some(e);
            }
            Ok(target)
        }
        _ => {
            let many = call.number == libc::SYS_recvmmsg;
            let header = if many { a.saturating_add(number as u64 * HEADERS) } else { a };
            let mut bytes = [0; HEADER as usize];
            task.read(header, &mut bytes)?;
            let [name, name_len, parts, parts_len, control, control_len, _] =
                std::array::from_fn(|i| {
                    u64::from_ne_bytes(bytes[8 * i..][..8].try_into().unwrap_or_default())
                });
            let (parts, room) = task.parts(parts, parts_len)?;
            let name_room = name_len as i32;
            if name != 0 && name_room < 0 {
                return Err(libc::EINVAL);
            }
            Ok(Target {
                parts,
                room,
                name: Some((name, name_room)).filter(|(name, _)| *name != 0),
                name_len: Some(header + NAME_LEN),
                control: Some((control, control_len)).filter(|(at, _)| *at != 0),
                header: Some(header),
            })
        }
    }
}

/// Begins a receive.
pub(super) fn start(this: &mut Trapped<'_>, scratch: &mut [u8]) -> Result {
    let call = this.call;
    if flags(&call) & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if matches!(call.number, libc::SYS_read) && call.arguments[2] == 0 || count(&call) == 0 {
        return Ok(0.into());
    }
    let waiting = Waiting { call, inode: this.inode, deadline: None };
    go_on(this.context, &mut this.task, waiting, true, scratch)
}

/// Goes on with a receive that waited.
pub(crate) fn resume(context: &Context, waiting: Waiting, scratch: &mut [u8]) {
    let call = waiting.call;
    let Ok((mut task, _)) = context.caller(&call) else { return };
    let outcome = match go_on(context, &mut task, waiting, false, scratch) {
        Ok(Reply::Now(outcome)) => outcome,
        Ok(Reply::Done) => return,
        Err(errno) => Outcome::Error(errno),
    };
    context.answer(&call, outcome);
}

/// Whether the call may wait, and until when.
fn patience(
    call: &Call,
    end: &OwnedFd,
    first: bool,
    before: Option<Instant>,
) -> Option<Option<Instant>> {
    // SAFETY: no pointers.
    let status = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETFL) };
    if flags(call) & libc::MSG_DONTWAIT != 0 || status & libc::O_NONBLOCK != 0 {
        return None;
    }
    if !first {
        return Some(before);
    }
    // `struct timeval`
    let time: [i64; 2] =
        socket_option(end, libc::SOL_SOCKET, libc::SO_RCVTIMEO).unwrap_or_default();
    let [seconds, micros] = time.map(|part| u64::try_from(part).unwrap_or(0));
    if seconds == 0 && micros == 0 {
        return Some(None);
    }
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some(Instant::now().checked_add(time))
}

/// Receives what is there; waits, if the call may, when that is too little.
fn go_on(
    context: &Context,
    task: &mut Task,
    mut waiting: Waiting,
    first: bool,
    scratch: &mut [u8],
) -> Result {
    let call = waiting.call;
    let end = task.borrow(&context.listener, &call, call.int(0))?;
    if context.socket(waiting.inode, |socket| socket.id)? != sys::cookie(&end).unwrap_or(0) {
        // Another thread has put something else under the number.
        return Err(libc::EBADF);
    }
    let peek = flags(&call) & libc::MSG_PEEK != 0;
    let (mut returned, mut failed) = (0, None);
    let mut taken = Vec::new();
    while taken.len() < count(&call) {
        let number = taken.len();
        let target = match target(task, &call, number) {
            Ok(target) => target,
            Err(errno) => {
                failed = Some(errno);
                break;
            }
        };
        let received = {
            let mut sockets = context.sockets();
            let socket = sockets.get(waiting.inode).ok_or(libc::EBADF)?;
            let (id, space) = (socket.id, socket.space);
            let room = usize::try_from(target.room).unwrap_or(usize::MAX);
            let mut received = socket.receive(&end, peek, room, scratch);
            if let Ok(datagram) = &mut received
                && !peek
            {
                socket.receive_more(&end, datagram, room, scratch);
            }
            if number == 0
                && let Some(service) = sockets.service(space)
            {
                service.receives_into(id, room);
            }
            if received.as_ref().err() == Some(&libc::EAGAIN)
                && number == 0
                && let Some(deadline) = patience(&call, &end, first, waiting.deadline)
                && deadline.is_none_or(|deadline| Instant::now() < deadline)
            {
                waiting.deadline = deadline;
                sockets.wait(waiting);
                let many = sockets.waiting() > MANY;
                drop(sockets);
                drop(end);
                if many {
                    forget_ended(context);
                }
                return Ok(Reply::Done);
            }
            received
        };
        match received {
            Ok(datagram) => {
                let written = write(context, task, &waiting, &end, &target, &datagram);
                taken.push(datagram);
                match written {
                    Ok(value) => returned = value,
                    Err(errno) => {
                        // The kernel has taken the datagram out, too.
                        taken.pop();
                        failed = Some(errno);
                        break;
                    }
                }
            }
            Err(errno) => {
                failed = Some(errno);
                break;
            }
        }
    }
    let outcome = match (call.number, taken.len(), failed) {
        (_, 0, Some(errno)) => Outcome::Error(errno),
        (libc::SYS_recvmmsg, many, _) => Outcome::Value(many as i64),
        _ => Outcome::Value(returned),
    };
    if context.listener.answer(&call, outcome).is_err() && !peek && !taken.is_empty() {
        let _ = context.socket(waiting.inode, |socket| socket.put_back(&end, taken, scratch));
    }
    Ok(Reply::Done)
}

/// Forgets receives after their calls have ended, by a signal or with their threads.
fn forget_ended(context: &Context) {
    drop(context.sockets().take_ended(|call| context.listener.is_waiting(call)));
}

/// Writes a datagram, with its metadata, into the program's memory. Returns the result of
/// `recvmsg(2)`.
fn write(
    context: &Context,
    task: &mut Task,
    waiting: &Waiting,
    end: &OwnedFd,
    target: &Target,
    datagram: &Datagram,
) -> std::result::Result<i64, Errno> {
    let flags = flags(&waiting.call);
    let len = datagram.bytes.len() as u64;
    let copied = len.min(target.room);
    task.scatter(&target.parts, &datagram.bytes[..copied as usize])?;
    let returned = if flags & libc::MSG_TRUNC != 0 { len } else { copied };
    let sender = Address { port: 0, groups: group_mask(datagram.group) };
    if let Some((at, room)) = target.name {
        sender.write(task, at, room)?;
    }
    if let Some(at) = target.name_len
        && target.name.is_some()
    {
        task.write_value(at, &(crate::address::LEN as i32))?;
    }
    if let Some(header) = target.header {
        let mut told = flags & libc::MSG_CMSG_CLOEXEC;
        if copied < len {
            told |= libc::MSG_TRUNC;
        }
        let mut used = 0;
        if let Some((at, room)) = target.control {
            let control = control(context, waiting.inode, end, datagram.group);
            if control.len() as u64 > room {
                told |= libc::MSG_CTRUNC;
            } else {
                task.write(at, &control)?;
                used = control.len() as u64;
            }
        } else if !control(context, waiting.inode, end, datagram.group).is_empty() {
            told |= libc::MSG_CTRUNC;
        }
        task.write_value(header + CONTROL_LEN, &used)?;
        task.write_value(header + FLAGS, &told)?;
        if waiting.call.number == libc::SYS_recvmmsg {
            task.write_value(header + HEADER, &(returned as u32))?;
        }
    }
    Ok(returned as i64)
}

/// `netlink_group_mask()`
fn group_mask(group: u32) -> u32 {
    group.checked_sub(1).and_then(|n| 1u32.checked_shl(n)).unwrap_or(0)
}

/// Control messages that the program has asked for: the group (`NETLINK_PKTINFO`), and the sender,
/// which is the kernel (`SO_PASSCRED`).
fn control(context: &Context, inode: u64, end: &OwnedFd, group: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |level: i32, kind: i32, data: &[u8]| {
        bytes.extend((16 + data.len() as u64).to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    };
    if context.socket(inode, |socket| socket.flags.has(sys::NETLINK_PKTINFO)) == Ok(true) {
        put(sys::SOL_NETLINK, sys::NETLINK_PKTINFO, &group.to_ne_bytes());
    }
    let credentials: i32 =
        socket_option(end, libc::SOL_SOCKET, libc::SO_PASSCRED).unwrap_or_default();
    if credentials != 0 {
        put(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[0; 12]);
    }
    bytes
}
