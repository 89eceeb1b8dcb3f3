// SPDX-License-Identifier: Apache-2.0

//! Rulesets that the kernel runs as BPF programs: against the same rulesets in its nf_tables.

use crate::net::Net;

/// Rulesets, with a word about each.
const RULESETS: [(&str, &str); 7] = [
    (
        "ingress and egress of devices",
        "table netdev t {
           set ports { type inet_service; elements = { 9000, 9001 }; }
           map bad { type ipv4_addr . inet_service : verdict; counter;
             elements = { 198.18.1.2 . 9001 : drop, 198.18.0.1 . 53 : jump seen } }
           counter every { }
           chain seen { counter; }
           chain in { type filter hook ingress device r0 priority 0; policy accept;
             meta l4proto udp counter name every
             ip protocol udp ip daddr . udp dport vmap @bad
             udp dport @ports counter
             ip6 daddr 2001:db8:1::/64 udp dport 9002 counter drop
             ether saddr 02:00:00:00:0a:00 udp length > 200 counter
             meta iifname r0 udp dport 5000-9000 counter
           }
           chain late { type filter hook ingress device r0 priority 10; udp dport 53 counter; }
           chain out { type filter hook egress devices = { r0, r1 } priority 0;
             udp dport 53 counter
             udp sport 9000 meta oifname r0 counter drop
             meta oifname r1 meta length > 1000 udp dport 9000 counter
           }
         }",
    ),
    (
        "an inet table at all hooks of IP",
        "table inet t {
           set known { type inet_service; flags interval; elements = { 53, 5000-5999, 9000-9001 }; }
           chain pre { type filter hook prerouting priority -150; udp dport 1-10000 counter; }
           chain input { type filter hook input priority 0;
             iifname r0 udp dport 9001 counter drop
             udp dport @known counter accept
             udp dport 9002 counter
           }
           chain forward { type filter hook forward priority 0; policy accept;
             iifname r0 oifname r1 jump there
             iifname r1 oifname r0 jump back
             udp sport 53 counter
           }
           chain there {
             udp dport 5000 meta nfproto ipv4 counter drop
             udp dport 5000 meta nfproto ipv6 counter return
             meta mark 0 udp dport 9000 counter
             udp dport { 53, 9000 } counter accept
             udp dport 9001 goto end
             counter
           }
           chain back { udp sport 9002 meta length < 100 counter drop; }
           chain end { counter; }
           chain output { type filter hook output priority 0; udp sport 9000 oifname r0 counter; }
           chain post { type filter hook postrouting priority 100; meta l4proto udp counter; }
         }",
    ),
    (
        "tables of both families, at several priorities of a hook",
        "table ip t {
           chain early { type filter hook prerouting priority raw; udp dport 53 counter accept; ip frag-off & 0x1fff != 0 counter; }
           chain later { type filter hook prerouting priority mangle; udp dport 53 counter; }
           chain same { type filter hook forward priority 5; policy drop;
             ip saddr . ip daddr { 198.18.0.2 . 198.18.1.2 } udp dport != 9001 counter accept
             ip saddr 198.18.1.0/24 counter accept
             icmp type echo-request counter accept
             ip protocol udp counter
           }
         }
         table ip6 t {
           chain early { type filter hook prerouting priority raw; udp dport 53 counter accept; ip6 nexthdr 44 counter; }
           chain same { type filter hook forward priority 5;
             ip6 saddr 2001:db8::/64 ip6 daddr 2001:db8:1::2 udp dport vmap { 53 : accept, 9000 : drop, 9002 : accept }
             ip6 nexthdr udp counter
             icmpv6 type echo-request counter drop
           }
         }
         table inet u {
           chain same { type filter hook forward priority 5; udp dport 9002 counter; }
         }",
    ),
    (
        "connections",
        "table inet t {
           chain forward { type filter hook forward priority 0; policy drop;
             ct state invalid counter drop
             ct state established udp sport 9000 counter accept
             ct state established,related counter accept
             iifname r0 udp dport { 53, 9000, 9001 } ct state new counter accept
             meta l4proto udp counter
             meta l4proto { icmp, icmpv6 } accept
           }
           chain input { type filter hook input priority 0;
             ct state new udp dport 9002 counter drop
             ct state established udp dport 53 counter
           }
         }",
    ),
    (
        "quotas and limits",
        "table inet t {
           quota few { over 40 kbytes }
           chain forward { type filter hook forward priority 0;
             udp dport 53 quota over 10 kbytes counter drop
             udp dport 9000 limit rate 1/hour burst 4 packets counter accept
             udp dport 9000 counter drop
             iifname r0 udp dport 9001 quota name few counter drop
           }
         }",
    ),
    (
        "sets that packets change",
        "table inet t {
           set seen { type ipv4_addr . inet_service; flags dynamic,timeout; timeout 1h; size 100; }
           set counts { type inet_service; flags dynamic; size 100; }
           map recent { type inet_service : ipv4_addr; flags dynamic; size 3; }
           chain forward { type filter hook forward priority 0;
             iifname r0 ip saddr . udp dport @seen counter
             iifname r0 udp dport 1-10000 add @seen { ip saddr . udp dport }
             iifname r0 udp dport 1-10000 add @counts { udp dport counter } counter
             iifname r0 ip protocol udp update @recent { udp dport : ip daddr } counter
           }
         }",
    ),
    (
        "counters, marks and random numbers as objects and keys",
        "table inet t {
           counter a { packets 7 bytes 700 }
           map counts { type inet_service : counter; elements = { 53 : a, 9000 : a } }
           chain forward { type filter hook forward priority 0;
             counter name udp dport map @counts
             udp dport 5000 counter packets 3 bytes 300
             numgen random mod 1 == 0 udp dport 5000 counter
             jhash udp dport mod 2 seed 0x1 == 0 counter
             @th,16,16 9000 counter
           }
         }",
    ),
];

