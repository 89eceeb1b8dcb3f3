// SPDX-License-Identifier: Apache-2.0

//! Frames of ports that are shown on the host's TAPs, to programs that listen there. What the host
//! itself sends and gets on a TAP they see anyway, so it is left out here.

use penstock_io::device::MirrorTx;
use penstock_packet::Gso;

/// The ports that are listened to.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    all: Vec<MirrorTx>,
    /// A received frame, until it is known whether the host gets it.
    arrived: Option<(u32, Option<Gso>)>,
    /// Its bytes.
    bytes: Vec<u8>,
    /// Index of the TAP on which the host has sent the frame that is on its way.
    from_host: Option<u32>,
}

impl Mirrors {
    /// One more port.
    pub(super) fn add(&mut self, mirror: MirrorTx) {
        self.all.push(mirror);
    }

    /// The port whose TAP has this index is not listened to any more. Returns what is to be closed.
    pub(super) fn remove(&mut self, index: u32) -> Option<MirrorTx> {
        self.settle();
        let at = self.all.iter().position(|mirror| mirror.index() == index)?;
        Some(self.all.swap_remove(at))
    }

    /// Indexes of the TAPs.
    pub(super) fn devices(&self) -> Vec<u32> {
        self.all.iter().map(MirrorTx::index).collect()
    }

    fn at(&mut self, index: u32) -> Option<&mut MirrorTx> {
        self.all.iter_mut().find(|mirror| mirror.index() == index)
    }

    /// The host has sent the next frames on the TAP with this index; with `None` they have come by
    /// ports again.
    #[inline]
    pub(super) fn set_from_host(&mut self, index: Option<u32>) {
        self.from_host = index;
    }

    /// A frame has arrived.
    pub(super) fn received(&mut self, index: u32, frame: &[u8], gso: Option<Gso>) {
        self.settle();
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        self.arrived = Some((index, gso));
    }

    /// The host gets the frame that has arrived, on the TAP with this index.
    #[inline]
    pub(super) fn given(&mut self, index: u32) {
        if self.arrived.is_some_and(|(at, _)| at == index) {
            self.arrived = None;
        }
    }

    /// A frame leaves.
    pub(super) fn sent(&mut self, index: u32, frame: &[u8], gso: Option<Gso>) {
        self.settle();
        if self.from_host != Some(index)
            && let Some(mirror) = self.at(index)
        {
            mirror.sent(frame, gso);
        }
    }

    /// The host does not get the frame that has arrived.
    fn settle(&mut self) {
        let Some((index, gso)) = self.arrived.take() else { return };
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(mirror) = self.at(index) {
            mirror.received(&bytes, gso);
        }
        self.bytes = bytes;
    }

    /// Shows everything kept: what was received before what has left because of it.
    #[inline]
    pub(super) fn flush(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.settle();
        self.all.iter_mut().for_each(MirrorTx::flush_received);
        self.all.iter_mut().for_each(MirrorTx::flush_sent);
    }
}
