// SPDX-License-Identifier: Apache-2.0

//! Files that nobody else may read.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use penstock_ctsync::secure::PrivateKey;

/// Bytes of a file at most.
const LONGEST: u64 = 1024;

/// A sentence about the file of a clause.
fn failed(clause: &str, path: &Path, e: &dyn Display) -> String {
    format!("sync: {clause} {}: {e}", path.display())
}

/// Reads the file of a clause, which nobody else may read.
///
/// # Errors
/// It cannot be read, or others may read it: a sentence.
pub(super) fn read_secret(clause: &str, path: &Path) -> Result<String, String> {
    let failed = |e: &dyn Display| failed(clause, path, e);
    let mut file = File::open(path).map_err(|e| failed(&e))?;
    let mode = file.metadata().map_err(|e| failed(&e))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed(&"others may read or write it: chmod 600"));
    }
    let mut text = String::new();
    let read = file.by_ref().take(LONGEST).read_to_string(&mut text);
    read.map_err(|e| failed(&e))?;
    Ok(text)
}

/// Reads the key of a clause.
///
/// # Errors
/// As above, or it is no key.
pub(super) fn read_key(clause: &str, path: &Path) -> Result<PrivateKey, String> {
    let text = read_secret(clause, path)?;
    PrivateKey::from_text(&text).map_err(|e| failed(clause, path, &e))
}
