// SPDX-License-Identifier: Apache-2.0

//! pcapng (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html>).

use super::pcap::without_check_sequence;
use super::{CapturedFrame, Direction, LinkType, MAX_FRAME, Problem, Window};
use crate::Interface as Place;

/// Type of a section header block, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const BYTE_ORDER_MARK: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type, length, and length again at the end.
const BLOCK_OVERHEAD: u32 = 12;
/// Longest block that is read as a whole: the longest frame, with room for options.
const MAX_BLOCK: u32 = MAX_FRAME + (64 << 10);

/// Options of an interface description.
const OPTION_END: u16 = 0;
const OPTION_NAME: u16 = 2;
const OPTION_TSRESOL: u16 = 9;
const OPTION_FCSLEN: u16 = 13;
const OPTION_TSOFFSET: u16 = 14;

/// Option of an enhanced packet block: its lowest two bits are 1 for received, 2 for sent.
const OPTION_FLAGS: u16 = 2;

struct Interface {
    link: u16,
    snaplen: u32,
    resolution: u8,
    /// Seconds to add to each time.
    offset: i64,
    fcs: u32,
    name: Option<String>,
}

pub(super) struct Reader {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Simple packet blocks have no time: they get that of the packet before.
    last_time: u64,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { big_endian: false, interfaces: Vec::new(), last_time: 0 }
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<CapturedFrame>, Problem> {
        loop {
            window.begin();
            let Some(head) = window.peek(8)? else {
                return if window.left()? == 0 {
                    Ok(None)
                } else {
                    Err(Problem::Ends("a block header"))
                };
            };
            if head.starts_with(&SECTION_HEADER) {
                self.section(window)?;
                continue;
            }
            let kind = self.word(head, 0);
            let total = self.word(head, 4);
            if total < BLOCK_OVERHEAD || !total.is_multiple_of(4) {
                return Err(Problem::BlockLength(total));
            }
            match kind {
                INTERFACE_DESCRIPTION | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {}
                _ => {
                    if !window.skip(u64::from(total))? {
                        return Err(Problem::Ends("a block"));
                    }
                    continue;
                }
            }
            if total > MAX_BLOCK {
                return Err(Problem::BlockLength(total));
            }
            let Some(block) = window.peek(total as usize)? else {
                return Err(Problem::Ends("a block"));
            };
            let trailer = self.word(block, total as usize - 4);
            if trailer != total {
                return Err(Problem::BlockTrailer(trailer));
            }
            let body = &block[8..total as usize - 4];
            let packet = match kind {
                INTERFACE_DESCRIPTION => {
                    let interface = self.interface(body)?;
                    self.interfaces.push(interface);
                    window.pass(total as usize);
                    continue;
                }
                ENHANCED_PACKET => self.packet(body, true)?,
                OBSOLETE_PACKET => self.packet(body, false)?,
                _ => self.simple_packet(body)?,
            };
            self.last_time = packet.time;
            let start = window.pass(total as usize) + 8 + packet.start;
            return Ok(Some(CapturedFrame { start, ..packet }));
        }
    }

