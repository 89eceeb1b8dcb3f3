// SPDX-License-Identifier: Apache-2.0

//! What texts are read as, and that no text does harm.

use std::collections::HashMap;

use super::*;
use crate::ast::cmd::{CmdKind, New};
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::source::Origin;

/// Files by path.
#[derive(Default)]
struct Map(HashMap<&'static str, String>);

/// What `exec("…")` runs in these tests: `echo words`, with `|` for ends of lines.
const ECHO: &str = "echo ";

impl Files for Map {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0.get(path).cloned().ok_or_else(|| "No such file or directory".into())
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        match command.strip_prefix(ECHO) {
            Some(words) => Ok(words.replace('|', "\n\t ")),
            None => Err(crate::source::EXEC_NOT_ALLOWED.into()),
        }
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let mut found: Vec<String> = match pattern.split_once('*') {
            Some((head, tail)) => {
                let fits = |p: &&&str| p.starts_with(head) && p.ends_with(tail);
                self.0.keys().filter(fits).map(|p| p.to_string()).collect()
            }
            None => self.0.keys().filter(|p| **p == pattern).map(|p| p.to_string()).collect(),
        };
        found.sort();
        found
    }
}

fn read_with(text: &str, files: &Map) -> (Vec<Cmd>, String) {
    let mut inputs = Inputs::default();
    let input = inputs.add(Origin::File { name: "main".into(), from: None }, text.to_string());
    let (mut scope, mut diags) = (Scope::default(), Diagnostics::default());
    let cmds = parse(&mut inputs, input, files, &["/etc".to_string()], &mut scope, &mut diags);
    (cmds, diags.render(&inputs))
}

fn read(text: &str) -> Vec<Cmd> {
    let (cmds, messages) = read_with(text, &Map::default());
    assert_eq!(messages, "", "{text}");
    cmds
}

/// Rules that show every statement and expression, one per line.
const RULES: &str = include_str!("tests/rules.txt");

/// Commands on everything there is, and blocks.
const COMMANDS: &str = include_str!("tests/commands.txt");

#[test]
fn every_statement_and_expression_is_read() {
    for line in RULES.lines() {
        let cmds = read(&format!("add rule inet t c {line}\n"));
        assert_eq!(cmds.len(), 1, "{line}");
    }
}

#[test]
fn every_command_is_read() {
    let commands = COMMANDS.split("%%\n").count();
    let cmds = read(&COMMANDS.replace("%%\n", "\n"));
    assert_eq!(cmds.len(), commands);
}

#[test]
fn multi_token_statements_are_one_statement() {
    for (line, count) in [
        ("ip protocol tcp tcp dport 22 accept", 3),
        ("meta protocol set ip ip saddr 1.1.1.1", 2),
        ("tcp flags syn,ack / syn,ack,fin,rst counter", 2),
        ("ct state established,related accept", 2),
        ("ip saddr . tcp dport vmap { 1.1.1.1 . 22 : accept } drop", 2),
        ("dnat ip to 1.1.1.1:80 random,persistent comment \"x\"", 1),
        ("update @s { ip saddr timeout 5s limit rate 1/second } accept", 2),
        ("queue num 1 bypass log prefix \"a\" group 2 snaplen 3", 2),
        ("jump { ip saddr 1.1.1.1 accept; drop; } drop", 2),
        ("rt nexthop 1.1.1.1 rt type 2 exthdr frag exists", 3),
        ("last last used never counter packets 1 bytes 2 counter", 4),
    ] {
        let mut cmds = read(&format!("t c {line}\n"));
        let Some(Cmd { kind: CmdKind::Add(New::Rule(rule)), .. }) = cmds.pop() else {
            panic!("{line}")
        };
        assert_eq!(rule.stmts.len(), count, "{line}: {:#?}", rule.stmts);
    }
}

