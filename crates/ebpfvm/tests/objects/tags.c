// SPDX-License-Identifier: Apache-2.0
/* Tags of VLANs in XDP: one is taken off, or put on. */
#include "bpf.h"

struct tag {
	__be16 control, type;
};

SEC("xdp")
int pop(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *eth = data, old;
	struct tag *tag = (void *)(eth + 1);

	if ((void *)(tag + 1) > end || eth->h_proto != htons(ETH_P_8021Q))
		return XDP_PASS;
	old = *eth;
	old.h_proto = tag->type;
	if (xdp_adjust_head(xdp, sizeof(*tag)))
		return XDP_ABORTED;
	data = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_ABORTED;
	*eth = old;
	return XDP_TX;
}

SEC("xdp")
int push(struct xdp_md *xdp)
{
	struct {
		struct ethhdr eth;
		struct tag tag;
	} head;

	if (xdp_load_bytes(xdp, 0, &head.eth, sizeof(head.eth)))
		return XDP_DROP;
	head.tag = (struct tag){ htons(7 | 5 << 13), head.eth.h_proto };
	head.eth.h_proto = htons(ETH_P_8021AD);
	if (xdp_adjust_head(xdp, -(int)sizeof(head.tag)))
		return XDP_ABORTED;
	return xdp_store_bytes(xdp, 0, &head, sizeof(head)) ? XDP_ABORTED : XDP_TX;
}
