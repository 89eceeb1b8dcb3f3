// SPDX-License-Identifier: Apache-2.0

use super::*;
use std::io::Cursor;

type Seen = (u64, u32, LinkType, Vec<u8>);

/// All frames up to the end or the error, and the error as it is printed.
fn read(file: Vec<u8>) -> (Vec<Seen>, Option<String>) {
    let mut seen = Vec::new();
    let mut capture = match Capture::new("f", Cursor::new(file)) {
        Ok(c) => c,
        Err(e) => return (seen, Some(e.to_string())),
    };
    loop {
        match capture.advance() {
            Ok(true) => {
                let f = capture.frame();
                seen.push((f.time, f.wire_len, f.link, f.bytes.to_vec()));
            }
            Ok(false) => return (seen, None),
            Err(e) => {
                assert!(!capture.advance().expect("a capture ends after its error"));
                return (seen, Some(e.to_string()));
            }
        }
    }
}

/// Writes numbers in one of the two byte orders.
struct Bytes {
    big: bool,
    out: Vec<u8>,
}

impl Bytes {
    fn new(big: bool) -> Bytes {
        Bytes { big, out: Vec::new() }
    }

    fn u32(&mut self, values: &[u32]) -> &mut Self {
        for v in values {
            self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
        }
        self
    }

    fn u16(&mut self, values: &[u16]) -> &mut Self {
        for v in values {
            self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
        }
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend(bytes);
        self
    }

    fn pcap(&mut self, magic: u32, link: u32) -> &mut Self {
        self.u32(&[magic]).u16(&[2, 4]).u32(&[0, 0, 65535, link])
    }

    /// A pcapng block; the body's numbers come from `fill`.
    fn block(&mut self, kind: u32, fill: impl FnOnce(&mut Bytes) -> &mut Bytes) -> &mut Self {
        let mut body = Bytes::new(self.big);
        fill(&mut body);
        body.out.resize(body.out.len().next_multiple_of(4), 0);
        let len = body.out.len() as u32 + 12;
        self.u32(&[kind, len]).raw(&body.out).u32(&[len])
    }