#[test]
fn definitions_are_replaced_where_they_are_used() {
    let text = "define a = 1\ndefine b = { $a, 2 }\nredefine a = 3\nt c tcp dport $b\nt c tcp dport $a\n\
                undefine a\nt c tcp dport $a\n";
    let ports: Vec<String> = read(text)
        .into_iter()
        .map(|cmd| {
            let CmdKind::Add(New::Rule(rule)) = cmd.kind else { panic!() };
            let StmtKind::Match(Expr { kind: ExprKind::Relational { right, .. }, .. }) =
                &rule.stmts[0].kind
            else {
                panic!()
            };
            match &right.kind {
                ExprKind::Symbol { text, .. } => text.to_string(),
                ExprKind::Set { elements, .. } => format!("{}", elements.len()),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(ports, ["2", "3", "1"]);
}

#[test]
fn included_files_are_read_in_place_and_in_order() {
    let mut files = Map::default();
    files.0.insert("/etc/rules/b.nft", "t b accept\n".into());
    files.0.insert("/etc/rules/a.nft", "t a accept\n".into());
    files.0.insert("/etc/loop", "include \"loop\"\n".into());
    files.0.insert("/etc/wrong", "t c tcp dport\n".into());
    let (cmds, messages) = read_with("t x accept\ninclude \"rules/*.nft\"\nt y accept\n", &files);
    assert_eq!(messages, "");
    let chains: Vec<_> = cmds
        .iter()
        .map(|c| c.target.chain.as_ref().map(|n| n.text.to_string()).unwrap_or_default())
        .collect();
    assert_eq!(chains, ["x", "a", "b", "y"]);

    let (_, messages) = read_with("include \"loop\"\n", &files);
    assert!(messages.ends_with("include \"loop\"\n^^^^^^^^^^^^^^^\n"), "{messages}");
    assert!(messages.contains("Include nested too deeply"), "{messages}");

    let (_, messages) = read_with("\ninclude \"wrong\"\n", &files);
    let expected = "In file included from main:2:1-16:\n\
                    /etc/wrong:1:14-14: Error: syntax error, unexpected newline\nt c tcp dport\n             ^\n";
    assert_eq!(messages, expected);
}

#[test]
fn reading_ends_after_ten_errors() {
    let text = "t c tcp dport\n".repeat(30);
    let (_, messages) = read_with(&text, &Map::default());
    assert_eq!(messages.matches("Error").count(), MAX_ERRORS);
}

#[test]
fn nesting_depth_is_bounded() {
    for (open, close) in
        [("(", ")"), ("{ ", " }"), ("jump { ", "; }"), ("meter x { ip saddr ", " }")]
    {
        for depth in [40, 100_000] {
            let text = format!("t c tcp dport {}{}\n", open.repeat(depth), close.repeat(depth));
            read_with(&text, &Map::default());
            let text = format!("t c {}{}\n", open.repeat(depth), close.repeat(depth));
            read_with(&text, &Map::default());
        }
    }
    let (_, messages) =
        read_with(&format!("t c meta mark set 1{}\n", " | 1".repeat(100_000)), &Map::default());
    assert!(messages.contains("memory exhausted"));
}

/// Token soups, and good texts with parts cut out, doubled and swapped.
#[test]
fn random_text_does_not_panic() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let source = format!("{RULES}\n{COMMANDS}");
    let mut words: Vec<&str> = source.split_inclusive([' ', '\n', ';', '{', '}', ',']).collect();
    words.extend([
        "\"", "\\\n", "$x", "@", "::", "1.1.1.1", "0x", "é", "\u{0}", "\t", "#", "*", "[::1]", "-",
    ]);
    let lines: Vec<&str> = source.lines().collect();
    for _ in 0..4000 {
        let mut text = String::new();
        if rng.bool() {
            for _ in 0..rng.usize(1..40) {
                text.push_str(words[rng.usize(..words.len())]);
                if rng.u8(..4) == 0 {
                    text.push(' ');
                }
            }
        } else {
            let first = rng.usize(..lines.len());
            let last = (first + rng.usize(1..12)).min(lines.len());
            let mut parts: Vec<&str> = lines[first..last]
                .iter()
                .flat_map(|l| l.split_inclusive(' ').chain(["\n"]))
                .collect();
            for _ in 0..rng.usize(1..6) {
                let at = rng.usize(..parts.len());
                match rng.u8(..4) {
                    0 => _ = parts.swap_remove(at),
                    1 => parts.insert(at, words[rng.usize(..words.len())]),
                    2 => parts.insert(at, parts[rng.usize(..parts.len())]),
                    _ => parts.truncate(at + 1),
                }
                if parts.is_empty() {
                    break;
                }
            }
            text = parts.concat();
        }
        read_with(&text, &Map::default());
    }
}

#[test]
fn large_rulesets_are_read_completely() {
    let mut text = String::from("table inet t {\n set s {\n  type ipv4_addr\n  elements = {\n");
    for i in 0..100_000u32 {
        text.push_str(&format!("   10.{}.{}.{},\n", i >> 16, i >> 8 & 255, i & 255));
    }
    text.push_str("  }\n }\n chain c {\n");
    for i in 0..10_000 {
        text.push_str(&format!("  ip saddr 198.18.0.0/16 tcp dport {i} counter accept\n"));
    }
    text.push_str(" }\n}\n");
    let cmds = read(&text);
    let CmdKind::Add(New::Table(table)) = &cmds[0].kind else { panic!() };
    assert_eq!(table.chains[0].1.rules.len(), 10_000);
    let Some(ExprKind::Set { elements, .. }) = table.sets[0].1.elements.as_ref().map(|e| &e.kind)
    else {
        panic!()
    };
    assert_eq!(elements.len(), 100_000);
}

#[test]
fn words_that_a_command_prints_are_a_value_or_the_elements_of_a_set() {
    for (text, expected) in [
        ("define x = exec(\"echo 22\")\nt c tcp dport $x\n", Ok("22")),
        ("define x = exec(\"echo 22 # 99|80-90\")\nt c tcp dport $x\n", Ok("22 80-90")),
        (
            "define x = exec ( \"echo 10.0.0.0/8 ::1 lan.5 eth*\" ); t c iif $x\n",
            Ok("10.0.0.0/8 ::1 lan.5 eth*"),
        ),
        ("define x = 1\nredefine x = exec(\"echo 2\")\nt c tcp dport { $x, 3 }\n", Ok("2 3")),
        ("define exec = 1\ndefine x = exec\nt c tcp dport $x\n", Ok("exec")),
        (
            "define x = exec(\"date\")\n",
            Err("main:1:12-23: Error: exec is not allowed here; run with --allow-exec\n\
                 define x = exec(\"date\")\n           ^^^^^^^^^^^^\n"),
        ),
        (
            "define x = exec(\"echo 1 2;flush\")\n",
            Err("In file included from main:1:12-33:\n\
                 exec(\"echo 1 2;flush\"):2:2-2: Error: syntax error, unexpected semicolon, expecting newline\n\
                 2;flush\n ^\n"),
        ),
        (
            "define x = exec(\"echo $y\")\n",
            Err("In file included from main:1:12-26:\n\
                 exec(\"echo $y\"):1:1-1: Error: syntax error, unexpected '$', expecting string\n$y\n^\n"),
        ),
        (
            "define x = exec(date)\n",
            Err("main:1:17-20: Error: syntax error, unexpected string, expecting quoted string\n\
                 define x = exec(date)\n                ^^^^\n"),
        ),
    ] {
        let (cmds, messages) = read_with(text, &Map::default());
        assert_eq!(messages, expected.err().unwrap_or(""), "{text}");
        let Ok(expected) = expected else { continue };
        let Some(Cmd { kind: CmdKind::Add(New::Rule(rule)), .. }) = cmds.last() else {
            panic!("{text}")
        };
        let StmtKind::Match(Expr { kind: ExprKind::Relational { right, .. }, .. }) =
            &rule.stmts[0].kind
        else {
            panic!("{text}")
        };
        let one = |e: &Expr| {
            crate::print::expr_text(e, crate::datatype::Format::default(), &crate::names::NoNames)
        };
        let got = match &right.kind {
            ExprKind::Set { elements, .. } => {
                elements.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            _ => one(right),
        };
        assert_eq!(got, expected, "{text}");
    }
}
