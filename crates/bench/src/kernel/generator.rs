// SPDX-License-Identifier: Apache-2.0

//! Frames from the kernel.

use std::sync::Arc;

use penstock_bpf::asm::{Alu, Asm, Cond, Helper, Reg::*, Width};
use penstock_bpf::{Live, Map, MapKind, MapSpec, Mode, Program, xdp};
use penstock_testkit::build::{Ethernet, Ipv4, Udp, payload};
use penstock_testkit::classbench::Header;
use penstock_wire::ethernet::Mac;

use super::Result;
use super::lab::{self, Lab};

/// Ports of the router: with a socket, and without.
pub(super) const OPEN: u16 = 9;
const CLOSED: u16 = 7;

/// Low half of the address that a firewall blocks.
pub(super) const BLOCKED: u16 = 0x00ff;

/// Source port of the first flow; the others follow.
pub(super) const FIRST_PORT: u16 = 1024;

/// Low half of the address of the host that has flows, in the network in front of the router.
const KNOWN: u16 = 7;

/// What comes to the router itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visitors {
    /// Packets of flows in turn, one in a thousand of a stranger, all for a port that is open.
    Known,
    /// Nine in ten of strangers, for a port that is closed, between packets of flows.
    Strangers,
    /// All from an address that is blocked.
    Blocked,
}

/// Frames handled at once: less than what a veth device holds.
const BATCH: u32 = 128;

// Places in an Ethernet frame with an IPv4 header without options.
const ID: i16 = 18;
const PROTOCOL: i16 = 23;
const SOURCE: i16 = 28;
const SPORT: i16 = 34;
const DPORT: i16 = 36;
const HEADERS: i32 = 42;

/// Bytes of a header in the list of those that frames have in turn.
const HEADER: i32 = 16;

/// Sends frames of 60 bytes into a device.
pub(super) struct Generator {
    program: Program,
    frame: Vec<u8>,
}

/// A device as the only one of a map.
fn only(lab: &Lab, device: &str) -> Result<Arc<Map>> {
    let spec =
        MapSpec { name: "bench_devices", kind: MapKind::Devices, key: 4, value: 4, entries: 1 };
    let map = Arc::new(Map::new(spec));
    let index = lab.index(device)?;
    let set = || map.set(&[0; 4], &index.to_ne_bytes()).map_err(|e| format!("{device}: {e}"));
    lab.inside(set)?;
    Ok(map)
}

fn redirect(asm: &mut Asm, devices: &Arc<Map>) {
    asm.map(R1, devices);
    asm.mov(R2, 0);
    asm.mov(R3, 0);
    asm.call(Helper::RedirectMap);
    asm.exit();
}

/// Makes the frame's headers readable from R2.
fn headers(asm: &mut Asm) {
    readable(asm, HEADERS);
}

/// Makes so many bytes of the frame readable from R2.
fn readable(asm: &mut Asm, bytes: i32) {
    let there = asm.label();
    asm.load(Width::W, R2, R1, 0);
    asm.load(Width::W, R3, R1, 4);
    asm.mov(R4, R2);
    asm.alu(Alu::Add, R4, bytes);
    asm.jump_if(Cond::Le, R4, R3, there);
    asm.exit_with(xdp::DROP);
    asm.bind(there);
}

/// A map with one value.
fn value(name: &'static str, size: u32) -> MapSpec {
    MapSpec { name, kind: MapKind::Array, key: 4, value: size, entries: 1 }
}

/// Puts the number of the frame into R4, which begins anew after so many.
fn in_turn(asm: &mut Asm, count: i32) {
    let turn = Arc::new(Map::new(value("bench_turn", 8)));
    let on = asm.label();
    asm.map_value(R5, &turn, 0);
    asm.load(Width::D, R4, R5, 0);
    asm.alu(Alu::Add, R4, 1);
    asm.jump_if(Cond::Lt, R4, count, on);
    asm.mov(R4, 0);
    asm.bind(on);
    asm.store(Width::D, R5, 0, R4);
}

/// Puts the address of a row into R5, by the frame's number among all rows of so many bytes.
fn row(asm: &mut Asm, rows: Vec<u8>, bytes: i32) {
    in_turn(asm, rows.len() as i32 / bytes);
    let spec = value("bench_headers", rows.len() as u32);
    let rows = Arc::new(Map::with_contents(spec, vec![(vec![0; 4], rows)]));
    asm.map_value(R5, &rows, 0);
    asm.alu(Alu::Mul, R4, bytes);
    asm.alu(Alu::Add, R5, R4);
}

