// SPDX-License-Identifier: Apache-2.0

//! The headers that `tcpdump -i any` puts in place of link headers
//! (<https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html> and `…_SLL2.html`). All numbers
//! are in network order.

use super::{Direction, LinkType};

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooked<'a> {
    /// To whom the frame was sent.
    pub to: PacketType,
    /// Index of the interface, if the header has it (`LINKTYPE_LINUX_SLL2`).
    pub interface: Option<u32>,
    /// The kind of the interface's link layer (`ARPHRD_*`).
    pub hardware: u16,
    /// Link address of the sender, if it has six bytes.
    pub from: Option<[u8; 6]>,
    /// EtherType. Numbers below 0x600 stand for frames without one.
    pub protocol: u16,
    /// What comes after the header.
    pub payload: &'a [u8],
}

/// To whom a frame was sent (`PACKET_*` of packet(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// To the host.
    Host,
    /// To all.
    Broadcast,
    /// To a group.
    Multicast,
    /// To another host.
    Other,
    /// By the host.
    Outgoing,
}

impl PacketType {
    fn from_number(number: u16) -> Option<PacketType> {
        Some(match number {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::Other,
            4 => PacketType::Outgoing,
            _ => return None,
        })
    }
}

impl<'a> Cooked<'a> {
    /// Reads the header of a frame. `None` if the frame is too short or of another link type, or
    /// has a packet type that there is not.
    pub fn parse(link: LinkType, frame: &'a [u8]) -> Option<Cooked<'a>> {
        let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let address = |len: usize, at: usize| match len {
            6 => frame.get(at..at + 6)?.try_into().ok(),
            _ => None,
        };
        Some(match link {
            LinkType::Sll => Cooked {
                to: PacketType::from_number(half(0)?)?,
                interface: None,
                hardware: half(2)?,
                from: address(usize::from(half(4)?), 6),
                protocol: half(14)?,
                payload: frame.get(16..)?,
            },
            LinkType::Sll2 => Cooked {
                to: PacketType::from_number(u16::from(*frame.get(10)?))?,
                interface: Some(u32::from(half(4)?) << 16 | u32::from(half(6)?)),
                hardware: half(8)?,
                from: address(usize::from(*frame.get(11)?), 12),
                protocol: half(0)?,
                payload: frame.get(20..)?,
            },
            LinkType::Ethernet | LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => return None,
        })
    }

    /// Whether the host received or sent the frame.
    pub fn direction(&self) -> Direction {
        match self.to {
            PacketType::Outgoing => Direction::Out,
            PacketType::Host
            | PacketType::Broadcast
            | PacketType::Multicast
            | PacketType::Other => Direction::In,
        }
    }

    /// Writes the frame to `out` as it was on an Ethernet. The header does not tell the destination:
    /// it becomes `own` (the interface's link address) for frames to the host, the address of all
    /// hosts or of the IP group for those to several, and `02:00:00:00:00:00` otherwise. `false`,
    /// and nothing written, if the frame was not one of an Ethernet with an EtherType.
    pub fn to_ethernet(&self, own: [u8; 6], out: &mut Vec<u8>) -> bool {
        const ARPHRD_ETHER: u16 = 1;
        const ARPHRD_LOOPBACK: u16 = 772;
        let is_ethernet = matches!(self.hardware, ARPHRD_ETHER | ARPHRD_LOOPBACK);
        let Some(from) = self.from.filter(|_| is_ethernet && self.protocol >= 0x600) else {
            return false;
        };
        let to = match self.to {
            PacketType::Host => own,
            PacketType::Broadcast => [0xff; 6],
            PacketType::Multicast => self.group(),
            PacketType::Other | PacketType::Outgoing => [2, 0, 0, 0, 0, 0],
        };
        out.extend(to);
        out.extend(from);
        out.extend(self.protocol.to_be_bytes());
        out.extend(self.payload);
        true
    }

    /// The Ethernet address of the IP group that the packet is for (RFC 1112, RFC 2464).
    fn group(&self) -> [u8; 6] {
        match (self.protocol, self.payload) {
            (0x0800, [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, b, c, d, ..]) => {
                [1, 0, 0x5e, b & 0x7f, *c, *d]
            }
            (0x86dd, packet) if packet.len() >= 40 => {
                [0x33, 0x33, packet[36], packet[37], packet[38], packet[39]]
            }
            _ => [1, 0x80, 0xc2, 0, 0, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_say_where_and_to_whom() {
        let sll = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 8, 0, 0x45];
        let sll2 = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 2, 0, 0, 0, 0, 9, 0, 0, 0x45];
        let first = Cooked::parse(LinkType::Sll, &sll).expect("whole");
        let second = Cooked::parse(LinkType::Sll2, &sll2).expect("whole");
        let expected = Cooked {
            to: PacketType::Host,
            interface: None,
            hardware: 1,
            from: Some([2, 0, 0, 0, 0, 9]),
            protocol: 0x800,
            payload: &[0x45],
        };
        assert_eq!(first, expected);
        assert_eq!(second, Cooked { to: PacketType::Outgoing, interface: Some(7), ..expected });
        assert_eq!((first.direction(), second.direction()), (Direction::In, Direction::Out));
        let mut frame = Vec::new();
        assert!(first.to_ethernet([2, 0, 0, 0, 0, 1], &mut frame));
        assert_eq!(frame, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45]);
        for (link, whole) in [(LinkType::Sll, &sll[..16]), (LinkType::Sll2, &sll2[..20])] {
            assert!(Cooked::parse(link, whole).is_some());
            assert_eq!(Cooked::parse(link, &whole[1..]), None, "too short");
        }
        assert_eq!(Cooked::parse(LinkType::Ethernet, &sll), None);
    }

    #[test]
    fn frames_to_groups_get_the_address_of_their_group() {
        let mut packet = [0; 40];
        packet[16..20].copy_from_slice(&[224, 129, 2, 3]);
        packet[36..].copy_from_slice(&[0, 1, 0, 2]);
        for (protocol, group) in [
            (0x0800, [1, 0, 0x5e, 1, 2, 3]),
            (0x86dd, [0x33, 0x33, 0, 1, 0, 2]),
            (0x88cc, [1, 0x80, 0xc2, 0, 0, 0]),
        ] {
            let mut frame = Vec::new();
            let cooked = Cooked {
                to: PacketType::Multicast,
                interface: None,
                hardware: 1,
                from: Some([2; 6]),
                protocol,
                payload: &packet,
            };
            assert!(cooked.to_ethernet([4; 6], &mut frame));
            assert_eq!(frame[..6], group);
            assert!(!Cooked { hardware: 512, ..cooked }.to_ethernet([4; 6], &mut frame), "PPP");
            assert!(!Cooked { protocol: 4, ..cooked }.to_ethernet([4; 6], &mut frame), "802.2");
        }
    }
}
