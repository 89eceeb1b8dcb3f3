// SPDX-License-Identifier: Apache-2.0

//! pcapng with nanoseconds and named interfaces, written.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use penstock_files::Access;

const SECTION: u32 = 0x0a0d_0d0a;
const MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// `if_name`.
const OPTION_NAME: u16 = 2;
/// `if_tsresol`.
const OPTION_RESOLUTION: u16 = 9;
/// `epb_flags`, and of it whether the frame came or leaves.
const OPTION_FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// `isb_ifrecv`: frames that came, lost ones included.
const OPTION_RECEIVED: u16 = 4;
/// `isb_ifdrop`: frames that are not in the file because the queue was full.
const OPTION_DROPPED: u16 = 5;

/// Writes a capture of several interfaces, little-endian on every machine. [`PcapngWriter::finish`]
/// tells of an error of the last write; a drop does not.
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
    interfaces: u32,
    block: Vec<u8>,
}

impl PcapngWriter<File> {
    /// Makes a file, in the place of one that is there ([`penstock_files::create`]).
    pub fn create(path: &Path) -> Result<Self> {
        PcapngWriter::new(penstock_files::create(path, Access::Owner)?)
    }
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header.
    pub fn new(out: W) -> Result<Self> {
        let mut writer =
            PcapngWriter { out: BufWriter::new(out), interfaces: 0, block: Vec::new() };
        writer.block.extend_from_slice(&MAGIC.to_le_bytes());
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        // The section's length is not known.
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.end(SECTION)?;
        Ok(writer)
    }

    /// Declares an interface with a link type (`LINKTYPE_*`) and gives its number.
    pub fn interface(&mut self, name: &str, link_type: u16) -> Result<u32> {
        self.block.extend_from_slice(&link_type.to_le_bytes());
        self.block.extend_from_slice(&[0; 6]);
        self.option(OPTION_NAME, name.as_bytes());
        self.option(OPTION_RESOLUTION, &[9]);
        self.block.extend_from_slice(&[0; 4]);
        self.end(INTERFACE)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Appends a frame that passed an interface at `time`, in nanoseconds since the epoch.
    pub fn write(&mut self, interface: u32, time: u64, frame: &[u8]) -> Result<()> {
        let len = u32::try_from(frame.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        self.frame(interface, time, frame, len)?;
        self.end(PACKET)
    }

    /// Writes the first bytes of a frame that had `len` of them, with its direction.
    pub fn write_cut(
        &mut self,
        interface: u32,
        time: u64,
        bytes: &[u8],
        len: u32,
        outgoing: bool,
    ) -> Result<()> {
        self.frame(interface, time, bytes, len)?;
        let way = if outgoing { OUTBOUND } else { INBOUND };
        self.option(OPTION_FLAGS, &way.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
        self.end(PACKET)
    }

    fn frame(&mut self, interface: u32, time: u64, bytes: &[u8], len: u32) -> Result<()> {
        let there = u32::try_from(bytes.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        for word in [interface, (time >> 32) as u32, time as u32, there, len] {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
        Ok(())
    }

    /// Says at `time` how many frames an interface had, lost ones included, and how many of them
    /// are lost.
    pub fn statistics(
        &mut self,
        interface: u32,
        time: u64,
        received: u64,
        lost: u64,
    ) -> Result<()> {
        for word in [interface, (time >> 32) as u32, time as u32] {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.option(OPTION_RECEIVED, &received.to_le_bytes());
        self.option(OPTION_DROPPED, &lost.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
        self.end(STATISTICS)
    }

    /// Passes on what is buffered.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// Writes the block that was gathered.
    fn end(&mut self, kind: u32) -> Result<()> {
        let len = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&len)?;
        self.block.clear();
        Ok(())
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capture;

    #[test]
    fn the_reader_finds_what_was_written() {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::new(&mut file).unwrap();
        let first = writer.interface("a", 1).unwrap();
        writer.write(first, 1_700_000_000_123_456_789, &[1; 61]).unwrap();
        let second = writer.interface("lan", 101).unwrap();
        writer.write_cut(second, 1_700_000_001_000_000_000, &[0x45; 20], 1500, true).unwrap();
        writer.statistics(second, 1_700_000_002_000_000_000, 3, 2).unwrap();
        writer.finish().unwrap();
        let mut capture = Capture::new("memory", std::io::Cursor::new(file)).unwrap();
        let mut frames = Vec::new();
        while capture.advance().unwrap() {
            let f = capture.frame();
            frames.push((f.time, f.link.number(), f.bytes.to_vec()));
        }
        assert_eq!(
            frames,
            [
                (1_700_000_000_123_456_789, 1, vec![1; 61]),
                (1_700_000_001_000_000_000, 101, vec![0x45; 20])
            ]
        );
    }
}
