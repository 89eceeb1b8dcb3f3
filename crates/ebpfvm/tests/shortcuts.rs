// SPDX-License-Identifier: Apache-2.0

//! Where machine code does without a call or a comparison, it does what the interpreter does: fields
//! of contexts, bytes of packets that a program compared with the end, values that lookups found.

#![cfg(feature = "cranelift")]

#[path = "kernel/instruction.rs"]
mod instruction;

use instruction::insn;
use penstock_ebpfvm::insn::Insn;
use penstock_ebpfvm::map::{MapKind, MapSpec};
use penstock_ebpfvm::{Context, Fault, Machine, ProgramKind, Skb, Still, Xdp};

const EXIT: Insn = Insn { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 };
/// Sizes of accesses: a part of the code, and bytes.
const SIZES: [(u8, i16); 4] = [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)];

/// A context in which each field has another value.
fn context(kind: ProgramKind, frame: &[u8]) -> Context {
    if kind == ProgramKind::Xdp {
        let mut xdp = Xdp { ingress: 0x8111_1111, queue: 0x8222_2222, ..Xdp::default() };
        xdp.packet.set(frame);
        return Context::Xdp(xdp);
    }
    let word = |number: u32| 0x8000_0000 | (number * 0x0101_0101);
    let mut skb = Skb {
        socket: kind == ProgramKind::SocketFilter,
        packet_type: word(1),
        mark: word(2),
        queue_mapping: word(3),
        protocol: word(4),
        vlan: Some((0x8123, 0x88a8)),
        priority: word(5),
        ingress_ifindex: word(6),
        ifindex: word(7),
        tc_index: word(8),
        cb: std::array::from_fn(|at| 0x90 + at as u8),
        hash: word(9),
        tc_classid: word(10),
        napi_id: word(11),
        tstamp: 0x8877_6655_4433_2211,
        wire_len: word(12),
        gso_segs: word(13),
        gso_size: word(14),
        hwtstamp: 0x9988_7766_5544_3322,
        ..Skb::default()
    };
    skb.packet.set(frame);
    Context::Skb(Box::new(skb))
}

/// A machine with an array and a hash, each with one value of 8 bytes for key 1.
fn machine(kind: ProgramKind, insns: &[Insn]) -> (Machine, u32) {
    let mut machine = Machine::default();
    for kind in [MapKind::Array, MapKind::Hash] {
        let spec = MapSpec { name: "map".into(), kind, key: 4, value: 8, entries: 2, flags: 0 };
        let number = machine.add_map(spec).unwrap();
        let value = 0x8182_8384_8586_8788_u64.to_le_bytes();
        machine.map_mut(number).unwrap().set(&[1, 0, 0, 0], &value, 0).unwrap();
    }
    let program = machine.add_program(kind, insns).unwrap();
    (machine, program)
}

/// What a program does, by the interpreter; machine code does the same.
fn run(kind: ProgramKind, insns: &[Insn], frame: &[u8], what: &str) -> Result<u64, Fault> {
    let [expected, result] = [false, true].map(|compiled| {
        let (mut machine, program) = machine(kind, insns);
        if compiled {
            machine.compile().unwrap();
        }
        let mut context = context(kind, frame);
        let result = machine.run(program, &mut context, &mut Still);
        let maps: Vec<Vec<_>> = machine.maps().iter().map(|m| m.elements().collect()).collect();
        (result, format!("{context:?} {:02x?} {maps:x?}", context.packet().bytes()))
    });
    assert_eq!(result, expected, "{kind:?} {what}");
    result.0
}

#[test]
fn fields_of_contexts_are_read_and_written_as_by_the_interpreter() {
    for kind in [ProgramKind::Xdp, ProgramKind::Tc, ProgramKind::SocketFilter] {
        let mut allowed = 0;
        for at in (-4..200).step_by(4).chain([2, 50, 78, 154]) {
            for (code, size) in SIZES {
                let accesses = [
                    vec![insn(0x61 & !0x18 | code, 0, 1, at, 0)],
                    vec![insn(0x81 & !0x18 | code, 0, 1, at, 0)],
                    vec![insn(0x62 & !0x18 | code, 1, 0, at, -2), insn(0xb7, 0, 0, 0, 0)],
                ];
                for access in accesses.iter().filter(|a| size < 8 || a[0].code & 0x80 == 0) {
                    let insns = [&access[..], &[EXIT]].concat();
                    let what = format!("offset {at}: {access:x?}");
                    allowed += u32::from(run(kind, &insns, &[7; 60], &what).is_ok());
                }
            }
        }
        assert!(allowed >= 10, "{kind:?}: {allowed} accesses are allowed");
    }
}

/// Code of a jump that compares two registers, by the condition.
const CONDITIONS: [u8; 11] = [0x1d, 0x2d, 0x3d, 0x4d, 0x5d, 0x6d, 0x7d, 0xad, 0xbd, 0xcd, 0xdd];

