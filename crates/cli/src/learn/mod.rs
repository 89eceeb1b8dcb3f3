// SPDX-License-Identifier: Apache-2.0

//! The network of a host as its captures show it: link addresses, own addresses, neighbours, and
//! which addresses lie on which side.

mod lines;
mod neighbours;
mod own;
mod places;
mod seen;

use std::net::{IpAddr, Ipv4Addr};

use penstock_net::Mac;

use crate::input::Captures;
use places::Host;
use seen::Seen;

pub use neighbours::neighbours;

/// The lowest address.
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What was learned.
#[derive(Debug, PartialEq, Eq)]
pub struct Learned {
    /// Lines for ip(8).
    pub lines: String,
    /// What remains unknown, and what was taken for granted, in sentences.
    pub notes: Vec<String>,
}

/// Learns a network from captures. `own` has the link addresses of devices that the user gave.
///
/// # Errors
/// What the captures do not tell, and what helps.
pub fn network(captures: &Captures, own: &[(String, Mac)]) -> Result<Learned, String> {
    let seen = Seen::of(captures, None)?;
    if seen.devices.is_empty() {
        return Err("Error: the captures have no frame to learn the network from; --net gives it"
            .to_owned());
    }
    if let Some(device) = seen.without_link.first() {
        return Err(format!(
            "Error: the frames of {device} have no link header, and do not tell the network; --net \
             gives it"
        ));
    }
    for ((first, second), packets) in &seen.unchanged {
        let forwarded = seen.forwarded.get(&(*first, *second)).copied().unwrap_or_default();
        if *packets > forwarded {
            let [first, second] = [first, second].map(|number| &seen.devices[*number].name);
            return Err(format!(
                "Error: {packets} packets are on {first} and on {second} unchanged, as on a bridge \
                 and its ports: captures do not tell how these belong together; --net says it, and \
                 `penstock net save` prints it on the host, or leave one of them out"
            ));
        }
    }
    for (name, _) in own {
        if !seen.devices.iter().any(|device| device.name == *name) {
            return Err(format!("Error: --link-address: no capture is of a device `{name}`"));
        }
    }
    let host = Host::of(&seen, own)?;
    Ok(Learned { lines: lines::lines(&host), notes: host.notes })
}
