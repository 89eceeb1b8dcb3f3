// SPDX-License-Identifier: Apache-2.0

//! Bridges as links.

use super::{ForwardPath, Kind, Output};
use crate::bridge::Bridge;

impl Kind for Bridge {
    #[inline]
    fn name(&self) -> &str {
        "bridge"
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Bridge(self)
    }

    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::Bridge(self)
    }
}
