// SPDX-License-Identifier: Apache-2.0

//! Rules of iptables, and what they become.

use penstock_translate::{Family, Kind, Translation, kind, translate};

/// Translates rules of a chain `c` of the table `filter`, which may also jump to `d-1`.
fn rules(family: Family, rules: &str) -> Translation {
    let save = format!("*filter\n:INPUT ACCEPT [0:0]\n:d-1 - [0:0]\n{rules}\nCOMMIT\n");
    translate(&[("x", &save)], Some(family)).expect("rules")
}

/// The rules of nft, without counters.
fn texts(translation: &Translation) -> Vec<String> {
    let counted = translation.text.lines().filter(|line| line.contains("counter packets"));
    counted.map(|l| l.trim().replace("counter packets 0 bytes 0", "#")).collect()
}

#[test]
fn rules_have_their_equals() {
    for (rule, expected) in [
        (
            "-s 198.18.0.0/15 -i lan ! -o wan+ -j ACCEPT",
            r##"ip saddr 198.18.0.0/15 iifname "lan" oifname != "wan*" # accept"##,
        ),
        ("-s 198.18.0.1/32 -d 0.0.0.0/0", "ip saddr 198.18.0.1 #"),
        ("-d 198.18.0.1/255.255.0.255 -j d-1", "ip daddr & 255.255.0.255 == 198.18.0.1 # jump d-1"),
        ("-f -g d-1", "ip frag-off & 0x1fff != 0 # goto d-1"),
        ("-p tcp -m tcp --dport 1024: -j DROP", "tcp dport 1024-65535 # drop"),
        ("-p 6 --dport ssh", "tcp dport ssh #"),
        ("-p tcp -m tcp --tcp-flags FIN,SYN FIN", "tcp flags & (fin | syn) == (fin) #"),
        ("! -p gre", "meta l4proto != 47 #"),
        ("-p icmp --icmp-type echo-request", "icmp type 8 #"),
        ("-m conntrack ! --ctstate NEW,INVALID", "ct state & (new | invalid) == 0 #"),
        (
            "-m conntrack --ctorigdst 198.18.0.0/24 --ctdir REPLY",
            "ct direction reply ct original ip daddr 198.18.0.0/24 #",
        ),
        (
            "-p udp -m multiport ! --ports 53,67:68",
            "udp sport != { 53, 67-68 } udp dport != { 53, 67-68 } #",
        ),
        (
            "-m mark ! --mark 0x10/0xf0 -m comment --comment \"it's a \\\"mark\\\"\"",
            "meta mark & 0xf0 != 0x10 # comment \"it's a 'mark'\"",
        ),
        (
            "-m limit --limit 10/sec -j LOG --log-prefix \"-in: \" --log-level 4 --log-uid",
            "limit rate 10/second burst 5 packets # log prefix \"-in: \" level warn flags skuid",
        ),
        (
            "-m addrtype --dst-type LOCAL,BROADCAST --limit-iface-in",
            "fib daddr . iif type { local, broadcast } #",
        ),
        (
            "-m statistic --mode random --probability 0.50000000000",
            "numgen random mod 2147483648 < 1073741824 #",
        ),
        ("-m owner --uid-owner 1000-2000", "meta skuid 1000-2000 #"),
        ("-m ttl ! --ttl-gt 3", "ip ttl <= 3 #"),
        ("-j REJECT --reject-with icmp-admin-prohibited", "# reject with icmp admin-prohibited"),
        (
            "-j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xff",
            "# meta mark set ct mark & 0xff",
        ),
        (
            "-j NFQUEUE --queue-balance 0:3 --queue-bypass --queue-cpu-fanout",
            "# queue flags bypass,fanout to 0-3",
        ),
        (
            "-j NFLOG --nflog-group 5 --nflog-prefix x --nflog-threshold 10",
            "# log prefix \"x\" group 5 queue-threshold 10",
        ),
    ] {
        let translation = rules(Family::Ip4, &format!("-A INPUT {rule}"));
        assert_eq!(texts(&translation), [expected], "{rule}: {:?}", translation.left_out);
    }
}

