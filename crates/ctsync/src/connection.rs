// SPDX-License-Identifier: Apache-2.0

//! What messages say of a connection (`build.c` and `parse.c` of conntrack-tools).
//!
//! Numbers are in network order but for the ports of NAT and the identifier of ICMP, which
//! little-endian machines send with their bytes swapped (observed from conntrackd 1.4.8: it swaps
//! what it has in network order already). The types 29 to 32 are observed from 1.4.8, too.

use penstock_conntrack::tuple::{IPV4, IPV6};
use penstock_conntrack::{SeqAdjust, Tuple};
use penstock_wire::protocol;

use crate::attribute::{
    be16, be32, be32s, each, fixed, put, put_addresses, put_ports, put_text, read_addresses,
    read_ports, text, u8,
};
use crate::message::{Change, Kind, Malformed, begin, finish};
use crate::outgoing::{Encoded, Key};

/// Types of attributes (`enum nta_attr`).
mod kind {
    pub(super) const IPV4: u16 = 0;
    pub(super) const IPV6: u16 = 1;
    pub(super) const L4PROTO: u16 = 2;
    pub(super) const PORT: u16 = 3;
    pub(super) const TCP_STATE: u16 = 4;
    pub(super) const STATUS: u16 = 5;
    pub(super) const TIMEOUT: u16 = 6;
    pub(super) const MARK: u16 = 7;
    pub(super) const MASTER_IPV4: u16 = 8;
    pub(super) const MASTER_IPV6: u16 = 9;
    pub(super) const MASTER_L4PROTO: u16 = 10;
    pub(super) const MASTER_PORT: u16 = 11;
    pub(super) const SNAT_IPV4: u16 = 12;
    pub(super) const DNAT_IPV4: u16 = 13;
    pub(super) const SPAT_PORT: u16 = 14;
    pub(super) const DPAT_PORT: u16 = 15;
    pub(super) const NAT_SEQ_ADJ: u16 = 16;
    pub(super) const SCTP_STATE: u16 = 17;
    pub(super) const SCTP_VTAG_ORIG: u16 = 18;
    pub(super) const SCTP_VTAG_REPL: u16 = 19;
    pub(super) const DCCP_STATE: u16 = 20;
    pub(super) const DCCP_ROLE: u16 = 21;
    pub(super) const ICMP_TYPE: u16 = 22;
    pub(super) const ICMP_CODE: u16 = 23;
    pub(super) const ICMP_ID: u16 = 24;
    pub(super) const TCP_WSCALE_ORIG: u16 = 25;
    pub(super) const TCP_WSCALE_REPL: u16 = 26;
    pub(super) const HELPER_NAME: u16 = 27;
    pub(super) const LABELS: u16 = 28;
    pub(super) const SNAT_IPV6: u16 = 29;
    pub(super) const DNAT_IPV6: u16 = 30;
    pub(super) const SYNPROXY: u16 = 31;
    pub(super) const ZONE: u16 = 32;
}

/// Bytes of a helper's name with its header at most (`NFCT_HELPER_NAME_MAX`), without it.
pub(crate) const HELPER_NAME: usize = 12;
/// Bytes of labels at most (`NTA_LABELS_MAX_SIZE`).
const LABELS: usize = 1024;

/// Window scales by direction.
pub type Scales = [u8; 2];

/// State of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Number of the state (`enum tcp_conntrack`).
    pub state: u8,
    /// Window scales, if the sender tells them (`TCPWindowTracking`).
    pub scales: Option<Scales>,
}

