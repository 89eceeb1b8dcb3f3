// SPDX-License-Identifier: Apache-2.0

//! Reading.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// All bytes of a regular file. Symbolic links are followed.
///
/// # Errors
///
/// Those of open(2) and read(2); `InvalidInput` for anything but a regular file, which might never
/// end; `OutOfMemory` for a file that does not fit into memory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe must not block.
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    read_opened(&file)
}

/// All bytes of a regular file that is open, from where it stands.
///
/// # Errors
///
/// As of [`read`], but for those of open(2).
pub fn read_opened(file: &File) -> io::Result<Vec<u8>> {
    let status = file.metadata()?;
    if !status.is_file() {
        let what = if status.is_dir() { "a directory" } else { "not a regular file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut bytes = Vec::new();
    let len = usize::try_from(status.len()).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(len).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    // A file that grows is read to its initial length.
    file.take(status.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}
