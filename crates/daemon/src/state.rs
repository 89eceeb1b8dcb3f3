//! What outlives the process on request: ruleset, elements with their timeouts, connections, and the indexes of the TAPs,
//! which rules (`iif`) and masqueraded connections refer to.
//!
//! ```text
//! \x7fpenstock-state\0, version (1 byte)
//! tag (1 byte), length (u64), CRC-32 of the contents (u32), contents      any number of times; numbers little-endian
//! 'l'  links: lines of index and name       'r'  ruleset: Ruleset::save       'c'  connections: Conntrack::dump
//! 'e'  the end, without contents
//! ```
//!
//! A file is written beside the old one and put in its place, so that there is always a whole one.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use penstock_conntrack::{Conntrack, Settings};
use penstock_ruleset::Ruleset;

const MAGIC: &[u8] = b"\x7fpenstock-state\0";
const VERSION: u8 = 1;
/// Tag, length, checksum.
const HEAD: usize = 13;

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Indexes and names of the TAPs.
    pub(crate) links: Vec<(u32, String)>,
    /// The ruleset.
    pub(crate) ruleset: Ruleset,
    /// Connections, as [`Conntrack::dump`] writes them.
    pub(crate) connections: String,
}

/// What is wrong with a file, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) at: usize,
    pub(crate) reason: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.reason)
    }
}

/// CRC-32 as of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let (mut value, mut bit) = (n as u32, 0);
            while bit < 8 {
                value = if value & 1 == 0 { value >> 1 } else { value >> 1 ^ 0xedb8_8320 };
                bit += 1;
            }
            table[n] = value;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!0u32, |crc, b| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ b)])
}

impl State {
    /// As bytes, at a time in nanoseconds since the epoch.
    pub(crate) fn to_bytes(&self, now: u64) -> Vec<u8> {
        let links: String = self.links.iter().map(|(index, name)| format!("{index} {name}\n")).collect();
        let mut out = [MAGIC, &[VERSION]].concat();
        let ruleset = self.ruleset.save(now);
        for (tag, contents) in
            [(b'l', links.as_bytes()), (b'r', &ruleset), (b'c', self.connections.as_bytes()), (b'e', &[])]
        {
            out.push(tag);
            out.extend_from_slice(&(contents.len() as u64).to_le_bytes());
            out.extend_from_slice(&crc32(contents).to_le_bytes());
            out.extend_from_slice(contents);
        }
        out
    }

    /// From bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<State, Broken> {
        let broken = |at: usize, reason: &str| Broken { at, reason: reason.into() };
        let version = bytes.strip_prefix(MAGIC).ok_or_else(|| broken(0, "not a saved state"))?.first();
        match version {
            Some(&VERSION) => {}
            Some(_) => return Err(broken(MAGIC.len(), "of another version of penstock")),
            None => return Err(broken(bytes.len(), "cut short")),
        }
        let mut state = State::default();
        let mut at = MAGIC.len() + 1;
        loop {
            let head = bytes.get(at..at + HEAD).ok_or_else(|| broken(bytes.len(), "cut short"))?;
            let (tag, len) = (head[0], u64::from_le_bytes(*head[1..].first_chunk().unwrap_or(&[0; 8])));
            let sum = u32::from_le_bytes(*head[9..].first_chunk().unwrap_or(&[0; 4]));
            let start = at + HEAD;
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
            let contents = end.and_then(|end| bytes.get(start..end));
            let contents = contents.ok_or_else(|| broken(bytes.len(), "cut short"))?;
            if crc32(contents) != sum {
                return Err(broken(start, "the checksum of what begins here is wrong"));
            }
            match tag {
                b'l' => state.links = links(contents, start)?,
                b'r' => {
                    let ruleset = Ruleset::from_saved(contents);
                    state.ruleset = ruleset.map_err(|e| broken(start + e.at, &e.what))?;
                }
                b'c' => state.connections = connections(contents, start)?,
                b'e' => return Ok(state),
                _ => return Err(broken(at, "no such part of a state")),
            }
            at = start + contents.len();
        }
    }

    /// The index that a TAP had.
    pub(crate) fn index_of(&self, name: &str) -> Option<u32> {
        self.links.iter().find(|(_, of)| of == name).map(|(index, _)| *index)
    }

    /// Reads a file; `None` if there is none yet, and what is wrong with it if it is broken. The outer error is a sentence.
    pub(crate) fn read(path: &Path) -> Result<Option<Result<State, Broken>>, String> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(State::from_bytes(&bytes))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }
}

