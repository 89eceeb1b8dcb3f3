// SPDX-License-Identifier: Apache-2.0

//! The table: which kind of thread makes which system calls.

use super::Rule::{self, Call, Missing, OneOf, Refuse, With, Without};

/// Kinds of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// Begins and ends: waits for signals, starts the others, gives devices back.
    Main,
    /// Does packets.
    Worker,
    /// Makes machine code.
    Compile,
    /// Puts flows onto devices.
    FlowOffload,
    /// Follows the kernel's network; takes devices that come back.
    KernelSync,
    /// Accepts connections of clients. Those that serve them, a thread for each, have its filter:
    /// to put on another one would take longer than many a call.
    Control,
    /// Makes the search trees of long chains.
    Lookups,
    /// Answers requests for metrics.
    Metrics,
    /// Exchanges messages with a program of `queue`.
    Queue,
    /// Writes the state to its file.
    Keep,
    /// Writes what rules log to standard error, a file, or a logger's socket.
    Lines,
    /// Reads what programs of an attached ruleset tell.
    Records,
    /// Speaks with the other firewall of a pair, by conntrackd's protocol.
    Peer,
    /// Speaks with other firewalls by the protocol of Penstock.
    SecurePeer,
    /// Speaks with other nodes of a cluster, by the client of NATS.
    ClusterPeer,
    /// The client of NATS: connects, and asks for names of hosts.
    Nats,
    /// Tells the guardian that packets are done.
    Heartbeat,
    /// The process that gives devices back.
    Guardian,
}

impl Thread {
    /// All kinds.
    #[cfg(test)]
    const ALL: [Thread; 18] = [
        Thread::Main,
        Thread::Worker,
        Thread::Compile,
        Thread::FlowOffload,
        Thread::KernelSync,
        Thread::Control,
        Thread::Lookups,
        Thread::Metrics,
        Thread::Queue,
        Thread::Keep,
        Thread::Lines,
        Thread::Records,
        Thread::Peer,
        Thread::SecurePeer,
        Thread::ClusterPeer,
        Thread::Nats,
        Thread::Heartbeat,
        Thread::Guardian,
    ];

    /// What it is called where something is said of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Thread::Main => "main",
            Thread::Worker => "worker",
            Thread::Compile => "compile",
            Thread::FlowOffload => "flow-offload",
            Thread::KernelSync => "follow",
            Thread::Control => "control",
            Thread::Lookups => "lookups",
            Thread::Metrics => "metrics",
            Thread::Queue => "queue",
            Thread::Keep => "keep",
            Thread::Lines => "log",
            Thread::Records => "records",
            Thread::Peer => "peer",
            Thread::SecurePeer => "secure-peer",
            Thread::ClusterPeer => "cluster-peer",
            Thread::Nats => "nats",
            Thread::Heartbeat => "heartbeat",
            Thread::Guardian => "guardian",
        }
    }

    /// What it may do. A thread has the filters of those that started it as well: main's has all of
    /// the rest.
    #[rustfmt::skip]
    pub(super) fn rules(self) -> &'static [&'static [Rule]] {
        match self {
            Thread::Main => &[
                BASE, RUN, START, SIGNALS, STREAMS, PAIRS, UNIX, LISTEN, ACCEPT, READINESS, FRAMES, TAPS, OTHER_DEVICES, SOCKETS, NAMES, LINK_STATE, SEE_FILES, READ_FILES, WRITE_FILES, FRAME_MAPS, BPF,
            ],
            Thread::Worker => &[BASE, RUN, FRAMES, TAPS, OTHER_DEVICES, FRAME_MAPS],
            Thread::Compile => &[BASE, RUN, MACHINE_CODE],
            Thread::FlowOffload => &[BASE, RUN, FRAME_MAPS],
            Thread::KernelSync => &[BASE, RUN, FRAMES, TAPS, SOCKETS, SEE_FILES, READ_FILES, WRITE_FILES, FRAME_MAPS, BPF],
            Thread::Control => &[
                BASE, RUN, START, STREAMS, PAIRS, ACCEPT, FRAMES, SOCKETS, NAMES, SEE_FILES, READ_FILES, FRAME_MAPS, BPF,
            ],
            Thread::Lookups => &[BASE, RUN],
            Thread::Metrics => &[BASE, RUN, STREAMS, ACCEPT],
            Thread::Queue => &[BASE, RUN, START, STREAMS, UNIX],
            Thread::Keep => &[BASE, RUN, SEE_FILES, READ_FILES, WRITE_FILES],
            Thread::Lines => &[BASE, RUN, STREAMS, UNIX, SEE_FILES, READ_FILES, WRITE_FILES],
            Thread::Records => &[BASE, RUN, WAIT],
            Thread::Peer => &[BASE, RUN, FRAMES, LINK_STATE],
            Thread::SecurePeer => &[BASE, RUN, FRAMES, STREAMS, ACCEPT, CONNECT],
            Thread::ClusterPeer => &[BASE, RUN, FRAMES],
            Thread::Nats => &[BASE, RUN, START, STREAMS, CONNECT, READINESS, NAMES, ROUTES, SEE_FILES, READ_FILES],
            Thread::Heartbeat => &[BASE, RUN, TELL],
            // It starts nothing, and has no programs for devices.
            Thread::Guardian => &[BASE, RUN, SIGNALS, PARENT, FRAMES, TAPS, SOCKETS, SEE_FILES, READ_FILES, WRITE_FILES],
        }
    }
}

