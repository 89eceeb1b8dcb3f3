// SPDX-License-Identifier: Apache-2.0

//! What the two may differ in, and why. All of it stands in docs/differences.md; nothing else is
//! left out.

/// The lines in which the two differ, first those of nft.
pub fn differences(theirs: &str, ours: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (theirs, ours) = (theirs_lines(theirs), ours_lines(ours));
    let (mut a, mut b) = (&theirs[..], &ours[..]);
    let rest = |lines: &[String]| lines.iter().take(4).cloned().collect();
    loop {
        match (a, b) {
            ([], []) => return None,
            ([x, more_a @ ..], [y, more_b @ ..]) if same(x, y) => (a, b) = (more_a, more_b),
            ([x, more_a @ ..], [low, high, more_b @ ..]) if is_wrong_range_object(x, low, high) => {
                (a, b) = (more_a, more_b);
            }
            (_, [y, more_b @ ..]) if link_objects_behind_vlan(a, y) > 0 => {
                (a, b) = (&a[link_objects_behind_vlan(a, y)..], more_b);
            }
            (_, [y, more_b @ ..]) if is_lost_match(y) => b = more_b,
            // What the names of Ethernet addresses would have brought back.
            ([x, more_a @ ..], _) if x.contains(ETHER_TYPE_VLAN) => a = more_a,
            _ => return Some((rest(a), rest(b))),
        }
    }
}

/// Differences in standard error, which quotes the text as written.
pub fn error_differences(theirs: &str, ours: &str) -> Option<(Vec<String>, Vec<String>)> {
    let lines = |text: &str| -> Vec<String> {
        let said = text.lines().map(str::trim_end).filter(|line| !is_lack_of_json(line));
        said.map(without_resolver).collect()
    };
    let (theirs, ours) = (lines(theirs), lines(ours));
    if theirs == ours {
        return None;
    }
    let theirs = once(theirs);
    let start = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    let rest = |lines: &[String]| lines[start..].iter().take(4).cloned().collect();
    (theirs != ours).then(|| (rest(&theirs), rest(&ours)))
}

/// Removes errors that are reported twice: nft evaluates the map of
/// `dnat ip addr . port to … map @m` twice.
fn once(lines: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut rest = &lines[..];
    while let [line, tail @ ..] = rest {
        let error = &rest[..rest.len().min(3)];
        if line.contains("Error: ") && kept.ends_with(error) {
            rest = &rest[error.len()..];
            continue;
        }
        kept.push(line.clone());
        rest = tail;
    }
    kept
}

/// Whether nft refuses an empty line between elements, which Penstock takes.
pub fn is_of_blank_lines(stderr: &str) -> bool {
    stderr.lines().any(|line| {
        line.ends_with(":1-1: Error: syntax error, unexpected newline, expecting comma or '}'")
    })
}

/// Whether nft refuses for a mark what later releases take as a number: all but texts, and numbers
/// of another length.
pub fn is_of_mark_as_number(stderr: &str) -> bool {
    const REFUSED: [&str; 3] = ["integer with length ", "network interface name", "string"];
    let found = |line| str::split_once(line, "expected packet mark, expression has type ");
    stderr
        .lines()
        .filter_map(found)
        .any(|(_, found)| !REFUSED.iter().any(|what| found.starts_with(what)))
}

/// Whether nft refuses the name of a table alone after `list counters` and the like, which later
/// releases accept.
pub fn is_of_a_table_alone(stderr: &str) -> bool {
    const WHAT: [&str; 10] = [
        "sets",
        "maps",
        "meters",
        "flowtables",
        "counters",
        "quotas",
        "limits",
        "secmarks",
        "synproxys",
        "tunnels",
    ];
    const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];
    let lines: Vec<&str> = stderr.lines().collect();
    lines.windows(2).any(|pair| {
        let mut words =
            pair[1].split_whitespace().skip_while(|w| !matches!(*w, "list" | "reset")).skip(1);
        let listed = words.next().is_some_and(|word| WHAT.contains(&word));
        let name = words.find(|word| !FAMILIES.contains(word));
        let at = name
            .and_then(|name| pair[1].find(&format!(" {name}")))
            .map(|at| format!(":{}-", at + 2));
        let named = name.is_some_and(|name| name != "table" && !WHAT.contains(&name));
        listed
            && named
            && at.is_some_and(|at| pair[0].contains(&at) && pair[0].contains("unexpected string"))
    })
}

