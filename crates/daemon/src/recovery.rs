//! What is done for a dataplane that is no more: its devices come back, and are open or stay closed as it was told.

use penstock_netlink::Socket;

use crate::log;
use crate::offload::remove_left;
use crate::on_death::{self, OnDeath, closed_devices, how_to_open};
use crate::record::{self, Record, seconds};
use crate::takeover::restore;
use crate::turn::Turn;
use crate::{control, rights};

/// What there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing.
    Nothing,
    /// Devices were given back, or opened.
    Devices,
}

/// Gives back what a dataplane has taken that died together with its guardian. Devices stay closed if they were to be.
/// What it was to do at its death, if there was one.
///
/// # Errors
/// A sentence.
pub(crate) fn give_back_left(socket: &mut Socket) -> Result<Option<OnDeath>, String> {
    let Some(left) = Record::read()? else { return Ok(None) };
    log("an earlier dataplane has died together with its guardian: giving its devices back");
    let age = seconds().saturating_sub(left.written).min(u32::MAX.into()) as u32;
    restore(socket, &left.ports, age).iter().for_each(log);
    record::remove();
    Ok(Some(left.on_death))
}

/// Does for a dataplane that has died what is still to be done, once nobody else does.
///
/// # Errors
/// A sentence: it cannot be done, or devices are closed and stay so.
pub fn recover() -> Result<Recovered, String> {
    if !rights::may_take_devices() {
        return Ok(Recovered::Nothing);
    }
    let turn = Turn::wait()?;
    let recovered = recover_in_turn();
    control::remove_sockets();
    turn.end();
    recovered
}

fn recover_in_turn() -> Result<Recovered, String> {
    let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
    let flows = remove_left();
    let left = give_back_left(&mut socket)?;
    let closed = closed_devices(&mut socket);
    if let Some(OnDeath::Ruleset(file)) = &left {
        on_death::load(file)?;
        on_death::open(&mut socket, closed.into_iter().map(|(index, _)| index));
        return Ok(Recovered::Devices);
    }
    match (flows || left.is_some(), closed.is_empty()) {
        (_, false) => Err(how_to_open(&closed.into_iter().map(|(_, name)| name).collect::<Vec<_>>())),
        (true, true) => Ok(Recovered::Devices),
        (false, true) => Ok(Recovered::Nothing),
    }
}

/// Waits until a dataplane that was to end has ended, and does what is still to be done if it has died of that. `force` opens
/// devices that are closed then.
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

/// Gives back what a dataplane has taken that died, opens all devices that are closed, and takes away a ruleset that was loaded
/// into the kernel at its death.
///
/// # Errors
/// A sentence.
pub fn open_all() -> Result<Recovered, String> {
    if !rights::may_take_devices() {
        return Ok(Recovered::Nothing);
    }
    let turn = Turn::wait()?;
    let opened = open_in_turn();
    control::remove_sockets();
    turn.end();
    opened
}

fn open_in_turn() -> Result<Recovered, String> {
    let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
    let flows = remove_left();
    let left = give_back_left(&mut socket)?;
    let closed = closed_devices(&mut socket);
    let any = flows || left.is_some() || !closed.is_empty();
    on_death::open(&mut socket, closed.into_iter().map(|(index, _)| index));
    on_death::unload();
    Ok(if any { Recovered::Devices } else { Recovered::Nothing })
}
