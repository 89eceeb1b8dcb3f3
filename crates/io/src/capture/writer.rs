// SPDX-License-Identifier: Apache-2.0

//! pcap with nanoseconds, written.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use penstock_files::Access;

use super::LinkType;

/// What libpcap takes for the longest possible snapshot.
const SNAPLEN: u32 = 262_144;

/// Writes a capture. [`CaptureWriter::finish`] tells of an error of the last write; a drop does
/// not.
pub struct CaptureWriter<W: Write> {
    out: BufWriter<W>,
    frames: u64,
}

impl CaptureWriter<File> {
    /// Makes a file, in the place of one that is there ([`penstock_files::create`]).
    pub fn create(path: &Path, link: LinkType) -> Result<Self> {
        CaptureWriter::new(penstock_files::create(path, Access::Owner)?, link)
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the file header to `out`, in little-endian order on every machine: the same frames
    /// give the same file.
    pub fn new(out: W, link: LinkType) -> Result<Self> {
        let mut out = BufWriter::with_capacity(256 << 10, out);
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAPLEN.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(link.number()).to_le_bytes());
        out.write_all(&header)?;
        Ok(CaptureWriter { out, frames: 0 })
    }

    /// Appends a frame that passed at `time`, in nanoseconds since the epoch.
    pub fn write(&mut self, time: u64, frame: &[u8]) -> Result<()> {
        let mut header = [0; 16];
        let len = u32::try_from(frame.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        header[0..4].copy_from_slice(&((time / 1_000_000_000) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((time % 1_000_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&len.to_le_bytes());
        header[12..16].copy_from_slice(&len.to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(frame)?;
        self.frames += 1;
        Ok(())
    }

    /// Frames written so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush()
    }
}
