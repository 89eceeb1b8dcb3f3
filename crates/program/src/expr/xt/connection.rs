// SPDX-License-Identifier: Apache-2.0

//! Matches of connections (`net/netfilter/xt_conntrack.c`, `xt_state.c`, `xt_connmark.c`,
//! `xt_connbytes.c`, `xt_connlabel.c`, `xt_helper.c`).

use super::part::{Part, compare, ct, equal, mask, range, range16, range32, to_network};
use super::{Given, Lowering};
use crate::Family;
use crate::operand::{CmpOp, CtDir, CtKey};

/// `NF_CT_STATE_INVALID_BIT`, `NF_CT_STATE_UNTRACKED_BIT` of `ct state`.
const INVALID: u32 = 1;
const UNTRACKED: u32 = 1 << 6;
/// Bits of states that x_tables and `ct state` have in common: invalid, established, related, new.
const COMMON: u32 = 0xf;
/// `IPS_SRC_NAT`, `IPS_DST_NAT`
const SRC_NAT: u32 = 1 << 4;
const DST_NAT: u32 = 1 << 5;

/// Passes if one of the bits of a number in host order is set, or with `inverted` if none is.
fn has_bit(load: Part, bits: u32, inverted: bool) -> Vec<Part> {
    let op = if inverted { CmpOp::Eq } else { CmpOp::Neq };
    vec![load, mask(&bits.to_ne_bytes()), compare(op, &[0; 4])]
}

/// `struct xt_state_info`
pub fn state(given: &Given<'_>) -> Lowering {
    let states = given.info.u32(0);
    Ok(has_bit(ct(CtKey::State, None), states & (COMMON | UNTRACKED), false))
}

/// What `struct xt_conntrack_mtinfo1` to `3` ask, in the form of the last one.
struct Asked {
    wanted: u16,
    inverted: u16,
    states: u16,
    statuses: u16,
    /// First and last, in host order.
    ports: [[u16; 2]; 4],
}

const STATE: u16 = 1;
const PROTOCOL: u16 = 1 << 1;
/// Original source, original destination, reply source, reply destination.
const ADDRESSES: [u16; 4] = [1 << 2, 1 << 3, 1 << 4, 1 << 5];
const STATUS: u16 = 1 << 6;
const EXPIRES: u16 = 1 << 7;
/// In the same order.
const PORTS: [u16; 4] = [1 << 8, 1 << 9, 1 << 10, 1 << 11];
const DIRECTION: u16 = 1 << 12;

impl Asked {
    fn of(given: &Given<'_>) -> Asked {
        let info = given.info;
        let (wanted, inverted) = (info.u16(146), info.u16(148));
        let [states, statuses] = match given.rev {
            1 => [info.u8(150), info.u8(151)].map(u16::from),
            _ => info.u16s(150),
        };
        let ports = [0, 1, 2, 3].map(|i| match given.rev {
            3 => [info.u16(138 + 2 * i), info.u16(154 + 2 * i)],
            _ => [u16::from_be_bytes(info.bytes(138 + 2 * i)); 2],
        });
        Asked { wanted, inverted, states, statuses, ports }
    }

    fn wants(&self, flag: u16) -> bool {
        self.wanted & flag != 0
    }

    fn inverts(&self, flag: u16) -> bool {
        self.inverted & flag != 0
    }

    /// The state, which is also that of packets without a connection.
    fn state(&self) -> Vec<Part> {
        const SNAT: u16 = 1 << 6;
        const DNAT: u16 = 1 << 7;
        const UNTRACKED_HERE: u16 = 1 << 8;
        let bit = |here: u16, there: u32| if self.states & here != 0 { there } else { 0 };
        let states = u32::from(self.states) & COMMON | bit(UNTRACKED_HERE, UNTRACKED);
        let statuses = bit(SNAT, SRC_NAT) | bit(DNAT, DST_NAT);
        let inverted = self.inverts(STATE);
        if statuses == 0 {
            return has_bit(ct(CtKey::State, None), states, inverted);
        }
        let of = vec![
            has_bit(ct(CtKey::State, None), states, false),
            has_bit(ct(CtKey::Status, None), statuses, false),
        ];
        vec![Part::AnyOf { of, inverted }]
    }

