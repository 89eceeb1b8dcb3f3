// SPDX-License-Identifier: Apache-2.0

//! Captures in memory: read, written, and read, forwarded and written as `penstock run` does.

use std::hint::black_box;
use std::io::Cursor;
use std::rc::Rc;
use std::sync::Arc;

use penstock_dataplane::Sink;
use penstock_io::{Capture, CaptureWriter, LinkType};
use penstock_net::Link;
use penstock_packet::{Meta, Packet};

use crate::frames::{Frames, flow};
use crate::router::{BURST, Router};
use crate::{Scale, Variant};

/// Frames of a capture.
const FRAMES: u32 = 10_000;

/// Nanoseconds from a frame to the next.
const STEP: u64 = 100;

/// A capture of all frames.
fn capture(frames: &Frames) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = CaptureWriter::new(&mut file, LinkType::Ethernet).expect("memory");
    for (time, frame) in (0..).step_by(STEP as usize).zip(frames.bursts(frames.len()).flatten()) {
        writer.write(time, frame).expect("memory");
    }
    writer.finish().expect("memory");
    file
}

/// What is sent goes into a capture.
struct Written<'a>(CaptureWriter<&'a mut Vec<u8>>);

impl Sink for Written<'_> {
    fn transmit(&mut self, _device: &Link, frame: &[u8], meta: &Meta) {
        self.0.write(meta.time, frame).expect("memory");
    }
    fn deliver(&mut self, _device: &Link, _packet: &Packet) {}
}

/// Passes a capture's frames to `take`.
fn read(file: &Arc<[u8]>, mut take: impl FnMut(u64, &[u8])) {
    let mut capture = Capture::new("memory", Cursor::new(file.clone())).expect("a capture");
    while capture.advance().expect("whole frames") {
        let frame = capture.frame();
        take(frame.time, frame.bytes);
    }
}

/// Frames that wait until they are enough for a burst.
#[derive(Default)]
struct Burst {
    bytes: Vec<u8>,
    /// Time, and where the frame ends.
    frames: Vec<(u64, usize)>,
}

impl Burst {
    fn put(&mut self, time: u64, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.frames.push((time, self.bytes.len()));
    }

    fn send(&mut self, router: &mut Router, sink: &mut impl Sink) {
        let mut start = 0;
        let frames = self.frames.iter().map(|&(time, end)| {
            let frame = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            (time, frame)
        });
        router.receive(frames, sink);
        self.bytes.clear();
        self.frames.clear();
    }
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let count = scale.count(FRAMES);
    let frames = Rc::new(Frames::hot((0..count).map(|n| flow(n, 9))));
    let file: Arc<[u8]> = capture(&frames).into();
    let count = u64::from(count);
    let (reading, forwarding) = (file.clone(), file);
    let mut router =
        Router::new("table ip t { chain f { type filter hook forward priority 0; counter; }; }");
    let (mut out, mut burst) = (Vec::new(), Burst::default());
    vec![
        Variant::new("pcap-read", count, move || {
            read(&reading, |time, bytes| _ = black_box((time, bytes)));
        }),
        Variant::new("pcap-write", count, move || {
            black_box(capture(&frames));
        }),
        Variant::new("pcap-forward", count, move || {
            out.clear();
            let writer = CaptureWriter::new(&mut out, LinkType::Ethernet).expect("memory");
            let mut sink = Written(writer);
            read(&forwarding, |time, bytes| {
                burst.put(time, bytes);
                if burst.frames.len() == BURST {
                    burst.send(&mut router, &mut sink);
                }
            });
            burst.send(&mut router, &mut sink);
            assert_eq!(sink.0.frames(), count, "all of them leave");
            sink.0.finish().expect("memory");
        }),
    ]
}