#[test]
fn comparisons_with_the_end_of_the_packet_allow_what_is_there() {
    let frame: Vec<u8> = (0..24).collect();
    let (mut good, mut bad) = (0, 0);
    for (condition, swapped, taken) in CONDITIONS.iter().flat_map(|condition| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(a, b)| (condition, a, b))
    }) {
        for (len, claimed) in [(20, 19), (20, 20), (20, 21), (20, -1), (22, 20), (19, 20)] {
            for off in [-5, -4, -3].map(|before| claimed as i16 + before) {
                let (dst, src) = if swapped { (3, 4) } else { (4, 3) };
                let load = insn(0x61, 0, 2, off, 0);
                let none = insn(0xb7, 0, 0, 0, 1);
                let (first, second) = if taken { (none, load) } else { (load, none) };
                let insns = [
                    insn(0x61, 2, 1, 0, 0),
                    insn(0x61, 3, 1, 4, 0),
                    insn(0xbf, 4, 2, 0, 0),
                    insn(0x07, 4, 0, 0, claimed),
                    insn(*condition, dst, src, 2, 0),
                    first,
                    EXIT,
                    second,
                    EXIT,
                ];
                let what = format!("{len} bytes, {claimed} claimed: {insns:x?}");
                match run(ProgramKind::Xdp, &insns, &frame[..len], &what) {
                    Ok(_) => good += 1,
                    Err(_) => bad += 1,
                }
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} programs are sound, {bad} are not");
}

#[test]
fn comparison_with_the_end_says_nothing_after_the_packet_became_shorter() {
    for (by, off) in [(-8, 32), (-8, 28), (-8, 29), (-2, 34), (0, 36), (4, 36)] {
        let insns = [
            insn(0xbf, 9, 1, 0, 0),
            insn(0x61, 6, 1, 0, 0),
            insn(0x61, 3, 1, 4, 0),
            insn(0xbf, 4, 6, 0, 0),
            insn(0x07, 4, 0, 0, 40),
            insn(0x2d, 4, 3, 4, 0),
            insn(0xb7, 2, 0, 0, by),
            insn(0x85, 0, 0, 0, 65),
            insn(0x61, 0, 6, off, 0),
            EXIT,
            insn(0xb7, 0, 0, 0, 1),
            EXIT,
        ];
        let result = run(ProgramKind::Xdp, &insns, &[9; 40], &format!("by {by} at {off}"));
        assert_eq!(result.is_ok(), i32::from(off) + 4 <= 40 + by.min(0), "by {by} at {off}");
    }
}

#[test]
fn found_values_are_reached_to_their_end() {
    for (map, key, jump, off) in [0, 1].into_iter().flat_map(|map| {
        let jumps = [0, 1, 5].into_iter().flat_map(move |key| {
            // Equal to 0, not equal to 0, equal to 1, and no jump.
            [(0x15, 0), (0x55, 0), (0x15, 1), (0x05, 0)].map(move |jump| (map, key, jump))
        });
        jumps.flat_map(|(map, key, jump)| {
            [-8, -1, 0, 4, 5, 7, 8, 16].map(|off| (map, key, jump, off))
        })
    }) {
        let (code, number) = jump;
        let access = [insn(0x62, 0, 0, off, 77), insn(0x61, 0, 0, off, 0), EXIT];
        let none = [insn(0xb7, 0, 0, 0, 1), EXIT];
        let lookup = [
            insn(0x62, 10, 0, -4, key),
            insn(0xbf, 2, 10, 0, 0),
            insn(0x07, 2, 0, 0, -4),
            insn(0x18, 1, 1, 0, map),
            Insn::default(),
            insn(0x85, 0, 0, 0, 1),
        ];
        let insns = match code {
            0x05 => [&lookup[..], &access].concat(),
            0x55 => [&lookup[..], &[insn(code, 0, 0, 2, number)], &none, &access].concat(),
            _ => [&lookup[..], &[insn(code, 0, 0, 3, number)], &access, &none].concat(),
        };
        let what = format!("map {map} key {key} jump {code:x} {number} offset {off}");
        let result = run(ProgramKind::Xdp, &insns, &[0; 20], &what);
        if code != 0x05 && number == 0 && key == 1 && (0..=4).contains(&off) {
            assert_eq!(result, Ok(77), "{what}");
        }
    }
}

/// The program makes the address of its own first instruction from that of another function, and
/// hands it to `bpf_loop()`.
#[test]
fn program_that_calls_its_own_beginning_has_the_arguments_there() {
    let insns = [
        // R1 is the context at first, and the number of the round in the callback.
        insn(0x18, 7, 0, 0, 0),
        insn(0, 0, 0, 0, 0x11),
        insn(0x1d, 1, 7, 4, 0),
        insn(0x7b, 10, 1, -8, 0),
        insn(0x79, 0, 10, -8, 0),
        insn(0x07, 0, 0, 0, 1),
        EXIT,
        insn(0x7a, 10, 0, -8, 5),
        insn(0xb7, 1, 0, 0, 3),
        insn(0x18, 2, 4, 0, 7),
        Insn::default(),
        insn(0x07, 2, 0, 0, -17),
        insn(0xb7, 3, 0, 0, 0),
        insn(0xb7, 4, 0, 0, 0),
        insn(0x85, 0, 0, 0, 181),
        insn(0x79, 1, 10, -8, 0),
        insn(0x0f, 0, 1, 0, 0),
        // The other function.
        EXIT,
    ];
    assert_eq!(run(ProgramKind::Xdp, &insns, &[7; 60], "loop"), Ok(6));
}
