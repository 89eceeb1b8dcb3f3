//! What the two may differ in, and why. All of it stands in docs/differences.md; nothing else is left out.

/// The lines in which the two differ, first those of nft.
pub fn differences(theirs: &str, ours: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (theirs, ours) = (theirs_lines(theirs), ours_lines(ours));
    let same = |(a, b): (&String, &String)| a == b || is_garbled(a);
    let first = theirs.iter().zip(&ours).position(|pair| !same(pair));
    let first = first.or((theirs.len() != ours.len()).then_some(theirs.len().min(ours.len())))?;
    let rest = |lines: &[String]| lines.iter().skip(first).take(4).cloned().collect();
    Some((rest(&theirs), rest(&ours)))
}

/// nft's text, in lines, without what nft 1.0.6 gets wrong or what is not the same twice.
fn theirs_lines(text: &str) -> Vec<String> {
    lines(text)
        .filter(|line| !is_nameless(line))
        // The text of a statement that has no form in JSON goes to JSON as it is, and a warning to standard error.
        .filter(|line| line != "warning: stmt ops map have no json callback")
        // Whether a host name is unknown or nobody could be asked depends on the machine; Penstock asks nobody.
        .map(|line| line.replace(": Temporary failure in name resolution", ": Name or service not known"))
        .map(|line| without_map_statement_text(&line))
        .collect()
}

/// Ours, without what we list and nft 1.0.6 does not.
fn ours_lines(text: &str) -> Vec<String> {
    lines(&without_map_statement_object(text))
        .map(|line| {
            // Limits with the burst that is meant anyway.
            let line = line.replace(" burst 5 packets", "");
            // What JSON of nft 1.0.6 loses.
            let line = line.replace(", \"dynamic\"]", "]").replace(", \"flags\": [\"dynamic\"]", "");
            let line = line.replace(", \"auto-merge\": true", "");
            if line.starts_with("{\"chain\"") { line.replace(", \"dev\": \"lo\"", "") } else { line }
        })
        .collect()
}

/// Rules that nft 1.0.6 lists as something that it cannot read, or that is another rule: fields of some bits in
/// concatenations, and in maps those of the fragment header; names of devices in concatenations behind generated numbers; sets of answers whether an extension header is there, whose
/// numbers become names of protocols.
fn is_garbled(theirs: &str) -> bool {
    let shifted = theirs.contains(" >> ") || theirs.contains("\">>\"");
    let answers = ["exthdr hbh", "exthdr frag", "\"name\": \"hbh\"}", "\"name\": \"frag\"}"];
    let has_set = theirs.contains("{ ") || theirs.contains("\"set\"");
    let empty = theirs.contains(". \"\"") || theirs.contains(", \"\"]");
    theirs.contains("[invalid type]")
        || empty
        || shifted
        || has_set && answers.iter().any(|a| theirs.contains(a))
}

/// nft 1.0.6 has tables, chains and objects printed by `--debug=netlink` before their names are there.
fn is_nameless(line: &str) -> bool {
    line.contains("(null)")
}

/// Lines, and what a ruleset has in JSON one by one, without numbers and times that differ from run to run.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let text = text.replace("}}, {\"", "}},\n{\"");
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let line = line.trim_end();
            // Which of the two is told where both are true.
            let line = &*line.replace("rule: Too many links", "rule: Operation not supported");
            // A table's handle counts all tables that the namespace ever had.
            if line.trim_start().starts_with("table ") {
                return without(line, "# handle ", |c| c.is_ascii_digit());
            }
            if line.starts_with("{\"table\"") {
                return without(line, "\"handle\": ", |c| c.is_ascii_digit());
            }
            // Time goes on between two commands.
            let line = without(line, "\"expires\": ", |c| c.is_ascii_digit());
            without(&line, "expires ", |c| c.is_ascii_alphanumeric())
        })
        .collect();
    lines.into_iter()
}

/// The line with `N` for what consists of such characters behind `name`.
fn without(line: &str, name: &str, part: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(name) {
        let (before, after) = rest.split_at(at + name.len());
        out += before;
        let tail = after.trim_start_matches(&part);
        if tail.len() < after.len() {
            out.push('N');
        }
        rest = tail;
    }
    out + rest
}

/// `"add @map { … }"` in JSON, which nft 1.0.6 has no object for.
fn without_map_statement_text(line: &str) -> String {
    let mut line = line.to_owned();
    for op in ["\"add @", "\"update @", "\"delete @"] {
        while let Some(at) = line.find(op) {
            let Some(end) = line[at + 1..].find('"') else { break };
            line.replace_range(at..at + end + 2, "MAP");
        }
    }
    line
}

/// `{"map": {"op": …}}` in JSON.
fn without_map_statement_object(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.find("{\"map\": {\"op\": ") {
        let mut depth = 0;
        let end = text[at..].bytes().position(|b| {
            depth += i32::from(b == b'{') - i32::from(b == b'}');
            depth == 0
        });
        let Some(end) = end else { break };
        text.replace_range(at..=at + end, "MAP");
    }
    text
}
