// SPDX-License-Identifier: Apache-2.0

//! Statements about the packet and its connection.

use penstock_program::expr::{Fwd, Log, Masq, Nat, Queue, Redir, Reject, RejectType, Tproxy, Xt};
use penstock_program::{Family, Register};
use penstock_ruleset::Errno;

use super::form::{Be16Or0, Be32Not0, Checked, Enum, Form, OptReg, Reg, attributes};
use super::{Codec, Ids};
use crate::message::{Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

attributes! {
    /// `net/ipv4/netfilter/nft_dup_ipv4.c`, `net/netfilter/nft_dup_netdev.c`
    Dup:
        addr NFTA_DUP_SREG_ADDR OptReg,
        dev NFTA_DUP_SREG_DEV OptReg;
}

/// First and last of a range in registers: the last one is the first one if it is missing, and
/// the kernel always sends both.
fn range(
    attributes: &Attributes<'_>,
    min: u16,
    max: u16,
) -> Result<(Option<Register>, Option<Register>), Failure> {
    let first = OptReg::read(attributes.get(min))?;
    let last = OptReg::read(attributes.get(max))?.filter(|_| first.is_some());
    Ok((first, last.filter(|last| Some(*last) != first)))
}

fn write_range(
    (first, last): (Option<Register>, Option<Register>),
    min: u16,
    max: u16,
    to: &mut Writer,
) {
    OptReg::write(&first, min, to);
    OptReg::write(&last.or(first).filter(|_| first.is_some()), max, to);
}

/// `NF_NAT_RANGE_MASK`
const NAT_FLAGS: u32 = 0x7f;
/// `NF_NAT_RANGE_MAP_IPS` and `NF_NAT_RANGE_PROTO_SPECIFIED`, which the kernel sets where there are
/// registers.
const MAP_IPS: u32 = 1;
const PROTO_SPECIFIED: u32 = 2;

fn nat_flags(attributes: &Attributes<'_>, kind: u16) -> Result<u32, Failure> {
    match attributes.be32(kind).unwrap_or(0) {
        flags if flags & !NAT_FLAGS != 0 => Err(Errno::Eopnotsupp.into()),
        flags => Ok(flags),
    }
}

impl Codec for Nat {
    const POLICY: Policy = &[
        (NFTA_NAT_TYPE, Check::U32),
        (NFTA_NAT_FAMILY, Check::U32),
        (NFTA_NAT_REG_ADDR_MIN, Reg::CHECK),
        (NFTA_NAT_REG_ADDR_MAX, Reg::CHECK),
        (NFTA_NAT_REG_PROTO_MIN, Reg::CHECK),
        (NFTA_NAT_REG_PROTO_MAX, Reg::CHECK),
        (NFTA_NAT_FLAGS, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let kind = Enum::read(attributes.get(NFTA_NAT_TYPE))?;
        let family = attributes.need(NFTA_NAT_FAMILY)?.be32();
        let family = u8::try_from(family).map_err(|_| Errno::Eafnosupport)?;
        let (addr_min, addr_max) = range(attributes, NFTA_NAT_REG_ADDR_MIN, NFTA_NAT_REG_ADDR_MAX)?;
        let (proto_min, proto_max) =
            range(attributes, NFTA_NAT_REG_PROTO_MIN, NFTA_NAT_REG_PROTO_MAX)?;
        let flags = nat_flags(attributes, NFTA_NAT_FLAGS)?;
        Ok(Nat { kind, family, addr_min, addr_max, proto_min, proto_max, flags })
    }

    fn write(&self, to: &mut Writer) {
        Enum::write(&self.kind, NFTA_NAT_TYPE, to);
        to.be32(NFTA_NAT_FAMILY, self.family.into());
        let (addr, proto) = ((self.addr_min, self.addr_max), (self.proto_min, self.proto_max));
        write_range(addr, NFTA_NAT_REG_ADDR_MIN, NFTA_NAT_REG_ADDR_MAX, to);
        write_range(proto, NFTA_NAT_REG_PROTO_MIN, NFTA_NAT_REG_PROTO_MAX, to);
        let addr = self.addr_min.map_or(0, |_| MAP_IPS);
        let proto = self.proto_min.map_or(0, |_| PROTO_SPECIFIED);
        Be32Not0::write(&(self.flags | addr | proto), NFTA_NAT_FLAGS, to);
    }
}

impl Codec for Masq {
    const POLICY: Policy = &[
        (NFTA_MASQ_FLAGS, Check::U32),
        (NFTA_MASQ_REG_PROTO_MIN, Reg::CHECK),
        (NFTA_MASQ_REG_PROTO_MAX, Reg::CHECK),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let flags = nat_flags(attributes, NFTA_MASQ_FLAGS)?;
        let (proto_min, proto_max) =
            range(attributes, NFTA_MASQ_REG_PROTO_MIN, NFTA_MASQ_REG_PROTO_MAX)?;
        Ok(Masq { proto_min, proto_max, flags })
    }

    fn write(&self, to: &mut Writer) {
        Be32Not0::write(&self.flags, NFTA_MASQ_FLAGS, to);
        let proto = (self.proto_min, self.proto_max);
        write_range(proto, NFTA_MASQ_REG_PROTO_MIN, NFTA_MASQ_REG_PROTO_MAX, to);
    }
}

impl Codec for Redir {
    const POLICY: Policy = &[
        (NFTA_REDIR_REG_PROTO_MIN, Reg::CHECK),
        (NFTA_REDIR_REG_PROTO_MAX, Reg::CHECK),
        (NFTA_REDIR_FLAGS, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let (proto_min, proto_max) =
            range(attributes, NFTA_REDIR_REG_PROTO_MIN, NFTA_REDIR_REG_PROTO_MAX)?;
        Ok(Redir { proto_min, proto_max, flags: nat_flags(attributes, NFTA_REDIR_FLAGS)? })
    }

    fn write(&self, to: &mut Writer) {
        let proto = (self.proto_min, self.proto_max);
        write_range(proto, NFTA_REDIR_REG_PROTO_MIN, NFTA_REDIR_REG_PROTO_MAX, to);
        let specified = self.proto_min.map_or(0, |_| PROTO_SPECIFIED);
        Be32Not0::write(&(self.flags | specified), NFTA_REDIR_FLAGS, to);
    }
}

impl Codec for Reject {
    const POLICY: Policy =
        &[(NFTA_REJECT_TYPE, Check::Max(255)), (NFTA_REJECT_ICMP_CODE, Check::U8)];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let kind = Enum::read(attributes.get(NFTA_REJECT_TYPE))?;
        let code = match kind {
            RejectType::TcpRst => 0,
            RejectType::IcmpUnreach | RejectType::IcmpxUnreach => {
                attributes.need(NFTA_REJECT_ICMP_CODE)?.u8()
            }
        };
        Ok(Reject { kind, code })
    }

    fn write(&self, to: &mut Writer) {
        Enum::write(&self.kind, NFTA_REJECT_TYPE, to);
        if self.kind != RejectType::TcpRst {
            to.u8(NFTA_REJECT_ICMP_CODE, self.code);
        }
    }
}

impl Codec for Fwd {
    const POLICY: Policy = &[
        (NFTA_FWD_SREG_DEV, Reg::CHECK),
        (NFTA_FWD_SREG_ADDR, Reg::CHECK),
        (NFTA_FWD_NFPROTO, Check::Max(255)),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let dev = Reg::read(attributes.get(NFTA_FWD_SREG_DEV))?;
        let addr = OptReg::read(attributes.get(NFTA_FWD_SREG_ADDR))?;
        let nfproto = match addr {
            None => 0,
            Some(_) => attributes.need(NFTA_FWD_NFPROTO)?.be32() as u8,
        };
        Ok(Fwd { dev, addr, nfproto })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.dev, NFTA_FWD_SREG_DEV, to);
        if self.addr.is_some() {
            OptReg::write(&self.addr, NFTA_FWD_SREG_ADDR, to);
            to.be32(NFTA_FWD_NFPROTO, self.nfproto.into());
        }
    }
}

/// `NFT_QUEUE_FLAG_BYPASS`
const QUEUE_BYPASS: u16 = 1;
/// `NFT_QUEUE_FLAG_CPU_FANOUT`
const QUEUE_FANOUT: u16 = 2;

impl Codec for Queue {
    const POLICY: Policy = &[
        (NFTA_QUEUE_NUM, Check::U16),
        (NFTA_QUEUE_TOTAL, Check::U16),
        (NFTA_QUEUE_FLAGS, Check::U16),
        (NFTA_QUEUE_SREG_QNUM, Reg::CHECK),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let sreg = OptReg::read(attributes.get(NFTA_QUEUE_SREG_QNUM))?;
        let has_number = attributes.has(NFTA_QUEUE_NUM);
        let flags = Be16Or0::read(attributes.get(NFTA_QUEUE_FLAGS))?;
        if sreg.is_some() == has_number || flags & !(QUEUE_BYPASS | QUEUE_FANOUT) != 0 {
            return Err(Failure::einval());
        }
        // Fanout is over numbers, not over what a register says.
        if sreg.is_some() && flags & QUEUE_FANOUT != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        let total = attributes.get(NFTA_QUEUE_TOTAL).filter(|_| has_number);
        Ok(Queue {
            num: Be16Or0::read(attributes.get(NFTA_QUEUE_NUM))?,
            total: total.map_or(u16::from(has_number), |total| total.be16()),
            sreg,
            bypass: flags & QUEUE_BYPASS != 0,
            fanout: flags & QUEUE_FANOUT != 0,
        })
    }

    fn write(&self, to: &mut Writer) {
        match self.sreg {
            Some(sreg) => Reg::write(&sreg, NFTA_QUEUE_SREG_QNUM, to),
            None => {
                to.be16(NFTA_QUEUE_NUM, self.num);
                to.be16(NFTA_QUEUE_TOTAL, self.total);
            }
        }
        let bypass = if self.bypass { QUEUE_BYPASS } else { 0 };
        to.be16(NFTA_QUEUE_FLAGS, bypass | if self.fanout { QUEUE_FANOUT } else { 0 });
    }
}

impl Codec for Tproxy {
    const POLICY: Policy = &[
        (NFTA_TPROXY_FAMILY, Check::Max(255)),
        (NFTA_TPROXY_REG_ADDR, Reg::CHECK),
        (NFTA_TPROXY_REG_PORT, Reg::CHECK),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let family = attributes.need(NFTA_TPROXY_FAMILY)?.be32() as u8;
        let addr = OptReg::read(attributes.get(NFTA_TPROXY_REG_ADDR))?;
        let port = OptReg::read(attributes.get(NFTA_TPROXY_REG_PORT))?;
        let unspecified = family == 0 && port.is_some() && addr.is_none();
        let known = [Family::Ip as u8, Family::Ip6 as u8].contains(&family);
        if !known && !unspecified || addr.is_none() && port.is_none() {
            return Err(Failure::einval());
        }
        Ok(Tproxy { family, addr, port })
    }

    fn write(&self, to: &mut Writer) {
        to.be32(NFTA_TPROXY_FAMILY, self.family.into());
        OptReg::write(&self.addr, NFTA_TPROXY_REG_ADDR, to);
        OptReg::write(&self.port, NFTA_TPROXY_REG_PORT, to);
    }
}

/// `NFT_LOGLEVEL_WARNING`, and the largest one, `NFT_LOGLEVEL_AUDIT`.
const LEVEL_DEFAULT: u32 = 4;
const LEVEL_MAX: u32 = 8;
/// `NF_LOG_MASK`
const LOG_FLAGS: u32 = 0x2f;

impl Codec for Log {
    const POLICY: Policy = &[
        (NFTA_LOG_GROUP, Check::U16),
        (NFTA_LOG_PREFIX, Check::String(127)),
        (NFTA_LOG_SNAPLEN, Check::U32),
        (NFTA_LOG_QTHRESHOLD, Check::U16),
        (NFTA_LOG_LEVEL, Check::U32),
        (NFTA_LOG_FLAGS, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let group = attributes.get(NFTA_LOG_GROUP).map(|a| a.be16());
        let level = attributes.be32(NFTA_LOG_LEVEL);
        let flags = attributes.be32(NFTA_LOG_FLAGS);
        if group.is_some() && (level.is_some() || flags.is_some())
            || level.is_some_and(|level| level > LEVEL_MAX)
            || flags.is_some_and(|flags| flags & !LOG_FLAGS != 0)
        {
            return Err(Failure::einval());
        }
        let prefix = attributes.get(NFTA_LOG_PREFIX).map(|a| a.text()).transpose()?;
        let listeners = group.is_some();
        Ok(Log {
            prefix: prefix.map(Into::into),
            group,
            snaplen: attributes.be32(NFTA_LOG_SNAPLEN).filter(|_| listeners),
            queue_threshold: attributes
                .get(NFTA_LOG_QTHRESHOLD)
                .map(|a| a.be16())
                .filter(|_| listeners),
            level,
            flags,
        })
    }

    fn write(&self, to: &mut Writer) {
        if let Some(prefix) = &self.prefix {
            to.string(NFTA_LOG_PREFIX, prefix);
        }
        match self.group {
            Some(group) => {
                to.be16(NFTA_LOG_GROUP, group);
                if let Some(snaplen) = self.snaplen {
                    to.be32(NFTA_LOG_SNAPLEN, snaplen);
                }
                if let Some(threshold) = self.queue_threshold.filter(|n| *n != 0) {
                    to.be16(NFTA_LOG_QTHRESHOLD, threshold);
                }
            }
            None => {
                to.be32(NFTA_LOG_LEVEL, self.level.unwrap_or(LEVEL_DEFAULT));
                Be32Not0::write(&self.flags.unwrap_or(0), NFTA_LOG_FLAGS, to);
            }
        }
    }
}

/// A match of x_tables.
pub struct Match(pub Xt);
/// A target of x_tables.
pub struct Target(pub Xt);

/// `XT_EXTENSION_MAXNAMELEN` without its end.
const XT_NAME_MAX: usize = 28;

fn read_xt(target: bool, attributes: &Attributes<'_>) -> Result<Xt, Failure> {
    // Both enumerations are the same.
    Ok(Xt {
        target,
        name: attributes.need(NFTA_MATCH_NAME)?.text()?.into(),
        rev: attributes.need(NFTA_MATCH_REV)?.be32(),
        info: attributes.need(NFTA_MATCH_INFO)?.payload.into(),
    })
}

const XT_POLICY: Policy = &[
    (NFTA_MATCH_NAME, Check::NulString(XT_NAME_MAX)),
    (NFTA_MATCH_REV, Check::Max(255)),
    (NFTA_MATCH_INFO, Check::Binary(0)),
];

/// Appends a match or a target. Bytes of its structure are as many as the program sent.
pub fn write_xt(xt: &Xt, to: &mut Writer) {
    to.string(NFTA_MATCH_NAME, &xt.name);
    to.be32(NFTA_MATCH_REV, xt.rev);
    to.attribute(NFTA_MATCH_INFO, &xt.info);
}

impl Codec for Match {
    const POLICY: Policy = XT_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        read_xt(false, attributes).map(Match)
    }

    fn write(&self, to: &mut Writer) {
        write_xt(&self.0, to);
    }
}

impl Codec for Target {
    const POLICY: Policy = XT_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        read_xt(true, attributes).map(Target)
    }

    fn write(&self, to: &mut Writer) {
        write_xt(&self.0, to);
    }
}
