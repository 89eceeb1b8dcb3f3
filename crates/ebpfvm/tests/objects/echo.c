// SPDX-License-Identifier: Apache-2.0
/* Answers: to pings of both families, and to all else a part of itself. */
#include "bpf.h"

#define ICMP_ECHOREPLY 0
#define ICMP_ECHO 8
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129

struct message {
	__u8 type, code;
	__u16 check;
	__u32 rest;
};

static inline void turn(struct ethhdr *eth)
{
	unsigned char other[ETH_ALEN];

	__builtin_memcpy(other, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, other, ETH_ALEN);
}

static noinline int answer4(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct message *icmp = (void *)(ip + 1);
	__be32 source;

	if ((void *)(icmp + 1) > end || ip->protocol != IPPROTO_ICMP)
		return XDP_PASS;
	turn(eth);
	source = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = source;
	icmp->type = ICMP_ECHOREPLY;
	icmp->check += htons(ICMP_ECHO << 8);
	return XDP_TX;
}

static noinline int answer6(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data;
	struct ipv6hdr *ip = (void *)(eth + 1);
	struct message *icmp = (void *)(ip + 1);
	struct in6_addr source;

	if ((void *)(icmp + 1) > end)
		return XDP_PASS;
	turn(eth);
	source = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = source;
	icmp->type = ICMPV6_ECHO_REPLY;
	icmp->check -= htons((ICMPV6_ECHO_REPLY - ICMPV6_ECHO_REQUEST) << 8);
	return XDP_TX;
}

SEC("xdp")
int echo(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return XDP_ABORTED;
	switch (eth->h_proto) {
	case htons(ETH_P_IP):
		return answer4(xdp);
	case htons(ETH_P_IPV6):
		return answer6(xdp);
	default:
		return xdp_adjust_tail(xdp, -(int)(xdp_buff_len(xdp) & 15)) ? XDP_DROP : XDP_TX;
	}
}
