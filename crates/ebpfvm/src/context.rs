// SPDX-License-Identifier: Apache-2.0

//! What a program is given: its packet and what is known of it, and what it said should happen.
//! Accesses to fields are those that the kernel's verifier lets programs of the type make
//! (`net/core/filter.c`).

use crate::fault::FaultKind;
use crate::packet::Packet;
use crate::space::{self, OBJECTS, PACKET, address};
use crate::types::{self, Field, Struct, field};

/// What a program is (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProgramKind {
    /// A filter of sockets: how many bytes of the packet pass.
    SocketFilter,
    /// A filter of traffic control, or a program at tcx.
    Tc,
    /// XDP: before everything else.
    Xdp,
    /// At a hook of netfilter.
    Netfilter,
}

/// Where a redirected packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The index of the device, or 0 if it goes to several.
    pub device: u32,
    /// It is received by that device instead of sent.
    pub ingress: bool,
    /// All devices of this map, by its number in the machine.
    pub broadcast: Option<u32>,
    /// Not to the device that it came from.
    pub exclude_ingress: bool,
}

/// What is known of a frame in XDP.
#[derive(Clone, Debug, Default)]
pub struct Xdp {
    /// The frame.
    pub packet: Packet,
    /// The index of the device that it arrived on.
    pub ingress: u32,
    /// The queue of that device.
    pub queue: u32,
    /// Where it goes if the program's verdict is `XDP_REDIRECT`.
    pub redirect: Option<Redirect>,
}

/// What is known of a packet in traffic control and filters of sockets.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Skb {
    /// For traffic control from the link header, for filters of sockets from the network header on.
    pub packet: Packet,
    /// The link header, for filters of sockets.
    pub link: Vec<u8>,
    /// Whether it is a socket's filter that runs.
    pub socket: bool,
    /// `PACKET_HOST` and so on.
    pub packet_type: u32,
    pub mark: u32,
    pub queue_mapping: u32,
    /// In the order of the network, as the program reads it.
    pub protocol: u32,
    /// The tag and its protocol (in the order of the network), if the packet has one apart from its
    /// bytes.
    pub vlan: Option<(u16, u16)>,
    pub priority: u32,
    pub ingress_ifindex: u32,
    pub ifindex: u32,
    pub tc_index: u32,
    pub cb: [u8; 20],
    pub hash: u32,
    pub tc_classid: u32,
    pub napi_id: u32,
    /// Nanoseconds.
    pub tstamp: u64,
    /// Bytes as queues count them, of all segments.
    pub wire_len: u32,
    pub gso_segs: u32,
    pub gso_size: u32,
    /// Bytes of the network and transport headers of a super-packet.
    pub gso_headers: u32,
    pub hwtstamp: u64,
    /// The largest packet of its device, bytes; 0 if it is on none.
    pub mtu: u32,
    /// Where it goes if the program's verdict is `TC_ACT_REDIRECT`.
    pub redirect: Option<Redirect>,
}

/// A device, as netfilter programs see it.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Device {
    /// With zeros at its end.
    pub name: [u8; 16],
    pub index: u32,
    pub mtu: u32,
    /// `ARPHRD_*`.
    pub hardware: u16,
}

