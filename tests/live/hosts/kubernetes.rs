// SPDX-License-Identifier: Apache-2.0

//! kube-proxy: the rules of services, for iptables and for nft.

use super::{answers, has_all, network, same_on_both, saved, script};

/// A service 198.19.0.1:80 with an endpoint on B, one without endpoints, and a port of nodes, as
/// kube-proxy makes them for nftables.
const KUBE_NFT: &str = r#"
nft -f - <<'END'
add table ip kube-proxy { comment "rules for kube-proxy"; }
add set ip kube-proxy cluster-ips { type ipv4_addr; comment "Active ClusterIPs"; }
add set ip kube-proxy nodeport-ips { type ipv4_addr; comment "IPs that accept NodePort traffic"; }
add map ip kube-proxy no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; comment "vmap to drop or reject packets to services with no endpoints"; }
add map ip kube-proxy no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
add map ip kube-proxy firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"; }
add map ip kube-proxy service-nodeports { type inet_proto . inet_service : verdict; comment "NodePort traffic"; }
add chain ip kube-proxy filter-prerouting { type filter hook prerouting priority -110; }
add chain ip kube-proxy filter-input { type filter hook input priority -110; }
add chain ip kube-proxy filter-forward { type filter hook forward priority -110; }
add chain ip kube-proxy filter-output { type filter hook output priority -110; }
add chain ip kube-proxy filter-output-post-dnat { type filter hook output priority -90; }
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; }
add chain ip kube-proxy nat-output { type nat hook output priority -100; }
add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100; }
add chain ip kube-proxy service-endpoints-check
add chain ip kube-proxy nodeport-endpoints-check
add chain ip kube-proxy firewall-check
add chain ip kube-proxy cluster-ips-check
add chain ip kube-proxy services
add chain ip kube-proxy mark-for-masquerade
add chain ip kube-proxy masquerading
add chain ip kube-proxy reject-chain { comment "helper for @no-endpoint-services / @no-endpoint-nodeports"; }
add rule ip kube-proxy filter-prerouting ct state new counter jump firewall-check
add rule ip kube-proxy filter-forward ct state new counter jump service-endpoints-check
add rule ip kube-proxy filter-input ct state new counter jump nodeport-endpoints-check
add rule ip kube-proxy filter-input ct state new jump service-endpoints-check
add rule ip kube-proxy filter-output ct state new jump service-endpoints-check
add rule ip kube-proxy filter-output ct state new jump firewall-check
add rule ip kube-proxy filter-forward ct state new jump cluster-ips-check
add rule ip kube-proxy filter-output-post-dnat ct state new jump cluster-ips-check
add rule ip kube-proxy nat-prerouting jump services
add rule ip kube-proxy nat-output jump services
add rule ip kube-proxy nat-postrouting jump masquerading
add rule ip kube-proxy service-endpoints-check ip daddr . meta l4proto . th dport vmap @no-endpoint-services
add rule ip kube-proxy nodeport-endpoints-check ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
add rule ip kube-proxy firewall-check ip daddr . meta l4proto . th dport vmap @firewall-ips
add rule ip kube-proxy cluster-ips-check ip daddr @cluster-ips counter reject comment "Reject traffic to invalid ports of ClusterIPs"
add rule ip kube-proxy cluster-ips-check ip daddr 198.19.0.0/24 drop comment "Drop traffic to unallocated ClusterIPs"
add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
add rule ip kube-proxy services ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
add rule ip kube-proxy mark-for-masquerade mark set mark or 0x4000
add rule ip kube-proxy masquerading mark and 0x4000 == 0 return
add rule ip kube-proxy masquerading counter mark set mark xor 0x4000
add rule ip kube-proxy masquerading counter masquerade fully-random
add rule ip kube-proxy reject-chain counter reject
add element ip kube-proxy nodeport-ips { 198.18.0.1 }
END
name=7DLXZYAJ-default/web
nft -f - <<END
add set ip kube-proxy affinity-$name/udp/p__198.18.1.2/7000 { type ipv4_addr; flags dynamic,timeout; timeout 10800s; }
add chain ip kube-proxy service-$name/udp/p
add chain ip kube-proxy external-$name/udp/p
add chain ip kube-proxy endpoint-$name/udp/p__198.18.1.2/7000
add element ip kube-proxy cluster-ips { 198.19.0.1, 198.19.0.2 }
add element ip kube-proxy service-ips { 198.19.0.1 . udp . 80 comment "default/web:p" : goto service-$name/udp/p }
add element ip kube-proxy service-nodeports { udp . 30080 comment "default/web:p" : goto external-$name/udp/p }
add element ip kube-proxy no-endpoint-services { 198.19.0.2 . udp . 80 comment "default/none" : goto reject-chain }
add rule ip kube-proxy service-$name/udp/p ip daddr 198.19.0.1 udp dport 80 ip saddr != 198.18.0.0/24 jump mark-for-masquerade
add rule ip kube-proxy service-$name/udp/p ip saddr @affinity-$name/udp/p__198.18.1.2/7000 counter goto endpoint-$name/udp/p__198.18.1.2/7000
add rule ip kube-proxy service-$name/udp/p counter numgen random mod 1 vmap { 0 : goto endpoint-$name/udp/p__198.18.1.2/7000 }
add rule ip kube-proxy external-$name/udp/p jump mark-for-masquerade
add rule ip kube-proxy external-$name/udp/p goto service-$name/udp/p
add rule ip kube-proxy endpoint-$name/udp/p__198.18.1.2/7000 ip saddr 198.18.1.2 jump mark-for-masquerade
add rule ip kube-proxy endpoint-$name/udp/p__198.18.1.2/7000 update @affinity-$name/udp/p__198.18.1.2/7000 { ip saddr }
add rule ip kube-proxy endpoint-$name/udp/p__198.18.1.2/7000 meta l4proto udp counter dnat to 198.18.1.2:7000
END
"#;

