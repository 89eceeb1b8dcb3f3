// SPDX-License-Identifier: Apache-2.0

//! Words of a line, as iptables-save quotes them.

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// It was in quotes, and is no option.
    pub is_quoted: bool,
}

/// The words of a line. `None` if a quote is not closed.
pub fn words(line: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = chars.peek().copied() else { return Some(words) };
        let mut word = Word { text: String::new(), is_quoted: matches!(first, '"' | '\'') };
        let mut quote = None;
        loop {
            match (chars.next(), quote) {
                (None, Some(_)) => return None,
                (None, None) => break,
                (Some('\\'), Some('"') | None) => word.text.extend(chars.next()),
                (Some(c), Some(open)) if c == open => quote = None,
                (Some(c), Some(_)) => word.text.push(c),
                (Some(c @ ('"' | '\'')), None) => quote = Some(c),
                (Some(c), None) if c.is_whitespace() => break,
                (Some(c), None) => word.text.push(c),
            }
        }
        words.push(word);
    }
}

/// A string of nft, which has no quotes in it, in quotes.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'").replace(['\n', '\r'], " "))
}

/// A name that nft takes.
pub fn name_of(name: &str) -> String {
    let replaced = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_words_together() {
        for (line, expected) in [
            ("-A INPUT  -j DROP", Some(&["-A", "INPUT", "-j", "DROP"][..])),
            (r#"--comment "two \"words\"" -x"#, Some(&["--comment", "two \"words\"", "-x"])),
            (r#"--log-prefix "-a: ""#, Some(&["--log-prefix", "-a: "])),
            (r#"--string """#, Some(&["--string", ""])),
            (r#"--comment "open"#, None),
            ("", Some(&[])),
        ] {
            let found = words(line);
            let texts = found.as_ref().map(|w| w.iter().map(|w| w.text.as_str()).collect());
            assert_eq!(texts, expected.map(|e| e.to_vec()), "{line}");
        }
        assert!(words(r#"--log-prefix "-a: ""#).is_some_and(|w| w[1].is_quoted && !w[0].is_quoted));
    }
}