/// A packet at a hook of netfilter.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Netfilter {
    /// From the network header on.
    pub packet: Packet,
    /// `NF_INET_*`.
    pub hook: u8,
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`.
    pub family: u8,
    pub input: Option<Device>,
    pub output: Option<Device>,
    /// In the order of the network.
    pub protocol: u16,
    pub mark: u32,
    pub priority: u32,
    pub packet_type: u8,
    pub queue_mapping: u16,
    pub hash: u32,
    /// Its structures as the program reads them, made when a run begins.
    pub objects: Objects,
}

/// Bytes of structures of the kernel.
#[derive(Clone, Debug, Default)]
pub struct Objects(Vec<u8>);

/// What a program is given.
#[derive(Debug)]
pub enum Context {
    /// XDP.
    Xdp(Xdp),
    /// Traffic control, or a filter of a socket.
    Skb(Box<Skb>),
    /// A hook of netfilter.
    Netfilter(Box<Netfilter>),
}

/// Where the structures of a netfilter program begin.
const STATE: u32 = 0;
const SK_BUFF: u32 = 64;
const INPUT: u32 = 128;
const OUTPUT: u32 = 192;
const NET: u32 = 256;
const OBJECTS_LEN: usize = 256;

/// Hooks (`enum nf_inet_hooks`).
const LOCAL_OUT: u8 = 3;
const POST_ROUTING: u8 = 4;

/// A value of `size` bytes at `at` in the little-endian bytes of a field.
fn part(field: u64, at: u32, size: u32) -> u64 {
    let shifted = field >> (at * 8);
    if size >= 8 { shifted } else { shifted & ((1 << (size * 8)) - 1) }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Context {
    /// Programs of which kind take it.
    pub fn kind(&self) -> ProgramKind {
        match self {
            Context::Xdp(_) => ProgramKind::Xdp,
            Context::Skb(skb) if skb.socket => ProgramKind::SocketFilter,
            Context::Skb(_) => ProgramKind::Tc,
            Context::Netfilter(_) => ProgramKind::Netfilter,
        }
    }

    /// Its packet.
    pub fn packet(&self) -> &Packet {
        match self {
            Context::Xdp(xdp) => &xdp.packet,
            Context::Skb(skb) => &skb.packet,
            Context::Netfilter(nf) => &nf.packet,
        }
    }

    /// Its packet.
    pub fn packet_mut(&mut self) -> &mut Packet {
        match self {
            Context::Xdp(xdp) => &mut xdp.packet,
            Context::Skb(skb) => &mut skb.packet,
            Context::Netfilter(nf) => &mut nf.packet,
        }
    }

    /// Whether programs access the packet by addresses.
    pub(crate) fn is_direct(&self) -> bool {
        match self {
            Context::Xdp(_) => true,
            Context::Skb(skb) => !skb.socket,
            Context::Netfilter(_) => true,
        }
    }

    /// Whether programs change the packet by addresses.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Context::Xdp(_) => true,
            Context::Skb(skb) => !skb.socket,
            Context::Netfilter(_) => false,
        }
    }

    /// Prepares for a run of a program of a kind: whether that takes this context.
    #[inline]
    pub(crate) fn begin(&mut self, kind: ProgramKind) -> bool {
        match (self, kind) {
            (Context::Xdp(xdp), ProgramKind::Xdp) => xdp.redirect = None,
            (Context::Skb(skb), ProgramKind::Tc) if !skb.socket => skb.redirect = None,
            (Context::Skb(skb), ProgramKind::SocketFilter) if skb.socket => skb.redirect = None,
            (Context::Netfilter(nf), ProgramKind::Netfilter) => nf.write_objects(),
            _ => return false,
        }
        true
    }

    /// Reads a field.
    pub(crate) fn load(&self, at: u32, size: u32) -> Result<u64, FaultKind> {
        let wrong = FaultKind::Context(at, size);
        if !at.is_multiple_of(size) {
            return Err(wrong);
        }
        match self {
            Context::Xdp(xdp) if size == 4 => xdp.load(at).ok_or(wrong),
            Context::Xdp(_) => Err(wrong),
            Context::Skb(skb) => skb.load(at, size).ok_or(wrong),
            Context::Netfilter(_) => match (at, size) {
                (0, 8) => Ok(address(OBJECTS, STATE)),
                (8, 8) => Ok(address(OBJECTS, SK_BUFF)),
                _ => Err(wrong),
            },
        }
    }

    /// Writes a field.
    pub(crate) fn store(&mut self, at: u32, size: u32, value: u64) -> Result<(), FaultKind> {
        let wrong = FaultKind::Context(at, size);
        match self {
            Context::Skb(skb) if at.is_multiple_of(size) => skb.store(at, size, value).ok_or(wrong),
            _ => Err(wrong),
        }
    }

    /// Reads a field of a structure of the kernel.
    pub(crate) fn object(&self, at: u32, size: u32) -> Result<u64, FaultKind> {
        let wrong = FaultKind::Read(address(OBJECTS, at), size);
        let Context::Netfilter(nf) = self else { return Err(wrong) };
        let (base, of): (u32, &Struct) = match at {
            STATE..SK_BUFF => (STATE, &types::HOOK_STATE),
            SK_BUFF..INPUT => (SK_BUFF, &types::SK_BUFF),
            INPUT..OUTPUT => (INPUT, &types::NET_DEVICE),
            OUTPUT..NET => (OUTPUT, &types::NET_DEVICE),
            _ => return Err(wrong),
        };
        if !of.has(at - base, size) {
            return Err(wrong);
        }
        let bytes = nf.objects.0.get(at as usize..(at + size) as usize).ok_or(wrong)?;
        Ok(number(bytes))
    }

    /// Whether an address is that of the packet's structure, as helpers take it.
    pub(crate) fn is_packet_object(&self, of: u64) -> bool {
        match self {
            Context::Netfilter(_) => of == address(OBJECTS, SK_BUFF),
            _ => of == address(space::CONTEXT, 0),
        }
    }
}

impl Xdp {
    fn load(&self, at: u32) -> Option<u64> {
        let (meta, data, end) = self.packet.bounds();
        match at {
            0 => Some(address(PACKET, data as u32)),
            4 => Some(address(PACKET, end as u32)),
            8 => Some(address(PACKET, meta as u32)),
            12 => Some(u64::from(self.ingress)),
            16 => Some(u64::from(self.queue)),
            // egress_ifindex is for programs in maps of devices.
            _ => None,
        }
    }
}

/// The protocol of a packet, in the order of the network, by what follows the addresses of its link
/// header, as `eth_type_trans()` says it; nothing if that is less than two bytes.
pub fn link_protocol(bytes: &[u8]) -> Option<u16> {
    /// Numbers below are lengths (`ETH_P_802_3_MIN`), of frames of Novell (`ETH_P_802_3`) or with a
    /// header of LLC (`ETH_P_802_2`).
    const PROTOCOLS: u16 = 0x600;
    const NOVELL: u16 = 1_u16.to_be();
    const LLC: u16 = 4_u16.to_be();
    let (protocol, rest) = bytes.split_first_chunk()?;
    let protocol = u16::from_ne_bytes(*protocol);
    Some(match rest.first_chunk() {
        _ if u16::from_be(protocol) >= PROTOCOLS => protocol,
        Some([0xff, 0xff]) => NOVELL,
        _ => LLC,
    })
}

/// Offsets in `struct __sk_buff`.
mod skb {
    pub(super) const CB: u32 = 48;
    pub(super) const CB_END: u32 = 68;
    pub(super) const DATA: u32 = 76;
    pub(super) const DATA_END: u32 = 80;
    pub(super) const DATA_META: u32 = 140;
    pub(super) const TSTAMP: u32 = 152;
    pub(super) const HWTSTAMP: u32 = 184;
}

impl Skb {
    /// A field of four bytes.
    fn word(&self, at: u32) -> Option<u32> {
        let tc = !self.socket;
        Some(match at {
            0 => self.packet.len() as u32,
            4 => self.packet_type & 7,
            8 => self.mark,
            12 => self.queue_mapping & 0xffff,
            16 => self.protocol,
            20 => u32::from(self.vlan.is_some()),
            24 => self.vlan.map_or(0, |(tci, _)| u32::from(tci)),
            28 => self.vlan.map_or(0, |(_, protocol)| u32::from(protocol)),
            32 => self.priority,
            36 => self.ingress_ifindex,
            40 => self.ifindex,
            44 => self.tc_index & 0xffff,
            68 => self.hash,
            72 if tc => self.tc_classid & 0xffff,
            84 => self.napi_id,
            160 if tc => self.wire_len,
            164 => self.gso_segs,
            176 => self.gso_size,
            _ => return None,
        })
    }

    fn load(&self, at: u32, size: u32) -> Option<u64> {
        if (skb::CB..skb::CB_END).contains(&at) {
            let from = (at - skb::CB) as usize;
            return self.cb.get(from..from + size as usize).map(number);
        }
        let tc = !self.socket;
        let (meta, data, end) = self.packet.bounds();
        match at {
            skb::DATA if tc && size == 4 => return Some(address(PACKET, data as u32)),
            skb::DATA_END if tc && size == 4 => return Some(address(PACKET, end as u32)),
            skb::DATA_META if tc && size == 4 => return Some(address(PACKET, meta as u32)),
            skb::DATA | skb::DATA_END | skb::DATA_META => return None,
            skb::TSTAMP => return (tc && size == 8).then_some(self.tstamp),
            _ if at & !7 == skb::HWTSTAMP => {
                return (tc && size == 8).then_some(self.hwtstamp);
            }
            _ => {}
        }
        let field = at & !3;
        if size > 4 {
            return None;
        }
        self.word(field).map(|word| part(u64::from(word), at - field, size))
    }

    fn store(&mut self, at: u32, size: u32, value: u64) -> Option<()> {
        if (skb::CB..skb::CB_END).contains(&at) {
            let from = (at - skb::CB) as usize;
            let place = self.cb.get_mut(from..from + size as usize)?;
            place.copy_from_slice(value.to_le_bytes().get(..size as usize)?);
            return Some(());
        }
        if self.socket {
            return None;
        }
        if at == skb::TSTAMP && size == 8 {
            self.tstamp = value;
            return Some(());
        }
        if size != 4 {
            return None;
        }
        let value = value as u32;
        match at {
            8 => self.mark = value,
            // NO_QUEUE_MAPPING and above change nothing.
            12 if value >= 0xffff => {}
            12 => self.queue_mapping = value,
            32 => self.priority = value,
            44 => self.tc_index = value & 0xffff,
            72 => self.tc_classid = value & 0xffff,
            _ => return None,
        }
        Some(())
    }
}

impl Netfilter {
    /// Writes the structures that the program may read.
    fn write_objects(&mut self) {
        let mut objects = std::mem::take(&mut self.objects.0);
        objects.clear();
        objects.resize(OBJECTS_LEN, 0);
        let mut put = |base: u32, field: &Field, value: u64| {
            let at = (base + field.at) as usize;
            let bytes = value.to_le_bytes();
            if let (Some(place), Some(bytes)) =
                (objects.get_mut(at..at + field.size as usize), bytes.get(..field.size as usize))
            {
                place.copy_from_slice(bytes);
            }
        };
        let input = if self.input.is_some() { address(OBJECTS, INPUT) } else { 0 };
        let output = if self.output.is_some() { address(OBJECTS, OUTPUT) } else { 0 };
        // At output the packet has no device yet, and from postrouting on that of its way out.
        let device = match self.hook {
            LOCAL_OUT => 0,
            POST_ROUTING => output,
            _ => input,
        };
        let arrived = self.input.as_ref().map_or(0, |device| device.index);
        put(STATE, &field::HOOK, u64::from(self.hook));
        put(STATE, &field::PF, u64::from(self.family));
        put(STATE, &field::IN, input);
        put(STATE, &field::OUT, output);
        put(STATE, &field::NET, address(OBJECTS, NET));
        put(SK_BUFF, &field::DEV, device);
        put(SK_BUFF, &field::LEN, self.packet.len() as u64);
        put(SK_BUFF, &field::MARK, u64::from(self.mark));
        put(SK_BUFF, &field::PRIORITY, u64::from(self.priority));
        put(SK_BUFF, &field::SKB_IIF, u64::from(arrived));
        put(SK_BUFF, &field::HASH, u64::from(self.hash));
        put(SK_BUFF, &field::PROTOCOL, u64::from(self.protocol));
        put(SK_BUFF, &field::QUEUE_MAPPING, u64::from(self.queue_mapping));
        put(SK_BUFF, &field::PKT_TYPE, u64::from(self.packet_type & 7));
        for (base, device) in [(INPUT, &self.input), (OUTPUT, &self.output)] {
            let Some(device) = device else { continue };
            put(base, &field::IFINDEX, u64::from(device.index));
            put(base, &field::MTU, u64::from(device.mtu));
            put(base, &field::TYPE, u64::from(device.hardware));
            let [first, last] = [0, 8].map(|at| {
                device
                    .name
                    .get(at..)
                    .and_then(|n| n.first_chunk())
                    .map_or(0, |n| u64::from_le_bytes(*n))
            });
            put(base, &Field { size: 8, ..field::NAME }, first);
            put(base, &Field { size: 8, at: field::NAME.at + 8, ..field::NAME }, last);
        }
        self.objects.0 = objects;
    }
}
