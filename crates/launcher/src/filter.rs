// SPDX-License-Identifier: Apache-2.0

//! The seccomp filter of the command: classic BPF over `struct seccomp_data` (seccomp(2)).
//!
//! It reports `socket(AF_NETLINK, *, NETLINK_NETFILTER)` and the calls on descriptors of a
//! [`Range`] of numbers to the supervisor, and `getsockopt(*, SOL_IP, SO_IP_SET)`, and allows
//! everything else. It is no sandbox.

use std::ops::RangeInclusive;

use libc::{c_long, sock_filter};
use penstock_bpf::seccomp::{ARCH, answer, arch, argument, jump, number};

/// The option of level `SOL_IP` by which programs look for sets of ipset
/// (`linux/netfilter/ipset/ip_set.h`).
pub(crate) const SO_IP_SET: i32 = 83;

/// Numbers of descriptors that the supervisor gives to its sockets. The filter cannot see what a
/// descriptor is, so it goes by the number.
pub(crate) type Range = RangeInclusive<u32>;

/// `AUDIT_ARCH_*` (`linux/audit.h`) of this machine's programs of 32 bits.
#[cfg(target_arch = "x86_64")]
const ARCH_32: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
const ARCH_32: u32 = 0x4000_0028;

/// `socketcall`, `socket` and `io_uring_setup` of programs of 32 bits: i386 and ARM EABI.
#[cfg(target_arch = "x86_64")]
const CALLS_32: [u32; 3] = [102, 359, 425];
#[cfg(target_arch = "aarch64")]
const CALLS_32: [u32; 3] = [102, 281, 425];

/// Bit in the numbers of system calls of the x32 convention.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Numbers of the sockets of one filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// All of them.
    pub all: Range,
    /// The first one of those at which sends are not reported: programs that decide on packets send
    /// a verdict for each, and wait for no answer. They are the last ones; `None` if there are none.
    pub packets: Option<u32>,
}

impl Numbers {
    /// Those that report all calls.
    pub(crate) fn reported(&self) -> Range {
        match self.packets {
            Some(first) => *self.all.start()..=first - 1,
            None => self.all.clone(),
        }
    }

    /// Those for a socket of a program that decides on packets, or does not.
    pub(crate) fn of(&self, decides: bool) -> Range {
        match self.packets.filter(|_| decides) {
            Some(first) => first..=*self.all.end(),
            None => self.reported(),
        }
    }
}

