// SPDX-License-Identifier: Apache-2.0

//! System calls that each thread needs, and none else.
//!
//! Each thread puts a filter on itself as it starts: [`enter`] with what kind of thread it is.
//! [`threads`] is the table of kinds and their calls, [`program`] makes a filter of it. A filter
//! cannot be taken off, and holds for what the thread starts, too: the main thread's has all that
//! other threads need, but for the one that makes machine code, which starts before it.
//!
//! What a filter does not let through fails with `EPERM`, and what runs continues ([`Violation`]
//! has other ways for tests and for finding out what is missing).

pub(crate) mod program;
pub(crate) mod threads;

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use libc::sock_fprog;

pub(crate) use program::Rule;
pub(crate) use threads::Thread;

use crate::log;

/// The effect of a system call that a thread may not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It fails with `EPERM`.
    Refuse,
    /// It is made, and the kernel's audit log tells of it (`SECCOMP_RET_LOG`).
    Log,
    /// The process says on standard error which thread made which call, and ends with status 159,
    /// as if by `SIGSYS`.
    Kill,
}

impl Violation {
    fn answer(self) -> u32 {
        match self {
            Violation::Refuse => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            Violation::Log => libc::SECCOMP_RET_LOG,
            Violation::Kill => libc::SECCOMP_RET_TRAP,
        }
    }
}

/// What is asked for; not set where calls are not filtered.
static VIOLATION: OnceLock<Violation> = OnceLock::new();

thread_local! {
    /// What kind of thread this is.
    static KIND: Cell<&'static str> = const { Cell::new("unknown") };
}

/// Enables filters: [`enter`] installs them from now on, in this process and its forks. Called
/// once, before other threads start.
pub(crate) fn want(violation: Violation) {
    if violation == Violation::Kill {
        // SAFETY: the handler only makes calls that are safe in handlers; the structure lives
        // through the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = violated as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
        }
    }
    // Said a second time, the first one holds.
    let _ = VIOLATION.set(violation);
}

/// Lets this thread, and those that it starts, make no calls but those of its kind. The process
/// must not be able to gain rights (`PR_SET_NO_NEW_PRIVS`). Says so in the log if it cannot be
/// done.
pub(crate) fn enter(thread: Thread) {
    if let Err(e) = enter_with(thread.name(), thread.rules().iter().copied().flatten()) {
        log(format_args!("system calls of the {} thread are NOT filtered: {e}", thread.name()));
    }
}

/// Says what this thread is, which has the filter of the one that started it.
pub(crate) fn inherit(name: &'static str) {
    KIND.set(name);
}

/// Lets this thread, and those that it starts, make no calls but what the rules allow, if calls are
/// filtered at all.
///
/// # Errors
/// The kernel refuses the filter.
pub(crate) fn enter_with<'r>(
    name: &'static str,
    rules: impl Iterator<Item = &'r Rule> + Clone,
) -> io::Result<()> {
    let Some(violation) = VIOLATION.get() else { return Ok(()) };
    KIND.set(name);
    let mut program = program::program(rules, violation.answer());
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it, and has the given number of
    // instructions.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The beginning of `siginfo_t` for `SIGSYS` on machines of 64 bits
/// (`include/uapi/asm-generic/siginfo.h`).
#[repr(C)]
struct Sigsys {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    address: u64,
    call: i32,
    arch: u32,
}

/// Says which thread made which call, and ends the process.
extern "C" fn violated(_signal: i32, info: *const Sigsys, _context: *mut libc::c_void) {
    /// A line on the stack: nothing may be allocated here.
    struct Line([u8; 160], usize);
    impl Line {
        fn put(&mut self, bytes: &[u8]) {
            for (to, from) in self.0.iter_mut().skip(self.1).zip(bytes) {
                *to = *from;
            }
            self.1 = (self.1 + bytes.len()).min(self.0.len());
        }
    }
    // SAFETY: the kernel gives what belongs to the signal.
    let call = unsafe { (*info).call };
    let mut digits = [b'0'; 10];
    let mut rest = call.unsigned_abs();
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    let mut line = Line([0; 160], 0);
    line.put(b"penstock: the ");
    line.put(KIND.get().as_bytes());
    line.put(b" thread made system call ");
    line.put(&digits[digits.iter().position(|d| *d != b'0').unwrap_or(9)..]);
    line.put(b", which its filter does not have\n");
    // SAFETY: as many bytes as are there, and no pointers.
    unsafe {
        libc::write(2, line.0.as_ptr().cast(), line.1);
        libc::_exit(128 + libc::SIGSYS);
    }
}
