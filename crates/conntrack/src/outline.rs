// SPDX-License-Identifier: Apache-2.0

//! What filters look at, as a value that outlives the connection.

use crate::Tuple;

/// What of a connection a [`Filter`](crate::Filter) looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Of the original and of the reply direction.
    pub tuples: [Tuple; 2],
    /// Bits of [`crate::status`].
    pub status: u32,
    /// Name of its protocol's state.
    pub state: Option<&'static str>,
    /// Mark.
    pub mark: u32,
    /// Labels, if it has any.
    pub labels: Option<[u32; 4]>,
}
