// SPDX-License-Identifier: Apache-2.0

//! Objects of programs in C.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Objects of XDP, tc and sockets that the kernel loads by libbpf.
#[allow(dead_code)]
pub const OBJECTS: &[&str] = &[
    "atomic",
    "balancer",
    "callbacks",
    "clocks",
    "continued",
    "core",
    "devices",
    "echo",
    "fields",
    "kconfig",
    "maps_in_maps",
    "nat",
    "nested",
    "numbers",
    "prefixes",
    "queues",
    "quota",
    "records",
    "resize",
    "rings",
    "slices",
    "sums",
    "tags",
    "tunnel",
    "variables",
];

/// Compiles a program of the directory of objects; nothing, with a message, without clang.
pub fn compile(name: &str) -> Option<Vec<u8>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    let out = format!("penstock-ebpfvm-{}-{number}.o", std::process::id());
    let out = std::env::temp_dir().join(out);
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let done = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", &headers, "-c", "-o"])
        .arg(&out)
        .arg(directory.join(format!("{name}.c")))
        .output();
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            println!("skipped: clang: {error}");
            return None;
        }
    };
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    Some(bytes)
}
