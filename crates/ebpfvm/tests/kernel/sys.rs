// SPDX-License-Identifier: Apache-2.0

//! The kernel's side: programs and maps by bpf(2), of any type and with any instructions.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use penstock_ebpfvm::insn::{Insn, LOAD_IMM64, pseudo};
use penstock_ebpfvm::map::MapSpec;

/// Calls bpf(2) with the words of an attribute.
fn bpf(command: i32, attr: &mut [u64; 20]) -> io::Result<i64> {
    // SAFETY: the attribute has 160 bytes, and what it points to lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), 160) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn open(command: i32, mut attr: [u64; 20]) -> io::Result<OwnedFd> {
    let fd = bpf(command, &mut attr)?;
    // SAFETY: the command has just made this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn words(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A map of the kernel.
pub struct Map {
    fd: OwnedFd,
    spec: MapSpec,
}

impl Map {
    pub fn new(spec: &MapSpec) -> io::Result<Map> {
        let mut attr = [0; 20];
        attr[0] = words(spec.kind as u32, spec.key);
        attr[1] = words(spec.value, spec.entries);
        attr[2] = words(spec.flags, 0);
        Ok(Map { fd: open(0, attr)?, spec: spec.clone() })
    }

    pub fn set(&self, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
        let mut attr = [0; 20];
        attr[0] = self.fd.as_raw_fd() as u64;
        attr[1] = key.as_ptr().addr() as u64;
        attr[2] = value.as_ptr().addr() as u64;
        attr[3] = flags;
        bpf(2, &mut attr).map(drop)
    }

    /// All elements, by key. Of maps with values per processor those of processor 0.
    pub fn elements(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        let mut next = vec![0; self.spec.key as usize];
        loop {
            let mut attr = [0; 20];
            attr[0] = self.fd.as_raw_fd() as u64;
            attr[1] = last.as_ref().map_or(0, |key| key.as_ptr().addr() as u64);
            attr[2] = next.as_mut_ptr().expose_provenance() as u64;
            if bpf(4, &mut attr).is_err() {
                break;
            }
            // Room for values of many processors.
            let mut value = vec![0; (self.spec.value as usize).next_multiple_of(8) * 256];
            let mut attr = [0; 20];
            attr[0] = self.fd.as_raw_fd() as u64;
            attr[1] = next.as_ptr().addr() as u64;
            attr[2] = value.as_mut_ptr().expose_provenance() as u64;
            if bpf(1, &mut attr).is_ok() {
                value.truncate(self.spec.value as usize);
                all.push((next.clone(), value));
            }
            last = Some(next.clone());
        }
        all.sort();
        all
    }
}

/// A program of the kernel.
pub struct Program {
    fd: OwnedFd,
}

/// What a run made of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub result: u32,
    pub frame: Vec<u8>,
    pub context: Vec<u8>,
}

impl Program {
    /// Loads instructions whose maps are named by their numbers in `maps`; on an error what the
    /// verifier says.
    pub fn load(kind: u32, insns: &[Insn], maps: &[Map]) -> Result<Program, (io::Error, String)> {
        let mut code = insns.to_vec();
        for insn in &mut code {
            if insn.code == LOAD_IMM64 && matches!(insn.src, pseudo::MAP_FD | pseudo::MAP_VALUE) {
                insn.imm = maps[insn.imm as usize].fd.as_raw_fd();
            }
        }
        let bytes: Vec<u8> = code.iter().flat_map(|insn| insn.bytes()).collect();
        let mut log = vec![0; 1 << 20];
        let attempt = |log: &mut [u8]| {
            let mut attr = [0; 20];
            attr[0] = words(kind, code.len() as u32);
            attr[1] = bytes.as_ptr().addr() as u64;
            attr[2] = c"GPL".as_ptr().addr() as u64;
            if !log.is_empty() {
                attr[3] = words(1, log.len() as u32);
                attr[4] = log.as_mut_ptr().expose_provenance() as u64;
            }
            open(5, attr)
        };
        match attempt(&mut []).or_else(|_| attempt(&mut log)) {
            Ok(fd) => Ok(Program { fd }),
            Err(error) => {
                let end = log.iter().position(|b| *b == 0).unwrap_or(0);
                Err((error, String::from_utf8_lossy(&log[..end]).into_owned()))
            }
        }
    }

    /// What an element of an array of programs is.
    pub fn number(&self) -> [u8; 4] {
        self.fd.as_raw_fd().to_le_bytes()
    }

    /// Runs it on a frame with a context.
    pub fn run(&self, frame: &[u8], context: &[u8]) -> io::Result<Ran> {
        let mut out = vec![0; 1 << 16];
        let mut context_out = vec![0; context.len()];
        let mut attr = [0; 20];
        attr[0] = self.fd.as_raw_fd() as u64;
        attr[1] = words(frame.len() as u32, out.len() as u32);
        attr[2] = frame.as_ptr().addr() as u64;
        attr[3] = out.as_mut_ptr().expose_provenance() as u64;
        attr[4] = 1;
        attr[5] = words(context.len() as u32, context.len() as u32);
        if !context.is_empty() {
            attr[6] = context.as_ptr().addr() as u64;
            attr[7] = context_out.as_mut_ptr().expose_provenance() as u64;
        }
        bpf(10, &mut attr)?;
        out.truncate((attr[1] >> 32) as usize);
        Ok(Ran { result: (attr[0] >> 32) as u32, frame: out, context: context_out })
    }

    /// Runs it so many times on a frame: the nanoseconds of one run that the
    /// kernel says, and the result.
    #[allow(dead_code)]
    pub fn time(&self, frame: &[u8], runs: u32) -> io::Result<(f64, u32)> {
        let mut out = vec![0; 1 << 16];
        let mut attr = [0; 20];
        attr[0] = self.fd.as_raw_fd() as u64;
        attr[1] = words(frame.len() as u32, out.len() as u32);
        attr[2] = frame.as_ptr().addr() as u64;
        attr[3] = out.as_mut_ptr().expose_provenance() as u64;
        attr[4] = words(runs, 0);
        bpf(10, &mut attr)?;
        Ok(((attr[4] >> 32) as f64, (attr[0] >> 32) as u32))
    }
}

/// Keeps this thread on processor 0, whose values of maps are compared.
fn stay() {
    // SAFETY: a set of processors is an array of numbers; in this one is none.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is a processor that a set has room for.
    unsafe { libc::CPU_SET(0, &mut set) };
    // SAFETY: the set lives through the call, which only reads it.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
}

/// Whether programs can be loaded; prints a message if not.
pub fn may_load() -> bool {
    stay();
    let exit = [Insn { code: 0xb7, ..Insn::default() }, Insn { code: 0x95, ..Insn::default() }];
    match Program::load(1, &exit, &[]) {
        Ok(_) => true,
        Err((error, _)) => {
            println!("skipped: loading BPF programs is not permitted here ({error})");
            false
        }
    }
}
