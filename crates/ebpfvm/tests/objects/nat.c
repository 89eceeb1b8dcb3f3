// SPDX-License-Identifier: Apache-2.0
/* Translation of addresses and ports in tc, with the sums of both headers by helpers. */
#include "bpf.h"

struct translation {
	__be32 address;
	__be16 port;
	__u16 uses;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __be16);
	__type(value, struct translation);
} translations SEC(".maps");

#define IP_CHECK (ETH_HLEN + __builtin_offsetof(struct iphdr, check))
#define IP_SOURCE (ETH_HLEN + __builtin_offsetof(struct iphdr, saddr))
#define PSEUDO BPF_F_PSEUDO_HDR

SEC("tc")
int translate(struct __sk_buff *skb)
{
	struct translation fresh = { htonl(0xc612fe01), 0, 0 }, *known;
	__u32 port_at = ETH_HLEN + sizeof(struct iphdr), check_at;
	__u64 flags = 0;
	struct iphdr ip;
	__be16 port;

	if (skb->protocol != htons(ETH_P_IP) || skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return 0;
	if (ip.ihl != 5 || skb_load_bytes(skb, port_at, &port, sizeof(port)))
		return 0;
	if (ip.protocol == IPPROTO_TCP) {
		check_at = port_at + __builtin_offsetof(struct tcphdr, check);
	} else if (ip.protocol == IPPROTO_UDP) {
		check_at = port_at + __builtin_offsetof(struct udphdr, check);
		flags = BPF_F_MARK_MANGLED_0;
	} else {
		return 0;
	}
	known = map_lookup(&translations, &port);
	if (!known) {
		fresh.port = htons(40000 + (ntohs(port) & 1023));
		map_update(&translations, &port, &fresh, BPF_NOEXIST);
		known = map_lookup(&translations, &port);
		if (!known)
			return 2;
	}
	known->uses++;
	l4_csum_replace(skb, check_at, ip.saddr, known->address, flags | PSEUDO | 4);
	l4_csum_replace(skb, check_at, port, known->port, flags | 2);
	l3_csum_replace(skb, IP_CHECK, ip.saddr, known->address, 4);
	skb_store_bytes(skb, IP_SOURCE, &known->address, 4, BPF_F_INVALIDATE_HASH);
	/* By the value of the difference, as of longer addresses. */
	l4_csum_replace(skb, check_at, 0, csum_diff(&ip.daddr, 4, &known->address, 4, 0), PSEUDO);
	return skb_store_bytes(skb, port_at, &known->port, 2, 0) ? 2 : 0;
}
