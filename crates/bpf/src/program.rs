// SPDX-License-Identifier: Apache-2.0

//! Programs in the kernel: loading them, running them by hand, attaching them to devices.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crate::asm::Code;
use crate::btf;
use crate::map::Map;
use crate::netfilter::{self, NetfilterHook};
use crate::sys::{self, ProgParts, TestRun};

/// Where a program of a device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachPoint {
    /// In the driver, or in front of everything else (`BPF_PROG_TYPE_XDP`).
    Xdp,
    /// At ingress of traffic control (`BPF_PROG_TYPE_SCHED_CLS`): packets may be larger than the
    /// MTU there.
    Tcx,
}

impl fmt::Display for AttachPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachPoint::Xdp => "xdp",
            AttachPoint::Tcx => "tcx",
        })
    }
}

/// What a program is for the kernel (`BPF_PROG_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramKind {
    /// A program of a device at XDP.
    Xdp,
    /// A program of a device at tcx, ingress or egress (`BPF_PROG_TYPE_SCHED_CLS`).
    SchedCls,
    /// A program of a netfilter hook for IPv4 or IPv6.
    Netfilter,
}

impl ProgramKind {
    /// `BPF_PROG_TYPE_*` and the attach type.
    fn numbers(self) -> (u32, u32) {
        match self {
            ProgramKind::Xdp => (6, 37),
            ProgramKind::SchedCls => (3, 46),
            ProgramKind::Netfilter => (32, netfilter::ATTACH),
        }
    }
}

impl From<AttachPoint> for ProgramKind {
    fn from(place: AttachPoint) -> Self {
        match place {
            AttachPoint::Xdp => ProgramKind::Xdp,
            AttachPoint::Tcx => ProgramKind::SchedCls,
        }
    }
}

/// Verdicts of XDP programs (`enum xdp_action`).
pub mod xdp {
    #![allow(missing_docs)]
    pub const DROP: i32 = 1;
    pub const PASS: i32 = 2;
    pub const TX: i32 = 3;
    pub const REDIRECT: i32 = 4;
}

/// Verdicts of programs at tcx (`enum tcx_action_base`).
pub mod tcx {
    #![allow(missing_docs)]
    pub const NEXT: i32 = -1;
    pub const PASS: i32 = 0;
    pub const DROP: i32 = 2;
    pub const REDIRECT: i32 = 7;
}

/// Why a program was not loaded.
#[derive(Debug)]
pub struct LoadError {
    /// What the kernel answered.
    pub error: io::Error,
    /// What its verifier said, or nothing.
    pub log: String,
}

impl LoadError {
    /// The caller may not load programs.
    pub fn is_permission(&self) -> bool {
        matches!(self.error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) && self.log.is_empty()
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match self.log.trim_end().lines().rev().find(|line| !line.starts_with("processed ")) {
            Some(line) => write!(f, ": {line}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        LoadError { error, log: String::new() }
    }
}

/// Bytes of the verifier's words that are kept.
const LOG: usize = 1 << 24;

/// A program in the kernel.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    kind: ProgramKind,
    /// It uses them.
    maps: Vec<Arc<Map>>,
}

/// What a program made of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its verdict.
    pub verdict: i32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Nanoseconds that it took.
    pub nanoseconds: u32,
}

/// Frames that a program is run on, and that really go where it says.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The initial content of each frame: metadata, then the frame.
    pub input: &'a [u8],
    /// Bytes of metadata, in fours, 32 at most.
    pub metadata: u32,
    /// The device that they arrive on; 0 for the loopback device of the current namespace.
    pub ingress: u32,
    /// How many.
    pub count: u32,
    /// How many at a time, 256 at most.
    pub batch: u32,
}

/// The largest frame that comes out of a run by hand.
const FRAME: usize = 1 << 16;

/// Where a program stands among those at tcx of a device.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// Before those that are there.
    First,
    /// After those that are there.
    Last,
    /// Right after another one, which is at the same end of the same device.
    After(&'a Link),
}

