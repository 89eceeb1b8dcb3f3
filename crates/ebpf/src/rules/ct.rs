// SPDX-License-Identifier: Apache-2.0

//! `ct`: the packet's connection, as the kernel tracks it (`nft_ct_get_eval()`).

use penstock_bpf::asm::{Alu, Cond, Reg, Reg::*, Width};
use penstock_bpf::netfilter::InetFamily;
use penstock_program::expr::{CtDir, CtKey};
use penstock_program::op::Op;

use super::chain::Rule;
use super::ct_field::CtField;
use super::frame::*;
use super::kernel::{Conn, Kernel};
use super::lower::refused;
use super::{Compiler, Job, Place};

/// `NF_CT_STATE_INVALID_BIT`, `NF_CT_STATE_UNTRACKED_BIT`.
pub(super) const INVALID: i32 = 1;
pub(super) const UNTRACKED: i32 = 1 << 6;

/// `IP_CT_IS_REPLY`, `IP_CT_UNTRACKED`.
pub(super) const IS_REPLY: i32 = 3;
pub(super) const IS_UNTRACKED: i32 = 7;

/// `IPS_TEMPLATE`.
pub(super) const TEMPLATE: i32 = 1 << 11;

/// The part of `skb->_nfct` that says what the packet is to its connection.
pub(super) const INFO: i32 = 7;

/// What an expression reads; `None` where no packet of the hook has it. The error is why there is
/// no code.
pub(super) fn field(job: &Job<'_>, op: &Op) -> Result<Option<CtField>, String> {
    let (key, dir) = match op {
        Op::CtState { .. } => (CtKey::State, None),
        Op::Ct { key, dir, .. } => (*key, *dir),
        _ => return Err(refused()),
    };
    let place = job.place;
    let family = match place {
        Place::Netfilter(hook) => Some(hook.family),
        // Elsewhere than in an attached ruleset the packets do not go on to the kernel's tracker.
        Place::Xdp(_) | Place::XdpGeneric(_) | Place::TcxIngress(_) if job.shared.is_some() => None,
        Place::Xdp(_)
        | Place::XdpGeneric(_)
        | Place::TcxIngress(_)
        | Place::TcxEgress(_)
        | Place::Bridge(..) => {
            return Err(format!(
                "{}, where connections are not tracked yet",
                place.no_code(format_args!("ct {key}"))
            ));
        }
    };
    let kernel = Kernel::running()?;
    let conn = kernel.conn.as_ref();
    let Some(conn) = conn else { return Err("the running kernel tracks no connections".into()) };
    if family.is_none() && (kernel.lookup.is_none() || kernel.net.is_none()) {
        return Err(format!(
            "{}, since the running kernel has no bpf_xdp_ct_lookup() built in",
            place.no_code(format_args!("ct {key}"))
        ));
    }
    let v6 = family == Some(InetFamily::V6);
    let reply = dir == Some(CtDir::Reply);
    let address = |source, of: Option<bool>| match (family, of) {
        // At a device packets of both families come.
        (None, Some(v6)) => Ok(Some(CtField::Address { source, reply, v6 })),
        (None, None) => Err(place.no_code(format_args!("ct {key}"))),
        (Some(_), of) => {
            let here = of.is_none_or(|family| family == v6);
            Ok(here.then_some(CtField::Address { source, reply, v6 }))
        }
    };
    Ok(Some(match key {
        CtKey::State => CtField::State,
        CtKey::Direction => CtField::Direction,
        CtKey::Status => CtField::Status,
        CtKey::Mark if conn.mark.is_some() => CtField::Mark,
        CtKey::Zone if conn.zone.is_some() && dir.is_none() => CtField::Zone,
        CtKey::L3Protocol => CtField::L3Protocol,
        CtKey::Protocol => CtField::Protocol,
        CtKey::Src => return address(true, None),
        CtKey::Dst => return address(false, None),
        CtKey::SrcIp => return address(true, Some(false)),
        CtKey::DstIp => return address(false, Some(false)),
        CtKey::SrcIp6 => return address(true, Some(true)),
        CtKey::DstIp6 => return address(false, Some(true)),
        CtKey::ProtoSrc => CtField::Port { source: true, reply },
        CtKey::ProtoDst => CtField::Port { source: false, reply },
        CtKey::Mark
        | CtKey::SecMark
        | CtKey::Expiration
        | CtKey::Helper
        | CtKey::Labels
        | CtKey::Pkts
        | CtKey::Bytes
        | CtKey::AvgPkt
        | CtKey::Zone
        | CtKey::EventMask
        | CtKey::Id => return Err(place.no_code(format_args!("ct {key}"))),
    }))
}