/// Memory, time, chance, and descriptors that are open: what every thread needs, and every process
/// that reads rule text. No memory becomes executable.
pub(crate) const BASE: &[Rule] = &[
    Call(libc::SYS_read),
    Call(libc::SYS_write),
    Call(libc::SYS_writev),
    Call(libc::SYS_close),
    Call(libc::SYS_futex),
    Without(libc::SYS_mmap, 2, libc::PROT_EXEC as u32),
    Without(libc::SYS_mprotect, 2, libc::PROT_EXEC as u32),
    Call(libc::SYS_munmap),
    Call(libc::SYS_mremap),
    Call(libc::SYS_madvise),
    Call(libc::SYS_brk),
    Call(libc::SYS_sched_yield),
    Call(libc::SYS_sched_getaffinity),
    Call(libc::SYS_gettid),
    Call(libc::SYS_getpid),
    Call(libc::SYS_rt_sigaction),
    Call(libc::SYS_rt_sigprocmask),
    Call(libc::SYS_rt_sigreturn),
    Call(libc::SYS_sigaltstack),
    Call(libc::SYS_restart_syscall),
    Call(libc::SYS_clock_gettime),
    Call(libc::SYS_clock_nanosleep),
    Call(libc::SYS_nanosleep),
    Call(libc::SYS_gettimeofday),
    Call(libc::SYS_getrandom),
    Call(libc::SYS_exit),
    Call(libc::SYS_exit_group),
];

/// What a thread needs among others.
const RUN: &[Rule] = &[
    Call(libc::SYS_membarrier),
    Call(libc::SYS_set_robust_list),
    Call(libc::SYS_rseq),
    Call(libc::SYS_tgkill),
    OneOf(libc::SYS_prctl, 0, &[libc::PR_SET_NAME as u32, PR_SET_VMA]),
    // The C library's allocator looks once whether memory is overcommitted, and continues without
    // an answer (`check_may_shrink_heap` in its malloc/arena.c).
    Refuse(libc::SYS_openat),
];

/// Names of memory, which the C library gives.
const PR_SET_VMA: u32 = 0x5356_4d41;

/// Threads are started, processes not; each puts a filter on itself. The arguments of `clone3`
/// cannot be seen.
pub(crate) const START: &[Rule] = &[
    With(libc::SYS_clone, 0, libc::CLONE_THREAD as u32),
    Missing(libc::SYS_clone3),
    Call(libc::SYS_seccomp),
    Call(libc::SYS_setpriority),
    Call(libc::SYS_sched_setaffinity),
];

/// Signals, and the end of the guardian.
const SIGNALS: &[Rule] = &[
    Call(libc::SYS_rt_sigtimedwait),
    Call(libc::SYS_wait4),
    Call(libc::SYS_waitid),
    Call(libc::SYS_kill),
    Call(libc::SYS_eventfd2),
    Call(libc::SYS_pipe2),
];

/// Descriptors that are waited for.
const WAIT: &[Rule] = &[
    Call(libc::SYS_ppoll),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_poll),
];

/// A socket pair to another process of this program.
const TELL: &[Rule] = &[Call(libc::SYS_sendmsg), Call(libc::SYS_fcntl)];

/// Who has started this process.
const PARENT: &[Rule] = &[Call(libc::SYS_getppid)];

