// SPDX-License-Identifier: Apache-2.0

//! Frames through the path.

use penstock_dataplane::{Dataplane, Frame, QueueRecord, Queued, Sink};
use penstock_net::Link;
use penstock_packet::gso::Headers;
use penstock_packet::{Meta, Packet};

use crate::network::NOW;

/// Where all packets of all targets end: the path is compiled once for it.
#[derive(Debug, Default)]
pub struct Seen {
    /// Frames and packets.
    pub out: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Bytes of the longest.
    pub longest: usize,
    /// Whether checksums must be right: what came in had right ones.
    pub sums: bool,
    /// Numbers of packets that are held for programs; `None` without a listener.
    pub held: Option<Vec<u64>>,
}

impl Seen {
    fn note(&mut self, bytes: &[u8]) {
        self.out += 1;
        self.bytes += bytes.len();
        self.longest = self.longest.max(bytes.len());
        std::hint::black_box(bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)));
    }
}

impl Sink for Seen {
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.note(frame);
        if self.sums
            && let Some(headers) = Headers::of_frame(frame)
        {
            let mut again = frame.to_vec();
            headers.finish_checksum(&mut again);
            assert!(again == frame, "a checksum is wrong");
        }
    }

    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        self.note(packet.network());
    }

    fn queue(&mut self, record: &QueueRecord<'_>, _packet: &Packet) -> Queued {
        match &mut self.held {
            Some(held) => {
                held.push(record.id);
                Queued::Held
            }
            None => Queued::Nobody,
        }
    }
}

/// Sends frames: for each a byte for where from, one for the time since the last, two for the
/// length, the bytes. A frame without a length that fits takes all that is left.
pub fn send(dataplane: &mut Dataplane, mut data: &[u8]) -> Seen {
    let devices: Vec<u32> = dataplane.network().links().iter().map(|l| l.index).collect();
    let mut now = NOW;
    let mut seen = Seen::default();
    let mut sent = 0;
    while let [from, time, high, low, rest @ ..] = data {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let (bytes, behind) = rest.split_at(len.min(rest.len()));
        data = behind;
        now += 1u64 << (time % 42);
        let device = devices[usize::from(*from >> 2) % devices.len()];
        match from & 3 {
            0 => dataplane.send_host(bytes, now, &mut seen),
            1 => dataplane.send_raw(device, bytes, now, &mut seen),
            _ => dataplane.receive([Frame { device, bytes, time: now }], &mut seen),
        }
        sent += 1;
        // Fragments, copies and answers are more than was sent, but there is an end to them.
        assert!(seen.out <= 10_000 * sent, "a flood: {} frames of {sent}", seen.out);
    }
    dataplane.advance(now + (1 << 40), &mut seen);
    seen
}
