// SPDX-License-Identifier: Apache-2.0

//! Programs of others that are measured beside ours.

/// Whether a program is there.
///
/// # Errors
/// It is not: a sentence.
pub(crate) fn installed(program: &str) -> Result<(), String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join(program).exists());
    if found { Ok(()) } else { Err(format!("there is no {program}")) }
}