/// What A asks of B and of R.
const ASKED: &str = "198.18.1.2 198.18.0.1 2001:db8:1::2 2001:db8::1";

/// Echoes datagrams on B and R.
pub fn serve(net: &mut Net) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    // Rules read the transport header of a later fragment of IPv6 in its network header, where flow
    // labels are.
    for namespace in [&net.a, &net.b, &net.r] {
        net.ok(namespace, "sysctl -qw net.ipv6.auto_flowlabels=0");
    }
    for end in ['b', 'r'] {
        net.spawn_in(end, &format!("python3 {script} serve"));
    }
    for address in ASKED.split(' ') {
        net.until("the servers are there", |net| {
            let asked = net.ok(&net.a, &format!("python3 {script} ask {address}"));
            asked.lines().all(|line| line.ends_with(" 12"))
        });
    }
}

/// Sends the traffic; what was answered.
pub fn traffic(net: &Net) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    net.ok(&net.a, &format!("python3 {script} ask {ASKED}"))
}

/// A listing, but for the order of elements, and what is left of their time.
pub fn listing(text: &str) -> Vec<&str> {
    let dynamic = text.contains("flags dynamic");
    let mut words: Vec<_> = match dynamic {
        false => text.lines().collect(),
        true => text.split([' ', ',', '\n', '\t']).filter(|w| !w.ends_with("ms")).collect(),
    };
    if dynamic {
        words.sort_unstable();
    }
    words
}

#[test]
fn an_attached_ruleset_does_what_nf_tables_does_with_it() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    let kernel = |net: &Net, command: &str| net.ok(&net.r, &format!("nft {command}"));
    for (about, rules) in RULESETS {
        std::fs::write(&file, rules).unwrap();
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        kernel(&net, &format!("-f {}", file.display()));
        let answered = traffic(&net);
        let listed = kernel(&net, "list ruleset");
        kernel(&net, "flush ruleset");
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        net.attach(&format!("--rules {}", file.display()));
        let attached = traffic(&net);
        let shown = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        net.detach();
        assert_eq!(attached, answered, "{about}");
        assert_eq!(listing(&shown), listing(&listed), "{about}");
    }
}

/// Packets of A to each port of a host: a line each with how many of twelve are answered.
pub fn answers(net: &Net, host: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    net.ok(&net.a, &format!("python3 {script} ask {host}"))
}