#[test]
fn a_rule_of_alternatives_becomes_rules_that_share_its_packets() {
    for (rule, expected) in [
        (
            "-p tcp -m multiport --ports 22,80 -j DROP",
            ["tcp sport { 22, 80 } # drop", "tcp sport != { 22, 80 } tcp dport { 22, 80 } # drop"],
        ),
        (
            "-m conntrack --ctstate NEW,DNAT",
            ["ct state new #", "ct state & (new) == 0 ct status & (dnat) != 0 #"],
        ),
        (
            "-m conntrack ! --ctstate SNAT",
            [
                "ct state invalid,untracked #",
                "ct state & (invalid | untracked) == 0 ct status & (snat) == 0 #",
            ],
        ),
    ] {
        let translation = rules(Family::Ip4, &format!("-A INPUT {rule}"));
        assert_eq!(texts(&translation), expected, "{rule}: {:?}", translation.left_out);
    }
}

#[test]
fn what_has_no_equal_is_left_out_with_its_line() {
    for (rule, reason) in [
        ("-m recent --name a --set", "match recent: there is no translation of it"),
        ("-m physdev --physdev-in a", "match physdev: devices of bridges"),
        ("-m owner ! --uid-owner 0", "match owner: `! --uid-owner` matches packets without"),
        ("-m limit --limit 1/s --limit-shape x", "match limit: `--limit-shape` is not translated"),
        (
            "-p tcp -m multiport --ports 1 -m limit --limit 1/s",
            "it has alternatives, and remembers",
        ),
        ("-m multiport --dports 1", "match multiport: it needs -p"),
        ("-m set --match-set a src", "match set: there is no set `a`"),
        ("-j SET --add-set a src", "target SET: sets that rules change"),
        ("-j NOWHERE", "target NOWHERE: there is no such chain"),
        ("-j CT --helper ftp", "target CT: helpers"),
        ("--dport 5", "`--dport` belongs to no match"),
        ("-m mark --mark x", "match mark: `x` is not a number"),
        ("-j MASQUERADE --to-ports 5", "target MASQUERADE: it needs -p"),
    ] {
        let translation = rules(Family::Ip4, &format!("-A INPUT -j ACCEPT\n-A INPUT {rule}"));
        assert_eq!(texts(&translation), ["# accept"]);
        let [left] = &translation.left_out[..] else { panic!("{rule}") };
        assert!(left.reason.starts_with(reason), "{rule}: {}", left.reason);
        assert_eq!((left.line, &*left.file), (5, "x"));
        assert!(translation.text.contains(&format!("#   -A INPUT {rule}")), "{rule}");
    }
}

#[test]
fn sets_stand_in_the_tables_that_use_them() {
    let sets = "\
create bad hash:net family inet hashsize 1024 maxelem 65536 timeout 0
add bad 198.18.0.0/24
add bad 198.19.0.1 timeout 60 comment \"a \"
create ports hash:ip,port family inet hashsize 1024 maxelem 65536
add ports 198.18.0.1,tcp:80
add ports 198.18.0.1,icmp:8/0
create list list:set size 8
add list bad
";
    let save = "*filter\n:INPUT DROP [0:0]\n\
        -A INPUT -m set --match-set bad src -j DROP\n\
        -A INPUT -m set ! --match-set ports dst,src\n\
        -A INPUT -m set --match-set list src\nCOMMIT\n";
    let translation = translate(&[("rules", save), ("sets", sets)], None).expect("rules and sets");
    for part in [
        "\tset bad {\n\t\ttype ipv4_addr\n\t\tsize 65536\n\t\tflags interval,timeout\n\t\tauto-merge\n",
        "elements = { 198.18.0.0/24,\n\t\t\t     198.19.0.1 timeout 60s comment \"a \" }",
        "elements = { 198.18.0.1 . tcp . 80 }",
        "ip saddr @bad counter packets 0 bytes 0 drop",
        "ip daddr . meta l4proto . th sport != @ports counter",
        "policy drop;",
    ] {
        assert!(translation.text.contains(part), "{part}\n{}", translation.text);
    }
    let left: Vec<String> = translation.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left,
        [
            "sets:6: left out: add ports 198.18.0.1,icmp:8/0: elements of `icmp` have no equal",
            "sets:7: left out: create list list:set size 8: sets of type list:set have no equal",
            "rules:5: left out: -A INPUT -m set --match-set list src: match set: the set `list` is \
             left out",
        ]
    );
}

