// SPDX-License-Identifier: Apache-2.0

//! Random programs on random frames: results, packets, registers, memory.

use fastrand::Rng;
use penstock_ebpfvm::map::{MapKind, MapSpec};
use penstock_ebpfvm::{Machine, ProgramKind, Still};

use crate::frames::context;
use crate::generate;
use crate::sys::{Map, Program, may_load};

fn value_map() -> MapSpec {
    MapSpec {
        name: "registers".into(),
        kind: MapKind::Array,
        key: 4,
        value: generate::VALUE,
        entries: 1,
        flags: 0,
    }
}

/// `BPF_PROG_TYPE_*`.
pub fn number(kind: ProgramKind) -> u32 {
    match kind {
        ProgramKind::SocketFilter => 1,
        ProgramKind::Tc => 3,
        ProgramKind::Xdp => 6,
        ProgramKind::Netfilter => 32,
    }
}

fn compare(kind: ProgramKind, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let insns = generate::program(&mut rng, kind);
    let mut frame: Vec<u8> = (0..rng.usize(80..200)).map(|_| rng.u8(..)).collect();
    // IPv4, which has no meaning for any of these programs.
    frame[12..14].copy_from_slice(&[8, 0]);
    let spec = value_map();
    let kernel_maps = [Map::new(&spec).unwrap()];
    let program = match Program::load(number(kind), &insns, &kernel_maps) {
        Ok(program) => program,
        Err((error, log)) => panic!("seed {seed}: {error}\n{log}\n{insns:x?}"),
    };
    let theirs = program.run(&frame, &[]).unwrap();

    let mut machine = Machine::default();
    machine.add_map(spec).unwrap();
    let number = machine.add_program(kind, &insns).unwrap();
    let mut context = context(kind, &frame);
    let ours = machine.run(number, &mut context, &mut Still);
    let ours = ours.unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{insns:x?}"));
    assert_eq!(ours as u32, theirs.result, "result, seed {seed} {kind:?}");
    let value = machine.maps()[0].elements().next().unwrap().1.to_vec();
    let expected = kernel_maps[0].elements()[0].1.clone();
    let words = |v: &[u8]| {
        v.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(
        words(&value),
        words(&expected),
        "memory, then r9, r8, r5 to r0: seed {seed} {kind:?}"
    );
    // A filter of sockets sees no link header; what comes back has zeros there.
    let from = if kind == ProgramKind::SocketFilter { 14 } else { 0 };
    let ours = context.packet().bytes();
    assert_eq!(ours, &theirs.frame[from..], "frame, seed {seed} {kind:?}");
}

fn run(kind: ProgramKind) {
    if !may_load() {
        return;
    }
    let setting = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let rounds = setting("PENSTOCK_ROUNDS").unwrap_or(300);
    let first: u64 = setting("PENSTOCK_SEED").unwrap_or(1);
    for seed in first..first + rounds {
        compare(kind, seed);
    }
}

#[test]
fn random_xdp_programs_do_what_they_do_in_the_kernel() {
    run(ProgramKind::Xdp);
}

#[test]
fn random_tc_programs_do_what_they_do_in_the_kernel() {
    run(ProgramKind::Tc);
}

#[test]
fn random_socket_filters_do_what_they_do_in_the_kernel() {
    run(ProgramKind::SocketFilter);
}
