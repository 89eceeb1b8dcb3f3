// SPDX-License-Identifier: Apache-2.0

//! What happens to packets.

pub(crate) mod bridge;
pub(crate) mod burst;
pub(crate) mod defragment;
pub(crate) mod dup_fwd;
pub(crate) mod fast_path;
pub(crate) mod flow;
pub(crate) mod frames;
pub(crate) mod host;
pub(crate) mod icmp4;
pub(crate) mod icmp6;
pub(crate) mod ingress_batch;
pub(crate) mod ip4;
pub(crate) mod ip6;
pub(crate) mod nat;
pub(crate) mod neighbours;
pub(crate) mod output;
pub(crate) mod prefetcher;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod refragment;
pub(crate) mod reject;
pub(crate) mod rules;
pub(crate) mod run_list;
pub(crate) mod synproxy;
pub(crate) mod tap;
pub(crate) mod tc;
pub(crate) mod track;
pub(crate) mod transmit;
pub(crate) mod tunnel;
pub(crate) mod xfrm;
