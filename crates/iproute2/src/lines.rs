// SPDX-License-Identifier: Apache-2.0

//! Lines: comments, quotes, continuations.

/// Logical lines with the number (from 1) of the first physical line of each, as they are read;
/// comments and blank lines are left out.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    let mut physical = text.lines().enumerate();
    std::iter::from_fn(move || {
        let mut whole = String::new();
        let mut first = 0;
        loop {
            let Some((i, line)) = physical.next() else {
                let words = words(&whole);
                return (!words.is_empty()).then_some((first, words));
            };
            if whole.is_empty() {
                first = i + 1;
            }
            let line = line.split('#').next().unwrap_or("");
            if let Some(head) = line.trim_end().strip_suffix('\\') {
                whole.push_str(head);
                whole.push(' ');
                continue;
            }
            whole.push_str(line);
            let words = words(&whole);
            if !words.is_empty() {
                return Some((first, words));
            }
            whole.clear();
        }
    })
}

fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = line.trim_start();
    while let Some(c) = rest.chars().next() {
        let (word, tail) = if c == '"' || c == '\'' {
            let body = &rest[1..];
            match body.find(c) {
                Some(end) => (&body[..end], &body[end + 1..]),
                None => (body, ""),
            }
        } else {
            rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()))
        };
        out.push(word.to_owned());
        rest = tail.trim_start();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_continue_after_a_backslash_and_words_may_be_quoted() {
        let text =
            "# comment\nqdisc add \\\n dev lan # here\n\nalias \"two words\" 'and more'\nlast \\";
        let read: Vec<_> = lines(text).map(|(n, words)| (n, words.join("|"))).collect();
        let want = [(2, "qdisc|add|dev|lan"), (5, "alias|two words|and more"), (6, "last")];
        assert_eq!(read, want.map(|(n, words)| (n, words.to_owned())));
    }
}
