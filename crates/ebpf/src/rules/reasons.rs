// SPDX-License-Identifier: Apache-2.0

//! Why operations have no code at a place, where there is more to say than that.

use penstock_bpf::netfilter::InetHook;
use penstock_program::expr::ExthdrOp;
use penstock_program::image::Stateful;
use penstock_program::op::Op;

use super::Place;

/// Of `ct count`: a list has connections of all protocols, and one that is gone is looked for by
/// its addresses and ports (`find_or_evict()` in `nf_conncount.c`).
pub(super) fn count_of_connections(place: Place<'_>) -> &'static str {
    match place {
        Place::Netfilter(_) => {
            "since the kernel lets programs there look up no connection but that of the packet, and \
             those that are counted may be gone"
        }
        _ => {
            "since the kernel lets programs there look up connections of TCP and UDP only, and those \
             that are counted may be gone"
        }
    }
}

/// What is said after that an operation has no code at a place; `None` if there is nothing.
pub(super) fn why(place: Place<'_>, op: &Op) -> Option<&'static str> {
    match op {
        Op::Stateful(stateful) if matches!(**stateful, Stateful::Connlimit { .. }) => {
            Some(count_of_connections(place))
        }
        Op::Socket { .. } => Some(match place {
            Place::Netfilter(hook) if hook.hook == InetHook::Output => {
                "since programs there do not know whether a socket is whole"
            }
            _ => "since the kernel lets programs there look up no socket",
        }),
        Op::Exthdr { op: ExthdrOp::Ipv4Opt, .. } => Some(
            "since the kernel checks all options before it looks for one, by a function that programs cannot call",
        ),
        _ => None,
    }
}
