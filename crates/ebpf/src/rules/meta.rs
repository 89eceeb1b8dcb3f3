// SPDX-License-Identifier: Apache-2.0

//! What `meta` keys are at each place (`nft_meta_get_eval()`).

use penstock_bpf::netfilter::InetFamily;
use penstock_program::expr::MetaKey;

use super::chain::Rule;
use super::frame::{Field, Side};
use super::lower::refused;
use super::{BridgeHook, Compiler, Device, Place};
use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Helper, Reg::*};

/// `NFPROTO_NETDEV`, `NFPROTO_BRIDGE`
const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_BRIDGE: u8 = 7;

/// Where a value comes from.
pub(super) enum Source {
    /// A field that is found before the chains.
    Field(Field),
    /// The same for each packet.
    Constant(Vec<u8>),
    /// No packet has it: the rule breaks.
    Absent,
    /// A random number.
    Random,
    /// Number of the processor.
    Processor,
}

/// Where a key comes from; the error is why it has no code. `inet`: in a chain of an inet table at
/// a device.
pub(super) fn source(place: Place<'_>, key: MetaKey, inet: bool) -> Result<Source, String> {
    let is_skb = place.kind() != ProgramKind::Xdp;
    let zeros = |len| Source::Constant(vec![0; len]);
    let none = || Err(place.no_code(format_args!("meta {key}")));
    let unknown_arrival = matches!(place, Place::Bridge(BridgeHook::Input, _));
    let asks_for_arrival =
        matches!(key, MetaKey::Iif | MetaKey::IifName | MetaKey::IifGroup | MetaKey::IifKind);
    if unknown_arrival && asks_for_arrival {
        let message = place.no_code(format_args!("meta {key}"));
        return Err(format!("{message}, where the port of arrival is not known any more"));
    }
    let (arrival, leaving) = match place {
        Place::Xdp(device) | Place::XdpGeneric(device) | Place::TcxIngress(device) => {
            (Some(device), None)
        }
        Place::TcxEgress(device) | Place::Bridge(BridgeHook::Forward(_), device) => {
            (None, Some(device))
        }
        Place::Bridge(_, device) => (Some(device), None),
        Place::Netfilter(hook) => match (key, hook.family) {
            (MetaKey::NfProto, InetFamily::V4 | InetFamily::V6) => {
                return Ok(Source::Constant(vec![hook.family as u8]));
            }
            _ => (None, None),
        },
    };
    let device = |device: Option<&Device>, field: fn(Side) -> Field, side| match (place, device) {
        (Place::Netfilter(_), _) => Source::Field(field(side)),
        (Place::Bridge(BridgeHook::Forward(_), _), None) => Source::Field(field(side)),
        (_, Some(device)) => of_device(device, &field(side)),
        (_, None) => match field(side) {
            // No device has no index and no name.
            Field::Index(_) => zeros(4),
            Field::Name(_) => zeros(16),
            _ => Source::Absent,
        },
    };
    Ok(match key {
        MetaKey::L4Proto => Source::Field(Field::L4Proto),
        MetaKey::Protocol => Source::Field(Field::Protocol),
        MetaKey::Len => Source::Field(Field::Length),
        MetaKey::PktType => Source::Field(Field::PacketType),
        MetaKey::NfProto if inet => Source::Field(Field::NfProto),
        MetaKey::NfProto => match place {
            Place::Bridge(..) => Source::Constant(vec![NFPROTO_BRIDGE]),
            _ => Source::Constant(vec![NFPROTO_NETDEV]),
        },
        MetaKey::Mark if is_skb => Source::Field(Field::Mark),
        MetaKey::Priority if is_skb => Source::Field(Field::Priority),
        // In front of everything that sets them.
        MetaKey::Mark | MetaKey::Priority => zeros(4),
        MetaKey::Iif => device(arrival, Field::Index, Side::In),
        MetaKey::Oif => device(leaving, Field::Index, Side::Out),
        MetaKey::IifName => device(arrival, Field::Name, Side::In),
        MetaKey::OifName => device(leaving, Field::Name, Side::Out),
        // The kernel asks the device that the packet is on.
        MetaKey::IifType => device(arrival.or(leaving), Field::Type, Side::Packet),
        MetaKey::OifType => device(leaving, Field::Type, Side::Out),
        MetaKey::IifGroup => device(arrival, Field::Group, Side::In),
        MetaKey::OifGroup => device(leaving, Field::Group, Side::Out),
        MetaKey::IifKind => device(arrival, Field::Kind, Side::In),
        MetaKey::OifKind => device(leaving, Field::Kind, Side::Out),
        MetaKey::Prandom => Source::Random,
        // In front of sockets and routes.
        MetaKey::SkUid | MetaKey::SkGid | MetaKey::Cgroup | MetaKey::RtClassid => match place {
            Place::Xdp(_) | Place::XdpGeneric(_) | Place::TcxIngress(_) => Source::Absent,
            Place::TcxEgress(_) | Place::Netfilter(_) | Place::Bridge(..) => return none(),
        },
        MetaKey::Cpu if is_skb => Source::Processor,
        MetaKey::Cpu
        | MetaKey::NfTrace
        | MetaKey::SecMark
        | MetaKey::SecPath
        | MetaKey::BriIifName
        | MetaKey::BriOifName
        | MetaKey::BriIifPvid
        | MetaKey::BriIifVproto
        | MetaKey::BriIifHwAddr
        | MetaKey::BriBroute
        | MetaKey::TimeNs
        | MetaKey::TimeDay
        | MetaKey::TimeHour
        | MetaKey::Sdif
        | MetaKey::SdifName => return none(),
    })
}

