// SPDX-License-Identifier: Apache-2.0

//! Instructions of filters of system calls: classic BPF over `struct seccomp_data` (seccomp(2),
//! `Documentation/userspace-api/seccomp_filter.rst`).
//!
//! Classic BPF has an accumulator of 32 bits, forward jumps of at most 255 instructions, and ends
//! with an answer.
//!
//! ```
//! use penstock_bpf::seccomp::{ARCH, Call, answer, arch, jump, number, run};
//!
//! // getpid() fails with EPERM, all else is allowed.
//! let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
//! let program = [
//!     arch(),
//!     jump(libc::BPF_JEQ, ARCH, 1, 0),
//!     answer(libc::SECCOMP_RET_KILL_PROCESS),
//!     number(),
//!     jump(libc::BPF_JEQ, libc::SYS_getpid as u32, 0, 1),
//!     answer(refuse),
//!     answer(libc::SECCOMP_RET_ALLOW),
//! ];
//! let call = |number| Call { arch: ARCH, number, arguments: [0; 6] };
//! assert_eq!(run(&program, &call(libc::SYS_getpid as u32)), Some(refuse));
//! assert_eq!(run(&program, &call(libc::SYS_gettid as u32)), Some(libc::SECCOMP_RET_ALLOW));
//! ```

use libc::sock_filter;

/// `AUDIT_ARCH_*` (`linux/audit.h`) of this machine.
#[cfg(target_arch = "x86_64")]
pub const ARCH: u32 = 0xc000_003e;
/// `AUDIT_ARCH_*` (`linux/audit.h`) of this machine.
#[cfg(target_arch = "aarch64")]
pub const ARCH: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// Bytes of an argument. The machines above are little-endian: its low half comes first.
const ARGUMENT: u32 = 8;

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// Loads the architecture of the call, one of `AUDIT_ARCH_*`.
pub fn arch() -> sock_filter {
    load(ARCHITECTURE)
}

/// Loads the number of the call.
pub fn number() -> sock_filter {
    load(NUMBER)
}

/// Loads the low half of an argument, counted from 0. The kernel takes descriptors, families,
/// protocols, commands and `ioctl` numbers as 32 bits.
pub fn argument(n: u32) -> sock_filter {
    load(ARGUMENTS + ARGUMENT * n)
}

/// Compares the accumulator with a constant (`kind` is one of `BPF_JEQ`, `BPF_JGE`, `BPF_JGT`,
/// `BPF_JSET`) and skips so many instructions if the test holds, and if not.
pub fn jump(kind: u32, k: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | kind | libc::BPF_K) as u16, jt: then, jf: otherwise, k }
}

/// Ends with one of `SECCOMP_RET_*`.
pub fn answer(what: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, what)
}

/// A system call, as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// One of `AUDIT_ARCH_*`.
    pub arch: u32,
    /// Its number.
    pub number: u32,
    /// All of its arguments.
    pub arguments: [u64; 6],
}

/// What a program answers for a call, run as the kernel does, for tests. `None` if it has an
/// instruction that this module does not make, or jumps past its end.
pub fn run(program: &[sock_filter], call: &Call) -> Option<u32> {
    let mut data = Vec::new();
    data.extend(call.number.to_ne_bytes());
    data.extend(call.arch.to_ne_bytes());
    // The instruction pointer.
    data.extend([0; 8]);
    call.arguments.iter().for_each(|argument| data.extend(argument.to_ne_bytes()));
    let (mut at, mut a) = (0, 0);
    loop {
        let op = program.get(at)?;
        at += 1;
        let to = |holds: bool| usize::from(if holds { op.jt } else { op.jf });
        match (u32::from(op.code) & 7, u32::from(op.code) & 0xf0) {
            (libc::BPF_LD, _) => {
                let from = op.k as usize;
                a = u32::from_ne_bytes(data.get(from..from + 4)?.try_into().ok()?);
            }
            (libc::BPF_JMP, libc::BPF_JEQ) => at += to(a == op.k),
            (libc::BPF_JMP, libc::BPF_JGE) => at += to(a >= op.k),
            (libc::BPF_JMP, libc::BPF_JGT) => at += to(a > op.k),
            (libc::BPF_JMP, libc::BPF_JSET) => at += to(a & op.k != 0),
            (libc::BPF_RET, _) => return Some(op.k),
            _ => return None,
        }
    }
}
