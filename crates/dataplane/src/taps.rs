// SPDX-License-Identifier: Apache-2.0

//! Taps: who listens to all frames of a device (`ptype_all`, `dev_queue_xmit_nit()`). Received
//! frames pass them before traffic control and rules, and after early ingress; frames that leave
//! pass them last.

/// Which devices are listened to, by index.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    devices: Vec<bool>,
}

impl Taps {
    /// To these devices.
    pub(crate) fn of(devices: &[u32]) -> Self {
        let mut taps = Taps::default();
        for &device in devices {
            let device = device as usize;
            taps.devices.resize(taps.devices.len().max(device + 1), false);
            taps.devices[device] = true;
        }
        taps
    }

    /// Whether a device has a tap.
    #[inline]
    pub(crate) fn has(&self, device: u32) -> bool {
        self.devices.get(device as usize).copied().unwrap_or(false)
    }
}
