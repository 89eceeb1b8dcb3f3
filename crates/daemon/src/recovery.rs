// SPDX-License-Identifier: Apache-2.0

//! What is done for a dataplane that is no more: its devices come back, and are open or stay closed
//! as it was told.

use penstock_netlink::Socket;

use crate::config::OnDeath;
use crate::devices::on_death::{self, closed_devices, how_to_open};
use crate::devices::record::{self, Record};
use crate::devices::takeover::restore;
use crate::log;
use crate::namespace_lock::NamespaceLock;
use crate::offload::remove_left;
use crate::{control, rights};

/// What there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing.
    Nothing,
    /// Devices were given back, or opened.
    Devices,
}

/// Gives back what a dataplane has taken that died together with its guardian. Devices stay closed
/// if they were to be. What it was to do at its death, if there was one.
///
/// # Errors
/// A sentence.
pub(crate) fn give_back_left(socket: &mut Socket) -> Result<Option<OnDeath>, String> {
    let Some(left) = Record::read()? else { return Ok(None) };
    log("an earlier dataplane has died together with its guardian: giving its devices back");
    restore(socket, &left.ports, left.age(), left.moving).iter().for_each(log);
    record::remove();
    Ok(Some(left.on_death))
}

/// What was found when it was this process's turn.
struct Found {
    /// Flows or devices were given back.
    any: bool,
    /// What the dataplane that has died was to do at its death.
    on_death: Option<OnDeath>,
    /// Devices that are closed, with their names.
    closed: Vec<(u32, String)>,
}

/// Waits for its turn, gives back what is left, and settles the rest of what was found.
fn in_turn(
    settle: impl FnOnce(&mut Socket, Found) -> Result<Recovered, String>,
) -> Result<Recovered, String> {
    if !rights::may_take_devices() {
        return Ok(Recovered::Nothing);
    }
    let turn = NamespaceLock::wait()?;
    let found = || {
        let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
        let flows = remove_left();
        let on_death = give_back_left(&mut socket)?;
        let closed = closed_devices(&mut socket);
        let any = flows || on_death.is_some();
        settle(&mut socket, Found { any, on_death, closed })
    };
    let settled = found();
    control::remove_sockets();
    turn.end();
    settled
}

/// Does for a dataplane that has died what is still to be done, once nobody else does.
///
/// # Errors
/// A sentence: it cannot be done, or devices are closed and stay so.
pub fn recover() -> Result<Recovered, String> {
    in_turn(|socket, Found { any, on_death, closed }| {
        if let Some(OnDeath::Ruleset(file)) = &on_death {
            on_death::load(file)?;
            on_death::open(socket, closed.into_iter().map(|(index, _)| index));
            return Ok(Recovered::Devices);
        }
        match (any, closed.is_empty()) {
            (_, false) => {
                Err(how_to_open(&closed.into_iter().map(|(_, name)| name).collect::<Vec<_>>()))
            }
            (true, true) => Ok(Recovered::Devices),
            (false, true) => Ok(Recovered::Nothing),
        }
    })
}

/// Waits until a dataplane that was to end has ended, and does what is still to be done if it has
/// died of that. `force` opens devices that are closed then.
///
/// # Errors
/// As for [`recover`].
pub fn finish(force: bool) -> Result<(), String> {
    match if force { open_all() } else { recover() } {
        // Another one has begun already.
        Err(e) if e == control::RUNS_ALREADY => Ok(()),
        finished => finished.map(drop),
    }
}

/// Gives back what a dataplane has taken that died, opens all devices that are closed, and takes
/// away a ruleset that was loaded into the kernel at its death.
///
/// # Errors
/// A sentence.
pub fn open_all() -> Result<Recovered, String> {
    in_turn(|socket, Found { any, closed, .. }| {
        let any = any || !closed.is_empty();
        on_death::open(socket, closed.into_iter().map(|(index, _)| index));
        on_death::unload();
        Ok(if any { Recovered::Devices } else { Recovered::Nothing })
    })
}
