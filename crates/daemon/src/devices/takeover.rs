// SPDX-License-Identifier: Apache-2.0

//! A device becomes a port, and a TAP of the host takes its place with name, address, MTU and
//! everything that stands on it; and back.
//!
//! Returning it works from any point in between, and uses the kernel's state at that time:
//! addresses added since (a lease, for instance) go to the device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_io::device::{Tap, gro, set_gro};
use penstock_netlink::links::{Change, Standing, change, forget_asked, rename, set_port};
use penstock_netlink::upper::{Stands, move_uppers, uppers};
use penstock_netlink::{Device, Kept, Socket, State, set_port_vlans};
use serde::{Deserialize, Serialize};

use crate::config::PortConfig;
use crate::devices::other_end::{End, own_mac};
use crate::log;

/// Longest name of a device.
const NAME_MAX: usize = 15;

/// Name of a TAP before it replaces a device; a number follows.
const WAITING: &str = "penstock";

/// A taken device, with everything needed to return it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// What the host, and rules, call it.
    pub name: String,
    /// Name of the device while it is a port.
    pub port: String,
    /// What it was called before.
    pub before: String,
    /// Index of the device.
    pub device: u32,
    /// Index of the TAP in its place.
    pub tap: u32,
    /// `disable_ipv6` of the device before.
    no_ipv6: bool,
    /// `IFLA_INET6_ADDR_GEN_MODE` before.
    generate: u8,
    /// Its received packets were merged (GRO).
    gro: bool,
    /// What was an isolated port of a bridge: the device, VLAN devices on it; by their names on the
    /// host.
    pub isolated: Vec<String>,
    /// The device is a TAP that stays what it is, and the port its other end.
    pub end: Option<End>,
}

/// A taken device, and what it had when that was written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenPort {
    /// The device.
    pub taken: Taken,
    /// What the TAP has, or the device where no TAP is in its place yet.
    pub kept: Kept,
    /// It is being taken or returned: its configuration is in transit, and belongs where this says.
    pub moving: bool,
}

fn told<T>(what: &str, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

/// Whether a device is a VLAN device on another, or on one of that.
pub(crate) fn stands_on(state: &State, device: &Device, lower: u32) -> bool {
    const LEVELS: usize = 8;
    let below = |index: u32| state.devices().iter().find(|d| d.link.index == index);
    let mut at = device.link.vlan().map(|v| v.lower);
    for _ in 0..LEVELS {
        match at {
            None => return false,
            Some(index) if index == lower => return true,
            Some(index) => at = below(index).and_then(|d| d.link.vlan()).map(|v| v.lower),
        }
    }
    false
}

/// VLAN devices and tunnels that stand on a device come to stand on another.
fn move_all(
    socket: &mut Socket,
    from: u32,
    to: u32,
    isolated: &dyn Fn(&str) -> bool,
) -> io::Result<Vec<String>> {
    let mut alike = |from: &str, to: &str| {
        copy_sysctls(from, to);
        if let Some(value) = read_sysctl(&sysctl("ipv6", from, "disable_ipv6")) {
            write_sysctl(&sysctl("ipv6", to, "disable_ipv6"), &value);
        }
    };
    move_uppers(socket, from, to, &mut alike, isolated)
}

fn sysctl(family: &str, device: &str, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/{family}/conf/{device}/{name}"))
}

/// How often a failed step is retried, and the pause in between: a descriptor or memory may be
/// short for a moment, and a device must be returned.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

fn again<T, E>(mut what: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        if let Ok(done) = what() {
            return Ok(done);
        }
        std::thread::sleep(PAUSE);
    }
    what()
}

/// Sets what there is; without IPv6 in the kernel, for one, some are not there.
fn write_sysctl(path: &Path, value: &str) {
    if let Err(e) = again(|| match fs::write(path, value) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }) {
        log(format_args!("{}: {e}", path.display()));
    }
}

