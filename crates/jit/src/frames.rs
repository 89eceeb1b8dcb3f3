// SPDX-License-Identifier: Apache-2.0

//! Hook lists as functions of frames that are no packets yet.
//!
//! What rules of most lists at ingress look at stands in the frame itself, so nothing has to be
//! copied and noted of frames that they drop. Code for frames finds the headers of plain ones
//! itself: IPv4 without options that is no later fragment, and TCP, UDP and ICMPv6 over IPv6
//! without extension headers, each after at most one tag. All others it leaves to code for packets
//! ([`UNUSUAL`]).

use std::sync::Arc;

use penstock_packet::{Frame as Received, layout};
use penstock_program::{DynamicSet, Family};
use penstock_wire::{ethernet, ipv4, ipv6, protocol, vlan};

use crate::CompileError;
use crate::asm::{Asm, Block, Function, Is, Session, Value, Width};
use crate::compile::{ETH_P_IP, ETH_P_IPV6, ListCompiler};
use crate::each::{Each, Order};
use crate::list::{Entry, List};
use crate::lowering_ctx::{Finish, Header, Inputs, Known, LoweringCtx, Window, Windows};
use crate::outcome::{ACCEPTED, UNUSUAL};

/// Bytes that a plain frame has at least after its network header.
const TRANSPORT: usize = 8;

/// Where the ethertype stands before the network header.
const TYPE: usize = ethernet::LEN - 2;

/// An ethertype as it stands in a frame, as code reads it.
fn on_wire(ethertype: u16) -> u64 {
    u16::from_ne_bytes(ethertype.to_be_bytes()).into()
}

/// A function of frames, and the sets that packets change in which it looks.
pub(crate) type ForFrames = (Function, Vec<Arc<DynamicSet>>);

/// What was found in a frame.
struct Found {
    windows: Windows,
    /// The ethertype, in network order.
    ethertype: Value,
}

impl ListCompiler<'_> {
    /// Whether code for frames does what code for packets does, and how: the chains of the list
    /// change only counters, and the order of frames makes no difference, or none but by sets.
    pub(crate) fn takes_frames(&mut self, list: &List) -> Option<Order> {
        let mut order = Order::Any;
        for entry in &list.entries {
            let (Entry::Chain { chain, .. } | Entry::InetIngress { chain }) = entry else {
                return None;
            };
            let summary = self.program.analysis.summary(*chain);
            if !summary.safe_in_order || summary.changes || summary.traces {
                return None;
            }
            if !summary.burst_safe {
                order = Order::OneAfterTheOther;
            }
        }
        Some(order)
    }

    /// A function of frames, their number, a packet that stands for all, the distance of the
    /// worker's cells, and where decisions go, and the sets that packets change in which it looks.
    /// `None` if none can be made.
    pub(crate) fn frames(
        &mut self,
        session: &mut Session,
        list: &List,
        order: Order,
    ) -> Result<Option<ForFrames>, CompileError> {
        const PARAMETERS: usize = 5;
        let function = session.declare(PARAMETERS)?;
        let (calls, sets) = session.define(function, PARAMETERS, |asm, values| {
            let [frames, count, packet, cells, decisions] = *values else {
                return Err(CompileError::Code("frames have five parameters".into()));
            };
            let memory = asm.stack(64);
            let zero = asm.long(0);
            let unusual = asm.cold_block();
            let each = Each::begin(asm, frames, count, size_of::<Received<'_>>());
            let found = find(asm, each.item, unusual);
            // There are no host calls.
            let inputs = Inputs { packet, host: zero, cells, memory };
            let finish = Finish::Block(each.decided);
            let mut ctx = LoweringCtx::new(asm, self.program.image, self.helpers, inputs, finish);
            ctx.windows = found.windows;
            ctx.frame_time = (order == Order::OneAfterTheOther)
                .then(|| ctx.asm.load(Width::Long, each.item, layout::FRAME_TIME));
            for (known, value) in [
                (Known::There(Header::Network, ipv4::LEN as u32), None),
                (Known::There(Header::Transport, TRANSPORT as u32), None),
                (Known::There(Header::WholeTransport, TRANSPORT as u32), None),
                (Known::Protocol, None),
                (Known::Meta(layout::PROTOCOL), Some(found.ethertype)),
            ] {
                ctx.facts.learn(known, value);
            }
            self.entries(&mut ctx, list, found.ethertype)?;
            let (calls, sets) = (ctx.asm.calls, std::mem::take(&mut ctx.dynamic_sets));
            asm.at(unusual);
            let left = asm.long(UNUSUAL);
            asm.jump_with(each.decided, left);
            each.end(asm, decisions, order);
            Ok((calls, sets))
        })??;
        // None of them may be called without a host.
        Ok((calls == 0).then_some((function, sets)))
    }

    /// Compiles the chains of a list: a frame with parsed headers passes all that see its protocol.
    fn entries(
        &mut self,
        ctx: &mut LoweringCtx<'_, '_>,
        list: &List,
        ethertype: Value,
    ) -> Result<(), CompileError> {
        let mut errors = None;
        for (number, entry) in (0..).zip(&list.entries) {
            let next = ctx.asm.block();
            ctx.known_entry = Some(number);
            ctx.entry = ctx.asm.long(number.into());
            match *entry {
                Entry::Chain { chain, family } => self.chain(ctx, chain, family, next, &mut errors),
                Entry::InetIngress { chain } => {
                    for (mine, family) in [(ETH_P_IP, Family::Ip), (ETH_P_IPV6, Family::Ip6)] {
                        let other = ctx.asm.block();
                        let is = ctx.asm.is_number(ethertype, Is::Equal, on_wire(mine));
                        ctx.asm.leave_unless(is, other);
                        let mark = ctx.facts.mark();
                        self.chain(ctx, chain, family, next, &mut errors);
                        ctx.facts.back_to(mark);
                        ctx.asm.at(other);
                    }
                    ctx.asm.jump(next);
                }
                // `takes_frames` has seen that there is none.
                Entry::Stage => ctx.asm.jump(next),
            }
            ctx.asm.at(next);
        }
        let pass = ctx.asm.long(ACCEPTED);
        ctx.leave(pass);
        errors.map_or(Ok(()), Err)
    }
}

