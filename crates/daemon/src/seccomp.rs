//! System calls that the process needs once it runs, and none else (seccomp(2), `Documentation/userspace-api/seccomp_filter`).
//!
//! The filter is a classic BPF program over `struct seccomp_data`. What it does not let through fails with `EPERM`: what runs
//! goes on, and programs cannot be started, processes not be traced, file systems not be mounted, modules not be loaded. It
//! holds for all threads, those that were there before included, and cannot be taken off.

use std::io;

use libc::{c_long, sock_filter, sock_fprog};

/// `AUDIT_ARCH_*` of this machine.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// Whatever its arguments are.
const ALLOWED: &[c_long] = &[
    // Frames.
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    // Threads and their memory; machine code is written, then made executable.
    libc::SYS_futex,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_setpriority,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Clients, devices, netlink, name services.
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_close,
    libc::SYS_bpf,
    // Names of services, users and time zones; settings of devices; the ruleset's file; the state.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    // Who the process is, and the guardian's end.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
];

/// What only this machine has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_accept,
    libc::SYS_dup2,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_time,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_accept, libc::SYS_renameat];

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump_if_equal(k: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: then, jf: otherwise, k }
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(what: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, what)
}

/// The program.
fn program() -> Vec<sock_filter> {
    let allow = answer(libc::SECCOMP_RET_ALLOW);
    let refuse = answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    // Calls by another convention have other numbers.
    let mut program = vec![
        load(ARCHITECTURE),
        jump_if_equal(ARCH, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    for number in ALLOWED.iter().chain(ALLOWED_HERE) {
        program.extend([jump_if_equal(*number as u32, 0, 1), allow]);
    }
    // Threads have names.
    program.extend([
        jump_if_equal(libc::SYS_prctl as u32, 0, 3),
        load(FIRST_ARGUMENT),
        jump_if_equal(libc::PR_SET_NAME as u32, 0, 1),
        allow,
        refuse,
    ]);
    program
}

/// Lets no thread of the process make other calls, from now on. The process must not be able to gain rights
/// (`PR_SET_NO_NEW_PRIVS`).
pub(crate) fn restrict() -> io::Result<()> {
    let mut program = program();
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it, and has as many instructions as is said.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const filter,
        )
    };
    match result {
        0 => Ok(()),
        // The thread that could not follow.
        1.. => Err(io::Error::other(format!("thread {result} has a filter of its own"))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers, run as the kernel does.
    fn run(arch: u32, number: c_long, argument: u64) -> u32 {
        let mut data = Vec::new();
        data.extend((number as u32).to_ne_bytes());
        data.extend(arch.to_ne_bytes());
        data.extend([0; 8]);
        data.extend(argument.to_ne_bytes());
        let (program, mut at, mut a) = (program(), 0, 0);
        loop {
            let op = program[at];
            at += 1;
            match u32::from(op.code) & 7 {
                libc::BPF_LD => {
                    a = u32::from_ne_bytes(data[op.k as usize..][..4].try_into().unwrap());
                }
                libc::BPF_JMP => at += usize::from(if a == op.k { op.jt } else { op.jf }),
                libc::BPF_RET => return op.k,
                other => panic!("class {other}"),
            }
        }
    }

    #[test]
    fn what_is_needed_passes_and_nothing_else() {
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        for number in ALLOWED.iter().chain(ALLOWED_HERE) {
            assert_eq!(run(ARCH, *number, 7), libc::SECCOMP_RET_ALLOW, "{number}");
        }
        for number in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_init_module,
            libc::SYS_process_vm_writev,
            libc::SYS_io_uring_setup,
            libc::SYS_setuid,
            libc::SYS_reboot,
        ] {
            assert_eq!(run(ARCH, number, 0), refused, "{number}");
        }
        assert_eq!(run(ARCH, libc::SYS_prctl, libc::PR_SET_NAME as u64), libc::SECCOMP_RET_ALLOW);
        assert_eq!(run(ARCH, libc::SYS_prctl, libc::PR_SET_SECCOMP as u64), refused);
        assert_eq!(run(ARCH ^ 1, libc::SYS_read, 0), libc::SECCOMP_RET_KILL_PROCESS);
    }
}
