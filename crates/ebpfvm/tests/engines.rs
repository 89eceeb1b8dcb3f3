// SPDX-License-Identifier: Apache-2.0

//! The interpreter and machine code: the same results, faults, packets and maps.

#![cfg(feature = "cranelift")]

#[path = "kernel/compile.rs"]
mod compile;
#[path = "kernel/frames.rs"]
mod frames;
#[path = "kernel/generate.rs"]
mod generate;
#[path = "kernel/instruction.rs"]
mod instruction;
#[path = "kernel/world.rs"]
mod world;

use compile::{OBJECTS, compile};
use fastrand::Rng;
use frames::{context, frames};
use instruction::insn;
use penstock_ebpfvm::context::Device;
use penstock_ebpfvm::helper::Helper;
use penstock_ebpfvm::insn::Insn;
use penstock_ebpfvm::map::{MapKind, MapSpec};
use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Context, Limits, Machine, Netfilter, ProgramKind};
use world::World;

/// A frame for a program of any type.
fn given(kind: ProgramKind, frame: &[u8]) -> Context {
    if kind != ProgramKind::Netfilter {
        return context(kind, frame);
    }
    let device = Device { name: [0; 16], index: 3, mtu: 1500, hardware: 1 };
    let mut nf =
        Netfilter { hook: 2, family: 2, input: Some(device), mark: 9, ..Netfilter::default() };
    nf.packet.set(frame.get(14..).unwrap_or(&[]));
    Context::Netfilter(Box::new(nf))
}

/// All that can be seen after a run.
fn seen(machine: &Machine, context: &Context) -> String {
    let mut text =
        format!("{:02x?} {:02x?}", context.packet().metadata(), context.packet().bytes());
    match context {
        Context::Xdp(xdp) => text += &format!(" {:?}", xdp.redirect),
        Context::Skb(skb) => {
            text += &format!(
                " {:?} {} {} {:?} {} {} {:?} {} {} {}",
                skb.redirect,
                skb.mark,
                skb.queue_mapping,
                skb.vlan,
                skb.priority,
                skb.tc_index,
                skb.cb,
                skb.hash,
                skb.protocol,
                skb.tstamp
            );
        }
        Context::Netfilter(_) => {}
    }
    for map in machine.maps() {
        let mut elements: Vec<_> = map.elements().collect();
        elements.sort();
        text += &format!("\n{}: {elements:02x?}", map.spec().name);
    }
    text
}

/// Runs a program on frames by both engines.
fn compare(
    [interpreted, compiled]: [&mut Machine; 2],
    program: u32,
    kind: ProgramKind,
    frames: &[Vec<u8>],
    what: &dyn Fn() -> String,
) {
    if let Err(error) = compiled.compile() {
        panic!("{}: {error}", what());
    }
    let mut worlds = [World::default(), World::default()];
    for frame in frames {
        let mut contexts = [given(kind, frame), given(kind, frame)];
        let [first, second] = &mut contexts;
        let [one, other] = &mut worlds;
        let expected = interpreted.run(program, first, one);
        let result = compiled.run(program, second, other);
        assert_eq!(result, expected, "{} frame {frame:02x?}", what());
        let (expected, result) = (seen(interpreted, first), seen(compiled, second));
        assert_eq!(result, expected, "{} frame {frame:02x?}", what());
        assert_eq!(one.lines, other.lines, "{}", what());
    }
    assert!(compiled.is_compiled());
}

/// How many maps a machine has.
const MAPS: i32 = 13;

