// SPDX-License-Identifier: Apache-2.0

//! What rules read at netfilter hooks: `struct sk_buff`, `struct nf_hook_state`, devices and
//! connections of the running kernel.
//!
//! The context of a program has a pointer to the state of the hook and one to the packet. Fields
//! are at the offsets that the kernel's type information says; a field of a device that is not
//! there reads as zero, as the kernel makes it of a null pointer.

use std::sync::OnceLock;

use penstock_program::expr::CtKey;
use penstock_program::op::Op;

use super::frame::*;
use super::{Compiler, NotOffloadable};
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};
use penstock_bpf::{InetFamily, NetfilterHook, Types};

/// `struct bpf_nf_ctx`.
const STATE: i16 = 0;
const SKB: i16 = 8;

/// `PACKET_LOOPBACK`, `PACKET_MULTICAST`, `PACKET_BROADCAST`
const LOOPBACK: i32 = 5;
const MULTICAST: i32 = 2;
const BROADCAST: i32 = 1;

/// Bits of the address of a connection that say something else (`NFCT_INFOMASK`).
const INFO: i32 = 7;
/// `IP_CT_IS_REPLY`, `IP_CT_UNTRACKED`
const IS_REPLY: i32 = 3;
const UNTRACKED: i32 = 7;
/// `NF_CT_STATE_INVALID_BIT`, `NF_CT_STATE_UNTRACKED_BIT`
const INVALID_BIT: i32 = 1;
const UNTRACKED_BIT: i32 = 1 << 6;

/// Offsets of fields and numbers of functions of the running kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    hook_in: i16,
    hook_out: i16,
    len: i16,
    mark: i16,
    priority: i16,
    pkt_type: Bits,
    head: i16,
    mac_header: i16,
    network_header: i16,
    nfct: i16,
    device: i16,
    ifindex: i16,
    name: i16,
    arphrd: i16,
    group: i16,
    link_ops: i16,
    kind: i16,
    connection: Option<Connection>,
    dynptr_from_skb: u32,
    rdonly_cast: u32,
}

/// Some bits of a byte.
#[derive(Clone, Copy, Debug)]
struct Bits {
    at: i16,
    shift: u8,
    mask: i32,
}

/// `struct nf_conn`.
#[derive(Clone, Copy, Debug)]
struct Connection {
    number: u32,
    status: i16,
    mark: i16,
}

impl Kernel {
    fn read() -> Result<Self, String> {
        let types = Types::of_kernel().map_err(|e| format!("/sys/kernel/btf/vmlinux: {e}"))?;
        let found = |structure, field| {
            let found = types.field(structure, field);
            found.ok_or_else(|| format!("the kernel has no {structure}.{field}"))
        };
        let at = |structure, field| found(structure, field).map(|f| f.offset as i16);
        let function =
            |name| types.function(name).ok_or_else(|| format!("the kernel has no {name}()"));
        let kind = found("sk_buff", "pkt_type")?;
        let mask = (1_i32 << kind.bits.clamp(1, 8)) - 1;
        let connection = || {
            Some(Connection {
                number: types.structure("nf_conn")?,
                status: types.field("nf_conn", "status")?.offset as i16,
                mark: types.field("nf_conn", "mark")?.offset as i16,
            })
        };
        Ok(Kernel {
            hook_in: at("nf_hook_state", "in")?,
            hook_out: at("nf_hook_state", "out")?,
            len: at("sk_buff", "len")?,
            mark: at("sk_buff", "mark")?,
            priority: at("sk_buff", "priority")?,
            pkt_type: Bits { at: kind.offset as i16, shift: kind.bit, mask },
            head: at("sk_buff", "head")?,
            mac_header: at("sk_buff", "mac_header")?,
            network_header: at("sk_buff", "network_header")?,
            nfct: at("sk_buff", "_nfct")?,
            device: at("sk_buff", "dev")?,
            ifindex: at("net_device", "ifindex")?,
            name: at("net_device", "name")?,
            arphrd: at("net_device", "type")?,
            group: at("net_device", "group")?,
            link_ops: at("net_device", "rtnl_link_ops")?,
            kind: at("rtnl_link_ops", "kind")?,
            connection: connection(),
            dynptr_from_skb: function("bpf_dynptr_from_skb")?,
            rdonly_cast: function("bpf_rdonly_cast")?,
        })
    }
}

/// What the running kernel is like, read once.
fn kernel() -> Result<&'static Kernel, String> {
    static KERNEL: OnceLock<Result<Kernel, String>> = OnceLock::new();
    KERNEL.get_or_init(Kernel::read).as_ref().map_err(Clone::clone)
}

/// Reads the type information of the running kernel, which programs at netfilter hooks need: before
/// the process gives up the right to read files.
///
/// # Errors
/// A sentence: the kernel has none, or lacks what programs call.
pub fn learn_kernel() -> Result<(), String> {
    kernel().map(drop)
}

/// Whether programs at netfilter hooks can be made at all.
pub(super) fn check() -> Result<(), NotOffloadable> {
    learn_kernel().map_err(NotOffloadable::all)
}

