// SPDX-License-Identifier: Apache-2.0

//! A second opinion: whether a change matters for any packet, as z3 decides it.
//!
//! Rules are translated for the solver by themselves, from what they say, and not from their
//! program: verdicts and marks as functions of addresses, ports, protocol and mark. Without `z3`
//! nothing is tested.

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use fastrand::Rng;
use penstock_program::Hook;
use penstock_symbolic::diff;
use support::*;

/// A match of a rule.
#[derive(Clone, Debug)]
enum Match {
    /// An address is in a prefix, or not: source or destination, value, length.
    Address { source: bool, value: u32, length: u32, inside: bool },
    /// A port is in a range: protocol, source or destination, ends.
    Port { protocol: u8, source: bool, from: u16, to: u16, inside: bool },
    /// The transport protocol is one of these.
    Protocol(Vec<u8>),
    /// Bits of the mark.
    Mark { mask: u32, value: u32 },
}

/// What a rule does.
#[derive(Clone, Debug)]
enum Action {
    Accept,
    Drop,
    Return,
    Jump,
    Goto,
    SetMark(u32),
    Nothing,
}

type Rule = (Vec<Match>, Action);

/// A base chain, and one that it calls.
#[derive(Clone, Debug)]
struct Ruleset {
    base: Vec<Rule>,
    called: Vec<Rule>,
    accept: bool,
}

fn protocol(number: u8) -> &'static str {
    match number {
        6 => "tcp",
        17 => "udp",
        _ => "icmp",
    }
}

impl Match {
    fn random(rng: &mut Rng) -> Match {
        match rng.u8(..6) {
            0 | 1 => {
                let length = [0, 1, 24, 25, 30, 31, 32][rng.usize(..7)];
                let value = 0xc612_0000 | rng.u32(..4) << 8 | rng.u32(..8);
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                let inside = length == 0 || rng.u8(..4) > 0;
                Match::Address { source: rng.bool(), value: value & mask, length, inside }
            }
            2 | 3 => {
                let from: u16 = [0, 1, 22, 80, 1023, 1024, 65_535][rng.usize(..7)];
                let to = from.saturating_add([0, 0, 1, 58, 1000][rng.usize(..5)]);
                let protocol = if rng.bool() { 6 } else { 17 };
                let inside = (from, to) == (0, u16::MAX) || rng.u8(..4) > 0;
                Match::Port { protocol, source: rng.u8(..4) == 0, from, to, inside }
            }
            4 => {
                let mut all: Vec<u8> = [1, 6, 17].into_iter().filter(|_| rng.bool()).collect();
                if all.is_empty() {
                    all.push(6);
                }
                Match::Protocol(all)
            }
            _ => {
                let mask = [u32::MAX, 1, 6, 0xff][rng.usize(..4)];
                Match::Mark { mask, value: rng.u32(..8) & mask }
            }
        }
    }

    /// As a rule has it.
    fn text(&self) -> String {
        let not = |inside: bool| if inside { "" } else { "!= " };
        match self {
            Match::Address { source, value, length, inside } => {
                let side = if *source { "saddr" } else { "daddr" };
                let address = std::net::Ipv4Addr::from(*value);
                format!("ip {side} {}{address}/{length}", not(*inside))
            }
            Match::Port { protocol: p, source, from, to, inside } => {
                let side = if *source { "sport" } else { "dport" };
                let ports = if from == to { from.to_string() } else { format!("{from}-{to}") };
                format!("{} {side} {}{ports}", protocol(*p), not(*inside))
            }
            Match::Protocol(all) => {
                let names: Vec<&str> = all.iter().map(|p| protocol(*p)).collect();
                format!("meta l4proto {{ {} }}", names.join(", "))
            }
            Match::Mark { mask, value } if *mask == u32::MAX => format!("meta mark {value}"),
            Match::Mark { mask, value } => format!("meta mark & {mask} == {value}"),
        }
    }

