// SPDX-License-Identifier: Apache-2.0

//! ESP on a packet's bytes, in place (RFC 4303; `net/ipv4/esp4.c`, `net/ipv6/esp6.c`).

use penstock_wire::{ipv4, ipv6, ipv6_ext, protocol};

use crate::crypto::{ESP, Seq};
use crate::state::{Sizes, State, UDP, Wrong};
use crate::tunnel::{self, Inner, Outer};
use crate::{Mode, Stat, udp};

/// Room that a transformation needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Before the packet.
    pub head: usize,
    /// After it.
    pub tail: usize,
    /// Bytes of IP headers that stay in front in transport mode, and where among them the type of
    /// what follows is.
    kept: (usize, usize),
}

/// A packet that came out of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Bytes at the beginning that are to go: the packet starts after them.
    pub skip: usize,
    /// Bytes of the packet from there on; what follows is to go.
    pub len: usize,
    /// What ESP held: 4 or 41 in tunnel mode, else the protocol that now follows the IP headers.
    pub protocol: u8,
    seq: Seq,
    /// Bytes of that.
    held: usize,
}

/// Length of the IP headers before ESP in transport mode, and where among them the type of what
/// follows is.
fn kept(packet: &[u8]) -> Option<(usize, usize)> {
    if packet.first()? >> 4 == 6 {
        return ipv6_ext::unfragmentable_end(packet);
    }
    let len = ipv4::Header::new(packet)?.header_len();
    (len >= ipv4::LEN && len <= packet.len()).then_some((len, 9))
}

impl State {
    /// What is needed for a packet; `None` if it cannot go through this state.
    #[inline]
    pub(crate) fn room(&self, packet: &[u8]) -> Option<Room> {
        let kept = match self.config.mode {
            Mode::Tunnel => (0, 0),
            Mode::Transport => kept(packet)?,
        };
        let tail = self.trailer_len(packet.len() - kept.0);
        Some(Room { head: self.header_len(), tail, kept })
    }

    /// Carries it out: `network` is the packet with the room before and after it.
    #[inline]
    pub(crate) fn seal(
        &mut self,
        network: &mut [u8],
        room: Room,
        outer: Outer,
        now: u64,
    ) -> Result<(), Stat> {
        let Room { head, tail, kept: (kept, next_at) } = room;
        let all = network.len();
        let packet_len = all.checked_sub(head + tail).ok_or(Stat::OutStateMode)?;
        let limit = if self.v6() { 0xffff + ipv6::LEN } else { 0xffff };
        if all > limit {
            return Err(Stat::OutStateMode);
        }
        let payload = packet_len.checked_sub(kept).ok_or(Stat::OutStateMode)?;
        let seq = self.depart(payload, now)?;
        let carrier =
            if self.config.encapsulation.is_some() { protocol::UDP } else { protocol::ESP };
        let (ip_len, held) = match self.config.mode {
            Mode::Tunnel => {
                let inner =
                    Inner::of(network.get(head..).unwrap_or_default()).ok_or(Stat::OutStateMode)?;
                let len = tunnel::write(&self.config, &inner, outer, carrier, network)
                    .ok_or(Stat::OutStateMode)?;
                (len, inner.protocol)
            }
            Mode::Transport => {
                network.copy_within(head..head + kept, 0);
                let next = network.get_mut(next_at).ok_or(Stat::OutStateMode)?;
                (kept, std::mem::replace(next, carrier))
            }
        };
        let mut esp_at = ip_len;
        if let Some(encapsulation) = self.config.encapsulation {
            let mut udp = [0; UDP];
            udp[..2].copy_from_slice(&encapsulation.sport.to_be_bytes());
            udp[2..4].copy_from_slice(&encapsulation.dport.to_be_bytes());
            udp[4..6].copy_from_slice(&((all - ip_len) as u16).to_be_bytes());
            network.get_mut(esp_at..esp_at + UDP).ok_or(Stat::OutStateMode)?.copy_from_slice(&udp);
            esp_at += UDP;
        }
        let icv = self.sizes.icv;
        let numbers = u64::from(self.config.spi) << 32 | seq.number & u64::from(u32::MAX);
        let esp = network.get_mut(esp_at..).unwrap_or_default();
        let header = esp.first_chunk_mut::<ESP>().ok_or(Stat::OutStateProto)?;
        *header = numbers.to_be_bytes();
        let end = esp.len() - icv;
        let padding = tail - icv - 2;
        let trailer = esp.get_mut(end - 2 - padding..end).ok_or(Stat::OutStateProto)?;
        if let Some((last, pad)) =
            trailer.split_last_chunk_mut::<2>().map(|(pad, last)| (last, pad))
        {
            for (n, byte) in (1..).zip(pad) {
                *byte = n;
            }
            *last = [padding as u8, held];
        }
        self.key.seal(seq, esp).map_err(|_| Stat::OutStateProto)?;
        if self.config.mode == Mode::Transport {
            tunnel::finish(network).ok_or(Stat::OutStateMode)?;
        }
        if self.config.encapsulation.is_some() && self.v6() {
            udp::fill_checksum(network, ip_len).ok_or(Stat::OutStateMode)?;
        }
        Ok(())
    }