/// Register slots that an expression writes: an address fills as many as the family of the hook has.
pub(super) fn writes(place: Place<'_>, op: &Op) -> u16 {
    match (op, place) {
        (Op::Ct { key: CtKey::Src | CtKey::Dst, dst, .. }, Place::Netfilter(hook)) => {
            let words = if hook.family == InetFamily::V6 { 0xf } else { 1 };
            words << (dst & 15)
        }
        _ => 0,
    }
}

impl Compiler<'_> {
    /// `ct` as an expression.
    pub(super) fn ct(&mut self, op: &Op, dst: u8, rule: &mut Rule) -> Result<(), String> {
        match field(&self.job, op)? {
            None => self.asm.jump(rule.next),
            Some(field) => self.field(Field::Ct(field), dst, rule)?,
        }
        Ok(())
    }

    /// Finds the fields of the connection.
    pub(super) fn connection(&mut self, kernel: &Kernel) {
        let fields = self.plan.slots.connection();
        let (Some(nfct), Some(conn)) = (kernel.skb.nfct, &kernel.conn) else { return };
        if fields.is_empty() {
            return;
        }
        let asm = &mut self.asm;
        let (none, end, known) = (asm.label(), asm.label(), asm.label());
        asm.load(Width::D, R1, CONTEXT, NETFILTER_SKB);
        asm.load(Width::D, R1, R1, nfct);
        asm.mov(COUNTERS, R1);
        asm.alu(Alu::And, COUNTERS, INFO);
        asm.alu(Alu::And, R1, !INFO);
        if let Some((_, slot)) = fields.iter().find(|(field, _)| *field == CtField::State) {
            asm.jump_if(Cond::Eq, R1, 0, none);
            self.state_bit(COUNTERS);
            let asm = &mut self.asm;
            asm.jump(known);
            asm.bind(none);
            asm.mov(R4, UNTRACKED);
            asm.jump_if(Cond::Eq, COUNTERS, IS_UNTRACKED, known);
            asm.mov(R4, INVALID);
            asm.bind(known);
            asm.store(Width::W, R10, slot.at, R4);
        }
        let asm = &mut self.asm;
        if fields.len() > 1 || fields.iter().all(|(field, _)| *field != CtField::State) {
            asm.jump_if(Cond::Eq, R1, 0, end);
            asm.mov(R2, 0);
            asm.call_kfunc(kernel.cast);
            asm.mov(R2, R0);
            asm.load(Width::W, R4, R2, conn.status);
            // Templates have no keys.
            asm.jump_if(Cond::Set, R4, TEMPLATE, end);
            for (field, slot) in fields {
                self.connection_field(conn, field, slot);
            }
        }
        self.asm.bind(end);
    }

    /// A field of the connection at R2, the packet's part of which is in [`COUNTERS`].
    fn connection_field(&mut self, conn: &Conn, field: CtField, slot: Slot) {
        if field == CtField::Direction {
            self.direction(COUNTERS);
            self.asm.store(Width::W, R10, slot.at, R4);
            return self.present(slot);
        }
        let Some(at) = conn.place_of(field) else { return };
        self.copy(at, slot, field.len());
    }

    /// R4 = the bit of the state that `info`, what the packet is to its connection, stands for
    /// (`NF_CT_STATE_BIT()`); R3 is lost.
    pub(super) fn state_bit(&mut self, info: Reg) {
        let asm = &mut self.asm;
        let first = asm.label();
        asm.mov(R3, info);
        asm.jump_if(Cond::Lt, R3, IS_REPLY, first);
        asm.alu(Alu::Sub, R3, IS_REPLY);
        asm.bind(first);
        asm.mov(R4, 2);
        asm.alu(Alu::Lsh, R4, R3);
    }

    /// R4 = the direction of a packet that is `info` to its connection.
    pub(super) fn direction(&mut self, info: Reg) {
        let original = self.asm.label();
        self.asm.mov(R4, 0);
        self.asm.jump_if(Cond::Lt, info, IS_REPLY, original);
        self.asm.mov(R4, 1);
        self.asm.bind(original);
    }
}
