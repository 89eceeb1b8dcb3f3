// SPDX-License-Identifier: Apache-2.0

//! Expressions that fill registers from the packet and from what is around it, and those that write
//! back.

use penstock_program::expr::{
    Ct, CtKey, CtSet, Exthdr, ExthdrOp, ExthdrReset, ExthdrSet, Inner, Osf, Socket, SocketKey,
    Tunnel,
};
use penstock_ruleset::Errno;

use super::form::{
    Be32, Be32Or0, Bool8, Checked, Enum, EnumOrFirst, Form, Reg, U8, U8Or0, attributes,
};
use super::number::Numbered;
use super::{Codec, Ids};
use crate::message::{Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

attributes! {
    /// `net/netfilter/nft_payload.c`
    Payload:
        dreg NFTA_PAYLOAD_DREG Reg,
        base NFTA_PAYLOAD_BASE Enum,
        offset NFTA_PAYLOAD_OFFSET Be32,
        len NFTA_PAYLOAD_LEN Be32;
    /// `net/netfilter/nft_payload.c`
    PayloadSet:
        sreg NFTA_PAYLOAD_SREG Reg,
        base NFTA_PAYLOAD_BASE Enum,
        offset NFTA_PAYLOAD_OFFSET Be32,
        len NFTA_PAYLOAD_LEN Be32,
        csum_type NFTA_PAYLOAD_CSUM_TYPE EnumOrFirst,
        csum_offset NFTA_PAYLOAD_CSUM_OFFSET Be32Or0,
        csum_flags NFTA_PAYLOAD_CSUM_FLAGS Be32Or0;
    /// `net/netfilter/nft_meta.c`
    Meta:
        key NFTA_META_KEY Enum,
        dreg NFTA_META_DREG Reg;
    /// `net/netfilter/nft_meta.c`
    MetaSet:
        key NFTA_META_KEY Enum,
        sreg NFTA_META_SREG Reg;
    /// `net/netfilter/nft_rt.c`
    Rt:
        key NFTA_RT_KEY Enum,
        dreg NFTA_RT_DREG Reg;
    /// `net/netfilter/nft_xfrm.c`
    Xfrm:
        dreg NFTA_XFRM_DREG Reg,
        key NFTA_XFRM_KEY Enum,
        out NFTA_XFRM_DIR Bool8,
        spnum NFTA_XFRM_SPNUM Be32Or0;
    /// `net/netfilter/nft_fib.c`
    Fib:
        dreg NFTA_FIB_DREG Reg,
        result NFTA_FIB_RESULT Enum,
        flags NFTA_FIB_FLAGS Be32;
    /// `net/netfilter/nft_numgen.c`
    Numgen:
        dreg NFTA_NG_DREG Reg,
        modulus NFTA_NG_MODULUS Be32,
        mode NFTA_NG_TYPE Enum,
        offset NFTA_NG_OFFSET Be32Or0;
}

/// `net/netfilter/nft_ct.c`
const CT_POLICY: Policy = &[
    (NFTA_CT_DREG, Reg::CHECK),
    (NFTA_CT_KEY, Check::Max(255)),
    (NFTA_CT_DIRECTION, U8::CHECK),
    (NFTA_CT_SREG, Reg::CHECK),
];

fn direction(
    attributes: &Attributes<'_>,
) -> Result<Option<penstock_program::expr::CtDir>, Failure> {
    let dir = attributes.get(NFTA_CT_DIRECTION);
    dir.map(|dir| Numbered::from_number(dir.u8().into())).transpose()
}

impl Codec for Ct {
    const POLICY: Policy = CT_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let key: CtKey = Enum::read(attributes.get(NFTA_CT_KEY))?;
        // Both directions have the same protocols: the kernel takes one, and forgets it.
        let has_one = !matches!(key, CtKey::L3Protocol | CtKey::Protocol);
        let dir = direction(attributes)?.filter(|_| has_one);
        let dreg = Reg::read(attributes.get(NFTA_CT_DREG))?;
        Ok(Ct { key, dir, dreg })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.dreg, NFTA_CT_DREG, to);
        Enum::write(&self.key, NFTA_CT_KEY, to);
        if let Some(dir) = self.dir {
            to.u8(NFTA_CT_DIRECTION, dir as u8);
        }
    }
}

