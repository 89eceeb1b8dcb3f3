// SPDX-License-Identifier: Apache-2.0

//! Where rules and elements end, found without reading them ([`Mode::Skip`]).
//!
//! Only what a glance settles is skipped. Whether it is right shows when it is read, and a text
//! with anything wrong in it is read once more from the start then, with nothing skipped, to say
//! all that there is to say.

use super::*;

/// The end of a rule that starts at a byte. `None` where it has definitions in it, may update sets,
/// or ends in another way than with a line, a `;` or a comment.
fn rule_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0u32;
    let mut at = start;
    let mut refers = false;
    let end = loop {
        match bytes.get(at)? {
            b'\n' | b';' | b'#' if depth == 0 => break at,
            b'#' => at += bytes[at..].iter().position(|&b| b == b'\n')?,
            b'"' => {
                let text = &bytes[at + 1..];
                let len = text.iter().position(|&b| b == b'"')?;
                // The prefix of `log` may name variables.
                if text[..len].contains(&b'$') {
                    return None;
                }
                at += 1 + len;
            }
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            b'@' => refers = true,
            b'$' | b'\\' => return None,
            _ => {}
        }
        at += 1;
    };
    let rule = bytes[start..end].trim_ascii_end();
    let updates: &[&[u8]] =
        if refers { &[b"add", b"update", b"delete", b"set", b"meter"] } else { &[b"meter"] };
    let mut words = rule.split(|b| !b.is_ascii_alphanumeric());
    if words.any(|word| updates.contains(&word)) { None } else { Some(start + rule.len()) }
}

/// The end of elements in braces that start at a byte. `None` where they have definitions or braces
/// in them.
fn elements_end(text: &str, start: usize) -> Option<usize> {
    let inside = start + 1;
    let end = inside + text.get(inside..)?.find('}')?;
    let bytes = text.as_bytes().get(inside..end)?;
    // Without a branch per byte this is fast, and most sets are large for having few of these.
    let any = |bytes: &[u8]| {
        bytes.iter().fold(false, |any, b| any | matches!(b, b'$' | b'{' | b'\\' | b'"' | b'#'))
    };
    if !bytes.chunks(256).any(any) {
        return Some(end + 1);
    }
    let bytes = text.as_bytes();
    let mut at = inside;
    loop {
        match bytes.get(at)? {
            b'}' => return Some(at + 1),
            b'"' => at += 1 + bytes[at + 1..].iter().position(|&b| b == b'"')?,
            b'#' => at += bytes[at..].iter().position(|&b| b == b'\n')?,
            b'$' | b'{' | b'\\' => return None,
            _ => {}
        }
        at += 1;
    }
}

impl Parser<'_> {
    /// Skips the rule ahead; returns its place.
    pub(super) fn skip_rule(&mut self) -> Option<Loc> {
        let start = self.peek();
        (start.tok == Tok::Word)
            .then(|| self.skip(start.loc, |text, at| rule_end(text.as_bytes(), at)))?
    }

    /// Skips the elements in braces ahead; returns their place.
    pub(super) fn skip_elements(&mut self) -> Option<Loc> {
        let start = self.peek();
        (start.tok == Tok::LeftBrace && self.depth < MAX_DEPTH)
            .then(|| self.skip(start.loc, elements_end))?
    }

    fn skip(&mut self, start: Loc, end: impl Fn(&str, usize) -> Option<usize>) -> Option<Loc> {
        if self.mode != Mode::Skip {
            return None;
        }
        let frame = self.frames.last_mut().filter(|frame| frame.input == start.input)?;
        let text = &self.inputs.inputs.get(start.input as usize)?.text;
        let end = end(text, start.start as usize)?;
        let loc = Loc { end: u32::try_from(end).ok()?, ..start };
        frame.pos = end;
        self.ahead = [None, None];
        self.last_but_one = self.last;
        self.last = loc;
        self.skipped = true;
        Some(loc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_rules_and_elements_are_skipped() {
        for (text, rule) in [
            ("ip saddr 198.18.0.1 accept\n}", Some("ip saddr 198.18.0.1 accept")),
            ("tcp dport { 1, # }\n 2 } drop ; x\n", Some("tcp dport { 1, # }\n 2 } drop")),
            ("log prefix \"a;b } # \" drop # all\n", Some("log prefix \"a;b } # \" drop")),
            ("jump { accept; drop\n }\n", Some("jump { accept; drop\n }")),
            ("ip saddr @lan drop\n", Some("ip saddr @lan drop")),
            ("set update ip saddr @lan\n", None),
            ("add @s { ip saddr }\n", None),
            ("ip saddr . ip daddr @s meter x\n", None),
            ("accept }\n", None),
            ("ip saddr $lan accept\n", None),
            ("log prefix \"$lan: \"\n", None),
            ("accept \\\n", None),
            ("accept", None),
            ("log prefix \"a\n", None),
        ] {
            assert_eq!(rule_end(text.as_bytes(), 0), rule.map(str::len), "{text}");
        }
        for (text, end) in [
            ("{ 1, 2 } x", Some(8)),
            ("{ 1 comment \"}\", 2 # }\n, 3 }", Some(28)),
            ("{ $a }", None),
            ("{ { 1 } }", None),
            ("{ 1, 2", None),
        ] {
            assert_eq!(elements_end(text, 0), end, "{text}");
        }
    }
}
