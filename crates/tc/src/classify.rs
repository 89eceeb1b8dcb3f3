// SPDX-License-Identifier: Apache-2.0

//! Packets through filters and actions (`tcf_classify()`, `tcf_action_exec()`).

use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_wire::vlan;

use crate::action::{Action, Control, Tokens, VlanAction};
use crate::config::{ALL, Config, Filter, Hook, Kind, protocol_of};

/// Filters may start again so often (`max_reclassify_loop`).
const RECLASSIFY: u8 = 16;

/// What filters remember: tokens of policers.
#[derive(Clone, Debug, Default)]
pub struct State {
    tokens: Vec<Tokens>,
}

impl State {
    /// Full buckets.
    pub fn new(config: &Config) -> Self {
        State { tokens: vec![Tokens::default(); config.policers] }
    }
}

/// Where a packet is among the filters of a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    filter: usize,
    /// Next action of a filter that matched.
    action: Option<usize>,
    restarts: u8,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It continues.
    Pass,
    /// It is dropped.
    Drop,
    /// It is gone, without counting as a drop.
    Taken,
    /// It goes to another device and no further here.
    Redirect {
        /// Which.
        device: u32,
        /// As if it had come in there; else it leaves by it.
        ingress: bool,
    },
    /// A copy goes to another device; then [`Config::classify`] must be called again with the same
    /// cursor.
    Mirror {
        /// Which.
        device: u32,
        /// As if it had come in there; else it leaves by it.
        ingress: bool,
    },
}

impl Filter {
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        if self.protocol != ALL && self.protocol != protocol_of(packet) {
            return false;
        }
        match &self.kind {
            Kind::MatchAll => true,
            Kind::Fw { mark, mask } => packet.meta.mark & mask == *mark,
            Kind::U32(keys) => keys.matches(packet),
            Kind::Flower(fields) => fields.matches(packet),
        }
    }
}

impl Config {
    /// Takes a packet through the filters at a hook of a device, from the cursor on to the next
    /// step.
    pub fn classify(
        &self,
        hook: Hook,
        device: u32,
        cursor: &mut Cursor,
        packet: &mut Packet,
        state: &mut State,
    ) -> Step {
        let filters = self.filters(hook, device);
        while let Some(filter) = filters.get(cursor.filter) {
            let mut at = match cursor.action {
                Some(at) => at,
                None if filter.matches(packet) => 0,
                None => {
                    cursor.filter += 1;
                    continue;
                }
            };
            // A filter that chooses a class only ends the search.
            let mut control = if filter.actions.is_empty() { Control::Ok } else { Control::Pipe };
            while let (Control::Pipe, Some(action)) = (control, filter.actions.get(at)) {
                at += 1;
                let len = packet.len() as u64;
                control = match action {
                    Action::Plain(control) => *control,
                    Action::Mirred { device, to_ingress, copy, control } => {
                        let (device, ingress) = (*device, *to_ingress);
                        if !copy {
                            return Step::Redirect { device, ingress };
                        }
                        // What follows the copy is looked at when the caller comes back.
                        match control {
                            Control::Pipe => cursor.action = Some(at),
                            Control::Continue => {
                                (cursor.action, cursor.filter) = (None, cursor.filter + 1)
                            }
                            _ => (cursor.action, cursor.filter) = (None, filters.len()),
                        }
                        return Step::Mirror { device, ingress };
                    }
                    Action::Skbedit { mark, priority, to_host, control } => {
                        if let Some((value, mask)) = mark {
                            packet.meta.mark = packet.meta.mark & !mask | value & mask;
                        }
                        if let Some(priority) = priority {
                            packet.meta.priority = *priority;
                        }
                        if *to_host {
                            packet.meta.packet_type = PacketType::Host;
                        }
                        *control
                    }
                    Action::Vlan { change, control } => {
                        if retag(packet, *change) {
                            *control
                        } else {
                            Control::Shot
                        }
                    }
                    Action::Police(police) => match state.tokens.get_mut(police.state) {
                        Some(tokens) => police.decide(tokens, len, packet.meta.time),
                        None => police.conform,
                    },
                };
            }
            cursor.action = None;
            match control {
                // After the last action nothing is left to do but to pass.
                Control::Ok | Control::Pipe => return Step::Pass,
                Control::Shot => return Step::Drop,
                Control::Stolen => return Step::Taken,
                Control::Continue => cursor.filter += 1,
                Control::Reclassify => {
                    cursor.restarts += 1;
                    if cursor.restarts >= RECLASSIFY {
                        return Step::Drop;
                    }
                    cursor.filter = 0;
                }
            }
        }
        Step::Pass
    }
}

/// `tcf_vlan_act()`. `false` if the packet must be dropped.
fn retag(packet: &mut Packet, change: VlanAction) -> bool {
    let at_link = packet.data_start() < 0;
    let done = match change {
        VlanAction::Pop => {
            // What has no tag stays as it is.
            if packet.meta.vlan.is_none() && packet.untag().is_err() {
                false
            } else {
                packet.meta.vlan = None;
                packet.untag().is_ok()
            }
        }
        VlanAction::Push { protocol, id, priority } => {
            let tci = id | u16::from(priority) << vlan::PRIORITY_SHIFT;
            // A tag that the packet has becomes payload (`skb_vlan_push()`).
            packet.restore_tag();
            packet.push_tag(VlanTag { protocol, tci });
            true
        }
        VlanAction::Modify { protocol, id, priority } => {
            if packet.meta.vlan.is_none() && packet.untag().is_err() {
                return false;
            }
            if let Some(tag) = &mut packet.meta.vlan {
                tag.protocol = protocol.unwrap_or(tag.protocol);
                if let Some(id) = id {
                    tag.tci = tag.tci & !vlan::VID_MASK | id;
                }
                if let Some(priority) = priority {
                    let other = (1 << vlan::PRIORITY_SHIFT) - 1;
                    tag.tci = tag.tci & other | u16::from(priority) << vlan::PRIORITY_SHIFT;
                }
            }
            true
        }
    };
    if at_link {
        packet.data_at_link();
    }
    done
}