    fn section(&mut self) -> &mut Self {
        self.block(0x0a0d_0d0a, |b| b.u32(&[0x1a2b_3c4d]).u16(&[1, 0]).u32(&[u32::MAX, u32::MAX]))
    }
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_with_both_units() {
    for big in [false, true] {
        for (magic, time) in [(0xa1b2_c3d4, 7_000_005_000), (0xa1b2_3c4d, 7_000_000_005)] {
            let mut b = Bytes::new(big);
            b.pcap(magic, 101).u32(&[7, 5, 3, 90]).raw(b"abc").u32(&[8, 0, 0, 0]);
            let (seen, error) = read(b.out);
            assert_eq!(error, None);
            assert_eq!(seen[0], (time, 90, LinkType::Raw, b"abc".to_vec()));
            assert_eq!(seen[1], (8_000_000_000, 0, LinkType::Raw, vec![]));
        }
    }
}

#[test]
fn a_frame_check_sequence_is_not_part_of_the_frame() {
    let mut b = Bytes::new(false);
    b.pcap(0xa1b2_3c4d, 1 | 1 << 26 | 2 << 28);
    b.u32(&[0, 0, 6, 6])
        .raw(b"ab\xee\xee\xee\xee")
        .u32(&[0, 0, 2, 6])
        .raw(b"cd")
        .u32(&[0, 0, 2, 90])
        .raw(b"ef");
    let (seen, error) = read(b.out);
    assert_eq!(error, None);
    let frames: Vec<_> = seen.iter().map(|s| (s.1, s.3.as_slice())).collect();
    assert_eq!(frames, [(2, &b"ab"[..]), (2, b"cd"), (86, b"ef")]);
}

#[test]
fn pcapng_is_read_with_all_its_packet_blocks() {
    for big in [false, true] {
        let mut b = Bytes::new(big);
        b.section();
        // Microseconds by default; nanoseconds; 2^-10 s with an offset of one second; picoseconds.
        b.block(1, |b| b.u16(&[1, 0]).u32(&[4]));
        b.block(1, |b| {
            b.u16(&[101, 0]).u32(&[0]).u16(&[2, 3]).raw(b"eth\0").u16(&[9, 1]).raw(&[9, 0, 0, 0])
        });
        let one: [u8; 8] = if big { 1i64.to_be_bytes() } else { 1i64.to_le_bytes() };
        b.block(1, |b| {
            b.u16(&[228, 0])
                .u32(&[0])
                .u16(&[9, 1])
                .raw(&[0x8a, 0, 0, 0])
                .u16(&[14, 8])
                .raw(&one)
                .u16(&[0, 0])
        });
        b.block(1, |b| b.u16(&[229, 0]).u32(&[0]).u16(&[9, 1]).raw(&[12, 0, 0, 0]));
        b.block(0x0bad, |b| b.raw(&[0; 300_000]));
        b.block(6, |b| b.u32(&[0, 1, 2, 3, 60]).raw(b"abc\0").u16(&[1, 2]).raw(b"hi\0\0"));
        b.block(6, |b| b.u32(&[1, 0, 77, 1, 1]).raw(b"n"));
        b.block(2, |b| b.u16(&[2, 9]).u32(&[0, 2048, 2, 2]).raw(b"ob"));
        b.block(6, |b| b.u32(&[3, 0, 5999, 1, 1]).raw(b"p"));
        b.block(3, |b| b.u32(&[9]).raw(b"simp"));
        let (seen, error) = read(b.out);
        assert_eq!(error, None);
        let expected = [
            (((1 << 32) + 2) * 1000, 60, LinkType::Ethernet, b"abc".to_vec()),
            (77, 1, LinkType::Raw, b"n".to_vec()),
            (3_000_000_000, 2, LinkType::Ipv4, b"ob".to_vec()),
            (5, 1, LinkType::Ipv6, b"p".to_vec()),
            (5, 9, LinkType::Ethernet, b"simp".to_vec()),
        ];
        assert_eq!(seen, expected);
    }
}

#[test]
fn frames_have_the_interface_and_direction_that_the_capture_tells() {
    let mut b = Bytes::new(true);
    b.section();
    b.block(1, |b| b.u16(&[1, 0]).u32(&[0]).u16(&[2, 4]).raw(b"lan\0").u16(&[0, 0]));
    b.block(1, |b| b.u16(&[276, 0]).u32(&[0]));
    let flags = |b: &mut Bytes, value: u32| {
        b.block(6, |b| b.u32(&[0, 0, 1, 1, 1]).raw(b"x\0\0\0").u16(&[2, 4]).u32(&[value]));
    };
    flags(&mut b, 1);
    flags(&mut b, 0xff02);
    flags(&mut b, 0);
    let cooked = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 2, 0, 0, 0, 0, 9, 0, 0, 0x45];
    b.block(6, |b| b.u32(&[1, 0, 1, 21, 21]).raw(&cooked));
    let mut capture = Capture::new("f", Cursor::new(b.out)).expect("a capture");
    let lan = Interface::Described(0, Some("lan"));
    for (interface, direction) in [
        (lan, Some(Direction::In)),
        (lan, Some(Direction::Out)),
        (lan, None),
        (Interface::Index(7), Some(Direction::Out)),
    ] {
        assert!(capture.advance().expect("well-formed"));
        let frame = capture.frame();
        assert_eq!((frame.interface, frame.direction), (interface, direction));
    }
    assert!(!capture.advance().expect("well-formed"));
}

#[test]
fn each_pcapng_section_has_its_own_byte_order_and_interfaces() {
    let mut file = Vec::new();
    for big in [false, true] {
        let mut b = Bytes::new(big);
        b.section().block(1, |b| b.u16(&[1, 0]).u32(&[0]));
        b.block(6, |b| b.u32(&[0, 0, 1, 1, 1]).raw(b"x"));
        file.extend(b.out);
    }
    let mut b = Bytes::new(false);
    b.section().block(6, |b| b.u32(&[0, 0, 1, 1, 1]).raw(b"x"));
    let at = file.len() + 28;
    file.extend(b.out);
    let (seen, error) = read(file);
    assert_eq!(seen.len(), 2);
    assert_eq!(
        error,
        Some(format!("f: byte {at}: packet of interface 0, which was not described"))
    );
}

