// SPDX-License-Identifier: Apache-2.0

//! `bpf bytecode "…"`: a match by a program of classic BPF, which is the extension `bpf` of x_tables
//! with another spelling (`net/netfilter/xt_bpf.c`). The program is written as `nfbpf_compile` and
//! `tcpdump -ddd` print it: the number of instructions, then each as four numbers.
//!
//! `bpf filter "…"`: the same with the program of a filter of pcap. The filter itself stands in the
//! structure after the program, where x_tables has room that nothing reads, so that it goes wherever
//! the rule goes. A listing shows it if it is there and is that of the program.

use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use penstock_pcapfilter::{Instruction, Link};
use serde_json::{Value, json};

use crate::ast::StmtKind;
use crate::json::read::{Reader, maybe_text};
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

/// The name and the revision of the extension.
const NAME: &str = "bpf";
const REV: u32 = 1;
/// Instructions at most (`XT_BPF_MAX_NUM_INSTR`).
const MOST: usize = 64;
/// Where they begin in `struct xt_bpf_info_v1`, and its length.
const BEGIN: usize = 8;
const END: usize = BEGIN + 8 * MOST;
const LEN: usize = END + 8;
/// What is before the text of a filter. The text ends with a zero.
const FILTER: &[u8] = b"pcap";

/// The structure of a program in text.
fn info(text: &str) -> Result<Arc<[u8]>, &'static str> {
    let mut parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let count = parts.next().and_then(|count| count.parse::<usize>().ok());
    let count = count.ok_or("a program of BPF begins with the number of its instructions")?;
    if !(1..=MOST).contains(&count) {
        return Err("a program of BPF has 1 to 64 instructions");
    }
    let mut info = vec![0; LEN];
    info[2..4].copy_from_slice(&(count as u16).to_ne_bytes());
    let mut found = 0;
    for (part, place) in parts.zip(info[BEGIN..].chunks_exact_mut(8)) {
        let wrong = "an instruction of BPF is four numbers";
        let words: Vec<&str> = part.split_whitespace().collect();
        let [code, jt, jf, k] = words[..] else { return Err(wrong) };
        let code: u16 = code.parse().map_err(|_| wrong)?;
        let jumps = [jt.parse::<u8>().map_err(|_| wrong)?, jf.parse().map_err(|_| wrong)?];
        let k: u32 = k.parse().map_err(|_| wrong)?;
        place[..2].copy_from_slice(&code.to_ne_bytes());
        place[2..4].copy_from_slice(&jumps);
        place[4..].copy_from_slice(&k.to_ne_bytes());
        found += 1;
    }
    if found == count { Ok(info.into()) } else { Err("a program of BPF has another length") }
}

/// The structure of a filter of pcap; where the filter is wrong, and why.
fn filter_info(text: &str) -> Result<Arc<[u8]>, (Range<usize>, String)> {
    let program = penstock_pcapfilter::compile(text, Link::Raw).map_err(|e| (e.at, e.why))?;
    if program.len() > MOST {
        let why = format!("the filter has {} instructions, of {MOST} at most", program.len());
        return Err((0..text.len(), why));
    }
    let mut info = vec![0; LEN];
    info[2..4].copy_from_slice(&(program.len() as u16).to_ne_bytes());
    for (step, place) in program.iter().zip(info[BEGIN..].chunks_exact_mut(8)) {
        place[..2].copy_from_slice(&step.code.to_ne_bytes());
        place[2..4].copy_from_slice(&[step.jt, step.jf]);
        place[4..].copy_from_slice(&step.k.to_ne_bytes());
    }
    let room = &mut info[BEGIN + 8 * program.len()..END];
    if FILTER.len() + text.len() < room.len() {
        room[..FILTER.len()].copy_from_slice(FILTER);
        room[FILTER.len()..][..text.len()].copy_from_slice(text.as_bytes());
    }
    Ok(info.into())
}

