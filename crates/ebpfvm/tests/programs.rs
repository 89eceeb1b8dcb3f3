// SPDX-License-Identifier: Apache-2.0

//! Programs of which the kernel cannot be asked by a run by hand, and programs that go wrong.

#[path = "kernel/compile.rs"]
mod compile;
#[path = "kernel/world.rs"]
mod world;

use compile::compile;
use penstock_ebpfvm::context::Device;
use penstock_ebpfvm::insn::Insn;
use penstock_ebpfvm::map::{Errno, MapKind, MapSpec};
use penstock_ebpfvm::object::{Loaded, Object};
use penstock_ebpfvm::{
    Context, FaultKind, Host, Limits, Machine, Netfilter, ProgramKind, Still, Xdp,
};

use world::World;

/// Loads a program of an object: its number, and what else is in the machine now.
fn load(machine: &mut Machine, object: &Object, name: &str) -> (u32, Loaded) {
    let which = object.find(Some(name)).unwrap();
    let loaded = object.load(machine, &[which]).unwrap();
    (loaded.programs[which].unwrap(), loaded)
}

/// The number of a map in the machine.
fn map(object: &Object, loaded: &Loaded, name: &str) -> u32 {
    let named = |map: &penstock_ebpfvm::object::ObjectMap| {
        map.spec.as_ref().is_ok_and(|spec| spec.name == name)
    };
    loaded.maps[object.maps.iter().position(named).unwrap()].unwrap()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn enumerators_are_those_of_the_object_and_helpers_those_that_there_are() {
    let Some(bytes) = compile("enums") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let (program, _) = load(&mut machine, &object, "enums");
    let mut context = Context::Xdp(Xdp::default());
    assert_eq!(machine.run(program, &mut context, &mut Still), Ok(1 | 4 | 7 << 4));
}

#[test]
fn configuration_that_is_not_known_is_refused_by_its_name() {
    let Some(bytes) = compile("unconfigured") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let which = object.find(Some("asks")).unwrap();
    let refused = object.load(&mut machine, &[which]).unwrap_err().to_string();
    assert!(refused.contains("`CONFIG_NO_SUCH_NUMBER`"), "{refused}");
    let (program, _) = load(&mut machine, &object, "version");
    let mut context = Context::Xdp(Xdp::default());
    assert_eq!(machine.run(program, &mut context, &mut Still), Ok(6));
}

#[test]
fn maps_that_are_not_supported_are_refused_by_name() {
    let Some(bytes) = compile("unsupported") else { return };
    let object = Object::parse(&bytes).unwrap();
    for (program, why) in [
        ("to_processors", "map processors is of type BPF_MAP_TYPE_CPUMAP, which is not supported"),
        ("in_silence", "map silent: it does not say what its maps are like (`values`)"),
        ("in_fives", "map of_fives: its value 2: Invalid argument (os error 22)"),
        ("in_programs", "map of_programs: its maps are of a kind that it does not take"),
    ] {
        let which = object.find(Some(program)).unwrap();
        let refused = object.load(&mut Machine::default(), &[which]).unwrap_err();
        assert_eq!(refused.to_string(), why);
    }
}

#[test]
fn maps_in_maps_are_exchanged_and_taken_out() {
    let spec = |kind, entries| {
        let name = format!("{kind:?}");
        MapSpec { name, kind, key: 4, value: 4, entries, flags: 0 }
    };
    let mut machine = Machine::default();
    let [two, other, three] =
        [2, 2, 3].map(|entries| machine.add_map(spec(MapKind::Array, entries)).unwrap());
    assert!(machine.add_map(spec(MapKind::ArrayOfMaps, 2)).is_err());
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        let outer = machine.add_outer_map(spec(kind, 2), spec(MapKind::Array, 2)).unwrap();
        let inner = |machine: &mut Machine| {
            let map = machine.map_mut(outer).unwrap();
            let value = map.get(&[1, 0, 0, 0])?.to_vec();
            map.map_of(&value)
        };
        assert_eq!(inner(&mut machine), None);
        for number in [two, other] {
            machine.set_map(outer, &[1, 0, 0, 0], number).unwrap();
            assert_eq!(inner(&mut machine), Some(number));
        }
        // Another size, a map that has none, bytes in place of a map.
        assert_eq!(machine.set_map(outer, &[1, 0, 0, 0], three), Err(Errno::INVAL));
        assert_eq!(machine.set_map(two, &[1, 0, 0, 0], two), Err(Errno::INVAL));
        let map = machine.map_mut(outer).unwrap();
        assert_eq!(map.set(&[1, 0, 0, 0], &[1, 0, 0, 0], 0), Err(Errno::INVAL));
        assert_eq!((map.len(), map.elements().count()), (1, 1));
        assert_eq!(map.remove(&[1, 0, 0, 0]), Ok(()));
        assert_eq!(map.remove(&[1, 0, 0, 0]), Err(Errno::NOENT));
        assert_eq!(inner(&mut machine), None);
    }
}

