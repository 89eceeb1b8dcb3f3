// SPDX-License-Identifier: Apache-2.0

//! `--persist`: names in a file system of type bpf, by which links and maps outlive the process.
//!
//! Names are those of the network namespace; a note in the run directory says in which directory
//! they are. The next process finds what this one has left, and either continues with it or removes
//! it.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use penstock_bpf::Link;

use crate::rundir::{self, RunDir};

/// `BPF_FS_MAGIC`
const BPF_FS: u32 = 0xcafe_4a11;

/// Names in a directory.
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

    /// In a directory of a file system of type bpf, which is noted. The error is a sentence.
    pub(crate) fn new(directory: &Path) -> Result<Self, String> {
        let wrong = |e: io::Error| format!("{}: {e}", directory.display());
        Self::look(directory)?;
        let note = note().map_err(wrong)?;
        RunDir::get()?.replace(&note, directory.as_os_str().as_bytes()).map_err(wrong)?;
        Ok(Pins { directory: directory.to_owned(), prefix: prefix().map_err(wrong)? })
    }

    /// Where an earlier process of this network namespace has left something.
    pub(crate) fn left() -> Option<Pins> {
        Some(Pins { directory: noted()?, prefix: prefix().ok()? })
    }

    /// The file of a name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{}{name}", self.prefix))
    }

    /// All names that are there.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| {
            Some(entry.file_name().to_str()?.strip_prefix(&self.prefix)?.to_owned())
        };
        entries.filter_map(name).collect()
    }

    /// Removes a name, which may never have been there. What it stood for goes with the process.
    pub(crate) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }
}

/// Removes what an earlier process of this network namespace has left; whether there was something.
pub(crate) fn remove_left() -> bool {
    let Some(pins) = Pins::left() else { return false };
    let mut found = false;
    for name in pins.names() {
        let path = pins.path(&name);
        // Without its name a link would be detached later, when another process may use the device.
        let _ = Link::pinned(&path).and_then(Link::detach);
        found |= fs::remove_file(path).is_ok();
    }
    if let (Ok(directory), Ok(note)) = (RunDir::get(), note()) {
        directory.remove(&note);
    }
    found
}
