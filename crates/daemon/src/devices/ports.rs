// SPDX-License-Identifier: Apache-2.0

//! How the frames of ports come and go: chosen by what works, or as it is asked for.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use penstock_bpf::Mode;
use penstock_io::device::{
    Launcher, PacketRx, PacketTx, Redirect, Rx, Shut, Tap, TapRx, TapTx, Tx, Unfiltered, XdpDevice,
    XdpKind, XdpWish, interface_index, promiscuous, set_gro, xdp,
};

use penstock_netlink::{Device, TapLink};
use penstock_wire::ethernet::Mac;

use crate::config::Driver;
use crate::devices::takeover::Taken;
use crate::log;

/// What sends bursts from XDP, if some port's frames may be copied by AF_XDP.
pub(crate) fn launcher(mut drivers: impl Iterator<Item = Driver>) -> Option<Arc<Launcher>> {
    let open = || {
        Launcher::open(XdpDevice::PLACES).inspect_err(|e| {
            log(format_args!("AF_XDP sockets send bursts, too, frame by frame: {e}"))
        })
    };
    drivers.any(|driver| driver == Driver::Xdp).then(open)?.ok()
}

/// What carries the frames of a port, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A packet socket.
    Packet,
    /// AF_XDP.
    Xdp(XdpKind),
    /// The file of a TAP.
    Tap,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carrier::Packet => f.write_str("packet socket"),
            Carrier::Tap => f.write_str("TAP file"),
            Carrier::Xdp(XdpKind { mode: Mode::Generic, .. }) => f.write_str("AF_XDP, generic"),
            Carrier::Xdp(XdpKind { zero_copy: true, .. }) => f.write_str("AF_XDP, zero copy"),
            Carrier::Xdp(XdpKind { zero_copy: false, .. }) => f.write_str("AF_XDP, copies"),
        }
    }
}

/// How frames of a port are received, as far as programs have to know.
#[derive(Clone, Debug)]
pub(crate) enum Receives {
    /// AF_XDP sockets, and the program that redirects frames to them.
    Xdp(Arc<Redirect>),
    /// By packet sockets.
    Packet(Arc<Vec<OwnedFd>>),
}

/// A port with both its sides.
#[derive(Debug)]
pub struct Port {
    /// What was taken for it.
    pub taken: Taken,
    /// The device.
    pub wire: Wire,
    /// What the host sends and receives, for each worker.
    pub host: Vec<(Rx, Tx)>,
}

/// The device of a port, opened.
#[derive(Debug)]
pub struct Wire {
    /// What carries its frames.
    pub carrier: Carrier,
    /// Its queues, by worker, and what each sends to it by.
    pub sides: Vec<(Vec<Rx>, Tx)>,
    /// Each worker receives its share; otherwise there are more workers than queues.
    pub spread: bool,
    /// The device, as programs on it need to know it.
    pub config: WireConfig,
    /// How its frames are received, where programs on the device have a part in it.
    pub(crate) receives: Option<Receives>,
    /// The file, if we are the other end of a TAP.
    pub(crate) end: Option<Tap>,
    /// Keeps the device promiscuous, and the kernel from what it receives.
    pub held: Held,
}

/// A worker's share of the device of a port.
#[derive(Debug)]
pub struct WireShare {
    /// What carries its frames.
    pub carrier: Carrier,
    /// Its queues.
    pub rx: Vec<Rx>,
    /// To it.
    pub tx: Tx,
    /// Each worker receives its share.
    pub spread: bool,
    /// What one of them holds.
    pub held: Option<Held>,
}

/// What holds as long as the port is there.
#[derive(Debug)]
pub struct Held {
    _promiscuous: Option<OwnedFd>,
    _shut: Option<Shut>,
    _unfiltered: Option<Unfiltered>,
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
    /// A veth.
    pub is_veth: bool,
    /// Link address.
    pub mac: Mac,
    /// What it is as a TAP.
    pub tap: Option<TapLink>,
    /// Filters keep frames from it that come and go in another way.
    pub closes: bool,
}

