// SPDX-License-Identifier: Apache-2.0

//! Rules and the programs that nft 1.0.6 makes of them, and rules that it refuses with its words
//! and marks.
//!
//! `programs/FAMILY.programs` holds a rule per block, with what `nft --debug=netlink -c` printed
//! for it; `programs/FAMILY.refusals` a rule, the marks under it, and the message. The rules stand
//! in chain `c` of table `t`, next to the sets and objects of [`SURROUNDINGS`].

use penstock_lang::names::Names;
use penstock_lang::source::{Files, Inputs, Loc, Origin};
use penstock_lang::{eval, lower};
use penstock_ruleset::Generation;
use penstock_syntax::diag::Diagnostics;
use penstock_syntax::parse;
use penstock_syntax::scope::Scope;

const SURROUNDINGS: &str = "
    counter cc { }
    set s { type ipv4_addr; flags interval; }
    set p { type inet_service; flags dynamic,timeout; }
    map m { type ipv4_addr : mark; }
    map v { type inet_service : verdict; }
    set cs { type ipv4_addr . inet_service; }
    chain d { }
";

/// A system with a loopback device and a few names.
struct System;

impl Names for System {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn service_port(&self, name: &str, _protocol: Option<&str>) -> Option<u16> {
        [("ssh", 22), ("http", 80)].into_iter().find(|(n, _)| *n == name).map(|(_, port)| port)
    }
    fn user_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
    fn group_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }
    fn glob(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Debug text of the rule's command, and the messages.
fn compile(family: &str, rule: &str) -> (String, Diagnostics, Inputs, u32) {
    let head = format!("table {family} t {{{}\tchain c {{\n", SURROUNDINGS.replace(" }", "\n}"));
    let text = format!("{head}{rule}\n\t}}\n}}\n");
    let start = head.len() as u32;
    let mut inputs = Inputs::default();
    let mut diags = Diagnostics::default();
    let input = inputs.add(Origin::CommandLine, text.to_string());
    let cmds = parse::parse(&mut inputs, input, &NoFiles, &[], &mut Scope::default(), &mut diags);
    let generation = Generation::default();
    let mut ctx = eval::Context::new(&generation, &System);
    let mut out = String::new();
    for mut cmd in eval::expand(cmds) {
        if eval::evaluate(&mut cmd, &mut ctx, &mut diags) {
            let lowered = lower::lower(&cmd, &ctx);
            if cmd.loc.start >= start {
                out.push_str(&lower::debug::text(&lowered, &ctx));
            }
        }
    }
    (out, diags, inputs, start)
}

/// Blocks of a file: the line that is not indented, and those below it.
fn blocks(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("    ") {
            Some(line) => {
                if let Some(block) = blocks.last_mut() {
                    block.1.push(line.trim());
                }
            }
            None if line.is_empty() => {}
            None => blocks.push((line, Vec::new())),
        }
    }
    blocks
}

fn check_programs(family: &str, text: &str, least: usize) {
    let mut wrong = String::new();
    let blocks = blocks(text);
    assert!(blocks.len() >= least, "the table is there");
    for (rule, expected) in blocks {
        let (out, diags, ..) = compile(family, rule);
        let got: Vec<&str> = out.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        if got != expected || diags.has_errors() {
            wrong += &format!(
                "\n{rule}\n  expected {expected:#?}\n  got {got:#?}\n  {:?}\n",
                diags.list
            );
        }
    }
    assert!(wrong.is_empty(), "{family}:{wrong}");
}

/// The marks that a message puts under the rule.
fn marks(rule: &str, start: u32, main: Loc, others: &[Loc]) -> String {
    let mut line = vec![b' '; rule.len()];
    let mut mark = |loc: Loc, with: u8| {
        for at in loc.start..loc.end {
            if let Some(slot) = at.checked_sub(start).and_then(|at| line.get_mut(at as usize)) {
                *slot = with;
            }
        }
    };
    others.iter().for_each(|loc| mark(*loc, b'~'));
    mark(main, b'^');
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn check_refusals(family: &str, text: &str) {
    let mut wrong = String::new();
    for block in text.split("\n\n") {
        let lines: Vec<&str> = block.trim_matches('\n').lines().collect();
        let [rule, marked, message] = lines[..] else { panic!("a block has three lines: {block}") };
        let (_, diags, _, start) = compile(family, rule);
        let got: Vec<(String, &str)> = diags
            .list
            .iter()
            .map(|d| (marks(rule, start, d.loc, &d.others), d.message.as_str()))
            .collect();
        if got != [(marked.to_owned(), message)] {
            wrong += &format!("\n{rule}\n{marked}\n{message}\n  got {got:#?}\n");
        }
    }
    assert!(wrong.is_empty(), "{family}:{wrong}");
}

macro_rules! programs {
    ($($name:ident $family:literal;)*) => {
        $(
            #[test]
            fn $name() {
                check_programs($family, include_str!(concat!("programs/", $family, ".programs")), 100);
            }
        )*
    };
}

programs! {
    rules_of_inet_tables_become_nfts_programs "inet";
    rules_of_ip_tables_become_nfts_programs "ip";
    rules_of_ip6_tables_become_nfts_programs "ip6";
    rules_of_bridge_tables_become_nfts_programs "bridge";
    rules_of_netdev_tables_become_nfts_programs "netdev";
}

#[test]
fn refused_rules_have_the_messages_of_nft() {
    check_refusals("inet", include_str!("programs/inet.refusals"));
    check_refusals("ip", include_str!("programs/ip.refusals"));
}

/// As nft 1.1 and its tests have them.
#[test]
fn matches_inside_of_tunnels_load_from_the_packet_in_it() {
    check_programs("netdev", include_str!("programs/tunnels.programs"), 20);
    check_refusals("netdev", include_str!("programs/tunnels.refusals"));
}
