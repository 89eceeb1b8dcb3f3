// SPDX-License-Identifier: Apache-2.0

//! What outlives a process: a ruleset, elements with their timeouts, connections, and the indexes
//! of devices, which rules (`iif`) and masqueraded connections refer to. `penstock up --state` and
//! `penstock nft --state` read and write the same files; [`mod@file`] has what keeps them apart.
//!
//! ```text
//! \x7fpenstock-state\0, version (1 byte)
//! tag (1 byte), length (u64), CRC-32 of tag, length and contents (u32), contents        numbers are little-endian
//! 'l'  links: lines of index and name       'r'  ruleset: Ruleset::save       'c'  connections: Conntrack::dump
//! 's'  sets of ipset: IpSets::save by postcard                                'e'  the end, without contents
//! ```
//!
//! Each part stands there once, in this order, and nothing follows. So each flipped bit and each
//! file that was cut short is found. In versions 1 and 2, which are still read, there are
//! no sets of ipset, and in version 1 the sums are of the contents alone.
//!
//! A checksum only finds accidents: a user who may write the file may write a ruleset. What is read
//! is checked in full all the same ([`Ruleset::from_saved`], [`Conntrack::load`]), so that no file
//! can make the process do what no ruleset could.
//!
//! ```
//! use penstock_state::State;
//!
//! let state = State { links: vec![(7, "wan".into())], ..State::default() };
//! let bytes = state.to_bytes(0);
//! assert_eq!(State::from_bytes(&bytes).map(|state| state.index_of("wan")), Ok(Some(7)));
//! let broken = State::from_bytes(&bytes[..30]).err().map(|broken| broken.at);
//! assert_eq!(broken, Some(30));
//! ```

pub mod call;
pub mod file;
pub mod place;
pub mod unwritten;

use std::fmt;
use std::io;
use std::path::Path;

use penstock_conntrack::{Conntrack, Settings};
use penstock_files::Access;
use penstock_ipset::SavedSet;
use penstock_ruleset::{Ruleset, saved};

const MAGIC: &[u8] = b"\x7fpenstock-state\0";
const VERSION: u8 = 3;
/// The version without sets of ipset.
const WITHOUT_IP_SETS: u8 = 2;
/// The version with checksums over the contents alone.
const SUMS_OF_CONTENTS: u8 = 1;
/// Tag, length, checksum.
const HEAD: usize = 13;
/// Where the checksum stands in it.
const SUM: usize = 9;
const TAGS: [u8; 5] = *b"lrcse";
const IP_SETS: u8 = b's';

/// What is kept.
#[derive(Debug, Default)]
pub struct State {
    /// Indexes and names of devices.
    pub links: Vec<(u32, String)>,
    /// The ruleset.
    pub ruleset: Ruleset,
    /// Connections, as [`Conntrack::dump`] writes them; empty for none.
    pub connections: String,
    /// By how much the wall clock is ahead of the clock that timeouts go by, in nanoseconds; files
    /// are of the wall clock, which the next process begins with.
    pub ahead: i64,
}

/// What is wrong with a file, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// How many bytes were right.
    pub at: usize,
    /// What is wrong there, for people.
    pub reason: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.reason)
    }
}

impl std::error::Error for Broken {}

fn broken(at: usize, reason: impl Into<String>) -> Broken {
    Broken { at, reason: reason.into() }
}

/// A part of a file, and where its contents begin.
struct Part<'b> {
    contents: &'b [u8],
    start: usize,
}

/// Links, ruleset, connections and sets of ipset of a file, with the sums checked.
fn parts(bytes: &[u8]) -> Result<[Part<'_>; 4], Broken> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(other_format(bytes)) };
    let version = *rest.first().ok_or_else(|| broken(bytes.len(), "cut short"))?;
    if ![VERSION, WITHOUT_IP_SETS, SUMS_OF_CONTENTS].contains(&version) {
        let reason = format!(
            "this is version {version} of the format, and not {VERSION}: of another penstock"
        );
        return Err(broken(MAGIC.len(), reason));
    }
    let mut at = MAGIC.len() + 1;
    let [links, ruleset, connections, ip_sets, end] = TAGS.map(|tag| {
        if tag == IP_SETS && version != VERSION {
            return Ok(Part { contents: &[], start: at });
        }
        let cut_short = || broken(bytes.len(), "cut short");
        let head = bytes.get(at..at + HEAD).ok_or_else(cut_short)?;
        let len = u64::from_le_bytes(*head[1..].first_chunk().unwrap_or(&[0; 8]));
        let sum = u32::from_le_bytes(*head[SUM..].first_chunk().unwrap_or(&[0; 4]));
        if head[0] != tag {
            return Err(broken(at, format!("the part `{}` is missing here", char::from(tag))));
        }
        let start = at + HEAD;
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        let contents = end.and_then(|end| bytes.get(start..end)).ok_or_else(cut_short)?;
        let summed = if version == SUMS_OF_CONTENTS { &[] } else { &head[..SUM] };
        if checksum(summed, contents) != sum {
            return Err(broken(at, "the checksum of what begins here is wrong"));
        }
        at = start + contents.len();
        Ok(Part { contents, start })
    });
    let parts = [links?, ruleset?, connections?, ip_sets?];
    if !end?.contents.is_empty() || at != bytes.len() {
        return Err(broken(at, "nothing should follow"));
    }
    Ok(parts)
}

