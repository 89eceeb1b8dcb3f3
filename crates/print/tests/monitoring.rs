// SPDX-License-Identifier: Apache-2.0

//! The dashboard and the alert rules in `examples/prometheus` name only what `penstock show
//! --metrics` has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use penstock_dataplane::DropReason;

/// The samples of a state that has everything: names, with the values of each label.
fn samples() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/state-large.metrics");
    let text = fs::read_to_string(golden).unwrap();
    let mut out: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let labels = out.entry(name.to_owned()).or_default();
        let inner = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        for (label, value) in pairs(inner) {
            labels.entry(label).or_default().insert(value);
        }
    }
    out
}

/// `label="value"` pairs, also with `=~`.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((label, after)) = rest.split_once('"') {
        let Some((value, after)) = after.split_once('"') else { break };
        let label = label.trim_start_matches([',', ' ']).trim_end_matches(['=', '~']);
        out.push((label.to_owned(), value.to_owned()));
        rest = after;
    }
    out
}

/// The selectors in an expression: a name, and the labels that it has to have.
fn selectors(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("penstock_") {
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let labels = match rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, _)) => pairs(inner),
            None => Vec::new(),
        };
        out.push((name, labels));
    }
    out
}

fn example(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus").join(name);
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[track_caller]
fn check(
    expressions: &str,
    samples: &BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
) -> usize {
    let found = selectors(expressions);
    for (name, labels) in &found {
        let known = samples.get(name).unwrap_or_else(|| panic!("there is no {name}"));
        for (label, value) in labels.iter().filter(|(label, _)| label != "instance") {
            let values = known.get(label).unwrap_or_else(|| panic!("{name} has no label {label}"));
            let is_reason = label == "reason" && DropReason::ALL.iter().any(|r| r.text() == value);
            assert!(is_reason || values.contains(value), "{name} has no {label}=\"{value}\"");
        }
    }
    found.len()
}

#[test]
fn the_dashboard_names_only_metrics_that_exist() {
    let dashboard: serde_json::Value = serde_json::from_str(&example("dashboard.json")).unwrap();
    let samples = samples();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut selectors) = (BTreeSet::new(), 0);
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is there twice");
        for target in panel["targets"].as_array().unwrap() {
            selectors += check(target["expr"].as_str().unwrap(), &samples);
            // What a legend names is a label of what is drawn.
            let (expr, legend) = (target["expr"].as_str().unwrap(), &target["legendFormat"]);
            for label in legend.as_str().unwrap().split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                let (name, _) = self::selectors(expr).remove(0);
                assert!(samples[&name].contains_key(label), "{name} has no label {label}");
            }
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        selectors += check(annotation["expr"].as_str().unwrap(), &samples);
    }
    assert!(panels.len() > 10 && selectors > panels.len());
}

#[test]
fn alert_rules_name_only_metrics_that_exist() {
    let rules = example("alerts.yml");
    let rules: String = rules.lines().filter(|l| !l.trim_start().starts_with('#')).collect();
    assert!(check(&rules, &samples()) > 5);
}
