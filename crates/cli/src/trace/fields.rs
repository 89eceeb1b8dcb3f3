// SPDX-License-Identifier: Apache-2.0

//! What a match says about a packet: the program of a rule, read as the packet that it is true of.

use penstock_lang::names::Names;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_packet::Packet;
use penstock_program::expr::{Bitwise, BitwiseOp, Cmp, CmpOp, Expr, MetaKey, Payload, PayloadBase};
use penstock_ruleset::Ruleset;
use penstock_wire::{ethernet, ipv6};

/// Bytes of a header that are known, some of them bit by bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(Vec<(usize, u8, u8)>);

impl Known {
    fn set(&mut self, offset: usize, value: &[u8], mask: Option<&[u8]>) {
        for (i, byte) in value.iter().enumerate() {
            let mask = mask.map_or(0xff, |m| m.get(i).copied().unwrap_or(0));
            self.0.push((offset + i, byte & mask, mask));
        }
    }

    /// Bytes from the start of the header to the last that is known.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(at, ..)| at + 1).max().unwrap_or(0)
    }

    /// Whether something is known of the byte.
    pub fn has(&self, at: usize) -> bool {
        self.0.iter().any(|(known, ..)| *known == at)
    }

    /// Puts what is known over a header, which is long enough.
    pub fn put(&self, header: &mut [u8]) {
        for (at, value, mask) in &self.0 {
            if let Some(byte) = header.get_mut(*at) {
                *byte = *byte & !mask | value;
            }
        }
    }

    /// Whether a header has what is known.
    pub fn is_of(&self, header: &[u8]) -> bool {
        self.0.iter().all(|(at, value, mask)| header.get(*at).is_some_and(|b| b & mask == *value))
    }

    /// A number of two bytes in network order, if both are known whole.
    pub fn u16(&self, at: usize) -> Option<u16> {
        let byte = |at| self.0.iter().rev().find(|(known, _, mask)| *known == at && *mask == 0xff);
        Some(u16::from_be_bytes([byte(at)?.1, byte(at + 1)?.1]))
    }
}

/// What is known about a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Known bytes of the link header, tags included.
    pub link: Known,
    /// Known bytes of the network header.
    pub network: Known,
    /// Known bytes of the transport header.
    pub transport: Known,
    /// Known bytes of the transport payload.
    pub inner: Known,
    /// `meta protocol`: the ethertype.
    pub ethertype: Option<u16>,
    /// `meta l4proto`.
    pub protocol: Option<u8>,
    /// `meta length`: bytes from the network header on.
    pub length: Option<usize>,
}

/// Bytes of the longest packet from its network header on: IPv6 does not count that header itself.
const LONGEST: usize = 65_535 + 40;

/// Where a register has its bytes from.
#[derive(Clone)]
struct Loaded {
    from: From,
    mask: Option<Vec<u8>>,
}

#[derive(Clone)]
enum From {
    Payload(Payload),
    Meta(MetaKey),
}

impl Fields {
    /// Reads a match as a rule has it.
    ///
    /// # Errors
    /// What nft says about it, or why it does not describe one packet.
    pub fn parse(text: &str, names: &dyn Names) -> Result<Fields, String> {
        let mut ruleset = Ruleset::default();
        let mut run = |text: String| {
            let outcome = Session::new(Options::default(), &NoFiles, names).run(
                Origin::CommandLine,
                text,
                &mut ruleset,
                0,
            );
            if outcome.ok { Ok(()) } else { Err(outcome.stderr) }
        };
        run("add table netdev packet; add chain netdev packet frame".to_owned())?;
        run(format!("add rule netdev packet frame {text}"))?;
        let generation = ruleset.generation();
        let rules = generation.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
        let mut reader = Reader::default();
        for expr in rules.flat_map(|r| &r.exprs) {
            reader.expr(expr)?;
        }
        Ok(reader.fields)
    }
}

impl Fields {
    /// Whether a frame has these fields. Its network header begins at a byte.
    pub fn are_of(&self, frame: &[u8], network: usize) -> bool {
        let (link, rest) = frame.split_at(network.min(frame.len()));
        let ethertype = match (link.last_chunk(), rest.first()) {
            (Some(bytes), _) => u16::from_be_bytes(*bytes),
            (None, Some(first)) if first >> 4 == 6 => ethernet::IPV6,
            (None, _) => ethernet::IPV4,
        };
        let mut packet = Packet::new();
        packet.load_network(rest);
        packet.meta.protocol = ethertype;
        packet.find_transport_checked();
        let transport = packet.transport().filter(|t| t.fragment_offset == 0);
        let after = |offset: usize| rest.get(offset..).unwrap_or_default();
        let length = match (ethertype, rest) {
            (ethernet::IPV4, &[_, _, a, b, ..]) => u16::from_be_bytes([a, b]).into(),
            (ethernet::IPV6, &[_, _, _, _, a, b, ..]) => {
                usize::from(u16::from_be_bytes([a, b])) + ipv6::LEN
            }
            _ => rest.len(),
        };
        self.link.is_of(link)
            && self.network.is_of(rest)
            && self.transport.is_of(transport.map_or(&[], |t| after(t.offset.into())))
            && self.inner.is_of(packet.inner_offset().map_or(&[], after))
            && self.ethertype.is_none_or(|own| own == ethertype)
            && self.protocol.is_none_or(|own| packet.transport().is_some_and(|t| t.protocol == own))
            && self.length.is_none_or(|own| own == length)
    }
}