/// Connections that are there.
pub(crate) const STREAMS: &[Rule] = &[
    Call(libc::SYS_ppoll),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_poll),
    Call(libc::SYS_recvfrom),
    Call(libc::SYS_recvmsg),
    Call(libc::SYS_sendto),
    Call(libc::SYS_sendmsg),
    Call(libc::SYS_getsockopt),
    Call(libc::SYS_setsockopt),
    Call(libc::SYS_getpeername),
    Call(libc::SYS_getsockname),
    Call(libc::SYS_shutdown),
    Call(libc::SYS_fcntl),
    OneOf(libc::SYS_ioctl, 1, &[libc::FIONBIO as u32]),
];

/// Pairs of Unix sockets, between processes of this program.
const PAIRS: &[Rule] = &[OneOf(libc::SYS_socketpair, 0, &[libc::AF_UNIX as u32])];

/// Sockets that others connect to, and who may.
const LISTEN: &[Rule] = &[
    Call(libc::SYS_listen),
    Call(libc::SYS_fchmodat),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_chmod),
];

/// Connections that come.
const ACCEPT: &[Rule] = &[
    Call(libc::SYS_accept4),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_accept),
];

/// Connections to others.
const CONNECT: &[Rule] = &[
    OneOf(libc::SYS_socket, 0, &[libc::AF_INET as u32, libc::AF_INET6 as u32]),
    Call(libc::SYS_bind),
    Call(libc::SYS_connect),
];

/// Descriptors whose readiness is waited for together.
const READINESS: &[Rule] = &[
    Call(libc::SYS_epoll_create1),
    Call(libc::SYS_epoll_ctl),
    Call(libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_epoll_wait),
    Call(libc::SYS_eventfd2),
];

/// Frames of devices that are open.
const FRAMES: &[Rule] = &[
    Call(libc::SYS_ppoll),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_poll),
    Call(libc::SYS_recvfrom),
    Call(libc::SYS_recvmsg),
    Call(libc::SYS_recvmmsg),
    Call(libc::SYS_sendto),
    Call(libc::SYS_sendmsg),
    Call(libc::SYS_sendmmsg),
    Call(libc::SYS_readv),
    Call(libc::SYS_getsockopt),
    Call(libc::SYS_fcntl),
];

/// Flags of a device, and its MTU, by its name.
const LINK_STATE: &[Rule] =
    &[OneOf(libc::SYS_ioctl, 1, &[libc::SIOCGIFFLAGS as u32, libc::SIOCGIFMTU as u32])];

/// Settings of TAPs that are open (`include/uapi/linux/if_tun.h`).
const TAPS: &[Rule] = &[OneOf(
    libc::SYS_ioctl,
    1,
    &[
        0x4004_54ca, // TUNSETIFF
        0x4004_54cb, // TUNSETPERSIST
        0x4004_54d0, // TUNSETOFFLOAD
        0x8004_54d2, // TUNGETIFF
        0x8004_54d7, // TUNGETVNETHDRSZ
        0x4004_54d8, // TUNSETVNETHDRSZ
        0x4004_54da, // TUNSETIFINDEX
        0x4004_54e2, // TUNSETCARRIER
        0x8004_54e0, // TUNSETSTEERINGEBPF
        0x8004_54e1, // TUNSETFILTEREBPF
    ],
)];

/// Packet sockets by which packets leave by devices that are no ports.
const OTHER_DEVICES: &[Rule] = &[
    OneOf(libc::SYS_socket, 0, &[libc::AF_PACKET as u32]),
    OneOf(libc::SYS_setsockopt, 1, &[libc::SOL_SOCKET as u32, libc::SOL_PACKET as u32]),
    Call(libc::SYS_bind),
];

/// Unix sockets.
const UNIX: &[Rule] =
    &[OneOf(libc::SYS_socket, 0, &[libc::AF_UNIX as u32]), Call(libc::SYS_connect)];

/// Devices, netlink, and what settings of devices are asked by.
const SOCKETS: &[Rule] = &[
    OneOf(
        libc::SYS_socket,
        0,
        &[
            libc::AF_UNIX as u32,
            libc::AF_NETLINK as u32,
            libc::AF_PACKET as u32,
            libc::AF_XDP as u32,
        ],
    ),
    Call(libc::SYS_bind),
    Call(libc::SYS_connect),
    Call(libc::SYS_getsockname),
    Call(libc::SYS_setsockopt),
    Call(libc::SYS_dup),
    Call(libc::SYS_dup3),
    OneOf(libc::SYS_ioctl, 1, &[SIOCETHTOOL, libc::SIOCGIFINDEX as u32, libc::SIOCGIFNAME as u32]),
];