/// Chains at several priorities; at prerouting connections are tracked between them.
const PRIORITIES: &str = "
    table inet t {
      chain early { type filter hook prerouting priority raw; udp dport 53 counter; }
      chain late { type filter hook prerouting priority mangle; udp dport 53 counter; }
      chain first { type filter hook forward priority -5; udp dport 9000 counter accept; udp dport 5000 counter; }
      chain second { type filter hook forward priority 0; udp dport 5000 counter drop; udp dport { 53, 9000 } counter; }
      chain third { type filter hook forward priority 10; policy drop;
        udp dport 9001 counter
        meta l4proto { icmp, icmpv6 } accept
        udp sport 1-65535 udp dport != 9001 counter accept
      }
      chain last { type filter hook forward priority 200; counter; }
    }";

#[test]
fn chains_of_a_hook_are_one_program_if_that_is_wanted() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, PRIORITIES).unwrap();
    let runs = ["", "--translate"].map(|option| {
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        net.attach(&format!("--rules {} {option}", file.display()));
        let answered = traffic(&net);
        let places = net.ok(&net.r, "$PENSTOCK show");
        let places: Vec<_> =
            places.lines().filter(|line| line.starts_with("hook ip ")).map(str::to_owned).collect();
        let listed = net.ok(&net.r, "$PENSTOCK nft list ruleset");
        net.detach();
        (answered, listed, places)
    });
    let [each, together] = &runs;
    assert_eq!((&each.0, &each.1), (&together.0, &together.1));
    assert_eq!(each.2.len(), 6, "{:?}", each.2);
    // What the kernel does of its own at 100 stays where it was.
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        together.2.iter().map(words).collect::<Vec<_>>(),
        [
            "hook ip prerouting at priority -300 inet t early",
            "hook ip prerouting at priority -150 inet t late",
            "hook ip forward at priority -5 inet t first, inet t second, inet t third",
            "hook ip forward at priority 200 inet t last",
        ]
    );
}

/// Packets of A to each of some ports of B: how many of twelve are answered.
fn answered<const N: usize>(net: &Net, ports: [u16; N]) -> [u32; N] {
    let said = answers(net, "198.18.1.2");
    ports.map(|port| {
        let of_port = |line: &&str| line.split(' ').nth(1) == Some(&port.to_string());
        let line = said.lines().find(of_port).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    })
}

/// A ruleset with a chain at each kind of place, which drops what is for port 9000.
const PLACES: &str = "
    table netdev e {
      chain in { type filter hook ingress device r0 priority 0; udp dport 5000 counter drop; }
      chain out { type filter hook egress device r0 priority 0; udp sport 53 counter drop; }
    }
    table inet t {
      set dropped { type inet_service; elements = { 9000 }; }
      counter seen { }
      quota budget { 1 mbytes }
      chain f { type filter hook forward priority 0;
        counter name seen
        quota name budget
        udp dport @dropped counter drop
      }
    }";

fn attach_places(net: &mut Net, args: &str) {
    let file = net.directory.join("rules.nft");
    std::fs::write(&file, PLACES).unwrap();
    net.attach(&format!("--rules {} {args}", file.display()));
}

