// SPDX-License-Identifier: Apache-2.0

//! Files that are written whole or not at all, and never through another user's symbolic link.
//!
//! A new file is created under a random name in the directory of its target (`O_EXCL`,
//! `O_NOFOLLOW`), and takes the target's name by rename(2). So a reader finds the old file or the
//! new one, and a file that the target's name leads to, by a symbolic or a hard link, is never
//! written to.
//!
//! On the way to the directory, and at its end, symbolic links are followed only if nobody else can
//! have made them (`place`): they belong to root or to the caller, and stand in a directory that
//! only root and the caller can write to, or that is sticky. Other links are an error (`EPERM`), as
//! with `fs.protected_symlinks` and systemd's `CHASE_SAFE`. A link that root made, such as
//! `/var/lib` on another file system, is followed.
//!
//! ```
//! let file = std::env::temp_dir().join(format!("penstock-files-{}", std::process::id()));
//! penstock_files::replace(&file, b"first", penstock_files::Access::Owner)?;
//! penstock_files::replace(&file, b"second", penstock_files::Access::Owner)?;
//! assert_eq!(penstock_files::read(&file)?, b"second");
//! std::fs::remove_file(&file)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod dir_entry;
mod read;
mod sys;
mod write;

pub use read::{read, read_opened};
pub use write::{
    Access, append, can_replace, create, create_new, rename_end, replace, replace_opened, set_aside,
};
