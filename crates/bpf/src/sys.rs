// SPDX-License-Identifier: Apache-2.0

//! bpf(2), and the clock of BPF programs: the only place that talks to the kernel, and the only one
//! with `unsafe`.
//!
//! # Invariant
//! An attribute ([`Attr`]) holds addresses of slices that are borrowed until the call is over. For
//! each the length that the kernel reads or writes is the slice's: said in the attribute where the
//! command has a field for it, and by the sizes of a map's keys and values, which
//! [`Map`](crate::Map) checks, where it has none.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::insn::Insn;

/// Commands of bpf(2).
#[derive(Clone, Copy)]
#[repr(i32)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgLoad = 5,
    ObjPin = 6,
    ObjGet = 7,
    ProgTestRun = 10,
    ObjInfo = 15,
    BtfLoad = 18,
    MapTake = 21,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// Bytes of `union bpf_attr` that are used here.
const ATTR: usize = 152;

/// `union bpf_attr`.
#[repr(C, align(8))]
struct Attr([u8; ATTR]);

impl Attr {
    fn new() -> Self {
        Attr([0; ATTR])
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self
    }

    fn u32(self, at: usize, value: u32) -> Self {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn u64(self, at: usize, value: u64) -> Self {
        self.bytes(at, &value.to_ne_bytes())
    }

    fn fd(self, at: usize, fd: BorrowedFd<'_>) -> Self {
        self.u32(at, fd.as_raw_fd() as u32)
    }

    fn slice(self, at: usize, slice: &[u8]) -> Self {
        self.u64(at, slice.as_ptr().addr() as u64)
    }

    fn slice_mut(self, at: usize, slice: &mut [u8]) -> Self {
        // Exposed: the kernel writes through it.
        self.u64(at, slice.as_mut_ptr().expose_provenance() as u64)
    }

    fn read(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|b| b.first_chunk());
        bytes.map_or(0, |b| u32::from_ne_bytes(*b))
    }

    fn call(&mut self, command: Command) -> io::Result<i64> {
        // SAFETY: the attribute is as long as said, and the addresses in it are those of slices
        // that the caller, a function of this module, still borrows: the invariant of the module.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command as i32, self.0.as_mut_ptr(), ATTR) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// For commands that open something.
    fn open(mut self, command: Command) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the command has just created this descriptor, which has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// A name as the kernel keeps it: 15 bytes of letters, digits, `_` and `.`.
fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().take(15).zip(text.bytes()) {
        *to = if from.is_ascii_alphanumeric() { from } else { b'_' };
    }
    out
}

/// What a map is made of.
pub(crate) struct MapParts<'a> {
    pub(crate) kind: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    /// A template for the maps that it will contain.
    pub(crate) inner: Option<BorrowedFd<'a>>,
    pub(crate) name: &'a str,
}

pub(crate) fn map_create(parts: &MapParts<'_>) -> io::Result<OwnedFd> {
    let MapParts { kind, key, value, entries, flags, inner, name: text } = *parts;
    let sizes = Attr::new().u32(0, kind).u32(4, key).u32(8, value).u32(12, entries).u32(16, flags);
    let sizes = match inner {
        Some(inner) => sizes.fd(20, inner),
        None => sizes,
    };
    sizes.bytes(28, &name(text)).open(Command::MapCreate)
}

/// `false` if there is no such key. `value` has the length that the kernel writes, see
/// [`Map`](crate::Map).
pub(crate) fn map_lookup(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    absent(Attr::new().fd(0, map).slice(8, key).slice_mut(16, value).call(Command::MapLookup))
}

/// Reads the value of a key and removes the key, atomically.
pub(crate) fn map_take(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    absent(Attr::new().fd(0, map).slice(8, key).slice_mut(16, value).call(Command::MapTake))
}

pub(crate) fn map_update(
    map: BorrowedFd<'_>,
    key: &[u8],
    value: &[u8],
    flags: u64,
) -> io::Result<()> {
    Attr::new()
        .fd(0, map)
        .slice(8, key)
        .slice(16, value)
        .u64(24, flags)
        .call(Command::MapUpdate)
        .map(drop)
}

/// `false` if there is no such key.
pub(crate) fn map_delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<bool> {
    absent(Attr::new().fd(0, map).slice(8, key).call(Command::MapDelete))
}

