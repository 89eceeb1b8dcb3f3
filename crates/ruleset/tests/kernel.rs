// SPDX-License-Identifier: Apache-2.0

//! The same random batches through the real `nft` and kernel, in a network namespace of their own,
//! and through a transaction: both must take or refuse them, for the same reason, and hold the same
//! things under the same handles.
//!
//! Skipped where namespaces or `nft` are missing. A scenario ends with the first refusal: from
//! there on the kernel's handles have a gap.

mod changes;

use std::fmt::Write as _;
use std::process::Command;

use changes::*;
use fastrand::Rng;
use penstock_program::expr::*;
use penstock_program::{Register, Verdict};
use penstock_ruleset::change::*;
use penstock_ruleset::model::*;
use penstock_ruleset::{Change, Errno, Ruleset};

/// A command in nft's words, and the changes that it stands for.
type Step = (String, Vec<Change>);

struct Statement {
    text: String,
    exprs: Vec<Expr>,
    before: Vec<Change>,
}

fn statement(rng: &mut Rng, id: u32) -> Statement {
    let chain = format!("c{}", rng.u8(0..5));
    let mut before = Vec::new();
    let (text, exprs) = match rng.u8(0..13) {
        12 => ("ip saddr @i".into(), vec![load(), lookup("i")]),
        0..3 => (format!("jump {chain}"), vec![jump(&chain)]),
        3 => (format!("goto {chain}"), vec![verdict(Verdict::Goto(chain.into()))]),
        4 => ("ip saddr @s".into(), vec![load(), lookup("s")]),
        5..7 => ("ip saddr vmap @v".into(), vec![load(), vmap("v")]),
        7 => {
            let objref = Objref::Map { sreg: Register(1), set: "o".into() };
            ("counter name ip saddr map @o".into(), vec![load(), Expr::Objref(objref)])
        }
        8 => ("counter name \"k0\"".into(), vec![counter_named("k0")]),
        9 => {
            let name = format!("__set%d#{id}");
            before.push(anonymous_set("__set%d", id, None));
            before.push(add_elements(&name, vec![key(1), key(2)]));
            ("ip saddr { 0.0.0.1, 0.0.0.2 }".into(), vec![load(), lookup(&name)])
        }
        10 => {
            let reject = Reject { kind: RejectType::IcmpUnreach, code: 1 };
            ("reject with icmp host-unreachable".into(), vec![Expr::Reject(reject)])
        }
        _ => ("counter packets 0 bytes 0".into(), vec![counter()]),
    };
    Statement { text, exprs, before }
}

fn raw_rule(chain: &str, position: Position, exprs: Vec<Expr>) -> Change {
    let rule = NewRule { exprs, userdata: std::sync::Arc::new([]), origin: None };
    Change::AddRule { family: IP, table: "t".into(), chain: chain.into(), position, rule }
}

fn element(rng: &mut Rng, set: &str) -> (String, penstock_sets::Element<ElementValue>) {
    let n = rng.u32(1..6);
    match set {
        "v" => {
            let chain = format!("c{}", rng.u8(0..5));
            (format!("0.0.0.{n} : jump {chain}"), pair(n, jump_data(&chain)))
        }
        "o" => {
            let object = format!("k{}", rng.u8(0..2));
            (format!("0.0.0.{n} : \"{object}\""), pair(n, ElementData::Object(object.into())))
        }
        "i" => {
            let to = n + rng.u32(0..4);
            let end = Some(to.to_be_bytes().into());
            (format!("0.0.0.{n}-0.0.0.{to}"), penstock_sets::Element { key_end: end, ..key(n) })
        }
        _ => (format!("0.0.0.{n}"), key(n)),
    }
}

/// Declares a set, perhaps again.
fn declare(set_: &str) -> Step {
    match set_ {
        "v" => (
            "add map ip t v { type ipv4_addr : verdict; }".into(),
            vec![map("v", MapData::Verdict)],
        ),
        "o" => {
            let objects = MapData::Object(ObjectType::Counter);
            ("add map ip t o { type ipv4_addr : counter; }".into(), vec![map("o", objects)])
        }
        "i" => {
            let mut interval = new_set("i");
            interval.description.interval = true;
            ("add set ip t i { type ipv4_addr; flags interval; }".into(), vec![add_set(interval)])
        }
        _ => ("add set ip t s { type ipv4_addr; }".into(), vec![set("s")]),
    }
}

