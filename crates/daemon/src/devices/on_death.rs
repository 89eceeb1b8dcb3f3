// SPDX-License-Identifier: Apache-2.0

//! What happens to the ports when the dataplane dies: `--on-death`.
//!
//! | | from the death on | until |
//! | --- | --- | --- |
//! | `open` | the kernel forwards, as its own configuration says | the next start |
//! | `closed` | no frame passes the devices | the next start, or `penstock down --force` |
//! | a file | as `closed`, until that ruleset is in the kernel's nf_tables; then as `open` | the next start, which takes it away |
//!
//! A closed device has filters in the kernel that drop all it receives and sends ([`closed`]). They
//! are there from the beginning, so nothing has to be done at the moment of death, by anybody.
//! While the dataplane lives, it receives before they are asked, and programs that go with it
//! ([`Unfiltered`](penstock_io::device::Unfiltered)) let pass what it sends.

use std::path::Path;
use std::process::{Command, Stdio};

use penstock_netlink::nftables::{Table, remove_table, tables};
use penstock_netlink::{Socket, State, closed};

use crate::config::OnDeath;
use crate::devices::takeover::Taken;
use crate::log;
use crate::rundir::{self, RunDir};

/// Looks whether the ruleset can be loaded, as far as nft(8) can tell beforehand. The error is a
/// sentence.
pub(crate) fn check(on_death: &OnDeath) -> Result<(), String> {
    match on_death {
        OnDeath::Ruleset(file) => nft(&["-c"], file).map_err(|e| format!("--on-death: {e}")),
        OnDeath::Open | OnDeath::Closed => Ok(()),
    }
}

/// Runs nft on a file. The error is a sentence, with what nft says.
fn nft(options: &[&str], file: &Path) -> Result<(), String> {
    let output =
        Command::new("nft").args(options).arg("-f").arg(file).stdin(Stdio::null()).output();
    let output =
        output.map_err(|e| format!("nft, which loads {}, cannot be run: {e}", file.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}: nft refuses it: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        )),
    }
}

/// The file that names the tables that were loaded, a line each with family and name.
fn noted() -> Option<(&'static RunDir, String)> {
    Some((RunDir::get().ok()?, rundir::name("tables").ok()?))
}

/// Loads a ruleset into the kernel's nf_tables, and notes which tables have come by it. The error
/// is a sentence.
pub(crate) fn load(file: &Path) -> Result<(), String> {
    let told = |e: std::io::Error| format!("the kernel's tables: {e}");
    let before = tables().map_err(told)?;
    nft(&[], file)?;
    let after = tables().map_err(told)?;
    let new = after.iter().filter(|table| !before.contains(table));
    let lines: String = new.map(|table| format!("{} {}\n", table.family, table.name)).collect();
    let (directory, name) = noted().ok_or("there is no run directory")?;
    directory.replace(&name, lines.as_bytes()).map_err(|e| format!("the tables loaded: {e}"))
}

/// Takes away the tables that were loaded.
pub(crate) fn unload() {
    let Some((directory, name)) = noted() else { return };
    let Ok(lines) = directory.read(&name) else { return };
    for line in String::from_utf8_lossy(&lines).lines() {
        let Some((family, table)) = line.split_once(' ') else { continue };
        let Ok(family) = family.parse() else { continue };
        match remove_table(&Table { family, name: table.to_owned() }) {
            Ok(()) => log(format_args!("removed the table {table}, which was in force since then")),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            Err(e) => log(format_args!("the table {table} cannot be taken away: {e}")),
        }
    }
    directory.remove(&name);
}

/// Closes a device from the moment that this process dies on. `false` if it is closed already.
///
/// # Errors
/// A sentence.
pub(crate) fn close(socket: &mut Socket, device: u32, name: &str) -> Result<bool, String> {
    closed::close(socket, device).map_err(|e| {
        format!(
            "{name}: --on-death cannot close it: {e}; that takes `clsact` and BPF filters in the kernel (NET_SCH_INGRESS, \
             NET_CLS_BPF), and no filter with preference 1 on the device"
        )
    })
}

/// Opens devices that are closed. Says which cannot be opened.
pub(crate) fn open(socket: &mut Socket, devices: impl IntoIterator<Item = u32>) {
    for device in devices {
        if let Err(e) = closed::open(socket, device) {
            log(format_args!("device {device} stays closed: {e}"));
        }
    }
}

/// Devices of the network namespace that are closed, with their names.
pub(crate) fn closed_devices(socket: &mut Socket) -> Vec<(u32, String)> {
    let Ok(state) = State::read(socket) else { return Vec::new() };
    let mut all = Vec::new();
    for device in state.devices() {
        if closed::is_closed(socket, device.link.index) {
            all.push((device.link.index, device.link.name.to_string()));
        }
    }
    all
}

/// A dataplane has begun: opens what was closed, and removes what was loaded, when an earlier one
/// died, except for ports that must close when this one dies.
pub(crate) fn settle(socket: &mut Socket, taken: &[Taken], on_death: &OnDeath) {
    let stays = |index: u32| {
        on_death.closes() && taken.iter().any(|t| t.device == index && t.end.is_none())
    };
    let others =
        closed_devices(socket).into_iter().map(|(index, _)| index).filter(|index| !stays(*index));
    let others: Vec<u32> = others.collect();
    open(socket, others);
    unload();
}

/// What is said of devices that stay closed.
pub(crate) fn how_to_open(names: &[String]) -> String {
    format!(
        "no frame passes {} since the dataplane has died (--on-death); `penstock up` starts again, `penstock down --force` \
         opens them",
        names.join(", ")
    )
}
