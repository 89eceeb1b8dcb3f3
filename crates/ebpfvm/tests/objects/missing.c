// SPDX-License-Identifier: Apache-2.0
/* A field that the kernel's structure does not have, and that the program reads nevertheless. */
#include "bpf.h"

struct sk_buff___mine {
	int no_such_field;
} RELOCATED;

struct bpf_nf_ctx {
	const void *state;
	struct sk_buff___mine *skb;
};

SEC("netfilter")
int wrong(struct bpf_nf_ctx *context)
{
	return context->skb->no_such_field;
}
