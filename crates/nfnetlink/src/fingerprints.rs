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

/// Most bytes of options, and options, of a fingerprint (`MAX_IPOPTLEN`).
const OPTIONS_MAX: u16 = 40;
/// Where the number of options stands, and where they do; bytes of one (`struct nf_osf_opt`).
const OPTION_COUNT: usize = 14;
const OPTIONS: std::ops::Range<usize> = 112..MESSAGE_LEN;
const OPTION_LEN: usize = 12;
/// Where genre, version and subtype stand, and their bytes (`MAXGENRELEN`).
const NAMES: std::ops::Range<usize> = 16..112;
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

/// Whether the kernel takes a fingerprint: its window is of a known kind, names have an end, and the
/// options find room in a header.
fn is_whole(finger: &[u8]) -> bool {
    const MODULO: u32 = 3;
    const MSS: u16 = 2;
    const MSS_LEN: u16 = 4;
    let word = |at: usize| {
        finger.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
    };
    let half = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u16::from_ne_bytes(*b))
    };
    let window = match word(0) {
        MODULO => word(4) != 0,
        kind => kind < MODULO,
    };
    let mut names = finger.get(NAMES).unwrap_or_default().chunks(NAME_LEN);
    let count = half(finger, OPTION_COUNT);
    let options = finger.get(OPTIONS).unwrap_or_default().chunks(OPTION_LEN);
    let mut left = OPTIONS_MAX;
    let options = options.take(count.into()).all(|option| {
        let (kind, len) = (half(option, 0), half(option, 2));
        left = match left.checked_sub(len) {
            Some(left) if len > 0 && (kind != MSS || len >= MSS_LEN) => left,
            _ => return false,
        };
        true
    });
    window && names.all(|name| name.contains(&0)) && count <= OPTIONS_MAX && options
}