/// Finds the headers of a frame as
/// [`receive_dissected`](penstock_packet::Packet::receive_dissected) does; goes to `unusual` if
/// they are not plain.
fn find(asm: &mut Asm<'_>, received: Value, unusual: Block) -> Found {
    let start = asm.load(Width::Long, received, layout::FRAME_START);
    let len = asm.load(Width::Long, received, layout::FRAME_LEN);
    let (tagged, untagged) = (asm.block(), asm.block());
    // Where the network header is, but for the link header's length; how many bytes are from there
    // on; what they are.
    let (look, at) = asm.block_with(Width::Long);
    let rest = asm.parameter(look, Width::Long);
    let ethertype = asm.parameter(look, Width::Half);
    let least = (ethernet::LEN + ipv4::LEN + TRANSPORT) as u64;
    let short = asm.is_number(len, Is::Below, least);
    asm.leave_if(short, unusual);
    let kind = asm.load(Width::Half, start, TYPE);
    let link = asm.long(ethernet::LEN as u64);
    let whole = asm.sub(len, link);
    let is_tag = asm.is_number(kind, Is::Equal, on_wire(ethernet::VLAN));
    asm.branch(is_tag, tagged, untagged);
    asm.at(tagged);
    let short = asm.is_number(len, Is::Below, least + vlan::LEN as u64);
    asm.leave_if(short, unusual);
    let tag = asm.long(vlan::LEN as u64);
    let untagged_start = asm.add(start, tag);
    let inner = asm.load(Width::Half, untagged_start, TYPE);
    let less = asm.sub(whole, tag);
    asm.jump_with_all(look, &[untagged_start, less, inner]);
    asm.at(untagged);
    asm.jump_with_all(look, &[start, whole, kind]);
    asm.at(look);
    let (v4, v6) = (asm.block(), asm.block());
    let (found, offset) = asm.block_with(Width::Long);
    let number = asm.parameter(found, Width::Byte);
    let is_v4 = asm.is_number(ethertype, Is::Equal, on_wire(ETH_P_IP));
    asm.leave_if(is_v4, v4);
    let is_v6 = asm.is_number(ethertype, Is::Equal, on_wire(ETH_P_IPV6));
    asm.branch(is_v6, v6, unusual);

    asm.at(v4);
    const PLAIN: u64 = 0x45;
    const LATER: u16 = 0x1fff;
    let first = asm.load(Width::Byte, at, ethernet::LEN);
    let plain = asm.is_number(first, Is::Equal, PLAIN);
    asm.leave_unless(plain, unusual);
    let fragment = asm.load(Width::Half, at, ethernet::LEN + 6);
    let later = asm.and_number(fragment, on_wire(LATER));
    asm.leave_if(later, unusual);
    let total = asm.load(Width::Half, at, ethernet::LEN + 2);
    let header = asm.long(ipv4::LEN as u64);
    fits(asm, total, header, rest, unusual);
    let protocol = asm.load(Width::Byte, at, ethernet::LEN + 9);
    asm.jump_with_all(found, &[header, protocol]);

    asm.at(v6);
    const VERSION: u64 = 0xf0;
    let header = asm.long(ipv6::LEN as u64);
    let least = (ipv6::LEN + TRANSPORT) as u64;
    let short = asm.is_number(rest, Is::Below, least);
    asm.leave_if(short, unusual);
    let first = asm.load(Width::Byte, at, ethernet::LEN);
    let version = asm.and_number(first, VERSION);
    let plain = asm.is_number(version, Is::Equal, 0x60);
    asm.leave_unless(plain, unusual);
    let payload = asm.load(Width::Half, at, ethernet::LEN + 4);
    let zero = asm.long(0);
    let after = asm.sub(rest, header);
    fits(asm, payload, zero, after, unusual);
    let protocol = asm.load(Width::Byte, at, ethernet::LEN + 6);
    let known = [protocol::UDP, protocol::TCP, protocol::ICMPV6]
        .map(|known| asm.is_number(protocol, Is::Equal, known.into()));
    let either = asm.or(known[0], known[1]);
    let either = asm.or(either, known[2]);
    asm.leave_unless(either, unusual);
    asm.jump_with_all(found, &[header, protocol]);

    asm.at(found);
    let link = asm.long(ethernet::LEN as u64);
    let network = asm.add(at, link);
    let transport = Window { base: asm.add(network, offset), len: asm.sub(rest, offset) };
    let has = asm.number(Width::Byte, 1);
    let windows = Windows {
        link: Some(Window { base: start, len }),
        network: Some(Window { base: network, len: rest }),
        transport: Some(transport),
        whole_transport: Some(transport),
        length: Some(rest),
        protocol: Some((has, asm.widen(number, Width::Word))),
    };
    Found { windows, ethertype: asm.widen(ethertype, Width::Word) }
}

/// Goes to `unusual` unless a length that stands in a header is between two others.
fn fits(asm: &mut Asm<'_>, length: Value, least: Value, most: Value, unusual: Block) {
    let length = asm.swap_bytes(length);
    let length = asm.widen(length, Width::Long);
    let above = asm.sub(length, least);
    let room = asm.sub(most, least);
    // A length below the least is a very large number.
    let fits = asm.is(above, Is::NotAbove, room);
    asm.leave_unless(fits, unusual);
}
