// SPDX-License-Identifier: Apache-2.0

//! `--bpf`: BPF programs that frames meet before everything else, as XDP has it on a device.

mod elements;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use penstock_daemon::errln;
use penstock_dataplane::Sink;
use penstock_ebpfvm::object::{Loaded, Object};
use penstock_ebpfvm::{Context, Host, Machine, ProgramKind, Xdp};
use penstock_io::LinkType;
use penstock_net::Network;
use penstock_packet::Meta;
use penstock_random::Random;

use crate::input::{Entering, InputPort};

/// A program and its place: `xdp:DEV=FILE[:PROGRAM]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub device: String,
    pub file: PathBuf,
    /// The name of its section or function; without one the only program of the file.
    pub program: Option<String>,
}

impl Attachment {
    /// Reads what follows `--bpf`. The error is a sentence for the user.
    pub fn parse(value: &OsStr) -> Result<Self, String> {
        let wrong = || format!("--bpf takes xdp:DEV=FILE[:PROGRAM], not `{}`", value.display());
        let bytes = value.as_bytes().strip_prefix(b"xdp:").ok_or_else(wrong)?;
        let at = bytes.iter().position(|&b| b == b'=').filter(|at| *at > 0).ok_or_else(wrong)?;
        let device = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong())?.to_owned();
        let rest = &bytes[at + 1..];
        let (file, program) = match rest.iter().position(|&b| b == b':') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        if file.is_empty() || program.is_some_and(<[u8]>::is_empty) {
            return Err(wrong());
        }
        let program = program.map(|p| std::str::from_utf8(p).map(str::to_owned));
        Ok(Attachment {
            device,
            file: PathBuf::from(OsString::from_vec(file.to_vec())),
            program: program.transpose().map_err(|_| wrong())?,
        })
    }
}

/// An object whose programs share their maps.
struct Loading {
    object: Object,
    machine: Machine,
    loaded: Loaded,
    file: PathBuf,
}

/// What became of the frames of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub passed: u64,
    pub dropped: u64,
    pub transmitted: u64,
    pub redirected: u64,
    /// `XDP_ABORTED`, and verdicts that there are not.
    pub aborted: u64,
    /// Redirected to a device that is not there.
    pub nowhere: u64,
    /// The program was ended.
    pub faults: u64,
}

impl Counts {
    /// The counts with their names.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("passed", self.passed),
            ("dropped", self.dropped),
            ("sent back", self.transmitted),
            ("redirected", self.redirected),
            ("aborted", self.aborted),
            ("redirected to no device", self.nowhere),
            ("dropped, as the program went wrong", self.faults),
        ]
    }
}

/// A program on a device.
pub struct Attached {
    pub device: String,
    /// The name of its function.
    pub program: String,
    pub counts: Counts,
    /// The number of its object, and its own in the machine.
    object: usize,
    number: u32,
}

/// The programs of a run.
pub struct Programs<'n> {
    net: &'n Network,
    objects: Vec<Loading>,
    /// By the index of the device.
    devices: BTreeMap<u32, Attached>,
    context: Context,
    world: World,
}

/// Time of captures, and random numbers that are the same in each run.
struct World {
    now: u64,
    random: Random,
}

impl Host for World {
    fn now(&mut self) -> u64 {
        self.now
    }

    fn random(&mut self) -> u32 {
        self.random.u32()
    }

    fn trace(&mut self, line: &str) {
        errln!("bpf_trace_printk: {line}");
    }
}

/// What becomes of a frame.
pub enum Met<'a> {
    /// It enters the path.
    Enters(Entering<'a>),
    /// That was all.
    Ended,
    /// It leaves by these devices, as [`Programs::send`] sends it.
    Leaves(Vec<u32>),
}

/// Verdicts (`enum xdp_action`).
const DROP: u64 = 1;
const PASS: u64 = 2;
const TX: u64 = 3;
const REDIRECT: u64 = 4;

impl<'n> Programs<'n> {
    /// Loads them, with the elements of their maps that a file has.
    ///
    /// # Errors
    /// A file that cannot be read or loaded, or a device that is not there.
    pub fn load(
        attachments: &[Attachment],
        elements: Option<&Path>,
        net: &'n Network,
    ) -> Result<Self, String> {
        let mut programs = Programs {
            net,
            objects: Vec::new(),
            devices: BTreeMap::new(),
            context: Context::Xdp(Xdp::default()),
            world: World { now: 0, random: Random::seeded(0) },
        };
        let mut files: Vec<&Path> = attachments.iter().map(|a| a.file.as_path()).collect();
        files.sort();
        files.dedup();
        for file in files {
            programs.load_file(file, attachments.iter().filter(|a| a.file == file))?;
        }
        if let Some(file) = elements {
            let failed = |e| format!("Error: {}: {e}", file.display());
            let text = std::fs::read_to_string(file).map_err(|e| failed(e.to_string()))?;
            elements::set(&text, &mut programs.objects).map_err(failed)?;
        }
        Ok(programs)
    }

