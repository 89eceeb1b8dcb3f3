// SPDX-License-Identifier: Apache-2.0

//! Docker: the rules of a bridge network with a published port, for iptables and for nft.

use super::{answers, has_all, network, same_on_both, saved, script};

/// A bridge network `r1` with a container, whose port 7000 is published as 8080, by the commands of
/// dockerd: each rule is asked for before it is added.
const DOCKER: &str = "
add() { iptables-nft --wait -t $1 -C $2 $rule 2>/dev/null || iptables-nft --wait -t $1 -A $2 $rule; }
top() { iptables-nft --wait -t $1 -C $2 $rule 2>/dev/null || iptables-nft --wait -t $1 -I $2 $rule; }
rule() { table=$1 chain=$2; shift 2; rule=$*; add $table $chain; }
first() { table=$1 chain=$2; shift 2; rule=$*; top $table $chain; }
iptables-nft --wait -t nat -N DOCKER
for chain in DOCKER DOCKER-FORWARD DOCKER-BRIDGE DOCKER-CT DOCKER-ISOLATION-STAGE-1 \
    DOCKER-ISOLATION-STAGE-2 DOCKER-USER; do
    iptables-nft --wait -t filter -N $chain
done
ipset -exist create docker-ext-bridges-v4 hash:net family inet counters
ipset -exist add docker-ext-bridges-v4 198.18.1.0/24
rule filter DOCKER-CT -o r1 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
rule filter DOCKER-BRIDGE -m set --match-set docker-ext-bridges-v4 dst -j DOCKER
rule filter DOCKER-FORWARD -j DOCKER-CT
rule filter DOCKER-FORWARD -j DOCKER-ISOLATION-STAGE-1
rule filter DOCKER-FORWARD -j DOCKER-BRIDGE
rule filter DOCKER-FORWARD -i r1 -j ACCEPT
rule nat PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
rule nat OUTPUT -m addrtype --dst-type LOCAL -j DOCKER ! --dst 127.0.0.0/8
first nat POSTROUTING -s 198.18.1.0/24 ! -o r1 -j MASQUERADE
first filter DOCKER-ISOLATION-STAGE-1 -i r1 ! -o r1 -j DOCKER-ISOLATION-STAGE-2
first filter DOCKER-ISOLATION-STAGE-2 -o docker1 -j DROP
rule filter DOCKER-USER -j RETURN
rule filter DOCKER ! -i r1 -o r1 -j DROP
rule nat DOCKER -i r1 -j RETURN
for protocol in tcp udp; do
    rule nat DOCKER -p $protocol -d 0/0 --dport 8080 -j DNAT --to-destination 198.18.1.2:7000 ! -i r1
    first filter DOCKER ! -i r1 -o r1 -p $protocol -d 198.18.1.2 --dport 7000 -j ACCEPT
    rule nat POSTROUTING -p $protocol -s 198.18.1.2 -d 198.18.1.2 --dport 7000 -j MASQUERADE
done
first filter FORWARD -j DOCKER-FORWARD
first filter FORWARD -j DOCKER-USER
iptables-nft --wait -t filter -P FORWARD DROP
";

/// Of the published port, of another one, and from the container; for both of Docker's ways to make
/// rules.
const DOCKER_QUESTIONS: &[&str] = &[
    "a udp 198.18.0.1 8080",
    "a udp 198.18.0.1 8081",
    "b udp 198.18.0.2 7000",
    "b udp 198.18.1.1 7000",
    "a udp 198.18.1.2 7001",
];

/// What is answered.
const DOCKER_ANSWERS: &[&str] = &[
    "a udp 198.18.0.1 8080: b 198.18.0.2\n",
    "a udp 198.18.0.1 8081: nobody\n",
    "b udp 198.18.0.2 7000: a 198.18.0.1\n",
    "b udp 198.18.1.1 7000: r 198.18.1.2\n",
    "a udp 198.18.1.2 7001: nobody\n",
    "a tcp 198.18.0.1 8080: b 198.18.0.2\n",
];

