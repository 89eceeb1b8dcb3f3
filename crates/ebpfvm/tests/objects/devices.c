// SPDX-License-Identifier: Apache-2.0
/* Redirection by maps of devices that are empty: the verdict is in the flags. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} hashed SEC(".maps");

SEC("xdp")
int by_number(struct xdp_md *xdp)
{
	__u8 which = 0;

	xdp_load_bytes(xdp, 5, &which, 1);
	return redirect_map(&ports, which & 15, which >> 6);
}

SEC("xdp")
int by_hash(struct xdp_md *xdp)
{
	__u32 which = xdp->data_end - xdp->data;

	if (map_lookup(&hashed, &which))
		return XDP_TX;
	return redirect_map(&hashed, which, which & 3);
}

SEC("xdp")
int wrong_flags(struct xdp_md *xdp)
{
	return redirect(1, 4) + (redirect_map(&ports, 1, 64) << 8);
}

SEC("tc")
int wrong_flags_of_tc(struct __sk_buff *skb)
{
	return redirect(skb->ifindex, 2);
}
