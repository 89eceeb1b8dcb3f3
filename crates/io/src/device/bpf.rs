//! The few eBPF programs that devices need, loaded by bpf(2): no compiler and no library at run time.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::sys::check;

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;

const XDP_PASS: i32 = 2;
const TCX_DROP: i32 = 2;
/// `bpf_redirect_map()`.
const REDIRECT_MAP: i32 = 51;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE: i16 = 16;

/// Calls bpf(2) with an attribute that is zeroes behind what is given. Pointers in it must live through the call.
fn bpf<T>(command: libc::c_long, attribute: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the attribute is that long and lives through the call; what it points to does, as each caller sees to.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attribute, size_of::<T>()) })
}

fn descriptor(result: libc::c_long) -> OwnedFd {
    // SAFETY: a new descriptor that nobody else has; the call succeeded.
    unsafe { OwnedFd::from_raw_fd(result as RawFd) }
}

/// An instruction (`struct bpf_insn`).
fn instruction(code: u8, dst: u8, src: u8, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(dst) << 8
        | u64::from(src) << 12
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

/// `r = value`
fn load_value(register: u8, value: i32) -> u64 {
    instruction(0xb7, register, 0, 0, value)
}

/// `return r0`
fn exit() -> u64 {
    instruction(0x95, 0, 0, 0, 0)
}

fn load(kind: u32, name: &CStr, program: &[u64]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attribute {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
    }
    let mut attribute = Attribute {
        kind,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"Apache-2.0".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
    };
    for (to, from) in attribute.name.iter_mut().zip(name.to_bytes().iter().take(15)) {
        *to = *from;
    }
    bpf(PROG_LOAD, &mut attribute).map(descriptor)
}

/// Attaches a program to a device until the descriptor that this gives is closed.
fn attach(program: &OwnedFd, index: u32, point: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attribute {
        program: i32,
        index: u32,
        point: u32,
        flags: u32,
        rest: [u64; 4],
    }
    let mut attribute = Attribute { program: program.as_raw_fd(), index, point, flags, rest: [0; 4] };
    bpf(LINK_CREATE, &mut attribute).map(descriptor)
}

/// How an XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the kernel's receive path, for all devices.
    Generic,
}

/// A map of sockets by queue, and the program that gives each frame to the socket of its queue, or to the kernel where
/// there is none. Both go with the last of the descriptors.
#[derive(Debug)]
pub(crate) struct Redirect {
    map: OwnedFd,
    /// Keeps the program attached.
    _link: OwnedFd,
}

impl Redirect {
    /// For a device with so many queues.
    pub(crate) fn attach(index: u32, queues: u32, mode: XdpMode) -> io::Result<Self> {
        #[repr(C)]
        struct Attribute {
            kind: u32,
            key: u32,
            value: u32,
            entries: u32,
            flags: u32,
        }
        let mut attribute = Attribute { kind: MAP_TYPE_XSKMAP, key: 4, value: 4, entries: queues, flags: 0 };
        let map = descriptor(bpf(MAP_CREATE, &mut attribute)?);
        let program = load(
            PROG_TYPE_XDP,
            c"penstock_xsk",
            &[
                // r2 = the queue, r1 = the map, r3 = what to do without a socket
                instruction(0x61, 2, 1, RX_QUEUE, 0),
                instruction(0x18, 1, 1, 0, map.as_raw_fd()),
                0,
                load_value(3, XDP_PASS),
                instruction(0x85, 0, 0, 0, REDIRECT_MAP),
                exit(),
            ],
        )?;
        let flags = match mode {
            XdpMode::Native => 4,
            XdpMode::Generic => 2,
        };
        let link = attach(&program, index, ATTACH_XDP, flags)?;
        Ok(Redirect { map, _link: link })
    }

    /// Frames of a queue go to a socket from now on.
    pub(crate) fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        #[repr(C)]
        struct Attribute {
            map: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let value = socket.as_raw_fd();
        let mut attribute = Attribute {
            map: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            flags: 0,
        };
        bpf(MAP_UPDATE, &mut attribute).map(|_| ())
    }
}

/// Keeps the kernel's protocols from what a device receives, as long as it is there: packet sockets have seen it by then.
#[derive(Debug)]
pub struct Shut(#[expect(dead_code, reason = "keeps the program attached")] OwnedFd);

impl Shut {
    /// Shuts a device: its frames end at tcx ingress (Linux 6.6).
    pub fn device(index: u32) -> io::Result<Self> {
        let program = load(PROG_TYPE_SCHED_CLS, c"penstock_shut", &[load_value(0, TCX_DROP), exit()])?;
        attach(&program, index, ATTACH_TCX_INGRESS, 0).map(Shut)
    }
}