/// What a message says of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionState {
    /// The original tuple, in its zone.
    pub original: Tuple,
    /// Bits of [`penstock_conntrack::status`].
    pub status: Option<u32>,
    /// What is left of its life, in seconds.
    pub timeout: Option<u32>,
    /// `ct mark`.
    pub mark: Option<u32>,
    /// The original tuple of the connection that expected it.
    pub master: Option<Tuple>,
    /// Address that the source is translated to, as in tuples.
    pub source_address: Option<[u8; 16]>,
    /// Address that the destination is translated to, as in tuples.
    pub destination_address: Option<[u8; 16]>,
    /// Port that the source is translated to.
    pub source_port: Option<u16>,
    /// Port that the destination is translated to.
    pub destination_port: Option<u16>,
    /// Shifts of sequence numbers by direction.
    pub shifts: Option<[SeqAdjust; 2]>,
    /// TCP.
    pub tcp: Option<Tcp>,
    /// SCTP: number of the state, and verification tags by direction.
    pub sctp: Option<(u8, [u32; 2])>,
    /// DCCP: number of the state, and whether the original direction is the server's.
    pub dccp: Option<(u8, u8)>,
    /// Name of its helper.
    pub helper: Option<Box<str>>,
    /// `ct label`, bit n in word n / 32; empty for none.
    pub labels: Box<[u32]>,
    /// Numbers of a SYN proxy: initial sequence number, timestamp, and its shift.
    pub synproxy: Option<[u32; 3]>,
}

/// Whether connections of a protocol have ports in messages.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP)
}

fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, protocol::ICMP | protocol::ICMPV6)
}

impl ConnectionState {
    /// Whether messages can say which connection it is: there is no place for the ports of
    /// protocols that conntrackd does not know (UDP-Lite, keys of GRE).
    pub fn is_nameable(&self) -> bool {
        let Tuple { src_id, dst_id, protocol, .. } = self.original;
        has_ports(protocol) || is_icmp(protocol) || (src_id == 0 && dst_id == 0)
    }

