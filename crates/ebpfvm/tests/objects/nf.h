/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of netfilter have in common: structures of the kernel. */
#include "bpf.h"

struct net_device {
	char name[16];
	int ifindex;
	unsigned int mtu;
	unsigned short type;
} RELOCATED;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	__u32 mark;
	__u32 priority;
	__be16 protocol;
} RELOCATED;

struct nf_hook_state {
	__u8 hook;
	__u8 pf;
	struct net_device *in, *out;
} RELOCATED;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};
