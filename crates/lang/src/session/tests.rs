// SPDX-License-Identifier: Apache-2.0

//! Output and resulting ruleset of runs of texts.

use penstock_syntax::source::NoFiles;

use super::*;

/// A machine with a loopback device, and TCP by name.
struct Machine;

impl Names for Machine {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn service_port(&self, name: &str, _protocol: Option<&str>) -> Option<u16> {
        (name == "ssh").then_some(22)
    }
    fn service_name(&self, port: u16, _protocol: Option<&str>) -> Option<String> {
        (port == 22).then(|| "ssh".into())
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        (name == "tcp").then_some(6)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        (number == 6).then(|| "tcp".into())
    }
}

const NOW: u64 = 1_700_000_000_000_000_000;

/// Runs a command line.
fn nft(options: Options, line: &str, ruleset: &mut Ruleset) -> Outcome {
    Session::new(options, &NoFiles, &Machine).run(Origin::CommandLine, line.into(), ruleset, NOW)
}

fn good(line: &str, ruleset: &mut Ruleset) -> String {
    let outcome = nft(Options::default(), line, ruleset);
    assert_eq!(outcome.stderr, "", "{line}");
    outcome.stdout
}

const ROUTER: &str = "table inet t {
	counter c1 {
		packets 1 bytes 2
	}

	set s {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8, 11.0.0.1 }
	}

	map m {
		type ipv4_addr : verdict
		elements = { 10.0.0.1 : accept }
	}

	chain chainy {
		type filter hook input priority filter; policy accept;
		ip saddr @s counter packets 3 bytes 4 jump other
		tcp dport { 22, 80 } accept comment \"in\"
	}

	chain other {
		tcp dport 22 counter packets 0 bytes 0 accept
	}
}
";

fn router() -> Ruleset {
    let mut ruleset = Ruleset::default();
    good(ROUTER, &mut ruleset);
    ruleset
}

#[test]
fn loaded_rulesets_are_listed_back() {
    assert_eq!(good("list ruleset", &mut router()), ROUTER);
}