/// What to say of bytes that are no state.
fn other_format(bytes: &[u8]) -> Broken {
    if MAGIC.starts_with(bytes) {
        return broken(bytes.len(), "cut short");
    }
    if bytes.starts_with(saved::KIND) {
        let reason = "a ruleset as penstock nft wrote it before there were checksums: list it as text with the penstock \
                      that wrote it, and load the text with `-f` into a new file";
        return broken(0, reason);
    }
    let reason = match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            "not a saved state: a ruleset as text is loaded with `-f` into a new file"
        }
        _ => "not a saved state",
    };
    broken(0, reason)
}

fn checksum(head: &[u8], contents: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(contents);
    hasher.finalize()
}

impl State {
    /// The state as bytes, at a time of the clock that timeouts go by, in nanoseconds.
    pub fn to_bytes(&self, now: u64) -> Vec<u8> {
        let links: String =
            self.links.iter().map(|(index, name)| format!("{index} {name}\n")).collect();
        let ruleset = self.ruleset.save_ahead(now, self.ahead);
        let ip_sets = self.ruleset.ip_sets().save(now, self.ahead);
        // Vectors and numbers can always be written.
        let ip_sets = postcard::to_stdvec(&ip_sets).unwrap_or_default();
        let parts = [links.as_bytes(), &ruleset, self.connections.as_bytes(), &ip_sets, &[]];
        let mut out = [MAGIC, &[VERSION]].concat();
        for (tag, contents) in TAGS.into_iter().zip(parts) {
            let mut head = [tag; HEAD];
            head[1..SUM].copy_from_slice(&(contents.len() as u64).to_le_bytes());
            let sum = checksum(&head[..SUM], contents);
            head[SUM..].copy_from_slice(&sum.to_le_bytes());
            out.extend_from_slice(&head);
            out.extend_from_slice(contents);
        }
        out
    }