    fn load_file<'a>(
        &mut self,
        file: &Path,
        attachments: impl Iterator<Item = &'a Attachment>,
    ) -> Result<(), String> {
        let failed = |e: String| format!("Error: --bpf: {}: {e}", file.display());
        let bytes = std::fs::read(file).map_err(|e| failed(e.to_string()))?;
        let object = Object::parse(&bytes).map_err(|e| failed(e.to_string()))?;
        let mut wanted = Vec::new();
        for attachment in attachments {
            let which = object.find(attachment.program.as_deref());
            let which = which.map_err(|e| failed(e.to_string()))?;
            let program = &object.programs[which];
            if program.kind != Some(ProgramKind::Xdp) {
                let Attachment { device, .. } = attachment;
                return Err(failed(format!(
                    "program {} (section {}) is not for xdp:{device}",
                    program.name, program.section
                )));
            }
            wanted.push((attachment, which));
        }
        let mut machine = Machine::default();
        let which: Vec<usize> = wanted.iter().map(|(_, which)| *which).collect();
        let loaded = object.load(&mut machine, &which).map_err(|e| failed(e.to_string()))?;
        for (attachment, which) in wanted {
            let device = &attachment.device;
            let Some(link) = self.net.link_by_name(device).filter(|link| link.is_wire()) else {
                return Err(format!("Error: --bpf xdp:{device}: there is no such device"));
            };
            let Some(number) = loaded.programs[which] else { continue };
            let attached = Attached {
                device: device.clone(),
                program: object.programs[which].name.clone(),
                counts: Counts::default(),
                object: self.objects.len(),
                number,
            };
            if self.devices.insert(link.index, attached).is_some() {
                return Err(format!("Error: --bpf xdp:{device} is given twice"));
            }
        }
        self.objects.push(Loading { object, machine, loaded, file: file.to_owned() });
        Ok(())
    }

    /// Devices with programs, in the order of their indexes.
    pub fn devices(&self) -> impl Iterator<Item = &Attached> {
        self.devices.values()
    }

    /// The maps of all programs, as text.
    pub fn elements(&mut self) -> String {
        elements::text(&mut self.objects)
    }

    /// A frame of a capture meets the program of the device that it arrives on.
    pub fn meet<'a>(&mut self, mut entering: Entering<'a>) -> Met<'a> {
        let InputPort::Device(index) = entering.port else { return Met::Enters(entering) };
        let Some(attached) = self.devices.get_mut(&index) else { return Met::Enters(entering) };
        if entering.link != LinkType::Ethernet {
            return Met::Enters(entering);
        }
        let Context::Xdp(xdp) = &mut self.context else { return Met::Enters(entering) };
        (xdp.ingress, xdp.queue) = (index, 0);
        xdp.packet.set(&entering.bytes);
        self.world.now = entering.time;
        let machine = &mut self.objects[attached.object].machine;
        let counts = &mut attached.counts;
        let verdict = match machine.run(attached.number, &mut self.context, &mut self.world) {
            // A verdict has 32 bits.
            Ok(verdict) => verdict & 0xffff_ffff,
            Err(fault) => {
                counts.faults += 1;
                if counts.faults == 1 {
                    let Attached { device, program, .. } = attached;
                    errln!("Warning: --bpf xdp:{device}: program {program}: {fault}");
                }
                return Met::Ended;
            }
        };
        match verdict {
            PASS => {
                counts.passed += 1;
                let bytes = self.context.packet().bytes();
                if *bytes != *entering.bytes {
                    entering.bytes = Cow::Owned(bytes.to_vec());
                }
                Met::Enters(entering)
            }
            TX => {
                counts.transmitted += 1;
                Met::Leaves(vec![index])
            }
            REDIRECT => self.redirected(index),
            DROP => {
                counts.dropped += 1;
                Met::Ended
            }
            _ => {
                counts.aborted += 1;
                Met::Ended
            }
        }
    }

    /// Where the last frame, which came from a device, goes.
    fn redirected(&mut self, from: u32) -> Met<'static> {
        let Some(attached) = self.devices.get_mut(&from) else { return Met::Ended };
        let Context::Xdp(Xdp { redirect: Some(to), .. }) = &self.context else {
            // The verdict alone, without a helper that says where.
            attached.counts.aborted += 1;
            return Met::Ended;
        };
        let mut devices = vec![to.device];
        if let Some(map) = to.broadcast.and_then(|n| self.objects[attached.object].machine.map(n)) {
            let device = |value: &[u8]| value.first_chunk().map(|v| u32::from_le_bytes(*v));
            devices = map.elements().filter_map(|(_, value)| device(value)).collect();
            devices.retain(|device| *device != 0 && !(to.exclude_ingress && *device == from));
        }
        let wire = |index: &u32| self.net.link(*index).is_some_and(|link| link.is_wire());
        devices.retain(wire);
        if devices.is_empty() {
            attached.counts.nowhere += 1;
            return Met::Ended;
        }
        attached.counts.redirected += 1;
        Met::Leaves(devices)
    }

    /// Sends the frame of the last program by devices, straight to their wires.
    pub fn send<S: Sink>(&self, devices: &[u32], time: u64, sink: &mut S) {
        for link in devices.iter().filter_map(|index| self.net.link(*index)) {
            let meta = Meta { time, oif: link.index, ..Meta::default() };
            sink.transmit(link, self.context.packet().bytes(), &meta);
        }
    }
}
