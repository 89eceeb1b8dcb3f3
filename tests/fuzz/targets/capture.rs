// SPDX-License-Identifier: Apache-2.0

//! Capture files.

use penstock_io::Capture;

use super::Target;
use crate::{mutate, seeds};

pub const TARGET: Target = Target {
    name: "capture",
    bytes: "a capture file",
    holds: "it is read to its end, or to where it is broken; no frame is longer than the file",
    longest: 4096,
    seeds: seeds::captures,
    make: mutate::bytes,
    run,
};

fn run(data: &[u8]) {
    let data = data.to_vec();
    let most = data.len();
    let Ok(mut capture) = Capture::new("fuzz", std::io::Cursor::new(data)) else { return };
    let mut frames = 0;
    while let Ok(true) = capture.advance() {
        frames += 1;
        assert!(capture.frame().bytes.len() <= most, "a frame is longer than its file");
        assert!(frames <= most, "more frames than bytes");
    }
    assert!(!matches!(capture.advance(), Ok(true)), "frames after the end");
}
