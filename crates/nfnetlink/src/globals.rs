// SPDX-License-Identifier: Apache-2.0

//! What the subsystems of objects that are in no table have in common: nfacct, cttimeout. Each
//! request is a change of its own.

use std::sync::Arc;

use penstock_ruleset::Change;
use penstock_ruleset::globals::GlobalChange;

use crate::Backend;
use crate::ctnetlink::Outcome;
use crate::message::{Attribute, Failure, Message};
use crate::process::Process;

/// A request of a client.
pub struct Request<'m> {
    /// The message.
    pub message: Message<'m>,
    /// Port id of the sender's socket.
    pub port: u32,
    /// Longest datagram of a dump, in bytes.
    pub limit: usize,
}

/// What comes of a request, and its answers.
pub type Answered = Result<(Outcome, Vec<Vec<u8>>), Failure>;

/// Makes a change.
///
/// # Errors
/// The ruleset's.
pub fn change(
    change: GlobalChange,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    change_all(std::iter::once(change), from, backend)
}

/// Makes several changes at once.
///
/// # Errors
/// The ruleset's; nothing is changed then.
pub fn change_all(
    changes: impl Iterator<Item = GlobalChange>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    let mut batch = backend.begin();
    for change in changes {
        let applied = backend.apply(&mut batch, Change::Global(change));
        applied.map_err(|error| Failure::from(error.errno))?;
    }
    backend.commit(batch, from).map_err(|refused| Failure::from(refused.error.errno))
}

/// A name. The answers of these subsystems blame no attribute for it.
///
/// # Errors
/// `EINVAL` for bytes that are no UTF-8.
pub fn name_of(name: Attribute<'_>) -> Result<Arc<str>, Failure> {
    name.text().map(Arc::from).map_err(Failure::blaming_nothing)
}