/// `BPF_F_BEFORE`, `BPF_F_AFTER`: without a reference, the first and the last place.
const TCX_FIRST: u32 = 1 << 3;
const TCX_AFTER: u32 = 1 << 4;
/// `BPF_F_LINK`: the reference is a link.
const TCX_LINK: u32 = 1 << 13;
/// `BPF_TCX_INGRESS`, `BPF_TCX_EGRESS`
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

impl Program {
    /// Loads a program; its maps are made if they are not there yet.
    ///
    /// # Errors
    /// The kernel refuses the program or a map, or the caller has not the rights (`CAP_BPF` and
    /// `CAP_NET_ADMIN`).
    pub fn load(kind: impl Into<ProgramKind>, name: &str, code: &Code) -> Result<Self, LoadError> {
        let kind = kind.into();
        let (fd, maps) = load(kind.numbers(), name, code)?;
        Ok(Program { fd, kind, maps })
    }

    /// What it is.
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// Where it runs, if it is a program of a device.
    pub fn place(&self) -> Option<AttachPoint> {
        match self.kind {
            ProgramKind::Xdp => Some(AttachPoint::Xdp),
            ProgramKind::SchedCls => Some(AttachPoint::Tcx),
            ProgramKind::Netfilter => None,
        }
    }

    /// The maps that it uses.
    pub fn maps(&self) -> &[Arc<Map>] {
        &self.maps
    }