fn rename(rng: &mut Rng, ruleset: &Ruleset) -> Option<Step> {
    let generation = ruleset.generation();
    let chain = rng.choice(generation.tables.first()?.chains.iter())?;
    let name = format!("c{}", rng.u8(0..5));
    let text = format!("rename chain ip t {} {name}", chain.name);
    let change = Change::RenameChain {
        family: IP,
        table: "t".into(),
        handle: chain.handle,
        name: name.into(),
    };
    Some((text, vec![change]))
}

fn step(rng: &mut Rng, ruleset: &Ruleset, id: u32) -> Step {
    let chain_ = if rng.u8(0..3) == 0 { "b0".to_string() } else { format!("c{}", rng.u8(0..5)) };
    let set_ = ["s", "v", "o", "i"][rng.usize(0..4)];
    let generation = ruleset.generation();
    let rules = generation
        .tables
        .iter()
        .flat_map(|t| &t.chains)
        .filter(|c| *c.name == *chain_)
        .flat_map(|c| &c.rules);
    let handle = rng.choice(rules.map(|r| r.handle).collect::<Vec<_>>()).unwrap_or(99);
    match rng.u8(0..36) {
        0..4 => (format!("add chain ip t {chain_}"), vec![chain(IP, &chain_)]),
        4 => {
            let text = "add chain ip t b0 { type filter hook postrouting priority 0; }".into();
            (text, vec![base(IP, "b0", ChainType::Filter, Hook::Postrouting)])
        }
        5..17 => {
            let rule = statement(rng, id);
            let (verb, place, position) = match rng.u8(0..9) {
                0 => ("add", format!("handle {handle} "), Position::After(Some(handle))),
                1 => ("insert", format!("handle {handle} "), Position::Before(Some(handle))),
                2 => ("insert", String::new(), Position::Before(None)),
                3 => ("replace", format!("handle {handle} "), Position::Replace(handle)),
                _ => ("add", String::new(), Position::After(None)),
            };
            let text = format!("{verb} rule ip t {chain_} {place}{}", rule.text);
            let mut changes = rule.before;
            changes.push(raw_rule(&chain_, position, rule.exprs));
            (text, changes)
        }
        17..19 => (
            format!("delete rule ip t {chain_} handle {handle}"),
            vec![delete_rule(&chain_, handle)],
        ),
        19 => (format!("flush chain ip t {chain_}"), vec![flush_chain(&chain_)]),
        20..22 => (format!("delete chain ip t {chain_}"), vec![delete_chain(&chain_)]),
        22 => (format!("delete set ip t {set_}"), vec![delete_set(set_)]),
        23..28 => {
            let (text, element) = element(rng, set_);
            (
                format!("add element ip t {set_} {{ {text} }}"),
                vec![add_elements(set_, vec![element])],
            )
        }
        28..30 => {
            let (text, element) = element(rng, set_);
            (
                format!("delete element ip t {set_} {{ {text} }}"),
                vec![delete_elements(set_, Some(vec![element]))],
            )
        }
        30 => {
            let kind = if matches!(set_, "s" | "i") { "set" } else { "map" };
            (format!("flush {kind} ip t {set_}"), vec![delete_elements(set_, None)])
        }
        31 => ("delete counter ip t k1".into(), vec![delete_counter("k1")]),
        33..35 => declare(set_),
        32 => ("add counter ip t k1".into(), vec![counter_object("k1")]),
        _ => (
            "flush table ip t".into(),
            vec![Change::DeleteRule {
                family: IP,
                table: "t".into(),
                chain: None,
                handle: None,
                destroy: false,
            }],
        ),
    }
}