#[test]
fn an_attached_ruleset_is_changed_as_that_of_a_dataplane() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    attach_places(&mut net, "");
    let r = net.r.clone();
    let nft = |net: &Net, line: &str| net.ok(&r, &format!("$PENSTOCK nft '{line}'"));
    let shown = net.ok(&r, "$PENSTOCK show");
    for place in [
        "tcx ingress of r0 ",
        "tcx egress of r0 ",
        "hook ip forward at priority 0 ",
        "hook ip6 forward at priority 0 ",
    ] {
        assert!(shown.lines().any(|line| line.starts_with(place)), "{place}\n{shown}");
    }
    let ports = |net: &Net| answered(net, [53, 5000, 9000, 9001]).map(|count| count == 12);
    assert_eq!(ports(&net), [false, false, false, true]);

    // Elements and rules come and go, and what has counted goes on.
    nft(&net, "add element inet t dropped { 9001 }; delete element inet t dropped { 9000 }");
    assert_eq!(ports(&net), [false, false, true, false]);
    let counters = nft(&net, "list counters");
    let packets = |text: &str| -> u64 {
        let at = text.find("packets ").unwrap() + 8;
        text[at..].split(' ').next().unwrap().parse().unwrap()
    };
    nft(&net, "add rule netdev e in udp dport 9000 drop; flush chain netdev e out");
    assert_eq!(ports(&net), [true, false, false, false]);
    assert!(packets(&nft(&net, "list counters")) > packets(&counters), "{counters}");
    let before = packets(&nft(&net, "reset counter inet t seen"));
    assert!(before > 0 && packets(&nft(&net, "list counters")) == 0, "{before}");
    assert!(nft(&net, "list quota inet t budget").contains("used "));
    nft(&net, "reset quota inet t budget");
    assert!(!nft(&net, "list quota inet t budget").contains("used "));

    // What cannot run is refused where it stands, and nothing changes.
    for (line, message) in [
        ("add rule inet t f reject", "`reject` has no BPF code at netfilter hook ip forward"),
        (
            "add rule inet t f ct count over 5 drop",
            "`ct count` has no BPF code at netfilter hook ip forward, since the kernel lets \
             programs there look up no connection but that of the packet",
        ),
        (
            "add set inet t limited { type ipv4_addr; flags dynamic; }; \
             add rule inet t f add @limited { ip saddr ct count over 5 } drop",
            "elements of the set have `ct count`: `ct count` has no BPF code at netfilter hook",
        ),
        (
            "add chain inet t s { type filter hook input priority 5; }; \
             add rule inet t s socket transparent 1",
            "`socket` has no BPF code at netfilter hook ip input, since the kernel lets programs \
             there look up no socket",
        ),
        (
            "add rule inet t f tcp flags syn tcp option maxseg size set rt mtu",
            "`rt mtu` has no BPF code at netfilter hook ip forward, since programs there cannot \
             ask for the route back to the sender",
        ),
        (
            "add rule inet t f ip option lsrr exists drop",
            "`an option or extension header` has no BPF code at netfilter hook ip forward, since",
        ),
        (
            "add chain inet t n { type nat hook prerouting priority -100; }",
            "the kernel cannot run chain inet t n: programs at its hooks translate no addresses",
        ),
        (
            "add rule netdev e in meta mark set 1; add rule inet t f meta mark set 1",
            "`meta mark set` has no BPF code at netfilter hook ip forward",
        ),
    ] {
        let (ok, said) = net.run(&r, &format!("$PENSTOCK nft '{line}'"));
        assert!(!ok && said.contains(message), "{line}: {said}");
        let (ok, said) = net.run(&r, &format!("$PENSTOCK nft -c '{line}'"));
        assert!(!ok && said.contains(message), "{line}: {said}");
    }
    assert_eq!(ports(&net), [true, false, false, false]);

    // A change that nobody confirms is taken back.
    net.ok(&r, "$PENSTOCK nft --confirm 1 'flush ruleset' || true");
    net.until("the ruleset is back", |net| nft(net, "list ruleset").contains("table inet t"));
    assert_eq!(ports(&net), [true, false, false, false]);

    // The kernel has what is not the ruleset's.
    for (line, message) in [
        ("$PENSTOCK conntrack -L", "conntrack(8) has the connections of the kernel"),
        ("$PENSTOCK show flows", "it has no flowtables there"),
        ("$PENSTOCK port list", "it has no ports"),
        ("$PENSTOCK bpf show", "bpftool(8) attaches programs there"),
        ("$PENSTOCK up r1", "running in this network namespace already"),
    ] {
        let (ok, said) = net.run(&r, line);
        assert!(!ok && said.contains(message), "{line}: {said}");
    }
    net.detach();
    assert_eq!(ports(&net), [true; 4]);
    assert!(!net.run(&r, "nft list hooks").1.contains("bpf"));
    let (ok, said) = net.run(&r, "$PENSTOCK detach");
    assert!(!ok && said.contains("no ruleset is attached"), "{said}");
    net.ok(&r, "$PENSTOCK detach --if-attached");
}