    /// As a formula of the packet and the mark `m`.
    fn formula(&self) -> String {
        match self {
            Match::Address { source, value, length, inside } => {
                let name = if *source { "saddr" } else { "daddr" };
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                let is = format!("(= (bvand {name} #x{mask:08x}) #x{value:08x})");
                if *inside { is } else { format!("(not {is})") }
            }
            Match::Port { protocol, source, from, to, inside } => {
                let name = if *source { "sport" } else { "dport" };
                let is = format!("(and (bvule #x{from:04x} {name}) (bvule {name} #x{to:04x}))");
                let is = if *inside { is } else { format!("(not {is})") };
                // A packet may be a later fragment, or cut off.
                format!("(and ports (= proto #x{protocol:02x}) {is})")
            }
            Match::Protocol(all) => {
                let all = all.iter().map(|p| format!("(= proto #x{p:02x})"));
                format!("(or false {})", all.collect::<Vec<_>>().join(" "))
            }
            Match::Mark { mask, value } => format!("(= (bvand m #x{mask:08x}) #x{value:08x})"),
        }
    }
}

fn random_rule(rng: &mut Rng, calls: bool) -> Rule {
    let matches = (0..rng.usize(..3)).map(|_| Match::random(rng)).collect();
    let action = match rng.u8(..12) {
        0..3 => Action::Accept,
        3..6 => Action::Drop,
        6 => Action::Return,
        7 | 8 => Action::SetMark(rng.u32(..8)),
        9 if calls => Action::Jump,
        10 if calls => Action::Goto,
        _ => Action::Nothing,
    };
    (matches, action)
}

impl Ruleset {
    fn random(rng: &mut Rng) -> Ruleset {
        Ruleset {
            base: (0..rng.usize(2..7)).map(|_| random_rule(rng, true)).collect(),
            called: (0..rng.usize(1..4)).map(|_| random_rule(rng, false)).collect(),
            accept: rng.bool(),
        }
    }

    /// One thing is otherwise: mostly in a way that may make no difference.
    fn change(&mut self, rng: &mut Rng) {
        if rng.u8(..6) == 0 {
            self.accept = !self.accept;
            return;
        }
        let calls = rng.bool();
        let rules = if calls { &mut self.base } else { &mut self.called };
        let at = rng.usize(..rules.len());
        match rng.u8(..6) {
            0 => rules.insert(at, random_rule(rng, calls)),
            1 if rules.len() > 1 => drop(rules.remove(at)),
            2 if at > 0 => rules.swap(at - 1, at),
            3 => rules[at].0.push(Match::random(rng)),
            4 => {
                // A rule in two halves.
                let (mut low, mut high) = (rules[at].clone(), rules[at].clone());
                let length = 1;
                let half = |value| Match::Address { source: true, value, length, inside: true };
                low.0.push(half(0));
                high.0.push(half(1 << 31));
                rules.splice(at..=at, [low, high]);
            }
            _ => {
                let copy = rules[at].clone();
                rules.push(copy);
            }
        }
    }

    fn text(&self) -> String {
        let rules = |all: &[Rule]| -> String {
            all.iter().fold(String::new(), |mut text, (matches, action)| {
                let matches: Vec<String> = matches.iter().map(Match::text).collect();
                let action = match action {
                    Action::Accept => "accept".to_owned(),
                    Action::Drop => "drop".to_owned(),
                    Action::Return => "return".to_owned(),
                    Action::Jump => "jump called".to_owned(),
                    Action::Goto => "goto called".to_owned(),
                    Action::SetMark(mark) => format!("meta mark set {mark}"),
                    Action::Nothing => "continue".to_owned(),
                };
                let _ = writeln!(text, "{} {action}", matches.join(" "));
                text
            })
        };
        format!(
            "table ip t {{\nchain called {{\n{}}}\nchain base {{\n\
             type filter hook forward priority 0; policy {};\n{}}}\n}}\n",
            rules(&self.called),
            if self.accept { "accept" } else { "drop" },
            rules(&self.base)
        )
    }

    /// Functions from the mark to what becomes of a packet: ones if it is dropped, else its mark
    /// after a zero. `NAME0` is that of the whole ruleset.
    fn functions(&self, name: &str) -> String {
        let end = format!("{name}_end");
        let policy =
            if self.accept { "(concat #b0 m)" } else { "#b111111111111111111111111111111111" };
        let mut text = String::new();
        let define = |text: &mut String, name: &str, body: &str| {
            let head = format!("(define-fun {name} ((m (_ BitVec 32))) (_ BitVec 33)");
            let _ = writeln!(text, "{head} {body})");
        };
        define(&mut text, &end, policy);
        // From the last to the first: each goes on with the one after it.
        let mut next = end.clone();
        for (number, rule) in self.base.iter().enumerate().rev() {
            let target = match rule.1 {
                Action::Jump => {
                    self.called(&format!("{name}_{number}_"), &next, &mut text, &define)
                }
                Action::Goto => self.called(&format!("{name}_{number}_"), &end, &mut text, &define),
                _ => String::new(),
            };
            let own = format!("{name}{number}");
            define(&mut text, &own, &body(rule, &next, &end, &target));
            next = own;
        }
        text
    }

