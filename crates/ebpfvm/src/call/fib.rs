// SPDX-License-Identifier: Apache-2.0

//! `bpf_fib_lookup()` (`bpf_ipv4_fib_lookup()`, `bpf_ipv6_fib_lookup()` of `net/core/filter.c`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Called;
use crate::context::Context;
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::routing::{NetDevice, NoRoute, RouteQuery};
use crate::run::Run;

const NAME: &str = "bpf_fib_lookup";

/// Flags (`BPF_FIB_LOOKUP_*`).
const DIRECT: u32 = 1;
const OUTPUT: u32 = 1 << 1;
const SKIP_NEIGHBOUR: u32 = 1 << 2;
const TABLE: u32 = 1 << 3;
const SOURCE: u32 = 1 << 4;
const MARK: u32 = 1 << 5;
const KNOWN: u32 = DIRECT | OUTPUT | SKIP_NEIGHBOUR | TABLE | SOURCE | MARK;

/// `BPF_FIB_LKUP_RET_*`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    Success = 0,
    Blackhole = 1,
    Unreachable = 2,
    Prohibit = 3,
    NotForwarded = 4,
    ForwardingDisabled = 5,
    NoNeighbour = 7,
    FragmentationNeeded = 8,
    NoSourceAddress = 9,
}

impl From<NoRoute> for Return {
    fn from(why: NoRoute) -> Return {
        match why {
            NoRoute::Blackhole => Return::Blackhole,
            NoRoute::Unreachable => Return::Unreachable,
            NoRoute::Prohibit => Return::Prohibit,
            NoRoute::NotForwarded => Return::NotForwarded,
        }
    }
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `RT_TABLE_MAIN`
const MAIN: u32 = 254;

/// Bytes of `struct bpf_fib_lookup`, and where its fields are.
const LEN: usize = 64;
const FAMILY: usize = 0;
const PROTOCOL: usize = 1;
const SPORT: usize = 2;
const DPORT: usize = 4;
/// The length of the packet, then the MTU.
const LENGTH: usize = 6;
const DEVICE: usize = 8;
/// The type of service or flow information, then the metric.
const TOS: usize = 12;
const SADDR: usize = 16;
const DADDR: usize = 32;
/// The number of a table, then a VLAN tag, which is always none.
const TABLE_ID: usize = 48;
/// The mark, then two link addresses.
const MARK_AT: usize = 52;
const SMAC: usize = 52;
const DMAC: usize = 58;

/// A `struct bpf_fib_lookup`.
struct Params([u8; LEN]);

impl Params {
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    /// An address of its family.
    fn address(&self, at: usize, v6: bool) -> IpAddr {
        if v6 { Ipv6Addr::from(self.get(at)).into() } else { Ipv4Addr::from(self.get(at)).into() }
    }

    fn put_address(&mut self, at: usize, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.put(at, &address.octets()),
            IpAddr::V6(address) => self.put(at, &address.octets()),
        }
    }
}

/// Whether an IPv6 address belongs to one link, or to no host (`rt6_need_strict()`).
fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_multicast() || address.is_loopback()
        }
    }
}

pub(super) fn lookup(run: &mut Run<'_>) -> Called {
    run.context_argument(NAME, 1)?;
    let len = run.length(NAME, 3)?;
    let (at, flags) = (run.r[2], run.r[4] as u32);
    let wrong = FaultKind::Argument(NAME, 2);
    let bytes = run.memory(at, len).ok_or(wrong)?;
    let Some(bytes) = bytes.first_chunk() else { return Ok(Errno::INVAL.result()) };
    let mut params = Params(*bytes);
    if flags & !KNOWN != 0 {
        return Ok(Errno::INVAL.result());
    }
    let length = u16::from_le_bytes(params.get(LENGTH));
    // XDP always compares the length with the MTU of the path; traffic control only one that is
    // given, and else the packet with the MTU of the device.
    let compares = length != 0 || matches!(run.context, Context::Xdp(_));
    let result = match params.0[FAMILY] {
        AF_INET => forward(run, &mut params, flags, false, compares),
        AF_INET6 => forward(run, &mut params, flags, true, compares),
        _ => return Ok(Errno::AFNOSUPPORT.result()),
    };
    let mut result = match result {
        Ok(result) => result,
        Err(errno) => return Ok(errno.result()),
    };
    if result == Return::Success
        && !compares
        && let Some(device) = run.host.device(params.word(DEVICE))
    {
        if !fits(run.context, &device) {
            result = Return::FragmentationNeeded;
        }
        params.put(LENGTH, &(device.mtu as u16).to_le_bytes());
    }
    run.memory_mut(at, LEN).ok_or(wrong)?.copy_from_slice(&params.0);
    Ok(result as u64)
}