#[test]
fn refusals_are_marked_at_the_blamed_part() {
    for (line, message, marks) in [
        (
            "add rule inet t chanky accept",
            "No such file or directory; did you mean chain ‘chainy’ in table inet ‘t’?",
            "                ^^^^^^",
        ),
        (
            "add rule inet tt chainy accept",
            "No such file or directory; did you mean table ‘t’ in family inet?",
            "              ^^",
        ),
        (
            "add rule inet t chainy jump othr",
            "Could not process rule: No such file or directory",
            "                            ^^^^",
        ),
        ("list chain inet t chany", "No such file or directory", "                  ^^^^^"),
        (
            "delete set inet t ss",
            "No such file or directory; did you mean set ‘s’ in table inet ‘t’?",
            "                  ^^",
        ),
        (
            "delete table inet x",
            "Could not process rule: No such file or directory",
            "                  ^",
        ),
        (
            "list counter inet t c2",
            "No such file or directory; did you mean obj ‘c1’ in table inet ‘t’?",
            "                    ^^",
        ),
        (
            "delete rule inet t other handle 99",
            "Could not process rule: No such file or directory",
            "                                ^^",
        ),
        (
            "add rule inet t other index 5 accept",
            "Could not process rule: No such file or directory",
            "                      ^^^^^^^",
        ),
        (
            "add rule ip t chainy accept",
            "No such file or directory; did you mean table ‘t’ in family inet?",
            "            ^",
        ),
        (
            "delete chain ip t chainy",
            "No such file or directory; did you mean table ‘t’ in family inet?",
            "                ^",
        ),
        (
            "create chain inet t other",
            "Could not process rule: File exists",
            "                    ^^^^^",
        ),
        (
            "delete element inet t s { 10.0.0.1 }",
            "element does not exist",
            "                          ^^^^^^^^",
        ),
        (
            "add rule inet t other counter quota 5 bytes used 10 bytes",
            "Could not process rule: Invalid argument",
            "                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "add quota inet t q { 5 bytes used 10 bytes }",
            "Could not process rule: Invalid argument",
            "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "add rule inet t other limit rate 18446744073709551615/week",
            "Could not process rule: Value too large for defined data type",
            "                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "add set inet t r { type ipv4_addr; limit rate 18446744073709551615/week; }",
            "Could not process rule: Value too large for defined data type",
            "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "add limit inet t l { rate 18446744073709551615/week }",
            "Could not process rule: Value too large for defined data type",
            "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "add rule inet t other ip saddr . ip daddr . ip6 daddr 5",
            "conflicting protocols specified: ip vs. ip6",
            "                                          ^^^^^^^^^^^",
        ),
        (
            "get element inet t s { 12.1.1.1 }",
            "Could not process rule: No such file or directory",
            "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
    ] {
        let mut ruleset = router();
        let outcome = nft(Options::default(), line, &mut ruleset);
        assert_eq!(outcome.stderr, format!("Error: {message}\n{line}\n{marks}\n"));
        assert!(!outcome.ok);
        assert_eq!(good("list ruleset", &mut ruleset), ROUTER, "{line}");
    }
}

#[test]
fn a_text_is_applied_whole_or_not_at_all_and_all_refusals_are_reported() {
    let mut ruleset = router();
    let before = ruleset.generation().id;
    let outcome = nft(
        Options::default(),
        "add table ip x; delete chain ip x c; create table inet t; add rule ip x nochain drop",
        &mut ruleset,
    );
    assert_eq!(outcome.stderr.matches("Error: ").count(), 3, "{}", outcome.stderr);
    let quota = r#"{"quota": {"val": 5, "val_unit": "bytes", "used": 9, "used_unit": "bytes"}}"#;
    let rule =
        format!(r#"{{"family": "inet", "table": "t", "chain": "other", "expr": [{quota}]}}"#);
    let json = Options { json: true, ..Options::default() };
    let outcome =
        nft(json, &format!(r#"{{"nftables": [{{"add": {{"rule": {rule}}}}}]}}"#), &mut ruleset);
    assert!(
        outcome.stderr.contains("Error: Could not process rule: Invalid argument"),
        "{}",
        outcome.stderr
    );
    assert_eq!(ruleset.generation().id, before);
    assert_eq!(good("list tables", &mut ruleset), "table inet t\n");
}

#[test]
fn a_listing_shows_earlier_commands_of_the_text() {
    let mut ruleset = Ruleset::default();
    let text =
        "add table ip a; list tables; add table ip b; list tables; delete table ip a; list tables";
    assert_eq!(good(text, &mut ruleset), "table ip a\ntable ip a\ntable ip b\ntable ip b\n");
    assert_eq!(ruleset.generation().id, 2);
}

#[test]
fn a_check_changes_nothing() {
    let mut ruleset = router();
    let before = ruleset.generation().id;
    let options = Options { check: true, echo: true, ..Options::default() };
    let outcome = nft(options, "flush ruleset; add table ip x", &mut ruleset);
    assert_eq!((outcome.ok, &*outcome.stdout), (true, ""));
    assert_eq!(ruleset.generation().id, before);
}

#[test]
fn added_objects_are_echoed() {
    let mut ruleset = Ruleset::default();
    for (line, expected) in [
        ("add table ip x", "add table ip x # handle 1"),
        (
            "add chain ip x c { type filter hook input priority 5; }",
            "add chain ip x c { type filter hook input priority filter + 5; policy accept; } # handle 1",
        ),
        (
            "add set ip x s { type ipv4_addr; timeout 5m; comment \"h\"; }",
            "add set ip x s { # handle 2 type ipv4_addr; timeout 5m; comment \"h\"; } ",
        ),
        (
            "add element ip x s { 1.1.1.1, 2.2.2.2 timeout 10s comment \"c\" }",
            "add element ip x s { 1.1.1.1 expires 5m }\n\
             add element ip x s { 2.2.2.2 timeout 10s expires 10s comment \"c\" }",
        ),
        ("add counter ip x k", "add counter ip x k { # handle 3 packets 0 bytes 0 } "),
        ("add rule ip x c tcp dport 22 accept", "add rule ip x c tcp dport 22 accept # handle 4"),
        ("insert rule ip x c handle 4 drop", "insert rule ip x c handle 4 drop # handle 5"),
        ("delete rule ip x c handle 4", ""),
    ] {
        let mut options = Options { echo: true, ..Options::default() };
        options.format.handles = true;
        let outcome = nft(options, line, &mut ruleset);
        assert_eq!(outcome.stderr, "", "{line}");
        let shown = outcome.stdout.split("# new generation").next().unwrap_or("");
        assert_eq!(shown.trim_end_matches('\n'), expected);
    }
}

#[test]
fn added_elements_are_echoed_after_merging() {
    let mut ruleset = Ruleset::default();
    let merging = "type inet_service; flags interval; auto-merge; elements = { 10-20, 30 };";
    good(
        &format!(
            "table ip t {{ set s {{ type ipv4_addr; elements = {{ 1.1.1.1 }}; }}; set m {{ {merging} }}; }}"
        ),
        &mut ruleset,
    );
    for (line, echoed) in [
        ("add element ip t s { 1.1.1.1, 1.1.1.2 }", "add element ip t s { 1.1.1.2 }\n"),
        ("flush set ip t s; add element ip t s { 1.1.1.1 }", "add element ip t s { 1.1.1.1 }\n"),
        ("add element ip t m { 12 }", ""),
        ("create element ip t m { 21 }", "create element ip t m { 10-21 }\n"),
        (
            "create element ip t m { 10-21, 40 }",
            "create element ip t m { 10-21 }\ncreate element ip t m { 40 }\n",
        ),
    ] {
        let options = Options { echo: true, ..Options::default() };
        let outcome = nft(options, line, &mut ruleset);
        assert_eq!(outcome.stderr, "");
        let lines = outcome.stdout.lines().filter(|line| !line.starts_with("# new generation "));
        assert_eq!(lines.map(|line| format!("{line}\n")).collect::<String>(), echoed, "{line}");
    }
}

#[test]
fn set_listings_name_the_backend() {
    let mut ruleset = Ruleset::default();
    let text = "table ip x {
        set port { type inet_service; }
        set net { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
        set small { type ipv4_addr; flags interval; policy memory; }
        set fed { type ipv4_addr; flags dynamic; size 9; }
        map both { type ipv4_addr . inet_service : verdict; flags interval; }
    }";
    assert_eq!(nft(Options::default(), text, &mut ruleset).stderr, "");
    let mut options = Options::default();
    options.format.backends = true;
    let listed = nft(options.clone(), "list sets; list maps", &mut ruleset).stdout;
    let backends: Vec<&str> =
        listed.lines().filter_map(|l| l.trim().strip_prefix("# backend ")).collect();
    assert_eq!(
        backends,
        [
            "bitmap, lookup O(1), space O(1)",
            "interval_index, lookup O(log n), space O(n)",
            "interval_array, lookup O(log n), space O(n)",
            "hash_word, lookup O(1), space O(n)",
            "range_list, lookup O(n), space O(n)",
        ]
    );
    // It is a comment: what is listed can be loaded.
    assert_eq!(nft(Options::default(), &listed, &mut Ruleset::default()).stderr, "");
    options.json = true;
    let json = nft(options, "list sets", &mut ruleset).stdout;
    assert!(
        json.contains(r#""backend": {"name": "bitmap", "lookup": "O(1)", "space": "O(1)"}"#),
        "{json}"
    );
}

#[test]
fn get_element_finds_the_covering_element() {
    let mut ruleset = router();
    for (line, elements) in [
        ("get element inet t s { 10.1.1.1 }", "10.0.0.0/8"),
        ("get element inet t s { 10.0.0.0/8, 11.0.0.1 }", "10.0.0.0/8, 11.0.0.1"),
        ("get element inet t m { 10.0.0.1 }", "10.0.0.1 : accept"),
    ] {
        let answer = good(line, &mut ruleset);
        assert!(answer.contains(&format!("elements = {{ {elements} }}")), "{line}: {answer}");
    }
}

#[test]
fn reset_prints_and_zeroes_state() {
    let mut ruleset = router();
    assert!(good("reset counter inet t c1", &mut ruleset).contains("packets 1 bytes 2"));
    assert!(good("list counters", &mut ruleset).contains("packets 0 bytes 0"));
    assert!(good("reset rules inet t chainy", &mut ruleset).contains("counter packets 3 bytes 4"));
    assert!(!good("list ruleset", &mut ruleset).contains("packets 3"));
}

#[test]
fn definitions_on_the_command_line_equal_those_in_the_text() {
    let defines = vec![("p".to_owned(), "{ 22, 23 }".to_owned())];
    let options = Options { defines, ..Options::default() };
    let mut ruleset = router();
    let outcome = nft(options.clone(), "add rule inet t other tcp dport $p accept", &mut ruleset);
    assert_eq!(outcome.stderr, "");
    let outcome = nft(options, "define p = 5", &mut ruleset);
    assert!(outcome.stderr.contains("redefinition of symbol 'p'"), "{}", outcome.stderr);
}

#[test]
fn a_saved_ruleset_is_restored_with_its_handles() {
    let mut ruleset = router();
    good("add table ip gone; delete table ip gone", &mut ruleset);
    good(
        "add set inet t late { type mark; timeout 1h; elements = { 1, 2 timeout 5m } }",
        &mut ruleset,
    );
    let mut options = Options::default();
    options.format.handles = true;
    let listing = nft(options.clone(), "list ruleset", &mut ruleset).stdout;
    let bytes = ruleset.save(NOW);
    let mut again = Ruleset::from_saved(&bytes).expect("a ruleset that was kept");
    assert_eq!(nft(options, "list ruleset", &mut again).stdout, listing);
    assert!(again.save(NOW) == bytes);
    assert_eq!(again.generation().id, ruleset.generation().id);
    assert_eq!(again.last_table_handle(), 2);
    for ruleset in [&mut ruleset, &mut again] {
        good("add table ip next", ruleset);
        good("add element inet t late { 3 }", ruleset);
    }
    assert!(again.save(NOW) == ruleset.save(NOW));
}

#[test]
fn a_part_of_a_ruleset_has_what_is_named_with_its_values() {
    use penstock_program::expr::ObjectType;
    use penstock_ruleset::reset::{Reset, What};

    let text = "table inet t {
        counter n { packets 7 bytes 8; }
        set s { type mark; counter; elements = { 1 counter packets 3 bytes 4 }; }
        map m { type mark : counter; elements = { 5 : \"n\" }; }
        map v { type mark : verdict; elements = { 6 : jump d }; }
        set plain { type mark; elements = { 9 }; }
        chain d { }
        chain c {
            counter packets 1 bytes 2 meta mark { 1, 2 } jump d
            meta mark vmap @v
            counter name n
        }
    }; table ip other { chain c { counter; }; }";
    let mut ruleset = Ruleset::default();
    good(text, &mut ruleset);
    let in_t = |what| Reset { family: None, table: Some("t".into()), what };
    let cases = [
        // What is named, whether packets change it, what is listed of it, and what is left out.
        (
            What::Rules(Some("c".into()), None),
            true,
            &["counter packets 1 bytes 2", "meta mark vmap @v"][..],
            &["packets 3"][..],
        ),
        (What::Rules(Some("d".into()), None), false, &["chain d {"], &["packets 1 bytes"]),
        (What::Elements("s".into(), None), true, &["counter packets 3 bytes 4"], &["packets 1"]),
        (What::Elements("plain".into(), None), false, &["elements = { 0x00000009 }"], &["vmap"]),
        (
            What::Objects(ObjectType::Counter, None),
            true,
            &["packets 7 bytes 8", "counter name \"n\"", "0x00000005 : \"n\""],
            &["packets 3", "0x00000009"],
        ),
        (What::Objects(ObjectType::Quota, None), false, &["table inet t"], &["0x00000009"]),
    ];
    for (what, live, has, lacks) in cases {
        let named = in_t(what);
        assert_eq!(ruleset.generation().is_live(&named), live, "{named:?}");
        let bytes = ruleset.save_part(NOW, std::slice::from_ref(&named), &[]);
        let mut part = Ruleset::from_saved(&bytes).expect("a ruleset that was kept");
        assert_eq!(part.generation().id, ruleset.generation().id);
        let listed = nft(Options::default(), "list ruleset", &mut part).stdout;
        assert!(has.iter().all(|text| listed.contains(text)), "{named:?}: {listed}");
        assert!(!lacks.iter().any(|text| listed.contains(text)), "{named:?}: {listed}");
        assert!(!listed.contains("table ip other"), "{named:?}: {listed}");
    }
    // It has the values from before they are set to zero.
    let named = [in_t(What::Elements("s".into(), None))];
    for packets in ["packets 3 ", "packets 0 "] {
        let bytes = ruleset.save_part(NOW, &named, &named);
        let mut part = Ruleset::from_saved(&bytes).expect("a ruleset that was kept");
        let listed = nft(Options::default(), "list ruleset", &mut part).stdout;
        assert!(listed.contains(packets), "{listed}");
    }
}

#[test]
fn a_saved_ruleset_keeps_state_that_text_cannot_express() {
    let mut ruleset = router();
    let rules = [
        "add rule inet t other @ll,0,48 != { 21, 82 } meta mark set 1",
        "add rule inet t other ether type ip6 ip option ra value 3",
        "add rule inet t other @nh,32,16 { 2, 10 }",
    ];
    let taken: Vec<bool> =
        rules.iter().map(|rule| nft(Options::default(), rule, &mut ruleset).ok).collect();
    assert!(taken.iter().any(|taken| *taken));
    let bytes = ruleset.save(NOW);
    let again = Ruleset::from_saved(&bytes).expect("a ruleset that was kept");
    let programs = |ruleset: &Ruleset| {
        let generation = ruleset.generation();
        let rules = generation.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
        rules.map(|r| (r.handle, r.exprs.clone())).collect::<Vec<_>>()
    };
    assert_eq!(programs(&again), programs(&ruleset));
}

#[test]
fn a_corrupt_saved_ruleset_is_refused_with_the_offset() {
    let mut ruleset = Ruleset::default();
    good("table ip t { set s { type mark; elements = { 1 }; }; }", &mut ruleset);
    let bytes = ruleset.save(NOW);
    let told =
        |bytes: &[u8]| Ruleset::from_saved(bytes).err().map(|e| e.to_string()).unwrap_or_default();
    for end in 0..bytes.len() {
        assert_ne!(told(&bytes[..end]), "", "{end} bytes");
    }
    assert_eq!(told(&bytes[..15]), "broken at byte 15: the end comes too early");
    assert_eq!(
        told(&[&bytes[..10], &[99]].concat()),
        "broken at byte 10: this is format 99, not 1"
    );
    let long = bytes.len() + 1;
    let long =
        format!("broken at byte {long}: nothing but owners of tables and counters can follow");
    assert_eq!(told(&[&bytes[..], b"x"].concat()), long);
}

/// Rules that show every statement and expression.
const RULES: &str = include_str!("../../../syntax/src/parse/tests/rules.txt");

/// A table in which most of [`RULES`] can stand.
const AROUND: &str = "table inet t {
	counter c { }; counter http { }; counter https { }
	limit l { rate 1/second; }
	quota q { 10 mbytes; }
	synproxy s { mss 1460; wscale 7; }
	ct helper ftp { type \"ftp\" protocol tcp; }
	ct timeout t { protocol tcp; policy = { established : 100 }; }
	ct expectation e { protocol tcp; dport 5; timeout 1m; size 5; l3proto ip; }
	set s { type ipv4_addr; flags dynamic,timeout; }
	map v { type inet_service : verdict; }
	chain other { }
	chain c { }
}
";

#[test]
fn listings_are_read_back_as_the_same_ruleset() {
    let mut taken = 0;
    let mut different = Vec::new();
    for line in RULES.lines() {
        let mut ruleset = Ruleset::default();
        good(AROUND, &mut ruleset);
        if !nft(Options::default(), &format!("add rule inet t c {line}"), &mut ruleset).ok {
            continue;
        }
        taken += 1;
        let listing = good("list ruleset", &mut ruleset);
        let mut again = Ruleset::default();
        let outcome = nft(Options::default(), &listing, &mut again);
        let second = good("list ruleset", &mut again);
        if !outcome.ok || second != listing {
            let changed = listing.lines().filter(|l| !second.lines().any(|s| s == *l));
            let changed: Vec<&str> = changed.collect();
            different.push(format!("{line}\n{}{}", outcome.stderr, changed.join("\n")));
        }
    }
    assert!(taken > 100, "{taken}");
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// Good texts with words cut out, doubled and swapped, in a table that knows what they name.
#[test]
fn random_text_does_not_panic() {
    const COMMANDS: &str = include_str!("../../../syntax/src/parse/tests/commands.txt");
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut texts: Vec<String> = RULES.lines().map(|l| format!("add rule inet t c {l}")).collect();
    texts.extend(COMMANDS.split("%%\n").map(str::to_owned));
    let all = texts.join(" ");
    let words: Vec<&str> = all.split_inclusive([' ', '\n']).collect();
    let mut base = Ruleset::default();
    good(AROUND, &mut base);
    let mut debug = Options::default();
    debug.debug.netlink = true;
    for _ in 0..2000 {
        let text = &texts[rng.usize(..texts.len())];
        let mut parts: Vec<&str> = text.split_inclusive(' ').collect();
        for _ in 0..rng.usize(0..4) {
            let at = rng.usize(..parts.len());
            match rng.u8(..4) {
                0 if parts.len() > 1 => _ = parts.swap_remove(at),
                1 => parts.insert(at, parts[rng.usize(..parts.len())]),
                2 => parts.truncate(at + 1),
                _ => parts[at] = words[rng.usize(..words.len())],
            }
        }
        let text = parts.concat();
        println!("{text}");
        let mut ruleset = base.clone();
        let outcome = nft(debug.clone(), &text, &mut ruleset);
        if outcome.ok {
            let mut format = Options::default();
            format.format.handles = true;
            nft(format, "list ruleset", &mut ruleset);
            nft(Options { json: true, ..Options::default() }, "list ruleset", &mut ruleset);
        }
    }
}

#[test]
fn an_index_counts_rules_as_left_by_earlier_commands() {
    let mut ruleset = Ruleset::default();
    let text = "add table ip t; add chain ip t c; add rule ip t c accept; add rule ip t c index 0 drop; \
                insert rule ip t c index 1 continue; add rule ip t c index 0 return; list chain ip t c";
    let listed = good(text, &mut ruleset);
    let rules: Vec<&str> = listed.lines().filter_map(|l| l.strip_prefix("\t\t")).collect();
    assert_eq!(rules, ["accept", "return", "continue", "drop"]);
    let outcome = nft(
        Options::default(),
        "delete rule ip t c handle 2; add rule ip t c index 3 accept",
        &mut ruleset,
    );
    assert!(outcome.stderr.contains("No such file or directory"), "{}", outcome.stderr);
}

#[test]
fn last_counts_back_from_when_the_rule_was_added() {
    let mut ruleset = Ruleset::default();
    let text = "add table ip t { set s { type ipv4_addr; last; elements = { 198.18.0.1 last used 1s }; }; \
                chain c { last used 5m30s; last used never; }; }; list table ip t";
    let listed = good(text, &mut ruleset);
    for expected in ["\t\tlast used 5m30s\n", "\t\tlast used never\n", "198.18.0.1 last used 1s }"]
    {
        assert!(listed.contains(expected), "{listed}");
    }
}

#[test]
fn chains_in_braces_are_echoed_by_the_name_that_they_got() {
    let options = Options { echo: true, ..Options::default() };
    let text = "add table ip t; add chain ip t c; add rule ip t c tcp dport 22 jump { accept; }";
    let outcome = nft(options, text, &mut Ruleset::default());
    let lines: Vec<&str> = outcome.stdout.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "add table ip t",
            "add chain ip t c",
            "add chain ip t __chain2",
            "add rule ip t __chain2 accept",
            "add rule ip t c tcp dport 22 jump __chain2",
        ]
    );
}

#[test]
fn compact_rules_and_elements_equal_their_trees() {
    let set =
        |elements: &str| format!("table inet t {{\n set s {{ type ipv4_addr; {elements} }}\n}}\n");
    let many =
        (0..1000).map(|i| format!("10.0.{}.{}", i >> 8, i & 255)).collect::<Vec<_>>().join(",\n");
    let texts = [
        ROUTER.to_string(),
        set(&format!("elements = {{ {many} }}")),
        set(&format!("elements = {{ {many}, 10.0.0.300 }}")),
        set("flags interval; elements = { 10.0.0.0/8,\n 11.0.0.1 - 11.0.0.7 comment \"x\", * }"),
        set("flags interval; elements = { 10.0.0.0/8, 11.0.0.1, 10.3.0.0/16 }"),
        set("flags interval; auto-merge; elements = { 10.0.0.0/8, 10.3.0.0/16 }"),
        set("elements = { 10.0.0.1, # one\n 10.0.0.2, \\\n 10.0.0.3, }"),
        "define a = 10.0.0.9\n".to_owned() + &set("elements = { 10.0.0.1, 10.0.0.2, $a, 10.0.0.3 }"),
        "define a = { 10.0.0.8, 10.0.0.9 }\n".to_owned() + &set("elements = { 10.0.0.1, $a }"),
        set("elements = { 10.0.0.1, $b, 10.0.0.3 }"),
        set("elements = { 10.0.0.1, 10.0.0.3 10.0.0.4 }"),
        set("elements = { 10.0.0.1 timeout 5s }"),
        set("flags timeout; elements = { 10.0.0.1 timeout 5s expires 3s }"),
        "define p = 22\ntable ip t {\n chain c {\n  tcp dport $p accept\n  tcp dport { 1, $p } drop\n  ip saddr 1.2.3.4 \
         jump { counter; accept; }\n }\n}\n"
            .to_owned(),
        "table ip t {\n chain c {\n  ip saddr 1.2.3.4.5 accept\n  tcp dport 99999 accept\n  nonsense\n }\n}\n".to_owned(),
        "table ip t {\n set s { type ipv4_addr; size 9; }\n chain c { add @s { ip saddr }; }\n}\n".to_owned(),
        "add table ip t\nadd map ip t m { type ipv4_addr : mark; }\nadd element ip t m { 1.2.3.4 : 5, 1.2.3.5 : 6 }\n"
            .to_owned(),
    ];
    for text in texts {
        let run = |lint| {
            let options = Options { lint, debug: Debug { netlink: true }, ..Options::default() };
            let mut ruleset = Ruleset::default();
            let outcome = nft(options, &text, &mut ruleset);
            let errors: String =
                outcome.stderr.split_inclusive('\n').filter(|l| l.contains("Error")).collect();
            // A rehearsal prints nothing about refused parts.
            let shown = if outcome.ok { outcome.stdout } else { String::new() };
            (outcome.ok, errors, shown, good("list ruleset", &mut ruleset))
        };
        assert_eq!(run(false), run(true), "{text}");
    }
}

#[test]
fn evaluation_errors_precede_refusals_and_undo_everything() {
    let mut ruleset = router();
    let refused = "delete chain inet t none\n";
    let wrong = "add rule inet t other tcp dport 99999\n";
    let only_wrong = nft(Options::default(), wrong, &mut ruleset).stderr;
    // For a command line the first line is shown, as by nft.
    let told = |first: &str| only_wrong.replace(wrong, first);
    assert_eq!(
        nft(Options::default(), &(refused.to_owned() + wrong), &mut ruleset).stderr,
        told(refused)
    );
    let reset = nft(Options::default(), &("reset counters\n".to_owned() + wrong), &mut ruleset);
    assert_eq!((reset.stdout.as_str(), reset.stderr), ("", told("reset counters\n")));
    assert_eq!(good("list ruleset", &mut ruleset), ROUTER);
}

#[test]
fn elements_carry_the_statements_of_their_set_declaration() {
    let mut ruleset = Ruleset::default();
    good("table ip t { set s { type ipv4_addr; counter; }; }", &mut ruleset);
    // The set is known from the ruleset, not from the text.
    good("add element ip t s { 198.18.0.1 counter packets 3 bytes 4 }", &mut ruleset);
    let listed = good("list ruleset", &mut ruleset);
    assert!(listed.contains("elements = { 198.18.0.1 counter packets 3 bytes 4 }"), "{listed}");
    for (element, message, marks) in [
        (
            "198.18.0.2 limit rate 3/second",
            "statement mismatch, element expects limit, but set has type counter",
            "                                ^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "198.18.0.2 counter limit rate 3/second",
            "number of statements mismatch, set expects 1 but element has 2",
            "                     ^^^^^^^^^^",
        ),
    ] {
        let line = format!("add element ip t s {{ {element} }}");
        let outcome = nft(Options::default(), &line, &mut ruleset);
        assert_eq!(outcome.stderr, format!("Error: {message}\n{line}\n{marks}\n"));
    }
}

#[test]
fn adjacent_intervals_of_a_map_are_counted_and_sent_as_nft_does() {
    let options = Options { debug: Debug { netlink: true }, ..Options::default() };
    let mut ruleset = Ruleset::default();
    good("table ip t { chain c { }; }", &mut ruleset);
    let line = "add rule ip t c ip ttl vmap { 1-5 : accept, 6-9 : drop }";
    let outcome = nft(options, line, &mut ruleset);
    let sent = "__map%d t f size 5\n__map%d t 0\n\telement 00000000  : 1 [end]\telement 00000001  : accept 0 [end]\t\
                element 00000006  : drop 0 [end]\telement 0000000a  : 1 [end]\n";
    assert!(outcome.stdout.starts_with(sent), "{}", outcome.stdout);
}
