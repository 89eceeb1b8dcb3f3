// SPDX-License-Identifier: Apache-2.0

//! The lines of `nft monitor trace`, with the names of this machine or of a network.

use penstock_lang::names::Names;
use penstock_print::trace;

/// What traces need of a ruleset.
pub type Tracer<'n> = trace::Tracer<&'n (dyn Names + Sync)>;
