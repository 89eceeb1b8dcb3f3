// SPDX-License-Identifier: Apache-2.0

//! What it does is seen: metrics, rates, where time goes; and packets that programs decide on.

use std::process::Stdio;

use crate::net::Net;

const RULES: &str = "table inet t {
   counter echoes { }
   chain f {
     type filter hook forward priority filter
     icmp type echo-request counter name echoes
     icmp type echo-request counter comment \"pings\"
     udp dport 9 counter drop
   }
 }";

#[test]
fn metrics_are_served_on_loopback_only() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("curl") {
        return;
    }
    let (done, said) = net.run(&net.r, "$PENSTOCK up r0 r1 --metrics 198.18.0.1:9900");
    assert!(!done && said.contains("loopback"), "{said}");
    net.up("r0 r1 --metrics 127.0.0.1:9900");
    net.nft(RULES);
    net.ok(&net.a, "ping -c 3 -i 0.1 -W 2 198.18.1.2");
    let told = net.ok(&net.r, "curl -sSi --max-time 10 http://127.0.0.1:9900/metrics");
    assert!(
        told.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
        "{told}"
    );
    for line in [
        "penstock_counter_packets_total{family=\"inet\",table=\"t\",counter=\"echoes\"} 3\n",
        "chain=\"f\",handle=\"4\",comment=\"pings\",file=\"",
        "rules.nft\",line=\"6\"} 3\n",
        "penstock_port_frames_total{port=\"r0\",side=\"wire\",direction=\"in\"}",
        "penstock_generation 2\n",
        "# EOF\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let file = net.directory.join("penstock.prom");
    net.ok(&net.r, &format!("$PENSTOCK show --metrics-file {}", file.display()));
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("# EOF\n"));
    // Many idle or misbehaving clients block no other.
    let idle = net.spawn_reading(&net.r, "python3 -c 'import socket, time; all = [socket.create_connection((\"127.0.0.1\", 9900)) for _ in range(20)]; print(1, flush=True); time.sleep(30)'");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(
        net.ok(&net.r, "curl -s --max-time 10 http://127.0.0.1:9900/nothing").contains("/metrics")
    );
    net.ok(&net.r, "curl -s --max-time 10 -o /dev/null http://127.0.0.1:9900/metrics");
    idle.stop();
}

#[test]
fn rates_are_seen_live_and_in_a_file() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --sysctl net.netfilter.nf_conntrack_acct=1");
    net.nft(&format!("{RULES}\nadd rule inet t f ct state established"));
    let file = net.directory.join("snapshots");
    let mut ping = net
        .command(&net.a, "ping -i 0.02 -c 200 -W 2 198.18.1.2")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let look = |net: &Net| net.ok(&net.r, &format!("$PENSTOCK show --json >> {}", file.display()));
    // What is not in the first look has no rate in the second.
    net.until("the connection is there", |net| {
        net.ok(&net.r, "$PENSTOCK show conntrack").contains("icmp")
    });
    look(&net);
    let page = net.ok(&net.r, "$PENSTOCK top --interval 1");
    look(&net);
    ping.wait().unwrap();
    let saved = net.ok(&net.a, &format!("$PENSTOCK top --read {}", file.display()));
    for page in [&page, &saved] {
        let rate = |name: &str| {
            let line = page
                .lines()
                .find(|l| l.ends_with(name))
                .unwrap_or_else(|| panic!("{name}: {page}"));
            line.split_whitespace().next().unwrap().parse::<f64>().unwrap()
        };
        for name in [
            "  r0",
            "inet t counter echoes",
            "counter comment \"pings\"",
            "icmp 198.18.0.2 > 198.18.1.2 rules",
        ] {
            assert!(rate(name) > 1.0, "{name}: {page}");
        }
    }
    assert!(net.ok(&net.r, "$PENSTOCK top --view drops").starts_with("penstock: generation 2, "));
    let stages = net
        .command(&net.r, "$PENSTOCK show stages --time 2")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    net.ok(&net.a, "ping -i 0.02 -c 100 -W 2 198.18.1.2");
    let stages = String::from_utf8(stages.wait_with_output().unwrap().stdout).unwrap();
    let rule =
        format!("inet t f handle 4 at {}:6: icmp type", net.directory.join("rules.nft").display());
    for stage in ["rule or stage", &*rule, "frames received from devices", "frames sent"] {
        assert!(stages.contains(stage), "{stage}: {stages}");
    }
    net.ok(&net.a, "ping -c 2 -i 0.1 -W 2 198.18.1.2");
}

