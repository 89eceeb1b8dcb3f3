// SPDX-License-Identifier: Apache-2.0

//! The IP packet in an Ethernet frame, past what is around it.

use crate::{ethernet, pppoe, vlan};

/// What may stand between the link header and the IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The largest number of VLAN tags.
    pub tags: usize,
    /// A PPPoE session.
    pub sessions: bool,
}

/// The IP packet in a frame with at most this around it, padding included. `None` for everything
/// else.
#[inline]
pub fn ip_packet(frame: &[u8], around: Around) -> Option<&[u8]> {
    let kind = |at: usize| frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let mut at = ethernet::LEN;
    for _ in 0..around.tags {
        if !vlan::is_tag(kind(at - 2)?) {
            break;
        }
        at += vlan::LEN;
    }
    match kind(at - 2)? {
        ethernet::IPV4 | ethernet::IPV6 => frame.get(at..),
        ethernet::PPPOE_SESSION if around.sessions => {
            let network = frame.get(at + pppoe::LEN..)?;
            [pppoe::IPV4, pppoe::IPV6].contains(&kind(at + pppoe::LEN - 2)?).then_some(network)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_packets_are_found_after_tags_and_pppoe() {
        let frame = |around: &[u8]| [&[0; 12], around, &[0x45, 1, 2, 3]].concat();
        let tag = [0x81, 0, 0, 7];
        let (ip, arp) = ([0x08, 0], [0x08, 6]);
        let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0, 0x21];
        let control = [0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0xc0, 0x21];
        let found = |bytes: &[u8], tags, sessions| {
            let network = ip_packet(bytes, Around { tags, sessions });
            network.map(|network| network == [0x45, 1, 2, 3])
        };
        for (around, tags, sessions, expected) in [
            (&ip[..], 0, false, Some(true)),
            (&arp, 0, false, None),
            (&[&tag[..], &ip].concat(), 0, true, None),
            (&[&tag[..], &ip].concat(), 1, false, Some(true)),
            (&[&tag[..], &tag, &ip].concat(), 1, true, None),
            (&[&tag[..], &tag, &ip].concat(), 4, true, Some(true)),
            (&session, 1, false, None),
            (&session, 1, true, Some(true)),
            (&[&tag[..], &session].concat(), 1, true, Some(true)),
            (&control, 1, true, None),
        ] {
            let frame = frame(around);
            assert_eq!(found(&frame, tags, sessions), expected, "{around:x?} {tags} {sessions}");
            for cut in 0..12 + around.len() {
                assert_eq!(found(&frame[..cut], tags, sessions), None, "{around:x?} cut at {cut}");
            }
        }
    }
}
