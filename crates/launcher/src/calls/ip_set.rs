// SPDX-License-Identifier: Apache-2.0

//! `getsockopt(2)` with `SO_IP_SET`, by which iptables finds sets of ipset
//! (`ip_set_sockfn_get()` in `net/netfilter/ipset/ip_set_core.c`).

use crate::context::{CONTINUE, Context, Result};
use crate::notify::Call;
use crate::service::IpSetKey;
use crate::task::Task;

/// `IP_SET_OP_*`
const GET_BY_NAME: u32 = 6;
const GET_BY_INDEX: u32 = 7;
const GET_WITH_FAMILY: u32 = 8;
const VERSION: u32 = 0x100;

/// `IPSET_PROTOCOL`, and the oldest one.
const PROTOCOL: u32 = 7;
const PROTOCOL_MIN: u32 = 6;
/// `IPSET_MAXNAMELEN`
const NAME: usize = 32;
/// `IPSET_INVALID_ID`
const NONE: u16 = u16::MAX;

/// Answers on any socket, as the kernel does on those of IPv4.
pub(super) fn get(context: &Context, call: &Call, task: &mut Task) -> Result {
    let Some(space) = context.space_of(task) else { return CONTINUE };
    let owners = context.sockets().owners(space);
    if !task.may_administer(&context.listener, call, &owners) {
        return Err(libc::EPERM);
    }
    let (value_at, len_at) = (call.arguments[3], call.arguments[4]);
    let len: i32 = task.read_value(len_at)?;
    if len < 4 {
        return Err(libc::EINVAL);
    }
    // No request is longer.
    let mut request = [0u8; 44];
    let given = request.len().min(len as usize);
    task.read(value_at, &mut request[..given])?;
    let word =
        |at: usize| request[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let (operation, version) = (word(0), word(4));
    if operation < VERSION && (len < 8 || version < PROTOCOL_MIN) {
        return Err(if len < 8 { libc::EINVAL } else { libc::EPROTO });
    }
    let (size, at) = match operation {
        VERSION => (8, 4),
        GET_BY_NAME | GET_BY_INDEX => (40, 8),
        GET_WITH_FAMILY => (44, 12),
        _ => return Err(libc::EBADMSG),
    };
    if len != size as i32 {
        return Err(libc::EINVAL);
    }
    let find = |key: IpSetKey<'_>| {
        let mut sockets = context.sockets();
        sockets.service(space).and_then(|service| service.ip_set(key))
    };
    match operation {
        VERSION => request[4..8].copy_from_slice(&PROTOCOL.to_ne_bytes()),
        GET_BY_INDEX => {
            let index = u16::from_ne_bytes([request[at], request[at + 1]]);
            let name = find(IpSetKey::Index(index)).map(|found| found.name).unwrap_or_default();
            let len = name.len().min(NAME - 1);
            request[at..at + NAME].fill(0);
            request[at..at + len].copy_from_slice(&name.as_bytes()[..len]);
        }
        _ => {
            let name = &request[at..at + NAME - 1];
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = std::str::from_utf8(name).unwrap_or_default().to_owned();
            let found = find(IpSetKey::Name(&name));
            let index = found.as_ref().map_or(NONE, |found| found.index);
            request[at..at + 2].copy_from_slice(&index.to_ne_bytes());
            if let Some(found) = found.filter(|_| operation == GET_WITH_FAMILY) {
                request[8..12].copy_from_slice(&u32::from(found.family).to_ne_bytes());
            }
        }
    }
    task.write(value_at, &request[..size])?;
    Ok(0.into())
}