#[test]
fn a_broken_capture_yields_earlier_frames_and_the_offset_of_the_damage() {
    let pcap = |rest: &[u32]| {
        let mut b = Bytes::new(false);
        b.pcap(0xa1b2_3c4d, 1).u32(&[0, 0, 4, 4]).raw(b"good").u32(rest);
        b.out
    };
    let pcapng = |kind: u32, body: &[u32]| {
        let mut b = Bytes::new(false);
        b.section().block(1, |b| b.u16(&[1, 0]).u32(&[0]));
        b.block(6, |b| b.u32(&[0, 0, 0, 4, 4]).raw(b"good"));
        b.block(kind, |b| b.u32(body));
        b.out
    };
    let cut = |mut file: Vec<u8>, n: usize| {
        file.truncate(file.len() - n);
        file
    };
    let with = |mut file: Vec<u8>, from_end: usize, word: u32| {
        let at = file.len() - from_end;
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        file
    };
    for (file, message) in [
        (pcap(&[0, 0]), "f: byte 44: the file ends inside a record header"),
        (pcap(&[0, 0, 8, 8, 0]), "f: byte 44: the file ends inside a frame"),
        (
            pcap(&[0, 0, 1 << 31, 8, 0]),
            "f: byte 44: a frame of 2147483648 bytes cannot be (at most 1048576)",
        ),
        (cut(pcapng(7, &[0]), 1), "f: byte 84: the file ends inside a block"),
        (cut(pcapng(7, &[0]), 12), "f: byte 84: the file ends inside a block header"),
        (with(pcapng(7, &[0]), 12, 13), "f: byte 84: a block of 13 bytes cannot be"),
        (
            with(pcapng(6, &[0, 0, 0, 0, 0]), 4, 13),
            "f: byte 84: the block's length is repeated as 13 at its end",
        ),
        (
            pcapng(6, &[0, 0, 0, 5, 5, 1]),
            "f: byte 84: a packet of 5 bytes does not fit in its block",
        ),
        (
            pcapng(6, &[3, 0, 0, 4, 5, 1]),
            "f: byte 84: packet of interface 3, which was not described",
        ),
        (pcapng(6, &[3, 0, 0]), "f: byte 84: a block of 24 bytes cannot be"),
        (pcapng(1, &[1, 0, 9 | 1 << 16, 40]), "f: byte 84: timestamp resolution 0x28 cannot be"),
        (pcapng(0x0a0d_0d0a, &[1, 0, 0, 0]), "f: byte 84: unknown byte order mark 0x01000000"),
    ] {
        let (seen, error) = read(file);
        assert_eq!(seen.iter().map(|s| s.3.as_slice()).collect::<Vec<_>>(), [b"good"], "{message}");
        assert_eq!(error.as_deref(), Some(message));
    }
    for (file, message) in [
        (vec![], "f: byte 0: the file is empty"),
        (b"GI".to_vec(), "f: byte 0: this is neither pcap nor pcapng"),
        (b"GIF89a".to_vec(), "f: byte 0: this is neither pcap nor pcapng"),
        (
            Bytes::new(true).u32(&[0xa1b2_cd34]).out.clone(),
            "f: byte 0: modified (Kuznetzov) pcap files are not supported",
        ),
        (
            Bytes::new(true).u32(&[0xa1b2_3c4d, 2]).out.clone(),
            "f: byte 0: the file ends inside the file header",
        ),
        (
            Bytes::new(true).pcap(0xa1b2_3c4d, 105).out.clone(),
            "f: byte 0: link type 105 is not supported (Ethernet 1, RAW 101, LINUX_SLL 113, IPV4 228, \
             IPV6 229, LINUX_SLL2 276 are)",
        ),
    ] {
        assert_eq!(read(file), (vec![], Some(message.to_owned())));
    }
    let missing = Capture::open(Path::new("/nonexistent/x.pcap")).err().map(|e| e.to_string());
    assert_eq!(
        missing.as_deref(),
        Some("/nonexistent/x.pcap: No such file or directory (os error 2)")
    );
}