fn read_sysctl(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Settings of a device that another gets, but those that are about the device itself.
fn copy_sysctls(from: &str, to: &str) {
    const OWN: [&str; 4] = ["addr_gen_mode", "disable_ipv6", "mtu", "stable_secret"];
    for family in ["ipv4", "ipv6"] {
        let Ok(all) = fs::read_dir(sysctl(family, from, "")) else { continue };
        for name in all.flatten().filter_map(|e| e.file_name().into_string().ok()) {
            if OWN.contains(&name.as_str()) {
                continue;
            }
            let (value, there) =
                (read_sysctl(&sysctl(family, from, &name)), sysctl(family, to, &name));
            if let Some(value) = value.filter(|v| read_sysctl(&there).as_ref() != Some(v)) {
                // Some are read-only.
                let _ = fs::write(there, value);
            }
        }
    }
}

/// What a device is called while it is a port.
fn port_name(name: &str) -> String {
    const END: &str = ".port";
    let keep = name
        .char_indices()
        .map(|(i, c)| i + c.len_utf8())
        .take_while(|i| *i <= NAME_MAX - END.len())
        .last();
    format!("{}{END}", &name[..keep.unwrap_or(0)])
}

/// What the kernel takes as the name of a device (`dev_valid_name()`).
fn is_name(name: &str) -> bool {
    let wrong = |c: char| c == '/' || c == ':' || c.is_ascii_whitespace();
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != "."
        && name != ".."
        && !name.contains(wrong)
}

/// Creates a TAP for a device of the kernel's network as it is; [`swap`] puts it in the device's
/// place. `wish` is the index for the TAP if no other device has it.
pub fn prepare(
    socket: &mut Socket,
    state: &State,
    port: &PortConfig,
    wish: Option<u32>,
) -> Result<(Taken, Tap), String> {
    let (device, name) = (port.device.as_str(), port.name.as_str());
    let found = state.device(device).ok_or_else(|| format!("Cannot find device \"{device}\""))?;
    let link = &found.link;
    if !found.ethernet || link.is_loopback() {
        return Err(format!("{device}: only Ethernet devices can be ports"));
    }
    if link.bridge().is_some() || link.vlan().is_some() {
        return Err(format!(
            "{device}: a {} cannot be a port; what is below it can",
            link.kind_name()
        ));
    }
    let end = End::of(found, port)?;
    let on_it = if end.is_some() { Vec::new() } else { told(device, uppers(socket, link.index))? };
    if let Some(upper) = on_it.iter().find(|upper| upper.stands == Stands::Other) {
        return Err(format!(
            "{device}: the {} {} stands on it, which would get no frames; remove it first",
            upper.kind, upper.name
        ));
    }
    if let Some(master) = found.master.as_ref().filter(|m| end.is_none() && m.kind != "bridge") {
        return Err(format!("{device}: it is part of a {}", master.kind));
    }
    let renamed = device == name;
    let port_name = if renamed { port_name(device) } else { device.to_owned() };
    if !is_name(name) {
        return Err(format!("\"{name}\" cannot be the name of a device"));
    }
    let clash = if renamed { &port_name } else { name };
    if state.device(clash).is_some() {
        return Err(format!("{device}: there is a device {clash} already"));
    }
    let is_isolated = |d: &&Device| d.link.port.as_ref().is_some_and(|port| port.isolated);
    let mut isolated = Vec::new();
    if end.is_none() {
        isolated.extend(is_isolated(&found).then(|| name.to_owned()));
        let vlans =
            state.devices().iter().filter(|d| stands_on(state, d, link.index)).filter(is_isolated);
        isolated.extend(vlans.map(|d| d.link.name.to_string()));
    }
    // The kernel finds a number.
    let any = format!("{WAITING}%d");
    let tap = Tap::open_as(&any, wish).or_else(|_| Tap::open_as(&any, None));
    let tap = tap.map_err(|e| format!("a TAP: {e}"))?;
    let index =
        penstock_io::device::interface_index(tap.name()).map_err(|e| format!("a TAP: {e}"))?;
    let mac = if end.is_some() { own_mac(link.mac.0) } else { link.mac.0 };
    let mut attributes =
        vec![Change::Mac(mac), Change::Mtu(link.mtu), Change::QueueLen(found.queue_len)];
    if end.is_none() {
        // Its addresses come with everything else.
        attributes.extend([Change::Group(link.group), Change::Generate(1)]);
    }
    told("the TAP", change(socket, index, &attributes))?;
    if end.is_none() {
        copy_sysctls(device, tap.name());
    }
    let taken = Taken {
        name: name.to_owned(),
        port: port_name,
        before: device.to_owned(),
        device: link.index,
        tap: index,
        no_ipv6: read_sysctl(&sysctl("ipv6", device, "disable_ipv6")).is_some_and(|v| v == "1"),
        generate: found.generate,
        gro: gro(link.index).unwrap_or(true),
        isolated,
        end,
    };
    Ok((taken, tap))
}

/// Puts the TAP in the place of the device, or next to it, where that is a neighbour's.
pub fn swap(socket: &mut Socket, state: &State, taken: &Taken) -> Result<(), String> {
    if taken.end.is_some() {
        told(&taken.name, rename(socket, taken.tap, &taken.name))?;
        return told(&taken.name, change(socket, taken.tap, &[Change::Up(true)]));
    }
    let found = state.devices().iter().find(|d| d.link.index == taken.device);
    let found = found.ok_or_else(|| format!("{}: the device is gone", taken.before))?;
    let standing =
        Standing::read(socket, taken.device).map_err(|e| format!("{}: {e}", taken.before))?;
    if taken.port != taken.before {
        told(
            &format!("{} to {}", taken.before, taken.port),
            rename(socket, taken.device, &taken.port),
        )?;
    }
    told(&taken.name, rename(socket, taken.tap, &taken.name))?;
    write_sysctl(
        &sysctl("ipv6", &taken.name, "disable_ipv6"),
        if taken.no_ipv6 { "1" } else { "0" },
    );
    // From here on the TAP says what the device was: up or down, and what stands on it.
    let up = told(&taken.name, change(socket, taken.tap, &[Change::Up(found.link.up)]));
    standing.remove(socket);
    write_sysctl(&sysctl("ipv6", &taken.port, "disable_ipv6"), "1");
    let placed = up.and_then(|()| {
        if let Some(master) = &found.master {
            told(&taken.port, change(socket, taken.device, &[Change::Master(0)]))?;
            told(&taken.name, change(socket, taken.tap, &[Change::Master(master.index)]))?;
            // What goes from port to port is for us to forward.
            told(&taken.name, set_port(socket, taken.tap, &found.port_settings, Some(true)))?;
            if let Some(port) = &found.link.port {
                told(&taken.name, set_port_vlans(socket, taken.tap, &port.vlans))?;
            }
        }
        told(&taken.port, change(socket, taken.device, &[Change::Up(true)]))
    });
    // What stood on the device must not be lost, whatever the kernel refuses.
    for refused in standing.put(socket, taken.device, taken.tap) {
        log(format_args!("{}: could not take over {refused}", taken.name));
    }
    placed?;
    // What goes from port to port is for us to forward, between VLANs on them, too.
    for refused in told(&taken.name, move_all(socket, taken.device, taken.tap, &|_| true))? {
        log(format_args!("{}: could not take over {refused}", taken.name));
    }
    Ok(())
}

/// Prepares a device that has come back to be the port that it was.
pub fn resume(socket: &mut Socket, taken: &Taken, device: &Device) -> Result<(), String> {
    let index = device.link.index;
    if *device.link.name != *taken.port {
        told(
            &format!("{} to {}", device.link.name, taken.port),
            rename(socket, index, &taken.port),
        )?;
    }
    let standing = Standing::read(socket, index).map_err(|e| format!("{}: {e}", taken.port))?;
    standing.remove(socket);
    write_sysctl(&sysctl("ipv6", &taken.port, "disable_ipv6"), "1");
    told(&taken.port, change(socket, index, &[Change::Up(true)]))
}

/// Returns a device: what stands on the TAP moves to it, and it gets its name again. Works wherever
/// the takeover stopped. The TAP itself disappears with its last descriptor. Returns whether what
/// stood there was found on the TAP: where the TAP is gone, or somebody who has ended has begun to
/// give the device back, the [record](crate::devices::record) knows.
pub fn give_back(socket: &mut Socket, taken: &Taken) -> Result<bool, String> {
    if let Some(end) = taken.end {
        return end.restore(socket, &taken.before).map(|()| true);
    }
    let state = again(|| State::read(socket)).map_err(|e| format!("the kernel's network: {e}"))?;
    let of = |index: u32| state.devices().iter().find(|d| d.link.index == index);
    // One that has come back by its name as a port may not have been taken yet.
    let by_name = || state.devices().iter().find(|d| *d.link.name == *taken.port);
    let Some(device) = of(taken.device).or_else(by_name) else {
        return Err(format!("{}: the device is gone", taken.port));
    };
    let taken = &Taken { device: device.link.index, ..taken.clone() };
    let is_isolated = |name: &str| taken.isolated.iter().any(|n| n == name);
    let waits = |tap: &Device| *tap.link.name != *taken.name && tap.link.name.starts_with(WAITING);
    // One that waits has not taken its place yet, or has left it.
    let tap = of(taken.tap).filter(|tap| !waits(tap));
    let standing = match tap {
        Some(_) => again(|| Standing::read(socket, taken.tap))
            .map_err(|e| format!("{}: {e}", taken.name))?,
        None => Standing::default(),
    };
    let found = tap.is_some() && !standing.is_empty();
    standing.remove(socket);
    if tap.is_some() {
        told(
            &taken.name,
            again(|| rename(socket, taken.tap, &format!("{WAITING}{}", taken.tap % 1_000_000))),
        )?;
    }
    if *device.link.name != *taken.before {
        told(&taken.before, again(|| rename(socket, taken.device, &taken.before)))?;
    }
    if let Some(master) = tap.and_then(|t| t.master.as_ref()) {
        let _ = change(socket, taken.tap, &[Change::Master(0)]);
        told(
            &taken.before,
            again(|| change(socket, taken.device, &[Change::Master(master.index)])),
        )?;
        let settings = tap.map(|t| t.port_settings.as_slice()).unwrap_or_default();
        told(
            &taken.before,
            again(|| set_port(socket, taken.device, settings, Some(is_isolated(&taken.name)))),
        )?;
        if let Some(port) = tap.and_then(|t| t.link.port.as_ref()) {
            told(&taken.before, again(|| set_port_vlans(socket, taken.device, &port.vlans)))?;
        }
    }
    let _ = change(socket, taken.device, &[Change::Generate(taken.generate)]);
    if !taken.gro {
        let _ = set_gro(taken.device, false);
    }
    // The dataplane received the answers to neighbour requests of the kernel on this device:
    // packets would wait for them, and fail.
    let _ = forget_asked(socket, taken.device);
    let mut no_ipv6 = if taken.no_ipv6 { "1" } else { "0" }.to_owned();
    if tap.is_some() {
        // Settings that were changed on the TAP are the device's afterwards.
        let waiting = format!("{WAITING}{}", taken.tap % 1_000_000);
        copy_sysctls(&waiting, &taken.before);
        no_ipv6 = read_sysctl(&sysctl("ipv6", &waiting, "disable_ipv6")).unwrap_or(no_ipv6);
    }
    write_sysctl(&sysctl("ipv6", &taken.before, "disable_ipv6"), &no_ipv6);
    if let Some(tap) = tap {
        let attributes = [Change::Mtu(tap.link.mtu), Change::Up(tap.link.up)];
        told(&taken.before, again(|| change(socket, taken.device, &attributes)))?;
    }
    for refused in standing.put(socket, taken.tap, taken.device) {
        log(format_args!("{}: could not return {refused}", taken.before));
    }
    if of(taken.tap).is_some() {
        for refused in
            told(&taken.before, again(|| move_all(socket, taken.tap, taken.device, &is_isolated)))?
        {
            log(format_args!("{}: could not return {refused}", taken.before));
        }
    }
    Ok(found)
}

/// Returns devices, with the configuration of their TAPs, or that of `seconds` ago if a TAP is gone
/// or if a device was moving. Reports what could not be returned.
pub fn restore(socket: &mut Socket, all: &[WrittenPort], seconds: u32) -> Vec<String> {
    let mut refused: Vec<String> = Vec::new();
    let mut gone = Vec::new();
    for WrittenPort { taken, kept, moving } in all {
        // A TAP may disappear at any time, with the last process that holds it.
        match again(|| give_back(socket, taken)) {
            Ok(true) if !moving || taken.end.is_some() => {}
            Ok(_) => gone.push((kept, taken.device)),
            Err(e) => refused.push(e),
        }
    }
    let is_isolated =
        |name: &str| all.iter().any(|port| port.taken.isolated.iter().any(|n| n == name));
    match Kept::restore(socket, &gone, seconds, &is_isolated) {
        Ok(more) => refused.extend(more.into_iter().map(|e| format!("could not return {e}"))),
        Err(e) => refused.push(format!("the kernel's network: {e}")),
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_are_device_names() {
        for (name, port) in [
            ("eth0", "eth0.port"),
            ("enp0s31f6", "enp0s31f6.port"),
            ("abcdefghijklmno", "abcdefghij.port"),
            ("äöüäöüä", "äöüäö.port"),
        ] {
            assert_eq!(port_name(name), port);
            assert!(port_name(name).len() <= NAME_MAX);
        }
    }
}
