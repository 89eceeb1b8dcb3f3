// SPDX-License-Identifier: Apache-2.0

//! How packets were fragmented that were reassembled before routing.

use penstock_packet::Packet;

/// How a packet was cut that was put together before routing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reassembled {
    /// Size of its largest fragment (`frag_max_size`), 0 if that is forgotten.
    pub(crate) max_size: usize,
    /// Its fragments carry DF (`IPSKB_FRAG_PMTU`).
    pub(crate) df: bool,
    /// Bytes of the whole packet.
    pub(crate) len: usize,
    /// Its parts among those of the table: first and end.
    pub(crate) parts: (usize, usize),
}

/// What is known about the packets of a burst that were put together before routing, by
/// [`penstock_packet::Meta::reassembled`].
#[derive(Debug, Default)]
pub(crate) struct ReassembledTable {
    packets: Vec<Reassembled>,
    parts: Vec<usize>,
}

impl ReassembledTable {
    /// Notes a packet, and gives its number.
    pub(crate) fn add(
        &mut self,
        max_size: usize,
        df: bool,
        len: usize,
        parts: impl Iterator<Item = usize>,
    ) -> u32 {
        let first = self.parts.len();
        self.parts.extend(parts);
        self.packets.push(Reassembled { max_size, df, len, parts: (first, self.parts.len()) });
        self.packets.len() as u32
    }

    pub(crate) fn get(&self, packet: &Packet) -> Option<Reassembled> {
        let number = packet.meta.reassembled.checked_sub(1)?;
        self.packets.get(number as usize).copied()
    }

    /// Whether the packet leaves in fragments although it need not.
    #[inline]
    pub(crate) fn limits(&self, packet: &Packet) -> bool {
        packet.meta.reassembled != 0 && self.get(packet).is_none_or(|r| r.max_size != 0)
    }

    /// Forgets how long a packet's fragments were: it leaves whole where it can (`ip_rcv_core()`,
    /// `ip6_rcv_core()`).
    pub(crate) fn forget_size(&mut self, packet: &Packet) {
        let number = packet.meta.reassembled.checked_sub(1);
        if let Some(known) = number.and_then(|n| self.packets.get_mut(n as usize)) {
            (known.max_size, known.df) = (0, false);
        }
    }

    /// Packets that are known.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Forgets all.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.parts.clear();
    }
}

impl Reassembled {
    /// How long fragments may be, if that is known.
    pub(crate) fn limit(&self) -> Option<usize> {
        (self.max_size != 0).then_some(self.max_size)
    }

    /// The sizes in which a packet came, if all of it is still as it came and they fit into `room`:
    /// they are those in which it leaves. So many bytes are its `head`, which every fragment has.
    /// Where fragments had a shorter one, since destination options were among what was cut, the
    /// kernel cuts again (observed on Linux 6.18 over veth, which has no room for more in its
    /// buffers).
    pub(crate) fn sizes<'t>(
        &self,
        table: &'t ReassembledTable,
        packet: &Packet,
        head: usize,
        room: usize,
    ) -> Option<&'t [usize]> {
        let parts = table.parts.get(self.parts.0..self.parts.1)?;
        let len = packet.network().len();
        let whole = len == self.len && head + parts.iter().sum::<usize>() == len;
        (parts.len() > 1 && whole && parts.iter().all(|len| *len <= room)).then_some(parts)
    }
}