    /// Its number, as bpftool(8) shows it.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn id(&self) -> io::Result<u32> {
        // type, id
        let mut info = [0; 8];
        sys::info(self.fd.as_fd(), &mut info)?;
        Ok(u32::from_ne_bytes([info[4], info[5], info[6], info[7]]))
    }

    /// Runs it on a frame, as received on device `ingress` (0 for the loopback device of the
    /// current namespace), `repeat` times. Nothing is sent. For a program of a netfilter hook see
    /// [`Program::run_netfilter`].
    ///
    /// # Errors
    /// Those of bpf(2); `EINVAL` for a frame shorter than an Ethernet header.
    pub fn run(&self, frame: &[u8], ingress: u32, repeat: u32) -> io::Result<Ran> {
        let context = self.context(frame.len() as u32, ingress);
        self.run_with(frame, &context, repeat)
    }

    /// Runs a program of a netfilter hook on a frame with an Ethernet header, `repeat` times, as at
    /// a hook whose devices are the loopback device of the current namespace. At output the frame
    /// begins with the network header, in newer kernels.
    ///
    /// # Errors
    /// Those of bpf(2); `EINVAL` for a frame of another family than the hook's.
    pub fn run_netfilter(&self, frame: &[u8], hook: NetfilterHook, repeat: u32) -> io::Result<Ran> {
        self.run_with(frame, &hook.context(), repeat)
    }

    fn run_with(&self, frame: &[u8], context: &[u8], repeat: u32) -> io::Result<Ran> {
        let mut output = vec![0; FRAME];
        let run =
            TestRun { input: frame, output: &mut output, context, repeat, ..TestRun::default() };
        let done = sys::prog_test_run(self.fd.as_fd(), run)?;
        output.truncate(done.len as usize);
        Ok(Ran { verdict: done.verdict as i32, frame: output, nanoseconds: done.duration })
    }

    /// `struct xdp_md` or `struct __sk_buff` for a run.
    fn context(&self, len: u32, ingress: u32) -> Vec<u8> {
        if ingress == 0 {
            return Vec::new();
        }
        match self.kind {
            // data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
            ProgramKind::Xdp => [0, len, 0, ingress, 0, 0]
                .iter()
                .flat_map(|word: &u32| word.to_ne_bytes())
                .collect(),
            ProgramKind::Netfilter => Vec::new(),
            ProgramKind::SchedCls => {
                let mut context = vec![0; 192];
                // ingress_ifindex, ifindex
                for at in [36, 40] {
                    if let Some(place) = context.get_mut(at..at + 4) {
                        place.copy_from_slice(&ingress.to_ne_bytes());
                    }
                }
                context
            }
        }
    }

    /// Runs it, an XDP program, on copies of a frame that are really sent where its verdict says;
    /// returns when all have been sent.
    ///
    /// Unless the program is on some device, the kernel waits with each call for all of its
    /// processors, for milliseconds (`bpf_prog_test_run_xdp`, net/bpf/test_run.c).
    ///
    /// # Errors
    /// Those of bpf(2); `EINTR` after a signal: then not all have been run.
    pub fn run_live(&self, live: Live<'_>) -> io::Result<()> {
        let Live { input, metadata, ingress, count, batch } = live;
        // data_meta is 0: metadata lies from there to data, as in the input.
        let context = [metadata, input.len() as u32, 0, ingress, 0, 0].map(u32::to_ne_bytes);
        let run = TestRun {
            input,
            context: context.as_flattened(),
            repeat: count,
            flags: LIVE_FRAMES,
            batch,
            ..TestRun::default()
        };
        sys::prog_test_run(self.fd.as_fd(), run).map(drop)
    }

    /// Attaches it to a device of the current network namespace; at tcx before the programs already
    /// there.
    ///
    /// # Errors
    /// Those of bpf(2): `EBUSY` or `EEXIST` if a program is attached already, `EOPNOTSUPP` where
    /// the driver has no XDP, `EINVAL` or `ERANGE` where the device's MTU is too large for it;
    /// `EINVAL` for a program of a netfilter hook.
    pub fn attach(&self, device: u32, mode: Mode) -> io::Result<Link> {
        let (_, attach) = self.kind.numbers();
        let flags = match (self.kind, mode) {
            (ProgramKind::SchedCls, _) => TCX_FIRST,
            (ProgramKind::Xdp, Mode::Any) => 0,
            (ProgramKind::Xdp, Mode::Generic) => 1 << 1,
            (ProgramKind::Xdp, Mode::Native) => 1 << 2,
            (ProgramKind::Netfilter, _) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Link { fd: sys::link_create(self.fd.as_fd(), device, attach, flags)? })
    }

    /// Attaches a program for tcx to egress of a device instead of ingress, before the programs
    /// already there.
    ///
    /// # Errors
    /// Those of bpf(2), as for [`Program::attach`].
    pub fn attach_egress(&self, device: u32) -> io::Result<Link> {
        self.attach_tcx(device, true, Order::First)
    }

    /// Attaches a program for tcx to ingress or egress of a device, at a place among the programs
    /// there.
    ///
    /// # Errors
    /// Those of bpf(2), as for [`Program::attach`]; `ENOENT` or `ERANGE` if the program that it is
    /// to come after is not there.
    pub fn attach_tcx(&self, device: u32, egress: bool, order: Order<'_>) -> io::Result<Link> {
        let attach = if egress { TCX_EGRESS } else { TCX_INGRESS };
        let (flags, link) = match order {
            Order::First => (TCX_FIRST, None),
            Order::Last => (TCX_AFTER, None),
            Order::After(link) => (TCX_AFTER | TCX_LINK, Some(link.fd.as_fd())),
        };
        Ok(Link { fd: sys::link_create_tcx(self.fd.as_fd(), device, attach, flags, link)? })
    }

    /// Attaches it to a netfilter hook of the current network namespace. Of equal priority what is
    /// registered later runs first. With `defrag` the kernel puts fragments together before the
    /// program; its priority is greater than -400 then.
    ///
    /// # Errors
    /// Those of bpf(2): `EBUSY` if another program has this priority there, `ERANGE` for the least
    /// and the greatest priority, `EINVAL` for a program of another kind.
    pub fn attach_netfilter(
        &self,
        hook: NetfilterHook,
        priority: i32,
        defrag: bool,
    ) -> io::Result<Link> {
        Ok(Link { fd: sys::link_create_netfilter(self.fd.as_fd(), &hook.link(priority, defrag))? })
    }

    /// Makes it number `index` of a map of programs.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn enter_into(&self, programs: &Map, index: u32) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        programs.set(&index.to_ne_bytes(), &self.fd.as_raw_fd().to_ne_bytes())
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The structure that a program's context is, for the kernel's type information.
fn context(kind: u32) -> &'static str {
    match kind {
        6 => "xdp_md",
        32 => "bpf_nf_ctx",
        _ => "__sk_buff",
    }
}

