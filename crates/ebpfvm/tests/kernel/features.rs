// SPDX-License-Identifier: Apache-2.0

//! Objects in C that the kernel loads by libbpf: what programs for XDP, tc and sockets do with
//! helpers, kfuncs, maps, functions, variables and relocations is the same there, by the
//! interpreter, and by machine code: results, frames, and in the end maps.

use fastrand::Rng;
use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Machine, ProgramKind};

use crate::compile::{OBJECTS, compile};
use crate::frames::{context, frames};
use crate::loader::{Loader, elements, hexadecimal};
use crate::sys::may_load;
use crate::world::World;

/// Runs of all programs of an object on frames, one frame after the other: lines for the loader, and
/// what it should print.
fn run(object: &Object, compiled: bool, name: &str) -> (String, Vec<String>) {
    let mut machine = Machine::default();
    let all: Vec<usize> = (0..object.programs.len()).collect();
    let loaded = object.load(&mut machine, &all).unwrap();
    if compiled {
        machine.compile().unwrap();
    }
    let (mut input, mut lines) = (String::new(), Vec::new());
    let mut world = World::default();
    for frame in frames(&mut Rng::with_seed(23)) {
        for (program, number) in object.programs.iter().zip(&loaded.programs) {
            let kind = program.kind.unwrap();
            let mut context = context(kind, &frame);
            let result = machine.run(number.unwrap(), &mut context, &mut world);
            let at = format!("{name} {} {}", program.name, hexadecimal(&frame));
            let result = result.unwrap_or_else(|fault| panic!("{at}: {fault}"));
            // The kernel gives a link header back that has only zeros.
            let link = if kind == ProgramKind::SocketFilter { &[0; 14][..] } else { &[] };
            let packet = context.packet();
            let out = [link, packet.metadata(), packet.bytes()].concat();
            lines.push(format!("{} {}", result as u32, hexadecimal(&out)));
            input += &format!("{} 0 0 {}\n", program.name, hexadecimal(&frame));
        }
    }
    let mut rest: Vec<String> = loaded
        .maps
        .iter()
        .flatten()
        .flat_map(|number| elements(machine.map_mut(*number).unwrap()))
        .collect();
    rest.sort();
    lines.extend(rest);
    (input, lines)
}

/// Where lines differ.
fn difference(ours: &[String], theirs: &[String], input: &str) -> Option<String> {
    let mut input = input.lines();
    (0..ours.len().max(theirs.len())).find_map(|at| {
        let (line, ours, theirs) = (input.next().unwrap_or("maps"), ours.get(at), theirs.get(at));
        (ours != theirs).then(|| format!("{line}\n  here  {ours:?}\n  there {theirs:?}"))
    })
}

/// Runs an object by both engines and in the kernel: how they differ.
fn compare(loader: &Loader, name: &str, bytes: &[u8]) -> Result<(), String> {
    let object = Object::parse(bytes).map_err(|error| error.to_string())?;
    let (input, ours) = run(&object, false, name);
    let (_, code) = run(&object, true, name);
    if let Some(how) = difference(&ours, &code, &input) {
        return Err(format!("machine code: {how}"));
    }
    let mut theirs = loader.run(bytes, &input).ok_or("the kernel refuses it")?;
    let runs = input.lines().count().min(theirs.len());
    theirs[runs..].sort();
    // A map that no program uses is not made here.
    let names: Vec<&str> = ours[runs..].iter().filter_map(|line| line.split(' ').next()).collect();
    let used = |line: &str| line.split(' ').next().is_some_and(|name| names.contains(&name));
    let mut at = 0;
    theirs.retain(|line| {
        at += 1;
        at <= runs || used(line)
    });
    println!("{name}: {} programs, {runs} runs", object.programs.len());
    match difference(&ours, &theirs, &input) {
        Some(how) => Err(format!("the kernel: {how}")),
        None => Ok(()),
    }
}

#[test]
fn programs_do_what_they_do_in_the_kernel() {
    if !may_load() {
        return;
    }
    let Some(loader) = Loader::build("features") else { return };
    let mut wrong = Vec::new();
    for name in OBJECTS {
        let Some(bytes) = compile(name) else { return };
        if let Err(how) = compare(&loader, name, &bytes) {
            wrong.push(format!("{name}: {how}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
