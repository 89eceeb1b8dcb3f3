// SPDX-License-Identifier: Apache-2.0

//! Names of clusters and of their nodes.

/// Bytes of a name at most.
const LONGEST: usize = 63;

/// Whether this may be the name of a node or a cluster: letters of ASCII, digits, `-` and `_`, 63 at
/// most, so that it can be part of a subject.
pub fn is_node_name(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(good)
}
