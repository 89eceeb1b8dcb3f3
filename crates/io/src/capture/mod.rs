// SPDX-License-Identifier: Apache-2.0

//! Capture files, read and written.

mod error;
mod pcap;
mod pcapng;
mod pcapng_writer;
mod window;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::{CaptureError, Problem};
pub use pcapng_writer::PcapngWriter;
use window::Window;
pub use writer::CaptureWriter;

/// Longest frame that is taken from a capture, in bytes. Anything longer is taken for a broken
/// length field.
pub const MAX_FRAME: u32 = 1 << 20;

/// What the bytes of a frame begin with (`LINKTYPE_*` of <https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// `LINKTYPE_ETHERNET` (1).
    Ethernet,
    /// `LINKTYPE_RAW` (101): an IPv4 or IPv6 header, by the version in its first four bits.
    Raw,
    /// `LINKTYPE_IPV4` (228).
    Ipv4,
    /// `LINKTYPE_IPV6` (229).
    Ipv6,
}

impl LinkType {
    /// By the number in a file. 12 and 14 are what `DLT_RAW` is on some systems: tools that write
    /// the DLT in place of the link type leave them in files.
    pub fn from_number(number: u16) -> Option<LinkType> {
        match number {
            1 => Some(LinkType::Ethernet),
            101 | 12 | 14 => Some(LinkType::Raw),
            228 => Some(LinkType::Ipv4),
            229 => Some(LinkType::Ipv6),
            _ => None,
        }
    }

    /// The number in a file.
    pub fn number(self) -> u16 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::Raw => 101,
            LinkType::Ipv4 => 228,
            LinkType::Ipv6 => 229,
        }
    }

    /// Whether frames begin with an IP header.
    pub fn is_ip(self) -> bool {
        self != LinkType::Ethernet
    }
}

/// A frame of a capture, borrowed from its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// Length on the wire in bytes, without a frame check sequence; more than `bytes` has if it was
    /// cut.
    pub wire_len: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
}

/// What a format's reader found: the frame lies in the window from `start` on, `len` bytes.
#[derive(Clone, Copy, Debug)]
struct CapturedFrame {
    time: u64,
    wire_len: u32,
    link: LinkType,
    start: usize,
    len: usize,
}

enum Format {
    Pcap(pcap::Reader),
    Pcapng(pcapng::Reader),
}

/// A capture file that is read from start to end. Holds one window of the file in memory, never the
/// file.
pub struct Capture {
    name: String,
    window: Window,
    format: Format,
    current: Option<CapturedFrame>,
    failed: bool,
}

impl Capture {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Capture, CaptureError> {
        let name = path.display().to_string();
        if path.as_os_str() == "-" {
            return Capture::new("/dev/stdin", std::io::stdin());
        }
        match File::open(path) {
            Ok(file) => Capture::new(&name, file),
            Err(e) => Err(CaptureError { name, at: 0, problem: Problem::Io(e) }),
        }
    }

    /// Reads a capture from anywhere; `name` is for messages.
    pub fn new(name: &str, source: impl Read + Send + 'static) -> Result<Capture, CaptureError> {
        let mut window = Window::new(Box::new(source));
        match start(&mut window) {
            Ok(format) => {
                Ok(Capture { name: name.to_owned(), window, format, current: None, failed: false })
            }
            Err(problem) => {
                Err(CaptureError { name: name.to_owned(), at: window.record(), problem })
            }
        }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Goes to the next frame; `false` at the end. After an error the capture is at its end.
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        self.current = None;
        if self.failed {
            return Ok(false);
        }
        let next = match &mut self.format {
            Format::Pcap(reader) => reader.next(&mut self.window),
            Format::Pcapng(reader) => reader.next(&mut self.window),
        };
        match next {
            Ok(found) => {
                self.current = found;
                Ok(found.is_some())
            }
            Err(problem) => {
                self.failed = true;
                Err(CaptureError { name: self.name.clone(), at: self.window.record(), problem })
            }
        }
    }

    /// The frame that [`Capture::advance`] went to. An empty frame before the first and after the
    /// last.
    #[inline]
    pub fn frame(&self) -> Frame<'_> {
        match self.current {
            Some(f) => Frame {
                time: f.time,
                wire_len: f.wire_len,
                link: f.link,
                bytes: self.window.passed(f.start, f.len),
            },
            None => Frame { time: 0, wire_len: 0, link: LinkType::Ethernet, bytes: &[] },
        }
    }

    /// Time of the present frame, if there is one.
    #[inline]
    pub(crate) fn time(&self) -> Option<u64> {
        self.current.map(|f| f.time)
    }
}

/// Tells the format by the magic number, and reads the file's header.
fn start(window: &mut Window) -> Result<Format, Problem> {
    let Some(magic) = window.peek(4)? else {
        return Err(if window.left()? == 0 { Problem::Empty } else { Problem::NotACapture });
    };
    let magic: [u8; 4] = [magic[0], magic[1], magic[2], magic[3]];
    if magic == pcapng::SECTION_HEADER {
        return Ok(Format::Pcapng(pcapng::Reader::new()));
    }
    Ok(Format::Pcap(pcap::Reader::start(magic, window)?))
}

#[cfg(test)]
mod tests;
