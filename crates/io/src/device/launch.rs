// SPDX-License-Identifier: Apache-2.0

//! Sending bursts from XDP: frames that the kernel itself generates, and that our program fills and
//! redirects.
//!
//! A copy-mode AF_XDP socket makes a packet of each frame and takes it down the stack: a
//! microsecond a frame. A device with a driver that sends from XDP (`ndo_xdp_xmit`) takes bursts of
//! frames in a fraction of that. Only XDP programs may give it any, and these run on frames that
//! arrive; so frames are made to arrive: `BPF_PROG_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux
//! 5.18) runs a program on as many empty frames as there are to send. For each the program takes
//! the next one of a list, copies its bytes from memory that it shares with us, and redirects it to
//! the device.
//!
//! ```text
//! pad:  list: next, (place, length)...      metadata of each empty frame: pad, device, length
//!       places: what an AF_XDP socket has as its memory, so that the same frame can go either way
//! ```
//!
//! A call costs as much as sending a dozen frames by the socket ([`LEAST`]), so few frames go
//! there.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_bpf::asm::{Alu, Asm, AsmError, Code, Cond, Helper, Reg, Width};
use penstock_bpf::{AttachPoint, Link, Live, Map, MapKind, MapSpec, Mode, Program, xdp};
use penstock_wire::ethernet;

use super::bpf::{impossible, refused};
use super::sys::{Mapping, interface_index};
use super::tap::Tap;

/// With fewer frames the socket is faster.
pub(crate) const LEAST: usize = 16;
/// Frames of a call at most: what the list has room for.
pub(crate) const MOST: usize = 1000;
/// The longest frame: an empty one has a page, with room in front and `struct skb_shared_info`
/// after.
pub(crate) const LONGEST: usize = 4096 - 256 - 320;
/// Frames that the kernel generates and sends at a time; more of them would not stay in its caches.
const BATCH: u32 = 64;

/// Pads at most: sending sides of devices.
const PADS: u32 = 4096;
/// Bytes of the list, and of a place.
const VALUE: u32 = 4096;
/// Where the list begins after the number of the next one.
const LIST: i16 = 8;
/// Metadata: pad, device, and how long an empty frame is.
const METADATA: usize = 12;

/// Runs the program for all sending sides of a process.
#[derive(Debug)]
pub struct Launcher {
    program: Program,
    /// A program that is on no device runs slowly; where it is, nothing ever arrives.
    _link: Link,
    _nowhere: Tap,
    pads: Arc<Map>,
    /// What a pad's map is made from.
    spec: MapSpec,
    /// Numbers of released pads, and the first that was never used.
    free: Mutex<(Vec<u32>, u32)>,
}

impl Launcher {
    /// For senders with so many slots for frames, by devices in the network namespace of the
    /// thread. It creates an internal device there, which stays down.
    ///
    /// # Errors
    /// Those of bpf(2) and of TAPs: kernels before 5.18, missing rights.
    pub fn open(places: u32) -> io::Result<Arc<Self>> {
        let spec = MapSpec {
            name: "pad",
            kind: MapKind::MappedArray,
            key: 4,
            value: VALUE,
            entries: places + 1,
        };
        let like = Arc::new(Map::new(spec.clone()));
        let all = MapSpec { name: "pads", kind: MapKind::Maps, key: 4, value: 4, entries: PADS };
        let pads = Arc::new(Map::of_maps(all, like));
        let code = code(&pads).map_err(impossible)?;
        let program = Program::load(AttachPoint::Xdp, "penstock_launch", &code).map_err(refused)?;
        let nowhere = Tap::open("penstock%d")?;
        let link = program.attach(interface_index(nowhere.name())?, Mode::Native)?;
        let launcher = Launcher {
            program,
            _link: link,
            _nowhere: nowhere,
            pads,
            spec,
            free: Mutex::default(),
        };
        // Without a pad the program drops all frames; the kernel says here if it has no such runs.
        let input = [0; METADATA + ethernet::LEN];
        launcher.run(&input, 1)?;
        Ok(Arc::new(launcher))
    }

