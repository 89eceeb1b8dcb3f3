// SPDX-License-Identifier: Apache-2.0

//! Lines: comments, quotes, continuations.

/// Logical lines with the number (from 1) of the first physical line of each; comments and blank
/// lines are left out.
pub fn lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut all = Vec::new();
    let mut pending = String::new();
    let mut first = 0;
    for (i, line) in text.lines().enumerate() {
        if pending.is_empty() {
            first = i + 1;
        }
        let line = line.split('#').next().unwrap_or("");
        if let Some(head) = line.trim_end().strip_suffix('\\') {
            pending.push_str(head);
            pending.push(' ');
            continue;
        }
        pending.push_str(line);
        let words = words(&pending);
        pending.clear();
        if !words.is_empty() {
            all.push((first, words));
        }
    }
    let words = words(&pending);
    if !words.is_empty() {
        all.push((first, words));
    }
    all
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
        let read = lines(text);
        let read: Vec<_> = read.iter().map(|(n, words)| (*n, words.join("|"))).collect();
        let want = [(2, "qdisc|add|dev|lan"), (5, "alias|two words|and more"), (6, "last")];
        assert_eq!(read, want.map(|(n, words)| (n, words.to_owned())));
    }
}
