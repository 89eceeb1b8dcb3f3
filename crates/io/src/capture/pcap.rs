// SPDX-License-Identifier: Apache-2.0

//! pcap (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html>).

use super::{CapturedFrame, Interface, LinkType, MAX_FRAME, Problem, Window};

/// File header: magic, versions, two unused words, snapshot length, link type.
const FILE_HEADER: usize = 24;
/// Record header: seconds, fraction, captured length, length on the wire.
const RECORD_HEADER: usize = 16;

pub(super) struct Reader {
    swapped: bool,
    /// Nanoseconds in one unit of the fraction.
    unit: u64,
    link: LinkType,
    /// Bytes of frame check sequence at the end of each frame.
    fcs: u32,
}

impl Reader {
    pub(super) fn start(magic: [u8; 4], window: &mut Window) -> Result<Reader, Problem> {
        let little = u32::from_le_bytes(magic);
        let (swapped, unit) = match (little, little.swap_bytes()) {
            (0xa1b2_c3d4, _) => (false, 1000),
            (0xa1b2_3c4d, _) => (false, 1),
            (_, 0xa1b2_c3d4) => (true, 1000),
            (_, 0xa1b2_3c4d) => (true, 1),
            (0xa1b2_cd34, _) | (_, 0xa1b2_cd34) => {
                return Err(Problem::Variant("modified (Kuznetzov)"));
            }
            (0xa1e2_cb12, _) | (_, 0xa1e2_cb12) => return Err(Problem::Variant("Navtel")),
            _ => return Err(Problem::NotACapture),
        };
        let Some(header) = window.peek(FILE_HEADER)? else {
            return Err(Problem::Ends("the file header"));
        };
        let major = u16::from_le_bytes([header[4], header[5]]);
        let major = if swapped { major.swap_bytes() } else { major };
        let network = word(header, 20, swapped);
        if major != 2 {
            return Err(Problem::Version(major));
        }
        let link =
            LinkType::from_number(network as u16).ok_or(Problem::LinkType(network as u16))?;
        // Bit 26 says that the top four bits are the length of the check sequence in 16-bit units.
        let fcs = if network & (1 << 26) != 0 { (network >> 28) * 2 } else { 0 };
        window.pass(FILE_HEADER);
        Ok(Reader { swapped, unit, link, fcs })
    }

    #[inline]
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<CapturedFrame>, Problem> {
        window.begin();
        let Some(header) = window.peek(RECORD_HEADER)? else {
            return if window.left()? == 0 {
                Ok(None)
            } else {
                Err(Problem::Ends("a record header"))
            };
        };
        let seconds = word(header, 0, self.swapped);
        let fraction = word(header, 4, self.swapped);
        let captured = word(header, 8, self.swapped);
        let on_wire = word(header, 12, self.swapped);
        if captured > MAX_FRAME {
            return Err(Problem::TooLong(captured));
        }
        if window.peek(RECORD_HEADER + captured as usize)?.is_none() {
            return Err(Problem::Ends("a frame"));
        }
        let start = window.pass(RECORD_HEADER + captured as usize) + RECORD_HEADER;
        let (len, wire_len) = without_check_sequence(captured, on_wire, self.fcs);
        Ok(Some(CapturedFrame {
            time: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit,
            wire_len,
            link: self.link,
            interface: Interface::Unnamed,
            direction: None,
            start,
            len: len as usize,
        }))
    }
}

/// Captured length and length on the wire without the check sequence. A capture that was cut may
/// have none or a part of it.
pub(super) fn without_check_sequence(captured: u32, on_wire: u32, fcs: u32) -> (u32, u32) {
    let on_wire = on_wire.max(captured).saturating_sub(fcs);
    (captured.min(on_wire), on_wire)
}

#[inline]
fn word(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if swapped { word.swap_bytes() } else { word }
}
