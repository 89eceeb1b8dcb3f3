// SPDX-License-Identifier: Apache-2.0

//! Frames that a worker has received, or that were handed over to it, on their way into the path.

use std::sync::atomic::Ordering::Relaxed;

use penstock_dataplane::{Dataplane, Frame};
use penstock_io::device::{BURST, Received};

use super::dhcp;
use super::steering::{Own, Steering};
use crate::worker::handoff::HandoffMeta;
use crate::worker::host_side::{sender, without};
use crate::worker::ring::Consumer;
use crate::worker::sink::LiveSink;

/// Frames of a burst from a wire, and all that follows from them.
pub(crate) fn receive_frames<'f>(
    path: &mut Dataplane,
    sink: &mut LiveSink,
    port: usize,
    frames: impl Iterator<Item = Received<'f>>,
    time: u64,
) {
    let Some(out) = sink.port_at(port) else { return };
    let (device, dhcp_until) = (out.index, out.dhcp_until.load(Relaxed));
    let client = path.network().link(device).filter(|_| time < dhcp_until).map(|link| link.mac.0);
    let is_answer =
        |frame: &Received<'_>| client.is_some_and(|mac| dhcp::is_answer(frame.bytes, mac));
    // Usual frames until another one comes: they stay a burst.
    let mut usual = [Frame { device, bytes: &[], time }; BURST];
    let mut count = 0;
    for received in frames {
        let bytes = received.bytes;
        if received.gso.is_none() && !is_answer(&received) {
            usual[count] = Frame { device, bytes, time };
            count += 1;
            if count < BURST {
                continue;
            }
        }
        path.receive(usual[..count].iter().copied(), sink);
        count = 0;
        if let Some(gso) = received.gso {
            path.receive_super(Frame { device, bytes, time }, gso, sink);
        } else if is_answer(&received) {
            let given = |sink: &LiveSink| sink.port_at(port).map(|p| p.traffic.to_host.frames);
            let before = given(sink);
            path.receive([Frame { device, bytes, time }], sink);
            if given(sink) == before {
                sink.give_host_as_it_came(port, bytes);
            }
        }
    }
    path.receive(usual[..count].iter().copied(), sink);
}

/// A frame that the host has sent on a port.
pub(crate) fn send_from_host(
    path: &mut Dataplane,
    sink: &mut LiveSink,
    port: usize,
    frame: &Received<'_>,
    time: u64,
) {
    let Some(tap) = sink.port_at(port).map(|out| out.index) else { return };
    let Some((device, tags)) = sender(path.network(), tap, frame.bytes, sink.indexes()) else {
        sink.ignored += 1;
        return;
    };
    let mut room = std::mem::take(&mut sink.untagged);
    let bytes = without(frame.bytes, tags, &mut room);
    sink.mirrors.set_from_host(Some(tap));
    path.send_from_host(Frame { device, bytes, time }, frame.gso, sink);
    sink.mirrors.set_from_host(None);
    sink.untagged = room;
}

/// A frame that was handed over, alone.
fn receive_handed(
    path: &mut Dataplane,
    sink: &mut LiveSink,
    handed: HandoffMeta,
    frame: Received<'_>,
    time: u64,
) {
    let port = handed.port as usize;
    match handed.from_host {
        true => send_from_host(path, sink, port, &frame, time),
        false => receive_frames(path, sink, port, [frame].into_iter(), time),
    }
}

/// A burst that another worker has handed over; how many frames.
pub(crate) fn take_burst(
    path: &mut Dataplane,
    sink: &mut LiveSink,
    steering: &mut Steering,
    consumer: &mut Consumer<HandoffMeta>,
    time: u64,
) -> usize {
    let count = consumer.fetch();
    let mut own = Own(0);
    for (i, (handed, frame)) in (0..count).filter_map(|i| Some((i, consumer.frame(i)?))) {
        own.0 |= u64::from(steering.keep_handed(handed, frame, time)) << i;
    }
    work_off(path, sink, steering, time);
    let mut at = 0;
    while at < count {
        let Some((handed, frame)) = consumer.frame(at).filter(|_| own.has(at)) else {
            at += 1;
            continue;
        };
        if handed.from_host {
            receive_handed(path, sink, handed, handed.received(frame), time);
            at += 1;
            continue;
        }
        // What came by one port stays a burst.
        let same =
            |i: usize| consumer.frame(i).filter(|(h, _)| !h.from_host && h.port == handed.port);
        let end = (at..count).find(|i| same(*i).is_none()).unwrap_or(count);
        let frames = (at..end)
            .filter(|i| own.has(*i))
            .filter_map(|i| same(i).map(|(handed, frame)| handed.received(frame)));
        receive_frames(path, sink, handed.port as usize, frames, time);
        at = end;
    }
    consumer.release();
    count
}

/// Fragments that waited until it was known that they are this worker's.
pub(crate) fn work_off(
    path: &mut Dataplane,
    sink: &mut LiveSink,
    steering: &mut Steering,
    time: u64,
) {
    for (handed, bytes) in steering.own.drain(..) {
        receive_handed(path, sink, handed, Received { bytes: &bytes, gso: handed.gso }, time);
    }
}
