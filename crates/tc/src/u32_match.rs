// SPDX-License-Identifier: Apache-2.0

//! The `u32` classifier: words of the packet under masks (`net/sched/cls_u32.c`), without hash
//! tables of its own.

use penstock_packet::Packet;

/// One word that has to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Value, host order.
    pub(crate) value: u32,
    /// Mask, host order.
    pub(crate) mask: u32,
    /// Offset from the network header; negative into the link header.
    pub(crate) at: i32,
}

/// All keys and the mark have to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct U32Match {
    pub(crate) keys: Vec<Key>,
    /// Value and mask.
    pub(crate) mark: Option<(u32, u32)>,
}

/// Four bytes at an offset from the network header, in host order; none if they are not all there.
fn word(packet: &Packet, at: i64) -> Option<u32> {
    let link = packet.link();
    let mut bytes = [0; 4];
    for (i, byte) in bytes.iter_mut().enumerate() {
        let at = at + i as i64;
        *byte = match usize::try_from(at) {
            Ok(at) => *packet.network().get(at)?,
            Err(_) => *link.get(usize::try_from(link.len() as i64 + at).ok()?)?,
        };
    }
    Some(u32::from_be_bytes(bytes))
}

impl U32Match {
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        if self.mark.is_some_and(|(value, mask)| packet.meta.mark & mask != value) {
            return false;
        }
        self.keys.iter().all(|key| {
            word(packet, i64::from(key.at)).is_some_and(|w| (w ^ key.value) & key.mask == 0)
        })
    }
}
