// SPDX-License-Identifier: Apache-2.0

//! Objects that are in no table, and rules of iptables-nft that name them: counters of nfacct, and
//! timeout policies of nfct.

use std::path::Path;

use crate::side::{Scratch, both, has, in_exec};

#[test]
fn messages_are_answered_as_by_the_kernel() {
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/objects.py");
    if let Some(all) = both(&format!("python3 {}", script.display())) {
        assert!(all.stdout.ends_with("timeout: no message\n  error -22 blames None\n"));
    }
}

#[test]
fn a_state_file_has_no_usual_timeouts() {
    if !has("nfct") {
        return;
    }
    let scratch = Scratch::new();
    for line in ["default-get inet tcp", "default-set inet tcp established 77"] {
        let left = in_exec(&scratch.state(), &format!("nfct timeout {line}"));
        assert_ne!(left.status, Some(0), "{line}");
        assert!(left.stderr.contains("Operation not supported"), "{}", left.stderr);
    }
}

/// What a script of messages prints, which is the same on both sides.
fn script(name: &str) -> Option<String> {
    if !has("python3") {
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients").join(name);
    both(&format!("python3 {}", path.display())).map(|all| all.stdout)
}

#[test]
fn what_nft_does_not_send_is_kept_as_by_the_kernel() {
    if let Some(said) = script("unusual.py") {
        assert!(said.contains("objects that limit connections"), "{said}");
    }
}

#[test]
fn fingerprints_are_added_and_removed_as_in_the_kernel() {
    if let Some(said) = script("fingerprints.py") {
        assert!(said.contains("message 2"), "{said}");
    }
}

#[test]
fn accounts_are_made_listed_reset_and_removed() {
    if !has("nfacct") {
        return;
    }
    let all = both(
        "nfacct add a; nfacct add b packet 1000; nfacct add c byte 12345
        nfacct add a; echo rc $?
        nfacct list; nfacct list xml
        nfacct get b; nfacct get b reset; nfacct get nowhere; echo rc $?
        nfacct get a xml
        nfacct list reset
        nfacct dump
        nfacct restore <<R
{ pkts = 00000000000000000007, bytes = 00000000000000000700 } = d;
{ pkts = 00000000000000000009, bytes = 00000000000000000099 } = e;
{ pkts = 00000000000000000001, bytes = 00000000000000000002, quota = 00000000000000000500, mode = byte, overquota = no } = f;
R
        echo rc $?; nfacct list
        nfacct list reset; nfacct list
        nfacct del b; echo rc $?; nfacct del b; echo rc $?
        nfacct add a_name_that_is_longer_than_31_bytes; echo rc $?
        nfacct list; nfacct flush; echo rc $?; nfacct list",
    );
    if let Some(all) = all {
        assert!(all.stdout.contains("} = e;"), "{}", all.stdout);
    }
}

#[test]
fn rules_name_accounts_that_are_there() {
    if !has("nfacct") || !has("iptables-nft") {
        return;
    }
    both(
        "rule='INPUT -m nfacct --nfacct-name a'
        iptables-nft -A $rule; echo rc $?
        nfacct add a; nfacct add b
        iptables-nft -A $rule; iptables-nft -A $rule -j DROP; ip6tables-nft -A $rule
        nfacct del a; echo rc $?; nfacct flush; nfacct list
        iptables-nft -S; iptables-nft-save -c | grep -v '^#'; iptables-nft -L -v -n
        iptables-nft -D INPUT 1; nfacct del a; echo rc $?
        nft flush ruleset; nfacct list; nfacct del a; nfacct list",
    );
}

#[test]
fn timeout_policies_are_made_listed_and_named_by_rules() {
    if !has("nfct") || !has("iptables-nft") {
        return;
    }
    both(
        "nfct timeout add web inet tcp established 100 close 5; echo rc $?
        nfct timeout add dns inet udp unreplied 7; nfct timeout add ping inet6 icmpv6 timeout 3
        nfct timeout add web inet tcp; echo rc $?
        nfct timeout add d inet dccp open 5; echo rc $?
        nfct timeout list; nfct timeout get dns; nfct timeout get nowhere; echo rc $?
        raw='iptables-nft -t raw -A PREROUTING'
        $raw -p tcp -j CT --timeout web; $raw -p udp -j CT --timeout dns --zone 3
        $raw -p tcp -j CT --timeout nowhere; echo rc $?
        $raw -p udp -j CT --timeout web; echo rc $?
        $raw -j CT --timeout web; echo rc $?
        $raw -p tcp -j CT --timeout ping; echo rc $?
        ip6tables-nft -t raw -A OUTPUT -p ipv6-icmp -j CT --timeout ping
        ip6tables-nft -t raw -A OUTPUT -p tcp -j CT --timeout web; echo rc $?
        nfct timeout delete web; echo rc $?; nfct timeout list
        iptables-nft-save | grep -v '^#'; ip6tables-nft-save | grep -v '^#'
        nft flush ruleset; nfct timeout delete web; echo rc $?; nfct timeout list",
    );
}
