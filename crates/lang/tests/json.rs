// SPDX-License-Identifier: Apache-2.0

//! JSON in the form of libnftables-json(5), held against what nft 1.0.6 printed.

use penstock_lang::datatype::Format;
use penstock_lang::eval::{Context, evaluate, expand};
use penstock_lang::listing::Listing;
use penstock_lang::listing::json;
use penstock_lang::lower::lower;
use penstock_lang::names::Names;
use penstock_lang::source::{Files, Inputs, Origin};
use penstock_ruleset::Ruleset;
use penstock_syntax::diag::Diagnostics;
use penstock_syntax::json::{read, to_text};
use penstock_syntax::parse::parse;
use penstock_syntax::scope::Scope;
use serde_json::Value;

/// Names of a small system, at UTC.
struct System;

const PROTOCOLS: [(&str, u8); 14] = [
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("comp", 108),
    ("sctp", 132),
    ("udplite", 136),
    ("ipv6", 41),
];

impl Names for System {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        PROTOCOLS.iter().find(|(_, p)| *p == number).map(|(n, _)| (*n).into())
    }
    fn user_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
    fn user_name(&self, id: u32) -> Option<String> {
        (id == 0).then(|| "root".into())
    }
    fn group_id(&self, name: &str) -> Option<u32> {
        self.user_id(name)
    }
    fn group_name(&self, id: u32) -> Option<String> {
        self.user_name(id)
    }
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        ((table, name) == ("group", "default")).then_some(0)
    }
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        ((table, value) == ("group", 0)).then(|| "default".into())
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

/// A time at which the tests run.
const NOW: u64 = 1_700_000_000_000_000_000;

/// Runs a text, or JSON, on a ruleset as one transaction.
fn run(ruleset: &mut Ruleset, text: &str) -> Result<(), String> {
    let mut inputs = Inputs::default();
    let mut diags = Diagnostics::default();
    let input = inputs.add(Origin::File { name: "test".into(), from: None }, text.to_string());
    let commands = match read(text, input, &mut diags) {
        Some(commands) => commands,
        None => parse(&mut inputs, input, &NoFiles, &[], &mut Scope::default(), &mut diags),
    };
    let mut context = Context::new(&ruleset.generation(), &System);
    context.now = NOW;
    let mut changes = Vec::new();
    for mut command in expand(commands) {
        if evaluate(&mut command, &mut context, &mut diags) {
            changes.extend(lower(&command, &context));
        }
    }
    if diags.has_errors() {
        return Err(diags.render(&inputs));
    }
    let mut transaction = ruleset.begin_at(NOW);
    for lowered in changes {
        transaction
            .apply(lowered.change)
            .map_err(|e| format!("Could not process rule: {}\n", e.errno.text()))?;
    }
    ruleset.commit(transaction).map_err(|e| e.errno.text().to_owned())
}

fn load(text: &str) -> Result<Ruleset, String> {
    let mut ruleset = Ruleset::default();
    run(&mut ruleset, text)?;
    Ok(ruleset)
}

fn text_of(ruleset: &Ruleset) -> String {
    let generation = ruleset.generation();
    Listing { generation: &generation, format: Format::default(), names: &System, now: NOW }
        .ruleset(None)
}

fn json_of(ruleset: &Ruleset) -> Value {
    let generation = ruleset.generation();
    let listing =
        Listing { generation: &generation, format: Format::default(), names: &System, now: NOW };
    json::ruleset(&listing, None)
}

/// Objects that rules of the tables refer to.
const OBJECTS: &str = r#"
    counter c1 { }
    quota q1 { 10 mbytes }
    limit l1 { rate 400/minute }
    synproxy sp { mss 1460; wscale 7; timestamp sack-perm; }
    ct helper h { type "ftp" protocol tcp; l3proto ip; }
    ct timeout to { protocol tcp; l3proto ip; policy = { established : 100, close_wait : 20 }; }
    ct expectation ex { protocol tcp; dport 5432; timeout 1h; size 12; l3proto ip; }
    set s { type ipv4_addr; flags dynamic,timeout; }
    set s2 { type ipv4_addr; size 65535; flags dynamic; }
    map m { type ipv4_addr : ipv4_addr; flags dynamic; size 65535; }
    map vm { type ipv4_addr : verdict; }
"#;

