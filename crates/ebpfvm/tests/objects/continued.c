// SPDX-License-Identifier: Apache-2.0
/* Programs that continue each other, from functions and with what they leave in maps. */
#include "bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} trail SEC(".maps");

int parse(struct __sk_buff *skb);
int mangle(struct __sk_buff *skb);
int finish(struct __sk_buff *skb);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__array(values, int(struct __sk_buff *));
} steps SEC(".maps") = {
	.values = { [0] = (void *)&parse, [2] = (void *)&mangle, [7] = (void *)&finish },
};

static inline void went(__u32 by)
{
	__u64 *count = map_lookup(&trail, &by);

	if (count)
		*count = *count * 3 + 1;
}

static noinline int next(struct __sk_buff *skb, __u32 step)
{
	tail_call(skb, &steps, step);
	went(4);
	return 1;
}

SEC("tc")
int parse(struct __sk_buff *skb)
{
	went(0);
	skb->cb[0] = skb->len & 7;
	tail_call(skb, &steps, 2);
	return 2;
}

SEC("tc")
int mangle(struct __sk_buff *skb)
{
	__u8 byte = skb->cb[0];

	went(2);
	skb_store_bytes(skb, 3, &byte, 1, 0);
	/* An element that there is not, one that there is, beyond the end. */
	tail_call(skb, &steps, 5);
	if (byte & 1)
		return next(skb, 7) + 3;
	if (byte & 2)
		return next(skb, 100) + 3;
	return byte;
}

SEC("tc")
int finish(struct __sk_buff *skb)
{
	went(7);
	return 16 + skb->cb[0];
}

SEC("tc")
int begin(struct __sk_buff *skb)
{
	went(1);
	return next(skb, 0);
}
