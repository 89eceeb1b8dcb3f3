// SPDX-License-Identifier: Apache-2.0
/* Programs as they are often written for XDP and tc: what bench `engines` runs. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, number) int(*name)[number]
#define __type(name, type) type *name
#define htons(number) __builtin_bswap16(number)
#define inline inline __attribute__((always_inline))

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*l3_csum_replace)(void *skb, __u32 at, __u64 from, __u64 to, __u64 size) = (void *)10;
static long (*skb_load_bytes)(void *skb, __u32 at, void *to, __u32 len) = (void *)26;

struct flow {
	__be32 source, target;
	__be16 source_port, target_port;
	__u32 protocol;
};

struct counter {
	__u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct counter);
} protocols SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow);
	__type(value, struct counter);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} addresses SEC(".maps");

static inline struct iphdr *header(void *data, void *end, struct flow *flow)
{
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp;

	if ((void *)(ip + 1) > end || eth->h_proto != htons(ETH_P_IP))
		return 0;
	udp = (void *)ip + ip->ihl * 4;
	if ((void *)(udp + 1) > end)
		return 0;
	flow->source = ip->saddr;
	flow->target = ip->daddr;
	flow->protocol = ip->protocol;
	flow->source_port = udp->source;
	flow->target_port = udp->dest;
	return ip;
}

/* Nothing: what it costs to run a program at all. */
SEC("xdp")
int pass(struct xdp_md *context)
{
	return XDP_PASS;
}

/* Counts packets and bytes by protocol, after up to two tags, of both families. */
SEC("xdp")
int counters(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *eth = data;
	void *next = eth + 1;
	struct counter *counter;
	__u32 protocol = 255;
	__be16 type;

	if (next > end)
		return XDP_DROP;
	type = eth->h_proto;
#pragma unroll
	for (int tag = 0; tag < 2; tag++) {
		if (type != htons(ETH_P_8021Q) && type != htons(ETH_P_8021AD))
			break;
		if (next + 4 > end)
			return XDP_DROP;
		type = *(__be16 *)(next + 2);
		next += 4;
	}
	if (type == htons(ETH_P_IP)) {
		struct iphdr *ip = next;

		if ((void *)(ip + 1) > end || ip->ihl < 5)
			return XDP_DROP;
		protocol = ip->protocol;
	} else if (type == htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = next;

		if ((void *)(ip + 1) > end)
			return XDP_DROP;
		protocol = ip->nexthdr;
	}
	counter = map_lookup(&protocols, &protocol);
	if (counter) {
		counter->packets++;
		counter->bytes += end - data;
	}
	return XDP_PASS;
}

/* Finds the flow of a packet in a hash and counts there. */
SEC("xdp")
int flow(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct flow flow = {};
	struct counter *counter;

	if (!header(data, end, &flow))
		return XDP_PASS;
	counter = map_lookup(&flows, &flow);
	if (!counter)
		return XDP_DROP;
	counter->packets++;
	counter->bytes += end - data;
	return XDP_TX;
}

/* Forwards: link addresses, time to live, and the checksum of the header anew. */
SEC("xdp")
int forward(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	__u16 *words = (void *)ip;
	unsigned char mac[ETH_ALEN];
	__u32 sum = 0;

	if ((void *)(ip + 1) > end || eth->h_proto != htons(ETH_P_IP) || ip->ihl != 5)
		return XDP_PASS;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	ip->ttl--;
	ip->check = 0;
#pragma unroll
	for (int word = 0; word < 10; word++)
		sum += words[word];
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~((sum & 0xffff) + (sum >> 16));
	return XDP_TX;
}

/* A filter of tc: the mark of an address, by helpers and by direct access. */
SEC("tc")
int mark(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct flow flow = {};
	__u64 *mark;

	if (skb->protocol != htons(ETH_P_IP) || !header(data, end, &flow))
		return TC_ACT_OK;
	mark = map_lookup(&addresses, &flow.source);
	if (!mark)
		return TC_ACT_SHOT;
	skb->mark = *mark;
	return TC_ACT_OK;
}

/* A filter of tc: reads a header by a helper, changes it, and its checksum by a helper. */
SEC("tc")
int dscp(struct __sk_buff *skb)
{
	void *data, *end;
	struct iphdr ip;
	__u8 *field;

	if (skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4)
		return TC_ACT_OK;
	l3_csum_replace(skb, ETH_HLEN + 10, htons(ip.tos), htons(ip.tos ^ 0x20), 2);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + ETH_HLEN + sizeof(ip) > end)
		return TC_ACT_OK;
	field = data + ETH_HLEN + 1;
	*field = ip.tos ^ 0x20;
	return TC_ACT_OK;
}