fn setup() -> Step {
    let text = "add table ip t\nadd counter ip t k0\nadd set ip t s { type ipv4_addr; }\n\
                add set ip t i { type ipv4_addr; flags interval; }\nadd map ip t v { type ipv4_addr : verdict; }\nadd map ip t o { type ipv4_addr : counter; }\n\
                add chain ip t c0\nadd chain ip t c1\nadd chain ip t c2\n\
                add chain ip t b0 { type filter hook input priority 0; }";
    let changes = vec![
        table(IP),
        counter_object("k0"),
        set("s"),
        declare("i").1.remove(0),
        map("v", MapData::Verdict),
        map("o", MapData::Object(ObjectType::Counter)),
        chain(IP, "c0"),
        chain(IP, "c1"),
        chain(IP, "c2"),
        base(IP, "b0", ChainType::Filter, Hook::Input),
    ];
    (text.into(), changes)
}

/// A rule as `nft` lists it.
fn rule_text(table: &Table, rule: &Rule) -> String {
    let words = rule.exprs.iter().filter_map(|expr| match expr {
        Expr::Immediate(Immediate { data: ImmediateData::Verdict(Verdict::Jump(c)), .. }) => {
            Some(format!("jump {c}"))
        }
        Expr::Immediate(Immediate { data: ImmediateData::Verdict(Verdict::Goto(c)), .. }) => {
            Some(format!("goto {c}"))
        }
        Expr::Lookup(l) if l.dreg.is_some() => Some(format!("ip saddr vmap @{}", l.set)),
        Expr::Lookup(l) => match table.sets.iter().find(|s| s.name == l.set) {
            Some(set) if set.anonymous => Some(format!("ip saddr {{ {} }}", elements(set))),
            _ => Some(format!("ip saddr @{}", l.set)),
        },
        Expr::Objref(Objref::Map { set, .. }) => Some(format!("counter name ip saddr map @{set}")),
        Expr::Objref(Objref::Named { name, .. }) => Some(format!("counter name \"{name}\"")),
        Expr::Reject(_) => Some("reject with icmp host-unreachable".into()),
        Expr::Counter(_) => Some("counter packets 0 bytes 0".into()),
        _ => None,
    });
    words.join(" ")
}

fn elements(set: &Set) -> String {
    let elements = set.elements();
    let texts = elements.iter().map(|e| {
        let address = |key: &[u8]| format!("{}.{}.{}.{}", key[0], key[1], key[2], key[3]);
        let key = match &e.key_end {
            Some(end) if *end != e.key => match e.key[3] ^ end[3] {
                // A range that is a prefix is listed as one.
                1 if e.key[3] % 2 == 0 => format!("{}/31", address(e.key)),
                3 if e.key[3] % 4 == 0 => format!("{}/30", address(e.key)),
                _ => format!("{}-{}", address(e.key), address(end)),
            },
            _ => address(e.key),
        };
        match &e.value.data {
            Some(ElementData::Verdict(Verdict::Jump(chain))) => format!("{key} : jump {chain}"),
            Some(ElementData::Object(name)) => format!("{key} : \"{name}\""),
            _ => key,
        }
    });
    texts.join(", ")
}

trait Join {
    fn join(self, separator: &str) -> String;
}

impl<I: Iterator<Item = String>> Join for I {
    fn join(self, separator: &str) -> String {
        self.collect::<Vec<_>>().join(separator)
    }
}

/// What has a handle, in the order of `nft -a list ruleset`, and the elements of sets.
fn listing(ruleset: &Ruleset) -> String {
    let mut out = String::new();
    for table in &ruleset.generation().tables {
        let _ = writeln!(out, "table ip t {{ # handle {}", table.handle);
        for object in &table.objects {
            let _ = writeln!(out, "counter {} {{ # handle {}", object.name, object.handle);
        }
        for set in table.sets.iter().filter(|s| !s.anonymous) {
            let kind = if set.data.is_some() { "map" } else { "set" };
            let _ = writeln!(out, "{kind} {} {{ # handle {}", set.name, set.handle);
            if !set.elements().is_empty() {
                let _ = writeln!(out, "elements = {{ {} }}", elements(set));
            }
        }
        for chain in &table.chains {
            let _ = writeln!(out, "chain {} {{ # handle {}", chain.name, chain.handle);
            if let Some(base) = &chain.base {
                let hook = format!("{:?}", base.hook).to_lowercase();
                let _ = writeln!(out, "type filter hook {hook} priority filter; policy accept;");
            }
            for rule in &chain.rules {
                let _ = writeln!(out, "{} # handle {}", rule_text(table, rule), rule.handle);
            }
        }
    }
    out
}