fn links(contents: &[u8], start: usize) -> Result<Vec<(u32, String)>, Broken> {
    let text = std::str::from_utf8(contents);
    let text = text.map_err(|e| Broken { at: start + e.valid_up_to(), reason: "not text".into() })?;
    let mut at = start;
    text.split_inclusive('\n')
        .map(|line| {
            let link = line.trim_end().split_once(' ');
            let link = link.and_then(|(index, name)| Some((index.parse().ok()?, name.to_owned())));
            let link = link.ok_or_else(|| Broken { at, reason: "not a link".into() });
            at += line.len();
            link
        })
        .collect()
}

/// Looks whether all of a dump can be loaded.
fn connections(contents: &[u8], start: usize) -> Result<String, Broken> {
    let text = std::str::from_utf8(contents);
    let text = text.map_err(|e| Broken { at: start + e.valid_up_to(), reason: "not text".into() })?;
    let settings = Settings { max: u32::MAX, ..Settings::default() };
    match Conntrack::new(settings).load(text, 1) {
        Ok(_) => Ok(text.to_owned()),
        Err(e) => {
            let before = text.split_inclusive('\n').take(e.line - 1);
            Err(Broken { at: start + before.map(str::len).sum::<usize>(), reason: e.reason })
        }
    }
}

/// A name beside that of a file.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(end);
    PathBuf::from(beside)
}

/// Where what is to be in the place of a file is written first.
pub(crate) fn new_beside(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// Puts bytes in the place of a file, all or nothing.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = new_beside(path);
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    // Half of a file is of no use, and takes room where there is little.
    write().inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    // The new name is to last, too.
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_lang::names::NoNames;
    use penstock_lang::session::{Options, Session};
    use penstock_lang::source::{NoFiles, Origin};

    const FLOW: &str = "flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 \
                        status=14 left=5000000000 udp=0";

    fn state() -> State {
        let mut ruleset = Ruleset::default();
        let text = "table ip t { set s { type ipv4_addr; timeout 1h; elements = { 198.18.0.1 } }; chain c { counter; }; }";
        let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
            Origin::CommandLine,
            text.into(),
            &mut ruleset,
            7_000_000_000,
        );
        assert!(outcome.ok, "{}", outcome.stderr);
        let connections = format!("penstock-conntrack 1\n{FLOW}\n");
        State { links: vec![(7, "eth0".into()), (9, "wan".into())], ruleset, connections }
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        let bytes = state().to_bytes(8_000_000_000);
        let back = State::from_bytes(&bytes).expect("a state");
        assert_eq!((back.index_of("wan"), back.index_of("lan")), (Some(9), None));
        assert_eq!(back.connections, state().connections);
        assert_eq!(back.to_bytes(8_000_000_000), bytes);
    }

    #[test]
    fn whatever_is_broken_is_found_with_its_place() {
        let bytes = state().to_bytes(8_000_000_000);
        for cut in 0..bytes.len() {
            let broken = State::from_bytes(&bytes[..cut]).expect_err("cut short");
            assert!(broken.at <= cut, "{cut}: {broken}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(State::from_bytes(&bytes).is_err(), "{at}");
        }
        // A line of a connection that makes no sense, with a checksum that does.
        let wrong = State { connections: format!("penstock-conntrack 1\n{FLOW}\nflow id=2\n"), ..state() };
        let bytes = wrong.to_bytes(1);
        let place = bytes.windows(9).position(|w| w == b"flow id=2").expect("it is there");
        assert_eq!(State::from_bytes(&bytes).map_err(|e| e.at).err(), Some(place));
    }
}
