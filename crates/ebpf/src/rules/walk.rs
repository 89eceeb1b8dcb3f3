// SPDX-License-Identifier: Apache-2.0

//! The walk over IPv6 extension headers (`ipv6_find_hdr()` as nftables calls it): a function that
//! the kernel calls in a loop, since a frame may be full of headers.

use penstock_wire::ipv6_ext::FRAGMENT_LEN;
use penstock_wire::protocol::{
    AH, DEST_OPTIONS, FRAGMENT as FRAGMENT_HEADER, HOP_BY_HOP, NO_NEXT, ROUTING,
};

use super::frame::*;
use super::{Compiler, Place};
use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

/// Within [`WALK`]: the context; offset of the current header from the frame's start; its protocol;
/// the fragment offset; how it ended. At these places, four after a multiple of eight, the verifier
/// treats words as unknown, so it can merge the states of iterations.
pub(super) const AT_CONTEXT: i16 = 0;
pub(super) const AT_OFFSET: i16 = 12;
pub(super) const AT_PROTOCOL: i16 = 20;
const AT_FRAGMENT: i16 = 28;
const AT_END: i16 = 36;

/// It ended: at a header; in a later fragment, which has no header of its own. Before that, or
/// without a header, 0.
const AT_HEADER: i32 = 1;
const IN_FRAGMENT: i32 = 2;

/// Headers at most: no frame has room for more.
pub(super) const MOST: i32 = 8192;

const EXTENSIONS: [u8; 6] = [HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AH, NO_NEXT, DEST_OPTIONS];

