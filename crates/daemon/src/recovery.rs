// SPDX-License-Identifier: Apache-2.0

//! Recovers from a dead dataplane: returns its devices, open or closed as configured.

use penstock_netlink::{Socket, Tracking};

use crate::attach::remove_left_tables;
use crate::config::OnDeath;
use crate::devices::on_death::{self, closed_devices, how_to_open};
use crate::devices::record::{self, Record};
use crate::devices::takeover::restore;
use crate::log;
use crate::namespace_lock::NamespaceLock;
use crate::pins::remove_left;
use crate::{control, rights};

/// What there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing.
    Nothing,
    /// Devices were returned, or opened.
    Devices,
}

/// Returns the devices of a dataplane that died together with its guardian. Devices stay closed if
/// that is configured. Returns the configured action at its death, if there was one.
///
/// # Errors
/// A sentence.
pub(crate) fn give_back_left(socket: &mut Socket) -> Result<Option<OnDeath>, String> {
    let Some(left) = Record::read()? else { return Ok(None) };
    if !left.ports.is_empty() {
        log("an earlier dataplane has died together with its guardian: giving its devices back");
    }
    restore(socket, &left.ports, left.age()).iter().for_each(log);
    record::remove();
    Ok(Some(left.on_death))
}

/// What was found when it was this process's turn.
struct Recovery {
    /// Flows or devices were returned.
    any: bool,
    /// What the dataplane that has died was to do at its death.
    on_death: Option<OnDeath>,
    /// Devices that are closed, with their names.
    closed: Vec<(u32, String)>,
}

/// Waits for the lock, returns what is left, and cleans up the rest.
fn in_turn(
    settle: impl FnOnce(&mut Socket, Recovery) -> Result<Recovered, String>,
) -> Result<Recovered, String> {
    if !rights::may_take_devices() {
        return Ok(Recovered::Nothing);
    }
    let turn = NamespaceLock::wait()?;
    let found = || {
        let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
        let tables = remove_left_tables();
        let flows = remove_left() || tables;
        // What cannot be removed goes with the namespace.
        let _ = Tracking::remove();
        let on_death = give_back_left(&mut socket)?;
        let closed = closed_devices(&mut socket);
        let any = flows || on_death.is_some();
        settle(&mut socket, Recovery { any, on_death, closed })
    };
    let settled = found();
    control::remove_sockets();
    turn.end();
    settled
}

/// Finishes the recovery of a dead dataplane, once no other process does.
///
/// # Errors
/// A sentence: recovery failed, or devices are closed and stay closed.
pub fn recover() -> Result<Recovered, String> {
    in_turn(|socket, Recovery { any, on_death, closed }| {
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

/// Returns the devices of a dead dataplane, opens all closed devices, and removes a ruleset that
/// was loaded into the kernel at its death.
///
/// # Errors
/// A sentence.
pub fn open_all() -> Result<Recovered, String> {
    in_turn(|socket, Recovery { any, closed, .. }| {
        let any = any || !closed.is_empty();
        on_death::open(socket, closed.into_iter().map(|(index, _)| index));
        on_death::unload();
        Ok(if any { Recovered::Devices } else { Recovered::Nothing })
    })
}
