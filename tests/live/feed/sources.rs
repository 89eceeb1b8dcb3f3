// SPDX-License-Identifier: Apache-2.0

//! Lists and decisions that become elements, and sets that become announcements.

use super::{RULES, Runs, begin, listed, passes, start};
use crate::net::Net;

const SETS: &str = "--set 'inet filter blocked4' --set 'inet filter blocked6'";
const V4: &str = "198.18.1.2";

fn elements(net: &Net, set: &str) -> String {
    let text = listed(net, &format!("set inet filter {set}"));
    let elements = text.split("elements = {").nth(1).and_then(|rest| rest.split('}').next());
    elements.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn write(net: &Net, name: &str, text: &str) {
    // The reader never sees half of it.
    let (path, new) = (net.directory.join(name), net.directory.join("new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_list_by_http_is_in_force_and_is_repaired() {
    let Some(mut net) = begin(Runs::Up) else { return };
    let web = net.directory.join("web");
    std::fs::create_dir(&web).unwrap();
    write(
        &net,
        "web/list",
        "# a list\n198.18.1.2\n198.18.7.0/24\n198.18.8.1-198.18.8.3\n2001:db8:7::/48\n",
    );
    let serve =
        format!("python3 -m http.server --bind 127.0.0.1 --directory {} 8000", web.display());
    net.spawn_in('r', &serve);
    net.until("the server is there", |net| net.run(&net.r, "curl -s 127.0.0.1:8000/list").0);
    let metrics = net.directory.join("feed.prom");
    let line = format!(
        "$PENSTOCK feed list http://127.0.0.1:8000/list {SETS} --interval 1 --verify 1 -v --metrics {} 2>&1",
        metrics.display()
    );
    let log = net.directory.join("feed.log");
    let feed = net.spawn_in_file(&net.r, &line, &log);
    let four = "198.18.1.2, 198.18.7.0/24, 198.18.8.1-198.18.8.3";
    net.until("the list is in force", |net| elements(net, "blocked6") == "2001:db8:7::/48");
    assert_eq!(elements(&net, "blocked4"), four);
    assert!(!passes(&net, V4));
    let text = std::fs::read_to_string(&metrics).unwrap();
    assert!(text.contains("penstock_feed_elements{set=\"inet filter blocked4\"} 3\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    // What somebody else changes is changed back.
    net.ok(&net.r, "$PENSTOCK nft 'delete element inet filter blocked4 { 198.18.7.0/24 }; add element inet filter blocked4 { 198.18.9.9 }'");
    net.until("the set is repaired", |net| elements(net, "blocked4") == four);
    // What is no list changes nothing.
    for (text, message) in [
        ("198.18.1.2\n<html>\n", "line 2: `<html>` is no address"),
        ("# nothing\n", "it has no entries"),
    ] {
        write(&net, "web/list", text);
        net.until("it is refused", |_| std::fs::read_to_string(&log).unwrap().contains(message));
        assert_eq!(elements(&net, "blocked4"), four);
    }
    write(&net, "web/list", "198.18.7.0/25\n");
    net.until("the new list is in force", |net| elements(net, "blocked4") == "198.18.7.0/25");
    assert_eq!(elements(&net, "blocked6"), "");
    assert!(passes(&net, V4));
    // The dataplane restarts with empty sets.
    net.down();
    start(&mut net, Runs::Up);
    net.until("the list is in force again", |net| elements(net, "blocked4") == "198.18.7.0/25");
    feed.end();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("inet filter blocked4: 3 added, 0 deleted"), "{said}");
}

#[test]
fn a_list_in_a_file_is_in_force_at_once() {
    let Some(net) = begin(Runs::Attached) else { return };
    let feed = |text: &str, options: &str| {
        write(&net, "list", text);
        let file = net.directory.join("list");
        net.run(&net.r, &format!("$PENSTOCK feed list {} --once {options}", file.display()))
    };
    let (ok, said) = feed("198.18.1.2\n2001:db8::9\n", SETS);
    assert!(ok, "{said}");
    assert_eq!(
        (elements(&net, "blocked4"), elements(&net, "blocked6")),
        (V4.into(), "2001:db8::9".into())
    );
    assert!(!passes(&net, V4));
    let (ok, said) = feed("; none\n", &format!("{SETS} --allow-empty"));
    assert!(ok, "{said}");
    assert!(passes(&net, V4));
    net.ok(&net.r, "$PENSTOCK nft 'add set inet filter plain { type ipv4_addr; }; add set inet filter ports { type inet_service; }'");
    for (text, options, message) in [
        (
            "198.18.0.0/24\n",
            "--set 'inet filter plain'",
            "needs `flags interval` for prefixes and ranges",
        ),
        ("198.18.0.1\n", "--set 'inet filter ports'", "its elements are of type inet_service"),
        ("198.18.0.1\n", "--set 'inet filter none'", "No such file or directory"),
        ("198.18.0.1\n198.18.0.2\n", &format!("{SETS} --limit 1"), "line 2: more than 1 entries"),
        ("198.18.0\n", SETS, "list: line 1: `198.18.0` is no address"),
    ] {
        let (ok, said) = feed(text, options);
        assert!(!ok && said.contains(message), "{message}: {said}");
    }
    let (ok, said) =
        feed("198.18.0\n198.18.0.1\n2001:db8::1\n", "--set 'inet filter plain' --lenient");
    assert!(ok && said.contains("line 1: `198.18.0` is no address"), "{said}");
    assert!(said.contains("addresses of a family for which no --set is given"), "{said}");
    assert_eq!(elements(&net, "plain"), "198.18.0.1");
}

#[test]
fn decisions_of_crowdsec_are_in_force_for_their_time() {
    let Some(mut net) = begin(Runs::Up) else { return };
    if !net.has("python3") {
        return;
    }
    let decision = |id: u32, value: &str, duration: &str| {
        let scope = if value.contains('/') { "Range" } else { "Ip" };
        format!(
            "{{\"id\":{id},\"origin\":\"cscli\",\"scenario\":\"manual\",\"scope\":\"{scope}\",\
             \"type\":\"ban\",\"value\":\"{value}\",\"duration\":\"{duration}\"}}"
        )
    };
    let startup = [
        decision(1, "198.18.1.2", "3h59m59.5s"),
        decision(2, "198.18.7.0/24", "8s"),
        decision(3, "2001:db8:7::1", "1h"),
    ];
    write(&net, "startup", &format!("{{\"new\":[{}],\"deleted\":null}}", startup.join(",")));
    write(&net, "key", "wrong\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/feed/crowdsec.py");
    net.spawn_in('r', &format!("python3 {script} {} secret", net.directory.display()));
    let log = net.directory.join("feed.log");
    let key = net.directory.join("key");
    let line = format!(
        "$PENSTOCK feed crowdsec http://127.0.0.1:8080/ {SETS} --key-file {} --interval 1 --verify 2 -v 2>&1",
        key.display()
    );
    let _feed = net.spawn_in_file(&net.r, &line, &log);
    let said = || std::fs::read_to_string(&log).unwrap();
    net.until("the key is refused", |_| said().contains("the server answers 403"));
    write(&net, "key", "secret\n");
    net.until_within(20, "decisions are in force", |net| {
        elements(net, "blocked6").contains("2001:db8:7::1")
    });
    let four = elements(&net, "blocked4");
    assert!(
        four.contains("198.18.1.2 timeout 4h expires 3h59m")
            || four.contains("198.18.1.2 timeout 3h59m"),
        "{four}"
    );
    assert!(!passes(&net, V4));
    net.until_within(20, "one has run out", |net| {
        !elements(net, "blocked4").contains("198.18.7.0/24")
    });
    let deleted = decision(1, "198.18.1.2", "-1s");
    let new = decision(4, "198.18.9.0/24", "1h");
    write(&net, "delta", &format!("{{\"new\":[{new}],\"deleted\":[{deleted}]}}"));
    net.until("the change is in force", |net| {
        elements(net, "blocked4").starts_with("198.18.9.0/24 timeout")
    });
    assert!(passes(&net, V4));
    let asked = std::fs::read_to_string(net.directory.join("asked")).unwrap();
    assert!(
        asked.contains("startup=true&scopes=ip,range") && asked.contains("startup=false"),
        "{asked}"
    );
    assert!(RULES.contains("timeout"));
}

/// A local API of CrowdSec, without the central one and without a reader of logs.
fn start_crowdsec(net: &Net) -> crate::net::Reading {
    let root = net.directory.join("crowdsec");
    for name in ["data", "hub", "notifications", "plugins"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let d = root.display();
    let config = format!(
        "common: {{daemonize: false, log_media: stdout, log_level: info}}
config_paths: {{config_dir: {d}, data_dir: {d}/data, simulation_path: {d}/simulation.yaml, hub_dir: {d}/hub,
  index_path: {d}/hub/.index.json, notification_dir: {d}/notifications, plugin_dir: {d}/plugins}}
crowdsec_service: {{acquisition_path: {d}/acquis.yaml, parser_routines: 1}}
cscli: {{output: human}}
db_config: {{log_level: info, type: sqlite, db_path: {d}/data/crowdsec.db}}
api:
  client: {{insecure_skip_verify: false, credentials_path: {d}/creds.yaml}}
  server: {{log_level: info, listen_uri: 127.0.0.1:8080, profiles_path: {d}/profiles.yaml}}
prometheus: {{enabled: false}}
"
    );
    for (name, text) in [
        ("config.yaml", &*config),
        ("simulation.yaml", "simulation: off\n"),
        ("hub/.index.json", "{}"),
        ("acquis.yaml", ""),
        ("creds.yaml", "url: http://127.0.0.1:8080\n"),
        (
            "profiles.yaml",
            "name: ban\nfilters: [Alert.Remediation == true]\n\
             decisions: [{type: ban, duration: 4h}]\non_success: break\n",
        ),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
    cscli(net, &format!("machines add test --password x -f {d}/creds.yaml --force"));
    cscli(net, "bouncers add penstock -k secret");
    let line = format!("exec crowdsec -c {d}/config.yaml -no-cs 2>&1");
    let running = net.spawn_in_file(&net.r, &line, &root.join("log"));
    net.until("the local API answers", |net| net.run(&net.r, "curl -s 127.0.0.1:8080").0);
    running
}

fn cscli(net: &Net, words: &str) {
    let config = net.directory.join("crowdsec/config.yaml");
    net.ok(&net.r, &format!("cscli -c {} {words} 2>&1", config.display()));
}

#[test]
fn decisions_of_a_real_crowdsec_are_in_force() {
    let Some(net) = begin(Runs::Up) else { return };
    if !net.has("crowdsec") || !net.has("cscli") {
        return;
    }
    let _crowdsec = start_crowdsec(&net);
    write(&net, "key", "secret\n");
    cscli(&net, "decisions add --range 198.18.7.0/24 --duration 10m");
    cscli(&net, "decisions add --ip 2001:db8:7::1 --duration 10m");
    let line = format!(
        "$PENSTOCK feed crowdsec http://127.0.0.1:8080/ {SETS} --key-file {} --interval 1 -v 2>&1",
        net.directory.join("key").display()
    );
    let _feed = net.spawn_in_file(&net.r, &line, &net.directory.join("feed.log"));
    let has = |net: &Net, address: &str| {
        [elements(net, "blocked4"), elements(net, "blocked6")].concat().contains(address)
    };
    net.until("decisions are in force", |net| has(net, "2001:db8:7::1"));
    assert!(has(&net, "198.18.7.0/24 timeout"));
    // Of the two ends the API tells one.
    cscli(&net, "decisions add --ip 198.18.1.2 --duration 1h");
    net.until("a new one is in force", |net| has(net, V4));
    cscli(&net, "decisions add --ip 198.18.1.2 --duration 3h");
    net.until("a longer one is", |net| elements(net, "blocked4").contains("expires 2h59m"));
    assert!(!passes(&net, V4));
    cscli(&net, "decisions delete --ip 198.18.1.2");
    net.until("both are gone", |net| !has(net, V4));
    assert!(passes(&net, V4) && has(&net, "198.18.7.0/24"));
}

#[test]
fn a_set_is_printed_as_announcements() {
    let Some(net) = begin(Runs::Up) else { return };
    net.ok(
        &net.r,
        "$PENSTOCK nft add element inet filter blocked4 '{ 198.18.7.0/24, 198.18.8.1-198.18.8.2 }'",
    );
    net.ok(&net.r, "$PENSTOCK nft add element inet filter blocked6 '{ 2001:db8:7::/48 }'");
    let said = net.ok(&net.r, "$PENSTOCK feed export 'inet filter blocked4' --next-hop 198.18.0.1");
    let expected = "announce route 198.18.7.0/24 next-hop 198.18.0.1 community [65535:666]\n\
                    announce route 198.18.8.1/32 next-hop 198.18.0.1 community [65535:666]\n\
                    announce route 198.18.8.2/32 next-hop 198.18.0.1 community [65535:666]\n";
    assert_eq!(said, expected);
    let (ok, said) =
        net.run(&net.r, "$PENSTOCK feed export 'inet filter blocked6' --next-hop 198.18.0.1");
    assert!(!ok && said.contains("there is no --next-hop for 2001:db8:7::/48"), "{said}");
    let file = net.directory.join("lines");
    let line = "$PENSTOCK feed export 'inet filter blocked6' --next-hop 2001:db8::1 --community 65001:9 --community 65001:10 --follow";
    let _follow = net.spawn_in_file(&net.r, line, &file);
    let lines = || std::fs::read_to_string(&file).unwrap();
    net.until("it is announced", |_| {
        lines()
            == "announce route 2001:db8:7::/48 next-hop 2001:db8::1 community [65001:9 65001:10]\n"
    });
    net.ok(&net.r, "$PENSTOCK nft flush set inet filter blocked6");
    net.until("it is withdrawn", |_| {
        lines().ends_with(
            "withdraw route 2001:db8:7::/48 next-hop 2001:db8::1 community [65001:9 65001:10]\n",
        )
    });
}
