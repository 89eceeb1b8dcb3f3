// SPDX-License-Identifier: Apache-2.0

//! Trapped system calls. Each does what the kernel does for a netlink socket
//! (`net/netlink/af_netlink.c`).
//!
//! A signal can end a call between its answer and the caller's return: the kernel drops the answer
//! then and says that it was given (`seccomp_do_user_notification()`). That leaves a gap of well
//! below a microsecond on an idle machine, in which a datagram is lost or sent twice. The flag
//! `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` would close it, at the price of receives that no signal
//! interrupts.

mod ip_set;
mod name;
mod open;
mod options;
mod receive;
mod send;

use crate::context::{CONTINUE, Context, Reply, Result};
use crate::filter::SO_IP_SET;
use crate::notify::{Call, Outcome};
use crate::service::Sender;
use crate::sys::Errno;
use crate::task::Task;

pub(crate) use receive::resume;
pub(crate) use send::take_untrapped;

/// A call, with its thread and what it is about.
struct Trapped<'a> {
    context: &'a Context,
    call: Call,
    task: Task,
    /// Inode of the socket.
    inode: u64,
}

/// Carries a call out.
pub(crate) fn handle(context: &Context, call: Call, scratch: &mut [u8]) {
    let outcome = match dispatch(context, call, scratch) {
        Ok(Reply::Now(outcome)) => outcome,
        Ok(Reply::Done) => return,
        Err(errno) => Outcome::Error(errno),
    };
    context.answer(&call, outcome);
}

fn dispatch(context: &Context, call: Call, scratch: &mut [u8]) -> Result {
    if call.thread == 0 {
        return CONTINUE;
    }
    if call.number == libc::SYS_socket {
        let Ok(task) = Task::new(&context.proc, &context.listener, &call) else {
            return Ok(Reply::Done);
        };
        return open::socket(context, &call, &task);
    }
    if call.number == libc::SYS_getsockopt
        && (call.int(1), call.int(2)) == (libc::SOL_IP, SO_IP_SET)
    {
        let Ok(mut task) = Task::new(&context.proc, &context.listener, &call) else {
            return Ok(Reply::Done);
        };
        return ip_set::get(context, &call, &mut task);
    }
    let Ok((task, inode)) = context.caller(&call) else { return Ok(Reply::Done) };
    // The filter knows numbers only: what is there may be anything.
    let inode = match inode {
        Some(inode) if context.sockets().get(inode).is_some() => inode,
        _ => return CONTINUE,
    };
    let mut trapped = Trapped { context, call, task, inode };
    let this = &mut trapped;
    match call.number {
        libc::SYS_bind => name::bind(this),
        libc::SYS_connect => name::connect(this),
        libc::SYS_getsockname => name::getsockname(this),
        libc::SYS_getpeername => name::getpeername(this),
        libc::SYS_setsockopt => options::set(this),
        libc::SYS_getsockopt => options::get(this),
        libc::SYS_shutdown => Err(libc::EOPNOTSUPP),
        libc::SYS_dup | libc::SYS_fcntl => open::duplicate(this),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg => send::send(this),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => receive::start(this, scratch),
        _ => CONTINUE,
    }
}

impl Trapped<'_> {
    /// Gives the socket a port id if it has none.
    fn bind_if_unbound(&self) -> std::result::Result<(), Errno> {
        if self.context.socket(self.inode, |socket| socket.port)? != 0 {
            return Ok(());
        }
        let process = self.task.own_process_id().unwrap_or(0);
        self.context.sockets().bind_to_any(self.inode, process)
    }

    /// Who sends. The name is left out if nobody asks for it.
    fn sender(&self, named: bool) -> std::result::Result<Sender, Errno> {
        let owners = self.context.socket(self.inode, |socket| socket.owners.clone())?;
        let may_change = self.task.may_administer(&self.context.listener, &self.call, &owners);
        let name = if named { self.task.name() } else { String::new() };
        Ok(Sender { thread: self.call.thread, name, may_change })
    }
}
