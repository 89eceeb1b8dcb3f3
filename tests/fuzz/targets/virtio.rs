// SPDX-License-Identifier: Apache-2.0

//! Frames with virtio-net headers, as TAPs and packet sockets give them.

use penstock_io::device::vnet::{self, Head};
use penstock_packet::gso::{self, Headers};
use penstock_dataplane::{Dataplane, Frame, Settings};

use super::Target;
use crate::network::{NOW, dataplane};
use crate::send::Seen;
use crate::{mutate, seeds};

pub const TARGET: Target = Target {
    name: "virtio",
    bytes: "a virtio-net header and a frame, as a TAP gives them",
    holds: "a frame keeps its length; a super-packet is cut into segments with right checksums that have all its bytes; it \
            passes the path",
    longest: 4096,
    seeds: headers_and_frames,
    make: mutate::bytes,
    run,
};

/// All headers that mean something before frames of the filetests.
fn headers_and_frames() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for (i, frame) in seeds::frames().iter().step_by(5).enumerate() {
        let (flags, kind) = [(1, 0), (1, 1), (1, 4), (1, 5), (1, 0x81), (0, 0)][i % 6];
        let mut header = [flags, kind, 54, 0, 8, 0, 34, 0, 16, 0];
        header[4] = (i % 32) as u8;
        seeds.push([&header[..], &frame[4..]].concat());
    }
    seeds
}

fn run(data: &[u8]) {
    let mut bytes = data.to_vec();
    let Some((header, frame)) = bytes.split_first_chunk_mut::<{ vnet::LEN }>() else { return };
    let len = frame.len();
    let gso = vnet::received(header, frame);
    assert_eq!(frame.len(), len);
    // What is sent in place is what is sent from a copy.
    let mut copy = frame.to_vec();
    match (vnet::prepare(gso, &mut copy), Head::of(gso, frame)) {
        (Some(header), Some(head)) => {
            assert_eq!(head.parts(frame).concat(), [&header[..], &copy].concat());
        }
        // Headers that are too long to be sent in place are copied.
        (Some(_), None) => assert!(Headers::of_frame(frame).is_some_and(|h| h.payload > 256)),
        (None, head) => assert!(head.is_none()),
    }
    let Some(gso) = gso else { return };
    if let Some(headers) = Headers::of_frame(frame) {
        let (mut scratch, mut payload) = (Vec::new(), Vec::new());
        gso::segments(frame, headers, gso, &mut scratch, |segment| {
            assert!(
                segment.len() <= headers.payload + usize::from(gso.size),
                "a segment of {}",
                segment.len()
            );
            payload.extend_from_slice(&segment[headers.payload..]);
            let Some(own) = Headers::of_frame(segment) else { return };
            let mut again = segment.to_vec();
            own.finish_checksum(&mut again);
            // TCP of which a UDP header was asked for is cut by lengths that are not its own.
            if own == (Headers { end: segment.len(), ..headers }) {
                assert!(again == segment, "the checksum of a segment is not made anew");
            }
        });
        assert!(payload == frame[headers.payload..headers.end], "bytes of a super-packet are lost");
    }
    thread_local! {
        static DATAPLANE: std::cell::RefCell<Option<Dataplane>> = const { std::cell::RefCell::new(None) };
    }
    DATAPLANE.with_borrow_mut(|made| {
        let dataplane = made.get_or_insert_with(|| dataplane(Settings::default()));
        let lan = dataplane.network().link_by_name("lan").map_or(0, |l| l.index);
        let mut sent = Seen::default();
        let received = Frame { device: lan, bytes: frame, time: NOW };
        dataplane.receive_super(received, gso, &mut sent);
        dataplane.send_from_host(received, Some(gso), &mut sent);
        // Each byte of payload may be a segment with headers of its own, which go to several ports
        // of a bridge.
        assert!(sent.bytes <= 8 * (len + 1) * 300, "{} bytes of {len}", sent.bytes);
    });
}