#[test]
fn the_page_shows_which_rules_drop_packets() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("curl") {
        return;
    }
    net.up("r0 r1 --workers 2");
    net.nft(
        "table inet t {
           chain f {
             type filter hook forward priority 0; policy drop;
             ip daddr 198.18.1.99 drop comment \"<b>\"
             ip daddr 198.18.1.2 accept
           }
         }",
    );
    let address = net.directory.join("address");
    let web = net.spawn_in_file(&net.r, "exec $PENSTOCK web", &address);
    let text = || std::fs::read_to_string(&address).unwrap_or_default();
    net.until("it says its address", |_| text().ends_with('\n'));
    let page = |net: &Net| net.ok(&net.r, &format!("curl -sS --max-time 10 {}body", text().trim()));
    page(&net);
    net.run(
        &net.a,
        "ping -c 7 -i 0.01 -W 0.1 198.18.1.99; ping -c 5 -i 0.01 -W 0.1 198.18.1.98; ping -c 3 -t 1 -W 0.1 198.18.1.2",
    );
    // The rule's row leads to it in the ruleset; its text is markup to nobody.
    let place = format!(
        "inet t f handle 2 at {}:4: ip daddr 198.18.1.99 drop comment &quot;&lt;b&gt;&quot;",
        net.directory.join("rules.nft").display()
    );
    let rows = |page: &str| -> Vec<String> {
        let drops = page.split_once("<section id=\"drops\"").map_or("", |(_, rest)| rest);
        let drops = drops.split_once("</section>").map_or("", |(table, _)| table);
        drops.split("<tr>").skip(2).map(str::to_owned).collect()
    };
    let shows = |page: &str| {
        let rows = rows(page);
        let has = |count: &str, parts: &[&str]| {
            rows.iter().any(|row| {
                row.contains(&format!(">{count}<")) && parts.iter().all(|part| row.contains(part))
            })
        };
        has("7", &[">rule<", &place, "<a href=\"#"])
            && has("5", &[">policy<", ">inet t f<"])
            && has("3", &[">TTL exceeded<"])
    };
    net.until("the page has them", |net| shows(&page(net)));
    for browser in ["chromium", "chromium-browser", "google-chrome"] {
        if !net.run(&net.r, &format!("command -v {browser}")).0 {
            continue;
        }
        let profile = net.directory.join("profile");
        let dom = net.ok(
            &net.r,
            &format!(
                "{browser} --headless --no-sandbox --disable-gpu --dump-dom --virtual-time-budget=5000 \
                 --user-data-dir={} {}",
                profile.display(),
                text().trim()
            ),
        );
        assert!(dom.contains("ip daddr 198.18.1.99 drop comment \"&lt;b&gt;\"</a>"), "{dom}");
        break;
    }
    web.stop();
}

#[test]
fn every_listing_is_available_as_json() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1 --driver xdp --sysctl net.netfilter.nf_conntrack_acct=1");
    net.nft(
        "table inet t {
           flowtable f { hook ingress priority filter; devices = { r0, r1 }; flags offload; }
           chain forward {
             type filter hook forward priority filter; policy drop;
             ct state established accept
             meta l4proto tcp flow add @f
             ip daddr 198.18.1.2 icmp type echo-request accept
             ip daddr 198.18.1.99 drop
           }
         }",
    );
    let shown = |net: &Net, what: &str| -> serde_json::Value {
        serde_json::from_str(&net.ok(&net.r, &format!("$PENSTOCK show {what} --json"))).unwrap()
    };
    // What is dropped has a reason, and is counted once.
    net.ok(&net.a, "ping -c 3 -i 0.1 -W 2 198.18.1.2");
    let before = shown(&net, "");
    net.run(&net.a, "ping -c 7 -i 0.01 -W 0.1 198.18.1.99; ping -c 5 -i 0.01 -W 0.1 198.18.1.98");
    let after = shown(&net, "");
    let drops =
        |shown: &serde_json::Value, reason: &str| shown["drops"][reason].as_u64().unwrap_or(0);
    assert_eq!(drops(&after, "rule") - drops(&before, "rule"), 7, "{after}");
    assert_eq!(drops(&after, "policy") - drops(&before, "policy"), 5, "{after}");
    let by_rule: Vec<_> = after["drops_by_rule"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (d["reason"].as_str().unwrap(), d["chain"].as_str().unwrap(), &d["packets"]))
        .collect();
    assert!(by_rule.contains(&("rule", "forward", &7.into())), "{after}");
    assert!(by_rule.contains(&("policy", "forward", &5.into())), "{after}");
    let sum: u64 = after["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(after["packets"]["dropped"], sum, "{after}");
    assert_eq!(
        (&after["unconfirmed"], &after["generation"]),
        (&serde_json::Value::Null, &2.into())
    );
    // The peers of the devices do not poll, so nothing can leave from XDP.
    assert_eq!(
        (&after["ports"][0]["flows"], &after["ports"][0]["sends_from_xdp"]),
        (&"xdp".into(), &false.into())
    );
    assert!(net.ok(&net.r, "$PENSTOCK show").contains("no flow can leave by it from XDP"));
    let connections = shown(&net, "conntrack");
    let connection =
        connections["connections"].as_array().unwrap().iter().find(|c| c["protocol"] == "icmp");
    let connection = connection.unwrap_or_else(|| panic!("{connections}"));
    assert_eq!(
        (&connection["original"]["dst"], &connection["reply"]["packets"]),
        (&"198.18.1.2".into(), &3.into())
    );
    assert_eq!(shown(&net, "flows")["flows"], serde_json::json!([]));
    let stages = shown(&net, "stages --time 0.5");
    assert!(stages["stages"].as_array().is_some(), "{stages}");
    for (args, said) in [
        ("conntrack --metrics", "conntrack, flows and stages have no metrics"),
        ("--time 3", "--time is for `stages`"),
    ] {
        let (ok, text) = net.run(&net.r, &format!("$PENSTOCK show {args}"));
        assert!(!ok && text.contains(said), "{args}: {text}");
    }
}

