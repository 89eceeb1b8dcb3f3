// SPDX-License-Identifier: Apache-2.0
/* Finds headers under tags, counts by protocol and source, drops ports of a list. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} protocols SEC(".maps");

struct source {
	__u32 address;
	__u16 port;
	__u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct source);
	__type(value, __u64);
} sources SEC(".maps");

const volatile __u16 refused[4] = { 22, 53, 80, 443 };
__u64 packets;
__u64 bytes = 1000;
static __u32 last[4] = { 1, 2, 3, 4 };

struct tag {
	__be16 tci;
	__be16 protocol;
};

static noinline int is_refused(__u16 port)
{
	for (int i = 0; i < 4; i++)
		if (refused[i] == port)
			return 1;
	return 0;
}

SEC("xdp")
int parse(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data;

	packets++;
	bytes += end - data;
	if ((void *)(eth + 1) > end)
		return XDP_ABORTED;
	__be16 protocol = eth->h_proto;
	data = eth + 1;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (protocol == htons(ETH_P_8021Q) || protocol == htons(ETH_P_8021AD)) {
			struct tag *tag = data;
			if ((void *)(tag + 1) > end)
				return XDP_ABORTED;
			protocol = tag->protocol;
			data = tag + 1;
		}
	}
	__u32 number;
	struct source source = {};
	if (protocol == htons(ETH_P_IP)) {
		struct iphdr *ip = data;
		if ((void *)(ip + 1) > end)
			return XDP_ABORTED;
		if (ip->ihl < 5)
			return XDP_DROP;
		number = ip->protocol;
		source.address = ip->saddr;
		data += ip->ihl * 4;
	} else if (protocol == htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;
		if ((void *)(ip + 1) > end)
			return XDP_ABORTED;
		number = ip->nexthdr;
		source.address = ip->saddr.s6_addr32[3];
		data = ip + 1;
	} else {
		return XDP_PASS;
	}
	__u64 *count = map_lookup(&protocols, &number);
	if (count)
		__sync_fetch_and_add(count, 1);
	last[number & 3] = number;
	if (number != IPPROTO_TCP && number != IPPROTO_UDP)
		return XDP_PASS;
	struct udphdr *udp = data;
	if ((void *)(udp + 1) > end)
		return XDP_ABORTED;
	source.port = udp->source;
	__u64 one = 1, *found = map_lookup(&sources, &source);
	if (found)
		*found += end - data;
	else
		map_update(&sources, &source, &one, BPF_NOEXIST);
	return is_refused(ntohs(udp->dest)) ? XDP_DROP : XDP_PASS;
}
