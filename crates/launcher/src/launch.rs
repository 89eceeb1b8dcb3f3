// SPDX-License-Identifier: Apache-2.0

//! The start of a command under a supervisor.
//!
//! The command takes the place of the calling process: its process id, parent, terminal, signals
//! and exit status are as without a supervisor. The supervisor is a separate process, a session of
//! its own, and no child of the command. It ends after the last process that has the filter.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use libc::{c_ulong, sock_fprog};

use crate::context::Context;
use crate::filter::{self, Numbers};
use crate::notify::Listener;
use crate::service::Service;
use crate::socket::pair;
use crate::sockets::Sockets;
use crate::supervisor;
use crate::sys::{check, owned};

/// Why a command was not started.
#[derive(Debug)]
pub enum Error {
    /// There is another listener for system calls of this process: another launcher, or the
    /// runtime of a container.
    Nested,
    /// The limit of open files (`RLIMIT_NOFILE`) leaves no room for sockets.
    FewFiles(u64),
    /// The kernel lacks something, or refuses it.
    Kernel(&'static str, io::Error),
    /// The supervisor could not begin, and why.
    Supervisor(String),
    /// The command cannot be run.
    Command(OsString, io::Error),
}

impl Error {
    /// The exit status that env(1) and shells have for it: 127 for a command that is not there, 126
    /// for one that cannot be run, 1 for everything else.
    pub fn status(&self) -> u8 {
        match self {
            Error::Command(_, e) if e.kind() == io::ErrorKind::NotFound => 127,
            Error::Command(..) => 126,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Nested => f.write_str(
                "system calls of this process are reported to another program already: inside of \
                 `penstock exec` or a container with a seccomp listener there cannot be a second one",
            ),
            Error::FewFiles(limit) => write!(f, "the limit of open files is {limit}, less than 128"),
            Error::Kernel(what, e) => write!(f, "{what}: {e}"),
            Error::Supervisor(why) => write!(f, "the supervisor cannot begin: {why}"),
            Error::Command(name, e) => write!(f, "{}: {e}", name.display()),
        }
    }
}

impl std::error::Error for Error {}

/// Numbers of descriptors below which select(2) works.
const SELECTABLE: u64 = 1024;
/// Numbers that sockets get of these.
const NUMBERS: u64 = 124;
/// Those of them for programs that decide on packets.
const OF_PACKETS: u64 = 16;
/// Descriptors that the supervisor keeps for everything but sockets.
const OWN_DESCRIPTORS: u64 = 128;

/// Replaces this process by a command; a service answers its `NETLINK_NETFILTER` sockets, and those
/// of its children. Called while the process has one thread.
///
/// The service moves to the supervisor, which closes all descriptors that this process has open.
/// The filter needs `CAP_SYS_ADMIN`; without it the command cannot gain rights
/// (`PR_SET_NO_NEW_PRIVS`), so that sudo(8) and the like do not work in it.
///
/// # Errors
/// Why the command was not started. The filter may be in force by then.
pub fn launch(command: &[OsString], service: Box<dyn Service>) -> Result<Infallible, Error> {
    let numbers = numbers()?;
    let arguments: Vec<CString> = command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()))
        .collect::<Result<_, _>>()
        .map_err(|e| Error::Command(command.first().cloned().unwrap_or_default(), e.into()))?;
    let (mut channel, supervisor) = start_supervisor(None, numbers.clone(), service)?;
    // Where the Yama module lets no process look into others but their ancestors, this allows it
    // for the command itself; elsewhere it is refused and not needed. SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, c_ulong::from(supervisor), 0, 0, 0) };
    let listener = install(&numbers)?;
    begin(&mut channel, listener)?;
    drop(channel);
    Err(execute(command, &arguments))
}

/// Numbers of descriptors that the filter of a container reports: 896 to 1023, which one masked
/// comparison tells (`SCMP_CMP_MASKED_EQ`).
const OF_CONTAINERS: Numbers = Numbers { all: 896..=1023, packets: None };

