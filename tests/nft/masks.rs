//! What the two may differ in, and why. Everything here stands in docs/differences.md; nothing else is left out of a
//! comparison.

/// nft's text, in lines, without what nft 1.0.6 gets wrong or what is not the same twice.
pub fn theirs(text: &str) -> Vec<String> {
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
pub fn ours(text: &str) -> Vec<String> {
    lines(text)
        .map(|line| {
            // Limits with the burst that is meant anyway.
            let line = line.replace(" burst 5 packets", "");
            // What JSON of nft 1.0.6 loses.
            let line = line.replace(", \"dynamic\"]", "]").replace(", \"flags\": [\"dynamic\"]", "");
            let line = line.replace(", \"auto-merge\": true", "");
            let line = line.replace(", \"dev\": \"lo\"", "");
            without_map_statement_object(&line)
        })
        .collect()
}

/// nft 1.0.6 has tables, chains and objects printed by `--debug=netlink` before their names are there.
fn is_nameless(line: &str) -> bool {
    line.contains("(null)")
}

/// Lines, and objects of JSON as lines, without numbers and times that differ from run to run.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let text = text.replace("}}, {\"", "}},\n{\"").replace("}, {\"", "},\n{\"");
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let line = line.trim_end();
            // A table's handle counts all tables that the namespace ever had.
            if line.trim_start().starts_with("table ") {
                return without_number(line, "# handle ");
            }
            if line.starts_with("{\"table\"") {
                return without_number(line, "\"handle\": ");
            }
            // Time goes on between two commands.
            without_word(&without_number(line, "\"expires\": "), "expires ")
        })
        .collect();
    lines.into_iter()
}

/// The line with `N` for the number behind `name`.
fn without_number(line: &str, name: &str) -> String {
    without(line, name, |c| c.is_ascii_digit())
}

/// The line with `N` for the word behind `name`.
fn without_word(line: &str, name: &str) -> String {
    without(line, name, |c| c.is_ascii_alphanumeric())
}

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
fn without_map_statement_object(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some(at) = line.find("{\"map\": {\"op\": ") {
        let mut depth = 0;
        let end = line[at..].bytes().position(|b| {
            depth += i32::from(b == b'{') - i32::from(b == b'}');
            depth == 0
        });
        let Some(end) = end else { break };
        line.replace_range(at..=at + end, "MAP");
    }
    line
}
