# SPDX-License-Identifier: Apache-2.0
# Rules of iptables-nft and its kin, with the extensions that rulesets use.
iptables-nft-restore <<'R'
*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:mine - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW,ESTABLISHED -m comment --comment "ssh here" -j ACCEPT
-A INPUT -p udp -m multiport --dports 53,67:68 -m limit --limit 5/min --limit-burst 7 -j LOG --log-prefix "x: "
-A INPUT -m addrtype --dst-type LOCAL -j mine
-A INPUT -m mac --mac-source 02:00:00:00:00:01 -m state --state NEW -j mine
-A INPUT -m iprange --src-range 198.18.0.1-198.18.0.9 -j REJECT --reject-with icmp-host-prohibited
-A INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A INPUT -m recent --set --name a --rsource -j DROP
-A INPUT -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name h -j DROP
-A OUTPUT -m mark --mark 0x1/0xff -m connmark --mark 0x2 -m owner --uid-owner 0 -j RETURN
-A INPUT -m u32 --u32 "0>>22=1" -m length --length 40:60 -j NFLOG --nflog-group 3
-A INPUT -m statistic --mode nth --every 3 --packet 0 -m ttl --ttl-lt 5 -m dscp --dscp 0x0a -j NFQUEUE --queue-num 2 --queue-bypass
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:PREROUTING ACCEPT [0:0]
-A POSTROUTING -s 198.18.0.0/24 -o wan -j MASQUERADE --random
-A POSTROUTING -o wan2 -j SNAT --to-source 198.19.0.1-198.19.0.5
-A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 198.18.0.9:8080
-A PREROUTING -p tcp --dport 81 -j REDIRECT --to-ports 8081
COMMIT
*mangle
-A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
-A PREROUTING -j MARK --set-xmark 0x7/0xff
-A PREROUTING -j CONNMARK --restore-mark
-A PREROUTING -p tcp -m socket --transparent -j TTL --ttl-set 64
COMMIT
*raw
-A PREROUTING -p udp -j CT --notrack
-A PREROUTING -p tcp -j TRACE
COMMIT
R
echo rc $?
iptables-nft-save | grep -v '^#'
iptables-nft -L -v -n
iptables-nft -C INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT; echo rc $?
iptables-nft -D INPUT 4; iptables-nft -I INPUT 2 -p tcp -m tcp --sport 5 -j DROP
iptables-nft -R INPUT 1 -p tcp -m tcp --sport 6 -j DROP
iptables-nft -Z; iptables-nft -F mine; iptables-nft -X mine; iptables-nft -E mine yours
iptables-nft -A INPUT -j nowhere; echo rc $?
iptables-nft -t nosuch -L; echo rc $?
ip6tables-nft -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 135 -m hl --hl-eq 255 -j ACCEPT
ip6tables-nft -A INPUT -m rt --rt-type 0 -j DROP
ip6tables-nft -A FORWARD -s 2001:db8::/32 -j REJECT --reject-with icmp6-adm-prohibited
ip6tables-nft-save | grep -v '^#'
ebtables-nft -A FORWARD -p IPv4 --ip-src 198.18.0.1 -j DROP
ebtables-nft -A INPUT -i lan --limit 3/s -j mark --mark-set 5 --mark-target ACCEPT
ebtables-nft -t nat -A PREROUTING -p ARP --arp-opcode Request -j arpreply --arpreply-mac 02:00:00:00:00:02
ebtables-nft -L; ebtables-nft-save | grep -v '^#'
arptables-nft -A INPUT -s 198.18.0.1 --opcode 1 -j DROP
arptables-nft -L -n
iptables-nft-save -t filter -c | grep -v '^#'
nft list ruleset
iptables-nft -F; iptables-nft -X; iptables-nft-save | grep -v '^#'