#[test]
fn connections_are_released_or_the_program_ends_with_a_fault() {
    let Some(bytes) = compile("references") else { return };
    let object = Object::parse(&bytes).unwrap();
    let run = |name, compiled| {
        let mut machine = Machine::default();
        let (program, _) = load(&mut machine, &object, name);
        if compiled {
            machine.compile().unwrap();
        }
        let result = machine.run(program, &mut frame(60), &mut World::default());
        // What was held by a run that went wrong is not held by the next one.
        assert_eq!(machine.run(program, &mut frame(60), &mut World::default()), result);
        result.map_err(|fault| fault.kind)
    };
    let wrong = FaultKind::Argument("bpf_ct_release", 1);
    for compiled in [false, cfg!(feature = "cranelift")] {
        assert_eq!(run("releases", compiled), Ok(6));
        assert_eq!(run("keeps", compiled), Err(FaultKind::References));
        assert_eq!(run("hoards", compiled), Err(FaultKind::References));
        assert_eq!(run("releases_twice", compiled), Err(wrong));
        assert!(matches!(run("reads_later", compiled), Err(FaultKind::Read(_, 8))));
        assert!(matches!(run("writes", compiled), Err(FaultKind::Write(_, 4))));
        let missing = FaultKind::Unavailable("what is not there");
        assert_eq!(run("reads_a_time", compiled), Err(missing));
    }
    let which = object.find(Some("sets")).unwrap();
    let refused = object.load(&mut Machine::default(), &[which]).unwrap_err();
    assert_eq!(refused.to_string(), "`bpf_ct_set_status` is not supported");
}

fn padded(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

#[test]
fn netfilter_program_reads_hook_packet_and_devices() {
    let Some(bytes) = compile("netfilter") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let (program, loaded) = load(&mut machine, &object, "judge");
    let mut nf = Netfilter {
        hook: 2,
        family: 2,
        input: Some(Device { name: padded("lan"), index: 3, mtu: 1500, hardware: 1 }),
        output: Some(Device { name: padded("wan"), index: 4, mtu: 1500, hardware: 1 }),
        protocol: 0x0800_u16.to_be(),
        mark: 77,
        ..Netfilter::default()
    };
    let mut ip = [0; 28];
    (ip[0], ip[9]) = (0x45, 6);
    ip[12..16].copy_from_slice(&[198, 18, 0, 1]);
    nf.packet.set(&ip);
    let mut context = Context::Netfilter(Box::new(nf));
    assert_eq!(machine.run(program, &mut context, &mut Still), Ok(1));
    context.packet_mut().bytes_mut()[9] = 17;
    assert_eq!(machine.run(program, &mut context, &mut Still), Ok(0));
    let variables = map(&object, &loaded, ".bss");
    let (_, note) = machine.map(variables).unwrap().elements().next().unwrap();
    // Hook, family, devices, length, mark, protocol, source; of two fields the first exists.
    assert_eq!(words(&note[..36]), [2, 2, 3, 4, 28, 77, 0x800, 0xc612_0001, 1]);
    assert_eq!(&note[36..40], b"lan\0");
}

#[test]
fn access_to_a_field_that_is_not_there_ends_the_program() {
    let Some(bytes) = compile("missing") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let (program, _) = load(&mut machine, &object, "wrong");
    let mut context = Context::Netfilter(Box::default());
    let fault = machine.run(program, &mut context, &mut Still).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unavailable("what is not there"));
}

/// Keeps the lines of the trace.
#[derive(Default)]
struct Lines(Vec<String>);