/// Has a service answer the processes with a filter that somebody else made, as the runtime of a
/// container does (`listenerPath` of the OCI runtime specification). The filter reports what
/// [`launch`]'s does, with descriptors from 896 to 1023. The network namespace of `process`, one of
/// them by its number here, is the supervisor's own; the service is started there. Called while the
/// process has one thread; the supervisor outlives it, and ends after the last process of the filter.
///
/// # Errors
/// Why nothing answers: the processes' netfilter sockets fail with `ENOSYS` once the listener is
/// closed.
pub fn adopt(listener: OwnedFd, process: u32, service: Box<dyn Service>) -> Result<(), Error> {
    let (mut channel, _) = start_supervisor(Some(process), OF_CONTAINERS, service)?;
    begin(&mut channel, listener)
}

/// Gives the supervisor its listener, and waits until it answers.
fn begin(channel: &mut File, listener: OwnedFd) -> Result<(), Error> {
    hand_over(channel, listener).map_err(|e| Error::Kernel("sendmsg", e))?;
    let mut answer = [0; 512];
    let len = channel.read(&mut answer).map_err(|e| Error::Kernel("recv", e))?;
    match answer.get(..len) {
        Some([b'.']) => Ok(()),
        Some(text) if !text.is_empty() => {
            Err(Error::Supervisor(String::from_utf8_lossy(text).into_owned()))
        }
        _ => Err(Error::Supervisor("it has ended".into())),
    }
}

/// Numbers of descriptors for sockets: the last ones that select(2) can wait for, or that the
/// process may have.
fn numbers() -> Result<Numbers, Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call, which fills it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }.into())
        .map_err(|e| Error::Kernel("getrlimit", e))?;
    let end = limit.rlim_cur.min(SELECTABLE);
    if end < 128 {
        return Err(Error::FewFiles(limit.rlim_cur));
    }
    let first = end - NUMBERS.min(end / 4);
    let packets = end - OF_PACKETS.min(end / 16);
    Ok(Numbers { all: first as u32..=(end - 1) as u32, packets: Some(packets as u32) })
}

/// Forks the supervisor so that it is no child of this process. It answers in the network namespace
/// of a process, or in its own. Returns the channel to it, and its process id.
fn start_supervisor(
    process: Option<u32>,
    numbers: Numbers,
    service: Box<dyn Service>,
) -> Result<(File, u32), Error> {
    let (own, other) = pair().map_err(|e| Error::Kernel("socketpair", e))?;
    // SAFETY: the process has one thread.
    let between = check(unsafe { libc::fork() }.into()).map_err(|e| Error::Kernel("fork", e))?;
    if between != 0 {
        drop(other);
        let mut status = 0;
        // SAFETY: the status lives through the call, which fills it. A signal, or a process that
        // ignores SIGCHLD, does not matter: the supervisor says itself that it is there.
        unsafe { libc::waitpid(between as i32, &raw mut status, 0) };
        let mut channel = File::from(own);
        let id = hello(&mut channel)?;
        return Ok((channel, id));
    }
    // SAFETY: no pointers, and one thread; the process ends without what the caller has yet to do.
    unsafe {
        libc::setsid();
        if libc::fork() == 0 {
            supervise(other, process, numbers, service);
        }
        libc::_exit(0)
    }
}

/// Goes to the network namespace of a process.
fn enter(process: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: no pointers, and one thread.
    check(unsafe { libc::setns(process.as_raw_fd(), libc::CLONE_NEWNET) }.into()).map(|_| ())
}

/// The supervisor's process.
fn supervise(
    channel: OwnedFd,
    process: Option<u32>,
    numbers: Numbers,
    service: Box<dyn Service>,
) -> ! {
    std::panic::set_hook(Box::new(|_| {
        // SAFETY: no pointers. Calls of programs fail with ENOSYS from now on.
        unsafe { libc::_exit(101) }
    }));
    detach(channel.as_raw_fd());
    lift_limits();
    let mut channel = File::from(channel);
    // SAFETY: no pointers.
    let id = unsafe { libc::getpid() } as u32;
    let begun = channel
        .write_all(&id.to_ne_bytes())
        .and_then(|()| take_over(&channel))
        .and_then(Listener::new)
        .and_then(|listener| process.map_or(Ok(()), enter).map(|()| listener))
        .and_then(|listener| {
            Context::new(listener, numbers, Sockets::new(service, most_sockets()))
        });
    match begun {
        Ok(context) => {
            let _ = channel.write_all(b".");
            drop(channel);
            supervisor::run(context);
        }
        Err(e) => {
            let _ = channel.write_all(e.to_string().as_bytes());
        }
    }
    // SAFETY: no pointers. Threads that wait for programs end with the process.
    unsafe { libc::_exit(0) }
}

