// SPDX-License-Identifier: Apache-2.0

//! Captures that are compressed: gzip (RFC 1952), xz and zstd (RFC 8878), told by their first
//! bytes. Files that consist of several compressed parts are read as one.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::window::READ;

/// Most memory that a zstd file may ask for, in bytes: what `zstd --ultra -22` asks for. Files
/// made with a larger window (`--long=31`) are refused.
const MAX_ZSTD_WINDOW: u64 = 128 << 20;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The bytes that a source has, decompressed if they are compressed.
///
/// # Errors
/// The source cannot be read.
pub(super) fn plain(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::with_capacity(XZ.len());
    (&mut source).take(XZ.len() as u64).read_to_end(&mut first)?;
    let is = |magic: &[u8]| first.starts_with(magic);
    let (gzip, xz, zstd) = (is(GZIP), is(XZ), is(ZSTD));
    let whole = Cursor::new(first).chain(source);
    Ok(if gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(READ, whole)))
    } else if xz {
        Box::new(XzReader::new(BufReader::with_capacity(READ, whole), true))
    } else if zstd {
        Box::new(Zstd::new(BufReader::with_capacity(READ, whole)))
    } else {
        Box::new(whole)
    })
}

/// Frames of zstd, one after the other.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    within: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Zstd<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_ZSTD_WINDOW);
        Zstd { source, decoder, within: false }
    }

    /// Goes to the next frame; `false` at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let passed = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if passed < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(io::Error::new(io::ErrorKind::InvalidData, e)),
            }
        }
        Ok(false)
    }

    /// The checksum at a frame's end, if it has one, is that of its data.
    fn check(&self) -> io::Result<()> {
        match self.decoder.get_checksum_from_data() {
            Some(said) if Some(said) != self.decoder.get_calculated_checksum() => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the zstd checksum is wrong"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while self.within || self.next_frame()? {
            let decoder = &mut self.decoder;
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            }
            match decoder.read(out)? {
                0 => {
                    self.check()?;
                    self.within = false;
                }
                n => return Ok(n),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// What the tool makes of the bytes; `None` where it is not installed.
    fn by_tool(tool: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
        let mut child = Command::new(tool)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (mut input, bytes) = (child.stdin.take()?, bytes.to_vec());
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output().expect("the tool ends");
        writer.join().expect("no panic").expect("the tool reads");
        Some(output.stdout)
    }

    #[test]
    fn files_of_each_tool_are_read_in_one_part_or_several() {
        let mut rng = fastrand::Rng::with_seed(3);
        let bytes: Vec<u8> =
            (0..700_000).map(|i| if i % 3 == 0 { rng.u8(..) } else { 7 }).collect();
        assert_eq!(read(bytes.clone()).expect("plain"), bytes);
        for (tool, arguments) in [
            ("gzip", &["-c"][..]),
            ("xz", &["-c", "-1"]),
            ("xz", &["-c", "--check=sha256", "--block-size=100000"]),
            ("zstd", &["-c", "-q"]),
            ("zstd", &["-c", "-q", "-19", "--no-check"]),
        ] {
            let Some(packed) = by_tool(tool, arguments, &bytes) else {
                println!("SKIPPED: {tool} is not installed");
                continue;
            };
            assert!(packed.len() < bytes.len());
            assert_eq!(read(packed.clone()).expect(tool), bytes, "{tool} {arguments:?}");
            let twice = [&packed[..], &packed].concat();
            assert_eq!(read(twice).expect(tool), [&bytes[..], &bytes].concat(), "{tool} twice");
            let cut = packed[..packed.len() - 9].to_vec();
            assert!(read(cut).is_err(), "{tool}: the end is missing");
            let mut damaged = packed;
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x55;
            if !arguments.contains(&"--no-check") {
                assert!(read(damaged).is_err(), "{tool}: damage is noticed");
            }
        }
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        plain(Cursor::new(bytes))?.read_to_end(&mut out)?;
        Ok(out)
    }
}
