// SPDX-License-Identifier: Apache-2.0

//! To a listener (`net/netfilter/nft_queue.c`, `include/net/netfilter/nf_queue.h`).

use penstock_packet::Packet;
use penstock_wire::ethernet;

use super::hash::{jhash, reciprocal_scale};
use super::registers::Registers;
use crate::linked::LinkedVerdict;
use crate::op::LinkedQueue;
use crate::{Env, Family};

#[inline(never)]
pub(super) fn eval<E: Env>(
    queue: &LinkedQueue,
    registers: &Registers,
    packet: &Packet,
    env: &mut E,
) -> LinkedVerdict {
    let total = u32::from(queue.total);
    let num = match queue.sreg {
        Some(slot) => registers.word(slot),
        None if total > 1 && queue.fanout => {
            u32::from(queue.num) + env.worker().get() as u32 % total
        }
        None if total > 1 => {
            u32::from(queue.num)
                + reciprocal_scale(hash(packet, env.context().family, env.queue_seed()), total)
        }
        None => queue.num.into(),
    };
    // NF_QUEUE_NR() has 16 bits.
    LinkedVerdict::Queue { num: num as u16, bypass: queue.bypass }
}

/// A hash that both directions of a flow share (`nfqueue_hash()`); 0 for what is not IP.
fn hash(packet: &Packet, family: Family, seed: u32) -> u32 {
    let network = packet.network();
    let hash = match (family, packet.meta.protocol) {
        (Family::Ip, _) | (Family::Bridge, ethernet::IPV4) => hash4(network, seed),
        (Family::Ip6, _) | (Family::Bridge, ethernet::IPV6) => hash6(network, seed),
        _ => None,
    };
    hash.unwrap_or(0)
}

fn word(network: &[u8], at: usize) -> Option<u32> {
    // Addresses are compared and hashed as the host's numbers.
    Some(u32::from_ne_bytes(*network.get(at..)?.first_chunk()?))
}

fn hash4(network: &[u8], seed: u32) -> Option<u32> {
    let (source, destination) = (word(network, 12)?, word(network, 16)?);
    let protocol = u32::from(*network.get(9)?);
    Some(jhash_3words([source.min(destination), source.max(destination), protocol], seed))
}

fn hash6(network: &[u8], seed: u32) -> Option<u32> {
    const SOURCE: usize = 8;
    const DESTINATION: usize = 24;
    let (source, destination) = (word(network, SOURCE + 12)?, word(network, DESTINATION + 12)?);
    let subnet = word(network, SOURCE + 4)?.min(word(network, DESTINATION + 4)?);
    Some(jhash_3words([source.min(destination), source.max(destination), subnet], seed))
}

fn jhash_3words(words: [u32; 3], seed: u32) -> u32 {
    let mut bytes = [0; 12];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    jhash(&bytes, seed)
}
