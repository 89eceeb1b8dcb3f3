// SPDX-License-Identifier: Apache-2.0

//! `bpf_trace_printk()` (`kernel/trace/bpf_trace.c`): a line for whom reads the trace.

use std::fmt::Write;

use super::Called;
use crate::fault::FaultKind;
use crate::map::Errno;
use crate::run::Run;

/// Bytes of the longest line (`MAX_TRACE_PRINTK_VARARGS` and its buffer in the kernel).
const LONGEST: usize = 1024;

pub(super) fn printk(run: &mut Run<'_>) -> Called {
    let len = run.length("bpf_trace_printk", 2)?;
    let wrong = FaultKind::Argument("bpf_trace_printk", 1);
    let format = run.memory(run.r[1], len).ok_or(wrong)?;
    // The format ends with a zero byte.
    let Some((0, format)) = format.split_last() else { return Ok(Errno::INVAL.result()) };
    let format: Vec<u8> = format.iter().copied().take_while(|byte| *byte != 0).collect();
    match line(run, &format) {
        Some(mut line) => {
            let written = line.len() as u64;
            if line.ends_with('\n') {
                line.pop();
            }
            run.host.trace(&line);
            Ok(written)
        }
        None => Ok(Errno::INVAL.result()),
    }
}

/// The line, or nothing for a format that the kernel refuses or that is not supported.
fn line(run: &Run<'_>, format: &[u8]) -> Option<String> {
    let mut line = String::new();
    let mut arguments = [run.r[3], run.r[4], run.r[5]].into_iter();
    let mut rest = format.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            if !(byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
                return None;
            }
            line.push(char::from(*byte));
            continue;
        }
        let mut longs = 0;
        let mut zero = false;
        let mut width = 0;
        let kind = loop {
            match rest.next()? {
                b'l' => longs += 1,
                b'0' if width == 0 => zero = true,
                digit @ b'0'..=b'9' if width < 100 => {
                    width = width * 10 + usize::from(digit - b'0');
                }
                other => break *other,
            }
        };
        if kind == b'%' {
            line.push('%');
            continue;
        }
        let value = arguments.next()?;
        let short = if longs == 0 { u64::from(value as u32) } else { value };
        let text = match kind {
            b'd' | b'i' if longs == 0 => format!("{}", value as i32),
            b'd' | b'i' => format!("{}", value as i64),
            b'u' => format!("{short}"),
            b'x' => format!("{short:x}"),
            b'X' => format!("{short:X}"),
            b'c' => char::from(value as u8).to_string(),
            b's' => string(run, value)?,
            _ => return None,
        };
        if zero && kind != b's' && kind != b'c' {
            write!(line, "{text:0>width$}").ok()?;
        } else {
            write!(line, "{text:>width$}").ok()?;
        }
        if line.len() > LONGEST {
            return None;
        }
    }
    Some(line)
}

/// Letters up to a zero byte.
fn string(run: &Run<'_>, mut at: u64) -> Option<String> {
    let mut text = String::new();
    while text.len() < LONGEST {
        match run.memory(at, 1)?.first()? {
            0 => break,
            byte => text.push(char::from(*byte)),
        }
        at += 1;
    }
    Some(text)
}
