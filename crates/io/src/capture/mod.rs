// SPDX-License-Identifier: Apache-2.0

//! Capture files, read and written.

mod compressed;
mod cooked;
mod error;
mod pcap;
mod pcapng;
mod pcapng_writer;
mod window;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use cooked::{Cooked, PacketType};
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
    /// `LINKTYPE_LINUX_SLL` (113): a [`Cooked`] header.
    Sll,
    /// `LINKTYPE_LINUX_SLL2` (276): a [`Cooked`] header with the index of the interface.
    Sll2,
}

impl LinkType {
    /// By the number in a file. 12 and 14 are what `DLT_RAW` is on some systems: tools that write
    /// the DLT in place of the link type leave them in files.
    pub fn from_number(number: u16) -> Option<LinkType> {
        match number {
            1 => Some(LinkType::Ethernet),
            113 => Some(LinkType::Sll),
            276 => Some(LinkType::Sll2),
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
            LinkType::Sll => 113,
            LinkType::Sll2 => 276,
        }
    }

    /// Whether frames begin with an IP header.
    pub fn is_ip(self) -> bool {
        matches!(self, LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6)
    }
}

/// Whether the host of a capture received or sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// The interface of a frame, as far as the capture tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface<'a> {
    /// The file is of one interface, or does not tell them apart, and has no names.
    Unnamed,
    /// Number of the interface among those that this section of the file describes, and its name if
    /// it has one.
    Described(u32, Option<&'a str>),
    /// Index of the interface on the host that captured.
    Index(u32),
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
    /// Where the frame was seen.
    pub interface: Interface<'a>,
    /// Whether it was received or sent, if the capture tells.
    pub direction: Option<Direction>,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A whole frame of which nothing else is known. `time` is in nanoseconds since the epoch.
    pub fn new(time: u64, link: LinkType, bytes: &'a [u8]) -> Frame<'a> {
        let wire_len = bytes.len() as u32;
        Frame { time, wire_len, link, interface: Interface::Unnamed, direction: None, bytes }
    }
}

/// What a format's reader found: the frame lies in the window from `start` on, `len` bytes.
#[derive(Clone, Copy, Debug)]
struct CapturedFrame {
    time: u64,
    wire_len: u32,
    link: LinkType,
    /// Still without its name.
    interface: Interface<'static>,
    direction: Option<Direction>,
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
    /// Opens a file, which may be compressed (gzip, xz or zstd); `-` is standard input.
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
        let failed = |at, problem| CaptureError { name: name.to_owned(), at, problem };
        let source = compressed::plain(source).map_err(|e| failed(0, Problem::Io(e)))?;
        let mut window = Window::new(source);
        match start(&mut window) {
            Ok(format) => {
                Ok(Capture { name: name.to_owned(), window, format, current: None, failed: false })
            }
            Err(problem) => Err(failed(window.record(), problem)),
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
                self.current = found.map(|frame| self.told_by_cooked(frame));
                Ok(found.is_some())
            }
            Err(problem) => {
                self.failed = true;
                Err(CaptureError { name: self.name.clone(), at: self.window.record(), problem })
            }
        }
    }

    /// The frame with what its cooked header tells, if it has one.
    #[inline]
    fn told_by_cooked(&self, mut frame: CapturedFrame) -> CapturedFrame {
        if matches!(frame.link, LinkType::Sll | LinkType::Sll2) {
            let bytes = self.window.passed(frame.start, frame.len);
            if let Some(cooked) = Cooked::parse(frame.link, bytes) {
                frame.direction = Some(cooked.direction());
                frame.interface = cooked.interface.map_or(frame.interface, Interface::Index);
            }
        }
        frame
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
                interface: match (&self.format, f.interface) {
                    (Format::Pcapng(reader), Interface::Described(number, _)) => {
                        Interface::Described(number, reader.interface_name(number))
                    }
                    (_, interface) => interface,
                },
                direction: f.direction,
                bytes: self.window.passed(f.start, f.len),
            },
            None => Frame::new(0, LinkType::Ethernet, &[]),
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
