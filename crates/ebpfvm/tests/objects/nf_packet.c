// SPDX-License-Identifier: Apache-2.0
/* Programs of netfilter that read the packet and where it is. */
#include "nf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} notes SEC(".maps");

static inline void note(__u32 at, __u64 value)
{
	__u64 *place = map_lookup(&notes, &at);

	if (place)
		*place = value;
}

static inline void count(__u32 at, __u64 by)
{
	__u64 *place = map_lookup(&notes, &at);

	if (place)
		__sync_fetch_and_add(place, by);
}

/* The kernel leaves the upper bits of a truth value as they were. */
static inline __u64 truth(_Bool value)
{
	__u64 word = value;

	asm volatile("%0 &= 1" : "+r"(word));
	return word;
}

/* Fields of the hook, the packet and its devices. */
SEC("netfilter")
int fields(struct bpf_nf_ctx *context)
{
	const struct nf_hook_state *state = context->state;
	struct sk_buff *skb = context->skb;
	struct net_device *in = state->in, *out = state->out;

	note(0, state->hook);
	note(1, state->pf);
	note(2, in ? in->ifindex : 0);
	note(3, out ? out->ifindex : 0);
	note(4, skb->len);
	note(5, skb->data_len);
	note(6, skb->mark);
	note(7, skb->priority);
	note(8, skb->protocol);
	note(9, in ? in->mtu : 0);
	note(10, out ? out->type : 0);
	return 1;
}

/* The name of a device decides. */
SEC("netfilter")
int by_name(struct bpf_nf_ctx *context)
{
	struct net_device *out = context->state->out;

	if (!out)
		return 1;
	return !(out->name[0] == 'l' && out->name[1] == 'o' && !out->name[2]);
}

/* IPv4: the header, its options, ports behind them. */
SEC("netfilter")
int ports4(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	struct iphdr ip_buffer, *ip;
	struct udphdr buffer, *udp;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	ip = bpf_dynptr_slice(&packet, 0, &ip_buffer, sizeof(ip_buffer));
	if (!ip) {
		count(0, 1);
		return 1;
	}
	if (ip->version != 4 || ip->ihl < 5) {
		count(1, 1);
		return 0;
	}
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP) {
		count(2, ip->protocol);
		return 1;
	}
	udp = bpf_dynptr_slice(&packet, ip->ihl * 4, &buffer, sizeof(buffer));
	if (!udp) {
		count(3, 1);
		return 0;
	}
	count(4, ntohs(udp->source));
	return udp->dest != htons(53);
}

/* IPv6: the protocol, and bytes of the addresses. */
SEC("netfilter")
int header6(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	struct ipv6hdr buffer, *ip;

	if (context->state->pf != 10)
		return 1;
	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	ip = bpf_dynptr_slice(&packet, 0, &buffer, sizeof(buffer));
	if (!ip)
		return 0;
	count(5, ip->saddr.s6_addr[15]);
	count(6, ip->nexthdr);
	return ip->hop_limit > 1 && ip->nexthdr != IPPROTO_ICMP;
}

/* The sum of a header of IPv4, word by word. */
SEC("netfilter")
int sum(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	__u16 words[10] = {};
	__u32 total = 0;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	if (dynptr_read(words, sizeof(words), &packet, 0, 0))
		return 1;
	for (int i = 0; i < 10; i++)
		total += words[i];
	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	note(12, total);
	return total & 1;
}

/* Bytes at a place that the packet itself says. */
SEC("netfilter")
int wandering(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	__u32 at = 0;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	for (int i = 0; i < 20; i++) {
		__u8 byte = 0;
		long failed = dynptr_read(&byte, 1, &packet, at, 0);

		if (failed) {
			note(13, (__u64)failed);
			note(14, at);
			return 0;
		}
		at += byte + 1;
	}
	note(15, at);
	return 1;
}

/* The end of the packet, by its size. */
SEC("netfilter")
int last(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	__u8 byte = 0, *none;
	__u32 size;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	size = bpf_dynptr_size(&packet);
	note(16, size);
	if (size == 0 || size != context->skb->len)
		return 0;
	if (dynptr_read(&byte, 1, &packet, size - 1, 0))
		return 0;
	note(17, byte);
	note(18, (__u64)dynptr_read(&byte, 1, &packet, size, 0));
	none = bpf_dynptr_slice(&packet, size, &byte, 1);
	note(19, none ? 1 : 0);
	return byte & 1;
}

/* A part of a part, copies, and what may not be written. */
SEC("netfilter")
int parts(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet, copy;
	__u32 word = 0;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	note(20, truth(bpf_dynptr_is_null(&packet)));
	note(21, truth(bpf_dynptr_is_rdonly(&packet)));
	note(22, (__u64)(long)bpf_dynptr_clone(&packet, &copy));
	note(23, (__u64)(long)bpf_dynptr_adjust(&packet, 12, 20));
	note(24, bpf_dynptr_size(&packet));
	note(25, bpf_dynptr_size(&copy));
	note(26, (__u64)dynptr_read(&word, 4, &packet, 4, 0));
	note(27, word);
	note(28, (__u64)dynptr_read(&word, 4, &packet, 5, 0));
	note(29, (__u64)(long)bpf_dynptr_adjust(&packet, 3, 2));
	note(30, (__u64)(long)bpf_dynptr_adjust(&packet, 0, 9));
	note(31, (__u64)dynptr_write(&copy, 0, &word, 4, 0));
	note(32, dynptr_data(&copy, 0, 4) ? 1 : 0);
	return 1;
}

/* Flags that there are not. */
SEC("netfilter")
int flags(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	__u8 byte = 1;

	note(33, (__u64)(long)bpf_dynptr_from_skb((void *)context->skb, 1, &packet));
	note(34, truth(bpf_dynptr_is_null(&packet)));
	note(35, bpf_dynptr_size(&packet));
	note(36, (__u64)dynptr_read(&byte, 1, &packet, 0, 0));
	note(37, byte);
	return 1;
}

/* The payload of TCP, behind both variable headers. */
SEC("netfilter")
int payload(struct bpf_nf_ctx *context)
{
	struct bpf_dynptr packet;
	struct iphdr ip_buffer, *ip;
	struct tcphdr buffer, *tcp;
	__u8 word[4] = {};
	__u32 at;

	if (bpf_dynptr_from_skb((void *)context->skb, 0, &packet))
		return 0;
	ip = bpf_dynptr_slice(&packet, 0, &ip_buffer, sizeof(ip_buffer));
	if (!ip || ip->version != 4 || ip->protocol != IPPROTO_TCP)
		return 1;
	at = ip->ihl * 4;
	tcp = bpf_dynptr_slice(&packet, at, &buffer, sizeof(buffer));
	if (!tcp)
		return 1;
	at += tcp->doff * 4;
	if (dynptr_read(word, sizeof(word), &packet, at, 0))
		return 1;
	note(38, word[0] << 8 | word[3]);
	return word[1] < 128;
}