/// A machine with a map of each kind but filters, whose secrets differ; the first takes the registers of generated programs.
fn machine() -> Machine {
    let mut machine = Machine::new(Limits { steps: 10_000, memory: 1 << 20 });
    let maps = [
        (MapKind::Array, 4, generate::VALUE, 1, 0),
        (MapKind::Array, 4, 8, 4, 0),
        (MapKind::Hash, 4, 8, 4, 0),
        (MapKind::LruHash, 4, 8, 2, 0),
        (MapKind::LongestPrefix, 8, 8, 4, 1),
        (MapKind::Ring, 0, 0, 4096, 0),
        (MapKind::Programs, 4, 4, 2, 0),
        (MapKind::Devices, 4, 4, 2, 0),
        (MapKind::Array, 4, 16, 2, 1 << 7),
        (MapKind::Queue, 0, 8, 2, 0),
        (MapKind::Stack, 0, 8, 2, 0),
    ];
    for (number, (kind, key, value, entries, flags)) in maps.into_iter().enumerate() {
        let name = format!("map {number}");
        machine.add_map(MapSpec { name, kind, key, value, entries, flags }).unwrap();
    }
    let hash = machine.map(2).unwrap().spec().clone();
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        let outer = MapSpec { name: "outer".into(), kind, value: 4, ..hash.clone() };
        let number = machine.add_outer_map(outer, hash.clone()).unwrap();
        machine.set_map(number, &1_u32.to_le_bytes(), 2).unwrap();
    }
    for number in [1, 2, 7] {
        let map = machine.map_mut(number).unwrap();
        for key in 0_u32..2 {
            let value = u64::from(key + 5).to_le_bytes();
            let len = map.spec().value as usize;
            map.set(&key.to_le_bytes(), &value[..len], 0).unwrap();
        }
    }
    machine
}

const KINDS: [ProgramKind; 4] =
    [ProgramKind::Xdp, ProgramKind::Tc, ProgramKind::SocketFilter, ProgramKind::Netfilter];

/// Runs a program by both engines, unless the decoder refuses it.
fn both(insns: &[Insn], kind: ProgramKind, rng: &mut Rng, what: &dyn Fn() -> String) -> bool {
    let [mut first, mut second] = [machine(), machine()];
    let mut number = 0;
    for machine in [&mut first, &mut second] {
        let Ok(program) = machine.add_program(kind, insns) else { return false };
        machine.set_program(6, 1, program).unwrap();
        number = program;
    }
    let frames: Vec<Vec<u8>> = [rng.usize(64..200), rng.usize(14..70), 64]
        .map(|len| {
            let mut frame: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            if let Some(protocol) = frame.get_mut(12..14) {
                protocol.copy_from_slice(&[8, 0]);
            }
            frame.resize(frame.len().max(14), 0);
            frame
        })
        .to_vec();
    compare([&mut first, &mut second], number, kind, &frames, what);
    true
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs rounds of a test, each with its own random numbers.
fn rounds(default: u64, mut round: impl FnMut(u64, &mut Rng)) {
    let first = setting("PENSTOCK_SEED").unwrap_or(1);
    for seed in first..first + setting("PENSTOCK_ROUNDS").unwrap_or(default) {
        round(seed, &mut Rng::with_seed(seed));
    }
}

#[test]
fn sound_random_programs_do_the_same() {
    rounds(100, |seed, rng| {
        let kind = KINDS[rng.usize(..3)];
        let insns = generate::program(rng, kind);
        both(&insns, kind, rng, &|| format!("seed {seed} {kind:?} {insns:x?}"));
    });
}

/// Programs that are sound but for a few instructions: they go wrong somewhere.
#[test]
fn damaged_random_programs_do_the_same() {
    rounds(200, |seed, rng| {
        let kind = KINDS[rng.usize(..3)];
        let mut insns = generate::program(rng, kind);
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..insns.len());
            let insn = &mut insns[at];
            match rng.u8(..6) {
                0 => insn.dst = rng.u8(..11),
                1 => insn.src = rng.u8(..11),
                2 => insn.off = rng.i16(-600..600),
                3 => insn.off = rng.i16(-20..20),
                4 => insn.imm = rng.i32(-600..600),
                _ => insn.code ^= 1 << rng.u8(..8),
            }
        }
        both(&insns, kind, rng, &|| format!("seed {seed} {kind:?} {insns:x?}"));
    });
}

