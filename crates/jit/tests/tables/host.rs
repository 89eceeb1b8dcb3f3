// SPDX-License-Identifier: Apache-2.0

//! An outside for lists: [`MockEnv`], at the family of the entry that asks.

use std::net::IpAddr;

use penstock_jit::{Entry, Host};
use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::env::{Context, Env, FibQuery, Interface, Rejection, Route, Trace};
use penstock_program::expr::Log;
use penstock_testkit::program::MockEnv;

#[derive(Clone, Debug)]
pub struct Listed {
    pub outside: MockEnv,
    pub entries: Vec<Entry>,
    /// Ethertype of the packet.
    pub protocol: u16,
}

impl Host for Listed {
    fn enter(&mut self, entry: usize, _begins: bool) {
        self.outside.context.family = match self.entries[entry] {
            Entry::Chain { family, .. } => family,
            Entry::InetIngress { .. } if self.protocol == 0x0800 => Family::Ip,
            Entry::InetIngress { .. } => Family::Ip6,
            // Stages ask for no family.
            Entry::Stage => return,
        };
    }

    /// A stage that marks packets, traces some and ends others.
    fn stage(&mut self, _entry: usize, packet: &mut Packet) -> u32 {
        packet.meta.mark = packet.meta.mark.wrapping_add(1) & 3;
        packet.meta.nftrace |= packet.meta.time.is_multiple_of(5);
        u32::from(packet.meta.time.is_multiple_of(7)) * 9
    }
}

impl Env for Listed {
    fn context(&self) -> Context {
        self.outside.context()
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.outside.interface(index)
    }

    fn random(&mut self) -> u32 {
        self.outside.random()
    }

    fn fib_interface(&mut self, query: &FibQuery) -> Option<u32> {
        self.outside.fib_interface(query)
    }

    fn fib_type(&mut self, query: &FibQuery) -> u8 {
        self.outside.fib_type(query)
    }

    fn route(&mut self, packet: &Packet) -> Option<Route> {
        self.outside.route(packet)
    }

    fn log(&mut self, packet: &Packet, log: &Log) {
        self.outside.log(packet, log);
    }

    fn reject(&mut self, packet: &Packet, rejection: Rejection) {
        self.outside.reject(packet, rejection);
    }

    fn dup(&mut self, packet: &Packet, gateway: Option<IpAddr>, device: Option<u32>) {
        self.outside.dup(packet, gateway, device);
    }

    fn fwd(&mut self, packet: &mut Packet, device: u32, neighbour: Option<IpAddr>) {
        self.outside.fwd(packet, device, neighbour);
    }

    fn trace(&mut self, packet: &Packet, step: Trace<'_>) {
        self.outside.trace(packet, step);
    }
}
