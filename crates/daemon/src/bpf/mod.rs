// SPDX-License-Identifier: Apache-2.0

//! BPF programs at hooks of the path, as `--bpf` and `penstock bpf` name them.

mod elements;
mod place;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_dataplane::{BpfAttachment, BpfPrograms};
use penstock_ebpfvm::{Instance, Limits, Program};
use penstock_net::Network;

pub use elements::{elements, set_elements};
pub use place::Place;

/// A program and its place: `HOOK=FILE[:PROGRAM]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The hook.
    pub place: Place,
    /// The object.
    pub file: PathBuf,
    /// The name of its section or function; without one the only program of the file.
    pub program: Option<String>,
}

impl Attach {
    /// Reads what follows `--bpf`. The error is a sentence for the user.
    ///
    /// # Errors
    /// It is no hook and file.
    pub fn parse(value: &OsStr) -> Result<Self, String> {
        let wrong = |why: &str| {
            let value = value.display();
            format!("--bpf takes HOOK[@PRIORITY][:DEV]=FILE[:PROGRAM], not `{value}`{why}")
        };
        let bytes = value.as_bytes();
        let at = bytes.iter().position(|&b| b == b'=').ok_or_else(|| wrong(""))?;
        let place = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong(""))?;
        let place: Place = place.parse().map_err(|why: String| wrong(&format!(": {why}")))?;
        let rest = &bytes[at + 1..];
        let (file, program) = match rest.iter().position(|&b| b == b':') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        if file.is_empty() || program.is_some_and(<[u8]>::is_empty) {
            return Err(wrong(""));
        }
        let program = program.map(|p| std::str::from_utf8(p).map(str::to_owned));
        Ok(Attach {
            place,
            file: PathBuf::from(OsString::from_vec(file.to_vec())),
            program: program.transpose().map_err(|_| wrong(""))?,
        })
    }
}

/// Programs that are loaded and have a place, and their objects.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// In the order in which they are attached.
    pub programs: Vec<(Place, Program)>,
    /// Each object once.
    pub instances: Vec<Arc<Instance>>,
}

impl Loaded {
    /// Reads and loads objects. Programs of one file share its maps.
    ///
    /// # Errors
    /// A file that cannot be read or loaded, or a program that is not for its hook.
    pub fn load(wanted: &[Attach]) -> Result<Self, String> {
        let mut files: Vec<&Path> = wanted.iter().map(|a| a.file.as_path()).collect();
        files.sort();
        files.dedup();
        let mut loaded = Loaded::default();
        let mut programs = Vec::new();
        for file in files {
            let failed = |e: String| format!("--bpf: {}: {e}", file.display());
            let bytes = std::fs::read(file).map_err(|e| failed(e.to_string()))?;
            let of_file: Vec<_> = wanted.iter().filter(|a| a.file == file).collect();
            let names: Vec<_> = of_file.iter().map(|a| a.program.as_deref()).collect();
            let name = file.display().to_string();
            let (instance, made) = Instance::load(&name, &bytes, &names, Limits::default())
                .map_err(|e| failed(e.to_string()))?;
            for (attach, program) in of_file.iter().zip(&made) {
                if program.kind() != Some(attach.place.kind()) {
                    let (name, section, place) = (program.name(), program.section(), &attach.place);
                    return Err(failed(format!(
                        "program {name} (section {section}) is not for {place}"
                    )));
                }
            }
            loaded.instances.push(instance);
            programs.extend(of_file.into_iter().zip(made));
        }
        // In the order of the command line.
        for attach in wanted {
            let made = programs.iter().find(|(of, _)| std::ptr::eq(*of, attach));
            loaded.programs.extend(made.map(|(_, p)| (attach.place.clone(), p.clone())));
        }
        Ok(loaded)
    }

    /// Attaches all of them in a network.
    ///
    /// # Errors
    /// A device that is not there, or two programs where there may be one.
    pub fn attach(&self, net: &Network) -> Result<BpfPrograms, String> {
        let mut all = BpfPrograms::default();
        for (place, program) in &self.programs {
            let failed = |e: &dyn std::fmt::Display| format!("--bpf {place}: {e}");
            let hooks = place.hooks(net, 0).map_err(|e| failed(&e))?;
            for (hook, label) in hooks {
                let attachment = BpfAttachment::new(hook, &label, program.clone());
                all = all.with(Arc::new(attachment)).map_err(|e| failed(&e))?;
            }
        }
        Ok(all)
    }
}
