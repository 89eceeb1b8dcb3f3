// SPDX-License-Identifier: Apache-2.0

//! BPF programs and objects that run in user space.

use fastrand::Rng;
use penstock_ebpfvm::context::link_protocol;
use penstock_ebpfvm::insn::Insn;
use penstock_ebpfvm::map::{Map, MapKind, MapSpec};
use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Context, Fault, Limits, Machine, Netfilter, ProgramKind, Skb, Still, Xdp};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "bpf",
    bytes: "instructions of BPF programs of each type, and objects as clang makes them",
    holds: "programs end, by themselves or with a fault; maps have no more elements than they may have, and can be listed; machine code does the same as the interpreter",
    longest: 1 << 14,
    seeds,
    make,
    run,
};

/// The first byte of an object; of instructions it is the number of a type.
const OBJECT: u8 = 0xff;
const KINDS: [ProgramKind; 4] =
    [ProgramKind::Xdp, ProgramKind::Tc, ProgramKind::SocketFilter, ProgramKind::Netfilter];

fn bytes(kind: u8, insns: &[Insn]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(insns.iter().flat_map(|insn| insn.bytes()));
    bytes
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// A program that looks a key up and counts, and, from a corpus, objects.
fn seeds() -> Vec<Vec<u8>> {
    let count = [
        insn(0x62, 10, 0, -4, 1),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, -4),
        insn(0x18, 1, 1, 0, 1),
        insn(0, 0, 0, 0, 0),
        insn(0x85, 0, 0, 0, 1),
        insn(0x15, 0, 0, 2, 0),
        insn(0xb7, 1, 0, 0, 1),
        insn(0xdb, 0, 1, 0, 0),
        insn(0xb7, 0, 0, 0, 2),
        insn(0x95, 0, 0, 0, 0),
    ];
    (0..4).map(|kind| bytes(kind, &count)).collect()
}

/// Changes to a seed, or instructions by chance, most of which exist.
fn make(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    if rng.bool() {
        return mutate::bytes(rng, seeds);
    }
    const CODES: [u8; 40] = [
        0x07, 0x0f, 0x04, 0x17, 0x2f, 0x3f, 0x37, 0x57, 0x67, 0x77, 0x97, 0xa7, 0xb7, 0xb7, 0xbf,
        0xbf, 0xd4, 0xdc, 0x61, 0x69, 0x71, 0x79, 0x79, 0x62, 0x63, 0x7b, 0x7a, 0x73, 0xdb, 0xc3,
        0x05, 0x15, 0x1d, 0x2d, 0x55, 0xa5, 0x85, 0x85, 0x18, 0x20,
    ];
    let mut insns = Vec::new();
    for _ in 0..rng.usize(1..60) {
        let code = CODES[rng.usize(..CODES.len())];
        let off = if rng.bool() { 0 } else { rng.i16(-16..16) };
        let imm = if rng.bool() { 0 } else { rng.i32(-16..256) };
        insns.push(insn(code, rng.u8(..11), if rng.bool() { 0 } else { rng.u8(..11) }, off, imm));
        match code {
            0x18 => insns.push(Insn::default()),
            0x85 => {
                let calls = [(rng.i32(..210), 0), (0x1_0000 + rng.i32(..17), 2), (imm % 11, 1)];
                let (imm, src) = calls[rng.usize(..3)];
                insns.pop();
                insns.push(insn(code, 0, src, 0, imm));
            }
            _ => {}
        }
    }
    insns.push(insn(0x95, 0, 0, 0, 0));
    bytes(rng.u8(..4), &insns)
}

/// What a program of a type gets: a frame, or what is in it.
fn context(kind: ProgramKind) -> Context {
    let mut frame = [0; 64];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    match kind {
        ProgramKind::Xdp => {
            let mut xdp = Xdp::default();
            xdp.packet.set(&frame);
            Context::Xdp(xdp)
        }
        ProgramKind::Tc | ProgramKind::SocketFilter => {
            let mut skb = Skb { socket: kind == ProgramKind::SocketFilter, ..Skb::default() };
            skb.protocol = link_protocol(&frame[12..]).map_or(0, u32::from);
            skb.packet.set(if skb.socket { &frame[14..] } else { &frame });
            Context::Skb(Box::new(skb))
        }
        ProgramKind::Netfilter => {
            let mut nf = Netfilter::default();
            nf.packet.set(&frame[14..]);
            Context::Netfilter(Box::new(nf))
        }
    }
}

