// SPDX-License-Identifier: Apache-2.0

//! What happens to packets, for callbacks.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use penstock::{Delivered, Dropped, Logged, Sent, Sink, Traced};

use crate::text_of;

/// A frame that came in by a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct penstock_frame {
    /// Index of the device.
    pub device: u32,
    /// The frame with its Ethernet header; its transport checksum is whole.
    pub bytes: *const u8,
    /// Bytes of the frame.
    pub len: usize,
    /// When it came.
    pub time: u64,
}

/// A frame that leaves, or a packet that is delivered.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct penstock_packet {
    /// Index of the device that it leaves by, or came in by.
    pub device: u32,
    /// A frame with its Ethernet header if it leaves; if it is delivered, the packet from its
    /// network header on.
    pub bytes: *const u8,
    /// How many bytes.
    pub len: usize,
    /// EtherType, for packets that are delivered; else 0.
    pub protocol: u16,
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet.
    pub time: u64,
}

/// The end of a packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct penstock_drop {
    /// Why, in words: `rule`, `policy`, `no route`.
    pub reason: *const c_char,
    /// The rule or policy that did it, as in `inet filter forward handle 12`; or null.
    pub rule: *const c_char,
    /// The packet from its network header on.
    pub bytes: *const u8,
    /// How many bytes.
    pub len: usize,
    /// `meta mark`.
    pub mark: u32,
    /// Time of the packet.
    pub time: u64,
}

/// What takes the things that happen to packets. Functions may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct penstock_sink {
    /// Given to each function.
    pub user: *mut c_void,
    /// A frame leaves by a device.
    pub sent: Option<extern "C" fn(user: *mut c_void, packet: *const penstock_packet)>,
    /// A packet has come to the host itself.
    pub delivered: Option<extern "C" fn(user: *mut c_void, packet: *const penstock_packet)>,
    /// A packet ends.
    pub dropped: Option<extern "C" fn(user: *mut c_void, drop: *const penstock_drop)>,
    /// A `log` statement, with its prefix.
    pub logged: Option<
        extern "C" fn(user: *mut c_void, prefix: *const c_char, packet: *const penstock_packet),
    >,
    /// A line of `nft monitor trace` about a packet that is traced.
    pub traced: Option<extern "C" fn(user: *mut c_void, line: *const c_char)>,
}

/// Calls the functions of a [`penstock_sink`].
pub(crate) struct Calls(pub(crate) penstock_sink);

impl Sink for Calls {
    fn sent(&mut self, frame: &Sent<'_>) {
        let Some(call) = self.0.sent else { return };
        let Sent { device, frame, mark, time, .. } = *frame;
        let (bytes, len, device) = (frame.as_ptr(), frame.len(), device.index());
        call(self.0.user, &penstock_packet { device, bytes, len, protocol: 0, mark, time });
    }

    fn delivered(&mut self, packet: &Delivered<'_>) {
        let Some(call) = self.0.delivered else { return };
        let Delivered { device, protocol, packet, mark, time, .. } = *packet;
        let (bytes, len, device) = (packet.as_ptr(), packet.len(), device.index());
        call(self.0.user, &penstock_packet { device, bytes, len, protocol, mark, time });
    }

    fn dropped(&mut self, packet: &Dropped<'_>) {
        let Some(call) = self.0.dropped else { return };
        let Dropped { reason, rule, packet, mark, time } = *packet;
        let (reason, rule) = (text_of(reason.text()), rule.map(|rule| text_of(&rule.to_string())));
        let drop = penstock_drop {
            reason: reason.as_ptr(),
            rule: rule.as_deref().map_or(ptr::null(), std::ffi::CStr::as_ptr),
            bytes: packet.as_ptr(),
            len: packet.len(),
            mark,
            time,
        };
        call(self.0.user, &drop);
    }

    fn logged(&mut self, record: &Logged<'_>) {
        let Some(call) = self.0.logged else { return };
        let Logged { prefix, input, packet, mark, time, .. } = *record;
        let prefix: CString = text_of(prefix);
        let device = input.map_or(0, penstock::Device::index);
        let (bytes, len) = (packet.as_ptr(), packet.len());
        let packet = penstock_packet { device, bytes, len, protocol: 0, mark, time };
        call(self.0.user, prefix.as_ptr(), &packet);
    }

    fn traced(&mut self, step: &Traced<'_>) {
        let Some(call) = self.0.traced else { return };
        call(self.0.user, text_of(step.line).as_ptr());
    }
}