/// Loads code as a program of a kind, for an attach type; its maps are made if they are not there
/// yet.
fn load(
    (kind, attach): (u32, u32),
    name: &str,
    code: &Code,
) -> Result<(OwnedFd, Vec<Arc<Map>>), LoadError> {
    let mut insns = code.insns.clone();
    for (at, map) in &code.maps {
        use std::os::fd::AsRawFd;
        let fd = map.create()?.as_raw_fd();
        if let Some(insn) = insns.get_mut(*at) {
            insn.imm = fd;
        }
    }
    let maps = code.used_maps();
    let info = btf::functions(&code.functions);
    let btf = match code.functions.is_empty() {
        true => None,
        false => Some(sys::btf_load(&btf::blob(&code.functions, context(kind)))?),
    };
    let functions = btf.as_ref().map(|btf| (btf.as_fd(), &*info));
    // At netfilter hooks even the context is of structures that the kernel keeps for such programs.
    let licence = code.licence((kind, attach) == ProgramKind::Netfilter.numbers());
    let parts = ProgParts { kind, attach, insns: &insns, licence, name, functions };
    let error = match sys::prog_load(parts, &mut []) {
        Ok(fd) => return Ok((fd, maps)),
        Err(error) => error,
    };
    // Once more, to hear why.
    let mut log = vec![0; LOG];
    let error = match sys::prog_load(parts, &mut log) {
        Ok(fd) => return Ok((fd, maps)),
        Err(again) if again.raw_os_error() == Some(libc::ENOSPC) => error,
        Err(again) => again,
    };
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    log.truncate(end);
    Err(LoadError { error, log: String::from_utf8_lossy(&log).into_owned() })
}

/// A filter of sockets (`BPF_PROG_TYPE_SOCKET_FILTER`): how many bytes of a packet a socket gets, 0
/// to discard it.
#[derive(Debug)]
pub struct SocketFilter {
    fd: OwnedFd,
    /// It uses them.
    _maps: Vec<Arc<Map>>,
}

impl SocketFilter {
    /// Loads a filter.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load(name: &str, code: &Code) -> Result<Self, LoadError> {
        const SOCKET_FILTER: u32 = 1;
        let (fd, maps) = load((SOCKET_FILTER, 0), name, code)?;
        Ok(SocketFilter { fd, _maps: maps })
    }

    /// Sets it before a socket, until another one is, or [`SocketFilter::detach`].
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::attach_filter(socket, self.fd.as_fd())
    }

    /// The socket gets all packets again.
    ///
    /// # Errors
    /// Those of setsockopt(2); `ENOENT` if there was no filter.
    pub fn detach(socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::detach_filter(socket)
    }

    /// Runs it on a frame; its result.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run(&self, frame: &[u8]) -> io::Result<u32> {
        let run = TestRun { input: frame, repeat: 1, ..TestRun::default() };
        Ok(sys::prog_test_run(self.fd.as_fd(), run)?.verdict)
    }
}

impl AsFd for SocketFilter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Who runs an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// The driver if it can, else the kernel for it.
    #[default]
    Any,
    /// The kernel, when the driver has made a packet of the frame (`XDP_FLAGS_SKB_MODE`).
    Generic,
    /// The driver (`XDP_FLAGS_DRV_MODE`).
    Native,
}

/// A program on a device or at a hook. Dropped, also by the end of the process, it takes the program off.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    /// Another program, of the same place, in one step: each packet meets one of both.
    ///
    /// # Errors
    /// Those of bpf(2); `EOPNOTSUPP` at netfilter hooks, whose links have one program for ever.
    pub fn replace(&self, program: &Program) -> io::Result<()> {
        sys::link_update(self.fd.as_fd(), program.fd.as_fd())
    }

    /// Gives it a name in a file system of type bpf: the program stays when the process
    /// ends.
    ///
    /// # Errors
    /// Those of bpf(2); `EEXIST` if there is such a name.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        sys::pin(self.fd.as_fd(), &sys::path_name(path)?)
    }

    /// Detaches the program at once, even if the link is held or pinned elsewhere.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn detach(self) -> io::Result<()> {
        sys::link_detach(self.fd.as_fd())
    }

    /// Opens one that has a name.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn pinned(path: &Path) -> io::Result<Self> {
        Ok(Link { fd: sys::get(&sys::path_name(path)?)? })
    }
}