const LIMITS: Limits = Limits { steps: 10_000, memory: 1 << 20 };

/// What can be seen of a run: its result, and the packet.
type Seen = (Result<u64, Fault>, Vec<u8>);

/// Elements of a map, in their order.
type Elements = Vec<(Vec<u8>, Vec<u8>)>;

/// Runs a program twice: what can be seen, and what is in its maps then.
fn twice(machine: &mut Machine, program: u32, kind: ProgramKind) -> (Vec<Seen>, Vec<Elements>) {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut context = context(kind);
        let result = machine.run(program, &mut context, &mut Still);
        seen.push((result, context.packet().bytes().to_vec()));
    }
    let elements = |map: &Map| {
        let mut all: Elements = map.elements().map(|(k, v)| (k, v.to_vec())).collect();
        all.sort();
        all
    };
    (seen, machine.maps().iter().map(elements).collect())
}

/// Whether machine code is made for an input: that takes as long as running a hundred others.
fn compiles(data: &[u8]) -> bool {
    data.iter().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)).is_multiple_of(16)
}

/// Runs a program twice, by both engines if wanted, and takes what is in its maps.
fn both(make: impl Fn() -> Option<(Machine, u32)>, kind: ProgramKind, compiles: bool) {
    let Some((mut machine, program)) = make() else { return };
    let seen = twice(&mut machine, program, kind);
    if compiles && let Some((mut machine, program)) = make() {
        machine.compile().expect("code of what was decoded");
        assert_eq!(twice(&mut machine, program, kind), seen, "machine code");
    }
    for number in 0..machine.maps().len() as u32 {
        let Some(map) = machine.map_mut(number) else { continue };
        while map.take_record().is_some() {}
        let spec = map.spec().clone();
        let found = map.elements().inspect(|(key, value)| {
            assert_eq!((key.len() as u32, value.len() as u32), (spec.key, spec.value));
        });
        let found = found.count() as u32;
        assert!(found <= spec.entries, "{found} elements of {}", spec.entries);
        let listed = !matches!(spec.kind, MapKind::Programs | MapKind::Queue | MapKind::Stack);
        assert!(!listed || found == map.len());
    }
}

fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    if *first == OBJECT {
        let Ok(object) = Object::parse(rest) else { return };
        for (which, program) in object.programs.iter().enumerate() {
            let Some(kind) = program.kind else { continue };
            let make = || {
                let mut machine = Machine::new(LIMITS);
                let loaded = object.load(&mut machine, &[which]).ok()?;
                Some((machine, loaded.programs[which]?))
            };
            both(make, kind, compiles(data));
        }
        return;
    }
    let whole = rest.len() / Insn::LEN * Insn::LEN;
    let Some(insns) = Insn::read_all(&rest[..whole]) else { return };
    let kind = KINDS[usize::from(*first) % KINDS.len()];
    const MAPS: [(MapKind, u32, u32, u32, u32); 9] = [
        (MapKind::Array, 4, 8, 4, 0),
        (MapKind::Hash, 4, 8, 4, 0),
        (MapKind::LruHash, 4, 8, 2, 0),
        (MapKind::LongestPrefix, 8, 8, 4, 1),
        (MapKind::Ring, 0, 0, 4096, 0),
        (MapKind::Programs, 4, 4, 2, 0),
        (MapKind::Devices, 4, 4, 2, 0),
        (MapKind::Queue, 0, 8, 2, 0),
        (MapKind::Stack, 0, 8, 2, 0),
    ];
    let make = || {
        let mut machine = Machine::new(LIMITS);
        for (kind, key, value, entries, flags) in MAPS {
            let spec = MapSpec { name: String::new(), kind, key, value, entries, flags };
            machine.add_map(spec).expect("a map of a few bytes");
        }
        let hash = machine.map(1)?.spec().clone();
        for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
            let outer = MapSpec { kind, value: 4, ..hash.clone() };
            let number = machine.add_outer_map(outer, hash.clone()).expect("a map of maps");
            machine.set_map(number, &[1, 0, 0, 0], 1).expect("a map that is like the others");
        }
        let program = machine.add_program(kind, &insns).ok()?;
        machine.set_program(5, 1, program).expect("an array of two");
        Some((machine, program))
    };
    both(make, kind, compiles(data));
}
