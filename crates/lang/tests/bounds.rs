// SPDX-License-Identifier: Apache-2.0

//! Texts that ask for more than their length lets expect: each ends soon, with an error at its
//! place, or with little to say.

use std::time::{Duration, Instant};

use penstock_lang::budget::Limits;
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Outcome, Session};
use penstock_lang::source::{Files, NoFiles, Origin};
use penstock_ruleset::Ruleset;

fn run_with(text: &str, files: &dyn Files, options: Options) -> Outcome {
    let origin = Origin::File { name: "main".into(), from: None };
    Session::new(options, files, &NoNames).run(origin, text.into(), &mut Ruleset::default(), 1)
}

fn run(text: &str) -> Outcome {
    run_with(text, &NoFiles, Options::default())
}

/// What `-c` is asked together with.
fn checks() -> [Options; 4] {
    let plain = Options { check: true, ..Options::default() };
    [
        plain.clone(),
        Options { optimize: true, ..plain.clone() },
        Options { lint: true, ..plain.clone() },
        Options { json: true, echo: true, ..plain },
    ]
}

/// Texts, and what is said of them.
fn excessive() -> Vec<(&'static str, String, &'static str)> {
    let nested = |open: &str, inside: &str, close: &str, depth: usize| {
        open.repeat(depth) + inside + &close.repeat(depth)
    };
    let rule = |text: &str| format!("add table t; add chain t c; add rule t c {text}\n");
    vec![
        (
            "doubled definitions",
            "define a = 1\n".to_owned() + &"redefine a = { $a, $a }\n".repeat(60),
            "main:20:17-17: Error: the definitions of this text expand to too many expressions\n\
             redefine a = { $a, $a }\n",
        ),
        (
            "definitions in definitions",
            "define a = { 1 }\n".to_owned() + &"redefine a = { $a }\n".repeat(3000),
            "main:300:14-19: Error: memory exhausted\nredefine a = { $a }\n",
        ),
        (
            "operators over definitions",
            "define a = 1\n".to_owned() + &"redefine a = $a | 1\n".repeat(3000),
            "main:301:14-19: Error: memory exhausted\n",
        ),
        (
            "operators in parentheses",
            "define a = ".to_owned()
                + &nested("(", "1", &("|1^1&1<<1".repeat(60) + ")"), 49)
                + "\n",
            "Error: memory exhausted\n",
        ),
        (
            "open parentheses",
            rule(&("ip saddr ".to_owned() + &"(".repeat(30_000))),
            "memory exhausted",
        ),
        ("open braces", rule(&("ip saddr ".to_owned() + &"{".repeat(30_000))), "memory exhausted"),
        ("chains in chains", rule(&nested("jump { ", "accept", " }", 200)), "memory exhausted"),
        ("hashes in hashes", rule(&nested("jhash (", "1", ")", 200)), "Error"),
        (
            "a prefix of definitions",
            format!("define a = \"{}\"\n", "x".repeat(20_000))
                + &rule(&format!("log prefix \"{}\"", "$a".repeat(20_000))),
            "log prefix is too long",
        ),
        (
            "long names that are alike",
            format!("define {} = 1\n", "a".repeat(30_000))
                + &rule(&format!("ip saddr ${}", "b".repeat(30_000))),
            "unknown identifier 'bbb",
        ),
        ("a long concatenation", rule(&("ip saddr . ".repeat(5000) + "ip daddr { 1 }")), "Error"),
        (
            "many errors",
            "add rule x y accept; ".repeat(3000),
            "Error: 2000 more messages are left out\n",
        ),
        (
            "operators in JSON",
            format!(
                r#"{{"nftables": [{{"add": {{"rule": {{"family": "ip", "table": "t", "chain": "c", "expr":
                [{{"match": {{"op": "==", "left": {{"|": [1{}]}}, "right": 1}}}}]}}}}}}]}}"#,
                ", 1".repeat(30_000)
            ),
            "memory exhausted",
        ),
    ]
}

