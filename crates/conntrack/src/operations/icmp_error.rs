// SPDX-License-Identifier: Apache-2.0

//! ICMP messages that are no flow of their own: errors about known connections, and what is not
//! tracked.

use crate::Direction;
use crate::complaint::Wrong;
use crate::dissect::{self, REDIRECT_LEN};
use crate::packet::{Hook, PacketView};
use crate::table::Conntrack;
use crate::tuple::{IPV4, IPV6};
use penstock_packet::{Ct, CtInfo};
use penstock_wire::{icmp, icmpv6, protocol};

/// The highest type that is known (`NR_ICMP_TYPES`).
const ICMP_TYPES: u8 = 18;

impl Conntrack {
    /// What an ICMP message is if it is no request or reply (`nf_conntrack_handle_icmp()`): related
    /// to a connection, untracked, or invalid. `None` if it is looked up like other packets.
    pub(super) fn icmp_error(&mut self, p: &PacketView<'_>, template: u16) -> Option<Ct> {
        match (p.at.l3, p.at.protocol) {
            (IPV4, protocol::ICMP) => self.icmpv4_error(p, template),
            (IPV6, protocol::ICMPV6) => self.icmpv6_error(p, template),
            _ => None,
        }
    }

    /// An error that is wrong in itself.
    #[cold]
    fn refuse_malformed(&mut self, p: &PacketView<'_>, why: &'static str) -> Option<Ct> {
        self.complaints.note(self.settings.log_invalid, p.at.protocol, Wrong::Text(why));
        self.refuse_error()
    }

    #[cold]
    fn refuse_error(&mut self) -> Option<Ct> {
        self.statistics.error += 1;
        self.statistics.invalid += 1;
        Some(Ct::default())
    }

    fn icmpv4_error(&mut self, p: &PacketView<'_>, template: u16) -> Option<Ct> {
        let Some(h) = icmp::Header::new(p.transport()) else {
            return self.refuse_malformed(p, "short packet");
        };
        if self.settings.checksum && p.hook == Hook::Prerouting && !h.checksum_ok() {
            return self.refuse_malformed(p, "bad hw icmp checksum");
        }
        if h.kind() > ICMP_TYPES {
            return self.refuse_malformed(p, "invalid icmp type");
        }
        if !icmp::is_error(h.kind()) {
            return None;
        }
        let mut to = [0; 16];
        to[..4].copy_from_slice(p.network.get(16..20)?);
        self.related(p, p.at.offset + icmp::LEN, &to, template)
    }

    fn icmpv6_error(&mut self, p: &PacketView<'_>, template: u16) -> Option<Ct> {
        let Some(h) = icmpv6::Header::new(p.transport()) else {
            return self.refuse_malformed(p, "short packet");
        };
        if self.settings.checksum
            && p.hook == Hook::Prerouting
            && !h.checksum_ok(p.pseudo(p.transport().len()))
        {
            return self.refuse_malformed(p, "ICMPv6 checksum failed");
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
    fn redirect(&mut self, p: &PacketView<'_>, to: &[u8; 16], template: u16) -> Option<Ct> {
        const HOP_LIMIT: usize = 7;
        let h = p.transport();
        let fixed = h.get(..REDIRECT_LEN);
        if p.network.get(HOP_LIMIT) != Some(&255) || fixed.is_none_or(|f| f[1] != 0) {
            return self.refuse_error();
        }
        match dissect::redirected(p.network, p.at.offset) {
            Some(quoted) => self.related(p, quoted, to, template),
            None => Some(Ct { info: CtInfo::Untracked, ..Ct::default() }),
        }
    }

    /// The connection of the packet that is quoted from `inner` on (`nf_conntrack_inet_error()`).
    /// Its source must be the destination of the error, otherwise the error is unrelated.
    fn related(
        &mut self,
        p: &PacketView<'_>,
        inner: usize,
        to: &[u8; 16],
        template: u16,
    ) -> Option<Ct> {
        let zones = self.template_zones(template);
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
        let inner = e.tuple(direction).dst;
        if inner != *to {
            let what = Wrong::Address { v6: p.at.l3 == IPV6, outer: *to, inner };
            self.complaints.note(self.settings.log_invalid, p.at.protocol, what);
            return self.refuse_error();
        }
        let info = match direction {
            Direction::Original => CtInfo::Related,
            Direction::Reply => CtInfo::RelatedReply,
        };
        Some(Ct { entry: n, serial: e.serial, info, template: 0 })
    }
}