    /// Where what ESP holds begins, if its header is at `esp_at`.
    #[inline]
    pub(crate) fn text_at(&self, esp_at: usize) -> usize {
        esp_at + self.sizes.front
    }

    /// The packet that came out has come: its number does not come again.
    #[inline]
    pub(crate) fn take(&mut self, opened: &Opened) {
        self.accept(opened.seq, opened.held);
    }

    /// The other way: ESP is at `at` from the beginning of the IP header; `kept` bytes of IP
    /// headers come before, with the type of what follows at `next_at`. Nothing is counted yet.
    #[inline]
    pub(crate) fn open(
        &mut self,
        network: &mut [u8],
        at: usize,
        (kept, next_at): (usize, usize),
        now: u64,
    ) -> Result<Opened, Wrong> {
        let class = tunnel::class_of(network);
        let esp = network.get_mut(at..).ok_or(Stat::InHeader)?;
        let header = esp.first_chunk::<ESP>().ok_or(Stat::InHeader)?;
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let seq = self.arrive(number, now)?;
        let Sizes { front, icv, .. } = self.sizes;
        let text_len =
            esp.len().checked_sub(front + icv).filter(|len| *len > 0).ok_or(Stat::InStateProto)?;
        if self.key.open(seq, esp).is_err() {
            return Err(Wrong::Integrity);
        }
        let text = esp.get(front..front + text_len).ok_or(Stat::InStateProto)?;
        let &[padding, held] = text.last_chunk().ok_or(Stat::InStateProto)?;
        let payload = text_len.checked_sub(usize::from(padding) + 2).filter(|len| *len > 0);
        let payload = payload.ok_or(Stat::InStateProto)?;
        // Packets that only hide how much there is to say.
        if held == protocol::NO_NEXT {
            return Err(Stat::InStateProto.into());
        }
        let start = at + front;
        match self.config.mode {
            Mode::Tunnel => {
                let inner = network.get_mut(start..start + payload).ok_or(Stat::InStateMode)?;
                tunnel::leave(&self.config, held, class, inner).ok_or(Stat::InStateMode)?;
                Ok(Opened { skip: start, len: payload, protocol: held, seq, held: payload })
            }
            Mode::Transport => {
                let skip = start.checked_sub(kept).ok_or(Stat::InStateMode)?;
                network.copy_within(..kept, skip);
                *network.get_mut(skip + next_at).ok_or(Stat::InStateMode)? = held;
                let len = kept + payload;
                let packet = network.get_mut(skip..skip + len).ok_or(Stat::InStateMode)?;
                tunnel::finish(packet).ok_or(Stat::InStateMode)?;
                Ok(Opened { skip, len, protocol: held, seq, held: payload })
            }
        }
    }
}
