// SPDX-License-Identifier: Apache-2.0

//! Options: `setsockopt(2)` and `getsockopt(2)`. Those of buffers, times and filters are the
//! kernel's, on the pair of sockets.

use super::Trapped;
use crate::context::{CONTINUE, Result};
use crate::sys::{self, Errno};

/// Groups that a socket can be a member of (`nlk->ngroups`).
const GROUPS: i32 = 32;

/// `netlink_setsockopt()`
pub(super) fn set(this: &mut Trapped<'_>) -> Result {
    let call = this.call;
    let (level, option, len) = (call.int(1), call.int(2), call.int(4));
    match level {
        libc::SOL_SOCKET => {
            if len >= size_of::<i32>() as i32 {
                note_buffer(this, option)?;
            }
            return CONTINUE;
        }
        sys::SOL_NETLINK => {}
        _ => return Err(libc::ENOPROTOOPT),
    }
    let value: i32 = if len < 0 {
        return Err(libc::EINVAL);
    } else if len >= size_of::<i32>() as i32 {
        this.task.read_value(call.arguments[3])?
    } else {
        0
    };
    let mut sockets = this.context.sockets();
    let socket = sockets.get(this.inode).ok_or(libc::EBADF)?;
    match option {
        sys::NETLINK_ADD_MEMBERSHIP | sys::NETLINK_DROP_MEMBERSHIP => {
            if !(1..=GROUPS).contains(&value) {
                return Err(libc::EINVAL);
            }
            let bit = 1 << (value - 1);
            let groups = match option {
                sys::NETLINK_ADD_MEMBERSHIP => socket.groups | bit,
                _ => socket.groups & !bit,
            };
            sockets.set_groups(this.inode, groups)?;
        }
        sys::NETLINK_PKTINFO
        | sys::NETLINK_BROADCAST_ERROR
        | sys::NETLINK_NO_ENOBUFS
        | sys::NETLINK_LISTEN_ALL_NSID => socket.flags.set(option, value != 0),
        sys::NETLINK_CAP_ACK | sys::NETLINK_EXT_ACK | sys::NETLINK_GET_STRICT_CHK => {
            socket.flags.set(option, value != 0);
            let (id, space) = (socket.id, socket.space);
            if let Some(service) = sockets.service(space) {
                service.set_option(id, option, value != 0);
            }
        }
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(0.into())
}

/// Notes how large the program makes a buffer. The kernel's limits and the usual sizes are the same
/// for both kinds of sockets, but the pair's buffers are emptied by the supervisor.
fn note_buffer(this: &mut Trapped<'_>, option: i32) -> std::result::Result<(), Errno> {
    /// `net.core.wmem_default` and `net.core.rmem_default`, as they are unless set.
    const USUAL: usize = 212_992;
    /// `SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`
    const LEAST: [usize; 2] = [4608, 2304];
    let [least_sent, least_received] = LEAST;
    let value: i32 = this.task.read_value(this.call.arguments[3])?;
    // The kernel doubles what it is told, for its own structures.
    let bytes = usize::try_from(value).unwrap_or(0).saturating_mul(2);
    let smaller = |least: usize| Some(bytes.max(least)).filter(|bytes| *bytes < USUAL);
    this.context.socket(this.inode, |socket| match option {
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => socket.send_buffer = smaller(least_sent),
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => socket.receive_buffer = smaller(least_received),
        _ => {}
    })
}

/// `netlink_getsockopt()`, and what a pair of sockets would tell of itself.
pub(super) fn get(this: &mut Trapped<'_>) -> Result {
    let call = this.call;
    let (level, option, value_at, len_at) =
        (call.int(1), call.int(2), call.arguments[3], call.arguments[4]);
    let (kind, groups, flags) =
        this.context.socket(this.inode, |socket| (socket.kind, socket.groups, socket.flags))?;
    let (value, exact) = match (level, option) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => (kind, false),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => (libc::AF_NETLINK, false),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => (libc::NETLINK_NETFILTER, false),
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let error = this.context.socket(this.inode, |s| std::mem::take(&mut s.error))?;
            (error, false)
        }
        (libc::SOL_SOCKET, _) => return CONTINUE,
        (sys::SOL_NETLINK, sys::NETLINK_LIST_MEMBERSHIPS) => (groups as i32, false),
        (
            sys::SOL_NETLINK,
            sys::NETLINK_PKTINFO
            | sys::NETLINK_BROADCAST_ERROR
            | sys::NETLINK_NO_ENOBUFS
            | sys::NETLINK_LISTEN_ALL_NSID
            | sys::NETLINK_CAP_ACK
            | sys::NETLINK_EXT_ACK
            | sys::NETLINK_GET_STRICT_CHK,
        ) => (i32::from(flags.has(option)), true),
        _ => return Err(libc::ENOPROTOOPT),
    };
    let bytes = value.to_ne_bytes();
    let room: i32 = this.task.read_value(len_at)?;
    let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
    if exact && room < bytes.len() {
        return Err(libc::EINVAL);
    }
    let len = room.min(bytes.len());
    this.task.write(value_at, &bytes[..len])?;
    // The list of groups says how long it is, whatever room there was.
    let told = if option == sys::NETLINK_LIST_MEMBERSHIPS && level == sys::SOL_NETLINK {
        bytes.len()
    } else {
        len
    };
    this.task.write_value(len_at, &(told as i32))?;
    Ok(0.into())
}
