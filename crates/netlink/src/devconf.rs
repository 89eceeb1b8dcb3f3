// SPDX-License-Identifier: Apache-2.0

//! Settings of devices, as the kernel keeps them in `/proc/sys/net`.

use std::fs;
use std::path::PathBuf;

use penstock_net::{Devconf, DevconfFamily, DevconfValues, KernelDevconf, fixed_devconf};

/// The file of a setting, in the network namespace of the calling thread.
pub fn devconf_file(family: DevconfFamily, device: &str, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/{}/conf/{device}/{name}", family.name()))
}

/// The value of a setting; `None` without the device, the setting, or IPv6 in the kernel.
fn read(family: DevconfFamily, device: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(devconf_file(family, device, name)).ok()?;
    // Negative values, which some settings have, are above all others.
    text.trim().parse::<i32>().ok().map(i32::cast_unsigned)
}

/// Puts what the kernel has for a device, or for `all`, into values.
fn read_all(device: &str, values: &mut DevconfValues) {
    for setting in Devconf::all() {
        if let Some(value) = read(setting.family(), device, setting.name()) {
            values.set(setting, value);
        }
    }
}

/// Reads the settings of `all` and of links, by index and name.
///
/// Where the host forwards nothing at all (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`),
/// that is about the host: packets here are forwarded.
pub fn read_devconf<'n>(links: impl Iterator<Item = (u32, &'n str)>) -> KernelDevconf {
    let mut devconf = KernelDevconf::default();
    read_all("all", &mut devconf.all);
    let forwarding = [Devconf::Forwarding4, Devconf::Forwarding6];
    let off = forwarding.map(|setting| devconf.all.get(setting) == 0);
    let forward = |values: &mut DevconfValues| {
        for (setting, off) in forwarding.into_iter().zip(off) {
            if off {
                values.set(setting, 1);
            }
        }
    };
    forward(&mut devconf.all);
    for (index, name) in links {
        let mut values = DevconfValues::of_device();
        read_all(name, &mut values);
        forward(&mut values);
        devconf.links.insert(index, values);
    }
    devconf
}

/// Settings of a device, or of `all`, that the kernel would follow and that are not followed here,
/// as sysctl(8) names them.
pub fn unfollowed_devconf(device: &str) -> Vec<String> {
    // Both values must be on for it to count, and that of devices is from the beginning.
    let by_all = |(family, name, _): &(DevconfFamily, &str, u32)| {
        (*family, *name) == (DevconfFamily::Ipv4, "accept_source_route") && device != "all"
    };
    let differs = |(family, name, fixed): (DevconfFamily, &str, u32)| {
        let value = read(family, device, name).filter(|value| *value != fixed)?;
        let value = value.cast_signed();
        Some(format!("net.{}.conf.{device}.{name}={value}", family.name()))
    };
    fixed_devconf().filter(|row| !by_all(row)).filter_map(differs).collect()
}
