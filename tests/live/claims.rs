// SPDX-License-Identifier: Apache-2.0

//! `penstock up --claims` and `penstock nft --claims`: changes after which claims do not hold.

use crate::net::Net;

/// What a ruleset is to keep.
const CLAIMS: &str = "hook forward\nnever accept tcp dport 23\nhook input\nnever drop iifname lo\n";
/// A ruleset that keeps it.
const RULES: &str = "table inet t {
	chain f {
		type filter hook forward priority filter; policy accept;
		tcp dport { 23, 25 } drop
	}
}
";

#[test]
fn a_change_after_which_a_claim_does_not_hold_is_refused_whoever_makes_it() {
    let Some(mut net) = Net::new() else { return };
    let directory = net.directory.clone();
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let claims = file("claims", CLAIMS);
    let rules = file("rules.nft", RULES);
    let open = format!("flush ruleset\n{}", RULES.replace("23, 25", "25"));
    let open = file("open.nft", &open);
    let state = net.directory.join("state").display().to_string();
    // A ruleset that does not keep them is none to begin with.
    let up = format!("r0 r1 --claims {claims} --state {state}");
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up {up} --rules {open}"));
    assert!(!ok && said.contains(":2: never accept tcp dport 23"), "{said}");
    net.up(&format!("{up} --rules {rules}"));
    let kept = net.ok(&net.r, "$PENSTOCK nft -s list ruleset");
    let refused = |net: &Net, line: &str, words: &[&str]| {
        let (ok, said) = net.run(&net.r, line);
        assert!(!ok, "{line}: {said}");
        for word in words {
            assert!(said.contains(word), "{line}: {word}: {said}");
        }
        assert_eq!(net.ok(&net.r, "$PENSTOCK nft -s list ruleset"), kept, "{line}");
    };
    let accepted = [":2: never accept tcp dport 23", "by: ", "tcp dport 23", "accept"];
    refused(&net, "$PENSTOCK nft flush ruleset", &accepted);
    refused(&net, &format!("$PENSTOCK nft -f {open}"), &accepted);
    refused(&net, "$PENSTOCK nft -c insert rule inet t f accept", &accepted);
    let chain = "add chain inet t i '{ type filter hook input priority 0; policy drop; }'";
    let dropped = [":4: never drop iifname lo", "policy of chain inet t i"];
    refused(&net, &format!("$PENSTOCK nft {chain}"), &dropped);
    // What keeps them is in force; claims of the call count as well.
    net.ok(&net.r, "$PENSTOCK nft add rule inet t f tcp dport 26 drop");
    let kept = net.ok(&net.r, "$PENSTOCK nft -s list ruleset");
    let more = file("more", "always accept tcp dport 22\n");
    let (ok, said) = net.run(
        &net.r,
        &format!("$PENSTOCK nft --claims {more} add rule inet t f tcp dport 20-30 drop"),
    );
    assert!(!ok && said.contains("more:1: always accept tcp dport 22"), "{said}");
    assert!(said.contains("tcp dport 20-30 drop"), "the rule that decides: {said}");
    let said = net.ok(
        &net.r,
        &format!("$PENSTOCK nft --diff --claims {more} add rule inet t f tcp dport 443 drop"),
    );
    let expected = "inet forward: 1 class\n\n1. tcp dport 443\n   was:     accept\n";
    assert!(said.starts_with(expected), "{said}");
    let kept_now = net.ok(&net.r, "$PENSTOCK nft -s list ruleset");
    assert_ne!(kept_now, kept);
    if net.has("nft") {
        let (ok, said) = net.run(&net.r, "$PENSTOCK exec -- nft flush ruleset");
        assert!(!ok && said.contains("Operation not permitted"), "{said}");
        net.ok(&net.r, "$PENSTOCK exec -- nft add rule inet t f tcp dport 27 drop");
        let listed = net.ok(&net.r, "$PENSTOCK nft -s list ruleset");
        assert!(listed.contains("tcp dport 27 drop"), "{listed}");
    }
    // A ruleset that was kept is asked as well.
    net.down();
    std::fs::write(&claims, "hook forward\nnever drop tcp dport 443\n").unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up {up}"));
    assert!(!ok && said.contains("the saved ruleset") && said.contains(":2: never drop"), "{said}");
    std::fs::write(&claims, "same rules.nft\n").unwrap();
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up {up}"));
    assert!(!ok && said.contains("`same` would refuse each change"), "{said}");
}

#[test]
fn claims_about_ways_are_about_the_network_of_their_line() {
    let Some(mut net) = Net::new() else { return };
    let directory = net.directory.clone();
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    file(
        "net.ip",
        "link add r0 type veth\nlink set r0 up\naddress add 198.18.0.1/24 dev r0\n\
         link add r1 type veth\nlink set r1 up\naddress add 198.18.1.1/24 dev r1\n",
    );
    let rules = file("rules.nft", RULES);
    let way = "never leave r1 iifname r0 tcp dport 23\nreach iifname r0 -> r1 tcp dport 80\n";
    // Without a network there are no ways.
    let claims = file("claims", way);
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 r1 --claims {claims}"));
    assert!(!ok && said.contains("claims:1: this is about the way through a network"), "{said}");
    let claims = file("claims", &format!("net missing.ip\n{way}"));
    let (ok, said) = net.run(&net.r, &format!("$PENSTOCK up r0 r1 --claims {claims}"));
    assert!(!ok && said.contains("missing.ip: No such file"), "{said}");
    let claims = file("claims", &format!("net net.ip\n{way}"));
    net.up(&format!("r0 r1 --claims {claims} --rules {rules}"));
    for (change, claim) in [
        ("flush ruleset", "claims:2: never leave r1"),
        ("insert rule inet t f tcp dport 80 drop", "claims:3: reach iifname r0 -> r1"),
    ] {
        let (ok, said) = net.run(&net.r, &format!("$PENSTOCK nft {change}"));
        assert!(
            !ok && said.contains(claim) && said.contains("by: iifname \"r0\""),
            "{change}: {said}"
        );
    }
    net.ok(&net.r, "$PENSTOCK nft add rule inet t f tcp dport 443 drop");
    // The file of a call has a network of its own.
    let (ok, said) = net.run(
        &net.r,
        &format!("cd {} && $PENSTOCK nft --claims claims flush ruleset", directory.display()),
    );
    assert!(!ok && said.contains("claims:2: never leave r1"), "{said}");
}
