// SPDX-License-Identifier: Apache-2.0

//! What the kernel refuses of an extension when a rule is made (`xt_check_match()`,
//! `xt_check_target()`, and the `checkentry` of each).

use super::{Xt, registered, remembered};
use crate::c_struct::CStruct;
use crate::hook::{ChainType, Hook, Hooks};
use crate::{Errno, Family};

/// Where a rule stands, and what it asks of the packet's protocol.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Family of the table.
    pub family: Family,
    /// Name of the table.
    pub table: &'a str,
    /// Type and hook of the chain, if it is a base chain.
    pub base: Option<(ChainType, Hook)>,
    /// `NFTA_RULE_COMPAT_PROTO`: the protocol that packets have to be of, if there is one, and
    /// whether that is inverted.
    pub protocol: Option<(u16, bool)>,
}

impl Place<'_> {
    fn hook_is(&self, hooks: &[Hook]) -> bool {
        self.base.is_some_and(|(_, hook)| hooks.contains(&hook))
    }

    fn is_of(&self, protocols: &[u16]) -> bool {
        self.protocol.is_some_and(|(number, inverted)| !inverted && protocols.contains(&number))
    }
}

const TCP: u16 = 6;
const UDP: u16 = 17;
const L2TP: u16 = 115;

fn refuse_if(refused: bool, errno: Errno) -> Result<(), Errno> {
    if refused { Err(errno) } else { Ok(()) }
}

impl Xt {
    /// Hooks of base chains that may reach it.
    pub(super) fn allowed_hooks(&self, family: Family) -> Hooks {
        match registered::find(self.target, &self.name, self.rev, family) {
            Some(row) if row.translates(family) => row.hooks.of_type_nat(),
            Some(row) => row.hooks,
            None => Hooks::ANY,
        }
    }

    /// Whether Linux 6.18 takes it in a place. Of its structure that is checked by which rules are
    /// told apart; what only a malformed program sends is refused where the rule is linked. Whether
    /// there are its sets ([`Xt::ip_sets`]) is not known here.
    ///
    /// # Errors
    /// `ENOENT`: there is no such extension, or what it names is not there. `EINVAL` and others:
    /// the place or the structure is wrong.
    pub fn check(&self, place: &Place<'_>) -> Result<(), Errno> {
        const EINVAL: Errno = Errno::Einval;
        let row = registered::find(self.target, &self.name, self.rev, place.family)
            .ok_or(Errno::Enoent)?;
        refuse_if(!row.tables.is_empty() && !row.tables.contains(&place.table), EINVAL)?;
        if let Some((kind, hook)) = place.base {
            refuse_if(!row.hooks.allow(kind, hook), EINVAL)?;
            refuse_if(row.translates(place.family) && kind != ChainType::Nat, EINVAL)?;
        }
        refuse_if(!row.protocols.is_empty() && !place.is_of(row.protocols), EINVAL)?;
        refuse_if(self.has_too_many_dimensions(), Errno::Erange)?;
        let info = CStruct(&self.info);
        match (self.target, place.family) {
            (false, Family::Bridge) => bridge_match(&self.name, info),
            (false, _) => self.check_match(place, info),
            (true, _) => self.check_target(place, info),
        }
    }

