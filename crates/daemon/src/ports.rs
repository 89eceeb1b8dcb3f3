//! How the frames of ports come and go: chosen by what works, or as it is asked for.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use penstock_bpf::Mode;
use penstock_io::device::{
    PacketRx, PacketTx, Rx, Shut, Tap, TapRx, TapTx, Tx, XdpDevice, XdpKind, XdpWish, promiscuous, xdp,
};

use penstock_netlink::Device;
use penstock_wire::ethernet::Mac;

use crate::offload::Receives;
use crate::takeover::Taken;

/// What carries frames from and to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// AF_XDP without copies where the device's driver can, else packet sockets.
    #[default]
    Auto,
    /// Packet sockets: super-packets pass whole.
    Packet,
    /// AF_XDP, however it works: the best for small packets.
    Xdp,
    /// AF_XDP in the kernel's generic way.
    XdpGeneric,
}

impl Driver {
    /// By the words of the command line.
    pub const NAMES: [(&str, Driver); 4] = [
        ("auto", Driver::Auto),
        ("packet", Driver::Packet),
        ("xdp", Driver::Xdp),
        ("xdp-generic", Driver::XdpGeneric),
    ];
}

/// What carries the frames of a port, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A packet socket.
    Packet,
    /// AF_XDP.
    Xdp(XdpKind),
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carrier::Packet => f.write_str("packet socket"),
            Carrier::Xdp(XdpKind { mode: Mode::Generic, .. }) => f.write_str("AF_XDP, generic"),
            Carrier::Xdp(XdpKind { zero_copy: true, .. }) => f.write_str("AF_XDP, zero copy"),
            Carrier::Xdp(XdpKind { zero_copy: false, .. }) => f.write_str("AF_XDP, copies"),
        }
    }
}

/// A port with both its sides.
#[derive(Debug)]
pub struct Port {
    /// What was taken for it.
    pub taken: Taken,
    /// The device.
    pub wire: Wire,
    /// What the host sends.
    pub host_rx: Rx,
    /// What the host receives.
    pub host_tx: Tx,
}

/// The device of a port, opened.
#[derive(Debug)]
pub struct Wire {
    /// What carries its frames.
    pub carrier: Carrier,
    /// Its queues.
    pub rx: Vec<Rx>,
    /// To it.
    pub tx: Tx,
    /// The device, as programs on it need to know it.
    pub config: WireConfig,
    /// How its frames are received.
    pub(crate) receives: Receives,
    /// Keeps the device promiscuous, and the kernel from what it receives.
    pub held: Held,
}

/// What holds as long as the port is there.
#[derive(Debug)]
pub struct Held {
    _promiscuous: OwnedFd,
    _shut: Option<Shut>,
}

/// The device of a port, as its driver needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct WireConfig {
    /// Bytes of network-layer packet.
    pub mtu: u32,
    /// Queues that receive.
    pub queues: u32,
    /// A device of the kernel's own: a veth, for instance.
    pub is_virtual: bool,
    /// Link address.
    pub mac: Mac,
}

/// Whether super-packets may come by a device that is not cut for XDP: from neighbours on this machine, or from the host of a
/// virtual one.
pub(crate) fn has_super_packets(device: &str, wire: &WireConfig) -> bool {
    let driver = std::fs::read_link(format!("/sys/class/net/{device}/device/driver"));
    wire.is_virtual || driver.is_ok_and(|driver| driver.ends_with("virtio_net"))
}

/// Bytes of a frame beyond its packet: link header and two tags.
const FRAME: usize = 22;

impl WireConfig {
    /// Of a device.
    pub fn of(device: &Device) -> Self {
        let is_virtual = !device.link.kind_name().is_empty();
        WireConfig { mtu: device.link.mtu, queues: device.queues, is_virtual, mac: device.link.mac }
    }
}

impl Port {
    /// Opens both sides.
    pub fn open(taken: Taken, config: WireConfig, driver: Driver, tap: Tap) -> Result<Port, String> {
        let wire = Wire::open(&taken.port, taken.device, config, driver)?;
        let error = |e: std::io::Error| format!("{}: {e}", taken.name);
        wire.fit(&tap).map_err(error)?;
        let host_rx = Rx::Tap(TapRx::new(tap.try_clone().map_err(error)?));
        let host_tx = Tx::Tap(TapTx::new(tap));
        Ok(Port { taken, wire, host_rx, host_tx })
    }
}

impl Wire {
    /// Opens the device with this name and index.
    pub fn open(name: &str, index: u32, config: WireConfig, driver: Driver) -> Result<Wire, String> {
        let error = |e: std::io::Error| format!("{name}: {e}");
        let held_promiscuous = promiscuous(index).map_err(error)?;
        let fits = config.mtu as usize + FRAME <= xdp::LONGEST;
        let wish = match driver {
            Driver::Auto if fits && !config.is_virtual => Some(XdpWish::ZeroCopy),
            Driver::Auto | Driver::Packet => None,
            Driver::Xdp => Some(XdpWish::Any),
            Driver::XdpGeneric => Some(XdpWish::Generic),
        };
        let by_xdp = match wish.map(|wish| XdpDevice::open(index, config.queues, wish)) {
            Some(Ok(device)) => Some(device),
            Some(Err(e)) if driver != Driver::Auto => return Err(format!("AF_XDP on {}", error(e))),
            Some(Err(_)) | None => None,
        };
        let (rx, tx, carrier, receives) = match by_xdp {
            Some(XdpDevice { rx, tx, kind, redirect }) => {
                let rx = rx.into_iter().map(Rx::Xdp).collect();
                (rx, Tx::Xdp(tx), Carrier::Xdp(kind), Receives::Xdp(redirect))
            }
            None => {
                let rx = PacketRx::open(index, config.mtu as usize + FRAME).map_err(error)?;
                let tx = PacketTx::open(index).map_err(error)?;
                let socket = rx.as_fd().try_clone_to_owned().map_err(error)?;
                let receives = Receives::Packet(Arc::new(vec![socket]));
                (vec![Rx::Packet(rx)], Tx::Packet(tx), Carrier::Packet, receives)
            }
        };
        let shut = Shut::device(index);
        let shut = match (shut, carrier) {
            (Ok(shut), _) => Some(shut),
            // What the program does not redirect is little: nothing of it is for a device without addresses.
            (Err(_), Carrier::Xdp(_)) => None,
            (Err(e), Carrier::Packet) => {
                return Err(format!("{name}: the kernel cannot be kept from it (tcx, Linux 6.6): {e}"));
            }
        };
        let held = Held { _promiscuous: held_promiscuous, _shut: shut };
        Ok(Wire { carrier, rx, tx, config, receives, held })
    }

    /// Lets the host hand over what the wire can take: super-packets, or only frames.
    pub fn fit(&self, tap: &Tap) -> std::io::Result<()> {
        tap.set_offloads(self.carrier == Carrier::Packet)
    }
}
