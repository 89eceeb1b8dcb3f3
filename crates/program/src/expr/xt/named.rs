// SPDX-License-Identifier: Apache-2.0

//! Extensions that name objects which other programs make (`net/netfilter/xt_nfacct.c`,
//! `xt_CT.c`).

use super::part::Part;
use super::{Given, Lowering, Xt};
use crate::c_struct::CStruct;

/// `NFACCT_NAME_MAX`, `CTNL_TIMEOUT_NAME_MAX`
const NAME_MAX: usize = 32;
/// Where `struct xt_ct_target_info` has the name of a helper, and how long that may be.
const HELPER: (usize, usize) = (12, 16);
/// Where `struct xt_ct_target_info_v1` has the name of a timeout policy.
const TIMEOUT_AT: usize = 28;

/// What an extension names that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// An account.
    Account(&'a str),
    /// A timeout policy.
    Timeout(&'a str),
    /// A helper, which may be built in.
    Helper(&'a str),
}

impl Xt {
    /// What it names that is in no table.
    pub fn named(&self) -> impl Iterator<Item = Named<'_>> {
        const NOTRACK: u16 = 1;
        let info = CStruct(&self.info);
        let named = match (self.target, &*self.name) {
            (false, "nfacct") => [info.text(0, NAME_MAX).map(Named::Account), None],
            (true, "CT") if info.u16(0) & NOTRACK == 0 => [
                helper(info).ok().flatten().map(Named::Helper),
                timeout(self.rev, info).ok().flatten().map(Named::Timeout),
            ],
            _ => [None, None],
        };
        named.into_iter().flatten()
    }
}

/// The helper that a target `CT` gives, if it gives one.
///
/// # Errors
/// The name is no text.
pub fn helper(info: CStruct<'_>) -> Result<Option<&str>, &'static str> {
    let name = info.text(HELPER.0, HELPER.1).ok_or("its helper is no UTF-8")?;
    Ok((!name.is_empty()).then_some(name))
}

/// The timeout policy that a target `CT` gives, if it gives one.
///
/// # Errors
/// The name is no text.
pub fn timeout(rev: u32, info: CStruct<'_>) -> Result<Option<&str>, &'static str> {
    if rev == 0 || info.u8(TIMEOUT_AT) == 0 {
        return Ok(None);
    }
    info.text(TIMEOUT_AT, NAME_MAX).map(Some).ok_or("its timeout policy is no UTF-8")
}

/// `struct xt_nfacct_match_info`
pub fn nfacct(given: &Given<'_>) -> Lowering {
    let name = given.info.text(0, NAME_MAX).ok_or("its name is no UTF-8")?;
    Ok(vec![Part::Account(name.into())])
}
