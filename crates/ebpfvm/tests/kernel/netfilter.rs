// SPDX-License-Identifier: Apache-2.0

//! Programs of netfilter, which the kernel loads by libbpf: at all hooks on frames of both
//! families they return the same, and leave the same in maps, by the interpreter and by machine
//! code. Skipped, with a message, where
//! the loader cannot be built, as it needs a C compiler and libbpf.

use fastrand::Rng;
use penstock_ebpfvm::context::Device;
use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Context, Machine, Netfilter, Still};

use crate::compile::compile;
use crate::frames::frames;
use crate::loader::{Loader, elements, hexadecimal};
use crate::sys::may_load;

const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// `NF_INET_LOCAL_OUT`: packets there have no link header.
const OUTPUT: u8 = 3;
const LINK: usize = 14;

/// The family of a frame that is long enough for a run by hand.
fn family(frame: &[u8]) -> Option<u8> {
    match frame.get(12..14)? {
        [0x08, 0x00] if frame.len() >= LINK + 20 => Some(IPV4),
        [0x86, 0xdd] if frame.len() >= LINK + 40 => Some(IPV6),
        _ => None,
    }
}

/// The loopback device of this network namespace, on which runs by hand are.
fn loopback() -> Device {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/class/net/lo/{name}")).unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    let mut name = [0; 16];
    name[..2].copy_from_slice(b"lo");
    Device { name, index: number("ifindex"), mtu: number("mtu"), hardware: 772 }
}

/// What the kernel gives a program in a run by hand (`bpf_prog_test_run_nf()`): the loopback device
/// as that of departure, whatever the hook.
fn context(hook: u8, family: u8, packet: &[u8], lo: Device) -> Context {
    let mut nf = Netfilter { hook, family, ..Netfilter::default() };
    nf.packet.set(packet);
    nf.output = Some(lo);
    nf.protocol = if family == IPV4 { 0x0800_u16 } else { 0x86dd }.to_be();
    Context::Netfilter(Box::new(nf))
}

fn compare(name: &str) {
    if !may_load() {
        return;
    }
    let Some(bytes) = compile(name) else { return };
    let Some(loader) = Loader::build(name) else { return };
    for compiled in [false, true] {
        compare_by(name, &bytes, &loader, compiled);
    }
}

/// Runs an object by one engine and in the kernel.
fn compare_by(name: &str, bytes: &[u8], loader: &Loader, compiled: bool) {
    let object = Object::parse(bytes).unwrap();
    let mut machine = Machine::default();
    let all: Vec<usize> = (0..object.programs.len()).collect();
    let loaded = object.load(&mut machine, &all).unwrap();
    if compiled && let Err(error) = machine.compile() {
        println!("{name}: no machine code: {error}");
        return;
    }
    let lo = loopback();
    let (mut input, mut ours) = (String::new(), Vec::new());
    let mut rng = Rng::with_seed(11);
    let frames: Vec<Vec<u8>> = (0..4).flat_map(|_| frames(&mut rng)).collect();
    for (which, program) in object.programs.iter().enumerate() {
        let number = loaded.programs[which].unwrap();
        for (count, frame) in frames.iter().enumerate() {
            let Some(family) = family(frame) else { continue };
            let hook = (count % 5) as u8;
            let frame = if hook == OUTPUT { &frame[LINK..] } else { &frame[..] };
            let packet = if hook == OUTPUT { frame } else { &frame[LINK..] };
            let line = format!("{} {family} {hook} {}", program.name, hexadecimal(frame));
            let result = machine.run(number, &mut context(hook, family, packet, lo), &mut Still);
            let result = result.unwrap_or_else(|fault| panic!("{line}: {fault}"));
            ours.push((result as u32).to_string());
            input.push_str(&line);
            input.push('\n');
        }
    }
    let runs = ours.len();
    let theirs = loader.run(bytes, &input).unwrap();
    for ((ours, theirs), line) in ours.iter().zip(&theirs).zip(input.lines()) {
        assert_eq!(ours, theirs, "{name}: {line}");
    }
    let mut ours: Vec<String> = loaded
        .maps
        .iter()
        .flatten()
        .flat_map(|number| elements(machine.map_mut(*number).unwrap()))
        .collect();
    let mut theirs = theirs[runs..].to_vec();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs, "maps of {name}");
    let engine = if compiled { "machine code" } else { "interpreter" };
    println!("{name}: {} programs, {runs} runs by {engine}", object.programs.len());
}

#[test]
fn programs_of_netfilter_read_packets_and_hooks_as_in_the_kernel() {
    compare("nf_packet");
}

#[test]
fn programs_of_netfilter_use_maps_as_in_the_kernel() {
    compare("nf_maps");
}

#[test]
fn programs_of_netfilter_read_relocated_fields_as_in_the_kernel() {
    compare("netfilter");
}
