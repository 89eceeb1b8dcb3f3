// SPDX-License-Identifier: Apache-2.0

//! Extensions of x_tables (`net/netfilter/nft_compat.c` and the `xt_*.c` that each function names),
//! as far as they are not lowered to other operations.

mod dccp;
mod hash_mark;
mod ip_sets;
mod ipv6;
mod look;
mod outside;
mod prefix;
mod remember;
mod sctp;
mod tcp;
mod ttl;

use penstock_packet::Packet;

use super::{Registers, Step, execute};
use crate::linked::LinkedVerdict;
use crate::op::{Extension, Op};
use crate::{Env, Hook};

/// What a match does that sets `hotdrop`.
const HOTDROP: Step = Step::Verdict(LinkedVerdict::Drop);

#[inline(never)]
pub(super) fn run<E: Env>(extension: &Extension, packet: &mut Packet, env: &mut E) -> Step {
    match extension {
        Extension::Sequence { ops, continues } => match sequence(ops, packet, env) {
            Step::Break if *continues => Step::Next,
            step => step,
        },
        Extension::AnyOf { of, inverted } => {
            for list in of {
                match sequence(list, packet, env) {
                    Step::Next => return Step::unless(*inverted),
                    Step::Break => {}
                    step => return step,
                }
            }
            Step::unless(!*inverted)
        }
        Extension::ByHook { destination, source } => {
            let by_destination = matches!(env.context().hook, Hook::Prerouting | Hook::Output);
            sequence(if by_destination { destination } else { source }, packet, env)
        }
        Extension::TransportHeader { len, drops_overlap } => {
            transport_header(*len, *drops_overlap, packet)
        }
        Extension::System { genre, ttl, added, log } => Step::unless(!match log {
            Some(log) => outside::record_system(*log, *ttl, added, packet, env),
            None => outside::is_system(genre, *ttl, added, packet, env),
        }),
        Extension::TcpOption { kind, inverted } => tcp::option(*kind, *inverted, packet),
        Extension::TcpMss { range, inverted } => tcp::segment_size(*range, *inverted, packet),
        Extension::SctpChunks(rule) => sctp::chunks(rule, packet),
        Extension::Ipv6(asked) => ipv6::matches(asked, packet),
        Extension::SetTcpMss(size) => tcp::set_segment_size(*size, packet, env),
        Extension::StripTcpOptions { options } => tcp::strip_options(options, packet),
        Extension::Ttl(change) => ttl::change(*change, packet),
        Extension::Npt(change) => prefix::change(change, packet, env),
        Extension::DccpOption { kind, inverted } => dccp::option(*kind, *inverted, packet),
        Extension::U32(words) => {
            Step::unless(look::words(words, packet.network()) == words.inverted)
        }
        Extension::Search(search) => {
            Step::unless(look::found(search, packet.network()) == search.inverted)
        }
        Extension::Time(times) => {
            Step::unless(!look::is_now(times, env.wall_time(packet.meta.time) / 1_000_000_000))
        }
        Extension::Bpf(program) => outside::bpf(program, packet, env),
        Extension::Physdev(asked) => Step::unless(!outside::physdev(asked, packet, env)),
        Extension::Cluster(cluster) => outside::cluster(cluster, packet, env),
        Extension::HashMark(rule) => hash_mark::set(rule, packet, env),
        Extension::Policy(policy) => outside::policy(policy, packet, env),
        Extension::Recent(rule) => remember::recent(rule, packet, env),
        Extension::Hashlimit(rule) => remember::hashlimit(rule, packet),
        Extension::CountRate(state) => remember::count_rate(state, packet),
        Extension::Rate(rule) => remember::rate(rule, packet),
        Extension::Connlimit(rule) => remember::connlimit(rule, packet, env),
        Extension::Account(state) => remember::account(state, packet, env),
        Extension::IpSet(rule) => ip_sets::matches(rule, packet, env),
        Extension::SetIpSet(rule) => ip_sets::target(rule, packet, env),
        Extension::CopyTo { gateway, device } => {
            let device = env.interface_named(device);
            env.dup(packet, Some(*gateway), device);
            Step::Next
        }
        Extension::ArpReply { address, verdict } => {
            match (outside::arp_reply(*address, packet, env), verdict) {
                (true, Some(verdict)) => Step::Verdict(*verdict),
                _ => Step::Next,
            }
        }
        Extension::Template(new) => env.ct_set_template(packet, new).into(),
    }
}

fn sequence<E: Env>(ops: &[Op], packet: &mut Packet, env: &mut E) -> Step {
    let mut registers = Registers::new();
    for op in ops {
        match execute(op, &mut registers, packet, env) {
            Step::Next => {}
            step => return step,
        }
    }
    Step::Next
}

/// `skb_header_pointer()` where matches begin, as `tcp_mt()` and others have it.
fn transport_header(len: u8, drops_overlap: bool, packet: &Packet) -> Step {
    let Some(transport) = packet.transport() else { return Step::Break };
    match transport.fragment_offset {
        0 => {}
        1 if drops_overlap => return HOTDROP,
        _ => return Step::Break,
    }
    match packet.transport_bytes() {
        Some(bytes) if bytes.len() >= usize::from(len) => Step::Next,
        _ => HOTDROP,
    }
}
