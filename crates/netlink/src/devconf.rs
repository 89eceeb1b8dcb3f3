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

/// Settings that a device keeps for itself, whatever its name and place.
const OWN: [Devconf; 2] = [Devconf::DisableIpv6, Devconf::Mtu6];

/// Those settings of a device that packets follow, by family (IPv6: `true`) and name.
pub(crate) fn device_settings(device: &str) -> Vec<(bool, String, u32)> {
    let settings = Devconf::all().filter(|setting| !OWN.contains(setting));
    let value = |setting: Devconf| {
        let value = read(setting.family(), device, setting.name())?;
        Some((setting.family() == DevconfFamily::Ipv6, setting.name().to_owned(), value))
    };
    settings.filter_map(value).collect()
}

/// Gives a device such settings. What it refuses, it keeps.
pub(crate) fn set_device_settings(device: &str, settings: &[(bool, String, u32)]) {
    for (v6, name, value) in settings {
        let family = if *v6 { DevconfFamily::Ipv6 } else { DevconfFamily::Ipv4 };
        if read(family, device, name).is_some_and(|now| now != *value) {
            let _ = fs::write(devconf_file(family, device, name), value.cast_signed().to_string());
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
    let differs = |(family, name, fixed): (DevconfFamily, &str, u32)| {
        let value = read(family, device, name).filter(|value| *value != fixed)?;
        let value = value.cast_signed();
        Some(format!("net.{}.conf.{device}.{name}={value}", family.name()))
    };
    fixed_devconf().filter_map(differs).collect()
}
