// SPDX-License-Identifier: Apache-2.0
/* Functions of functions, global ones, with pointers to packets, variables and stacks. */
#include "bpf.h"

struct cursor {
	void *at, *end;
	__u32 depth;
};

__u64 visited[4];

static noinline int take(struct cursor *cursor, __u32 len)
{
	if (cursor->at + len > cursor->end)
		return -1;
	cursor->at += len;
	return cursor->depth++;
}

static noinline int upper(struct cursor *cursor, __u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		visited[2]++;
		return take(cursor, sizeof(struct tcphdr));
	case IPPROTO_UDP:
		visited[3]++;
		return take(cursor, sizeof(struct udphdr));
	default:
		return -2;
	}
}

static noinline int network(struct cursor *cursor, __be16 type)
{
	if (type == htons(ETH_P_IP)) {
		struct iphdr *ip = cursor->at;

		visited[0]++;
		if ((void *)(ip + 1) > cursor->end || take(cursor, sizeof(*ip)) < 0)
			return -3;
		return upper(cursor, ip->protocol);
	}
	if (type == htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = cursor->at;

		visited[1]++;
		if ((void *)(ip + 1) > cursor->end || take(cursor, sizeof(*ip)) < 0)
			return -4;
		return upper(cursor, ip->nexthdr);
	}
	return -5;
}

/* Global: the verifier looks at them for any arguments. */
noinline __u64 mixed(__u64 a, __u64 b, __u64 c, __u64 d, __u64 e)
{
	return (a ^ b << 3) + (c ^ d << 5) * e;
}

noinline int length(struct xdp_md *xdp)
{
	return xdp ? xdp->data_end - xdp->data : 0;
}

SEC("xdp")
int nested(struct xdp_md *xdp)
{
	struct ethhdr *eth = (void *)(long)xdp->data;
	struct cursor cursor = { eth + 1, (void *)(long)xdp->data_end, 0 };
	int result;

	if (cursor.at > cursor.end)
		return -6;
	result = network(&cursor, eth->h_proto);
	return mixed(result, cursor.depth, length(xdp), visited[2], 7);
}
