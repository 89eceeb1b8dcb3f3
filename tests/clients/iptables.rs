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
fn extensions_are_kept_listed_and_saved() {
    if !has("iptables-nft") || !has("ebtables-nft") || !has("arptables-nft") {
        return;
    }
    if let Some(all) = both(include_str!("iptables.sh")) {
        assert!(all.stdout.contains("-m conntrack --ctstate NEW,ESTABLISHED"), "{}", all.stdout);
        assert!(all.stdout.contains("arpreply"), "{}", all.stdout);
    }
}
