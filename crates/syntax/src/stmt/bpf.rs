// SPDX-License-Identifier: Apache-2.0

//! `bpf bytecode "…"`: a match by a program of classic BPF, which is the extension `bpf` of x_tables
//! with another spelling (`net/netfilter/xt_bpf.c`). The program is written as `nfbpf_compile` and
//! `tcpdump -ddd` print it: the number of instructions, then each as four numbers.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::ast::StmtKind;
use crate::json::read::{Reader, maybe_text};
use crate::parse::{Parsed, Parser};

/// The name and the revision of the extension.
const NAME: &str = "bpf";
const REV: u32 = 1;
/// Instructions at most (`XT_BPF_MAX_NUM_INSTR`).
const MOST: usize = 64;
/// Where they begin in `struct xt_bpf_info_v1`, and its length.
const BEGIN: usize = 8;
const LEN: usize = BEGIN + 8 * MOST + 8;

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

/// The text of a program that stands in a rule; `None` for other extensions, and for programs of
/// files.
pub(super) fn text(target: bool, name: &str, rev: u32, info: &[u8]) -> Option<String> {
    if target || name != NAME || rev > REV {
        return None;
    }
    let number = |at: usize| Some(u16::from_ne_bytes(*info.get(at..)?.first_chunk()?));
    let (count, begin) = match rev {
        0 => (number(0)?, 4),
        _ if number(0)? == 0 => (number(2)?, BEGIN),
        _ => return None,
    };
    let mut text = count.to_string();
    for at in 0..usize::from(count) {
        let at = begin + 8 * at;
        let [jt, jf] = *info.get(at + 2..)?.first_chunk()?;
        let k = u32::from_ne_bytes(*info.get(at + 4..)?.first_chunk()?);
        let _ = write!(text, ",{} {jt} {jf} {k}", number(at)?);
    }
    Some(text)
}

fn statement(text: &str) -> Result<StmtKind, &'static str> {
    Ok(StmtKind::Xt { target: false, name: NAME.into(), rev: REV, info: info(text)? })
}

impl Parser<'_> {
    pub(super) fn bpf(&mut self) -> Parsed<StmtKind> {
        self.take();
        self.need("bytecode")?;
        let program = self.string()?;
        match statement(&program.text) {
            Ok(statement) => Ok(statement),
            Err(why) => self.error(program.loc, why),
        }
    }
}

/// As JSON.
pub(super) fn written(text: &str) -> Value {
    json!({ "bpf": { "bytecode": text } })
}

impl Reader<'_> {
    pub(super) fn bpf(&mut self, body: &Value) -> Option<StmtKind> {
        let program = body.as_object().and_then(|body| maybe_text(body, "bytecode"));
        let Some(program) = program else { return self.error("bpf needs bytecode.") };
        match statement(program) {
            Ok(statement) => Some(statement),
            Err(why) => self.error(why),
        }
    }
}
