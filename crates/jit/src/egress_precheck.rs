// SPDX-License-Identifier: Apache-2.0

//! What will become of packets, as far as that can be known before it is their turn.
//!
//! Most packets pass most lists without any rule that matches. Where what rules compare does not
//! change on a packet's way, that can be seen for a whole burst at once, from the headers as they
//! arrived: code for it reads a few bytes of each packet and needs neither the packet nor its
//! metadata. Wherever a rule asks for anything else, or does anything, it gives up: such packets
//! pass the list when it is their turn.

use penstock_program::op::TRANSPORT_PRECHECKED;
use penstock_wire::{ethernet, ipv4};

use crate::CompileError;
use crate::asm::{Function, Is, Session, Width};
use crate::compile::ListCompiler;
use crate::list::{Entry, List};
use crate::lowering_ctx::{Finish, Header, Inputs, Known, LoweringCtx, Window, Windows};
use crate::outcome::ACCEPTED;
use crate::precheck::Head;

/// Where the protocol of a packet is in its IPv4 header.
const PROTOCOL: usize = 9;

impl ListCompiler<'_> {
    /// A function of the addresses of [`Head`]s, and their number, that gives a bit for each packet
    /// that will pass. `None` if none can be made, or the list holds more than chains.
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
            let [heads, count] = *values else {
                return Err(CompileError::Code("egress_precheck has two parameters".into()));
            };
            let memory = asm.stack(64);
            let (head, index) = asm.block_with(Width::Long);
            let all = asm.parameter(head, Width::Long);
            let (decided, decision) = asm.block_with(Width::Long);
            let (body, out) = (asm.block(), asm.block());
            let zero = asm.long(0);
            asm.jump_with_all(head, &[zero, zero]);
            asm.at(head);
            let more = asm.is(index, Is::Below, count);
            asm.branch(more, body, out);
            asm.at(out);
            asm.ret(all);
            asm.at(body);
            let offset = asm.shift_left(index, 3);
            let place = asm.add(heads, offset);
            let network = asm.load(Width::Long, place, 0);
            let protocol = asm.load(Width::Byte, network, PROTOCOL);
            let header = asm.long(ipv4::LEN as u64);
            let transport = Window {
                base: asm.add(network, header),
                len: asm.long(TRANSPORT_PRECHECKED as u64),
            };
            let len = asm.long(size_of::<Head>() as u64);
            let windows = Windows {
                link: None,
                network: Some(Window { base: network, len }),
                transport: Some(transport),
                whole_transport: Some(transport),
                length: None,
                protocol: Some((asm.number(Width::Byte, 1), asm.widen(protocol, Width::Word))),
            };
            let ethertype = asm.word(u16::from_ne_bytes(ethernet::IPV4.to_be_bytes()).into());
            // They are not used: `can_precheck` has checked that.
            let inputs = Inputs { packet: zero, host: zero, cells: zero, memory };
            let finish = Finish::Block(decided);
            let mut ctx = LoweringCtx::new(asm, self.program.image, self.helpers, inputs, finish);
            ctx.windows = windows;
            ctx.prechecks = true;
            for (known, value) in [
                (Known::There(Header::Network, size_of::<Head>() as u32), None),
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
            let pass = ctx.asm.long(ACCEPTED);
            ctx.leave(pass);
            let calls = ctx.asm.calls;
            asm.at(decided);
            let passes = asm.is_number(decision, Is::NotAbove, ACCEPTED);
            let bit = asm.widen(passes, Width::Long);
            let bit = asm.shift_left_by(bit, index);
            let all = asm.or(all, bit);
            let one = asm.long(1);
            let next = asm.add(index, one);
            asm.jump_with_all(head, &[next, all]);
            errors.map_or(Ok(calls), Err)
        })??;
        Ok((calls == 0).then_some(function))
    }
}