/// Facts of what `nft` printed.
fn facts(listed: &str) -> String {
    let mut out = String::new();
    let mut lines = listed.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(start) = line.strip_prefix("elements = ") {
            let mut all = start.to_string();
            while !all.ends_with('}') {
                let _ = write!(all, " {}", lines.next().unwrap_or("}"));
            }
            let _ = writeln!(out, "elements = {all}");
        } else if line.contains("# handle") || line.starts_with("type filter") {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// Runs each batch in one fresh namespace; what `nft` said to it (nothing if it took it), and the
/// listing after it.
fn kernel(batches: &[String]) -> Option<Vec<(String, String)>> {
    let mut script = String::new();
    for batch in batches {
        let _ = write!(
            script,
            "nft -f - 2>&1 <<'END'\n{batch}\nEND\necho @@@; nft -a list ruleset; echo @@@\n"
        );
    }
    let output = Command::new("unshare").args(["-n", "sh", "-c", &script]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    let mut parts = text.split("@@@\n");
    Some(
        batches
            .iter()
            .map_while(|_| Some((parts.next()?.to_string(), parts.next()?.to_string())))
            .collect(),
    )
}

#[test]
fn random_batches_end_as_in_the_kernel() {
    if !matches!(kernel(&["add table ip t".into()]).as_deref(), Some([(said, _)]) if said.is_empty())
    {
        println!("skipped: no network namespaces, or no nft");
        return;
    }
    let seed = penstock_testkit::seed();
    let rounds = penstock_testkit::rounds(30);
    let mut rng = Rng::with_seed(seed);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut ruleset = Ruleset::default();
        let (mut batches, mut ours) = (Vec::new(), Vec::new());
        let mut steps = vec![setup()];
        for _ in 0..20 {
            let text: Vec<_> = steps.iter().map(|(text, _)| text.clone()).collect();
            batches.push(text.into_iter().join("\n"));
            let changes = steps.drain(..).flat_map(|(_, changes)| changes).collect();
            let result = errno(commit(&mut ruleset, changes));
            ours.push((result, listing(&ruleset)));
            if result.is_some() {
                break;
            }
            // Most of what would be refused is not tried: a scenario ends there.
            for _ in 0..10 {
                let first_id = rng.u32(..1 << 20) * 4;
                steps =
                    (0..rng.u32(1..4)).map(|i| step(&mut rng, &ruleset, first_id + i)).collect();
                if rng.u8(0..12) == 0 {
                    steps = rename(&mut rng, &ruleset).into_iter().collect();
                }
                let changes = steps.iter().flat_map(|(_, changes)| changes.clone()).collect();
                if commit(&mut ruleset.clone(), changes).is_ok() || rng.u8(0..20) == 0 {
                    break;
                }
            }
        }
        let theirs = kernel(&batches).expect("nft runs");
        for (i, ((ours_said, ours_listed), (said, listed))) in ours.iter().zip(&theirs).enumerate()
        {
            let context = || {
                format!(
                    "seed {seed} round {round} batch {i}:\n{}\nnft said: {said}",
                    batches[..=i].join("\n--\n")
                )
            };
            let reason = ours_said.map(Errno::text);
            assert_eq!(reason.is_some(), !said.is_empty(), "we say {reason:?}; {}", context());
            // Errors that nft finds itself have other words, or (an unknown handle as position)
            // hide those of the kernel.
            if let Some(reason) = reason
                && !batches[i].contains("handle 99")
                && said.lines().next().is_some_and(|line| line.contains("Could not process rule"))
            {
                assert!(said.contains(reason), "we say {reason}; {}", context());
            }
            assert_eq!(*ours_listed, facts(listed), "{}", context());
            if reason.is_some() {
                refused += 1;
            } else {
                taken += 1;
            }
        }
    }
    println!("{taken} batches taken, {refused} refused");
}