/// The key after `key`, or the first; `false` after the last.
pub(crate) fn map_next_key(
    map: BorrowedFd<'_>,
    key: Option<&[u8]>,
    next: &mut [u8],
) -> io::Result<bool> {
    let attr = Attr::new().fd(0, map);
    let attr = match key {
        Some(key) => attr.slice(8, key),
        None => attr,
    };
    absent(attr.slice_mut(16, next).call(Command::MapNextKey))
}

fn absent(result: io::Result<i64>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Sets `count` contiguous elements.
pub(crate) fn map_update_batch(
    map: BorrowedFd<'_>,
    keys: &[u8],
    values: &[u8],
    count: u32,
) -> io::Result<()> {
    let attr = Attr::new().slice(16, keys).slice(24, values).u32(32, count).fd(36, map);
    { attr }.call(Command::MapUpdateBatch).map(drop)
}

/// Removes `count` elements; how many came to be removed before one was missing.
pub(crate) fn map_delete_batch(map: BorrowedFd<'_>, keys: &[u8], count: u32) -> io::Result<u32> {
    let mut attr = Attr::new().slice(16, keys).u32(32, count).fd(36, map);
    match attr.call(Command::MapDeleteBatch) {
        Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
        _ => Ok(attr.read(32)),
    }
}

/// Reads up to `count` elements from `from` (the `next` of the previous call) or from the
/// beginning. Returns how many were read, and whether more follow. `next` has the length of a key,
/// at least four bytes.
pub(crate) fn map_lookup_batch(
    map: BorrowedFd<'_>,
    from: Option<&[u8]>,
    next: &mut [u8],
    keys: &mut [u8],
    values: &mut [u8],
    count: u32,
) -> io::Result<(u32, bool)> {
    let attr = Attr::new();
    let attr = match from {
        Some(from) => attr.slice(0, from),
        None => attr,
    };
    let attr = attr
        .slice_mut(8, next)
        .slice_mut(16, keys)
        .slice_mut(24, values)
        .u32(32, count)
        .fd(36, map);
    let mut attr = attr;
    let more = absent(attr.call(Command::MapLookupBatch))?;
    Ok((attr.read(32), more))
}

/// Loads type information.
pub(crate) fn btf_load(blob: &[u8]) -> io::Result<OwnedFd> {
    Attr::new().slice(0, blob).u32(16, blob.len() as u32).open(Command::BtfLoad)
}

/// A program to be loaded.
#[derive(Clone, Copy)]
pub(crate) struct ProgParts<'a> {
    pub(crate) kind: u32,
    pub(crate) attach: u32,
    pub(crate) insns: &'a [Insn],
    pub(crate) licence: &'a std::ffi::CStr,
    pub(crate) name: &'a str,
    /// Type information, and `struct bpf_func_info` of each function.
    pub(crate) functions: Option<(BorrowedFd<'a>, &'a [u8])>,
}

/// Bytes of a `struct bpf_func_info`.
const FUNC_INFO: usize = 8;

/// Loads a program; what the verifier said goes into `log` where that is not empty.
pub(crate) fn prog_load(parts: ProgParts<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let ProgParts { kind, attach, insns, licence, name: title, functions } = parts;
    // SAFETY: `Insn` is `#[repr(C)]` of eight bytes without padding.
    let code =
        unsafe { std::slice::from_raw_parts(insns.as_ptr().cast::<u8>(), size_of_val(insns)) };
    let attr = Attr::new()
        .u32(0, kind)
        .u32(4, insns.len() as u32)
        .slice(8, code)
        .slice(16, licence.to_bytes_with_nul())
        .bytes(48, &name(title))
        .u32(68, attach);
    let attr = match functions {
        Some((btf, info)) => attr
            .fd(72, btf)
            .u32(76, FUNC_INFO as u32)
            .slice(80, info)
            .u32(88, (info.len() / FUNC_INFO) as u32),
        None => attr,
    };
    let attr = match log.len() {
        0 => attr,
        len => attr.u32(24, 1).u32(28, len as u32).slice_mut(32, log),
    };
    // The verifier gives up when a signal arrives.
    let mut tries = 0;
    loop {
        match Attr(attr.0).open(Command::ProgLoad) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && tries < LOAD_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// So often is it tried again to load a program.
const LOAD_TRIES: u32 = 5;

/// How a program is run by hand.
#[derive(Default)]
pub(crate) struct TestRun<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) output: &'a mut [u8],
    pub(crate) context: &'a [u8],
    pub(crate) context_out: &'a mut [u8],
    pub(crate) repeat: u32,
    pub(crate) flags: u32,
    pub(crate) batch: u32,
}

