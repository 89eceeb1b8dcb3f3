// SPDX-License-Identifier: Apache-2.0
/* Packets of IPv4 inside of others: on and off, in XDP. */
#include "bpf.h"

SEC("xdp")
int encapsulate(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth, *old = data;
	struct iphdr *ip = (void *)(old + 1);
	__u16 len, *words;
	__u32 sum = 0;
	__u8 tos;

	if ((void *)(ip + 1) > end || old->h_proto != htons(ETH_P_IP))
		return XDP_PASS;
	len = ntohs(ip->tot_len) + sizeof(*ip);
	tos = ip->tos;
	if (xdp_adjust_head(xdp, -(int)sizeof(*ip)))
		return XDP_ABORTED;
	data = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	eth = data;
	old = data + sizeof(*ip);
	ip = (void *)(eth + 1);
	if ((void *)(old + 1) > end || (void *)(ip + 1) > end)
		return XDP_ABORTED;
	__builtin_memmove(eth, old, sizeof(*eth));
	*ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tos = tos,
		.tot_len = htons(len),
		.ttl = 64,
		.protocol = IPPROTO_IPIP,
		.saddr = htonl(0xc6120001),
		.daddr = htonl(0xc6130001),
	};
	words = (__u16 *)ip;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~(sum + (sum >> 16));
	return XDP_TX;
}

SEC("xdp")
int decapsulate(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data, old;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 len;

	if ((void *)(ip + 1) > end || eth->h_proto != htons(ETH_P_IP) || ip->ihl < 5)
		return XDP_PASS;
	old = *eth;
	len = ip->ihl * 4;
	if (xdp_adjust_head(xdp, len))
		return XDP_DROP;
	data = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	if (data + sizeof(old) > end)
		return XDP_ABORTED;
	*(struct ethhdr *)data = old;
	return XDP_TX;
}
