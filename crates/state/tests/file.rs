// SPDX-License-Identifier: Apache-2.0

//! Files: what is restored, and what is refused.

use std::sync::Arc;

use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::change::{Mode, NewChain, NewRule, NewSet, Position};
use penstock_ruleset::{Change, Family, Ruleset};
use penstock_sets::Description;
use penstock_state::{Salvaged, State, same};

const NOW: u64 = 8_000_000_000;
const FLOW: &str = "flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 \
                    status=14 left=5000000000 udp=0";

fn state() -> State {
    let mut ruleset = Ruleset::default();
    let text = "table ip t { set s { type ipv4_addr; timeout 1h; elements = { 198.18.0.1 } }; chain c { counter; }; }";
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.into(), &mut ruleset, 7_000_000_000);
    assert!(outcome.ok, "{}", outcome.stderr);
    let connections = format!("penstock-conntrack 1\n{FLOW}\n");
    State { links: vec![(7, "eth0".into()), (9, "wan".into())], ruleset, connections, ahead: 0 }
}

#[test]
fn a_saved_state_is_restored_unchanged() {
    let bytes = state().to_bytes(NOW);
    let back = State::from_bytes(&bytes).expect("a state");
    assert_eq!((back.index_of("wan"), back.index_of("lan")), (Some(9), None));
    assert_eq!(back.connections, state().connections);
    assert_eq!(back.to_bytes(NOW), bytes);
    assert!(same(&bytes, &state().to_bytes(NOW + 1)));
    assert!(!same(&bytes, &State { connections: String::new(), ..state() }.to_bytes(NOW)));
}

