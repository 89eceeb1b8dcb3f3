// SPDX-License-Identifier: Apache-2.0

//! What the language keeps with parts of a ruleset.

use std::sync::Arc;

/// Bytes that the language keeps with an object (`NFTA_*_USERDATA`): comments, types of keys,
/// byte order. Opaque to everything below it.
pub type UserData = Arc<[u8]>;
