// SPDX-License-Identifier: Apache-2.0

//! Releases of nft, whose listings differ in form.

/// Whose form listings have (`--compat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Release {
    /// nft 1.0.6 (Debian 12).
    #[default]
    V1_0_6,
    /// nft 1.1 (Debian 13).
    V1_1,
}

impl Release {
    /// Their names as `--compat` has them.
    pub const NAMES: [&str; 2] = ["1.0.6", "1.1"];

    /// The release of a name; `None` for one that is not known.
    pub fn of(name: &str) -> Option<Self> {
        [Release::V1_0_6, Release::V1_1].into_iter().find(|release| release.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Release::V1_0_6 => Release::NAMES[0],
            Release::V1_1 => Release::NAMES[1],
        }
    }

    /// Version and name, as JSON has them.
    pub const fn version(self) -> (&'static str, &'static str) {
        match self {
            Release::V1_0_6 => ("1.0.6", "Lester Gooch #5"),
            Release::V1_1 => ("1.1.3", "Commodore Bullmoose #4"),
        }
    }
}
