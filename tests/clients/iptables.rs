// SPDX-License-Identifier: Apache-2.0

//! iptables-nft and related programs: their rules have `xt` expressions.

use crate::side::{both, has};

#[test]
fn chains_and_rules_are_added_listed_and_saved() {
    if !has("iptables-nft") {
        return;
    }
    both(
        "iptables-nft -N mine
        iptables-nft -A INPUT -s 198.18.0.0/15 -i lan -j mine
        iptables-nft -A INPUT -p tcp --dport 22 -j ACCEPT
        iptables-nft -A mine -p icmp -j DROP
        iptables-nft -P FORWARD DROP
        iptables-nft -S; iptables-nft -L -n -v
        iptables-nft-save | grep -v '^#'
        iptables-nft -D INPUT 1; iptables-nft -X mine; iptables-nft -F mine; iptables-nft -X mine
        iptables-nft -L -n nowhere
        iptables-nft -S",
    );
}

#[test]
fn counters_of_policies_are_kept_set_and_shown() {
    if !has("iptables-nft") {
        return;
    }
    let all = both(
        "iptables-nft-restore -c <<'R'
*filter
:INPUT DROP [7:420]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [18446744073709551615:3]
:mine - [9:9]
[2:120] -A INPUT -i lan -j mine
COMMIT
R
        iptables-nft-save -c | grep -v '^#'
        iptables-nft -L -v -n -x
        iptables-nft -P INPUT ACCEPT; iptables-nft-save -c | grep -v '^#'
        iptables-nft -Z INPUT; iptables-nft-save -c | grep -v '^#'
        iptables-nft -Z; iptables-nft -L -v -n -x
        ip6tables-nft -P FORWARD DROP; ip6tables-nft -L -v; ip6tables-nft-save -c | grep -v '^#'
        nft list ruleset
        nft flush ruleset
        nft 'add table ip t; add chain ip t c { type filter hook input priority 0; }'
        nft --debug=netlink list chains",
    );
    if let Some(all) = all {
        assert!(all.stdout.contains(":INPUT DROP [7:420]"), "{}", all.stdout);
    }
}

#[test]
fn extensions_are_kept_listed_and_saved() {
    if !has("iptables-nft") || !has("ebtables-nft") || !has("arptables-nft") {
        return;
    }
    if let Some(all) = both(include_str!("iptables.sh")) {
        assert!(all.stdout.contains("-m conntrack --ctstate NEW,ESTABLISHED"), "{}", all.stdout);
        assert!(all.stdout.contains("arpreply"), "{}", all.stdout);
    }
}