/// The field of a connection that an operation reads, if programs can.
pub(super) fn connection_field(op: &Op) -> Option<Field> {
    match op {
        Op::CtState { .. } => Some(Field::CtState),
        Op::Ct { key: CtKey::Direction, dir: None, .. } => Some(Field::CtDirection),
        Op::Ct { key: CtKey::Status, dir: None, .. } => Some(Field::CtStatus),
        Op::Ct { key: CtKey::Mark, dir: None, .. } => Some(Field::CtMark),
        _ => None,
    }
}

/// Whether connections can be read. The error is the reason.
pub(super) fn check_connections() -> Result<(), String> {
    match kernel()?.connection {
        Some(_) => Ok(()),
        None => Err("connection tracking of the kernel has no type information".into()),
    }
}

impl Compiler<'_> {
    /// The hook, where that is the place.
    pub(super) fn hook(&self) -> Option<(NetfilterHook, &'static Kernel)> {
        let super::Place::Netfilter(hook) = self.job.place else { return None };
        // A plan has seen it.
        Some((hook, kernel().ok()?))
    }

    /// Makes the bytes of the packet readable, from the network header on.
    pub(super) fn open_packet(&mut self, kernel: &Kernel) {
        self.asm.load(Width::D, R1, CONTEXT, SKB);
        self.asm.load(Width::W, LENGTH, R1, kernel.len);
        self.asm.mov(R2, 0);
        self.asm.mov(R3, R10);
        self.asm.alu(Alu::Add, R3, i32::from(DYNPTR));
        self.asm.call_kfunc(kernel.dynptr_from_skb);
    }

    /// Goes to `missing` unless `len` bytes, `at` bytes after the offset in [`COUNTERS`], are in
    /// the packet; they are at R10 and `to` then.
    pub(super) fn read_packet(&mut self, at: u16, len: u8, to: i16, missing: Label) {
        let asm = &mut self.asm;
        asm.mov(R1, R10);
        asm.alu(Alu::Add, R1, i32::from(to));
        asm.mov(R2, i32::from(len));
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(DYNPTR));
        asm.mov(R4, COUNTERS);
        asm.alu(Alu::Add, R4, i32::from(at));
        asm.mov(R5, 0);
        asm.call(Helper::DynptrRead);
        asm.jump_if(Cond::Ne, R0, 0, missing);
    }

    /// Fields of the link header, where the packet has one (`nft_payload_eval()`).
    pub(super) fn link_header_of_skb(&mut self, kernel: &Kernel) {
        let fields = self.plan.slots.of(Base::Link);
        if fields.is_empty() {
            return;
        }
        let cut = self.asm.label();
        self.asm.load(Width::D, R1, CONTEXT, SKB);
        self.asm.load(Width::H, R2, R1, kernel.mac_header);
        self.asm.jump_if(Cond::Eq, R2, 0xffff, cut);
        self.asm.load(Width::H, R3, R1, kernel.network_header);
        self.asm.jump_if(Cond::Eq, R2, R3, cut);
        self.asm.load(Width::D, COUNTERS, R1, kernel.head);
        self.asm.alu(Alu::Add, COUNTERS, R2);
        for (offset, len, slot) in fields {
            let from = i16::from(len.div_ceil(4) % 2) * 4;
            self.asm.mov(R1, R10);
            self.asm.alu(Alu::Add, R1, i32::from(SCRATCH + from));
            self.asm.mov(R2, i32::from(len));
            self.asm.mov(R3, COUNTERS);
            self.asm.alu(Alu::Add, R3, i32::from(offset));
            self.asm.call(Helper::ProbeReadKernel);
            self.asm.jump_if(Cond::Ne, R0, 0, cut);
            self.asm.mov(R2, R10);
            self.asm.alu(Alu::Add, R2, i32::from(SCRATCH));
            self.copy(from, slot, len);
        }
        self.asm.bind(cut);
    }

    /// Puts what is known of the packet, its devices and its connection into the place of a field;
    /// whether this is where it is known.
    pub(super) fn skb_field(&mut self, slot: Slot) -> bool {
        let Some((hook, kernel)) = self.hook() else { return false };
        match slot.field {
            Field::Mark | Field::Priority => {
                let at = if slot.field == Field::Mark { kernel.mark } else { kernel.priority };
                self.asm.load(Width::D, R1, CONTEXT, SKB);
                self.asm.load(Width::W, R4, R1, at);
                self.asm.store(Width::W, R10, slot.at, R4);
            }
            Field::PacketType => {
                self.asm.load(Width::D, R1, CONTEXT, SKB);
                self.addressed(hook, kernel);
                self.asm.store(Width::W, R10, slot.at, R4);
            }
            Field::Index(side)
            | Field::Name(side)
            | Field::Type(side)
            | Field::Group(side)
            | Field::Kind(side) => self.device(slot, side, kernel),
            Field::CtState | Field::CtDirection | Field::CtStatus | Field::CtMark => {
                self.connection(slot, kernel);
            }
            Field::Bytes { .. }
            | Field::Protocol
            | Field::L4Proto
            | Field::NfProto
            | Field::Length => return false,
        }
        true
    }

    /// R4 = how the packet at R1 is addressed (`nft_meta_get_eval_pkttype_lo()`).
    fn addressed(&mut self, hook: NetfilterHook, kernel: &Kernel) {
        let (known, cut) = (self.asm.label(), self.asm.label());
        let Bits { at, shift, mask } = kernel.pkt_type;
        self.asm.load(Width::B, R4, R1, at);
        self.asm.alu(Alu::Rsh, R4, i32::from(shift));
        self.asm.alu(Alu::And, R4, mask);
        self.asm.jump_if(Cond::Ne, R4, LOOPBACK, known);
        if hook.family == InetFamily::V4 {
            self.asm.mov(COUNTERS, 0);
            self.read_packet(16, 1, SCRATCH, cut);
            self.asm.load(Width::B, R5, R10, SCRATCH);
            self.asm.alu(Alu::And, R5, 0xf0);
            self.asm.mov(R4, BROADCAST);
            self.asm.jump_if(Cond::Ne, R5, 0xe0, known);
            self.asm.bind(cut);
        }
        self.asm.mov(R4, MULTICAST);
        self.asm.bind(known);
    }

    fn device(&mut self, slot: Slot, side: Side, kernel: &Kernel) {
        let absent = self.asm.label();
        let (from, pointer) = match side {
            Side::In => (STATE, kernel.hook_in),
            Side::Out => (STATE, kernel.hook_out),
            Side::Packet => (SKB, kernel.device),
        };
        self.asm.load(Width::D, R2, CONTEXT, from);
        self.asm.load(Width::D, R2, R2, pointer);
        self.asm.jump_if(Cond::Eq, R2, 0, absent);
        match slot.field {
            Field::Index(_) => self.copy(kernel.ifindex, slot, 4),
            Field::Name(_) => self.copy(kernel.name, slot, 16),
            Field::Type(_) => self.copy(kernel.arphrd, slot, 2),
            Field::Group(_) => self.copy(kernel.group, slot, 4),
            _ => {
                self.asm.load(Width::D, R3, R2, kernel.link_ops);
                self.asm.jump_if(Cond::Eq, R3, 0, absent);
                self.asm.load(Width::D, R3, R3, kernel.kind);
                self.asm.mov(R1, R10);
                self.asm.alu(Alu::Add, R1, i32::from(slot.at));
                self.asm.mov(R2, 16);
                self.asm.call(Helper::ProbeReadKernelStr);
                let read = self.asm.label();
                self.asm.jump_if(Cond::SignedGt, R0, 0, read);
                self.asm.jump(absent);
                self.asm.bind(read);
                self.present(slot);
            }
        }
        self.asm.bind(absent);
    }

    /// What `nft_ct_get_eval()` says of the packet's connection.
    fn connection(&mut self, slot: Slot, kernel: &Kernel) {
        let (none, done) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::D, R1, CONTEXT, SKB);
        self.asm.load(Width::D, R1, R1, kernel.nfct);
        self.asm.mov(R4, R1);
        self.asm.alu(Alu::And, R4, INFO);
        self.asm.alu(Alu::And, R1, !INFO);
        self.asm.jump_if(Cond::Eq, R1, 0, none);
        let field = kernel.connection.as_ref();
        match (slot.field, field) {
            (Field::CtState, _) => {
                self.asm.alu(Alu::Mod, R4, IS_REPLY);
                self.asm.alu(Alu::Add, R4, 1);
                self.asm.mov(R5, 1);
                self.asm.alu(Alu::Lsh, R5, R4);
                self.asm.store(Width::W, R10, slot.at, R5);
            }
            (Field::CtDirection, _) => {
                self.asm.alu(Alu::Div, R4, IS_REPLY);
                self.asm.store(Width::W, R10, slot.at, R4);
                self.present(slot);
            }
            (Field::CtStatus | Field::CtMark, Some(connection)) => {
                let status = slot.field == Field::CtStatus;
                let at = if status { connection.status } else { connection.mark };
                self.asm.mov32(R2, connection.number);
                self.asm.call_kfunc(kernel.rdonly_cast);
                // The status is a long, of which the lower half counts.
                let width = if status { Width::D } else { Width::W };
                self.asm.load(width, R4, R0, at);
                self.asm.store(Width::W, R10, slot.at, R4);
                self.present(slot);
            }
            _ => {}
        }
        self.asm.jump(done);
        self.asm.bind(none);
        if slot.field == Field::CtState {
            let untracked = self.asm.label();
            self.asm.mov(R5, UNTRACKED_BIT);
            self.asm.jump_if(Cond::Eq, R4, UNTRACKED, untracked);
            self.asm.mov(R5, INVALID_BIT);
            self.asm.bind(untracked);
            self.asm.store(Width::W, R10, slot.at, R5);
        }
        self.asm.bind(done);
    }
}
