// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-neighbour(8).

use crate::config::{Config, Mode};
use crate::lines::{self, Words, unknown};

type Done = Result<(), String>;

pub(crate) fn line(config: &mut Config, w: &mut Words<'_>, mode: Mode) -> Done {
    let mut address = None;
    let mut mac = None;
    let mut dev = None;
    if matches!(mode, Mode::Append | Mode::Prepend) {
        return Err("neighbours are added or replaced".into());
    }
    while let Some(word) = w.next() {
        match word {
            "lladdr" => mac = Some(w.mac()?),
            "dev" => dev = Some(config.link(w.value()?)?.index),
            "nud" => match w.value()? {
                "permanent" | "noarp" => {}
                state @ ("reachable" | "stale" | "delay" | "probe" | "failed" | "incomplete"
                | "none") => {
                    return Err(format!("neighbours are static: \"nud {state}\" is not supported"));
                }
                other => return Err(unknown(other)),
            },
            "router" | "extern_learn" | "managed" => {}
            "protocol" => {
                w.value()?;
            }
            "proxy" => return Err("\"proxy\" is not supported yet".into()),
            "to" => address = Some(w.address()?),
            a if address.is_none() => {
                address =
                    Some(lines::address(a).ok_or_else(|| format!("\"{a}\" is not an address"))?);
            }
            other => return Err(unknown(other)),
        }
    }
    let address = address.ok_or("a neighbour needs an address")?;
    let dev = dev.ok_or("a neighbour needs \"dev DEVICE\"")?;
    let mac = mac.ok_or("a neighbour needs \"lladdr ADDRESS\"")?;
    config.add_neighbour(dev, address, mac, mode)
}
