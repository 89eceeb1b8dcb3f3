// SPDX-License-Identifier: Apache-2.0

//! Places where programs run by hand, and what the interpreter does with a frame there.

use std::sync::Arc;

use penstock_bpf::netfilter::{self, InetFamily, NetfilterHook};
use penstock_bpf::{Program, Ran, tcx, xdp};
use penstock_ebpf::rules::{Device, Entry, Place};
use penstock_packet::Packet;
use penstock_program::env::{Context, Interface};
use penstock_program::image::Image;
use penstock_program::{Family, Hook, Outcome, State, run};
use penstock_testkit::program::MockEnv;
use penstock_wire::ethernet::Mac;

/// Link address of the device.
pub const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

/// A device.
pub fn device() -> Device {
    let interface = Interface { name: name("lan"), kind: name("veth"), arphrd: 1, group: 3 };
    Device { index: 1, mac: MAC, interface }
}

/// What the dataplane does with a frame at a place; whether it continues.
pub fn interpreted(image: &Image, entries: &[Entry], frame: &[u8], spot: Spot) -> bool {
    let mut packet = Packet::new();
    let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
    outside.interfaces.insert(1, spot.interface());
    if !packet.receive_ethernet(frame, spot.mac()) {
        return true;
    }
    packet.meta.iif = 1;
    if packet.untag().is_err() {
        return true;
    }
    packet.find_transport_checked();
    match spot {
        Spot::Xdp | Spot::TcxIngress => {}
        Spot::TcxEgress => {
            outside.context.hook = Hook::Egress;
            (packet.meta.iif, packet.meta.oif) = (0, 1);
            packet.data_at_link();
        }
        Spot::Netfilter(at) => {
            // A run by hand has the devices of output at all hooks (`verify_and_copy_hook_state()`
            // looks at the hook before it has copied it), and the packet is on one, as at
            // postrouting.
            outside.context = Context { family: family(at.family), hook: Hook::Postrouting };
            (packet.meta.iif, packet.meta.oif) = (0, 1);
        }
    }
    for entry in entries {
        let chain = match entry {
            Entry::Netdev(chain) => {
                outside.context.family = Family::Netdev;
                chain
            }
            Entry::Ip(chain) => chain,
            Entry::Bridge(_) => unreachable!("these places are of no bridge"),
            Entry::Inet(chain) => {
                outside.context.family = match packet.meta.protocol {
                    0x0800 => Family::Ip,
                    0x86dd => Family::Ip6,
                    _ => continue,
                };
                if packet.transport().is_none() {
                    return false;
                }
                chain
            }
        };
        match run(image, *chain, &mut packet, &mut outside) {
            Outcome::Accept => {}
            Outcome::Policy if image.chain(*chain).unwrap().policy_accept != Some(false) => {}
            _ => return false,
        }
    }
    true
}

/// The family of rules there.
pub fn family(family: InetFamily) -> Family {
    match family {
        InetFamily::V4 => Family::Ip,
        InetFamily::V6 => Family::Ip6,
    }
}

/// Whether IP lets a packet pass to its hooks.
fn is_valid(frame: &[u8], family: InetFamily) -> bool {
    let packet = &frame[14..];
    let number = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match family {
        InetFamily::V4 => {
            if frame[12..14] != [8, 0] || packet.len() < 20 {
                return false;
            }
            let header = usize::from(packet[0] & 15) * 4;
            packet[0] >> 4 == 4 && header >= 20 && (header..=packet.len()).contains(&number(2))
        }
        InetFamily::V6 => {
            frame[12..14] == [0x86, 0xdd]
                && packet.len() >= 40
                && packet[0] >> 4 == 6
                && number(4) + 40 <= packet.len()
        }
    }
}

/// Where programs run in these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    Xdp,
    TcxIngress,
    TcxEgress,
    Netfilter(NetfilterHook),
}

impl Spot {
    /// By hand packets are as if they came by the loopback device.
    pub fn mac(self) -> Mac {
        if self == Spot::Xdp { MAC } else { Mac::ZERO }
    }

    pub fn interface(self) -> Interface {
        match self {
            Spot::Netfilter(_) => {
                Interface { name: name("lo"), kind: [0; 16], arphrd: 772, group: 0 }
            }
            Spot::Xdp | Spot::TcxIngress | Spot::TcxEgress => device().interface,
        }
    }

    pub fn place(self, device: &Device) -> Place<'_> {
        match self {
            Spot::Xdp => Place::Xdp(device),
            Spot::TcxIngress => Place::TcxIngress(device),
            Spot::TcxEgress => Place::TcxEgress(device),
            Spot::Netfilter(hook) => Place::Netfilter(hook),
        }
    }

    /// Runs a program by hand.
    pub fn run(self, program: &Program, frame: &[u8], repeat: u32) -> std::io::Result<Ran> {
        match self {
            Spot::Netfilter(hook) => program.run_netfilter(frame, hook, repeat),
            _ => program.run(frame, 0, repeat),
        }
    }

    /// The verdicts of packets that continue, and of others.
    pub fn verdicts(self) -> (i32, i32) {
        match self {
            Spot::Xdp => (xdp::PASS, xdp::DROP),
            Spot::TcxIngress | Spot::TcxEgress => (tcx::NEXT, tcx::DROP),
            Spot::Netfilter(_) => (netfilter::ACCEPT, netfilter::DROP),
        }
    }

    /// Whether the kernel makes a packet of a frame that is the same as the interpreter's.
    pub fn suits(self, frame: &[u8]) -> bool {
        let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        match self {
            Spot::Xdp => true,
            // A packet has its tag in the metadata, and something after its link header. The
            // loopback device, by which it comes here, has another broadcast address than others.
            _ if tagged || frame.len() == 14 || frame.starts_with(&[0xff; 6]) => false,
            Spot::TcxIngress => true,
            // The host sends no IP that is malformed.
            Spot::TcxEgress => match frame[12..14] {
                [8, 0] => is_valid(frame, InetFamily::V4),
                [0x86, 0xdd] => is_valid(frame, InetFamily::V6),
                _ => true,
            },
            Spot::Netfilter(hook) => is_valid(frame, hook.family),
        }
    }
}

/// What counters say.
pub fn values(states: &[Arc<State>]) -> Vec<(u64, u64)> {
    let read = |state: &Arc<State>| match &**state {
        State::Counter(counter) => counter.read(),
        _ => unreachable!("only counters are made"),
    };
    states.iter().map(read).collect()
}