    /// The called chain, with what is done after it; the name of its first function.
    fn called(
        &self,
        name: &str,
        after: &str,
        text: &mut String,
        define: &impl Fn(&mut String, &str, &str),
    ) -> String {
        let mut next = after.to_owned();
        for (number, rule) in self.called.iter().enumerate().rev() {
            let own = format!("{name}{number}");
            define(text, &own, &body(rule, &next, after, ""));
            next = own;
        }
        next
    }
}

/// A rule: with what goes on after it, where its chain ends, and the chain that it calls.
fn body((matches, action): &Rule, next: &str, end: &str, target: &str) -> String {
    let matches: Vec<String> = matches.iter().map(Match::formula).collect();
    let done = match action {
        Action::Accept => "(concat #b0 m)".to_owned(),
        Action::Drop => "#b111111111111111111111111111111111".to_owned(),
        Action::Return => format!("({end} m)"),
        Action::Jump | Action::Goto => format!("({target} m)"),
        Action::SetMark(mark) => format!("({next} #x{mark:08x})"),
        Action::Nothing => format!("({next} m)"),
    };
    format!("(ite (and true {}) {done} ({next} m))", matches.join(" "))
}

/// The answers of z3 to a script; `None` without z3.
fn solved(script: &str) -> Option<Vec<String>> {
    let mut child = Command::new("z3")
        .args(["-in", "-smt2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take().expect("its standard input");
    let script = script.to_owned();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("its answers");
    writer.join().expect("a thread").expect("the script is read");
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn a_change_matters_if_and_only_if_z3_finds_a_packet() {
    let mut rng = Rng::with_seed(seed() + 6);
    let mut script = String::from(
        "(set-logic QF_BV)\n\
         (declare-const saddr (_ BitVec 32))\n(declare-const daddr (_ BitVec 32))\n\
         (declare-const proto (_ BitVec 8))\n(declare-const ports Bool)\n\
         (declare-const sport (_ BitVec 16))\n(declare-const dport (_ BitVec 16))\n\
         (declare-const mark (_ BitVec 32))\n",
    );
    let mut changes = Vec::new();
    for round in 0..rounds(300) {
        let old = Ruleset::random(&mut rng);
        let mut new = old.clone();
        for _ in 0..rng.u8(1..3) {
            new.change(&mut rng);
        }
        let _ = write!(
            script,
            "{}{}(push)\n(assert (not (= (o{round}_0 mark) (n{round}_0 mark))))\n(check-sat)\n(pop)\n",
            old.functions(&format!("o{round}_")),
            new.functions(&format!("n{round}_"))
        );
        changes.push((old, new));
    }
    let Some(answers) = solved(&script) else {
        println!("skipped: there is no z3");
        return;
    };
    assert_eq!(answers.len(), changes.len(), "{answers:?}");
    let (mut matter, mut nothing) = (0, 0);
    for ((old, new), answer) in changes.iter().zip(&answers) {
        let (old, new) = (old.text(), new.text());
        // Matches of two protocols are refused.
        let (Ok(a), Ok(b)) = (load(&old), load(&new)) else { continue };
        let [mut before, mut after] = [&a, &b].map(|rules| program(rules, Hook::Forward));
        let found = diff(place(&a, Hook::Forward), &mut before, &mut after, limits());
        let differs = !found.unwrap_or_else(|e| panic!("{e:?}\n{old}{new}")).classes.is_empty();
        let expected = match &**answer {
            "sat" => true,
            "unsat" => false,
            other => panic!("z3: {other}"),
        };
        assert_eq!(differs, expected, "z3 says {answer}:\n{old}{new}");
        matter += u32::from(differs);
        nothing += u32::from(!differs);
    }
    println!("z3 agrees: {matter} changes matter, {nothing} do not");
    assert!(matter > 0 && nothing > 0);
}
