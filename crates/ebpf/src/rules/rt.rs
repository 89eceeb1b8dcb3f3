// SPDX-License-Identifier: Apache-2.0

//! `rt`: the packet's route, at netfilter hooks (`nft_rt_get_eval()`). At devices packets have none.

use penstock_bpf::asm::{Alu, Cond, Reg::*, Width};
use penstock_bpf::netfilter::InetFamily;
use penstock_program::expr::RtKey;
use penstock_program::op::Op;

use super::chain::Rule;
use super::frame::*;
use super::kernel::{Kernel, RoutePath};
use super::lower::refused;
use super::rt_field::RtField;
use super::{Compiler, Job, Place};

/// What an expression reads; `None` where no packet of the hook has it. The error is why there is
/// no code.
pub(super) fn field(job: &Job<'_>, op: &Op) -> Result<Option<Field>, String> {
    let Op::Rt { key, .. } = op else { return Err(refused()) };
    let Place::Netfilter(hook) = job.place else {
        return Err(format!("{}, where packets have no route", job.place.no_code("rt")));
    };
    let v6 = hook.family == InetFamily::V6;
    let field = match key {
        RtKey::Classid => RtField::Classid,
        RtKey::Xfrm => RtField::Ipsec,
        RtKey::Nexthop4 if v6 => return Ok(None),
        RtKey::Nexthop6 if !v6 => return Ok(None),
        RtKey::Nexthop4 | RtKey::Nexthop6 => RtField::Nexthop,
        RtKey::TcpMss => {
            return Err(format!(
                "{}, since programs there cannot ask for the route back to the sender",
                job.place.no_code("rt mtu")
            ));
        }
    };
    let route = Kernel::running()?.route.as_ref();
    let known = route.is_some_and(|route| match field {
        RtField::Classid => route.classid.is_some(),
        RtField::Ipsec => route.xfrm.is_some(),
        RtField::Nexthop => !v6 || route.v6.is_some(),
    });
    if !known {
        return Err(format!(
            "{}, since the running kernel does not say where it is",
            job.place.no_code("rt")
        ));
    }
    Ok(Some(Field::Route { field, v6 }))
}

/// `SKB_DST_NOREF`: the part of `skb->_skb_refdst` that is no address.
const NOREF: i32 = 1;
/// `RTF_GATEWAY`, `RTF_CACHE`.
const GATEWAY: i32 = 2;
const CACHE: i32 = 0x0100_0000;
/// Where the destination is in headers.
const DESTINATION4: i16 = 16;
const DESTINATION6: i16 = 24;

impl Compiler<'_> {
    /// `rt` as an expression.
    pub(super) fn rt(&mut self, op: &Op, dst: u8, rule: &mut Rule) -> Result<(), String> {
        match field(&self.job, op)? {
            None => self.asm.jump(rule.next),
            Some(field) => self.field(field, dst, rule)?,
        }
        Ok(())
    }

    /// Finds the fields of the route.
    pub(super) fn route(&mut self, kernel: &Kernel) {
        let Some(route) = &kernel.route else { return };
        let of = |slot: Slot| match slot.field {
            Field::Route { field, v6 } => Some((field, v6, slot)),
            _ => None,
        };
        let fields: Vec<_> = self.plan.slots.iter().filter_map(of).collect();
        if fields.is_empty() {
            return;
        }
        let asm = &mut self.asm;
        let none = asm.label();
        asm.load(Width::D, R1, CONTEXT, NETFILTER_SKB);
        asm.load(Width::D, R1, R1, route.dst);
        asm.alu(Alu::And, R1, !NOREF);
        asm.jump_if(Cond::Eq, R1, 0, none);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.mov(COUNTERS, R0);
        for (field, v6, slot) in fields {
            match field {
                RtField::Classid => {
                    self.asm.mov(R2, COUNTERS);
                    self.copy(route.classid.unwrap_or_default(), slot, field.len(v6));
                }
                RtField::Ipsec => {
                    let plain = self.asm.label();
                    let xfrm = route.xfrm.unwrap_or_default();
                    self.asm.load(Width::D, R5, COUNTERS, xfrm);
                    self.asm.mov(R4, 0);
                    self.asm.jump_if(Cond::Eq, R5, 0, plain);
                    self.asm.mov(R4, 1);
                    self.asm.bind(plain);
                    self.asm.store(Width::W, R10, slot.at, R4);
                    self.present(slot);
                }
                RtField::Nexthop => self.next_hop(kernel, route, v6, slot),
            }
        }
        self.asm.bind(none);
    }

    /// The next hop of the route at [`COUNTERS`] (`rt_nexthop()`, `rt6_nexthop()`).
    fn next_hop(&mut self, kernel: &Kernel, route: &RoutePath, v6: bool, slot: Slot) {
        let [direct, found] = [(); 2].map(|()| self.asm.label());
        let len = RtField::Nexthop.len(v6);
        self.asm.mov(R2, COUNTERS);
        match (&route.v6, v6) {
            (Some(paths), true) => {
                let uncached = self.asm.label();
                let usual = self.asm.label();
                self.asm.load(Width::W, R4, COUNTERS, paths.flags);
                self.asm.jump_if(Cond::Set, R4, GATEWAY, usual);
                self.asm.jump_if(Cond::Set, R4, CACHE, uncached);
                self.asm.jump(direct);
                self.asm.bind(uncached);
                self.copy(paths.dst, slot, len);
                self.asm.jump(found);
                self.asm.bind(usual);
                self.copy(paths.gateway, slot, len);
                self.asm.jump(found);
            }
            _ => {
                self.asm.load(Width::B, R4, COUNTERS, route.gateway_family);
                self.asm.jump_if(Cond::Ne, R4, libc::AF_INET, direct);
                self.copy(route.gateway, slot, len);
                self.asm.jump(found);
            }
        }
        self.asm.bind(direct);
        self.asm.load(Width::D, R1, CONTEXT, NETFILTER_SKB);
        self.asm.load(Width::H, R2, R1, kernel.skb.network_header);
        self.asm.load(Width::D, R1, R1, kernel.skb.head);
        self.asm.alu(Alu::Add, R1, R2);
        self.asm.mov(R2, 0);
        self.asm.call_kfunc(kernel.cast);
        self.asm.mov(R2, R0);
        self.copy(if v6 { DESTINATION6 } else { DESTINATION4 }, slot, len);
        self.asm.bind(found);
    }
}
