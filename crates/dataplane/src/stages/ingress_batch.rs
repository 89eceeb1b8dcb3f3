// SPDX-License-Identifier: Apache-2.0

//! Frames of one device that pass its ingress together.

use penstock_jit::Compiled;
use penstock_wire::ethernet::Mac;

use crate::hooks::HookList;

/// What frames pass together, where that is possible.
pub(crate) struct IngressBatch<'a> {
    pub(crate) device: u32,
    pub(crate) address: Mac,
    pub(crate) list: &'a HookList,
    pub(crate) code: ListCode<'a>,
}

/// Compiled code, and the number of a list in it.
#[derive(Clone, Copy)]
pub(crate) struct ListCode<'a> {
    pub(crate) code: &'a Compiled,
    pub(crate) number: usize,
}

impl ListCode<'_> {
    /// Whether it takes frames as they are.
    #[inline]
    pub(crate) fn takes_frames(&self) -> bool {
        self.code.takes_frames(self.number)
    }

    /// Whether it takes frames only after what those before have led to is done.
    #[inline]
    pub(crate) fn takes_frames_in_order(&self) -> bool {
        self.code.takes_frames_in_order(self.number)
    }
}
