// SPDX-License-Identifier: Apache-2.0

//! Frames of captures that arrive together, as a device would give them.

use penstock_dataplane::{Dataplane, Frame, Sink, is_of_burst};

/// Frames that wait for the rest of their burst: they are copied, as a capture is in memory a
/// window at a time.
#[derive(Default)]
pub struct Burst {
    bytes: Vec<u8>,
    frames: Vec<Waiting>,
}

/// A frame, and where its bytes end; they begin where those of the one before end.
struct Waiting {
    device: u32,
    time: u64,
    end: usize,
}

impl Burst {
    /// Whether a frame is of the same burst as those that wait.
    pub fn has_room(&self, frame: &Frame<'_>) -> bool {
        self.frames
            .first()
            .is_none_or(|first| is_of_burst(self.frames.len(), first.time, frame.time))
    }

    /// Keeps a frame.
    pub fn push(&mut self, frame: &Frame<'_>) {
        self.bytes.extend_from_slice(frame.bytes);
        self.frames.push(Waiting { device: frame.device, time: frame.time, end: self.bytes.len() });
    }

    /// Sends those that wait through the path.
    pub fn send<S: Sink>(&mut self, path: &mut Dataplane, sink: &mut S) {
        if self.frames.is_empty() {
            return;
        }
        let mut start = 0;
        let frames = self.frames.iter().map(|waiting| {
            let bytes = self.bytes.get(start..waiting.end).unwrap_or_default();
            start = waiting.end;
            Frame { device: waiting.device, bytes, time: waiting.time }
        });
        path.receive(frames, sink);
        self.bytes.clear();
        self.frames.clear();
    }
}
