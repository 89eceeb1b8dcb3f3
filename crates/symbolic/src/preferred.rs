// SPDX-License-Identifier: Apache-2.0

//! Of the packets of a region those that are easiest to read: the examples that people see.

use penstock_program::expr::MetaKey;
use penstock_wire::{ethernet, protocol};

use crate::diagram::{Decided, Region};
use crate::field::{Base, Field, state};
use crate::layout;
use crate::universe::Universe;

/// Index of the interface of arrival, where rules do not ask for an index.
pub(crate) const ARRIVAL: u32 = 10;
/// Index of the interface on the way out, where rules do not ask for an index.
pub(crate) const LEAVING: u32 = 20;

/// Of the packets of a region, which are all possible, those that are easiest to read.
pub(crate) fn preferred(universe: &Universe, region: &Region) -> Decided<Region> {
    let d = &universe.diagrams;
    let mut region = usual_protocol(universe, region)?;
    let name = |text: &str| {
        let mut name = text.as_bytes().to_vec();
        name.resize(16, 0);
        name
    };
    let header = |base, at: u16, bytes: &[u8]| -> Vec<(Field, Vec<u8>)> {
        (at..).zip(bytes).map(|(at, byte)| (Field::Header { base, at }, vec![*byte])).collect()
    };
    let meta = |key, bytes: &[u8]| vec![(Field::Meta(key), bytes.to_vec())];
    let of_tcp = |state, flags: &[u8]| {
        let mut all = meta(MetaKey::L4Proto, &[protocol::TCP]);
        all.push((Field::CtState, vec![state]));
        all.extend(header(Base::Transport, 12, flags));
        all
    };
    let mut wishes: Vec<Vec<(Field, Vec<u8>)>> = vec![
        meta(MetaKey::NfProto, &[2]),
        meta(MetaKey::Protocol, &ethernet::IPV4.to_be_bytes()),
        vec![(Field::Transport, vec![1])],
    ];
    for field in universe.fields() {
        if matches!(field, Field::Present { .. } | Field::Untranslated | Field::Answers(_)) {
            wishes.push(vec![(*field, vec![1])]);
        }
        if matches!(field, Field::CtBefore | Field::LaterFragment | Field::HasExthdr { .. }) {
            wishes.push(vec![(*field, vec![0])]);
        }
    }
    wishes.extend([
        vec![(Field::CtState, vec![state::NEW])],
        vec![(Field::CtState, vec![state::ESTABLISHED])],
        meta(MetaKey::L4Proto, &[protocol::TCP]),
        meta(MetaKey::L4Proto, &[protocol::UDP]),
        meta(MetaKey::IifName, &name("in0")),
        meta(MetaKey::OifName, &name("out0")),
        meta(MetaKey::Iif, &ARRIVAL.to_be_bytes()),
        meta(MetaKey::Oif, &LEAVING.to_be_bytes()),
    ]);
    let addresses = match version(universe, &region)? {
        Some(6) => vec![
            header(Base::Network, 8, &[0x20, 0x01, 0x0d, 0xb8, 0, 1]),
            header(Base::Network, 24, &[0x20, 0x01, 0x0d, 0xb8, 0, 2]),
        ],
        _ => vec![
            header(Base::Network, 12, &[198, 18]),
            header(Base::Network, 12, &[198, 18, 0, 2]),
            header(Base::Network, 16, &[198, 19]),
            header(Base::Network, 16, &[198, 19, 0, 2]),
            header(Base::Network, 8, &[64]),
        ],
    };
    wishes.extend(addresses);
    wishes.extend([
        // Packets as connection tracking takes them for such a state.
        of_tcp(state::NEW, &[0x50, 2]),
        of_tcp(state::ESTABLISHED, &[0x50, 0x10]),
        of_tcp(state::RELATED, &[0x50, 2]),
        of_tcp(state::INVALID, &[0x50, 0]),
        header(Base::Transport, 0, &40_000u16.to_be_bytes()),
        header(Base::Transport, 2, &80u16.to_be_bytes()),
        header(Base::Transport, 2, &40_001u16.to_be_bytes()),
        meta(MetaKey::Len, &60u32.to_be_bytes()),
        meta(MetaKey::Len, &200u32.to_be_bytes()),
    ]);
    for wish in wishes {
        let wanted = d.and(&region, &universe.with_values(&wish)?)?;
        if !wanted.is_none() {
            region = wanted;
        }
    }
    same_bytes(universe, region)
}

/// The version of IP of the packets that are preferred of a region: IPv4 where it is possible.
fn version(universe: &Universe, region: &Region) -> Decided<Option<u8>> {
    let d = &universe.diagrams;
    let four = universe.with_values(&[(Field::Meta(MetaKey::NfProto), vec![2])])?;
    let four = d.and(region, &four)?;
    let point = d.packet_of(if four.is_none() { region } else { &four });
    Ok(point.and_then(|point| layout::version(universe, &point)))
}

/// Of a region the packets of the first of these protocols that it has: of IPv4 and IPv6 those that
/// they carry.
pub(crate) fn usual_protocol(universe: &Universe, region: &Region) -> Decided<Region> {
    let d = &universe.diagrams;
    for (version, carried) in [
        (2, protocol::TCP),
        (2, protocol::UDP),
        (2, protocol::ICMP),
        (10, protocol::TCP),
        (10, protocol::UDP),
        (10, protocol::ICMPV6),
    ] {
        let version = (Field::Meta(MetaKey::NfProto), vec![version]);
        let carried = (Field::Meta(MetaKey::L4Proto), vec![carried]);
        let header = (Field::Transport, vec![1]);
        let wanted = d.and(region, &universe.with_values(&[version, header, carried])?)?;
        if !wanted.is_none() {
            return Ok(wanted);
        }
    }
    Ok(region.clone())
}

/// The transport header of a protocol, as far as rules do not ask for its bytes.
pub(crate) fn transport_header(carried: u8) -> &'static [u8] {
    match carried {
        protocol::TCP => {
            &[0x9c, 0x40, 0x9c, 0x41, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]
        }
        protocol::UDP => &[0x9c, 0x40, 0x9c, 0x41, 0, 8, 0, 0],
        protocol::ICMPV6 => &[128, 0, 0, 0, 0, 1, 0, 1],
        _ => &[8, 0, 0, 0, 0, 1, 0, 1],
    }
}

/// Of a region the packets in which bytes that have two names are the same by both: those after an
/// IPv4 header without options are those of the transport header.
fn same_bytes(universe: &Universe, region: Region) -> Decided<Region> {
    const IPV4_LEN: u16 = 20;
    let d = &universe.diagrams;
    let Some(point) = d.packet_of(&region) else { return Ok(region) };
    if layout::version(universe, &point) != Some(4) {
        return Ok(region);
    }
    let usual = transport_header(layout::transport(universe, &point).unwrap_or(protocol::TCP));
    let mut region = region;
    for field in universe.fields() {
        let Field::Header { base: Base::Network, at } = *field else { continue };
        let Some(at) = at.checked_sub(IPV4_LEN) else { continue };
        let other = Field::Header { base: Base::Transport, at };
        let usual = || usual.get(usize::from(at)).map(|byte| vec![*byte]);
        let Some(value) = universe.value(other, &point).or_else(usual) else { continue };
        let both = universe.with_values(&[(*field, value.clone()), (other, value)])?;
        let wanted = d.and(&region, &both)?;
        if !wanted.is_none() {
            region = wanted;
        }
    }
    Ok(region)
}
