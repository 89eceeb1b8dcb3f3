// SPDX-License-Identifier: Apache-2.0

//! Filters in the language of pcap (pcap-filter(7)), compiled to classic BPF.
//!
//! ```text
//! text -> tokens -> tree -> conditions -> graph of tests -> instructions
//! ```
//!
//! A program returns 65535 for packets that the filter matches and 0 for others, also where a packet
//! ends before a field that the filter reads. It means what libpcap's program means. This crate
//! knows no rule and no device; names of hosts are not looked up, and names of services and
//! protocols are the same on each machine.
//!
//! ```
//! use penstock_pcapfilter::{Link, compile};
//!
//! let program = compile("len > 60", Link::Raw).unwrap();
//! let text: Vec<String> = program.iter().map(ToString::to_string).collect();
//! assert_eq!(text, ["128 0 0 0", "37 0 1 60", "6 0 0 65535", "6 0 0 0"]);
//! let error = compile("tcp port many", Link::Raw).unwrap_err();
//! assert_eq!((error.at, &*error.why), (9..13, "there is no service `many`"));
//! ```

use std::fmt;
use std::ops::Range;

mod condition;
mod emit;
mod generate;
mod graph;
mod names;
mod parse;
mod token;
mod tree;

/// Longest text of a filter, in bytes.
pub const LONGEST: usize = 4096;

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The header of IPv4 or IPv6 (`DLT_RAW`).
    Raw,
    /// The header of Ethernet (`DLT_EN10MB`).
    Ethernet,
}

/// An instruction of classic BPF (`struct sock_filter`). Its text is that of `tcpdump -ddd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Class, mode, size and operation.
    pub code: u16,
    /// Instructions to leave out if a comparison holds.
    pub jt: u8,
    /// Instructions to leave out if it does not hold.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.code, self.jt, self.jf, self.k)
    }
}

/// Why a filter has no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The bytes of the text that it is about.
    pub at: Range<usize>,
    /// What is wrong with them.
    pub why: String,
}

impl Error {
    fn new(at: Range<usize>, why: impl Into<String>) -> Error {
        Error { at, why: why.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at.start, self.why)
    }
}

impl std::error::Error for Error {}

type Result<T> = std::result::Result<T, Error>;

/// The program of a filter. An empty filter matches all packets.
///
/// # Errors
/// Where the text is none of a filter, or has no translation for the link.
pub fn compile(text: &str, link: Link) -> Result<Vec<Instruction>> {
    if text.len() > LONGEST {
        return Err(Error::new(0..text.len(), "the filter is longer than 4096 bytes"));
    }
    let condition = match parse::parse(text)? {
        Some(filter) => generate::condition(&filter, link)?,
        None => condition::Condition::Constant(true),
    };
    let whole = |why: String| Error::new(0..text.len(), why);
    let mut graph = graph::Graph::new(&condition).map_err(|why| whole(why.into()))?;
    graph.optimize();
    emit::program(&graph).map_err(whole)
}