    /// All else, which only packets with a connection have.
    fn rest(&self, given: &Given<'_>) -> Lowering {
        let info = given.info;
        let mut parts = Vec::new();
        if self.wants(DIRECTION) {
            let original = [CtDir::Original as u8];
            parts.extend([ct(CtKey::Direction, None), equal(&original, self.inverts(DIRECTION))]);
        }
        let (source, destination, len) = match given.ip()? {
            Family::Ip6 => (CtKey::SrcIp6, CtKey::DstIp6, 16),
            _ => (CtKey::SrcIp, CtKey::DstIp, 4),
        };
        for (i, flag) in ADDRESSES.into_iter().enumerate().filter(|(_, f)| self.wants(*f)) {
            let key = if i % 2 == 0 { source } else { destination };
            let (address, bits) = (info.bytes::<16>(32 * i), info.bytes::<16>(32 * i + 16));
            let masked: Vec<u8> = address.iter().zip(bits).map(|(a, m)| a & m).collect();
            parts.extend([
                ct(key, Some(direction(i))),
                mask(&bits[..len]),
                equal(&masked[..len], self.inverts(flag)),
            ]);
        }
        if self.wants(PROTOCOL) {
            // The kernel compares with 16 bits.
            let protocol = u8::try_from(info.u16(136)).map_err(|_| "its protocol is unknown")?;
            let inverted = self.inverts(PROTOCOL);
            parts.extend([ct(CtKey::Protocol, None), equal(&[protocol], inverted)]);
        }
        for (i, flag) in PORTS.into_iter().enumerate().filter(|(_, f)| self.wants(*f)) {
            let key = if i % 2 == 0 { CtKey::ProtoSrc } else { CtKey::ProtoDst };
            let inverted = self.inverts(flag);
            parts.extend([ct(key, Some(direction(i))), range16(self.ports[i], inverted)]);
        }
        if self.wants(STATUS) {
            let statuses = u32::from(self.statuses);
            parts.extend(has_bit(ct(CtKey::Status, None), statuses, self.inverts(STATUS)));
        }
        if self.wants(EXPIRES) {
            // Whole seconds of milliseconds.
            let first = info.u32(128).saturating_mul(1000);
            let last = info.u32(132).saturating_mul(1000).saturating_add(999);
            let ends = range32([first, last], self.inverts(EXPIRES));
            parts.extend([ct(CtKey::Expiration, None), to_network(4), ends]);
        }
        Ok(parts)
    }
}

fn direction(i: usize) -> CtDir {
    if i < 2 { CtDir::Original } else { CtDir::Reply }
}

/// `struct xt_conntrack_mtinfo1` to `3` (`conntrack_mt()`): without a connection only the state
/// counts.
pub fn conntrack(given: &Given<'_>) -> Lowering {
    let asked = Asked::of(given);
    let rest = asked.rest(given)?;
    let no_connection = INVALID | UNTRACKED;
    if !asked.wants(STATE) {
        let mut parts = has_bit(ct(CtKey::State, None), no_connection, true);
        parts.extend(rest);
        return Ok(parts);
    }
    let mut parts = asked.state();
    if !rest.is_empty() {
        let without = has_bit(ct(CtKey::State, None), no_connection, false);
        parts.push(Part::AnyOf { of: vec![without, rest], inverted: false });
    }
    Ok(parts)
}

/// `struct xt_connmark_mtinfo1`
pub fn connmark(given: &Given<'_>) -> Lowering {
    let info = given.info;
    Ok(vec![
        ct(CtKey::Mark, None),
        mask(&info.bytes::<4>(4)),
        equal(&info.bytes::<4>(0), info.u8(8) != 0),
    ])
}

/// `struct xt_connbytes_info`: what lies outside if the ends are the other way round.
pub fn connbytes(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let key = match info.u8(16) {
        0 => CtKey::Pkts,
        1 => CtKey::Bytes,
        2 => CtKey::AvgPkt,
        _ => return Err("it counts something unknown"),
    };
    let dir = match info.u8(17) {
        0 => Some(CtDir::Original),
        1 => Some(CtDir::Reply),
        2 => None,
        _ => return Err("it counts in an unknown direction"),
    };
    let (from, to) = (info.u64(0), info.u64(8));
    let (first, last) = (from.min(to).to_be_bytes(), from.max(to).to_be_bytes());
    Ok(vec![ct(key, dir), to_network(8), range(&first, &last, to < from)])
}

/// `struct xt_connlabel_mtinfo`
pub fn connlabel(given: &Given<'_>) -> Lowering {
    const INVERTED: u16 = 1;
    const SETS: u16 = 2;
    let [bit, options] = given.info.u16s(0);
    if bit > 127 || options & SETS != 0 {
        return Err("labels are matched, not set, and there are 128 of them");
    }
    let mut bits = [0; 16];
    // Labels are words of 64 bits in host order.
    let word = usize::from(bit / 64) * 8;
    bits[word..word + 8].copy_from_slice(&(1u64 << (bit % 64)).to_ne_bytes());
    let labelled = vec![ct(CtKey::Labels, None), mask(&bits), compare(CmpOp::Neq, &[0; 16])];
    Ok(vec![Part::AnyOf { of: vec![labelled], inverted: options & INVERTED != 0 }])
}

/// `struct xt_helper_info`: any helper if it names none, else one whose name the given name begins
/// with (`helper_mt()`).
pub fn helper(given: &Given<'_>) -> Lowering {
    const NAME: usize = 16;
    let (info, inverted) = (given.info, given.info.u32(0) != 0);
    let name = info.text(4, 30).ok_or("its name is no UTF-8")?.as_bytes();
    let of = match name {
        [] => vec![vec![ct(CtKey::Helper, None)]],
        _ => (1..=name.len().min(NAME))
            .map(|len| {
                let mut padded = [0; NAME];
                padded[..len].copy_from_slice(&name[..len]);
                vec![ct(CtKey::Helper, None), equal(&padded, false)]
            })
            .collect(),
    };
    Ok(vec![Part::AnyOf { of, inverted }])
}