/// The text of a statement that has no form in JSON goes to JSON as it is, and a warning to
/// standard error.
fn is_lack_of_json(line: &str) -> bool {
    line.starts_with("warning: stmt ops ") && line.ends_with(" have no json callback")
}

/// Whether a host name is unknown or no resolver answers depends on the machine; Penstock queries
/// no resolver.
fn without_resolver(line: &str) -> String {
    line.replace(": Temporary failure in name resolution", ": Name or service not known")
}

fn same(theirs: &str, ours: &str) -> bool {
    theirs == ours
        || is_garbled(theirs, ours)
        || are_garbled(theirs, ours)
        || theirs == without_lost_matches(ours)
        || is_lost_code(theirs, ours)
        || is_link_behind_vlan(theirs, ours)
        || is_wrong_range(theirs, ours)
}

/// Whether nft 1.0.6 compares neighbouring fields at once although a statement stands between them,
/// which then meets other packets than the text says (`tcp sport 1 counter tcp dport 2`). Both are
/// programs.
pub fn merges_over_statements(theirs: &str, ours: &str) -> bool {
    let of_match = |line: &&str| {
        line.contains("[ payload load ") || line.contains("[ cmp ") || line.contains("[ bitwise ")
    };
    let count = |text: &str| text.lines().filter(of_match).count();
    let others = |text: &str| {
        text.lines().filter(|line| !of_match(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    count(theirs) < count(ours) && others(theirs) == others(ours)
}

/// nft 1.0.6 lists a lower bound of one selector and an upper bound of the next one as a range of
/// the latter (`tcp sport >= 3 tcp dport <= 5` as `tcp dport 3-5`), which is another rule.
fn is_wrong_range(theirs: &str, ours: &str) -> bool {
    let (theirs, ours): (Vec<&str>, Vec<&str>) =
        (theirs.split(' ').collect(), ours.split(' ').collect());
    let start = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    let end = theirs.iter().rev().zip(ours.iter().rev()).take_while(|(a, b)| a == b).count();
    let rest = ours.get(start..ours.len().saturating_sub(end)).unwrap_or_default();
    let bound = |op: &str| ours.iter().position(|word| *word == op);
    match (bound(">="), bound("<=")) {
        (Some(low), Some(high)) => low < high && rest.contains(&">=") && theirs.len() < ours.len(),
        _ => false,
    }
}

/// Whether a range is wrong in JSON, where each match is a line.
fn is_wrong_range_object(theirs: &str, low: &str, high: &str) -> bool {
    theirs.contains("\"right\": {\"range\": ")
        && low.starts_with("{\"match\": {\"op\": \">=\"")
        && high.starts_with("{\"match\": {\"op\": \"<=\"")
}

/// nft 1.0.6 takes other fields of the link header for fields of VLAN where a VLAN header was asked
/// for before, and then lists other matches than there are; or it lists raw bits, and their place
/// relative to a second header.
fn is_link_behind_vlan(theirs: &str, ours: &str) -> bool {
    let field = ["ether saddr ", "ether daddr ", "@ll,"].iter().any(|field| ours.contains(field));
    theirs.contains("vlan ") && theirs.contains("@ll,") && field
}

const ETHER_TYPE_VLAN: &str = r#"{"match": {"op": "==", "left": {"payload": {"protocol": "ether", "field": "type"}}, "right": "8021q"}}"#;

/// In JSON: how many of nft's lines one of ours stands for.
fn link_objects_behind_vlan(theirs: &[String], ours: &str) -> usize {
    let address = ["saddr", "daddr"]
        .iter()
        .any(|name| ours.contains(&format!("{{\"protocol\": \"ether\", \"field\": \"{name}\"}}")));
    if !address {
        return 0;
    }
    let of_vlan = |line: &&String| line.contains("{\"protocol\": \"vlan\"");
    let fields = theirs.iter().take_while(of_vlan).count();
    match theirs.get(fields) {
        Some(rest) if rest.contains("{\"base\": \"ll\"") => fields + 1,
        _ => 0,
    }
}

/// Where raw bits of the link header say which IP it is, nft 1.0.6 lists no code of `reject`.
fn is_lost_code(theirs: &str, ours: &str) -> bool {
    let without_code = |text: &str| {
        let (before, code) = text.split_once(" with icmp")?;
        let behind: String = code.split(' ').skip(2).map(|word| format!(" {word}")).collect();
        Some(format!("{before}{behind}"))
    };
    let text = theirs.contains("@ll,") && without_code(ours).is_some_and(|ours| ours == theirs);
    text || theirs.starts_with("{\"reject\": null}")
        && ours.starts_with("{\"reject\": {\"type\": \"icmp")
}

/// nft's text, in lines, without what nft 1.0.6 gets wrong or what is not the same twice.
fn theirs_lines(text: &str) -> Vec<String> {
    lines(&without_map_statement_text(text)).filter(|line| !is_nameless(line)).collect()
}

/// Ours, without what we list and nft 1.0.6 does not.
fn ours_lines(text: &str) -> Vec<String> {
    lines(&without_map_statement_object(text))
        .filter(|line| !line.starts_with("# new generation "))
        .map(|line| {
            // Limits with the burst that is meant anyway.
            let line = line.replace(" burst 5 packets", "");
            // What JSON of nft 1.0.6 loses.
            let line =
                line.replace(", \"dynamic\"]", "]").replace(", \"flags\": [\"dynamic\"]", "");
            let line = line.replace(", \"auto-merge\": true", "");
            // Timeouts of `ct timeout`, which are durations here.
            let line =
                if line.trim_start().starts_with("policy = {") { in_seconds(&line) } else { line };
            if line.starts_with("{\"chain\"") {
                line.replace(", \"dev\": \"lo\"", "")
            } else {
                line
            }
        })
        .collect()
}

/// The line with its durations as numbers of seconds.
fn in_seconds(line: &str) -> String {
    let seconds = |word: &str| {
        let (mut sum, mut number) = (0, 0);
        for c in word.chars() {
            match c {
                '0'..='9' => number = number * 10 + u64::from(c) - u64::from('0'),
                'd' | 'h' | 'm' | 's' => {
                    let unit = match c {
                        'd' => 86400,
                        'h' => 3600,
                        'm' => 60,
                        _ => 1,
                    };
                    sum += std::mem::take(&mut number) * unit;
                }
                _ => return None,
            }
        }
        Some(sum.to_string())
    };
    let plain = |word: &str| match word.strip_suffix(',') {
        Some(time) => seconds(time).map(|n| n + ","),
        None => seconds(word),
    };
    let is_time = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let word =
        |word: &str| plain(word).filter(|_| is_time(word)).unwrap_or_else(|| word.to_owned());
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Whether several sets of one rule are garbled.
fn are_garbled(theirs: &str, ours: &str) -> bool {
    let pieces = |text: &str| text.split_inclusive('}').map(str::to_owned).collect::<Vec<_>>();
    let (theirs, ours) = (pieces(theirs), pieces(ours));
    theirs.len() > 1
        && theirs.len() == ours.len()
        && theirs.iter().zip(&ours).all(|(a, b)| a == b || is_garbled(a, b))
}

/// Whether the two differ in what one set is compared with and its elements, and nft 1.0.6 lists
/// that as something that it cannot read, or that is another rule:
///
/// - fields of some bits in concatenations are shifted, and in maps those of the fragment header
///   have no type;
/// - names of devices in concatenations after generated numbers, and of devices that begin alike,
///   are empty;
/// - answers whether an extension header is there become names of protocols;
/// - what follows the hash of a concatenation is lost;
/// - numbers in concatenations of which one field is a wildcard become 0;
/// - ports of connections in concatenations have no type, and their values are lost;
/// - a range up to the last value of some bits continues to the end of the bytes.
fn is_garbled(theirs: &str, ours: &str) -> bool {
    let start = theirs.bytes().zip(ours.bytes()).take_while(|(a, b)| a == b).count();
    let (their_rest, our_rest) = (&theirs.as_bytes()[start..], &ours.as_bytes()[start..]);
    let end =
        their_rest.iter().rev().zip(our_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let differing = &their_rest[..their_rest.len() - end];
    let is_json = theirs.starts_with('{');
    if !is_json && differing.contains(&b'}') {
        return false;
    }
    // From the previous set to the end of the current one.
    let from = if is_json { 0 } else { theirs[..start].rfind('}').unwrap_or(0) };
    let behind = theirs[start..].find('}').map_or(theirs.len(), |at| start + at);
    let part = if is_json { theirs } else { &theirs[from..behind] };
    let shifted = part.contains(" >> ") || part.contains("\">>\"");
    let headers = ["hbh", "rt", "frag", "dst", "mh", "srh"];
    let asks = |h: &&str| {
        part.contains(&format!("exthdr {h}"))
            || part.contains(&format!("{{\"exthdr\": {{\"name\": \"{h}\"}}}}"))
    };
    let answers = headers.iter().any(asks) && (part.contains("{ ") || part.contains("\"set\""));
    let empty =
        [". \"\"", ", \"\"]", "\"\"/", "{\"addr\": \"\""].iter().any(|name| part.contains(name));
    let hashed = part.contains("mod 5 seed 0xbeef . ")
        || part.contains("{\"jhash\"") && part.contains("{\"set\"");
    let beside_wildcard =
        ["*\" . 0", "0 . \"ab*", "*\", 0]", "[0, \"ab*"].iter().any(|lost| part.contains(lost));
    let ports = [
        "ct original proto-",
        "ct reply proto-",
        "{\"key\": \"proto-src\"",
        "{\"key\": \"proto-dst\"",
    ];
    let ports = ports.iter().any(|key| part.contains(key)) && (is_json || part.contains(" . "));
    // Raw bits that are written in part have a wrong mask.
    let written = theirs.contains(" set @") && theirs.contains(" & 0x")
        || theirs.contains("{\"mangle\": {\"key\": {\"payload\": {\"base\"")
            && theirs.contains("{\"&\": [");
    written
        || beside_wildcard
        || part.contains("[invalid type]")
        || ports
        || ends_late(theirs, ours)
        || empty
        || shifted
        || answers
        || hashed
}

/// Whether the two are the same but for ranges up to the last value of some bits, which nft 1.0.6
/// lists with what fills the byte (`15-255` for 15 of four bits, `1-255` for 1 to 7 of three).
fn ends_late(theirs: &str, ours: &str) -> bool {
    (1..8).map(|bits| (1 << bits) - 1).any(|last: u8| {
        let text = theirs
            .replace(&format!(" {last}-255"), &format!(" {last}"))
            .replace("-255", &format!("-{last}"));
        let json = theirs
            .replace(&format!("{{\"range\": [{last}, 255]}}"), &last.to_string())
            .replace(", 255]}", &format!(", {last}]}}"));
        theirs.contains("255") && [text, json].iter().any(|theirs| theirs == ours)
    })
}

/// A match of a connection's protocol, or of an ICMP type before a TCP option, as a statement of
/// JSON: nft 1.0.6 takes it for what a later field brings back.
fn is_lost_match(ours: &str) -> bool {
    let lost = [
        "{\"ct\": {\"key\": \"l3proto\"}}",
        "{\"ct\": {\"key\": \"protocol\"}}",
        "{\"payload\": {\"protocol\": \"icmp\", \"field\": \"type\"}}",
        "{\"payload\": {\"protocol\": \"icmpv6\", \"field\": \"type\"}}",
    ];
    lost.iter()
        .any(|left| ours.contains(&format!("{{\"match\": {{\"op\": \"==\", \"left\": {left}")))
}

/// A rule's text without lost matches.
fn without_lost_matches(ours: &str) -> String {
    let words: Vec<&str> = ours.split(' ').collect();
    let has_option = ours.contains("tcp option");
    let mut kept = Vec::new();
    let mut rest = &words[..];
    while let [word, tail @ ..] = rest {
        rest = match rest {
            [first, "l3proto" | "protocol", value, tail @ ..]
                if first.trim_start() == "ct"
                    && value.starts_with(|c: char| c.is_ascii_alphanumeric()) =>
            {
                // The tabs before it are the rule's.
                kept.extend(first.strip_suffix("ct").filter(|tabs| !tabs.is_empty()));
                tail
            }
            [first, "type", _, tail @ ..]
                if has_option && matches!(first.trim_start(), "icmp" | "icmpv6") =>
            {
                kept.extend(
                    Some(first.trim_end_matches(|c| c != '\t')).filter(|tabs| !tabs.is_empty()),
                );
                tail
            }
            _ => {
                kept.push(word);
                tail
            }
        };
    }
    let text = kept.join(" ");
    match text.strip_prefix("\t\t ") {
        Some(rule) => format!("\t\t{rule}"),
        None => text,
    }
}

/// nft 1.0.6 has tables, chains and objects printed by `--debug=netlink` before their names are
/// there. Echoes count the generations that the namespace ever had.
fn is_nameless(line: &str) -> bool {
    line.contains("(null)") || line.starts_with("# new generation ")
}

/// JSON with a line for each object of a ruleset, and for each statement of a rule.
fn one_by_one(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if !escaped => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            // In the array of objects, and in that of a rule's statements.
            ' ' if !quoted
                && out.ends_with(',')
                && matches!(depth, 2 | 5)
                && matches!(chars.peek(), Some('{' | 'M')) =>
            {
                out.push('\n');
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    // The first statement of a rule begins a line, too.
    out.replace("\"expr\": [{", "\"expr\": [\n{").replace("\"expr\": [MAP", "\"expr\": [\nMAP")
}

/// Lines, and what a ruleset has in JSON one by one, without numbers and times that differ from run
/// to run.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let text = if text.starts_with("{\"nftables\"") { one_by_one(text) } else { text.to_owned() };
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let line = line.trim_end();
            // A table's handle counts all tables that the namespace ever had.
            if line.trim_start().starts_with("table ") || line.starts_with("add table ") {
                return without(line, "# handle ", |c| c.is_ascii_digit());
            }
            if line.starts_with("{\"table\"") {
                return without(line, "\"handle\": ", |c| c.is_ascii_digit());
            }
            // Addresses of Ethernet, which nft 1.0.6 does not name after VLAN.
            let line = line.replace(
                r#"{"base": "ll", "offset": 0, "len": 48}"#,
                r#"{"protocol": "ether", "field": "daddr"}"#,
            );
            let line = line.replace(
                r#"{"base": "ll", "offset": 48, "len": 48}"#,
                r#"{"protocol": "ether", "field": "saddr"}"#,
            );
            let line = line.as_str();
            // Time passes between two commands.
            let line = without(line, "\"expires\": ", |c| c.is_ascii_digit());
            without(&line, "expires ", |c| c.is_ascii_alphanumeric())
        })
        .collect();
    lines.into_iter()
}

/// The line with `N` for a run of such characters after `name`.
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
