// SPDX-License-Identifier: Apache-2.0

//! Frames in and out: capture files, devices, and queues to programs.
//!
//! - [`Capture`] reads pcap and pcapng, compressed or not, frame by frame, in constant memory;
//! - [`Merge`] takes several captures in the order of their timestamps;
//! - [`device`]: packet sockets, TAPs and AF_XDP;
//! - [`queue`]: queued packets on their way to a program and back;
//! - [`CaptureWriter`] writes pcap with nanoseconds, [`PcapngWriter`] pcapng with named interfaces.
//!
//! This crate knows bytes and times. It knows no hook, no rule and no route.
//!
//! ```
//! use penstock_io::{Capture, CaptureWriter, LinkType};
//!
//! let mut file = Vec::new();
//! let mut writer = CaptureWriter::new(&mut file, LinkType::Ethernet)?;
//! writer.write(1_700_000_000_123_456_789, &[0xff; 60])?;
//! writer.finish()?;
//!
//! let mut capture = Capture::new("memory", std::io::Cursor::new(file))?;
//! while capture.advance()? {
//!     let frame = capture.frame();
//!     assert_eq!((frame.time, frame.bytes.len()), (1_700_000_000_123_456_789, 60));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod capture;
pub mod device;
mod merge;
pub mod queue;

pub use capture::{
    Capture, CaptureError, CaptureWriter, Cooked, Direction, Frame, Interface, LinkType, MAX_FRAME,
    PacketType, PcapngWriter, Problem,
};
pub use merge::Merge;
