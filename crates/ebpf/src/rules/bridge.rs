// SPDX-License-Identifier: Apache-2.0

//! Before the chains of a bridge table: which frames at tcx come to the hook of the bridge
//! (`br_handle_frame()`, `br_pass_frame_up()`, `__br_forward()`), and the port that a forwarded
//! frame came by.

use std::sync::Arc;

use penstock_bpf::asm::{Alu, Cond, Helper, Reg::*, Width};
use penstock_bpf::{Map, MapKind, MapSpec};
use penstock_program::image::Image;
use penstock_wire::ethernet::Mac;

use super::frame::*;
use super::kernel::Kernel;
use super::skb::LOOPBACK;
use super::{BridgeHook, Compiler, Device, Place, trace};

/// `ingress_ifindex` of `struct __sk_buff`: the device at which the kernel has received the packet.
const SKB_ARRIVED: i16 = 36;

/// The link header as `reach` has it: after the first word of [`SCRATCH`].
const DESTINATION: i16 = 4;
const SOURCE: i16 = DESTINATION + 6;

/// The last byte of a link-local group, or [`NO_GROUP`]; eight bytes.
const GROUP: i16 = SCRATCH + 24;
const NO_GROUP: i32 = 16;

/// `BR_STATE_LEARNING`, `BR_STATE_FORWARDING`
const LEARNING: i32 = 2;
const FORWARDING: i32 = 3;

/// Link-local groups that the bridge treats by themselves: the spanning tree, pause frames, LLDP.
const SPANNING_TREE: i32 = 0;
const PAUSE: i32 = 1;
const LLDP: i32 = 14;

/// A port in the map of ports: name, kind, group, whether it has a kind.
const PORT: usize = 40;
const PORT_KIND: i16 = 16;
const PORT_GROUP: i16 = 32;
const PORT_HAS_KIND: i16 = 36;

/// Whether chains can run at a hook of bridges. The error is why not.
pub(super) fn check(hook: BridgeHook<'_>, image: &Image) -> Result<(), String> {
    if trace::traces(image) {
        return Err("programs at tcx of bridges do not tell the steps of traced frames".into());
    }
    let kernel = Kernel::running()?;
    match hook {
        BridgeHook::Prerouting(_) | BridgeHook::Groups if kernel.bridge.is_none() => {
            Err("the running kernel does not say what its bridges are like".into())
        }
        _ => Ok(()),
    }
}

/// A port as the map of ports has it.
fn row(port: &Device) -> (Vec<u8>, Vec<u8>) {
    let interface = &port.interface;
    let has_kind = interface.kind != [0; 16];
    let mut value = Vec::with_capacity(PORT);
    value.extend(interface.name);
    value.extend(interface.kind);
    value.extend(interface.group.to_ne_bytes());
    value.extend(u32::from(has_kind).to_ne_bytes());
    (port.index.to_ne_bytes().to_vec(), value)
}

