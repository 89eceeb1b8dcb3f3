// SPDX-License-Identifier: Apache-2.0
/*
 * Asks for routes, and whether packets fit: a frame says what is asked, and goes back with the
 * answer in it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct question {
	struct ethhdr link;
	/* 0: a route; 1: one, with a structure that is too short; 2: whether the packet fits. */
	__u16 what;
	__u32 flags;
	/* Of bpf_check_mtu(). */
	__u32 device;
	__u32 mtu;
	__s32 difference;
	__s64 answer;
	struct bpf_fib_lookup route;
} __attribute__((packed));

static __always_inline int ask(void *context, struct question *question, void *end)
{
	struct bpf_fib_lookup route;
	__u32 flags, mtu;

	if ((void *)(question + 1) > end)
		return -1;
	flags = question->flags;
	mtu = question->mtu;
	__builtin_memcpy(&route, &question->route, sizeof(route));
	switch (question->what) {
	case 0:
		question->answer = bpf_fib_lookup(context, &route, sizeof(route), flags);
		break;
	case 1:
		question->answer = bpf_fib_lookup(context, &route, sizeof(route) - 4, flags);
		break;
	default:
		question->answer =
			bpf_check_mtu(context, question->device, &mtu, question->difference, flags);
	}
	__builtin_memcpy(&question->route, &route, sizeof(route));
	question->mtu = mtu;
	return 0;
}

SEC("xdp")
int xdp_ask(struct xdp_md *xdp)
{
	if (ask(xdp, (void *)(long)xdp->data, (void *)(long)xdp->data_end))
		return XDP_DROP;
	return XDP_TX;
}

SEC("tc")
int tc_ask(struct __sk_buff *skb)
{
	if (ask(skb, (void *)(long)skb->data, (void *)(long)skb->data_end))
		return TC_ACT_SHOT;
	return bpf_redirect(skb->ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
