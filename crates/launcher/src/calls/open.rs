// SPDX-License-Identifier: Apache-2.0

//! `socket(2)`, and copies of descriptors.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use super::Trapped;
use crate::context::{CONTINUE, Context, Reply, Result};
use crate::filter::Range;
use crate::notify::Call;
use crate::task::Task;

/// Opens a socket in the caller. In network namespaces that nothing else answers for the kernel
/// does.
pub(super) fn socket(context: &Context, call: &Call, task: &Task) -> Result {
    /// `SOCK_TYPE_MASK`
    const KIND: i32 = 0xf;
    let Some(space) = context.space_of(task) else { return CONTINUE };
    let (kind, flags) = (call.int(1) & KIND, call.int(1) & !KIND);
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Err(libc::EINVAL);
    }
    if kind != libc::SOCK_RAW && kind != libc::SOCK_DGRAM {
        return Err(libc::ESOCKTNOSUPPORT);
    }
    let owners = context.sockets().owners(space);
    let may_change = task.may_administer(&context.listener, call, &owners);
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let mut habits = task.habits();
    habits.decides &= context.numbers.packets.is_some();
    let (inode, end) = {
        let mut sockets = context.sockets();
        let opened = sockets.open(kind, nonblocking, may_change, space);
        let (inode, end) = opened.inspect_err(|_| sockets.drop_unused(space))?;
        if let Some(socket) = sockets.get(inode) {
            socket.habits = habits;
        }
        (inode, end)
    };
    context.watch(inode);
    let numbers = context.numbers.of(habits.decides);
    let given = give(context, call, task, end.as_fd(), numbers, flags & libc::SOCK_CLOEXEC != 0);
    if given.is_err() {
        context.sockets().close(inode);
    }
    given
}

/// `dup(2)`, and `fcntl(2)` with `F_DUPFD` and `F_DUPFD_CLOEXEC`: the copy gets a number at which
/// the filter knows it.
pub(super) fn duplicate(this: &Trapped<'_>) -> Result {
    let call = &this.call;
    let (first, close_on_exec) = match (call.number, call.int(1)) {
        (libc::SYS_dup, _) => (0, false),
        (_, libc::F_DUPFD) => (call.arguments[2] as u32, false),
        (_, libc::F_DUPFD_CLOEXEC) => (call.arguments[2] as u32, true),
        _ => return CONTINUE,
    };
    if first > *this.context.numbers.all.end() {
        return CONTINUE;
    }
    let decides = this.context.socket(this.inode, |socket| socket.habits.decides)?;
    let numbers = this.context.numbers.of(decides);
    let numbers = first.max(*numbers.start())..=*numbers.end();
    let file = this.task.borrow(&this.context.listener, call, call.int(0))?;
    give(this.context, call, &this.task, file.as_fd(), numbers, close_on_exec)
}

/// Ends the call with a descriptor at the first free one of the numbers.
fn give(
    context: &Context,
    call: &Call,
    task: &Task,
    file: BorrowedFd<'_>,
    mut numbers: Range,
    close_on_exec: bool,
) -> Result {
    let _giving = context.giving.lock().unwrap_or_else(PoisonError::into_inner);
    let number = numbers.find(|fd| task.is_free(*fd)).ok_or(libc::EMFILE)?;
    match context.listener.answer_with_descriptor(call, file, number, close_on_exec) {
        Ok(()) => Ok(Reply::Done),
        // Beyond the caller's limit of open files.
        Err(_) => Err(libc::EMFILE),
    }
}