#[test]
fn programs_of_the_host_see_forwarded_frames_on_the_device() {
    let Some(mut net) = Net::new() else { return };
    let received = |net: &Net| {
        let line = "ip -s -j link show r0.port | python3 -c 'import json,sys; print(json.load(sys.stdin)[0][\"stats64\"][\"rx\"][\"packets\"])'";
        net.ok(&net.r, line).trim().parse::<u64>().unwrap()
    };
    let ping = "ping -c 10 -i 0.02 -W 2 198.18.1.2";
    for driver in ["packet", "xdp"] {
        net.up(&format!("r0 r1 --driver {driver}"));
        net.ok(&net.a, "ping -c 1 -W 2 198.18.1.2");
        let before = received(&net);
        net.ok(&net.a, ping);
        assert!(received(&net) >= before + 10, "{driver}");
        if driver == "packet" && net.has("tcpdump") {
            let r = net.r.clone();
            let dump = "timeout 10 tcpdump -lnpi r0.port -c 4 icmp 2>/dev/null";
            let dump = net.spawn_reading(&r, dump);
            std::thread::sleep(std::time::Duration::from_millis(1000));
            net.ok(&net.a, ping);
            let said = dump.wait();
            for way in ["198.18.0.2 > 198.18.1.2: ICMP echo request", "198.18.1.2 > 198.18.0.2"] {
                assert!(said.contains(way), "{said}");
            }
        }
        net.down();
    }
}

#[test]
fn a_packet_is_traced_with_the_rules_of_the_running_dataplane() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    net.nft(
        "table inet t {
           chain f {
             type filter hook forward priority 0; policy drop
             ct state established accept
             tcp dport 22 accept
           }
         }",
    );
    net.ok(&net.r, "ip neigh replace 198.18.1.2 lladdr 02:00:00:00:0b:00 dev r1 nud permanent");
    let packet = "r0 ip saddr 198.18.0.2 ip daddr 198.18.1.2";
    for (options, rest, fate) in [
        ("", "tcp dport 22", "accept"),
        ("", "tcp dport 23", "drop"),
        ("--ct established", "tcp dport 23", "accept"),
        ("--ct reply", "tcp sport 23 tcp dport 4000", "accept"),
        ("--ct reply", "udp dport 23", "accept"),
        ("--ct established", "icmp type echo-request", "accept"),
        ("--ct related", "tcp dport 23", "drop"),
    ] {
        let call = format!("$PENSTOCK trace --live {options} --expect {fate} {packet} {rest}");
        let said = net.ok(&net.r, &call);
        // Rules have the place where they were written; the policy has none.
        assert!(said.contains("rules.nft:") == (fate == "accept"), "{call}: {said}");
    }
    let counted = net.ok(&net.r, "$PENSTOCK show");
    assert!(!counted.contains("policy drop"), "{counted}");
    let (ok, said) = net.run(&net.a, "$PENSTOCK trace --live a0 ip saddr 1.1.1.1 ip daddr 2.2.2.2");
    assert!(!ok && said.contains("no dataplane is running"), "{said}");
}

#[test]
fn the_rules_of_the_running_dataplane_are_evaluated_over_all_packets() {
    let Some(mut net) = Net::new() else { return };
    net.up("r0 r1");
    let rules = |port: u16| {
        format!(
            "table inet t {{
               chain f {{
                 type filter hook forward priority 0; policy drop
                 iif r0 tcp dport {port} accept
               }}
             }}"
        )
    };
    net.nft(&rules(22));
    let new = net.directory.join("new.nft");
    std::fs::write(&new, rules(23)).unwrap();
    let new = new.display();
    for (call, ok, words) in [
        (format!("$PENSTOCK diff --live {new}"), false, "tcp dport 23"),
        (format!("$PENSTOCK diff --live {new}"), false, "tcp dport 22"),
        ("$PENSTOCK ask --live iifname r0 tcp dport 22".into(), true, "iif \"r0\" tcp dport 22"),
        ("$PENSTOCK ask --live iifname r0 tcp dport 23".into(), false, "policy of chain inet t f"),
        ("echo never accept tcp dport 23 | $PENSTOCK prove --live -".into(), true, "holds"),
        ("echo never accept tcp dport 22 | $PENSTOCK prove --live -".into(), false, "refuted"),
        ("$PENSTOCK cover --live".into(), true, "1 packet meets 1 of 1 rule"),
    ] {
        let (status, said) = net.run(&net.r, &call);
        assert!(status == ok && said.contains(words), "{call}: {said}");
    }
    let (ok, said) = net.run(&net.a, "$PENSTOCK ask --live");
    assert!(!ok && said.contains("no dataplane is running"), "{said}");
}