/// Calls that send, with a first argument that is a descriptor, possibly in the range.
const SENDS: [c_long; 5] =
    [libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Other calls with such an argument.
pub(crate) const ON_SOCKETS: [c_long; 14] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_dup,
    libc::SYS_fcntl,
];

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REPORT: u32 = libc::SECCOMP_RET_USER_NOTIF;
/// The call does not exist: programs fall back, or say so.
const MISSING: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// The filter for numbers of descriptors.
///
/// Calls that would reach the kernel's netfilter past the supervisor fail with `ENOSYS`: sockets of
/// programs of 32 bits, all calls of the x32 convention, and io_uring. An architecture that is none
/// of this machine's ends the process.
pub(crate) fn program(numbers: &Numbers) -> Vec<sock_filter> {
    let mut program = vec![
        arch(),
        jump(libc::BPF_JEQ, ARCH, 8, 0),
        jump(libc::BPF_JEQ, ARCH_32, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        number(),
        jump(libc::BPF_JEQ, CALLS_32[0], 3, 0),
        jump(libc::BPF_JEQ, CALLS_32[1], 2, 0),
        jump(libc::BPF_JEQ, CALLS_32[2], 1, 0),
        answer(ALLOW),
        answer(MISSING),
        number(),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([jump(libc::BPF_JGE, X32, 0, 1), answer(MISSING)]);
    program.extend([
        jump(libc::BPF_JEQ, libc::SYS_io_uring_setup as u32, 0, 1),
        answer(MISSING),
        jump(libc::BPF_JEQ, libc::SYS_socket as u32, 0, 6),
        argument(0),
        jump(libc::BPF_JEQ, libc::AF_NETLINK as u32, 0, 3),
        argument(2),
        jump(libc::BPF_JEQ, libc::NETLINK_NETFILTER as u32, 0, 1),
        answer(REPORT),
        answer(ALLOW),
    ]);
    program.extend([
        jump(libc::BPF_JEQ, libc::SYS_getsockopt as u32, 0, 6),
        argument(1),
        jump(libc::BPF_JEQ, libc::SOL_IP as u32, 0, 3),
        argument(2),
        jump(libc::BPF_JEQ, SO_IP_SET as u32, 0, 1),
        answer(REPORT),
        number(),
    ]);
    // Behind the calls: the answer for others, and the two ranges.
    let range = |range: Range| {
        [
            argument(0),
            jump(libc::BPF_JGE, *range.start(), 0, 1),
            jump(libc::BPF_JGT, *range.end(), 0, 1),
            answer(ALLOW),
            answer(REPORT),
        ]
    };
    let (on_all, on_reported) = (range(numbers.all.clone()), range(numbers.reported()));
    let mut left = (ON_SOCKETS.len() + SENDS.len()) as u8;
    for (call, further) in (ON_SOCKETS.map(|call| (call, 0)).into_iter())
        .chain(SENDS.map(|call| (call, on_all.len() as u8)))
    {
        program.push(jump(libc::BPF_JEQ, call as u32, left + further, 0));
        left -= 1;
    }
    program.push(answer(ALLOW));
    program.extend(on_all);
    program.extend(on_reported);
    program
}

#[cfg(test)]
mod tests {
    use penstock_bpf::seccomp;

    use super::*;

    /// What a program answers.
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        seccomp::run(program, &seccomp::Call { arch, number, arguments }).expect("an answer")
    }

    const NUMBERS: Numbers = Numbers { all: 900..=1023, packets: Some(1000) };
    const NETLINK: u64 = libc::AF_NETLINK as u64;
    const NETFILTER: u64 = libc::NETLINK_NETFILTER as u64;

    #[test]
    fn only_netfilter_sockets_are_reported() {
        let program = program(&NUMBERS);
        let native = ARCH;
        let socket = libc::SYS_socket as u32;
        for (arguments, expected) in [
            ([NETLINK, 3, NETFILTER, 0, 0, 0], REPORT),
            // The kernel does not look at the high halves.
            ([NETLINK | 1 << 40, 3, NETFILTER | 1 << 32, 0, 0, 0], REPORT),
            ([NETLINK, 3, 0, 0, 0, 0], ALLOW),
            ([libc::AF_INET as u64, 3, NETFILTER, 0, 0, 0], ALLOW),
        ] {
            assert_eq!(run(&program, native, socket, arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn calls_are_reported_by_the_number_of_their_descriptor() {
        let program = program(&NUMBERS);
        let native = ARCH;
        let all = ON_SOCKETS.map(|call| (call, REPORT)).into_iter();
        for (call, of_packets) in all.chain(SENDS.map(|call| (call, ALLOW))) {
            for (fd, expected) in [
                (3, ALLOW),
                (899, ALLOW),
                (900, REPORT),
                (999, REPORT),
                (1000, of_packets),
                (1023, of_packets),
                (1024, ALLOW),
                (u64::from(u32::MAX), ALLOW),
                (1 << 32 | 900, REPORT),
            ] {
                assert_eq!(
                    run(&program, native, call as u32, [fd, 0, 0, 0, 0, 0]),
                    expected,
                    "call {call} on {fd}"
                );
            }
        }
        for call in [libc::SYS_openat, libc::SYS_close, libc::SYS_ppoll, libc::SYS_execve] {
            assert_eq!(run(&program, native, call as u32, [900, 0, 0, 0, 0, 0]), ALLOW);
        }
    }

    #[test]
    fn without_numbers_for_packets_all_calls_are_reported() {
        let numbers = Numbers { all: 900..=1023, packets: None };
        let program = program(&numbers);
        for call in ON_SOCKETS.into_iter().chain(SENDS) {
            let reported = |fd| run(&program, ARCH, call as u32, [fd, 0, 0, 0, 0, 0]) == REPORT;
            assert!(reported(900) && reported(1023) && !reported(899), "call {call}");
        }
        assert_eq!((numbers.of(true), numbers.of(false)), (900..=1023, 900..=1023));
        assert_eq!((NUMBERS.of(true), NUMBERS.of(false)), (1000..=1023, 900..=999));
    }

    #[test]
    fn requests_for_sets_of_ipset_are_reported_on_all_sockets() {
        let program = program(&NUMBERS);
        let get = libc::SYS_getsockopt as u32;
        for (level, option, expected) in [(0, 83, REPORT), (0, 82, ALLOW), (1, 83, ALLOW)] {
            let arguments = [3, level, option, 0, 0, 0];
            assert_eq!(run(&program, ARCH, get, arguments), expected, "{level} {option}");
        }
    }

    #[test]
    fn other_ways_to_the_kernel_do_not_exist() {
        let program = program(&NUMBERS);
        let [native, narrow] = [ARCH, ARCH_32];
        let uring = libc::SYS_io_uring_setup as u32;
        assert_eq!(run(&program, native, uring, [0; 6]), MISSING);
        for call in CALLS_32 {
            assert_eq!(run(&program, narrow, call, [900; 6]), MISSING);
        }
        assert_eq!(run(&program, narrow, 4, [900; 6]), ALLOW);
        #[cfg(target_arch = "x86_64")]
        for call in [libc::SYS_socket as u32, libc::SYS_read as u32] {
            assert_eq!(run(&program, native, X32 | call, [0; 6]), MISSING);
        }
        let kill = libc::SECCOMP_RET_KILL_PROCESS;
        assert_eq!(run(&program, native ^ 1, libc::SYS_socket as u32, [0; 6]), kill);
    }
}
