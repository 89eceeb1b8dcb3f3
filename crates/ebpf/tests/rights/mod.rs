// SPDX-License-Identifier: Apache-2.0

//! Whether the kernel lets tests load programs.

use penstock_bpf::asm::Asm;
use penstock_bpf::{AttachPoint, Program, xdp};

/// Whether programs can be loaded here; prints a message if not.
pub fn may_load() -> bool {
    let mut asm = Asm::new();
    asm.exit_with(xdp::PASS);
    match Program::load(AttachPoint::Xdp, "probe", &asm.finish().unwrap()) {
        Ok(_) => true,
        Err(e) if e.is_permission() => {
            println!("skipped: loading BPF programs is not permitted here ({e})");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

/// Numbers of rights (`<linux/capability.h>`).
#[allow(dead_code)]
pub const NET_ADMIN: u32 = 12;
#[allow(dead_code)]
/// For what the verifier takes for dangerous in the hands of others: arithmetic on addresses of
/// packets.
pub const PERFMON: u32 = 38;
#[allow(dead_code)]
/// For programs and maps.
pub const BPF: u32 = 39;

/// Leaves this thread only some rights.
#[allow(dead_code)]
pub fn keep_only(rights: &[u32]) {
    let all = rights.iter().fold(0_u64, |all, right| all | 1 << right);
    let (low, high) = (all as u32, (all >> 32) as u32);
    // struct __user_cap_header_struct: version 3, this thread. Then effective, permitted and
    // inheritable, low words first.
    let header = [0x2008_0522_u32, 0];
    let data = [low, low, 0, high, high, 0];
    // SAFETY: both are as long as version 3 says, and are only read.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
