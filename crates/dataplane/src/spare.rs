// SPDX-License-Identifier: Apache-2.0

//! Buffers of packets that are not in use.
//!
//! A buffer grows to the largest packet that was ever in it. To free the memory of a rush of
//! waiting packets, only few buffers are kept here, and very few large ones; the rest is freed.

use penstock_packet::Packet;

/// Buffers that are kept.
const KEPT: usize = 256;
/// Those of them that are larger than a frame of usual length.
const KEPT_LARGE: usize = 16;
/// Bytes of such a frame, with room for headers before it.
const USUAL: usize = 4096;

/// Buffers not in use, the latest one last.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    packets: Vec<Packet>,
    /// How many of them are large.
    large: usize,
}

fn is_large(packet: &Packet) -> bool {
    packet.capacity() > USUAL
}

impl Spare {
    /// A buffer with anything in it, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop()?;
        self.large -= usize::from(is_large(&packet));
        Some(packet)
    }

    /// Keeps a buffer, or frees it.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        let large = is_large(&packet);
        if self.packets.len() < KEPT && (!large || self.large < KEPT_LARGE) {
            self.large += usize::from(large);
            self.packets.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize) -> Packet {
        let mut packet = Packet::new();
        packet.load(&vec![0; len], 0);
        packet
    }

    #[test]
    fn spare_buffers_are_bounded_and_large_ones_more_so() {
        let mut spare = Spare::default();
        (0..10_000).for_each(|n| spare.push(packet(if n % 2 == 0 { 60_000 } else { 1500 })));
        let kept: Vec<Packet> = std::iter::from_fn(|| spare.pop()).collect();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept.iter().filter(|packet| is_large(packet)).count(), KEPT_LARGE);
        assert_eq!(spare.large, 0);
    }
}
