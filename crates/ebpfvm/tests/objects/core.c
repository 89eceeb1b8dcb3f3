// SPDX-License-Identifier: Apache-2.0
/* Relocations of fields: of contexts, headers and bits, and of what is not there. */
#include "bpf.h"

struct xdp_md___mine {
	__u32 ingress_ifindex, data_end, data, no_such_field;
} RELOCATED;

struct __sk_buff___mine {
	__u32 mark;
	__u32 cb[5];
	__u32 protocol;
	__u32 len;
} RELOCATED;

struct no_such_structure {
	int of;
} RELOCATED;

struct iphdr___mine {
	__u8 ihl : 4, version : 4;
	__u8 tos;
	__be16 tot_len;
} RELOCATED;

enum { OFFSET, SIZE, EXISTS };
enum { LOCAL_ID, TARGET_ID };

#define FIELD(of, what) __builtin_preserve_field_info(of, what)
#define HAS_TYPE(of) __builtin_preserve_type_info(*(of *)0, 0)
#define SIZE_OF(of) __builtin_preserve_type_info(*(of *)0, 1)

__u32 results[16];

SEC("xdp")
int of_xdp(struct xdp_md *context)
{
	struct xdp_md___mine *xdp = (void *)context;

	results[0] = FIELD(xdp->data, EXISTS) | FIELD(xdp->no_such_field, EXISTS) << 1;
	results[1] = FIELD(xdp->data_end, SIZE);
	results[2] += xdp->data_end - xdp->data;
	results[3] = HAS_TYPE(struct no_such_structure) << 1 | HAS_TYPE(struct xdp_md);
	results[4] = xdp->ingress_ifindex;
	return FIELD(xdp->no_such_field, EXISTS) ? xdp->no_such_field : XDP_PASS;
}

SEC("tc")
int of_tc(struct __sk_buff *context)
{
	struct __sk_buff___mine *skb = (void *)context;

	results[5] += skb->len;
	skb->mark = skb->protocol + 1;
	skb->cb[2] = skb->mark;
	results[6] += skb->cb[2];
	results[7] = FIELD(skb->cb, SIZE) + FIELD(skb->mark, EXISTS);
	results[8] = SIZE_OF(struct __sk_buff___mine);
	return 0;
}
