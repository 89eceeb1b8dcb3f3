// SPDX-License-Identifier: Apache-2.0

//! What travels with the bytes: `struct sk_buff` and `struct nft_pktinfo` in the parts that rules
//! see.

/// How the frame was addressed on its link (`PACKET_*` of `<linux/if_packet.h>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// To the link's broadcast address.
    Broadcast = 1,
    /// To a link-layer group.
    Multicast = 2,
    /// To another host's address.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
    /// Looped back to this host (`PACKET_LOOPBACK`).
    Loopback = 5,
}

/// An 802.1Q or 802.1ad tag held outside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol: 0x8100 or 0x88a8.
    pub protocol: u16,
    /// Priority, drop-eligible bit and VLAN id.
    pub tci: u16,
}

/// What a packet is to its connection (`enum ip_conntrack_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum CtInfo {
    /// Part of a connection with packets in both directions, original direction. Also what a packet
    /// has that was not looked at yet or is invalid, which then has no entry.
    #[default]
    Established = 0,
    /// Begins a connection that another one expected, or is an ICMP error about a connection.
    Related = 1,
    /// Begins a connection, or belongs to one that had no answer yet.
    New = 2,
    /// [`CtInfo::Established`], reply direction.
    EstablishedReply = 3,
    /// [`CtInfo::Related`], reply direction.
    RelatedReply = 4,
    /// A rule set `notrack`, or the protocol is not tracked.
    Untracked = 7,
}

impl CtInfo {
    /// All there are.
    pub const ALL: [CtInfo; 6] = [
        CtInfo::Established,
        CtInfo::Related,
        CtInfo::New,
        CtInfo::EstablishedReply,
        CtInfo::RelatedReply,
        CtInfo::Untracked,
    ];

    /// `NF_CT_STATE_*` bit of a packet that has an entry or template, or is untracked.
    pub const fn state_bit(self) -> u32 {
        match self {
            CtInfo::Untracked => 1 << 6,
            // IP_CT_ESTABLISHED and its reply form are 0 and 3, the bit is 1 << (info % 3 + 1).
            info => 1 << (info as u32 % 3 + 1),
        }
    }

    /// Whether the packet goes in the direction of replies.
    pub const fn is_reply(self) -> bool {
        matches!(self, CtInfo::EstablishedReply | CtInfo::RelatedReply)
    }
}

/// The packet's connection (`skb->_nfct`), as a number in the tracker's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ct {
    /// Number of the entry, [`Ct::NONE`] for none.
    pub entry: u32,
    /// Tells entries apart that use one number after the other: an entry with another serial is not
    /// this packet's.
    pub serial: u32,
    /// What the packet is to it.
    pub info: CtInfo,
    /// What rules asked for before tracking (`ct zone set`, `ct timeout set`): number of the
    /// template, 0 for none.
    pub template: u16,
}

impl Ct {
    /// `NF_CT_STATE_INVALID_BIT`.
    pub const INVALID: u32 = 1;
    /// No entry.
    pub const NONE: u32 = u32::MAX;

    /// Whether there is an entry.
    #[inline]
    pub const fn has_entry(&self) -> bool {
        self.entry != Ct::NONE
    }

    /// `NF_CT_STATE_*` bit of the packet, as `ct state` sees it (`nft_ct_get_eval()`).
    #[inline]
    pub const fn state(&self) -> u32 {
        match self.info {
            CtInfo::Untracked => self.info.state_bit(),
            info if self.has_entry() || self.template != 0 => info.state_bit(),
            _ => Ct::INVALID,
        }
    }
}

impl Ct {
    const EMPTY: Ct = Ct { entry: Ct::NONE, serial: 0, info: CtInfo::Established, template: 0 };
}

impl Default for Ct {
    fn default() -> Self {
        Ct::EMPTY
    }
}