/// Of the service, twice; of its node port; of the endpoint itself, which gets its own question; of
/// another port of the service's address, of one without endpoints, and of no service.
const KUBE_QUESTIONS: &[&str] = &[
    "a udp 198.19.0.1 80",
    "a udp 198.19.0.1 80",
    "a udp 198.18.0.1 30080",
    "b udp 198.19.0.1 80",
    "a udp 198.19.0.1 81",
    "a udp 198.19.0.2 80",
];

/// What is answered.
const KUBE_ANSWERS: &[&str] = &[
    "a udp 198.19.0.1 80: b 198.18.0.2\na udp 198.19.0.1 80: b 198.18.0.2\n",
    "a udp 198.18.0.1 30080: b 198.18.1.1\n",
    "b udp 198.19.0.1 80: b 198.18.1.1\n",
    "a udp 198.19.0.1 81: nobody\n",
    "a udp 198.19.0.2 80: nobody\n",
];

/// A listing without the times that elements have left.
fn without_times(said: &str) -> String {
    let stays = |word: &&str| !word.trim_end_matches(',').ends_with("ms") && *word != "expires";
    let line = |line: &str| line.split(' ').filter(stays).collect::<Vec<_>>().join(" ") + "\n";
    said.lines().map(line).collect()
}

#[test]
fn kube_proxys_nft_rules_reach_endpoints() {
    let Some(mut net) = network(&["nft"]) else { return };
    net.ok(&net.r, "ip route add default via 198.18.1.2");
    let said = same_on_both(&mut net, |net, exec| {
        script(net, exec, KUBE_NFT);
        let said = answers(net, KUBE_QUESTIONS);
        said + &without_times(&net.ok(&net.r, &format!("{exec} nft list ruleset")))
    });
    has_all(&said, KUBE_ANSWERS);
    has_all(&said, &["elements = { 198.18.0.2", "198.18.1.2"]);
}

/// The same services by kube-proxy's rules for iptables.
const KUBE_IPTABLES: &str = r#"
chain() { iptables-nft -w 5 -t $1 -N $2; }
for chain in KUBE-EXTERNAL-SERVICES KUBE-NODEPORTS KUBE-SERVICES KUBE-FORWARD KUBE-PROXY-FIREWALL; do
    chain filter $chain
done
for chain in KUBE-SERVICES KUBE-POSTROUTING; do chain nat $chain; done
new='-m conntrack --ctstate NEW -m comment --comment kubernetes'
for hook in INPUT FORWARD OUTPUT; do
    iptables-nft -w 5 -t filter -I $hook $new -j KUBE-SERVICES
    iptables-nft -w 5 -t filter -I $hook $new -j KUBE-PROXY-FIREWALL
done
iptables-nft -w 5 -t filter -I INPUT -m comment --comment kubernetes -j KUBE-NODEPORTS
iptables-nft -w 5 -t filter -I INPUT $new -j KUBE-EXTERNAL-SERVICES
iptables-nft -w 5 -t filter -I FORWARD $new -j KUBE-EXTERNAL-SERVICES
iptables-nft -w 5 -t filter -I FORWARD -m comment --comment kubernetes -j KUBE-FORWARD
for hook in PREROUTING OUTPUT; do iptables-nft -w 5 -t nat -I $hook -j KUBE-SERVICES; done
iptables-nft -w 5 -t nat -I POSTROUTING -j KUBE-POSTROUTING
iptables-nft-restore -w 5 --noflush --counters <<'END'
*filter
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SERVICES -m comment --comment "default/none has no endpoints" -p udp -d 198.19.0.2 --dport 80 -j REJECT
-A KUBE-SERVICES -m comment --comment "default/web: other ports" -p udp -d 198.19.0.1 -j REJECT
COMMIT
*nat
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-EXT-WEB - [0:0]
:KUBE-SEP-ONE - [0:0]
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-NODEPORTS -m comment --comment default/web -p udp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-SERVICES -m comment --comment "default/web cluster IP" -p udp -d 198.19.0.1 --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-EXT-WEB -m comment --comment "masquerade traffic for default/web external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -j KUBE-SVC-WEB
-A KUBE-SVC-WEB -m comment --comment "default/web cluster IP" -p udp -d 198.19.0.1 --dport 80 ! -s 198.18.0.0/24 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m comment --comment "default/web -> 198.18.1.2:7000" -m recent --name KUBE-SEP-ONE --rcheck --seconds 10800 --reap -j KUBE-SEP-ONE
-A KUBE-SVC-WEB -m comment --comment "default/web -> 198.18.1.2:7000" -m statistic --mode random --probability 1.0000000000 -j KUBE-SEP-ONE
-A KUBE-SEP-ONE -m comment --comment default/web -s 198.18.1.2 -j KUBE-MARK-MASQ
-A KUBE-SEP-ONE -m comment --comment default/web -m recent --name KUBE-SEP-ONE --set -p udp -j DNAT --to-destination 198.18.1.2:7000
COMMIT
END
"#;

#[test]
fn kube_proxys_iptables_rules_reach_endpoints() {
    let Some(mut net) = network(&["iptables-nft"]) else { return };
    net.ok(&net.r, "ip route add default via 198.18.1.2");
    let said = same_on_both(&mut net, |net, exec| {
        script(net, exec, KUBE_IPTABLES);
        answers(net, KUBE_QUESTIONS) + &saved(net, exec)
    });
    has_all(&said, KUBE_ANSWERS);
}
