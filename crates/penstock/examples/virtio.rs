// SPDX-License-Identifier: Apache-2.0

//! The network side of a virtual machine monitor: buffers of virtio-net go through a ruleset.
//!
//! Each buffer begins with the 12 bytes of `struct virtio_net_hdr_v1` (virtio 1.2, 5.1.6), with
//! little-endian numbers. The example negotiates `VIRTIO_NET_F_CSUM` and `VIRTIO_NET_F_GUEST_CSUM`,
//! and none of the segmentation offloads: a guest may leave a checksum for the device to finish,
//! and a buffer is one frame.

use penstock::{Dataplane, Device, Error, Frame, Network, Ruleset, Sent, Sink, finish_checksum};

/// Bytes of the header.
const HEADER: usize = 12;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is only begun.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum is right, the guest need not look.
const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_NONE`.
const GSO_NONE: u8 = 0;

/// Why a buffer was refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// Shorter than its header.
    Short,
    /// A super-packet, which was not negotiated.
    Gso(u8),
}

/// A guest: its port, and what it has received and not taken yet.
struct Guest {
    device: Device,
    received: Vec<Vec<u8>>,
}

/// Guests that are connected by a ruleset.
struct Switch {
    dataplane: Dataplane,
    guests: Vec<Guest>,
}

/// Puts frames into the receive buffers of guests.
struct Receive<'g>(&'g mut [Guest]);

impl Sink for Receive<'_> {
    fn sent(&mut self, sent: &Sent<'_>) {
        let Some(guest) = self.0.iter_mut().find(|guest| guest.device == sent.device) else {
            return;
        };
        // flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, num_buffers.
        let header = [DATA_VALID, GSO_NONE, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        guest.received.push([&header[..], sent.frame].concat());
    }
}

impl Switch {
    /// Two guests, each in its own network; between them rules.
    fn new(rules: &str) -> Result<Switch, Error> {
        let network = Network::from_text(
            "link add tap0 address 02:00:00:00:00:01 type veth
             link add tap1 address 02:00:00:00:00:02 type veth
             link set tap0 up
             link set tap1 up
             addr add 198.18.0.1/24 dev tap0
             addr add 198.18.1.1/24 dev tap1
             neigh add 198.18.0.9 lladdr 02:00:00:00:00:09 dev tap0
             neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev tap1",
        )?;
        let ruleset = Ruleset::from_text(&network, rules)?;
        let dataplane = Dataplane::new(&network, &ruleset)?;
        let devices = [network.device("tap0")?, network.device("tap1")?];
        let guests = devices.map(|device| Guest { device, received: Vec::new() });
        Ok(Switch { dataplane, guests: guests.into() })
    }

    /// A buffer of the transmit queue of a guest. It is changed in place, as a device may.
    fn transmit(&mut self, guest: usize, buffer: &mut [u8], time: u64) -> Result<(), Refused> {
        let (header, bytes) = buffer.split_at_mut_checked(HEADER).ok_or(Refused::Short)?;
        if header[1] != GSO_NONE {
            return Err(Refused::Gso(header[1]));
        }
        if header[0] & NEEDS_CSUM != 0 {
            // From csum_start on; rules and translation need it whole.
            finish_checksum(bytes);
        }
        let device = self.guests[guest].device;
        self.dataplane.receive([Frame { device, bytes, time }], &mut Receive(&mut self.guests));
        Ok(())
    }
}

/// A UDP packet from 198.18.0.9 to 198.18.1.7, port 53, in a buffer as a guest makes it that leaves
/// the checksum to the device: it is the sum over the pseudo header.
fn begun() -> Vec<u8> {
    let header = [NEEDS_CSUM, GSO_NONE, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0];
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x08, 0x00];
    let ip = [0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0xed, 0x9a, 198, 18, 0, 9, 198, 18, 1, 7];
    // 0xc612 + 0x0009 + 0xc612 + 0x0107 + 17 + 10, with the carry.
    let pseudo: u16 = 0x8d50;
    let [high, low] = pseudo.to_be_bytes();
    let udp = [0x30, 0x39, 0, 53, 0, 10, high, low, b'h', b'i'];
    [&header[..], &ethernet, &ip, &udp].concat()
}

const RULES: &str = "
    table ip filter {
        chain forward {
            type filter hook forward priority filter; policy drop;
            udp dport 53 counter accept
        }
    }
";

fn main() -> Result<(), Error> {
    let mut switch = Switch::new(RULES)?;
    let sent = switch.transmit(0, &mut begun(), 1_700_000_000_000_000_000);
    let received: Vec<usize> = switch.guests[1].received.iter().map(Vec::len).collect();
    println!("{sent:?}; the other guest has received buffers of {received:?} bytes");
    Ok(())
}

#[test]
fn a_partial_checksum_is_finished_for_the_other_guest() {
    let mut switch = Switch::new(RULES).unwrap();
    assert_eq!(switch.transmit(0, &mut begun(), 1), Ok(()));
    let [buffer] = &switch.guests[1].received[..] else { panic!("one buffer") };
    assert_eq!((buffer[0], buffer[1], buffer[10]), (DATA_VALID, GSO_NONE, 1));
    let ip = &buffer[HEADER + 14..];
    // Over pseudo header and datagram the sum is 0xffff.
    let pseudo = [&ip[12..20], &[0, 17, 0, 10]].concat();
    let words = pseudo.chunks(2).chain(ip[20..].chunks(2));
    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

#[test]
fn features_that_were_not_negotiated_are_refused() {
    let mut switch = Switch::new(RULES).unwrap();
    let mut large = begun();
    large[1] = 1;
    assert_eq!(switch.transmit(0, &mut large, 1), Err(Refused::Gso(1)));
    assert_eq!(switch.transmit(0, &mut [0; 11], 1), Err(Refused::Short));
    // A header without a frame is an empty frame: it is dropped and counted.
    assert_eq!(switch.transmit(0, &mut [0; 12], 1), Ok(()));
    assert_eq!(switch.dataplane.counters().dropped(), 1);
}