#[test]
fn a_ruleset_is_attached_in_part_if_that_is_wanted() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        "table netdev e {
           chain in { type filter hook ingress device r0 priority 0; udp dport 5000 drop; }
           chain late { type filter hook ingress device r0 priority 5; udp dport 53 dup to r1; }
         }
         table inet t {
           chain other { udp dport 9001 reject; }
           chain f { type filter hook forward priority 0; udp dport 9000 counter drop; }
           chain g { type filter hook forward priority 0; policy drop; udp dport 53 counter drop; jump other; }
           chain n { type nat hook postrouting priority 100; masquerade; }
         }",
    )
    .unwrap();
    let args = format!("--rules {}", file.display());
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK attach {args}"));
    assert!(!ok && said.contains("(with --partial, chains that have code"), "{said}");
    net.attach(&format!("{args} --partial"));
    let r = net.r.clone();
    let nft = |net: &Net, line: &str| net.run(&r, &format!("$PENSTOCK nft '{line}'"));
    let shown = |net: &Net| net.ok(&r, "$PENSTOCK show");
    let ports = |net: &Net| answered(net, [53, 5000, 9000, 9001]).map(|count| count == 12);
    // Of `g` its first rule runs.
    assert_eq!(ports(&net), [false, false, false, true]);
    let text = shown(&net);
    let (runs, left_out) = text.split_once("does not run\n").unwrap();
    assert!(runs.contains("netdev e in\n"), "{text}");
    assert!(runs.contains("inet t g (its first rule), inet t f\n"), "{text}");
    let listed = net.ok(&net.r, "$PENSTOCK nft -a list chain inet t g");
    assert!(!listed.contains("packets 0 "), "{listed}");
    let handle = listed.lines().find_map(|line| line.trim().strip_prefix("jump other # handle "));
    let handle = handle.unwrap().to_owned();
    for line in [
        "chain netdev e late at tcx ingress of r0: `dup` has no BPF code at tcx ingress (chain late handle ",
        "chain inet t g from handle HANDLE on at hook ip forward at priority 0: `reject` has no BPF code",
        "chain inet t g from handle HANDLE on at hook ip6 forward at priority 0: `reject` has no BPF code",
        "chain inet t n at the kernel: programs at its hooks translate no addresses",
    ] {
        let line = &line.replace("HANDLE", &handle);
        assert!(left_out.contains(line), "{line}\n{text}");
        assert!(net.log().contains(&format!("NOT attached: {line}")), "{line}\n{}", net.log());
    }
    assert_eq!(left_out.lines().count(), 4, "{text}");

    // A change brings the rest of a chain back, with its policy, and takes that of another one out.
    assert!(nft(&net, "flush chain inet t other; add rule inet t f reject").0);
    assert_eq!(ports(&net), [false; 4]);
    let text = shown(&net);
    assert!(text.contains("inet t g, inet t f (its first rule)\n"), "{text}");
    assert!(text.contains("chain inet t f from handle ") && !text.contains("chain inet t g"));
    assert!(nft(&net, "list chain inet t f").1.contains("reject"), "the ruleset has it");
    net.detach();
    assert_eq!(ports(&net), [true; 4]);
}

