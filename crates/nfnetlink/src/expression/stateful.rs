// SPDX-License-Identifier: Apache-2.0

//! Expressions with state of their own. Objects of the same kinds have the same attributes.

use penstock_program::expr::{Connlimit, Limit, LimitType, Quota};
use penstock_ruleset::Errno;

use super::form::{
    Be16Or0, Be32Or0, Be64Or0, Bool32, Checked, EnumOrFirst, Form, U8Or0, attributes,
};
use super::number::Numbered;
use super::{Codec, Ids};
use crate::message::{Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

attributes! {
    /// `net/netfilter/nft_counter.c`
    Counter:
        bytes NFTA_COUNTER_BYTES Be64Or0,
        packets NFTA_COUNTER_PACKETS Be64Or0;
    /// `net/netfilter/nft_last.c`
    Last:
        set NFTA_LAST_SET Bool32,
        msecs NFTA_LAST_MSECS Be64Or0;
    /// `net/netfilter/nft_synproxy.c`
    Synproxy:
        mss NFTA_SYNPROXY_MSS Be16Or0,
        wscale NFTA_SYNPROXY_WSCALE U8Or0,
        flags NFTA_SYNPROXY_FLAGS Be32Or0;
}

/// `NFT_LIMIT_F_INV`, `NFT_CONNLIMIT_F_INV`, `NFT_QUOTA_F_INV`
const OVER: u32 = 1;
/// `NFT_QUOTA_F_DEPLETED`
const DEPLETED: u32 = 2;

impl Codec for Limit {
    const POLICY: Policy = &[
        (NFTA_LIMIT_RATE, Check::U64),
        (NFTA_LIMIT_UNIT, Check::U64),
        (NFTA_LIMIT_BURST, Check::U32),
        (NFTA_LIMIT_TYPE, Check::U32),
        (NFTA_LIMIT_FLAGS, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let kind: LimitType = EnumOrFirst::read(attributes.get(NFTA_LIMIT_TYPE))?;
        let flags = Be32Or0::read(attributes.get(NFTA_LIMIT_FLAGS))?;
        if flags & !OVER != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        Ok(Limit {
            rate: attributes.need(NFTA_LIMIT_RATE)?.be64(),
            unit: attributes.need(NFTA_LIMIT_UNIT)?.be64(),
            burst: Be32Or0::read(attributes.get(NFTA_LIMIT_BURST))?,
            kind,
            over: flags & OVER != 0,
        })
    }

    fn write(&self, to: &mut Writer) {
        to.be64(NFTA_LIMIT_RATE, self.rate);
        to.be64(NFTA_LIMIT_UNIT, self.unit);
        to.be32(NFTA_LIMIT_BURST, self.burst);
        to.be32(NFTA_LIMIT_TYPE, self.kind.number());
        to.be32(NFTA_LIMIT_FLAGS, if self.over { OVER } else { 0 });
    }
}

impl Codec for Quota {
    const POLICY: Policy = &[
        (NFTA_QUOTA_BYTES, Check::U64),
        (NFTA_QUOTA_FLAGS, Check::U32),
        (NFTA_QUOTA_CONSUMED, Check::U64),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let bytes = attributes.need(NFTA_QUOTA_BYTES)?.be64();
        let consumed = Be64Or0::read(attributes.get(NFTA_QUOTA_CONSUMED))?;
        let flags = Be32Or0::read(attributes.get(NFTA_QUOTA_FLAGS))?;
        if bytes > i64::MAX as u64 || flags & DEPLETED != 0 {
            return Err(Errno::Eoverflow.into());
        }
        if flags & !OVER != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        Ok(Quota { bytes, consumed, over: flags & OVER != 0, depleted: false })
    }

    fn write(&self, to: &mut Writer) {
        to.be64(NFTA_QUOTA_BYTES, self.bytes);
        // What exceeds the quota was not let through.
        to.be64(NFTA_QUOTA_CONSUMED, self.consumed.min(self.bytes));
        let over = if self.over { OVER } else { 0 };
        to.be32(NFTA_QUOTA_FLAGS, over | if self.depleted { DEPLETED } else { 0 });
    }
}

impl Codec for Connlimit {
    const POLICY: Policy =
        &[(NFTA_CONNLIMIT_COUNT, Be32Or0::CHECK), (NFTA_CONNLIMIT_FLAGS, Be32Or0::CHECK)];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let flags = Be32Or0::read(attributes.get(NFTA_CONNLIMIT_FLAGS))?;
        if flags & !OVER != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        let count = attributes.need(NFTA_CONNLIMIT_COUNT)?.be32();
        Ok(Connlimit { count, over: flags & OVER != 0 })
    }

    fn write(&self, to: &mut Writer) {
        to.be32(NFTA_CONNLIMIT_COUNT, self.count);
        if self.over {
            to.be32(NFTA_CONNLIMIT_FLAGS, OVER);
        }
    }
}