impl Compiler<'_> {
    /// From the header at [`COUNTERS`], with the protocol in R0, to the transport header; jumps to
    /// `none` without one.
    pub(super) fn walk_extensions(&mut self, none: Label) {
        let function = *self.walk.get_or_insert_with(|| self.asm.label());
        let asm = &mut self.asm;
        let there = asm.label();
        asm.store(Width::D, R10, WALK + AT_CONTEXT, CONTEXT);
        asm.store(Width::W, R10, WALK + AT_OFFSET, COUNTERS);
        asm.store(Width::W, R10, WALK + AT_PROTOCOL, R0);
        asm.store(Width::W, R10, WALK + AT_FRAGMENT, 0);
        asm.store(Width::W, R10, WALK + AT_END, 0);
        asm.mov(R1, MOST);
        asm.function(R2, function);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(WALK));
        asm.mov(R4, 0);
        asm.call(Helper::Loop);
        asm.load(Width::W, R0, R10, WALK + AT_PROTOCOL);
        asm.store(Width::D, R10, PROTOCOL, R0);
        asm.load(Width::W, R0, R10, WALK + AT_FRAGMENT);
        asm.store(Width::D, R10, FRAGMENT, R0);
        asm.load(Width::W, COUNTERS, R10, WALK + AT_OFFSET);
        asm.load(Width::W, R0, R10, WALK + AT_END);
        asm.jump_if(Cond::Eq, R0, 0, none);
        asm.jump_if(Cond::Eq, R0, AT_HEADER, there);
        // Offset 0 for the kernel, of where the data of the packet begins.
        match self.job.place {
            Place::Xdp(_) | Place::XdpGeneric(_) | Place::TcxIngress(_) | Place::Bridge(..) => {
                asm.load(Width::D, COUNTERS, R10, NETWORK);
            }
            Place::TcxEgress(_) | Place::Netfilter(_) => asm.mov(COUNTERS, 0),
        }
        asm.bind(there);
    }

    /// The function: one header. It returns 1 to end.
    pub(super) fn walk_function(&mut self) {
        let Some(function) = self.walk else { return };
        let asm = &mut self.asm;
        let [at_header, extension, stop, fragment, first, authentication, step] =
            [(); 7].map(|()| asm.label());
        asm.bind(function);
        asm.mov(R6, R2);
        asm.load(Width::W, R7, R6, AT_PROTOCOL);
        asm.jump_if(Cond::Eq, R7, i32::from(NO_NEXT), at_header);
        for protocol in EXTENSIONS {
            asm.jump_if(Cond::Eq, R7, i32::from(protocol), extension);
        }
        asm.bind(at_header);
        asm.store(Width::W, R6, AT_END, AT_HEADER);
        asm.bind(stop);
        asm.exit_with(1);

        // Two bytes of each header are needed, four of those for routing and fragments.
        asm.bind(extension);
        let (v4, read) = (asm.label(), asm.label());
        asm.mov(R4, 4);
        asm.jump_if(Cond::Eq, R7, i32::from(ROUTING), v4);
        asm.jump_if(Cond::Eq, R7, i32::from(FRAGMENT_HEADER), v4);
        asm.mov(R4, 2);
        asm.bind(v4);
        asm.store(Width::D, R10, -8, 0);
        self.load_extension(stop);
        let asm = &mut self.asm;
        asm.bind(read);
        asm.load(Width::B, R8, R10, -8);
        asm.load(Width::B, R9, R10, -7);
        asm.jump_if(Cond::Eq, R7, i32::from(FRAGMENT_HEADER), fragment);
        asm.jump_if(Cond::Eq, R7, i32::from(AH), authentication);
        asm.alu(Alu::Add, R9, 1);
        asm.alu(Alu::Lsh, R9, 3);
        asm.bind(step);
        asm.load(Width::W, R1, R6, AT_OFFSET);
        asm.alu(Alu::Add, R1, R9);
        asm.store(Width::W, R6, AT_OFFSET, R1);
        asm.store(Width::W, R6, AT_PROTOCOL, R8);
        asm.exit_with(0);

        asm.bind(authentication);
        asm.jump(at_header);

        asm.bind(fragment);
        asm.load(Width::H, R1, R10, -6);
        asm.swap(R1, 16);
        asm.alu(Alu::Rsh, R1, 3);
        asm.mov(R9, FRAGMENT_LEN as i32);
        asm.jump_if(Cond::Eq, R1, 0, step);
        // A later fragment has the protocol in its fragment header, unless that is an extension
        // header.
        asm.jump_if(Cond::Eq, R8, i32::from(NO_NEXT), first);
        for protocol in EXTENSIONS {
            asm.jump_if(Cond::Eq, R8, i32::from(protocol), stop);
        }
        asm.bind(first);
        asm.store(Width::W, R6, AT_FRAGMENT, R1);
        asm.store(Width::W, R6, AT_PROTOCOL, R8);
        asm.store(Width::W, R6, AT_END, IN_FRAGMENT);
        asm.jump(stop);
    }

    /// R4 bytes of the header into the eight that end the frame.
    pub(super) fn load_extension(&mut self, stop: Label) {
        let helper = match self.job.place.kind() {
            ProgramKind::Xdp => Helper::XdpLoadBytes,
            ProgramKind::SchedCls => Helper::SkbLoadBytes,
            ProgramKind::Netfilter => return self.load_extension_of_skb(stop),
        };
        let asm = &mut self.asm;
        asm.load(Width::D, R1, R6, AT_CONTEXT);
        asm.load(Width::W, R2, R6, AT_OFFSET);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, -8);
        asm.call(helper);
        asm.jump_if(Cond::Ne, R0, 0, stop);
    }

    fn load_extension_of_skb(&mut self, stop: Label) {
        const DYNPTR: i32 = -24;
        let Some(kernel) = self.kernel else { return };
        let asm = &mut self.asm;
        asm.mov(R8, R4);
        asm.load(Width::D, R1, R6, AT_CONTEXT);
        asm.load(Width::D, R1, R1, NETFILTER_SKB);
        asm.mov(R2, 0);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, DYNPTR);
        asm.call_kfunc(kernel.dynptr);
        asm.jump_if(Cond::Ne, R0, 0, stop);
        asm.mov(R1, R10);
        asm.alu(Alu::Add, R1, -8);
        asm.mov(R2, R8);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, DYNPTR);
        asm.load(Width::W, R4, R6, AT_OFFSET);
        asm.mov(R5, 0);
        asm.call(Helper::DynptrRead);
        asm.jump_if(Cond::Ne, R0, 0, stop);
    }
}