impl Codec for CtSet {
    const POLICY: Policy = CT_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        if attributes.has(NFTA_CT_DREG) {
            return Err(Failure::einval());
        }
        let key: CtKey = Enum::read(attributes.get(NFTA_CT_KEY))?;
        let dir = direction(attributes)?;
        let sreg = Reg::read(attributes.get(NFTA_CT_SREG))?;
        Ok(CtSet { key, dir, sreg })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg, NFTA_CT_SREG, to);
        Enum::write(&self.key, NFTA_CT_KEY, to);
        if let Some(dir) = self.dir {
            to.u8(NFTA_CT_DIRECTION, dir as u8);
        }
    }
}

/// `net/netfilter/nft_exthdr.c`
const EXTHDR_POLICY: Policy = &[
    (NFTA_EXTHDR_DREG, Reg::CHECK),
    (NFTA_EXTHDR_TYPE, U8::CHECK),
    (NFTA_EXTHDR_OFFSET, Be32::CHECK),
    (NFTA_EXTHDR_LEN, Check::Max(255)),
    (NFTA_EXTHDR_FLAGS, Be32::CHECK),
    (NFTA_EXTHDR_OP, Check::Max(255)),
    (NFTA_EXTHDR_SREG, Reg::CHECK),
];
/// `NFT_EXTHDR_F_PRESENT`
const PRESENT: u32 = 1;

fn exthdr_op(attributes: &Attributes<'_>) -> Result<ExthdrOp, Failure> {
    EnumOrFirst::read(attributes.get(NFTA_EXTHDR_OP))
}

fn write_exthdr(kind: u8, offset: u32, len: u32, flags: u32, op: ExthdrOp, to: &mut Writer) {
    to.u8(NFTA_EXTHDR_TYPE, kind);
    to.be32(NFTA_EXTHDR_OFFSET, offset);
    to.be32(NFTA_EXTHDR_LEN, len);
    to.be32(NFTA_EXTHDR_FLAGS, flags);
    Enum::write(&op, NFTA_EXTHDR_OP, to);
}

impl Codec for Exthdr {
    const POLICY: Policy = EXTHDR_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let flags = Be32Or0::read(attributes.get(NFTA_EXTHDR_FLAGS))?;
        if flags & !PRESENT != 0 {
            return Err(Failure::einval());
        }
        Ok(Exthdr {
            op: exthdr_op(attributes)?,
            kind: U8::read(attributes.get(NFTA_EXTHDR_TYPE))?,
            offset: Be32::read(attributes.get(NFTA_EXTHDR_OFFSET))?,
            len: Be32::read(attributes.get(NFTA_EXTHDR_LEN))?,
            present: flags & PRESENT != 0,
            dreg: Reg::read(attributes.get(NFTA_EXTHDR_DREG))?,
        })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.dreg, NFTA_EXTHDR_DREG, to);
        let flags = if self.present { PRESENT } else { 0 };
        write_exthdr(self.kind, self.offset, self.len, flags, self.op, to);
    }
}

impl Codec for ExthdrSet {
    const POLICY: Policy = EXTHDR_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        if attributes.has(NFTA_EXTHDR_DREG) || attributes.has(NFTA_EXTHDR_FLAGS) {
            return Err(Failure::einval());
        }
        Ok(ExthdrSet {
            op: exthdr_op(attributes)?,
            kind: U8::read(attributes.get(NFTA_EXTHDR_TYPE))?,
            offset: Be32::read(attributes.get(NFTA_EXTHDR_OFFSET))?,
            len: Be32::read(attributes.get(NFTA_EXTHDR_LEN))?,
            sreg: Reg::read(attributes.get(NFTA_EXTHDR_SREG))?,
        })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg, NFTA_EXTHDR_SREG, to);
        write_exthdr(self.kind, self.offset, self.len, 0, self.op, to);
    }
}

impl Codec for ExthdrReset {
    const POLICY: Policy = EXTHDR_POLICY;

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let op = exthdr_op(attributes)?;
        if op != ExthdrOp::TcpOpt {
            return Err(Errno::Eopnotsupp.into());
        }
        Ok(ExthdrReset { op, kind: U8::read(attributes.get(NFTA_EXTHDR_TYPE))? })
    }

    fn write(&self, to: &mut Writer) {
        write_exthdr(self.kind, 0, 0, 0, self.op, to);
    }
}

