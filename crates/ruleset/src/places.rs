// SPDX-License-Identifier: Apache-2.0

//! Where an expression may stand: in which family, under base chains of which type and hook.
//!
//! The kernel asks twice: the family when a rule is made (`ops->init`, and whether the family has
//! the expression at all), and type and hook once a base chain reaches the rule (`ops->validate`).

use penstock_program::expr::{
    CtKey, Expr, FibResult, MetaKey, NatType, ObjectType, Objref, RejectType, RtKey,
};

use crate::Errno;
use crate::model::{ChainType, Family, Hook};

/// `NFTA_FIB_F_IIF`.
const FIB_IIF: u32 = 8;
/// `NFTA_FIB_F_OIF`.
const FIB_OIF: u32 = 16;

/// Families that see IP packets at the IP hooks.
fn is_ip(family: Family) -> bool {
    match family {
        Family::Ip | Family::Ip6 | Family::Inet => true,
        Family::Arp | Family::Bridge | Family::Netdev => false,
    }
}

/// Whether a family knows the expression (`nft_expr_type_get()`).
pub(crate) fn is_known(family: Family, expr: &Expr) -> bool {
    available(family, expr) != Err(Errno::Enoent)
}

/// Whether a family has the expression.
pub(crate) fn available(family: Family, expr: &Expr) -> Result<(), Errno> {
    let only = |yes: bool, errno: Errno| if yes { Ok(()) } else { Err(errno) };
    match expr {
        Expr::Masq(_) | Expr::Redir(_) => only(is_ip(family), Errno::Enoent),
        Expr::Nat(_) => only(is_ip(family), Errno::Eopnotsupp),
        Expr::Fwd(_) => only(family == Family::Netdev, Errno::Enoent),
        Expr::Dup(_) => {
            only(matches!(family, Family::Ip | Family::Ip6 | Family::Netdev), Errno::Enoent)
        }
        Expr::Reject(reject) => match (family, reject.kind) {
            (Family::Arp, _) => Err(Errno::Enoent),
            (Family::Ip | Family::Ip6, RejectType::IcmpxUnreach) => Err(Errno::Einval),
            (Family::Ip | Family::Ip6 | Family::Inet | Family::Bridge | Family::Netdev, _) => {
                Ok(())
            }
        },
        Expr::Fib(_) => only(is_ip(family) || family == Family::Netdev, Errno::Enoent),
        // Can only be set.
        Expr::Ct(ct) if ct.key == CtKey::EventMask => Err(Errno::Eopnotsupp),
        Expr::Ct(ct) if ct.dir.is_none() && needs_direction(ct.key) => Err(Errno::Einval),
        Expr::Ct(_) | Expr::CtSet(_) | Expr::Connlimit(_) => match family {
            Family::Ip | Family::Ip6 | Family::Inet | Family::Bridge => Ok(()),
            Family::Arp | Family::Netdev => Err(Errno::Eproto),
        },
        Expr::Queue(_) => only(is_ip(family) || family == Family::Bridge, Errno::Enoent),
        Expr::Tproxy(_) | Expr::Socket(_) | Expr::Xfrm(_) => only(is_ip(family), Errno::Eopnotsupp),
        Expr::Synproxy(_) => only(is_ip(family), Errno::Eproto),
        Expr::Meta(meta) => match meta.key {
            MetaKey::BriIifName
            | MetaKey::BriOifName
            | MetaKey::BriIifPvid
            | MetaKey::BriIifVproto
            | MetaKey::BriBroute
            | MetaKey::BriIifHwAddr => only(family == Family::Bridge, Errno::Eopnotsupp),
            _ => Ok(()),
        },
        Expr::MetaSet(meta) => match meta.key {
            MetaKey::Mark
            | MetaKey::Priority
            | MetaKey::NfTrace
            | MetaKey::PktType
            | MetaKey::SecMark => Ok(()),
            MetaKey::BriBroute => only(family == Family::Bridge, Errno::Eopnotsupp),
            _ => Err(Errno::Eopnotsupp),
        },
        Expr::Immediate(_)
        | Expr::Payload(_)
        | Expr::PayloadSet(_)
        | Expr::Cmp(_)
        | Expr::Range(_)
        | Expr::Bitwise(_)
        | Expr::Byteorder(_)
        | Expr::Lookup(_)
        | Expr::Dynset(_)
        | Expr::Counter(_)
        | Expr::Limit(_)
        | Expr::Quota(_)
        | Expr::Last(_)
        | Expr::Objref(_)
        | Expr::Log(_)
        | Expr::Exthdr(_)
        | Expr::ExthdrSet(_)
        | Expr::ExthdrReset(_)
        | Expr::Numgen(_)
        | Expr::Hash(_)
        | Expr::Notrack
        | Expr::Rt(_)
        | Expr::Osf(_)
        | Expr::Tunnel(_)
        | Expr::Inner(_)
        | Expr::FlowOffload(_)
        | Expr::Xt(_) => Ok(()),
    }
}

