// SPDX-License-Identifier: Apache-2.0

//! What can be wrong with a capture, and where.

use std::fmt;

/// A capture cannot be read on. Everything before this byte has been handed out.
#[derive(Debug)]
pub struct CaptureError {
    /// The file.
    pub name: String,
    /// Offset in the file of the header, record or block that is wrong.
    pub at: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a capture.
#[derive(Debug)]
pub enum Problem {
    /// A system error.
    Io(std::io::Error),
    /// Not a byte in it.
    Empty,
    /// The first bytes are of neither pcap nor pcapng.
    NotACapture,
    /// A pcap variant with other record headers, by name.
    Variant(&'static str),
    /// A major version other than the one there is.
    Version(u16),
    /// The file ends within this.
    Ends(&'static str),
    /// A link type that is neither Ethernet nor IP nor Linux's cooked headers.
    LinkType(u16),
    /// A record claims this many captured bytes.
    TooLong(u32),
    /// A block claims this many bytes.
    BlockLength(u32),
    /// The length after a block is this, not the one before it.
    BlockTrailer(u32),
    /// The byte order mark of a section is this.
    ByteOrder(u32),
    /// A packet block claims more captured bytes than the block has.
    PacketInBlock(u32),
    /// A packet of an interface that was not described.
    Interface(u32),
    /// A timestamp resolution that has no meaning.
    Resolution(u8),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(e) => write!(f, "{e}"),
            Problem::Empty => write!(f, "the file is empty"),
            Problem::NotACapture => write!(f, "this is neither pcap nor pcapng"),
            Problem::Variant(which) => write!(f, "{which} pcap files are not supported"),
            Problem::Version(v) => write!(f, "unknown major version {v}"),
            Problem::Ends(what) => write!(f, "the file ends inside {what}"),
            Problem::LinkType(n) => {
                write!(
                    f,
                    "link type {n} is not supported (Ethernet 1, RAW 101, LINUX_SLL 113, IPV4 228, \
                     IPV6 229, LINUX_SLL2 276 are)"
                )
            }
            Problem::TooLong(n) => {
                write!(f, "a frame of {n} bytes cannot be (at most {})", super::MAX_FRAME)
            }
            Problem::BlockLength(n) => write!(f, "a block of {n} bytes cannot be"),
            Problem::BlockTrailer(n) => {
                write!(f, "the block's length is repeated as {n} at its end")
            }
            Problem::ByteOrder(n) => write!(f, "unknown byte order mark 0x{n:08x}"),
            Problem::PacketInBlock(n) => {
                write!(f, "a packet of {n} bytes does not fit in its block")
            }
            Problem::Interface(n) => write!(f, "packet of interface {n}, which was not described"),
            Problem::Resolution(n) => write!(f, "timestamp resolution 0x{n:02x} cannot be"),
        }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Io(e) if self.at == 0 => write!(f, "{}: {e}", self.name),
            problem => write!(f, "{}: byte {}: {problem}", self.name, self.at),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(e: std::io::Error) -> Problem {
        Problem::Io(e)
    }
}
