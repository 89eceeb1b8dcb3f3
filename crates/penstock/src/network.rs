// SPDX-License-Identifier: Apache-2.0

//! Networks: what packets are routed by.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use penstock_net::DevconfSysctls;

use crate::Error;

/// The greatest index that a device can have.
pub const MAX_DEVICE_INDEX: u32 = penstock_net::LARGEST_INDEX;

/// A device of a network, by its index (`ifindex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device(u32);

impl Device {
    /// The device of an index. A frame from a device that is not there is dropped
    /// ([`DropReason::LinkDown`](crate::DropReason::LinkDown)).
    pub const fn from_index(index: u32) -> Self {
        Device(index)
    }

    /// Its index, as in the kernel; `lo` is 1.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// Links, addresses, routes, rules and neighbours of one network namespace that forwards packets.
/// It never changes; [`Dataplane::set_network`](crate::Dataplane::set_network) puts another one in
/// force. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) inner: Arc<penstock_net::Network>,
}

impl Network {
    /// Reads the lines that configure a router, the input of `ip -batch` (and of `bridge -batch`,
    /// after the word `bridge`), in a namespace that has only `lo`. The kernel's consequences
    /// follow: an address makes routes, and a link that is down has none.
    ///
    /// # Errors
    /// [`Error::Network`]: the first line that is wrong, or known to ip(8) and not supported.
    pub fn from_text(text: &str) -> Result<Self, Error> {
        Network::from_named_text("network", text)
    }

    /// Reads lines as [`Network::from_text`] does; errors name `file`.
    ///
    /// # Errors
    /// As of [`Network::from_text`].
    pub fn from_named_text(file: &str, text: &str) -> Result<Self, Error> {
        match penstock_net::Network::from_batch(file, text) {
            Ok(network) => Ok(Network { inner: Arc::new(network) }),
            Err(penstock_net::Error { file, line, message }) => {
                Err(Error::Network { file, line, message })
            }
        }
    }

    /// Reads a file of such lines.
    ///
    /// # Errors
    /// [`Error::File`], or those of [`Network::from_text`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::File { path: path.to_owned(), error })?;
        Network::from_named_text(&path.display().to_string(), &text)
    }

    /// Begins a network in code.
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder::default()
    }

    /// The same network with settings of devices.
    pub(crate) fn with_sysctls(self, sysctls: &DevconfSysctls) -> Self {
        match sysctls.is_empty() {
            true => self,
            false => Network { inner: Arc::new((*self.inner).clone().with_sysctls(sysctls)) },
        }
    }

    /// The device of a name.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub fn device(&self, name: &str) -> Result<Device, Error> {
        let link = self.inner.link_by_name(name);
        link.map(|link| Device(link.index)).ok_or_else(|| Error::NoDevice(name.to_owned()))
    }

    /// The name of a device.
    pub fn name(&self, device: Device) -> Option<&str> {
        self.inner.link(device.0).map(|link| &*link.name)
    }

    /// The link address of a device.
    pub fn address(&self, device: Device) -> Option<[u8; 6]> {
        self.inner.link(device.0).map(|link| link.mac.0)
    }

    /// All devices with their names, in order of creation; the first one is `lo`.
    pub fn devices(&self) -> impl Iterator<Item = (Device, &str)> {
        self.inner.links().iter().map(|link| (Device(link.index), &*link.name))
    }
}

/// A network in the making. Each method adds a line of `ip -batch`; [`NetworkBuilder::build`]
/// returns the error of a wrong one.
///
/// ```
/// let network = penstock::Network::builder()
///     .ethernet("wan", [2, 0, 0, 0, 0, 1])
///     .address("wan", "198.18.0.1".parse()?, 24)
///     .default_route("198.18.0.254".parse()?)
///     .neighbour("wan", "198.18.0.254".parse()?, [2, 0, 0, 0, 0, 0xfe])
///     .line("link set wan mtu 9000")
///     .build()?;
/// assert_eq!(network.name(network.device("wan")?), Some("wan"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NetworkBuilder {
    lines: String,
    refused: Option<String>,
}

struct Mac([u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl NetworkBuilder {
    /// A line as it stands in a file: whatever has no method of its own.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        // Writing to a String does not fail.
        let _ = writeln!(self.lines, "{line}");
        self
    }

    /// An Ethernet device with its link address, up.
    #[must_use]
    pub fn ethernet(self, name: &str, address: [u8; 6]) -> Self {
        let line = format!("link add {name} address {} type veth", Mac(address));
        self.naming(name).line(&line).line(&format!("link set {name} up"))
    }

    /// A device's largest packet, in bytes from the network header on.
    #[must_use]
    pub fn mtu(self, device: &str, mtu: u32) -> Self {
        self.naming(device).line(&format!("link set {device} mtu {mtu}"))
    }

    /// An address of a device, with the prefix that is reached by it.
    #[must_use]
    pub fn address(self, device: &str, address: IpAddr, prefix_len: u8) -> Self {
        self.naming(device).line(&format!("addr add {address}/{prefix_len} dev {device}"))
    }

    /// A prefix that is reached by a gateway.
    #[must_use]
    pub fn route(self, prefix: IpAddr, prefix_len: u8, gateway: IpAddr) -> Self {
        let family = if prefix.is_ipv6() { "-6 " } else { "" };
        self.line(&format!("{family}route add {prefix}/{prefix_len} via {gateway}"))
    }

    /// The gateway of everything else, of the family that its address has.
    #[must_use]
    pub fn default_route(self, gateway: IpAddr) -> Self {
        let family = if gateway.is_ipv6() { "-6 " } else { "" };
        self.line(&format!("{family}route add default via {gateway}"))
    }

    /// The link address of a neighbour.
    #[must_use]
    pub fn neighbour(self, device: &str, address: IpAddr, link_address: [u8; 6]) -> Self {
        let line = format!("neigh add {address} lladdr {} dev {device}", Mac(link_address));
        self.naming(device).line(&line)
    }

    /// Notes a name that would be something else than one word of a line.
    fn naming(mut self, name: &str) -> Self {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "\"'\\#/".contains(c);
        if self.refused.is_none() && (name.is_empty() || name.len() > 15 || name.contains(odd)) {
            self.refused = Some(format!("`{name}` is no name of a device"));
        }
        self
    }

    /// The network.
    ///
    /// # Errors
    /// [`Error::Network`] with the first line that is wrong.
    pub fn build(self) -> Result<Network, Error> {
        let file = "network".to_owned();
        if let Some(message) = self.refused {
            return Err(Error::Network { file, line: 0, message });
        }
        Network::from_named_text(&file, &self.lines).map_err(|error| match error {
            Error::Network { file, line, message } => {
                let text = self.lines.lines().nth(line.saturating_sub(1)).unwrap_or_default();
                Error::Network { file, line, message: format!("{text}: {message}") }
            }
            other => other,
        })
    }
}