impl Host for Lines {
    fn now(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u32 {
        0
    }

    fn trace(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
}

fn frame(len: usize) -> Context {
    let mut xdp = Xdp::default();
    xdp.packet.set(&vec![0; len]);
    Context::Xdp(xdp)
}

#[test]
fn ring_has_the_records_that_were_submitted_in_their_order() {
    let Some(bytes) = compile("rings") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let (program, loaded) = load(&mut machine, &object, "tell");
    for len in 60..66 {
        assert_eq!(machine.run(program, &mut frame(len), &mut Still), Ok(2));
    }
    let ring = map(&object, &loaded, "events");
    let mut records = Vec::new();
    while let Some(record) = machine.map_mut(ring).unwrap().take_record() {
        records.push(words(&record));
    }
    // The third and the sixth are discarded, and after the fourth its number follows.
    let expected: [&[u32]; 5] = [&[60, 1], &[61, 2], &[63, 4], &[4], &[64, 5]];
    assert_eq!(records, expected);
    // A ring that nobody empties fills, in bytes with 8 of a header for each record.
    for _ in 0..300 {
        machine.run(program, &mut frame(60), &mut Still).unwrap();
    }
    assert_eq!(machine.run(program, &mut frame(60), &mut Still), Ok(1));
}

#[test]
fn loops_and_elements_call_functions_of_the_program() {
    let Some(bytes) = compile("rings") else { return };
    let object = Object::parse(&bytes).unwrap();
    let mut machine = Machine::default();
    let (program, loaded) = load(&mut machine, &object, "loops");
    let mut lines = Lines::default();
    for _ in 0..5 {
        assert_eq!(machine.run(program, &mut frame(60), &mut lines), Ok(2));
    }
    // Ten rounds; then the three keys that were used last, with their values.
    let total: u64 = 45 + (10 << 16) + ((3 + 4 + 5) << 32) + 30 + 40 + 50;
    assert_eq!(lines.0.last().unwrap(), &format!("5 frames, ff {total}"));
    assert_eq!(machine.map(map(&object, &loaded, "recent")).unwrap().len(), 3);
}

/// Runs instructions as an XDP program on a frame, with a hash whose number is 0.
fn run(code: &[[u8; 8]]) -> Result<u64, FaultKind> {
    let insns: Vec<Insn> = code.iter().map(Insn::read).collect();
    let mut machine = Machine::new(Limits { steps: 100_000, ..Limits::default() });
    let (name, kind) = ("h".to_owned(), MapKind::Hash);
    let hash = MapSpec { name, kind, key: 4, value: 8, entries: 4, flags: 0 };
    machine.add_map(hash).unwrap();
    let program = machine.add_program(ProgramKind::Xdp, &insns).unwrap();
    machine.run(program, &mut frame(60), &mut Still).map_err(|fault| fault.kind)
}

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn programs_that_go_wrong_end_with_a_fault() {
    // goto -1
    assert_eq!(run(&[[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]]), Err(FaultKind::Steps));
    // call itself
    let itself = [0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(run(&[itself, EXIT]), Err(FaultKind::Depth));
    // r0 = *(u64 *)(r0 + 0), with R0 zero
    let null = [0x79, 0x00, 0, 0, 0, 0, 0, 0];
    assert_eq!(run(&[null, EXIT]), Err(FaultKind::Read(0, 8)));
    // *(u8 *)(r10 + 0) = 1: behind the stack
    let stack = [0x72, 0x0a, 0, 0, 1, 0, 0, 0];
    assert!(matches!(run(&[stack, EXIT]), Err(FaultKind::Write(_, 1))));
    // *(u64 *)(r10 - 513) = 1
    let stack = [0x7a, 0x0a, 0xff, 0xfd, 1, 0, 0, 0];
    assert!(matches!(run(&[stack, EXIT]), Err(FaultKind::Write(_, 8))));
    // r2 = data; r0 = *(u8 *)(r2 + 60): behind the frame
    let data = [0x61, 0x12, 0, 0, 0, 0, 0, 0];
    assert!(matches!(
        run(&[data, [0x71, 0x20, 60, 0, 0, 0, 0, 0], EXIT]),
        Err(FaultKind::Read(_, 1))
    ));
    assert_eq!(run(&[data, [0x71, 0x20, 59, 0, 0, 0, 0, 0], EXIT]), Ok(0));
    // *(u32 *)(r1 + 0) = 0: the context of XDP is read only
    assert_eq!(run(&[[0x62, 0x01, 0, 0, 0, 0, 0, 0], EXIT]), Err(FaultKind::Context(0, 4)));
    // r1 = map; r0 = *(u32 *)(r1 + 0): the map itself
    let map = [0x18, 0x11, 0, 0, 0, 0, 0, 0];
    assert!(matches!(
        run(&[map, [0; 8], [0x61, 0x10, 0, 0, 0, 0, 0, 0], EXIT]),
        Err(FaultKind::Read(_, 4))
    ));
    // call bpf_map_lookup_elem with the context in place of a map
    let lookup = [0x85, 0, 0, 0, 1, 0, 0, 0];
    let wrong = FaultKind::Argument("bpf_map_lookup_elem", 1);
    assert_eq!(run(&[lookup, EXIT]), Err(wrong));
    // and with a key that is nowhere
    let wrong = FaultKind::Argument("bpf_map_lookup_elem", 2);
    assert_eq!(run(&[map, [0; 8], lookup, EXIT]), Err(wrong));
}

#[test]
fn steps_are_what_a_loop_goes_back() {
    // r0 = 0; r0 += 1; if r0 < N goto -2; exit: two steps per round
    let counting = |n: i32| {
        let mut jump = [0xa5, 0, 0xfe, 0xff, 0, 0, 0, 0];
        jump[4..].copy_from_slice(&n.to_le_bytes());
        run(&[[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x07, 0, 0, 0, 1, 0, 0, 0], jump, EXIT])
    };
    assert_eq!(counting(50_001), Ok(50_001));
    assert_eq!(counting(50_002), Err(FaultKind::Steps));
}
