// SPDX-License-Identifier: Apache-2.0

//! A frame that a device has received, before there is a packet.

/// A frame from a device.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Index of the device in the network.
    pub device: u32,
    /// From the destination link address on, without checksum; tags are in it.
    pub bytes: &'a [u8],
    /// Nanoseconds since the epoch: the clock of all that happens to the frame. It should not run
    /// backwards.
    pub time: u64,
}