/// A property of a device that is known.
fn of_device(device: &Device, field: &Field) -> Source {
    let Device { index, interface, .. } = device;
    Source::Constant(match field {
        Field::Index(_) => index.to_ne_bytes().to_vec(),
        Field::Name(_) => interface.name.to_vec(),
        Field::Type(_) => interface.arphrd.to_ne_bytes().to_vec(),
        Field::Group(_) => interface.group.to_ne_bytes().to_vec(),
        Field::Kind(_) if interface.kind != [0; 16] => interface.kind.to_vec(),
        _ => return Source::Absent,
    })
}

impl Compiler<'_> {
    /// `meta` as an expression.
    pub(super) fn meta(&mut self, key: MetaKey, dst: u8, rule: &mut Rule) -> Result<(), String> {
        match source(self.job.place, key, rule.block.inet)? {
            Source::Field(field) => return self.field(field, dst, rule),
            Source::Constant(bytes) => rule.words.set_constant(dst, &bytes),
            Source::Absent => self.asm.jump(rule.next),
            Source::Random => {
                self.asm.call(Helper::Prandom);
                self.keep(dst, R0, 4, rule);
            }
            Source::Processor => {
                self.asm.call(Helper::ProcessorId);
                self.keep(dst, R0, 4, rule);
            }
        }
        Ok(())
    }

    /// `meta … set`: what `struct __sk_buff` lets programs write.
    pub(super) fn meta_set(&mut self, key: MetaKey, src: u8, rule: &Rule) -> Result<(), String> {
        if key == MetaKey::NfTrace {
            return self.trace_set(src, rule);
        }
        let at = settable(self.job.place, key).ok_or_else(refused)?;
        self.word(R1, src, rule);
        self.asm.store(penstock_bpf::asm::Width::W, super::frame::CONTEXT, at, R1);
        // Later rules see it.
        let field = if key == MetaKey::Mark { Field::Mark } else { Field::Priority };
        if let Some(slot) = self.plan.slots.find(field) {
            self.asm.store(penstock_bpf::asm::Width::W, R10, slot.at, R1);
        }
        Ok(())
    }
}

/// Where `struct __sk_buff` has what a rule may set there.
pub(super) fn settable(place: Place<'_>, key: MetaKey) -> Option<i16> {
    match (place.kind(), key) {
        (ProgramKind::SchedCls, MetaKey::Mark) => Some(super::prologue::SKB_MARK),
        (ProgramKind::SchedCls, MetaKey::Priority) => Some(super::prologue::SKB_PRIORITY),
        _ => None,
    }
}