/// Whether super-packets may come by a device that is not cut for XDP: from neighbours on this
/// machine, or from the host of a virtual one.
pub(crate) fn has_super_packets(device: &str, is_virtual: bool) -> bool {
    let driver = std::fs::read_link(format!("/sys/class/net/{device}/device/driver"));
    is_virtual || driver.is_ok_and(|driver| driver.ends_with("virtio_net"))
}

/// Bytes of a frame beyond its packet: link header and two tags.
const FRAME: usize = 22;

/// The highest MTU that fits AF_XDP.
pub(crate) const MOST: usize = xdp::LONGEST - FRAME;

impl WireConfig {
    /// Of a device; `closes` if it has, or will get, such filters.
    pub fn of(device: &Device, closes: bool) -> Self {
        let Device { link, queues, tap, .. } = device;
        let kind = link.kind_name();
        let (is_virtual, is_veth) = (!kind.is_empty(), kind == "veth");
        WireConfig {
            mtu: link.mtu,
            queues: *queues,
            is_virtual,
            is_veth,
            mac: link.mac,
            tap: *tap,
            closes,
        }
    }
}

impl Port {
    /// Opens both sides.
    ///
    /// The TAP has one queue per worker; it still has the name that it was created with.
    pub fn open(
        taken: Taken,
        config: WireConfig,
        driver: Driver,
        tap: Tap,
        workers: usize,
        launcher: Option<&Arc<Launcher>>,
    ) -> Result<Port, String> {
        let wire = Wire::open(&taken.port, taken.device, config, driver, workers, launcher)?;
        let error = |e: std::io::Error| format!("{}: {e}", taken.name);
        wire.fit(&tap).map_err(error)?;
        let mut queues =
            (1..workers).map(|_| tap.queue()).collect::<Result<Vec<_>, _>>().map_err(error)?;
        queues.insert(0, tap);
        let sides =
            |tap: Tap| Ok((Rx::Tap(TapRx::new(tap.try_clone()?)?), Tx::Tap(TapTx::new(tap))));
        let host = queues.into_iter().map(sides).collect::<Result<_, _>>().map_err(error)?;
        Ok(Port { taken, wire, host })
    }
}

