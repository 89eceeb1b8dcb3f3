// SPDX-License-Identifier: Apache-2.0

//! `lo`.

use penstock_wire::ethernet::Mac;

use super::{ForwardPath, Kind, Output};

/// `ARPHRD_LOOPBACK`.
const ARPHRD_LOOPBACK: u16 = 772;

/// The loopback device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loopback;

impl Kind for Loopback {
    #[inline]
    fn name(&self) -> &str {
        ""
    }

    #[inline]
    fn hardware_type(&self) -> u16 {
        ARPHRD_LOOPBACK
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Loopback
    }

    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::None
    }

    fn interface_identifier(&self, _: Mac) -> Option<u64> {
        None
    }
}
