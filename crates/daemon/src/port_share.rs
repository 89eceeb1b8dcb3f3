// SPDX-License-Identifier: Apache-2.0

//! What a worker has of a port: where it receives, where it sends, and how the port is called.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use penstock_io::device::{Rx, Tx};
use penstock_print::show::status::PortTraffic;

use crate::devices::ports::{Held, Port, WireShare};

/// A receiving side, and its port.
#[derive(Debug)]
pub(crate) struct In {
    pub(crate) port: usize,
    pub(crate) rx: Rx,
    /// Each worker receives its share of the frames there.
    pub(crate) spread: bool,
}

/// The sending sides of a port, a worker's own.
#[derive(Debug)]
pub(crate) struct Out {
    /// Index of the TAP.
    pub(crate) index: u32,
    pub(crate) tx: Tx,
    pub(crate) host_tx: Tx,
    pub(crate) traffic: PortTraffic,
    /// Until when a DHCP client of the host may get an answer; 0 if none has asked.
    pub(crate) dhcp_until: Arc<AtomicU64>,
}

/// Words about a port for `show`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) carrier: String,
}

/// What one worker has of a port.
#[derive(Debug)]
pub(crate) struct PortShare {
    /// The number of the port.
    pub(crate) number: usize,
    /// The queues of the device.
    pub(crate) wires: Vec<In>,
    /// What the host sends.
    pub(crate) hosts: Vec<In>,
    pub(crate) out: Out,
    pub(crate) named: Named,
    /// What one of the workers holds.
    pub(crate) held: Option<Held>,
}

/// What each worker has of a port that gets a number.
pub(crate) fn shares(port: Port, number: usize) -> Vec<PortShare> {
    let named = Named {
        name: port.taken.name.clone(),
        device: port.taken.port.clone(),
        carrier: port.wire.carrier.to_string(),
    };
    let (index, dhcp_until) = (port.taken.tap, Arc::<AtomicU64>::default());
    let share = |(wire, host): (WireShare, (Rx, Tx))| {
        let WireShare { rx, tx, spread, held, .. } = wire;
        let (host_rx, host_tx) = host;
        let dhcp_until = dhcp_until.clone();
        PortShare {
            number,
            wires: rx.into_iter().map(|rx| In { port: number, rx, spread }).collect(),
            hosts: vec![In { port: number, rx: host_rx, spread: true }],
            out: Out { index, tx, host_tx, traffic: PortTraffic::default(), dhcp_until },
            named: named.clone(),
            held,
        }
    };
    port.wire.share().into_iter().zip(port.host).map(share).collect()
}