/// Whether [`allowed`] may refuse it.
pub(crate) fn depends_on_hook(expr: &Expr) -> bool {
    match expr {
        Expr::Nat(_)
        | Expr::Masq(_)
        | Expr::Redir(_)
        | Expr::Reject(_)
        | Expr::Fib(_)
        | Expr::Meta(_)
        | Expr::MetaSet(_)
        | Expr::Rt(_)
        | Expr::Socket(_)
        | Expr::Tproxy(_)
        | Expr::Synproxy(_)
        | Expr::Osf(_)
        | Expr::Xfrm(_)
        | Expr::Queue(_)
        | Expr::FlowOffload(_)
        | Expr::Objref(_)
        | Expr::Fwd(_) => true,
        Expr::Immediate(_)
        | Expr::Payload(_)
        | Expr::PayloadSet(_)
        | Expr::Cmp(_)
        | Expr::Range(_)
        | Expr::Bitwise(_)
        | Expr::Byteorder(_)
        | Expr::Lookup(_)
        | Expr::Dynset(_)
        | Expr::Counter(_)
        | Expr::Limit(_)
        | Expr::Quota(_)
        | Expr::Last(_)
        | Expr::Connlimit(_)
        | Expr::Log(_)
        | Expr::Exthdr(_)
        | Expr::ExthdrSet(_)
        | Expr::ExthdrReset(_)
        | Expr::Numgen(_)
        | Expr::Hash(_)
        | Expr::Ct(_)
        | Expr::CtSet(_)
        | Expr::Notrack
        | Expr::Dup(_)
        | Expr::Tunnel(_)
        | Expr::Inner(_)
        | Expr::Xt(_) => false,
    }
}

/// Whether an expression may be reached from a base chain of this type and hook.
pub(crate) fn allowed(
    family: Family,
    kind: ChainType,
    hook: Hook,
    expr: &Expr,
) -> Result<(), Errno> {
    use Hook::*;
    let ip = is_ip(family);
    let ok = match expr {
        Expr::Nat(nat) => {
            kind == ChainType::Nat
                && match nat.kind {
                    NatType::Snat => matches!(hook, Postrouting | Input),
                    NatType::Dnat => matches!(hook, Prerouting | Output),
                }
        }
        Expr::Masq(_) => kind == ChainType::Nat && hook == Postrouting,
        Expr::Redir(_) => kind == ChainType::Nat && matches!(hook, Prerouting | Output),
        Expr::Reject(_) => match family {
            Family::Inet => matches!(hook, Input | Forward | Output | Prerouting | Ingress),
            Family::Ip | Family::Ip6 => matches!(hook, Input | Forward | Output | Prerouting),
            Family::Bridge => matches!(hook, Prerouting | Input),
            Family::Netdev => hook == Ingress,
            Family::Arp => false,
        },
        Expr::Fib(fib) => {
            let received = matches!(hook, Prerouting | Input | Forward)
                || family == Family::Netdev && hook == Ingress;
            let sent = matches!(hook, Forward | Output | Postrouting) || hook == Egress;
            match fib.result {
                FibResult::Oif | FibResult::OifName => received,
                FibResult::AddrType if fib.flags & FIB_IIF != 0 => received,
                FibResult::AddrType if fib.flags & FIB_OIF != 0 => sent,
                FibResult::AddrType => received || sent,
            }
        }
        Expr::Meta(meta) => match meta.key {
            MetaKey::SecPath => match family {
                Family::Netdev => hook == Ingress,
                Family::Ip | Family::Ip6 | Family::Inet => {
                    matches!(hook, Prerouting | Input | Forward)
                }
                Family::Arp | Family::Bridge => false,
            },
            MetaKey::Sdif | MetaKey::SdifName => ip && matches!(hook, Input | Forward),
            _ => true,
        },
        Expr::MetaSet(meta) => match meta.key {
            MetaKey::PktType => match family {
                Family::Netdev => hook == Ingress,
                Family::Bridge | Family::Ip | Family::Ip6 | Family::Inet => hook == Prerouting,
                Family::Arp => false,
            },
            MetaKey::BriBroute => hook == Prerouting,
            _ => true,
        },
        Expr::Rt(rt) => {
            ip && match rt.key {
                RtKey::TcpMss => matches!(hook, Forward | Output | Postrouting),
                RtKey::Classid | RtKey::Nexthop4 | RtKey::Nexthop6 | RtKey::Xfrm => true,
            }
        }
        Expr::Socket(_) => matches!(hook, Prerouting | Input | Output),
        Expr::Tproxy(_) => hook == Prerouting,
        Expr::Synproxy(_) => matches!(hook, Input | Forward),
        Expr::Objref(Objref::Named { kind: ObjectType::Synproxy, .. }) => {
            ip && matches!(hook, Input | Forward)
        }
        Expr::Osf(_) => {
            matches!(family, Family::Ip | Family::Inet)
                && matches!(hook, Input | Prerouting | Forward)
        }
        Expr::Xfrm(xfrm) if xfrm.out => matches!(hook, Forward | Output | Postrouting),
        Expr::Xfrm(_) => matches!(hook, Forward | Input | Prerouting),
        Expr::Queue(_) => matches!(hook, Prerouting | Input | Forward | Output | Postrouting),
        Expr::FlowOffload(_) => hook == Forward,
        Expr::Fwd(_) => matches!(hook, Ingress | Egress),
        // `depends_on_hook` says which these are.
        _ => true,
    };
    if ok { Ok(()) } else { Err(Errno::Eopnotsupp) }
}

/// Whether a key of `ct` can be set.
/// Keys that say something else of either direction (`nft_ct_get_init()`).
fn needs_direction(key: CtKey) -> bool {
    matches!(
        key,
        CtKey::Src
            | CtKey::Dst
            | CtKey::SrcIp
            | CtKey::DstIp
            | CtKey::SrcIp6
            | CtKey::DstIp6
            | CtKey::ProtoSrc
            | CtKey::ProtoDst
    )
}

pub(crate) fn ct_settable(key: CtKey) -> bool {
    matches!(
        key,
        CtKey::Mark
            | CtKey::SecMark
            | CtKey::Labels
            | CtKey::Zone
            | CtKey::EventMask
            | CtKey::Helper
    )
}