/// Writes the headers of a frame to R2.
fn write_headers(asm: &mut Asm, frame: &[u8]) {
    let (eights, rest) = frame.split_at(HEADERS as usize / 8 * 8);
    for (at, eight) in (0..).step_by(8).zip(eights.as_chunks::<8>().0) {
        asm.mov64(R4, u64::from_ne_bytes(*eight));
        asm.store(Width::D, R2, at, R4);
    }
    if let Some(last) = rest.first_chunk() {
        asm.store(Width::H, R2, eights.len() as i16, i32::from(u16::from_ne_bytes(*last)));
    }
}

/// How frames change on their way. The kernel reuses them as they are at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Frames {
    /// Nothing.
    Stay,
    /// Their headers change.
    Change,
}

impl Generator {
    /// Frames of so many flows, in turn. Backwards they answer those that come the other way.
    pub(super) fn new(
        lab: &Lab,
        device: &str,
        flows: u16,
        frames: Frames,
        backwards: bool,
    ) -> Result<Self> {
        let (to, from, other) =
            if backwards { (lab::R1, lab::BEHIND, 9) } else { (lab::R0, lab::FRONT, 9) };
        let ethernet = Ethernet::new(Mac(from), Mac(to));
        let (front, behind) = ("198.18.0.7", "198.19.0.7");
        let ip = if backwards { Ipv4::new(behind, front) } else { Ipv4::new(front, behind) };
        // Without checksum: ports change.
        let (udp, at) = match backwards {
            false => (Udp::new(FIRST_PORT, other), SPORT),
            true => (Udp::new(other, FIRST_PORT), DPORT),
        };
        let frame = (ethernet / ip / udp.checksum(0) / payload([0; 18])).build();
        let devices = only(lab, device)?;
        let mut asm = Asm::new();
        if frames == Frames::Change {
            headers(&mut asm);
            write_headers(&mut asm, &frame);
        }
        if flows > 1 && frames == Frames::Change {
            in_turn(&mut asm, flows.into());
            asm.alu(Alu::Add, R4, i32::from(FIRST_PORT));
            asm.swap(R4, 16);
            asm.store(Width::H, R2, at, R4);
        }
        redirect(&mut asm, &devices);
        Ok(Generator { program: lab::load("bench_frames", asm)?, frame })
    }

    /// Frames with these headers in turn. Their checksums are wrong: they are dropped before that
    /// matters.
    pub(super) fn listed(lab: &Lab, headers_of: &[Header]) -> Result<Self> {
        let devices = only(lab, "a0")?;
        let ip = Ipv4::new("198.18.0.7", "198.19.0.7");
        let udp = Udp::new(FIRST_PORT, OPEN).checksum(0);
        let frame =
            (Ethernet::new(Mac(lab::FRONT), Mac(lab::R0)) / ip / udp / payload([0; 18])).build();
        let mut rows = Vec::new();
        for header in headers_of {
            rows.extend(header.source.to_be_bytes());
            rows.extend(header.destination.to_be_bytes());
            rows.extend(header.source_port.to_be_bytes());
            rows.extend(header.destination_port.to_be_bytes());
            rows.extend(u32::from(header.protocol).to_ne_bytes());
        }
        let mut asm = Asm::new();
        headers(&mut asm);
        write_headers(&mut asm, &frame);
        row(&mut asm, rows, HEADER);
        // Addresses, as they do not lie at a multiple of eight, in fours; then ports.
        for (from, to) in [(0, SOURCE - 2), (4, SOURCE + 2), (8, SPORT)] {
            asm.load(Width::W, R4, R5, from);
            for half in [0, 2] {
                asm.store(Width::H, R2, to + half, R4);
                asm.alu(Alu::Rsh, R4, 16);
            }
        }
        asm.load(Width::W, R4, R5, 12);
        asm.store(Width::B, R2, PROTOCOL, R4);
        redirect(&mut asm, &devices);
        Ok(Generator { program: lab::load("bench_list", asm)?, frame })
    }

