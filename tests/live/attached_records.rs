// SPDX-License-Identifier: Apache-2.0

//! What packets of an attached ruleset are told of: logs and traces, against those of nf_tables and
//! of a dataplane with the same ruleset.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use crate::net::{Net, Reading};

/// Echoes datagrams on B and R.
fn serve(net: &mut Net) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    for end in ['b', 'r'] {
        net.spawn_in(end, &format!("python3 {script} serve"));
    }
    net.until("the servers are there", |net| {
        ["198.18.1.2", "198.18.0.1", "2001:db8:1::2", "2001:db8::1"]
            .iter()
            .all(|address| net.run(&net.a, &send(address, 9000, 1)).1.contains("answered"))
    });
}

/// Sends a datagram, and waits for its echo.
fn send(address: &str, port: u16, size: usize) -> String {
    let family = if address.contains(':') { "AF_INET6" } else { "AF_INET" };
    format!(
        "python3 -c 'import socket
s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.bind((\"\", 20000)); s.settimeout(0.3)
try:
    s.sendto(bytes({size}), (\"{address}\", {port})); s.recv(65536); print(\"answered\")
except OSError: print(\"no answer\")'"
    )
}

/// One datagram after the other.
fn traffic(net: &Net) -> String {
    let mut answers = String::new();
    for address in ["198.18.1.2", "2001:db8:1::2", "198.18.0.1", "2001:db8::1"] {
        for (port, size) in [(53, 10), (5000, 1200), (9000, 0), (9001, 30)] {
            answers += &net.ok(&net.a, &send(address, port, size));
        }
    }
    answers
}

/// Lines of a file that no more come to.
fn lines_of(net: &Net, file: &Path, last: &str) -> Vec<String> {
    let text = || std::fs::read_to_string(file).unwrap_or_default();
    let read = RefCell::new(String::new());
    net.until("the last line comes, and none after it", |_| {
        std::thread::sleep(std::time::Duration::from_millis(150));
        let before = read.replace(text());
        before.contains(last) && before == *read.borrow()
    });
    read.into_inner().lines().map(str::to_owned).collect()
}

/// Says what is other than wanted.
fn same(about: &str, found: &[String], wanted: &[String]) {
    let n = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let from = |lines: &[String]| lines[n.saturating_sub(3)..(n + 3).min(lines.len())].join("\n");
    let counts = (found.len(), wanted.len());
    assert!(
        found == wanted,
        "{about}: line {n} of {counts:?}\n{}\nwanted:\n{}",
        from(found),
        from(wanted)
    );
}

/// Numbers of traces in the order in which they appear, after the last datagram by which it was
/// found that the monitor listens: of the first one it may have heard a part only.
fn numbered(lines: &[String]) -> Vec<String> {
    let words = |line: &String| -> Option<(String, String)> {
        let (id, rest) = line.strip_prefix("trace id ")?.split_once(' ')?;
        Some((id.to_owned(), rest.to_owned()))
    };
    let id = |line: &String| words(line).map(|(id, _)| id);
    let before = lines.iter().rfind(|line| line.contains(LISTENING)).and_then(id);
    let last = lines.iter().rposition(|line| before.is_some() && id(line) == before);
    let begin = last.map_or(0, |last| last + 1);
    let mut numbers = HashMap::new();
    let number = |line: &String| {
        let (id, rest) = words(line)?;
        let next = numbers.len();
        let number = *numbers.entry(id).or_insert(next);
        // What the sender chooses.
        let fixed = rest.split(' ').scan("", |before, word| {
            let chosen = matches!(*before, "id" | "flowlabel") || before.starts_with("@nh,");
            *before = word;
            Some(if chosen { "_" } else { word })
        });
        Some(format!("{number} {}", fixed.collect::<Vec<_>>().join(" ")))
    };
    lines[begin..].iter().filter_map(number).collect()
}

/// The last datagram to B is that to this port, which no rule of the tests has.
const END: u16 = 9002;

const TRACED: [(&str, &str); 3] = [
    (
        "traces that begin at prerouting and output",
        "table inet t {
           map m { type inet_service : verdict; elements = { 53 : jump seen, 9000 : drop, 9001 : goto end }; }
           chain pre { type filter hook prerouting priority -300;
             udp dport { 53, 9000, 9001, 9002 } meta nftrace set 1
           }
           chain input { type filter hook input priority 0; policy drop;
             meta l4proto icmpv6 accept
             iifname r0 udp dport 53 counter accept
             udp dport vmap { 9000 : accept, 9001 : drop }
           }
           chain forward { type filter hook forward priority 0;
             udp dport vmap @m
             udp sport 53 accept
             counter
           }
           chain late { type filter hook forward priority 10; udp dport 53 return; udp dport 9001 meta nftrace set 0; }
           chain seen { counter; udp dport 53 return; accept; }
           chain end { udp dport 1-10000; }
           chain output { type filter hook output priority 0; udp sport 53 meta nftrace set 1 accept; }
           chain post { type filter hook postrouting priority 100; oifname r1 counter; }
         }",
    ),
    (
        "traces that begin at forward and input, in tables of one family",
        "table ip t {
           chain f { type filter hook forward priority 0; policy drop;
             udp dport { 53, 9002 } meta nftrace set 1
             ip saddr 198.18.0.2 accept
             ip daddr 198.18.0.2 accept
           }
           chain p { type filter hook postrouting priority 0; }
         }
         table ip6 t {
           chain i { type filter hook input priority -5; udp dport 5000 meta nftrace set 1; }
           chain j { type filter hook input priority 5; udp dport 5000 drop; }
         }",
    ),
    (
        "traces that begin at ingress of a device",
        "table netdev n {
           chain in { type filter hook ingress device r0 priority 0;
             udp dport 53 meta nftrace set 1
             udp dport 9000 meta nftrace set 1 counter reject
             udp dport 9002 meta nftrace set 1
           }
           chain back { type filter hook egress device r0 priority 0; counter; }
           chain out { type filter hook egress device r1 priority 0;
             udp dport 53 counter accept
           }
         }
         table inet t {
           chain pre { type filter hook prerouting priority 0; udp dport 1-10000 counter; }
           chain f { type filter hook forward priority 0; udp dport 53 counter; }
         }",
    ),
];

/// How datagrams are told by which it is found that a monitor listens.
const LISTENING: &str = "udp dport 9002 udp length 17 ";

/// What a monitor of traces prints while packets pass.
fn traced(net: &Net, monitor: &str, name: &str) -> (String, Vec<String>) {
    let file = net.directory.join(name);
    let monitor: Reading = net.spawn_in_file(&net.r, &format!("stdbuf -oL {monitor}"), &file);
    // It listens when it hears something.
    net.until("the monitor listens", |net| {
        net.run(&net.a, &send("198.18.1.2", END, 9));
        std::fs::read_to_string(&file).unwrap().contains("trace id")
    });
    let answers = traffic(net);
    net.run(&net.a, &send("198.18.1.2", END, 77));
    let lines = lines_of(net, &file, "udp length 85");
    monitor.stop();
    (answers, lines)
}

#[test]
fn an_attached_ruleset_is_traced_as_by_nf_tables() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    for (about, rules) in TRACED {
        std::fs::write(&file, rules).unwrap();
        net.ok(&net.r, &format!("nft -f {}", file.display()));
        let (answers, of_kernel) = traced(&net, "nft monitor trace", "kernel");
        net.ok(&net.r, "nft flush ruleset");
        net.attach(&format!("--rules {}", file.display()));
        let (attached, ours) = traced(&net, "$PENSTOCK nft monitor trace", "attached");
        net.detach();
        assert_eq!(attached, answers, "{about}");
        let (ours, of_kernel) = (numbered(&ours), numbered(&of_kernel));
        assert!(of_kernel.len() > 10, "{about}: {of_kernel:#?}");
        same(about, &ours, &of_kernel);
    }
}

const LOGGED: &str = "
    table netdev n {
      chain in { type filter hook ingress device r0 priority 0;
        udp dport 53 log prefix \"in \" level info
        udp dport 9000 log group 7 prefix \"device\" snaplen 60
      }
      chain out { type filter hook egress device r1 priority 0;
        udp dport 53 log prefix \"out \"
        udp dport 5000 log group 7
      }
    }
    table inet t {
      chain pre { type filter hook prerouting priority -150; udp dport 5000 log flags all; }
      chain input { type filter hook input priority 0;
        udp dport 53 log prefix \"mine \" flags ip options
        udp dport 9001 log group 7 prefix \"mine\" drop
      }
      chain forward { type filter hook forward priority 0;
        udp dport 53 log prefix \"through \" level crit
        udp dport 5000 log group 7 prefix \"through\"
        udp dport 9000 log group 7 snaplen 20
        udp dport 9001 log prefix \"no \" drop
        udp dport 9002 log prefix \"end\"
      }
      chain output { type filter hook output priority 0; udp sport 53 log prefix \"from \" flags skuid; }
      chain post { type filter hook postrouting priority 100; oifname r1 udp dport 5000 log group 8; }
    }";

/// Lines that rules have logged, but for time and what the sender chooses.
fn logged(net: &Net, file: &Path) -> Vec<String> {
    net.run(&net.a, &send("198.18.1.2", END, 77));
    let fixed = |line: &String| {
        let (_, text) = line.split_once("] ")?;
        let words = text.split(' ').map(|word| match word.split_once('=') {
            Some((name @ ("ID" | "FLOWLBL"), _)) => format!("{name}=_"),
            _ => word.to_owned(),
        });
        Some(format!("{}{}", &line[..3], words.collect::<Vec<_>>().join(" ")))
    };
    lines_of(net, file, "end").iter().filter_map(fixed).collect()
}

#[test]
fn an_attached_ruleset_logs_what_a_dataplane_logs() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, LOGGED).unwrap();
    let log = |name: &str| net.directory.join(name);
    let (by_dataplane, by_kernel) = (log("dataplane.log"), log("attached.log"));
    let args = |log: &Path| format!("--rules {} --rule-log {}", file.display(), log.display());
    net.up(&format!("r0 r1 {}", args(&by_dataplane)));
    let answers = traffic(&net);
    let wanted = logged(&net, &by_dataplane);
    net.down();
    net.attach(&args(&by_kernel));
    assert_eq!(traffic(&net), answers);
    let found = logged(&net, &by_kernel);
    net.detach();
    assert!(wanted.len() > 15, "{wanted:#?}");
    // Packets of the host come to a dataplane by a TAP, without the socket.
    let unowned = found.iter().map(|line| line.replace(" UID=0 GID=0", "")).collect::<Vec<_>>();
    assert_eq!(found.iter().zip(&unowned).filter(|(a, b)| a != b).count(), 2, "{found:#?}");
    same("", &unowned, &wanted);
}

