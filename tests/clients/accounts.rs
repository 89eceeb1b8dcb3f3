// SPDX-License-Identifier: Apache-2.0

//! nfacct: counters by name, and rules of iptables-nft that count in them.

use crate::side::{both, has};

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