/// `is_skb_forwardable()`
fn fits(context: &Context, device: &NetDevice) -> bool {
    /// Room for a VLAN tag.
    const TAG: u32 = 4;
    let Context::Skb(skb) = context else { return true };
    let most = device.mtu.saturating_add(device.header + TAG) as usize;
    device.up && (skb.packet.len() <= most || skb.gso_size != 0)
}

fn forward(
    run: &mut Run<'_>,
    params: &mut Params,
    flags: u32,
    v6: bool,
    compares: bool,
) -> Result<Return, Errno> {
    let (source, destination) = (params.address(SADDR, v6), params.address(DADDR, v6));
    if is_of_link(destination) || is_of_link(source) {
        return Ok(Return::NotForwarded);
    }
    let index = params.word(DEVICE);
    let device = run.host.device(index).ok_or(Errno::NODEV)?;
    if !(if v6 { device.forwards6 } else { device.forwards4 }) {
        return Ok(Return::ForwardingDisabled);
    }
    let direct = flags & DIRECT != 0;
    let mut table = MAIN;
    if direct && flags & TABLE != 0 {
        table = params.word(TABLE_ID);
        params.put(TABLE_ID, &[0; 4]);
    }
    let query = RouteQuery {
        device: index,
        output: flags & OUTPUT != 0,
        table: direct.then_some(table),
        mark: if flags & MARK != 0 && !direct { params.word(MARK_AT) } else { 0 },
        source,
        destination,
        tos: if v6 {
            (u32::from_be_bytes(params.get(TOS)) >> 20) as u8
        } else {
            params.get::<1>(TOS)[0]
        },
        protocol: params.0[PROTOCOL],
        ports: (u16::from_be_bytes(params.get(SPORT)), u16::from_be_bytes(params.get(DPORT))),
        wants_source: flags & SOURCE != 0,
    };
    let found = match run.host.route(&query) {
        Ok(found) => found,
        Err(why) => return Ok(why.into()),
    };
    let length = u16::from_le_bytes(params.get(LENGTH));
    let mtu = (found.mtu as u16).to_le_bytes();
    if compares && u32::from(length) > found.mtu {
        params.put(LENGTH, &mtu);
        return Ok(Return::FragmentationNeeded);
    }
    params.put(TOS, &found.metric.to_le_bytes());
    params.put(DEVICE, &found.device.to_le_bytes());
    if v6 && let Some(gateway) = found.gateway {
        params.put_address(DADDR, gateway);
    }
    if flags & SOURCE != 0 {
        match found.source {
            Some(source) => params.put_address(SADDR, source),
            None if v6 => return Ok(Return::NoSourceAddress),
            None => params.put(SADDR, &[0; 4]),
        }
    }
    if !v6 && let Some(gateway) = found.gateway {
        if gateway.is_ipv6() {
            params.put(FAMILY, &[AF_INET6]);
        }
        params.put_address(DADDR, gateway);
    }
    if flags & SKIP_NEIGHBOUR == 0 {
        let next = found.gateway.unwrap_or(destination);
        let Some(address) = run.host.neighbour(found.device, next) else {
            return Ok(Return::NoNeighbour);
        };
        let own = run.host.device(found.device).map_or([0; 6], |device| device.address);
        params.put(DMAC, &address);
        params.put(SMAC, &own);
    }
    params.put(TABLE_ID, &[0; 4]);
    if compares && found.mtu != 0 {
        params.put(LENGTH, &mtu);
    }
    Ok(Return::Success)
}
