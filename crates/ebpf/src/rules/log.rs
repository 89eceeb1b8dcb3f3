// SPDX-License-Identifier: Apache-2.0

//! `log`, and all other records with a packet: a function that puts the packet into the ring.

use std::sync::Arc;

use penstock_bpf::asm::{Alu, Cond, Helper, Reg, Reg::*, Width};
use penstock_bpf::{InetFamily, InetHook, NetfilterHook, ProgramKind};
use penstock_program::expr::Log;
use penstock_program::image::RuleIndex;
use penstock_program::{Family, Hook};
use penstock_wire::ethernet;

use super::chain::Block;
use super::frame::*;
use super::kernel::Kernel;
use super::lower::refused;
use super::records::*;
use super::sites::{Event, Site};
use super::{BridgeHook, Compiler, Place};

/// Within [`SCRATCH`]: both ends of a copy; the packet's length; the site.
const TO: i16 = SCRATCH;
const FROM: i16 = SCRATCH + 16;
const LEN: i16 = SCRATCH + 32;
const SITE: i16 = SCRATCH + 40;

/// Bytes that a line of the log, or the headers of a trace, are made of.
pub(super) const HEADERS: u32 = 512;

/// Bytes of a packet for those who listen to a group, at most.
const MOST: u32 = 0xffff;

/// `TCP_TIME_WAIT`, `TCP_NEW_SYN_RECV`: states of what is no whole socket.
pub(super) const NO_SOCKET: [i32; 2] = [6, 12];

/// Whether the running kernel has what records of packets take. The error is the reason.
pub(super) fn check(place: Place<'_>) -> Result<(), String> {
    if let Place::Bridge(..) = place {
        return Err(place.no_code("log"));
    }
    let kernel = Kernel::running()?;
    let has = kernel.dynptr_copy.is_some()
        && (place.kind() != ProgramKind::Xdp || kernel.xdp_dynptr.is_some());
    if has { Ok(()) } else { Err("the running kernel has no bpf_dynptr_copy()".into()) }
}

/// The hook of a place.
fn hook(place: Place<'_>) -> Hook {
    match place {
        Place::Xdp(_) | Place::XdpGeneric(_) | Place::TcxIngress(_) => Hook::Ingress,
        Place::TcxEgress(_) => Hook::Egress,
        Place::Bridge(at, _) => match at {
            BridgeHook::Prerouting(_) => Hook::Prerouting,
            BridgeHook::Groups | BridgeHook::Input => Hook::Input,
            BridgeHook::Forward(_) => Hook::Forward,
        },
        Place::Netfilter(at) => match at.hook {
            InetHook::Prerouting => Hook::Prerouting,
            InetHook::Input => Hook::Input,
            InetHook::Forward => Hook::Forward,
            InetHook::Output => Hook::Output,
            InetHook::Postrouting => Hook::Postrouting,
        },
    }
}

