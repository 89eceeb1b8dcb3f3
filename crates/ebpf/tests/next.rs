// SPDX-License-Identifier: Apache-2.0

//! What follows a program: another one, a socket, the kernel.

mod rights;

use std::sync::Arc;

use penstock_bpf::asm::Asm;
use penstock_bpf::{AttachPoint, Map, MapKind, MapSpec, Next, Program, xdp};
use penstock_ebpf::flow::{Flows, Site};
use penstock_testkit::build::*;

fn map(kind: MapKind) -> Arc<Map> {
    Arc::new(Map::new(MapSpec { name: "next", kind, key: 4, value: 4, entries: 4 }))
}

fn verdict_of(program: &Program) -> i32 {
    let frame = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
        / Ipv4::new("198.18.0.1", "198.18.0.2")
        / Udp::new(1, 2);
    program.run(&frame.build(), 0, 1).unwrap().verdict
}

#[test]
fn packets_without_a_flow_continue_to_the_current_program() {
    if !rights::may_load() {
        return;
    }
    let (programs, sockets) = (map(MapKind::Programs), map(MapKind::Sockets));
    let next = Next::Program {
        programs: programs.clone(),
        index: 2,
        // No queue has a socket: the kernel.
        otherwise: Box::new(Next::Sockets(sockets)),
    };
    let code = Flows::new(4).program(&Site::new(AttachPoint::Xdp, next)).unwrap();
    let flows = Program::load(AttachPoint::Xdp, "flows", &code)
        .unwrap_or_else(|e| panic!("{e}\n{}", e.log));
    assert_eq!(verdict_of(&flows), xdp::PASS, "nothing is there");
    for verdict in [xdp::DROP, xdp::TX] {
        let mut asm = Asm::new();
        asm.exit_with(verdict);
        let rules = Program::load(AttachPoint::Xdp, "rules", &asm.finish().unwrap()).unwrap();
        rules.enter_into(&programs, 2).unwrap();
        assert_eq!(verdict_of(&flows), verdict);
    }
    assert!(programs.remove(&2_u32.to_ne_bytes()).unwrap());
    assert_eq!(verdict_of(&flows), xdp::PASS, "nothing is there any more");
}

#[test]
fn maps_return_stored_values() {
    if !rights::may_load() {
        return;
    }
    let map = map(MapKind::Hash);
    let (keys, values): (Vec<u8>, Vec<u8>) =
        (0..4_u32).flat_map(|n| n.to_ne_bytes().map(|b| (b, b))).unzip();
    map.set_many(&keys, &values).unwrap();
    let full = map.set(&9_u32.to_ne_bytes(), &[0; 4]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(libc::E2BIG));
    let mut seen = Vec::new();
    map.each(|key, value| seen.push((key.to_vec(), value.to_vec()))).unwrap();
    seen.sort();
    let all: Vec<_> =
        (0..4_u32).map(|n| (n.to_ne_bytes().to_vec(), n.to_ne_bytes().to_vec())).collect();
    assert_eq!(seen, all);
    assert_eq!(map.take(&1_u32.to_ne_bytes()).unwrap(), Some(1_u32.to_ne_bytes().to_vec()));
    assert_eq!(map.take(&1_u32.to_ne_bytes()).unwrap(), None);
    // One in the middle is gone already.
    map.remove_many(&keys).unwrap();
    assert_eq!(map.next_key(None).unwrap(), None);
    assert!(map.set(&[0; 3], &[0; 4]).is_err() && map.get(&[0; 5]).is_err());
}