impl Compiler<'_> {
    /// Passes on what does not come to the hook.
    pub(super) fn bridge_gate(&mut self) {
        let Place::Bridge(hook, _) = self.job.place else { return };
        match hook {
            BridgeHook::Forward(ports) => {
                let ports = self.ports(ports);
                self.came_by(&ports);
                self.asm.jump_if(Cond::Eq, R0, 0, self.done);
            }
            BridgeHook::Input => self.not_looped(),
            BridgeHook::Prerouting(_) | BridgeHook::Groups => {
                self.not_looped();
                self.port_gate(hook);
            }
        }
    }

    /// Copies of what the host has sent do not come from the bridge.
    fn not_looped(&mut self) {
        self.raw_packet_type();
        self.asm.jump_if(Cond::Eq, R4, LOOPBACK, self.done);
    }

    /// Addresses at [`DESTINATION`] and [`SOURCE`] from R2 on.
    fn addresses(&mut self) {
        self.asm.mov(COUNTERS, 0);
        // Twelve bytes are an odd number of words.
        self.reach(0, 12, self.done);
    }

    /// What `br_handle_frame()` asks of a frame before its hook.
    fn port_gate(&mut self, hook: BridgeHook<'_>) {
        let Some(kernel) = Kernel::running().ok().filter(|kernel| kernel.bridge.is_some()) else {
            return;
        };
        let Some(path) = &kernel.bridge else { return };
        self.addresses();
        let [known, plain, state, meets] = [(); 4].map(|()| self.asm.label());
        let done = self.done;
        let asm = &mut self.asm;
        // The source is one station (`is_valid_ether_addr()`).
        asm.load(Width::B, R4, R2, SOURCE);
        asm.alu(Alu::And, R4, 1);
        asm.jump_if(Cond::Ne, R4, 0, done);
        asm.load(Width::H, R4, R2, SOURCE);
        asm.load(Width::W, R5, R2, SOURCE + 2);
        asm.alu(Alu::Or, R4, R5);
        asm.jump_if(Cond::Eq, R4, 0, done);
        // 01:80:c2:00:00:0X
        asm.load(Width::W, R4, R2, DESTINATION);
        asm.jump_if32(Cond::Ne, R4, i32::from_ne_bytes([0x01, 0x80, 0xc2, 0]), plain);
        asm.load(Width::B, R4, R2, DESTINATION + 4);
        asm.jump_if(Cond::Ne, R4, 0, plain);
        asm.load(Width::B, R4, R2, DESTINATION + 5);
        asm.jump_if(Cond::Lt, R4, NO_GROUP, known);
        asm.bind(plain);
        asm.mov(R4, NO_GROUP);
        asm.bind(known);
        asm.store(Width::D, R10, GROUP, R4);
        // The port in COUNTERS, the bridge in R0.
        asm.mov(R1, CONTEXT);
        asm.call_kfunc(kernel.of_context);
        asm.load(Width::D, R1, R0, kernel.skb.dev);
        asm.load(Width::D, R1, R1, path.port);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.mov(COUNTERS, R0);
        asm.load(Width::D, R1, COUNTERS, path.bridge);
        // It is no port any more.
        asm.jump_if(Cond::Eq, R1, 0, done);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.load(Width::D, R4, R10, GROUP);
        let no_group = if hook == BridgeHook::Groups { done } else { state };
        asm.jump_if(Cond::Ge, R4, NO_GROUP, no_group);
        asm.jump_if(Cond::Eq, R4, PAUSE, done);
        asm.load(Width::H, R5, COUNTERS, path.port_groups);
        for groups in path.groups {
            asm.load(Width::H, R1, R0, groups);
            asm.alu(Alu::Or, R5, R1);
        }
        asm.alu(Alu::Rsh, R5, R4);
        asm.alu(Alu::And, R5, 1);
        if hook == BridgeHook::Groups {
            asm.jump_if(Cond::Ne, R5, 0, done);
            asm.jump_if(Cond::Eq, R4, SPANNING_TREE, done);
            asm.jump_if(Cond::Eq, R4, LLDP, done);
            // In any state of the port.
        } else {
            asm.jump_if(Cond::Ne, R5, 0, state);
            asm.jump_if(Cond::Ne, R4, SPANNING_TREE, done);
            asm.load(Width::W, R1, R0, path.spanning_tree);
            asm.jump_if(Cond::Ne, R1, 0, done);
            asm.bind(state);
            asm.load(Width::B, R1, COUNTERS, path.port_state);
            asm.jump_if(Cond::Eq, R1, LEARNING, meets);
            asm.jump_if(Cond::Ne, R1, FORWARDING, done);
        }
        asm.bind(meets);
    }

    /// R4 = how a frame from a port is addressed: what is for the bridge is for the host.
    pub(super) fn bridge_packet_type(&mut self, mac: Mac) {
        let Mac([a, b, c, d, e, f]) = mac;
        let (other, known) = (self.asm.label(), self.asm.label());
        self.addresses();
        self.asm.load(Width::W, R5, R2, DESTINATION);
        self.asm.jump_if32(Cond::Ne, R5, i32::from_ne_bytes([a, b, c, d]), other);
        self.asm.load(Width::H, R5, R2, DESTINATION + 4);
        self.asm.mov(R4, 0);
        self.asm.jump_if32(Cond::Eq, R5, i32::from(u16::from_ne_bytes([e, f])), known);
        self.asm.bind(other);
        self.raw_packet_type();
        self.asm.bind(known);
    }

    /// The map of ports by their indices.
    fn ports(&mut self, ports: &[Device]) -> Arc<Map> {
        let spec = MapSpec {
            name: "bridge_ports",
            kind: MapKind::Hash,
            key: 4,
            value: PORT as u32,
            entries: ports.len().max(1) as u32,
        };
        self.constant(spec, ports.iter().map(row).collect())
    }

    /// R0 = the port that the frame came by, or 0.
    fn came_by(&mut self, ports: &Arc<Map>) {
        self.asm.load(Width::W, R1, CONTEXT, SKB_ARRIVED);
        self.asm.store(Width::W, R10, OPAQUE + 4, R1);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(OPAQUE) + 4);
        self.asm.map(R1, ports);
        self.asm.call(Helper::MapLookup);
    }

    /// Fields of the port that a forwarded frame came by.
    pub(super) fn bridge_arrival(&mut self) {
        let Place::Bridge(BridgeHook::Forward(ports), _) = self.job.place else { return };
        let of_arrival = |slot: &Slot| {
            matches!(
                slot.field,
                Field::Index(Side::In)
                    | Field::Name(Side::In)
                    | Field::Group(Side::In)
                    | Field::Kind(Side::In)
            )
        };
        let fields: Vec<_> = self.plan.slots.iter().filter(of_arrival).collect();
        if fields.is_empty() {
            return;
        }
        let ports = self.ports(ports);
        self.came_by(&ports);
        self.asm.jump_if(Cond::Eq, R0, 0, self.done);
        self.asm.mov(COUNTERS, R0);
        for slot in fields {
            let without = self.asm.label();
            self.asm.mov(R2, COUNTERS);
            match slot.field {
                Field::Index(_) => {
                    self.asm.load(Width::W, R4, CONTEXT, SKB_ARRIVED);
                    self.asm.store(Width::W, R10, slot.at, R4);
                    self.present(slot);
                }
                Field::Name(_) => self.copy(0, slot, 16),
                Field::Group(_) => self.copy(PORT_GROUP, slot, 4),
                _ => {
                    self.asm.load(Width::W, R1, COUNTERS, PORT_HAS_KIND);
                    self.asm.jump_if(Cond::Eq, R1, 0, without);
                    self.copy(PORT_KIND, slot, 16);
                }
            }
            self.asm.bind(without);
        }
    }
}