/// Instructions by chance: loops, calls, callbacks, tail calls, helpers with any arguments.
fn by_chance(rng: &mut Rng, kind: ProgramKind) -> Vec<Insn> {
    const CODES: [u8; 44] = [
        0x07, 0x0f, 0x04, 0x17, 0x2f, 0x3f, 0x37, 0x57, 0x67, 0x77, 0x97, 0xa7, 0xb7, 0xb7, 0xbf,
        0xbf, 0xd4, 0xdc, 0x61, 0x69, 0x71, 0x79, 0x79, 0x62, 0x63, 0x7b, 0x7a, 0x73, 0xdb, 0xc3,
        0x05, 0x15, 0x1d, 0x2d, 0x55, 0xa5, 0x85, 0x85, 0x18, 0x18, 0x20, 0x40, 0x95, 0xbf,
    ];
    const ATOMICS: [i32; 10] = [0, 0x40, 0x50, 0xa0, 1, 0x41, 0x51, 0xa1, 0xe1, 0xf1];
    let mut insns = vec![
        insn(0xbf, 6, 1, 0, 0),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, -8),
        insn(0x7a, 10, 0, -8, rng.i32(0..3)),
    ];
    let len = rng.usize(1..60);
    while insns.len() < len {
        let at = insns.len() as i16;
        let code = CODES[rng.usize(..CODES.len())];
        let place = if rng.bool() { 0 } else { rng.i16(-16..16) };
        let number = if rng.bool() { 0 } else { rng.i32(-16..256) };
        let (dst, src) = (rng.u8(..10), if rng.bool() { 0 } else { rng.u8(..11) });
        // Back seldom, since that is an endless loop mostly.
        let to = if rng.u8(..4) == 0 { rng.i16(0..=at) } else { rng.i16(at..=len as i16) };
        match code {
            0x18 => {
                let (dst, src) = (rng.u8(..6), rng.u8(..5));
                let imm = match src {
                    1 | 2 => rng.i32(0..MAPS),
                    4 => i32::from(to - at - 1),
                    _ => number,
                };
                insns.push(insn(code, dst, src, 0, imm));
                insns.push(Insn::default());
            }
            0x85 => {
                const HELPERS: [i32; 17] =
                    [1, 1, 1, 1, 2, 3, 12, 164, 181, 44, 51, 26, 28, 69, 87, 88, 89];
                let number = match rng.u8(..4) {
                    0 => HELPERS[rng.usize(..HELPERS.len())],
                    1 => rng.i32(..210),
                    2 => 0x1_0000 + rng.i32(..17),
                    _ => {
                        insns.push(insn(code, 0, 1, 0, i32::from(to - at - 1)));
                        continue;
                    }
                };
                let helper = Helper::of_number(number).filter(|helper| helper.is_for(kind));
                if let Some(helper) = helper {
                    let src = if helper.is_kfunc() { 2 } else { 0 };
                    insns.push(insn(code, 0, src, 0, number));
                }
            }
            0x95 => insns.push(insn(code, 0, 0, 0, 0)),
            0x05 => insns.push(insn(code, 0, 0, to - at - 1, 0)),
            0xd4 | 0xdc => insns.push(insn(code, dst, 0, 0, [16, 32, 64][rng.usize(..3)])),
            0xdb | 0xc3 => {
                insns.push(insn(code, dst, src.min(9), place, ATOMICS[rng.usize(..10)]));
            }
            0x20 => insns.push(insn(code, 0, 0, 0, number)),
            0x40 => insns.push(insn(code, 0, src, 0, number)),
            _ => insns.push(match code & 7 {
                1 | 3 => insn(code, dst, src, place, 0),
                2 => insn(code, dst, 0, place, number),
                5 if code & 8 != 0 => insn(code, dst, src, to - at - 1, 0),
                5 => insn(code, dst, 0, to - at - 1, number),
                _ if code & 8 != 0 => insn(code, dst, src, 0, 0),
                _ => insn(code, dst, 0, 0, if matches!(code, 0x67 | 0x77) { 9 } else { number }),
            }),
        }
    }
    insns.push(insn(0x95, 0, 0, 0, 0));
    insns
}

#[test]
fn instructions_by_chance_do_the_same() {
    rounds(100, |seed, rng| {
        let sound = (0..200).any(|_| {
            let kind = KINDS[rng.usize(..4)];
            let insns = by_chance(rng, kind);
            both(&insns, kind, rng, &|| format!("seed {seed} {kind:?} {insns:x?}"))
        });
        assert!(sound, "seed {seed}: the decoder takes none");
    });
}

