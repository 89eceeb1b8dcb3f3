// SPDX-License-Identifier: Apache-2.0

//! `--persist`: programs of flows that stay on their devices when this process dies.
//!
//! Only links get a name in a file system of type bpf: they hold programs, and these their maps.
//! Leftovers are removed by the next dataplane before it takes the devices, or by `penstock down`;
//! a note in the run directory says where it is.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use penstock_bpf::Link;
use penstock_ebpf::flow::{Flows, FoundFlow, LAYOUT, found};

use crate::log;
use crate::rundir::{self, RunDir};

/// `BPF_FS_MAGIC`
const BPF_FS: u32 = 0xcafe_4a11;

/// Names of links.
#[derive(Debug)]
pub(crate) struct Pins {
    directory: PathBuf,
    prefix: String,
}

/// Names of this network namespace begin so.
fn prefix() -> io::Result<String> {
    Ok(format!("penstock-{}-", rundir::cookie()?))
}

/// The name of the note.
fn note() -> io::Result<String> {
    rundir::name("pins")
}

/// The directory that the note names, if there is one.
fn noted() -> Option<PathBuf> {
    let directory = RunDir::get().ok()?.read(&note().ok()?).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(directory)))
}

fn is_bpf(directory: &Path) -> io::Result<bool> {
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: all zeroes are a valid value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string with its end, and room for the answer, which both live through the call.
    match unsafe { libc::statfs(path.as_ptr(), &raw mut found) } {
        0 => Ok(found.f_type as u32 == BPF_FS),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Pins {
    /// Whether a directory is in a file system of type bpf. The error is a sentence.
    pub(crate) fn look(directory: &Path) -> Result<(), String> {
        match is_bpf(directory) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{}: not in a file system of type bpf", directory.display())),
            Err(e) => Err(format!("{}: {e}", directory.display())),
        }
    }

    /// In a directory of a file system of type bpf. The error is a sentence.
    pub(crate) fn new(directory: &Path) -> Result<Self, String> {
        let wrong = |e: io::Error| format!("{}: {e}", directory.display());
        Self::look(directory)?;
        let note = note().map_err(wrong)?;
        RunDir::get()?.replace(&note, directory.as_os_str().as_bytes()).map_err(wrong)?;
        Ok(Pins { directory: directory.to_owned(), prefix: prefix().map_err(wrong)? })
    }

    fn path(&self, device: u32) -> PathBuf {
        self.directory.join(format!("{}{device}", self.prefix))
    }

    /// The program stays on the device from now on.
    pub(super) fn pin(&self, device: u32, link: &Link) -> io::Result<()> {
        match link.pin(&self.path(device)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // The pin of a device that is gone.
                self.unpin(device);
                link.pin(&self.path(device))
            }
            result => result,
        }
    }

    /// The names of the maps of flows, without that of their directory.
    fn map_names(&self) -> [PathBuf; 2] {
        ["flows4", "flows6"]
            .map(|name| self.directory.join(format!("{}{name}-{LAYOUT}", self.prefix)))
    }

    /// From now on the next dataplane can find the flows.
    pub(super) fn pin_flows(&self, flows: &Flows) -> io::Result<()> {
        let [v4, v6, _] = flows.maps();
        for (map, name) in [v4, v6].into_iter().zip(self.map_names()) {
            // One of before: programs that use it are gone.
            let _ = fs::remove_file(&name);
            map.pin(&name)?;
        }
        Ok(())
    }

    /// They go with the process.
    pub(super) fn unpin_flows(&self) {
        self.map_names().iter().for_each(|name| drop(fs::remove_file(name)));
    }

    /// The pinned links, by device.
    pub(super) fn links(&self) -> impl Iterator<Item = (u32, Link)> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let name = entry.file_name();
            let device = name.to_str()?.strip_prefix(&self.prefix)?.parse().ok()?;
            Some((device, Link::pinned(&entry.path()).ok()?))
        })
    }

    /// The flows in pinned maps.
    pub(super) fn flows(&self) -> Vec<FoundFlow> {
        let names = self.map_names();
        found([&names[0], &names[1]]).unwrap_or_else(|e| {
            if e.kind() != io::ErrorKind::NotFound {
                log(format_args!("flows that an earlier dataplane has left cannot be read: {e}"));
            }
            Vec::new()
        })
    }

    /// The program goes with the process.
    pub(super) fn unpin(&self, device: u32) {
        // It may never have been pinned.
        let _ = fs::remove_file(self.path(device));
    }
}

/// What an earlier dataplane of this network namespace has left.
pub(super) fn left() -> Option<Pins> {
    Some(Pins { directory: noted()?, prefix: prefix().ok()? })
}

/// Removes what an earlier dataplane of this network namespace has left; whether there was
/// something.
pub(crate) fn remove_left() -> bool {
    let (Some(directory), Ok(prefix)) = (noted(), prefix()) else { return false };
    let mut found = false;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            // Without its name the link would be detached later, when another process may use the
            // device.
            let _ = Link::pinned(&entry.path()).and_then(Link::detach);
            found |= fs::remove_file(entry.path()).is_ok();
        }
    }
    if let (Ok(directory), Ok(note)) = (RunDir::get(), note()) {
        directory.remove(&note);
    }
    found
}