    /// A section header: sets the byte order of the section and forgets the interfaces of the
    /// previous one.
    fn section(&mut self, window: &mut Window) -> Result<(), Problem> {
        let Some(head) = window.peek(16)? else {
            return Err(Problem::Ends("a section header"));
        };
        let mark = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        self.big_endian = match mark {
            BYTE_ORDER_MARK => true,
            m if m == BYTE_ORDER_MARK.swap_bytes() => false,
            m => return Err(Problem::ByteOrder(m)),
        };
        let total = self.word(head, 4);
        let major = self.half(head, 12);
        if total < 28 || !total.is_multiple_of(4) {
            return Err(Problem::BlockLength(total));
        }
        if major != 1 {
            return Err(Problem::Version(major));
        }
        self.interfaces.clear();
        if !window.skip(u64::from(total))? {
            return Err(Problem::Ends("a section header"));
        }
        Ok(())
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, Problem> {
        if body.len() < 8 {
            return Err(Problem::BlockLength(body.len() as u32 + BLOCK_OVERHEAD));
        }
        let mut interface = Interface {
            link: self.half(body, 0),
            snaplen: self.word(body, 4),
            resolution: 6,
            offset: 0,
            fcs: 0,
            name: None,
        };
        for (code, value) in self.options(&body[8..]) {
            match (code, value.len()) {
                (OPTION_NAME, 1..) => {
                    let text = value.split(|&b| b == 0).next().unwrap_or_default();
                    interface.name = Some(String::from_utf8_lossy(text).into_owned());
                }
                (OPTION_TSRESOL, 1) => {
                    let (exponent, limit) =
                        (value[0] & 0x7f, if value[0] & 0x80 == 0 { 19 } else { 63 });
                    if exponent > limit {
                        return Err(Problem::Resolution(value[0]));
                    }
                    interface.resolution = value[0];
                }
                (OPTION_FCSLEN, 1) => interface.fcs = u32::from(value[0]),
                (OPTION_TSOFFSET, 8) => {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(value);
                    interface.offset = if self.big_endian {
                        i64::from_be_bytes(bytes)
                    } else {
                        i64::from_le_bytes(bytes)
                    };
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// An enhanced packet block, or the obsolete packet block, which has 16 bits for the interface
    /// and 16 for drops.
    fn packet(&self, body: &[u8], enhanced: bool) -> Result<CapturedFrame, Problem> {
        if body.len() < 20 {
            return Err(Problem::BlockLength(body.len() as u32 + BLOCK_OVERHEAD));
        }
        let number = if enhanced { self.word(body, 0) } else { u32::from(self.half(body, 0)) };
        let interface = self.interfaces.get(number as usize).ok_or(Problem::Interface(number))?;
        let ticks = u64::from(self.word(body, 4)) << 32 | u64::from(self.word(body, 8));
        let (captured, on_wire) = (self.word(body, 12), self.word(body, 16));
        let found = interface.found(interface.time(ticks), captured, on_wire, body, 20)?;
        let options = 20 + (captured as usize).next_multiple_of(4);
        let flags = self.options(body.get(options..).unwrap_or_default()).find_map(|option| {
            let (OPTION_FLAGS, value @ [_, _, _, _]) = option else { return None };
            Some(self.word(value, 0))
        });
        let direction = match flags.map(|flags| flags & 3) {
            Some(1) => Some(Direction::In),
            Some(2) => Some(Direction::Out),
            _ => None,
        };
        Ok(CapturedFrame { interface: Place::Described(number, None), direction, ..found })
    }

    /// The name of an interface of the present section.
    pub(super) fn interface_name(&self, number: u32) -> Option<&str> {
        self.interfaces.get(number as usize)?.name.as_deref()
    }

    /// Codes and values of options, up to their end, or to what cannot be one.
    fn options<'b>(&self, mut bytes: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> {
        std::iter::from_fn(move || {
            let head = bytes.get(..4)?;
            let (code, len) = (self.half(head, 0), usize::from(self.half(head, 2)));
            let value = bytes.get(4..4 + len)?;
            bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
            (code != OPTION_END).then_some((code, value))
        })
    }

    /// A simple packet block: always of interface 0, no time, captured length from the snapshot
    /// length.
    fn simple_packet(&self, body: &[u8]) -> Result<CapturedFrame, Problem> {
        let interface = self.interfaces.first().ok_or(Problem::Interface(0))?;
        if body.len() < 4 {
            return Err(Problem::BlockLength(body.len() as u32 + BLOCK_OVERHEAD));
        }
        let on_wire = self.word(body, 0);
        let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        interface.found(self.last_time, on_wire.min(snaplen), on_wire, body, 4)
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
}

impl Interface {
    /// A packet of the interface that begins `start` bytes into the body of its block.
    fn found(
        &self,
        time: u64,
        captured: u32,
        on_wire: u32,
        body: &[u8],
        start: usize,
    ) -> Result<CapturedFrame, Problem> {
        if captured as usize > body.len() - start {
            return Err(Problem::PacketInBlock(captured));
        }
        if captured > MAX_FRAME {
            return Err(Problem::TooLong(captured));
        }
        let link = LinkType::from_number(self.link).ok_or(Problem::LinkType(self.link))?;
        let (len, wire_len) = without_check_sequence(captured, on_wire, self.fcs);
        Ok(CapturedFrame {
            time,
            wire_len,
            link,
            interface: Place::Described(0, None),
            direction: None,
            start,
            len: len as usize,
        })
    }

    /// Nanoseconds since the epoch; a time outside of what 64 bits hold becomes the nearest that
    /// they hold.
    fn time(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanoseconds = if self.resolution & 0x80 != 0 {
            (ticks * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            ticks * 10u128.pow(9 - exponent)
        } else {
            ticks / 10u128.pow(exponent - 9)
        };
        let shifted = nanoseconds as i128 + i128::from(self.offset) * 1_000_000_000;
        shifted.clamp(0, i128::from(u64::MAX)) as u64
    }
}