/// A program of a rule as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Program {
    Bytecode(String),
    Filter(String),
}

impl Program {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Program::Bytecode(text) => ("bytecode", text),
            Program::Filter(text) => ("filter", text),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = self.parts();
        write!(f, "bpf {word} \"{text}\"")
    }
}

/// A program that stands in a rule; `None` for other extensions, and for programs of files.
pub(super) fn program(target: bool, name: &str, rev: u32, info: &[u8]) -> Option<Program> {
    if target || name != NAME || rev > REV {
        return None;
    }
    let number = |at: usize| Some(u16::from_ne_bytes(*info.get(at..)?.first_chunk()?));
    let (count, begin) = match rev {
        0 => (number(0)?, 4),
        _ if number(0)? == 0 => (number(2)?, BEGIN),
        _ => return None,
    };
    let mut program = Vec::new();
    for at in 0..usize::from(count) {
        let at = begin + 8 * at;
        let [jt, jf] = *info.get(at + 2..)?.first_chunk()?;
        let k = u32::from_ne_bytes(*info.get(at + 4..)?.first_chunk()?);
        program.push(Instruction { code: number(at)?, jt, jf, k });
    }
    if let Some(text) = filter_text(rev, info, &program) {
        return Some(Program::Filter(text.into()));
    }
    let mut text = count.to_string();
    for step in program {
        let _ = write!(text, ",{step}");
    }
    Some(Program::Bytecode(text))
}

/// The filter that stands after a program, if it is the one of the program.
fn filter_text<'a>(rev: u32, info: &'a [u8], program: &[Instruction]) -> Option<&'a str> {
    if rev != REV {
        return None;
    }
    let text = info.get(BEGIN + 8 * program.len()..END)?.strip_prefix(FILTER)?;
    let text = text.split(|byte| *byte == 0).next()?;
    let text = std::str::from_utf8(text).ok()?;
    let again = penstock_pcapfilter::compile(text, Link::Raw).ok()?;
    (again == program).then_some(text)
}

fn of(info: Arc<[u8]>) -> StmtKind {
    StmtKind::Xt { target: false, name: NAME.into(), rev: REV, info }
}

impl Parser<'_> {
    pub(super) fn bpf(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.eat("filter") {
            let filter = self.string()?;
            return match filter_info(&filter.text) {
                Ok(info) => Ok(of(info)),
                Err((at, why)) => self.error(within(filter.loc, &filter.text, at), why),
            };
        }
        self.need("bytecode")?;
        let program = self.string()?;
        match info(&program.text) {
            Ok(info) => Ok(of(info)),
            Err(why) => self.error(program.loc, why),
        }
    }
}

/// The place of some bytes of a string, which may have a quotation mark before it.
fn within(loc: Loc, text: &str, at: Range<usize>) -> Loc {
    let len = (loc.end - loc.start) as usize;
    let first = len.saturating_sub(text.len()) / 2;
    let byte = |at: usize| (loc.start + (first + at) as u32).min(loc.end);
    Loc { start: byte(at.start), end: byte(at.end.max(at.start + 1)), ..loc }
}

/// As JSON.
pub(super) fn written(program: &Program) -> Value {
    let (word, text) = program.parts();
    json!({ "bpf": { word: text } })
}

impl Reader<'_> {
    pub(super) fn bpf(&mut self, body: &Value) -> Option<StmtKind> {
        let body = body.as_object();
        if let Some(filter) = body.and_then(|body| maybe_text(body, "filter")) {
            return match filter_info(filter) {
                Ok(info) => Some(of(info)),
                Err((at, why)) => self.error(format!("bpf filter, byte {}: {why}", at.start)),
            };
        }
        let Some(program) = body.and_then(|body| maybe_text(body, "bytecode")) else {
            return self.error("bpf needs bytecode or filter.");
        };
        match info(program) {
            Ok(info) => Some(of(info)),
            Err(why) => self.error(why),
        }
    }
}
