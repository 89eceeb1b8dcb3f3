// SPDX-License-Identifier: Apache-2.0

//! Operating systems known by the SYN packets that they send (`net/netfilter/nfnetlink_osf.c`).
//!
//! The database is a file in the format of OpenBSD's `pf.os`, as `nfnl_osf -f` loads it. One line
//! is one system:
//!
//! ```text
//! window:ttl:DF:size:options:genre:version:subtype:details
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | window | a number, `*` for any, `%n` for multiples of n, `Sn` for n times the MSS, `Tn` for n times the MSS and 40 |
//! | ttl | initial TTL |
//! | DF | whether "don't fragment" is set, 0 or 1 |
//! | size | total length of the packet |
//! | options | in order, separated by commas: `N` no-operation, `E` end, `S` SACK permitted, `T` or `T0` timestamp, `Wn` window scale, `Mn` MSS; `.` for none, and `?n` counts as none. Their values are not compared, in the kernel neither |
//! | genre | name; `*` or `@` before it is not part of it |
//! | version | of it, may be empty |
//!
//! Lines that begin with `#` are comments.

use std::fmt;

use crate::c_struct::CStruct;

/// Longest option list (`MAX_IPOPTLEN`).
const OPTIONS_MAX: usize = 40;
/// Bytes of a fingerprint in messages (`struct nf_osf_user_finger`).
pub const MESSAGE_LEN: usize = 592;
/// Longest genre and version (`MAXGENRELEN` without its final zero).
const NAME_MAX: usize = 31;
/// MSS values that modems on the way set; the MSS of the packet is tried too.
const USUAL_MSS: [u32; 2] = [1460, 1448];

const MSS: u8 = 2;

/// What the window is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// The number, or any if it is 0.
    Plain(u32),
    /// So many times the MSS.
    Mss(u32),
    /// So many times the MSS and 40.
    Mtu(u32),
    /// A multiple.
    Modulo(u32),
}

/// A system and how its SYN looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    window: Window,
    ttl: u8,
    dont_fragment: bool,
    size: u16,
    /// Kind and length.
    options: Box<[(u8, u8)]>,
    /// What systems of this kind are called.
    pub genre: Box<str>,
    /// Which of them.
    pub version: Box<str>,
    /// What else is known of it.
    pub subtype: Box<str>,
}

/// All systems that are known, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprints {
    known: Vec<Fingerprint>,
}

/// A line that is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFingerprint {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for BadFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for BadFingerprint {}

impl Fingerprints {
    /// Reads a database.
    ///
    /// # Errors
    /// The first line that is no fingerprint.
    pub fn parse(text: &str) -> Result<Self, BadFingerprint> {
        let mut known = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                known.push(
                    fingerprint(line).map_err(|reason| BadFingerprint { line: number, reason })?,
                );
            }
        }
        Ok(Fingerprints { known })
    }

    /// Adds one in the form of messages, behind the others (`struct nf_osf_user_finger`, integers in
    /// host order). One that no packet can match is left aside.
    pub fn push(&mut self, message: &[u8; MESSAGE_LEN]) {
        self.known.extend(from_message(message));
    }

    /// All systems whose fingerprints match this IPv4 packet, and how many hops away they are: how
    /// much smaller the TTL is.
    pub fn all(&self, packet: &[u8], ttl: u8) -> impl Iterator<Item = (&Fingerprint, i32)> {
        let syn = Syn::new(packet);
        self.known.iter().filter_map(move |f| {
            let syn = syn.as_ref()?;
            let found = f.dont_fragment == syn.dont_fragment && f.fits(syn, ttl);
            found.then(|| (f, i32::from(f.ttl) - i32::from(syn.ttl)))
        })
    }

    /// Whether there is a system of a genre, or of any, whose fingerprint matches this IPv4 packet
    /// (`nf_osf_match()`).
    pub fn has(&self, packet: &[u8], ttl: u8, genre: &str) -> bool {
        let Some(syn) = Syn::new(packet) else { return false };
        let mut alike = self.known.iter().filter(|f| *f.genre == *genre);
        alike.any(|f| f.dont_fragment == syn.dont_fragment && f.fits(&syn, ttl))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The first system with a fingerprint that matches this IPv4 packet. `ttl` is the condition on
    /// the TTL: 0 for that of the fingerprint, 1 for at most that, 2 for none (`nf_osf_find()`).
    pub fn find(&self, packet: &[u8], ttl: u8) -> Option<&Fingerprint> {
        let syn = Syn::new(packet)?;
        self.known.iter().find(|f| f.dont_fragment == syn.dont_fragment && f.fits(&syn, ttl))
    }
}

/// What fingerprints are compared with (`struct nf_osf_hdr_ctx`).
struct Syn<'a> {
    size: u16,
    ttl: u8,
    dont_fragment: bool,
    window: u32,
    options: &'a [u8],
}

impl<'a> Syn<'a> {
    fn new(packet: &'a [u8]) -> Option<Self> {
        let ip = penstock_wire::ipv4::Header::new(packet)?;
        let tcp = packet.get(ip.header_len()..)?;
        let [.., offset, _flags, w0, w1, _, _, _, _] = *tcp.first_chunk::<20>()?;
        let header_len = usize::from(offset >> 4) * 4;
        let options = if header_len > 20 { tcp.get(20..header_len)? } else { &[] };
        let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        Some(Syn {
            size: word(2)?,
            ttl: *packet.get(8)?,
            dont_fragment: word(6)? & 0x4000 != 0,
            window: u16::from_be_bytes([w0, w1]).into(),
            options,
        })
    }
}