    /// The state of such bytes.
    ///
    /// # Errors
    ///
    /// The first byte that is wrong, and what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<State, Broken> {
        State::from_bytes_at(bytes, u64::MAX)
    }

    /// [`State::from_bytes`] at a time: if it was saved later than that, since the clock was set
    /// back, elements keep the time that was left then.
    ///
    /// # Errors
    ///
    /// Those of [`State::from_bytes`].
    pub fn from_bytes_at(bytes: &[u8], now: u64) -> Result<State, Broken> {
        let [of_links, of_ruleset, of_connections, of_ip_sets] = parts(bytes)?;
        let ruleset = Ruleset::from_saved_at(of_ruleset.contents, now);
        let ruleset = ruleset.map_err(|e| broken(of_ruleset.start + e.at, e.what))?;
        ip_sets(&of_ip_sets, &ruleset, now)?;
        Ok(State {
            links: links(of_links)?,
            ruleset,
            connections: connections(of_connections)?,
            ahead: 0,
        })
    }

    /// The index that a device had.
    pub fn index_of(&self, name: &str) -> Option<u32> {
        self.links.iter().find(|(_, of)| of == name).map(|(index, _)| *index)
    }

    /// Reads a file, at a time in nanoseconds since the epoch; `None` if there is none yet, and
    /// what is wrong with it if it is broken. Waits for changes that are not in it yet.
    ///
    /// # Errors
    ///
    /// Those of [`penstock_files::read`] and [`unwritten::settled`].
    pub fn read(path: &Path, now: u64) -> io::Result<Option<Result<State, Broken>>> {
        unwritten::settled(path)?;
        match penstock_files::read(path) {
            Ok(bytes) => Ok(Some(State::from_bytes_at(&bytes, now))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The connections of a file; `None` if there is no such file, or it is broken.
    pub fn read_connections(path: &Path) -> Option<String> {
        let bytes = penstock_files::read(path).ok()?;
        let [_, _, connections, _] = parts(&bytes).ok()?;
        text(&connections).ok().map(str::to_owned)
    }

    /// Puts the state in the place of a file, at a time of the clock that timeouts go by, in
    /// nanoseconds.
    ///
    /// # Errors
    ///
    /// Those of [`penstock_files::replace`].
    pub fn write(&self, path: &Path, now: u64) -> io::Result<()> {
        penstock_files::replace(path, &self.to_bytes(now), Access::Owner)
    }
}

/// What of a file can be read, part by part.
#[derive(Debug)]
pub struct Salvaged {
    /// What is wrong with the file, as [`State::from_bytes`] finds it.
    pub broken: Option<Broken>,
    /// Indexes and names of devices.
    pub links: Option<Vec<(u32, String)>>,
    /// The ruleset. If its checksum is wrong, it may be another one than the one that was saved.
    pub ruleset: Option<Ruleset>,
    /// Connections, as [`Conntrack::dump`] writes them.
    pub connections: Option<String>,
    /// Names of the parts with a wrong checksum.
    pub changed: Vec<&'static str>,
}

impl Salvaged {
    /// Reads what can be read of a file, whatever is wrong with the rest.
    pub fn from_bytes(bytes: &[u8]) -> Salvaged {
        let mut salvaged = Salvaged {
            broken: State::from_bytes(bytes).err(),
            links: None,
            ruleset: None,
            connections: None,
            changed: Vec::new(),
        };
        let mut at = MAGIC.len() + 1;
        while let Some(head) = bytes.get(at..at + HEAD) {
            let len = u64::from_le_bytes(*head[1..].first_chunk().unwrap_or(&[0; 8]));
            let sum = u32::from_le_bytes(*head[SUM..].first_chunk().unwrap_or(&[0; 4]));
            let start = at + HEAD;
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
            // The last part may be cut short: what is left of it is looked at.
            let end = end.unwrap_or(usize::MAX).min(bytes.len());
            let contents = bytes.get(start..end).unwrap_or_default();
            let part = Part { contents, start };
            let name = match head[0] {
                b'l' => {
                    salvaged.links = links(part).ok();
                    "devices"
                }
                b'r' => {
                    salvaged.ruleset = Ruleset::from_saved(contents).ok();
                    "ruleset"
                }
                b'c' => {
                    salvaged.connections = connections(part).ok();
                    "connections"
                }
                _ => "the rest",
            };
            if checksum(&head[..SUM], contents) != sum {
                salvaged.changed.push(name);
            }
            at = end;
        }
        salvaged
    }
}

/// Whether two states say the same, at whatever times.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let (Ok([links, ruleset, connections, sets]), Ok([links2, ruleset2, connections2, sets2])) =
        (parts(a), parts(b))
    else {
        return false;
    };
    links.contents == links2.contents
        && sets.contents == sets2.contents
        && connections.contents == connections2.contents
        && saved::same(ruleset.contents, ruleset2.contents)
}

fn text<'b>(part: &Part<'b>) -> Result<&'b str, Broken> {
    std::str::from_utf8(part.contents).map_err(|e| broken(part.start + e.valid_up_to(), "not text"))
}

/// Gives a ruleset the sets of ipset of a file.
fn ip_sets(part: &Part<'_>, ruleset: &Ruleset, now: u64) -> Result<(), Broken> {
    if part.contents.is_empty() {
        return Ok(());
    }
    let wrong = || broken(part.start, "these are no sets of ipset");
    let saved: Vec<SavedSet> = postcard::from_bytes(part.contents).map_err(|_| wrong())?;
    // Without a time nothing has expired.
    let now = if now == u64::MAX { 0 } else { now };
    ruleset.ip_sets().restore(&saved, now).map_err(|_| wrong())
}

fn links(part: Part<'_>) -> Result<Vec<(u32, String)>, Broken> {
    let mut at = part.start;
    text(&part)?
        .split_inclusive('\n')
        .map(|line| {
            let link = line.strip_suffix('\n').and_then(|line| line.split_once(' '));
            let link = link.and_then(|(index, name)| Some((index.parse().ok()?, name.to_owned())));
            let link = link.ok_or_else(|| broken(at, "not a link"));
            at += line.len();
            link
        })
        .collect()
}

/// Looks whether all of a dump can be loaded.
fn connections(part: Part<'_>) -> Result<String, Broken> {
    let text = text(&part)?;
    if text.is_empty() {
        return Ok(String::new());
    }
    // A table for as many as there are, with room to spare: the largest one takes 2 GB.
    let room = text.lines().count().saturating_mul(4).saturating_add(1024);
    let settings = Settings { max: u32::try_from(room).unwrap_or(u32::MAX), ..Settings::default() };
    match Conntrack::new(settings).load(text, 1) {
        Ok(_) => Ok(text.to_owned()),
        Err(e) => {
            let before: usize =
                text.split_inclusive('\n').take(e.line.saturating_sub(1)).map(str::len).sum();
            Err(broken(part.start + before, e.reason))
        }
    }
}
