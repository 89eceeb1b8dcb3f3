// SPDX-License-Identifier: Apache-2.0
/* A load balancer: connections to one address go to servers, each stays with its own. */
#include "bpf.h"

struct connection {
	__be32 source, target;
	__be16 source_port, target_port;
};

struct server {
	__be32 address;
	__u8 link[ETH_ALEN];
	__u16 weight;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct connection);
	__type(value, __u32);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} packets SEC(".maps");

const struct server servers[4] = {
	{ 0x010013c6, { 2, 0, 0, 0, 1, 1 }, 3 },
	{ 0x020013c6, { 2, 0, 0, 0, 1, 2 }, 1 },
	{ 0x030013c6, { 2, 0, 0, 0, 1, 3 }, 4 },
	{ 0x040013c6, { 2, 0, 0, 0, 1, 4 }, 2 },
};

static noinline __u32 choose(const struct connection *of)
{
	__u32 sum = of->source ^ of->target ^ (__u32)of->source_port << 16 ^ of->target_port;

	sum = (sum ^ sum >> 16) * 0x45d9f3b;
	sum = (sum ^ sum >> 16) % 10;
	for (__u32 i = 0; i < 4; i++) {
		if (sum < servers[i].weight)
			return i;
		sum -= servers[i].weight;
	}
	return 0;
}

static inline void fold(__u16 *check, __s64 difference)
{
	__u64 sum = (__u16)~*check + (__u32)difference;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*check = ~sum;
}

SEC("xdp")
int balance(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct connection connection;
	__u32 number, *known;
	__u64 *count, at;
	__be32 target;

	if ((void *)(udp + 1) > end || eth->h_proto != htons(ETH_P_IP) || ip->ihl != 5)
		return XDP_PASS;
	if (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	connection = (struct connection){ ip->saddr, ip->daddr, udp->source, udp->dest };
	known = map_lookup(&connections, &connection);
	if (known) {
		number = *known;
	} else {
		number = choose(&connection);
		map_update(&connections, &connection, &number, BPF_NOEXIST);
	}
	count = map_lookup(&packets, &number);
	if (count)
		++*count;
	/* The compiler knows that it is below 4, the verifier does not. */
	at = number;
	asm volatile("%0 &= 3" : "+r"(at));
	target = servers[at].address;
	fold(&ip->check, csum_diff(&ip->daddr, 4, &target, 4, 0));
	ip->daddr = target;
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, servers[at].link, ETH_ALEN);
	return XDP_TX;
}