    fn check_match(&self, place: &Place<'_>, info: CStruct<'_>) -> Result<(), Errno> {
        let incoming = place.hook_is(&[Hook::Prerouting, Hook::Input]);
        let outgoing = place.hook_is(&[Hook::Output, Hook::Postrouting]);
        let wrong = match &*self.name {
            "addrtype" if self.rev == 1 => {
                let (input, output) = (info.u32(4) & 4 != 0, info.u32(4) & 8 != 0);
                output && (input || incoming) || input && outgoing
            }
            "ah" if place.family == Family::Ip6 => info.u8(13) & !3 != 0,
            "ah" => info.u8(8) & !1 != 0,
            // Neither a path nor a class, or both.
            "cgroup" if self.rev > 0 => (info.u8(0) != 0) == (info.u8(1) != 0),
            "connlabel" => {
                refuse_if(info.u16(0) > 127, Errno::Erange)?;
                info.u16(2) & !3 != 0
            }
            "ecn" => {
                let (asked, inverted) = (info.u8(0), info.u8(1));
                (asked | inverted) & 0xce != 0 || asked & 0x30 != 0 && !place.is_of(&[TCP])
            }
            // An order that is not strict was never there.
            "dst" | "hbh" => info.u8(4) & 4 != 0 || info.u8(5) & !1 != 0,
            "frag" => info.u8(13) & !1 != 0,
            "ipv6header" => info.u8(2) == 0 && ![0, u8::MAX].contains(&info.u8(1)),
            "mh" => info.u8(2) & !1 != 0,
            "multiport" => info.u8(0) > 2 || info.u8(1) > 15,
            "physdev" => {
                let (inverted, asked) = (info.u8(64), info.u8(65));
                let bridged = asked & 4 != 0 && inverted & 4 == 0;
                asked & 0x1f == 0 || asked & 0x12 != 0 && !bridged && place.hook_is(&[Hook::Output])
            }
            "rateest" => !remembered::compares_rates(info),
            "srh" => info.u16(if self.rev == 0 { 6 } else { 104 }) & !0x3fff != 0,
            "l2tp" => l2tp(place, info),
            "policy" => {
                let [flags, len] = info.u16s(304);
                flags & 3 == 0
                    || flags & 2 != 0 && incoming
                    || flags & 1 != 0 && outgoing
                    || len > 4
            }
            "recent" => recent(info),
            "rpfilter" => info.u8(0) & !15 != 0,
            "rt" => routing(info),
            "statistic" => info.u16(0) > 1 || info.u16(2) & !1 != 0,
            _ => false,
        };
        refuse_if(wrong, Errno::Einval)
    }

    fn check_target(&self, place: &Place<'_>, info: CStruct<'_>) -> Result<(), Errno> {
        let wrong = match &*self.name {
            "AUDIT" => return refuse_if(info.u8(0) > 2, Errno::Erange),
            "CHECKSUM" => info.u8(0) != 1,
            // A helper is one for a protocol.
            "CT" => {
                let has_protocol = place.protocol.is_some_and(|(number, not)| number != 0 && !not);
                return refuse_if(info.u8(12) != 0 && !has_protocol, Errno::Enoent);
            }
            "DNPT" | "SNPT" => {
                !is_prefix(info, 0, info.u8(32)) || !is_prefix(info, 16, info.u8(33))
            }
            "ECN" => {
                let asked = info.u8(0);
                asked & 0xce != 0
                    || info.u8(1) & !3 != 0
                    || asked & 0x30 != 0 && !place.is_of(&[TCP])
            }
            "LOG" => info.u8(0) >= 8 || info.u8(31) != 0,
            "NFQUEUE" if self.rev > 0 => {
                let [first, total] = info.u16s(0);
                let last = u32::from(first) + u32::from(total).saturating_sub(1);
                refuse_if(total != 0 && last > u16::MAX.into(), Errno::Erange)?;
                total == 0
                    || self.rev == 2 && info.u16(4) > 1
                    || self.rev == 3 && info.u16(4) & !3 != 0
            }
            "RATEEST" => !self.counted_rate().is_some_and(|(_, parameters)| parameters.are_valid()),
            "REJECT" => {
                let (echo, reset) = if place.family == Family::Ip6 { (5, 6) } else { (4, 7) };
                let with = info.u32(0);
                with == echo || with == reset && !place.is_of(&[TCP])
            }
            "SET" => self.maps().is_some_and(|later| {
                const LATER: [Hook; 3] = [Hook::Forward, Hook::Output, Hook::Postrouting];
                place.table != "mangle" || later && !place.hook_is(&LATER)
            }),
            // The name of a device has an end.
            "TEE" => info.u8(31) != 0,
            // It clamps to the path's MTU, which is not known yet.
            "TCPMSS" => info.u16(0) == u16::MAX && place.hook_is(&[Hook::Prerouting, Hook::Input]),
            "TTL" | "HL" => info.u8(0) > 2 || info.u8(0) != 0 && info.u8(1) == 0,
            _ => false,
        };
        refuse_if(wrong, Errno::Einval)
    }
}