#[test]
fn objects_do_the_same() {
    let objects = [
        "xdp_parse",
        "xdp_adjust",
        "maps",
        "tc_rewrite",
        "socket",
        "tail",
        "functions",
        "rings",
        "netfilter",
        "missing",
        "nf_maps",
        "nf_packet",
        "enums",
    ];
    for name in objects.iter().chain(OBJECTS) {
        let Some(bytes) = compile(name) else { return };
        let object = Object::parse(&bytes).unwrap();
        for (which, program) in object.programs.iter().enumerate() {
            let [mut first, mut second] = [Machine::default(), Machine::default()];
            let loaded = object.load(&mut first, &[which]).unwrap();
            object.load(&mut second, &[which]).unwrap();
            let (Some(number), Some(kind)) = (loaded.programs[which], program.kind) else {
                continue;
            };
            let frames = frames(&mut Rng::with_seed(7));
            let what = || format!("{name} {}", program.name);
            compare([&mut first, &mut second], number, kind, &frames, &what);
        }
    }
}

/// Changes bytes of an object here and there: headers, tables, types, instructions.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..8) {
        // Of the last instruction only the whole is one.
        let at = rng.usize(..bytes.len() / 8 * 8);
        match rng.u8(..8) {
            0 => bytes[at] ^= 1 << rng.u8(..8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            2 => bytes[at] = rng.u8(..),
            // An instruction: its operation, registers, offset or constant.
            3 => bytes[at & !7] = rng.u8(..),
            4 => bytes[at & !7 | 1] = rng.u8(..11) | rng.u8(..11) << 4,
            5 => bytes[at & !7 | 2] = rng.u8(..),
            6 => {
                let (from, len) = (rng.usize(..bytes.len()), rng.usize(1..17));
                let part = bytes[from..bytes.len().min(from + len)].to_vec();
                for (place, byte) in bytes[at..].iter_mut().zip(part) {
                    *place = byte;
                }
            }
            _ if rng.u8(..16) == 0 => bytes.truncate(at.max(8)),
            _ => {}
        }
    }
}

/// Objects that were broken: refused, or both engines do the same. One in `PENSTOCK_COMPILED` of
/// those that load (1) becomes machine code, which takes longer than all else.
#[test]
fn hostile_objects_do_the_same() {
    const OBJECTS: [&[u8]; 3] = [
        include_bytes!("../../../tests/fuzz/corpus/bpf/object-netfilter"),
        include_bytes!("../../../tests/fuzz/corpus/bpf/object-tail"),
        include_bytes!("../../../tests/fuzz/corpus/bpf/object-xdp_parse"),
    ];
    const LIMITS: Limits = Limits { steps: 10_000, memory: 1 << 20 };
    let compiled = setting("PENSTOCK_COMPILED").unwrap_or(1).max(1);
    let (mut loads, mut faults) = (0_u64, 0_u64);
    rounds(300, |seed, rng| {
        // The first byte is the fuzzer's.
        let mut bytes = OBJECTS[rng.usize(..3)][1..].to_vec();
        damage(rng, &mut bytes);
        let Ok(object) = Object::parse(&bytes) else { return };
        for (which, program) in object.programs.iter().enumerate() {
            let Some(kind) = program.kind else { continue };
            let [mut first, mut second] = [Machine::new(LIMITS), Machine::new(LIMITS)];
            let Ok(loaded) = object.load(&mut first, &[which]) else { continue };
            let Some(number) = loaded.programs[which] else { continue };
            loads += 1;
            let mut frame = vec![rng.u8(..); rng.usize(15..120)];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            if loads.is_multiple_of(compiled) {
                object.load(&mut second, &[which]).unwrap();
                let what = || format!("seed {seed} {}", program.name);
                compare([&mut first, &mut second], number, kind, &[frame], &what);
            } else {
                let mut context = given(kind, &frame);
                let result = first.run(number, &mut context, &mut World::default());
                faults += u64::from(result.is_err());
            }
        }
    });
    println!("{loads} programs loaded, {faults} of those run by the interpreter alone went wrong");
}