/// `include/uapi/linux/sockios.h`
const SIOCETHTOOL: u32 = 0x8946;

/// Names of hosts, which the C library asks servers for.
const NAMES: &[Rule] = &[
    OneOf(
        libc::SYS_socket,
        0,
        &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32],
    ),
    Call(libc::SYS_connect),
    Call(libc::SYS_bind),
    Call(libc::SYS_sendmmsg),
    Call(libc::SYS_uname),
    OneOf(libc::SYS_ioctl, 1, &[libc::FIONREAD as u32]),
];

/// Which of several addresses of a host is asked for first: the C library looks at own addresses.
const ROUTES: &[Rule] = &[OneOf(libc::SYS_socket, 0, &[libc::AF_NETLINK as u32])];

/// Files that are opened, to be read: names of services and users, time zones, settings of devices,
/// the ruleset.
const READ_FILES: &[Rule] = &[
    Call(libc::SYS_openat),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_open),
];

/// Metadata of files, and contents of open ones.
pub(crate) const SEE_FILES: &[Rule] = &[
    Call(libc::SYS_newfstatat),
    Call(libc::SYS_statx),
    Call(libc::SYS_fstat),
    Call(libc::SYS_lseek),
    Call(libc::SYS_pread64),
    Call(libc::SYS_getdents64),
    Call(libc::SYS_readlinkat),
    Call(libc::SYS_faccessat),
    Call(libc::SYS_faccessat2),
    Call(libc::SYS_getcwd),
    Call(libc::SYS_fcntl),
    Call(libc::SYS_getuid),
    Call(libc::SYS_geteuid),
    Call(libc::SYS_getgid),
    Call(libc::SYS_getegid),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_readlink),
];

/// Files that are written and put in place: the state, what is taken, settings of devices.
const WRITE_FILES: &[Rule] = &[
    Call(libc::SYS_mkdirat),
    Call(libc::SYS_unlinkat),
    Call(libc::SYS_renameat2),
    Call(libc::SYS_renameat),
    Call(libc::SYS_linkat),
    Call(libc::SYS_ftruncate),
    Call(libc::SYS_fchmod),
    Call(libc::SYS_fsync),
    Call(libc::SYS_fdatasync),
    Call(libc::SYS_flock),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_mkdir),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_rename),
];

/// Maps of BPF programs, frames that leave by XDP, and no more of bpf(2) (`enum bpf_cmd`).
const FRAME_MAPS: &[Rule] = &[OneOf(
    libc::SYS_bpf,
    0,
    &[
        0,  // BPF_MAP_CREATE: maps are made when they are first used
        1,  // BPF_MAP_LOOKUP_ELEM
        2,  // BPF_MAP_UPDATE_ELEM
        3,  // BPF_MAP_DELETE_ELEM
        4,  // BPF_MAP_GET_NEXT_KEY
        10, // BPF_PROG_TEST_RUN
        21, // BPF_MAP_LOOKUP_AND_DELETE_ELEM
        24, // BPF_MAP_LOOKUP_BATCH
        26, // BPF_MAP_UPDATE_BATCH
        27, // BPF_MAP_DELETE_BATCH
    ],
)];

/// Programs that come onto devices and go.
const BPF: &[Rule] = &[OneOf(
    libc::SYS_bpf,
    0,
    &[
        5,  // BPF_PROG_LOAD
        6,  // BPF_OBJ_PIN
        7,  // BPF_OBJ_GET
        15, // BPF_OBJ_GET_INFO_BY_FD
        18, // BPF_BTF_LOAD
        28, // BPF_LINK_CREATE
        29, // BPF_LINK_UPDATE
        34, // BPF_LINK_DETACH
    ],
)];

/// Code is written, then made executable.
const MACHINE_CODE: &[Rule] = &[Call(libc::SYS_mmap), Call(libc::SYS_mprotect)];

#[cfg(test)]
mod tests {
    use super::super::program::tests::run;
    use penstock_bpf::seccomp::ARCH;

    use super::super::program::program;
    use super::*;

    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