#[test]
fn bit_flips_and_truncation_are_detected_with_their_offset() {
    let bytes = state().to_bytes(NOW);
    for cut in 0..bytes.len() {
        let broken = State::from_bytes(&bytes[..cut]).expect_err("cut short");
        assert!(broken.at <= cut, "{cut}: {broken}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let broken = State::from_bytes(&bytes).expect_err("another bit");
        assert!(broken.at <= bytes.len(), "{bit}: {broken}");
    }
    let long = [&bytes[..], b"x"].concat();
    let broken = State::from_bytes(&long).expect_err("too long");
    assert_eq!(broken.to_string(), format!("byte {}: nothing should follow", bytes.len()));
}

#[test]
fn what_is_whole_of_a_broken_file_can_be_read() {
    let bytes = state().to_bytes(NOW);
    let whole = Salvaged::from_bytes(&bytes);
    assert!(whole.broken.is_none() && whole.changed.is_empty());
    // The name of a device, a set of the ruleset, and a port are another one now.
    for (from, part) in [("wan", "devices"), ("ip", "ruleset"), ("sport", "")] {
        let Some(at) = bytes.windows(from.len()).position(|w| w == from.as_bytes()) else {
            continue;
        };
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        let salvaged = Salvaged::from_bytes(&bytes);
        assert!(salvaged.broken.is_some() && salvaged.changed == [part], "{from}");
        assert_eq!(salvaged.connections, Some(state().connections));
        assert!(part == "ruleset" || salvaged.ruleset.is_some(), "{from}");
    }
    // Cut anywhere: what stands before is there, and nothing panics.
    for cut in 0..bytes.len() {
        let salvaged = Salvaged::from_bytes(&bytes[..cut]);
        assert!(salvaged.broken.is_some(), "{cut}");
        assert!(salvaged.connections.is_none() || salvaged.ruleset.is_some(), "{cut}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Salvaged::from_bytes(&bytes).broken.is_some(), "{bit}");
    }
}

#[test]
fn rules_keep_the_place_where_they_were_written() {
    let mut ruleset = Ruleset::default();
    let text = "table ip t {\n  chain c {\n    counter\n    accept\n  }\n}\n";
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let origin = Origin::File { name: "rules.nft".into(), from: None };
    assert!(session.run(origin, text.into(), &mut ruleset, 1).ok);
    let command = "add rule ip t c drop";
    assert!(session.run(Origin::CommandLine, command.into(), &mut ruleset, 1).ok);
    let bytes = State { ruleset, ..State::default() }.to_bytes(NOW);
    let back = State::from_bytes(&bytes).expect("a state");
    let generation = back.ruleset.generation();
    let chain = &generation.tables[0].chains[0];
    let origins: Vec<_> =
        chain.rules.iter().map(|rule| rule.origin.as_ref().map(ToString::to_string)).collect();
    assert_eq!(origins, [Some("rules.nft:3".into()), Some("rules.nft:4".into()), None]);
}

/// The parts as version 1 had them.
fn version_1(state: &State) -> Vec<u8> {
    let ruleset = state.ruleset.save(NOW);
    let mut out = b"\x7fpenstock-state\0\x01".to_vec();
    for (tag, part) in [
        (b'l', b"7 eth0\n9 wan\n".as_slice()),
        (b'r', &ruleset),
        (b'c', state.connections.as_bytes()),
        (b'e', b""),
    ] {
        out.push(tag);
        out.extend((part.len() as u64).to_le_bytes());
        out.extend(crc32fast::hash(part).to_le_bytes());
        out.extend(part);
    }
    out
}

#[test]
fn older_formats_are_read_or_refused_with_advice() {
    let old = State::from_bytes(&version_1(&state())).expect("version 1");
    assert_eq!(old.to_bytes(NOW), state().to_bytes(NOW));
    let mut newer = state().to_bytes(NOW);
    newer[16] = 77;
    for (bytes, said) in [
        (newer, "byte 16: this is version 77 of the format, and not 3"),
        (
            state().ruleset.save(NOW),
            "byte 0: a ruleset as penstock nft wrote it before there were checksums: list it",
        ),
        (
            b"table ip t { }\n".to_vec(),
            "byte 0: not a saved state: a ruleset as text is loaded with `-f`",
        ),
        (b"\x00\x01".to_vec(), "byte 0: not a saved state"),
        (Vec::new(), "byte 0: cut short"),
    ] {
        let broken = State::from_bytes(&bytes).expect_err(said).to_string();
        assert!(broken.starts_with(said), "{broken}");
    }
}

/// A value of userdata: type, length, bytes.
fn userdata(values: &[(u8, &[u8])]) -> Arc<[u8]> {
    let value = |(kind, bytes): &(u8, &[u8])| [&[*kind, bytes.len() as u8], *bytes].concat();
    values.iter().map(value).collect::<Vec<_>>().concat().into()
}

/// Changes as the language made them before it wrote comments as nft does: texts without a zero at
/// their end, fields of keys (type, byte order, bits) under the number of the byte order, `typeof`
/// under that of the expression.
fn older_changes() -> Vec<Change> {
    let (family, table): (_, Arc<str>) = (Family::Ip, "t".into());
    let address: &[u8] = &[7, 2, 32, 0, 0, 0];
    let set = |name: &str, interval, userdata| Change::AddSet {
        family,
        table: table.clone(),
        mode: Mode::Add,
        set: NewSet {
            name: name.into(),
            id: 0,
            anonymous: false,
            key_type: 7,
            data_type: 0,
            data: None,
            description: Description { key_len: 4, interval, ..Description::default() },
            timeout: 0,
            gc_interval: 0,
            exprs: vec![],
            userdata,
        },
    };
    vec![
        Change::AddTable {
            family,
            name: table.clone(),
            mode: Mode::Add,
            flags: 0,
            userdata: userdata(&[(0, b"a table")]),
        },
        set("s", true, userdata(&[(0, address), (2, &[1, 0, 0, 0]), (7, b"a set")])),
        set("o", false, userdata(&[(0, address), (3, b"ip saddr")])),
        Change::AddChain {
            family,
            table: table.clone(),
            mode: Mode::Add,
            chain: NewChain {
                name: "c".into(),
                base: None,
                policy_accept: None,
                counter: None,
                anonymous: false,
                offload: false,
                program: None,
                userdata: userdata(&[(0, b"a chain")]),
            },
        },
        Change::AddRule {
            family,
            table,
            chain: "c".into(),
            position: Position::After(None),
            rule: NewRule { exprs: vec![], userdata: userdata(&[(0, b"a rule")]), origin: None },
        },
    ]
}

#[test]
fn comments_and_types_of_an_older_version_are_read() {
    let mut ruleset = Ruleset::default();
    let mut batch = ruleset.begin();
    for change in older_changes() {
        batch.apply(change).expect("taken");
    }
    ruleset.commit(batch).expect("committed");
    let bytes = State { ruleset, ..state() }.to_bytes(NOW);
    let mut back = State::from_bytes(&bytes).expect("a state").ruleset;
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let list = session.run(Origin::CommandLine, "list ruleset".into(), &mut back, NOW);
    assert_eq!(
        list.stdout,
        "table ip t {
\tcomment \"a table\"
\tset s {
\t\ttype ipv4_addr
\t\tflags interval
\t\tauto-merge
\t\tcomment \"a set\"
\t}

\tset o {
\t\ttypeof ip saddr
\t}

\tchain c {
\t\tcomment \"a chain\"
\t\t comment \"a rule\"
\t}
}
"
    );
}

#[test]
fn invalid_contents_with_valid_checksums_are_refused() {
    let wrong =
        State { connections: format!("penstock-conntrack 1\n{FLOW}\nflow id=2\n"), ..state() };
    let bytes = wrong.to_bytes(1);
    let place = bytes.windows(9).position(|w| w == b"flow id=2");
    assert_eq!(State::from_bytes(&bytes).map_err(|e| e.at).err(), place);
}
