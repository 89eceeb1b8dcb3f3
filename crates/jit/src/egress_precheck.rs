// SPDX-License-Identifier: Apache-2.0

//! What will become of packets, as far as that can be known before it is their turn.
//!
//! Most packets pass most lists without any rule that matches. Where what rules compare does not
//! change on a packet's way, that can be seen for a whole burst at once, from the headers as they
//! arrived: code for it reads a few bytes of each packet and needs neither the packet nor its
//! metadata. Wherever a rule asks for anything else, or does anything, it gives up: such packets
//! pass the list when it is their turn.

use penstock_packet::{Frame as Received, layout};
use penstock_program::op::TRANSPORT_PRECHECKED;
use penstock_wire::{ethernet, ipv4};

use crate::CompileError;
use crate::asm::{Function, Is, Session, Width};
use crate::compile::ListCompiler;
use crate::list::{Entry, List};
use crate::lowering_ctx::{Finish, Header, Inputs, Known, LoweringCtx, Window, Windows};

/// Where the protocol of a packet is in its frame.
const PROTOCOL: usize = ethernet::LEN + 9;

/// The size of what describes a frame, as a power of two.
const FRAME_SHIFT: u8 = {
    let size = size_of::<Received<'_>>();
    assert!(size.is_power_of_two());
    size.trailing_zeros() as u8
};

/// Bytes of a frame that code reads at most.
const READ: usize = ethernet::LEN + ipv4::LEN + TRANSPORT_PRECHECKED;

impl ListCompiler<'_> {
    /// A function of frames and their number, at most 64, that gives a bit for each of which it is
    /// not known that it will pass, if it is one of IPv4. `None` if none can be made, or the list
    /// holds more than chains.
    pub(crate) fn egress_precheck(
        &mut self,
        session: &mut Session,
        list: &List,
    ) -> Result<Option<Function>, CompileError> {
        const PARAMETERS: usize = 2;
        let chains = list.entries.iter().map(|entry| match *entry {
            Entry::Chain { chain, family } => Some((chain, family)),
            Entry::InetIngress { .. } | Entry::Stage => None,
        });
        let Some(chains) = chains.collect::<Option<Vec<_>>>().filter(|_| self.profile.is_none())
        else {
            return Ok(None);
        };
        let function = session.declare(PARAMETERS)?;
        let calls = session.define(function, PARAMETERS, |asm, values| {
            let [frames, count] = *values else {
                return Err(CompileError::Code("egress_precheck has two parameters".into()));
            };
            let memory = asm.stack(64);
            let size = asm.long(1 << FRAME_SHIFT);
            let bytes = asm.shift_left(count, FRAME_SHIFT);
            let end = asm.add(frames, bytes);
            let zero = asm.long(0);
            // The frame, and a bit for each that does not pass.
            let (body, frame) = asm.block_with(Width::Long);
            let failed = asm.parameter(body, Width::Long);
            let (next, then_failed) = asm.block_with(Width::Long);
            let (passes, fails, out) = (asm.block(), asm.cold_block(), asm.block());
            let (begin, none) = (asm.block(), asm.block());
            asm.branch(count, begin, none);
            asm.at(none);
            asm.ret(zero);
            asm.at(begin);
            asm.jump_with_all(body, &[frames, zero]);
            asm.at(body);
            let len = asm.load(Width::Long, frame, layout::FRAME_LEN);
            let short = asm.is_number(len, Is::Below, READ as u64);
            asm.leave_if(short, fails);
            let start = asm.load(Width::Long, frame, layout::FRAME_START);
            let protocol = asm.load(Width::Byte, start, PROTOCOL);
            let link = asm.long(ethernet::LEN as u64);
            let headers = asm.long((ethernet::LEN + ipv4::LEN) as u64);
            let network =
                Window { base: asm.add(start, link), len: asm.long((READ - ethernet::LEN) as u64) };
            let transport = Window {
                base: asm.add(start, headers),
                len: asm.long(TRANSPORT_PRECHECKED as u64),
            };
            let windows = Windows {
                link: None,
                network: Some(network),
                transport: Some(transport),
                whole_transport: Some(transport),
                length: None,
                protocol: Some((asm.number(Width::Byte, 1), asm.widen(protocol, Width::Word))),
            };
            let ethertype = asm.word(u16::from_ne_bytes(ethernet::IPV4.to_be_bytes()).into());
            // They are not used: `can_precheck` has checked that.
            let inputs = Inputs { packet: zero, host: zero, cells: zero, memory };
            let finish = Finish::Passes { passes, fails };
            let mut ctx = LoweringCtx::new(asm, self.program.image, self.helpers, inputs, finish);
            ctx.windows = windows;
            ctx.prechecks = true;
            for (known, value) in [
                (Known::There(Header::Network, (READ - ethernet::LEN) as u32), None),
                (Known::There(Header::Transport, TRANSPORT_PRECHECKED as u32), None),
                (Known::There(Header::WholeTransport, TRANSPORT_PRECHECKED as u32), None),
                (Known::Protocol, None),
                (Known::Meta(penstock_packet::layout::PROTOCOL), Some(ethertype)),
            ] {
                ctx.facts.learn(known, value);
            }
            let mut errors = None;
            for &(chain, family) in &chains {
                let next = ctx.asm.block();
                self.chain(&mut ctx, chain, family, next, &mut errors);
                ctx.asm.at(next);
            }
            ctx.asm.jump(passes);
            let calls = ctx.asm.calls;
            asm.at(fails);
            // Seldom enough to find the frame's number only here.
            let before = asm.sub(frame, frames);
            let number = asm.shift_right(before, FRAME_SHIFT);
            let one = asm.long(1);
            let bit = asm.shift_left_by(one, number);
            let with_this = asm.or(failed, bit);
            asm.jump_with(next, with_this);
            asm.at(passes);
            asm.jump_with(next, failed);
            asm.at(next);
            let after = asm.add(frame, size);
            let more = asm.is(after, Is::NotEqual, end);
            asm.branch_with_all(more, (body, &[after, then_failed]), out);
            asm.at(out);
            asm.ret(then_failed);
            errors.map_or(Ok(calls), Err)
        })??;
        Ok((calls == 0).then_some(function))
    }
}
