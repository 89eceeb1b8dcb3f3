// SPDX-License-Identifier: Apache-2.0

//! Which ruleset a program has, as its environment says: `penstock exec` tells its command so, and
//! `libnftables.so.1` is told so.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variable.
pub const VARIABLE: &str = "PENSTOCK_EXEC";

/// What it says of the dataplane.
const LIVE: &str = "live";

/// Where a ruleset is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the dataplane of the network namespace.
    Dataplane,
    /// In a state file.
    File(PathBuf),
}

impl Place {
    /// What the environment says; without the variable, or if it is empty, it is the dataplane.
    pub fn of_environment() -> Place {
        Place::of(&std::env::var_os(VARIABLE).unwrap_or_default())
    }

    /// What a value of the variable says. The path of a file becomes absolute if there is a current
    /// directory.
    fn of(value: &OsStr) -> Place {
        match value {
            _ if value.is_empty() || value == LIVE => Place::Dataplane,
            path => Place::File(std::path::absolute(path).unwrap_or_else(|_| path.into())),
        }
    }

    /// The value of the variable that says so.
    pub fn value(&self) -> OsString {
        match self {
            Place::Dataplane => LIVE.into(),
            Place::File(path) => path.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_dataplane_or_a_file() {
        for (value, place) in [
            ("", Place::Dataplane),
            ("live", Place::Dataplane),
            ("/run/fw.state", Place::File("/run/fw.state".into())),
            ("/live", Place::File("/live".into())),
        ] {
            assert_eq!(Place::of(value.as_ref()), place, "{value}");
            assert_eq!(Place::of(&place.value()), place, "{value}");
        }
        let Place::File(path) = Place::of("live.state".as_ref()) else { panic!("a file") };
        assert!(path.is_absolute(), "{path:?}");
    }
}