/// Lets nothing of the caller's end or hold up with the supervisor: terminal, files, pipes, folder,
/// signals.
fn detach(keep: RawFd) {
    // SAFETY: strings with their ends; numbers that nothing in this process has but the caller's
    // descriptors, which are no longer used.
    unsafe {
        for signal in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGPIPE,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Neither may other processes of the user look into it, nor does it leave a core.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"penstock-exec".as_ptr());
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for standard in 0..3 {
            libc::dup2(null, standard);
        }
        let keep = keep as libc::c_uint;
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, libc::c_uint::MAX, 0);
        libc::chdir(c"/".as_ptr());
    }
}

/// Raises limits of the caller's memory, processor time and files as far as it is allowed: the
/// kernel has none of them for what it keeps.
fn lift_limits() {
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    for what in [
        libc::RLIMIT_AS,
        libc::RLIMIT_DATA,
        libc::RLIMIT_CPU,
        libc::RLIMIT_FSIZE,
        libc::RLIMIT_NOFILE,
    ] {
        let mut limit = none;
        // SAFETY: each limit lives through its call; the second one fills it.
        unsafe {
            if libc::setrlimit(what, &raw const none) != 0
                && libc::getrlimit(what, &raw mut limit) == 0
            {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(what, &raw const limit);
            }
        }
    }
}

/// Sockets that the supervisor can have.
fn most_sockets() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call, which fills it.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur.saturating_sub(OWN_DESCRIPTORS).min(1 << 16) as usize
}

/// Reads the supervisor's process id.
fn hello(channel: &mut File) -> Result<u32, Error> {
    let mut id = [0; 4];
    channel
        .read_exact(&mut id)
        .map(|()| u32::from_ne_bytes(id))
        .map_err(|_| Error::Supervisor("it has ended".into()))
}

/// Puts the filter on this thread, and on what it becomes.
fn install(numbers: &Numbers) -> Result<OwnedFd, Error> {
    let mut program = filter::program(numbers);
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let install = || {
        // SAFETY: the program lives through the call, which copies it, and has as many instructions
        // as is said.
        owned(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const filter,
            )
        })
    };
    let mut installed = install();
    if installed.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EACCES)) {
        // SAFETY: no pointers.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
            .map_err(|e| Error::Kernel("PR_SET_NO_NEW_PRIVS", e))?;
        installed = install();
    }
    installed.map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => Error::Nested,
        _ => Error::Kernel("the kernel does not report system calls (seccomp)", e),
    })
}

/// Room for a control message with one descriptor.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends a descriptor.
fn hand_over(channel: &File, listener: OwnedFd) -> io::Result<()> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    // SAFETY: all parts of the message live through the calls; the control message has room for
    // the descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(first).cast::<i32>().write_unaligned(listener.as_raw_fd());
        check(libc::sendmsg(channel.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) as _)?;
    }
    Ok(())
}

/// Receives a descriptor.
fn take_over(channel: &File) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    // SAFETY: all parts of the message live through the calls; the control message has room for
    // the descriptor, and is looked at only if the kernel wrote one.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        let flags = libc::MSG_CMSG_CLOEXEC;
        check(libc::recvmsg(channel.as_raw_fd(), &raw mut message, flags) as _)?;
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        if first.is_null()
            || (*first).cmsg_level != libc::SOL_SOCKET
            || (*first).cmsg_type != libc::SCM_RIGHTS
        {
            return Err(io::Error::other("the command was not started"));
        }
        owned(libc::CMSG_DATA(first).cast::<i32>().read_unaligned().into())
    }
}

/// Becomes the command.
fn execute(command: &[OsString], arguments: &[CString]) -> Error {
    let name = command.first().cloned().unwrap_or_default();
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let Some(first) = arguments.first() else {
        return Error::Command(name, io::ErrorKind::NotFound.into());
    };
    // SAFETY: strings with their ends, and a list with its end, which live through the call. Rust's
    // runtime ignores SIGPIPE, which programs inherit.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(first.as_ptr(), pointers.as_ptr());
    }
    Error::Command(name, io::Error::last_os_error())
}
