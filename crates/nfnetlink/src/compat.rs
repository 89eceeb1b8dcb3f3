// SPDX-License-Identifier: Apache-2.0

//! The subsystem nft_compat (`net/netfilter/nft_compat.c`): iptables-nft asks which extensions of
//! x_tables there are, and in which revisions.

use penstock_program::expr::xt_revisions;
use penstock_ruleset::{Errno, Family};

use crate::message::{Check, Failure, Message, Policy, Writer, flags};

/// `NFNL_SUBSYS_NFT_COMPAT`
pub const SUBSYSTEM: u8 = 11;
/// `NFNL_MSG_COMPAT_GET`
const GET: u8 = 0;
const NFTA_COMPAT_NAME: u16 = 1;
const NFTA_COMPAT_REV: u16 = 2;
const NFTA_COMPAT_TYPE: u16 = 3;
/// `XT_EXTENSION_MAXNAMELEN`
const NAME_MAX: usize = 29;
/// The program asks for a revision that is not there.
const EPROTONOSUPPORT: i32 = 93;

/// `nfnl_compat_policy_get`
const POLICY: Policy = &[
    (NFTA_COMPAT_NAME, Check::NulString(NAME_MAX)),
    (NFTA_COMPAT_REV, Check::U32),
    (NFTA_COMPAT_TYPE, Check::U32),
];

/// The newest revision of an extension, if it has the one that is asked for
/// (`xt_find_revision()`).
///
/// # Errors
/// `ENOENT`: there is no such extension. `EPROTONOSUPPORT`: it lacks this revision.
fn newest(family: Family, name: &str, revision: u32, target: bool) -> Result<u32, Failure> {
    let revisions = || xt_revisions(target, name, family);
    let newest = revisions().max().ok_or(Failure::from(Errno::Enoent))?;
    match revisions().any(|r| r == revision) {
        true => Ok(newest),
        false => Err(Failure { errno: EPROTONOSUPPORT, at: None, text: None }),
    }
}

/// Answers `NFNL_MSG_COMPAT_GET` (`nfnl_compat_get_rcu()`): the extension with its newest revision.
///
/// # Errors
/// Those of [`newest`]; `EINVAL` for another message, or a family without x_tables.
pub fn get(message: &Message<'_>, port: u32) -> Result<Vec<u8>, Failure> {
    if message.number() != GET {
        return Err(Failure::einval());
    }
    let given = message.attributes(POLICY)?;
    let name = given.need(NFTA_COMPAT_NAME)?.text()?;
    let revision = given.need(NFTA_COMPAT_REV)?.be32();
    let target = given.need(NFTA_COMPAT_TYPE)?.be32() == 1;
    let family = Family::from_number(message.family());
    let has_extensions =
        |f: &Family| matches!(f, Family::Ip | Family::Ip6 | Family::Bridge | Family::Arp);
    let family = family.filter(has_extensions).ok_or(Failure::einval())?;
    let newest = newest(family, name, revision, target)?;
    let mut to = Writer::default();
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(GET);
    let start = to.begin(kind, flags::MULTI, message.header.sequence, port);
    to.raw(&[family as u8, 0, 0, 0]);
    to.string(NFTA_COMPAT_NAME, name);
    to.be32(NFTA_COMPAT_REV, newest);
    to.be32(NFTA_COMPAT_TYPE, u32::from(target));
    to.end(start);
    Ok(to.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_is_told_if_there_is_the_one_asked_for() {
        for (family, name, revision, target, expected) in [
            (Family::Ip, "addrtype", 0, false, Ok(1)),
            (Family::Ip6, "addrtype", 0, false, Err(EPROTONOSUPPORT)),
            (Family::Ip, "conntrack", 3, false, Ok(3)),
            (Family::Ip, "icmp6", 0, false, Err(2)),
            (Family::Ip, "tcp", 0, true, Err(2)),
            (Family::Ip6, "DNAT", 2, true, Ok(2)),
            (Family::Bridge, "limit", 0, false, Ok(0)),
        ] {
            let found = newest(family, name, revision, target).map_err(|e| e.errno);
            assert_eq!(found, expected, "{family:?} {name}");
        }
    }
}
