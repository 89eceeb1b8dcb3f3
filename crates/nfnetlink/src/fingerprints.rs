// SPDX-License-Identifier: Apache-2.0

//! The subsystem osf (`net/netfilter/nfnetlink_osf.c`): fingerprints of operating systems, which
//! `osf` compares packets with. nfnl_osf(8) sends them.

use penstock_program::osf::MESSAGE_LEN;
use penstock_ruleset::Errno;
use penstock_ruleset::globals::{GlobalChange, NewFingerprint};

use crate::Backend;
use crate::ctnetlink::Outcome;
use crate::globals::{Answered, Request, change};
use crate::message::{Check, Failure, Policy, flags};
use crate::process::Process;

/// `NFNL_SUBSYS_OSF`
pub const SUBSYSTEM: u8 = 5;
const ADD: u8 = 0;
const REMOVE: u8 = 1;

const OSF_ATTR_FINGER: u16 = 1;

/// `nfnl_osf_policy`
const POLICY: Policy = &[(OSF_ATTR_FINGER, Check::Least(MESSAGE_LEN))];

/// Most options of a fingerprint (`MAX_IPOPTLEN`), and where their number stands.
const OPTIONS_MAX: u16 = 40;
const OPTIONS_AT: usize = 14;
/// Where genre, version and subtype stand, and their bytes (`MAXGENRELEN`).
const NAMES_AT: usize = 16;
const NAME_LEN: usize = 32;

/// Whether a message changes fingerprints.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    subsystem == SUBSYSTEM && matches!(number, ADD | REMOVE)
}

/// Carries out a request.
///
/// # Errors
/// The kernel's; `EPERM` if the sender may change nothing.
pub fn run(request: &Request<'_>, from: &Process, backend: &mut dyn Backend) -> Answered {
    let message = &request.message;
    if !from.may_change {
        return Err(Errno::Eperm.into());
    }
    let given = message.attributes(POLICY)?;
    let number = message.number();
    let finger = given.get(OSF_ATTR_FINGER).and_then(|finger| finger.payload.get(..MESSAGE_LEN));
    let changed = match (number, finger) {
        (ADD, Some(finger)) if message.header.has(flags::CREATE) && is_whole(finger) => {
            change(GlobalChange::AddFingerprint(NewFingerprint(finger.into())), from, backend)
        }
        (REMOVE, Some(finger)) => {
            change(GlobalChange::DeleteFingerprint(NewFingerprint(finger.into())), from, backend)
        }
        _ => Err(Failure::einval()),
    };
    match changed {
        // One that is there already stays.
        Err(failure)
            if number == ADD
                && failure.errno == Errno::Eexist as i32
                && !message.header.has(flags::EXCL) => {}
        changed => changed?,
    }
    Ok((Outcome::Acknowledge, Vec::new()))
}

/// Whether the kernel takes a fingerprint: names have an end, and there are not too many options.
fn is_whole(finger: &[u8]) -> bool {
    let count = finger.get(OPTIONS_AT..).and_then(|rest| rest.first_chunk()).copied();
    let names = finger.get(NAMES_AT..NAMES_AT + 3 * NAME_LEN).unwrap_or_default();
    count.is_some_and(|count| u16::from_ne_bytes(count) <= OPTIONS_MAX)
        && names.chunks(NAME_LEN).all(|name| name.contains(&0))
}
