// SPDX-License-Identifier: Apache-2.0

//! Where frames enter the path.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use penstock_dataplane::{Dataplane, Frame, Sink};
use penstock_io::{Cooked, LinkType};
use penstock_net::Network;
use penstock_packet::gso::Headers;
use penstock_packet::{Gso, GsoKind};
use penstock_wire::{ethernet, protocol};

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
    /// From the host, which has routed it to this device.
    Stack(u32),
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
}

/// A frame of a capture on its way into the path.
pub struct Entering<'a> {
    /// Where it enters.
    pub port: InputPort,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// What the bytes begin with.
    pub link: LinkType,
    pub bytes: Cow<'a, [u8]>,
    /// It is a super-packet.
    pub gso: Option<Gso>,
}

impl Entering<'_> {
    /// The frame as one that arrives on a device with others, if it is such a one.
    pub fn arriving(&self) -> Option<Frame<'_>> {
        match self.port {
            InputPort::Device(_) if self.gso.is_none() => self.frame(),
            InputPort::Device(_)
            | InputPort::Host
            | InputPort::HostDevice(_)
            | InputPort::Stack(_) => None,
        }
    }

    /// The frame, if it has an Ethernet header, with its device.
    fn frame(&self) -> Option<Frame<'_>> {
        let (InputPort::Device(device) | InputPort::HostDevice(device) | InputPort::Stack(device)) =
            self.port
        else {
            return None;
        };
        let is_ethernet = self.link == LinkType::Ethernet;
        is_ethernet.then_some(Frame { device, bytes: &self.bytes, time: self.time })
    }

    /// Sends it into the path.
    ///
    /// # Errors
    /// It has no link header, and would need one.
    pub fn send<S: Sink>(&self, path: &mut Dataplane, sink: &mut S) -> Result<(), &'static str> {
        match (self.port, self.frame(), self.gso) {
            (InputPort::Host, ..) => path.send_host(self.ip_packet(), self.time, sink),
            (_, None, _) => {
                return Err("IP packets without a link header cannot be frames of a device");
            }
            (InputPort::Device(_), Some(frame), Some(gso)) => path.receive_super(frame, gso, sink),
            (InputPort::Device(_), Some(frame), None) => path.receive([frame], sink),
            (InputPort::Stack(_), Some(frame), gso) => path.send_from_host(frame, gso, sink),
            (InputPort::HostDevice(device), Some(frame), _) => {
                path.send_raw(device, frame.bytes, frame.time, sink)
            }
        }
        Ok(())
    }

    /// The IP packet: a link header before it is passed over.
    fn ip_packet(&self) -> &[u8] {
        match self.link {
            LinkType::Ethernet => self.bytes.get(ethernet::LEN..).unwrap_or_default(),
            LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => &self.bytes,
            LinkType::Sll | LinkType::Sll2 => {
                Cooked::parse(self.link, &self.bytes).map_or(&[], |cooked| cooked.payload)
            }
        }
    }
}

/// How a frame is segmented that is longer than the MTU of its device: receive offload, or the
/// stack that sent it, has put segments together. `None` for all others. Segments are as long as
/// the MTU allows, since captures do not tell how long they were.
pub fn super_packet(net: &Network, device: u32, frame: &[u8]) -> Option<Gso> {
    let mtu = net.link(device)?.mtu as usize;
    if frame.len() <= mtu {
        return None;
    }
    let headers = Headers::of_frame(frame)?;
    if headers.end - headers.network <= mtu {
        return None;
    }
    let size = mtu.checked_sub(headers.payload - headers.network).filter(|size| *size > 0)?;
    let kind = match headers.protocol {
        protocol::TCP => GsoKind::Tcp,
        _ => GsoKind::Udp,
    };
    Some(Gso { size: u16::try_from(size).ok()?, kind })
}