impl Fingerprint {
    /// `nf_osf_match_one()`.
    fn fits(&self, syn: &Syn<'_>, ttl: u8) -> bool {
        let ttl_fits = match ttl {
            0 => syn.ttl == self.ttl,
            1 => syn.ttl <= self.ttl,
            _ => true,
        };
        let length = self.options.iter().map(|(_, len)| usize::from(*len)).sum::<usize>();
        if syn.size != self.size || !ttl_fits || length != syn.options.len() {
            return false;
        }
        let mut rest = syn.options;
        let mut mss = 0;
        for &(kind, len) in &self.options {
            if rest.first() != Some(&kind) {
                return false;
            }
            if let (MSS, [_, _, high, low, ..]) = (kind, rest) {
                mss = u32::from(u16::from_be_bytes([*high, *low]));
            }
            rest = rest.get(usize::from(len)..).unwrap_or_default();
        }
        let times = |n: u32, headers: u32| {
            USUAL_MSS
                .iter()
                .chain([&mss])
                .any(|mss| u64::from(syn.window) == u64::from(n) * u64::from(mss + headers))
        };
        match self.window {
            Window::Plain(window) => window == 0 || window == syn.window,
            Window::Mss(n) => times(n, 0),
            Window::Mtu(n) => times(n, 40),
            Window::Modulo(n) => n != 0 && syn.window.is_multiple_of(n),
        }
    }
}

/// A fingerprint of a message; `None` for one that matches nothing.
fn from_message(message: &[u8; MESSAGE_LEN]) -> Option<Fingerprint> {
    /// Bytes of a name, and where the first of them and the options begin.
    const NAME: usize = 32;
    const NAMES: usize = 16;
    const OPTIONS: usize = 112;
    /// Bytes of `struct nf_osf_opt`.
    const OPTION: usize = 12;
    let info = CStruct(message);
    let name = |number: usize| info.text(NAMES + number * NAME, NAME).unwrap_or_default();
    let window = info.u32(4);
    let count = usize::from(info.u16(14));
    let options = (0..count.min(OPTIONS_MAX)).map(|number| {
        let at = OPTIONS + number * OPTION;
        Some((u8::try_from(info.u16(at)).ok()?, u8::try_from(info.u16(at + 2)).ok()?))
    });
    Some(Fingerprint {
        window: match info.u32(0) {
            0 => Window::Plain(window),
            1 => Window::Mss(window),
            2 => Window::Mtu(window),
            3 => Window::Modulo(window),
            _ => return None,
        },
        ttl: info.u8(8),
        dont_fragment: info.u8(9) != 0,
        size: info.u16(10),
        options: options.collect::<Option<_>>()?,
        genre: name(0).into(),
        version: name(1).into(),
        subtype: name(2).into(),
    })
}

fn fingerprint(line: &str) -> Result<Fingerprint, &'static str> {
    // nfnl_osf(8) passes over blanks after a colon.
    let fields: Vec<&str> = line.split(':').map(str::trim_start).collect();
    let &[window, ttl, df, size, options, genre, version, subtype, _details] = &fields[..] else {
        return Err("there are not 9 fields");
    };
    let genre = genre.strip_prefix(['*', '@']).unwrap_or(genre);
    let fits = |name: &str| name.len() <= NAME_MAX;
    if genre.is_empty() || ![genre, version, subtype].into_iter().all(fits) {
        return Err("names and versions have at most 31 bytes, the name at least one");
    }
    Ok(Fingerprint {
        window: parse_window(window).ok_or("not a window")?,
        ttl: ttl.parse().map_err(|_| "not a TTL")?,
        dont_fragment: match df {
            "0" => false,
            "1" => true,
            _ => return Err("DF is 0 or 1"),
        },
        size: size.parse().map_err(|_| "not a size")?,
        options: parse_options(options)?,
        genre: genre.into(),
        version: version.into(),
        subtype: subtype.into(),
    })
}

fn parse_window(text: &str) -> Option<Window> {
    let number = |text: &str| text.parse::<u16>().ok().map(u32::from);
    // What follows S and T may be a wildcard: then no window fits but 0.
    let times =
        |text: &str| if text == "*" { Some(0) } else { number(text.trim_start_matches('%')) };
    match text.split_at_checked(1)? {
        ("*", "") => Some(Window::Plain(0)),
        ("S", n) => Some(Window::Mss(times(n)?)),
        ("T", n) => Some(Window::Mtu(times(n)?)),
        ("%", n) => Some(Window::Modulo(number(n).filter(|n| *n != 0)?)),
        _ => Some(Window::Plain(number(text)?)),
    }
}

fn parse_options(text: &str) -> Result<Box<[(u8, u8)]>, &'static str> {
    let mut options = Vec::new();
    for option in text.split(',').map(str::trim) {
        options.push(match option.chars().next() {
            Some('E') => (0, 1),
            Some('N') => (1, 1),
            Some('M') => (MSS, 4),
            Some('W') => (3, 3),
            Some('S') => (4, 2),
            Some('T') => (8, 10),
            Some('.' | '?') | None => continue,
            Some(_) => return Err("not an option"),
        });
    }
    let length = options.iter().map(|(_, len)| usize::from(*len)).sum::<usize>();
    if length > OPTIONS_MAX {
        return Err("the options have more than 40 bytes");
    }
    Ok(options.into())
}