    /// Frames of one length in turn, which differ in their headers.
    ///
    /// The kernel reuses frames as they are at the end: their first 64 bytes, or as many multiples
    /// of eight as they have, are written each time.
    pub(super) fn repeating(lab: &Lab, device: &str, frames: &[Vec<u8>]) -> Result<Self> {
        let frame = frames.first().ok_or("there are no frames")?.clone();
        let changed = frame.len().min(64) / 8 * 8;
        let rows = frames.iter().flat_map(|frame| &frame[..changed]).copied().collect::<Vec<_>>();
        let devices = only(lab, device)?;
        let mut asm = Asm::new();
        readable(&mut asm, changed as i32);
        row(&mut asm, rows, changed as i32);
        for at in (0..changed as i16).step_by(8) {
            asm.load(Width::D, R4, R5, at);
            asm.store(Width::D, R2, at, R4);
        }
        redirect(&mut asm, &devices);
        Ok(Generator { program: lab::load("bench_frames", asm)?, frame })
    }

    /// Frames for the router itself, from flows and strangers.
    pub(super) fn visiting(lab: &Lab, flows: u16, visitors: Visitors) -> Result<Self> {
        let devices = only(lab, "a0")?;
        // Address and identification change together, so that the checksum stays.
        let ip = Ipv4::new("198.18.0.0", "198.18.0.1").id(0xffff);
        let udp = Udp::new(FIRST_PORT, OPEN).checksum(0);
        let frame =
            (Ethernet::new(Mac(lab::FRONT), Mac(lab::R0)) / ip / udp / payload([0; 18])).build();
        let mut asm = Asm::new();
        let known = asm.label();
        asm.mov(R6, R1);
        // Few frames are of strangers, or few are not.
        let (every, strange) = match visitors {
            Visitors::Known => (1000, Cond::Ne),
            Visitors::Strangers => (10, Cond::Eq),
            Visitors::Blocked => (1, Cond::Eq),
        };
        asm.call(Helper::Prandom);
        asm.mov(R7, R0);
        asm.mov(R1, R6);
        headers(&mut asm);
        write_headers(&mut asm, &frame);
        in_turn(&mut asm, flows.into());
        asm.mov(R3, R4);
        asm.alu(Alu::Add, R4, i32::from(FIRST_PORT));
        asm.swap(R4, 16);
        asm.store(Width::H, R2, SPORT, R4);
        asm.alu(Alu::Mod, R3, every);
        asm.mov(
            R4,
            i32::from(u16::from_ne_bytes(match visitors {
                Visitors::Blocked => BLOCKED.to_be_bytes(),
                _ => KNOWN.to_be_bytes(),
            })),
        );
        asm.jump_if(strange, R3, 0, known);
        if visitors == Visitors::Strangers {
            let closed = u16::from_ne_bytes(CLOSED.to_be_bytes());
            asm.store(Width::H, R2, DPORT, i32::from(closed));
        }
        asm.mov(R4, R7);
        // None of those with a name.
        let strangers = u16::from_ne_bytes(0x4000_u16.to_be_bytes());
        asm.alu(Alu::Or, R4, i32::from(strangers));
        asm.bind(known);
        asm.store(Width::H, R2, SOURCE, R4);
        asm.alu(Alu::Xor, R4, -1);
        asm.store(Width::H, R2, ID, R4);
        redirect(&mut asm, &devices);
        Ok(Generator { program: lab::load("bench_visitors", asm)?, frame })
    }

    /// Sends so many.
    pub(super) fn send(&mut self, count: u32) -> Result<()> {
        let sent = self.program.run_live(Live {
            input: &self.frame,
            metadata: 0,
            ingress: 0,
            count,
            batch: BATCH,
        });
        sent.map_err(|e| format!("frames cannot be sent: {e} (live frames need Linux 5.18)"))
    }
}

/// Frames that arrive at r0 leave by r1 with other addresses on their link, and nothing else.
pub(super) fn redirecting(mut lab: Lab) -> Result<Lab> {
    let devices = only(&lab, "r1")?;
    let mut asm = Asm::new();
    headers(&mut asm);
    let [a, b, c, d, e, f] = lab::BEHIND;
    let [g, h, i, j, k, l] = lab::R1;
    for (at, word) in [(0, [a, b, c, d]), (4, [e, f, g, h]), (8, [i, j, k, l])] {
        asm.store(Width::W, R2, at, i32::from_ne_bytes(word));
    }
    redirect(&mut asm, &devices);
    lab.attach("r0", &lab::load("bench_redirect", asm)?, Mode::Native)?;
    Ok(lab)
}