#[test]
fn families_and_kinds_are_recognised() {
    for (text, expected) in [
        ("*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n", Some(Kind::Iptables)),
        ("# Generated by ip6tables-save v1.8.9\n*raw\nCOMMIT\n", Some(Kind::Iptables)),
        ("# Generated by ebtables-save v1.8.9\n*filter\nCOMMIT\n", Some(Kind::Ebtables)),
        ("*broute\n:BROUTING ACCEPT\n", Some(Kind::Ebtables)),
        ("create a hash:ip family inet\n", Some(Kind::Ipset)),
        ("table ip t { }\n", None),
        ("", None),
        ("*not a table\n", None),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
    for (text, family) in [
        ("*filter\n-A INPUT -s 2001:db8::/32\nCOMMIT\n", "ip6"),
        ("# ip6tables-save\n*filter\nCOMMIT\n", "ip6"),
        ("*filter\n-A INPUT -p tcp -s 198.18.0.1\nCOMMIT\n", "ip"),
        ("*filter\n-A INPUT -p tcp\nCOMMIT\n", "ip"),
    ] {
        let translation = translate(&[("x", text)], None).expect("rules");
        assert!(translation.text.starts_with(&format!("table {family} filter")), "{text}");
    }
}

#[test]
fn broken_files_are_refused_with_their_line() {
    for (text, message) in [
        ("*filter\n-A INPUT\n", "x:2: Error: the file ends before the COMMIT"),
        ("*filter\n*nat\nCOMMIT\n", "x:2: Error: the table before has no COMMIT"),
        ("*filter\nCOMMIT\n-A INPUT\n", "x:3: Error: this is outside of a table"),
        ("*filter\n-A INPUT --comment \"x\nCOMMIT\n", "x:2: Error: a quote is not closed"),
        ("*filter\n:INPUT\nCOMMIT\n", "x:2: Error: a chain has a name and a policy"),
        ("create a hash:ip\nadd b 198.18.0.1\n", "x:2: Error: the set is not created"),
        ("table ip t\n", "x:1: Error: this is not what"),
        ("*broute\n", "x:1: Error: rules of ebtables are not translated"),
    ] {
        let error = translate(&[("x", text)], None).expect_err(text);
        assert!(error.starts_with(message), "{error}");
    }
}

/// No text makes the program panic.
#[test]
fn any_words_are_translated_or_left_out() {
    let words: Vec<&str> = "-m -j ! -p tcp udp icmp --dport --sports --ports --ctstate NEW,DNAT -s \
        198.18.0.0/33 ::/0 conntrack multiport set --match-set a src,dst limit --limit 0/x 5/s mark \
        --mark 0/0 1/ hashlimit --hashlimit-upto --hashlimit-mode srcip,srcport --hashlimit-name n \
        --hashlimit-srcmask 0 40 statistic --mode nth --every --packet 4294967295 random \
        --probability nan 1 SNAT --to-source [::1]:5 : - -1 MARK --set-xmark 5/3 tos --tos 1/2 \
        connlimit --connlimit-above --connlimit-mask 32 \"\" + -i -f iprange --src-range a-b DROP -g"
        .split_whitespace()
        .collect();
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    for _ in 0..20_000 {
        let rule: Vec<&str> = (0..next() % 9).map(|_| words[next() % words.len()]).collect();
        let family = if next() % 2 == 0 { Family::Ip4 } else { Family::Ip6 };
        rules(family, &format!("-A INPUT {}", rule.join(" ")));
    }
}
