// SPDX-License-Identifier: Apache-2.0

//! Serves as the other end of an existing TAP: its file.
//!
//! ```text
//! user of the TAP (a namespace, a container, a bridge) -- tap0 -- file --[ dataplane ]--[ TAP ]--
//! port -- the host's stack
//! ```
//!
//! The device itself belongs to the neighbour: it keeps its name, and all that stands on it. It may
//! be moved to another namespace once it is open; closed, it is what it was before.

use std::io;
use std::time::{Duration, Instant};

use penstock_io::device::{Tap, TapHeaders};
use penstock_netlink::{Device, Socket, State};
use serde::{Deserialize, Serialize};

use crate::config::{Driver, PortConfig};
use crate::log;

/// What a TAP's file was like before we had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct End {
    headers: TapHeaders,
    header_len: i32,
}

impl End {
    /// Opens the other end of a device, if the port must be that, or may be and the end is free.
    pub(crate) fn of(device: &Device, port: &PortConfig) -> Result<Option<End>, String> {
        let (name, forced) = (&port.device, port.driver == Driver::Tap);
        let Some(tap) = device.tap.filter(|_| matches!(port.driver, Driver::Auto | Driver::Tap))
        else {
            return if forced {
                Err(format!("{name}: no TAP, which --driver tap is for"))
            } else {
                Ok(None)
            };
        };
        let headers = TapHeaders {
            packet_info: tap.packet_info,
            vnet_header: tap.vnet_header,
            several: tap.several,
        };
        let probed = match tap.open {
            0 => Tap::probe(name, headers),
            _ => Err(io::Error::from_raw_os_error(libc::EBUSY)),
        };
        match probed {
            Ok(_) if *name == port.name && !forced => {
                log(format_args!(
                    "{name}: the other end of this TAP is unused, so it has no carrier; {name}=NAME makes a port NAME of that end"
                ));
                Ok(None)
            }
            Ok(_) if *name == port.name => Err(format!(
                "{name}: the TAP stays, as the neighbour's device, and the port of its other end needs another name: {name}=NAME"
            )),
            Ok(header_len) => Ok(Some(End { headers, header_len })),
            Err(e) if forced => {
                let why = match e.raw_os_error() {
                    Some(libc::EBUSY) => "another program has the other end of this TAP",
                    Some(libc::EPERM) => "this TAP belongs to another user",
                    _ => "the other end of this TAP",
                };
                Err(format!("{name}: {why}: {e}"))
            }
            Err(e) => {
                log(format_args!(
                    "{name}: the other end of this TAP is not available ({e}): the device itself is the port"
                ));
                Ok(None)
            }
        }
    }

    /// Leaves the TAP as it was, once all have closed it.
    pub(crate) fn restore(self, socket: &mut Socket, name: &str) -> Result<(), String> {
        /// How long threads, or a process that dies, may take to close it.
        const PATIENCE: Duration = Duration::from_secs(2);
        let end = Instant::now() + PATIENCE;
        loop {
            let state = State::read(socket).map_err(|e| format!("the kernel's network: {e}"))?;
            // In another namespace, or gone, it no longer concerns us.
            let Some(tap) = state.device(name).and_then(|device| device.tap) else { return Ok(()) };
            let restored = match tap.open {
                0 => Tap::restore(name, self.headers, self.header_len),
                _ => Err(io::Error::from_raw_os_error(libc::EBUSY)),
            };
            match restored {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                result => return result.map_err(|e| format!("{name}: {e}")),
            }
        }
    }

    /// As a word of the record.
    fn word(self) -> String {
        let TapHeaders { packet_info, vnet_header, several } = self.headers;
        let bits = u8::from(packet_info) | u8::from(vnet_header) << 1 | u8::from(several) << 2;
        format!("/{bits}/{}", self.header_len)
    }

    /// Of such a word.
    fn of_word(word: &str) -> Option<End> {
        let (bits, len) = word.strip_prefix('/')?.split_once('/')?;
        let bits: u8 = bits.parse().ok()?;
        let on = |bit: u8| bits >> bit & 1 != 0;
        let headers = TapHeaders { packet_info: on(0), vnet_header: on(1), several: on(2) };
        Some(End { headers, header_len: len.parse().ok()? })
    }
}

impl From<End> for String {
    fn from(end: End) -> String {
        end.word()
    }
}

impl TryFrom<String> for End {
    type Error = &'static str;

    fn try_from(word: String) -> Result<End, Self::Error> {
        End::of_word(&word).ok_or("not what a TAP was like")
    }
}

/// A link address for the port: the neighbour has the TAP's. It is the same each time, so that
/// neighbours know it again.
pub(crate) fn own_mac(neighbour: [u8; 6]) -> [u8; 6] {
    /// Given by an administrator of the network, not by a maker.
    const LOCAL: u8 = 2;
    const OTHER: u8 = 4;
    let [first, rest @ ..] = neighbour;
    let [a, b, c, d, e] = rest;
    [(first ^ OTHER) | LOCAL, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_properties_are_a_word_of_the_record() {
        for bits in 0..8u8 {
            let on = |bit: u8| bits >> bit & 1 != 0;
            let headers = TapHeaders { packet_info: on(0), vnet_header: on(1), several: on(2) };
            let end = End { headers, header_len: 10 + i32::from(bits) };
            assert_eq!(End::of_word(&end.word()), Some(end));
        }
        for word in ["", "r0", "/", "/x/10", "/1"] {
            assert_eq!(End::of_word(word), None, "{word}");
        }
    }

    #[test]
    fn a_port_has_another_link_address_than_its_neighbour_and_no_group() {
        for first in 0..=255u8 {
            let mac = [first & 0xfe, 1, 2, 3, 4, 5];
            let own = own_mac(mac);
            assert!(own != mac && own[0] & 1 == 0);
        }
    }
}