#[test]
fn oversized_expansions_are_refused_at_their_place() {
    for (name, text, expected) in excessive() {
        for options in checks() {
            // Text is tried as JSON first where that is asked for, but not the other way round.
            if text.starts_with('{') && !options.json {
                continue;
            }
            let begun = Instant::now();
            let outcome = run_with(&text, &NoFiles, options);
            assert!(!outcome.ok && outcome.stdout.is_empty(), "{name}");
            assert!(outcome.stderr.contains(expected), "{name}: {}", outcome.stderr);
            assert!(
                outcome.stderr.len() < 2 << 20,
                "{name}: {} bytes of errors",
                outcome.stderr.len()
            );
            assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn large_definitions_may_be_used_more_than_once() {
    let addresses: Vec<String> =
        (0..100_000).map(|n| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255)).collect();
    let text = format!(
        "define lan = {{ {} }}\ntable t {{\nset a {{ type ipv4_addr; elements = $lan; }}\n\
         set b {{ type ipv4_addr; elements = $lan; }}\nchain c {{ ip saddr $lan ip daddr $lan accept; }}\n}}\n",
        addresses.join(", ")
    );
    let outcome = run(&text);
    assert!(outcome.ok, "{}", outcome.stderr);
    // Small ones may be used often.
    let text = "define ports = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }\ntable t {\nchain c {\n"
        .to_owned()
        + &"tcp dport $ports accept\n".repeat(5000)
        + "}\n}\n";
    let outcome = run(&text);
    assert!(outcome.ok, "{}", outcome.stderr);
}

/// Files that all include one another.
struct Crowd;

impl Files for Crowd {
    fn read(&self, _path: &str) -> Result<String, String> {
        Ok("include \"/crowd/*\"\n".into())
    }

    fn glob(&self, _pattern: &str) -> Vec<String> {
        (0..10).map(|n| format!("/crowd/{n}")).collect()
    }
}

/// A directory of many files.
struct Many(usize, usize);

impl Files for Many {
    fn read(&self, _path: &str) -> Result<String, String> {
        Ok("#".repeat(self.1))
    }

    fn glob(&self, _pattern: &str) -> Vec<String> {
        (0..self.0).map(|n| format!("/many/{n}")).collect()
    }
}

#[test]
fn files_are_included_up_to_a_number_and_a_length() {
    let limits = Limits { files: 100, bytes: 10_000, ..Limits::default() };
    for (files, expected) in [
        (&Crowd as &dyn Files, "Error: Include nested too deeply, max 16 levels"),
        (&Many(100, 90), ""),
        (&Many(101, 90), "main:1:1-19: Error: Too many files are included, max 100\n"),
        (
            &Many(100, 110),
            "Error: Could not read file \"/many/90\": all texts together are longer than 10000 bytes\n",
        ),
    ] {
        let outcome =
            run_with("include \"/crowd/*\"\n", files, Options { limits, ..Options::default() });
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert_eq!(outcome.ok, expected.is_empty(), "{}", outcome.stderr);
    }
    let text = "x".repeat(10_001);
    let outcome = run_with(&text, &NoFiles, Options { limits, ..Options::default() });
    assert_eq!(outcome.stderr, "Error: the text is longer than 10000 bytes\n");
}

#[test]
fn output_is_bounded_in_length() {
    let text = "add table t; add chain t c;".to_owned() + &"list ruleset;".repeat(100);
    let length = "table ip t {\n\tchain c {\n\t}\n}\n".len() as u64;
    for (output, ok) in [(100 * length, true), (100 * length - 1, false)] {
        let limits = Limits { output, ..Limits::default() };
        let outcome = run_with(&text, &NoFiles, Options { limits, ..Options::default() });
        assert_eq!(outcome.ok, ok, "{}", outcome.stderr);
        assert!(outcome.stdout.len() as u64 <= output);
        let said = format!("Error: the answers to this text are longer than {output} bytes\n");
        assert_eq!(outcome.stderr.contains(&said), !ok, "{}", outcome.stderr);
    }
}

/// Texts with most work in one phase or another, and how they are run.
fn long_runs() -> Vec<(&'static str, String, Options)> {
    let plain = Options::default();
    let optimize = Options { optimize: true, ..plain.clone() };
    let lint = Options { lint: true, ..plain.clone() };
    let block = |rules: String| {
        format!("table t {{\nchain c {{\ntype filter hook input priority 0;\n{rules}}}\n}}\n")
    };
    let sources = |count: u32, end: &str| -> String {
        (0..count)
            .map(|n| format!("ip saddr {end} 10.{}.{}.0/25\n", n >> 8 & 255, n & 255))
            .collect()
    };
    let dropped = |text: String| text.replace("/25\n", "/25 drop\n");
    vec![
        (
            "read",
            "define x = 10.0.0.1\n".to_owned() + &block("ip saddr $x\n".repeat(200_000)),
            plain.clone(),
        ),
        ("read in blocks", block("ip saddr 10.0.0.1 accept\n".repeat(200_000)), plain.clone()),
        ("evaluated", "add rule t c ip saddr 10.0.0.1 accept\n".repeat(100_000), plain.clone()),
        ("merged", block(dropped(sources(60_000, ""))), optimize),
        ("compared", block(dropped(sources(60_000, "!="))), lint),
        (
            "listed",
            "add table t; add chain t c;".to_owned() + &"list ruleset;".repeat(1_000_000),
            plain,
        ),
    ]
}

#[test]
fn the_time_limit_holds_in_every_phase() {
    for (name, text, options) in long_runs() {
        for time in [0, 300] {
            let deadline = Some(Instant::now() + Duration::from_millis(time));
            let begun = Instant::now();
            let outcome = run_with(&text, &NoFiles, Options { deadline, ..options.clone() });
            let expected = "Error: evaluation takes longer than is allowed; nothing is changed\n";
            assert_eq!(outcome.stderr, expected, "{name}");
            assert!(!outcome.ok && !outcome.changed && outcome.stdout.is_empty(), "{name}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn errors_in_long_lines_show_an_excerpt() {
    for (before, after) in [(0, 0), (10, 10), (0, 100), (100, 0), (100, 100), (5000, 5000)] {
        let commands = |count| "add table t; ".repeat(count);
        let text = commands(before) + "add table t typo; " + &commands(after);
        let stderr = run(&text).stderr;
        let mut lines = stderr.lines().skip(1);
        let (shown, marks) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        if text.len() <= 512 {
            assert_eq!(shown, text);
        } else {
            assert_eq!(shown.starts_with("..."), before > 0, "{stderr}");
            assert_eq!(shown.ends_with("..."), after > 0, "{stderr}");
            assert!((500..=518).contains(&shown.len()), "{stderr}");
        }
        // What is marked is what the message speaks of.
        let at = marks.len() - 4;
        assert_eq!(marks.trim_start(), "^^^^", "{stderr}");
        assert!(shown.get(at..).is_some_and(|rest| rest.starts_with("typo")), "{stderr}");
    }
    // A place that is longer than what is shown of it, in characters of more than one byte.
    let stderr = run(&format!("add rule t c ip saddr \"{}\"\n", "é".repeat(3000))).stderr;
    assert!(stderr.lines().all(|line| line.len() < 1200), "{stderr}");
}

#[test]
fn strings_end_at_a_nul_byte() {
    let mut ruleset = Ruleset::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let mut said = |text: &str| {
        let origin = Origin::File { name: "main".into(), from: None };
        session.run(origin, text.into(), &mut ruleset, 1)
    };
    assert!(said("add table t { comment \"a\0b\"; }\n").ok);
    assert_eq!(said("list ruleset\n").stdout, "table ip t {\n\tcomment \"a\"\n}\n");
    // JSON with such a character is none.
    session.options.json = true;
    for name in [r"a\u0000b", r"\u0000"] {
        let text = format!(
            r#"{{"nftables": [{{"add": {{"table": {{"family": "ip", "name": "{name}"}}}}}}]}}"#
        );
        let origin = Origin::File { name: "main".into(), from: None };
        let outcome = session.run(origin, text, &mut ruleset, 1);
        assert!(
            outcome.stderr.starts_with("main:1:1-1: Error: syntax error, unexpected '{'\n"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn json_accepts_the_names_that_nft_accepts() {
    let table = r#"{"add": {"table": {"family": "ip", "name": "t"}}}"#;
    let chain = r#"{"add": {"chain": {"family": "ip", "table": "t", "name": "c"}}}"#;
    let (fits, long) = ("x".repeat(253), "x".repeat(254));
    let rule = |comment: &str| {
        format!(
            r#"{{"add": {{"rule": {{"family": "ip", "table": "t", "chain": "c", "comment": "{comment}", "expr": []}}}}}}"#
        )
    };
    let element = |comment: &str| {
        format!(
            r#"{{"add": {{"set": {{"family": "ip", "table": "t", "name": "s", "type": "ipv4_addr", "elem":
            [{{"elem": {{"val": "1.1.1.1", "comment": "{comment}"}}}}]}}}}}}"#
        )
    };
    let named = |what: &str, name: &str, more: &str| {
        format!(
            r#"{{"add": {{"{what}": {{"family": "ip", "table": "t", "name": "{name}"{more}}}}}}}"#
        )
    };
    let flowtable = r#", "hook": "ingress", "prio": 0, "dev": "#;
    for (command, expected) in [
        // Whatever the kernel takes: these come from nft 1.0.6.
        (named("chain", "a}b", ""), Ok(())),
        (named("set", "a b", r#", "type": "ipv4_addr""#), Ok(())),
        (named("counter", "a\\nb", ""), Ok(())),
        (named("chain", "", ""), Err("Invalid argument")),
        (rule(&fits), Ok(())),
        (rule(&long), Err("comment too long, 253 characters maximum allowed")),
        (element(&fits), Ok(())),
        (element(&long), Err("comment too long, 253 characters maximum allowed")),
        (named("flowtable", "f", &format!(r#"{flowtable}["lo"]"#)), Ok(())),
        (named("flowtable", "f", &format!(r#"{flowtable}["lo", ""]"#)), Err("Invalid argument")),
        (
            named("flowtable", "f", &format!(r#"{flowtable}["0123456789abcdef"]"#)),
            Err("device name is too long"),
        ),
        (
            named("ct helper", "h", r#", "type": "", "protocol": "tcp""#),
            Err("Numerical result out of range"),
        ),
        (named("ct helper", "h", r#", "type": "ftp", "protocol": "tcp""#), Ok(())),
    ] {
        let text = format!(r#"{{"nftables": [{table}, {chain}, {command}]}}"#);
        let outcome = run_with(&text, &NoFiles, Options { json: true, ..Options::default() });
        assert_eq!(outcome.ok, expected.is_ok(), "{command}: {}", outcome.stderr);
        if let Err(expected) = expected {
            assert!(outcome.stderr.contains(expected), "{command}: {}", outcome.stderr);
        }
    }
}
