// SPDX-License-Identifier: Apache-2.0

//! Builds filters of system calls: lists of what is allowed become a classic BPF program over
//! `struct seccomp_data` (seccomp(2), `Documentation/userspace-api/seccomp_filter.rst`).

use libc::{c_long, sock_filter};
use penstock_bpf::seccomp::{ARCH, answer, arch, argument, jump, number};

/// What is allowed. Arguments are counted from 0, and their low 32 bits are compared: the kernel
/// itself takes families, commands and `ioctl` numbers as 32 bits, and all flags that are asked for
/// here are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The call, with any arguments.
    Call(c_long),
    /// The call, if this argument is one of these values: at most [`MOST_VALUES`].
    OneOf(c_long, u32, &'static [u32]),
    /// The call, if this argument has none of these bits.
    Without(c_long, u32, u32),
    /// The call, if this argument has one of these bits.
    With(c_long, u32, u32),
    /// The call fails with `ENOSYS`: programs fall back to an older one with arguments that can be
    /// checked.
    Missing(c_long),
    /// Unless another rule allows it, the call fails with `EPERM`, independent of the effect of
    /// unknown calls: its caller works without it.
    Refuse(c_long),
}

/// Values of [`Rule::OneOf`]: jumps of classic BPF are at most 255 instructions long.
pub(crate) const MOST_VALUES: usize = 126;

impl Rule {
    /// The call that it is about.
    pub(crate) fn number(self) -> c_long {
        match self {
            Rule::Call(number)
            | Rule::OneOf(number, ..)
            | Rule::Without(number, ..)
            | Rule::With(number, ..)
            | Rule::Missing(number)
            | Rule::Refuse(number) => number,
        }
    }

    /// Appends its instructions. They begin and end with the number of the call in the accumulator.
    fn put(self, program: &mut Vec<sock_filter>) {
        let allow = answer(libc::SECCOMP_RET_ALLOW);
        let own = self.number() as u32;
        let by_bits = |n, bits, then, otherwise| {
            let test = jump(libc::BPF_JSET, bits, then, otherwise);
            [jump(libc::BPF_JEQ, own, 0, 4), argument(n), test, allow, number()]
        };
        match self {
            Rule::Call(_) => program.extend([jump(libc::BPF_JEQ, own, 0, 1), allow]),
            Rule::Missing(_) => {
                let missing = answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
                program.extend([jump(libc::BPF_JEQ, own, 0, 1), missing]);
            }
            Rule::Refuse(_) => {
                let refuse = answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
                program.extend([jump(libc::BPF_JEQ, own, 0, 1), refuse]);
            }
            Rule::OneOf(_, n, values) => {
                let values = values.get(..MOST_VALUES).unwrap_or(values);
                let len = 2 * values.len() as u8 + 2;
                program.extend([jump(libc::BPF_JEQ, own, 0, len), argument(n)]);
                for value in values {
                    program.extend([jump(libc::BPF_JEQ, *value, 0, 1), allow]);
                }
                program.push(number());
            }
            Rule::Without(_, n, bits) => program.extend(by_bits(n, bits, 1, 0)),
            Rule::With(_, n, bits) => program.extend(by_bits(n, bits, 0, 1)),
        }
    }
}

/// The program that allows what one of the rules allows. `otherwise` is the `SECCOMP_RET_*` of all
/// other calls; calls by another convention, where numbers mean other calls, end the process.
pub(super) fn program<'r>(
    rules: impl Iterator<Item = &'r Rule> + Clone,
    otherwise: u32,
) -> Vec<sock_filter> {
    let mut program = vec![
        arch(),
        jump(libc::BPF_JEQ, ARCH, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        number(),
    ];
    let refuses = |rule: &&Rule| matches!(rule, Rule::Refuse(_));
    rules.clone().filter(|rule| !refuses(rule)).for_each(|rule| rule.put(&mut program));
    rules.filter(refuses).for_each(|rule| rule.put(&mut program));
    program.push(answer(otherwise));
    program
}

#[cfg(test)]
pub(super) mod tests {
    use penstock_bpf::seccomp;

    use super::*;

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const OTHERWISE: u32 = libc::SECCOMP_RET_TRAP;

    /// What a program answers.
    pub(in super::super) fn run(
        program: &[sock_filter],
        arch: u32,
        number: c_long,
        arguments: [u64; 6],
    ) -> u32 {
        let call = seccomp::Call { arch, number: number as u32, arguments };
        seccomp::run(program, &call).expect("an answer")
    }

    #[test]
    fn filters_distinguish_calls_by_arguments() {
        let rules = [
            Rule::Call(3),
            Rule::OneOf(41, 0, &[1, 16, 44]),
            // What two rules allow of a call is allowed.
            Rule::OneOf(41, 1, &[9]),
            Rule::Without(9, 2, 4),
            Rule::With(56, 0, 0x300),
            Rule::Missing(435),
            Rule::Refuse(3),
            Rule::Refuse(257),
            Rule::Call(0),
        ];
        let program = program(rules.iter(), libc::SECCOMP_RET_TRAP);
        for (number, arguments, expected) in [
            (0, [7; 6], ALLOWED),
            (3, [0; 6], ALLOWED),
            (4, [0; 6], OTHERWISE),
            (257, [0; 6], REFUSED),
            (41, [16, 0, 0, 0, 0, 0], ALLOWED),
            (41, [44, 0, 0, 0, 0, 0], ALLOWED),
            (41, [2, 9, 0, 0, 0, 0], ALLOWED),
            (41, [2, 1, 0, 0, 0, 0], OTHERWISE),
            // The high half is not looked at by the kernel, and not here.
            (41, [1 << 40 | 2, 0, 0, 0, 0, 0], OTHERWISE),
            (41, [1 << 40 | 1, 0, 0, 0, 0, 0], ALLOWED),
            (9, [4, 4, 3, 4, 4, 4], ALLOWED),
            (9, [0, 0, 7, 0, 0, 0], OTHERWISE),
            (9, [0, 0, 4, 0, 0, 0], OTHERWISE),
            (56, [0x100, 0, 0, 0, 0, 0], ALLOWED),
            (56, [0x1ff, 0, 0, 0, 0, 0], ALLOWED),
            (56, [0xff, 0, 0, 0, 0, 0], OTHERWISE),
            (435, [0; 6], libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        ] {
            assert_eq!(run(&program, ARCH, number, arguments), expected, "{number} {arguments:?}");
        }
        assert_eq!(run(&program, ARCH ^ 1, 3, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn the_largest_allowed_value_list_fits() {
        let values: Vec<u32> = (0..MOST_VALUES as u32).collect();
        let values: &'static [u32] = values.leak();
        let program = program([Rule::OneOf(1, 5, values), Rule::Call(2)].iter(), REFUSED);
        for value in 0..MOST_VALUES as u64 + 2 {
            let expected = if value < MOST_VALUES as u64 { ALLOWED } else { REFUSED };
            assert_eq!(run(&program, ARCH, 1, [0, 0, 0, 0, 0, value]), expected, "{value}");
        }
        assert_eq!(run(&program, ARCH, 2, [0; 6]), ALLOWED);
    }
}
