// SPDX-License-Identifier: Apache-2.0

//! `notrack`: do not track the packet (`net/netfilter/nft_ct.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use};
use crate::Family;
use crate::linking::{LinkReason, Linking};
use crate::op::Op;

/// Keeps the packet out of connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notrack;

impl fmt::Display for Notrack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("notrack")
    }
}

impl Expression for Notrack {
    fn name(&self) -> &'static str {
        "notrack"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Notrack)
    }
}