/// What came of it.
pub(crate) struct TestResult {
    pub(crate) verdict: u32,
    /// Bytes of the frame afterwards.
    pub(crate) len: u32,
    /// Nanoseconds of one run.
    pub(crate) duration: u32,
}

pub(crate) fn prog_test_run(prog: BorrowedFd<'_>, run: TestRun<'_>) -> io::Result<TestResult> {
    let TestRun { input, output, context, context_out, repeat, flags, batch } = run;
    let attr = Attr::new()
        .fd(0, prog)
        .u32(8, input.len() as u32)
        .u32(12, output.len() as u32)
        .slice(16, input)
        .u32(32, repeat)
        .u32(40, context.len() as u32)
        .u32(44, context_out.len() as u32)
        .u32(64, flags)
        .u32(72, batch);
    // An address without a length is refused.
    let attr = if output.is_empty() { attr } else { attr.slice_mut(24, output) };
    let attr = if context.is_empty() { attr } else { attr.slice(48, context) };
    let mut attr = if context_out.is_empty() { attr } else { attr.slice_mut(56, context_out) };
    attr.call(Command::ProgTestRun)?;
    Ok(TestResult { verdict: attr.read(4), len: attr.read(12), duration: attr.read(36) })
}

/// Attaches a program to a device.
pub(crate) fn link_create(
    prog: BorrowedFd<'_>,
    device: u32,
    attach: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    Attr::new().fd(0, prog).u32(4, device).u32(8, attach).u32(12, flags).open(Command::LinkCreate)
}

/// Attaches a program to an end of a device, next to the program of another link if one is given.
pub(crate) fn link_create_tcx(
    prog: BorrowedFd<'_>,
    device: u32,
    attach: u32,
    flags: u32,
    next_to: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let attr = Attr::new().fd(0, prog).u32(4, device).u32(8, attach).u32(12, flags);
    match next_to {
        Some(link) => attr.fd(16, link),
        None => attr,
    }
    .open(Command::LinkCreate)
}

/// A netfilter hook, as `union bpf_attr` has it for a new link.
pub(crate) struct NetfilterLink {
    pub(crate) attach: u32,
    pub(crate) family: u32,
    pub(crate) hook: u32,
    pub(crate) priority: i32,
    pub(crate) flags: u32,
}

/// Attaches a program to a netfilter hook.
pub(crate) fn link_create_netfilter(
    prog: BorrowedFd<'_>,
    link: &NetfilterLink,
) -> io::Result<OwnedFd> {
    let NetfilterLink { attach, family, hook, priority, flags } = *link;
    Attr::new()
        .fd(0, prog)
        .u32(8, attach)
        .u32(16, family)
        .u32(20, hook)
        .u32(24, priority as u32)
        .u32(28, flags)
        .open(Command::LinkCreate)
}

/// Another program in the place of the one that is attached.
pub(crate) fn link_update(link: BorrowedFd<'_>, prog: BorrowedFd<'_>) -> io::Result<()> {
    Attr::new().fd(0, link).fd(4, prog).call(Command::LinkUpdate).map(drop)
}

/// Takes the program of a link off its device, at once.
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    Attr::new().fd(0, link).call(Command::LinkDetach).map(drop)
}

/// Gives an object a name in a file system of type bpf, where it outlives the process.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &std::ffi::CStr) -> io::Result<()> {
    Attr::new().slice(0, path.to_bytes_with_nul()).fd(8, object).call(Command::ObjPin).map(drop)
}

/// Opens what has such a name.
pub(crate) fn get(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    Attr::new().slice(0, path.to_bytes_with_nul()).open(Command::ObjGet)
}

/// The beginning of what the kernel tells of an object (`struct bpf_prog_info`,
/// `struct bpf_link_info`).
pub(crate) fn info(object: BorrowedFd<'_>, out: &mut [u8]) -> io::Result<()> {
    Attr::new()
        .fd(0, object)
        .u32(4, out.len() as u32)
        .slice_mut(8, out)
        .call(Command::ObjInfo)
        .map(drop)
}

fn set_socket(socket: BorrowedFd<'_>, option: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value lives through the call, which only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets a program as the filter of a socket.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set_socket(socket, libc::SO_ATTACH_BPF, program.as_raw_fd())
}

/// Takes the filter of a socket away.
pub(crate) fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_socket(socket, libc::SO_DETACH_BPF, 0)
}

/// The clock of BPF programs, nanoseconds (`CLOCK_MONOTONIC`).
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// A path in the form for system calls.
pub(crate) fn path_name(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}
