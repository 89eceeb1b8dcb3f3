// SPDX-License-Identifier: Apache-2.0
/*
 * Programs at hooks: `judge` at one of netfilter drops datagrams to UDP ports of a map and counts
 * what it sees by hook; `mark` at tc gives packets a mark, and those to UDP port 9 another
 * destination address of the link.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, number) int(*name)[number]
#define __type(name, type) type *name

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *to) SEC(".ksyms");
extern void *bpf_dynptr_slice(const struct bpf_dynptr *of, __u32 at, void *buffer,
			      __u32 len) SEC(".ksyms");

/* Where a packet is: only the fields that are read, the loader finds where they are. */
struct nf_hook_state {
	__u8 hook;
} __attribute__((preserve_access_index));

struct sk_buff;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u16);
	__type(value, __u64);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("netfilter")
int judge(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	struct iphdr ip_buffer, *ip;
	struct udphdr udp_buffer, *udp;
	__u32 hook = context->state->hook;
	__u64 *count = map_lookup(&seen, &hook);
	__u16 port;

	if (count)
		__sync_fetch_and_add(count, 1);
	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 1;
	ip = bpf_dynptr_slice(&packet, 0, &ip_buffer, sizeof(ip_buffer));
	if (!ip || ip->version != 4 || ip->protocol != IPPROTO_UDP)
		return 1;
	udp = bpf_dynptr_slice(&packet, ip->ihl * 4, &udp_buffer, sizeof(udp_buffer));
	if (!udp)
		return 1;
	port = __builtin_bswap16(udp->dest);
	count = map_lookup(&ports, &port);
	if (!count)
		return 1;
	__sync_fetch_and_add(count, 1);
	return 0;
}

SEC("tc")
int mark(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *link = data;
	struct iphdr *ip = (void *)(link + 1);
	struct udphdr *udp = (void *)(ip + 1);

	skb->mark = 7;
	if ((void *)(udp + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
		return TC_ACT_OK;
	if (udp->dest == __builtin_bswap16(9))
		link->h_dest[5] ^= 0xff;
	return udp->dest == __builtin_bswap16(11) ? TC_ACT_SHOT : TC_ACT_OK;
}