    fn run(&self, input: &[u8], count: u32) -> io::Result<()> {
        self.program.run_live(Live {
            input,
            metadata: METADATA as u32,
            ingress: 0,
            count,
            batch: BATCH,
        })
    }

    /// A sending side's own.
    ///
    /// # Errors
    /// Those of bpf(2) and mmap(2).
    pub(crate) fn pad(self: &Arc<Self>) -> io::Result<Pad> {
        use std::os::fd::AsRawFd;
        let map = Map::new(self.spec.clone());
        let fd = map.create()?.try_clone_to_owned()?;
        let list = Mapping::of(&fd, VALUE as usize, 0)?;
        let number = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.0.pop().unwrap_or_else(|| {
                free.1 += 1;
                free.1 - 1
            })
        };
        let pad =
            Pad { launcher: self.clone(), number, list, fd, input: vec![0; METADATA + LONGEST] };
        self.pads.set(&number.to_ne_bytes(), &pad.fd.as_raw_fd().to_ne_bytes())?;
        Ok(pad)
    }
}

/// Memory that the program takes frames from.
#[derive(Debug)]
pub(crate) struct Pad {
    launcher: Arc<Launcher>,
    number: u32,
    list: Mapping,
    fd: OwnedFd,
    /// An empty frame after its metadata.
    input: Vec<u8>,
}

impl Pad {
    /// The memory of all places, one after the other.
    pub(crate) fn places(&self) -> io::Result<Mapping> {
        let entries = self.launcher.spec.entries as usize - 1;
        Mapping::of(&self.fd, entries * VALUE as usize, i64::from(VALUE))
    }

    fn word(&self, number: usize) -> &AtomicU32 {
        let at = number * size_of::<u32>();
        debug_assert!(at < self.list.len());
        // SAFETY: inside of the mapping, of which the callers know the length; aligned, and alive
        // as long as it.
        unsafe { AtomicU32::from_ptr(self.list.start().add(at).cast()) }
    }

    /// Sends frames by a device: [`MOST`] at most, each by the number of its place and its length,
    /// from 14 to [`LONGEST`]. How many have left, from the first on; with fewer than all there was
    /// an error.
    pub(crate) fn launch(
        &mut self,
        device: u32,
        frames: impl ExactSizeIterator<Item = (u32, u32)>,
    ) -> (usize, io::Result<()>) {
        let count = frames.len().min(MOST);
        let mut first = 0;
        for (i, (place, len)) in frames.take(count).enumerate() {
            if i == 0 {
                first = len;
            }
            self.word(LIST as usize / size_of::<u32>() + i)
                .store(place | len << 16, Ordering::Relaxed);
        }
        self.word(0).store(0, Ordering::Release);
        for (to, word) in
            self.input.chunks_exact_mut(size_of::<u32>()).zip([self.number, device, first])
        {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let input = self.input.get(..METADATA + first as usize).unwrap_or_default();
        let result = self.launcher.run(input, count as u32);
        (self.word(0).load(Ordering::Acquire) as usize, result)
    }
}

impl Drop for Pad {
    fn drop(&mut self) {
        // The program finds nothing there from now on.
        let _ = self.launcher.pads.remove(&self.number.to_ne_bytes());
        self.launcher.free.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.number);
    }
}

