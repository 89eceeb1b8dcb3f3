// SPDX-License-Identifier: Apache-2.0

//! What a store of published rulesets has, and files of elements.

use penstock_fleet::digest::Digest;
use penstock_fleet::elements::{self, Delta, Elements};
use penstock_fleet::manifest::{FORM, File, Selected, SetData};
use penstock_fleet::draft::Draft;
use penstock_fleet::{Manifest, Report, SignedHead, limits, path, pieces};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "published",
    bytes: "a signed head, a manifest, a chunk or a delta of elements, a report, or a file of elements",
    holds: "manifests stay inside their tree and limits; elements never end the braces around them; what is read \
            is the same once it is written and read again; pieces are the text",
    longest: 4096,
    seeds,
    make: mutate::bytes,
    run,
};

const ELEMENTS: &str = "198.18.0.0/24, 198.18.1.1 timeout 1h comment \"a, b\" # c\n2001:db8::1 . 80 : accept\n";

fn set() -> SetData {
    let elements = elements::parse(ELEMENTS).unwrap_or_default();
    Draft::default().set(["inet", "fw", "s"], &elements)
}

fn manifest() -> Manifest {
    let file = File { size: 3, pieces: vec![Digest::of(b"one")] };
    let defines = [("LAN".to_owned(), "lan0".to_owned())];
    Manifest {
        form: FORM,
        root: "/etc/nft".into(),
        main: "main.nft".into(),
        files: [("main.nft".to_owned(), file.clone()), ("d/claims".to_owned(), file)].into(),
        claims: Some("d/claims".into()),
        tests: vec!["main.nft".into()],
        defines: defines.clone().into(),
        nodes: vec![Selected { label: "site=a".into(), defines: defines.into() }],
        sets: vec![set()],
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let delta = Delta { remove: vec!["198.18.0.0/24".into()], add: vec!["198.18.0.9".into()] };
    let head = r#"{"head":"{\"generation\":1}","signature":"00"}"#;
    let report = r#"{"node":"a","generation":1,"seen":1,"state":"in-force","until":1}"#;
    let texts = [ELEMENTS, &delta.text(), head, report];
    let texts = texts.map(|text| text.as_bytes().to_vec());
    texts.into_iter().chain([manifest().bytes()]).collect()
}

fn run(data: &[u8]) {
    if let Ok(head) = SignedHead::read(data) {
        assert_eq!(SignedHead::read(&head.bytes()), Ok(head.clone()));
        assert!(head.verify(&[]).is_err());
    }
    if let Ok(manifest) = Manifest::read(data) {
        assert!(manifest.files.len() <= limits::FILES && manifest.files.contains_key(&manifest.main));
        for name in manifest.files.keys() {
            assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."), "{name}");
            assert_eq!(path::inside("/root", &format!("/root/{name}")).as_ref(), Some(name));
        }
        assert_eq!(Manifest::read(&manifest.bytes()), Ok(manifest));
    }
    if let Ok(report) = Report::read(data) {
        assert_eq!(Report::read(&report.bytes()), Ok(report));
    }
    if let Ok(delta) = Delta::read(data) {
        delta.add.iter().chain(&delta.remove).for_each(|element| harmless(element));
        assert_eq!(Delta::read(delta.text().as_bytes()), Ok(delta));
    }
    let mut chunk = Elements::new();
    if elements::read_chunk(data, &mut chunk).is_ok() {
        chunk.values().for_each(|element| harmless(element));
    }
    let text = String::from_utf8_lossy(data);
    if let Ok(elements) = elements::parse(&text) {
        let mut again = Elements::new();
        assert_eq!(elements::read_chunk(elements::text(&elements).as_bytes(), &mut again), Ok(()));
        assert_eq!(again, elements);
    }
    let cut = pieces::cut(data);
    assert!(cut.iter().all(|piece| piece.len() <= limits::PIECE));
    assert_eq!(cut.concat(), data);
}

/// Nothing outside of quotes ends the braces or begins another command.
fn harmless(element: &str) {
    let mut quoted = false;
    for c in element.chars() {
        quoted ^= c == '"';
        assert!(!c.is_control() && (quoted || !"{};#,".contains(c)), "{element:?}");
    }
    assert!(!quoted, "{element:?}");
}
