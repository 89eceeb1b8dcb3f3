// SPDX-License-Identifier: Apache-2.0

//! Programs of others that are measured beside ours.

use crate::Variant;

/// Whether a program is there.
///
/// # Errors
/// It is not: a sentence.
pub(crate) fn installed(program: &str) -> Result<(), String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join(program).exists());
    if found { Ok(()) } else { Err(format!("there is no {program}")) }
}

/// Chosen variants of another benchmark, with its name in front, and what each is compared with.
pub(crate) fn ours(
    bench: &str,
    variants: Vec<Variant>,
    wanted: &[(&str, &'static str)],
) -> impl Iterator<Item = Variant> {
    variants.into_iter().filter_map(move |mut variant| {
        let (name, against) = wanted.iter().find(|(name, _)| *name == variant.name)?;
        variant.name = format!("{bench}/{name}");
        Some(variant.against(against))
    })
}