/// Records of a group in a file, as tcpdump reads them: attributes by their numbers, without time.
fn records(net: &Net, file: &Path) -> Vec<String> {
    let text = net.ok(&net.r, &format!("tcpdump -nxx -r {}", file.display()));
    let mut all: Vec<Vec<u8>> = Vec::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("0x").and_then(|line| line.split_once(':')) {
            Some((_, digits)) => {
                let digits: String = digits.split_whitespace().collect();
                let bytes = (0..digits.len() / 2)
                    .map(|n| u8::from_str_radix(&digits[n * 2..n * 2 + 2], 16).unwrap());
                all.last_mut().unwrap().extend(bytes);
            }
            None => all.push(Vec::new()),
        }
    }
    let attributes = |bytes: &Vec<u8>| {
        const TIMESTAMP: u16 = 3;
        const PAYLOAD: u16 = 9;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mut all = vec![(0, hex(&bytes[..4]))];
        let mut at = 4;
        while at + 4 <= bytes.len() {
            let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let (len, kind) = (usize::from(number(at)).max(4), number(at + 2));
            let mut value = bytes[at + 4..at + len].to_vec();
            if kind == PAYLOAD {
                // What the sender chooses: number and checksum, or the flow's label.
                // At egress it begins with the link header.
                let network = if matches!(value[0] >> 4, 4 | 6) { 0 } else { 14 };
                let chosen: &[usize] =
                    if value[network] >> 4 == 4 { &[4, 5, 10, 11] } else { &[1, 2, 3] };
                chosen.iter().for_each(|at| value[network + *at] = 0);
            }
            if kind != TIMESTAMP {
                // Zeros, which end datagrams here, are counted.
                let end = value.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
                all.push((kind, format!("{}+{}", hex(&value[..end]), value.len() - end)));
            }
            at += len.next_multiple_of(4);
        }
        all.sort();
        all.iter().map(|(kind, value)| format!("{kind}={value} ")).collect()
    };
    all.iter().map(attributes).collect()
}