#[derive(Default)]
struct Reader {
    fields: Fields,
    registers: Vec<(u8, Loaded)>,
}

impl Reader {
    fn expr(&mut self, expr: &Expr) -> Result<(), String> {
        match expr {
            Expr::Payload(load) => {
                self.load(load.dreg.0, Loaded { from: From::Payload(load.clone()), mask: None });
            }
            Expr::Meta(load) => {
                self.load(load.dreg.0, Loaded { from: From::Meta(load.key), mask: None });
            }
            Expr::Bitwise(Bitwise { sreg, dreg, op: BitwiseOp::MaskXor { mask, xor }, .. })
                if xor.bytes().iter().all(|b| *b == 0) =>
            {
                let mut loaded = self.loaded(sreg.0)?;
                loaded.mask = Some(mask.bytes().to_vec());
                self.load(dreg.0, loaded);
            }
            Expr::Cmp(Cmp { op: CmpOp::Eq, sreg, data }) => {
                let loaded = self.loaded(sreg.0)?;
                return self.is(&loaded, data.bytes());
            }
            // `tcp flags syn,ack`: some of these bits. Then all of them.
            Expr::Cmp(Cmp { op: CmpOp::Neq, sreg, data })
                if data.bytes().iter().all(|b| *b == 0) =>
            {
                let loaded = self.loaded(sreg.0)?;
                if let Some(mask) = loaded.mask.clone() {
                    return self.is(&loaded, &mask);
                }
                return Err(several());
            }
            Expr::Cmp(_) | Expr::Range(_) | Expr::Lookup(_) => return Err(several()),
            other => {
                return Err(format!(
                    "Error: `{}` says nothing about the bytes of a packet",
                    other.name()
                ));
            }
        }
        Ok(())
    }

    fn load(&mut self, register: u8, loaded: Loaded) {
        self.registers.retain(|(r, _)| *r != register);
        self.registers.push((register, loaded));
    }

    fn loaded(&self, register: u8) -> Result<Loaded, String> {
        let found = self.registers.iter().find(|(r, _)| *r == register);
        found.map(|(_, loaded)| loaded.clone()).ok_or_else(several)
    }

    /// What was loaded has this value.
    fn is(&mut self, loaded: &Loaded, value: &[u8]) -> Result<(), String> {
        let mask = loaded.mask.as_deref();
        match &loaded.from {
            From::Payload(load) => {
                let header = match load.base {
                    PayloadBase::Link => &mut self.fields.link,
                    PayloadBase::Network => &mut self.fields.network,
                    PayloadBase::Transport => &mut self.fields.transport,
                    PayloadBase::Inner => &mut self.fields.inner,
                    PayloadBase::Tunnel => {
                        return Err("Error: headers inside of a tunnel cannot be given".into());
                    }
                };
                header.set(load.offset as usize, value, mask);
            }
            From::Meta(key) => self.meta(*key, value)?,
        }
        Ok(())
    }

    fn meta(&mut self, key: MetaKey, value: &[u8]) -> Result<(), String> {
        match (key, value) {
            (MetaKey::Protocol, &[a, b]) => {
                self.fields.ethertype = Some(u16::from_be_bytes([a, b]))
            }
            (MetaKey::NfProto, [2]) => self.fields.ethertype = Some(ethernet::IPV4),
            (MetaKey::NfProto, [10]) => self.fields.ethertype = Some(ethernet::IPV6),
            (MetaKey::L4Proto, &[protocol]) => self.fields.protocol = Some(protocol),
            (MetaKey::Len, &[a, b, c, d]) => {
                let length = u32::from_ne_bytes([a, b, c, d]) as usize;
                if length > LONGEST {
                    return Err(format!(
                        "Error: no packet has {length} bytes, but at most {LONGEST}"
                    ));
                }
                self.fields.length = Some(length);
            }
            // Ethernet: what matches of link addresses depend on.
            (MetaKey::IifType, [1, 0]) => {}
            _ => {
                return Err(format!(
                    "Error: `meta {key}` says nothing about the bytes of a packet"
                ));
            }
        }
        Ok(())
    }
}

fn several() -> String {
    "Error: a packet has one value in each field: no sets, ranges, `!=` and the like".to_owned()
}
