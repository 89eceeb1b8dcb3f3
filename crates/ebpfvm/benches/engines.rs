// SPDX-License-Identifier: Apache-2.0

//! Interpreter, machine code, and the kernel's machine code: nanoseconds of one run of a program on
//! a frame of UDP, with the same object and the same maps. The kernel's figure is that of
//! `BPF_PROG_TEST_RUN`, which repeats inside the kernel. `copied` is machine code with the frame
//! copied into the program's memory before each run, as hooks have it.

#[path = "../tests/kernel/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../tests/kernel/sys.rs"]
#[allow(dead_code)]
mod sys;

use std::path::Path;
use std::process::Command;

use penstock_ebpfvm::object::Object;
use penstock_ebpfvm::{Machine, ProgramKind, Still};

/// Runs of one figure, and figures of which the least and the median are told.
const RUNS: u32 = 200_000;
const ROUNDS: usize = 15;

fn compile(file: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let out = std::env::temp_dir().join(format!("penstock-bench-{}.o", std::process::id()));
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let done = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", &headers, "-c", "-o"])
        .arg(&out)
        .arg(source)
        .status()
        .expect("clang");
    assert!(done.success(), "{file}");
    let bytes = std::fs::read(&out).expect("what clang wrote");
    let _ = std::fs::remove_file(&out);
    bytes
}

/// UDP from 198.18.0.1 to 198.19.0.2, 64 bytes without the checksum of the frame.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 2]);
    frame.extend([0x12, 0x34, 0, 53, 0, 30, 0, 0]);
    frame.resize(64, 0);
    frame
}

/// Elements of the maps: their name, keys and values.
fn elements() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for number in 0_u16..1000 {
        let [high, low] = number.to_be_bytes();
        let source = [198, 18, high, low];
        let mut flow = [source, [198, 19, 0, 2]].concat();
        flow.extend([0x12, 0x34, 0, 53, 17, 0, 0, 0]);
        all.push(("flows", flow, vec![0; 16]));
        all.push(("addresses", source.to_vec(), u64::from(number).to_le_bytes().to_vec()));
        // Prefixes of three lengths, one of which has the source.
        let bits = [16_u32, 24, 32][usize::from(number % 3)];
        let address = [if number == 1 { 198 } else { 100 }, 18, high, low];
        all.push(("blocklist", [bits.to_le_bytes(), address].concat(), vec![0; 8]));
    }
    all
}

fn least_and_median(figures: &mut [f64]) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[figures.len() / 2])
}

/// Nanoseconds that this thread has run. The kernel leaves the time out, too, that others have the
/// processor meanwhile.
fn processor_time() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives through the call, which writes it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn number(kind: ProgramKind) -> u32 {
    match kind {
        ProgramKind::Xdp => 6,
        _ => 3,
    }
}

fn compare(object: &Object, which: usize, file: &str) {
    let program = &object.programs[which];
    let (Some(kind), Ok(insns)) = (program.kind, &program.insns) else { return };
    if kind == ProgramKind::Netfilter {
        return;
    }
    let spec = |map: usize| object.maps[map].spec.clone().expect("a map that there is");
    let maps: Vec<_> =
        (0..object.maps.len()).map(|map| sys::Map::new(&spec(map)).expect("a map")).collect();
    for (map, of) in maps.iter().zip(&object.maps) {
        if let Some(contents) = &of.contents {
            map.set(&[0; 4], contents, 0).expect("variables");
        }
    }
    let mut machines = [Machine::default(), Machine::default()];
    let mut loaded = None;
    for machine in &mut machines {
        loaded = Some(object.load(machine, &[which]).expect("a program that there is"));
    }
    let Some(loaded) = loaded else { return };
    for (name, key, value) in elements() {
        for (at, number) in loaded.maps.iter().enumerate() {
            let Some(number) = number.filter(|_| spec(at).name == name) else { continue };
            maps[at].set(&key, &value, 0).expect("an element");
            for machine in &mut machines {
                let map = machine.map_mut(number).expect("a map");
                map.set(&key, &value, 0).expect("an element");
            }
        }
    }
    let ours = loaded.programs[which].expect("a program that was loaded");
    let theirs = sys::Program::load(number(kind), insns, &maps).expect("the verifier's consent");
    let [interpreter, code] = &mut machines;
    code.compile().expect("machine code");
    let frame = frame();
    let mut figures = [(); 4].map(|()| Vec::new());
    let run = |machine: &mut Machine, copies: bool| {
        let mut context = frames::context(kind, &frame);
        let start = processor_time();
        let mut result = 0;
        for _ in 0..RUNS {
            if copies {
                context.packet_mut().set(&frame);
            }
            result = machine.run(ours, &mut context, &mut Still).expect("a sound program");
        }
        ((processor_time() - start) as f64 / f64::from(RUNS), result as u32)
    };
    for _ in 0..ROUNDS {
        let (slow, first) = run(interpreter, false);
        let (fast, second) = run(code, false);
        let (copied, third) = run(code, true);
        let (kernel, expected) = theirs.time(&frame, RUNS).expect("a run");
        assert_eq!((first, second, third), (expected, expected, expected));
        for (figures, figure) in figures.iter_mut().zip([slow, fast, copied, kernel]) {
            figures.push(figure);
        }
    }
    let [slow, fast, copied, kernel] = figures.map(|mut f| least_and_median(&mut f));
    let name = format!("{file} {}", program.name);
    println!(
        "{name:<22} {:>6.1} {:>6.1}   {:>6.1} {:>6.1}   {:>6.1} {:>6.1}   {:>6.1} {:>6.1}   {:>5.2}",
        slow.0,
        slow.1,
        fast.0,
        fast.1,
        copied.0,
        copied.1,
        kernel.0,
        kernel.1,
        kernel.1 / fast.1
    );
}

fn main() {
    if !sys::may_load() {
        return;
    }
    println!(
        "{:<22} {:>13}   {:>13}   {:>13}   {:>13}   {:>5}",
        "ns: least, median", "interpreter", "machine code", "copied", "kernel", "ratio"
    );
    for (file, path) in [
        ("blocklist", "../../examples/bpf/blocklist.c"),
        ("hooks", "../../examples/bpf/hooks.c"),
        ("typical", "benches/programs/typical.c"),
    ] {
        let object = Object::parse(&compile(path)).expect("an object");
        for which in 0..object.programs.len() {
            compare(&object, which, file);
        }
    }
}
