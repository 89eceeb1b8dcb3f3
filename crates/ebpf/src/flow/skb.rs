// SPDX-License-Identifier: Apache-2.0

//! Packets as programs at tcx and filters of sockets see them: `struct __sk_buff`.

use penstock_bpf::asm::{Alu, Asm, Cond, Reg, Width};

/// Offsets of fields of `struct __sk_buff`, in bytes.
pub(super) const SKB_LEN: i16 = 0;
pub(super) const SKB_PKT_TYPE: i16 = 4;
pub(super) const SKB_PROTOCOL: i16 = 16;
pub(super) const SKB_VLAN_PRESENT: i16 = 20;
pub(super) const SKB_VLAN_TCI: i16 = 24;
pub(super) const SKB_VLAN_PROTO: i16 = 28;
pub(super) const SKB_DEVICE: i16 = 40;
pub(super) const SKB_GSO_SIZE: i16 = 176;

/// Puts the tag that an skb has in its metadata into `tag`: the VLAN id with its priority bits
/// below its protocol, or 0. Flows have no priority bits, so a tag with some finds none. The skb's
/// address stays in `skb`, `scratch` does not keep what it had.
pub(super) fn tag_of_skb(asm: &mut Asm, skb: Reg, tag: Reg, scratch: Reg) {
    let untagged = asm.label();
    asm.mov(tag, 0);
    asm.load(Width::W, scratch, skb, SKB_VLAN_PRESENT);
    asm.jump_if(Cond::Eq, scratch, 0, untagged);
    asm.load(Width::W, tag, skb, SKB_VLAN_TCI);
    asm.load(Width::W, scratch, skb, SKB_VLAN_PROTO);
    asm.alu(Alu::Lsh, scratch, 16);
    asm.alu(Alu::Or, tag, scratch);
    asm.bind(untagged);
}
