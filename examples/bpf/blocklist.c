// SPDX-License-Identifier: Apache-2.0
/*
 * An XDP program: drops IPv4 packets from networks of a list and counts them by network, sends
 * those for UDP port 7 back to where they came from, and those for UDP port 9 out of the device
 * that a map has.
 *
 *   clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu -c blocklist.c
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, number) int(*name)[number]
#define __type(name, type) type *name
#define htons(number) __builtin_bswap16(number)

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

struct network {
	__u32 bits;
	__be32 address;
};

/* Networks, and packets that came from each. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 100000);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct network);
	__type(value, __u64);
} blocklist SEC(".maps");

/* The device for port 9, at 0. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} mirror SEC(".maps");

__u64 frames;

static int send_back(struct ethhdr *eth)
{
	unsigned char mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	return XDP_TX;
}

SEC("xdp")
int block(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	frames++;
	if ((void *)(ip + 1) > end || eth->h_proto != htons(ETH_P_IP))
		return XDP_PASS;
	struct network source = { 32, ip->saddr };
	__u64 *count = bpf_map_lookup_elem(&blocklist, &source);
	if (count) {
		__sync_fetch_and_add(count, 1);
		return XDP_DROP;
	}
	if (ip->protocol != IPPROTO_UDP || ip->ihl != 5 || (void *)(udp + 1) > end)
		return XDP_PASS;
	if (udp->dest == htons(7))
		return send_back(eth);
	if (udp->dest == htons(9))
		return bpf_redirect_map(&mirror, 0, XDP_PASS);
	return XDP_PASS;
}