/// Where `LD_ABS` ends a function that a helper has called, the helper continues.
#[test]
fn packet_that_is_too_short_ends_a_callback_and_nothing_else() {
    let insns = [
        insn(0xbf, 6, 1, 0, 0),
        insn(0xb7, 1, 0, 0, 3),
        insn(0x18, 2, 4, 0, 5),
        insn(0, 0, 0, 0, 0),
        insn(0xb7, 3, 0, 0, 0),
        insn(0xb7, 4, 0, 0, 0),
        insn(0x85, 0, 0, 0, 181),
        insn(0x95, 0, 0, 0, 0),
        // The callback: r6 = its context is not needed; beyond the end of the packet.
        insn(0x20, 0, 0, 0, 500),
        insn(0xb7, 0, 0, 0, 1),
        insn(0x95, 0, 0, 0, 0),
    ];
    let kind = ProgramKind::Tc;
    for compiled in [false, true] {
        let mut machine = Machine::default();
        let program = machine.add_program(kind, &insns).unwrap();
        if compiled {
            machine.compile().unwrap();
        }
        let result = machine.run(program, &mut given(kind, &[0; 64]), &mut World::default());
        assert_eq!(result, Ok(3), "three rounds");
    }
}

/// Values by their address in the program: at their beginnings and ends, of maps that have none, too.
#[test]
fn constant_addresses_of_values_do_the_same() {
    let mut rng = Rng::with_seed(1);
    for map in 0..MAPS as u32 {
        let spec = machine().map(map).unwrap().spec().clone();
        let end = spec.entries as i32 * spec.value.next_multiple_of(8) as i32;
        for at in [0, -1, end - 8, end - 1, end] {
            for code in [0x71, 0x69, 0x61, 0x79, 0x72, 0x6a, 0x62, 0x7a] {
                for off in [0, 8] {
                    let insns = [
                        insn(0xb7, 0, 0, 0, 0),
                        insn(0x18, 1, 2, 0, map as i32),
                        insn(0, 0, 0, 0, at),
                        insn(
                            code,
                            if code & 7 == 1 { 0 } else { 1 },
                            u8::from(code & 7 == 1),
                            off,
                            0,
                        ),
                        insn(0x95, 0, 0, 0, 0),
                    ];
                    let what = || format!("map {map} at {at} and {off}, {code:#x}");
                    assert!(both(&insns, ProgramKind::Xdp, &mut rng, &what));
                }
            }
        }
    }
}

/// A number is no address of a function, even if it has the form of one.
#[test]
fn numbers_that_look_like_functions_do_the_same() {
    let mut rng = Rng::with_seed(1);
    // No instruction, the second half of one, one of this program, one of the other.
    for low in [-1, 0x7fff_ffff, 7, 1, 2, 4, 6] {
        let insns = [
            insn(0x18, 2, 0, 0, low),
            // The region of functions (`space::CODE`).
            insn(0, 0, 0, 0, 0x14),
            insn(0xb7, 1, 0, 0, 2),
            insn(0xb7, 3, 0, 0, 0),
            insn(0xb7, 4, 0, 0, 0),
            insn(0x85, 0, 0, 0, 181),
            insn(0x95, 0, 0, 0, 0),
        ];
        let [mut first, mut second] = [machine(), machine()];
        let kinds = [ProgramKind::Tc, ProgramKind::Xdp];
        let numbers = kinds.map(|kind| {
            let number = first.add_program(kind, &insns).unwrap();
            assert_eq!(second.add_program(kind, &insns), Ok(number));
            number
        });
        for (number, kind) in numbers.into_iter().zip(kinds) {
            let frame = vec![rng.u8(..); 64];
            let what = || format!("{kind:?} {low:#x}");
            compare([&mut first, &mut second], number, kind, &[frame], &what);
        }
    }
}

/// Another map in the place of one that code was made for: the interpreter runs.
#[test]
fn code_does_not_reach_maps_that_are_gone() {
    let kind = ProgramKind::Xdp;
    let insns = generate::program(&mut Rng::with_seed(3), kind);
    let [mut first, mut second] = [machine(), machine()];
    let program = first.add_program(kind, &insns).unwrap();
    first.compile().unwrap();
    std::mem::swap(first.map_mut(0).unwrap(), second.map_mut(0).unwrap());
    drop(second);
    let mut context = given(kind, &[0; 64]);
    first.run(program, &mut context, &mut World::default()).unwrap();
    assert!(!first.is_compiled());
    assert!(first.map_mut(0).unwrap().elements().any(|(_, value)| value.iter().any(|b| *b != 0)));
}