impl Compiler<'_> {
    /// The number of a site in a base chain, or of a rule.
    pub(super) fn site(
        &mut self,
        event: Event,
        block: Block,
        rule: Option<RuleIndex>,
    ) -> Result<u32, String> {
        let image = self.job.image;
        let records = self.job.shared.ok_or_else(refused)?.records();
        let of_rule = rule.and_then(|rule| image.place(rule));
        let (family, table, chain) = match of_rule {
            Some((family, table, chain, _)) => (family, table.clone(), chain.clone()),
            None => {
                let table = image.table_of(block.base).ok_or_else(refused)?;
                let chain = image.chain(block.base).ok_or_else(refused)?;
                (table.family, table.name.clone(), chain.name.clone())
            }
        };
        let hook_family = match self.job.place {
            Place::Netfilter(NetfilterHook { family: InetFamily::V4, .. }) => Family::Ip,
            Place::Netfilter(NetfilterHook { family: InetFamily::V6, .. }) => Family::Ip6,
            Place::Bridge(..) => Family::Bridge,
            _ if block.inet => Family::Inet,
            _ => Family::Netdev,
        };
        let hook = hook(self.job.place);
        let (site, number) =
            records.sites.number(Site { hook, hook_family, family, table, chain, event });
        self.sites.push(site);
        Ok(number)
    }

    /// The statement.
    pub(super) fn log(&mut self, log: &Arc<Log>, block: Block) -> Result<(), String> {
        let most = match (log.group, log.snaplen) {
            (None, _) => HEADERS,
            (Some(_), snaplen) => snaplen.unwrap_or(MOST).clamp(HEADERS, MOST),
        };
        self.record(Event::Log(log.clone()), block, most)
    }

    /// Tells of the packet, with so many bytes at most.
    pub(super) fn record(&mut self, event: Event, block: Block, most: u32) -> Result<(), String> {
        let site = self.site(event, block, None)?;
        let Compiler { record, asm, .. } = self;
        let function = *record.get_or_insert_with(|| asm.label());
        asm.mov(R1, CONTEXT);
        asm.mov(R2, R10);
        asm.mov32(R3, site);
        // Bytes begin with the link header at a device.
        asm.mov32(R4, most + ethernet::LEN as u32);
        asm.call_function(function);
        Ok(())
    }

    /// `reg` = the packet's `struct sk_buff`, where R6 is the context. R0 to R5 are lost.
    pub(super) fn packet(&mut self, kernel: &Kernel, reg: Reg) {
        if self.job.place.kind() == ProgramKind::Netfilter {
            return self.asm.load(Width::D, reg, R6, NETFILTER_SKB);
        }
        self.asm.mov(R1, R6);
        self.asm.call_kfunc(kernel.of_context);
        self.asm.mov(reg, R0);
    }

    /// The function: R1 is the context, R2 the caller's stack frame, R3 the site, R4 the most
    /// bytes. What it keeps is in the caller's frame.
    pub(super) fn record_function(&mut self) {
        let (Some(function), Ok(kernel)) = (self.record, Kernel::running()) else { return };
        let Some(records) = self.job.shared.map(|shared| shared.records().clone()) else { return };
        let is_xdp = self.job.place.kind() == ProgramKind::Xdp;
        let [whole, lost, none] = [(); 3].map(|()| self.asm.label());
        self.asm.bind(function);
        self.asm.mov(R6, R1);
        self.asm.mov(R7, R2);
        self.asm.mov(R8, R4);
        self.asm.store(Width::W, R7, SITE, R3);
        if is_xdp {
            self.asm.mov(R1, R6);
            self.asm.call(Helper::XdpBuffLen);
            self.asm.mov(R9, R0);
        } else {
            self.packet(kernel, R1);
            self.asm.load(Width::W, R9, R1, kernel.skb.len);
        }
        let asm = &mut self.asm;
        asm.store(Width::W, R7, LEN, R9);
        asm.jump_if(Cond::Le, R8, R9, whole);
        asm.mov(R8, R9);
        asm.bind(whole);
        asm.map(R1, records.ring());
        asm.mov(R2, R8);
        asm.alu(Alu::Add, R2, i32::from(HEAD));
        asm.mov(R3, 0);
        asm.mov(R4, R7);
        asm.alu(Alu::Add, R4, i32::from(TO));
        asm.call(Helper::RingReserve);
        asm.mov(R1, R7);
        asm.alu(Alu::Add, R1, i32::from(TO));
        asm.mov(R2, 0);
        asm.mov(R3, i32::from(HEAD));
        asm.call(Helper::DynptrData);
        asm.jump_if(Cond::Eq, R0, 0, lost);
        asm.mov(R9, R0);
        asm.load(Width::W, R1, R7, SITE);
        asm.store(Width::W, R9, AT_SITE, R1);
        asm.load(Width::W, R1, R7, LEN);
        asm.store(Width::W, R9, AT_LEN, R1);
        asm.store(Width::W, R9, AT_CAPTURED, R8);
        if self.plan.traces {
            asm.load(Width::W, R1, R7, EVENT + AT_TRACE);
            asm.store(Width::W, R9, AT_TRACE, R1);
        } else {
            asm.store(Width::W, R9, AT_TRACE, 0);
        }
        asm.call(Helper::KtimeGetNs);
        asm.store(Width::D, R9, AT_TIME, R0);
        asm.store(Width::W, R9, AT_OWNED, 0);
        if is_xdp {
            for at in [AT_MARK, AT_PROTOCOL, AT_TAG, AT_UID, AT_GID] {
                asm.store(Width::W, R9, at, 0);
            }
        } else {
            self.record_metadata(kernel);
        }
        self.record_devices(kernel);
        let asm = &mut self.asm;
        match (self.job.place.kind(), kernel.xdp_dynptr) {
            (ProgramKind::Netfilter, _) => asm.load(Width::D, R1, R6, NETFILTER_SKB),
            _ => asm.mov(R1, R6),
        }
        asm.mov(R2, 0);
        asm.mov(R3, R7);
        asm.alu(Alu::Add, R3, i32::from(FROM));
        asm.call_kfunc(kernel.xdp_dynptr.filter(|_| is_xdp).unwrap_or(kernel.dynptr));
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.mov(R1, R7);
        asm.alu(Alu::Add, R1, i32::from(TO));
        asm.mov(R2, i32::from(HEAD));
        asm.mov(R3, R7);
        asm.alu(Alu::Add, R3, i32::from(FROM));
        asm.mov(R4, 0);
        asm.mov(R5, R8);
        // Checked before.
        asm.call_kfunc(kernel.dynptr_copy.unwrap_or_default());
        let told = asm.label();
        asm.jump_if(Cond::Eq, R0, 0, told);
        asm.bind(none);
        asm.store(Width::W, R9, AT_CAPTURED, 0);
        asm.bind(told);
        // The verifier lends no function the place of a dynptr.
        for at in [FROM, FROM + 8] {
            asm.store(Width::D, R7, at, 0);
        }
        asm.mov(R1, R7);
        asm.alu(Alu::Add, R1, i32::from(TO));
        asm.mov(R2, 0);
        asm.call(Helper::RingSubmit);
        asm.exit_with(0);
        asm.bind(lost);
        asm.map_value(R1, records.words(), AT_LOST);
        asm.mov(R2, 1);
        asm.atomic_add(Width::D, R1, 0, R2);
        asm.mov(R1, R7);
        asm.alu(Alu::Add, R1, i32::from(TO));
        asm.mov(R2, 0);
        asm.call(Helper::RingDiscard);
        asm.exit_with(0);
    }

    /// What `struct sk_buff` says, into the record at R9.
    fn record_metadata(&mut self, kernel: &Kernel) {
        let skb = &kernel.skb;
        self.packet(kernel, R1);
        let asm = &mut self.asm;
        asm.load(Width::W, R2, R1, skb.mark);
        asm.store(Width::W, R9, AT_MARK, R2);
        for (from, to) in [
            (skb.protocol, AT_PROTOCOL),
            (skb.vlan_protocol, AT_TAG_PROTOCOL),
            (skb.vlan_tci, AT_TAG),
        ] {
            asm.load(Width::H, R2, R1, from);
            asm.store(Width::H, R9, to, R2);
        }
        asm.load(Width::B, R2, R1, skb.pkt_type.offset as i16);
        asm.alu(Alu::Rsh, R2, i32::from(skb.pkt_type.bit));
        asm.alu(Alu::And, R2, (1 << skb.pkt_type.bits) - 1);
        asm.store(Width::B, R9, AT_TYPE, R2);
        asm.store(Width::B, R9, AT_LINK_LEN, 0);
        if self.job.place.kind() == ProgramKind::Netfilter {
            self.record_link(kernel);
        }
        self.record_owner(kernel);
    }

    /// The link header of the packet at R1, which is in front of its bytes.
    fn record_link(&mut self, kernel: &Kernel) {
        const NOT_SET: i32 = 0xffff;
        let skb = &kernel.skb;
        let none = self.asm.label();
        let asm = &mut self.asm;
        asm.load(Width::H, R4, R1, skb.mac_header);
        asm.jump_if(Cond::Eq, R4, NOT_SET, none);
        asm.load(Width::H, R5, R1, skb.network_header);
        asm.jump_if(Cond::Le, R5, R4, none);
        asm.alu(Alu::Sub, R5, R4);
        asm.jump_if(Cond::Gt, R5, i32::from(LINK), none);
        asm.store(Width::B, R9, AT_LINK_LEN, R5);
        asm.load(Width::D, R1, R1, skb.head);
        asm.alu(Alu::Add, R1, R4);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        for at in (0..LINK).step_by(8) {
            asm.load(Width::D, R1, R0, at);
            asm.store(Width::D, R9, AT_LINK + at, R1);
        }
        asm.bind(none);
    }

    /// Who owns the socket of the packet (`nf_log_dump_sk_uid_gid()`).
    fn record_owner(&mut self, kernel: &Kernel) {
        let Some(owner) = &kernel.owner else { return };
        self.packet(kernel, R1);
        let none = self.asm.label();
        let asm = &mut self.asm;
        asm.mov(R0, R1);
        for (n, at) in [owner.sock, owner.socket, owner.file, owner.cred].into_iter().enumerate() {
            asm.load(Width::D, R1, R0, at);
            asm.jump_if(Cond::Eq, R1, 0, none);
            asm.mov(R2, 0);
            asm.call_kfunc(kernel.cast);
            if n == 0 {
                asm.load(Width::B, R1, R0, owner.state);
                for state in NO_SOCKET {
                    asm.jump_if(Cond::Eq, R1, state, none);
                }
            }
        }
        for (from, to) in [(owner.uid, AT_UID), (owner.gid, AT_GID)] {
            asm.load(Width::W, R1, R0, from);
            asm.store(Width::W, R9, to, R1);
        }
        asm.store(Width::W, R9, AT_OWNED, 1);
        asm.bind(none);
    }

    /// Indexes of the devices of the hook, into the record at R9.
    fn record_devices(&mut self, kernel: &Kernel) {
        let (input, output) = match self.job.place {
            Place::Xdp(device) | Place::XdpGeneric(device) | Place::TcxIngress(device) => {
                (device.index, 0)
            }
            Place::TcxEgress(device) => (0, device.index),
            Place::Netfilter(_) | Place::Bridge(..) => (0, 0),
        };
        let asm = &mut self.asm;
        for (at, index) in [(AT_INPUT, input), (AT_OUTPUT, output)] {
            asm.store(Width::W, R9, at, index as i32);
        }
        if self.job.place.kind() != ProgramKind::Netfilter {
            return;
        }
        for (at, device) in [(AT_INPUT, kernel.state_in), (AT_OUTPUT, kernel.state_out)] {
            let none = asm.label();
            asm.load(Width::D, R1, R6, NETFILTER_STATE);
            asm.load(Width::D, R1, R1, device);
            asm.jump_if(Cond::Eq, R1, 0, none);
            asm.mov(R2, 0);
            asm.call_kfunc(kernel.cast);
            asm.load(Width::W, R1, R0, kernel.device.ifindex);
            asm.store(Width::W, R9, at, R1);
            asm.bind(none);
        }
    }
}