/// The cases of `json/rules.txt`: the text of a ruleset with one rule, the rule, and the JSON of
/// its statements.
fn rule_cases() -> Vec<(String, &'static str, &'static str)> {
    let mut cases = Vec::new();
    let mut head = String::new();
    let mut lines = include_str!("json/rules.txt").lines().filter(|l| !l.starts_with('#'));
    while let Some(line) = lines.next() {
        if let Some(place) = line.strip_prefix("== ") {
            let [family, kind, hook] = place.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let device = if family == "netdev" { "device lo " } else { "" };
            let objects = if matches!(family, "ip" | "inet") { OBJECTS } else { "" };
            head = format!(
                "table {family} t {{\n{objects}\nchain d {{ }}\n\
                 chain c {{ type {kind} hook {hook} {device}priority 0; }}\n}}\nadd rule {family} t c "
            );
            continue;
        }
        let expected = lines.next().unwrap_or_default().trim();
        cases.push((format!("{head}{line}"), line, expected));
    }
    cases
}

fn statements(ruleset: &Ruleset) -> String {
    let value = json_of(ruleset);
    let objects = value["nftables"].as_array().cloned().unwrap_or_default();
    let rule = objects.iter().find_map(|o| o.get("rule"));
    rule.map(|r| to_text(&r["expr"])).unwrap_or_default()
}