#[test]
fn written_captures_are_read_back_from_short_reads() {
    /// Hands out a few bytes at a time.
    struct Drip(Cursor<Vec<u8>>, fastrand::Rng);
    impl Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.1.u8(..) < 20 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let n = self.1.usize(1..5000).min(out.len());
            self.0.read(&mut out[..n])
        }
    }
    let mut rng = fastrand::Rng::with_seed(7);
    let frames: Vec<(u64, Vec<u8>)> = (0..2000)
        .map(|i| {
            let len = if i % 500 == 9 { rng.usize(260_000..900_000) } else { rng.usize(0..2000) };
            (rng.u64(..4_000_000_000_000_000_000), vec![rng.u8(..); len])
        })
        .collect();
    let mut file = Vec::new();
    let mut writer = CaptureWriter::new(&mut file, LinkType::Ethernet).expect("memory");
    for (time, bytes) in &frames {
        writer.write(*time, bytes).expect("memory");
    }
    assert_eq!(writer.frames(), 2000);
    writer.finish().expect("memory");
    let mut capture = Capture::new("drip", Drip(Cursor::new(file), rng)).expect("well-formed");
    for (time, bytes) in &frames {
        assert!(capture.advance().expect("well-formed"));
        assert_eq!((capture.frame().time, capture.frame().bytes), (*time, bytes.as_slice()));
    }
    assert!(!capture.advance().expect("well-formed"));
}

/// Random damage to good captures: never a panic, never an endless loop, and never fewer frames
/// than lie before the first damaged byte.
#[test]
fn damaged_captures_are_read_up_to_the_damage() {
    let seed: u64 = std::env::var("PENSTOCK_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("PENSTOCK_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..3000 {
        let big = rng.bool();
        let mut b = Bytes::new(big);
        let mut ends = Vec::new();
        let pcapng = rng.bool();
        if pcapng {
            b.section().block(1, |b| {
                b.u16(&[1, 0]).u32(&[0]).u16(&[9, 1]).raw(&[9, 0, 0, 0]).u16(&[0, 0])
            });
        } else {
            b.pcap(0xa1b2_3c4d, 1);
        }
        for i in 0..rng.u32(1..12) {
            let bytes = vec![i as u8; rng.usize(0..80)];
            let len = bytes.len() as u32;
            match (pcapng, rng.u8(..3)) {
                (true, 0) => b.block(3, |b| b.u32(&[len]).raw(&bytes)),
                (true, 1) => b.block(2, |b| b.u32(&[0, 0, i, len, len]).raw(&bytes)),
                (true, _) => b.block(6, |b| b.u32(&[0, 0, i, len, len]).raw(&bytes)),
                (false, _) => b.u32(&[0, i, len, len]).raw(&bytes),
            };
            ends.push(b.out.len());
        }
        let mut file = b.out;
        let whole = read(file.clone());
        assert_eq!((whole.0.len(), &whole.1), (ends.len(), &None), "round {round}");
        let first = rng.usize(..file.len());
        match rng.u8(..4) {
            0 => file.truncate(first),
            1 => file[first] ^= 1 << rng.u8(..8),
            2 => file[first..].iter_mut().for_each(|b| *b = rng.u8(..)),
            _ => {
                file.splice(first..first, vec![rng.u8(..); rng.usize(1..40)]);
            }
        }
        let intact = ends.iter().filter(|&&e| e <= first).count();
        let (seen, _) = read(file);
        assert!(seen.len() >= intact, "round {round}: {} of {intact}", seen.len());
        assert_eq!(seen[..intact], whole.0[..intact], "round {round}");
    }
}