impl Wire {
    /// Opens the device with this name and index for so many workers. A launcher sends bursts where
    /// AF_XDP copies.
    pub fn open(
        name: &str,
        index: u32,
        config: WireConfig,
        driver: Driver,
        workers: usize,
        launcher: Option<&Arc<Launcher>>,
    ) -> Result<Wire, String> {
        let error = |e: std::io::Error| format!("{name}: {e}");
        if driver == Driver::Tap {
            return Wire::open_end(name, index, config, workers).map_err(error);
        }
        let held_promiscuous = promiscuous(index).map_err(error)?;
        let fits = config.mtu as usize <= MOST;
        let wish = match driver {
            Driver::Auto if fits && !config.is_virtual => Some(XdpWish::ZeroCopy),
            Driver::Auto | Driver::Packet | Driver::Tap => None,
            Driver::Xdp => Some(XdpWish::Any),
            Driver::XdpGeneric => Some(XdpWish::Generic),
        };
        if wish.is_some() && !fits {
            return Err(format!(
                "{name}: AF_XDP takes no more than an MTU of {MOST}, and it is {}: use --driver packet, or a smaller MTU",
                config.mtu
            ));
        }
        let by_xdp = match wish.map(|wish| XdpDevice::open(index, config.queues, wish, launcher)) {
            Some(Ok(device)) => Some(device),
            Some(Err(e)) if driver != Driver::Auto => {
                return Err(format!("AF_XDP on {}", error(e)));
            }
            Some(Err(_)) | None => None,
        };
        let send = || PacketTx::open(index).map(Tx::Packet).map_err(error);
        let (sides, spread, carrier, receives) = match by_xdp {
            Some(XdpDevice { queues, kind, redirect }) => {
                let spread = queues.len() >= workers;
                let mut sides: Vec<(Vec<Rx>, Option<Tx>)> =
                    (0..workers).map(|_| Default::default()).collect();
                for (number, (rx, tx)) in queues.into_iter().enumerate() {
                    let (all, own) = &mut sides[number % workers];
                    all.push(Rx::Xdp(rx));
                    own.get_or_insert(Tx::Xdp(tx));
                }
                let with_tx = |(rx, tx): (_, Option<Tx>)| Ok((rx, tx.map_or_else(send, Ok)?));
                let sides = sides.into_iter().map(with_tx).collect::<Result<_, String>>()?;
                (sides, spread, Carrier::Xdp(kind), Receives::Xdp(redirect))
            }
            None => {
                if config.is_veth {
                    // As on a physical device, where it is off by default.
                    set_gro(index, true).map_err(error)?;
                }
                let frame = config.mtu as usize + FRAME;
                let rx = PacketRx::open_several(index, frame, workers).map_err(error)?;
                let sockets = rx.iter().map(|rx| rx.as_fd().try_clone_to_owned());
                let receives =
                    Receives::Packet(Arc::new(sockets.collect::<Result<_, _>>().map_err(error)?));
                let sides = rx.into_iter().map(|rx| Ok((vec![Rx::Packet(rx)], send()?)));
                (sides.collect::<Result<_, String>>()?, true, Carrier::Packet, receives)
            }
        };
        let shut = Shut::device(index);
        let shut = match (shut, carrier) {
            (Ok(shut), _) => Some(shut),
            // The program redirects almost everything; the rest is of no use to a device without
            // addresses.
            (Err(_), Carrier::Xdp(_)) => None,
            (Err(e), Carrier::Packet | Carrier::Tap) => {
                return Err(format!(
                    "{name}: the kernel cannot be kept from it (tcx, Linux 6.6): {e}"
                ));
            }
        };
        let unfiltered =
            config.closes.then(|| Unfiltered::device(index)).transpose().map_err(error)?;
        let held =
            Held { _promiscuous: Some(held_promiscuous), _shut: shut, _unfiltered: unfiltered };
        Ok(Wire { carrier, sides, spread, config, receives: Some(receives), end: None, held })
    }

    /// The other end of a TAP. Where it may have several queues, each worker has one; else the
    /// first one receives.
    fn open_end(
        name: &str,
        index: u32,
        config: WireConfig,
        workers: usize,
    ) -> std::io::Result<Wire> {
        let several = config.tap.is_some_and(|tap| tap.several);
        let end = Tap::open_end(name, several)?;
        if interface_index(name)? != index {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        end.set_offloads(true)?;
        let mut sides = Vec::new();
        for worker in 0..workers {
            let queue = if worker > 0 && several { end.queue()? } else { end.try_clone()? };
            let receives = worker == 0 || several;
            let rx =
                receives.then(|| queue.try_clone().and_then(TapRx::new)).transpose()?.map(Rx::Tap);
            sides.push((rx.into_iter().collect(), Tx::Tap(TapTx::new(queue))));
        }
        let held = Held { _promiscuous: None, _shut: None, _unfiltered: None };
        let spread = several || workers == 1;
        Ok(Wire {
            carrier: Carrier::Tap,
            sides,
            spread,
            config,
            receives: None,
            end: Some(end),
            held,
        })
    }

    /// What each worker gets of it.
    pub fn share(self) -> Vec<WireShare> {
        let Wire { carrier, sides, spread, held, .. } = self;
        let mut held = Some(held);
        let share = |(rx, tx)| WireShare { carrier, rx, tx, spread, held: held.take() };
        sides.into_iter().map(share).collect()
    }

    /// Lets the host hand over what the wire can take: super-packets, or only frames.
    pub fn fit(&self, tap: &Tap) -> std::io::Result<()> {
        tap.set_offloads(matches!(self.carrier, Carrier::Packet | Carrier::Tap))
    }
}
