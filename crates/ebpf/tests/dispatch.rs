// SPDX-License-Identifier: Apache-2.0

//! Gates: one write puts the programs of the next generation in force at all of them.

mod rights;

use penstock_bpf::asm::Asm;
use penstock_bpf::{
    InetFamily, InetHook, NetfilterHook, Program, ProgramKind, netfilter, tcx, xdp,
};
use penstock_ebpf::dispatch::{Gate, Generations};
use penstock_testkit::build::*;

const KINDS: [ProgramKind; 3] = [ProgramKind::Xdp, ProgramKind::SchedCls, ProgramKind::Netfilter];

/// Verdicts of a kind: the packet continues, it is dropped.
fn verdicts(kind: ProgramKind) -> (i32, i32) {
    match kind {
        ProgramKind::Xdp => (xdp::PASS, xdp::DROP),
        ProgramKind::SchedCls => (tcx::NEXT, tcx::DROP),
        ProgramKind::Netfilter => (netfilter::ACCEPT, netfilter::DROP),
    }
}

fn dropping(kind: ProgramKind) -> Program {
    let mut asm = Asm::new();
    asm.exit_with(verdicts(kind).1);
    Program::load(kind, "dropping", &asm.finish().unwrap()).unwrap()
}

/// Whether a gate lets a packet continue.
fn passes(program: &Program) -> bool {
    let frame = (Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
        / Ipv4::new("198.18.0.1", "198.18.0.2")
        / Udp::new(1, 2))
    .build();
    let hook = NetfilterHook { family: InetFamily::V4, hook: InetHook::Input };
    let ran = match program.kind() {
        ProgramKind::Netfilter => program.run_netfilter(&frame, hook, 1),
        ProgramKind::Xdp | ProgramKind::SchedCls => program.run(&frame, 0, 1),
    };
    let (pass, drop) = verdicts(program.kind());
    let verdict = ran.unwrap().verdict;
    assert!([pass, drop].contains(&verdict), "{verdict}");
    verdict == pass
}

#[test]
fn a_switch_exchanges_the_programs_of_all_gates() {
    if !rights::may_load() {
        return;
    }
    let mut generations = Generations::new().unwrap();
    let gates = KINDS.map(|kind| {
        let gate = Gate::new().unwrap();
        let program = gate.load(kind, &generations).unwrap();
        (gate, program)
    });
    let all = |want: [bool; 3]| {
        let found = gates.each_ref().map(|(_, program)| passes(program));
        assert_eq!(found, want);
    };
    all([true; 3]);
    for (gate, program) in &gates {
        gate.set_next(&generations, &dropping(program.kind())).unwrap();
    }
    // Nothing is in force yet.
    all([true; 3]);
    generations.switch().unwrap();
    all([false; 3]);
    // The next generation has a program at the hook only, where packets continue to nothing.
    let [_, _, (hook, _)] = &gates;
    hook.clear_next(&generations).unwrap();
    let [(device, _), _, _] = &gates;
    device.set_next(&generations, &dropping(ProgramKind::Xdp)).unwrap();
    all([false; 3]);
    generations.switch().unwrap();
    generations.wait();
    all([false, true, true]);
    generations.switch().unwrap();
    all([false; 3]);
}

#[test]
fn a_gate_has_programs_of_its_kind() {
    if !rights::may_load() {
        return;
    }
    let generations = Generations::new().unwrap();
    for kind in KINDS {
        let gate = Gate::new().unwrap();
        let _program = gate.load(kind, &generations).unwrap();
        for other in KINDS {
            let set = gate.set_next(&generations, &dropping(other));
            assert_eq!(set.is_ok(), kind == other, "{kind:?} {other:?}");
        }
    }
}
