// SPDX-License-Identifier: Apache-2.0
/* At a hook of netfilter: fields of the kernel's structures, and the packet by a dynptr. */
#include "bpf.h"

#define RELOCATED __attribute__((preserve_access_index))

struct net_device {
	char name[16];
	long padding[7];
	int ifindex;
} RELOCATED;

struct sk_buff___mine {
	long before;
	struct {
		unsigned int len;
		__u64 mark;
	};
	__be16 protocol;
	int no_such_field;
} RELOCATED;

struct nf_hook_state {
	__u8 hook;
	__u8 pf;
	struct net_device *in, *out;
} RELOCATED;

struct no_such_structure {
	int field;
} RELOCATED;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff___mine *skb;
};

struct note {
	__u32 hook, family, in, out, len, mark, protocol, source, exists;
	char name[16];
};

struct note note;

SEC("netfilter")
int judge(struct bpf_nf_ctx *context)
{
	const struct nf_hook_state *state = context->state;
	struct sk_buff___mine *skb = context->skb;
	struct bpf_dynptr packet;
	struct iphdr buffer, *ip;

	note.hook = state->hook;
	note.family = state->pf;
	note.in = state->in ? state->in->ifindex : 0;
	note.out = state->out ? state->out->ifindex : 0;
	note.len = skb->len;
	note.mark = skb->mark;
	note.protocol = ntohs(skb->protocol);
	if (state->in)
		for (int i = 0; i < 16; i++)
			note.name[i] = state->in->name[i];
	note.exists = __builtin_preserve_field_info(skb->mark, 2) |
		      __builtin_preserve_field_info(skb->no_such_field, 2) << 1;
	if (__builtin_preserve_field_info(skb->no_such_field, 2))
		note.mark = skb->no_such_field;
	if (bpf_dynptr_from_skb((void *)skb, 0, &packet))
		return 0;
	ip = bpf_dynptr_slice(&packet, 0, &buffer, sizeof(buffer));
	if (!ip)
		return 0;
	note.source = ntohl(ip->saddr);
	return ip->protocol != IPPROTO_UDP;
}
