// SPDX-License-Identifier: Apache-2.0

//! Where frames enter the path.

use std::fmt;
use std::path::Path;

use penstock_dataplane::{Dataplane, Frame, Sink};
use penstock_io::{Cooked, LinkType};
use penstock_net::Network;

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Arrives on a device.
    Device(String),
    /// An IP packet that the host sends.
    Host,
    /// A frame that the host sends raw on a device.
    HostDevice(String),
}

impl Source {
    /// `DEV`, `host`, `host:DEV`; `None` without a name.
    pub fn parse(text: &str) -> Option<Source> {
        match text {
            "" | "host:" => None,
            "host" => Some(Source::Host),
            _ => Some(match text.strip_prefix("host:") {
                Some(device) => Source::HostDevice(device.to_owned()),
                None => Source::Device(text.to_owned()),
            }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Device(name) => f.write_str(name),
            Source::Host => f.write_str("host"),
            Source::HostDevice(name) => write!(f, "host:{name}"),
        }
    }
}

/// Where frames of a capture enter the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPort {
    /// From this device.
    Device(u32),
    /// From the host, as an IP packet.
    Host,
    /// From the host, raw on this device.
    HostDevice(u32),
}

impl InputPort {
    /// The port of frames from a source, in a network read from `file`.
    pub fn of(source: &Source, net: &Network, file: &Path) -> Result<InputPort, String> {
        let device = |name: &str| match net.link_by_name(name) {
            Some(link) if !link.has_link_header() => Err(format!(
                "Error: `{name}` sends and receives no frames itself: use the device below it"
            )),
            Some(link) => Ok(link.index),
            None => Err(format!("Error: {} has no device `{name}`", file.display())),
        };
        Ok(match source {
            Source::Device(name) => InputPort::Device(device(name)?),
            Source::Host => InputPort::Host,
            Source::HostDevice(name) => InputPort::HostDevice(device(name)?),
        })
    }

    /// A frame of a capture as one that arrives on a device, if this is such a way and it has a
    /// link header.
    pub fn arriving<'f>(self, frame: &penstock_io::Frame<'f>) -> Option<Frame<'f>> {
        match self {
            InputPort::Device(device) if frame.link == LinkType::Ethernet => {
                Some(Frame { device, bytes: frame.bytes, time: frame.time })
            }
            InputPort::Device(_) | InputPort::Host | InputPort::HostDevice(_) => None,
        }
    }

    /// Sends a frame of a capture this way.
    ///
    /// # Errors
    /// It has no link header, and would need one.
    pub fn send<S: Sink>(
        self,
        frame: &penstock_io::Frame<'_>,
        path: &mut Dataplane,
        sink: &mut S,
    ) -> Result<(), &'static str> {
        if let Some(frame) = self.arriving(frame) {
            path.receive([frame], sink);
            return Ok(());
        }
        match self {
            InputPort::HostDevice(device) if frame.link == LinkType::Ethernet => {
                path.send_raw(device, frame.bytes, frame.time, sink);
            }
            InputPort::Host => path.send_host(ip_packet(frame), frame.time, sink),
            InputPort::Device(_) | InputPort::HostDevice(_) => {
                return Err("IP packets without a link header cannot be frames of a device");
            }
        }
        Ok(())
    }
}

/// The IP packet of a frame: a link header before it is passed over.
fn ip_packet<'a>(frame: &penstock_io::Frame<'a>) -> &'a [u8] {
    match frame.link {
        LinkType::Ethernet => frame.bytes.get(penstock_wire::ethernet::LEN..).unwrap_or_default(),
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => frame.bytes,
        LinkType::Sll | LinkType::Sll2 => {
            Cooked::parse(frame.link, frame.bytes).map_or(&[], |cooked| cooked.payload)
        }
    }
}
