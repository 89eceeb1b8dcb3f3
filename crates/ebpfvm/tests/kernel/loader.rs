// SPDX-License-Identifier: Apache-2.0

//! Objects that the kernel loads by libbpf, in a program of its own (`loader.c`). Skipped, with a
//! message, where that cannot be built: it needs a C compiler and libbpf.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use penstock_ebpfvm::map::{Map, MapKind};

/// A directory that goes with its test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds the loader; nothing, with a message, where that is not possible.
fn loader(to: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ebpfvm/tests/kernel/loader.c");
    let out = to.join("loader");
    let done = Command::new("cc").arg("-o").arg(&out).arg(source).arg("-lbpf").output();
    match done {
        Ok(done) if done.status.success() => Some(out),
        Ok(done) => {
            println!("skipped: the loader: {}", String::from_utf8_lossy(&done.stderr));
            None
        }
        Err(error) => {
            println!("skipped: cc: {error}");
            None
        }
    }
}

/// The loader of a test.
pub struct Loader {
    directory: Directory,
    program: PathBuf,
}

impl Loader {
    /// Builds it, in a directory that is called after an object.
    pub fn build(name: &str) -> Option<Loader> {
        let directory = format!("penstock-ebpfvm-{name}-{}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(directory));
        std::fs::create_dir_all(&directory.0).unwrap();
        let program = loader(&directory.0)?;
        Some(Loader { directory, program })
    }

    /// Loads an object and runs its programs: the lines that are printed. Nothing if the kernel
    /// refuses it, after a message why.
    #[allow(dead_code)]
    pub fn run(&self, object: &[u8], input: &str) -> Option<Vec<String>> {
        self.run_by(Command::new(&self.program), object, input)
    }

    /// As [`Loader::run`], in a network namespace.
    #[allow(dead_code)]
    pub fn run_in(&self, namespace: &str, object: &[u8], input: &str) -> Option<Vec<String>> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(&self.program);
        self.run_by(command, object, input)
    }

    fn run_by(&self, mut command: Command, object: &[u8], input: &str) -> Option<Vec<String>> {
        let file = self.directory.0.join("object.o");
        std::fs::write(&file, object).unwrap();
        let mut child =
            command.arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let sent = input.to_owned();
        let writer = std::thread::spawn(move || to.write_all(sent.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| text.lines().map(str::to_owned).collect())
    }
}

/// Bytes as the loader prints them.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The elements of a map, and records of rings, as the loader prints them.
#[allow(dead_code)]
pub fn elements(map: &mut Map) -> Vec<String> {
    let name = map.spec().name.clone();
    let kind = map.spec().kind;
    // Where variables of the configuration are is the loader's to say.
    if kind == MapKind::Programs || kind.has_maps() || name == ".kconfig" {
        return Vec::new();
    }
    let line = |(k, v): (Vec<u8>, &[u8])| format!("{name} {} {}", hexadecimal(&k), hexadecimal(v));
    let mut lines: Vec<String> = map.elements().map(line).collect();
    while let Some(record) = map.take_record() {
        lines.push(format!("{name} - {}", hexadecimal(&record)));
    }
    lines
}
