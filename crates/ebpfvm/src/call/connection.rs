// SPDX-License-Identifier: Apache-2.0

//! Connections (`net/netfilter/nf_conntrack_bpf.c`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Called;
use crate::connection::{ConnectionQuery, ConnectionTuple};
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::run::Run;
use crate::space::{CONNECTIONS, address, split};

/// Bytes of `struct bpf_ct_opts`, and of it without zones.
const WITH_ZONES: usize = 16;
const WITHOUT_ZONES: usize = 12;
/// Where its fields are.
const NETNS: usize = 0;
const ERROR: usize = 4;
const PROTOCOL: usize = 8;
const DIRECTION: usize = 9;
const ZONE: usize = 10;
const ZONE_DIRECTIONS: usize = 12;
const RESERVED: usize = 13;
/// `BPF_F_CURRENT_NETNS`
const CURRENT: i32 = -1;
/// Both directions (`NF_CT_DEFAULT_ZONE_DIR`).
const BOTH: u8 = 3;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of `struct bpf_sock_tuple` with addresses of IPv4 and IPv6.
const TUPLE4: usize = 12;
const TUPLE6: usize = 36;

/// `ENONET`
const NONET: Errno = Errno(64);

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

/// The tuple of these bytes.
fn tuple(bytes: &[u8]) -> Result<ConnectionTuple, Errno> {
    let (source, destination): (IpAddr, IpAddr) = match bytes.len() {
        TUPLE4 => (Ipv4Addr::from(part(bytes, 0)).into(), Ipv4Addr::from(part(bytes, 4)).into()),
        TUPLE6 => (Ipv6Addr::from(part(bytes, 0)).into(), Ipv6Addr::from(part(bytes, 16)).into()),
        _ => return Err(Errno::AFNOSUPPORT),
    };
    let port = |at| u16::from_be_bytes(part(bytes, at));
    let ports = (port(bytes.len() - 4), port(bytes.len() - 2));
    Ok(ConnectionTuple { source, destination, ports })
}

/// What is asked for (`__bpf_nf_ct_lookup()`).
fn query(options: &mut [u8], tuple_bytes: &[u8]) -> Result<ConnectionQuery, Errno> {
    let zones = match options.len() {
        WITH_ZONES if part(options, RESERVED) != [0; 3] => return Err(Errno::INVAL),
        WITH_ZONES => true,
        WITHOUT_ZONES if part(options, ZONE) != [0; 2] => return Err(Errno::INVAL),
        WITHOUT_ZONES => false,
        _ => return Err(Errno::INVAL),
    };
    let [protocol] = part(options, PROTOCOL);
    if !matches!(protocol, TCP | UDP) {
        return Err(Errno::PROTO);
    }
    let netns = i32::from_le_bytes(part(options, NETNS));
    if netns < CURRENT {
        return Err(Errno::INVAL);
    }
    let tuple = tuple(tuple_bytes)?;
    // There are no others.
    if netns != CURRENT {
        return Err(NONET);
    }
    let mut of_directions = [0; 2];
    if zones {
        let zone = u16::from_le_bytes(part(options, ZONE));
        if let Some(directions) = options.get_mut(ZONE_DIRECTIONS) {
            if *directions == 0 {
                *directions = BOTH;
            }
            of_directions = [0, 1].map(|bit| if *directions >> bit & 1 != 0 { zone } else { 0 });
        }
    }
    Ok(ConnectionQuery { tuple, protocol, zones: of_directions })
}

/// `bpf_xdp_ct_lookup()`, `bpf_skb_ct_lookup()`
pub(super) fn lookup(run: &mut Run<'_>, name: &'static str) -> Called {
    run.context_argument(name, 1)?;
    let (tuple_len, len) = (run.r[3] as u32 as usize, run.r[5] as u32 as usize);
    let (tuple_at, at) = (run.r[2], run.r[4]);
    let wrong = FaultKind::Argument(name, 4);
    let mut tuple = [0; TUPLE6];
    let given = run.memory(tuple_at, tuple_len).ok_or(FaultKind::Argument(name, 2))?;
    // Others have a length that is no tuple's.
    let tuple = match tuple.get_mut(..tuple_len) {
        Some(tuple) => {
            tuple.copy_from_slice(given);
            &*tuple
        }
        None => &[],
    };
    let given = run.memory_mut(at, len).ok_or(wrong)?;
    let mut options = [0; WITH_ZONES];
    let query = match options.get_mut(..len) {
        Some(options) => {
            options.copy_from_slice(given);
            query(options, tuple)
        }
        None => Err(Errno::INVAL),
    };
    let found = query.and_then(|query| run.host.connection(&query).ok_or(Errno::NOENT));
    let result = match found {
        Ok(found) => {
            let held = run.connections.hold(&found).ok_or(FaultKind::References)?;
            options[DIRECTION] = u8::from(found.reply);
            address(CONNECTIONS, held)
        }
        Err(Errno(number)) => {
            options[ERROR..ERROR + 4].copy_from_slice(&(-number).to_le_bytes());
            0
        }
    };
    let place = run.memory_mut(at, len).ok_or(wrong)?;
    match options.get(..len) {
        Some(options) if matches!(len, WITH_ZONES | WITHOUT_ZONES) => {
            place.copy_from_slice(options)
        }
        // Of a structure of another length only the error is written, if it has one.
        _ => {
            if let Some(place) = place.get_mut(ERROR..ERROR + 4) {
                place.copy_from_slice(&options[ERROR..ERROR + 4]);
            }
        }
    }
    Ok(result)
}

/// `bpf_ct_release()`
pub(super) fn release(run: &mut Run<'_>) -> Called {
    let wrong = FaultKind::Argument("bpf_ct_release", 1);
    match split(run.r[1]) {
        (CONNECTIONS, at) => run.connections.release(at).ok_or(wrong)?,
        _ => return Err(wrong),
    }
    Ok(0)
}