#[test]
fn groups_hear_of_an_attached_ruleset_what_they_hear_of_nf_tables() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") || !net.has("tcpdump") {
        return;
    }
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, LOGGED).unwrap();
    let heard = |net: &Net, name: &str, line: fn(u16, &Path) -> String| {
        let listen = |group: u16| {
            let file = net.directory.join(format!("{name}-{group}"));
            let reading = net.spawn_reading(&net.r, &line(group, &file));
            let there = || std::fs::metadata(&file).is_ok_and(|m| m.len() > 0);
            net.until("somebody listens", |_| there());
            (file, reading)
        };
        let groups = [7, 8].map(listen);
        let answers = traffic(net);
        let sizes = || groups.each_ref().map(|(file, _)| std::fs::metadata(file).unwrap().len());
        net.until("no more comes", |_| {
            let before = sizes();
            std::thread::sleep(std::time::Duration::from_secs(2));
            sizes() == before
        });
        let records = groups.map(|(file, reading)| {
            reading.end();
            records(net, &file)
        });
        (answers, records)
    };
    net.ok(&net.r, &format!("nft -f {}", file.display()));
    let of_kernel = heard(&net, "kernel", |group, file| {
        format!(
            "exec tcpdump --immediate-mode -U -i nflog:{group} -w {} 2>/dev/null",
            file.display()
        )
    });
    net.ok(&net.r, "nft flush ruleset");
    net.attach(&format!("--rules {}", file.display()));
    let ours = heard(&net, "attached", |group, file| {
        format!("exec $PENSTOCK capture --log-group {group} -w {}", file.display())
    });
    net.detach();
    assert!(of_kernel.1.iter().all(|group| !group.is_empty()));
    assert_eq!(ours.0, of_kernel.0);
    for (ours, of_kernel) in ours.1.iter().zip(&of_kernel.1) {
        same("", ours, of_kernel);
    }
}

#[test]
fn a_used_up_quota_of_an_attached_ruleset_is_told() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        "table inet t {
           quota q { over 3000 bytes }
           chain f { type filter hook forward priority 0; udp dport 5000 quota name q drop; }
         }",
    )
    .unwrap();
    net.attach(&format!("--rules {}", file.display()));
    let out = net.directory.join("monitor");
    let line = "$PENSTOCK exec -- stdbuf -oL nft monitor";
    let monitor = net.spawn_in_file(&net.r, line, &out);
    let text = || std::fs::read_to_string(&out).unwrap();
    net.until("the monitor listens", |net| {
        net.ok(&net.r, "$PENSTOCK nft add counter inet t c; $PENSTOCK nft delete counter inet t c");
        text().contains("counter")
    });
    for _ in 0..6 {
        net.ok(&net.a, &send("198.18.1.2", 5000, 1000));
    }
    net.until("it is told", |_| text().contains("quota"));
    net.ok(&net.r, "$PENSTOCK nft add counter inet t last");
    net.until("all is told", |_| text().contains("last"));
    assert_eq!(text().matches("quota").count(), 1, "{}", text());
    monitor.stop();
    net.detach();
}