/// What a bridge knows of a packet that passes the hooks of IP on it (`struct nf_bridge_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bridged {
    /// Index of the port that it came by; 0 if it did not come so.
    pub arrived: u32,
    /// Index of the port that it leaves by, once that is known and as long as it is on the bridge.
    pub leaves: u32,
    /// It is addressed to another host, which rules of IP do not see.
    pub other_host: bool,
    /// It has passed `prerouting` of IP, and does not pass it again where the bridge receives it.
    pub passed: bool,
    /// It reaches the bridge device only because that is promiscuous.
    pub overheard: bool,
}

impl Bridged {
    /// What a packet has that came by no such port.
    const NONE: Bridged =
        Bridged { arrived: 0, leaves: 0, other_host: false, passed: false, overheard: false };
}

/// Packet metadata. All integers are in host order.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Arrival time in nanoseconds since the epoch: the clock of everything that happens to the
    /// packet.
    pub time: u64,
    /// Ethertype after removal of one VLAN tag (`skb->protocol`).
    pub protocol: u16,
    /// Interface index of arrival at the present stage, 0 for none (`skb->dev` on the way in).
    pub iif: u32,
    /// Interface index on the way out, 0 for none.
    pub oif: u32,
    /// `meta mark`.
    pub mark: u32,
    /// `meta priority` (a traffic control class id).
    pub priority: u32,
    /// The tag taken out of the frame.
    pub vlan: Option<VlanTag>,
    /// `meta pkttype`.
    pub packet_type: PacketType,
    /// `meta nftrace`.
    pub nftrace: bool,
    /// Trace id given when the packet was first traced; 0 before.
    pub trace_id: u32,
    /// Routing realm of the route that was found (`meta rtclassid`, `rt classid`).
    pub realm: u32,
    /// Socket owner, for packets that the host sends from a socket (`meta skuid`, `meta skgid`).
    pub owner: Option<(u32, u32)>,
    /// Kept for `meta secmark`.
    pub secmark: u32,
    /// Connection.
    pub ct: Ct,
    /// Number of what the path knows about the fragments that the packet was put together from, 0
    /// for none; opaque here.
    pub reassembled: u32,
    /// Number of what the path knows about the IPsec states that the packet came through
    /// (`struct sec_path`), 0 for none; opaque here.
    pub secpath: u32,
    /// The packet went through IPsec on its way out, and policy does not ask again
    /// (`IPSKB_XFRM_TRANSFORMED`).
    pub transformed: bool,
    /// How often filters of traffic control have sent the packet to be received somewhere
    /// (`skb->tc_depth`).
    pub tc_depth: u8,
    /// Number of the local socket that the packet was sent from or is assigned to (`skb->sk`), 0
    /// for none.
    pub socket: u32,
    /// `meta broute set 1`: the bridge is to route the frame instead of bridging it.
    pub broute: bool,
    /// Ports of a bridge on which the packet passes the hooks of IP.
    pub bridged: Bridged,
    /// The packet is a super-packet: its transport checksum is made when it leaves.
    pub gso: Option<crate::Gso>,
    /// Index of the route in the path's table, once routing has decided; opaque here.
    pub route: Option<u32>,
}

impl Meta {
    /// What a packet has that nothing is known of. A constant, so that packets get it in few
    /// stores.
    pub(crate) const EMPTY: Meta = Meta {
        time: 0,
        protocol: 0,
        iif: 0,
        oif: 0,
        mark: 0,
        priority: 0,
        vlan: None,
        packet_type: PacketType::Host,
        nftrace: false,
        trace_id: 0,
        realm: 0,
        owner: None,
        secmark: 0,
        ct: Ct::EMPTY,
        reassembled: 0,
        secpath: 0,
        transformed: false,
        tc_depth: 0,
        socket: 0,
        broute: false,
        bridged: Bridged::NONE,
        gso: None,
        route: None,
    };
}

impl Default for Meta {
    fn default() -> Self {
        Meta::EMPTY
    }
}