    /// What a thread's filter answers.
    fn answer(thread: Thread, number: libc::c_long, arguments: [u64; 6]) -> u32 {
        let rules = thread.rules().iter().copied().flatten();
        run(&program(rules, REFUSED), ARCH, number, arguments)
    }

    #[test]
    fn unneeded_system_calls_are_denied_to_all_threads() {
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
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
        ] {
            for thread in Thread::ALL {
                assert_eq!(answer(thread, number, [0; 6]), REFUSED, "{thread:?} {number}");
            }
        }
    }

    /// Arguments with which a rule allows its call.
    fn allowed(rule: &Rule) -> Vec<[u64; 6]> {
        let with = |at: u32, value: u32| {
            let mut arguments = [0; 6];
            arguments[at as usize] = value.into();
            arguments
        };
        match rule {
            Call(_) => vec![[u64::MAX; 6]],
            OneOf(_, at, values) => values.iter().map(|value| with(*at, *value)).collect(),
            With(_, at, bits) => vec![with(*at, *bits)],
            Without(..) => vec![[0; 6]],
            Missing(_) | Refuse(_) => vec![],
        }
    }

    #[test]
    fn a_starter_has_the_system_calls_of_the_threads_it_starts() {
        // These begin before the main thread has a filter.
        let before = [Thread::Compile, Thread::Guardian];
        let others = Thread::ALL.into_iter().filter(|thread| !before.contains(thread));
        let of_main = others.map(|thread| (Thread::Main, thread));
        let of_control = [(Thread::Control, Thread::Lookups)];
        for (starter, thread) in of_main.chain(of_control) {
            for rule in thread.rules().iter().copied().flatten() {
                for arguments in allowed(rule) {
                    let answer = answer(starter, rule.number(), arguments);
                    assert_eq!(answer, libc::SECCOMP_RET_ALLOW, "{starter:?} {thread:?} {rule:?}");
                }
            }
        }
    }

    #[test]
    fn threads_are_limited_to_their_own_system_calls() {
        let executable = [0, 4096, (libc::PROT_READ | libc::PROT_EXEC) as u64, 0, 0, 0];
        let writable = [0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as u64, 0, 0, 0];
        for thread in Thread::ALL {
            let expected =
                if thread == Thread::Compile { libc::SECCOMP_RET_ALLOW } else { REFUSED };
            for number in [libc::SYS_mmap, libc::SYS_mprotect] {
                assert_eq!(answer(thread, number, executable), expected, "{thread:?}");
                assert_eq!(answer(thread, number, writable), libc::SECCOMP_RET_ALLOW, "{thread:?}");
            }
            // No thread starts a process.
            assert_eq!(
                answer(thread, libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]),
                REFUSED
            );
        }
        let first = |argument: i32| [argument as u64, 0, 0, 0, 0, 0];
        for (thread, number, arguments) in [
            (Thread::Worker, libc::SYS_openat, [0; 6]),
            (Thread::Worker, libc::SYS_socket, first(libc::AF_UNIX)),
            (Thread::Worker, libc::SYS_clone, first(libc::CLONE_THREAD)),
            (Thread::Worker, libc::SYS_setsockopt, [3, libc::SOL_IP as u64, 0, 0, 0, 0]),
            (Thread::Worker, libc::SYS_bpf, first(5)),
            (Thread::Worker, libc::SYS_ioctl, [3, SIOCETHTOOL.into(), 0, 0, 0, 0]),
            (Thread::Control, libc::SYS_socket, first(libc::AF_VSOCK)),
            (Thread::Control, libc::SYS_unlinkat, [0; 6]),
            (Thread::Metrics, libc::SYS_openat, [0; 6]),
            (Thread::Metrics, libc::SYS_clone, first(libc::CLONE_THREAD)),
            (Thread::Metrics, libc::SYS_bpf, first(1)),
            (Thread::Metrics, libc::SYS_socket, first(libc::AF_INET)),
            (Thread::Queue, libc::SYS_socket, first(libc::AF_INET)),
            (Thread::KernelSync, libc::SYS_socket, first(libc::AF_INET)),
            (Thread::Keep, libc::SYS_socket, first(libc::AF_UNIX)),
            (Thread::Lines, libc::SYS_socket, first(libc::AF_INET)),
            (Thread::Lookups, libc::SYS_openat, [0; 6]),
            (Thread::Compile, libc::SYS_openat, [0; 6]),
        ] {
            assert_eq!(answer(thread, number, arguments), REFUSED, "{thread:?} {number}");
        }
    }
}
