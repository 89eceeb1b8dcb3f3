// SPDX-License-Identifier: Apache-2.0

//! ICMP messages that are no flow of their own: errors about known connections, and what is not
//! tracked.

use crate::Direction;
use crate::conntrack::{Conntrack, Hook, Seen};
use crate::dissect::{self, Layers};
use crate::tuple::{IPV4, IPV6};
use penstock_packet::{Ct, CtInfo};
use penstock_wire::{icmp, icmpv6, protocol};

/// Option of a redirect that quotes the packet (RFC 4861, 4.6.3).
const REDIRECTED_HEADER: u8 = 4;
/// Bytes of a redirect before its options.
const REDIRECT_LEN: usize = icmpv6::LEN + 32;
/// The highest type that is known (`NR_ICMP_TYPES`).
const ICMP_TYPES: u8 = 18;

/// Where the packet begins that a redirect quotes, if it does; `offset` is where the message
/// begins.
fn redirected(network: &[u8], offset: usize) -> Option<usize> {
    let mut at = offset + REDIRECT_LEN;
    while let Some(&[kind, units]) = network.get(at..at + 2).and_then(|b| b.first_chunk()) {
        if kind == REDIRECTED_HEADER && units != 0 {
            return Some(at + 8);
        }
        if units == 0 {
            break;
        }
        at += usize::from(units) * 8;
    }
    None
}

/// The packet that an ICMP message quotes: errors and redirects do.
pub(crate) fn quoted<'a>(network: &'a [u8], at: &Layers) -> Option<&'a [u8]> {
    let transport = network.get(at.offset..)?;
    match (at.l3, at.protocol) {
        (IPV4, protocol::ICMP) if icmp::is_error(icmp::Header::new(transport)?.kind()) => {
            transport.get(icmp::LEN..)
        }
        (IPV6, protocol::ICMPV6) => match icmpv6::Header::new(transport)?.kind() {
            icmpv6::REDIRECT => network.get(redirected(network, at.offset)?..),
            kind if icmpv6::is_error(kind) => transport.get(icmpv6::LEN..),
            _ => None,
        },
        _ => None,
    }
}

impl Conntrack {
    /// What an ICMP message is if it is no request or reply (`nf_conntrack_handle_icmp()`): related
    /// to a connection, untracked, or invalid. `None` if it is looked up like other packets.
    pub(crate) fn icmp_error(&mut self, p: &Seen<'_>, template: u16) -> Option<Ct> {
        match (p.at.l3, p.at.protocol) {
            (IPV4, protocol::ICMP) => self.icmpv4_error(p, template),
            (IPV6, protocol::ICMPV6) => self.icmpv6_error(p, template),
            _ => None,
        }
    }

    #[cold]
    fn refuse_error(&mut self) -> Option<Ct> {
        self.statistics.error += 1;
        self.statistics.invalid += 1;
        Some(Ct::default())
    }

    fn icmpv4_error(&mut self, p: &Seen<'_>, template: u16) -> Option<Ct> {
        let Some(h) = icmp::Header::new(p.transport()) else { return self.refuse_error() };
        let bad = self.settings.checksum && p.hook == Hook::Prerouting && !h.checksum_ok();
        if bad || h.kind() > ICMP_TYPES {
            return self.refuse_error();
        }
        if !icmp::is_error(h.kind()) {
            return None;
        }
        let mut to = [0; 16];
        to[..4].copy_from_slice(p.network.get(16..20)?);
        self.related(p, p.at.offset + icmp::LEN, &to, template)
    }

    fn icmpv6_error(&mut self, p: &Seen<'_>, template: u16) -> Option<Ct> {
        let Some(h) = icmpv6::Header::new(p.transport()) else { return self.refuse_error() };
        if self.settings.checksum
            && p.hook == Hook::Prerouting
            && !h.checksum_ok(p.pseudo(p.transport().len()))
        {
            return self.refuse_error();
        }
        let to = *p.network.get(24..40)?.first_chunk()?;
        match h.kind() {
            icmpv6::REDIRECT => self.redirect(p, &to, template),
            icmpv6::MLD_QUERY
            | icmpv6::MLD_REPORT
            | icmpv6::MLD_DONE
            | icmpv6::ROUTER_SOLICITATION
            | icmpv6::ROUTER_ADVERTISEMENT
            | icmpv6::NEIGHBOUR_SOLICITATION
            | icmpv6::NEIGHBOUR_ADVERTISEMENT
            | icmpv6::MLD2_REPORT => Some(Ct { info: CtInfo::Untracked, ..Ct::default() }),
            kind if !icmpv6::is_error(kind) => None,
            _ => self.related(p, p.at.offset + icmpv6::LEN, &to, template),
        }
    }

    /// A redirect is related to the flow that it quotes, and untracked if it quotes none
    /// (`nf_conntrack_icmpv6_redirect()`).
    fn redirect(&mut self, p: &Seen<'_>, to: &[u8; 16], template: u16) -> Option<Ct> {
        const HOP_LIMIT: usize = 7;
        let h = p.transport();
        let fixed = h.get(..REDIRECT_LEN);
        if p.network.get(HOP_LIMIT) != Some(&255) || fixed.is_none_or(|f| f[1] != 0) {
            return self.refuse_error();
        }
        match redirected(p.network, p.at.offset) {
            Some(quoted) => self.related(p, quoted, to, template),
            None => Some(Ct { info: CtInfo::Untracked, ..Ct::default() }),
        }
    }

    /// The connection of the packet that is quoted from `inner` on (`nf_conntrack_inet_error()`).
    /// It goes to whom the error goes to, or the error is none of its.
    fn related(&mut self, p: &Seen<'_>, inner: usize, to: &[u8; 16], template: u16) -> Option<Ct> {
        let zones = if template == 0 { [0; 2] } else { self.templates.zones(template) };
        let found = p
            .network
            .get(inner..)
            .and_then(|quoted| {
                let at = dissect::layers(quoted).filter(|at| at.l3 == p.at.l3)?;
                self.tuple_at(quoted, &at, 0)?.invert()
            })
            .and_then(|mut tuple| self.find_in_zones(&mut tuple, zones).0);
        let Some((n, direction)) = found else { return self.refuse_error() };
        let e = &self.store[n];
        if e.tuple(direction).dst != *to {
            return self.refuse_error();
        }
        let info = match direction {
            Direction::Original => CtInfo::Related,
            Direction::Reply => CtInfo::RelatedReply,
        };
        Some(Ct { entry: n, serial: e.serial, info, template: 0 })
    }
}
