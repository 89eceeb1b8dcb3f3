//! Frames through the path.

use penstock_net::Link;
use penstock_packet::{Meta, Packet};
use penstock_path::{Dataplane, Frame, Sink};

use crate::network::NOW;

/// Counts what leaves, and looks at all of it.
#[derive(Default)]
struct Count {
    out: usize,
    bytes: u64,
}

impl Sink for Count {
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.out += 1;
        self.bytes += frame.iter().map(|b| u64::from(*b)).sum::<u64>();
    }

    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        self.out += 1;
        self.bytes += packet.network().len() as u64;
    }
}

/// Sends frames: for each a byte for where from, one for the time since the last, two for the length, the bytes. A frame
/// without a length that fits takes all that is left.
pub fn send(dataplane: &mut Dataplane, mut data: &[u8]) {
    let devices: Vec<u32> = dataplane.network().links().iter().map(|l| l.index).collect();
    let mut now = NOW;
    let mut seen = Count::default();
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
    std::hint::black_box(seen.bytes);
}
