// SPDX-License-Identifier: Apache-2.0

//! What programs learn of the world in tests.

use std::net::IpAddr;

use penstock_ebpfvm::Host;
use penstock_ebpfvm::connection::{ConnectionFound, ConnectionQuery};
use penstock_ebpfvm::routing::{NetDevice, NoRoute, RouteFound, RouteQuery};

/// A world that goes on, and says what it was told.
#[derive(Default)]
pub struct World {
    now: u64,
    pub lines: Vec<String>,
}

impl Host for World {
    fn now(&mut self) -> u64 {
        self.now += 1000;
        self.now
    }

    fn random(&mut self) -> u32 {
        self.now += 7;
        self.now as u32
    }

    fn trace(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    fn device(&mut self, index: u32) -> Option<NetDevice> {
        let mtu = 64 + index;
        let device = NetDevice { mtu, header: 14, up: true, ..NetDevice::default() };
        (index < 8).then_some(NetDevice { forwards4: true, forwards6: index != 1, ..device })
    }

    fn route(&mut self, query: &RouteQuery) -> Result<RouteFound, NoRoute> {
        let found = RouteFound { device: 2, gateway: None, metric: 3, mtu: 66, source: None };
        if query.tos & 1 == 0 { Ok(found) } else { Err(NoRoute::Prohibit) }
    }

    fn connection(&mut self, query: &ConnectionQuery) -> Option<ConnectionFound> {
        let &ConnectionQuery { tuple, protocol, zones } = query;
        let (status, mark) = (6, 7);
        let [zone, _] = zones;
        let tuples = [tuple; 2];
        let found = ConnectionFound { reply: true, status, mark, zone, protocol, tuples };
        (protocol == 17).then_some(found)
    }

    fn neighbour(&mut self, device: u32, address: IpAddr) -> Option<[u8; 6]> {
        address.is_ipv4().then_some([device as u8; 6])
    }
}