#[test]
fn dockers_iptables_rules_publish_a_port() {
    let Some(mut net) = network(&["iptables-nft", "ipset"]) else { return };
    let said = same_on_both(&mut net, |net, exec| {
        script(net, exec, DOCKER);
        let mut said = answers(net, DOCKER_QUESTIONS);
        said += &saved(net, exec);
        said += &net.ok(&net.r, &format!("{exec} ipset list docker-ext-bridges-v4 | grep packets"));
        // The number of packets of a TCP connection is up to its ends.
        said += &answers(net, &["a tcp 198.18.0.1 8080", "b tcp 198.18.0.2 7000"]);
        // The container ends.
        script(
            net,
            exec,
            "iptables-nft --wait -t nat -D DOCKER -p udp -d 0/0 --dport 8080 -j DNAT \
             --to-destination 198.18.1.2:7000 ! -i r1
             iptables-nft --wait -t filter -D DOCKER ! -i r1 -o r1 -p udp -d 198.18.1.2 --dport 7000 \
             -j ACCEPT",
        );
        said + &answers(net, &["a udp 198.18.1.2 7000"])
    });
    has_all(&said, DOCKER_ANSWERS);
    has_all(&said, &["a udp 198.18.1.2 7000: nobody\n"]);
}

/// The same network by dockerd's nftables backend: the tables of the daemon, and then the published
/// port, in two transactions.
const DOCKER_NFT: &str = r#"
nft -f - <<'END'
table ip docker-bridges {
    map filter-forward-in-jumps { type ifname : verdict; }
    map filter-forward-out-jumps { type ifname : verdict; }
    map nat-postrouting-in-jumps { type ifname : verdict; }
    map nat-postrouting-out-jumps { type ifname : verdict; }
    chain filter-FORWARD {
        type filter hook forward priority filter; policy drop;
        oifname vmap @filter-forward-in-jumps
        iifname vmap @filter-forward-out-jumps
    }
    chain nat-prerouting-and-output { }
    chain nat-OUTPUT {
        type nat hook output priority -100; policy accept;
        ip daddr != 127.0.0.0/8 fib daddr type local counter jump nat-prerouting-and-output
    }
    chain nat-PREROUTING {
        type nat hook prerouting priority dstnat; policy accept;
        fib daddr type local counter jump nat-prerouting-and-output
    }
    chain nat-POSTROUTING {
        type nat hook postrouting priority srcnat; policy accept;
        iifname vmap @nat-postrouting-out-jumps
        oifname vmap @nat-postrouting-in-jumps
    }
    chain raw-PREROUTING { type filter hook prerouting priority raw; policy accept; }
    chain filter-forward-in__r1 {
        ct state established,related counter accept
        iifname "r1" counter accept comment "ICC"
        counter drop comment "UNPUBLISHED PORT DROP"
    }
    chain filter-forward-out__r1 {
        ct state established,related counter accept
        counter accept comment "OUTGOING"
    }
    chain nat-postrouting-in__r1 { }
    chain nat-postrouting-out__r1 {
        oifname != "r1" ip saddr 198.18.1.0/24 counter masquerade comment "MASQUERADE"
    }
}
add element ip docker-bridges filter-forward-in-jumps { r1 : jump filter-forward-in__r1 }
add element ip docker-bridges filter-forward-out-jumps { r1 : jump filter-forward-out__r1 }
add element ip docker-bridges nat-postrouting-in-jumps { r1 : jump nat-postrouting-in__r1 }
add element ip docker-bridges nat-postrouting-out-jumps { r1 : jump nat-postrouting-out__r1 }
END
for protocol in tcp udp; do
nft -f - <<END
add rule ip docker-bridges nat-prerouting-and-output iifname != r1 $protocol dport 8080 counter dnat to 198.18.1.2:7000 comment "DNAT"
insert rule ip docker-bridges filter-forward-in__r1 index 2 ip daddr 198.18.1.2 $protocol dport 7000 counter accept
add rule ip docker-bridges raw-PREROUTING ip daddr 198.18.1.2 iifname != r1 $protocol dport 7001 counter drop comment "DROP DIRECT ACCESS"
END
done
"#;

#[test]
fn dockers_nft_rules_publish_a_port() {
    let Some(mut net) = network(&["nft"]) else { return };
    let said = same_on_both(&mut net, |net, exec| {
        script(net, exec, DOCKER_NFT);
        let said = answers(net, DOCKER_QUESTIONS);
        let listed = net.ok(&net.r, &format!("{exec} nft -a list ruleset"));
        said + &listed + &answers(net, &["a tcp 198.18.0.1 8080"])
    });
    has_all(&said, DOCKER_ANSWERS);
}