    /// Takes what another message says of it; what that leaves out stays.
    pub fn merge(&mut self, new: ConnectionState) {
        fn newer<T>(old: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *old = new;
            }
        }
        newer(&mut self.status, new.status);
        newer(&mut self.timeout, new.timeout);
        newer(&mut self.mark, new.mark);
        newer(&mut self.master, new.master);
        newer(&mut self.source_address, new.source_address);
        newer(&mut self.destination_address, new.destination_address);
        newer(&mut self.source_port, new.source_port);
        newer(&mut self.destination_port, new.destination_port);
        newer(&mut self.shifts, new.shifts);
        newer(&mut self.tcp, new.tcp);
        newer(&mut self.sctp, new.sctp);
        newer(&mut self.dccp, new.dccp);
        newer(&mut self.helper, new.helper);
        newer(&mut self.synproxy, new.synproxy);
        if !new.labels.is_empty() {
            self.labels = new.labels;
        }
    }

    /// Reads the attributes of a message.
    ///
    /// # Errors
    /// [`Malformed::Payload`]: an attribute is none, has another length, or is not known; or they
    /// do not say which connection it is.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut out = ConnectionState::default();
        let (mut master, mut ports, mut icmp) = (Tuple::ZERO, false, [None; 2]);
        let mut tcp = (None, None, None);
        let (mut sctp, mut dccp) = ((None, [0; 2]), (None, 0));
        let original = &mut out.original;
        each(body, |kind, contents| {
            match kind {
                kind::IPV4 => read_addresses(original, IPV4, contents)?,
                kind::IPV6 => read_addresses(original, IPV6, contents)?,
                kind::L4PROTO => original.protocol = u8(contents)?,
                kind::PORT => {
                    read_ports(original, contents)?;
                    ports = true;
                }
                kind::ZONE => original.zone = be16(contents)?,
                kind::TCP_STATE => tcp.0 = Some(u8(contents)?),
                kind::TCP_WSCALE_ORIG => tcp.1 = Some(u8(contents)?),
                kind::TCP_WSCALE_REPL => tcp.2 = Some(u8(contents)?),
                kind::STATUS => out.status = Some(be32(contents)?),
                kind::TIMEOUT => out.timeout = Some(be32(contents)?),
                kind::MARK => out.mark = Some(be32(contents)?),
                kind::MASTER_IPV4 => read_addresses(&mut master, IPV4, contents)?,
                kind::MASTER_IPV6 => read_addresses(&mut master, IPV6, contents)?,
                kind::MASTER_L4PROTO => master.protocol = u8(contents)?,
                kind::MASTER_PORT => read_ports(&mut master, contents)?,
                kind::SNAT_IPV4 => out.source_address = Some(address4(contents)?),
                kind::DNAT_IPV4 => out.destination_address = Some(address4(contents)?),
                kind::SNAT_IPV6 => out.source_address = Some(fixed(contents)?),
                kind::DNAT_IPV6 => out.destination_address = Some(fixed(contents)?),
                kind::SPAT_PORT => out.source_port = Some(be16(contents)?.swap_bytes()),
                kind::DPAT_PORT => out.destination_port = Some(be16(contents)?.swap_bytes()),
                kind::NAT_SEQ_ADJ => out.shifts = Some(read_shifts(contents)?),
                kind::SCTP_STATE => sctp.0 = Some(u8(contents)?),
                kind::SCTP_VTAG_ORIG => sctp.1[0] = be32(contents)?,
                kind::SCTP_VTAG_REPL => sctp.1[1] = be32(contents)?,
                kind::DCCP_STATE => dccp.0 = Some(u8(contents)?),
                kind::DCCP_ROLE => dccp.1 = u8(contents)?,
                kind::ICMP_TYPE => icmp[0] = Some(u8(contents)?),
                kind::ICMP_CODE => icmp[1] = Some(u8(contents)?),
                kind::ICMP_ID => original.src_id = be16(contents)?.swap_bytes(),
                kind::HELPER_NAME => out.helper = Some(text(contents, HELPER_NAME)?),
                kind::LABELS => out.labels = read_labels(contents)?,
                kind::SYNPROXY => out.synproxy = Some(be32s(contents)?),
                _ => return Err(Malformed::Payload),
            }
            Ok(())
        })?;
        if let [Some(kind), code] = icmp {
            original.dst_id = u16::from_be_bytes([kind, code.unwrap_or_default()]);
        }
        out.tcp = tcp.0.map(|state| Tcp { state, scales: tcp.1.zip(tcp.2).map(<[u8; 2]>::from) });
        out.sctp = sctp.0.map(|state| (state, sctp.1));
        out.dccp = dccp.0.map(|state| (state, dccp.1));
        let Tuple { l3, protocol, zone, .. } = out.original;
        out.master = (master.l3 != 0).then_some(Tuple { zone, ..master });
        let named = match protocol {
            protocol if has_ports(protocol) => ports,
            protocol if is_icmp(protocol) => icmp[0].is_some(),
            protocol::UDPLITE => ports,
            _ => true,
        };
        if l3 == 0 || !named { Err(Malformed::Payload) } else { Ok(out) }
    }

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let Tuple { src_id, dst_id, protocol, zone, .. } = self.original;
        put_addresses(to, [kind::IPV4, kind::IPV6], &self.original);
        let put32 = |to: &mut Vec<u8>, kind, number: u32| put(to, kind, &number.to_be_bytes());
        self.status.into_iter().for_each(|status| put32(to, kind::STATUS, status));
        put(to, kind::L4PROTO, &[protocol]);
        if has_ports(protocol) {
            put_ports(to, kind::PORT, &self.original);
        } else if is_icmp(protocol) {
            let [kind, code] = dst_id.to_be_bytes();
            put(to, kind::ICMP_TYPE, &[kind]);
            put(to, kind::ICMP_CODE, &[code]);
            put(to, kind::ICMP_ID, &src_id.to_le_bytes());
        }
        if let Some(Tcp { state, scales }) = self.tcp {
            put(to, kind::TCP_STATE, &[state]);
            if let Some([original, reply]) = scales {
                put(to, kind::TCP_WSCALE_ORIG, &[original]);
                put(to, kind::TCP_WSCALE_REPL, &[reply]);
            }
        }
        if let Some((state, tags)) = self.sctp {
            put(to, kind::SCTP_STATE, &[state]);
            put32(to, kind::SCTP_VTAG_ORIG, tags[0]);
            put32(to, kind::SCTP_VTAG_REPL, tags[1]);
        }
        if let Some((state, role)) = self.dccp {
            put(to, kind::DCCP_STATE, &[state]);
            put(to, kind::DCCP_ROLE, &[role]);
        }
        self.timeout.into_iter().for_each(|timeout| put32(to, kind::TIMEOUT, timeout));
        self.mark.into_iter().for_each(|mark| put32(to, kind::MARK, mark));
        if let Some(master) = &self.master {
            put_addresses(to, [kind::MASTER_IPV4, kind::MASTER_IPV6], master);
            put(to, kind::MASTER_L4PROTO, &[master.protocol]);
            put_ports(to, kind::MASTER_PORT, master);
        }
        let (len, address_kinds) = match self.original.l3 {
            IPV6 => (16, [kind::SNAT_IPV6, kind::DNAT_IPV6]),
            _ => (4, [kind::SNAT_IPV4, kind::DNAT_IPV4]),
        };
        for (kind, address) in
            address_kinds.into_iter().zip([&self.source_address, &self.destination_address])
        {
            address.iter().for_each(|address| put(to, kind, &address[..len]));
        }
        for (kind, port) in
            [(kind::SPAT_PORT, self.source_port), (kind::DPAT_PORT, self.destination_port)]
        {
            port.into_iter().for_each(|port| put(to, kind, &port.to_le_bytes()));
        }
        if let Some(shifts) = &self.shifts {
            let words = shifts.map(|s| [s.position, s.before as u32, s.after as u32]);
            put(to, kind::NAT_SEQ_ADJ, words.as_flattened().map_be().as_slice());
        }
        self.helper.iter().for_each(|helper| put_text(to, kind::HELPER_NAME, helper));
        if !self.labels.is_empty() {
            put(to, kind::LABELS, self.labels.map_be().as_slice());
        }
        self.synproxy.iter().for_each(|words| put(to, kind::SYNPROXY, &words.map_be()));
        if zone != 0 {
            put(to, kind::ZONE, &zone.to_be_bytes());
        }
    }
}

