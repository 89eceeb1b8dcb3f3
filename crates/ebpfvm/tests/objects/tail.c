// SPDX-License-Identifier: Apache-2.0
/* Programs that continue each other. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

int first(struct xdp_md *xdp);
int again(struct xdp_md *xdp);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__array(values, int(struct xdp_md *));
} programs SEC(".maps") = {
	.values = { [1] = (void *)&first, [3] = (void *)&again },
};

static inline void count(__u32 at)
{
	__u64 *value = map_lookup(&counts, &at);
	if (value)
		*value += 1;
}

SEC("xdp")
int first(struct xdp_md *xdp)
{
	count(1);
	return XDP_TX;
}

/* Until the limit. */
SEC("xdp")
int again(struct xdp_md *xdp)
{
	count(3);
	tail_call(xdp, &programs, 3);
	return XDP_DROP;
}

SEC("xdp")
int start(struct xdp_md *xdp)
{
	__u8 which = 0;

	xdp_load_bytes(xdp, 0, &which, 1);
	tail_call(xdp, &programs, which & 7);
	count(0);
	return XDP_PASS;
}
