// SPDX-License-Identifier: Apache-2.0

//! What code is made from. It is a copy, so that programs run meanwhile.

use crate::code::MapPlace;
use crate::op::Op;
use crate::state::Entry;

/// Programs, and where the values of their maps and their stack are.
#[derive(Debug)]
#[cfg_attr(not(feature = "cranelift"), allow(dead_code))]
pub(crate) struct Source {
    pub(crate) ops: Vec<Op>,
    pub(crate) programs: Vec<Entry>,
    pub(crate) maps: Vec<MapPlace>,
    /// Where the stack begins.
    pub(crate) stack: usize,
}