/// Numbers as bytes.
trait MapBe {
    fn map_be(&self) -> Vec<u8>;
}

impl MapBe for [u32] {
    fn map_be(&self) -> Vec<u8> {
        self.iter().flat_map(|word| word.to_be_bytes()).collect()
    }
}

fn address4(contents: &[u8]) -> Result<[u8; 16], Malformed> {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&fixed::<4>(contents)?);
    Ok(out)
}

fn read_shifts(contents: &[u8]) -> Result<[SeqAdjust; 2], Malformed> {
    let [p0, b0, a0, p1, b1, a1] = be32s(contents)?;
    let shift = |position, before, after| SeqAdjust {
        position,
        before: before as i32,
        after: after as i32,
    };
    Ok([shift(p0, b0, a0), shift(p1, b1, a1)])
}

fn read_labels(contents: &[u8]) -> Result<Box<[u32]>, Malformed> {
    let (words, []) = contents.as_chunks::<4>() else { return Err(Malformed::Payload) };
    match contents.len() <= LABELS {
        true => Ok(words.iter().map(|word| u32::from_be_bytes(*word)).collect()),
        false => Err(Malformed::Payload),
    }
}

/// A message about a connection.
pub fn write_connection(change: Change, state: &ConnectionState) -> Encoded {
    let mut bytes = begin(Kind::Connection(change));
    state.write(&mut bytes);
    Encoded { key: Key::Connection(state.original), bytes: finish(bytes) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::split;
    use fastrand::Rng;
    use penstock_conntrack::tuple::address;

    pub(crate) fn tuple(rng: &mut Rng) -> Tuple {
        let l3 = rng.choice([IPV4, IPV6]).unwrap();
        let len = if l3 == IPV4 { 4 } else { 16 };
        let mut address = || {
            let mut out = [0; 16];
            out[..len].iter_mut().for_each(|byte| *byte = rng.u8(..));
            out
        };
        let (src, dst) = (address(), address());
        let protocols = [
            protocol::TCP,
            protocol::UDP,
            protocol::SCTP,
            protocol::DCCP,
            protocol::ICMP,
            protocol::ICMPV6,
            protocol::GRE,
        ];
        let protocol = rng.choice(protocols).unwrap();
        let id = |rng: &mut Rng| if protocol == protocol::GRE { 0 } else { rng.u16(..) };
        let (src_id, dst_id) = (id(rng), id(rng));
        Tuple { src, dst, src_id, dst_id, zone: rng.u16(..3), l3, protocol }
    }

    fn state(rng: &mut Rng) -> ConnectionState {
        fn some<T>(rng: &mut Rng, value: T) -> Option<T> {
            rng.bool().then_some(value)
        }
        let original = tuple(rng);
        let other = |rng: &mut Rng| {
            let mut out = original;
            out.src.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            if original.l3 == IPV4 {
                out.src[4..].fill(0);
            }
            some(rng, out.src)
        };
        let shift = |rng: &mut Rng| SeqAdjust {
            position: rng.u32(..),
            before: rng.i32(..),
            after: rng.i32(..),
        };
        let shifts = [shift(rng), shift(rng)];
        let master = Tuple { zone: original.zone, protocol: protocol::TCP, ..tuple(rng) };
        ConnectionState {
            original,
            status: {
                let v = rng.u32(..);
                some(rng, v)
            },
            timeout: {
                let v = rng.u32(..);
                some(rng, v)
            },
            mark: {
                let v = rng.u32(..);
                some(rng, v)
            },
            master: some(rng, master),
            source_address: other(rng),
            destination_address: other(rng),
            source_port: {
                let v = rng.u16(..);
                some(rng, v)
            },
            destination_port: {
                let v = rng.u16(..);
                some(rng, v)
            },
            shifts: some(rng, shifts),
            tcp: {
                let scale = rng.u8(..);
                let scales = some(rng, [scale, 3]);
                let v = Tcp { state: rng.u8(..), scales };
                some(rng, v)
            },
            sctp: {
                let v = (rng.u8(..), [rng.u32(..), rng.u32(..)]);
                some(rng, v)
            },
            dccp: {
                let v = (rng.u8(..), rng.u8(..));
                some(rng, v)
            },
            helper: some(rng, "ftp".into()),
            labels: (0..rng.usize(..5)).map(|_| rng.u32(..)).collect(),
            synproxy: {
                let v = [rng.u32(..), 0, 1];
                some(rng, v)
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut rng = Rng::with_seed(7);
        for _ in 0..2000 {
            let state = state(&mut rng);
            let message = write_connection(Change::Update, &state);
            let read: Vec<_> = split(&message.bytes).collect();
            let [Ok(read)] = read.as_slice() else { panic!("{read:?}") };
            assert_eq!(read.kind, Kind::Connection(Change::Update));
            assert_eq!(ConnectionState::read(read.body), Ok(state));
            for cut in 0..read.body.len() {
                let _ = ConnectionState::read(&read.body[..cut]);
            }
        }
    }

    /// Captured from conntrackd 1.4.8 on a little-endian machine.
    #[test]
    fn the_bytes_are_those_of_conntrackd() {
        let address = |text: &str| address(text.parse().unwrap());
        let state = ConnectionState {
            original: Tuple {
                src: address("198.18.0.2"),
                dst: address("198.18.1.2"),
                src_id: 1000,
                dst_id: 80,
                l3: IPV4,
                protocol: protocol::TCP,
                zone: 0,
            },
            status: Some(0x198),
            tcp: Some(Tcp { state: 3, scales: Some([0, 0]) }),
            timeout: Some(300),
            mark: Some(7),
            source_address: Some(address("198.18.5.5")),
            source_port: Some(4444),
            synproxy: Some([0; 3]),
            ..ConnectionState::default()
        };
        let expected = "1000007400000000\
            000c0000c6120002c6120102 0008000500000198 0005000206000000 0008000303e80050\
            0005000403000000 0005001900000000 0005001a00000000 000800060000012c\
            0008000700000007 0008000cc6120505 0006000e5c110000\
            0010001f000000000000000000000000";
        let hex: String = write_connection(Change::New, &state)
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }

    #[test]
    fn protocols_whose_ports_have_no_place_are_known() {
        for (protocol, src_id, expected) in
            [(protocol::GRE, 0, true), (protocol::GRE, 1, false), (protocol::UDPLITE, 1, false)]
        {
            let original = Tuple { protocol, src_id, l3: IPV4, ..Tuple::ZERO };
            let state = ConnectionState { original, ..ConnectionState::default() };
            assert_eq!(state.is_nameable(), expected, "{protocol} {src_id}");
        }
    }
}
