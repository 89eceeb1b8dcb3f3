// SPDX-License-Identifier: Apache-2.0

//! Programs in C, compiled by clang, on frames of many kinds: here and in the kernel the same
//! results, frames and maps, by the interpreter and by machine code. What a program does to its maps stays for the next frame.

use fastrand::Rng;
use penstock_ebpfvm::insn::Insn;
use penstock_ebpfvm::map::{MapKind, MapSpec};
use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Context, Machine, ProgramKind, Still};

use crate::compile::compile;
use crate::frames::{context, frames};
use crate::random::number;
use crate::sys::{Map, Program, may_load};

/// The kernel's side of an object: its maps with what they have at the beginning.
fn kernel_maps(object: &Object) -> Vec<Map> {
    let spec = |spec: &Result<MapSpec, String>| spec.clone().unwrap();
    let maps: Vec<Map> =
        object.maps.iter().map(|map| Map::new(&spec(&map.spec)).unwrap()).collect();
    for (map, of) in maps.iter().zip(&object.maps) {
        if let Some(contents) = &of.contents {
            map.set(&[0; 4], contents, 0).unwrap();
        }
    }
    maps
}

/// Instructions for the kernel, where arrays of programs get theirs.
fn kernel_program(object: &Object, which: usize, maps: &[Map]) -> Program {
    let load = |number: usize| {
        let program = &object.programs[number];
        let insns: &Vec<Insn> = program.insns.as_ref().unwrap();
        match Program::load(self::number(program.kind.unwrap()), insns, maps) {
            Ok(program) => program,
            Err((error, log)) => panic!("{}: {error}\n{log}", program.name),
        }
    };
    for (map, of) in maps.iter().zip(&object.maps) {
        for (place, program) in &of.programs {
            map.set(&place.to_le_bytes(), &load(*program).number(), 0).unwrap();
        }
    }
    load(which)
}

/// Runs each program of an object on frames, both ways.
fn compare(name: &str) {
    if !may_load() {
        return;
    }
    let Some(bytes) = compile(name) else { return };
    let object = Object::parse(&bytes).unwrap();
    assert!(!object.programs.is_empty(), "{name} has no program");
    for compiled in [false, true] {
        compare_by(name, &object, compiled);
    }
}

/// Runs each program of an object on frames, by one engine and in the kernel.
fn compare_by(name: &str, object: &Object, compiled: bool) {
    for (which, program) in object.programs.iter().enumerate() {
        let at = format!("{name} {}, machine code: {compiled}", program.name);
        let kind = program.kind.unwrap();
        let maps = kernel_maps(object);
        let theirs = kernel_program(object, which, &maps);
        let mut machine = Machine::default();
        let loaded = object.load(&mut machine, &[which]).unwrap();
        if compiled && let Err(error) = machine.compile() {
            println!("{name}: no machine code: {error}");
            return;
        }
        let ours = loaded.programs[which].unwrap();
        for (count, frame) in frames(&mut Rng::with_seed(7)).iter().enumerate() {
            let at = format!("{at}, frame {count}: {frame:02x?}");
            let expected = match theirs.run(frame, &[]) {
                Ok(expected) => expected,
                // Less than a header of IP, for what runs behind that of Ethernet.
                Err(error) => panic!("{at}: {error}"),
            };
            let mut context = context(kind, frame);
            let result = machine.run(ours, &mut context, &mut Still);
            let result = result.unwrap_or_else(|fault| panic!("{at}: {fault}"));
            assert_eq!(result as u32, expected.result, "result of {at}");
            let from = if kind == ProgramKind::SocketFilter { 14 } else { 0 };
            assert_eq!(frame_of(&context), &expected.frame[from..], "frame of {at}");
            for (number, map) in maps.iter().enumerate() {
                let Some(ours) = loaded.maps[number] else { continue };
                same_elements(machine.map(ours).unwrap(), map, &at);
            }
        }
    }
}

/// The frame as the kernel gives it back: with metadata.
fn frame_of(context: &Context) -> Vec<u8> {
    [context.packet().metadata(), context.packet().bytes()].concat()
}

fn same_elements(ours: &penstock_ebpfvm::map::Map, theirs: &Map, at: &str) {
    if matches!(ours.spec().kind, MapKind::Programs | MapKind::Ring) {
        return;
    }
    let mut elements: Vec<_> = ours.elements().map(|(k, v)| (k, v.to_vec())).collect();
    elements.sort();
    let expected = theirs.elements();
    let only = |these: &[(Vec<u8>, Vec<u8>)], those: &[(Vec<u8>, Vec<u8>)]| {
        these.iter().filter(|element| !those.contains(element)).cloned().collect::<Vec<_>>()
    };
    let (here, there) = (only(&elements, &expected), only(&expected, &elements));
    assert_eq!(here, there, "elements of map {} only here, only there, {at}", ours.spec().name);
}

#[test]
fn parser_with_counters_agrees() {
    compare("xdp_parse");
}

#[test]
fn moved_boundaries_of_frames_agree() {
    compare("xdp_adjust");
}

#[test]
fn operations_on_maps_agree() {
    compare("maps");
}

#[test]
fn rewritten_packets_of_traffic_control_agree() {
    compare("tc_rewrite");
}

#[test]
fn filters_of_sockets_agree() {
    compare("socket");
}

#[test]
fn programs_that_continue_each_other_agree() {
    compare("tail");
}

#[test]
fn functions_agree() {
    compare("functions");
}