#[test]
fn no_packet_is_unfiltered_while_rulesets_are_replaced() {
    let Some(mut net) = Net::new() else { return };
    attach_places(&mut net, "");
    // Each generation drops what is for port 9000 at the same place, with other rules.
    let file = |name: &str, rules: &str| {
        let file = net.directory.join(name);
        std::fs::write(&file, format!("flush ruleset\n{rules}")).unwrap();
        file.display().to_string()
    };
    let even = file("even", PLACES);
    let odd = file(
        "odd",
        "table netdev e {
           chain in { type filter hook ingress device r0 priority 0; udp dport 5000 counter; }
         }
         table ip u {
           map m { type inet_service : verdict; elements = { 9000 : goto end }; }
           chain end { counter drop; }
           chain g { type filter hook forward priority 0; udp dport vmap @m; }
         }",
    );
    let listens = net.spawn_reading(
        &net.b,
        "exec python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 9000))
while True: s.recv(9); print(\"one\", flush=True)'",
    );
    let sends = net.spawn_reading(
        &net.a,
        "exec python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((\"198.18.1.2\", 9000)); n = 0
while True:
    s.send(b\"x\")'",
    );
    for _ in 0..20 {
        net.ok(&net.r, &format!("$PENSTOCK nft -f {odd}; $PENSTOCK nft -f {even}"));
    }
    sends.stop();
    let counted = net.ok(&net.r, "$PENSTOCK nft list chain inet t f");
    assert!(!counted.contains("packets 0 bytes 0 drop"), "{counted}");
    assert_eq!(listens.stop(), "");
    net.detach();
}

#[test]
fn an_attached_ruleset_may_outlive_its_process() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let directory = net.directory.join("bpf");
    std::fs::create_dir(&directory).unwrap();
    crate::net::sh(&format!("mount -t bpf bpf {}", directory.display()));
    let unmount = || crate::net::sh(&format!("umount {}", directory.display()));
    let persist = format!("--persist {}", directory.display());
    attach_places(&mut net, &persist);
    let ports = |net: &Net| answered(net, [53, 5000, 9000, 9001]).map(|count| count == 12);
    assert_eq!(ports(&net), [false, false, false, true]);
    net.kill_both();
    assert_eq!(ports(&net), [false, false, false, true]);
    let (ok, said) = net.run(&net.r, "$PENSTOCK up r0 r1");
    assert!(!ok && said.contains("`penstock detach` takes it away"), "{said}");

    // A process whose ruleset is refused leaves it as it is.
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        "table inet t {
           chain f { type filter hook forward priority 0; reject; }
         }",
    )
    .unwrap();
    let (ok, said) =
        net.run(&net.r, &format!("$PENSTOCK attach --rules {} {persist}", file.display()));
    assert!(!ok && said.contains("`reject` has no BPF code"), "{said}");
    assert_eq!(ports(&net), [false, false, false, true]);

    // The next process goes on, with another ruleset.
    std::fs::write(
        &file,
        "table inet t {
           chain f { type filter hook forward priority 0;
             ct state new udp dport 9001 counter drop
           }
         }",
    )
    .unwrap();
    net.attach(&format!("--rules {} {persist}", file.display()));
    assert_eq!(ports(&net), [true, true, true, false]);
    net.kill_both();
    assert_eq!(ports(&net), [true, true, true, false]);
    net.ok(&net.r, "$PENSTOCK detach");
    assert_eq!(ports(&net), [true; 4]);
    let names = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name());
    let left: Vec<_> = names.filter(|n| n.to_string_lossy().contains("penstock")).collect();
    assert!(left.is_empty(), "{left:?}");
    if net.has("nft") {
        // Nothing asks for connections any more.
        assert_eq!(net.ok(&net.r, "nft list tables"), "");
    }
    unmount();
}

#[test]
fn packets_and_clients_change_a_set_of_an_attached_ruleset() {
    let Some(mut net) = Net::new() else { return };
    serve(&mut net);
    let file = net.directory.join("rules.nft");
    std::fs::write(
        &file,
        "table inet t {
           set blocked { type ipv4_addr; flags dynamic,timeout; size 10; timeout 1h; }
           chain f { type filter hook forward priority 0;
             ip saddr @blocked counter drop
             iifname r0 udp dport 9001 add @blocked { ip saddr counter }
           }
         }",
    )
    .unwrap();
    net.attach(&format!("--rules {}", file.display()));
    let r = net.r.clone();
    let nft = |net: &Net, line: &str| net.ok(&r, &format!("$PENSTOCK nft '{line}'"));
    let list = |net: &Net| nft(net, "list set inet t blocked");
    // The ports are asked in their order, and the first packet to 9001 is the last that passes.
    assert_eq!(answered(&net, [53, 9002]), [12, 0]);
    assert!(list(&net).contains("198.18.0.2 "), "{}", list(&net));
    nft(&net, "delete element inet t blocked { 198.18.0.2 }");
    assert!(!list(&net).contains("198.18.0.2"), "{}", list(&net));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/attached.py");
    let first = |net: &Net| {
        let said = net.ok(&net.a, &format!("python3 {script} ask 198.18.1.2"));
        said.lines().next().unwrap().to_owned()
    };
    assert_eq!(first(&net), "198.18.1.2 53 12");
    assert_eq!(first(&net), "198.18.1.2 53 0");
    nft(&net, "flush set inet t blocked; add element inet t blocked { 198.18.0.2 timeout 1s }");
    net.until("the element expires", |net| !list(net).contains("198.18.0.2"));
    assert_eq!(first(&net), "198.18.1.2 53 12");
    // A rule more, and the set goes on.
    nft(&net, "add rule inet t f counter");
    assert!(list(&net).contains("198.18.0.2 "), "{}", list(&net));
    assert_eq!(first(&net), "198.18.1.2 53 0");
    net.detach();
}