#[test]
fn statements_are_listed_as_nft_lists_them() {
    let mut wrong = String::new();
    for (text, rule, expected) in rule_cases() {
        let got = match load(&text) {
            Ok(ruleset) => statements(&ruleset),
            Err(message) => message,
        };
        if got != expected {
            wrong += &format!("{rule}\n  is       {got}\n  nft has  {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn text_to_json_to_text_is_the_identity() {
    let mut wrong = String::new();
    for (text, rule, _) in rule_cases() {
        // The schema has no form for chains within rules.
        if rule.contains("jump {") {
            continue;
        }
        let Ok(before) = load(&text) else { continue };
        let json = to_text(&json_of(&before));
        match load(&json) {
            Ok(after) if text_of(&after) == text_of(&before) => {}
            Ok(after) => {
                wrong += &format!("{rule}\n{}\n", difference(&text_of(&before), &text_of(&after)))
            }
            Err(message) => wrong += &format!("{rule}\n  {}  {message}", statements(&before)),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The lines in which two texts differ.
fn difference(before: &str, after: &str) -> String {
    let missing =
        before.lines().filter(|l| !after.lines().any(|o| o == *l)).map(|l| format!("  - {l}\n"));
    let new =
        after.lines().filter(|l| !before.lines().any(|o| o == *l)).map(|l| format!("  + {l}\n"));
    missing.chain(new).collect()
}

fn repository(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What is lost on the way to JSON and back, if anything.
fn lost(before: &Ruleset) -> Option<String> {
    match load(&to_text(&json_of(before))) {
        Ok(after) if text_of(&after) == text_of(before) => None,
        Ok(after) => Some(difference(&text_of(before), &text_of(&after))),
        Err(message) => Some(message),
    }
}

#[test]
fn whole_rulesets_and_the_rules_of_the_filetests_survive_json() {
    let mut wrong = String::new();
    for path in ["examples/router/rules.nft", "crates/lang/tests/json/objects.nft"] {
        let text = repository(path).replace("typeof ip saddr", "type ipv4_addr");
        let before = load(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        wrong.extend(lost(&before).map(|lost| format!("{path}\n{lost}\n")));
    }
    let mut rules = 0;
    for name in [
        "bitwise",
        "cmp",
        "dup_fwd",
        "exthdr",
        "fib_rt",
        "log",
        "inner",
        "lookup",
        "meta",
        "numgen_hash",
        "payload",
        "payload_set",
        "reject",
        "stateful",
        "verdict",
    ] {
        let mut head = String::new();
        for line in repository(&format!("filetests/{name}.t")).lines() {
            if let Some(hook) = line.strip_prefix("hook ") {
                let mut words = hook.split(' ');
                let (family, hook) =
                    (words.next().unwrap_or("ip"), words.next().unwrap_or("input"));
                let device = if family == "netdev" { "device lo " } else { "" };
                head = format!(
                    "table {family} t {{ chain sub {{ }}; chain c {{ type filter hook {hook} {device}priority 0; }}; }}\n\
                     add rule {family} t c "
                );
            }
            let Some(rule) = line.strip_prefix("rule ") else { continue };
            // The schema has no form for chains within rules.
            if rule.contains("jump {") || rule.contains("goto {") {
                continue;
            }
            // Rules on objects of their file are left out, and so are invalid ones.
            let Ok(before) = load(&format!("{head}{rule}")) else { continue };
            rules += 1;
            wrong.extend(lost(&before).map(|lost| format!("{name}: {rule}\n{lost}\n")));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(rules > 100, "only {rules} rules");
}

#[test]
fn flowtables_at_early_ingress_survive_json() {
    let text =
        "table ip t { flowtable f { hook early_ingress priority -5; devices = { lan, wan }; }; }";
    let before = load(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lost(&before), None);
    assert_eq!(json_of(&before)["nftables"][2]["flowtable"]["hook"], "early_ingress");
    // It is another flowtable than one at ingress.
    let mut ruleset = before;
    assert!(run(&mut ruleset, "add flowtable ip t f { hook ingress priority -5; }").is_err());
    // Chains are not there.
    assert!(
        load(
            "table netdev t { chain c { type filter hook early_ingress device lo priority 0; }; }"
        )
        .is_err()
    );
}

/// `json/objects.nft` holds one of each kind; `json/objects.txt` what nft 1.0.6 lists of them, an
/// object in a line, except for the comments of tables and chains, devices, `flags` of tables,
/// `dynamic` and `auto-merge`, which it loses.
#[test]
fn objects_are_listed_as_nft_lists_them() {
    let ruleset = load(include_str!("json/objects.nft")).unwrap_or_else(|e| panic!("{e}"));
    let value = json_of(&ruleset);
    let objects = value["nftables"].as_array().cloned().unwrap_or_default();
    let lines: String = objects.iter().map(|o| to_text(o) + "\n").collect();
    let expected = include_str!("json/objects.txt");
    assert!(lines == expected, "{}\nall:\n{lines}", difference(expected, &lines));
}

/// Later releases say so of what a set was declared with.
#[test]
fn sets_may_be_declared_by_expressions() {
    let payload = |protocol: &str, field: &str| {
        format!("{{\"payload\": {{\"protocol\": \"{protocol}\", \"field\": \"{field}\"}}}}")
    };
    let (address, port) = (payload("ip", "saddr"), payload("tcp", "dport"));
    for (declared, members) in [
        ("set s { typeof ip saddr; }", format!("\"type\": {{\"typeof\": {address}}}")),
        (
            "set s { typeof ip saddr . tcp dport; flags interval; }",
            format!(
                "\"type\": {{\"typeof\": {{\"concat\": [{address}, {port}]}}}}, \"flags\": [\"interval\"]"
            ),
        ),
        (
            "map s { typeof ip saddr : meta mark; }",
            format!(
                "\"type\": {{\"typeof\": {address}}}, \"map\": {{\"typeof\": {{\"meta\": {{\"key\": \"mark\"}}}}}}"
            ),
        ),
        (
            "map s { typeof tcp dport : verdict; }",
            format!("\"type\": {{\"typeof\": {port}}}, \"map\": \"verdict\""),
        ),
    ] {
        let kind = &declared[..3];
        let json = format!(
            "{{\"nftables\": [{{\"add\": {{\"table\": {{\"family\": \"ip\", \"name\": \"t\"}}}}}}, {{\"add\": {{\"{kind}\": \
             {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"s\", {members}}}}}}}]}}"
        );
        let expected = load(&format!("table ip t {{ {declared}; }}")).map(|r| text_of(&r));
        assert_eq!(load(&json).map(|r| text_of(&r)), expected, "{declared}");
    }
    for members in [
        "\"type\": {\"typeof\": \"mark\"}",
        "\"type\": {\"typeof\": 5}",
        "\"type\": {\"typeof\": {}}",
    ] {
        let json = format!(
            "{{\"nftables\": [{{\"add\": {{\"table\": {{\"family\": \"ip\", \"name\": \"t\"}}}}}}, {{\"add\": {{\"set\": \
             {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"s\", {members}}}}}}}]}}"
        );
        assert!(load(&json).is_err(), "{members}");
    }
}

#[test]
fn tunnel_objects_survive_json() {
    let before = load(include_str!("listed_tunnels.nft")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lost(&before), None);
    let value = json_of(&before);
    let objects = |kind: &str| {
        value["nftables"].as_array().into_iter().flatten().filter(|o| o.get(kind).is_some()).count()
    };
    assert_eq!((objects("tunnel"), objects("rule")), (5, 4));
    let tunnel = &value["nftables"][2]["tunnel"];
    let ends =
        [&tunnel["src-ipv4"], &tunnel["dst-ipv4"], &tunnel["type"], &tunnel["tunnel"][0]["data"]];
    assert_eq!(ends, ["198.18.2.10", "198.18.2.11", "geneve", "0x12345678"]);
    // As nft 1.1.4 had them.
    let older = to_text(&value).replace("-ipv4\"", "\"").replace("-ipv6\"", "\"");
    assert_eq!(load(&older).map(|r| text_of(&r)), Ok(text_of(&before)));
}

#[test]
fn json_errors_equal_those_of_nft() {
    let chain = "table ip t { chain c { }; }";
    for (document, expected) in [
        ("{\"nftables\":5}", "Value of property \"nftables\" must be an array."),
        (
            "{\"nftables\":[5]}",
            "Unexpected command array element of type integer, expected object.",
        ),
        (
            "{\"nftables\":[{}]}",
            "Unknown object passed to add command.|Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"metainfo\":{\"json_schema_version\":2}}]}",
            "Schema version 2 not supported, maximum supported version is 1||Metainfo verification failed.",
        ),
        (
            "{\"nftables\":[{\"add\":{\"table\":{\"family\":\"ipx\",\"name\":\"t\"}}}]}",
            "Unknown family 'ipx'.|Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"add\":5}]}",
            "Value of add command must be object (got integer instead).|Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"replace\":{\"rule\":{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"c\",\"expr\":[]}}}]}",
            "Handle is required when replacing a rule.|Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"rule\":{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"c\",\"expr\":[{\"foo\":5}]}}]}",
            "Unknown statement object 'foo'.|Parsing expr array at index 0 failed.|\
             Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"rule\":{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"c\",\"expr\":[{\"match\":\
             {\"op\":\"==\",\"left\":{\"meta\":{\"key\":\"mark\"}},\"right\":{\"meta\":{\"key\":\"mark\"}}}}]}}]}",
            "Expression type meta not allowed in context (RHS).|Invalid RHS of relational.|\
             Parsing expr array at index 0 failed.|Parsing command array at index 0 failed.",
        ),
        (
            "{\"nftables\":[{\"rule\":{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"c\",\"expr\":[{\"match\":\
             {\"op\":\"==\",\"left\":{\"meta\":{\"key\":\"mark\"}},\"right\":\"zzz\"}}]}}]}",
            "Could not parse packet mark",
        ),
    ] {
        let mut ruleset = load(chain).unwrap_or_else(|e| panic!("{e}"));
        let message = run(&mut ruleset, document).expect_err(document);
        let expected: String =
            expected
                .split('|')
                .map(|m| {
                    if m.is_empty() {
                        "\n".into()
                    } else {
                        format!("internal:0:0-0: Error: {m}\n\n")
                    }
                })
                .collect();
        assert_eq!(message, expected, "{document}");
    }
    let mut ruleset = load(chain).unwrap_or_else(|e| panic!("{e}"));
    let document = "{\"nftables\":[{\"add\":{\"table\":{\"family\":\"ip\"}}}]}";
    assert_eq!(
        run(&mut ruleset, document),
        Err(format!(
            "test:1:4-4: Error: Object item not found: name\n{document}\n   ^\n\
             internal:0:0-0: Error: Parsing command array at index 0 failed.\n\n"
        ))
    );
}

/// Listed rules with parts exchanged, taken away or put elsewhere: whatever comes of it, it is an
/// answer.
#[test]
fn random_json_does_not_panic() {
    let seed = penstock_testkit::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut documents: Vec<Value> =
        vec![json_of(&load(include_str!("json/objects.nft")).unwrap_or_default())];
    documents.extend(rule_cases().iter().filter_map(|(text, ..)| Some(json_of(&load(text).ok()?))));
    let mut parts = Vec::new();
    documents.iter().for_each(|d| collect(d, &mut parts));
    for _ in 0..1500 {
        let mut document = documents[random.usize(..documents.len())].clone();
        for _ in 0..random.usize(1..4) {
            change(&mut document, &parts, &mut random);
        }
        let _ = load(&to_text(&document));
    }
}

fn collect(value: &Value, parts: &mut Vec<Value>) {
    parts.push(value.clone());
    match value {
        Value::Array(list) => list.iter().for_each(|v| collect(v, parts)),
        Value::Object(object) => object.values().for_each(|v| collect(v, parts)),
        _ => {}
    }
}

fn change(value: &mut Value, parts: &[Value], random: &mut fastrand::Rng) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(object) => object.values_mut().collect(),
        _ => Vec::new(),
    };
    let count = inner.len();
    if count > 0 && random.u8(..) < 230 {
        if let Some(inner) = inner.into_iter().nth(random.usize(..count)) {
            change(inner, parts, random);
        }
        return;
    }
    *value = match random.u8(..6) {
        0 => Value::Null,
        1 => Value::from(random.i64(..)),
        2 => Value::Array(vec![value.clone(), value.clone()]),
        _ => parts[random.usize(..parts.len())].clone(),
    };
}