/// The program: `struct xdp_md` in R6.
fn code(pads: &Arc<Map>) -> Result<Code, AsmError> {
    /// `struct xdp_md`.
    const DATA: i16 = 0;
    const DATA_META: i16 = 8;
    /// Offsets in the stack.
    const KEY: i16 = -8;
    const LEN: i16 = -16;
    let mut asm = Asm::new();
    let drop = asm.label();
    asm.mov(Reg::R6, Reg::R1);
    asm.load(Width::W, Reg::R2, Reg::R6, DATA_META);
    asm.load(Width::W, Reg::R3, Reg::R6, DATA);
    asm.mov(Reg::R4, Reg::R2);
    asm.alu(Alu::Add, Reg::R4, METADATA as i32);
    asm.jump_if(Cond::Gt, Reg::R4, Reg::R3, drop);
    asm.load(Width::W, Reg::R1, Reg::R2, 0);
    asm.load(Width::W, Reg::R8, Reg::R2, 4);
    asm.load(Width::W, Reg::R7, Reg::R2, 8);
    // The map of the pad, its list, and the next frame of it.
    asm.store(Width::W, Reg::R10, KEY, Reg::R1);
    asm.store(Width::D, Reg::R10, LEN, Reg::R7);
    let look_up = |asm: &mut Asm| {
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, i32::from(KEY));
        asm.call(Helper::MapLookup);
        asm.jump_if(Cond::Eq, Reg::R0, 0, drop);
    };
    asm.map(Reg::R1, pads);
    look_up(&mut asm);
    asm.mov(Reg::R9, Reg::R0);
    asm.store(Width::W, Reg::R10, KEY, 0);
    asm.mov(Reg::R1, Reg::R9);
    look_up(&mut asm);
    asm.load(Width::W, Reg::R1, Reg::R0, 0);
    asm.jump_if(Cond::Ge, Reg::R1, MOST as i32, drop);
    asm.mov(Reg::R2, Reg::R1);
    asm.alu(Alu::Add, Reg::R2, 1);
    asm.store(Width::W, Reg::R0, 0, Reg::R2);
    asm.alu(Alu::Lsh, Reg::R1, 2);
    asm.alu(Alu::Add, Reg::R0, Reg::R1);
    asm.load(Width::W, Reg::R7, Reg::R0, LIST);
    // Its bytes.
    asm.mov(Reg::R1, Reg::R7);
    asm.alu(Alu::And, Reg::R1, 0xffff);
    asm.alu(Alu::Add, Reg::R1, 1);
    asm.store(Width::W, Reg::R10, KEY, Reg::R1);
    asm.mov(Reg::R1, Reg::R9);
    look_up(&mut asm);
    asm.mov(Reg::R9, Reg::R0);
    asm.alu(Alu::Rsh, Reg::R7, 16);
    asm.jump_if(Cond::Lt, Reg::R7, ethernet::LEN as i32, drop);
    asm.jump_if(Cond::Gt, Reg::R7, LONGEST as i32, drop);
    // Its length, where the empty frame has another one.
    let fits = asm.label();
    asm.mov(Reg::R2, Reg::R7);
    asm.load(Width::D, Reg::R3, Reg::R10, LEN);
    asm.alu(Alu::Sub, Reg::R2, Reg::R3);
    asm.jump_if(Cond::Eq, Reg::R2, 0, fits);
    asm.mov(Reg::R1, Reg::R6);
    asm.call(Helper::XdpAdjustTail);
    asm.jump_if(Cond::Ne, Reg::R0, 0, drop);
    asm.bind(fits);
    asm.mov(Reg::R1, Reg::R6);
    asm.mov(Reg::R2, 0);
    asm.mov(Reg::R3, Reg::R9);
    asm.mov(Reg::R4, Reg::R7);
    asm.call(Helper::XdpStoreBytes);
    asm.jump_if(Cond::Ne, Reg::R0, 0, drop);
    // Metadata would stay with the frame.
    asm.mov(Reg::R1, Reg::R6);
    asm.mov(Reg::R2, METADATA as i32);
    asm.call(Helper::XdpAdjustMeta);
    asm.jump_if(Cond::Ne, Reg::R0, 0, drop);
    asm.mov(Reg::R1, Reg::R8);
    asm.mov(Reg::R2, 0);
    asm.call(Helper::Redirect);
    asm.exit();
    asm.bind(drop);
    asm.exit_with(xdp::DROP);
    asm.finish()
}