/// A firewall of a host with connections; echoes are told by their type.
const STATEFUL: &str = "
    table inet t {
      set bad { type ipv4_addr; elements = { 198.18.0.66 }; }
      chain c { type filter hook HOOK priority 0; policy drop;
        ip saddr @bad counter drop
        icmp type { echo-request, echo-reply } counter accept
        icmpv6 type { echo-request, echo-reply } counter accept
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert } accept
        ct state invalid counter drop
        ct state related counter accept
        ct state established meta l4proto udp counter accept
        ct direction reply ct state established accept
        ct state established meta l4proto tcp ct original proto-dst 22 accept
        tcp dport 22 ct state new counter accept
        udp dport 53 ct state new ct original proto-src 20053 counter accept
        meta l4proto { tcp, udp } ct state != new counter
        meta l4proto { tcp, udp } counter drop
      }
    }";

#[test]
fn a_stateful_firewall_at_ingress_does_what_it_does_at_input() {
    let Some(mut net) = Net::new() else { return };
    if !net.has("nft") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/live/visits.py");
    net.ok(&net.a, "ip addr add 198.18.0.66/24 dev a0");
    let file = net.directory.join("rules.nft");
    let mut wanted = None;
    for place in ["", "r0=xdp", "r0=xdp-generic", "r0=tcx"] {
        // Ports of the last run are free again.
        let servers = [net.a.clone(), net.r.clone()]
            .map(|end| net.spawn_reading(&end, &format!("exec python3 {script} serve")));
        let hook = if place.is_empty() { "input" } else { "ingress device r0" };
        std::fs::write(&file, STATEFUL.replace("HOOK", hook)).unwrap();
        net.until("the servers are there", |net| {
            net.ok(&net.a, &format!("python3 {script} visit 2001:db8::1")).contains("3 answers")
        });
        net.ok(&net.r, "conntrack -F 2>/dev/null || true");
        if place.is_empty() {
            net.ok(&net.r, &format!("nft -f {}", file.display()));
        } else {
            net.attach(&format!("--rules {} {place}", file.display()));
        }
        let in_a = |line: &str| net.ok(&net.a, line);
        let in_r = |line: &str| net.ok(&net.r, line);
        let mut said = in_a(&format!("python3 {script} visit 198.18.0.1 2001:db8::1"));
        said += &in_a(&format!("python3 {script} visit 198.18.0.1 from 198.18.0.66"));
        said += &in_r(&format!("python3 {script} call 198.18.0.2 2001:db8::2"));
        in_a(&format!("python3 {script} stray 198.18.0.1"));
        for (end, to) in [(&net.a, "198.18.0.1"), (&net.r, "198.18.0.2"), (&net.a, "2001:db8::1")] {
            let ping = format!("ping -q -c 2 -i 0.1 -W 2 {to} | grep -o '[0-9]* received'");
            said += &net.ok(end, &ping);
        }
        let (list, flush) = match place {
            "" => ("nft list chain inet t c", "nft flush ruleset"),
            _ => ("$PENSTOCK nft list chain inet t c", "true"),
        };
        let listed = in_r(list);
        in_r(flush);
        if !place.is_empty() {
            net.detach();
        }
        servers.into_iter().for_each(|server| drop(server.stop()));
        let counted = listed.lines().filter(|line| line.contains("packets"));
        let run = (said, counted.map(str::to_owned).collect::<Vec<_>>());
        let zero = run.1.iter().filter(|line| line.contains("packets 0 ")).count();
        // What would have another answer than at input is the line before the last one.
        assert_eq!(zero, 1, "{run:#?}");
        match &wanted {
            None => wanted = Some(run),
            Some(wanted) => assert_eq!(&run, wanted, "{place}"),
        }
    }
}
