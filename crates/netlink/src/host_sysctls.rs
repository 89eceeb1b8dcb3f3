// SPDX-License-Identifier: Apache-2.0

//! Sysctls of the host, as the kernel keeps them in `/proc/sys`.

use std::fs;
use std::path::Path;

/// The values of sysctls, by their names as sysctl(8) has them, in the network namespace of the
/// calling thread. What the kernel does not have, or what is no number, is left out.
pub fn read_sysctls(names: &[&'static str]) -> Vec<(&'static str, u32)> {
    let value = |name: &&'static str| {
        let text = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).ok()?;
        Some((*name, text.trim().parse().ok()?))
    };
    names.iter().filter_map(value).collect()
}
