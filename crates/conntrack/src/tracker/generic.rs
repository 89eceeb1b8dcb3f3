// SPDX-License-Identifier: Apache-2.0

//! All other protocols: known by their addresses (`nf_conntrack_proto_generic.c`).

use super::{Context, Outcome};

/// A packet of a connection.
#[inline(never)]
pub(super) fn packet(c: &Context<'_>) -> Outcome {
    Outcome::accept(c.timeouts[0])
}