impl Codec for Socket {
    const POLICY: Policy = &[
        (NFTA_SOCKET_KEY, Check::Max(255)),
        (NFTA_SOCKET_DREG, Reg::CHECK),
        (NFTA_SOCKET_LEVEL, Check::Max(255)),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let key = Enum::read(attributes.get(NFTA_SOCKET_KEY))?;
        let level = match key {
            SocketKey::Cgroupv2 => Be32::read(attributes.get(NFTA_SOCKET_LEVEL))?,
            SocketKey::Transparent | SocketKey::Mark | SocketKey::Wildcard => 0,
        };
        Ok(Socket { key, level, dreg: Reg::read(attributes.get(NFTA_SOCKET_DREG))? })
    }

    fn write(&self, to: &mut Writer) {
        Enum::write(&self.key, NFTA_SOCKET_KEY, to);
        Reg::write(&self.dreg, NFTA_SOCKET_DREG, to);
        if self.key == SocketKey::Cgroupv2 {
            to.be32(NFTA_SOCKET_LEVEL, self.level);
        }
    }
}

impl Codec for Osf {
    const POLICY: Policy =
        &[(NFTA_OSF_DREG, Reg::CHECK), (NFTA_OSF_TTL, U8::CHECK), (NFTA_OSF_FLAGS, Be32::CHECK)];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let ttl = U8Or0::read(attributes.get(NFTA_OSF_TTL))?;
        let flags = Be32Or0::read(attributes.get(NFTA_OSF_FLAGS))?;
        // `NFT_OSF_F_VERSION` is the only one.
        if ttl > 2 || flags > 1 {
            return Err(Failure::einval());
        }
        let dreg = Reg::read(attributes.get(NFTA_OSF_DREG))?;
        Ok(Osf { ttl, version: flags != 0, dreg })
    }

    fn write(&self, to: &mut Writer) {
        to.u8(NFTA_OSF_TTL, self.ttl);
        to.be32(NFTA_OSF_FLAGS, self.version.into());
        Reg::write(&self.dreg, NFTA_OSF_DREG, to);
    }
}

impl Codec for Tunnel {
    const POLICY: Policy = &[
        (NFTA_TUNNEL_KEY, Check::Max(255)),
        (NFTA_TUNNEL_DREG, Reg::CHECK),
        (NFTA_TUNNEL_MODE, Check::Max(255)),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        // `NFT_TUNNEL_MODE_NONE`: received or to be sent.
        if attributes.be32(NFTA_TUNNEL_MODE).unwrap_or(0) != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        Ok(Tunnel {
            key: Enum::read(attributes.get(NFTA_TUNNEL_KEY))?,
            dreg: Reg::read(attributes.get(NFTA_TUNNEL_DREG))?,
        })
    }

    fn write(&self, to: &mut Writer) {
        Enum::write(&self.key, NFTA_TUNNEL_KEY, to);
        Reg::write(&self.dreg, NFTA_TUNNEL_DREG, to);
        to.be32(NFTA_TUNNEL_MODE, 0);
    }
}

impl Codec for Inner {
    const POLICY: Policy = &[
        (NFTA_INNER_NUM, Be32::CHECK),
        (NFTA_INNER_TYPE, Be32::CHECK),
        (NFTA_INNER_FLAGS, Be32::CHECK),
        (NFTA_INNER_HDRSIZE, Be32::CHECK),
        (NFTA_INNER_EXPR, Check::Nested),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        if attributes.need(NFTA_INNER_NUM)?.be32() != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        let inner = attributes.need(NFTA_INNER_EXPR)?;
        let name = inner.attributes(super::EXPR_POLICY)?.need(NFTA_EXPR_NAME)?.text()?;
        if !matches!(name, "payload" | "meta") {
            return Err(Errno::Eopnotsupp.into());
        }
        Ok(Inner {
            kind: Be32::read(attributes.get(NFTA_INNER_TYPE))?,
            flags: Be32::read(attributes.get(NFTA_INNER_FLAGS))?,
            hdrsize: Be32::read(attributes.get(NFTA_INNER_HDRSIZE))?,
            expr: Box::new(super::read(inner, ids)?),
        })
    }

    fn write(&self, to: &mut Writer) {
        to.be32(NFTA_INNER_NUM, 0);
        to.be32(NFTA_INNER_TYPE, self.kind);
        to.be32(NFTA_INNER_FLAGS, self.flags);
        to.be32(NFTA_INNER_HDRSIZE, self.hdrsize);
        to.nest(NFTA_INNER_EXPR, |to| super::write(&self.expr, to));
    }
}
