// SPDX-License-Identifier: Apache-2.0

//! Flows that go by one IPsec state to a neighbour on a wire.

use penstock_xfrm::StateId;

/// A state by which all of a way goes, to a neighbour on a wire where nothing looks at frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectState {
    pub(crate) id: StateId,
    pub(crate) hop_limit: u8,
    pub(crate) v6: bool,
}