/// What `recent_mt_check()` refuses.
fn recent(info: CStruct<'_>) -> bool {
    const SET_REMOVE: u8 = 0xa;
    const MODIFIERS: u8 = 0x30;
    let (seconds, hits, asked) = (info.u32(0), info.u32(4), info.u8(8));
    asked & !0x3f != 0
        || (asked & 0xf).count_ones() != 1
        || asked & SET_REMOVE != 0 && (seconds != 0 || hits != 0 || asked & MODIFIERS != 0)
        || asked & 0x20 != 0 && seconds == 0
        || hits >= crate::state::RECENT_MOST
}

/// What `rt_mt6_check()` refuses: addresses are those of routing headers of type 0.
fn routing(info: CStruct<'_>) -> bool {
    const TYPE: u8 = 1;
    const OF_TYPE_0: u8 = 0x38;
    let (flags, inverted) = (info.u8(16), info.u8(17));
    let is_type_0 = flags & TYPE != 0 && info.u32(0) == 0 && inverted & TYPE == 0;
    inverted & !7 != 0 || flags & OF_TYPE_0 != 0 && !is_type_0
}

/// Whether an address is the prefix of a network of so many bits, at most 64.
fn is_prefix(info: CStruct<'_>, at: usize, bits: u8) -> bool {
    let address = u128::from_be_bytes(info.bytes(at));
    bits <= 64 && address.checked_shl(bits.into()).unwrap_or(0) == 0
}

/// Matches of bridges that are about ports or ICMP, without the protocol that has those.
fn bridge_match(name: &str, info: CStruct<'_>) -> Result<(), Errno> {
    const PROTOCOL: u8 = 8;
    const PORTS: u8 = 0x30;
    const ICMP: u8 = 0x40;
    const WITH_PORTS: [u8; 5] = [6, 17, 136, 132, 33];
    let (number, asked, inverted, icmp) = match name {
        "ip" => (info.u8(17), info.u8(18), info.u8(19), 1),
        "ip6" => (info.u8(65), info.u8(66), info.u8(67), 58),
        _ => return Ok(()),
    };
    let certain = inverted & PROTOCOL == 0;
    let wrong = asked & PORTS != 0 && !(certain && WITH_PORTS.contains(&number))
        || asked & ICMP != 0 && !(certain && number == icmp);
    refuse_if(wrong, Errno::Einval)
}

/// Whether `struct xt_l2tp_info` is malformed, or asks for what packets of the rule's protocol do not
/// have (`l2tp_mt_check4()`).
fn l2tp(place: &Place<'_>, info: CStruct<'_>) -> bool {
    let (flags, version) = (info.u8(10), info.u8(8));
    let [tunnel, session, asks_version, asks_kind] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
    let control = asks_kind && info.u8(9) == 0;
    let wide = |asked: bool, at: usize| asked && info.u32(at) > 0xffff;
    let mixed = match (asks_version, version) {
        (false, _) => false,
        (true, 2) => wide(tunnel, 0) || wide(session, 4),
        (true, 3) => tunnel && session,
        (true, _) => true,
    };
    let protocol = place.protocol.map_or(0, |(number, _)| number);
    flags & !15 != 0
        || !(tunnel || session || control)
        || mixed
        || !matches!(protocol, UDP | L2TP)
        || protocol == L2TP && version == 2
}
